/* SPDX-License-Identifier: MIT
 *
 * Outgoing side of the monitor: one connection to each peer of another process, opened by the first message (or in
 * attach, when its end is how we notice the peer's death). Writes never block; what the socket does not take waits in
 * the peer's queue. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bootstrap/monitor_internal.h"

#define OUT_EVENTS (EPOLLIN | EPOLLRDHUP)

socklen_t ccl_mon_address(const uint8_t name[CCL_MON_NAME_BYTES], struct sockaddr_un *addr)
{
    memset(addr, 0, sizeof(*addr));
    addr->sun_family = AF_UNIX;
    /* sun_path[0] stays 0: the abstract namespace. */
    int n = snprintf(addr->sun_path + 1, sizeof(addr->sun_path) - 1, "ccl-monitor-");
    for (int i = 0; i < CCL_MON_NAME_BYTES; i++) {
        n += snprintf(addr->sun_path + 1 + n, sizeof(addr->sun_path) - 1 - (size_t)n, "%02x", name[i]);
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

bool ccl_mon_same_user(int fd)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.uid == geteuid();
}

/* Take the peer's goodbye if one is there; false once the connection has ended. */
static bool read_goodbye(struct ccl_mon_peer *peer)
{
    struct ccl_mon_packet head;
    for (;;) {
        ssize_t n = recv(peer->out_fd, &head, sizeof(head), MSG_DONTWAIT);
        if (n == (ssize_t)sizeof(head) && head.magic == CCL_MON_PACKET_MAGIC && head.kind == CCL_MON_GOODBYE) {
            peer->gone = true;
        } else if (n == 0) {
            return false;
        } else if (n < 0 && errno != EINTR && errno != ECONNRESET) {
            return errno == EAGAIN; /* after a reset, which is told once, comes what is still in the buffer */
        }
    }
}

void ccl_mon_out_lost(struct ccl_mon_peer *peer)
{
    if (peer->out_fd >= 0) {
        read_goodbye(peer);
    }
    bool goodbye = peer->gone;
    ccl_mon_out_close(peer);
    if (peer->eof_watch && !goodbye) {
        ccl_mon_peer_dead(peer);
    }
}

static cclResult_t say_hello(struct ccl_mon_peer *peer, int fd)
{
    struct ccl_mon_hello hello = {
        .magic = CCL_MON_HELLO_MAGIC, .rank = (uint32_t)peer->port->rank, .port_id = peer->card.port_id};
    memcpy(hello.token, peer->card.token, sizeof(hello.token));
    if (send(fd, &hello, sizeof(hello), MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(hello)) {
        return cclSuccess;
    }
    return errno == ENOMEM || errno == ENOBUFS || errno == EINTR ? cclInProgress : cclRemoteError;
}

cclResult_t ccl_mon_out_open(struct ccl_mon_peer *peer)
{
    struct ccl_monitor *mon = peer->port->mon;
    struct sockaddr_un addr;
    socklen_t len = ccl_mon_address(peer->card.name, &addr);
    if (peer->out_fd >= 0) {
        return cclSuccess;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return ccl_error_set(cclSystemError, CCL_BOOT, "monitor socket to rank %d: %s", peer->rank, strerror(errno));
    }
    cclResult_t rc = cclSuccess;
    if (connect(fd, (const struct sockaddr *)&addr, len) != 0) {
        /* EAGAIN: the backlog is full. Unix sockets never answer EINPROGRESS. */
        rc = errno == EAGAIN || errno == EINTR || errno == ENOMEM || errno == ENOBUFS ? cclInProgress : cclRemoteError;
    } else if (!ccl_mon_same_user(fd)) {
        rc = cclRemoteError; /* somebody took the name after the peer had left: it must not learn the token */
    } else {
        rc = say_hello(peer, fd);
    }
    if (rc == cclSuccess && !ccl_mon_watch(mon, fd, OUT_EVENTS, CCL_MON_OUT, peer->port->id, peer->rank)) {
        rc = cclSystemError;
    }
    if (rc != cclSuccess) {
        close(fd);
        if (rc == cclInProgress) {
            ccl_mon_retry_later(mon);
        }
        return rc;
    }
    peer->out_fd = fd;
    return cclSuccess;
}

static ssize_t send_item(int fd, struct ccl_mon_item *item)
{
    struct ccl_mon_packet head = {
        .magic = CCL_MON_PACKET_MAGIC, .kind = CCL_MON_MESSAGE, .bytes = item->bytes, .has_fd = item->fd >= 0};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov[2] = {{&head, sizeof(head)}, {item->msg, item->bytes}};
    struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};
    if (item->fd >= 0) {
        memset(&control, 0, sizeof(control));
        mh.msg_control = control.bytes;
        mh.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &item->fd, sizeof(int));
    }
    return sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void arm(struct ccl_mon_peer *peer, bool on)
{
    if (peer->out_armed != on) {
        ccl_mon_rewatch(peer->port->mon, peer->out_fd, OUT_EVENTS | (on ? (uint32_t)EPOLLOUT : 0), CCL_MON_OUT,
                        peer->port->id, peer->rank);
        peer->out_armed = on;
    }
}

void ccl_mon_out_flush(struct ccl_mon_peer *peer)
{
    while (peer->unsent.head != NULL) {
        if (send_item(peer->out_fd, peer->unsent.head) >= 0) {
            ccl_mon_item_destroy(ccl_mon_queue_pop(&peer->unsent));
        } else if (errno == EAGAIN) {
            arm(peer, true);
            return;
        } else if (errno == ENOMEM || errno == ENOBUFS || errno == ETOOMANYREFS) {
            /* No event tells when there is room again (ETOOMANYREFS: too many descriptors of this user are under way).
             */
            arm(peer, false);
            ccl_mon_retry_later(peer->port->mon);
            return;
        } else if (errno != EINTR) {
            ccl_mon_out_lost(peer);
            return;
        }
    }
    arm(peer, false);
}

void ccl_mon_out_ready(struct ccl_mon_peer *peer, uint32_t events)
{
    if (peer->out_fd < 0) {
        return;
    }
    if ((events & ~(uint32_t)EPOLLOUT) != 0 && (!read_goodbye(peer) || peer->gone)) {
        ccl_mon_out_lost(peer);
    } else if ((events & EPOLLOUT) != 0) {
        ccl_mon_out_flush(peer);
    }
}

void ccl_mon_out_close(struct ccl_mon_peer *peer)
{
    ccl_mon_close(peer->port->mon, &peer->out_fd);
    peer->out_armed = false;
    peer->gone = true;
    ccl_mon_queue_clear(&peer->unsent);
}

void ccl_mon_out_retry(struct ccl_monitor_port *port)
{
    for (int i = 0; i < port->size; i++) {
        struct ccl_mon_peer *peer = &port->peers[i];
        bool wanted = peer->unsent.head != NULL || (peer->eof_watch && peer->out_fd < 0);
        if (peer->local || peer->gone || !wanted) {
            continue;
        }
        cclResult_t rc = ccl_mon_out_open(peer);
        if (rc == cclSuccess) {
            ccl_mon_out_flush(peer);
        } else if (rc == cclSystemError) {
            ccl_mon_retry_later(port->mon);
        } else if (rc == cclRemoteError) {
            ccl_mon_out_lost(peer);
        }
    }
}
