/* SPDX-License-Identifier: MIT
 *
 * What went wrong, in words. Kernels and hosts leave records in the host pages; the first one names the origin. Also: death of peers, waits that
 * take long, and cclCommAbort. */
#include "comm/comm.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "util/config.h"
#include "util/log.h"

#define OTHER_SIDE_NS 500000000u  /* wait for the second record of a mismatch, so that the text can name both calls */
#define REPORT_LIMIT_MS 50
#define ABORT_LIMIT_NS 4000000000u

static const char *const op_names[CCL_NUM_OPS] = {"nothing",     "barrier",        "all_gather", "all_gather_2d", "all_reduce", "reduce_scatter",
                                                  "reduce",      "broadcast",      "all_to_all", "all_to_all_v",  "gather",     "scatter",
                                                  "send",        "recv",           "all_gather_matmul", "matmul_all_gather"};
static const char *const redop_names[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
/* By cclAlgorithm_t; auto is cclMatmulAllGather, which has only one. */
const char *const ccl_algorithm_names[CCL_NUM_ALGORITHMS] = {"fused", "baseline", "hbm_buffer", "sequential"};
static const char *const type_names[cclNumTypes] = {"int8",    "uint8",   "int32",    "uint32",      "int64",      "uint64", "float16",
                                                    "float32", "float64", "bfloat16", "float8_e4m3", "float8_e5m2"};

const char *ccl_comm_op_name(uint32_t op)
{
    return op < CCL_NUM_OPS ? op_names[op] : "unknown operation";
}

const char *ccl_comm_type_name(uint32_t type)
{
    return type < cclNumTypes ? type_names[type] : "unknown type";
}

static void pause_ms(long ms)
{
    struct timespec ts = {0, ms * 1000000};
    nanosleep(&ts, NULL);
}

/* "all_gather count 4096 float16" */
static void describe_call(const struct ccl_k_desc *d, char *text, size_t bytes)
{
    uint32_t op = d->word1 & 63, type = d->word1 >> 6 & 31;
    const char *variant = d->variant < CCL_NUM_VARIANTS ? ccl_variant_names[d->variant] : "?";
    if (op == CCL_OP_BARRIER || op == CCL_OP_NONE) {
        snprintf(text, bytes, "%s", ccl_comm_op_name(op));
    } else if (op == CCL_OP_ALL_GATHER_MATMUL || op == CCL_OP_MATMUL_ALL_GATHER) {
        snprintf(text, bytes, "%s %llu x %llu x %llu %s %llu %s (%s, %u blocks, tile %u x %u)", ccl_comm_op_name(op), (unsigned long long)d->rows,
                 (unsigned long long)d->count, (unsigned long long)d->ld, op == CCL_OP_ALL_GATHER_MATMUL ? "lda" : "ldc", (unsigned long long)d->ld_send,
                 ccl_comm_type_name(type), d->variant < CCL_NUM_ALGORITHMS ? ccl_algorithm_names[d->variant] : "?", d->blocks, d->tile_m, d->tile_n);
    } else if (d->variant == cclVariantCopy) {
        snprintf(text, bytes, "%s %llu x %llu ld %llu, send ld %llu, %s (copy)", ccl_comm_op_name(op), (unsigned long long)d->rows,
                 (unsigned long long)d->count, (unsigned long long)d->ld, (unsigned long long)d->ld_send, ccl_comm_type_name(type));
    } else if (op == CCL_OP_SEND || op == CCL_OP_RECV) {
        snprintf(text, bytes, "%s of %llu bytes (%s) %s rank %u", ccl_comm_op_name(op), (unsigned long long)d->count, ccl_comm_type_name(type),
                 op == CCL_OP_SEND ? "to" : "from", d->word1 >> 16);
    } else if (op == CCL_OP_ALL_TO_ALL_V) {
        snprintf(text, bytes, "all_to_all_v %s with %llu elements for the other and %llu expected of it", ccl_comm_type_name(type),
                 (unsigned long long)d->rows, (unsigned long long)d->count);
    } else if (op > CCL_OP_ALL_GATHER_2D) {
        const uint32_t redop = d->word1 >> 11 & 31;
        char what[32] = "", where[32] = "";
        if (op <= CCL_OP_REDUCE && redop < CCL_ARRAY_LEN(redop_names)) {
            snprintf(what, sizeof(what), " %s", redop_names[redop]);
        }
        if (op == CCL_OP_REDUCE || op == CCL_OP_BROADCAST || op == CCL_OP_GATHER || op == CCL_OP_SCATTER) {
            snprintf(where, sizeof(where), " root %u", d->word1 >> 16);
        }
        snprintf(text, bytes, "%s count %llu %s%s%s (%s, %u blocks)", ccl_comm_op_name(op), (unsigned long long)d->count,
                 ccl_comm_type_name(type), what, where, variant, d->blocks);
    } else if (op == CCL_OP_ALL_GATHER) {
        snprintf(text, bytes, "%s count %llu %s (%s, %u blocks)", ccl_comm_op_name(op), (unsigned long long)d->count,
                 ccl_comm_type_name(type), variant, d->blocks);
    } else {
        snprintf(text, bytes, "%s %llu x %llu ld %llu %s (%s, %u blocks, tile %u x %u)", ccl_comm_op_name(op),
                 (unsigned long long)d->rows, (unsigned long long)d->count, (unsigned long long)d->ld,
                 ccl_comm_type_name(type), variant, d->blocks, d->tile_m, d->tile_n);
    }
}

/* A complete copy of a record in our page; false: none (yet). slot: a rank, or world size + rank for what its host wrote. */
static bool read_record(cclComm_t comm, int slot, struct ccl_k_err *out)
{
    const struct ccl_k_err *e = &comm->page->err[slot];
    if (slot < 0 || slot >= 2 * comm->n || __atomic_load_n(&e->code, __ATOMIC_ACQUIRE) == 0) {
        return false; /* acquire pairs with the release of the record's code in ccl_raise and ccl_comm_raise */
    }
    *out = *e;
    return true;
}

static void name_rank(cclComm_t comm, int rank, char *text, size_t bytes)
{
    if (rank == comm->rank) {
        snprintf(text, bytes, "I");
    } else {
        snprintf(text, bytes, "rank %d", rank);
    }
}

/* Another rank may have passed the abort word on before the record came. */
static bool await_record(cclComm_t comm, int slot, struct ccl_k_err *out)
{
    uint64_t start = ccl_now_ns();
    bool known = read_record(comm, slot, out);
    while (!known && ccl_now_ns() - start < OTHER_SIDE_NS) {
        pause_ms(1);
        known = read_record(comm, slot, out);
    }
    return known;
}

/* Does the record itself say what the peer called, who may be far ahead by now or gone without a record of its own? */
static bool told(const struct ccl_k_err *e, struct ccl_k_desc *theirs)
{
    const uint32_t op = e->mine.word1 & 63;
    if ((op == CCL_OP_SEND || op == CCL_OP_RECV) && e->mine.rows >> 63 != 0) {
        *theirs = (struct ccl_k_desc){.word1 = CCL_WORD1(op == CCL_OP_SEND ? CCL_OP_RECV : CCL_OP_SEND, CCL_P2P_OTHER_TYPE(e->mine.rows), 0, e->rank),
                                      .count = CCL_P2P_OTHER_BYTES(e->mine.rows)};
        return true;
    }
    *theirs = (struct ccl_k_desc){.word1 = e->theirs_word1, .variant = cclVariantLL, .blocks = 1, .rows = 1, .count = e->theirs_count, .ld = e->theirs_count};
    return e->theirs_word1 != 0;
}

static void describe_mismatch(cclComm_t comm, const struct ccl_k_err *e, char *text, size_t bytes)
{
    struct ccl_k_err other;
    char call[160], other_call[160] = "something else", who[32], whom[32];
    const bool known = told(e, &other.mine) || await_record(comm, e->peer, &other);
    describe_call(&e->mine, call, sizeof(call));
    if (known) {
        describe_call(&other.mine, other_call, sizeof(other_call));
    }
    name_rank(comm, e->rank, who, sizeof(who));
    name_rank(comm, e->peer, whom, sizeof(whom));
    if (e->rank == comm->rank) {
        snprintf(text, bytes, "operation %u: %s called %s, %s called %s", e->op, whom, other_call, who, call);
    } else {
        snprintf(text, bytes, "operation %u: %s called %s, %s called %s", e->op, who, call, whom, other_call);
    }
}

/* Variant copy: the inputs lie at different places. */
static void describe_place(cclComm_t comm, const struct ccl_k_err *e, char *text, size_t bytes)
{
    struct ccl_k_err other;
    int len = snprintf(text, bytes, "operation %u: variant copy needs the send buffers at one place of a heap chunk, or all in place: window %u offset %llu on rank %d",
                       e->op, (uint32_t)(e->where >> 48), (unsigned long long)(e->where & 0xffffffffffffu), e->rank);
    if (await_record(comm, e->peer, &other) && len > 0 && (size_t)len < bytes) {
        snprintf(text + len, bytes - (size_t)len, ", window %u offset %llu on rank %d", (uint32_t)(other.where >> 48),
                 (unsigned long long)(other.where & 0xffffffffffffu), e->peer);
    }
}

static void describe(cclComm_t comm, uint64_t word, char *text, size_t bytes)
{
    struct ccl_k_err e;
    char call[160];
    int origin = (int)(word >> 8 & 0xffffff);
    if (!await_record(comm, origin, &e)) {
        snprintf(text, bytes, "rank %d gave up", origin % comm->n);
        return;
    }
    describe_call(&e.mine, call, sizeof(call));
    switch (e.reason) {
    case CCL_REASON_MISMATCH: describe_mismatch(comm, &e, text, bytes); break;
    case CCL_REASON_DEAD:
        snprintf(text, bytes, "rank %d died; rank %d waited for it in operation %u, %s", e.peer, e.rank, e.op, call);
        break;
    case CCL_REASON_ABORT: snprintf(text, bytes, "rank %d called cclCommAbort", e.rank); break;
    case CCL_REASON_TIMEOUT:
        snprintf(text, bytes, "rank %d waited longer than CCL_TIMEOUT for rank %d in operation %u, %s", e.rank, e.peer, e.op,
                 call);
        break;
    case CCL_REASON_PLACE: describe_place(comm, &e, text, bytes); break;
    case CCL_REASON_REFUSED:
        snprintf(text, bytes, "rank %d could not enqueue its call, and has the reason in its own error text: %s", e.rank, call);
        break;
    case CCL_REASON_NO_WINDOW:
        if (e.mine.variant == cclVariantCopy) {
            snprintf(text, bytes, "variant copy: the send buffer of rank %d lies in no heap chunk (in place: the receive buffer), %s", e.rank, call);
            break;
        }
        if ((e.mine.word1 & 63) == CCL_OP_ALL_GATHER_MATMUL || (e.mine.word1 & 63) == CCL_OP_MATMUL_ALL_GATHER) {
            snprintf(text, bytes, "rank %d has not mapped the memory of rank %d yet (registered just now, or deregistered), %s", e.rank, e.peer, call);
            break;
        }
        snprintf(text, bytes, "variant direct: the receive buffer of rank %d lies in no window that rank %d can store into, %s",
                 e.peer, e.rank, call);
        break;
    default:
        if (e.peer >= 0 && e.peer != e.rank) {
            snprintf(text, bytes, "rank %d has left or given up; rank %d waited for it in operation %u, %s", e.peer, e.rank, e.op, call);
        } else {
            snprintf(text, bytes, "rank %d gave up in operation %u, %s", e.rank, e.op, call);
        }
        break;
    }
}

cclResult_t ccl_comm_async_error(cclComm_t comm)
{
    uint64_t word = __atomic_load_n(&comm->page->abort, __ATOMIC_ACQUIRE);
    if (CCL_UNLIKELY(word != 0)) {
        char text[512];
        describe(comm, word, text, sizeof(text));
        return ccl_error_set((cclResult_t)(word & 0xff), CCL_COLL, "%s", text);
    }
    for (int r = 0; r < comm->n; r++) {
        uint64_t dead = __atomic_load_n(&comm->page->dead[r / 64], __ATOMIC_ACQUIRE);
        if ((dead >> (r % 64) & 1) != 0 &&
            __atomic_load_n(&((struct ccl_k_page *)comm->peer_page[r])->state, __ATOMIC_ACQUIRE) != CCL_PAGE_CLOSED) {
            return ccl_error_set(cclRemoteError, CCL_COLL, "rank %d died", r);
        }
    }
    return cclSuccess;
}

/* One thread of this process writes records at a time: the monitor and users' threads may see an error at once. Taken behind list_lock, never before it. */
static pthread_mutex_t raise_lock = PTHREAD_MUTEX_INITIALIZER;

void ccl_comm_raise(cclComm_t comm, cclResult_t code, enum ccl_reason reason, int peer)
{
    uint32_t op = (uint32_t)(__atomic_load_n(&comm->page->stalled, __ATOMIC_RELAXED) >> 32);
    pthread_mutex_lock(&raise_lock);
    for (int d = 0; d < comm->n; d++) {
        struct ccl_k_page *page = comm->peer_page[(comm->rank + d) % comm->n];
        struct ccl_k_err *e = &page->err[comm->n + comm->rank];
        uint64_t healthy = 0;
        if (__atomic_load_n(&e->code, __ATOMIC_RELAXED) == 0) {
            e->op = op;
            e->rank = comm->rank;
            e->peer = peer;
            e->reason = reason;
            e->mine = comm->called != NULL ? *comm->called : comm->args.desc;
            __atomic_store_n(&e->code, (uint32_t)code, __ATOMIC_RELEASE); /* pairs with read_record */
        }
        /* The first reason stays. */
        __atomic_compare_exchange_n(&page->abort, &healthy, CCL_ABORT_WORD(code, comm->n + comm->rank, op), false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
        comm->rt->host_wake(page);
    }
    pthread_mutex_unlock(&raise_lock);
}

void ccl_comm_await_report(cclComm_t comm)
{
    for (int ms = 0; ms < REPORT_LIMIT_MS && __atomic_load_n(&comm->page->err[comm->rank].code, __ATOMIC_ACQUIRE) != 0 &&
                     !__atomic_load_n(&comm->sync_reported, __ATOMIC_ACQUIRE);
         ms++) {
        pause_ms(1);
    }
}

cclResult_t ccl_comm_abort(cclComm_t comm)
{
    uint64_t start = ccl_now_ns();
    bool left = !ccl_comm_busy(comm);
    while (!left && ccl_now_ns() - start < ABORT_LIMIT_NS) {
        pause_ms(1);
        left = !ccl_comm_busy(comm);
    }
    if (!left) {
        /* Its arguments and memory may still be in use: better lost than freed under a kernel. */
        ccl_comm_list_remove(comm);
        ccl_monitor_detach(comm->port);
        comm->port = NULL;
        return ccl_error_set(cclSystemError, CCL_COLL, "an operation of rank %d did not end within 4 s of the abort",
                             comm->rank);
    }
    ccl_comm_await_report(comm);
    cclResult_t rc = ccl_comm_trace_finish(comm);
    comm->keep_words = comm->has_device_comm;
    ccl_comm_destroy(comm, !comm->props.is_host);
    return rc;
}

/* ---- on the monitor thread ---- */

static void on_peer_died(void *ctx, int peer)
{
    cclComm_t comm = ctx;
    CCL_LOG(CCL_LOG_INFO, CCL_COLL, "rank %d: the process of rank %d is gone", comm->rank, peer);
    /* release: whatever the peer stored before it died is visible to who sees the bit; pairs with the acquire of the waits */
    __atomic_fetch_or(&comm->page->dead[peer / 64], 1ull << (peer % 64), __ATOMIC_RELEASE);
    comm->rt->host_wake(comm->page);
    ccl_heap_on_peer_died(comm->heap, peer);
}

static void on_message(void *ctx, int peer, const void *msg, size_t bytes, int fd)
{
    cclComm_t comm = ctx;
    ccl_heap_on_message(comm->heap, peer, msg, bytes, fd);
}

static void on_tick(void *ctx)
{
    cclComm_t comm = ctx;
    const struct ccl_env *env = ccl_env_get();
    uint64_t stalled = __atomic_load_n(&comm->page->stalled, __ATOMIC_RELAXED), now = ccl_now_ns();
    if (stalled == 0 || stalled != comm->stall_seen) {
        comm->stall_seen = stalled;
        comm->stall_since_ns = now;
        comm->stall_told = false;
        return;
    }
    uint64_t waited_s = (now - comm->stall_since_ns) / 1000000000u + 1; /* a wait shows itself after a second */
    int peer = (int)(uint32_t)stalled - 1;
    if (env->stall_warn_s != 0 && !comm->stall_told && waited_s >= (uint64_t)env->stall_warn_s) {
        comm->stall_told = true;
        CCL_LOG(CCL_LOG_WARN, CCL_COLL, "rank %d has waited %llu s for rank %d in operation %u", comm->rank,
                (unsigned long long)waited_s, peer, (uint32_t)(stalled >> 32));
    }
    if (env->timeout_s != 0 && waited_s >= (uint64_t)env->timeout_s) {
        ccl_comm_raise(comm, cclSystemError, CCL_REASON_TIMEOUT, peer);
    }
}

const struct ccl_monitor_callbacks ccl_comm_monitor_callbacks = {on_peer_died, on_message, on_tick};
