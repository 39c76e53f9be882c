/* SPDX-License-Identifier: MIT
 *
 * Chunks of the symmetric heap: growing by one (allocate, export, agree on a window id, map the peers' chunks) and
 * taking an empty one away. Every step that can fail on one rank is followed by an agreement, so all ranks have the
 * chunk or none has. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heap/window.h"

#define GROWTH_UNIT ((size_t)2 << 20) /* what GPUs map at least */
#define PAGE ((size_t)4096)
#define ID_ATTEMPTS 64

/* What a rank tells the others about its new chunk. */
struct chunk_card {
    uint64_t chunk_bytes;
    uint64_t size_bytes; /* these three: of the memory handle */
    uint32_t kind;
    uint32_t pad;
    uint8_t blob[CCL_HANDLE_BLOB_BYTES];
};

struct id_card {
    uint64_t used[CCL_WINDOWS / 64];
    uint32_t start;    /* where to begin to search; rank 0's counts */
    uint32_t reserved; /* the id chosen in the round before, 0: it was taken meanwhile */
};

_Static_assert(sizeof(struct chunk_card) <= CCL_CARD_BYTES && sizeof(struct id_card) <= CCL_CARD_BYTES, "cards fit");

void ccl_chunk_close_peers(const struct ccl_family *family, struct ccl_window *w)
{
    for (int f = 0; w->bases != NULL && f < family->size; f++) {
        if (f != family->rank && w->bases[f] != 0) {
            family->rt->mem_close((void *)(uintptr_t)w->bases[f]);
            w->bases[f] = 0;
        }
    }
}

void ccl_chunk_destroy(const struct ccl_family *family, struct ccl_window *w)
{
    if (w == NULL) {
        return;
    }
    ccl_chunk_close_peers(family, w);
    if (!w->pinned) {
        family->rt->mem_free(w->base);
    }
    ccl_alloc_destroy(w->blocks);
    free(w->bases);
    free(w);
}

static cclResult_t make_local(struct ccl_heap *heap, size_t chunk_bytes, size_t bytes, struct ccl_window **out,
                              size_t *off, struct ccl_mem_handle *handle)
{
    struct ccl_window *w = calloc(1, sizeof(*w));
    cclResult_t rc;
    CCL_CHECK(w != NULL, cclSystemError, CCL_HEAP, "no memory for the records of a chunk of %zu bytes", chunk_bytes);
    w->home = heap->serial;
    w->bytes = chunk_bytes;
    w->bases = calloc((size_t)heap->family->size, sizeof(*w->bases));
    if (w->bases == NULL) {
        rc = ccl_error_set(cclSystemError, CCL_HEAP, "no memory for the records of a chunk of %zu bytes", chunk_bytes);
        goto fail;
    }
    CCL_TRY_GOTO(ccl_alloc_create(chunk_bytes, &w->blocks), fail);
    CCL_TRY_GOTO(ccl_alloc_take(w->blocks, bytes, off), fail);
    void *base;
    CCL_TRY_GOTO(heap->rt->mem_alloc(heap->shared_host ? CCL_MEM_HOST : CCL_MEM_DATA, chunk_bytes, &base), fail);
    w->base = base;
    w->bases[heap->family->rank] = (uint64_t)(uintptr_t)base;
    CCL_TRY_GOTO(heap->rt->mem_export(base, handle), fail);
    w->counted = handle->counted;
    *out = w;
    return cclSuccess;
fail:
    ccl_chunk_destroy(heap->family, w);
    return rc;
}

/* Lowest id, from start on and around, that no rank uses; 0: none. */
static uint32_t common_id(const struct ccl_heap *heap, const struct id_card *cards)
{
    uint64_t used[CCL_WINDOWS / 64] = {0};
    for (int j = 0; j < heap->n; j++) {
        for (size_t i = 0; i < CCL_ARRAY_LEN(used); i++) {
            used[i] |= cards[j].used[i];
        }
    }
    for (uint32_t k = 0; k < CCL_WINDOWS; k++) {
        uint32_t id = (cards[0].start + k) % CCL_WINDOWS;
        if ((used[id / 64] >> id % 64 & 1) == 0) {
            return id;
        }
    }
    return 0;
}

/* Reserve the same id on all ranks. Between the exchange and the reservation another communicator of the family,
 * driven by another thread, may take the id on one rank; then all begin again elsewhere. */
static cclResult_t agree_id(struct ccl_heap *heap, uint32_t *out)
{
    struct ccl_family *family = heap->family;
    struct id_card *cards = heap->cards;
    uint32_t id = 0, reserved = 0;
    cclResult_t rc;
    for (int attempt = 0; attempt < ID_ATTEMPTS; attempt++) {
        struct id_card *mine = &cards[heap->rank];
        pthread_mutex_lock(&family->lock);
        memcpy(mine->used, family->used, sizeof(mine->used));
        pthread_mutex_unlock(&family->lock);
        mine->start = attempt < 2 ? 1 : (uint32_t)(ccl_now_ns() / 64 % CCL_WINDOWS);
        mine->reserved = reserved;
        CCL_TRY_GOTO(ccl_bootstrap_allgather(heap->boot, cards, sizeof(*cards)), fail);
        bool all = id != 0;
        for (int j = 0; j < heap->n; j++) {
            all = all && cards[j].reserved == id;
        }
        if (all) {
            *out = id;
            return cclSuccess;
        }
        id = common_id(heap, cards);
        pthread_mutex_lock(&family->lock);
        if (reserved != 0) {
            ccl_family_id_release(family, reserved);
        }
        reserved = id != 0 && ccl_family_id_reserve(family, id) ? id : 0;
        pthread_mutex_unlock(&family->lock);
        if (id == 0) {
            return ccl_error_set(cclSystemError, CCL_HEAP, "all %d window ids are in use by some rank",
                                 CCL_WINDOWS - 1);
        }
    }
    rc = ccl_error_set(cclSystemError, CCL_HEAP, "no window id agreed in %d attempts", ID_ATTEMPTS);
fail:
    if (reserved != 0) {
        pthread_mutex_lock(&family->lock);
        ccl_family_id_release(family, reserved);
        pthread_mutex_unlock(&family->lock);
    }
    return rc;
}

/* Local: map the peers' chunks from their cards and descriptors. */
static cclResult_t import_peers(struct ccl_heap *heap, struct ccl_window *w)
{
    const struct chunk_card *cards = heap->cards;
    for (int j = 0; j < heap->n; j++) {
        CCL_CHECK(cards[j].chunk_bytes == w->bytes, cclInternalError, CCL_HEAP,
                  "rank %d grows by a chunk of %llu bytes, rank %d by %zu", j, (unsigned long long)cards[j].chunk_bytes,
                  heap->rank, w->bytes);
    }
    for (int j = 0; j < heap->n; j++) {
        if (j != heap->rank) {
            struct ccl_mem_handle handle = {
                .size_bytes = cards[j].size_bytes, .fd = heap->fds[j], .kind = cards[j].kind};
            void *base;
            memcpy(handle.blob, cards[j].blob, sizeof(handle.blob));
            CCL_TRY(heap->rt->mem_import(&handle, &base));
            w->bases[heap->family_rank[j]] = (uint64_t)(uintptr_t)base;
        }
    }
    return cclSuccess;
}

/* Collective up to the exchange of descriptors; its result is the caller's to agree on. */
static cclResult_t map_peers(struct ccl_heap *heap, struct ccl_window *w, const struct ccl_mem_handle *handle)
{
    struct chunk_card *cards = heap->cards;
    struct chunk_card *mine = &cards[heap->rank];
    memset(mine, 0, sizeof(*mine));
    mine->chunk_bytes = w->bytes;
    mine->size_bytes = handle->size_bytes;
    mine->kind = handle->kind;
    memcpy(mine->blob, handle->blob, sizeof(mine->blob));
    CCL_TRY(ccl_bootstrap_allgather(heap->boot, cards, sizeof(*cards)));
    CCL_TRY(ccl_bootstrap_exchange_fds(heap->boot, &handle->fd, 1, heap->fds));
    cclResult_t rc = import_peers(heap, w);
    for (int j = 0; j < heap->n; j++) {
        if (heap->fds[j] >= 0) {
            close(heap->fds[j]);
        }
    }
    return rc;
}

cclResult_t ccl_chunk_create(struct ccl_heap *heap, size_t bytes, struct ccl_window **out, size_t *off)
{
    struct ccl_family *family = heap->family;
    struct ccl_window *w = NULL;
    struct ccl_mem_handle handle = {.fd = -1};
    cclResult_t rc;
    bool listed = false;
    size_t taken = 0;
    int device = ccl_heap_device_enter(heap);
    if (bytes > SIZE_MAX / 2) {
        rc = ccl_error_set(cclSystemError, CCL_HEAP, "allocation of %zu bytes is larger than any memory", bytes);
    } else {
        size_t chunk_bytes = ccl_max_size(ccl_round_up(heap->chunk_bytes, PAGE), ccl_round_up(bytes, GROWTH_UNIT));
        rc = make_local(heap, chunk_bytes, bytes, &w, &taken, &handle);
    }
    CCL_TRY_GOTO(ccl_bootstrap_agree(heap->boot, rc), fail);
    CCL_TRY_GOTO(agree_id(heap, &w->id), fail);
    rc = map_peers(heap, w, &handle);
    if (rc == cclSuccess) {
        /* Before the agreement, so that a rank that leaves this call may advertise the window to ranks that have not
         * left it. */
        pthread_mutex_lock(&family->lock);
        ccl_window_insert(family, w);
        listed = true;
        rc = ccl_table_set_chunk(family, w, true);
        pthread_mutex_unlock(&family->lock);
    }
    CCL_TRY_GOTO(ccl_bootstrap_agree(heap->boot, rc), fail);
    pthread_mutex_lock(&family->lock);
    ccl_window_set_state(family, w, CCL_WINDOW_VISIBLE);
    pthread_mutex_unlock(&family->lock);
    if (handle.fd >= 0) {
        close(handle.fd);
    }
    ccl_heap_device_leave(heap, device);
    CCL_LOG(CCL_LOG_INFO, CCL_HEAP, "heap grows by window %u of %zu bytes", w->id, w->bytes);
    *out = w;
    *off = taken;
    return cclSuccess;
fail:
    if (w != NULL) {
        pthread_mutex_lock(&family->lock);
        if (listed) {
            ccl_table_set_chunk(family, w, false);
            ccl_window_unlink(family, w);
        }
        if (w->id != 0) {
            ccl_family_id_release(family, w->id);
        }
        pthread_mutex_unlock(&family->lock);
        w->pinned = w->id != 0 && !w->counted; /* peers may have mapped it */
        ccl_chunk_destroy(family, w);
    }
    if (handle.fd >= 0) {
        close(handle.fd);
    }
    ccl_heap_device_leave(heap, device);
    return rc;
}

cclResult_t ccl_chunk_drop(struct ccl_heap *heap, struct ccl_window *w)
{
    struct ccl_family *family = heap->family;
    pthread_mutex_lock(&family->lock);
    ccl_window_set_state(family, w, CCL_WINDOW_HIDDEN);
    cclResult_t rc = ccl_table_set_chunk(family, w, false);
    pthread_mutex_unlock(&family->lock);
    /* From here on no rank may use the id or unmap before all have cleared their entries: a rank that gave the id to
     * another window at once could be stored into through the old mapping. If the agreement fails, the chunk stays
     * hidden until the heap ends. */
    CCL_TRY(ccl_bootstrap_agree(heap->boot, rc));
    CCL_LOG(CCL_LOG_INFO, CCL_HEAP, "heap shrinks by window %u of %zu bytes", w->id, w->bytes);
    pthread_mutex_lock(&family->lock);
    ccl_window_unlink(family, w);
    ccl_family_id_release(family, w->id);
    pthread_mutex_unlock(&family->lock);
    int device = ccl_heap_device_enter(heap);
    if (!heap->is_host) {
        /* A mapping may be no reference: nobody frees before all have closed theirs. */
        ccl_chunk_close_peers(family, w);
        rc = ccl_bootstrap_agree(heap->boot, cclSuccess);
        w->pinned = rc != cclSuccess && !w->counted;
    }
    ccl_chunk_destroy(family, w);
    ccl_heap_device_leave(heap, device);
    return rc;
}
