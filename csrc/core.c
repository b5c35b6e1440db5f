/* The module `segue._core`. */
#include "memory.h"
#include "plan.h"
#include "pool.h"
#include "runtime.h"

/* ---- sentinels */

typedef struct {
    PyObject_HEAD
    const char *name;
} Sentinel;

PyObject *sentinel_null, *sentinel_transfer, *sentinel_disable, *sentinel_undecided;

static PyObject *
sentinel_repr(PyObject *op)
{
    return PyUnicode_FromString(((Sentinel *)op)->name);
}

static PyTypeObject Sentinel_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.Sentinel",
    .tp_doc = PyDoc_STR("A value that stands for something other than itself."),
    .tp_basicsize = sizeof(Sentinel),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_repr = sentinel_repr,
};

static int
add_sentinels(PyObject *module)
{
    const struct {
        PyObject **place;
        const char *name;
    } sentinels[] = {
        {&sentinel_null, "NULL"},
        {&sentinel_transfer, "TRANSFER"},
        {&sentinel_disable, "DISABLE"},
        {&sentinel_undecided, "UNDECIDED"},
    };
    for (size_t i = 0; i < sizeof sentinels / sizeof sentinels[0]; i++) {
        Sentinel *sentinel = PyObject_New(Sentinel, &Sentinel_Type);
        if (sentinel == NULL) {
            return -1;
        }
        sentinel->name = sentinels[i].name;
        *sentinels[i].place = (PyObject *)sentinel;
        if (PyModule_AddObjectRef(module, sentinel->name, (PyObject *)sentinel) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- functions */

static PyObject *
core_call_disabled(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (n < 1) {
        PyErr_SetString(PyExc_TypeError, "call_disabled() needs a callable");
        return NULL;
    }
    return call_disabled(args[0], args + 1, n - 1, kwnames);
}

static PyObject *
core_make_generator(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    if (n < 1 || !PyFunction_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "make_generator() needs a generator function");
        return NULL;
    }
    return call_generator_function(args[0], args + 1, n - 1, kwnames);
}

static PyObject *
core_current_compiler(PyObject *module, PyObject *ignored)
{
    return Py_NewRef(current.compiler == NULL ? Py_None : current.compiler);
}

static PyObject *
core_is_compiling_frames(PyObject *module, PyObject *ignored)
{
    return PyBool_FromLong(current.compiler != NULL && !paused);
}

static PyObject *
core_hook_depth(PyObject *module, PyObject *ignored)
{
    return PyLong_FromLong(evaluator_holds());
}

static PyObject *
core_global_state(PyObject *module, PyObject *ignored)
{
    return torch_state_token();
}

static PyObject *
core_set_mode_depth(PyObject *module, PyObject *args)
{
    Py_ssize_t function_modes, dispatch_modes;
    if (!PyArg_ParseTuple(args, "nn:set_mode_depth", &function_modes, &dispatch_modes)) {
        return NULL;
    }
    current.function_modes = function_modes;
    current.dispatch_modes = dispatch_modes;
    Py_RETURN_NONE;
}

static PyObject *
core_set_paused(PyObject *module, PyObject *value)
{
    int truth = PyObject_IsTrue(value);
    if (truth < 0) {
        return NULL;
    }
    bool before = paused;
    paused = truth;
    return PyBool_FromLong(before);
}

static PyObject *
core_forget(PyObject *module, PyObject *ignored)
{
    answers_epoch++;
    Py_RETURN_NONE;
}

static PyObject *
core_setup_torch(PyObject *module, PyObject *torch)
{
    if (torch_state_setup(torch) < 0 || tensor_setup(torch) < 0 || memory_setup(torch) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
core_set_pool_limit(PyObject *module, PyObject *value)
{
    size_t limit = PyLong_AsSize_t(value);
    if (limit == (size_t)-1 && PyErr_Occurred()) {
        return NULL;
    }
    return PyLong_FromSize_t(pool_set_limit(limit));
}

static PyObject *
core_trim_pool(PyObject *module, PyObject *ignored)
{
    return PyLong_FromSize_t(pool_trim());
}

static PyMethodDef methods[] = {
    {"call_disabled", (PyCFunction)(void (*)(void))core_call_disabled,
     METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("call_disabled(callable, /, *args, **kwargs)\n--\n\nCall with compiling off.")},
    {"make_generator", (PyCFunction)(void (*)(void))core_make_generator,
     METH_FASTCALL | METH_KEYWORDS,
     PyDoc_STR("make_generator(function, /, *args, **kwargs)\n--\n\nCall a generator function, "
               "from a segment: the generator is compiled like one that the program makes.")},
    {"current_compiler", core_current_compiler, METH_NOARGS,
     PyDoc_STR("current_compiler()\n--\n\nThe compiler of this thread, None if it is off.")},
    {"is_compiling_frames", core_is_compiling_frames, METH_NOARGS,
     PyDoc_STR("is_compiling_frames()\n--\n\nWhether calls on this thread are compiled now.")},
    {"hook_depth", core_hook_depth, METH_NOARGS,
     PyDoc_STR("hook_depth()\n--\n\nHow many running calls hold the frame evaluator.")},
    {"global_state", core_global_state, METH_NOARGS,
     PyDoc_STR("global_state()\n--\n\ntorch's thread-wide state, for the step of that name.")},
    {"set_mode_depth", core_set_mode_depth, METH_VARARGS,
     PyDoc_STR("set_mode_depth(function_modes, dispatch_modes)\n--\n\nHow many modes the tool "
               "itself has pushed on this thread.")},
    {"set_paused", core_set_paused, METH_O,
     PyDoc_STR("set_paused(paused, /)\n--\n\nStop or resume compiling in the whole process; "
               "returns what was before.")},
    {"forget_answers", core_forget, METH_NOARGS,
     PyDoc_STR("forget_answers()\n--\n\nAsk every compiler about every code object again.")},
    {"setup_torch", core_setup_torch, METH_O,
     PyDoc_STR("setup_torch(torch, /)\n--\n\nLook up what the core needs of torch; once, before "
               "any tensor step is built.")},
    {"set_pool_limit", core_set_pool_limit, METH_O,
     PyDoc_STR("set_pool_limit(bytes, /)\n--\n\nHow much memory of tensors that are gone is kept "
               "for others; returns what it was.")},
    {"trim_pool", core_trim_pool, METH_NOARGS,
     PyDoc_STR("trim_pool()\n--\n\nGive the memory that is kept back; returns its bytes.")},
    {NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "segue._core",
    .m_doc = PyDoc_STR("The C core: frames, gates, and the programs that segments are."),
    .m_size = -1,
    .m_methods = methods,
};

static int
add_types(PyObject *module)
{
    PyTypeObject *const types[] = {
        &State_Type, &Gate_Type,  &Crossing_Type,   &Landing_Type,  &Segment_Type,
        &Meter_Type, &Entry_Type, &BoundEntry_Type, &Disabled_Type, &Continuation_Type,
        &Plan_Type,  &Register_Type,
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (PyModule_AddType(module, types[i]) < 0) {
            return -1;
        }
    }
    return PyType_Ready(&Sentinel_Type);
}

static int
add_fact_names(PyObject *module)
{
    PyObject *names = torch_state_fact_names();
    int failed = PyModule_AddObjectRef(module, "STATE_FACTS", names);
    Py_XDECREF(names);
    return failed;
}

PyMODINIT_FUNC
PyInit__core(void)
{
    PyObject *module = PyModule_Create(&module_def);
    if (module == NULL) {
        return NULL;
    }
    pool_setup();
    if (add_types(module) < 0 || add_sentinels(module) < 0 || runtime_setup() < 0 ||
        answers_setup() < 0 || gate_setup() < 0 || segment_setup() < 0 ||
        add_fact_names(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
