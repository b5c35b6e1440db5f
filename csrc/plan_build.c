/* From step tuples to a plan. Everything that can be wrong with a plan by itself is raised here as
   ValueError, so that the loop that runs it need not look. */
#include "plan.h"

struct Chunk {
    Chunk *next;
    _Alignas(16) char memory[];
};

void *
plan_allocate(Plan *plan, size_t size)
{
    Chunk *chunk = PyMem_Calloc(1, sizeof(Chunk) + size);
    if (chunk == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    chunk->next = plan->chunks;
    plan->chunks = chunk;
    return chunk->memory;
}

void
plan_free_chunks(Plan *plan)
{
    while (plan->chunks != NULL) {
        Chunk *chunk = plan->chunks;
        plan->chunks = chunk->next;
        PyMem_Free(chunk);
    }
}

int
plan_complain(const PlanBuilder *builder, const char *what)
{
    PyErr_Format(PyExc_ValueError, "step %d (%s): %s", builder->index, builder->name, what);
    return -1;
}

/* ---- operands */

PyObject *
plan_operand(const PlanBuilder *builder, int i)
{
    return i < PyTuple_GET_SIZE(builder->tuple) ? PyTuple_GET_ITEM(builder->tuple, i) : NULL;
}

int
plan_read_integer(const PlanBuilder *builder, PyObject *object, int64_t *value)
{
    if (!PyLong_CheckExact(object)) {
        return plan_complain(builder, "expected a number");
    }
    *value = PyLong_AsLongLong(object);
    if (*value < 0) {
        PyErr_Clear();
        return plan_complain(builder, "a number is out of range");
    }
    return 0;
}

static int
read_index(const PlanBuilder *builder, PyObject *object, int end, int *index)
{
    int64_t value;
    if (plan_read_integer(builder, object, &value) < 0) {
        return -1;
    }
    if (value >= end) {
        return plan_complain(builder, "there is no such register or slot");
    }
    *index = (int)value;
    return 0;
}

int
plan_read_register(PlanBuilder *builder, PyObject *object, int *reg)
{
    if (read_index(builder, object, builder->plan->n_registers, reg) < 0) {
        return -1;
    }
    return builder->is_register_set[*reg]
               ? 0
               : plan_complain(builder, "a register is read that holds nothing");
}

int
plan_set_register(PlanBuilder *builder, PyObject *object, int *reg)
{
    if (read_index(builder, object, builder->plan->n_registers, reg) < 0) {
        return -1;
    }
    builder->is_register_set[*reg] = true;
    return 0;
}

int
plan_read_slot(PlanBuilder *builder, PyObject *object, int *slot)
{
    if (read_index(builder, object, builder->plan->n_slots, slot) < 0) {
        return -1;
    }
    return builder->is_slot_set[*slot] ? 0
                                       : plan_complain(builder, "a slot is read that is not set");
}

int
plan_set_slot(PlanBuilder *builder, PyObject *object, int *slot)
{
    if (read_index(builder, object, builder->plan->n_slots, slot) < 0) {
        return -1;
    }
    builder->is_slot_set[*slot] = true;
    return 0;
}

/* ---- steps */

static const PlanStepKind *
find_kind(const char *name)
{
    for (const PlanStepKind *kind = plan_step_kinds; kind->name != NULL; kind++) {
        if (strcmp(kind->name, name) == 0) {
            return kind;
        }
    }
    return NULL;
}

/* The step's tuple becomes the builder's; NULL with an exception if it is no step. */
static const PlanStepKind *
open_step(PlanBuilder *builder, int index)
{
    PyObject *tuple = PyTuple_GET_ITEM(builder->plan->source, index);
    builder->index = index;
    builder->name = "?";
    if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) == 0 ||
        !PyUnicode_CheckExact(PyTuple_GET_ITEM(tuple, 0))) {
        plan_complain(builder, "a step is a tuple that starts with its name");
        return NULL;
    }
    builder->tuple = tuple;
    builder->name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, 0));
    if (builder->name == NULL) {
        return NULL;
    }
    const PlanStepKind *kind = find_kind(builder->name);
    if (kind == NULL) {
        plan_complain(builder, "there is no such step");
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(tuple) - 1;
    if (n < kind->n_least || n > kind->n_most) {
        plan_complain(builder, "wrong number of operands");
        return NULL;
    }
    return kind;
}

static int
add_step(PlanBuilder *builder, int index)
{
    Plan *plan = builder->plan;
    const PlanStepKind *kind = open_step(builder, index);
    if (kind == NULL) {
        return -1;
    }
    if (kind->nature == CHECK && builder->has_effects) {
        return plan_complain(builder, "it must come before every kernel and call");
    }
    PlanStep *step = &plan->steps[plan->n_steps];
    *step = (PlanStep){.run = kind->run, .reg = -1, .slot = -1};
    if (kind->prepare(builder, step) < 0) {
        return -1;
    }
    builder->has_effects = builder->has_effects || kind->nature == EFFECT;
    plan->n_steps += kind->run != NULL;
    return 0;
}

/* ---- the number of arguments */

static void
lower(PyObject *reg, int *lowest)
{
    long value = PyLong_CheckExact(reg) ? PyLong_AsLong(reg) : *lowest;
    if (value >= 0 && value < *lowest) {
        *lowest = (int)value;
    }
    PyErr_Clear();
}

/* The arguments are in the first registers: those below the first that a step sets. */
static int
count_args(PlanBuilder *builder)
{
    int lowest = builder->plan->n_registers;
    for (int i = 0; i < PyTuple_GET_SIZE(builder->plan->source); i++) {
        const PlanStepKind *kind = open_step(builder, i);
        if (kind == NULL) {
            return -1;
        }
        PyObject *result = kind->result == 0 ? Py_None : plan_operand(builder, kind->result);
        if (!PyTuple_CheckExact(result)) {
            lower(result, &lowest);
            continue;
        }
        for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(result); j++) {
            lower(PyTuple_GET_ITEM(result, j), &lowest);
        }
    }
    return lowest;
}

/* ---- the plan */

static int
read_outputs(PlanBuilder *builder)
{
    Plan *plan = builder->plan;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(plan->outputs); i++) {
        PyObject *output = PyTuple_GET_ITEM(plan->outputs, i);
        plan->results[i] = -1;
        if (Py_IS_TYPE(output, &Register_Type)) {
            int reg = ((Register *)output)->index;
            if (reg >= plan->n_registers || !builder->is_register_set[reg]) {
                PyErr_Format(PyExc_ValueError, "output %zd: register %d holds nothing", i, reg);
                return -1;
            }
            plan->results[i] = reg;
        }
    }
    return 0;
}

static int
build_steps(PlanBuilder *builder)
{
    Plan *plan = builder->plan;
    if (plan->n_args < 0) {
        plan->n_args = count_args(builder);
    }
    if (plan->n_args < 0) {
        return -1;
    }
    memset(builder->is_register_set, true, plan->n_args);
    for (int i = 0; i < PyTuple_GET_SIZE(plan->source); i++) {
        if (add_step(builder, i) < 0) {
            return -1;
        }
    }
    return read_outputs(builder);
}

int
plan_build(Plan *plan)
{
    Py_ssize_t n = PyTuple_GET_SIZE(plan->source);
    plan->steps = plan_allocate(plan, n * sizeof(PlanStep));
    plan->results = plan_allocate(plan, PyTuple_GET_SIZE(plan->outputs) * sizeof(int));
    plan->registers = plan_allocate(plan, plan->n_registers * sizeof(PyObject *));
    plan->slots = plan_allocate(plan, plan->n_slots * sizeof(void *));
    if (PyErr_Occurred()) {
        return -1;
    }
    PlanBuilder builder = {
        .plan = plan,
        .is_register_set = PyMem_Calloc(plan->n_registers + 1, 1),
        .is_slot_set = PyMem_Calloc(plan->n_slots + 1, 1),
    };
    int failed = -1;
    if (builder.is_register_set == NULL || builder.is_slot_set == NULL) {
        PyErr_NoMemory();
    }
    else {
        failed = build_steps(&builder);
    }
    PyMem_Free(builder.is_register_set);
    PyMem_Free(builder.is_slot_set);
    return failed;
}
