/* SPDX-License-Identifier: MIT
 *
 * The baseline nccl: the same operations through an NCCL library loaded at run time, on the buffers and the stream of libccl's calls, so that both move the same
 * bytes between the same places. The library is whatever --nccl names: NVIDIA's, AMD's, or libccl's own shim. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "compat/nccl.h"

#define ROOT 0
#define FUNCTIONS(X)                                                                                                                         \
    X(ncclGetVersion)                                                                                                                        \
    X(ncclGetUniqueId) X(ncclCommInitRank) X(ncclCommDestroy) X(ncclCommAbort) X(ncclGetErrorString) X(ncclGroupStart) X(ncclGroupEnd)       \
    X(ncclAllGather) X(ncclAllReduce) X(ncclReduceScatter) X(ncclReduce) X(ncclBroadcast) X(ncclSend) X(ncclRecv)

static struct {
#define POINTER(name) __typeof__(&name) name;
    FUNCTIONS(POINTER)
#undef POINTER
} api;

static void *library;
static char version_text[32];

static bool load(const struct bench_session *s, const char *file)
{
    int version = 0;

    if (library != NULL) {
        return true;
    }
    void *opened = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL) {
        bench_note(s, "baseline nccl: %s", dlerror());
        return false;
    }
#define RESOLVE(name)                                                           \
    *(void **)&api.name = dlsym(opened, #name);                                 \
    if (api.name == NULL) {                                                     \
        bench_note(s, "baseline nccl: %s has no function %s", file, #name);     \
        dlclose(opened);                                                        \
        return false;                                                           \
    }
    FUNCTIONS(RESOLVE)
#undef RESOLVE
    if (api.ncclGetVersion(&version) != ncclSuccess) {
        bench_note(s, "baseline nccl: %s does not tell its version", file);
        dlclose(opened);
        return false;
    }
    /* Until 2.8 the code was major * 1000 + minor * 100 + patch. */
    int unit = version >= 10000 ? 10000 : 1000;
    snprintf(version_text, sizeof(version_text), "nccl %d.%d.%d", version / unit, version % unit / 100, version % 100);
    library = opened;
    bench_note(s, "baseline: %s of %s", version_text, file);
    return true;
}

static cclResult_t result_of(ncclResult_t rc, const char *what)
{
    if (rc == ncclSuccess) {
        return cclSuccess;
    }
    fprintf(stderr, "ccl_bench: baseline nccl: %s: %s\n", what, api.ncclGetErrorString(rc));
    return cclSystemError;
}

bool bench_nccl_open(struct bench_session *s, const char *file)
{
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    MPI_Request request;
    ncclResult_t rc = ncclSuccess;

    if (s->nccl != NULL) {
        return true;
    }
    if (bench_min(s, load(s, file)) == 0) {
        return false;
    }
    memset(&id, 0, sizeof(id));
    if (!bench_agree(s, s->rank == 0 ? result_of(api.ncclGetUniqueId(&id), "unique id") : cclSuccess, "baseline nccl")) {
        return false;
    }
    MPI_Ibcast(&id, sizeof(id), MPI_BYTE, 0, s->mpi, &request);
    bench_wait(&request);
    rc = api.ncclCommInitRank(&comm, s->ranks, id, s->rank);
    s->nccl = comm;
    if (!bench_agree(s, result_of(rc, "communicator"), "baseline nccl")) {
        bench_nccl_close(s, true);
        return false;
    }
    return true;
}

void bench_nccl_close(struct bench_session *s, bool broken)
{
    if (s->nccl != NULL) {
        (void)(broken ? api.ncclCommAbort(s->nccl) : api.ncclCommDestroy(s->nccl));
        s->nccl = NULL;
    }
}

const char *bench_nccl_name(void)
{
    return version_text;
}

static ncclDataType_t type_of(int dtype)
{
    switch (dtype) {
    case cclInt8: return ncclInt8;
    case cclUint8: return ncclUint8;
    case cclInt32: return ncclInt32;
    case cclUint32: return ncclUint32;
    case cclInt64: return ncclInt64;
    case cclUint64: return ncclUint64;
    case cclFloat16: return ncclFloat16;
    case cclFloat32: return ncclFloat32;
    case cclFloat64: return ncclFloat64;
    case cclBfloat16: return ncclBfloat16;
    case cclFloat8e4m3: return ncclFloat8e4m3;
    default: return ncclFloat8e5m2;
    }
}

bool bench_nccl_can(const struct bench_config *c)
{
    return c->ld == c->n; /* NCCL has no rows with gaps */
}

/* This rank's sends, to root or to all, and its receives, in one group: NCCL's tests do the same where it has no function. */
static ncclResult_t exchange(const struct bench_call *call, bool to_root, bool to_all, bool from_root, bool from_all)
{
    const struct bench_config *c = call->config;
    const struct bench_session *s = call->session;
    const ncclDataType_t type = type_of(c->dtype);
    unsigned char *send = call->buffers->send, *recv = call->buffers->recv;
    void *stream = s->stream;
    ncclResult_t rc = api.ncclGroupStart();

    for (int r = 0; r < s->ranks && rc == ncclSuccess; r++) {
        if (to_all || (to_root && r == ROOT)) {
            rc = api.ncclSend(send + (to_all ? (size_t)r * c->part_bytes : 0), c->n, type, r, s->nccl, stream);
        }
        if (rc == ncclSuccess && (from_all || (from_root && r == ROOT))) {
            rc = api.ncclRecv(recv + (from_all ? (size_t)r * c->part_bytes : 0), c->n, type, r, s->nccl, stream);
        }
    }
    ncclResult_t end = api.ncclGroupEnd();
    return rc != ncclSuccess ? rc : end;
}

cclResult_t bench_nccl_issue(void *ctx)
{
    const struct bench_call *call = ctx;
    const struct bench_config *c = call->config;
    const struct bench_session *s = call->session;
    const struct bench_op *op = c->op;
    const ncclDataType_t type = type_of(c->dtype);
    const size_t count = c->m * c->n;
    const bool root = s->rank == ROOT;
    void *send = call->buffers->send, *recv = call->buffers->recv, *stream = s->stream;
    ncclResult_t rc;

    if (op == &bench_op_all_gather) {
        rc = api.ncclAllGather(send, recv, count, type, s->nccl, stream);
    } else if (op == &bench_op_all_reduce) {
        rc = api.ncclAllReduce(send, recv, count, type, ncclSum, s->nccl, stream);
    } else if (op == &bench_op_reduce_scatter) {
        rc = api.ncclReduceScatter(send, recv, count, type, ncclSum, s->nccl, stream);
    } else if (op == &bench_op_reduce) {
        rc = api.ncclReduce(send, recv, count, type, ncclSum, ROOT, s->nccl, stream);
    } else if (op == &bench_op_broadcast) {
        rc = api.ncclBroadcast(send, recv, count, type, ROOT, s->nccl, stream);
    } else if (op == &bench_op_gather) {
        rc = exchange(call, true, false, false, root);
    } else if (op == &bench_op_scatter) {
        rc = exchange(call, false, root, true, false);
    } else if (op == &bench_op_sendrecv) {
        rc = api.ncclGroupStart();
        rc = rc != ncclSuccess ? rc : api.ncclSend(send, count, type, (s->rank + 1) % s->ranks, s->nccl, stream);
        rc = rc != ncclSuccess ? rc : api.ncclRecv(recv, count, type, (s->rank + s->ranks - 1) % s->ranks, s->nccl, stream);
        ncclResult_t end = api.ncclGroupEnd();
        rc = rc != ncclSuccess ? rc : end;
    } else { /* all_to_all, all_to_all_v with equal counts */
        rc = exchange(call, false, true, false, true);
    }
    return result_of(rc, op->name);
}
