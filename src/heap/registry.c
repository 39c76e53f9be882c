/* SPDX-License-Identifier: MIT
 *
 * Records of this rank's registrations: which ranges share which window, and what each peer has made of it. */
#include <stdlib.h>

#include "heap/window.h"

#define IDS_FOR_CHUNKS 64 /* registrations leave as many ids to the heap */

struct ccl_window *ccl_registry_find(const struct ccl_heap *heap, const void *base, size_t bytes)
{
    struct ccl_window *w = heap->family->windows;
    while (w != NULL && (w->home != heap->serial || w->blocks != NULL || w->state != CCL_WINDOW_VISIBLE ||
                         w->base != base || w->bytes != bytes)) {
        w = w->next;
    }
    return w;
}

void ccl_registry_destroy(struct ccl_window *w)
{
    while (w->ranges != NULL) {
        struct ccl_range *next = w->ranges->next;
        free(w->ranges);
        w->ranges = next;
    }
    free(w->peers);
    free(w);
}

bool ccl_registry_any_peer(const struct ccl_heap *heap, const struct ccl_window *w, enum ccl_peer_state state)
{
    for (int j = 0; j < heap->n; j++) {
        if (w->peers[heap->family_rank[j]] == state) {
            return true;
        }
    }
    return false;
}

bool ccl_registry_may_have_it(uint8_t state)
{
    return state == CCL_PEER_SENT || state == CCL_PEER_MAPPED;
}

/* No peer has it mapped, or will when it reads what was sent. */
static bool unmapped_everywhere(const struct ccl_heap *heap, const struct ccl_window *w)
{
    return !ccl_registry_any_peer(heap, w, CCL_PEER_SENT) && !ccl_registry_any_peer(heap, w, CCL_PEER_MAPPED) &&
           !ccl_registry_any_peer(heap, w, CCL_PEER_CLOSING) && !ccl_registry_any_peer(heap, w, CCL_PEER_GONE);
}

void ccl_registry_remove(struct ccl_heap *heap, struct ccl_window *w)
{
    ccl_window_unlink(heap->family, w);
    if (unmapped_everywhere(heap, w)) {
        ccl_family_id_release(heap->family, w->id);
    }
    ccl_registry_destroy(w);
}

void ccl_registry_finish(struct ccl_heap *heap)
{
    struct ccl_family *family = heap->family;
    for (struct ccl_window *w = family->windows; w != NULL;) {
        struct ccl_window *next = w->next;
        if (w->home == heap->serial && w->blocks == NULL) {
            if (w->state == CCL_WINDOW_VISIBLE) {
                ccl_window_set_state(family, w, CCL_WINDOW_HIDDEN);
                ccl_table_set(family, heap->serial, family->rank, w->id, 0);
            }
            ccl_registry_remove(heap, w);
        }
        w = next;
    }
}

uint32_t ccl_registry_take_id(struct ccl_family *family)
{
    int used = 0;
    for (size_t i = 0; i < CCL_ARRAY_LEN(family->used); i++) {
        used += __builtin_popcountll(family->used[i]);
    }
    if (used + IDS_FOR_CHUNKS >= CCL_WINDOWS) {
        return 0;
    }
    uint32_t id = 1;
    while (!ccl_family_id_reserve(family, id)) {
        id++;
    }
    return id;
}

void ccl_registry_add_range(struct ccl_heap *heap, struct ccl_window *w, struct ccl_range *range)
{
    range->cookie = ++heap->last_cookie;
    range->next = w->ranges;
    w->ranges = range;
}

struct ccl_window *ccl_registry_remove_range(struct ccl_heap *heap, uint64_t cookie)
{
    for (struct ccl_window *w = heap->family->windows; w != NULL; w = w->next) {
        for (struct ccl_range **link = &w->ranges; w->home == heap->serial && *link != NULL; link = &(*link)->next) {
            struct ccl_range *range = *link;
            if (range->cookie == cookie) {
                *link = range->next;
                free(range);
                return w;
            }
        }
    }
    return NULL;
}

/* A state has changed: wake the waiting thread, end what nobody waits for. */
static void settle(struct ccl_heap *heap)
{
    for (struct ccl_window *w = heap->family->windows; w != NULL;) {
        struct ccl_window *next = w->next;
        if (w->home == heap->serial && w->blocks == NULL && w->state == CCL_WINDOW_HIDDEN && !w->waited &&
            !ccl_registry_any_peer(heap, w, CCL_PEER_CLOSING)) {
            ccl_registry_remove(heap, w);
        }
        w = next;
    }
    pthread_cond_broadcast(&heap->family->answered);
}

void ccl_registry_answered(struct ccl_heap *heap, int peer, const struct ccl_heap_msg *msg)
{
    int owner = heap->family_rank[peer];
    bool failed = false;
    pthread_mutex_lock(&heap->family->lock);
    heap->lagging[peer] = false;
    for (struct ccl_window *w = heap->family->windows; w != NULL; w = w->next) {
        if (w->home == heap->serial && w->blocks == NULL && w->id == msg->id) {
            if (msg->type == CCL_MSG_CLOSED && w->peers[owner] == CCL_PEER_CLOSING) {
                w->peers[owner] = CCL_PEER_CLOSED;
            } else if (msg->type == CCL_MSG_MAPPED && w->peers[owner] == CCL_PEER_SENT) {
                failed = msg->rc != cclSuccess;
                w->peers[owner] = failed ? CCL_PEER_FAILED : CCL_PEER_MAPPED;
            }
        }
    }
    settle(heap);
    pthread_mutex_unlock(&heap->family->lock);
    if (failed) {
        CCL_LOG(CCL_LOG_INFO, CCL_HEAP, "rank %d cannot map window %u (%s), its data stays staged", peer, msg->id,
                msg->rc == cclSystemError ? "system error" : "error");
    }
}

void ccl_registry_peer_gone(struct ccl_heap *heap, int peer, bool dead)
{
    int owner = heap->family_rank[peer];
    pthread_mutex_lock(&heap->family->lock);
    heap->gone[peer] = true;
    for (struct ccl_window *w = heap->family->windows; w != NULL; w = w->next) {
        if (w->home == heap->serial && w->blocks == NULL) {
            uint8_t *state = &w->peers[owner];
            if (dead) {
                *state = CCL_PEER_CLOSED;
            } else if (ccl_registry_may_have_it(*state) || *state == CCL_PEER_CLOSING) {
                *state = CCL_PEER_GONE;
            }
        }
    }
    settle(heap);
    pthread_mutex_unlock(&heap->family->lock);
}
