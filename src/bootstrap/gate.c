/* SPDX-License-Identifier: MIT
 *
 * One epoll set holds the listener and all pending clients, so that the owner has a single descriptor to poll and a
 * crowd of idle clients costs nothing. Pending clients form a list in order of arrival, which is also the order of
 * their deadlines. */
#include "bootstrap/gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bootstrap/fds.h"
#include "bootstrap/net.h"
#include "util/log.h"

#define BATCH 64
#define NO_FDS_PAUSE_NS 20000000u

struct client {
    struct client *prev, *next;
    int fd;
    uint64_t deadline_ns;
    struct ccl_wire_hello hello;
    struct ccl_wire_claim claim;
    size_t done; /* bytes of claim */
};

struct ccl_gate {
    int listen_fd, epoll_fd;
    enum ccl_wire_purpose purpose;
    uint8_t secret[CCL_SECRET_BYTES];
    uint64_t claim_ns;
    uint64_t rearm_ns;  /* nonzero: out of descriptors, the listener is not watched until then */
    struct client head; /* of the ring: next is the oldest */
    int pending;
};

static void describe(int fd, char *text, size_t bytes)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    char name[INET6_ADDRSTRLEN] = "?";
    struct ucred cred;
    socklen_t cred_len = sizeof(cred);
    memset(&addr, 0, sizeof(addr));
    if (getpeername(fd, (struct sockaddr *)&addr, &len) != 0) {
        snprintf(text, bytes, "a client that is gone");
    } else if (addr.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&addr;
        inet_ntop(AF_INET, &in->sin_addr, name, sizeof(name));
        snprintf(text, bytes, "client %s port %d", name, ntohs(in->sin_port));
    } else if (addr.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&addr;
        inet_ntop(AF_INET6, &in6->sin6_addr, name, sizeof(name));
        snprintf(text, bytes, "client %s port %d", name, ntohs(in6->sin6_port));
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0) {
        snprintf(text, bytes, "client process %d user %u", (int)cred.pid, (unsigned)cred.uid);
    } else {
        snprintf(text, bytes, "a client");
    }
}

static void client_remove(struct ccl_gate *gate, struct client *c)
{
    c->prev->next = c->next;
    c->next->prev = c->prev;
    gate->pending--;
    /* The descriptor may live on, with the owner of the gate or as the copy of a fork. */
    epoll_ctl(gate->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
}

static void client_drop(struct ccl_gate *gate, struct client *c)
{
    client_remove(gate, c);
    ccl_fds_close(c->fd);
    free(c);
}

static void reject(struct ccl_gate *gate, struct client *c, const char *why)
{
    char who[96];
    describe(c->fd, who, sizeof(who));
    CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "%s dropped at the bootstrap socket: %s after %zu of %zu bytes", who, why, c->done,
            sizeof(c->claim));
    client_drop(gate, c);
}

static void client_add(struct ccl_gate *gate, int fd)
{
    pid_t pid;
    int one = 1;
    struct client *c = calloc(1, sizeof(*c));
    if (c == NULL || ccl_net_random(c->hello.nonce, sizeof(c->hello.nonce)) != cclSuccess) {
        ccl_fds_close(fd);
        free(c);
        return;
    }
    c->fd = fd;
    c->deadline_ns = ccl_net_deadline(gate->claim_ns);
    c->next = &gate->head;
    c->prev = gate->head.prev;
    c->prev->next = c->next->prev = c;
    gate->pending++;
    c->hello.magic = CCL_WIRE_MAGIC;
    c->hello.wire = CCL_WIRE_VERSION;
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    if (gate->purpose == CCL_WIRE_STAR && !ccl_net_peer_ok(fd, &pid)) {
        reject(gate, c, "another user");
        return;
    }
    if (gate->purpose == CCL_WIRE_RENDEZVOUS) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    /* A fresh socket has room for the few bytes of the greeting. */
    if (send(fd, &c->hello, sizeof(c->hello), MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(c->hello) ||
        epoll_ctl(gate->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
        reject(gate, c, "it takes no greeting");
    }
}

static void watch_listener(struct ccl_gate *gate, bool on)
{
    struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.ptr = NULL};
    epoll_ctl(gate->epoll_fd, EPOLL_CTL_MOD, gate->listen_fd, &ev);
    gate->rearm_ns = on ? 0 : ccl_net_deadline(NO_FDS_PAUSE_NS);
}

static void accept_clients(struct ccl_gate *gate)
{
    for (int i = 0; i < BATCH; i++) {
        int fd = ccl_fds_accept(gate->listen_fd);
        if (fd >= 0) {
            if (gate->pending >= CCL_GATE_MAX_PENDING) {
                reject(gate, gate->head.next, "too many clients");
            }
            client_add(gate, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            if (gate->pending > 0) {
                reject(gate, gate->head.next, "out of descriptors");
            } else {
                watch_listener(gate, false);
                return;
            }
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

static void client_read(struct ccl_gate *gate, struct client *c, ccl_gate_admit_fn *admit, void *ctx)
{
    uint8_t mac[CCL_MAC_BYTES];
    int err = ccl_net_read(c->fd, &c->claim, sizeof(c->claim), &c->done, 0);
    if (err == ETIMEDOUT) {
        return; /* more to come */
    }
    if (err != 0) {
        reject(gate, c, err == ECONNRESET ? "it left" : strerror(err));
        return;
    }
    ccl_net_claim_mac(gate->secret, gate->purpose, c->hello.nonce, &c->claim, mac);
    if (!ccl_mac_equal(mac, c->claim.mac)) {
        reject(gate, c, "it does not know the secret");
        return;
    }
    client_remove(gate, c);
    if (!admit(ctx, c->fd, &c->claim, c->hello.nonce)) {
        ccl_fds_close(c->fd);
    }
    free(c);
}

void ccl_gate_service(struct ccl_gate *gate, ccl_gate_admit_fn *admit, void *ctx)
{
    struct epoll_event events[BATCH];
    bool incoming = false;
    int n = epoll_wait(gate->epoll_fd, events, BATCH, 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == NULL) {
            incoming = true;
        } else {
            client_read(gate, events[i].data.ptr, admit, ctx);
        }
    }
    /* Only now: dropping a client while its event waits in the batch would leave a dangling pointer there. */
    uint64_t now = ccl_now_ns();
    while (gate->pending > 0 && gate->head.next->deadline_ns <= now) {
        reject(gate, gate->head.next, "too slow");
    }
    if (gate->rearm_ns != 0 && gate->rearm_ns <= now) {
        watch_listener(gate, true);
    }
    if (incoming) {
        accept_clients(gate);
    }
}

uint64_t ccl_gate_deadline(const struct ccl_gate *gate)
{
    uint64_t deadline = gate->pending > 0 ? gate->head.next->deadline_ns : UINT64_MAX;
    return gate->rearm_ns != 0 && gate->rearm_ns < deadline ? gate->rearm_ns : deadline;
}

int ccl_gate_fd(const struct ccl_gate *gate)
{
    return gate->epoll_fd;
}

cclResult_t ccl_gate_create(int listen_fd, const uint8_t secret[CCL_SECRET_BYTES], enum ccl_wire_purpose purpose,
                            uint64_t claim_ns, struct ccl_gate **out)
{
    struct ccl_gate *gate = calloc(1, sizeof(*gate));
    if (gate == NULL) {
        ccl_fds_close(listen_fd);
        return ccl_error_set(cclSystemError, CCL_BOOT, "out of memory for a bootstrap socket");
    }
    gate->listen_fd = listen_fd;
    gate->purpose = purpose;
    gate->claim_ns = claim_ns;
    gate->head.next = gate->head.prev = &gate->head;
    memcpy(gate->secret, secret, sizeof(gate->secret));
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
    gate->epoll_fd = ccl_fds_epoll();
    if (gate->epoll_fd < 0 || epoll_ctl(gate->epoll_fd, EPOLL_CTL_ADD, listen_fd, &ev) != 0) {
        cclResult_t rc = ccl_error_set(cclSystemError, CCL_BOOT, "epoll for a bootstrap socket: %s", strerror(errno));
        ccl_gate_destroy(gate);
        return rc;
    }
    *out = gate;
    return cclSuccess;
}

cclResult_t ccl_gate_open_star(const uint8_t token[16], const uint8_t secret[CCL_SECRET_BYTES], struct ccl_gate **out)
{
    int fd = -1;
    CCL_TRY(ccl_net_listen(token, &fd));
    return ccl_gate_create(fd, secret, CCL_WIRE_STAR, CCL_GATE_CLAIM_NS, out);
}

void ccl_gate_destroy(struct ccl_gate *gate)
{
    if (gate == NULL) {
        return;
    }
    while (gate->pending > 0) {
        client_drop(gate, gate->head.next);
    }
    ccl_fds_close(gate->listen_fd);
    ccl_fds_close(gate->epoll_fd);
    free(gate);
}
