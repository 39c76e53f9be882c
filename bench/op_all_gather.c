/* SPDX-License-Identifier: MIT
 *
 * all_gather: sweeps by bytes call cclAllGather; with M and N, or where a field of the call's configuration is set (which
 * cclAllGather has no place for), cclAllGather2D. A one-dimensional gather is one with a single row. */
#include <limits.h>

#include "bench.h"

static cclResult_t issue(void *ctx)
{
    const struct bench_call *call = ctx;
    const struct bench_config *c = call->config;
    const struct bench_buffers *b = call->buffers;

    if (!c->two_d && !call->with_config) {
        return cclAllGather(b->send, b->recv, c->n, (cclDataType_t)c->dtype, call->session->comm,
                            call->session->stream);
    }
    return cclAllGather2D(b->send, c->ld, b->recv, c->ld, c->m, c->n, (cclDataType_t)c->dtype,
                          call->with_config ? &call->call : NULL, call->session->comm, call->session->stream);
}

static cclResult_t baseline(void *ctx)
{
    const struct bench_call *call = ctx;
    const struct bench_buffers *b = call->buffers;
    int bytes = (int)call->config->part_bytes;
    const void *send = call->config->in_place ? MPI_IN_PLACE : b->base_send;

    return MPI_Allgather(send, bytes, MPI_BYTE, b->base_recv, bytes, MPI_BYTE, call->session->mpi) == MPI_SUCCESS
               ? cclSuccess
               : cclSystemError;
}

/* Each rank must receive ranks - 1 parts over its link. */
static double bus_factor(int ranks)
{
    return ranks - 1;
}

/* On one device: each part is read once and written ranks times. */
static double traffic_bytes(int ranks, double part_bytes)
{
    return ranks * part_bytes + (double)ranks * ranks * part_bytes;
}

const struct bench_op bench_op_all_gather = {
    .name = "all_gather",
    .summary = "cclAllGather and cclAllGather2D over sizes, types, buffers, modes and call configurations",
    .issue = issue,
    .baseline = baseline,
    .bus_factor = bus_factor,
    .traffic_bytes = traffic_bytes,
};
