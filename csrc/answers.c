/* What compilers have said of code objects, remembered on the code object.

   A record refers weakly to the compiler and to the State, so a code object keeps neither alive; a
   record whose compiler or State is gone, or whose epoch has passed, is dropped when it is met. */
#include "runtime.h"

typedef struct {
    PyObject *compiler; /* weak reference */
    PyObject *state;    /* weak reference, or NULL for skip and disable */
    Answer answer;
    unsigned long epoch;
} Record;

/* The data of a code object. */
typedef struct {
    PyObject *version_of; /* weak reference to the State that rewrote it, NULL for other code */
    Py_ssize_t n;
    Record *records;
} Memory;

unsigned long answers_epoch = 1;

static PyObject *str_admit;

static void
record_clear(Record *record)
{
    Py_CLEAR(record->compiler);
    Py_CLEAR(record->state);
}

static void
memory_destroy(void *data)
{
    Memory *memory = data;
    if (memory == NULL) {
        return;
    }
    Py_XDECREF(memory->version_of);
    for (Py_ssize_t i = 0; i < memory->n; i++) {
        record_clear(&memory->records[i]);
    }
    PyMem_Free(memory->records);
    PyMem_Free(memory);
}

static bool
record_is_dead(const Record *record)
{
    return record->epoch != answers_epoch || PyWeakref_GET_OBJECT(record->compiler) == Py_None ||
           (record->state != NULL && PyWeakref_GET_OBJECT(record->state) == Py_None);
}

/* Drop the dead records. Weak references are let go last: nothing of ours runs in between. */
static void
memory_purge(Memory *memory)
{
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < memory->n; i++) {
        Record record = memory->records[i];
        if (record_is_dead(&record)) {
            record_clear(&record);
            continue;
        }
        memory->records[kept++] = record;
    }
    memory->n = kept;
}

/* What is known of a code object, made if there is nothing yet; NULL with an exception. */
static Memory *
memory_of(PyCodeObject *code)
{
    Memory *memory = code_data(code);
    if (memory != NULL) {
        return memory;
    }
    memory = PyMem_Calloc(1, sizeof(Memory));
    if (memory == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (set_code_data(code, memory) < 0) {
        PyMem_Free(memory);
        return NULL;
    }
    return memory;
}

static int
remember(PyCodeObject *code, PyObject *compiler, Answer answer, State *state)
{
    Memory *memory = memory_of(code);
    if (memory == NULL) {
        return -1;
    }
    if (memory->version_of != NULL) {
        return 0;
    }
    Record record = {.answer = answer, .epoch = answers_epoch};
    record.compiler = PyWeakref_NewRef(compiler, NULL);
    record.state = state == NULL ? NULL : PyWeakref_NewRef((PyObject *)state, NULL);
    if (record.compiler == NULL || (state != NULL && record.state == NULL)) {
        record_clear(&record);
        return -1;
    }
    memory_purge(memory);
    Record *records = PyMem_Resize(memory->records, Record, memory->n + 1);
    if (records == NULL) {
        record_clear(&record);
        PyErr_NoMemory();
        return -1;
    }
    memory->records = records;
    records[memory->n++] = record;
    return 0;
}

int
answers_mark_version(PyCodeObject *code, State *state)
{
    Memory *memory = memory_of(code);
    PyObject *of = memory == NULL ? NULL : PyWeakref_NewRef((PyObject *)state, NULL);
    if (of == NULL) {
        return -1;
    }
    Py_XSETREF(memory->version_of, of);
    return 0;
}

/* The State that the current compiler is known to have answered with, borrowed, or NULL. */
static State *
known_state(PyCodeObject *code)
{
    Memory *memory = code_data(code);
    for (Py_ssize_t i = 0; memory != NULL && i < memory->n; i++) {
        Record *record = &memory->records[i];
        if (PyWeakref_GET_OBJECT(record->compiler) == current.compiler && !record_is_dead(record)) {
            return record->state == NULL ? NULL : (State *)PyWeakref_GET_OBJECT(record->state);
        }
    }
    return NULL;
}

bool
answers_version(PyCodeObject *code, State **state)
{
    Memory *memory = code_data(code);
    *state = NULL;
    if (memory == NULL || memory->version_of == NULL) {
        return false;
    }
    PyObject *of = PyWeakref_GET_OBJECT(memory->version_of);
    if (of != Py_None && known_state(((State *)of)->code) == (State *)of) {
        *state = (State *)Py_NewRef(of);
    }
    return true;
}

/* What admit() returned, as an Answer; UNDECIDED is the one that is not remembered. */
static Answer
interpret(PyObject *reply, PyObject *function)
{
    if (reply == Py_None) {
        return ANSWER_SKIP;
    }
    if (reply == sentinel_disable) {
        return ANSWER_DISABLE;
    }
    if (reply == sentinel_undecided) {
        return ANSWER_UNDECIDED;
    }
    if (!PyObject_TypeCheck(reply, &State_Type)) {
        PyErr_Format(PyExc_TypeError,
                     "admit() must return a State, None, DISABLE or UNDECIDED, not %.100s",
                     Py_TYPE(reply)->tp_name);
        return ANSWER_ERROR;
    }
    if ((PyObject *)((State *)reply)->code != PyFunction_GET_CODE(function)) {
        PyErr_Format(PyExc_ValueError, "admit(%R) returned the State of another code object",
                     function);
        return ANSWER_ERROR;
    }
    return ANSWER_STATE;
}

static Answer
ask(PyObject *function, State **state)
{
    PyObject *compiler = Py_NewRef(current.compiler);
    PyObject *args[] = {compiler, function};
    current.compiler = NULL;
    PyObject *reply =
        PyObject_VectorcallMethod(str_admit, args, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    current.compiler = compiler;
    Answer answer = ANSWER_ERROR;
    if (reply != NULL) {
        answer = interpret(reply, function);
    }
    if (answer == ANSWER_STATE) {
        *state = (State *)Py_NewRef(reply);
    }
    if (answer >= 0 && answer != ANSWER_UNDECIDED &&
        remember((PyCodeObject *)PyFunction_GET_CODE(function), compiler, answer, *state) < 0) {
        Py_CLEAR(*state);
        answer = ANSWER_ERROR;
    }
    Py_XDECREF(reply);
    Py_DECREF(compiler);
    return answer;
}

Answer
answer_for(PyObject *function, State **state)
{
    Memory *memory = code_data((PyCodeObject *)PyFunction_GET_CODE(function));
    *state = NULL;
    if (memory != NULL && memory->version_of != NULL) {
        return ANSWER_VERSION;
    }
    for (Py_ssize_t i = 0; memory != NULL && i < memory->n; i++) {
        Record *record = &memory->records[i];
        if (PyWeakref_GET_OBJECT(record->compiler) != current.compiler || record_is_dead(record)) {
            continue;
        }
        if (record->state != NULL) {
            *state = (State *)Py_NewRef(PyWeakref_GET_OBJECT(record->state));
        }
        return record->answer;
    }
    return ask(function, state);
}

int
answers_setup(void)
{
    str_admit = PyUnicode_InternFromString("admit");
    return str_admit == NULL ? -1 : code_data_setup(memory_destroy);
}
