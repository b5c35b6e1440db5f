/* The two objects that rewritten code asks, by `~`: Landing, right after its prologue, and Crossing,
   before the instruction of each gate. Both answer None (go on) or (pad, payload).

   They sit among the constants of a version, which its State owns. The collector does not look into
   code objects, so they refer weakly: a State would keep itself alive otherwise. */
#include "runtime.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *gate; /* weak reference */
    long n_exits;
} Crossing;

typedef struct {
    PyObject_HEAD
    PyObject *state; /* weak reference */
} Landing;

/* (pad, payload); the payload is stolen, and NULL stands for an exception. */
static PyObject *
pair(long pad, PyObject *payload)
{
    PyObject *number = payload == NULL ? NULL : PyLong_FromLong(pad);
    PyObject *tuple = number == NULL ? NULL : PyTuple_New(2);
    if (tuple == NULL) {
        Py_XDECREF(number);
        Py_XDECREF(payload);
        return NULL;
    }
    PyTuple_SET_ITEM(tuple, 0, number);
    PyTuple_SET_ITEM(tuple, 1, payload);
    return tuple;
}

/* The frame's own stack slots are popped by its code after this, so no slot may stay NULL. */
static PyObject *
leave_through(long pad, PyObject *payload, PyObject **stack, Py_ssize_t depth)
{
    PyObject *tuple = pair(pad, payload);
    for (Py_ssize_t i = 0; tuple != NULL && i < depth; i++) {
        if (stack[i] == NULL) {
            stack[i] = Py_NewRef(Py_None);
        }
    }
    return tuple;
}

/* Copy the state of an activation's frame into the activation, which goes on with it once the frame
   has returned; `payload` is stolen. The frame keeps its own until then: a signal handler may raise
   before it has returned. The frame of a generator is the one that goes on, so it just keeps its
   slots. */
static void
hand_over(Activation *act, long exit, PyObject *payload)
{
    Frame *frame = act->frame;
    int n_slots = frame_is_generator(frame) ? 0 : act->state->n_localsplus;
    for (int i = 0; i < n_slots; i++) {
        Py_XSETREF(act->localsplus[i], Py_XNewRef(frame_locals(frame)[i]));
    }
    act->exit = exit;
    act->frame = NULL;
    act->left = false;
    Py_XSETREF(act->stack, payload);
}

/* Let the running frame return, to go on elsewhere: itself at level 0, else the `level`th caller; the
   frames below that one return TRANSFER too, which their callers' pads pass on. */
static PyObject *
transfer(Activation *act, int level, long exit, PyObject *payload, Py_ssize_t depth)
{
    PyObject *leaving = leave_through(SEGMENT_RETURN, Py_NewRef(sentinel_transfer),
                                      frame_stack(act->frame), depth);
    if (leaving == NULL) {
        Py_DECREF(payload);
        return NULL;
    }
    for (; level > 0; level--) {
        act->left = true;
        act = act->outer;
    }
    hand_over(act, exit, payload);
    return leaving;
}

/* The stack as an exit's payload: top first, None for NULL. */
static PyObject *
stack_payload(PyObject *const *stack, Py_ssize_t depth)
{
    PyObject *payload = PyTuple_New(depth);
    for (Py_ssize_t i = 0; payload != NULL && i < depth; i++) {
        PyObject *value = stack[depth - 1 - i];
        PyTuple_SET_ITEM(payload, i, Py_NewRef(value == NULL ? Py_None : value));
    }
    return payload;
}

/* The number of the exit "here, past the gate", -1 for none, -2 with an exception. */
static long
exit_here(Gate *gate, State *state)
{
    PyObject *compiler = current.compiler;
    current.compiler = NULL;
    PyObject *number = PyObject_CallMethod((PyObject *)state, "exit_of", "n", gate->index);
    current.compiler = compiler;
    long exit = number == NULL ? -2 : number == Py_None ? -1 : PyLong_AsLong(number);
    Py_XDECREF(number);
    return PyErr_Occurred() ? -2 : exit;
}

/* The compiler was asked and found nothing to run. It may have made a newer version; the rest of
   the call runs in that one, from this same place. */
static PyObject *
after_miss(Gate *gate, Activation *act, Frame *frame)
{
    State *state = act->state;
    if (state->version == NULL || state->version == frame_code(frame)) {
        Py_RETURN_NONE;
    }
    long exit = exit_here(gate, state);
    if (exit == -1) {
        Py_RETURN_NONE;
    }
    PyObject *payload = exit < 0 ? NULL : stack_payload(frame_stack(frame), gate->depth);
    return payload == NULL ? NULL : transfer(act, 0, exit, payload, gate->depth);
}

/* A generator may live long, and moving it costs little: it always goes on in the newest version. */
static bool
is_left_behind(Activation *act, Frame *frame)
{
    return frame_is_generator(frame) && act->state->version != frame_code(frame) &&
           act->state->version != NULL;
}

static PyObject *
cross(Gate *gate, long n_exits, Activation *act, Frame *frame)
{
    PyObject **stack = frame_stack(frame);
    Result result = {0};
    Site site = {
        .act = act,
        .locals = frame_locals(frame),
        .n_locals = act->state->n_localsplus,
        .stack = stack,
        .depth = gate->depth,
        .frame = frame,
    };
    Verdict verdict = gate_dispatch(gate, &site, &result);
    if ((verdict == GATE_RETURN || verdict == GATE_EXIT) && result.level > 0) {
        return transfer(act, result.level, verdict == GATE_RETURN ? RETURNED : result.exit,
                        result.value, gate->depth);
    }
    switch (verdict) {
    case GATE_ERROR:
        return NULL;
    case GATE_RETURN:
        if (frame_is_generator(frame)) {
            Py_DECREF(result.value);
            PyErr_SetString(PyExc_RuntimeError, "a segment cannot return from a generator");
            return NULL;
        }
        return leave_through(SEGMENT_RETURN, result.value, stack, gate->depth);
    case GATE_EXIT:
        if (result.exit < n_exits && !is_left_behind(act, frame)) {
            return leave_through(result.exit, result.value, stack, gate->depth);
        }
        return transfer(act, 0, result.exit, result.value, gate->depth);
    case GATE_MISSED:
        return after_miss(gate, act, frame);
    default:
        if (is_left_behind(act, frame)) {
            return after_miss(gate, act, frame);
        }
        Py_RETURN_NONE;
    }
}

static PyObject *
crossing_ask(PyObject *op)
{
    PyThreadState *ts = this_thread();
    Activation *act = current.activation;
    if (current.compiler == NULL || paused || is_tracing(ts) || act == NULL ||
        act->frame == NULL || act->frame != running_frame(ts)) {
        Py_RETURN_NONE;
    }
    if (frame_is_generator(act->frame) && is_handling_outside(ts)) {
        Py_RETURN_NONE; /* sys.exception() is then not what the frame's handlers restore */
    }
    Crossing *self = (Crossing *)op;
    Gate *gate = (Gate *)PyWeakref_GET_OBJECT(self->gate);
    if ((PyObject *)gate == Py_None || gate->state != act->state) {
        Py_RETURN_NONE;
    }
    evaluator_keep(ts);
    gate = act->context == NULL ? (Gate *)Py_NewRef(gate) : gate_in_context(gate, act->context);
    if (gate == NULL) {
        return NULL;
    }
    PyObject *value = cross(gate, self->n_exits, act, act->frame);
    Py_DECREF(gate);
    return value;
}

static void
crossing_dealloc(PyObject *op)
{
    Py_CLEAR(((Crossing *)op)->gate);
    Py_TYPE(op)->tp_free(op);
}

static PyObject *
crossing_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"gate", "n_exits", NULL};
    PyObject *gate;
    long n_exits;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!l", names, &Gate_Type, &gate, &n_exits)) {
        return NULL;
    }
    Crossing *self = (Crossing *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->n_exits = n_exits;
        self->gate = PyWeakref_NewRef(gate, NULL);
        if (self->gate == NULL) {
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

static PyObject *
crossing_get_gate(PyObject *op, void *closure)
{
    return Py_NewRef(PyWeakref_GET_OBJECT(((Crossing *)op)->gate));
}

static PyGetSetDef crossing_getset[] = {
    {"gate", crossing_get_gate, NULL, "The gate, or None if it is gone.", NULL},
    {NULL},
};

static PyMemberDef crossing_members[] = {
    {"n_exits", T_LONG, offsetof(Crossing, n_exits), READONLY, NULL},
    {NULL},
};

static PyNumberMethods crossing_number = {.nb_invert = crossing_ask};

PyTypeObject Crossing_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.Crossing",
    .tp_doc = PyDoc_STR("Crossing(gate, n_exits)\n--\n\nWhat rewritten code asks before the "
                        "instruction of a gate: None (go on), or (pad, payload)."),
    .tp_basicsize = sizeof(Crossing),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_as_number = &crossing_number,
    .tp_new = crossing_new,
    .tp_dealloc = crossing_dealloc,
    .tp_getset = crossing_getset,
    .tp_members = crossing_members,
};

/* ---- landing */

/* Move the arguments into a frame that starts at the top; MAKE_CELL has made its cells already. */
static int
land_arguments(Activation *act, PyObject **locals)
{
    State *state = act->state;
    for (int i = 0; i < state->n_args; i++) {
        PyObject *value = act->localsplus[i];
        act->localsplus[i] = NULL;
        if (!code_slot_is_cell(state->code, i)) {
            Py_XSETREF(locals[i], value);
            continue;
        }
        int failed = PyCell_Set(locals[i], value);
        Py_XDECREF(value);
        if (failed) {
            return -1;
        }
    }
    return 0;
}

/* Move a whole state in. Free variables that nobody stored keep the function's own cells. */
static void
land_state(Activation *act, PyObject **locals)
{
    State *state = act->state;
    for (int i = 0; i < state->n_localsplus; i++) {
        PyObject *value = act->localsplus[i];
        act->localsplus[i] = NULL;
        if (value != NULL || i < state->n_localsplus - state->n_free) {
            Py_XSETREF(locals[i], value);
        }
    }
}

static PyObject *
landing_ask(PyObject *op)
{
    Frame *frame = running_frame(this_thread());
    Activation *act = current.activation;
    if (act == NULL || act->frame != NULL || act->code != frame_code(frame) ||
        (PyObject *)act->state != PyWeakref_GET_OBJECT(((Landing *)op)->state)) {
        Py_RETURN_NONE; /* somebody else runs this code: from the top, as it stands */
    }
    act->frame = frame;
    act->left = false;
    if (act->exit == FROM_THE_TOP) {
        if (land_arguments(act, frame_locals(frame)) < 0) {
            return NULL;
        }
        Py_RETURN_NONE;
    }
    if (!frame_is_generator(frame)) {
        land_state(act, frame_locals(frame));
    }
    PyObject *payload = act->stack;
    act->stack = NULL;
    return pair(act->exit, payload);
}

static void
landing_dealloc(PyObject *op)
{
    Py_CLEAR(((Landing *)op)->state);
    Py_TYPE(op)->tp_free(op);
}

static PyObject *
landing_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"state", NULL};
    PyObject *state;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!", names, &State_Type, &state)) {
        return NULL;
    }
    Landing *self = (Landing *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->state = PyWeakref_NewRef(state, NULL);
        if (self->state == NULL) {
            Py_CLEAR(self);
        }
    }
    return (PyObject *)self;
}

static PyObject *
landing_get_state(PyObject *op, void *closure)
{
    return Py_NewRef(PyWeakref_GET_OBJECT(((Landing *)op)->state));
}

static PyGetSetDef landing_getset[] = {
    {"state", landing_get_state, NULL, "The state, or None if it is gone.", NULL},
    {NULL},
};

static PyNumberMethods landing_number = {.nb_invert = landing_ask};

PyTypeObject Landing_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "segue._core.Landing",
    .tp_doc = PyDoc_STR("Landing(state)\n--\n\nWhat rewritten code asks first: None (from the "
                        "top), or (pad, payload)."),
    .tp_basicsize = sizeof(Landing),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_as_number = &landing_number,
    .tp_new = landing_new,
    .tp_dealloc = landing_dealloc,
    .tp_getset = landing_getset,
};
