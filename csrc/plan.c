/* Plan: how it is called and runs, and its type. */
#include "plan.h"

#include <structmember.h>

/* ---- running */

static PyObject *
make_outputs(const Plan *plan)
{
    Py_ssize_t n = PyTuple_GET_SIZE(plan->outputs);
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        int reg = plan->results[i];
        PyObject *output = reg < 0 ? PyTuple_GET_ITEM(plan->outputs, i) : plan->registers[reg];
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(output));
    }
    return tuple;
}

static PlanOutcome
run_steps(Plan *plan)
{
    const PlanStep *end = plan->steps + plan->n_steps;
    for (const PlanStep *step = plan->steps; step < end; step++) {
        PlanOutcome outcome = step->run(plan, step);
        if (outcome != PLAN_OK) {
            return outcome;
        }
    }
    return PLAN_OK;
}

/* Run a plan that the caller has made busy. It is busy until its registers are let go of, which can
   run anything. */
static PlanOutcome
run(Plan *plan, PyObject *const *args, PyObject **result)
{
    for (int i = 0; i < plan->n_args; i++) {
        plan->registers[i] = Py_NewRef(args[i]);
    }
    PlanOutcome outcome = run_steps(plan);
    *result = NULL;
    if (outcome == PLAN_OK) {
        *result = make_outputs(plan);
    }
    for (int i = 0; i < plan->n_registers; i++) {
        Py_CLEAR(plan->registers[i]);
    }
    plan->busy = false;
    return outcome;
}

/* ---- calling */

static Plan *
add_clone(Plan *last)
{
    if (last->clone == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the plan runs already and has no clone");
        return NULL;
    }
    PyObject *clone = PyObject_CallNoArgs(last->clone);
    if (clone == NULL) {
        return NULL;
    }
    Plan *fresh = (Plan *)clone;
    if (!Py_IS_TYPE(clone, &Plan_Type) || fresh->busy || fresh->next != NULL ||
        fresh->n_args != last->n_args || fresh == last) {
        PyErr_SetString(PyExc_RuntimeError, "clone() must make a plan like this one");
        Py_DECREF(clone);
        return NULL;
    }
    while (last->next != NULL) { /* another thread may have added one meanwhile */
        last = last->next;
    }
    last->next = fresh;
    return fresh;
}

/* The plan, or a clone of it, that is not busy; borrowed, NULL with an exception. */
static Plan *
find_idle(Plan *plan)
{
    while (plan->busy) {
        if (plan->next == NULL) {
            return add_clone(plan);
        }
        plan = plan->next;
    }
    return plan;
}

static PyObject *
call_fallback(const Plan *plan, PyObject *const *args)
{
    if (plan->fallback == NULL) {
        PyErr_SetString(PyExc_RuntimeError,
                        "the arguments do not suit the plan, and it has no fallback");
        return NULL;
    }
    return PyObject_Vectorcall(plan->fallback, args, plan->n_args, NULL);
}

static PyObject *
run_idle(Plan *plan, PyObject *const *args)
{
    Plan *idle = find_idle(plan);
    if (idle == NULL) {
        return NULL;
    }
    PyObject *result;
    idle->busy = true;
    PlanOutcome outcome = run(idle, args, &result);
    return outcome == PLAN_MISMATCH ? call_fallback(plan, args) : result;
}

static PyObject *
plan_vectorcall(PyObject *op, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    Plan *plan = (Plan *)op;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (n != plan->n_args || (kwnames != NULL && PyTuple_GET_SIZE(kwnames) > 0)) {
        PyErr_Format(PyExc_TypeError, "a plan of %d positional arguments got %zd%s", plan->n_args,
                     n, kwnames == NULL ? "" : " and keywords");
        return NULL;
    }
    if (!plan->busy) {
        return run_idle(plan, args);
    }
    /* Only a call inside a call can go on without an end. */
    if (Py_EnterRecursiveCall(" in a plan")) {
        return NULL;
    }
    PyObject *result = run_idle(plan, args);
    Py_LeaveRecursiveCall();
    return result;
}

/* ---- the type */

static PyObject *
none_is_null(PyObject *object)
{
    return object == NULL || object == Py_None ? NULL : Py_NewRef(object);
}

static PyObject *
plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"steps", "n_registers", "n_slots", "outputs",
                            "clone", "fallback",    "n_args",  NULL};
    PyObject *steps, *outputs, *clone = NULL, *fallback = NULL, *n_args = Py_None;
    int n_registers, n_slots;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!iiO!|OO$O:Plan", names, &PyTuple_Type, &steps,
                                     &n_registers, &n_slots, &PyTuple_Type, &outputs, &clone,
                                     &fallback, &n_args)) {
        return NULL;
    }
    long n_given = n_args == Py_None ? -1 : PyLong_AsLong(n_args);
    if (n_given == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (n_registers < 0 || n_registers > 10000000 || n_slots < 0 || n_slots > 10000000 ||
        n_given > n_registers || n_given < -1) {
        PyErr_SetString(PyExc_ValueError, "n_registers, n_slots or n_args is out of range");
        return NULL;
    }
    Plan *self = (Plan *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->vectorcall = plan_vectorcall;
    self->source = Py_NewRef(steps);
    self->outputs = Py_NewRef(outputs);
    self->clone = none_is_null(clone);
    self->fallback = none_is_null(fallback);
    self->n_args = (int)n_given;
    self->n_registers = n_registers;
    self->n_slots = n_slots;
    if (plan_build(self) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int
plan_traverse(PyObject *op, visitproc visit, void *arg)
{
    Plan *self = (Plan *)op;
    Py_VISIT(self->source);
    Py_VISIT(self->outputs);
    Py_VISIT(self->clone);
    Py_VISIT(self->fallback);
    Py_VISIT(self->next);
    for (int i = 0; self->registers != NULL && i < self->n_registers; i++) {
        Py_VISIT(self->registers[i]);
    }
    return 0;
}

/* Tuples cannot be in a cycle without something else that can be cleared. */
static int
plan_clear(PyObject *op)
{
    Plan *self = (Plan *)op;
    Py_CLEAR(self->clone);
    Py_CLEAR(self->fallback);
    Py_CLEAR(self->next);
    return 0;
}

static void
plan_dealloc(PyObject *op)
{
    Plan *self = (Plan *)op;
    PyObject_GC_UnTrack(op);
    plan_clear(op);
    plan_free_chunks(self);
    Py_CLEAR(self->source);
    Py_CLEAR(self->outputs);
    Py_TYPE(op)->tp_free(op);
}

static PyMemberDef plan_members[] = {
    {"steps", T_OBJECT, offsetof(Plan, source), READONLY, "The steps, as they were given."},
    {"outputs", T_OBJECT, offsetof(Plan, outputs), READONLY, NULL},
    {"n_args", T_INT, offsetof(Plan, n_args), READONLY, NULL},
    {"n_registers", T_INT, offsetof(Plan, n_registers), READONLY, NULL},
    {"n_slots", T_INT, offsetof(Plan, n_slots), READONLY, NULL},
    {NULL},
};

PyTypeObject Plan_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.Plan",
    .tp_doc = PyDoc_STR("Plan(steps, n_registers, n_slots, outputs, clone=None, fallback=None, *, "
                        "n_args=None)\n--\n\nWhat a compiled graph does on the CPU."),
    .tp_basicsize = sizeof(Plan),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = plan_new,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Plan, vectorcall),
    .tp_traverse = plan_traverse,
    .tp_clear = plan_clear,
    .tp_dealloc = plan_dealloc,
    .tp_members = plan_members,
};

/* ---- registers as arguments */

static PyObject *
register_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"index", NULL};
    int index;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i:Register", names, &index)) {
        return NULL;
    }
    if (index < 0) {
        PyErr_SetString(PyExc_ValueError, "a register's number is not negative");
        return NULL;
    }
    Register *self = (Register *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->index = index;
    }
    return (PyObject *)self;
}

static PyObject *
register_repr(PyObject *op)
{
    return PyUnicode_FromFormat("Register(%d)", ((Register *)op)->index);
}

static PyMemberDef register_members[] = {
    {"index", T_INT, offsetof(Register, index), READONLY, NULL},
    {NULL},
};

PyTypeObject Register_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.Register",
    .tp_doc = PyDoc_STR("Register(index)\n--\n\nStands for what a register of a plan holds."),
    .tp_basicsize = sizeof(Register),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = register_new,
    .tp_repr = register_repr,
    .tp_members = register_members,
};
