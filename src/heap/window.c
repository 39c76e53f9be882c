/* SPDX-License-Identifier: MIT
 *
 * The family of heaps: window ids, the list of own windows, and each heap's sorted array of what it sees, with the
 * lookup that every collective call makes. */
#include "heap/window.h"

#include <stdlib.h>
#include <string.h>

cclResult_t ccl_family_create(const struct ccl_runtime_ops *rt, int rank, int size, struct ccl_family **out)
{
    struct ccl_family *family = calloc(1, sizeof(*family));
    CCL_CHECK(family != NULL, cclSystemError, CCL_HEAP, "no memory for a heap of %d ranks", size);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&family->answered, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&family->lock, NULL);
    family->version = 1;
    family->rt = rt;
    family->refs = 1;
    family->rank = rank;
    family->size = size;
    family->used[0] = 1; /* id 0 means "stage it" */
    *out = family;
    return cclSuccess;
}

void ccl_family_unref(struct ccl_family *family)
{
    pthread_mutex_lock(&family->lock);
    int refs = --family->refs;
    pthread_mutex_unlock(&family->lock);
    if (refs == 0) {
        pthread_cond_destroy(&family->answered);
        pthread_mutex_destroy(&family->lock);
        free(family);
    }
}

bool ccl_heap_sees(const struct ccl_heap *heap, uint64_t home)
{
    if (home == heap->serial) {
        return true;
    }
    for (int i = 0; i < heap->num_ancestors; i++) {
        if (heap->ancestors[i] == home) {
            return true;
        }
    }
    return false;
}

bool ccl_family_id_reserve(struct ccl_family *family, uint32_t id)
{
    uint64_t bit = (uint64_t)1 << id % 64;
    bool unused = (family->used[id / 64] & bit) == 0;
    family->used[id / 64] |= bit;
    return unused;
}

void ccl_family_id_release(struct ccl_family *family, uint32_t id)
{
    family->used[id / 64] &= ~((uint64_t)1 << id % 64);
}

void ccl_window_insert(struct ccl_family *family, struct ccl_window *w)
{
    struct ccl_window **link = &family->windows;
    while (*link != NULL && (*link)->id < w->id) {
        link = &(*link)->next;
    }
    w->next = *link;
    *link = w;
}

void ccl_window_unlink(struct ccl_family *family, struct ccl_window *w)
{
    struct ccl_window **link = &family->windows;
    while (*link != w) {
        link = &(*link)->next;
    }
    *link = w->next;
}

void ccl_window_set_state(struct ccl_family *family, struct ccl_window *w, enum ccl_window_state state)
{
    w->state = state;
    /* Release: pairs with the acquire in ccl_heap_find. A thread that got memory at this address from the one that
     * changes the window sees the new number, and so no longer finds the old window. */
    __atomic_store_n(&family->version, family->version + 1, __ATOMIC_RELEASE);
}

/* By base; of equal ones a chunk comes last, so that the search finds it first (its offsets are symmetric). */
static int compare_views(const void *a, const void *b)
{
    const struct ccl_view *x = a, *y = b;
    if (x->base != y->base) {
        return x->base < y->base ? -1 : 1;
    }
    return (x->bases != NULL) - (y->bases != NULL);
}

static bool build_views(struct ccl_heap *heap)
{
    size_t count = 0, chunks = 0;
    for (const struct ccl_window *w = heap->family->windows; w != NULL; w = w->next) {
        bool seen = w->state == CCL_WINDOW_VISIBLE && ccl_heap_sees(heap, w->home);
        count += seen;
        chunks += seen && w->blocks != NULL;
    }
    struct ccl_view *views = malloc((count + 1) * sizeof(*views));
    uint64_t *bases = malloc((chunks * (size_t)heap->n + 1) * sizeof(*bases));
    if (views == NULL || bases == NULL) {
        free(views);
        free(bases);
        return false;
    }
    heap->views = views;
    heap->view_bases = bases;
    for (const struct ccl_window *w = heap->family->windows; w != NULL; w = w->next) {
        if (w->state != CCL_WINDOW_VISIBLE || !ccl_heap_sees(heap, w->home)) {
            continue;
        }
        *views = (struct ccl_view){.base = (uintptr_t)w->base, .bytes = w->bytes, .id = w->id, .bases = NULL};
        if (w->blocks != NULL) {
            for (int j = 0; j < heap->n; j++) {
                bases[j] = w->bases[heap->family_rank[j]];
            }
            views->bases = bases;
            bases += heap->n;
        }
        views++;
    }
    heap->num_views = count;
    qsort(heap->views, count, sizeof(*views), compare_views);
    return true;
}

void ccl_heap_refresh(struct ccl_heap *heap)
{
    struct ccl_family *family = heap->family;
    pthread_mutex_lock(&family->lock);
    if (heap->seen != family->version) {
        free(heap->views);
        free(heap->view_bases);
        heap->views = NULL;
        heap->view_bases = NULL;
        heap->num_views = 0;
        heap->last = NULL;
        /* Without memory for the array nothing is found, so data is staged, and the next call tries again. */
        if (build_views(heap)) {
            heap->seen = family->version;
        }
    }
    pthread_mutex_unlock(&family->lock);
}

static bool contains(const struct ccl_view *view, uintptr_t addr, size_t bytes)
{
    size_t off = addr - view->base; /* huge when addr lies below */
    return off <= view->bytes && bytes <= view->bytes - off;
}

static const struct ccl_view *search(const struct ccl_heap *heap, uintptr_t addr, size_t bytes)
{
    size_t low = 0, high = heap->num_views; /* views[low - 1].base <= addr < views[high].base */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (heap->views[mid].base <= addr) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    /* Windows are whole allocations: two of them are apart or begin together. */
    for (size_t i = low; i > 0 && heap->views[i - 1].base == heap->views[low - 1].base; i--) {
        if (contains(&heap->views[i - 1], addr, bytes)) {
            return &heap->views[i - 1];
        }
    }
    return NULL;
}

bool ccl_heap_find(struct ccl_heap *heap, const void *ptr, size_t bytes, struct ccl_window_hit *hit)
{
    /* Acquire: pairs with the release in ccl_window_set_state. */
    if (CCL_UNLIKELY(__atomic_load_n(&heap->family->version, __ATOMIC_ACQUIRE) != heap->seen)) {
        ccl_heap_refresh(heap);
    }
    uintptr_t addr = (uintptr_t)ptr;
    const struct ccl_view *view = heap->last;
    if (view == NULL || !contains(view, addr, bytes)) {
        view = search(heap, addr, bytes);
        if (view == NULL) {
            return false;
        }
        heap->last = view;
    }
    hit->id = view->id;
    hit->off = addr - view->base;
    hit->bases = view->bases;
    return true;
}
