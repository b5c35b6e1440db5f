#include "cpython311.h"

#include <opcode.h>

static Py_ssize_t data_index = -1;

int
code_data_setup(void (*destroy)(void *))
{
    if (data_index < 0) {
        data_index = _PyEval_RequestCodeExtraIndex(destroy);
    }
    if (data_index < 0) {
        PyErr_SetString(PyExc_RuntimeError, "no slot for data on code objects is left");
        return -1;
    }
    return 0;
}

void *
code_data(PyCodeObject *code)
{
    void *data = NULL;
    if (_PyCode_GetExtra((PyObject *)code, data_index, &data) < 0) {
        PyErr_Clear();
        return NULL;
    }
    return data;
}

int
set_code_data(PyCodeObject *code, void *data)
{
    return _PyCode_SetExtra((PyObject *)code, data_index, data);
}

/* No instruction of a prologue is followed by inline caches. */
static _Py_CODEUNIT *
end_of_prologue(PyCodeObject *code)
{
    _Py_CODEUNIT *unit = _PyCode_CODE(code);
    while (_Py_OPCODE(*unit) != RESUME && _Py_OPCODE(*unit) != RESUME_QUICK) {
        unit++;
    }
    return unit;
}

int
generator_move(Frame *frame, PyCodeObject *code)
{
    if (code == NULL || code->co_stacksize > frame->f_code->co_stacksize) {
        PyErr_Format(PyExc_RuntimeError, "%S has no version that its generator can go on in",
                     frame->f_code->co_qualname);
        return -1;
    }
    PyGenObject *generator = _PyFrame_GetGenerator(frame);
    Py_INCREF(code);
    Py_SETREF(frame->f_code, code);
    Py_INCREF(code);
    Py_SETREF(generator->gi_code, code);
    frame->prev_instr = end_of_prologue(code);
    generator->gi_frame_state = FRAME_EXECUTING;
    return 0;
}

PyObject *
function_with_code(PyObject *original, PyCodeObject *code)
{
    PyFunctionObject *from = (PyFunctionObject *)original;
    PyFunctionObject *function = (PyFunctionObject *)PyFunction_NewWithQualName(
        (PyObject *)code, from->func_globals, from->func_qualname);
    if (function == NULL) {
        return NULL;
    }
    Py_INCREF(from->func_builtins);
    Py_SETREF(function->func_builtins, from->func_builtins);
    Py_INCREF(from->func_name);
    Py_SETREF(function->func_name, from->func_name);
    Py_XINCREF(from->func_module);
    Py_XSETREF(function->func_module, from->func_module);
    Py_XINCREF(from->func_closure);
    Py_XSETREF(function->func_closure, from->func_closure);
    return (PyObject *)function;
}
