/* SPDX-License-Identifier: MIT
 *
 * Ports of the monitor: attach, detach, send. Attach exchanges what is needed to reach and to authenticate each other,
 * then watches the peers' processes, then agrees: after that agreement every watched process number is known to have
 * belonged to the peer (it took part later than the watch began), and every connection that serves as a watch stands.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "bootstrap/monitor_internal.h"

static cclResult_t port_create(struct ccl_bootstrap *boot, const struct ccl_monitor_callbacks *callbacks, void *ctx,
                               struct ccl_monitor_port **out)
{
    int size = ccl_bootstrap_size(boot);
    struct ccl_monitor_port *port = calloc(1, sizeof(*port) + (size_t)size * sizeof(port->peers[0]));
    CCL_CHECK(port != NULL, cclSystemError, CCL_BOOT, "out of memory for a monitor port of %d ranks", size);
    port->callbacks = *callbacks;
    port->ctx = ctx;
    port->rank = ccl_bootstrap_rank(boot);
    port->size = size;
    port->refs = 1;
    for (int i = 0; i < size; i++) {
        port->peers[i].port = port;
        port->peers[i].rank = i;
        port->peers[i].out_fd = -1;
        port->peers[i].in_fd = -1;
    }
    if (getrandom(port->token, sizeof(port->token), 0) != (ssize_t)sizeof(port->token)) {
        free(port);
        return ccl_error_set(cclSystemError, CCL_BOOT, "monitor random token: %s", strerror(errno));
    }
    cclResult_t rc = ccl_mon_get(&port->mon);
    if (rc != cclSuccess) {
        free(port);
        return rc;
    }
    pthread_mutex_lock(&ccl_mon_lock);
    port->id = ++port->mon->last_id;
    port->next = port->mon->ports;
    port->mon->ports = port;
    pthread_mutex_unlock(&ccl_mon_lock);
    *out = port;
    return cclSuccess;
}

static cclResult_t watch_peer(struct ccl_mon_peer *peer, pid_t pid)
{
    CCL_TRY(ccl_mon_process_get(peer->port->mon, pid, &peer->process));
    if (peer->process == NULL) {
        peer->eof_watch = true;
        cclResult_t rc = ccl_mon_out_open(peer);
        if (rc == cclRemoteError) {
            return ccl_error_set(rc, CCL_BOOT, "rank %d does not listen for its peers any more", peer->rank);
        }
        /* cclInProgress: its backlog is full; the monitor thread tries again. */
        return rc == cclInProgress ? cclSuccess : rc;
    }
    return cclSuccess;
}

static cclResult_t watch_peers(struct ccl_monitor_port *port, const struct ccl_bootstrap *boot,
                               const struct ccl_mon_card *cards)
{
    cclResult_t rc = cclSuccess;
    pthread_mutex_lock(&ccl_mon_lock);
    for (int i = 0; i < port->size && rc == cclSuccess; i++) {
        struct ccl_mon_peer *peer = &port->peers[i];
        peer->card = cards[i];
        peer->local = memcmp(cards[i].name, port->mon->name, sizeof(cards[i].name)) == 0;
        if (cards[i].valid != 0 && !peer->local) {
            rc = watch_peer(peer, ccl_bootstrap_peer_pid(boot, i));
        }
    }
    pthread_mutex_unlock(&ccl_mon_lock);
    return rc;
}

cclResult_t ccl_monitor_attach(struct ccl_bootstrap *boot, const struct ccl_monitor_callbacks *callbacks, void *ctx,
                               struct ccl_monitor_port **out)
{
    assert(callbacks->peer_died != NULL && callbacks->message != NULL);
    size_t size = (size_t)ccl_bootstrap_size(boot);
    int rank = ccl_bootstrap_rank(boot);
    struct ccl_monitor_port *port = NULL;
    struct ccl_mon_card *cards = calloc(size, sizeof(*cards));
    /* Without memory for the exchange this rank cannot enter it; the peers see it leave when the caller gives boot up.
     */
    CCL_CHECK(cards != NULL, cclSystemError, CCL_BOOT, "out of memory for the names of %zu monitors", size);

    cclResult_t mine = port_create(boot, callbacks, ctx, &port);
    if (mine == cclSuccess) {
        memcpy(cards[rank].name, port->mon->name, sizeof(cards[rank].name));
        memcpy(cards[rank].token, port->token, sizeof(cards[rank].token));
        cards[rank].port_id = port->id;
        cards[rank].valid = 1;
    }
    cclResult_t rc = ccl_bootstrap_allgather(boot, cards, sizeof(*cards));
    if (rc == cclSuccess) {
        if (mine == cclSuccess) {
            mine = watch_peers(port, boot, cards);
        }
        rc = ccl_bootstrap_agree(boot, mine);
    }
    free(cards);
    if (rc != cclSuccess) {
        ccl_monitor_detach(port);
        return rc;
    }
    pthread_mutex_lock(&ccl_mon_lock);
    /* Before the first callback, which may send. */
    *out = port;
    port->active = true;
    ccl_mon_port_ready(port);
    pthread_mutex_unlock(&ccl_mon_lock);
    return cclSuccess;
}

/* Take the port out of everything the monitor thread looks at and say goodbye. With the lock. */
static void port_close(struct ccl_monitor_port *port)
{
    struct ccl_monitor *mon = port->mon;
    bool inherited = ccl_mon_is_inherited(mon);
    struct ccl_monitor_port **link = &mon->ports;
    if (!inherited) {
        /* A peer that watches its connection to us gets its goodbye even if it has not been accepted yet. */
        ccl_mon_accept(mon);
    }
    while (*link != port) {
        link = &(*link)->next;
    }
    *link = port->next;
    ccl_mon_port_unready(port);
    port->closing = true;
    if (port->want_tick) {
        port->want_tick = false;
        mon->tick_ports--;
    }
    for (int i = 0; i < port->size; i++) {
        struct ccl_mon_peer *peer = &port->peers[i];
        ccl_mon_in_close(peer, !inherited);
        ccl_mon_out_close(peer);
        ccl_mon_process_put(mon, peer->process);
        peer->process = NULL;
    }
}

void ccl_monitor_detach(struct ccl_monitor_port *port)
{
    if (port == NULL) {
        return;
    }
    struct ccl_monitor *mon = port->mon;
    pthread_mutex_lock(&ccl_mon_lock);
    port_close(port);
    /* In a forked child a callback that ran at the fork will never end here. */
    while (mon->running == port && !ccl_mon_on_thread(mon) && !ccl_mon_is_inherited(mon)) {
        pthread_cond_wait(&ccl_mon_callback_done, &ccl_mon_lock);
    }
    ccl_mon_queue_clear(&port->inbox);
    ccl_mon_port_unref(port);
    pthread_mutex_unlock(&ccl_mon_lock);
    ccl_mon_put(mon);
}

/* Queue item for peer, in order. The item is taken in any case. */
static cclResult_t send_item(struct ccl_mon_peer *peer, struct ccl_mon_item *item)
{
    struct ccl_monitor_port *port = peer->port;
    if (port->closing || peer->gone) {
        ccl_mon_item_destroy(item);
        return cclSuccess;
    }
    if (peer->local) {
        struct ccl_monitor_port *target = ccl_mon_port_find(port->mon, peer->card.port_id);
        if (target == NULL) {
            ccl_mon_item_destroy(item);
        } else {
            item->peer = port->rank;
            ccl_mon_inbox_push(target, item);
        }
        return cclSuccess;
    }
    cclResult_t rc = ccl_mon_out_open(peer);
    if (rc == cclSystemError || rc == cclRemoteError) {
        ccl_mon_item_destroy(item);
        if (rc == cclSystemError) {
            return rc;
        }
        /* Nobody listens: the peer has left, or died, which its watch reports. */
        ccl_mon_out_lost(peer);
        return cclSuccess;
    }
    bool first = peer->unsent.head == NULL;
    ccl_mon_queue_push(&peer->unsent, item);
    /* Behind others: whoever waits for the socket or the pause sends it. */
    if (rc == cclSuccess && first) {
        ccl_mon_out_flush(peer);
    }
    return cclSuccess;
}

cclResult_t ccl_monitor_send(struct ccl_monitor_port *port, int peer, const void *msg, size_t bytes, int fd)
{
    CCL_CHECK(peer >= 0 && peer < port->size, cclInvalidArgument, CCL_BOOT, "monitor message to rank %d of %d", peer,
              port->size);
    CCL_CHECK(bytes <= CCL_MONITOR_MSG_BYTES, cclInvalidArgument, CCL_BOOT, "monitor message of %zu bytes, at most %d",
              bytes, CCL_MONITOR_MSG_BYTES);
    CCL_CHECK(!ccl_mon_is_inherited(port->mon), cclInvalidUsage, CCL_BOOT,
              "monitor message to rank %d from a forked child", peer);
    int copy = -1;
    if (fd >= 0) {
        copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        CCL_CHECK(copy >= 0, cclSystemError, CCL_BOOT, "copy of descriptor %d for rank %d: %s", fd, peer,
                  strerror(errno));
    }
    struct ccl_mon_item *item = ccl_mon_item_create(peer, msg, bytes, copy);
    if (item == NULL) {
        if (copy >= 0) {
            close(copy);
        }
        return ccl_error_set(cclSystemError, CCL_BOOT, "out of memory for a monitor message to rank %d", peer);
    }
    pthread_mutex_lock(&ccl_mon_lock);
    cclResult_t rc = send_item(&port->peers[peer], item);
    pthread_mutex_unlock(&ccl_mon_lock);
    return rc;
}

void ccl_monitor_want_tick(struct ccl_monitor_port *port, bool on)
{
    struct ccl_monitor *mon = port->mon;
    on = on && port->callbacks.tick != NULL;
    pthread_mutex_lock(&ccl_mon_lock);
    if (on != port->want_tick && !port->closing && !ccl_mon_is_inherited(mon)) {
        port->want_tick = on;
        port->tick_due = port->tick_due && on;
        mon->tick_ports += on ? 1 : -1;
        if (on && mon->tick_ports == 1) {
            mon->tick_ns = ccl_now_ns() + CCL_MON_TICK_NS;
            ccl_mon_wake(mon);
        }
    }
    pthread_mutex_unlock(&ccl_mon_lock);
}
