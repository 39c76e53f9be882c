/* SPDX-License-Identifier: MIT
 *
 * Rank 0's side of an exchange: many non-blocking connections and one poll, so that no rank waits for another's full
 * buffer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bootstrap/boot.h"
#include "bootstrap/net.h"
#include "bootstrap/ops.h"
#include "bootstrap/scm.h"
#include "util/log.h"

void ccl_boot_gather_begin(struct ccl_bootstrap *boot)
{
    for (int r = 1; r < boot->size; r++) {
        struct ccl_peer *p = &boot->peers[r];
        p->put = p->fds_lost = false;
        p->code = cclSuccess;
        p->num_fds = 0;
    }
}

static cclResult_t break_gone(struct ccl_bootstrap *boot, const struct ccl_exchange *x, int r)
{
    boot->peers[r].gone = true;
    return ccl_boot_break(boot, cclRemoteError, r, "rank %d of %d is gone in %s", r, boot->size, ccl_op_name(x->op));
}

static cclResult_t break_missing(struct ccl_bootstrap *boot, const struct ccl_exchange *x)
{
    char list[CCL_WIRE_TEXT - 128] = "some ranks";
    int missing = 0;
    bool *in = calloc((size_t)boot->size, sizeof(*in));
    for (int r = 1; r < boot->size && in != NULL; r++) {
        in[r] = !boot->peers[r].put;
        missing += in[r];
    }
    if (missing > 0) {
        ccl_net_rank_list(list, sizeof(list), in, boot->size);
    }
    free(in);
    return ccl_boot_break(boot, cclSystemError, x->impatient,
                          "%s of %d did not come to %s before the deadline of rank %d", list, boot->size,
                          ccl_op_name(x->op), x->impatient);
}

/* The header of peer r is complete. False: not what belongs here, the object is broken. */
static bool check_header(struct ccl_bootstrap *boot, const struct ccl_exchange *x, int r)
{
    const struct ccl_wire_frame *f = &boot->peers[r].rx;
    if (f->magic == CCL_WIRE_MAGIC && f->type == CCL_WIRE_TIMEOUT && f->bytes == 0) {
        return true;
    }
    if (f->magic != CCL_WIRE_MAGIC || f->nfds > (uint32_t)x->max_fds || boot->peers[r].put) {
        ccl_boot_break(boot, cclInternalError, r,
                       "rank %d sent a frame with magic %08x type %u and %u descriptors in %s", r, f->magic, f->type,
                       f->nfds, ccl_op_name(x->op));
        return false;
    }
    if (f->type != x->put_type || f->op != x->op || f->seq != boot->seq ||
        (f->code == 0 ? f->bytes != x->bytes : f->bytes >= CCL_WIRE_TEXT)) {
        ccl_boot_break(boot, cclInvalidUsage, r,
                       "rank %d is in %s of %u bytes (exchange %u), rank 0 in %s of %zu bytes (exchange %u)", r,
                       ccl_op_name(f->op), f->bytes, f->seq, ccl_op_name(x->op), x->bytes, boot->seq);
        return false;
    }
    return true;
}

static bool finish_frame(struct ccl_bootstrap *boot, struct ccl_exchange *x, int r)
{
    struct ccl_peer *p = &boot->peers[r];
    p->rx_done = 0;
    if (p->rx.type == CCL_WIRE_TIMEOUT) {
        /* One sent when the result was on its way already belongs to an earlier exchange. */
        if (p->rx.seq == boot->seq && x->impatient == 0) {
            x->impatient = r;
        }
        return true;
    }
    p->put = true;
    p->code = p->rx.code;
    if (p->code != cclSuccess) {
        p->text[p->rx.bytes] = '\0';
        if (x->op != CCL_OP_AGREE) {
            cclResult_t code = p->code > 0 && p->code < cclNumResults ? (cclResult_t)p->code : cclInternalError;
            ccl_boot_break(boot, code, r, "rank %d: %s", r, p->text);
            return false;
        }
    }
    if (p->fds_lost || p->num_fds != (int)p->rx.nfds) {
        ccl_boot_break(boot, cclSystemError, 0, "rank 0 is out of descriptors: %d of the %u of rank %d came",
                       p->num_fds, p->rx.nfds, r);
        return false;
    }
    return true;
}

bool ccl_boot_peer_read(struct ccl_bootstrap *boot, struct ccl_exchange *x, int r)
{
    struct ccl_peer *p = &boot->peers[r];
    const size_t head = sizeof(p->rx);
    for (;;) {
        uint8_t *to = (uint8_t *)&p->rx + p->rx_done;
        size_t want = head - p->rx_done;
        if (p->rx_done >= head) {
            uint8_t *payload = p->rx.code != 0 ? (uint8_t *)p->text : x->data + (size_t)r * x->bytes;
            to = payload + (p->rx_done - head);
            want = head + p->rx.bytes - p->rx_done;
        }
        struct ccl_scm scm = {.fds = p->fds, .num = p->num_fds, .max = x->max_fds, .lost = p->fds_lost};
        ssize_t n = x->max_fds > 0 ? ccl_scm_recv(p->fd, to, want, &scm) : recv(p->fd, to, want, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return true;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break_gone(boot, x, r);
            return false;
        }
        p->num_fds = scm.num;
        p->fds_lost = scm.lost;
        p->rx_done += (size_t)n;
        if (p->rx_done == head && !check_header(boot, x, r)) {
            return false;
        }
        if (p->rx_done >= head && p->rx_done == head + p->rx.bytes && !finish_frame(boot, x, r)) {
            return false;
        }
    }
}

cclResult_t ccl_boot_gather(struct ccl_bootstrap *boot, struct ccl_exchange *x)
{
    ccl_boot_gather_begin(boot);
    for (;;) {
        int waiting = 0;
        uint64_t wake_ns = x->deadline_ns;
        for (int r = 1; r < boot->size; r++) {
            const struct ccl_peer *p = &boot->peers[r];
            if (p->gone) {
                return break_gone(boot, x, r);
            }
            boot->polls[r] = (struct pollfd){.fd = p->fd, .events = POLLIN};
            waiting += !p->put;
        }
        if (waiting == 0) {
            return cclSuccess;
        }
        if (x->impatient != 0 || ccl_net_expired(x->deadline_ns)) {
            return break_missing(boot, x);
        }
        boot->polls[0] = (struct pollfd){.fd = -1};
        if (x->gate != NULL) {
            uint64_t gate_ns = ccl_gate_deadline(x->gate);
            wake_ns = gate_ns < wake_ns ? gate_ns : wake_ns;
            boot->polls[0] = (struct pollfd){.fd = ccl_gate_fd(x->gate), .events = POLLIN};
        }
        if (poll(boot->polls, (nfds_t)boot->size, ccl_net_poll_ms(wake_ns)) < 0) {
            if (errno != EINTR) {
                return ccl_boot_break(boot, cclSystemError, 0, "rank 0: poll of %d connections in %s: %s", boot->size,
                                      ccl_op_name(x->op), strerror(errno));
            }
            continue;
        }
        for (int r = 1; r < boot->size; r++) {
            if (boot->polls[r].revents != 0 && !ccl_boot_peer_read(boot, x, r)) {
                return boot->broken;
            }
        }
        if (x->gate != NULL) {
            ccl_star_admit(boot, x);
        }
    }
}

/* Send what the socket takes. True: all of it is sent, or the peer is gone. */
static bool send_some(struct ccl_peer *p, const struct ccl_wire_frame *head, const void *payload)
{
    size_t total = sizeof(*head) + head->bytes;
    while (p->tx_done < total) {
        size_t in_head = p->tx_done < sizeof(*head) ? p->tx_done : sizeof(*head);
        struct iovec iov[2] = {{.iov_base = (char *)head + in_head, .iov_len = sizeof(*head) - in_head},
                               {.iov_base = head->bytes > 0 ? (char *)payload + (p->tx_done - in_head) : NULL,
                                .iov_len = total - p->tx_done - (sizeof(*head) - in_head)}};
        ssize_t n = ccl_scm_send(p->fd, iov, 2, NULL, 0);
        if (n >= 0) {
            p->tx_done += (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return false;
        } else if (errno != EINTR) {
            p->gone = true;
            return true;
        }
    }
    return true;
}

void ccl_boot_scatter(struct ccl_bootstrap *boot, const struct ccl_exchange *x, const struct ccl_wire_frame *head,
                      const void *payload)
{
    uint64_t deadline_ns = ccl_net_add(x->deadline_ns, CCL_NET_GRACE_NS);
    for (int r = 1; r < boot->size; r++) {
        boot->peers[r].tx_done = 0;
    }
    for (;;) {
        int waiting = 0;
        boot->polls[0] = (struct pollfd){.fd = -1};
        for (int r = 1; r < boot->size; r++) {
            bool pending = !boot->peers[r].gone && !send_some(&boot->peers[r], head, payload);
            boot->polls[r] = (struct pollfd){.fd = pending ? boot->peers[r].fd : -1, .events = POLLOUT};
            waiting += pending;
        }
        if (waiting == 0) {
            return;
        }
        bool late = ccl_net_expired(deadline_ns);
        for (int r = 1; r < boot->size && late; r++) {
            if (boot->polls[r].fd >= 0) {
                CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "rank %d of %d does not read the result of %s", r, boot->size,
                        ccl_op_name(x->op));
                boot->peers[r].gone = true;
            }
        }
        if (late) {
            return;
        }
        poll(boot->polls, (nfds_t)boot->size, ccl_net_poll_ms(deadline_ns));
    }
}
