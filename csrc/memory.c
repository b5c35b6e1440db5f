#include "memory.h"

#include "pool.h"

/* From here on, memory comes from the pool: below, the allocator of the C library reuses memory as
   well, and a tensor that torch allocates can be resized. */
enum { LARGE = 1 << 20 };

static PyObject *empty_strided;     /* torch.empty_strided */
static PyObject *empty_strided_kws; /* ("dtype", "device") */
static PyObject *str_cpu, *str_is_conj, *str_is_neg, *str_numel, *str_copy;

/* ---- where a tensor is */

static int
call_is_true(PyObject *object, PyObject *method)
{
    PyObject *value = PyObject_CallMethodNoArgs(object, method);
    int truth = value == NULL ? -1 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    return truth;
}

/* Whether the memory holds the values themselves: 1, 0, or -1 with an exception. */
static int
is_plain(PyObject *tensor)
{
    if (torch_abi.is_inline) {
        TensorHandle handle = tensor_handle(tensor);
        return !torch_abi.is_conj(handle) && !torch_abi.is_neg(handle);
    }
    int is_other = call_is_true(tensor, str_is_conj);
    if (is_other == 0) {
        is_other = call_is_true(tensor, str_is_neg);
    }
    return is_other < 0 ? -1 : !is_other;
}

static bool
view_of(PyObject *tensor, DLTensorView *view)
{
    if (dl_exchange == NULL || dl_exchange->view == NULL) {
        return false;
    }
    if (dl_exchange->view(tensor, view) < 0) {
        PyErr_Clear();
        return false;
    }
    return view->device.type == DL_CPU || view->device.type == DL_CUDA_HOST;
}

static bool
find_inline(PyObject *tensor, void **data)
{
    TensorHandle handle = tensor_handle(tensor);
    int32_t device;
    return torch_abi.device_type(handle, &device) == 0 && device == TORCH_CPU &&
           torch_abi.data_ptr(handle, data) == 0;
}

static bool
find_by_view(PyObject *tensor, void **data)
{
    DLTensorView view;
    if (!view_of(tensor, &view)) {
        return false;
    }
    *data = view.data == NULL ? NULL : (char *)view.data + view.byte_offset;
    return true;
}

static bool
is_tensor(PyObject *object)
{
    return tensor_base != NULL && PyObject_TypeCheck(object, tensor_base);
}

int
memory_of(PyObject *object, void **data)
{
    if (!is_tensor(object)) {
        return 0;
    }
    bool is_found =
        torch_abi.is_inline ? find_inline(object, data) : find_by_view(object, data);
    if (!is_found) {
        return 0;
    }
    if (*data == NULL) {
        int n = call_is_true(object, str_numel);
        return n < 0 ? -1 : n == 0; /* only an empty tensor may be nowhere */
    }
    return is_plain(object);
}

static bool
has_sizes(const DLTensorView *view, const Shape *shape)
{
    return view->ndim == shape->ndim && view->dtype.code == shape->type->code &&
           view->dtype.bits == shape->type->bits && view->dtype.lanes == 1 &&
           (shape->ndim == 0 ||
            memcmp(view->shape, shape->dims, shape->ndim * sizeof(int64_t)) == 0);
}

static bool
has_strides(const DLTensorView *view, const Shape *shape)
{
    for (int i = 0; i < shape->ndim; i++) {
        if (view->strides[i] != shape->dims[shape->ndim + i] && view->shape[i] > 1) {
            return false;
        }
    }
    return true;
}

int
memory_if_shaped(PyObject *object, const Shape *shape, void **data, bool *is_same_size)
{
    DLTensorView view;
    *is_same_size = is_tensor(object) && view_of(object, &view) && has_sizes(&view, shape);
    if (!*is_same_size || (shape->n_bytes > 0 && !has_strides(&view, shape))) {
        return 0;
    }
    *data = view.data == NULL ? NULL : (char *)view.data + view.byte_offset;
    return is_plain(object);
}

/* ---- fresh tensors */

static void
take_back(DLLent *lent)
{
    pool_give((Block *)lent);
}

static PyObject *
lend_block(const Shape *shape, void **data)
{
    Block *block = pool_take(shape->n_bytes);
    if (block == NULL) {
        return PyErr_NoMemory();
    }
    memcpy(block->dims, shape->dims, 2 * shape->ndim * sizeof(int64_t));
    block->lent = (DLLent){
        .version = {DLPACK_MAJOR, 0},
        .release = take_back,
        .view = {.data = block->memory,
                 .device = {DL_CPU, 0},
                 .ndim = shape->ndim,
                 .dtype = {shape->type->code, shape->type->bits, 1},
                 .shape = block->dims,
                 .strides = block->dims + shape->ndim},
    };
    *data = block->memory;
    void *tensor;
    if (dl_exchange->to_object(&block->lent, &tensor) < 0) {
        pool_give(block);
        return NULL;
    }
    return tensor;
}

/* NULL without an exception if torch could not: then Python's function is to say why. */
static PyObject *
allocate(const Shape *shape, void **data)
{
    const int64_t *sizes = shape->dims, *strides = sizes + shape->ndim;
    TensorHandle handle;
    if (torch_abi.empty_strided(shape->ndim, sizes, strides, shape->torch_dtype, TORCH_CPU, 0,
                                &handle) != 0) {
        return NULL;
    }
    torch_abi.data_ptr(handle, data);
    PyObject *tensor = torch_abi.wrap(handle);
    torch_abi.delete_tensor(handle);
    return tensor;
}

static PyObject *
call_empty_strided(const Shape *shape, void **data)
{
    PyObject *args[] = {shape->sizes, shape->strides, shape->dtype, str_cpu};
    PyObject *tensor = PyObject_Vectorcall(empty_strided, args, 2, empty_strided_kws);
    int found = tensor == NULL ? -1 : memory_of(tensor, data);
    if (found == 0) {
        PyErr_SetString(PyExc_RuntimeError, "torch.empty_strided() made no tensor with memory");
    }
    if (found <= 0) {
        Py_CLEAR(tensor);
    }
    return tensor;
}

PyObject *
memory_fresh(const Shape *shape, void **data)
{
    if (shape->n_bytes >= LARGE && shape->ndim <= POOL_DIMS && dl_exchange != NULL) {
        return lend_block(shape, data);
    }
    PyObject *tensor = NULL;
    if (torch_abi.is_complete && shape->torch_dtype >= 0) {
        tensor = allocate(shape, data);
    }
    return tensor != NULL || PyErr_Occurred() ? tensor : call_empty_strided(shape, data);
}

PyObject *
memory_copy(PyObject *tensor, const Shape *shape, void **data)
{
    PyObject *fresh = memory_fresh(shape, data);
    PyObject *same =
        fresh == NULL ? NULL : PyObject_CallMethodOneArg(fresh, str_copy, tensor);
    if (same == NULL) {
        Py_CLEAR(fresh);
    }
    Py_XDECREF(same);
    return fresh;
}

/* ---- setup */

int
memory_setup(PyObject *torch)
{
    const struct {
        PyObject **place;
        const char *text;
    } names[] = {
        {&str_cpu, "cpu"},       {&str_is_conj, "is_conj"}, {&str_is_neg, "is_neg"},
        {&str_numel, "numel"}, {&str_copy, "copy_"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        Py_XSETREF(*names[i].place, PyUnicode_InternFromString(names[i].text));
        if (*names[i].place == NULL) {
            return -1;
        }
    }
    Py_XSETREF(empty_strided, PyObject_GetAttrString(torch, "empty_strided"));
    Py_XSETREF(empty_strided_kws, Py_BuildValue("(ss)", "dtype", "device"));
    return empty_strided == NULL || empty_strided_kws == NULL ? -1 : torch_abi_setup(torch);
}
