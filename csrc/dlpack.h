/* The parts of the DLPack 1.x C exchange ABI that read a tensor's metadata without taking part in
   its ownership, and that make a tensor of memory which we lend (https://dmlc.github.io/dlpack). */
#ifndef SEGUE_DLPACK_H
#define SEGUE_DLPACK_H

#include <stdint.h>

enum { DLPACK_MAJOR = 1 };

/* Device types and dtype codes that torch uses. */
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_METAL = 8, DL_ROCM = 10, DL_ONEAPI = 14 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 };

typedef struct {
    void *data;
    struct {
        int32_t type, index;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; /* in elements */
    uint64_t byte_offset;
} DLTensorView;

typedef struct {
    uint32_t major, minor;
} DLVersion;

/* A tensor with an owner: whoever takes it calls `release` once, on any thread. */
typedef struct DLLent {
    DLVersion version;
    void *owner;
    void (*release)(struct DLLent *);
    uint64_t flags;
    DLTensorView view;
} DLLent;

typedef struct {
    DLVersion version;
    void *previous;
    /* Two functions that make owning tensors. */
    void (*unused[2])(void);
    /* A Python object of `lent`, which it takes; 0, or -1 with an exception. */
    int (*to_object)(DLLent *lent, void **object);
    /* Fill a view that is valid while `tensor` is; 0, or -1 with an exception. May be NULL. */
    int (*view)(void *tensor, DLTensorView *view);
} DLExchange;

#define DLPACK_CAPSULE "dlpack_exchange_api"

#endif
