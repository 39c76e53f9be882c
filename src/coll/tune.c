/* SPDX-License-Identifier: MIT
 *
 * Where the numbers come from: docs/performance.md. All ranks must choose alike, so nothing here depends on a pointer. */
#include "coll/tune.h"

#include "coll/coll.h"

#define GRID_BYTES (256u << 10) /* host: per block and rank, before another block is worth its start */
#define WAVE_THREADS 64         /* blocks are whole waves of any device */
#define TUNE_VECTORS 4u      /* of a thread and piece; staged: two pieces are on their way where a thread could hold one of eight */
#define BULK_PART (4u << 20) /* bytes of a part from which on bulk copies pay */
#define PACED_PART (16u << 20)
#define HOST_JOIN 1024u         /* host: all-reduce of one hop at least up to here; 4 KiB on two cores: 4.0 us, in two 0.4 */
#define HOST_JOIN_CROWDED 2048u /* the same where ranks outnumber cores and a second hop costs task switches; 8 KiB of 4 ranks: 28 to 50 us, in two 11 */
#define LL_JOIN_BYTES (2u << 20) /* GPU: all-reduce of one hop, bytes that all ranks send and keep; floats that are summed: comm_agree.c */
#define BULK_BLOCKS 16       /* with more, threads keep as much in flight */

/* A row serves parts up to so many bytes. */
struct row {
    uint64_t bytes;
    int blocks; /* of a rank; negative: this many of all ranks of a device together */
};

/* Ranks that share one NVIDIA device: all blocks write to the same memory, and more than 128 together lose a third of its rate. Staging wants more,
 * for it waits in every step; but the agreed limit (comm_agree.c, half of what the device holds) leaves it 66, 33, 16 blocks a rank of 2, 4, 8 on an
 * H200, which is direct's number. So auto, which learns of plain buffers only in the kernel, loses nothing by taking direct's grid. */
static const struct row direct_shared[] = {{32 << 10, 8}, {256 << 10, 16}, {2 << 20, 32}, {UINT64_MAX, -128}};
static const struct row staged_shared[] = {{32 << 10, 8}, {256 << 10, 16}, {UINT64_MAX, -256}};
/* A device a rank: as many blocks as keep the links busy. */
static const struct row push_own[] = {{32 << 10, 8}, {256 << 10, 16}, {512 << 10, 32}, {64 << 20, 64}, {UINT64_MAX, 128}};

/* Collectives with a part of its own for each peer, a device a rank: through rings a step takes 15 to 20 us on its way and back, whatever it moves up to 64 KiB. */
static const struct row parts_own[] = {{32 << 10, 8}, {256 << 10, 16}, {512 << 10, 32}, {1 << 20, 64}, {UINT64_MAX, 128}};
#define PARTS_PIECE_MIN (8u << 10)
#define PARTS_PIECE_MAX (64u << 10)

static int look_up(const struct row *rows, uint64_t bytes, int n)
{
    while (bytes > rows->bytes) {
        rows++;
    }
    return rows->blocks > 0 ? rows->blocks : -rows->blocks / n > 0 ? -rows->blocks / n : 1;
}

static int round_waves(uint64_t threads, int most)
{
    uint64_t waves = (threads + WAVE_THREADS - 1) / WAVE_THREADS * WAVE_THREADS;
    return waves < (uint64_t)most ? (int)waves : most;
}

/* More than 8 KiB: as many blocks as leave a thread one word, or else few. Two ranks that share a device have the most blocks each; between devices 16 blocks of 128 KiB are measured.
 * Four ranks of a device, us with 16 and 32 blocks: 32 KiB 3.52, 3.03; 64 KiB 3.67, 3.80. */
static int ll_blocks(cclComm_t comm, uint64_t part_bytes)
{
    const bool shared = comm->agreed.shared_ring;
    if (part_bytes <= 16384) {
        return comm->n == 2 ? 8 : 16;
    }
    if (comm->n == 2 && shared) {
        return part_bytes <= 65536 ? 32 : 64;
    }
    if (comm->n > 2 && comm->n <= CCL_LL_FEW && part_bytes <= 32768) {
        return 32;
    }
    return comm->n > CCL_LL_FEW || part_bytes <= (shared ? 65536 : 131072) ? 16 : 32;
}

/* One block while each thread has a word at most; then smaller blocks on more units, so that stores leave on many paths. Eight ranks of a device, us with 1 and 4 blocks: 1 KiB 3.96, 3.53;
 * 2 KiB 4.26, 3.58. Four ranks: 2 KiB 2.78, 2.61; 8 KiB with 8 and 16 blocks 3.08, 2.65. */
static void tune_ll(cclComm_t comm, uint64_t part_bytes, int comm_sms, struct ccl_tune *tune)
{
    const uint64_t pairs = (part_bytes + 7) / 8 * (uint64_t)comm->n;
    if (part_bytes <= 2048) {
        tune->blocks = pairs <= CCL_GPU_THREADS ? 1 : 4;
        tune->threads = round_waves(pairs / (uint64_t)tune->blocks, CCL_GPU_THREADS);
    } else if (part_bytes <= 8192) {
        tune->blocks = comm->n <= 2 ? 8 : 16;
        tune->threads = CCL_GPU_THREADS / 2;
    } else {
        tune->blocks = ll_blocks(comm, part_bytes);
        tune->threads = CCL_GPU_THREADS;
    }
    /* The agreed number is of blocks that fit a unit twice, which those of the kernels for larger worlds do with half the threads only. */
    const int blocks = comm_sms != CCL_UNSET ? comm_sms : tune->blocks;
    if (ccl_comm_on_nvidia(comm) && comm->n > CCL_LL_FEW && tune->threads > CCL_GPU_THREADS / 2 && 2 * blocks > comm->agreed.blocks) {
        tune->threads = CCL_GPU_THREADS / 2;
    }
}

/* A thread each, in so many blocks as above, so that it has something once where there are enough. */
static void tune_threads(cclComm_t comm, uint64_t threads, uint64_t most, struct ccl_tune *tune)
{
    const int wanted = threads <= most ? 1 : threads <= 8 * most ? 8 : threads <= 16 * most ? 16 : threads <= 64 * most ? 32 : 64;
    tune->blocks = wanted < comm->agreed.blocks ? wanted : comm->agreed.blocks;
    tune->threads = round_waves((threads + (uint64_t)tune->blocks - 1) / (uint64_t)tune->blocks, (int)most);
    const uint64_t enough = (threads + (uint64_t)tune->threads - 1) / (uint64_t)tune->threads;
    tune->blocks = enough < (uint64_t)tune->blocks ? (int)enough : tune->blocks;
}

/* parts_ll on a GPU: a thread has 8 bytes of one rank. */
void ccl_tune_parts_ll(cclComm_t comm, uint64_t part_bytes, uint32_t unit_lanes, struct ccl_tune *tune)
{
    tune_threads(comm, part_bytes != 0 ? (part_bytes + 7) / 8 << unit_lanes : 1, CCL_GPU_THREADS, tune);
}

void ccl_tune_sum_words(cclComm_t comm, uint64_t bytes, struct ccl_tune *tune)
{
    tune_threads(comm, bytes / 8, comm->n <= CCL_LL_FEW ? CCL_GPU_THREADS : CCL_SUM_FEW_THREADS, tune);
}

bool ccl_tune_is_reduction(uint32_t op)
{
    return op == CCL_OP_ALL_REDUCE || op == CCL_OP_REDUCE_SCATTER || op == CCL_OP_REDUCE;
}

bool ccl_tune_is_one_way(uint32_t op)
{
    return op == CCL_OP_BROADCAST || op == CCL_OP_GATHER || op == CCL_OP_SCATTER || op == CCL_OP_REDUCE;
}

/* Joining waits for all anyway, and the alternative to LL takes two hops and a handshake; but an all-reduce of one hop moves n times as much, which a GPU feels earlier. */
uint64_t ccl_tune_ll_limit(cclComm_t comm, const struct ccl_coll_call *call)
{
    const bool host = comm->props.is_host, all_reduce = call->op == CCL_OP_ALL_REDUCE;
    const uint64_t n = (uint64_t)comm->n, cap = ccl_comm_ll_cap(comm), join = LL_JOIN_BYTES / (n * n);
    uint64_t most = (uint64_t)(ccl_tune_is_one_way(call->op) ? comm->agreed.ll_one_way_max : comm->agreed.ll_parts_max);
    if (call->op == CCL_OP_ALL_TO_ALL_V || comm->agreed.variant == cclVariantStaged || (!host && ccl_tune_is_reduction(call->op) && n > CCL_PARTS_LL_JOINS)) {
        return 0;
    }
    if (comm->agreed.variant == cclVariantLL) {
        return cap;
    }
    if (all_reduce && host) {
        const uint64_t least = comm->agreed.host_flags & CCL_F_YIELD ? HOST_JOIN_CROWDED : HOST_JOIN;
        most = most < least ? least : most;
    } else if (comm->agreed.ll_sum_max != 0 && ccl_words_can_sum(call)) {
        most = (uint64_t)comm->agreed.ll_sum_max;
    } else if (all_reduce) {
        most = most < join ? most : join;
    }
    return most < cap ? most : cap;
}

int ccl_tune_asked(cclComm_t comm)
{
    const int most = comm->props.is_host ? comm->agreed.host_blocks : comm->agreed.blocks;
    return comm->agreed.comm_sms < most ? comm->agreed.comm_sms : most;
}

void ccl_tune_pairs(cclComm_t comm, uint64_t bytes, uint64_t part_bytes, struct ccl_tune *tune)
{
    ccl_tune(comm, cclVariantStaged, bytes, CCL_UNSET, CCL_UNSET, tune);
    if (comm->props.is_host || !ccl_comm_on_nvidia(comm) || comm->agreed.shared_ring) {
        return;
    }
    const int blocks = look_up(parts_own, bytes, comm->n), asked = ccl_tune_asked(comm);
    tune->blocks = blocks < comm->agreed.blocks ? blocks : comm->agreed.blocks;
    const uint64_t share = ccl_round_up(part_bytes / (uint64_t)(asked != CCL_UNSET ? asked : tune->blocks) + 1, 4096);
    tune->piece_bytes = share < PARTS_PIECE_MIN ? PARTS_PIECE_MIN : share < PARTS_PIECE_MAX ? share : PARTS_PIECE_MAX;
}

uint32_t ccl_tune_vectors(cclComm_t comm) { return ccl_comm_on_nvidia(comm) ? 8 : 4; }

/* Few blocks that store directly: bulk copies, if one block a unit is no loss even beside a second communicator. Pieces and their bytes are measured. */
static void tune_bulk(cclComm_t comm, uint64_t part_bytes, int blocks, struct ccl_tune *tune)
{
    if (comm->props.bulk_copy && comm->agreed.shared_ring && comm->n <= 4 && blocks <= BULK_BLOCKS && part_bytes >= BULK_PART &&
        2 * blocks * comm->n <= comm->props.units) {
        uint64_t piece = comm->n <= 2 ? 32 << 10 : 16 << 10;
        tune->bulk_pieces = comm->n <= 2 ? 6 : 3;
        tune->piece_bytes = piece < tune->piece_bytes ? piece : tune->piece_bytes;
    }
}

/* Two NVIDIA devices, large parts, fewer blocks than keep the link busy by their number alone. What is on its way at one time should be what the rate of the link
 * and its latency make, about 256 KiB between two H200: with more the stores to the peer hold up those to the own memory. 16, 24, 32 blocks: 332, 349, 349 GB/s, with
 * eight vectors a thread 301, 305, 329. The best window is narrow, so other numbers of blocks go unpaced. */
static void tune_pace(cclComm_t comm, uint64_t part_bytes, int blocks, struct ccl_tune *tune)
{
    if (comm->n == 2 && !comm->agreed.shared_ring && ccl_comm_on_nvidia(comm) && part_bytes >= PACED_PART) {
        tune->pace = blocks == 16 ? CCL_PACE(10, 2) : blocks == 24 ? CCL_PACE(10, 1) : blocks == 32 ? CCL_PACE(4, 2) : 0;
    }
}

void ccl_tune(cclComm_t comm, int variant, uint64_t part_bytes, int comm_sms, int threads, struct ccl_tune *tune)
{
    uint64_t slot = comm->args.lay.slot_bytes;
    tune->piece_bytes = slot;
    tune->pace = 0;
    if (comm->props.is_host) {
        uint64_t blocks = part_bytes / GRID_BYTES + 1;
        tune->threads = 1;
        tune->blocks = variant == cclVariantLL ? 1 : (int)(blocks < (uint64_t)comm->agreed.host_blocks ? blocks : (uint64_t)comm->agreed.host_blocks);
        return;
    }
    tune->threads = CCL_GPU_THREADS;
    if (variant == cclVariantLL) {
        tune_ll(comm, part_bytes, comm_sms, tune);
    } else if (!comm->agreed.shared_ring) {
        tune->blocks = look_up(push_own, part_bytes, comm->n);
    } else {
        tune->blocks = look_up(variant == cclVariantStaged ? staged_shared : direct_shared, part_bytes, comm->n);
    }
    if (threads != CCL_UNSET) {
        tune->threads = round_waves((uint64_t)threads, CCL_GPU_THREADS);
    }
    tune->blocks = tune->blocks < comm->agreed.blocks ? tune->blocks : comm->agreed.blocks;
    /* Small parts: one piece a block, a contiguous range. Large ones: pieces a thread moves in one go. */
    int blocks = comm_sms != CCL_UNSET ? comm_sms : tune->blocks;
    blocks = variant == cclVariantPartitioned && blocks > comm->n ? blocks / comm->n : blocks;
    uint64_t share = ccl_round_up((part_bytes + (uint64_t)blocks - 1) / (uint64_t)blocks, 16);
    uint64_t go = (uint64_t)tune->threads * 16 * TUNE_VECTORS;
    tune->piece_bytes = share < go ? share : go;
    tune->piece_bytes = tune->piece_bytes < slot ? tune->piece_bytes : slot;
    if (variant == cclVariantDirect) {
        tune_bulk(comm, part_bytes, blocks, tune);
        if (threads == CCL_UNSET) {
            tune_pace(comm, part_bytes, blocks, tune);
        }
    }
}
