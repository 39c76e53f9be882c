/* SPDX-License-Identifier: MIT
 *
 * Queues of the monitor: messages on their way out, the inbox of a port, the list of ports that have something to
 * deliver, and the one place from where callbacks run. Ports take turns, one callback each, so a flood to one does not
 * starve the others. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/monitor_internal.h"

/* More packets than a socket buffer holds: what a dead process left behind is taken in one go, yet a copy of its socket
 * that lives on in a child cannot keep us here. */
#define LAST_PACKETS 4096

struct ccl_mon_item *ccl_mon_item_create(int peer, const void *msg, size_t bytes, int fd)
{
    struct ccl_mon_item *item = malloc(sizeof(*item));
    if (item == NULL) {
        return NULL;
    }
    item->next = NULL;
    item->peer = peer;
    item->fd = fd;
    item->death = false;
    item->bytes = (uint32_t)bytes;
    if (bytes > 0) {
        memcpy(item->msg, msg, bytes);
    }
    return item;
}

void ccl_mon_item_destroy(struct ccl_mon_item *item)
{
    if (item == NULL || item->death) {
        return;
    }
    if (item->fd >= 0) {
        close(item->fd);
    }
    free(item);
}

void ccl_mon_queue_push(struct ccl_mon_queue *queue, struct ccl_mon_item *item)
{
    item->next = NULL;
    if (queue->tail != NULL) {
        queue->tail->next = item;
    } else {
        queue->head = item;
    }
    queue->tail = item;
    queue->count++;
}

struct ccl_mon_item *ccl_mon_queue_pop(struct ccl_mon_queue *queue)
{
    struct ccl_mon_item *item = queue->head;
    if (item != NULL) {
        queue->count--;
        queue->head = item->next;
        if (queue->head == NULL) {
            queue->tail = NULL;
        }
    }
    return item;
}

void ccl_mon_queue_clear(struct ccl_mon_queue *queue)
{
    struct ccl_mon_item *item;
    while ((item = ccl_mon_queue_pop(queue)) != NULL) {
        ccl_mon_item_destroy(item);
    }
}

struct ccl_monitor_port *ccl_mon_port_find(struct ccl_monitor *mon, uint64_t id)
{
    struct ccl_monitor_port *port = mon->ports;
    while (port != NULL && port->id != id) {
        port = port->next;
    }
    return port;
}

void ccl_mon_port_unref(struct ccl_monitor_port *port)
{
    if (--port->refs == 0) {
        free(port);
    }
}

void ccl_mon_port_ready(struct ccl_monitor_port *port)
{
    struct ccl_monitor *mon = port->mon;
    if (port->ready || port->closing || !port->active || (port->inbox.head == NULL && !port->tick_due)) {
        return;
    }
    port->ready = true;
    port->next_ready = NULL;
    if (mon->ready_tail != NULL) {
        mon->ready_tail->next_ready = port;
    } else {
        mon->ready_head = port;
    }
    mon->ready_tail = port;
    ccl_mon_wake(mon);
}

void ccl_mon_port_unready(struct ccl_monitor_port *port)
{
    struct ccl_monitor *mon = port->mon;
    struct ccl_monitor_port *before = NULL;
    if (!port->ready) {
        return;
    }
    for (struct ccl_monitor_port *p = mon->ready_head; p != port; p = p->next_ready) {
        before = p;
    }
    if (before != NULL) {
        before->next_ready = port->next_ready;
    } else {
        mon->ready_head = port->next_ready;
    }
    if (mon->ready_tail == port) {
        mon->ready_tail = before;
    }
    port->ready = false;
}

void ccl_mon_inbox_push(struct ccl_monitor_port *port, struct ccl_mon_item *item)
{
    ccl_mon_queue_push(&port->inbox, item);
    ccl_mon_port_ready(port);
}

bool ccl_mon_deliver_one(struct ccl_monitor *mon)
{
    struct ccl_monitor_port *port = mon->ready_head;
    if (port == NULL) {
        return false;
    }
    ccl_mon_port_unready(port);
    bool tick = port->tick_due;
    struct ccl_mon_item *item = tick ? NULL : ccl_mon_queue_pop(&port->inbox);
    port->tick_due = false;
    port->refs++;
    mon->running = port;
    pthread_mutex_unlock(&ccl_mon_lock);

    ccl_log_set_rank(port->rank);
    if (tick) {
        port->callbacks.tick(port->ctx);
    } else if (item->death) {
        port->callbacks.peer_died(port->ctx, item->peer);
    } else {
        port->callbacks.message(port->ctx, item->peer, item->msg, item->bytes, item->fd);
        item->fd = -1; /* the callee's now */
    }
    ccl_log_set_rank(-1);

    pthread_mutex_lock(&ccl_mon_lock);
    mon->running = NULL;
    pthread_cond_broadcast(&ccl_mon_callback_done);
    ccl_mon_item_destroy(item);
    ccl_mon_port_ready(port);
    ccl_mon_port_unref(port);
    return true;
}

/* Put the death behind the last message of that peer and both before everything else: a death must not wait for the
 * messages of others, towards which it has no order. */
static void push_death(struct ccl_monitor_port *port, struct ccl_mon_peer *peer)
{
    struct ccl_mon_queue all = port->inbox, others = {0};
    struct ccl_mon_item *item;
    port->inbox = (struct ccl_mon_queue){0};
    while ((item = ccl_mon_queue_pop(&all)) != NULL) {
        ccl_mon_queue_push(item->peer == peer->rank ? &port->inbox : &others, item);
    }
    peer->death = (struct ccl_mon_item){.peer = peer->rank, .fd = -1, .death = true};
    ccl_mon_queue_push(&port->inbox, &peer->death);
    while ((item = ccl_mon_queue_pop(&others)) != NULL) {
        ccl_mon_queue_push(&port->inbox, item);
    }
    ccl_mon_port_ready(port);
}

void ccl_mon_peer_dead(struct ccl_mon_peer *peer)
{
    if (peer->dead) {
        return;
    }
    peer->dead = true;
    /* Its connection may still be in the backlog. */
    ccl_mon_accept(peer->port->mon);
    ccl_mon_in_read(peer, LAST_PACKETS);
    ccl_mon_in_close(peer, false);
    ccl_mon_out_close(peer);
    peer->accepted = true; /* nothing comes after a death */
    push_death(peer->port, peer);
}
