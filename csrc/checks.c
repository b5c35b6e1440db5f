/* The steps that check a fact and write no register, but for tensors (tensor.c). */
#include "segment.h"

static StepOutcome
matches(bool fact)
{
    return fact ? STEP_OK : STEP_MISMATCH;
}

/* For C API results: 1 yes, 0 no, -1 an exception. */
static StepOutcome
matches_answer(int answer)
{
    return answer < 0 ? STEP_RAISED : matches(answer);
}

static StepOutcome
check_cell_empty(Run *run, Step *step)
{
    PyObject *cell = run->registers[step->a];
    return matches(PyCell_Check(cell) && PyCell_GET(cell) == NULL);
}

static StepOutcome
check_dict_absent(Run *run, Step *step)
{
    PyObject *dict = run->registers[step->a];
    if (!PyDict_Check(dict)) {
        return STEP_MISMATCH;
    }
    int found = PyDict_Contains(dict, step->x);
    return found < 0 ? STEP_RAISED : matches(!found);
}

static StepOutcome
check_is(Run *run, Step *step)
{
    return matches(run->registers[step->a] == run->registers[step->b]);
}

static StepOutcome
check_is_not(Run *run, Step *step)
{
    return matches(run->registers[step->a] != run->registers[step->b]);
}

static StepOutcome
check_type_is(Run *run, Step *step)
{
    return matches((PyObject *)Py_TYPE(run->registers[step->a]) == step->x);
}

static int
prepare_type_is(Step *step, PyObject *tuple)
{
    return PyType_Check(step->x) ? 0 : -1;
}

static StepOutcome
check_true(Run *run, Step *step)
{
    return matches(run->registers[step->a] == Py_True);
}

static StepOutcome
check_false(Run *run, Step *step)
{
    return matches(run->registers[step->a] == Py_False);
}

/* ---- class_state */

/* The version at which the names were last found unchanged is kept in `data`. */
static StepOutcome
check_class_state(Run *run, Step *step)
{
    PyTypeObject *type = (PyTypeObject *)step->x;
    unsigned int *verified = step->data;
    unsigned int version = type_version(type);
    if (version != 0 && version == *verified) {
        return STEP_OK;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(step->y); i++) {
        PyObject *pair = PyTuple_GET_ITEM(step->y, i);
        PyObject *expected = PyTuple_GET_ITEM(pair, 1);
        PyObject *found = _PyType_Lookup(type, PyTuple_GET_ITEM(pair, 0));
        if (found != (expected == sentinel_null ? NULL : expected)) {
            return PyErr_Occurred() ? STEP_RAISED : STEP_MISMATCH;
        }
    }
    *verified = type_version(type);
    return STEP_OK;
}

static int
prepare_class_state(Step *step, PyObject *tuple)
{
    if (!PyType_Check(step->x) || !PyTuple_CheckExact(step->y)) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(step->y); i++) {
        PyObject *pair = PyTuple_GET_ITEM(step->y, i);
        if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2 ||
            !PyUnicode_CheckExact(PyTuple_GET_ITEM(pair, 0))) {
            return -1;
        }
    }
    step->data = PyMem_Calloc(1, sizeof(unsigned int));
    if (step->data == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* ---- equals */

static bool
same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static int same_constant(PyObject *a, PyObject *b);

static int
same_tuple(PyObject *a, PyObject *b)
{
    if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); i++) {
        int same = same_constant(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i));
        if (same <= 0) {
            return same;
        }
    }
    return 1;
}

/* Sets find 1.0 where they hold 1, so members are compared one by one; constants are small. */
static int
same_frozenset(PyObject *a, PyObject *b)
{
    PyObject *member, *candidate;
    Py_hash_t hash;
    Py_ssize_t position = 0;
    if (PySet_GET_SIZE(a) != PySet_GET_SIZE(b)) {
        return 0;
    }
    while (_PySet_NextEntry(b, &position, &member, &hash)) {
        Py_ssize_t other = 0;
        int same = 0;
        while (same == 0 && _PySet_NextEntry(a, &other, &candidate, &hash)) {
            same = same_constant(candidate, member);
        }
        if (same <= 0) {
            return same;
        }
    }
    return 1;
}

/* Whether `a` is of exactly the type of the constant `b` and equal to it. No user code runs. */
static int
same_constant(PyObject *a, PyObject *b)
{
    if (a == b) {
        return 1;
    }
    if (Py_TYPE(a) != Py_TYPE(b)) {
        return 0;
    }
    if (PyLong_CheckExact(b) || PyUnicode_CheckExact(b) || PyBytes_CheckExact(b)) {
        return PyObject_RichCompareBool(a, b, Py_EQ);
    }
    if (PyFloat_CheckExact(b)) {
        return same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
    }
    if (PyComplex_CheckExact(b)) {
        Py_complex x = ((PyComplexObject *)a)->cval, y = ((PyComplexObject *)b)->cval;
        return same_bits(x.real, y.real) && same_bits(x.imag, y.imag);
    }
    if (PyTuple_CheckExact(b)) {
        return same_tuple(a, b);
    }
    return PyFrozenSet_CheckExact(b) ? same_frozenset(a, b) : 0;
}

static bool
is_constant(PyObject *object)
{
    if (object == Py_None || object == Py_Ellipsis || PyBool_Check(object) ||
        PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyComplex_CheckExact(object) ||
        PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) || PyCode_Check(object)) {
        return true;
    }
    if (PyTuple_CheckExact(object)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
            if (!is_constant(PyTuple_GET_ITEM(object, i))) {
                return false;
            }
        }
        return true;
    }
    if (PyFrozenSet_CheckExact(object)) {
        PyObject *member;
        Py_hash_t hash;
        Py_ssize_t position = 0;
        while (_PySet_NextEntry(object, &position, &member, &hash)) {
            if (!is_constant(member)) {
                return false;
            }
        }
        return true;
    }
    return false;
}

static StepOutcome
check_equals(Run *run, Step *step)
{
    return matches_answer(same_constant(run->registers[step->a], step->x));
}

static int
prepare_equals(Step *step, PyObject *tuple)
{
    return is_constant(step->x) ? 0 : -1;
}

/* ---- containers */

static StepOutcome
check_length(Run *run, Step *step)
{
    PyObject *object = run->registers[step->a];
    Py_ssize_t length = -1;
    if (PyTuple_Check(object) || PyList_Check(object)) {
        length = PySequence_Fast_GET_SIZE(object);
    }
    else if (PyDict_Check(object)) {
        length = PyDict_GET_SIZE(object);
    }
    else if (PyAnySet_Check(object)) {
        length = PySet_GET_SIZE(object);
    }
    return matches(length == step->b);
}

static int
same_key(PyObject *found, PyObject *expected)
{
    if (found == expected) {
        return 1;
    }
    bool is_plain = PyUnicode_CheckExact(expected) || PyLong_CheckExact(expected);
    return is_plain && Py_IS_TYPE(found, Py_TYPE(expected))
               ? PyObject_RichCompareBool(found, expected, Py_EQ)
               : 0;
}

/* An OrderedDict has an order of its own, which only its iterator tells. */
static StepOutcome
check_keys_by_iterator(PyObject *dict, PyObject *keys)
{
    PyObject *iterator = PyObject_GetIter(dict);
    int same = iterator == NULL ? -1 : 1;
    for (Py_ssize_t i = 0; same > 0 && i < PyTuple_GET_SIZE(keys); i++) {
        PyObject *key = PyIter_Next(iterator);
        same = key != NULL ? same_key(key, PyTuple_GET_ITEM(keys, i)) : PyErr_Occurred() ? -1 : 0;
        Py_XDECREF(key);
    }
    Py_XDECREF(iterator);
    return matches_answer(same);
}

static StepOutcome
check_dict_keys(Run *run, Step *step)
{
    PyObject *dict = run->registers[step->a], *keys = step->x;
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) {
        return STEP_MISMATCH;
    }
    if (PyODict_Check(dict)) {
        return check_keys_by_iterator(dict, keys);
    }
    PyObject *key;
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; PyDict_Next(dict, &position, &key, NULL); i++) {
        int same = same_key(key, PyTuple_GET_ITEM(keys, i));
        if (same <= 0) {
            return matches_answer(same);
        }
    }
    return STEP_OK;
}

static int
prepare_dict_keys(Step *step, PyObject *tuple)
{
    return PyTuple_CheckExact(step->x) ? 0 : -1;
}

/* ---- anything else */

static StepOutcome
check_predicate(Run *run, Step *step)
{
    PyObject *small[SMALL];
    for (int i = 0; i < step->n_args; i++) {
        small[i] = run->registers[step->args[i]];
    }
    PyObject *answer = PyObject_Vectorcall(step->x, small, step->n_args, NULL);
    if (answer == NULL) {
        return STEP_RAISED;
    }
    int truth = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return matches_answer(truth);
}

static int
prepare_predicate(Step *step, PyObject *tuple)
{
    return PyCallable_Check(step->x) && step->n_args <= SMALL ? 0 : -1;
}

static StepOutcome
check_global_state(Run *run, Step *step)
{
    return matches_answer(torch_state_equals(step->x, run->site));
}

static int
prepare_global_state(Step *step, PyObject *tuple)
{
    return PyTuple_CheckExact(step->x) ? 0 : -1;
}

const StepKind check_steps[] = {
    {"cell_empty", "r", check_cell_empty, NULL, BEFORE_COMMIT},
    {"dict_absent", "rx", check_dict_absent, NULL, BEFORE_COMMIT},
    {"is", "rr", check_is, NULL, BEFORE_COMMIT},
    {"is_not", "rr", check_is_not, NULL, BEFORE_COMMIT},
    {"type_is", "rx", check_type_is, prepare_type_is, BEFORE_COMMIT},
    {"class_state", "xx", check_class_state, prepare_class_state, BEFORE_COMMIT},
    {"equals", "rx", check_equals, prepare_equals, BEFORE_COMMIT},
    {"length", "ri", check_length, NULL, BEFORE_COMMIT},
    {"dict_keys", "rx", check_dict_keys, prepare_dict_keys, BEFORE_COMMIT},
    {"true", "r", check_true, NULL, BEFORE_COMMIT},
    {"false", "r", check_false, NULL, BEFORE_COMMIT},
    {"predicate", "xR", check_predicate, prepare_predicate, BEFORE_COMMIT},
    {"global_state", "x", check_global_state, prepare_global_state, BEFORE_COMMIT},
    {NULL},
};
