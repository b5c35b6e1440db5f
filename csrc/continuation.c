/* Continuation: a call of a compiled function that is resumed in the middle.

   A segment that breaks several calls down leaves one of these on the stack of each frame it leaves
   in a call: the caller's pad goes on with it, by `~`, where the call stood. So the frames are nested
   as they would be in the interpreter, and exceptions, tracebacks, `with` and `try` find them there. */
#include "runtime.h"

typedef struct {
    PyObject_HEAD
    PyObject *point;    /* (state, exit, context or None, depth of the caller's stack below) */
    PyObject *function; /* the original function */
    PyObject *locals;   /* tuple of all slots, _core.NULL where unbound; NULL once it goes on */
    PyObject *stack;    /* tuple, top first */
} Continuation;

static State *
point_state(PyObject *point)
{
    return (State *)PyTuple_GET_ITEM(point, 0);
}

static int
check_point(PyObject *point)
{
    if (PyTuple_CheckExact(point) && PyTuple_GET_SIZE(point) == 4 &&
        PyObject_TypeCheck(PyTuple_GET_ITEM(point, 0), &State_Type) &&
        PyLong_CheckExact(PyTuple_GET_ITEM(point, 1)) &&
        PyLong_CheckExact(PyTuple_GET_ITEM(point, 3))) {
        return 0;
    }
    PyErr_SetString(PyExc_TypeError, "point must be a tuple (state, exit, context, depth)");
    return -1;
}

/* Cells are read without a check, so a slot of one must hold one. */
static int
check_locals(State *state, PyObject *function, PyObject *locals)
{
    const char *wrong = NULL;
    if (!PyFunction_Check(function) || PyFunction_GET_CODE(function) != (PyObject *)state->code) {
        wrong = "it is another function";
    }
    else if (!PyTuple_CheckExact(locals) || PyTuple_GET_SIZE(locals) != state->n_localsplus) {
        wrong = "the number of slots is another";
    }
    for (int i = 0; wrong == NULL && i < state->n_localsplus; i++) {
        PyObject *value = PyTuple_GET_ITEM(locals, i);
        bool is_free = i >= state->n_localsplus - state->n_free;
        bool is_kept = is_free && value == sentinel_null;
        if ((is_free || code_slot_is_cell(state->code, i)) && !is_kept && !PyCell_Check(value)) {
            wrong = "a slot that holds a cell was given something else";
        }
    }
    if (wrong != NULL) {
        PyErr_Format(PyExc_RuntimeError, "%S cannot be resumed: %s", state->code->co_qualname, wrong);
        return -1;
    }
    return 0;
}

/* Move the slots out, so that nothing outlives its last use in the frame. */
static void
take_slots(Continuation *self, PyObject **slots)
{
    PyObject *locals = self->locals;
    self->locals = NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(locals); i++) {
        PyObject *value = PyTuple_GET_ITEM(locals, i);
        slots[i] = value == sentinel_null ? NULL : Py_NewRef(value);
    }
    Py_DECREF(locals);
}

static PyObject *
resume(Continuation *self, State *state, PyObject **slots)
{
    PyObject *context = PyTuple_GET_ITEM(self->point, 2);
    Activation act = {
        .outer = current.activation,
        .state = state,
        .function = self->function,
        .localsplus = slots,
        .adopted = true,
        .exit = PyLong_AsLong(PyTuple_GET_ITEM(self->point, 1)),
        .context = context == Py_None ? NULL : context,
        .below = PyLong_AsSsize_t(PyTuple_GET_ITEM(self->point, 3)),
    };
    if (act.outer == NULL || act.outer->frame != running_frame(this_thread())) {
        act.context = NULL; /* not in the caller's pad */
    }
    act.stack = self->stack;
    self->stack = NULL;
    take_slots(self, slots);
    current.activation = &act;
    PyObject *value = run_versions(this_thread(), &act);
    activation_end(&act);
    for (int i = 0; i < state->n_localsplus; i++) {
        Py_XDECREF(slots[i]);
    }
    return value;
}

static PyObject *
continuation_go_on(PyObject *op)
{
    Continuation *self = (Continuation *)op;
    if (self->locals == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a continuation goes on once");
        return NULL;
    }
    State *state = point_state(self->point);
    PyObject *small[SMALL];
    PyObject **slots = small;
    if (state->n_localsplus > SMALL) {
        slots = PyMem_New(PyObject *, state->n_localsplus);
        if (slots == NULL) {
            return PyErr_NoMemory();
        }
    }
    PyObject *value = resume(self, state, slots);
    if (slots != small) {
        PyMem_Free(slots);
    }
    return value;
}

static PyObject *
continuation_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"point", "function", "locals", "stack", NULL};
    PyObject *point, *function, *locals, *stack;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOO!", names, &point, &function, &locals,
                                     &PyTuple_Type, &stack) ||
        check_point(point) < 0 || check_locals(point_state(point), function, locals) < 0) {
        return NULL;
    }
    Continuation *self = (Continuation *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->point = Py_NewRef(point);
        self->function = Py_NewRef(function);
        self->locals = Py_NewRef(locals);
        self->stack = Py_NewRef(stack);
    }
    return (PyObject *)self;
}

static int
continuation_traverse(PyObject *op, visitproc visit, void *arg)
{
    Continuation *self = (Continuation *)op;
    Py_VISIT(self->point);
    Py_VISIT(self->function);
    Py_VISIT(self->locals);
    Py_VISIT(self->stack);
    return 0;
}

static int
continuation_clear(PyObject *op)
{
    Continuation *self = (Continuation *)op;
    Py_CLEAR(self->locals);
    Py_CLEAR(self->stack);
    return 0;
}

static void
continuation_dealloc(PyObject *op)
{
    Continuation *self = (Continuation *)op;
    PyObject_GC_UnTrack(op);
    continuation_clear(op);
    Py_CLEAR(self->point);
    Py_CLEAR(self->function);
    Py_TYPE(op)->tp_free(op);
}

static PyNumberMethods continuation_number = {.nb_invert = continuation_go_on};

PyTypeObject Continuation_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.Continuation",
    .tp_doc = PyDoc_STR("Continuation(point, function, locals, stack)\n--\n\nA call that is resumed "
                        "in the middle: once, by `~` in its caller's pad."),
    .tp_basicsize = sizeof(Continuation),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_as_number = &continuation_number,
    .tp_new = continuation_new,
    .tp_traverse = continuation_traverse,
    .tp_clear = continuation_clear,
    .tp_dealloc = continuation_dealloc,
};
