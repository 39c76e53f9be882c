/* SPDX-License-Identifier: MIT
 *
 * Questions about a heap: its invariants, its table, and what it knows about a pointer. */
#include <string.h>

#include "heap/window.h"

uint64_t ccl_heap_table(const struct ccl_heap *heap)
{
    return (uint64_t)(uintptr_t)heap->table;
}

/* With the lock held. */
static cclResult_t check_chunk(const struct ccl_heap *heap, const struct ccl_window *w)
{
    const struct ccl_family *family = heap->family;
    CCL_CHECK((family->used[w->id / 64] >> w->id % 64 & 1) != 0, cclInternalError, CCL_HEAP,
              "window %u: id not reserved", w->id);
    CCL_CHECK(w->bases[family->rank] == (uint64_t)(uintptr_t)w->base, cclInternalError, CCL_HEAP,
              "window %u: own base is wrong", w->id);
    for (int j = 0; j < heap->n; j++) {
        uint64_t base = w->bases[heap->family_rank[j]];
        CCL_CHECK(base != 0, cclInternalError, CCL_HEAP, "window %u: no base of rank %d", w->id, j);
        CCL_CHECK(heap->shadow[(size_t)j * CCL_WINDOWS + w->id] == base, cclInternalError, CCL_HEAP,
                  "window %u: table entry of rank %d differs", w->id, j);
    }
    return ccl_alloc_check(w->blocks);
}

cclResult_t ccl_heap_check(const struct ccl_heap *heap)
{
    cclResult_t rc = cclSuccess;
    const struct ccl_window *prev = NULL;
    pthread_mutex_lock(&heap->family->lock);
    for (const struct ccl_window *w = heap->family->windows; w != NULL && rc == cclSuccess; prev = w, w = w->next) {
        if (prev != NULL && prev->id >= w->id) {
            rc = ccl_error_set(cclInternalError, CCL_HEAP, "window %u is listed before window %u", prev->id, w->id);
        } else if (w->blocks != NULL && w->state == CCL_WINDOW_VISIBLE && ccl_heap_sees(heap, w->home)) {
            rc = check_chunk(heap, w);
        }
    }
    pthread_mutex_unlock(&heap->family->lock);
    return rc;
}

static int count_peers(const struct ccl_heap *heap, const struct ccl_window *w)
{
    int count = 0;
    for (int j = 0; j < heap->n; j++) {
        count += j != heap->rank && !heap->gone[j] &&
                 (w->blocks != NULL || w->peers[heap->family_rank[j]] == CCL_PEER_MAPPED);
    }
    return count;
}

/* Fill base and size of the block or registered range around addr; false: free space of a chunk. */
static bool describe(const struct ccl_window *w, const char *addr, cclPointerInfo_t *info)
{
    size_t start, bytes;
    if (w->blocks != NULL) {
        if (!ccl_alloc_find(w->blocks, (size_t)(addr - w->base), &start, &bytes)) {
            return false;
        }
        info->kind = cclMemHeap;
        info->base = w->base + start;
        info->size = bytes;
        return true;
    }
    /* Peers map whole allocations, so bytes between registered ranges are registered too: then it is the allocation. */
    info->kind = cclMemRegistered;
    info->base = w->base;
    info->size = w->bytes;
    for (const struct ccl_range *r = w->ranges; r != NULL; r = r->next) {
        if (addr >= r->buff && addr < r->buff + r->bytes) {
            info->base = r->buff;
            info->size = r->bytes;
            break;
        }
    }
    return true;
}

void ccl_heap_pointer_info(const struct ccl_heap *heap, const void *ptr, cclPointerInfo_t *info)
{
    cclPointerInfo_t best = {.kind = cclMemPlain};
    pthread_mutex_lock(&heap->family->lock);
    for (const struct ccl_window *w = heap->family->windows; w != NULL && best.kind != cclMemHeap; w = w->next) {
        cclPointerInfo_t found = best;
        if (w->state != CCL_WINDOW_VISIBLE || !ccl_heap_sees(heap, w->home) ||
            (uintptr_t)ptr - (uintptr_t)w->base >= w->bytes || !describe(w, ptr, &found)) {
            continue;
        }
        found.offset = (size_t)((const char *)ptr - (char *)found.base);
        found.window = (int)w->id;
        found.peers_mapped = count_peers(heap, w);
        best = found;
    }
    pthread_mutex_unlock(&heap->family->lock);
    *info = best;
}
