/* Segment: a guarded program, how it runs, and how its results reach the frame. */
#include "segment.h"

#include <structmember.h>

/* ---- leaving */

/* Values for cell slots must be cells: the code reads through them without a check. */
static int
check_stores(const Segment *segment, const Run *run)
{
    State *state = activation_caller(run->site->act, segment->level)->state;
    for (Py_ssize_t i = 0; i < segment->n_stores; i++) {
        Store store = segment->stores[i];
        const char *wrong = NULL;
        if (store.slot >= state->n_localsplus) {
            wrong = "there is no such slot";
        }
        else if (code_slot_is_cell(state->code, store.slot) &&
                 (store.reg < 0 || !PyCell_Check(run->registers[store.reg]))) {
            wrong = "the slot holds a cell and can be given nothing else";
        }
        if (wrong != NULL) {
            PyErr_Format(PyExc_RuntimeError, "cannot write slot %d of %S: %s", store.slot,
                         state->code->co_qualname, wrong);
            return -1;
        }
    }
    return 0;
}

/* The slots that the exit writes: the live frame's, or those of the frame that is to come. */
static PyObject **
slots_to_write(const Segment *segment, const Site *site)
{
    if (segment->level > 0) {
        return frame_locals(activation_caller(site->act, segment->level)->frame);
    }
    if (site->frame != NULL) {
        return frame_locals(site->frame);
    }
    activation_adopt(site->act);
    return activation_make_cells(site->act) < 0 ? NULL : site->act->localsplus;
}

static PyObject *
result_stack(const Segment *segment, const Run *run)
{
    PyObject *stack = PyTuple_New(segment->n_results);
    for (Py_ssize_t i = 0; stack != NULL && i < segment->n_results; i++) {
        int reg = segment->results[segment->n_results - 1 - i];
        PyTuple_SET_ITEM(stack, i, Py_NewRef(reg < 0 ? Py_None : run->registers[reg]));
    }
    return stack;
}

static int
leave(const Segment *segment, const Run *run, Result *result)
{
    result->exit = segment->exit;
    result->level = segment->level;
    if (segment->exit == SEGMENT_RETURN) {
        result->value = Py_NewRef(run->registers[segment->results[0]]);
        return 0;
    }
    if (segment->exit == SEGMENT_STAY) {
        return 0;
    }
    if (check_stores(segment, run) < 0) {
        return -1;
    }
    PyObject **slots = slots_to_write(segment, run->site);
    PyObject *stack = slots == NULL ? NULL : result_stack(segment, run);
    if (stack == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < segment->n_stores; i++) {
        Store store = segment->stores[i];
        PyObject *value = store.reg < 0 ? NULL : Py_NewRef(run->registers[store.reg]);
        Py_XSETREF(slots[store.slot], value);
    }
    result->value = stack;
    return 0;
}

/* ---- failing */

/* The graph raised. The owner may prefer that the interpreter raises at the user's line instead. */
static RunOutcome
ask_about_failure(Segment *segment)
{
    PyObject *type, *exception, *traceback;
    PyErr_Fetch(&type, &exception, &traceback);
    PyErr_NormalizeException(&type, &exception, &traceback);
    if (traceback != NULL) {
        PyException_SetTraceback(exception, traceback);
    }
    PyObject *reply =
        PyObject_CallFunctionObjArgs(segment->failed, (PyObject *)segment, exception, NULL);
    bool is_settled = reply == NULL || reply == Py_True;
    Py_XDECREF(reply);
    if (!is_settled) {
        PyErr_Restore(type, exception, traceback);
        return RUN_ERROR;
    }
    Py_XDECREF(type);
    Py_XDECREF(exception);
    Py_XDECREF(traceback);
    return reply == NULL ? RUN_ERROR : RUN_ABANDONED;
}

/* A step did not succeed: what that means depends on whether anything can have been seen yet. */
static RunOutcome
give_up(Segment *segment, const Step *step, StepOutcome outcome)
{
    segment->failed_step = step->index;
    if (step->committed) {
        if (outcome == STEP_MISMATCH) {
            PyErr_Format(PyExc_RuntimeError, "step %d of a segment failed after its commit",
                         step->index);
        }
        return RUN_ERROR;
    }
    if (outcome == STEP_MISMATCH) {
        return RUN_MISMATCH;
    }
    if (outcome == STEP_INTERRUPTED || !PyErr_ExceptionMatches(PyExc_Exception)) {
        return RUN_ERROR;
    }
    if (step->run != step_graph) {
        PyErr_Clear();
        return RUN_MISMATCH;
    }
    return segment->failed == NULL ? RUN_ERROR : ask_about_failure(segment);
}

/* ---- running */

static RunOutcome
run_steps(Segment *segment, Run *run, Result *result)
{
    Step *end = segment->steps + segment->n_steps;
    for (Step *step = segment->steps; step < end; step++) {
        StepOutcome outcome = step->run(run, step);
        if (outcome != STEP_OK) {
            return give_up(segment, step, outcome);
        }
    }
    segment->failed_step = -1;
    return leave(segment, run, result) < 0 ? RUN_ERROR : RUN_MATCHED;
}

static void
release_registers(const Segment *segment, PyObject **registers)
{
    for (int i = 0; i < segment->n_registers; i++) {
        if (segment->constants[i] == NULL) {
            Py_XDECREF(registers[i]);
        }
    }
}

/* Whether the frame has as many callers that wait for it as the segment leaves frames. */
static bool
has_callers(const Site *site, int level)
{
    Activation *caller = activation_caller(site->act, level);
    return level == 0 || (site->frame != NULL && caller != NULL && caller->frame != NULL);
}

RunOutcome
segment_run(PyObject *op, Site *site, Result *result)
{
    if (!Py_IS_TYPE(op, &Segment_Type)) {
        PyErr_Format(PyExc_TypeError, "a gate's segments must be Segment objects, not %.100s",
                     Py_TYPE(op)->tp_name);
        return RUN_ERROR;
    }
    Segment *segment = (Segment *)op;
    if (!has_callers(site, segment->level)) {
        segment->failed_step = 0;
        return RUN_MISMATCH;
    }
    PyObject *small[SMALL];
    Run run = {.registers = small, .site = site};
    if (segment->n_registers > SMALL) {
        run.registers = PyMem_New(PyObject *, segment->n_registers);
        if (run.registers == NULL) {
            PyErr_NoMemory();
            return RUN_ERROR;
        }
    }
    memcpy(run.registers, segment->constants, segment->n_registers * sizeof(PyObject *));
    RunOutcome outcome = run_steps(segment, &run, result);
    release_registers(segment, run.registers);
    if (run.registers != small) {
        PyMem_Free(run.registers);
    }
    return outcome;
}

int
segment_failed_step(PyObject *segment)
{
    return ((Segment *)segment)->failed_step;
}

/* ---- the type */

static PyObject *
segment_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"steps", "exit", "n_registers", "failed", "level", NULL};
    PyObject *steps, *failed = Py_None;
    long exit;
    int n_registers, level = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oli|Oi", names, &steps, &exit, &n_registers,
                                     &failed, &level)) {
        return NULL;
    }
    if (n_registers < 0 || n_registers > 1000000 || level < 0) {
        PyErr_SetString(PyExc_ValueError, "n_registers or level is out of range");
        return NULL;
    }
    Segment *self = (Segment *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->failed = failed == Py_None ? NULL : Py_NewRef(failed);
    self->exit = exit;
    self->level = level;
    self->n_registers = n_registers;
    self->failed_step = -1;
    self->source = PySequence_Tuple(steps);
    if (self->source == NULL || segment_build(self) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
segment_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(((Segment *)op)->source);
    Py_VISIT(((Segment *)op)->failed);
    return 0;
}

static int
segment_clear(PyObject *op)
{
    Py_CLEAR(((Segment *)op)->failed);
    return 0;
}

static void
segment_dealloc(PyObject *op)
{
    Segment *self = (Segment *)op;
    PyObject_GC_UnTrack(op);
    for (Py_ssize_t i = 0; i < self->n_steps; i++) {
        PyMem_Free(self->steps[i].args);
        PyMem_Free(self->steps[i].dsts);
        PyMem_Free(self->steps[i].data);
    }
    PyMem_Free(self->steps);
    PyMem_Free(self->stores);
    PyMem_Free(self->results);
    PyMem_Free(self->constants);
    Py_CLEAR(self->source);
    Py_CLEAR(self->failed);
    Py_TYPE(op)->tp_free(op);
}

static PyMemberDef segment_members[] = {
    {"steps", T_OBJECT, offsetof(Segment, source), READONLY, "The steps, as they were given."},
    {"exit", T_LONG, offsetof(Segment, exit), READONLY, NULL},
    {"level", T_INT, offsetof(Segment, level), READONLY,
     "How many frames it runs to their end: the exit is that of this caller."},
    {"n_registers", T_INT, offsetof(Segment, n_registers), READONLY, NULL},
    {"failed_step", T_INT, offsetof(Segment, failed_step), READONLY,
     "Index of the step at which the last run ended without a match, -1 if it matched."},
    {NULL},
};

PyTypeObject Segment_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.Segment",
    .tp_doc = PyDoc_STR("Segment(steps, exit, n_registers, failed=None, level=0)\n--\n\nA guarded program "
                        "that runs from a gate to an exit."),
    .tp_basicsize = sizeof(Segment),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = segment_new,
    .tp_traverse = segment_traverse,
    .tp_clear = segment_clear,
    .tp_dealloc = segment_dealloc,
    .tp_members = segment_members,
};

int
segment_setup(void)
{
    if (PyType_Ready(&Segment_Type) < 0) {
        return -1;
    }
    const struct {
        const char *name;
        long value;
    } exits[] = {{"RETURN", SEGMENT_RETURN}, {"STAY", SEGMENT_STAY}};
    for (int i = 0; i < 2; i++) {
        PyObject *value = PyLong_FromLong(exits[i].value);
        if (value == NULL || PyDict_SetItemString(Segment_Type.tp_dict, exits[i].name, value) < 0) {
            Py_XDECREF(value);
            return -1;
        }
        Py_DECREF(value);
    }
    return 0;
}
