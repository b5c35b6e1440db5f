/* Large blocks of memory that are used again, since a page's first touch costs more than what most
   kernels do with it. Nothing here needs the GIL. */
#ifndef SEGUE_POOL_H
#define SEGUE_POOL_H

#include <stddef.h>

#include "dlpack.h"

enum { POOL_DIMS = 8 };

typedef struct Block {
    DLLent lent; /* first: what is released is the block; for whoever took it to fill */
    int64_t dims[2 * POOL_DIMS];
    void *memory;
    size_t size;
    struct Block *newer, *older; /* among the free blocks */
} Block;

void pool_setup(void);

/* A block of at least `size` bytes, NULL if there is no memory. */
Block *pool_take(size_t size);
void pool_give(Block *block);

/* How many bytes of free blocks are kept at most; returns what it was. */
size_t pool_set_limit(size_t limit);

/* Hand the free blocks back to the system; returns their bytes. */
size_t pool_trim(void);

#endif
