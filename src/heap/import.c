/* SPDX-License-Identifier: MIT
 *
 * The peer's side of registrations, on the monitor thread: map what a peer has registered, unmap it when it asks,
 * answer both, and hand the answers of peers to the registry. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heap/window.h"

void ccl_heap_set_port(struct ccl_heap *heap, struct ccl_monitor_port *port)
{
    pthread_mutex_lock(&heap->family->lock);
    heap->port = port;
    pthread_mutex_unlock(&heap->family->lock);
}

static void answer(struct ccl_heap *heap, int peer, uint32_t type, uint32_t id, cclResult_t rc)
{
    struct ccl_heap_msg msg = {.type = type, .id = id, .rc = rc};
    /* When it cannot be sent the owner goes on staging, or waits for its limit; send has logged why. */
    (void)ccl_monitor_send(heap->port, peer, &msg, sizeof(msg), -1);
}

static struct ccl_import **find_import(struct ccl_heap *heap, int owner, uint32_t id)
{
    struct ccl_import **link = &heap->family->imports;
    while (*link != NULL && ((*link)->home != heap->serial || (*link)->owner != owner || (*link)->id != id)) {
        link = &(*link)->next;
    }
    return link;
}

static cclResult_t open_import(struct ccl_heap *heap, int owner, const struct ccl_heap_msg *msg, int fd)
{
    struct ccl_family *family = heap->family;
    struct ccl_mem_handle handle = {.size_bytes = msg->size_bytes, .fd = fd, .kind = msg->kind};
    struct ccl_import *import = calloc(1, sizeof(*import));
    CCL_CHECK(import != NULL, cclSystemError, CCL_HEAP, "no memory for a registration of a peer");
    memcpy(handle.blob, msg->blob, sizeof(handle.blob));
    cclResult_t rc;
    CCL_TRY_GOTO(heap->rt->mem_import(&handle, &import->base), err_free);
    import->home = heap->serial;
    import->owner = owner;
    import->id = msg->id;
    pthread_mutex_lock(&family->lock);
    struct ccl_import **link = find_import(heap, owner, msg->id);
    if (*link != NULL) {
        rc = ccl_error_set(cclInternalError, CCL_HEAP, "window %u of a peer is registered twice", msg->id);
    } else {
        rc = ccl_table_set(family, heap->serial, owner, msg->id, (uint64_t)(uintptr_t)import->base);
        if (rc == cclSuccess) {
            *link = import;
        } else {
            ccl_table_set(family, heap->serial, owner, msg->id, 0);
        }
    }
    pthread_mutex_unlock(&family->lock);
    if (rc == cclSuccess) {
        return cclSuccess;
    }
    heap->rt->mem_close(import->base);
err_free:
    free(import);
    return rc;
}

void ccl_import_open(struct ccl_heap *heap, int peer, const struct ccl_heap_msg *msg, int fd)
{
    int device = ccl_heap_device_enter(heap);
    cclResult_t rc = open_import(heap, heap->family_rank[peer], msg, fd);
    ccl_heap_device_leave(heap, device);
    answer(heap, peer, CCL_MSG_MAPPED, msg->id, rc);
}

/* Safe although kernels of this rank may be running: the owner deregisters only when its operations on the buffer
 * have completed, by invariant Q no store for them is then in flight, and it advertises the window no more. A later
 * operation that finds the entry gone stages. The entry is cleared before the answer, since the owner may give the
 * id to another window when it has it. */
void ccl_import_close(struct ccl_heap *heap, int peer, uint32_t id)
{
    struct ccl_family *family = heap->family;
    int owner = heap->family_rank[peer];
    pthread_mutex_lock(&family->lock);
    struct ccl_import **link = find_import(heap, owner, id);
    struct ccl_import *import = *link; /* NULL: it could not be mapped */
    if (import != NULL) {
        *link = import->next;
        ccl_table_set(family, heap->serial, owner, id, 0);
    }
    pthread_mutex_unlock(&family->lock);
    if (import != NULL) {
        int device = ccl_heap_device_enter(heap);
        heap->rt->mem_close(import->base);
        ccl_heap_device_leave(heap, device);
    }
    free(import);
    answer(heap, peer, CCL_MSG_CLOSED, id, cclSuccess);
}

void ccl_heap_on_message(struct ccl_heap *heap, int peer, const void *data, size_t bytes, int fd)
{
    struct ccl_heap_msg msg = {.type = 0};
    if (bytes == sizeof(msg)) {
        memcpy(&msg, data, sizeof(msg));
    }
    pthread_mutex_lock(&heap->family->lock);
    bool open = heap->port != NULL && !heap->left;
    pthread_mutex_unlock(&heap->family->lock);
    bool valid = msg.type == CCL_MSG_LEAVE ||
                 (msg.type >= CCL_MSG_REGISTER && msg.type < CCL_MSG_LEAVE && msg.id > 0 && msg.id < CCL_WINDOWS);
    if (!valid) {
        CCL_LOG(CCL_LOG_WARN, CCL_HEAP, "dropped a malformed message of %zu bytes from rank %d, window %u", bytes, peer,
                msg.id);
    } else if (open) {
        switch ((enum ccl_heap_msg_type)msg.type) {
        case CCL_MSG_REGISTER:
            ccl_import_open(heap, peer, &msg, fd);
            break;
        case CCL_MSG_DEREGISTER:
            ccl_import_close(heap, peer, msg.id);
            break;
        case CCL_MSG_MAPPED:
        case CCL_MSG_CLOSED:
            ccl_registry_answered(heap, peer, &msg);
            break;
        case CCL_MSG_LEAVE:
            ccl_registry_peer_gone(heap, peer, false);
            break;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

void ccl_heap_on_peer_died(struct ccl_heap *heap, int peer)
{
    ccl_registry_peer_gone(heap, peer, true);
}
