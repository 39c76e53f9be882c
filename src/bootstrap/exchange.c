/* SPDX-License-Identifier: MIT
 *
 * What both sides of an exchange share, and the side of the ranks other than 0. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include "bootstrap/boot.h"
#include "bootstrap/fds.h"
#include "bootstrap/net.h"
#include "bootstrap/ops.h"
#include "bootstrap/scm.h"
#include "util/log.h"

const char *ccl_op_name(unsigned op)
{
    static const char *const names[CCL_NUM_OPS] = {
        [CCL_OP_CONNECT] = "init",   [CCL_OP_BARRIER] = "barrier",         [CCL_OP_ALLGATHER] = "allgather",
        [CCL_OP_AGREE] = "agreeing", [CCL_OP_FDS] = "passing descriptors", [CCL_OP_FDS_DONE] = "passing descriptors"};
    return op > 0 && op < CCL_NUM_OPS ? names[op] : "an unknown exchange";
}

struct ccl_wire_frame ccl_boot_frame(const struct ccl_bootstrap *boot, enum ccl_wire_type type, enum ccl_wire_op op)
{
    return (struct ccl_wire_frame){
        .magic = CCL_WIRE_MAGIC, .type = (uint16_t)type, .op = (uint16_t)op, .seq = boot->seq, .rank = boot->rank};
}

cclResult_t ccl_boot_usable(const struct ccl_bootstrap *boot)
{
    CCL_CHECK(boot != NULL, cclInvalidArgument, CCL_BOOT, "the bootstrap object is NULL");
    CCL_CHECK(boot->generation == ccl_fds_generation(), cclInvalidUsage, CCL_BOOT,
              "rank %d of %d was created before this process was forked", boot->rank, boot->size);
    CCL_CHECK(boot->broken == cclSuccess, boot->broken, CCL_BOOT, "not usable since an earlier failure: %s",
              boot->broken_text);
    return cclSuccess;
}

cclResult_t ccl_boot_break(struct ccl_bootstrap *boot, cclResult_t code, int rank, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(boot->broken_text, sizeof(boot->broken_text), fmt, ap);
    va_end(ap);
    boot->broken = code;
    struct ccl_wire_frame head = ccl_boot_frame(boot, CCL_WIRE_ERROR, CCL_OP_BARRIER);
    head.code = code;
    head.rank = rank;
    head.bytes = (uint32_t)strlen(boot->broken_text);
    struct iovec iov[2] = {{.iov_base = &head, .iov_len = sizeof(head)},
                           {.iov_base = boot->broken_text, .iov_len = head.bytes}};
    for (int r = 1; boot->rank == 0 && r < boot->size; r++) {
        /* One that cannot take it sees the connection end. */
        if (boot->peers[r].fd >= 0 && !boot->peers[r].gone) {
            ccl_scm_send(boot->peers[r].fd, iov, 2, NULL, 0);
        }
    }
    if (boot->rank != 0) {
        shutdown(boot->root_fd, SHUT_RDWR); /* rank 0 shall see that this rank takes part no more */
    }
    return ccl_error_set(code, CCL_BOOT, "%s", boot->broken_text);
}

cclResult_t ccl_boot_put(struct ccl_bootstrap *boot, const struct ccl_exchange *x, cclResult_t code,
                         const void *payload, const int *fds, int num_fds)
{
    const char *text = code != cclSuccess ? ccl_error_last() : "";
    struct ccl_wire_frame head = ccl_boot_frame(boot, x->put_type, x->op);
    head.code = code;
    head.size = (uint32_t)x->bytes;
    head.bytes = (uint32_t)(code != cclSuccess ? ccl_min_size(strlen(text), CCL_WIRE_TEXT - 1) : x->bytes);
    head.nfds = (uint32_t)num_fds;
    size_t total = sizeof(head) + head.bytes;
    for (size_t done = 0; done < total;) {
        size_t in_head = done < sizeof(head) ? done : sizeof(head);
        const char *body = code != cclSuccess ? text : payload;
        struct iovec iov[2] = {{.iov_base = (char *)&head + in_head, .iov_len = sizeof(head) - in_head},
                               {.iov_base = body != NULL ? (char *)body + (done - in_head) : NULL,
                                .iov_len = total - done - (sizeof(head) - in_head)}};
        ssize_t n = ccl_scm_send(boot->root_fd, iov, 2, fds, done == 0 ? num_fds : 0);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == ETOOMANYREFS && ccl_now_ns() < x->deadline_ns) {
            poll(NULL, 0, 1); /* the user has too many descriptors on the way; nothing tells when there are fewer */
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!ccl_net_wait(boot->root_fd, POLLIN | POLLOUT, x->deadline_ns)) {
                return ccl_boot_break(boot, cclSystemError, 0,
                                      "rank 0 of %d did not come to %s before the deadline of rank %d", boot->size,
                                      ccl_op_name(x->op), boot->rank);
            }
            struct pollfd early = {.fd = boot->root_fd, .events = POLLIN};
            if (poll(&early, 1, 0) > 0) {
                return cclSuccess; /* rank 0 speaks before it has all: an error, or its end, which await finds */
            }
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return cclSuccess; /* the same */
        } else if (errno != EINTR) {
            return ccl_boot_break(boot, cclSystemError, boot->rank, "rank %d of %d: send to rank 0 in %s: %s",
                                  boot->rank, boot->size, ccl_op_name(x->op), strerror(errno));
        }
    }
    return cclSuccess;
}

cclResult_t ccl_boot_lost_root(struct ccl_bootstrap *boot, const struct ccl_exchange *x, int err)
{
    if (err == ETIMEDOUT) {
        return ccl_boot_break(boot, cclSystemError, 0,
                              "rank 0 of %d did not answer in %s before the deadline of rank %d", boot->size,
                              ccl_op_name(x->op), boot->rank);
    }
    return ccl_boot_break(boot, cclRemoteError, 0, "rank 0 of %d is gone in %s (%s)", boot->size, ccl_op_name(x->op),
                          strerror(err));
}

cclResult_t ccl_boot_await_head(struct ccl_bootstrap *boot, const struct ccl_exchange *x, struct ccl_wire_frame *head,
                                size_t done)
{
    int err = done == sizeof(*head) ? 0 : ccl_net_read(boot->root_fd, head, sizeof(*head), &done, x->deadline_ns);
    if (err == ETIMEDOUT) {
        /* Rank 0 knows who is missing, so let it tell all. */
        struct ccl_wire_frame note = ccl_boot_frame(boot, CCL_WIRE_TIMEOUT, x->op);
        struct iovec iov = {.iov_base = &note, .iov_len = sizeof(note)};
        ccl_scm_send(boot->root_fd, &iov, 1, NULL, 0);
        err = ccl_net_read(boot->root_fd, head, sizeof(*head), &done, ccl_net_add(x->deadline_ns, CCL_NET_GRACE_NS));
    }
    if (err != 0) {
        return ccl_boot_lost_root(boot, x, err);
    }
    if (head->magic != CCL_WIRE_MAGIC || (head->code != 0 && head->bytes >= CCL_WIRE_TEXT)) {
        return ccl_boot_break(boot, cclInternalError, 0, "rank 0 sent a frame with magic %08x code %d bytes %u in %s",
                              head->magic, head->code, head->bytes, ccl_op_name(x->op));
    }
    return cclSuccess;
}

cclResult_t ccl_boot_take_error(struct ccl_bootstrap *boot, const struct ccl_exchange *x,
                                const struct ccl_wire_frame *head)
{
    char text[CCL_WIRE_TEXT] = "";
    size_t done = 0;
    bool known = head->code > 0 && head->code < cclNumResults;
    int err = ccl_net_read(boot->root_fd, text, ccl_min_size(head->bytes, sizeof(text) - 1), &done,
                           ccl_net_add(x->deadline_ns, CCL_NET_GRACE_NS));
    if (err != 0) {
        return ccl_boot_lost_root(boot, x, err);
    }
    return ccl_boot_break(boot, known ? (cclResult_t)head->code : cclInternalError, head->rank, "%s", text);
}

cclResult_t ccl_boot_await(struct ccl_bootstrap *boot, const struct ccl_exchange *x, struct ccl_wire_frame *head,
                           void *payload, size_t bytes, char *text)
{
    char local[CCL_WIRE_TEXT] = "";
    size_t done = 0;
    text = text != NULL ? text : local;
    CCL_TRY(ccl_boot_await_head(boot, x, head, 0));
    bool failed = head->code != cclSuccess;
    if (head->type != CCL_WIRE_ERROR && (head->type != CCL_WIRE_RESULT || head->op != x->op || head->seq != boot->seq ||
                                         (!failed && head->bytes != bytes))) {
        return ccl_boot_break(
            boot, cclInternalError, 0,
            "rank 0 sent frame %u of %s (exchange %u, %u bytes), rank %d waits in %s (exchange %u, %zu bytes)",
            head->type, ccl_op_name(head->op), head->seq, head->bytes, boot->rank, ccl_op_name(x->op), boot->seq,
            bytes);
    }
    if (head->type == CCL_WIRE_ERROR) {
        return ccl_boot_take_error(boot, x, head);
    }
    int err = ccl_net_read(boot->root_fd, failed ? text : payload, head->bytes, &done,
                           ccl_net_add(x->deadline_ns, CCL_NET_GRACE_NS));
    if (err != 0) {
        return ccl_boot_lost_root(boot, x, err);
    }
    if (failed) {
        text[head->bytes] = '\0';
    }
    return cclSuccess;
}
