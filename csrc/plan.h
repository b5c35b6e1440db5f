/* A plan: what a compiled graph does on the CPU, as a flat list of steps that one C function runs.
   Registers hold objects, slots the addresses that kernels are given. */
#ifndef SEGUE_PLAN_H
#define SEGUE_PLAN_H

#include "runtime.h"

typedef struct Plan Plan;
typedef struct PlanStep PlanStep;

/* PLAN_MISMATCH: the arguments do not suit the plan, which has had no effect yet. */
typedef enum { PLAN_RAISED = -1, PLAN_OK, PLAN_MISMATCH } PlanOutcome;

typedef PlanOutcome (*PlanStepFunction)(Plan *plan, const PlanStep *step);

struct PlanStep {
    PlanStepFunction run;
    int reg, slot; /* -1: none */
    void *data;    /* what `prepare` made, in the plan's chunks */
};

/* Reads step tuples; what has been written so far is known. */
typedef struct {
    Plan *plan;
    char *is_register_set, *is_slot_set;
    int index; /* of the step */
    const char *name;
    PyObject *tuple; /* the step */
    bool has_effects;
} PlanBuilder;

typedef struct {
    const char *name;
    int n_least, n_most; /* operands */
    int result; /* the operand that is the register (or tuple of them) it sets, 0: none */
    enum { CHECK, NEUTRAL, EFFECT } nature; /* checks come before every effect */
    PlanStepFunction run;
    /* 0, or -1 with an exception. */
    int (*prepare)(PlanBuilder *builder, PlanStep *step);
} PlanStepKind;

typedef struct Chunk Chunk;

struct Plan {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *source;          /* tuple of step tuples: owns every object that steps refer to */
    PyObject *outputs;         /* tuple */
    PyObject *clone, *fallback; /* callables or NULL */
    Plan *next;                /* a clone, for when this one is busy */
    bool busy;
    int n_args, n_registers, n_slots;
    PyObject **registers; /* owned; all NULL between runs */
    void **slots;
    PlanStep *steps;
    Py_ssize_t n_steps;
    int *results; /* for each output its register, -1 for a constant */
    Chunk *chunks;
};

typedef struct {
    PyObject_HEAD
    int index;
} Register;

extern PyTypeObject Plan_Type, Register_Type;
extern const PlanStepKind plan_step_kinds[]; /* ends with an entry without a name */

/* ---- plan_call.c */

PlanOutcome plan_run_call(Plan *plan, const PlanStep *step);
int plan_prepare_call(PlanBuilder *builder, PlanStep *step);

/* ---- plan_build.c */

/* Fill the plan from `source` and `outputs`; n_args < 0: to be found out. */
int plan_build(Plan *plan);

/* Zeroed memory that lives as long as the plan. */
void *plan_allocate(Plan *plan, size_t size);
void plan_free_chunks(Plan *plan);

int plan_complain(const PlanBuilder *builder, const char *what);

/* Operand i, counted from 1; NULL if it was left out. */
PyObject *plan_operand(const PlanBuilder *builder, int i);

/* What an operand is: 0, or -1 with an exception. Reading one that nothing has set is wrong. */
int plan_read_integer(const PlanBuilder *builder, PyObject *object, int64_t *value);
int plan_read_register(PlanBuilder *builder, PyObject *object, int *reg);
int plan_set_register(PlanBuilder *builder, PyObject *object, int *reg);
int plan_read_slot(PlanBuilder *builder, PyObject *object, int *slot);
int plan_set_slot(PlanBuilder *builder, PyObject *object, int *slot);

#endif
