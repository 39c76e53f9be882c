/* SPDX-License-Identifier: MIT
 *
 * Registering and deregistering, the owner's side. A registration exports the whole allocation around a buffer once,
 * however many ranges of it are registered, and tells the peers, who map it in their monitor threads; until a peer
 * has answered it stages. The last deregistration asks the peers to unmap. The window id is not given again before
 * all of them have: a peer would write through its old mapping. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heap/window.h"

#define CLOSE_WAIT_NS ((uint64_t)2000000000)

/* Tell a peer; on failure its state becomes failed, unless it has changed since. */
static bool tell(struct ccl_heap *heap, struct ccl_window *w, int peer, const struct ccl_heap_msg *msg, int fd,
                 enum ccl_peer_state failed)
{
    if (ccl_monitor_send(heap->port, peer, msg, sizeof(*msg), fd) == cclSuccess) {
        return true;
    }
    uint8_t *state = &w->peers[heap->family_rank[peer]];
    pthread_mutex_lock(&heap->family->lock);
    if (*state == CCL_PEER_SENT || *state == CCL_PEER_CLOSING) {
        *state = (uint8_t)failed;
    }
    pthread_mutex_unlock(&heap->family->lock);
    return false;
}

/* Move the peers with a wanted state to another one; list: [n] their ranks. Returns how many. */
static int move_peers(struct ccl_heap *heap, struct ccl_window *w, enum ccl_peer_state to,
                      bool (*wanted)(uint8_t state), int *list)
{
    int count = 0;
    for (int j = 0; j < heap->n; j++) {
        uint8_t *state = &w->peers[heap->family_rank[j]];
        if (j != heap->rank && !heap->gone[j] && wanted(*state)) {
            *state = (uint8_t)to;
            list[count++] = j;
        }
    }
    return count;
}

static bool was_not_told(uint8_t state)
{
    return state == CCL_PEER_NONE;
}

/* ---- register ---- */

/* Not an error: the buffer is staged. */
static cclResult_t cannot_share(const void *buff, size_t bytes, const char *why, void **handle)
{
    CCL_LOG(CCL_LOG_INFO, CCL_HEAP, "buffer %p of %zu bytes stays staged: %s", buff, bytes, why);
    *handle = NULL;
    return cclSuccess;
}

/* A new window for the allocation, in the tables and the views of this rank; *out NULL: no id is left. */
static cclResult_t create_registration(struct ccl_heap *heap, const struct ccl_pointer_attr *attr,
                                       struct ccl_range *range, int *list, int *count, struct ccl_window **out)
{
    struct ccl_family *family = heap->family;
    struct ccl_window *w = calloc(1, sizeof(*w));
    uint8_t *peers = calloc((size_t)family->size, sizeof(*peers));
    if (w == NULL || peers == NULL) {
        free(w);
        free(peers);
        return ccl_error_set(cclSystemError, CCL_HEAP, "no memory to register %zu bytes", attr->size_bytes);
    }
    w->home = heap->serial;
    w->base = attr->base;
    w->bytes = attr->size_bytes;
    w->peers = peers;
    cclResult_t rc = cclSuccess;
    pthread_mutex_lock(&family->lock);
    w->id = ccl_registry_take_id(family);
    if (w->id != 0) {
        rc = ccl_table_set(family, heap->serial, family->rank, w->id, (uint64_t)(uintptr_t)w->base);
        if (rc != cclSuccess) {
            ccl_family_id_release(family, w->id);
        }
    }
    bool made = w->id != 0 && rc == cclSuccess;
    if (made) {
        ccl_window_insert(family, w);
        ccl_window_set_state(family, w, CCL_WINDOW_VISIBLE);
        ccl_registry_add_range(heap, w, range);
        *count = move_peers(heap, w, CCL_PEER_SENT, was_not_told, list);
    }
    pthread_mutex_unlock(&family->lock);
    if (!made) {
        ccl_registry_destroy(w);
        w = NULL;
    }
    *out = w;
    return rc;
}

static cclResult_t register_new(struct ccl_heap *heap, const struct ccl_pointer_attr *attr, struct ccl_range *range,
                                struct ccl_window **out)
{
    struct ccl_mem_handle handle;
    CCL_TRY(heap->rt->mem_export(attr->base, &handle));
    int *list = heap->fds; /* scratch of the API thread, [n] */
    int count = 0;
    struct ccl_window *w = NULL;
    cclResult_t rc = create_registration(heap, attr, range, list, &count, &w);
    if (w != NULL) {
        struct ccl_heap_msg msg = {
            .type = CCL_MSG_REGISTER, .id = w->id, .size_bytes = handle.size_bytes, .kind = handle.kind};
        memcpy(msg.blob, handle.blob, sizeof(msg.blob));
        for (int i = 0; i < count; i++) {
            if (!tell(heap, w, list[i], &msg, handle.fd, CCL_PEER_NONE)) {
                CCL_LOG(CCL_LOG_INFO, CCL_HEAP, "rank %d was not told of window %u, its data stays staged", list[i],
                        w->id);
            }
        }
    }
    if (handle.fd >= 0) {
        close(handle.fd);
    }
    *out = w;
    return rc;
}

cclResult_t ccl_heap_register(struct ccl_heap *heap, void *buff, size_t bytes, void **handle)
{
    struct ccl_pointer_attr attr;
    CCL_CHECK(buff != NULL && bytes > 0, cclInvalidArgument, CCL_HEAP, "buffer %p of %zu bytes cannot be registered",
              buff, bytes);
    CCL_CHECK(heap->port != NULL && !heap->left, cclInvalidUsage, CCL_HEAP,
              "heap has no port, nothing can be registered");
    CCL_TRY(heap->rt->pointer_query(buff, &attr));
    CCL_CHECK(heap->is_host || attr.device < 0 || attr.device == heap->device, cclInvalidArgument, CCL_HEAP,
              "buffer %p of %zu bytes lies on device %d, the communicator's device is %d", buff, bytes, attr.device,
              heap->device);
    if (heap->shared_host) {
        return cannot_share(buff, bytes, "these ranks share host memory only", handle);
    }
    if (attr.base == NULL || !attr.exportable) {
        return cannot_share(buff, bytes, "its memory cannot be exported", handle);
    }
    size_t off = (size_t)((char *)buff - (char *)attr.base);
    CCL_CHECK(off <= attr.size_bytes && bytes <= attr.size_bytes - off, cclInvalidArgument, CCL_HEAP,
              "buffer %p of %zu bytes ends beyond its allocation %p of %zu bytes", buff, bytes, attr.base,
              attr.size_bytes);
    struct ccl_range *range = calloc(1, sizeof(*range));
    CCL_CHECK(range != NULL, cclSystemError, CCL_HEAP, "no memory to register %zu bytes", bytes);
    range->buff = buff;
    range->bytes = bytes;
    pthread_mutex_lock(&heap->family->lock);
    struct ccl_window *w = ccl_registry_find(heap, attr.base, attr.size_bytes);
    if (w != NULL) {
        ccl_registry_add_range(heap, w, range);
    }
    pthread_mutex_unlock(&heap->family->lock);
    if (w == NULL) {
        int device = ccl_heap_device_enter(heap);
        cclResult_t rc = register_new(heap, &attr, range, &w);
        ccl_heap_device_leave(heap, device);
        if (w == NULL) {
            free(range);
            return rc == cclSuccess ? cannot_share(buff, bytes, "all window ids are in use", handle) : rc;
        }
        ccl_heap_refresh(heap);
    }
    *handle = (void *)(uintptr_t)range->cookie;
    return cclSuccess;
}

/* ---- deregister ---- */

static bool awaited(const struct ccl_heap *heap, const struct ccl_window *w, int peer)
{
    return w->peers[heap->family_rank[peer]] == CCL_PEER_CLOSING && !heap->lagging[peer];
}

static bool any_awaited(const struct ccl_heap *heap, const struct ccl_window *w)
{
    for (int j = 0; j < heap->n; j++) {
        if (awaited(heap, w, j)) {
            return true;
        }
    }
    return false;
}

/* Give up on the peers that have not answered: name them once, and wait for them no more. */
static void give_up(struct ccl_heap *heap, const struct ccl_window *w)
{
    char names[128];
    int len = 0;
    names[0] = '\0';
    for (int j = 0; j < heap->n; j++) {
        if (awaited(heap, w, j)) {
            heap->lagging[j] = true;
            if (len < (int)sizeof(names) - 16) {
                len += snprintf(names + len, sizeof(names) - (size_t)len, "%s%d", len > 0 ? ", " : "", j);
            }
        }
    }
    CCL_LOG(CCL_LOG_WARN, CCL_HEAP, "no answer in 2 s to the deregistration of window %u from rank %s", w->id, names);
}

cclResult_t ccl_heap_deregister(struct ccl_heap *heap, void *handle)
{
    struct ccl_family *family = heap->family;
    int *list = heap->fds; /* scratch of the API thread, [n] */
    if (handle == NULL) {
        return cclSuccess;
    }
    pthread_mutex_lock(&family->lock);
    struct ccl_window *w = ccl_registry_remove_range(heap, (uint64_t)(uintptr_t)handle);
    if (w == NULL || w->ranges != NULL) {
        pthread_mutex_unlock(&family->lock);
        CCL_CHECK(w != NULL, cclInvalidUsage, CCL_HEAP, "handle %p is not a live registration of this communicator",
                  handle);
        return cclSuccess;
    }
    ccl_window_set_state(family, w, CCL_WINDOW_HIDDEN);
    cclResult_t rc = ccl_table_set(family, heap->serial, family->rank, w->id, 0);
    int count = move_peers(heap, w, CCL_PEER_CLOSING, ccl_registry_may_have_it, list);
    w->waited = true;
    pthread_mutex_unlock(&family->lock);

    struct ccl_heap_msg msg = {.type = CCL_MSG_DEREGISTER, .id = w->id};
    for (int i = 0; i < count; i++) {
        tell(heap, w, list[i], &msg, -1, CCL_PEER_GONE);
    }
    uint64_t until = ccl_now_ns() + CLOSE_WAIT_NS;
    struct timespec deadline = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    pthread_mutex_lock(&family->lock);
    while (any_awaited(heap, w)) {
        if (pthread_cond_timedwait(&family->answered, &family->lock, &deadline) == ETIMEDOUT) {
            if (any_awaited(heap, w)) {
                give_up(heap, w);
            }
            break;
        }
    }
    w->waited = false;
    if (!ccl_registry_any_peer(heap, w, CCL_PEER_CLOSING)) {
        ccl_registry_remove(heap, w);
    }
    pthread_mutex_unlock(&family->lock);
    ccl_heap_refresh(heap);
    return rc;
}

void ccl_heap_leave(struct ccl_heap *heap)
{
    if (heap == NULL || heap->port == NULL) {
        return;
    }
    pthread_mutex_lock(&heap->family->lock);
    heap->left = true;
    pthread_mutex_unlock(&heap->family->lock);
    struct ccl_heap_msg msg = {.type = CCL_MSG_LEAVE};
    for (int j = 0; j < heap->n; j++) {
        if (j != heap->rank) {
            (void)ccl_monitor_send(heap->port, j, &msg, sizeof(msg),
                                   -1); /* unsent: the peer waits for its limit, once */
        }
    }
}
