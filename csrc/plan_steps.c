/* The steps of plans, and the table of them. */
#include "memory.h"
#include "plan.h"

static PlanOutcome
outcome_of(int found)
{
    return found > 0 ? PLAN_OK : found == 0 ? PLAN_MISMATCH : PLAN_RAISED;
}

/* ---- arguments and fixed memory */

static PlanOutcome
run_input(Plan *plan, const PlanStep *step)
{
    return outcome_of(memory_of(plan->registers[step->reg], &plan->slots[step->slot]));
}

static int
read_argument(PlanBuilder *builder, PlanStep *step)
{
    if (plan_read_register(builder, plan_operand(builder, 1), &step->reg) < 0) {
        return -1;
    }
    if (step->reg >= builder->plan->n_args) {
        return plan_complain(builder, "there is no such argument");
    }
    return plan_set_slot(builder, plan_operand(builder, 2), &step->slot);
}

static PlanOutcome
run_double(Plan *plan, const PlanStep *step)
{
    double value = PyFloat_AsDouble(plan->registers[step->reg]);
    if (value == -1.0 && PyErr_Occurred()) {
        return PLAN_RAISED;
    }
    *(double *)step->data = value;
    return PLAN_OK;
}

static PlanOutcome
run_integer(Plan *plan, const PlanStep *step)
{
    long long value = PyLong_AsLongLong(plan->registers[step->reg]);
    if (value == -1 && PyErr_Occurred()) {
        return PLAN_RAISED;
    }
    *(int64_t *)step->data = value;
    return PLAN_OK;
}

static int
prepare_number(PlanBuilder *builder, PlanStep *step)
{
    PyObject *kind = plan_operand(builder, 3);
    bool is_text = PyUnicode_CheckExact(kind);
    if (is_text && PyUnicode_CompareWithASCIIString(kind, "d") == 0) {
        step->run = run_double;
    }
    else if (is_text && PyUnicode_CompareWithASCIIString(kind, "q") == 0) {
        step->run = run_integer;
    }
    else {
        return plan_complain(builder, "the kind is 'd' or 'q'");
    }
    if (read_argument(builder, step) < 0) {
        return -1;
    }
    step->data = plan_allocate(builder->plan, sizeof(int64_t));
    builder->plan->slots[step->slot] = step->data;
    return step->data == NULL ? -1 : 0;
}

static int
prepare_memory(PlanBuilder *builder, PlanStep *step)
{
    int64_t offset;
    void *data = NULL;
    if (plan_set_slot(builder, plan_operand(builder, 2), &step->slot) < 0 ||
        plan_read_integer(builder, plan_operand(builder, 3), &offset) < 0) {
        return -1;
    }
    int found = memory_of(plan_operand(builder, 1), &data);
    if (found <= 0) {
        return found < 0 ? -1 : plan_complain(builder, "it is no tensor in the CPU's memory");
    }
    builder->plan->slots[step->slot] = data == NULL ? NULL : (char *)data + offset;
    return 0;
}

/* ---- shapes */

static int
read_dims(PlanBuilder *builder, PyObject *tuple, int n, int64_t *dims)
{
    if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) != n) {
        return plan_complain(builder, "sizes and strides are tuples of one length");
    }
    for (int i = 0; i < n; i++) {
        if (plan_read_integer(builder, PyTuple_GET_ITEM(tuple, i), &dims[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Elements from the first to the end of the last. */
static int64_t
span_of(const Shape *shape)
{
    int64_t span = 1;
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->dims[i] == 0) {
            return 0;
        }
        span += (shape->dims[i] - 1) * shape->dims[shape->ndim + i];
    }
    return span;
}

static int32_t
torch_dtype(const DType *type)
{
    char name[64];
    PyOS_snprintf(name, sizeof name, "aoti_torch_dtype_%s", type->name);
    int32_t (*dtype)(void) = (int32_t (*)(void))torch_abi_symbol(name);
    return dtype == NULL ? -1 : dtype();
}

/* From the operands dtype, sizes, strides, the first of which is operand i. */
static Shape *
read_shape(PlanBuilder *builder, int i)
{
    PyObject *dtype = plan_operand(builder, i), *sizes = plan_operand(builder, i + 1);
    const DType *type = find_dtype(dtype);
    if (type == NULL || !PyTuple_CheckExact(sizes)) {
        if (!PyErr_Occurred()) {
            plan_complain(builder, "expected a dtype, sizes and strides");
        }
        return NULL;
    }
    int n = (int)PyTuple_GET_SIZE(sizes);
    Shape *shape = plan_allocate(builder->plan, sizeof(Shape));
    int64_t *dims = plan_allocate(builder->plan, 2 * n * sizeof(int64_t));
    if (shape == NULL || dims == NULL) {
        return NULL;
    }
    *shape = (Shape){
        .dtype = dtype,
        .sizes = sizes,
        .strides = plan_operand(builder, i + 2),
        .type = type,
        .torch_dtype = torch_dtype(type),
        .ndim = n,
        .dims = dims,
    };
    if (read_dims(builder, shape->sizes, n, dims) < 0 ||
        read_dims(builder, shape->strides, n, dims + n) < 0) {
        return NULL;
    }
    shape->n_bytes = span_of(shape) * (type->bits / 8);
    return shape;
}

/* ---- outputs */

static PlanOutcome
run_output(Plan *plan, const PlanStep *step)
{
    PyObject *tensor = memory_fresh(step->data, &plan->slots[step->slot]);
    if (tensor == NULL) {
        return PLAN_RAISED;
    }
    Py_XSETREF(plan->registers[step->reg], tensor);
    return PLAN_OK;
}

static int
prepare_output(PlanBuilder *builder, PlanStep *step)
{
    int64_t span;
    Shape *shape = read_shape(builder, 3);
    if (shape == NULL || plan_read_integer(builder, plan_operand(builder, 6), &span) < 0) {
        return -1;
    }
    if (span != span_of(shape)) {
        return plan_complain(builder, "the elements spanned are not those of sizes and strides");
    }
    step->data = shape;
    return plan_set_register(builder, plan_operand(builder, 1), &step->reg) < 0
               ? -1
               : plan_set_slot(builder, plan_operand(builder, 2), &step->slot);
}

static PlanOutcome
run_expect(Plan *plan, const PlanStep *step)
{
    const Shape *shape = step->data;
    PyObject *tensor = plan->registers[step->reg];
    void *data;
    bool is_same_size;
    int same = memory_if_shaped(tensor, shape, &data, &is_same_size);
    if (same < 0) {
        return PLAN_RAISED;
    }
    if (same == 0) {
        if (!is_same_size) {
            PyErr_Format(PyExc_RuntimeError,
                         "an operation made a %.100s that is not of the dtype %R and size %R on "
                         "the CPU",
                         Py_TYPE(tensor)->tp_name, shape->dtype, shape->sizes);
            return PLAN_RAISED;
        }
        tensor = memory_copy(tensor, shape, &data);
        if (tensor == NULL) {
            return PLAN_RAISED;
        }
        Py_SETREF(plan->registers[step->reg], tensor);
    }
    if (step->slot >= 0) {
        plan->slots[step->slot] = data;
    }
    return PLAN_OK;
}

static int
prepare_expect(PlanBuilder *builder, PlanStep *step)
{
    PyObject *slot = plan_operand(builder, 2);
    step->data = read_shape(builder, 3);
    if (step->data == NULL ||
        plan_read_register(builder, plan_operand(builder, 1), &step->reg) < 0) {
        return -1;
    }
    bool has_slot = !PyLong_CheckExact(slot) || PyLong_AsLong(slot) != -1;
    PyErr_Clear();
    return has_slot ? plan_set_slot(builder, slot, &step->slot) : 0;
}

/* ---- kernels */

typedef int32_t (*KernelFunction)(void **pointers, int64_t begin, int64_t end);

typedef struct {
    KernelFunction function;
    int64_t units, grain; /* grain 0: not parallel */
    PyObject *message;    /* or NULL */
    void **pointers;
    int32_t failed;
    int n_slots;
    int slots[];
} Kernel;

static void
run_part(int64_t begin, int64_t end, void *context)
{
    Kernel *kernel = context;
    if (kernel->function(kernel->pointers, begin, end) != 0) {
        __atomic_store_n(&kernel->failed, 1, __ATOMIC_RELAXED);
    }
}

/* Work for several threads is long enough that other Python threads may run meanwhile. */
static void
run_parallel(Kernel *kernel)
{
    PyThreadState *state = PyEval_SaveThread();
    if (torch_abi.parallel_for == NULL ||
        torch_abi.parallel_for(0, kernel->units, kernel->grain, run_part, kernel) != 0) {
        run_part(0, kernel->units, kernel);
    }
    PyEval_RestoreThread(state);
}

static PlanOutcome
run_kernel(Plan *plan, const PlanStep *step)
{
    Kernel *kernel = step->data;
    for (int i = 0; i < kernel->n_slots; i++) {
        kernel->pointers[i] = plan->slots[kernel->slots[i]];
    }
    kernel->failed = 0;
    if (kernel->grain > 0 && kernel->units > kernel->grain) {
        run_parallel(kernel);
    }
    else {
        kernel->failed = kernel->function(kernel->pointers, 0, kernel->units);
    }
    if (kernel->failed == 0) {
        return PLAN_OK;
    }
    if (kernel->message == NULL) {
        PyErr_SetString(PyExc_IndexError, "index out of range");
    }
    else {
        PyErr_SetObject(PyExc_IndexError, kernel->message);
    }
    return PLAN_RAISED;
}

static int
prepare_kernel(PlanBuilder *builder, PlanStep *step)
{
    PyObject *address = plan_operand(builder, 1), *slots = plan_operand(builder, 2);
    PyObject *message = plan_operand(builder, 6);
    if (!PyLong_CheckExact(address) || !PyTuple_CheckExact(slots)) {
        return plan_complain(builder, "expected an address and a tuple of slots");
    }
    if (message != NULL && message != Py_None && !PyUnicode_CheckExact(message)) {
        return plan_complain(builder, "the message must be text");
    }
    int n = (int)PyTuple_GET_SIZE(slots);
    Kernel *kernel = plan_allocate(builder->plan, sizeof(Kernel) + n * sizeof(int));
    void **pointers = plan_allocate(builder->plan, n * sizeof(void *));
    if (kernel == NULL || pointers == NULL) {
        return -1;
    }
    step->data = kernel;
    kernel->function = (KernelFunction)PyLong_AsVoidPtr(address);
    kernel->message = message == Py_None ? NULL : message;
    kernel->pointers = pointers;
    kernel->n_slots = n;
    if (kernel->function == NULL) {
        return plan_complain(builder, "the address is not one");
    }
    for (int i = 0; i < n; i++) {
        if (plan_read_slot(builder, PyTuple_GET_ITEM(slots, i), &kernel->slots[i]) < 0) {
            return -1;
        }
    }
    return plan_read_integer(builder, plan_operand(builder, 3), &kernel->units) < 0
               ? -1
               : plan_read_integer(builder, plan_operand(builder, 4), &kernel->grain);
}

/* ---- overlap of inputs */

typedef struct {
    int slot;
    int64_t n_bytes;
} Span;

typedef struct {
    int n_written, n_all;
    Span spans[]; /* the written ones first */
} Overlap;

static bool
do_overlap(const Plan *plan, Span a, Span b)
{
    uintptr_t start_a = (uintptr_t)plan->slots[a.slot], start_b = (uintptr_t)plan->slots[b.slot];
    return a.slot != b.slot && a.n_bytes > 0 && b.n_bytes > 0 &&
           start_a < start_b + b.n_bytes && start_b < start_a + a.n_bytes;
}

static PlanOutcome
run_check_overlap(Plan *plan, const PlanStep *step)
{
    const Overlap *overlap = step->data;
    for (int i = 0; i < overlap->n_written; i++) {
        for (int j = i + 1; j < overlap->n_all; j++) {
            if (do_overlap(plan, overlap->spans[i], overlap->spans[j])) {
                return PLAN_MISMATCH;
            }
        }
    }
    return PLAN_OK;
}

static int
read_spans(PlanBuilder *builder, PyObject *tuple, Span *spans)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *pair = PyTuple_GET_ITEM(tuple, i);
        if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2) {
            return plan_complain(builder, "expected pairs of a slot and a number of bytes");
        }
        if (plan_read_slot(builder, PyTuple_GET_ITEM(pair, 0), &spans[i].slot) < 0 ||
            plan_read_integer(builder, PyTuple_GET_ITEM(pair, 1), &spans[i].n_bytes) < 0) {
            return -1;
        }
    }
    return 0;
}

static int
prepare_check_overlap(PlanBuilder *builder, PlanStep *step)
{
    PyObject *written = plan_operand(builder, 1), *others = plan_operand(builder, 2);
    if (!PyTuple_CheckExact(written) || !PyTuple_CheckExact(others)) {
        return plan_complain(builder, "expected two tuples");
    }
    int n_written = (int)PyTuple_GET_SIZE(written);
    int n_all = n_written + (int)PyTuple_GET_SIZE(others);
    Overlap *overlap =
        plan_allocate(builder->plan, sizeof(Overlap) + n_all * sizeof(Span));
    if (overlap == NULL) {
        return -1;
    }
    overlap->n_written = n_written;
    overlap->n_all = n_all;
    step->data = overlap;
    return read_spans(builder, written, overlap->spans) < 0
               ? -1
               : read_spans(builder, others, overlap->spans + n_written);
}

static PlanOutcome
run_release(Plan *plan, const PlanStep *step)
{
    Py_CLEAR(plan->registers[step->reg]);
    return PLAN_OK;
}

static int
prepare_release(PlanBuilder *builder, PlanStep *step)
{
    if (plan_read_register(builder, plan_operand(builder, 1), &step->reg) < 0) {
        return -1;
    }
    builder->is_register_set[step->reg] = false;
    return 0;
}

/* ---- the table */

const PlanStepKind plan_step_kinds[] = {
    {"input", 2, 2, 0, CHECK, run_input, read_argument},
    {"number", 3, 3, 0, CHECK, run_double, prepare_number},
    {"memory", 3, 3, 0, NEUTRAL, NULL, prepare_memory},
    {"check_overlap", 2, 2, 0, CHECK, run_check_overlap, prepare_check_overlap},
    {"output", 6, 6, 1, NEUTRAL, run_output, prepare_output},
    {"kernel", 5, 6, 0, EFFECT, run_kernel, prepare_kernel},
    {"call", 4, 4, 4, EFFECT, plan_run_call, plan_prepare_call},
    {"expect", 5, 5, 0, NEUTRAL, run_expect, prepare_expect},
    {"release", 1, 1, 0, NEUTRAL, run_release, prepare_release},
    {NULL},
};
