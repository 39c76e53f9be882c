/* SPDX-License-Identifier: MIT
 *
 * Enqueue all collectives but all-gather and barrier: what goes between each pair of ranks, the choices all ranks make alike (LL or push, grid, pieces, ring
 * slots), the launch. The choices of the last call are kept, so a repeated one only sets pointers. */
#include "coll/coll.h"
#include "coll/tune.h"

#include <stdlib.h>
#include <string.h>

#include "util/log.h"

#define ALIGN 64u                    /* of pieces and slots, bytes */
#define SLOTS 4                      /* of a ring; 1 where the communicator's rings have one (tests) */
#define HOST_PIECE (64u << 10)       /* host: largest piece, so that what a step touches stays in the core's cache */
#define HOST_PIECE_MIN (8u << 10)    /* host: smallest, if there are several: the receiver copies one while the sender copies the next */
#define HOST_PAIR_MIN (32u << 10)    /* the same where all send and receive: nobody is idle, so a step is only a cost */
#define HOST_GRID_BYTES (512u << 10) /* host: a block and rank, before another block is worth its start */
#define HOST_PULL_BYTES (2u << 10)   /* host, reductions: from here on owners read the inputs where they are */
#define HOST_STREAM_BYTES (3u << 20) /* as plan.c */
#define BULK_BYTES (4u << 20) /* NVIDIA: sent in all, from which on bulk copies pay */
#define UNEVEN_BYTES (8u << 20) /* all-to-all-v, whose sizes no rank knows of all: the grid is that for so much between two */
#define RING_SCATTER_BYTES (4u << 20) /* between devices: up to here a trip by rings is shorter than to say that all windows are there, and to read them */
#define RING_COPY_BYTES (1u << 20) /* two ranks on NVIDIA: up to here rings take 2 to 5 us less than stores into windows, measured on one H200 and on two */
#define MAX_BYTES (1ull << 47)

struct ccl_parts {
    bool valid;
    struct ccl_coll_call call; /* as planned, without pointers */
    enum ccl_kernel kernel;
    uint32_t grid, threads, args_bytes, shared_bytes;
    bool windowed;     /* peers may store into the receive buffer */
    bool pulled;       /* peers may read the send buffer */
    bool ahead;        /* it does not wait for all (coll/ahead.c) */
    size_t recv_bytes; /* of it that this rank uses; the largest end of a part */
    size_t send_bytes;
    bool sums; /* words are for this plan: where buffers allow, sum_words_W runs, in a grid of its own */
    uint32_t words_grid, words_threads;
    struct ccl_k_words_args words;
    struct ccl_k_parts_args args; /* the last member: the pairs of large worlds lie behind it */
};

static struct ccl_k_pair *pairs_of(struct ccl_parts *s)
{
    struct ccl_k_pair *first = s->args.pair;
    return first;
}

static cclResult_t create(cclComm_t comm)
{
    size_t n = (size_t)comm->n, most = n > CCL_GPU_PAIRS ? n : CCL_GPU_PAIRS;
    comm->parts = calloc(1, sizeof(*comm->parts) + (most - CCL_GPU_PAIRS) * sizeof(struct ccl_k_pair));
    CCL_CHECK(comm->parts != NULL, cclSystemError, CCL_COLL, "out of memory for the pairs of %d ranks", comm->n);
    comm->parts->args.c = comm->args;
    comm->parts->args_bytes =
        (uint32_t)(comm->props.is_host ? offsetof(struct ccl_k_parts_args, pair) + n * sizeof(struct ccl_k_pair) : sizeof(comm->parts->args));
    return cclSuccess;
}

static bool fits(const struct ccl_parts *s, const struct ccl_coll_call *call)
{
    return s->valid && s->call.op == call->op && s->call.type == call->type && s->call.count == call->count && s->call.root == call->root &&
           s->call.redop == call->redop && s->call.scalar_on_device == call->scalar_on_device && call->op != CCL_OP_ALL_TO_ALL_V;
}

/* ---- what goes between this rank and each peer ---- */

static void fill_all_to_all_v(cclComm_t comm, const struct ccl_coll_call *call, struct ccl_k_pair *pair)
{
    uint64_t esize = ccl_type_size(call->type);
    for (int r = 0; r < comm->n; r++) {
        pair[r] = (struct ccl_k_pair){call->v.sdispls[r] * esize, call->v.sendcounts[r] * esize, call->v.rdispls[r] * esize,
                                      call->v.recvcounts[r] * esize};
    }
}

/* part: bytes of a pair. What an all-reduce by LL sends is the whole input. */
static void fill_pairs(cclComm_t comm, const struct ccl_coll_call *call, uint64_t part, struct ccl_k_pair *pair)
{
    const bool root = comm->rank == call->root;
    for (int r = 0; r < comm->n; r++) {
        const bool to_root = r == call->root;
        struct ccl_k_pair p = {0, part, 0, part};
        switch (call->op) {
        case CCL_OP_ALL_TO_ALL:
            p.send_off = p.recv_off = (uint64_t)r * part;
            break;
        case CCL_OP_REDUCE_SCATTER: p.send_off = (uint64_t)r * part; break;
        case CCL_OP_GATHER:
            p.recv_off = root ? (uint64_t)r * part : 0;
            p.recv_bytes = root ? part : 0;
            p.send_bytes = to_root ? part : 0;
            break;
        case CCL_OP_REDUCE:
            p.recv_bytes = root ? part : 0;
            p.send_bytes = to_root ? part : 0;
            break;
        case CCL_OP_SCATTER:
            p.send_off = root ? (uint64_t)r * part : 0;
            p.send_bytes = root ? part : 0;
            p.recv_bytes = to_root ? part : 0;
            break;
        case CCL_OP_BROADCAST:
            p.send_bytes = root ? part : 0;
            p.recv_bytes = to_root ? part : 0;
            break;
        default: break; /* all-reduce */
        }
        pair[r] = p;
    }
}

static cclResult_t measure(cclComm_t comm, const struct ccl_coll_call *call, struct ccl_parts *s)
{
    const struct ccl_k_pair *pair = pairs_of(s);
    s->send_bytes = s->recv_bytes = 0;
    for (int r = 0; r < comm->n; r++) {
        uint64_t send = pair[r].send_bytes != 0 ? pair[r].send_off + pair[r].send_bytes : 0;
        uint64_t recv = pair[r].recv_bytes != 0 ? pair[r].recv_off + pair[r].recv_bytes : 0;
        CCL_CHECK(pair[r].send_off < MAX_BYTES && pair[r].send_bytes < MAX_BYTES && pair[r].recv_off < MAX_BYTES &&
                      pair[r].recv_bytes < MAX_BYTES,
                  cclInvalidArgument, CCL_COLL, "%s: what rank %d and rank %d exchange exceeds %llu bytes", ccl_comm_op_name(call->op),
                  comm->rank, r, MAX_BYTES);
        s->send_bytes = send > s->send_bytes ? send : s->send_bytes;
        s->recv_bytes = recv > s->recv_bytes ? recv : s->recv_bytes;
    }
    return cclSuccess;
}

/* ---- choices, by what all ranks know alike ---- */

static uint64_t shrink(uint64_t bytes, uint64_t most)
{
    bytes = bytes < most ? bytes : most;
    return bytes < ALIGN ? ALIGN : bytes / ALIGN * ALIGN;
}

/* Host: four pieces or more a block, where that leaves them large enough. */
static uint64_t host_piece(uint64_t bytes, uint32_t grid, bool one_way)
{
    uint64_t piece = ccl_round_up(bytes / grid / 4 + 1, ALIGN), least = one_way ? HOST_PIECE_MIN : HOST_PAIR_MIN;
    piece = piece < least ? least : piece;
    return piece < HOST_PIECE ? piece : HOST_PIECE;
}

/* Cut each block's share of the rings into slots with `subs` places (shared ring: one a destination). */
static void cut_ring(cclComm_t comm, uint32_t grid, uint32_t subs, uint64_t most, struct ccl_k_parts_args *a)
{
    const struct ccl_k_layout *lay = &comm->args.lay;
    a->ring_bytes = (uint64_t)lay->blocks * lay->slots * lay->slot_bytes;
    a->slots = lay->slots > 1 ? SLOTS : 1;
    uint64_t slot = a->ring_bytes / grid / a->slots / ALIGN * ALIGN;
    a->sub_bytes = shrink(slot / subs, most);
    a->slot_bytes = a->sub_bytes * subs;
}

/* Grid, threads and largest piece of an operation of so many bytes, `part` of them between two ranks; wanted: what the host may use of them for its grid. */
static uint64_t choose_grid(cclComm_t comm, uint64_t bytes, uint64_t part, uint64_t wanted, struct ccl_parts *s)
{
    const int asked = ccl_tune_asked(comm);
    struct ccl_tune tune;
    ccl_tune_pairs(comm, bytes, part, &tune);
    if (asked != CCL_UNSET) {
        tune.blocks = asked;
    } else if (comm->props.is_host) {
        tune.blocks = (int)(wanted < (uint64_t)comm->agreed.host_blocks ? wanted : (uint64_t)comm->agreed.host_blocks);
    }
    s->grid = (uint32_t)tune.blocks;
    s->threads = (uint32_t)tune.threads;
    return tune.piece_bytes < 4096 ? 4096 : tune.piece_bytes;
}

static void choose_copying(cclComm_t comm, const struct ccl_coll_call *call, uint64_t part, struct ccl_parts *s)
{
    struct ccl_k_parts_args *a = &s->args;
    const bool same = call->op == CCL_OP_BROADCAST;
    const uint32_t subs = comm->args.lay.shared_ring && !same ? (uint32_t)comm->n : 1;
    const bool uneven = call->op == CCL_OP_ALL_TO_ALL_V, one_way = ccl_tune_is_one_way(call->op);
    const uint64_t of_pair = uneven ? UNEVEN_BYTES : part, total = call->op == CCL_OP_ALL_TO_ALL || uneven ? of_pair * (uint64_t)comm->n : part;
    uint64_t piece = choose_grid(comm, total, of_pair, uneven ? UINT64_MAX : total / HOST_GRID_BYTES + 1, s);
    piece = comm->props.is_host ? host_piece(uneven ? UINT64_MAX / 2 : part, s->grid, one_way) : piece;
    s->kernel = CCL_KERNEL_parts;
    cut_ring(comm, s->grid, subs, piece, a);
    a->c.piece_bytes = a->sub_bytes;
    a->parts = same ? CCL_PARTS_SAME : 0;
    /* One writer stores to all directly, or once for all to fetch: on a CPU the others' cores do the rest. */
    a->c.flags |= same && comm->props.is_host && comm->n > 2 ? CCL_F_FORCE_STAGED : 0u;
}

/* LL: the pairs say it all on the host; a GPU is told in fewer words, which cost time at the start of a kernel. */
static void choose_ll(cclComm_t comm, const struct ccl_coll_call *call, uint64_t part, struct ccl_parts *s)
{
    struct ccl_k_parts_args *a = &s->args;
    const uint32_t op = call->op;
    struct ccl_tune tune = {.blocks = 1, .threads = 1};
    s->kernel = CCL_KERNEL_parts_ll;
    a->c.piece_bytes = part;
    a->c.part_bytes = part;
    a->parts = 0;
    if (!comm->props.is_host) {
        a->src_part = op == CCL_OP_ALL_TO_ALL || op == CCL_OP_REDUCE_SCATTER || op == CCL_OP_SCATTER ? part : 0;
        a->c.dst_part = op == CCL_OP_ALL_TO_ALL || op == CCL_OP_GATHER ? part : 0;
        a->to_ranks = a->from_ranks = 0;
        for (int r = 0; r < comm->n; r++) {
            a->to_ranks |= (uint64_t)(pairs_of(s)[r].send_bytes != 0) << r;
            a->from_ranks |= (uint64_t)(pairs_of(s)[r].recv_bytes != 0) << r;
        }
        for (a->unit_lanes = 0; 1 << a->unit_lanes < comm->n; a->unit_lanes++) {
        }
        ccl_tune_parts_ll(comm, part, a->unit_lanes, &tune);
        tune.threads += CCL_GPU_HELPER_THREADS;
    }
    s->grid = (uint32_t)tune.blocks;
    s->threads = (uint32_t)tune.threads;
}

/* Chunks of equal size, a multiple of the grid when there are several. */
static void choose_reducing(cclComm_t comm, const struct ccl_coll_call *call, struct ccl_parts *s)
{
    struct ccl_k_parts_args *a = &s->args;
    const bool scatter = call->op == CCL_OP_REDUCE_SCATTER;
    const uint64_t n = (uint64_t)comm->n, esize = a->esize, of_owner = scatter ? call->count : (call->count + n - 1) / n;
    const uint64_t bytes = of_owner * esize * n;
    uint64_t largest = choose_grid(comm, bytes, of_owner * esize, bytes / HOST_GRID_BYTES + 1, s);
    if (ccl_comm_on_nvidia(comm) && s->threads > CCL_REDUCE_THREADS) {
        s->threads = CCL_REDUCE_THREADS;
    }
    largest = comm->props.is_host ? host_piece(of_owner * esize, s->grid, false) : largest;
    s->kernel = CCL_KERNEL_reduce;
    cut_ring(comm, s->grid, comm->args.lay.shared_ring ? (uint32_t)n : 2, largest, a);
    uint64_t most = a->sub_bytes / esize, chunks = (of_owner + most - 1) / most;
    chunks = chunks == 0 ? 1 : chunks;
    chunks = chunks > 1 ? (chunks + s->grid - 1) / s->grid * s->grid : 1;
    uint64_t piece = ccl_round_up((of_owner + chunks - 1) / chunks, ALIGN / esize);
    a->piece = piece < most ? piece : most;
    a->chunks = (of_owner + a->piece - 1) / a->piece;
    s->grid = a->chunks < s->grid ? (uint32_t)a->chunks : s->grid;
    a->count = call->count;
    a->owner_stride = scatter ? call->count : a->piece;
    a->chunk_stride = scatter ? a->piece : a->piece * n;
    a->shard = scatter ? call->count : ccl_round_up(of_owner, ALIGN / esize);
    a->c.piece_bytes = a->piece * esize;
    a->parts = scatter ? CCL_PARTS_SCATTER : call->op == CCL_OP_REDUCE ? CCL_PARTS_TO_ROOT : 0;
}

static cclResult_t plan(cclComm_t comm, const struct ccl_coll_call *call, struct ccl_parts *s)
{
    struct ccl_k_parts_args *a = &s->args;
    const bool reduces = ccl_tune_is_reduction(call->op);
    const uint64_t esize = ccl_type_size(call->type), n = (uint64_t)comm->n;
    s->valid = false;
    a->slots = 0;
    a->ring_bytes = a->slot_bytes = a->sub_bytes = a->count = a->owner_stride = a->chunk_stride = a->piece = a->chunks = 0;
    CCL_CHECK(call->count < MAX_BYTES / esize / n, cclInvalidArgument, CCL_COLL, "%s: count %zu on %d ranks exceeds %llu bytes",
              ccl_comm_op_name(call->op), call->count, comm->n, MAX_BYTES);
    CCL_CHECK(comm->props.is_host || comm->n <= CCL_GPU_PAIRS, cclInvalidUsage, CCL_COLL, "%s on backend %s: %d ranks, at most %d",
              ccl_comm_op_name(call->op), comm->rt->name, comm->n, CCL_GPU_PAIRS);
    const uint64_t part = call->count * esize;
    a->esize = (uint32_t)esize;
    a->type = (uint32_t)call->type;
    a->redop = call->redop == cclNumOps ? cclSum : (uint32_t)call->redop;
    a->root = (uint32_t)call->root;
    a->c.flags = comm->agreed.host_flags | (comm->agreed.variant == cclVariantStaged ? CCL_F_FORCE_STAGED : 0u);
    if (call->op == CCL_OP_ALL_TO_ALL_V) {
        fill_all_to_all_v(comm, call, pairs_of(s));
    } else {
        fill_pairs(comm, call, part, pairs_of(s));
    }
    CCL_TRY(measure(comm, call, s));
    const bool ll = part <= ccl_tune_ll_limit(comm, call) && call->op != CCL_OP_ALL_TO_ALL_V;
    if (ll) {
        choose_ll(comm, call, part, s);
    } else if (reduces) {
        choose_reducing(comm, call, s);
        for (uint64_t r = 0; r < n; r++) {
            pairs_of(s)[r] = (struct ccl_k_pair){0, call->count * esize, 0, call->count * esize};
        }
    } else {
        choose_copying(comm, call, part, s);
    }
    a->parts |= reduces ? CCL_PARTS_REDUCE : 0u;
    a->parts |= reduces && call->redop == cclNumOps ? CCL_PARTS_SCALED : 0u;
    a->parts |= call->scalar_on_device ? CCL_PARTS_SCALAR_AT : 0u;
    const bool ring_scatters = call->op == CCL_OP_REDUCE_SCATTER && !comm->agreed.shared_ring && part <= RING_SCATTER_BYTES;
    const bool ring_copies = !reduces && n == 2 && ccl_comm_on_nvidia(comm) && call->op != CCL_OP_ALL_TO_ALL_V && part <= RING_COPY_BYTES;
    s->windowed = !ll && s->recv_bytes != 0 && call->op != CCL_OP_REDUCE_SCATTER && !(a->c.flags & CCL_F_FORCE_STAGED) && !ring_copies && n > 1;
    s->shared_bytes = 0;
    if (comm->props.bulk_copy && s->send_bytes >= BULK_BYTES &&
        ((s->kernel == CCL_KERNEL_parts && !(a->parts & CCL_PARTS_SAME)) || s->kernel == CCL_KERNEL_reduce)) {
        a->c.flags |= CCL_F_BULK;
        s->shared_bytes = s->kernel == CCL_KERNEL_parts ? CCL_PARTS_BULK_SHARED : CCL_REDUCE_BULK_SHARED;
    }
    /* Owners do not scale: the scalar is each rank's own. */
    const bool small = comm->props.is_host && part < HOST_PULL_BYTES;
    s->pulled = s->kernel == CCL_KERNEL_reduce && s->send_bytes != 0 && !(a->parts & CCL_PARTS_SCALED) && !(a->c.flags & CCL_F_FORCE_STAGED) && !ring_scatters &&
                !small && n > 1;
    a->c.flags |= comm->props.is_host && s->send_bytes + s->recv_bytes > HOST_STREAM_BYTES ? CCL_F_STREAM : 0u;
    const uint32_t word1 = CCL_WORD1(call->op, call->type, reduces ? call->redop : 0, call->root);
    a->c.desc = (struct ccl_k_desc){.word1 = word1,
                                    .variant = ll ? cclVariantLL : cclVariantAuto,
                                    .blocks = s->grid,
                                    .rows = 1,
                                    .count = call->count,
                                    .ld = call->count};
    const uint64_t words[] = {word1,       call->count,  s->kernel,     s->grid, a->c.piece_bytes, a->sub_bytes,
                              a->slot_bytes, a->chunks, a->c.flags & CCL_F_FORCE_STAGED};
    a->c.sig = ccl_coll_signature(words, CCL_ARRAY_LEN(words));
    s->ahead = ll && ccl_coll_can_run_ahead(comm, call->op, part);
    s->sums = ll && ccl_words_can_sum(call) && ccl_words_sum(comm, a, &s->words);
    if (s->sums) {
        struct ccl_tune tune;
        ccl_tune_sum_words(comm, part, &tune);
        s->words_grid = (uint32_t)tune.blocks;
        s->words_threads = (uint32_t)tune.threads + CCL_GPU_HELPER_THREADS;
    }
    s->call = *call;
    s->valid = true;
    return cclSuccess;
}

/* ---- a call ---- */

static void set_window(cclComm_t comm, const struct ccl_coll_call *call, struct ccl_parts *s)
{
    struct ccl_k_coll_args *a = &s->args.c;
    struct ccl_window_hit hit;
    a->where = 0;
    a->expect_id = 0;
    s->args.from_where = 0;
    if (s->pulled && ccl_heap_find(comm->heap, call->send, s->send_bytes, &hit)) {
        s->args.from_where = ccl_window_where(&hit);
    }
    if (!s->windowed || !ccl_heap_find(comm->heap, call->recv, s->recv_bytes, &hit)) {
        return;
    }
    a->where = ccl_window_where(&hit);
    ccl_coll_expect(comm, &hit, a);
}

static cclResult_t launch(cclComm_t comm, struct ccl_parts *s, struct cclStream *stream)
{
    const uint64_t src = s->args.c.src, dst = s->args.c.dst;
    const bool sums = s->sums && ((src | dst) & 7) == 0;
    s->words.src = src;
    s->words.dst = dst;
    const struct ccl_launch l = {.kernel = sums ? (enum ccl_kernel)(CCL_KERNEL_sum_words_2 + comm->n - 2) : s->kernel,
                                 .device = comm->device,
                                 .traced = comm->trace != NULL,
                                 .grid = sums ? s->words_grid : s->grid,
                                 .threads = sums ? s->words_threads : s->threads,
                                 .shared_bytes = s->shared_bytes,
                                 .host_threads = (uint32_t)comm->agreed.host_blocks,
                                 .args = sums ? (const void *)&s->words : &s->args,
                                 .args_bytes = sums ? (uint32_t)sizeof(s->words) : s->args_bytes};
    return comm->rt->launch(stream, &l);
}

static cclResult_t run(cclComm_t comm, const struct ccl_coll_call *call, struct cclStream *stream)
{
    if (CCL_UNLIKELY(__atomic_load_n(&comm->page->abort, __ATOMIC_RELAXED) != 0)) {
        return ccl_comm_async_error(comm);
    }
    if (CCL_UNLIKELY(comm->parts == NULL)) {
        CCL_TRY(create(comm));
    }
    struct ccl_parts *s = comm->parts;
    if (CCL_UNLIKELY(!fits(s, call))) {
        CCL_TRY(plan(comm, call, s));
    }
    s->args.c.src = (uint64_t)call->send;
    s->args.c.dst = (uint64_t)call->recv;
    s->args.scalar = call->scalar;
    set_window(comm, call, s);
    comm->called = &s->args.c.desc;
    if (s->ahead) {
        s->args.parts = (s->args.parts & ~(uint32_t)CCL_PARTS_MEET) | ccl_coll_run_ahead(comm);
        CCL_TRY(ccl_coll_begin_ahead(comm, stream));
    } else {
        CCL_TRY(ccl_coll_begin(comm, stream));
    }
    return ccl_coll_end(comm, stream, launch(comm, s, stream));
}

cclResult_t ccl_coll_run(cclComm_t comm, const struct ccl_coll_call *call, struct cclStream *stream)
{
    int before;
    CCL_TRY(ccl_device_enter(comm->rt, comm->props.is_host, comm->device, &before));
    return ccl_device_leave(comm->rt, before, run(comm, call, stream));
}
