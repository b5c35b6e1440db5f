/* Gate: an instruction boundary, the segments that may run from there, and how one is chosen. */
#include "runtime.h"

#include <structmember.h>

/* While no segment of a generator has paid, a gate that had nothing to run so often is passed by as
   often, then tried again: a generator of numbers is not to cost the guards of each item. */
enum { PATIENCE = 64 };

static PyObject *str_miss, *str_report_unstable, *str_gate_in;

static PyObject *
unbound_as_null(PyObject *value)
{
    return Py_NewRef(value == NULL ? sentinel_null : value);
}

/* `n` slots as a tuple, _core.NULL for what is unbound. */
static PyObject *
slots_tuple(PyObject *const *slots, Py_ssize_t n_known, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        PyTuple_SET_ITEM(tuple, i, unbound_as_null(i < n_known ? slots[i] : NULL));
    }
    return tuple;
}

static void
note_match(Gate *gate, long exit)
{
    if (exit != SEGMENT_STAY) {
        gate->state->pays = true;
    }
    else if (gate->stays < PATIENCE) {
        gate->stays++;
    }
    else {
        gate->rest = PATIENCE;
    }
}

/* Whether the gate is to be passed by this time. */
static bool
rests(Gate *gate, const Site *site)
{
    if (gate->rest == 0 || gate->state->pays || site->frame == NULL ||
        !frame_is_generator(site->frame)) {
        return false;
    }
    gate->rest--;
    return true;
}

/* The segment that matched last is tried first, the others in their order. */
static Verdict
try_segments(Gate *gate, Site *site, Result *result)
{
    PyObject *segments = Py_NewRef(gate->segments);
    Py_ssize_t first = gate->hint < PyList_GET_SIZE(segments) ? gate->hint : 0;
    Verdict verdict = GATE_MISSED;
    for (Py_ssize_t k = -1; verdict == GATE_MISSED && k < PyList_GET_SIZE(segments); k++) {
        Py_ssize_t i = k < 0 ? first : k;
        if (k == first || i >= PyList_GET_SIZE(segments)) {
            continue;
        }
        PyObject *segment = Py_NewRef(PyList_GET_ITEM(segments, i));
        switch (segment_run(segment, site, result)) {
        case RUN_ERROR:
            verdict = GATE_ERROR;
            break;
        case RUN_ABANDONED:
            verdict = GATE_PASS;
            break;
        case RUN_MATCHED:
            gate->hint = i;
            note_match(gate, result->exit);
            verdict = result->exit == SEGMENT_RETURN ? GATE_RETURN
                      : result->exit == SEGMENT_STAY ? GATE_PASS
                                                     : GATE_EXIT;
            break;
        case RUN_MISMATCH:
            break;
        }
        Py_DECREF(segment);
    }
    Py_DECREF(segments);
    return verdict;
}

/* Whether the compiler is to be asked now. A closed gate is offered again when its backoff ends. */
static bool
is_offered(Gate *gate)
{
    return gate->is_open || (gate->backoff > 0 && --gate->backoff == 0);
}

static Verdict
report_unstable(Gate *gate, PyObject *segment, PyObject *compiler)
{
    PyObject *step = PyLong_FromLong(segment_failed_step(segment));
    if (step == NULL) {
        return GATE_ERROR;
    }
    PyObject *reply = PyObject_CallMethodObjArgs(compiler, str_report_unstable, (PyObject *)gate,
                                                 segment, step, NULL);
    Py_DECREF(step);
    Py_XDECREF(reply);
    return reply == NULL ? GATE_ERROR : GATE_MISSED;
}

/* (function, locals, stack) of a caller that waits for a continuation. */
static PyObject *
caller_state(Activation *caller, Py_ssize_t depth)
{
    int n = caller->state->n_localsplus;
    return Py_BuildValue("ONN", caller->function, slots_tuple(frame_locals(caller->frame), n, n),
                         slots_tuple(frame_stack(caller->frame), depth, depth));
}

/* The states of the callers, innermost first. */
static PyObject *
caller_states(Activation *act)
{
    PyObject *list = PyList_New(0);
    for (; list != NULL && act->context != NULL && act->outer->frame != NULL; act = act->outer) {
        PyObject *caller = caller_state(act->outer, act->below);
        if (caller == NULL || PyList_Append(list, caller) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(caller);
    }
    return list;
}

static PyObject *
ask(Gate *gate, Site *site, PyObject *compiler)
{
    State *state = site->act->state;
    PyObject *segment = NULL;
    PyObject *locals = slots_tuple(site->locals, site->n_locals, state->n_localsplus);
    PyObject *stack = slots_tuple(site->stack, site->depth, site->depth);
    PyObject *callers = gate->context == NULL ? NULL : caller_states(site->act);
    if (locals != NULL && stack != NULL && (callers != NULL || gate->context == NULL)) {
        segment = PyObject_CallMethodObjArgs(compiler, str_miss, (PyObject *)gate,
                                             site->act->function, locals, stack, callers, NULL);
    }
    Py_XDECREF(locals);
    Py_XDECREF(stack);
    Py_XDECREF(callers);
    return segment;
}

static Verdict
miss(Gate *gate, Site *site, PyObject *compiler, Result *result)
{
    PyObject *segment = ask(gate, site, compiler);
    Verdict verdict = GATE_ERROR;
    if (segment == NULL) {
        return verdict;
    }
    if (segment == Py_None) {
        verdict = GATE_MISSED;
    }
    else if (!Py_IS_TYPE(segment, &Segment_Type)) {
        PyErr_Format(PyExc_TypeError, "miss() must return a Segment or None, not %.100s",
                     Py_TYPE(segment)->tp_name);
    }
    else {
        switch (segment_run(segment, site, result)) {
        case RUN_ERROR:
            break;
        case RUN_MISMATCH:
            verdict = report_unstable(gate, segment, compiler);
            break;
        case RUN_ABANDONED:
            verdict = GATE_MISSED;
            break;
        case RUN_MATCHED:
            verdict = result->exit == SEGMENT_RETURN ? GATE_RETURN
                      : result->exit == SEGMENT_STAY ? GATE_MISSED
                                                     : GATE_EXIT;
        }
    }
    Py_DECREF(segment);
    return verdict;
}

/* Modes that the program itself has pushed, and torch.jit.trace, see every operation: only the
   interpreter does that. */
static int
modes_allow(Site *site)
{
    if (torch_state_measure_modes(site) < 0) {
        return -1;
    }
    return !site->is_traced &&
           (site->function_modes == 0 || site->function_modes == current.function_modes) &&
           (site->dispatch_modes == 0 || site->dispatch_modes == current.dispatch_modes);
}

/* Guards, programs and the compiler itself all run with compiling off. */
Verdict
gate_dispatch(Gate *gate, Site *site, Result *result)
{
    if (PyList_GET_SIZE(gate->segments) == 0 && !gate->is_open && gate->backoff <= 0) {
        return GATE_PASS;
    }
    if (rests(gate, site)) {
        return GATE_PASS;
    }
    PyObject *compiler = current.compiler, *outer = current.dispatching;
    current.compiler = NULL;
    current.dispatching = compiler;
    int allowed = modes_allow(site);
    Verdict verdict = allowed < 0 ? GATE_ERROR : GATE_PASS;
    if (allowed > 0) {
        verdict = try_segments(gate, site, result);
        if (verdict == GATE_MISSED) {
            verdict = is_offered(gate) ? miss(gate, site, compiler, result) : GATE_PASS;
        }
    }
    current.compiler = compiler;
    current.dispatching = outer;
    return verdict;
}

Gate *
gate_in_context(Gate *gate, PyObject *context)
{
    PyObject *found = gate->contexts == NULL ? NULL : PyDict_GetItemWithError(gate->contexts, context);
    if (found != NULL || PyErr_Occurred()) {
        return (Gate *)Py_XNewRef(found);
    }
    if (gate->contexts == NULL && (gate->contexts = PyDict_New()) == NULL) {
        return NULL;
    }
    PyObject *compiler = current.compiler;
    current.compiler = NULL;
    PyObject *made = PyObject_CallMethodObjArgs((PyObject *)gate->state, str_gate_in, (PyObject *)gate,
                                                context, NULL);
    current.compiler = compiler;
    if (made != NULL && !PyObject_TypeCheck(made, &Gate_Type)) {
        PyErr_SetString(PyExc_TypeError, "gate_in() must return a Gate");
        Py_CLEAR(made);
    }
    if (made != NULL && PyDict_SetItem(gate->contexts, context, made) < 0) {
        Py_CLEAR(made);
    }
    return (Gate *)made;
}

/* ---- the type */

static PyObject *
gate_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Gate *self = (Gate *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->is_open = true;
    self->segments = PyList_New(0);
    if (self->segments == NULL) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
gate_init(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"state", "index", "depth", "context", NULL};
    Gate *self = (Gate *)op;
    PyObject *state, *context = Py_None;
    Py_ssize_t index, depth;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!nn|O", names, &State_Type, &state, &index,
                                     &depth, &context)) {
        return -1;
    }
    if (index < 0 || depth < 0) {
        PyErr_SetString(PyExc_ValueError, "index and depth of a gate cannot be negative");
        return -1;
    }
    Py_INCREF(state);
    Py_XSETREF(self->state, (State *)state);
    Py_XSETREF(self->context, context == Py_None ? NULL : Py_NewRef(context));
    self->index = index;
    self->depth = depth;
    return 0;
}

static int
gate_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(((Gate *)op)->state);
    Py_VISIT(((Gate *)op)->segments);
    Py_VISIT(((Gate *)op)->context);
    Py_VISIT(((Gate *)op)->contexts);
    return 0;
}

/* Dispatch relies on `segments`, so it stays a list. */
static int
gate_clear(PyObject *op)
{
    Gate *self = (Gate *)op;
    Py_CLEAR(self->state);
    Py_CLEAR(self->context);
    Py_CLEAR(self->contexts);
    return PyList_SetSlice(self->segments, 0, PyList_GET_SIZE(self->segments), NULL);
}

static void
gate_dealloc(PyObject *op)
{
    Gate *self = (Gate *)op;
    PyObject_GC_UnTrack(op);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs(op);
    }
    Py_CLEAR(self->state);
    Py_CLEAR(self->context);
    Py_CLEAR(self->contexts);
    Py_CLEAR(self->segments);
    Py_TYPE(op)->tp_free(op);
}

static PyObject *
gate_get_segments(PyObject *op, void *closure)
{
    return Py_NewRef(((Gate *)op)->segments);
}

static int
gate_set_segments(PyObject *op, PyObject *value, void *closure)
{
    if (value == NULL || !PyList_CheckExact(value)) {
        PyErr_SetString(PyExc_TypeError, "segments must be a list");
        return -1;
    }
    Py_SETREF(((Gate *)op)->segments, Py_NewRef(value));
    return 0;
}

static PyGetSetDef gate_getset[] = {
    {"segments", gate_get_segments, gate_set_segments, "The segments, in order of trial.", NULL},
    {NULL},
};

static PyMemberDef gate_members[] = {
    {"state", T_OBJECT, offsetof(Gate, state), READONLY, NULL},
    {"index", T_PYSSIZET, offsetof(Gate, index), READONLY, NULL},
    {"depth", T_PYSSIZET, offsetof(Gate, depth), READONLY, NULL},
    {"context", T_OBJECT, offsetof(Gate, context), READONLY,
     "The calls inside which it stands, None for all others."},
    {"contexts", T_OBJECT, offsetof(Gate, contexts), READONLY,
     "The gates at this place by context, or None."},
    {"is_open", T_BOOL, offsetof(Gate, is_open), 0, "Whether misses are offered to the compiler."},
    {"backoff", T_INT, offsetof(Gate, backoff), 0, "Misses until a closed gate is offered again."},
    {NULL},
};

PyTypeObject Gate_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.Gate",
    .tp_doc = PyDoc_STR("Gate(state, index, depth, context=None)\n--\n\nAn instruction boundary where "
                        "interpreted execution may enter a segment."),
    .tp_basicsize = sizeof(Gate),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = gate_new,
    .tp_init = gate_init,
    .tp_traverse = gate_traverse,
    .tp_clear = gate_clear,
    .tp_dealloc = gate_dealloc,
    .tp_weaklistoffset = offsetof(Gate, weakrefs),
    .tp_getset = gate_getset,
    .tp_members = gate_members,
};

int
gate_setup(void)
{
    str_miss = PyUnicode_InternFromString("miss");
    str_report_unstable = PyUnicode_InternFromString("report_unstable");
    str_gate_in = PyUnicode_InternFromString("gate_in");
    return str_miss == NULL || str_report_unstable == NULL || str_gate_in == NULL ? -1 : 0;
}
