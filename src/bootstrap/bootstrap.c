/* SPDX-License-Identifier: MIT
 *
 * The public calls except those on unique ids, splitting and descriptors. */
#include "bootstrap/bootstrap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/boot.h"
#include "bootstrap/fds.h"
#include "bootstrap/net.h"
#include "bootstrap/rendezvous.h"
#include "util/log.h"

cclResult_t ccl_bootstrap_create(const cclUniqueId *id, int rank, int nranks, uint64_t timeout_ns,
                                 struct ccl_bootstrap **out)
{
    uint64_t deadline_ns = ccl_net_deadline(timeout_ns);
    struct ccl_wire_id wire;
    struct ccl_wire_claim_body body;
    struct ccl_gate *gate = NULL;
    uint8_t token[16];
    CCL_CHECK(id != NULL && out != NULL, cclInvalidArgument, CCL_BOOT, "the unique id or the output is NULL");
    CCL_CHECK(nranks >= 1 && nranks <= CCL_WIRE_MAX_RANKS, cclInvalidArgument, CCL_BOOT,
              "number of ranks is %d, not 1 to %d", nranks, CCL_WIRE_MAX_RANKS);
    CCL_CHECK(rank >= 0 && rank < nranks, cclInvalidArgument, CCL_BOOT, "rank is %d, not 0 to %d", rank, nranks - 1);
    CCL_TRY(ccl_id_decode(id, &wire));

    memset(&body, 0, sizeof(body));
    body.version = CCL_VERSION;
    body.rank = rank;
    body.nranks = nranks;
    body.pid = getpid();
    ccl_net_host(body.host);
    if (rank == 0) {
        /* Open before anybody can learn its name. */
        CCL_TRY(ccl_net_random(body.token, sizeof(body.token)));
        CCL_TRY(ccl_gate_open_star(body.token, wire.secret, &gate));
    }
    cclResult_t rc = ccl_rendezvous_join(&wire, &body, deadline_ns, token);
    if (rc != cclSuccess) {
        ccl_gate_destroy(gate);
        return rc;
    }
    return ccl_star_create(rank, nranks, timeout_ns, deadline_ns, wire.secret, token, gate, out);
}

void ccl_bootstrap_set_cancel(const bool *flag)
{
    ccl_net_set_cancel(flag);
}

void ccl_bootstrap_destroy(struct ccl_bootstrap *boot)
{
    if (boot == NULL) {
        return;
    }
    /* In a forked child the numbers may mean other files by now; the copies were closed in fork. */
    bool mine = boot->generation == ccl_fds_generation();
    for (int r = 0; mine && boot->peers != NULL && r < boot->size; r++) {
        ccl_fds_close(boot->peers[r].fd);
    }
    if (mine) {
        ccl_fds_close(boot->root_fd);
    }
    free(boot->peers);
    free(boot->polls);
    free(boot->pids);
    free(boot);
}

int ccl_bootstrap_rank(const struct ccl_bootstrap *boot)
{
    return boot->rank;
}

int ccl_bootstrap_size(const struct ccl_bootstrap *boot)
{
    return boot->size;
}

pid_t ccl_bootstrap_peer_pid(const struct ccl_bootstrap *boot, int rank)
{
    return rank >= 0 && rank < boot->size ? boot->pids[rank] : 0;
}

int ccl_bootstrap_watch_fd(const struct ccl_bootstrap *boot)
{
    return boot->root_fd;
}

static cclResult_t allgather(struct ccl_bootstrap *boot, enum ccl_wire_op op, uint8_t *data, size_t bytes)
{
    struct ccl_exchange x = {.op = op,
                             .deadline_ns = ccl_net_deadline(boot->timeout_ns),
                             .bytes = bytes,
                             .data = data,
                             .put_type = CCL_WIRE_PUT};
    struct ccl_wire_frame head = ccl_boot_frame(boot, CCL_WIRE_RESULT, op);
    size_t total = bytes * (size_t)boot->size;
    if (boot->rank == 0) {
        CCL_TRY(ccl_boot_gather(boot, &x));
        head.bytes = (uint32_t)total;
        ccl_boot_scatter(boot, &x, &head, data);
    } else {
        const uint8_t *own = bytes > 0 ? data + (size_t)boot->rank * bytes : NULL;
        CCL_TRY(ccl_boot_put(boot, &x, cclSuccess, own, NULL, 0));
        CCL_TRY(ccl_boot_await(boot, &x, &head, data, total, NULL));
    }
    boot->seq++;
    return cclSuccess;
}

cclResult_t ccl_bootstrap_allgather(struct ccl_bootstrap *boot, void *data, size_t bytes)
{
    CCL_TRY(ccl_boot_usable(boot));
    CCL_CHECK(bytes <= CCL_WIRE_MAX_BLOB && (data != NULL || bytes == 0) && bytes * (size_t)boot->size <= UINT32_MAX,
              cclInvalidArgument, CCL_BOOT, "allgather of %zu bytes at %p, at most %zu", bytes, data,
              CCL_WIRE_MAX_BLOB);
    return allgather(boot, CCL_OP_ALLGATHER, data, bytes);
}

cclResult_t ccl_bootstrap_barrier(struct ccl_bootstrap *boot)
{
    CCL_TRY(ccl_boot_usable(boot));
    return allgather(boot, CCL_OP_BARRIER, NULL, 0);
}

/* Rank 0: the lowest failing rank into head, its text into *text. */
static void find_failure(const struct ccl_bootstrap *boot, cclResult_t mine, struct ccl_wire_frame *head,
                         const char **text)
{
    head->code = mine;
    head->rank = 0;
    *text = mine != cclSuccess ? ccl_error_last() : "";
    for (int r = 1; r < boot->size && head->code == cclSuccess; r++) {
        head->code = boot->peers[r].code;
        head->rank = r;
        *text = boot->peers[r].text;
    }
    head->bytes = head->code != cclSuccess ? (uint32_t)ccl_min_size(strlen(*text), CCL_WIRE_TEXT - 1) : 0;
}

cclResult_t ccl_boot_agree(struct ccl_bootstrap *boot, cclResult_t mine, uint64_t deadline_ns)
{
    struct ccl_exchange x = {.op = CCL_OP_AGREE, .deadline_ns = deadline_ns, .put_type = CCL_WIRE_PUT};
    struct ccl_wire_frame head = ccl_boot_frame(boot, CCL_WIRE_RESULT, x.op);
    char received[CCL_WIRE_TEXT] = "";
    const char *text = received;
    if (boot->rank == 0) {
        CCL_TRY(ccl_boot_gather(boot, &x));
        find_failure(boot, mine, &head, &text);
        ccl_boot_scatter(boot, &x, &head, text);
    } else {
        CCL_TRY(ccl_boot_put(boot, &x, mine, NULL, NULL, 0));
        CCL_TRY(ccl_boot_await(boot, &x, &head, NULL, 0, received));
    }
    boot->seq++;
    if (head.code == cclSuccess) {
        return cclSuccess;
    }
    cclResult_t code = head.code > 0 && head.code < cclNumResults ? (cclResult_t)head.code : cclInternalError;
    /* The failing rank has its own text already. */
    return head.rank == boot->rank ? code : ccl_error_set(code, CCL_BOOT, "rank %d: %s", head.rank, text);
}

cclResult_t ccl_bootstrap_agree(struct ccl_bootstrap *boot, cclResult_t mine)
{
    CCL_TRY(ccl_boot_usable(boot));
    return ccl_boot_agree(boot, mine, ccl_net_deadline(boot->timeout_ns));
}
