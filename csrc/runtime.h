/* What the parts of the core share: the state of a thread, the object types, and who runs what. */
#ifndef SEGUE_RUNTIME_H
#define SEGUE_RUNTIME_H

#include "cpython311.h"

/* Room on the C stack for the slots of most functions and the registers of most segments. */
enum { SMALL = 32 };

/* ---- objects */

/* How one code object is compiled under one compiler; `segue.frames` subclasses it. */
typedef struct {
    PyObject_HEAD
    PyCodeObject *code;    /* the original; NULL until initialised */
    PyCodeObject *version; /* the newest rewritten code, or NULL */
    PyObject *entry;       /* the Gate tried before there is a frame, or NULL */
    int n_args, n_localsplus, n_free;
    bool pays; /* some segment of it has run a graph */
    PyObject *weakrefs;
} State;

/* An instruction boundary where interpreted execution may enter a segment. A frame that was resumed
   inside a call of a compiled function has gates of its own there, one set for each context: the
   calls that it stands in. */
typedef struct {
    PyObject_HEAD
    State *state;
    PyObject *context;  /* the context it belongs to, or NULL */
    PyObject *contexts; /* dict: context → its gate here, or NULL */
    Py_ssize_t index, depth;
    PyObject *segments; /* list of Segment */
    Py_ssize_t hint;    /* the segment that matched last */
    char is_open;
    int backoff;
    int stays, rest; /* times that it did not pay, crossings until it is tried again */
    PyObject *weakrefs;
} Gate;

extern PyTypeObject State_Type, Gate_Type, Crossing_Type, Landing_Type, Segment_Type, Meter_Type;
extern PyTypeObject Entry_Type, BoundEntry_Type, Disabled_Type, Continuation_Type;

/* _core.NULL, TRANSFER, DISABLE, UNDECIDED */
extern PyObject *sentinel_null, *sentinel_transfer, *sentinel_disable, *sentinel_undecided;

/* ---- a call of a compiled function */

typedef struct Activation {
    struct Activation *outer;
    State *state;
    PyObject *function;         /* the original function */
    PyObject *const *arguments; /* raw arguments, borrowed, until they are adopted */
    PyObject **localsplus;      /* slots of the frame that is to come, owned once adopted */
    bool adopted;
    PyCodeObject *code; /* the version that runs or is about to; NULL before */
    Frame *frame;       /* its frame, once it has landed */
    long exit;          /* where the frame is to go on, FROM_THE_TOP at first */
    PyObject *stack;    /* the value stack there, top first */
    PyObject *context;  /* of a continuation: borrowed; the activation outside is then its caller */
    Py_ssize_t below;   /* of a continuation: how many stack slots its caller keeps below the call */
    bool left;          /* TRANSFER means: a caller goes on, not this frame */
} Activation;

/* RETURNED: a segment of a callee has run this call to its end, and `stack` is what it returns. */
enum { FROM_THE_TOP = -1, RETURNED = -2 };

/* The activation of the `level`th caller of a continuation (0: itself); NULL if there is none. */
Activation *activation_caller(Activation *act, int level);

/* Take an activation off the thread again, and let go of what it holds but the slots. */
void activation_end(Activation *act);

/* Run versions until one returns, with the activation in place. */
PyObject *run_versions(PyThreadState *ts, Activation *act);

/* Copy the raw arguments into `localsplus` as owned references; nothing if that has happened. */
void activation_adopt(Activation *act);

/* Turn the raw values of cell slots into cells, as MAKE_CELL would: needed before any state other
   than "from the top". */
int activation_make_cells(Activation *act);

/* ---- the state of a thread */

typedef struct {
    PyObject *compiler;     /* borrowed from the Entry that runs; NULL: not compiling */
    PyObject *dispatching;  /* the compiler whose gate is being dispatched, or NULL */
    Activation *activation; /* the innermost */
    Frame *passing;         /* the frame last handed to the evaluator below ours */
    PyCodeObject *plain;    /* the next frame of this code is to be left alone */
    long holds;             /* of the evaluator, by this thread */
    Py_ssize_t function_modes, dispatch_modes; /* pushed by the tool itself */
} Thread;

/* The static TLS model spares a call per access; this module needs only a few words of it. */
extern _Thread_local Thread current __attribute__((tls_model("initial-exec")));

extern bool paused; /* no thread compiles (`_core.set_paused`) */

int runtime_setup(void);

/* A hold keeps our frame evaluator installed: compiled code and what it calls runs in the
   interpreter. Holds of one thread nest; what a hold displaced is put back when it is released. */
typedef struct {
    Evaluator displaced, below;
} Hold;

void evaluator_hold(PyThreadState *ts, Hold *hold);
void evaluator_release(PyThreadState *ts, const Hold *hold);
/* Put our evaluator back if somebody removed it although it is held. */
void evaluator_keep(PyThreadState *ts);
long evaluator_holds(void);

/* Call a function under the current compiler, but leave its own frame to the interpreter. */
PyObject *call_plain(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* Call anything with compiling off. */
PyObject *call_disabled(PyObject *callable, PyObject *const *args, size_t nargsf,
                        PyObject *kwnames);

/* Run one call of a compiled function. `localsplus` has room for the slots of the state's code; if
   `adopted`, it holds the arguments as owned references, and the caller clears it. False: nothing
   was done, and the original code is to run in the interpreter. Else `*value` is what the call
   returns, NULL with an exception. */
bool drive(State *state, PyObject *function, PyObject *const *arguments, PyObject **localsplus,
           bool adopted, PyObject **value);

/* The generator that a call of a generator function makes, in the newest version of its code; the
   slots are those of its arguments. NULL with an exception. */
PyObject *make_generator(State *state, PyObject *function, PyObject *const *slots);

/* Call a generator function from a segment, which runs with compiling off: the generator is one
   that the segment's compiler compiles. */
PyObject *call_generator_function(PyObject *function, PyObject *const *args, size_t nargsf,
                                  PyObject *kwnames);

/* ---- what a compiler says of a code object (answers.c) */

typedef enum {
    ANSWER_ERROR = -1,
    ANSWER_STATE,
    ANSWER_SKIP,
    ANSWER_DISABLE,
    ANSWER_UNDECIDED, /* as skip, but to be asked again */
    ANSWER_VERSION,   /* the code is a rewritten one */
} Answer;

int answers_setup(void);
extern unsigned long answers_epoch; /* answers of an older epoch do not count */

/* The current compiler's answer for `function`, asked with compiling off if it is not known; with
   ANSWER_STATE a new reference in `*state`. */
Answer answer_for(PyObject *function, State **state);
int answers_mark_version(PyCodeObject *code, State *state);

/* Whether the code is a rewritten one; a new reference to its State in `*state` if that is the
   current compiler's answer for the original, else NULL. */
bool answers_version(PyCodeObject *code, State **state);

/* ---- gates and segments */

/* Where a segment runs: what its fetches read and its exit writes. */
typedef struct {
    Activation *act;
    PyObject *const *locals; /* slots from `n_locals` on are unbound */
    Py_ssize_t n_locals;
    PyObject *const *stack;
    Py_ssize_t depth;
    Frame *frame;                                /* NULL at the entry */
    Py_ssize_t function_modes, dispatch_modes; /* torch's mode stacks */
    bool is_traced;                            /* torch.jit.trace is recording operations */
} Site;

typedef enum {
    GATE_ERROR = -1,
    GATE_PASS,   /* go on in the interpreter */
    GATE_MISSED, /* the same, after the compiler was asked */
    GATE_RETURN, /* result.value is what the function returns */
    GATE_EXIT,   /* go on at result.exit with result.value as the stack */
} Verdict;

typedef struct {
    PyObject *value;
    long exit;
    int level; /* of the caller whose exit it is, 0 for the frame itself */
} Result;

int gate_setup(void);
/* The gate at the same place for a context: a new reference, NULL with an exception. */
Gate *gate_in_context(Gate *gate, PyObject *context);
Verdict gate_dispatch(Gate *gate, Site *site, Result *result);

typedef enum { RUN_ERROR = -1, RUN_MATCHED, RUN_MISMATCH, RUN_ABANDONED } RunOutcome;

enum { SEGMENT_RETURN = -1, SEGMENT_STAY = -2 };

/* Run a segment. RUN_MATCHED fills `result`; RUN_MISMATCH leaves the failed step in the segment;
   RUN_ABANDONED: its graph failed and `failed` said to go on in the interpreter. */
RunOutcome segment_run(PyObject *segment, Site *site, Result *result);
int segment_failed_step(PyObject *segment);

/* ---- torch's global state (torchstate.c) */

int torch_state_measure_modes(Site *site); /* 0, or -1 with an exception */
PyObject *torch_state_token(void);
int torch_state_equals(PyObject *token, const Site *site); /* 1, 0, or -1 with an exception */
int torch_state_setup(PyObject *torch);
PyObject *torch_state_fact_names(void);

/* ---- calls */

/* Bind arguments to the first slots of a function's frame as CPython would: 1 with owned references
   in `slots` (NULL before), 0 if the call is wrong and CPython is to say how, -1 with an exception.
   Unless it is 1, the slots are left empty. */
int bind_arguments(PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *kwnames,
                   PyObject **slots);

int segment_setup(void);
int tensor_setup(PyObject *torch);

#endif
