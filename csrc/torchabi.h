/* What is used of torch below its Python interface: DLPack, the C functions of libtorch_cpu, and
   a few others that are looked up by name. Whatever a torch lacks is NULL here, and its callers
   have another way. */
#ifndef SEGUE_TORCHABI_H
#define SEGUE_TORCHABI_H

#include <stdbool.h>

#include "dlpack.h"
#include "runtime.h"

/* The address of an at::Tensor. */
typedef void *TensorHandle;

typedef struct {
    int32_t (*parallel_for)(int64_t begin, int64_t end, int64_t grain,
                            void (*run)(int64_t begin, int64_t end, void *context), void *context);
    int32_t (*empty_strided)(int64_t ndim, const int64_t *sizes, const int64_t *strides,
                             int32_t dtype, int32_t device_type, int32_t device_index,
                             TensorHandle *handle);
    int32_t (*delete_tensor)(TensorHandle handle);
    int32_t (*data_ptr)(TensorHandle handle, void **data);
    int32_t (*device_type)(TensorHandle handle, int32_t *type);
    /* The Python object of a tensor, which is moved out of its handle. */
    PyObject *(*wrap)(TensorHandle handle);
    /* Whether the memory holds the conjugates of the values, or the values negated. */
    bool (*is_conj)(TensorHandle handle), (*is_neg)(TensorHandle handle);
    bool is_complete; /* none of these is NULL */
    bool is_inline;   /* a Python object has its at::Tensor right behind the object's head */
} TorchABI;

extern TorchABI torch_abi;

enum { TORCH_CPU = 0 };

/* NULL if torch has no such function. */
void *torch_abi_symbol(const char *name);

int torch_abi_setup(PyObject *torch);

/* ---- tensor.c */

typedef struct {
    const char *name;
    uint8_t code, bits;
} DType;

extern const DLExchange *dl_exchange; /* or NULL */
extern PyTypeObject *tensor_base;     /* NULL before setup_torch() */

/* NULL if it is none that DLPack knows. */
const DType *find_dtype(PyObject *dtype);

static inline TensorHandle
tensor_handle(PyObject *tensor)
{
    return (char *)tensor + sizeof(PyObject);
}

#endif
