/* SPDX-License-Identifier: MIT
 *
 * The device tables: uint64_t[n][CCL_WINDOWS] of each heap, the base of window id of an owner as mapped here, and one more row for users'
 * own kernels: the bytes of heap chunk id, 0 while there is none, and in place of id 0 the highest id of a chunk so far + 1. On a
 * host device an entry is stored with release (pairs with the kernels' acquire load of the entry, before they
 * translate an address); on a GPU it is copied on a stream of the heap's own, since a kernel may be running: 8
 * aligned bytes, so a kernel sees the old or the new base. There, behind it, the kernels' own uint64_t[n][CCL_WINDOWS]: what the blocks of a
 * launch go by (push_look_up_alike). */
#include <stdlib.h>

#include "heap/window.h"

cclResult_t ccl_table_init(struct ccl_heap *heap)
{
    size_t bytes = ((size_t)heap->n + 1) * CCL_WINDOWS * sizeof(uint64_t), said = heap->is_host ? 0 : (size_t)heap->n * CCL_WINDOWS * sizeof(uint64_t);
    void *table;
    CCL_TRY(heap->rt->mem_alloc(CCL_MEM_DATA, bytes + said, &table));
    heap->table = table;
    if (heap->is_host) {
        heap->shadow = heap->table;
        return cclSuccess;
    }
    heap->shadow = calloc(1, bytes);
    CCL_CHECK(heap->shadow != NULL, cclSystemError, CCL_HEAP, "no memory for a window table of %zu bytes", bytes);
    return heap->rt->stream_create(&heap->stream);
}

void ccl_table_finish(struct ccl_heap *heap)
{
    if (heap->stream != NULL) {
        heap->rt->stream_destroy(heap->stream);
    }
    if (heap->shadow != heap->table) {
        free(heap->shadow);
    }
    heap->rt->mem_free(heap->table);
}

static cclResult_t store(struct ccl_heap *heap, int rank, uint32_t id, uint64_t base)
{
    size_t at = (size_t)rank * CCL_WINDOWS + id;
    if (heap->is_host) {
        __atomic_store_n(&heap->table[at], base, __ATOMIC_RELEASE);
        return cclSuccess;
    }
    heap->shadow[at] = base;
    return heap->rt->copy(&heap->table[at], &heap->shadow[at], sizeof(base), heap->stream);
}

/* The stores are in the table when this returns. */
static cclResult_t flush(struct ccl_heap *heap)
{
    return heap->is_host ? cclSuccess : heap->rt->stream_sync(heap->stream);
}

/* The first error counts, the rest is done all the same. */
static void keep_first(cclResult_t *rc, cclResult_t next)
{
    if (*rc == cclSuccess) {
        *rc = next;
    }
}

/* A kernel that finds the size (acquire) finds the bases. */
static cclResult_t store_chunk(struct ccl_heap *heap, const struct ccl_window *w, bool on)
{
    cclResult_t rc = on ? cclSuccess : store(heap, heap->n, w->id, 0);
    for (int j = 0; j < heap->n; j++) {
        keep_first(&rc, store(heap, j, w->id, on ? w->bases[heap->family_rank[j]] : 0));
    }
    if (on) {
        keep_first(&rc, store(heap, heap->n, w->id, w->bytes));
        if (heap->shadow[(size_t)heap->n * CCL_WINDOWS] <= w->id) {
            keep_first(&rc, store(heap, heap->n, 0, w->id + 1));
        }
    }
    return rc;
}

cclResult_t ccl_table_set(struct ccl_family *family, uint64_t home, int owner, uint32_t id, uint64_t base)
{
    cclResult_t rc = cclSuccess;
    for (struct ccl_heap *heap = family->heaps; heap != NULL; heap = heap->next) {
        int rank = heap->rank_of[owner];
        if (rank < 0 || !ccl_heap_sees(heap, home)) {
            continue;
        }
        int device = ccl_heap_device_enter(heap);
        keep_first(&rc, store(heap, rank, id, base));
        keep_first(&rc, flush(heap));
        ccl_heap_device_leave(heap, device);
    }
    return rc;
}

cclResult_t ccl_table_set_chunk(struct ccl_family *family, const struct ccl_window *w, bool on)
{
    cclResult_t rc = cclSuccess;
    for (struct ccl_heap *heap = family->heaps; heap != NULL; heap = heap->next) {
        if (!ccl_heap_sees(heap, w->home)) {
            continue;
        }
        int device = ccl_heap_device_enter(heap);
        keep_first(&rc, store_chunk(heap, w, on));
        keep_first(&rc, flush(heap));
        ccl_heap_device_leave(heap, device);
    }
    return rc;
}

cclResult_t ccl_table_fill(struct ccl_heap *heap)
{
    cclResult_t rc = cclSuccess;
    for (const struct ccl_window *w = heap->family->windows; w != NULL; w = w->next) {
        if (w->state == CCL_WINDOW_HIDDEN || !ccl_heap_sees(heap, w->home)) {
            continue;
        }
        if (w->bases != NULL) {
            keep_first(&rc, store_chunk(heap, w, true));
        } else {
            keep_first(&rc, store(heap, heap->rank, w->id, (uint64_t)(uintptr_t)w->base));
        }
    }
    for (const struct ccl_import *import = heap->family->imports; import != NULL; import = import->next) {
        int rank = heap->rank_of[import->owner];
        if (rank >= 0 && ccl_heap_sees(heap, import->home)) {
            keep_first(&rc, store(heap, rank, import->id, (uint64_t)(uintptr_t)import->base));
        }
    }
    keep_first(&rc, flush(heap));
    return rc;
}
