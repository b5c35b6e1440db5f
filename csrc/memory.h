/* Tensors as memory: where a tensor's values are, and fresh tensors. */
#ifndef SEGUE_MEMORY_H
#define SEGUE_MEMORY_H

#include "torchabi.h"

/* What a tensor's memory is to look like. */
typedef struct {
    PyObject *dtype, *sizes, *strides; /* as Python has them; borrowed */
    const DType *type;
    int32_t torch_dtype; /* c10::ScalarType, -1 if not known */
    int ndim;
    int64_t *dims;    /* sizes, then strides */
    int64_t n_bytes;  /* from the first element to the end of the last */
} Shape;

/* 1 with the address of the first element in `*data`; 0 if the object is no strided tensor on the
   CPU whose memory holds its values as they are; -1 with an exception. */
int memory_of(PyObject *object, void **data);

/* The same, but 0 if the dtype, the sizes or strides are others (strides of dimensions with a
   single element do not matter); `*is_same_size` tells whether only the strides are. */
int memory_if_shaped(PyObject *object, const Shape *shape, void **data, bool *is_same_size);

/* A fresh tensor on the CPU and its memory; NULL with an exception. */
PyObject *memory_fresh(const Shape *shape, void **data);

/* A copy of a tensor of the same sizes in a fresh one. */
PyObject *memory_copy(PyObject *tensor, const Shape *shape, void **data);

int memory_setup(PyObject *torch);

#endif
