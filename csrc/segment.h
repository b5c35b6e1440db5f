/* A segment's program: steps on registers, and the tables that say what a step's operands are. */
#ifndef SEGUE_SEGMENT_H
#define SEGUE_SEGMENT_H

#include "runtime.h"

typedef struct Step Step;
typedef struct Segment Segment;

/* A running program. */
typedef struct {
    PyObject **registers; /* each owns its reference, but for constants, which the segment owns */
    const Site *site;
} Run;

/* STEP_INTERRUPTED: a signal handler raised, which is not the step's own failure. */
typedef enum { STEP_INTERRUPTED = -2, STEP_RAISED, STEP_OK, STEP_MISMATCH } StepOutcome;

typedef StepOutcome (*StepFunction)(Run *run, Step *step);

/* What follows the name in a step's tuple, one letter for each operand:
     d  the register that the step writes (D: a tuple of them)
     r  a register that it reads          (R: a tuple of them; o: one, or None)
     i  a slot or number that is not negative
     x  an object, anything               .  an object that `prepare` looks at itself
   Registers and numbers go to a, b, c of the step, objects to x, y. */
typedef struct {
    const char *name;
    const char *operands;
    StepFunction run;
    /* Check and convert what the letters cannot say: 0, or -1 with an exception. */
    int (*prepare)(Step *step, PyObject *tuple);
    enum { ANYWHERE, BEFORE_COMMIT, AFTER_COMMIT } place;
} StepKind;

struct Step {
    StepFunction run;
    int dst;
    union {
        struct {
            int a, b, c;
        };
        int numbers[3];
    };
    int n_args, n_dsts;
    int *args, *dsts;
    PyObject *x, *y; /* borrowed from the segment's source */
    void *data;      /* whatever `prepare` made, freed with PyMem_Free */
    int index;       /* in the segment's source */
    bool committed;  /* a graph or a commit comes before it */
};

typedef struct {
    int slot, reg; /* reg < 0: delete */
} Store;

struct Segment {
    PyObject_HEAD
    PyObject *source; /* tuple of step tuples: owns every object that steps refer to */
    PyObject *failed; /* callable or NULL */
    long exit;
    int level; /* how many frames it runs to their end; the exit is one of that caller's */
    int n_registers;
    PyObject **constants; /* per register, NULL where it is not one */
    Step *steps;
    Py_ssize_t n_steps;
    Store *stores;
    Py_ssize_t n_stores;
    int *results; /* registers, -1 for a NULL slot */
    Py_ssize_t n_results;
    int failed_step; /* of the last run, -1 if it matched */
};

/* Filled by steps.c, checks.c and tensor.c; each ends with an entry without a name. */
extern const StepKind fetch_steps[], build_steps[], effect_steps[], check_steps[], tensor_steps[];

/* steps.c: the graph step, which the segment treats apart. */
StepOutcome step_graph(Run *run, Step *step);

/* segment_build.c: fill the program from `source`, `exit` and `n_registers`. */
int segment_build(Segment *segment);

static inline StepOutcome
step_set(Run *run, int reg, PyObject *value)
{
    run->registers[reg] = value;
    return value == NULL ? STEP_RAISED : STEP_OK;
}

#endif
