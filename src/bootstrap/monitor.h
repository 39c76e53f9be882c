/* SPDX-License-Identifier: MIT
 *
 * One monitor thread a process: notices that a peer's process died (pidfd, else the closed connection to it) and
 * carries small messages with file descriptors between the ranks of a communicator in the background, for
 * registrations. Started with the first port, stopped and joined with the last one. A forked child has no monitor and
 * must not use the ports of its parent. */
#ifndef CCL_BOOTSTRAP_MONITOR_H
#define CCL_BOOTSTRAP_MONITOR_H

#include "bootstrap/bootstrap.h"

#define CCL_MONITOR_MSG_BYTES 256

struct ccl_monitor_port;

/* Called on the monitor thread, one at a time, never after ccl_monitor_detach has returned. */
struct ccl_monitor_callbacks {
    /* The process of rank peer is gone; its last messages have come before. Once a peer, whether it had detached or
     * not; where processes cannot be watched (no pidfd) a peer that had detached is not reported. */
    void (*peer_died)(void *ctx, int peer);
    /* A message of peer, in the order sent by that peer. fd is -1 or owned by the callee; -1 also (logged) when this
     * process had no descriptor left to receive it. May call ccl_monitor_send and ccl_monitor_detach. */
    void (*message)(void *ctx, int peer, const void *msg, size_t bytes, int fd);
    /* Every 100 ms while this port asks for it with ccl_monitor_want_tick; may be NULL. */
    void (*tick)(void *ctx);
};

/* Collective over boot (exchanges listener names, never blocks on the monitor of a peer). Peers in this very process
 * are served too, and so is this rank itself. *out is written before the first callback, which may come before this
 * returns. */
cclResult_t ccl_monitor_attach(struct ccl_bootstrap *boot, const struct ccl_monitor_callbacks *callbacks, void *ctx,
                               struct ccl_monitor_port **out);
/* Local; waits for a callback of this port that is running (unless called from one), drops what is unsent. NULL is
 * fine. */
void ccl_monitor_detach(struct ccl_monitor_port *port);
/* Queue a message (at most CCL_MONITOR_MSG_BYTES) for peer; fd (-1: none) is duplicated. Local, does not block. A peer
 * that is gone or detached swallows it. cclSystemError: no memory, or no descriptor. */
cclResult_t ccl_monitor_send(struct ccl_monitor_port *port, int peer, const void *msg, size_t bytes, int fd);
void ccl_monitor_want_tick(struct ccl_monitor_port *port, bool on);

#endif
