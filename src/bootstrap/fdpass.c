/* SPDX-License-Identifier: MIT
 *
 * Passing descriptors: ranks put theirs to rank 0, which sends to every rank those of all others in batches. A batch is
 * on its way until the receiver acknowledges it, and the number on their way is bounded: the kernel counts them against
 * the user's RLIMIT_NOFILE. At the end rank 0 says whether all have all, so the exchange succeeds everywhere or
 * nowhere. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bootstrap/boot.h"
#include "bootstrap/net.h"
#include "bootstrap/ops.h"
#include "bootstrap/scm.h"
#include "util/log.h"

#define MAX_BATCH 250

struct flow {
    int batch, budget; /* descriptors of one message; on their way at once */
    int in_flight;
    bool stalled; /* the kernel refused more */
};

static void flow_init(struct flow *flow)
{
    struct rlimit limit;
    rlim_t files = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 256;
    files = files > 4096 ? 4096 : files < 32 ? 32 : files;
    flow->budget = (int)files / 2;
    flow->batch = flow->budget / 2 < MAX_BATCH ? flow->budget / 2 : MAX_BATCH;
    flow->in_flight = 0;
    flow->stalled = false;
}

/* The mask has a byte a descriptor: 1 when there is one. */
static int count_mask(const uint8_t *mask, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        count += mask[i] != 0;
    }
    return count;
}

/* Rank 0's way to one receiver: all descriptors of all in rank order, without the receiver's own. */
struct cursor {
    int next; /* index into all[], from which to go on */
    int outstanding;
};

static int next_batch(const int *all, int total, int skip_from, int skip_to, const struct cursor *c, int max,
                      int *batch, int *next)
{
    int n = 0, i = c->next;
    for (; i < total && n < max; i++) {
        if (all[i] >= 0 && (i < skip_from || i >= skip_to)) {
            batch[n++] = all[i];
        }
    }
    *next = i;
    return n;
}

/* Send batches as far as the budget goes. False: the object is broken. *waiting: receivers not finished. */
static bool send_batches(struct ccl_bootstrap *boot, const struct ccl_exchange *x, struct flow *flow,
                         struct cursor *cursors, const int *all, int nfds, int *waiting)
{
    int batch[MAX_BATCH];
    *waiting = 0;
    flow->stalled = false;
    for (int r = 1; r < boot->size; r++) {
        struct cursor *c = &cursors[r];
        int next;
        int n = c->outstanding > 0
                    ? 0
                    : next_batch(all, boot->size * nfds, r * nfds, (r + 1) * nfds, c, flow->batch, batch, &next);
        if (n > 0 && !flow->stalled && (flow->in_flight == 0 || flow->in_flight + n <= flow->budget)) {
            struct ccl_wire_frame head = ccl_boot_frame(boot, CCL_WIRE_FDS, x->op);
            struct iovec iov = {.iov_base = &head, .iov_len = sizeof(head)};
            head.nfds = (uint32_t)n;
            ssize_t sent = ccl_scm_send(boot->peers[r].fd, &iov, 1, batch, n);
            if (sent == (ssize_t)sizeof(head)) {
                c->next = next;
                c->outstanding = n;
                flow->in_flight += n;
            } else if (sent < 0 && (errno == ETOOMANYREFS || errno == EAGAIN || errno == EINTR)) {
                flow->stalled = true;
            } else {
                boot->peers[r].gone = true;
                ccl_boot_break(boot, cclRemoteError, r, "rank %d of %d takes no descriptors: %s", r, boot->size,
                               sent < 0 ? strerror(errno) : "part of a header was sent");
                return false;
            }
        }
        *waiting += n > 0 || c->outstanding > 0;
    }
    return true;
}

static cclResult_t serve_batches(struct ccl_bootstrap *boot, struct ccl_exchange *x, struct cursor *cursors,
                                 const int *all, int nfds)
{
    struct flow flow;
    int waiting;
    flow_init(&flow);
    ccl_boot_gather_begin(boot);
    x->put_type = CCL_WIRE_ACK;
    x->impatient = 0; /* who was has its answer now */
    x->max_fds = 0;
    x->bytes = 0;
    for (;;) {
        if (!send_batches(boot, x, &flow, cursors, all, nfds, &waiting)) {
            return boot->broken;
        }
        if (waiting == 0) {
            return cclSuccess;
        }
        bool late = ccl_net_expired(x->deadline_ns) || x->impatient != 0;
        boot->polls[0] = (struct pollfd){.fd = -1};
        for (int r = 1; r < boot->size; r++) {
            if (late && cursors[r].outstanding > 0) {
                return ccl_boot_break(boot, cclSystemError, r,
                                      "rank %d of %d did not take its descriptors before the deadline", r, boot->size);
            }
            boot->polls[r] = (struct pollfd){.fd = boot->peers[r].fd, .events = POLLIN};
        }
        if (late) {
            return ccl_boot_break(boot, cclSystemError, 0,
                                  "rank 0 of %d could not send its descriptors before the deadline", boot->size);
        }
        /* Stalled by descriptors of others of this user: nothing tells when there are fewer. */
        int ms = ccl_net_poll_ms(x->deadline_ns);
        poll(boot->polls, (nfds_t)boot->size, flow.stalled && ms > 1 ? 1 : ms);
        for (int r = 1; r < boot->size; r++) {
            if (boot->polls[r].revents != 0 && !ccl_boot_peer_read(boot, x, r)) {
                return boot->broken;
            }
            if (boot->peers[r].put) {
                boot->peers[r].put = false;
                flow.in_flight -= cursors[r].outstanding;
                cursors[r].outstanding = 0;
            }
        }
    }
}

static cclResult_t exchange_root(struct ccl_bootstrap *boot, struct ccl_exchange *x, const int *fds, int nfds,
                                 uint8_t *mask, int *all)
{
    struct ccl_wire_frame head = ccl_boot_frame(boot, CCL_WIRE_RESULT, x->op);
    struct cursor *cursors = calloc((size_t)boot->size, sizeof(*cursors));
    if (cursors == NULL) {
        return ccl_boot_break(boot, cclSystemError, 0, "rank 0: out of memory for the descriptors of %d ranks",
                              boot->size);
    }
    x->data = mask;
    cclResult_t rc = ccl_boot_gather(boot, x);
    for (int r = 1; r < boot->size; r++) {
        struct ccl_peer *p = &boot->peers[r];
        if (rc == cclSuccess && p->num_fds != count_mask(mask + r * nfds, nfds)) {
            rc = ccl_boot_break(boot, cclInternalError, r, "rank %d announced other descriptors than it sent (%d)", r,
                                p->num_fds);
        }
        for (int i = 0, k = 0; rc == cclSuccess && i < nfds; i++) {
            all[r * nfds + i] = mask[r * nfds + i] != 0 ? p->fds[k++] : -1;
        }
        if (rc != cclSuccess) {
            ccl_scm_close(p->fds, p->num_fds);
        }
        p->num_fds = 0;
    }
    if (rc == cclSuccess) {
        memcpy(all, fds, (size_t)nfds * sizeof(*fds));
        head.bytes = (uint32_t)(boot->size * nfds);
        ccl_boot_scatter(boot, x, &head, mask);
        rc = serve_batches(boot, x, cursors, all, nfds);
    }
    for (int i = 0; i < nfds; i++) {
        all[i] = -1; /* the caller's own stay the caller's */
    }
    if (rc == cclSuccess) {
        head = ccl_boot_frame(boot, CCL_WIRE_RESULT, CCL_OP_FDS_DONE);
        ccl_boot_scatter(boot, x, &head, NULL);
    }
    free(cursors);
    return rc;
}

/* Take one batch; the header and the descriptors come together. */
static cclResult_t take_batch(struct ccl_bootstrap *boot, struct ccl_exchange *x, struct ccl_scm *scm)
{
    struct ccl_wire_frame head;
    ssize_t n;
    int before = scm->num;
    do {
        ccl_net_wait(boot->root_fd, POLLIN, x->deadline_ns);
        n = ccl_scm_recv(boot->root_fd, &head, sizeof(head), scm);
    } while (n < 0 && errno == EINTR);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        return ccl_boot_lost_root(boot, x, n == 0 ? ECONNRESET : errno);
    }
    /* The deadline, the rest of a header, and errors are treated as everywhere. */
    size_t done = n > 0 ? (size_t)n : 0;
    CCL_TRY(ccl_boot_await_head(boot, x, &head, done));
    if (head.type == CCL_WIRE_ERROR) {
        return ccl_boot_take_error(boot, x, &head);
    }
    if (head.type != CCL_WIRE_FDS || head.seq != boot->seq) {
        return ccl_boot_break(boot, cclInternalError, 0,
                              "rank 0 sent frame %u of exchange %u among descriptors of exchange %u", head.type,
                              head.seq, boot->seq);
    }
    cclResult_t rc = cclSuccess;
    if (scm->lost || scm->num - before != (int)head.nfds) {
        rc = ccl_error_set(cclSystemError, CCL_BOOT, "out of descriptors: %d of %u came", scm->num - before, head.nfds);
    }
    struct ccl_exchange ack = *x;
    ack.put_type = CCL_WIRE_ACK;
    ack.bytes = 0;
    return ccl_boot_put(boot, &ack, rc, NULL, NULL, 0);
}

static cclResult_t exchange_other(struct ccl_bootstrap *boot, struct ccl_exchange *x, cclResult_t mine, const int *fds,
                                  int nfds, uint8_t *mask, int *all)
{
    struct ccl_wire_frame head;
    int own[CCL_WIRE_MAX_FDS], num_own = 0, total = boot->size * nfds;
    for (int i = 0; i < nfds; i++) {
        if (fds[i] >= 0) {
            own[num_own++] = fds[i];
        }
    }
    CCL_TRY(ccl_boot_put(boot, x, mine, mask + boot->rank * nfds, own, mine == cclSuccess ? num_own : 0));
    CCL_TRY(ccl_boot_await(boot, x, &head, mask, (size_t)total, NULL));
    memset(mask + boot->rank * nfds, 0, (size_t)nfds);
    int expected = count_mask(mask, total);
    int *received = malloc((size_t)(expected + 1) * sizeof(*received));
    if (received == NULL) {
        return ccl_boot_break(boot, cclSystemError, boot->rank, "rank %d: out of memory for %d descriptors", boot->rank,
                              expected);
    }
    struct ccl_scm scm = {.fds = received, .max = expected};
    cclResult_t rc = cclSuccess;
    while (rc == cclSuccess && scm.num < expected && !scm.lost) {
        rc = take_batch(boot, x, &scm);
    }
    if (rc == cclSuccess) {
        struct ccl_exchange done = *x;
        done.op = CCL_OP_FDS_DONE;
        rc = ccl_boot_await(boot, &done, &head, NULL, 0, NULL);
    }
    if (rc == cclSuccess) {
        for (int i = 0, k = 0; i < total; i++) {
            all[i] = mask[i] != 0 ? received[k++] : -1;
        }
    } else {
        ccl_scm_close(received, scm.num);
    }
    free(received);
    return rc;
}

static cclResult_t check_fds(const int *fds, int nfds)
{
    for (int i = 0; i < nfds; i++) {
        CCL_CHECK(fds[i] == -1 || fcntl(fds[i], F_GETFD) >= 0, cclInvalidArgument, CCL_BOOT,
                  "descriptor %d to pass is %d, which is not open", i, fds[i]);
    }
    return cclSuccess;
}

cclResult_t ccl_bootstrap_exchange_fds(struct ccl_bootstrap *boot, const int *fds, int nfds, int *out)
{
    CCL_TRY(ccl_boot_usable(boot));
    CCL_CHECK(fds != NULL && out != NULL && nfds >= 1 && nfds <= CCL_WIRE_MAX_FDS, cclInvalidArgument, CCL_BOOT,
              "%d descriptors to pass at %p into %p, 1 to %d", nfds, (const void *)fds, (void *)out, CCL_WIRE_MAX_FDS);
    struct ccl_exchange x = {.op = CCL_OP_FDS,
                             .deadline_ns = ccl_net_deadline(boot->timeout_ns),
                             .bytes = (size_t)nfds,
                             .put_type = CCL_WIRE_PUT,
                             .max_fds = nfds};
    size_t total = (size_t)boot->size * (size_t)nfds;
    uint8_t *mask = calloc(total, 1);
    int *all = malloc(total * sizeof(*all));
    cclResult_t rc;
    if (mask == NULL || all == NULL) {
        rc = ccl_boot_break(boot, cclSystemError, boot->rank, "rank %d: out of memory for %zu descriptors", boot->rank,
                            total);
        goto out;
    }
    for (size_t i = 0; i < total; i++) {
        all[i] = -1;
    }
    for (int i = 0; i < nfds; i++) {
        mask[boot->rank * nfds + i] = fds[i] >= 0;
    }
    rc = check_fds(fds, nfds);
    if (boot->rank != 0) {
        rc = exchange_other(boot, &x, rc, fds, nfds, mask, all);
    } else if (rc != cclSuccess) {
        rc = ccl_boot_break(boot, rc, 0, "rank 0: %s", ccl_error_last());
    } else {
        rc = exchange_root(boot, &x, fds, nfds, mask, all);
    }
    if (rc == cclSuccess) {
        memcpy(out, all, total * sizeof(*out));
        boot->seq++;
    } else {
        ccl_scm_close(all, (int)total);
    }
out:
    free(mask);
    free(all);
    return rc;
}
