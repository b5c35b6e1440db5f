/* The steps that fetch values, build new ones, run the graph and write. */
#include "segment.h"

#include <structmember.h>

/* ---- fetching */

static StepOutcome
set_or_mismatch(Run *run, const Step *step, PyObject *borrowed)
{
    if (borrowed == NULL) {
        return PyErr_Occurred() ? STEP_RAISED : STEP_MISMATCH;
    }
    run->registers[step->dst] = Py_NewRef(borrowed);
    return STEP_OK;
}

static StepOutcome
step_weak(Run *run, Step *step)
{
    PyObject *target = PyWeakref_GET_OBJECT(step->x);
    return set_or_mismatch(run, step, target == Py_None ? NULL : target);
}

static int
prepare_weak(Step *step, PyObject *tuple)
{
    return PyWeakref_CheckRef(step->x) ? 0 : -1;
}

static PyObject *
local_slot(const Site *site, int slot)
{
    return slot < site->n_locals ? site->locals[slot] : NULL;
}

static StepOutcome
step_local(Run *run, Step *step)
{
    return set_or_mismatch(run, step, local_slot(run->site, step->a));
}

static StepOutcome
step_unbound(Run *run, Step *step)
{
    return local_slot(run->site, step->a) == NULL ? STEP_OK : STEP_MISMATCH;
}

static StepOutcome
step_stack(Run *run, Step *step)
{
    const Site *site = run->site;
    return set_or_mismatch(run, step, step->a < site->depth ? site->stack[step->a] : NULL);
}

static StepOutcome
step_function(Run *run, Step *step)
{
    return set_or_mismatch(run, step, run->site->act->function);
}

static StepOutcome
step_globals(Run *run, Step *step)
{
    return set_or_mismatch(run, step, PyFunction_GET_GLOBALS(run->site->act->function));
}

static StepOutcome
step_closure(Run *run, Step *step)
{
    PyObject *closure = PyFunction_GET_CLOSURE(run->site->act->function);
    bool exists = closure != NULL && step->a < PyTuple_GET_SIZE(closure);
    return set_or_mismatch(run, step, exists ? PyTuple_GET_ITEM(closure, step->a) : NULL);
}

/* What a caller that waits for a continuation has; the first number is its level, from 1 on. */
static Activation *
caller_of(const Run *run, const Step *step)
{
    Activation *caller = activation_caller(run->site->act, step->a);
    return run->site->frame == NULL || caller == NULL || caller->frame == NULL ? NULL : caller;
}

static PyObject *
caller_slot(const Run *run, const Step *step)
{
    Activation *caller = caller_of(run, step);
    bool exists = caller != NULL && step->b < caller->state->n_localsplus;
    return exists ? frame_locals(caller->frame)[step->b] : NULL;
}

static StepOutcome
step_caller_local(Run *run, Step *step)
{
    return set_or_mismatch(run, step, caller_slot(run, step));
}

static StepOutcome
step_caller_unbound(Run *run, Step *step)
{
    return caller_slot(run, step) == NULL ? STEP_OK : STEP_MISMATCH;
}

static StepOutcome
step_caller_stack(Run *run, Step *step)
{
    Activation *callee = activation_caller(run->site->act, step->a - 1);
    bool exists = caller_of(run, step) != NULL && step->b < callee->below;
    return set_or_mismatch(run, step, exists ? frame_stack(callee->outer->frame)[step->b] : NULL);
}

static StepOutcome
step_caller_function(Run *run, Step *step)
{
    Activation *caller = caller_of(run, step);
    return set_or_mismatch(run, step, caller == NULL ? NULL : caller->function);
}

static int
prepare_caller(Step *step, PyObject *tuple)
{
    return step->a > 0 ? 0 : -1;
}

static StepOutcome
step_cell(Run *run, Step *step)
{
    PyObject *cell = run->registers[step->a];
    return set_or_mismatch(run, step, PyCell_Check(cell) ? PyCell_GET(cell) : NULL);
}

static StepOutcome
step_attr(Run *run, Step *step)
{
    return step_set(run, step->dst, PyObject_GetAttr(run->registers[step->a], step->x));
}

static int
prepare_attr(Step *step, PyObject *tuple)
{
    return PyUnicode_CheckExact(step->x) ? 0 : -1;
}

static StepOutcome
step_instance_dict(Run *run, Step *step)
{
    return step_set(run, step->dst, PyObject_GenericGetDict(run->registers[step->a], NULL));
}

static StepOutcome
step_dict_get(Run *run, Step *step)
{
    PyObject *dict = run->registers[step->a];
    bool is_dict = PyDict_Check(dict);
    return set_or_mismatch(run, step, is_dict ? PyDict_GetItemWithError(dict, step->x) : NULL);
}

static StepOutcome
step_item(Run *run, Step *step)
{
    PyObject *sequence = run->registers[step->a];
    PyObject *item = NULL;
    if (PyTuple_Check(sequence) && step->b < PyTuple_GET_SIZE(sequence)) {
        item = PyTuple_GET_ITEM(sequence, step->b);
    }
    else if (PyList_Check(sequence) && step->b < PyList_GET_SIZE(sequence)) {
        item = PyList_GET_ITEM(sequence, step->b);
    }
    return set_or_mismatch(run, step, item);
}

static StepOutcome
step_type_of(Run *run, Step *step)
{
    return set_or_mismatch(run, step, (PyObject *)Py_TYPE(run->registers[step->a]));
}

/* A member of `__slots__` is read at its offset; `prepare` has made sure that it is one. */
static StepOutcome
step_slot(Run *run, Step *step)
{
    PyObject *object = run->registers[step->a];
    if (!PyObject_TypeCheck(object, (PyTypeObject *)step->y)) {
        return STEP_MISMATCH;
    }
    Py_ssize_t offset = ((PyMemberDescrObject *)step->x)->d_member->offset;
    return set_or_mismatch(run, step, *(PyObject **)((char *)object + offset));
}

static int
prepare_slot(Step *step, PyObject *tuple)
{
    if (!Py_IS_TYPE(step->x, &PyMemberDescr_Type) || !PyType_Check(step->y)) {
        return -1;
    }
    PyMemberDescrObject *member = (PyMemberDescrObject *)step->x;
    bool is_slot = member->d_member->type == T_OBJECT_EX;
    return is_slot && (PyObject *)member->d_common.d_type == step->y ? 0 : -1;
}

const StepKind fetch_steps[] = {
    {"const", "dx", NULL, NULL, ANYWHERE},
    {"weak", "dx", step_weak, prepare_weak, ANYWHERE},
    {"local", "di", step_local, NULL, ANYWHERE},
    {"unbound", "i", step_unbound, NULL, BEFORE_COMMIT},
    {"stack", "di", step_stack, NULL, ANYWHERE},
    {"function", "d", step_function, NULL, ANYWHERE},
    {"globals", "d", step_globals, NULL, ANYWHERE},
    {"closure", "di", step_closure, NULL, ANYWHERE},
    {"caller_local", "dii", step_caller_local, prepare_caller, ANYWHERE},
    {"caller_unbound", "ii", step_caller_unbound, prepare_caller, BEFORE_COMMIT},
    {"caller_stack", "dii", step_caller_stack, prepare_caller, ANYWHERE},
    {"caller_function", "di", step_caller_function, prepare_caller, ANYWHERE},
    {"cell", "dr", step_cell, NULL, ANYWHERE},
    {"attr", "drx", step_attr, prepare_attr, ANYWHERE},
    {"instance_dict", "dr", step_instance_dict, NULL, ANYWHERE},
    {"dict_get", "drx", step_dict_get, NULL, ANYWHERE},
    {"item", "dri", step_item, NULL, ANYWHERE},
    {"type_of", "dr", step_type_of, NULL, ANYWHERE},
    {"slot", "drxx", step_slot, prepare_slot, ANYWHERE},
    {NULL},
};

/* ---- building */

static StepOutcome
step_tuple(Run *run, Step *step)
{
    PyObject *tuple = PyTuple_New(step->n_args);
    for (int i = 0; tuple != NULL && i < step->n_args; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(run->registers[step->args[i]]));
    }
    return step_set(run, step->dst, tuple);
}

static StepOutcome
step_list(Run *run, Step *step)
{
    PyObject *list = PyList_New(step->n_args);
    for (int i = 0; list != NULL && i < step->n_args; i++) {
        PyList_SET_ITEM(list, i, Py_NewRef(run->registers[step->args[i]]));
    }
    return step_set(run, step->dst, list);
}

static StepOutcome
step_set_display(Run *run, Step *step)
{
    PyObject *set = PySet_New(NULL);
    for (int i = 0; set != NULL && i < step->n_args; i++) {
        if (PySet_Add(set, run->registers[step->args[i]]) < 0) {
            Py_CLEAR(set);
        }
    }
    return step_set(run, step->dst, set);
}

static StepOutcome
step_dict(Run *run, Step *step)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict != NULL && i < step->n_args; i += 2) {
        PyObject *key = run->registers[step->args[i]];
        if (PyDict_SetItem(dict, key, run->registers[step->args[i + 1]]) < 0) {
            Py_CLEAR(dict);
        }
    }
    return step_set(run, step->dst, dict);
}

static int
prepare_dict(Step *step, PyObject *tuple)
{
    return step->n_args % 2 == 0 ? 0 : -1;
}

static StepOutcome
step_slice(Run *run, Step *step)
{
    PyObject **registers = run->registers;
    return step_set(run, step->dst,
                    PySlice_New(registers[step->a], registers[step->b], registers[step->c]));
}

static StepOutcome
step_new_cell(Run *run, Step *step)
{
    return step_set(run, step->dst, PyCell_New(step->a < 0 ? NULL : run->registers[step->a]));
}

const StepKind build_steps[] = {
    {"tuple", "dR", step_tuple, NULL, ANYWHERE},
    {"list", "dR", step_list, NULL, ANYWHERE},
    {"set", "dR", step_set_display, NULL, ANYWHERE},
    {"dict", "dR", step_dict, prepare_dict, ANYWHERE},
    {"slice", "drrr", step_slice, NULL, ANYWHERE},
    {"new_cell", "do", step_new_cell, NULL, ANYWHERE},
    {NULL},
};

/* ---- calling */

/* Call what register `function` holds with the step's arguments, the last ones by keyword. */
static PyObject *
call(Run *run, const Step *step, int function, PyObject *kwnames)
{
    PyObject *small[SMALL + 1];
    PyObject **args = small;
    if (step->n_args > SMALL) {
        args = PyMem_New(PyObject *, step->n_args + 1);
        if (args == NULL) {
            return PyErr_NoMemory();
        }
    }
    for (int i = 0; i < step->n_args; i++) {
        args[i + 1] = run->registers[step->args[i]];
    }
    size_t n = step->n_args - (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    PyObject *value = PyObject_Vectorcall(run->registers[function], args + 1,
                                          n | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames);
    if (args != small) {
        PyMem_Free(args);
    }
    return value;
}

static StepOutcome
step_call(Run *run, Step *step)
{
    return step_set(run, step->dst, call(run, step, step->a, step->x));
}

static int
prepare_call(Step *step, PyObject *tuple)
{
    if (!PyTuple_CheckExact(step->x) || PyTuple_GET_SIZE(step->x) > step->n_args) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(step->x); i++) {
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(step->x, i))) {
            return -1;
        }
    }
    if (PyTuple_GET_SIZE(step->x) == 0) {
        step->x = NULL;
    }
    return 0;
}

typedef struct {
    PyObject_HEAD
    Py_ssize_t calls;
} Meter;

static PyMemberDef meter_members[] = {
    {"calls", T_PYSSIZET, offsetof(Meter, calls), 0, "How often graphs with this meter ran."},
    {NULL},
};

PyTypeObject Meter_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.Meter",
    .tp_doc = PyDoc_STR("Meter()\n--\n\nCounts the runs of a graph."),
    .tp_basicsize = sizeof(Meter),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_members = meter_members,
};

static StepOutcome
unpack_outputs(Run *run, const Step *step, PyObject *outputs)
{
    if (!PyTuple_Check(outputs) && !PyList_Check(outputs)) {
        PyErr_Format(PyExc_TypeError, "a compiled graph must return a tuple or list, not %.100s",
                     Py_TYPE(outputs)->tp_name);
        return STEP_RAISED;
    }
    if (PySequence_Fast_GET_SIZE(outputs) != step->n_dsts) {
        PyErr_Format(PyExc_ValueError, "a compiled graph returned %zd values instead of %d",
                     PySequence_Fast_GET_SIZE(outputs), step->n_dsts);
        return STEP_RAISED;
    }
    for (int i = 0; i < step->n_dsts; i++) {
        run->registers[step->dsts[i]] = Py_NewRef(PySequence_Fast_GET_ITEM(outputs, i));
    }
    return STEP_OK;
}

StepOutcome
step_graph(Run *run, Step *step)
{
    PyObject *outputs = call(run, step, step->a, NULL);
    if (outputs == NULL) {
        return STEP_RAISED;
    }
    StepOutcome outcome = unpack_outputs(run, step, outputs);
    Py_DECREF(outputs);
    if (outcome == STEP_OK && step->x != Py_None) {
        ((Meter *)step->x)->calls++;
    }
    /* What came in while the graph ran is served before its effects, at the gate's instruction. */
    return outcome == STEP_OK && PyErr_CheckSignals() < 0 ? STEP_INTERRUPTED : outcome;
}

static int
prepare_graph(Step *step, PyObject *tuple)
{
    return step->x == Py_None || Py_IS_TYPE(step->x, &Meter_Type) ? 0 : -1;
}

/* ---- effects */

static StepOutcome
step_commit(Run *run, Step *step)
{
    return STEP_OK;
}

static StepOutcome
step_store_cell(Run *run, Step *step)
{
    return PyCell_Set(run->registers[step->a], run->registers[step->b]) < 0 ? STEP_RAISED : STEP_OK;
}

static StepOutcome
step_clear_cell(Run *run, Step *step)
{
    return PyCell_Set(run->registers[step->a], NULL) < 0 ? STEP_RAISED : STEP_OK;
}

static StepOutcome
step_handled(Run *run, Step *step)
{
    PyErr_SetHandledException(step->a < 0 ? Py_None : run->registers[step->a]);
    return STEP_OK;
}

const StepKind effect_steps[] = {
    {"call", "drRx", step_call, prepare_call, ANYWHERE},
    {"graph", "DrRx", step_graph, prepare_graph, ANYWHERE},
    {"commit", "", step_commit, NULL, ANYWHERE},
    {"store_cell", "rr", step_store_cell, NULL, AFTER_COMMIT},
    {"clear_cell", "r", step_clear_cell, NULL, AFTER_COMMIT},
    {"handled", "o", step_handled, NULL, AFTER_COMMIT},
    {"store_local", "ir", NULL, NULL, ANYWHERE},
    {"delete_local", "i", NULL, NULL, ANYWHERE},
    {"result", "o", NULL, NULL, ANYWHERE},
    {NULL},
};
