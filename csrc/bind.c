/* Binding arguments to a function's parameters. */
#include "runtime.h"

/* Position of a parameter that can be given by keyword, or -1. Names are interned as a rule, so
   identity is tried for all of them first. */
static Py_ssize_t
find_parameter(PyCodeObject *code, PyObject *name)
{
    Py_ssize_t end = code->co_argcount + code->co_kwonlyargcount;
    for (Py_ssize_t i = code->co_posonlyargcount; i < end; i++) {
        if (code_slot_name(code, i) == name) {
            return i;
        }
    }
    for (Py_ssize_t i = code->co_posonlyargcount; i < end; i++) {
        if (PyUnicode_Compare(code_slot_name(code, i), name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Positional arguments, and what *args and **kwargs begin with. */
static int
bind_positional(PyCodeObject *code, PyObject *const *args, Py_ssize_t n, PyObject **slots)
{
    Py_ssize_t extra = code->co_argcount + code->co_kwonlyargcount;
    Py_ssize_t direct = n < code->co_argcount ? n : code->co_argcount;
    for (Py_ssize_t i = 0; i < direct; i++) {
        slots[i] = Py_NewRef(args[i]);
    }
    if (code->co_flags & CO_VARARGS) {
        PyObject *rest = slots[extra++] = PyTuple_New(n - direct);
        if (rest == NULL) {
            return -1;
        }
        for (Py_ssize_t i = direct; i < n; i++) {
            PyTuple_SET_ITEM(rest, i - direct, Py_NewRef(args[i]));
        }
    }
    else if (direct < n) {
        return 0;
    }
    if (code->co_flags & CO_VARKEYWORDS) {
        slots[extra] = PyDict_New();
        return slots[extra] == NULL ? -1 : 1;
    }
    return 1;
}

static int
bind_keywords(PyCodeObject *code, PyObject *const *values, PyObject *names, PyObject **slots)
{
    PyObject *rest =
        code->co_flags & CO_VARKEYWORDS ? slots[code_argument_slots(code) - 1] : NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        PyObject *name = PyTuple_GET_ITEM(names, i);
        if (!PyUnicode_CheckExact(name)) {
            return 0;
        }
        Py_ssize_t at = find_parameter(code, name);
        if (at < 0 && rest == NULL) {
            return 0;
        }
        if (at < 0) {
            if (PyDict_SetItem(rest, name, values[i]) < 0) {
                return -1;
            }
        }
        else if (slots[at] != NULL) {
            return 0;
        }
        else {
            slots[at] = Py_NewRef(values[i]);
        }
    }
    return 1;
}

static int
bind_defaults(PyFunctionObject *function, PyCodeObject *code, PyObject **slots)
{
    PyObject *defaults = function->func_defaults, *named = function->func_kwdefaults;
    Py_ssize_t n_defaults = defaults == NULL ? 0 : PyTuple_GET_SIZE(defaults);
    Py_ssize_t first = code->co_argcount - n_defaults;
    for (Py_ssize_t i = 0; i < code->co_argcount; i++) {
        if (slots[i] != NULL) {
            continue;
        }
        if (i < first) {
            return 0;
        }
        slots[i] = Py_NewRef(PyTuple_GET_ITEM(defaults, i - first));
    }
    for (Py_ssize_t i = code->co_argcount; i < code->co_argcount + code->co_kwonlyargcount; i++) {
        if (slots[i] != NULL) {
            continue;
        }
        PyObject *name = code_slot_name(code, i);
        PyObject *value = named == NULL ? NULL : PyDict_GetItemWithError(named, name);
        if (value == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
        slots[i] = Py_NewRef(value);
    }
    return 1;
}

int
bind_arguments(PyObject *op, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
               PyObject **slots)
{
    PyFunctionObject *function = (PyFunctionObject *)op;
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    int bound = bind_positional(code, args, n, slots);
    if (bound > 0 && kwnames != NULL) {
        bound = bind_keywords(code, args + n, kwnames, slots);
    }
    if (bound > 0) {
        bound = bind_defaults(function, code, slots);
    }
    for (int i = 0; bound <= 0 && i < code_argument_slots(code); i++) {
        Py_CLEAR(slots[i]);
    }
    return bound;
}
