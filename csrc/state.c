/* State: how one code object is compiled under one compiler. */
#include "runtime.h"

#include <structmember.h>

static int
state_init(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", NULL};
    State *self = (State *)op;
    PyCodeObject *code;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!", names, &PyCode_Type, &code)) {
        return -1;
    }
    if (self->code != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "a State belongs to one code object");
        return -1;
    }
    if (!code_is_plain_function(code) && !code_is_generator(code)) {
        PyErr_Format(PyExc_ValueError, "%S is not the code of a plain or a generator function",
                     code->co_qualname);
        return -1;
    }
    self->code = (PyCodeObject *)Py_NewRef(code);
    self->n_args = code_argument_slots(code);
    self->n_localsplus = code->co_nlocalsplus;
    self->n_free = code->co_nfreevars;
    return 0;
}

static int
state_traverse(PyObject *op, visitproc visit, void *arg)
{
    State *self = (State *)op;
    Py_VISIT(self->code);
    Py_VISIT(self->version);
    Py_VISIT(self->entry);
    return 0;
}

static int
state_clear(PyObject *op)
{
    State *self = (State *)op;
    Py_CLEAR(self->version);
    Py_CLEAR(self->entry);
    return 0;
}

static void
state_dealloc(PyObject *op)
{
    State *self = (State *)op;
    PyObject_GC_UnTrack(op);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs(op);
    }
    state_clear(op);
    Py_CLEAR(self->code);
    Py_TYPE(op)->tp_free(op);
}

static PyObject *
object_or_none(void *object)
{
    return Py_NewRef(object == NULL ? Py_None : (PyObject *)object);
}

static PyObject *
state_get_version(PyObject *op, void *closure)
{
    return object_or_none(((State *)op)->version);
}

/* Frames of a version get their slots from C, so its layout must be that of the original. */
static bool
is_version_of(State *self, PyCodeObject *code)
{
    return code != self->code && (code_is_plain_function(code) || code_is_generator(code)) &&
           code_is_generator(code) == code_is_generator(self->code) &&
           !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) && code->co_kwonlyargcount == 0 &&
           code->co_argcount == self->n_args && code->co_nlocalsplus == self->n_localsplus &&
           code->co_nfreevars == self->n_free &&
           PyBytes_GET_SIZE(code->co_localspluskinds) == self->n_localsplus &&
           memcmp(PyBytes_AS_STRING(code->co_localspluskinds),
                  PyBytes_AS_STRING(self->code->co_localspluskinds), self->n_localsplus) == 0;
}

static int
state_set_version(PyObject *op, PyObject *value, void *closure)
{
    State *self = (State *)op;
    if (value == NULL || value == Py_None) {
        Py_CLEAR(self->version);
        return 0;
    }
    if (!PyCode_Check(value) || self->code == NULL || !is_version_of(self, (PyCodeObject *)value)) {
        PyErr_SetString(PyExc_ValueError,
                        "a version is another code object with the same localsplus that takes "
                        "every argument slot positionally");
        return -1;
    }
    if (answers_mark_version((PyCodeObject *)value, self) < 0) {
        return -1;
    }
    Py_INCREF(value);
    Py_XSETREF(self->version, (PyCodeObject *)value);
    return 0;
}

static PyObject *
state_get_entry(PyObject *op, void *closure)
{
    return object_or_none(((State *)op)->entry);
}

static int
state_set_entry(PyObject *op, PyObject *value, void *closure)
{
    State *self = (State *)op;
    if (value == NULL || value == Py_None) {
        Py_CLEAR(self->entry);
        return 0;
    }
    if (!PyObject_TypeCheck(value, &Gate_Type) || ((Gate *)value)->depth != 0) {
        PyErr_SetString(PyExc_TypeError, "entry must be a Gate of depth 0, or None");
        return -1;
    }
    Py_XSETREF(self->entry, Py_NewRef(value));
    return 0;
}

static PyGetSetDef state_getset[] = {
    {"version", state_get_version, state_set_version, "The newest rewritten code, or None.", NULL},
    {"entry", state_get_entry, state_set_entry, "The gate tried before there is a frame.", NULL},
    {NULL},
};

static PyMemberDef state_members[] = {
    {"code", T_OBJECT, offsetof(State, code), READONLY, "The original code object."},
    {"n_args", T_INT, offsetof(State, n_args), READONLY, "Argument slots of all kinds."},
    {"n_localsplus", T_INT, offsetof(State, n_localsplus), READONLY, "Slots of a frame."},
    {"n_free", T_INT, offsetof(State, n_free), READONLY, "Free variables, the last slots."},
    {NULL},
};

PyTypeObject State_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.State",
    .tp_doc = PyDoc_STR("State(code)\n--\n\nHow one code object is compiled under one compiler."),
    .tp_basicsize = sizeof(State),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_init = state_init,
    .tp_traverse = state_traverse,
    .tp_clear = state_clear,
    .tp_dealloc = state_dealloc,
    .tp_weaklistoffset = offsetof(State, weakrefs),
    .tp_getset = state_getset,
    .tp_members = state_members,
};
