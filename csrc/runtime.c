/* The state of a thread, the frame evaluator, and the driver that runs one call of a function. */
#include "runtime.h"

#include <pthread.h>

_Thread_local Thread current __attribute__((tls_model("initial-exec")));
bool paused = false;

/* ---- the frame evaluator */

static long holds;      /* by all threads */
static Evaluator base;  /* what was installed when the first hold was taken */
static Evaluator below; /* what frames are passed on to; NULL: CPython's own */

static PyObject *hook(PyThreadState *ts, Frame *frame, int throwflag);

static Evaluator
unless_default(Evaluator evaluator)
{
    return evaluator == evaluate_frame || evaluator == _PyEval_EvalFrameDefault ? NULL : evaluator;
}

/* Another tool's evaluator may have been put above ours, and frames that reach it may come to ours
   or not. Ours goes on top while we hold; the tool finds its own in place again afterwards. */
void
evaluator_hold(PyThreadState *ts, Hold *hold)
{
    Evaluator installed = installed_evaluator(ts);
    *hold = (Hold){NULL, NULL};
    current.holds++;
    if (holds++ == 0) {
        if (installed != hook) {
            base = installed;
            below = unless_default(installed);
            install_evaluator(ts, hook);
        }
        return;
    }
    if (installed == hook) {
        return;
    }
    if (unless_default(installed) != NULL) {
        *hold = (Hold){installed, below};
        below = installed;
    }
    install_evaluator(ts, hook);
}

void
evaluator_release(PyThreadState *ts, const Hold *hold)
{
    current.holds--;
    bool ours = installed_evaluator(ts) == hook;
    if (--holds == 0) {
        if (ours) {
            install_evaluator(ts, base);
        }
        below = unless_default(base);
    }
    else if (hold->displaced != NULL) {
        if (ours) {
            install_evaluator(ts, hold->displaced);
        }
        below = hold->below;
    }
}

void
evaluator_keep(PyThreadState *ts)
{
    if (unless_default(installed_evaluator(ts)) == NULL) {
        install_evaluator(ts, hook);
    }
}

long
evaluator_holds(void)
{
    return holds;
}

/* Only the thread that forked lives on in the child. */
static void
after_fork_in_child(void)
{
    holds = current.holds;
}

static bool
is_version(PyCodeObject *code)
{
    State *state;
    bool is_one = answers_version(code, &state);
    Py_XDECREF(state);
    return is_one;
}

/* Hand a frame to the evaluator below ours. That one may come back to us with the same frame, since
   tools remember each other in either order: then the circle is closed and CPython runs it. */
static PyObject *
pass_on(PyThreadState *ts, Frame *frame, int throwflag)
{
    if (below == NULL || frame == current.passing || is_version(frame_code(frame))) {
        return evaluate_frame(ts, frame, throwflag);
    }
    Frame *outer = current.passing;
    current.passing = frame;
    PyObject *value = below(ts, frame, throwflag);
    current.passing = outer;
    return value;
}

static PyObject *
pass_on_disabled(PyThreadState *ts, Frame *frame)
{
    PyObject *compiler = current.compiler;
    current.compiler = NULL;
    PyObject *value = pass_on(ts, frame, 0);
    current.compiler = compiler;
    return value;
}

void
activation_end(Activation *act)
{
    current.activation = act->outer;
    Py_CLEAR(act->stack);
    Py_CLEAR(act->code);
}

/* Resume a generator. One in a version of ours may ask to go on in a newer one: it then yields
   TRANSFER, with its state in the activation. */
static PyObject *
resume_generator(PyThreadState *ts, Frame *frame, int throwflag)
{
    State *state;
    if (!answers_version(frame_code(frame), &state) || state == NULL) {
        return pass_on(ts, frame, throwflag);
    }
    Activation act = {
        .outer = current.activation,
        .state = state,
        .function = frame_function(frame),
        .frame = frame,
        .exit = FROM_THE_TOP,
    };
    current.activation = &act;
    PyObject *value = evaluate_frame(ts, frame, throwflag);
    while (value == sentinel_transfer) {
        Py_DECREF(value);
        Py_XINCREF(state->version);
        Py_XSETREF(act.code, state->version);
        value = generator_move(frame, act.code) < 0 ? NULL : evaluate_frame(ts, frame, 0);
    }
    activation_end(&act);
    Py_DECREF(state);
    return value;
}

/* CPython clears the frame after the evaluator has returned, whether or not the frame has run. */
static PyObject *
hook(PyThreadState *ts, Frame *frame, int throwflag)
{
    if (holds == 0 && installed_evaluator(ts) == hook) {
        install_evaluator(ts, base); /* a tool that was above ours has put ours back */
    }
    if (current.compiler == NULL || frame == current.passing) {
        return pass_on(ts, frame, throwflag);
    }
    PyCodeObject *code = frame_code(frame);
    if (code == current.plain) {
        current.plain = NULL;
        return pass_on(ts, frame, throwflag);
    }
    if (frame_is_generator(frame)) {
        return resume_generator(ts, frame, throwflag);
    }
    bool makes_generator = code_is_generator(code);
    if (throwflag || paused || is_tracing(ts) ||
        !(makes_generator || code_is_plain_function(code))) {
        return pass_on(ts, frame, throwflag);
    }

    State *state = NULL;
    switch (answer_for(frame_function(frame), &state)) {
    case ANSWER_ERROR:
        return NULL;
    case ANSWER_DISABLE:
        return pass_on_disabled(ts, frame);
    case ANSWER_STATE: {
        PyObject *value = NULL;
        PyObject **slots = frame_locals(frame);
        if (makes_generator && state->version != NULL) {
            value = make_generator(state, frame_function(frame), slots);
            Py_DECREF(state);
            return value;
        }
        bool done = !makes_generator && drive(state, frame_function(frame), slots, slots, true, &value);
        Py_DECREF(state);
        return done ? value : pass_on(ts, frame, 0);
    }
    case ANSWER_VERSION:
        return evaluate_frame(ts, frame, 0); /* no other tool is to rewrite it again */
    default:
        return pass_on(ts, frame, 0);
    }
}

PyObject *
call_plain(PyObject *function, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyThreadState *ts = this_thread();
    PyCodeObject *outer = current.plain;
    Hold hold;
    evaluator_hold(ts, &hold);
    current.plain = (PyCodeObject *)PyFunction_GET_CODE(function);
    PyObject *value = PyObject_Vectorcall(function, args, nargsf, kwnames);
    current.plain = outer;
    evaluator_release(ts, &hold);
    return value;
}

PyObject *
call_disabled(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyObject *compiler = current.compiler;
    current.compiler = NULL;
    PyObject *value = PyObject_Vectorcall(callable, args, nargsf, kwnames);
    current.compiler = compiler;
    return value;
}

/* ---- the driver */

/* A version is called with None for every argument: however it is entered, its landing writes the
   slots, from the activation. */
static PyObject *placeholders[SMALL];

void
activation_adopt(Activation *act)
{
    if (act->adopted) {
        return;
    }
    State *state = act->state;
    for (int i = 0; i < state->n_args; i++) {
        act->localsplus[i] = Py_NewRef(act->arguments[i]);
    }
    for (int i = state->n_args; i < state->n_localsplus; i++) {
        act->localsplus[i] = NULL;
    }
    act->adopted = true;
}

int
activation_make_cells(Activation *act)
{
    State *state = act->state;
    for (int i = 0; i < state->n_localsplus - state->n_free; i++) {
        if (code_slot_is_cell(state->code, i)) {
            PyObject *cell = PyCell_New(act->localsplus[i]);
            if (cell == NULL) {
                return -1;
            }
            Py_XSETREF(act->localsplus[i], cell);
        }
    }
    return 0;
}

/* Start the newest version once; `act` says where it goes on. */
static PyObject *
call_version(Activation *act)
{
    State *state = act->state;
    if (state->version == NULL) {
        PyErr_Format(PyExc_RuntimeError, "%S has no version to go on in", state->code->co_qualname);
        return NULL;
    }
    Py_INCREF(state->version);
    Py_XSETREF(act->code, state->version);
    act->frame = NULL;
    PyObject *function = function_with_code(act->function, act->code);
    if (function == NULL) {
        return NULL;
    }
    PyObject **args = placeholders;
    if (state->n_args > SMALL) {
        args = PyMem_New(PyObject *, state->n_args);
        if (args == NULL) {
            Py_DECREF(function);
            return PyErr_NoMemory();
        }
        for (int i = 0; i < state->n_args; i++) {
            args[i] = Py_None;
        }
    }
    PyObject *value = PyObject_Vectorcall(function, args, state->n_args, NULL);
    if (args != placeholders) {
        PyMem_Free(args);
    }
    Py_DECREF(function);
    return value;
}

/* A frame that needs a pad which its version lacks returns TRANSFER after it has put its state into
   the activation. One that a segment has left for its caller returns it too: it is passed on. */
PyObject *
run_versions(PyThreadState *ts, Activation *act)
{
    PyObject *value;
    Hold hold;
    activation_adopt(act);
    evaluator_hold(ts, &hold);
    while ((value = call_version(act)) == sentinel_transfer && !act->left) {
        Py_DECREF(value);
        if (act->exit == RETURNED) {
            value = act->stack;
            act->stack = NULL;
            break;
        }
    }
    evaluator_release(ts, &hold);
    return value;
}

Activation *
activation_caller(Activation *act, int level)
{
    for (; level > 0 && act != NULL; level--) {
        act = act->context == NULL ? NULL : act->outer;
    }
    return act;
}

static Verdict
dispatch_entry(Activation *act, Result *result)
{
    State *state = act->state;
    Site site = {.act = act, .locals = act->arguments, .n_locals = state->n_args};
    /* Segments may call back into this code without a frame that CPython counts. */
    if (Py_EnterRecursiveCall("")) {
        return GATE_ERROR;
    }
    Verdict verdict = gate_dispatch((Gate *)state->entry, &site, result);
    Py_LeaveRecursiveCall();
    return verdict;
}

bool
drive(State *state, PyObject *function, PyObject *const *arguments, PyObject **localsplus,
      bool adopted, PyObject **value)
{
    Activation act = {
        .outer = current.activation,
        .state = state,
        .function = function,
        .arguments = arguments,
        .localsplus = localsplus,
        .adopted = adopted,
        .exit = FROM_THE_TOP,
    };
    Result result = {0};
    bool done = true;
    current.activation = &act;
    *value = NULL;
    switch (state->entry == NULL ? GATE_PASS : dispatch_entry(&act, &result)) {
    case GATE_ERROR:
        break;
    case GATE_RETURN:
        *value = result.value;
        break;
    case GATE_EXIT:
        act.exit = result.exit;
        act.stack = result.value;
        *value = run_versions(this_thread(), &act);
        break;
    default:
        done = state->version != NULL;
        if (done) {
            *value = run_versions(this_thread(), &act);
        }
    }
    activation_end(&act);
    if (act.adopted && !adopted) {
        for (int i = 0; i < state->n_localsplus; i++) {
            Py_XDECREF(localsplus[i]);
        }
    }
    return done;
}

/* ---- generators */

PyObject *
make_generator(State *state, PyObject *function, PyObject *const *slots)
{
    PyObject *rewritten = function_with_code(function, state->version);
    if (rewritten == NULL) {
        return NULL;
    }
    PyObject *generator = PyObject_Vectorcall(rewritten, slots, state->n_args, NULL);
    Py_DECREF(rewritten);
    return generator;
}

/* 1 with the generator, 0 if the function is to be called plainly, -1 with an exception. */
static int
bind_and_make_generator(State *state, PyObject *function, PyObject *const *args, Py_ssize_t n,
                        PyObject *kwnames, PyObject **generator)
{
    PyObject **slots = PyMem_Calloc(state->n_localsplus + 1, sizeof(PyObject *));
    if (slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int bound = bind_arguments(function, args, n, kwnames, slots);
    if (bound > 0) {
        *generator = make_generator(state, function, slots);
        bound = *generator == NULL ? -1 : 1;
    }
    for (int i = 0; i < state->n_localsplus; i++) {
        Py_XDECREF(slots[i]);
    }
    PyMem_Free(slots);
    return bound;
}

PyObject *
call_generator_function(PyObject *function, PyObject *const *args, size_t nargsf,
                        PyObject *kwnames)
{
    PyObject *compiler = current.compiler, *generator = NULL;
    State *state = NULL;
    int made = 0;
    current.compiler = current.dispatching;
    if (current.compiler != NULL && code_is_generator((PyCodeObject *)PyFunction_GET_CODE(function))) {
        made = answer_for(function, &state) < 0 ? -1 : 0;
    }
    if (state != NULL && state->version != NULL) {
        made = bind_and_make_generator(state, function, args, PyVectorcall_NARGS(nargsf), kwnames,
                                       &generator);
    }
    current.compiler = compiler;
    Py_XDECREF(state);
    return made == 0 ? PyObject_Vectorcall(function, args, nargsf, kwnames) : generator;
}

int
runtime_setup(void)
{
    for (int i = 0; i < SMALL; i++) {
        placeholders[i] = Py_None;
    }
    int failed = pthread_atfork(NULL, NULL, after_fork_in_child);
    if (failed) {
        PyErr_SetString(PyExc_RuntimeError, "cannot register a fork handler");
        return -1;
    }
    return 0;
}
