#define _GNU_SOURCE
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t huge_page = (size_t)2 << 20, most = (size_t)2 << 30;

/* The free blocks in a ring from `ends.older`, the one given back last, to `ends.newer`. */
static Block ends = {.newer = &ends, .older = &ends};
static size_t free_bytes, byte_limit;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- the ring */

static void
unlink_block(Block *block)
{
    block->newer->older = block->older;
    block->older->newer = block->newer;
    free_bytes -= block->size;
}

static void
link_newest(Block *block)
{
    block->newer = &ends;
    block->older = ends.older;
    ends.older->newer = block;
    ends.older = block;
    free_bytes += block->size;
}

/* The one that is most likely still in a cache. */
static Block *
find_newest(size_t size)
{
    for (Block *block = ends.older; block != &ends; block = block->older) {
        if (block->size == size) {
            return block;
        }
    }
    return NULL;
}

/* Unlink the oldest blocks beyond `limit` bytes; a list by `older`, to be freed unlocked. */
static Block *
evict(size_t limit)
{
    Block *evicted = NULL;
    while (free_bytes > limit) {
        Block *oldest = ends.newer;
        unlink_block(oldest);
        oldest->older = evicted;
        evicted = oldest;
    }
    return evicted;
}

/* ---- memory */

/* Four sizes to each power of two: tensors of nearly one size share blocks, and a block is at most
   a quarter larger than what it is for. Whole huge pages where it is not smaller than one. */
static size_t
round_up(size_t size)
{
    size_t step = (size_t)1 << 12;
    while (step <= (size - 1) / 8) {
        step *= 2;
    }
    if (size > huge_page - step && step < huge_page) {
        step = huge_page;
    }
    return (size + step - 1) / step * step;
}

static void *
map(size_t size)
{
    size_t spare = size >= huge_page ? huge_page : 0;
    int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    char *start = mmap(NULL, size + spare, access, kind, -1, 0);
    if (start == MAP_FAILED) {
        return NULL;
    }
    if (spare == 0) {
        return start;
    }
    size_t before = -(uintptr_t)start & (huge_page - 1);
    if (before > 0) {
        munmap(start, before);
    }
    if (spare > before) {
        munmap(start + before + size, spare - before);
    }
    madvise(start + before, size, MADV_HUGEPAGE); /* may be refused: then small pages do */
    return start + before;
}

static size_t
free_blocks(Block *block)
{
    size_t freed = 0;
    while (block != NULL) {
        Block *next = block->older;
        freed += block->size;
        munmap(block->memory, block->size);
        free(block);
        block = next;
    }
    return freed;
}

/* ---- the interface */

Block *
pool_take(size_t size)
{
    size = round_up(size);
    pthread_mutex_lock(&mutex);
    Block *block = find_newest(size);
    if (block != NULL) {
        unlink_block(block);
    }
    pthread_mutex_unlock(&mutex);
    if (block != NULL) {
        return block;
    }
    block = calloc(1, sizeof(Block));
    if (block == NULL) {
        return NULL;
    }
    block->size = size;
    block->memory = map(size);
    if (block->memory == NULL) {
        free(block);
        return NULL;
    }
    return block;
}

void
pool_give(Block *block)
{
    pthread_mutex_lock(&mutex);
    Block *evicted = block;
    if (block->size > byte_limit) {
        block->older = NULL; /* one that cannot stay does not drive the others out */
    }
    else {
        link_newest(block);
        evicted = evict(byte_limit);
    }
    pthread_mutex_unlock(&mutex);
    free_blocks(evicted);
}

size_t
pool_set_limit(size_t limit)
{
    pthread_mutex_lock(&mutex);
    size_t before = byte_limit;
    byte_limit = limit;
    Block *evicted = evict(limit);
    pthread_mutex_unlock(&mutex);
    free_blocks(evicted);
    return before;
}

size_t
pool_trim(void)
{
    pthread_mutex_lock(&mutex);
    Block *evicted = evict(0);
    pthread_mutex_unlock(&mutex);
    return free_blocks(evicted);
}

/* ---- setup */

static void
lock(void)
{
    pthread_mutex_lock(&mutex);
}

static void
unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

void
pool_setup(void)
{
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / 16;
    byte_limit = memory < most ? memory : most;
    /* A child that is forked while another thread is in here must not find the mutex locked. */
    pthread_atfork(lock, unlock, unlock);
}
