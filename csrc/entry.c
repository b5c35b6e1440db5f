/* Entry, the callable that compiling a function gives, and Disabled, one that never compiles. Both
   look like the function that they wrap. */
#include "runtime.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function; /* what is called */
    PyObject *wrapped;  /* what it looks like: the function, or it with its leading arguments */
    PyObject *dict;
    PyObject *weakrefs;
} Wrapper;

typedef struct {
    Wrapper wrapper;
    PyObject *compiler;
    PyObject *bound; /* leading arguments, a tuple */
    /* What the compiler said of the function's code, kept so that a call need not look it up. */
    PyCodeObject *code;
    State *state;
    Answer answer;
    unsigned long epoch;
} Entry;

/* ---- calling */

static Answer
entry_answer(Entry *self, PyCodeObject *code, State **state)
{
    if (self->code != code || self->epoch != answers_epoch) {
        State *found;
        Answer answer = answer_for(self->wrapper.function, &found);
        if (answer < 0 || answer == ANSWER_UNDECIDED) {
            return answer;
        }
        Py_INCREF(code);
        Py_XSETREF(self->code, code);
        self->answer = answer;
        self->epoch = answers_epoch;
        Py_XSETREF(self->state, found);
    }
    *state = (State *)Py_XNewRef(self->state);
    return self->answer;
}

/* Bind the arguments and drive; `slots` has room for a frame. As drive(), false: run it plainly. */
static bool
bind_and_drive(PyObject *function, State *state, PyObject *const *args, Py_ssize_t n,
               PyObject *kwnames, PyObject **slots, PyObject **value)
{
    if (kwnames == NULL && n == state->n_args && n == state->code->co_argcount) {
        return drive(state, function, args, slots, false, value);
    }
    memset(slots, 0, state->n_localsplus * sizeof(PyObject *));
    int bound = bind_arguments(function, args, n, kwnames, slots);
    if (bound <= 0) {
        *value = NULL;
        return bound < 0;
    }
    bool done = drive(state, function, slots, slots, true, value);
    for (int i = 0; i < state->n_localsplus; i++) {
        Py_XDECREF(slots[i]);
    }
    return done;
}

static PyObject *
run_state(PyObject *function, State *state, PyObject *const *args, size_t nargsf,
          PyObject *kwnames)
{
    PyObject *small[SMALL];
    PyObject **slots = small;
    if (state->n_localsplus > SMALL) {
        slots = PyMem_New(PyObject *, state->n_localsplus);
        if (slots == NULL) {
            return PyErr_NoMemory();
        }
    }
    PyObject *value;
    bool done = bind_and_drive(function, state, args, PyVectorcall_NARGS(nargsf), kwnames, slots,
                               &value);
    if (slots != small) {
        PyMem_Free(slots);
    }
    return done ? value : call_plain(function, args, nargsf, kwnames);
}

static PyObject *
call_compiled(Entry *self, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *function = self->wrapper.function;
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    if (paused || !code_is_plain_function(code)) {
        return call_disabled(function, args, nargsf, kwnames);
    }
    if (is_tracing(this_thread())) {
        return call_plain(function, args, nargsf, kwnames);
    }
    State *state = NULL;
    switch (entry_answer(self, code, &state)) {
    case ANSWER_ERROR:
        return NULL;
    case ANSWER_DISABLE:
        return call_disabled(function, args, nargsf, kwnames);
    case ANSWER_STATE: {
        PyObject *value = run_state(function, state, args, nargsf, kwnames);
        Py_DECREF(state);
        return value;
    }
    default:
        return call_plain(function, args, nargsf, kwnames);
    }
}

static PyObject *
entry_call(PyObject *op, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Entry *self = (Entry *)op;
    PyObject *outer = current.compiler;
    current.compiler = self->compiler;
    PyObject *value = call_compiled(self, args, nargsf, kwnames);
    current.compiler = outer;
    return value;
}

/* Put the bound arguments in front of the others. */
static PyObject *
bound_entry_call(PyObject *op, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *bound = ((Entry *)op)->bound;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), n_bound = PyTuple_GET_SIZE(bound);
    Py_ssize_t n_given = n + (kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames));
    PyObject *small[SMALL];
    PyObject **all = small;
    if (n_bound + n_given > SMALL) {
        all = PyMem_New(PyObject *, n_bound + n_given);
        if (all == NULL) {
            return PyErr_NoMemory();
        }
    }
    memcpy(all, &PyTuple_GET_ITEM(bound, 0), n_bound * sizeof(PyObject *));
    if (n_given > 0) {
        memcpy(all + n_bound, args, n_given * sizeof(PyObject *));
    }
    PyObject *value = entry_call(op, all, n_bound + n, kwnames);
    if (all != small) {
        PyMem_Free(all);
    }
    return value;
}

static PyObject *
disabled_call(PyObject *op, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    return call_disabled(((Wrapper *)op)->function, args, nargsf, kwnames);
}

/* ---- looking like the function */

static PyObject *
wrapper_getattro(PyObject *op, PyObject *name)
{
    PyObject *value = _PyObject_GenericGetAttrWithDict(op, name, NULL, 1);
    if (value != NULL || PyErr_Occurred()) {
        return value;
    }
    return PyObject_GetAttr(((Wrapper *)op)->wrapped, name);
}

/* The type has a `__doc__` and `__module__` of its own, which would hide the function's. */
static int
fill_dict(Wrapper *self)
{
    static const char *const copied[] = {"__module__", "__name__", "__qualname__", "__doc__"};
    self->dict = PyDict_New();
    if (self->dict == NULL ||
        PyDict_SetItemString(self->dict, "__wrapped__", self->wrapped) < 0) {
        return -1;
    }
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++) {
        PyObject *value = PyObject_GetAttrString(self->function, copied[i]);
        if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Clear();
            continue;
        }
        int failed = value == NULL || PyDict_SetItemString(self->dict, copied[i], value) < 0;
        Py_XDECREF(value);
        if (failed) {
            return -1;
        }
    }
    return 0;
}

static int
wrapper_init(Wrapper *self, vectorcallfunc call, PyObject *function, PyObject *wrapped)
{
    self->vectorcall = call;
    self->function = Py_NewRef(function);
    self->wrapped = wrapped;
    return wrapped == NULL ? -1 : fill_dict(self);
}

static PyObject *
wrapper_get(PyObject *op, PyObject *instance, PyObject *owner)
{
    if (instance == NULL || instance == Py_None) {
        return Py_NewRef(op);
    }
    return PyMethod_New(op, instance);
}

/* Callables that are no functions do not bind, and neither do their wrappers. */
static PyObject *
disabled_get(PyObject *op, PyObject *instance, PyObject *owner)
{
    bool binds = Py_TYPE(((Wrapper *)op)->function)->tp_descr_get != NULL;
    return wrapper_get(op, binds ? instance : NULL, owner);
}

static PyObject *
bound_entry_get(PyObject *op, PyObject *instance, PyObject *owner)
{
    return Py_NewRef(op);
}

static PyObject *
wrapper_self(PyObject *op, PyObject *ignored)
{
    return Py_NewRef(op);
}

/* Like a function, it pickles as the name under which it can be found. */
static PyObject *
wrapper_reduce(PyObject *op, PyObject *ignored)
{
    return PyObject_GetAttrString(op, "__qualname__");
}

static PyObject *
bound_entry_reduce(PyObject *op, PyObject *ignored)
{
    PyErr_Format(PyExc_TypeError, "cannot pickle %R: it is bound to an object", op);
    return NULL;
}

static PyObject *
entry_repr(PyObject *op)
{
    return PyUnicode_FromFormat("<compiled %R>", ((Wrapper *)op)->wrapped);
}

static PyObject *
disabled_repr(PyObject *op)
{
    return PyUnicode_FromFormat("<not compiled %R>", ((Wrapper *)op)->wrapped);
}

/* ---- life and death */

static int
wrapper_traverse(PyObject *op, visitproc visit, void *arg)
{
    Wrapper *self = (Wrapper *)op;
    Py_VISIT(self->function);
    Py_VISIT(self->wrapped);
    Py_VISIT(self->dict);
    return 0;
}

static int
entry_traverse(PyObject *op, visitproc visit, void *arg)
{
    Entry *self = (Entry *)op;
    Py_VISIT(self->compiler);
    Py_VISIT(self->bound);
    Py_VISIT(self->code);
    Py_VISIT(self->state);
    return wrapper_traverse(op, visit, arg);
}

/* A call relies on the function and the compiler, so those go only with the object. */
static int
wrapper_clear(PyObject *op)
{
    Py_CLEAR(((Wrapper *)op)->dict);
    return 0;
}

static int
entry_clear(PyObject *op)
{
    Entry *self = (Entry *)op;
    Py_CLEAR(self->code);
    Py_CLEAR(self->state);
    return wrapper_clear(op);
}

static void
wrapper_release(PyObject *op)
{
    Wrapper *self = (Wrapper *)op;
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs(op);
    }
    Py_CLEAR(self->function);
    Py_CLEAR(self->wrapped);
    Py_CLEAR(self->dict);
}

static void
disabled_dealloc(PyObject *op)
{
    PyObject_GC_UnTrack(op);
    wrapper_release(op);
    Py_TYPE(op)->tp_free(op);
}

static void
entry_dealloc(PyObject *op)
{
    Entry *self = (Entry *)op;
    PyObject_GC_UnTrack(op);
    wrapper_release(op);
    Py_CLEAR(self->compiler);
    Py_CLEAR(self->bound);
    Py_CLEAR(self->code);
    Py_CLEAR(self->state);
    Py_TYPE(op)->tp_free(op);
}

/* What a function with leading arguments looks like to inspect. */
static PyObject *
with_leading(PyObject *function, PyObject *bound)
{
    if (PyTuple_GET_SIZE(bound) == 0) {
        return Py_NewRef(function);
    }
    if (PyTuple_GET_SIZE(bound) == 1) {
        return PyMethod_New(function, PyTuple_GET_ITEM(bound, 0));
    }
    PyObject *functools = PyImport_ImportModule("functools");
    PyObject *partial = functools == NULL ? NULL : PyObject_GetAttrString(functools, "partial");
    PyObject *first = partial == NULL ? NULL : PyTuple_Pack(1, function);
    PyObject *args = first == NULL ? NULL : PySequence_Concat(first, bound);
    PyObject *wrapped = args == NULL ? NULL : PyObject_CallObject(partial, args);
    Py_XDECREF(functools);
    Py_XDECREF(partial);
    Py_XDECREF(first);
    Py_XDECREF(args);
    return wrapped;
}

static PyObject *
entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", "compiler", "bound", NULL};
    PyObject *function, *compiler, *bound = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O|O!", names, &PyFunction_Type, &function,
                                     &compiler, &PyTuple_Type, &bound)) {
        return NULL;
    }
    bool is_bound = bound != NULL && PyTuple_GET_SIZE(bound) > 0;
    type = is_bound ? &BoundEntry_Type : &Entry_Type;
    Entry *self = (Entry *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->compiler = Py_NewRef(compiler);
    self->bound = bound == NULL ? PyTuple_New(0) : Py_NewRef(bound);
    vectorcallfunc call = is_bound ? bound_entry_call : entry_call;
    if (self->bound == NULL || wrapper_init(&self->wrapper, call, function,
                                            with_leading(function, self->bound)) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static PyObject *
disabled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"function", NULL};
    PyObject *function;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &function)) {
        return NULL;
    }
    if (!PyCallable_Check(function)) {
        PyErr_Format(PyExc_TypeError, "Disabled() needs a callable, not %R", function);
        return NULL;
    }
    Wrapper *self = (Wrapper *)type->tp_alloc(type, 0);
    if (self != NULL && wrapper_init(self, disabled_call, function, Py_NewRef(function)) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* ---- the types */

static PyMethodDef wrapper_methods[] = {
    {"__copy__", wrapper_self, METH_NOARGS, NULL},
    {"__deepcopy__", wrapper_self, METH_O, NULL},
    {"__reduce__", wrapper_reduce, METH_NOARGS, NULL},
    {NULL},
};

static PyMethodDef bound_entry_methods[] = {
    {"__reduce__", bound_entry_reduce, METH_NOARGS, NULL},
    {NULL},
};

static PyGetSetDef wrapper_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL},
};

static PyMemberDef entry_members[] = {
    {"compiler", T_OBJECT, offsetof(Entry, compiler), READONLY, NULL},
    {"bound", T_OBJECT, offsetof(Entry, bound), READONLY, "The leading arguments."},
    {NULL},
};

PyTypeObject Entry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.Entry",
    .tp_doc = PyDoc_STR("Entry(function, compiler, bound=())\n--\n\nA function whose calls are "
                        "compiled."),
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Wrapper, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = entry_new,
    .tp_traverse = entry_traverse,
    .tp_clear = entry_clear,
    .tp_dealloc = entry_dealloc,
    .tp_getattro = wrapper_getattro,
    .tp_repr = entry_repr,
    .tp_descr_get = wrapper_get,
    .tp_dictoffset = offsetof(Wrapper, dict),
    .tp_weaklistoffset = offsetof(Wrapper, weakrefs),
    .tp_methods = wrapper_methods,
    .tp_members = entry_members,
    .tp_getset = wrapper_getset,
};

/* An Entry with leading arguments: it does not bind, so it must not claim to be a method. */
PyTypeObject BoundEntry_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.BoundEntry",
    .tp_doc = PyDoc_STR("An Entry with leading arguments; made by Entry(function, compiler, "
                        "bound)."),
    .tp_base = &Entry_Type,
    .tp_basicsize = sizeof(Entry),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Wrapper, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = entry_traverse,
    .tp_clear = entry_clear,
    .tp_dealloc = entry_dealloc,
    .tp_descr_get = bound_entry_get,
    .tp_methods = bound_entry_methods,
};

PyTypeObject Disabled_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.Disabled",
    .tp_doc = PyDoc_STR("Disabled(function)\n--\n\nA callable that runs with compiling off, and "
                        "everything below it."),
    .tp_basicsize = sizeof(Wrapper),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Wrapper, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = disabled_new,
    .tp_traverse = wrapper_traverse,
    .tp_clear = wrapper_clear,
    .tp_dealloc = disabled_dealloc,
    .tp_getattro = wrapper_getattro,
    .tp_repr = disabled_repr,
    .tp_descr_get = disabled_get,
    .tp_dictoffset = offsetof(Wrapper, dict),
    .tp_weaklistoffset = offsetof(Wrapper, weakrefs),
    .tp_methods = wrapper_methods,
    .tp_getset = wrapper_getset,
};
