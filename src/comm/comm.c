/* SPDX-License-Identifier: MIT
 *
 * Birth and death of a communicator. */
#include "comm/comm.h"

#include <stdlib.h>

#include "util/config.h"
#include "util/log.h"

static uint64_t timeout_of(const cclConfig_t *config)
{
    if (config != NULL && config->timeout_ms != CCL_UNSET) {
        return (uint64_t)config->timeout_ms * 1000000u;
    }
    return (uint64_t)ccl_env_get()->init_timeout_s * 1000000000u;
}

static cclComm_t comm_new(int n, int rank)
{
    cclComm_t comm = calloc(1, sizeof(*comm));
    if (comm != NULL) {
        comm->magic = CCL_COMM_MAGIC;
        comm->n = n;
        comm->rank = rank;
        comm->device = -1;
    }
    return comm;
}

cclResult_t ccl_comm_create(const cclUniqueId *id, int n, int rank, const cclConfig_t *config, cclComm_t *out)
{
    cclResult_t rc;
    cclComm_t comm = comm_new(n, rank);
    CCL_CHECK(comm != NULL, cclSystemError, CCL_INIT, "out of memory for a communicator of %d ranks", n);
    ccl_log_set_rank(rank);
    comm->agreed.timeout_ns = timeout_of(config);
    CCL_TRY_GOTO(ccl_bootstrap_create(id, rank, n, comm->agreed.timeout_ns, &comm->boot), fail);
    CCL_TRY_GOTO(ccl_comm_setup(comm, config, NULL, NULL), fail);
    ccl_comm_list_add(comm);
    *out = comm;
    return cclSuccess;
fail:
    ccl_comm_destroy(comm, false);
    return rc;
}

/* A communicator over boot, which is taken, also on failure. ranks: parent rank by child rank. */
static cclResult_t make_child(cclComm_t parent, struct ccl_bootstrap *boot, const int *ranks, const cclConfig_t *config, uint64_t timeout_ns,
                              cclComm_t *out)
{
    cclResult_t rc;
    cclComm_t comm = comm_new(ccl_bootstrap_size(boot), ccl_bootstrap_rank(boot));
    if (comm == NULL) {
        ccl_bootstrap_destroy(boot); /* the peers see this rank as gone in their next exchange */
        return ccl_error_set(cclSystemError, CCL_INIT, "out of memory for a communicator");
    }
    comm->boot = boot;
    comm->agreed.timeout_ns = timeout_ns;
    CCL_TRY_GOTO(ccl_comm_setup(comm, config, parent, ranks), fail);
    ccl_comm_list_add(comm);
    *out = comm;
    return cclSuccess;
fail:
    ccl_comm_destroy(comm, false);
    return rc;
}

static cclResult_t split(cclComm_t parent, int color, int key, const cclConfig_t *config, cclComm_t *out)
{
    cclResult_t rc;
    struct ccl_bootstrap *boot = NULL;
    int *ranks = calloc((size_t)parent->n, sizeof(*ranks));
    uint64_t timeout_ns =
        config != NULL && config->timeout_ms != CCL_UNSET ? timeout_of(config) : parent->agreed.timeout_ns;
    rc = ranks != NULL ? cclSuccess : ccl_error_set(cclSystemError, CCL_INIT, "out of memory for %d ranks", parent->n);
    CCL_TRY_GOTO(ccl_bootstrap_agree(parent->boot, rc), done);
    CCL_TRY_GOTO(ccl_bootstrap_split(parent->boot, color, key, timeout_ns, ranks, &boot), done);
    if (boot != NULL) {
        rc = make_child(parent, boot, ranks, config, timeout_ns, out);
    } else {
        *out = NULL;
    }
done:
    free(ranks);
    return rc;
}

cclResult_t ccl_comm_split(cclComm_t parent, int color, int key, const cclConfig_t *config, cclComm_t *out)
{
    int before;
    CCL_TRY(ccl_device_enter(parent->rt, parent->props.is_host, parent->device, &before));
    return ccl_device_leave(parent->rt, before, split(parent, color, key, config, out));
}

static cclResult_t shrink(cclComm_t parent, const int *ranks, int count, cclComm_t *out)
{
    struct ccl_bootstrap *boot;
    CCL_TRY(ccl_bootstrap_shrink(parent->boot, ranks, count, parent->agreed.timeout_ns, &boot));
    return make_child(parent, boot, ranks, NULL, parent->agreed.timeout_ns, out);
}

cclResult_t ccl_comm_shrink(cclComm_t parent, const int *ranks, int count, cclComm_t *out)
{
    int before;
    CCL_CHECK(parent->generation == ccl_comm_generation, cclInvalidUsage, CCL_INIT, "the communicator belongs to the parent of this forked process");
    CCL_TRY(ccl_device_enter(parent->rt, parent->props.is_host, parent->device, &before));
    return ccl_device_leave(parent->rt, before, shrink(parent, ranks, count, out));
}

/* Asks or waits on the last stream, on its device. */
static cclResult_t on_last_stream(cclComm_t comm, cclResult_t (*ask)(struct cclStream *stream))
{
    int before;
    CCL_TRY(ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before));
    return ccl_device_leave(comm->rt, before, ask(comm->last_stream));
}

cclResult_t ccl_comm_wait_idle(cclComm_t comm)
{
    /* Not the last stream: it may be in a capture, be gone, or not be the one a graph was launched on. */
    cclResult_t rc = comm->rt->chain_sync(comm->chain);
    if (CCL_UNLIKELY(__atomic_load_n(&comm->unchained, __ATOMIC_ACQUIRE))) {
        cclResult_t last = on_last_stream(comm, comm->rt->stream_sync);
        rc = rc != cclSuccess ? rc : last;
    }
    return rc;
}

bool ccl_comm_busy(cclComm_t comm)
{
    return comm->rt->chain_query(comm->chain) == cclInProgress ||
           (__atomic_load_n(&comm->unchained, __ATOMIC_ACQUIRE) && on_last_stream(comm, comm->rt->stream_query) == cclInProgress);
}

void ccl_comm_destroy(cclComm_t comm, bool unclean)
{
    if (comm == NULL) {
        return;
    }
    ccl_comm_list_remove(comm);
    int before = -1; /* half-built: no device yet; without its device it is released all the same */
    if (comm->rt != NULL && comm->device >= 0) {
        (void)ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before);
    }
    ccl_comm_release(comm, unclean);
    if (comm->rt != NULL) {
        (void)ccl_device_leave(comm->rt, before, cclSuccess);
    }
    ccl_bootstrap_destroy(comm->boot);
    comm->magic = 0;
    free(comm->redops);
    free(comm->parts);
    free(comm->meet_args);
    free(comm->p2p_args);
    free(comm);
}
