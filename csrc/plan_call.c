/* The step that calls a Python callable, and the registers among its arguments. */
#include "plan.h"

/* An argument: a constant, a register, or a list or tuple that has registers somewhere in it; the
   items of a sequence come right after it. */
typedef struct {
    PyObject *constant; /* or NULL */
    int reg;
    int n_items; /* -1: no sequence */
    bool is_list;
} Argument;

typedef struct {
    PyObject *callable, *kwnames; /* kwnames NULL: none */
    Argument *arguments;
    PyObject **values; /* for each of n_values arguments, owned while the call runs; one spare */
    int n_values, n_results;
    int *results;     /* registers, -1: dropped */
    bool is_unpacked; /* the result is a sequence of n_results */
} Call;

/* ---- building values */

/* The value of an argument and, in `*next`, the one after it; NULL with an exception. */
static PyObject *
make_value(const Plan *plan, const Argument *argument, const Argument **next)
{
    *next = argument + 1;
    if (argument->constant != NULL) {
        return Py_NewRef(argument->constant);
    }
    if (argument->n_items < 0) {
        return Py_NewRef(plan->registers[argument->reg]);
    }
    int n = argument->n_items;
    PyObject *sequence = argument->is_list ? PyList_New(n) : PyTuple_New(n);
    for (int i = 0; sequence != NULL && i < n; i++) {
        PyObject *item = make_value(plan, *next, next);
        if (item == NULL) {
            Py_CLEAR(sequence);
        }
        else if (argument->is_list) {
            PyList_SET_ITEM(sequence, i, item);
        }
        else {
            PyTuple_SET_ITEM(sequence, i, item);
        }
    }
    return sequence;
}

static PyObject *
call_function(const Plan *plan, const Call *call)
{
    PyObject **values = call->values + 1; /* a callee may use the place before the arguments */
    const Argument *next = call->arguments;
    int n_made = 0;
    while (n_made < call->n_values) {
        values[n_made] = make_value(plan, next, &next);
        if (values[n_made] == NULL) {
            break;
        }
        n_made++;
    }
    PyObject *result = NULL;
    if (n_made == call->n_values) {
        size_t n = n_made - (call->kwnames == NULL ? 0 : PyTuple_GET_SIZE(call->kwnames));
        result = PyObject_Vectorcall(call->callable, values, n | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                     call->kwnames);
    }
    while (n_made > 0) {
        Py_DECREF(values[--n_made]);
    }
    return result;
}

/* ---- results */

static int
unpack(Plan *plan, const Call *call, PyObject *result)
{
    bool is_list = PyList_Check(result);
    if (!is_list && !PyTuple_Check(result)) {
        PyErr_Format(PyExc_TypeError, "%R returned a %.100s, not a tuple", call->callable,
                     Py_TYPE(result)->tp_name);
        return -1;
    }
    if (PySequence_Fast_GET_SIZE(result) != call->n_results) {
        PyErr_Format(PyExc_ValueError, "%R returned %zd values, not %d", call->callable,
                     PySequence_Fast_GET_SIZE(result), call->n_results);
        return -1;
    }
    for (int i = 0; i < call->n_results; i++) {
        if (call->results[i] >= 0) {
            PyObject *item = PySequence_Fast_GET_ITEM(result, i);
            Py_XSETREF(plan->registers[call->results[i]], Py_NewRef(item));
        }
    }
    return 0;
}

PlanOutcome
plan_run_call(Plan *plan, const PlanStep *step)
{
    const Call *call = step->data;
    PyObject *result = call_function(plan, call);
    if (result == NULL) {
        return PLAN_RAISED;
    }
    if (!call->is_unpacked) {
        if (call->results[0] >= 0) {
            Py_XSETREF(plan->registers[call->results[0]], result);
        }
        else {
            Py_DECREF(result);
        }
        return PLAN_OK;
    }
    int failed = unpack(plan, call, result);
    Py_DECREF(result);
    return failed < 0 ? PLAN_RAISED : PLAN_OK;
}

/* ---- preparing */

static bool
is_sequence(PyObject *object)
{
    return PyTuple_CheckExact(object) || PyList_CheckExact(object);
}

/* Calls the operand's items; there is a register in the object or in what it consists of. */
static bool
has_register(PyObject *object)
{
    if (!is_sequence(object)) {
        return Py_IS_TYPE(object, &Register_Type);
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); i++) {
        if (has_register(PySequence_Fast_GET_ITEM(object, i))) {
            return true;
        }
    }
    return false;
}

/* How many entries an argument takes. */
static Py_ssize_t
count_entries(PyObject *object)
{
    Py_ssize_t n = 1;
    if (is_sequence(object) && has_register(object)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); i++) {
            n += count_entries(PySequence_Fast_GET_ITEM(object, i));
        }
    }
    return n;
}

static int
read_argument(PlanBuilder *builder, PyObject *object, Argument **next)
{
    Argument *argument = (*next)++;
    argument->n_items = -1;
    if (Py_IS_TYPE(object, &Register_Type)) {
        argument->reg = ((Register *)object)->index;
        if (argument->reg >= builder->plan->n_registers ||
            !builder->is_register_set[argument->reg]) {
            return plan_complain(builder, "a register is read that holds nothing");
        }
        return 0;
    }
    if (!has_register(object)) {
        argument->constant = object;
        return 0;
    }
    argument->is_list = PyList_CheckExact(object);
    argument->n_items = (int)PySequence_Fast_GET_SIZE(object);
    for (int i = 0; i < argument->n_items; i++) {
        if (read_argument(builder, PySequence_Fast_GET_ITEM(object, i), next) < 0) {
            return -1;
        }
    }
    return 0;
}

static int
read_result(PlanBuilder *builder, PyObject *object, int *reg)
{
    *reg = -1;
    return object == Py_None ? 0 : plan_set_register(builder, object, reg);
}

static int
read_results(PlanBuilder *builder, PyObject *object, Call *call)
{
    call->is_unpacked = PyTuple_CheckExact(object);
    call->n_results = call->is_unpacked ? (int)PyTuple_GET_SIZE(object) : 1;
    call->results = plan_allocate(builder->plan, call->n_results * sizeof(int));
    if (call->results == NULL) {
        return -1;
    }
    for (int i = 0; i < call->n_results; i++) {
        PyObject *item = call->is_unpacked ? PyTuple_GET_ITEM(object, i) : object;
        if (read_result(builder, item, &call->results[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

static bool
are_names(PyObject *tuple, Py_ssize_t n_most)
{
    if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) > n_most) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        if (!PyUnicode_CheckExact(PyTuple_GET_ITEM(tuple, i))) {
            return false;
        }
    }
    return true;
}

int
plan_prepare_call(PlanBuilder *builder, PlanStep *step)
{
    PyObject *callable = plan_operand(builder, 1), *args = plan_operand(builder, 2);
    PyObject *kwnames = plan_operand(builder, 3);
    if (!PyCallable_Check(callable) || !PyTuple_CheckExact(args)) {
        return plan_complain(builder, "expected a callable and a tuple of arguments");
    }
    if (kwnames != Py_None && !are_names(kwnames, PyTuple_GET_SIZE(args))) {
        return plan_complain(builder, "the names are those of the last arguments");
    }
    int n = (int)PyTuple_GET_SIZE(args);
    Py_ssize_t n_entries = 0;
    for (int i = 0; i < n; i++) {
        n_entries += count_entries(PyTuple_GET_ITEM(args, i));
    }
    Call *call = plan_allocate(builder->plan, sizeof(Call));
    Argument *next = plan_allocate(builder->plan, n_entries * sizeof(Argument));
    PyObject **values = plan_allocate(builder->plan, (n + 1) * sizeof(PyObject *));
    if (call == NULL || next == NULL || values == NULL) {
        return -1;
    }
    *call = (Call){
        .callable = callable,
        .kwnames = kwnames == Py_None || PyTuple_GET_SIZE(kwnames) == 0 ? NULL : kwnames,
        .arguments = next,
        .values = values,
        .n_values = n,
    };
    step->data = call;
    for (int i = 0; i < n; i++) {
        if (read_argument(builder, PyTuple_GET_ITEM(args, i), &next) < 0) {
            return -1;
        }
    }
    return read_results(builder, plan_operand(builder, 4), call);
}
