/* The check of a tensor's metadata. For plain tensors and parameters it reads the DLPack view;
   other classes, and tensors that DLPack refuses, are asked through their Python attributes. */
#include "dlpack.h"
#include "segment.h"
#include "torchabi.h"

/* What a step compares with; sizes[i] or strides[i] < 0: any. */
typedef struct {
    bool use_view, any_sizes, any_strides;
    int32_t device_type, device_index; /* device_index < 0: not compared */
    uint8_t code, bits;
    int32_t ndim;
    int64_t dims[]; /* sizes, then strides */
} Layout;

enum { OPERAND_CLASS = 2, DTYPE, DEVICE_TYPE, DEVICE_INDEX, SIZES, STRIDES, REQUIRES_GRAD };

enum { ANY = -1 };

/* ---- torch */

const DLExchange *dl_exchange;
static PyObject *plain_classes[2]; /* torch.Tensor and torch.nn.Parameter */
static PyObject *dtype_codes;      /* dict of dtype: code * 256 + bits */
static PyObject *is_wrapped;       /* whether a functorch transform wraps the tensor */
static PyObject *strided;          /* torch.strided */
static PyGetSetDef *requires_grad; /* of torch's tensor base class */
PyTypeObject *tensor_base;

static PyObject *str_dtype, *str_device, *str_type, *str_index, *str_size, *str_stride, *str_layout;

static const DType dtypes[] = {
    {"uint8", DL_UINT, 8},     {"uint16", DL_UINT, 16},       {"uint32", DL_UINT, 32},
    {"uint64", DL_UINT, 64},   {"int8", DL_INT, 8},           {"int16", DL_INT, 16},
    {"int32", DL_INT, 32},     {"int64", DL_INT, 64},         {"float16", DL_FLOAT, 16},
    {"float32", DL_FLOAT, 32}, {"float64", DL_FLOAT, 64},     {"bfloat16", DL_BFLOAT, 16},
    {"bool", DL_BOOL, 8},      {"complex64", DL_COMPLEX, 64}, {"complex128", DL_COMPLEX, 128},
};

static const struct {
    const char *name;
    int32_t type;
} devices[] = {{"cpu", DL_CPU}, {"cuda", DL_CUDA}, {"xpu", DL_ONEAPI}, {"mps", DL_METAL}};

const DType *
find_dtype(PyObject *dtype)
{
    PyObject *code =
        dtype_codes == NULL ? NULL : PyDict_GetItemWithError(dtype_codes, dtype);
    for (size_t i = 0; code != NULL && i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (PyLong_AsLong(code) == dtypes[i].code * 256 + dtypes[i].bits) {
            return &dtypes[i];
        }
    }
    return NULL;
}

static int
check_requires_grad(PyObject *tensor, PyObject *expected)
{
    PyObject *value = requires_grad->get(tensor, requires_grad->closure);
    if (value == NULL) {
        return -1;
    }
    Py_DECREF(value);
    return value == expected;
}

/* ---- through DLPack */

static bool
dims_match(const int64_t *found, const int64_t *expected, int32_t ndim)
{
    for (int32_t i = 0; i < ndim; i++) {
        if (expected[i] != ANY && found[i] != expected[i]) {
            return false;
        }
    }
    return true;
}

static bool
view_matches(const DLTensorView *view, const Layout *layout)
{
    return view->dtype.code == layout->code && view->dtype.bits == layout->bits &&
           view->dtype.lanes == 1 && view->device.type == layout->device_type &&
           (layout->device_index < 0 || view->device.index == layout->device_index) &&
           (layout->any_sizes || (view->ndim == layout->ndim &&
                                  dims_match(view->shape, layout->dims, layout->ndim))) &&
           (layout->any_strides ||
            (view->ndim == layout->ndim &&
             dims_match(view->strides, layout->dims + layout->ndim, layout->ndim)));
}

/* ---- through attributes */

/* Whether obj.name, or obj.name() if `is_method`, equals `expected`. */
static int
attribute_equals(PyObject *object, PyObject *name, PyObject *expected, bool is_method)
{
    PyObject *value = is_method ? PyObject_CallMethodNoArgs(object, name)
                                : PyObject_GetAttr(object, name);
    if (value == NULL) {
        return -1;
    }
    int same = PyObject_RichCompareBool(value, expected, Py_EQ);
    Py_DECREF(value);
    return same;
}

static int
device_matches(PyObject *tensor, PyObject *type, PyObject *index)
{
    PyObject *device = PyObject_GetAttr(tensor, str_device);
    if (device == NULL) {
        return -1;
    }
    int same = attribute_equals(device, str_type, type, false);
    if (same > 0 && index != Py_None) {
        same = attribute_equals(device, str_index, index, false);
    }
    Py_DECREF(device);
    return same;
}

/* size() or stride() against a tuple in which None stands for any. */
static int
dims_equal(PyObject *tensor, PyObject *method, PyObject *expected)
{
    if (expected == Py_None) {
        return 1;
    }
    PyObject *found = PyObject_CallMethodNoArgs(tensor, method);
    if (found == NULL) {
        return -1;
    }
    int same = PyTuple_Check(found) && PyTuple_GET_SIZE(found) == PyTuple_GET_SIZE(expected);
    for (Py_ssize_t i = 0; same > 0 && i < PyTuple_GET_SIZE(expected); i++) {
        PyObject *item = PyTuple_GET_ITEM(expected, i);
        if (item != Py_None) {
            same = PyObject_RichCompareBool(PyTuple_GET_ITEM(found, i), item, Py_EQ);
        }
    }
    Py_DECREF(found);
    return same;
}

/* A tensor inside a functorch transform looks like a plain one but cannot be used like one. */
static int
is_ordinary(PyObject *tensor)
{
    PyObject *wrapped = PyObject_CallOneArg(is_wrapped, tensor);
    if (wrapped == NULL) {
        return -1;
    }
    Py_DECREF(wrapped);
    return wrapped == Py_False;
}

static int
attributes_match(PyObject *tensor, PyObject *tuple)
{
#define OPERAND(i) PyTuple_GET_ITEM(tuple, i)
    int same = is_ordinary(tensor);
    if (same > 0 && OPERAND(STRIDES) != Py_None) {
        same = attribute_equals(tensor, str_layout, strided, false);
    }
    if (same > 0) {
        same = attribute_equals(tensor, str_dtype, OPERAND(DTYPE), false);
    }
    if (same > 0) {
        same = device_matches(tensor, OPERAND(DEVICE_TYPE), OPERAND(DEVICE_INDEX));
    }
    if (same > 0) {
        same = dims_equal(tensor, str_size, OPERAND(SIZES));
    }
    if (same > 0) {
        same = dims_equal(tensor, str_stride, OPERAND(STRIDES));
    }
    return same;
}

/* ---- the step */

static StepOutcome
check_tensor(Run *run, Step *step)
{
    PyObject *tensor = run->registers[step->a], *tuple = step->x;
    const Layout *layout = step->data;
    if ((PyObject *)Py_TYPE(tensor) != OPERAND(OPERAND_CLASS)) {
        return STEP_MISMATCH;
    }
    int same = check_requires_grad(tensor, OPERAND(REQUIRES_GRAD));
    if (same <= 0) {
        return same < 0 ? STEP_RAISED : STEP_MISMATCH;
    }
    DLTensorView view;
    if (layout->use_view) {
        if (dl_exchange->view(tensor, &view) == 0) {
            return view_matches(&view, layout) ? STEP_OK : STEP_MISMATCH;
        }
        PyErr_Clear();
    }
    same = attributes_match(tensor, tuple);
    return same < 0 ? STEP_RAISED : same ? STEP_OK : STEP_MISMATCH;
#undef OPERAND
}

/* A tuple of numbers and None, of `n` items unless n < 0, or None alone. */
static bool
is_dims(PyObject *object, Py_ssize_t n)
{
    if (object == Py_None) {
        return true;
    }
    if (!PyTuple_Check(object) || (n >= 0 && PyTuple_GET_SIZE(object) != n)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
        PyObject *item = PyTuple_GET_ITEM(object, i);
        if (item != Py_None && !PyLong_CheckExact(item)) {
            return false;
        }
    }
    return true;
}

static int
fill_dims(int64_t *dims, PyObject *tuple)
{
    for (Py_ssize_t i = 0; tuple != Py_None && i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *item = PyTuple_GET_ITEM(tuple, i);
        dims[i] = item == Py_None ? ANY : PyLong_AsLongLong(item);
        if (PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

/* What the view is compared with; without a counterpart in DLPack, attributes are used. */
static int
fill_layout(Layout *layout, PyObject *tuple)
{
    PyObject *class = PyTuple_GET_ITEM(tuple, OPERAND_CLASS);
    PyObject *sizes = PyTuple_GET_ITEM(tuple, SIZES), *strides = PyTuple_GET_ITEM(tuple, STRIDES);
    PyObject *type = PyTuple_GET_ITEM(tuple, DEVICE_TYPE);
    PyObject *index = PyTuple_GET_ITEM(tuple, DEVICE_INDEX);
    PyObject *code = PyDict_GetItemWithError(dtype_codes, PyTuple_GET_ITEM(tuple, DTYPE));
    bool is_known = false;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        if (PyUnicode_CompareWithASCIIString(type, devices[i].name) == 0) {
            layout->device_type = devices[i].type;
            is_known = true;
        }
    }
    layout->use_view = is_known && code != NULL && dl_exchange != NULL &&
                       dl_exchange->view != NULL &&
                       (class == plain_classes[0] || class == plain_classes[1]);
    if (code != NULL) {
        layout->code = (uint8_t)(PyLong_AsLong(code) / 256);
        layout->bits = (uint8_t)(PyLong_AsLong(code) % 256);
    }
    bool has_index = index != Py_None && layout->device_type != DL_CPU;
    layout->device_index = has_index ? (int32_t)PyLong_AsLong(index) : -1;
    layout->any_sizes = sizes == Py_None;
    layout->any_strides = strides == Py_None;
    if (PyErr_Occurred() || fill_dims(layout->dims, sizes) < 0) {
        return -1;
    }
    return fill_dims(layout->dims + layout->ndim, strides);
}

static bool
are_operands_right(PyObject *tuple)
{
    PyObject *class = PyTuple_GET_ITEM(tuple, OPERAND_CLASS);
    PyObject *sizes = PyTuple_GET_ITEM(tuple, SIZES), *strides = PyTuple_GET_ITEM(tuple, STRIDES);
    PyObject *index = PyTuple_GET_ITEM(tuple, DEVICE_INDEX);
    Py_ssize_t ndim = PyTuple_Check(sizes) ? PyTuple_GET_SIZE(sizes) : -1;
    return PyType_Check(class) && PyType_IsSubtype((PyTypeObject *)class, tensor_base) &&
           PyUnicode_CheckExact(PyTuple_GET_ITEM(tuple, DEVICE_TYPE)) &&
           (index == Py_None || PyLong_CheckExact(index)) && is_dims(sizes, -1) &&
           is_dims(strides, ndim) && PyBool_Check(PyTuple_GET_ITEM(tuple, REQUIRES_GRAD));
}

static int
prepare_tensor(Step *step, PyObject *tuple)
{
    if (tensor_base == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "setup_torch() has not been called");
        return -1;
    }
    if (!are_operands_right(tuple)) {
        return -1;
    }
    PyObject *sizes = PyTuple_GET_ITEM(tuple, SIZES), *strides = PyTuple_GET_ITEM(tuple, STRIDES);
    PyObject *dims = sizes == Py_None ? strides : sizes;
    Py_ssize_t ndim = dims == Py_None ? 0 : PyTuple_GET_SIZE(dims);
    Layout *layout = PyMem_Calloc(1, sizeof(Layout) + 2 * ndim * sizeof(int64_t));
    if (layout == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    layout->ndim = (int32_t)ndim;
    step->data = layout;
    step->x = tuple;
    return fill_layout(layout, tuple);
}

const StepKind tensor_steps[] = {
    {"tensor", "r.......", check_tensor, prepare_tensor, BEFORE_COMMIT},
    {NULL},
};

/* ---- setup */

static int
find_exchange(PyObject *tensor_class)
{
    PyObject *capsule = PyObject_GetAttrString(tensor_class, "__dlpack_c_exchange_api__");
    if (capsule == NULL) {
        PyErr_Clear();
        return 0; /* an older torch: attributes do */
    }
    const DLExchange *found = PyCapsule_GetPointer(capsule, DLPACK_CAPSULE);
    Py_DECREF(capsule);
    if (found == NULL) {
        return -1;
    }
    dl_exchange = found->version.major == DLPACK_MAJOR ? found : NULL;
    return 0;
}

static int
find_dtypes(PyObject *torch)
{
    PyObject *codes = PyDict_New();
    for (size_t i = 0; codes != NULL && i < sizeof dtypes / sizeof dtypes[0]; i++) {
        PyObject *dtype = PyObject_GetAttrString(torch, dtypes[i].name);
        PyObject *code = PyLong_FromLong(dtypes[i].code * 256 + dtypes[i].bits);
        if (dtype == NULL || code == NULL || PyDict_SetItem(codes, dtype, code) < 0) {
            Py_CLEAR(codes);
        }
        Py_XDECREF(dtype);
        Py_XDECREF(code);
    }
    Py_XSETREF(dtype_codes, codes);
    return codes == NULL ? -1 : 0;
}

/* The getter of `requires_grad` itself: subclasses may run anything in front of it. */
static int
find_requires_grad(PyObject *tensor_class)
{
    PyObject *name = PyUnicode_InternFromString("requires_grad");
    if (name == NULL) {
        return -1;
    }
    PyObject *descriptor = _PyType_Lookup((PyTypeObject *)tensor_class, name);
    Py_DECREF(name);
    if (descriptor == NULL || !Py_IS_TYPE(descriptor, &PyGetSetDescr_Type)) {
        PyErr_SetString(PyExc_RuntimeError, "torch.Tensor.requires_grad is not what it was");
        return -1;
    }
    requires_grad = ((PyGetSetDescrObject *)descriptor)->d_getset;
    tensor_base = PyDescr_TYPE(descriptor);
    return 0;
}

static PyObject *
attribute_at(PyObject *object, const char *first, const char *second)
{
    PyObject *inner = PyObject_GetAttrString(object, first);
    PyObject *found = inner == NULL ? NULL : PyObject_GetAttrString(inner, second);
    Py_XDECREF(inner);
    return found;
}

int
tensor_setup(PyObject *torch)
{
    const struct {
        PyObject **place;
        const char *text;
    } names[] = {
        {&str_dtype, "dtype"}, {&str_device, "device"}, {&str_type, "type"},
        {&str_index, "index"}, {&str_size, "size"},     {&str_stride, "stride"},
        {&str_layout, "layout"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *names[i].place = PyUnicode_InternFromString(names[i].text);
        if (*names[i].place == NULL) {
            return -1;
        }
    }
    PyObject *functorch = attribute_at(torch, "_C", "_functorch");
    Py_XSETREF(is_wrapped, functorch == NULL
                               ? NULL
                               : PyObject_GetAttrString(functorch, "is_functorch_wrapped_tensor"));
    Py_XDECREF(functorch);
    Py_XSETREF(strided, PyObject_GetAttrString(torch, "strided"));
    Py_XSETREF(plain_classes[0], PyObject_GetAttrString(torch, "Tensor"));
    Py_XSETREF(plain_classes[1], attribute_at(torch, "nn", "Parameter"));
    if (is_wrapped == NULL || strided == NULL || plain_classes[0] == NULL ||
        plain_classes[1] == NULL) {
        return -1;
    }
    return find_exchange(plain_classes[0]) < 0 || find_dtypes(torch) < 0
               ? -1
               : find_requires_grad(plain_classes[0]);
}
