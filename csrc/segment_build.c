/* From step tuples to a program. Everything that can be wrong with a program by itself is found
   here and raised as ValueError, so that the loop that runs it need not look. */
#include "segment.h"

/* What the steps read so far have established. */
typedef struct {
    Segment *segment;
    char *written; /* per register */
    int index;     /* of the step */
    const char *name;
    bool committed;
} Builder;

static int
complain(const Builder *builder, const char *what)
{
    PyErr_Format(PyExc_ValueError, "step %d (%s): %s", builder->index, builder->name, what);
    return -1;
}

static const StepKind *const all_kinds[] = {
    fetch_steps, check_steps, tensor_steps, build_steps, effect_steps, NULL,
};

static const StepKind *
find_kind(const char *name)
{
    for (const StepKind *const *kinds = all_kinds; *kinds != NULL; kinds++) {
        for (const StepKind *kind = *kinds; kind->name != NULL; kind++) {
            if (strcmp(kind->name, name) == 0) {
                return kind;
            }
        }
    }
    return NULL;
}

/* ---- operands */

static int
read_number(Builder *builder, PyObject *object, int *number)
{
    if (!PyLong_CheckExact(object)) {
        return complain(builder, "expected a number");
    }
    long value = PyLong_AsLong(object);
    if (value < 0 || value > INT_MAX) {
        PyErr_Clear();
        return complain(builder, "a number is out of range");
    }
    *number = (int)value;
    return 0;
}

static int
read_register(Builder *builder, PyObject *object, int *reg)
{
    if (read_number(builder, object, reg) < 0) {
        return -1;
    }
    if (*reg >= builder->segment->n_registers) {
        return complain(builder, "there is no such register");
    }
    if (!builder->written[*reg]) {
        return complain(builder, "a register is read before it is written");
    }
    return 0;
}

static int
write_register(Builder *builder, PyObject *object, int *reg)
{
    if (read_number(builder, object, reg) < 0) {
        return -1;
    }
    if (*reg >= builder->segment->n_registers) {
        return complain(builder, "there is no such register");
    }
    if (builder->written[*reg]) {
        return complain(builder, "a register is written twice");
    }
    builder->written[*reg] = true;
    return 0;
}

typedef int (*RegisterReader)(Builder *, PyObject *, int *);

static int
read_list(Builder *builder, PyObject *object, RegisterReader read, int **list, int *n)
{
    if (!PyTuple_CheckExact(object)) {
        return complain(builder, "expected a tuple of registers");
    }
    *n = (int)PyTuple_GET_SIZE(object);
    *list = PyMem_New(int, *n + 1);
    if (*list == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < *n; i++) {
        if (read(builder, PyTuple_GET_ITEM(object, i), &(*list)[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

static int
read_operand(Builder *builder, Step *step, char letter, PyObject *object, int *n_numbers)
{
    switch (letter) {
    case 'd':
        return write_register(builder, object, &step->dst);
    case 'D':
        return read_list(builder, object, write_register, &step->dsts, &step->n_dsts);
    case 'R':
        return read_list(builder, object, read_register, &step->args, &step->n_args);
    case 'r':
        return read_register(builder, object, &step->numbers[(*n_numbers)++]);
    case 'o':
        if (object != Py_None) {
            return read_register(builder, object, &step->numbers[(*n_numbers)++]);
        }
        step->numbers[(*n_numbers)++] = -1;
        return 0;
    case 'i':
        return read_number(builder, object, &step->numbers[(*n_numbers)++]);
    case 'x':
        *(step->x == NULL ? &step->x : &step->y) = object;
        return 0;
    default:
        return 0;
    }
}

/* A step writes its register after it has read the others, so destinations are looked at last. */
static int
read_operands(Builder *builder, Step *step, const StepKind *kind, PyObject *tuple)
{
    if (PyTuple_GET_SIZE(tuple) != (Py_ssize_t)strlen(kind->operands) + 1) {
        return complain(builder, "wrong number of operands");
    }
    int n_numbers = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; kind->operands[i]; i++) {
            char letter = kind->operands[i];
            bool is_written = letter == 'd' || letter == 'D';
            PyObject *object = PyTuple_GET_ITEM(tuple, i + 1);
            if (is_written == (pass == 1) &&
                read_operand(builder, step, letter, object, &n_numbers) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* ---- steps */

/* Constants and what the exit consists of are not executed: they become part of the segment. */
static void
absorb(Segment *segment, const Step *step, const char *name)
{
    if (strcmp(name, "const") == 0) {
        segment->constants[step->dst] = step->x;
    }
    else if (strcmp(name, "result") == 0) {
        segment->results[segment->n_results++] = step->a;
    }
    else if (strcmp(name, "store_local") == 0) {
        segment->stores[segment->n_stores++] = (Store){step->a, step->b};
    }
    else if (strcmp(name, "delete_local") == 0) {
        segment->stores[segment->n_stores++] = (Store){step->a, -1};
    }
}

static int
check_place(const Builder *builder, const StepKind *kind)
{
    if (kind->place == BEFORE_COMMIT && builder->committed) {
        return complain(builder, "a check cannot come after the graph or commit");
    }
    if (kind->place == AFTER_COMMIT && !builder->committed) {
        return complain(builder, "an effect must come after the graph or commit");
    }
    return 0;
}

static int
add_step(Builder *builder, PyObject *tuple)
{
    builder->name = "?";
    if (!PyTuple_CheckExact(tuple) || PyTuple_GET_SIZE(tuple) == 0 ||
        !PyUnicode_CheckExact(PyTuple_GET_ITEM(tuple, 0))) {
        return complain(builder, "a step is a tuple that starts with its name");
    }
    builder->name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, 0));
    if (builder->name == NULL) {
        return -1;
    }
    const StepKind *kind = find_kind(builder->name);
    if (kind == NULL) {
        return complain(builder, "there is no such step");
    }
    if (check_place(builder, kind) < 0) {
        return -1;
    }
    Segment *segment = builder->segment;
    Step *step = &segment->steps[segment->n_steps++]; /* counted at once: what it owns is freed */
    step->run = kind->run;
    step->index = builder->index;
    step->committed = builder->committed;
    if (read_operands(builder, step, kind, tuple) < 0) {
        return -1;
    }
    if (kind->prepare != NULL && kind->prepare(step, tuple) < 0) {
        if (!PyErr_Occurred()) {
            complain(builder, "an operand is of the wrong kind");
        }
        return -1;
    }
    if (kind->run == step_graph || strcmp(builder->name, "commit") == 0) {
        builder->committed = true;
    }
    if (kind->run == NULL) {
        absorb(segment, step, builder->name);
        *step = (Step){0};
        segment->n_steps--;
    }
    return 0;
}

static int
check_exit(const Segment *segment)
{
    const char *wrong = NULL;
    if (segment->exit < SEGMENT_STAY) {
        wrong = "exit must be an exit's number, Segment.RETURN or Segment.STAY";
    }
    else if (segment->exit == SEGMENT_RETURN) {
        if (segment->n_results != 1 || segment->results[0] < 0) {
            wrong = "a segment that returns has exactly one result";
        }
        else if (segment->n_stores != 0) {
            wrong = "a segment that returns stores no locals";
        }
    }
    else if (segment->exit == SEGMENT_STAY && (segment->n_results != 0 || segment->n_stores != 0)) {
        wrong = "a segment that stays has no results and stores no locals";
    }
    if (wrong != NULL) {
        PyErr_SetString(PyExc_ValueError, wrong);
        return -1;
    }
    return 0;
}

int
segment_build(Segment *segment)
{
    Py_ssize_t n = PyTuple_GET_SIZE(segment->source);
    segment->steps = PyMem_Calloc(n + 1, sizeof(Step));
    segment->stores = PyMem_Calloc(n + 1, sizeof(Store));
    segment->results = PyMem_Calloc(n + 1, sizeof(int));
    segment->constants = PyMem_Calloc(segment->n_registers + 1, sizeof(PyObject *));
    char *written = PyMem_Calloc(segment->n_registers + 1, 1);
    if (segment->steps == NULL || segment->stores == NULL || segment->results == NULL ||
        segment->constants == NULL || written == NULL) {
        PyMem_Free(written);
        PyErr_NoMemory();
        return -1;
    }
    Builder builder = {.segment = segment, .written = written};
    int failed = 0;
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        builder.index = (int)i;
        failed = add_step(&builder, PyTuple_GET_ITEM(segment->source, i));
    }
    PyMem_Free(written);
    return failed ? -1 : check_exit(segment);
}
