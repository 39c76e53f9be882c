/* SPDX-License-Identifier: MIT
 *
 * What the files of the monitor share. One lock (ccl_mon_lock) guards every field below; it is never held during a
 * callback or a wait, only across system calls that do not block. Functions named ccl_mon_* are called with it held
 * unless they say otherwise.
 *
 * Connections carry messages one way, from the rank that connected ("out" there, "in" at the acceptor); the way back
 * carries only the goodbye. All that a port receives, deaths included, goes through its inbox, so a death comes after
 * the last message. Nothing points from epoll to memory: an event carries kind, id and rank and is looked up, since a
 * detach may free anything between epoll_wait and the lock. Ids are never used twice. */
#ifndef CCL_BOOTSTRAP_MONITOR_INTERNAL_H
#define CCL_BOOTSTRAP_MONITOR_INTERNAL_H

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "bootstrap/monitor.h"
#include "util/log.h"

#define CCL_MON_NAME_BYTES 16
#define CCL_MON_TOKEN_BYTES 16
#define CCL_MON_TICK_NS 100000000u
/* Pause after a call that failed for lack of something no event announces (descriptors, kernel memory, room in a
 * backlog). */
#define CCL_MON_RETRY_NS 10000000u

/* An event names what it is about: kind in 4 bits, id in 44, rank in 16. */
#define CCL_MON_KEY_ID_BITS 44
#define CCL_MON_KEY_RANK_BITS 16
enum ccl_mon_kind { CCL_MON_WAKE, CCL_MON_LISTEN, CCL_MON_PENDING, CCL_MON_IN, CCL_MON_OUT, CCL_MON_PROCESS };

/* Something for a callback, or a message not yet written to a socket. */
struct ccl_mon_item {
    struct ccl_mon_item *next;
    int peer;
    int fd;     /* owned, -1: none */
    bool death; /* lives inside the peer, is not freed */
    uint32_t bytes;
    uint8_t msg[CCL_MONITOR_MSG_BYTES];
};

struct ccl_mon_queue {
    struct ccl_mon_item *head, *tail;
    int count;
};

/* What every rank tells the others in attach. name is the listener's and so tells processes apart. */
struct ccl_mon_card {
    uint8_t name[CCL_MON_NAME_BYTES];
    uint8_t token[CCL_MON_TOKEN_BYTES];
    uint64_t port_id;
    uint64_t valid; /* 0: that rank failed before it had a port */
};

/* A peer process watched by pidfd, shared by all ports of this process. */
struct ccl_mon_process {
    struct ccl_mon_process *next;
    uint64_t id;
    pid_t pid;
    int fd; /* -1: it died */
    int refs;
};

/* Accepted, has not said who it is. */
struct ccl_mon_pending {
    struct ccl_mon_pending *next;
    uint64_t id;
    uint64_t deadline_ns;
    int fd;
};

struct ccl_mon_peer {
    struct ccl_monitor_port *port;
    struct ccl_mon_card card;
    struct ccl_mon_process *process; /* NULL: same process, or eof_watch */
    struct ccl_mon_queue unsent;
    struct ccl_mon_item death;
    int rank;
    int out_fd, in_fd;
    bool local;     /* a rank of this process: messages go straight into its inbox */
    bool eof_watch; /* no pidfd: the end of out_fd without a goodbye is the death */
    bool accepted;  /* its one incoming connection has come */
    bool gone;      /* takes no messages any more */
    bool dead;      /* peer_died is in the inbox or done */
    bool out_armed; /* waits for EPOLLOUT */
};

struct ccl_monitor_port {
    struct ccl_monitor *mon;
    struct ccl_monitor_port *next, *next_ready;
    struct ccl_monitor_callbacks callbacks;
    void *ctx;
    uint64_t id;
    uint8_t token[CCL_MON_TOKEN_BYTES];
    struct ccl_mon_queue inbox;
    int rank, size;
    int refs;     /* the owner's and the running callback's */
    bool active;  /* attach succeeded: callbacks may come */
    bool closing; /* detach has begun: no further callback */
    bool ready;   /* in the list of ports with something to deliver */
    bool want_tick, tick_due;
    struct ccl_mon_peer peers[];
};

struct ccl_monitor {
    pthread_t thread;
    pid_t owner; /* another process id: we are in a forked child */
    uint8_t name[CCL_MON_NAME_BYTES];
    int epoll_fd, wake_fd, listen_fd;
    int refs; /* ports, those inside attach included */
    int tick_ports;
    bool stop;
    bool stop_alone; /* stopped by a callback: the thread frees the monitor, nobody joins */
    bool woken;
    bool accept_paused;
    uint64_t last_id;
    uint64_t retry_ns, tick_ns; /* when, 0: not asked for */
    struct ccl_monitor_port *ports;
    struct ccl_monitor_port *ready_head, *ready_tail;
    struct ccl_monitor_port *running; /* whose callback runs */
    struct ccl_mon_process *processes;
    struct ccl_mon_pending *pending; /* oldest first */
};

extern pthread_mutex_t ccl_mon_lock;
extern pthread_cond_t ccl_mon_callback_done;

/* --- monitor_thread.c: the thread and what it waits for --- */

/* The monitor of this process with one more reference; starts it. Call without the lock. */
cclResult_t ccl_mon_get(struct ccl_monitor **out);
/* Give the reference back; the last one stops the thread and joins it (on the thread itself: leaves that to the
 * thread). Call without the lock. In a forked child only memory is freed. */
void ccl_mon_put(struct ccl_monitor *mon);
bool ccl_mon_on_thread(const struct ccl_monitor *mon);
bool ccl_mon_is_inherited(const struct ccl_monitor *mon);
void ccl_mon_wake(struct ccl_monitor *mon);
void ccl_mon_retry_later(struct ccl_monitor *mon);

/* --- monitor_watch.c: epoll registrations and processes --- */

/* Register fd with epoll; false, logged: the system refused. */
bool ccl_mon_watch(struct ccl_monitor *mon, int fd, uint32_t events, enum ccl_mon_kind kind, uint64_t id, int rank);
void ccl_mon_rewatch(struct ccl_monitor *mon, int fd, uint32_t events, enum ccl_mon_kind kind, uint64_t id, int rank);
/* Deregister and close; *fd is -1 afterwards and may be before. */
void ccl_mon_close(struct ccl_monitor *mon, int *fd);
/* *out is NULL on success when this process cannot be watched by pidfd. */
cclResult_t ccl_mon_process_get(struct ccl_monitor *mon, pid_t pid, struct ccl_mon_process **out);
void ccl_mon_process_put(struct ccl_monitor *mon, struct ccl_mon_process *process);
/* Report it to every port that has a peer in this process. An id that is gone is fine. */
void ccl_mon_process_died(struct ccl_monitor *mon, uint64_t id);

/* --- monitor_queue.c: items, inboxes, deaths --- */

struct ccl_mon_item *ccl_mon_item_create(int peer, const void *msg, size_t bytes,
                                         int fd); /* fd is taken; no lock needed */
void ccl_mon_item_destroy(struct ccl_mon_item *item);
void ccl_mon_queue_push(struct ccl_mon_queue *queue, struct ccl_mon_item *item);
struct ccl_mon_item *ccl_mon_queue_pop(struct ccl_mon_queue *queue);
void ccl_mon_queue_clear(struct ccl_mon_queue *queue);
struct ccl_monitor_port *ccl_mon_port_find(struct ccl_monitor *mon, uint64_t id);
void ccl_mon_port_unref(struct ccl_monitor_port *port);
/* Put the port into the list of ready ports if it has something to deliver. */
void ccl_mon_port_ready(struct ccl_monitor_port *port);
void ccl_mon_port_unready(struct ccl_monitor_port *port);
void ccl_mon_inbox_push(struct ccl_monitor_port *port, struct ccl_mon_item *item);
/* Run one callback, on the monitor thread. Gives up the lock meanwhile. False: nothing was ready. */
bool ccl_mon_deliver_one(struct ccl_monitor *mon);
/* The process of peer is gone: take what it still sent, then report it, once. */
void ccl_mon_peer_dead(struct ccl_mon_peer *peer);

/* --- monitor_accept.c: listener and incoming connections --- */

cclResult_t ccl_mon_listen(struct ccl_monitor *mon);
/* Refuse further connections, answer those in the backlog with a goodbye, close. */
void ccl_mon_unlisten(struct ccl_monitor *mon);
/* Take in who waits to be accepted or has said hello since. */
void ccl_mon_accept(struct ccl_monitor *mon);
void ccl_mon_pending_expire(struct ccl_monitor *mon, uint64_t now_ns);
/* Take up to max packets into the inbox. */
void ccl_mon_in_read(struct ccl_mon_peer *peer, int max);
/* say_goodbye: tell the sender that this is no death. */
void ccl_mon_in_close(struct ccl_mon_peer *peer, bool say_goodbye);

/* --- monitor_send.c: outgoing connections --- */

struct ccl_mon_packet {
    uint32_t magic, kind, bytes, has_fd;
};
#define CCL_MON_PACKET_MAGIC 0xcc1a0b0au
enum ccl_mon_packet_kind { CCL_MON_MESSAGE = 1, CCL_MON_GOODBYE = 2 };
/* First packet of a connection. */
struct ccl_mon_hello {
    uint32_t magic, rank;
    uint64_t port_id;
    uint8_t token[CCL_MON_TOKEN_BYTES];
};
#define CCL_MON_HELLO_MAGIC 0xcc1a4e11u

socklen_t ccl_mon_address(const uint8_t name[CCL_MON_NAME_BYTES], struct sockaddr_un *addr);
/* The process at the other end runs as our user. */
bool ccl_mon_same_user(int fd);
/* Connect unless connected. cclInProgress: tried again later; cclRemoteError: nobody listens (not logged). */
cclResult_t ccl_mon_out_open(struct ccl_mon_peer *peer);
/* Write what is queued, as far as the socket takes it. */
void ccl_mon_out_flush(struct ccl_mon_peer *peer);
void ccl_mon_out_ready(struct ccl_mon_peer *peer, uint32_t events);
void ccl_mon_out_close(struct ccl_mon_peer *peer);
/* The connection has ended, cannot be written or cannot be made: no more messages, and a death where it is the watch.
 */
void ccl_mon_out_lost(struct ccl_mon_peer *peer);
/* After a pause: connect and write where it failed for lack of resources. */
void ccl_mon_out_retry(struct ccl_monitor_port *port);

#endif
