/* torch's thread-wide state as a tuple of facts that a segment can depend on. torch is reached by
   its own Python functions; those that take no arguments are called through their C entry. */
#include "runtime.h"

typedef struct {
    const char *name;
    const char *path; /* from the torch module */
    PyCFunction entry;
    PyObject *self, *function;
} Fact;

static Fact function_modes = {.name = "function modes", .path = "_C._len_torch_function_stack"};
static Fact dispatch_modes = {.name = "dispatch modes", .path = "_C._len_torch_dispatch_stack"};
static Fact tracing_state = {.name = "tracing", .path = "_C._get_tracing_state"};
static Fact any_autocast = {.name = "autocast", .path = "_C._is_any_autocast_enabled"};

static Fact facts[] = {
    {.name = "grad mode", .path = "is_grad_enabled"},
    {.name = "inference mode", .path = "is_inference_mode_enabled"},
    {.name = "torch function", .path = "_C._is_torch_function_enabled"},
    {.name = "default dtype", .path = "get_default_dtype"},
    {.name = "deterministic algorithms", .path = "_C._get_deterministic_algorithms"},
    {.name = "deterministic warnings", .path = "_C._get_deterministic_algorithms_warn_only"},
};

enum { N_MODES = 2, N_FACTS = sizeof facts / sizeof facts[0], N_TOKEN = N_MODES + N_FACTS + 1 };

static bool is_set_up;
static PyObject *autocast_devices; /* tuple of device types that autocast knows */
static PyObject *is_autocast_enabled, *get_autocast_dtype, *is_autocast_cache_enabled;

static PyObject *
ask(const Fact *fact)
{
    return fact->entry != NULL ? fact->entry(fact->self, NULL)
                               : PyObject_CallNoArgs(fact->function);
}

static int
ask_number(const Fact *fact, Py_ssize_t *number)
{
    PyObject *answer = ask(fact);
    *number = answer == NULL ? -1 : PyLong_AsSsize_t(answer);
    Py_XDECREF(answer);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

int
torch_state_measure_modes(Site *site)
{
    if (!is_set_up) {
        return 0;
    }
    if (ask_number(&function_modes, &site->function_modes) < 0 ||
        ask_number(&dispatch_modes, &site->dispatch_modes) < 0) {
        return -1;
    }
    PyObject *state = ask(&tracing_state);
    if (state == NULL) {
        return -1;
    }
    site->is_traced = state != Py_None;
    Py_DECREF(state);
    return 0;
}

/* ---- autocast */

/* (device type, dtype) of one device type for which autocast is on, None for another. */
static PyObject *
autocast_of(PyObject *device)
{
    PyObject *enabled = PyObject_CallOneArg(is_autocast_enabled, device);
    if (enabled == NULL || enabled != Py_True) {
        Py_XDECREF(enabled);
        return enabled == NULL ? NULL : Py_NewRef(Py_None);
    }
    Py_DECREF(enabled);
    PyObject *dtype = PyObject_CallOneArg(get_autocast_dtype, device);
    return dtype == NULL ? NULL : Py_BuildValue("(ON)", device, dtype);
}

/* False, or a tuple of what autocast does. */
static PyObject *
autocast_fact(void)
{
    PyObject *any = ask(&any_autocast);
    if (any != Py_True) {
        return any;
    }
    Py_DECREF(any);
    Py_ssize_t n = PyTuple_GET_SIZE(autocast_devices);
    PyObject *tuple = PyTuple_New(n + 1);
    for (Py_ssize_t i = 0; tuple != NULL && i <= n; i++) {
        PyObject *item = i < n ? autocast_of(PyTuple_GET_ITEM(autocast_devices, i))
                               : PyObject_CallNoArgs(is_autocast_cache_enabled);
        if (item == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, i, item);
    }
    return tuple;
}

/* ---- tokens */

PyObject *
torch_state_token(void)
{
    if (!is_set_up) {
        return PyTuple_New(0);
    }
    PyObject *token = PyTuple_New(N_TOKEN);
    for (int i = 0; token != NULL && i < N_TOKEN; i++) {
        PyObject *item = i == 0            ? ask(&function_modes)
                         : i == 1          ? ask(&dispatch_modes)
                         : i < N_TOKEN - 1 ? ask(&facts[i - N_MODES])
                                           : autocast_fact();
        if (item == NULL) {
            Py_CLEAR(token);
            break;
        }
        PyTuple_SET_ITEM(token, i, item);
    }
    return token;
}

PyObject *
torch_state_fact_names(void)
{
    PyObject *names = PyTuple_New(N_TOKEN);
    for (int i = 0; names != NULL && i < N_TOKEN; i++) {
        const char *name = i == 0            ? function_modes.name
                           : i == 1          ? dispatch_modes.name
                           : i < N_TOKEN - 1 ? facts[i - N_MODES].name
                                             : any_autocast.name;
        PyObject *item = PyUnicode_FromString(name);
        if (item == NULL) {
            Py_CLEAR(names);
            break;
        }
        PyTuple_SET_ITEM(names, i, item);
    }
    return names;
}

/* Whether an answer (stolen) is what the token says. */
static int
agrees(PyObject *answer, PyObject *expected)
{
    if (answer == NULL) {
        return -1;
    }
    int same = answer == expected ? 1 : PyObject_RichCompareBool(answer, expected, Py_EQ);
    Py_DECREF(answer);
    return same;
}

int
torch_state_equals(PyObject *token, const Site *site)
{
    if (PyTuple_GET_SIZE(token) != (is_set_up ? N_TOKEN : 0)) {
        return 0;
    }
    if (!is_set_up) {
        return 1;
    }
    if (PyLong_AsSsize_t(PyTuple_GET_ITEM(token, 0)) != site->function_modes ||
        PyLong_AsSsize_t(PyTuple_GET_ITEM(token, 1)) != site->dispatch_modes) {
        return PyErr_Occurred() ? -1 : 0;
    }
    for (int i = 0; i < N_FACTS; i++) {
        int same = agrees(ask(&facts[i]), PyTuple_GET_ITEM(token, i + N_MODES));
        if (same <= 0) {
            return same;
        }
    }
    return agrees(autocast_fact(), PyTuple_GET_ITEM(token, N_TOKEN - 1));
}

/* ---- setup */

/* The attribute at a dotted path. */
static PyObject *
resolve(PyObject *torch, const char *path)
{
    PyObject *object = Py_NewRef(torch);
    while (object != NULL && *path) {
        const char *end = strchr(path, '.');
        size_t length = end == NULL ? strlen(path) : (size_t)(end - path);
        PyObject *name = PyUnicode_FromStringAndSize(path, length);
        PyObject *next = name == NULL ? NULL : PyObject_GetAttr(object, name);
        Py_XDECREF(name);
        Py_SETREF(object, next);
        path += length + (end != NULL);
    }
    return object;
}

static int
resolve_fact(PyObject *torch, Fact *fact)
{
    PyObject *function = resolve(torch, fact->path);
    if (function == NULL) {
        return -1;
    }
    Py_XSETREF(fact->function, function);
    fact->entry = NULL;
    if (PyCFunction_CheckExact(function) && PyCFunction_GET_FLAGS(function) == METH_NOARGS) {
        fact->entry = PyCFunction_GET_FUNCTION(function);
        fact->self = PyCFunction_GET_SELF(function);
    }
    return 0;
}

/* Of the device types that can have autocast, those that this torch has it for. */
static PyObject *
find_autocast_devices(PyObject *torch)
{
    static const char *const types[] = {"cpu", "cuda", "xpu", "mps", "hpu", "xla", "mtia", "maia"};
    PyObject *is_available = resolve(torch, "amp.autocast_mode.is_autocast_available");
    PyObject *found = PyList_New(0);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        PyObject *type = PyUnicode_InternFromString(types[i]);
        PyObject *answer = NULL;
        if (type != NULL && is_available != NULL && found != NULL) {
            answer = PyObject_CallOneArg(is_available, type);
        }
        bool failed = answer == NULL || (answer == Py_True && PyList_Append(found, type) < 0);
        Py_XDECREF(answer);
        Py_XDECREF(type);
        if (failed) {
            Py_CLEAR(found);
            break;
        }
    }
    PyObject *tuple = found == NULL ? NULL : PyList_AsTuple(found);
    Py_XDECREF(found);
    Py_XDECREF(is_available);
    return tuple;
}

int
torch_state_setup(PyObject *torch)
{
    Fact *all[] = {&function_modes, &dispatch_modes, &tracing_state, &any_autocast};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (resolve_fact(torch, all[i]) < 0) {
            return -1;
        }
    }
    for (int i = 0; i < N_FACTS; i++) {
        if (resolve_fact(torch, &facts[i]) < 0) {
            return -1;
        }
    }
    const struct {
        PyObject **place;
        const char *path;
    } functions[] = {
        {&is_autocast_enabled, "is_autocast_enabled"},
        {&get_autocast_dtype, "get_autocast_dtype"},
        {&is_autocast_cache_enabled, "is_autocast_cache_enabled"},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        PyObject *function = resolve(torch, functions[i].path);
        if (function == NULL) {
            return -1;
        }
        Py_XSETREF(*functions[i].place, function);
    }
    PyObject *devices = find_autocast_devices(torch);
    if (devices == NULL) {
        return -1;
    }
    Py_XSETREF(autocast_devices, devices);
    is_set_up = true;
    return 0;
}
