/* SPDX-License-Identifier: MIT
 *
 * Incoming side of the monitor. One abstract listener a process; whoever connects must run as the same user and say in
 * the first packet which port it wants, that port's token and its own rank. Anything else is logged and closed and
 * costs the others nothing. */
#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bootstrap/monitor_internal.h"

/* The system cuts it to net.core.somaxconn. */
#define BACKLOG 4096
#define ACCEPTS_A_ROUND 64
#define HELLO_NS 5000000000u
#define MAX_PENDING 256

cclResult_t ccl_mon_listen(struct ccl_monitor *mon)
{
    struct sockaddr_un addr;
    socklen_t len = ccl_mon_address(mon->name, &addr);
    mon->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (mon->listen_fd < 0 || bind(mon->listen_fd, (const struct sockaddr *)&addr, len) != 0 ||
        listen(mon->listen_fd, BACKLOG) != 0) {
        return ccl_error_set(cclSystemError, CCL_BOOT, "monitor listener: %s", strerror(errno));
    }
    if (!ccl_mon_watch(mon, mon->listen_fd, EPOLLIN, CCL_MON_LISTEN, 0, 0)) {
        return cclSystemError;
    }
    return cclSuccess;
}

static void say_goodbye(int fd)
{
    struct ccl_mon_packet head = {.magic = CCL_MON_PACKET_MAGIC, .kind = CCL_MON_GOODBYE};
    /* Nothing else is ever sent this way, so there is room; a peer that is gone needs no goodbye. */
    ssize_t ignored = send(fd, &head, sizeof(head), MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)ignored;
}

static bool token_equal(const uint8_t *a, const uint8_t *b)
{
    uint8_t diff = 0;
    for (int i = 0; i < CCL_MON_TOKEN_BYTES; i++) {
        diff |= a[i] ^ b[i];
    }
    return diff == 0;
}

/* The peer that the first packet belongs to; NULL: nobody, logged. */
static struct ccl_mon_peer *find_sender(struct ccl_monitor *mon, int fd, const struct ccl_mon_hello *hello,
                                        ssize_t bytes)
{
    unsigned long long id = hello->port_id;
    if (bytes != (ssize_t)sizeof(*hello) || hello->magic != CCL_MON_HELLO_MAGIC) {
        CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "monitor dropped a connection whose first packet has %zd bytes and is no hello",
                bytes);
        return NULL;
    }
    struct ccl_monitor_port *port = ccl_mon_port_find(mon, hello->port_id);
    if (port == NULL) {
        CCL_LOG(CCL_LOG_DEBUG, CCL_BOOT, "monitor has no port %llu for rank %u any more", id, hello->rank);
        say_goodbye(fd);
        return NULL;
    }
    if (!token_equal(hello->token, port->token)) {
        CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "monitor dropped a connection to port %llu: rank %u, wrong token", id,
                hello->rank);
        return NULL;
    }
    if (hello->rank >= (uint32_t)port->size || port->peers[hello->rank].accepted) {
        CCL_LOG(CCL_LOG_WARN, CCL_BOOT,
                "monitor dropped a connection to port %llu: rank %u of %d is unknown or connected before", id,
                hello->rank, port->size);
        return NULL;
    }
    return &port->peers[hello->rank];
}

/* Read the first packet. False: it has not come yet; else fd belongs to its peer now or is closed. watched: epoll knows
 * it. */
static bool take_hello(struct ccl_monitor *mon, int fd, bool watched)
{
    struct ccl_mon_hello hello = {0};
    ssize_t n = recv(fd, &hello, sizeof(hello), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    struct ccl_mon_peer *peer = find_sender(mon, fd, &hello, n);
    bool kept = peer != NULL && (watched || ccl_mon_watch(mon, fd, EPOLLIN, CCL_MON_IN, peer->port->id, peer->rank));
    if (!kept) {
        ccl_mon_close(mon, &fd);
        return true;
    }
    if (watched) {
        ccl_mon_rewatch(mon, fd, EPOLLIN, CCL_MON_IN, peer->port->id, peer->rank);
    }
    peer->accepted = true;
    peer->in_fd = fd;
    return true;
}

static void pending_drop(struct ccl_monitor *mon, struct ccl_mon_pending **link, bool close_it)
{
    struct ccl_mon_pending *pending = *link;
    *link = pending->next;
    if (close_it) {
        ccl_mon_close(mon, &pending->fd);
    }
    free(pending);
}

static void pending_add(struct ccl_monitor *mon, int fd)
{
    struct ccl_mon_pending *pending = malloc(sizeof(*pending));
    struct ccl_mon_pending **link = &mon->pending;
    int count = 0;
    if (pending == NULL) {
        close(fd);
        return;
    }
    *pending = (struct ccl_mon_pending){.id = ++mon->last_id, .fd = fd, .deadline_ns = ccl_now_ns() + HELLO_NS};
    if (!ccl_mon_watch(mon, fd, EPOLLIN, CCL_MON_PENDING, pending->id, 0)) {
        close(fd);
        free(pending);
        return;
    }
    for (; *link != NULL; link = &(*link)->next) {
        count++;
    }
    *link = pending;
    if (count >= MAX_PENDING) {
        CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "monitor dropped the oldest of %d connections that say nothing", count + 1);
        pending_drop(mon, &mon->pending, true);
    }
}

void ccl_mon_accept(struct ccl_monitor *mon)
{
    for (struct ccl_mon_pending **link = &mon->pending; *link != NULL;) {
        if (take_hello(mon, (*link)->fd, true)) {
            pending_drop(mon, link, false);
        } else {
            link = &(*link)->next;
        }
    }
    for (int i = 0; i < ACCEPTS_A_ROUND; i++) {
        int fd = accept4(mon->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) {
            continue;
        }
        if (fd < 0) {
            if (errno != EAGAIN && errno != EINVAL && !mon->accept_paused) {
                CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "monitor accept: %s, trying again", strerror(errno));
                ccl_mon_rewatch(mon, mon->listen_fd, 0, CCL_MON_LISTEN, 0, 0);
                mon->accept_paused = true;
                ccl_mon_retry_later(mon);
            }
            return;
        }
        if (!ccl_mon_same_user(fd)) {
            CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "monitor dropped a connection of another user");
            close(fd);
        } else if (!take_hello(mon, fd, false)) {
            pending_add(mon, fd);
        }
    }
}

void ccl_mon_unlisten(struct ccl_monitor *mon)
{
    if (mon->listen_fd < 0) {
        return;
    }
    /* From here on connect() is refused, but what is in the backlog can still be accepted and answered. */
    shutdown(mon->listen_fd, SHUT_RDWR);
    int fd;
    while ((fd = accept4(mon->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        say_goodbye(fd);
        close(fd);
    }
    close(mon->listen_fd);
    mon->listen_fd = -1;
    while (mon->pending != NULL) {
        say_goodbye(mon->pending->fd);
        pending_drop(mon, &mon->pending, true);
    }
}

void ccl_mon_pending_expire(struct ccl_monitor *mon, uint64_t now_ns)
{
    while (mon->pending != NULL && mon->pending->deadline_ns <= now_ns) {
        CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "monitor dropped a connection that said nothing for %u s",
                (unsigned)(HELLO_NS / 1000000000u));
        pending_drop(mon, &mon->pending, true);
    }
}

/* The descriptor of a received packet, -1: none. The control buffer has room for one, the kernel closes any others. */
static int take_fd(struct msghdr *mh)
{
    int fd = -1;
    struct cmsghdr *c = CMSG_FIRSTHDR(mh);
    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    }
    return fd;
}

/* One packet into the inbox. False: nothing there for now, or the connection is closed. */
static bool read_packet(struct ccl_mon_peer *peer)
{
    struct ccl_mon_packet head;
    uint8_t msg[CCL_MONITOR_MSG_BYTES];
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov[2] = {{&head, sizeof(head)}, {msg, sizeof(msg)}};
    struct msghdr mh = {
        .msg_iov = iov, .msg_iovlen = 2, .msg_control = control.bytes, .msg_controllen = CMSG_LEN(sizeof(int))};
    ssize_t n = recvmsg(peer->in_fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) {
        return true;
    }
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n <= 0) {
        ccl_mon_in_close(peer, false);
        return false;
    }
    int fd = take_fd(&mh);
    if (n < (ssize_t)sizeof(head) || head.magic != CCL_MON_PACKET_MAGIC || head.kind != CCL_MON_MESSAGE ||
        (mh.msg_flags & MSG_TRUNC) != 0 || (size_t)n != sizeof(head) + head.bytes) {
        CCL_LOG(CCL_LOG_ERROR, CCL_BOOT,
                "monitor closed the connection of rank %d after a malformed packet of %zd bytes", peer->rank, n);
        if (fd >= 0) {
            close(fd);
        }
        ccl_mon_in_close(peer, false);
        return false;
    }
    if (head.has_fd != 0 && fd < 0) {
        /* Too many open files here. The message counts without it; its receiver sees what is missing. */
        CCL_LOG(CCL_LOG_ERROR, CCL_BOOT, "monitor lost the descriptor of a message of rank %d: out of descriptors",
                peer->rank);
    }
    struct ccl_mon_item *item = ccl_mon_item_create(peer->rank, msg, head.bytes, fd);
    if (item == NULL) {
        CCL_LOG(CCL_LOG_ERROR, CCL_BOOT, "monitor lost a message of rank %d: out of memory", peer->rank);
        if (fd >= 0) {
            close(fd);
        }
        return true;
    }
    ccl_mon_inbox_push(peer->port, item);
    return true;
}

void ccl_mon_in_read(struct ccl_mon_peer *peer, int max)
{
    for (int i = 0; i < max && peer->in_fd >= 0 && read_packet(peer); i++) {
    }
}

void ccl_mon_in_close(struct ccl_mon_peer *peer, bool goodbye)
{
    if (peer->in_fd >= 0) {
        if (goodbye) {
            say_goodbye(peer->in_fd);
        }
        ccl_mon_close(peer->port->mon, &peer->in_fd);
    }
}
