/* SPDX-License-Identifier: MIT
 *
 * The symmetric heap: making, splitting and ending it, and the two collective calls. A call is one exchange of
 * votes, in which each rank says what it would do (the allocator is deterministic, so all should say the same), plus
 * a chunk made or dropped. */
#include "heap/heap.h"

#include <stdlib.h>
#include <string.h>

#include "heap/window.h"
#include "util/config.h"

/* What a rank would do. */
struct vote {
    uint64_t bytes; /* asked for */
    uint64_t off;   /* of the block it has taken or would free */
    uint64_t hash;  /* of all chunks before the call, 0: not compared (CCL_CHECK) */
    uint32_t id;    /* window of the block; alloc: 0 = no chunk has room; free: 0 = NULL */
    int32_t rc;
};
_Static_assert(sizeof(struct vote) <= CCL_CARD_BYTES, "cards fit");

static uint64_t next_serial(void)
{
    static uint64_t last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED); /* only uniqueness matters */
}

static bool own_chunk(const struct ccl_heap *heap, const struct ccl_window *w)
{
    return w->home == heap->serial && w->blocks != NULL && w->state == CCL_WINDOW_VISIBLE;
}

/* Everything that needs no peer. ranks NULL: the root, else ranks of parent. */
static cclResult_t init_local(struct ccl_heap *heap, const struct ccl_heap *parent, const int *ranks)
{
    struct ccl_device_props props;
    size_t n = (size_t)heap->n;
    CCL_TRY(heap->rt->device_get(&heap->device));
    CCL_TRY(heap->rt->device_props(heap->device, &props));
    heap->is_host = props.is_host;
    heap->shared_host = parent != NULL && parent->shared_host;
    if (parent != NULL) {
        heap->family = parent->family;
        pthread_mutex_lock(&heap->family->lock);
        heap->family->refs++;
        heap->family->was_split = true;
        pthread_mutex_unlock(&heap->family->lock);
    } else {
        CCL_TRY(ccl_family_create(heap->rt, heap->rank, heap->n, &heap->family));
    }
    size_t family_size = (size_t)heap->family->size;
    int num_ancestors = parent != NULL ? parent->num_ancestors + 1 : 0;
    heap->ancestors = calloc((size_t)num_ancestors + 1, sizeof(*heap->ancestors));
    heap->family_rank = calloc(n, sizeof(*heap->family_rank));
    heap->rank_of = malloc(family_size * sizeof(*heap->rank_of));
    heap->gone = calloc(n, sizeof(*heap->gone));
    heap->lagging = calloc(n, sizeof(*heap->lagging));
    heap->cards = calloc(n, CCL_CARD_BYTES);
    heap->fds = calloc(n, sizeof(*heap->fds));
    CCL_CHECK(heap->ancestors != NULL && heap->family_rank != NULL && heap->rank_of != NULL && heap->gone != NULL &&
                  heap->lagging != NULL && heap->cards != NULL && heap->fds != NULL,
              cclSystemError, CCL_HEAP, "no memory for a heap of %d ranks", heap->n);
    heap->num_ancestors = num_ancestors;
    if (parent != NULL) {
        memcpy(heap->ancestors, parent->ancestors, (size_t)parent->num_ancestors * sizeof(*heap->ancestors));
        heap->ancestors[parent->num_ancestors] = parent->serial;
    }
    memset(heap->rank_of, -1, family_size * sizeof(*heap->rank_of));
    for (int j = 0; j < heap->n; j++) {
        heap->family_rank[j] = ranks != NULL ? parent->family_rank[ranks[j]] : j;
        heap->rank_of[heap->family_rank[j]] = j;
    }
    CCL_TRY(ccl_table_init(heap));
    pthread_mutex_lock(&heap->family->lock);
    heap->next = heap->family->heaps;
    heap->family->heaps = heap;
    cclResult_t rc = ccl_table_fill(heap);
    pthread_mutex_unlock(&heap->family->lock);
    return rc;
}

static cclResult_t create(const struct ccl_runtime_ops *rt, struct ccl_heap *parent, const int *ranks,
                          struct ccl_bootstrap *boot, size_t chunk_bytes, struct ccl_heap **out)
{
    struct ccl_heap *heap = calloc(1, sizeof(*heap));
    cclResult_t rc;
    if (heap == NULL) {
        rc = ccl_error_set(cclSystemError, CCL_HEAP, "no memory for a heap");
    } else {
        heap->rt = rt;
        heap->boot = boot;
        heap->rank = ccl_bootstrap_rank(boot);
        heap->n = ccl_bootstrap_size(boot);
        heap->chunk_bytes = chunk_bytes;
        heap->serial = next_serial();
        rc = init_local(heap, parent, ranks);
    }
    CCL_TRY_GOTO(ccl_bootstrap_agree(boot, rc), fail);
    *out = heap;
    return cclSuccess;
fail:
    ccl_heap_destroy(heap, false);
    return rc;
}

cclResult_t ccl_heap_create(const struct ccl_runtime_ops *rt, struct ccl_bootstrap *boot, size_t chunk_bytes,
                            struct ccl_heap **out)
{
    return create(rt, NULL, NULL, boot, chunk_bytes, out);
}

cclResult_t ccl_heap_split(struct ccl_heap *parent, struct ccl_bootstrap *boot, const int *ranks, size_t chunk_bytes,
                           struct ccl_heap **out)
{
    return create(parent->rt, parent, ranks, boot, chunk_bytes, out);
}

static bool seen_by_any(const struct ccl_family *family, uint64_t home)
{
    for (const struct ccl_heap *heap = family->heaps; heap != NULL; heap = heap->next) {
        if (ccl_heap_sees(heap, home)) {
            return true;
        }
    }
    return false;
}

/* After an unclean end peers' kernels may still store into every chunk this heap knew; a counted mapping of theirs keeps it alive. */
static void pin_seen(struct ccl_heap *heap)
{
    for (struct ccl_window *w = heap->family->windows; w != NULL; w = w->next) {
        w->pinned = w->pinned || (w->blocks != NULL && !w->counted && ccl_heap_sees(heap, w->home));
    }
}

/* Peers may map this chunk by a handle that is no reference. Of a family that was split they may go on to, in a communicator unknown here. */
static void keep_chunk(struct ccl_heap *heap, struct ccl_window *w)
{
    struct ccl_mem_list *kept = heap->kept;
    if (w->counted || heap->n == 1) {
        return;
    }
    if (kept != NULL && !heap->family->was_split && w->home == heap->serial) {
        void **ptr = realloc(kept->ptr, (kept->count + 1) * sizeof(*ptr));
        if (ptr != NULL) {
            kept->ptr = ptr;
            kept->ptr[kept->count++] = w->base;
        }
    }
    w->pinned = true;
}

void ccl_heap_keep(struct ccl_heap *heap, struct ccl_mem_list *kept)
{
    heap->kept = kept;
}

void ccl_heap_set_shared_host(struct ccl_heap *heap)
{
    heap->shared_host = true;
}

/* Take the heap out of the family; move what no other heap sees any more into the two lists. */
static void leave_family(struct ccl_heap *heap, bool unclean, struct ccl_window **chunks, struct ccl_import **imports)
{
    struct ccl_family *family = heap->family;
    pthread_mutex_lock(&family->lock);
    if (unclean) {
        pin_seen(heap);
    }
    ccl_registry_finish(heap);
    for (struct ccl_heap **link = &family->heaps; *link != NULL; link = &(*link)->next) {
        if (*link == heap) {
            *link = heap->next;
            break;
        }
    }
    for (struct ccl_window **link = &family->windows; *link != NULL;) {
        struct ccl_window *w = *link;
        if (w->blocks != NULL && !seen_by_any(family, w->home)) {
            *link = w->next;
            ccl_family_id_release(family, w->id);
            w->next = *chunks;
            *chunks = w;
        } else {
            link = &w->next;
        }
    }
    for (struct ccl_import **link = &family->imports; *link != NULL;) {
        struct ccl_import *import = *link;
        if (!seen_by_any(family, import->home)) {
            *link = import->next;
            import->next = *imports;
            *imports = import;
        } else {
            link = &import->next;
        }
    }
    pthread_mutex_unlock(&family->lock);
}

/* Needs no peer. The own kernels have ended, so imports and the table are no longer used by anybody here. Clean: by
 * invariant Q nothing is in flight towards this rank. Unclean (abort): peers may still store into our chunks and
 * registered buffers, through their own mappings. Where these are counted (on the host references to the memfd, in one
 * process the runtime counts) the memory lives on under them when we unmap ours. A legacy IPC mapping of a GPU is no
 * reference: keep_chunk. */
void ccl_heap_destroy(struct ccl_heap *heap, bool unclean)
{
    struct ccl_window *chunks = NULL;
    struct ccl_import *imports = NULL;
    if (heap == NULL) {
        return;
    }
    int device = ccl_heap_device_enter(heap);
    if (heap->family != NULL) {
        leave_family(heap, unclean, &chunks, &imports);
    }
    while (chunks != NULL) {
        struct ccl_window *next = chunks->next;
        if (!chunks->pinned) {
            keep_chunk(heap, chunks);
        }
        ccl_chunk_destroy(heap->family, chunks);
        chunks = next;
    }
    while (imports != NULL) {
        struct ccl_import *next = imports->next;
        heap->rt->mem_close(imports->base);
        free(imports);
        imports = next;
    }
    ccl_table_finish(heap);
    ccl_heap_device_leave(heap, device);
    if (heap->family != NULL) {
        ccl_family_unref(heap->family);
    }
    free(heap->ancestors);
    free(heap->family_rank);
    free(heap->rank_of);
    free(heap->gone);
    free(heap->lagging);
    free(heap->cards);
    free(heap->fds);
    free(heap->views);
    free(heap->view_bases);
    free(heap);
}

/* With the lock held. 0 unless CCL_CHECK asks for it. */
static uint64_t state_hash(const struct ccl_heap *heap)
{
    uint64_t hash = 0;
    if (ccl_env_get()->check == 0) {
        return 0;
    }
    for (const struct ccl_window *w = heap->family->windows; w != NULL; w = w->next) {
        if (own_chunk(heap, w)) {
            hash = hash * 0x9e3779b97f4a7c15u + (ccl_alloc_hash(w->blocks) ^ w->id);
        }
    }
    return hash | 1;
}

static cclResult_t exchange_votes(struct ccl_heap *heap, const struct vote *mine)
{
    struct vote *votes = heap->cards;
    votes[heap->rank] = *mine;
    CCL_TRY(ccl_bootstrap_allgather(heap->boot, votes, sizeof(*votes)));
    for (int j = 0; j < heap->n; j++) {
        CCL_CHECK(votes[j].bytes == votes[0].bytes, cclInvalidArgument, CCL_HEAP,
                  "rank 0 allocates %llu bytes, rank %d allocates %llu", (unsigned long long)votes[0].bytes, j,
                  (unsigned long long)votes[j].bytes);
    }
    for (int j = 0; j < heap->n; j++) {
        if (votes[j].rc != cclSuccess) {
            return ccl_bootstrap_agree(heap->boot, (cclResult_t)mine->rc); /* carries the text to all */
        }
    }
    return cclSuccess;
}

/* All ranks speak of the same block. */
static cclResult_t compare_votes(const struct ccl_heap *heap, cclResult_t code, const char *what)
{
    const struct vote *votes = heap->cards;
    for (int j = 0; j < heap->n; j++) {
        CCL_CHECK(votes[j].hash == votes[0].hash || votes[j].hash == 0 || votes[0].hash == 0, cclInternalError,
                  CCL_HEAP, "heap state %llx on rank 0 differs from %llx on rank %d", (unsigned long long)votes[0].hash,
                  (unsigned long long)votes[j].hash, j);
        CCL_CHECK(votes[j].id == votes[0].id && votes[j].off == votes[0].off, code, CCL_HEAP,
                  "rank 0 %s window %u offset %llu, rank %d window %u offset %llu (window 0: none)", what, votes[0].id,
                  (unsigned long long)votes[0].off, j, votes[j].id, (unsigned long long)votes[j].off);
    }
    return cclSuccess;
}

/* Take from the lowest window with room; *out NULL when none has. */
static cclResult_t take_local(struct ccl_heap *heap, size_t bytes, struct vote *vote, struct ccl_window **out)
{
    cclResult_t rc = cclSuccess;
    pthread_mutex_lock(&heap->family->lock);
    vote->hash = state_hash(heap);
    for (struct ccl_window *w = heap->family->windows; w != NULL; w = w->next) {
        if (own_chunk(heap, w) && ccl_alloc_largest(w->blocks) >= bytes) {
            size_t off;
            rc = ccl_alloc_take(w->blocks, bytes, &off);
            if (rc == cclSuccess) {
                vote->id = w->id;
                vote->off = off;
                *out = w;
            }
            break;
        }
    }
    pthread_mutex_unlock(&heap->family->lock);
    return rc == cclSuccess && ccl_env_get()->check != 0 ? ccl_heap_check(heap) : rc;
}

cclResult_t ccl_heap_alloc(struct ccl_heap *heap, size_t bytes, void **ptr)
{
    struct vote vote = {.bytes = bytes};
    struct ccl_window *w = NULL;
    cclResult_t rc = bytes > 0 ? take_local(heap, bytes, &vote, &w)
                               : ccl_error_set(cclInvalidArgument, CCL_HEAP, "allocation of 0 bytes");
    vote.rc = rc;
    CCL_TRY_GOTO(exchange_votes(heap, &vote), err_release);
    CCL_TRY_GOTO(compare_votes(heap, cclInternalError, "would allocate in"), err_release);
    size_t off = vote.off;
    if (w == NULL) {
        CCL_TRY(ccl_chunk_create(heap, bytes, &w, &off));
        ccl_heap_refresh(heap); /* here rather than in the first operation */
    }
    *ptr = w->base + off;
    return cclSuccess;
err_release:
    if (w != NULL) {
        pthread_mutex_lock(&heap->family->lock);
        ccl_alloc_release(w->blocks, vote.off);
        pthread_mutex_unlock(&heap->family->lock);
    }
    return rc;
}

/* The chunk of this heap whose block begins at ptr; NULL: none. chunks: how many chunks the heap has. */
static struct ccl_window *find_block(struct ccl_heap *heap, const char *ptr, struct vote *vote, int *chunks)
{
    struct ccl_window *found = NULL;
    pthread_mutex_lock(&heap->family->lock);
    vote->hash = state_hash(heap);
    for (struct ccl_window *w = heap->family->windows; w != NULL; w = w->next) {
        size_t off = (uintptr_t)ptr - (uintptr_t)w->base, start, bytes;
        if (!own_chunk(heap, w)) {
            continue;
        }
        ++*chunks;
        if (off < w->bytes && ccl_alloc_find(w->blocks, off, &start, &bytes) && start == off) {
            vote->id = w->id;
            vote->off = off;
            found = w;
        }
    }
    pthread_mutex_unlock(&heap->family->lock);
    return found;
}

static cclResult_t no_block(const void *ptr)
{
    return ccl_error_set(cclInvalidArgument, CCL_HEAP, "pointer %p is not the start of a block of this heap", ptr);
}

cclResult_t ccl_heap_free(struct ccl_heap *heap, void *ptr)
{
    struct vote vote = {.bytes = 0};
    int chunks = 0;
    struct ccl_window *w = find_block(heap, ptr, &vote, &chunks);
    if (w == NULL && ptr != NULL) {
        vote.rc = no_block(ptr);
    }
    cclResult_t agreed = exchange_votes(heap, &vote);
    if (agreed == cclInvalidArgument && vote.rc == cclInvalidArgument) {
        return no_block(ptr); /* again: the agreement has put the text of the lowest failing rank over ours */
    }
    CCL_TRY(agreed);
    CCL_TRY(compare_votes(heap, cclInvalidArgument, "frees"));
    if (w == NULL) {
        return cclSuccess;
    }
    pthread_mutex_lock(&heap->family->lock);
    cclResult_t rc = ccl_alloc_release(w->blocks, vote.off);
    bool drop = ccl_alloc_empty(w->blocks) && chunks > 1;
    pthread_mutex_unlock(&heap->family->lock);
    CCL_TRY(rc);
    if (drop) {
        CCL_TRY(ccl_chunk_drop(heap, w));
        ccl_heap_refresh(heap);
    }
    return ccl_env_get()->check != 0 ? ccl_heap_check(heap) : cclSuccess;
}
