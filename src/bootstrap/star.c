/* SPDX-License-Identifier: MIT
 *
 * Building the star: the other ranks connect to rank 0's abstract socket and prove the secret; the first exchange then
 * waits for all of them and gives everybody the table of process ids. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/boot.h"
#include "bootstrap/fds.h"
#include "bootstrap/net.h"
#include "bootstrap/ops.h"
#include "util/log.h"

/* The result of CCL_OP_CONNECT, followed by an int32_t a rank: its process id as rank 0 sees it. */
struct table_head {
    uint64_t pidns[2]; /* of rank 0 */
};

static bool admit(void *ctx, int fd, const struct ccl_wire_claim *claim, const uint8_t *server_nonce)
{
    struct ccl_bootstrap *boot = ((void **)ctx)[0];
    const struct ccl_exchange *x = ((void **)ctx)[1];
    int r = claim->body.rank;
    struct ccl_wire_answer answer;
    pid_t pid;
    if (claim->body.nranks != boot->size || r < 1 || r >= boot->size || boot->peers[r].fd >= 0 ||
        !ccl_net_peer_ok(fd, &pid)) {
        CCL_LOG(CCL_LOG_WARN, CCL_BOOT, "process %d dropped: claims rank %d of %d at rank 0 of %d", claim->body.pid, r,
                claim->body.nranks, boot->size);
        return false;
    }
    memset(&answer, 0, sizeof(answer));
    ccl_net_answer_mac(x->secret, CCL_WIRE_STAR, server_nonce, claim->nonce, &answer.body, answer.mac);
    boot->peers[r].fd = fd;
    boot->peers[r].pid = pid;
    /* The buffer is empty; should the peer be gone already, the gather finds out. */
    ssize_t ignored = send(fd, &answer, sizeof(answer), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)ignored;
    return true;
}

void ccl_star_admit(struct ccl_bootstrap *boot, struct ccl_exchange *x)
{
    void *ctx[2] = {boot, x};
    ccl_gate_service(x->gate, admit, ctx);
}

static cclResult_t connect_root(struct ccl_bootstrap *boot, struct ccl_exchange *x, struct ccl_gate *gate)
{
    size_t bytes = sizeof(struct table_head) + (size_t)boot->size * sizeof(int32_t);
    struct table_head *table = malloc(bytes);
    CCL_CHECK(table != NULL, cclSystemError, CCL_BOOT, "out of memory for the table of %d ranks", boot->size);
    int32_t *pids = (int32_t *)(table + 1);
    struct ccl_wire_frame head = ccl_boot_frame(boot, CCL_WIRE_RESULT, x->op);
    x->gate = boot->size > 1 ? gate : NULL;
    cclResult_t rc = ccl_boot_gather(boot, x);
    if (rc == cclSuccess) {
        ccl_net_pidns(table->pidns);
        for (int r = 0; r < boot->size; r++) {
            boot->pids[r] = pids[r] = r == 0 ? getpid() : boot->peers[r].pid;
        }
        head.bytes = (uint32_t)bytes;
        ccl_boot_scatter(boot, x, &head, table);
    }
    free(table);
    return rc;
}

static cclResult_t connect_other(struct ccl_bootstrap *boot, struct ccl_exchange *x, const uint8_t token[16])
{
    struct ccl_wire_claim_body body;
    struct ccl_wire_answer_body answer;
    struct ccl_wire_frame head;
    uint64_t pidns[2];
    pid_t root_pid;
    memset(&body, 0, sizeof(body));
    body.version = CCL_VERSION;
    body.rank = boot->rank;
    body.nranks = boot->size;
    body.pid = getpid();
    CCL_TRY((x->early ? ccl_net_connect_unix_early : ccl_net_connect_unix)(token, x->deadline_ns, &boot->root_fd));
    CCL_CHECK(ccl_net_peer_ok(boot->root_fd, &root_pid), cclSystemError, CCL_BOOT, "rank 0 belongs to another user");
    CCL_TRY(ccl_net_knock(boot->root_fd, "rank 0", x->secret, CCL_WIRE_STAR, &body, x->deadline_ns, &answer));
    CCL_TRY(ccl_boot_put(boot, x, cclSuccess, NULL, NULL, 0));

    size_t bytes = sizeof(struct table_head) + (size_t)boot->size * sizeof(int32_t);
    struct table_head *table = malloc(bytes);
    CCL_CHECK(table != NULL, cclSystemError, CCL_BOOT, "out of memory for the table of %d ranks", boot->size);
    const int32_t *pids = (const int32_t *)(table + 1);
    cclResult_t rc = ccl_boot_await(boot, x, &head, table, bytes, NULL);
    if (rc == cclSuccess) {
        /* Numbers of another pid namespace mean nothing here. */
        ccl_net_pidns(pidns);
        bool same = pidns[1] != 0 && memcmp(pidns, table->pidns, sizeof(pidns)) == 0;
        for (int r = 0; r < boot->size; r++) {
            boot->pids[r] = same ? pids[r] : 0;
        }
        boot->pids[0] = root_pid;
        boot->pids[boot->rank] = getpid();
    }
    free(table);
    return rc;
}

static cclResult_t create(int rank, int size, uint64_t timeout_ns, struct ccl_exchange x, const uint8_t token[16], struct ccl_gate *gate,
                          struct ccl_bootstrap **out)
{
    cclResult_t rc = cclSuccess;
    struct ccl_bootstrap *boot = calloc(1, sizeof(*boot));
    if (boot != NULL) {
        boot->root_fd = -1;
        boot->rank = rank;
        boot->size = size;
        boot->timeout_ns = timeout_ns;
        boot->generation = ccl_fds_generation();
        memcpy(boot->secret, x.secret, sizeof(boot->secret));
        boot->pids = calloc((size_t)size, sizeof(*boot->pids));
        if (rank == 0) {
            boot->peers = calloc((size_t)size, sizeof(*boot->peers));
            boot->polls = calloc((size_t)size, sizeof(*boot->polls));
        }
        for (int r = 0; boot->peers != NULL && r < size; r++) {
            boot->peers[r].fd = -1;
        }
    }
    if (boot == NULL || boot->pids == NULL || (rank == 0 && (boot->peers == NULL || boot->polls == NULL))) {
        rc = ccl_error_set(cclSystemError, CCL_BOOT, "out of memory for rank %d of %d", rank, size);
        goto fail;
    }
    CCL_TRY_GOTO(rank == 0 ? connect_root(boot, &x, gate) : connect_other(boot, &x, token), fail);
    ccl_gate_destroy(gate);
    boot->seq++;
    *out = boot;
    return cclSuccess;
fail:
    ccl_gate_destroy(gate);
    ccl_bootstrap_destroy(boot);
    return rc;
}

cclResult_t ccl_star_create(int rank, int size, uint64_t timeout_ns, uint64_t deadline_ns,
                            const uint8_t secret[CCL_SECRET_BYTES], const uint8_t token[16], struct ccl_gate *gate,
                            struct ccl_bootstrap **out)
{
    const struct ccl_exchange x = {
        .op = CCL_OP_CONNECT, .deadline_ns = deadline_ns, .put_type = CCL_WIRE_PUT, .secret = secret};
    return create(rank, size, timeout_ns, x, token, gate, out);
}

cclResult_t ccl_star_create_early(int rank, int size, uint64_t timeout_ns, const uint8_t secret[CCL_SECRET_BYTES], const uint8_t token[16],
                                  struct ccl_gate *gate, struct ccl_bootstrap **out)
{
    const struct ccl_exchange x = {.op = CCL_OP_CONNECT,
                                   .deadline_ns = ccl_net_deadline(timeout_ns),
                                   .put_type = CCL_WIRE_PUT,
                                   .secret = secret,
                                   .early = true};
    return create(rank, size, timeout_ns, x, token, gate, out);
}
