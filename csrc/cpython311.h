/* Everything that depends on the internals of one CPython version: frames, the frame evaluator,
   data attached to code objects, type versions. Nothing else looks inside a frame. */
#ifndef SEGUE_CPYTHON311_H
#define SEGUE_CPYTHON311_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#if (PY_VERSION_HEX >> 16) != 0x030B
#error "segue's C core knows the frame layout of CPython 3.11 only"
#endif

#include <internal/pycore_frame.h>

typedef struct _PyInterpreterFrame Frame;
typedef PyObject *(*Evaluator)(PyThreadState *, Frame *, int throwflag);

/* What `co_localspluskinds` says of a slot that holds a cell object while the function runs. */
enum { SLOT_IS_CELL = 0x40, SLOT_IS_FREE = 0x80 };

/* ---- threads */

static inline PyThreadState *
this_thread(void)
{
    return PyThreadState_Get();
}

/* Whether a tracing or profiling function is in force where the thread is now, or runs itself. */
static inline bool
is_tracing(PyThreadState *ts)
{
    return ts->cframe->use_tracing != 0 || ts->tracing != 0;
}

/* Whether the exception that the thread handles is not that of the innermost generator, but of the
   code that resumed it. */
static inline bool
is_handling_outside(PyThreadState *ts)
{
    PyObject *handled = _PyErr_GetTopmostException(ts)->exc_value;
    return handled != NULL && handled != Py_None && handled != ts->exc_info->exc_value;
}

/* ---- frames */

/* The Python frame that called the C function which is running. */
static inline Frame *
running_frame(PyThreadState *ts)
{
    return ts->cframe->current_frame;
}

static inline PyCodeObject *
frame_code(Frame *frame)
{
    return frame->f_code;
}

static inline PyObject *
frame_function(Frame *frame)
{
    return (PyObject *)frame->f_func;
}

static inline PyObject **
frame_locals(Frame *frame)
{
    return frame->localsplus;
}

/* The bottom of the value stack. A running frame does not record its depth: the caller knows it. */
static inline PyObject **
frame_stack(Frame *frame)
{
    return _PyFrame_Stackbase(frame);
}

/* Whether a generator object holds the frame: it may be suspended, and stays where it is. */
static inline bool
frame_is_generator(Frame *frame)
{
    return frame->owner == FRAME_OWNED_BY_GENERATOR;
}

/* Let a generator's frame, which has just been suspended with an empty stack, go on in another
   version of its code, right after the prologue. 0, or -1 with an exception: it does not fit. */
int generator_move(Frame *frame, PyCodeObject *code);

/* ---- code objects */

static inline int
code_argument_slots(PyCodeObject *code)
{
    return code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0) +
           ((code->co_flags & CO_VARKEYWORDS) != 0);
}

static inline bool
code_slot_is_cell(PyCodeObject *code, Py_ssize_t slot)
{
    return (PyBytes_AS_STRING(code->co_localspluskinds)[slot] & (SLOT_IS_CELL | SLOT_IS_FREE)) != 0;
}

static inline PyObject *
code_slot_name(PyCodeObject *code, Py_ssize_t slot)
{
    return PyTuple_GET_ITEM(code->co_localsplusnames, slot);
}

/* Whether a call of the code runs it to its end: no generator, coroutine, module or class body. */
static inline bool
code_is_plain_function(PyCodeObject *code)
{
    const int required = CO_OPTIMIZED | CO_NEWLOCALS;
    const int excluded =
        CO_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR;
    return (code->co_flags & (required | excluded)) == required;
}

/* Whether a call of the code makes a generator, and no coroutine of any kind. */
static inline bool
code_is_generator(PyCodeObject *code)
{
    const int required = CO_OPTIMIZED | CO_NEWLOCALS | CO_GENERATOR;
    const int excluded = CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR;
    return (code->co_flags & (required | excluded)) == required;
}

/* Reserve the slot for our data on code objects; `destroy` gets what is there when one dies. */
int code_data_setup(void (*destroy)(void *));
void *code_data(PyCodeObject *code);
int set_code_data(PyCodeObject *code, void *data);

/* ---- the frame evaluator (PEP 523) */

static inline Evaluator
installed_evaluator(PyThreadState *ts)
{
    return _PyInterpreterState_GetEvalFrameFunc(ts->interp);
}

static inline void
install_evaluator(PyThreadState *ts, Evaluator evaluator)
{
    _PyInterpreterState_SetEvalFrameFunc(ts->interp, evaluator);
}

static inline PyObject *
evaluate_frame(PyThreadState *ts, Frame *frame, int throwflag)
{
    return _PyEval_EvalFrameDefault(ts, frame, throwflag);
}

/* ---- functions */

/* A function that runs `code` in place of `original`: same globals, closure, names and module. */
PyObject *function_with_code(PyObject *original, PyCodeObject *code);

/* ---- types */

/* A number that changes whenever the type or one of its bases does; 0 while there is none. */
static inline unsigned int
type_version(PyTypeObject *type)
{
    return PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG) ? type->tp_version_tag : 0;
}

#endif
