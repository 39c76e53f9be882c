/* SPDX-License-Identifier: MIT
 *
 * The choices of an all-gather: variant, grid, tile. They depend only on what all ranks share (shape, type, config, agreed table), never on
 * pointers or on the pitch of the own input, so all ranks decide alike; the signature in the advert proves it. */
#include "coll/coll.h"
#include "coll/tune.h"

#include <limits.h>
#include <string.h>

#include "util/log.h"

#define MAX_OFFSET (1ull << 47)      /* advert offsets have 48 bits */
#define COPY_THREADS 32
#define HOST_STREAM_BYTES (3u << 20) /* input and output together: above, the host backend stores around the caches */

size_t ccl_type_size(cclDataType_t type)
{
    static const uint8_t sizes[cclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return sizes[type];
}

struct shape {
    uint64_t rows, row_bytes, esize, part_bytes;
};

static cclResult_t check_fused_unset(const cclCallConfig_t *c)
{
    const struct {
        const char *name;
        int value;
    } fields[] = {{"algorithm", c->algorithm},   {"layout", c->layout},           {"fetch", c->fetch},
                  {"gemm_tile_m", c->gemm_tile_m}, {"gemm_tile_n", c->gemm_tile_n}, {"gemm_tile_k", c->gemm_tile_k},
                  {"group_m", c->group_m},       {"k_per_flag", c->k_per_flag},   {"num_fetch_sms", c->num_fetch_sms},
                  {"fixed_order", c->fixed_order}, {"trace", c->trace}};
    for (size_t i = 0; i < CCL_ARRAY_LEN(fields); i++) {
        CCL_CHECK(fields[i].value == CCL_UNSET, cclInvalidArgument, CCL_COLL,
                  "config: %s is %d, but an all-gather has no such tunable", fields[i].name, fields[i].value);
    }
    return cclSuccess;
}

static cclResult_t check_config(cclComm_t comm, const cclCallConfig_t *c)
{
    CCL_CHECK(c->comm_sms == CCL_UNSET || (c->comm_sms >= 0 && c->comm_sms <= comm->agreed.blocks), cclInvalidArgument,
              CCL_COLL, "config: comm_sms is %d, not 0 to %d", c->comm_sms, comm->agreed.blocks);
    CCL_CHECK(c->variant == CCL_UNSET || (c->variant >= cclVariantAuto && c->variant <= cclVariantCopy), cclInvalidArgument,
              CCL_COLL, "config: variant %d is unknown", c->variant);
    CCL_CHECK(c->comm_sms != 0 || c->variant == CCL_UNSET || c->variant == cclVariantAuto || c->variant == cclVariantCopy,
              cclInvalidArgument, CCL_COLL, "config: comm_sms 0 asks for the copy engine, but variant is %s",
              ccl_variant_names[c->variant]);
    CCL_CHECK(c->variant != cclVariantCopy || c->comm_sms == CCL_UNSET || c->comm_sms == 0, cclInvalidArgument, CCL_COLL,
              "config: variant copy uses no blocks, but comm_sms is %d", c->comm_sms);
    CCL_CHECK(c->tile_m == CCL_UNSET || c->tile_m > 0, cclInvalidArgument, CCL_COLL, "config: tile_m is %d, not positive",
              c->tile_m);
    CCL_CHECK(c->tile_n == CCL_UNSET || c->tile_n > 0, cclInvalidArgument, CCL_COLL, "config: tile_n is %d, not positive",
              c->tile_n);
    CCL_CHECK(c->peers_per_wait == CCL_UNSET || c->peers_per_wait == 1 || c->peers_per_wait == 2 ||
                  c->peers_per_wait == 4 || c->peers_per_wait == comm->n,
              cclInvalidArgument, CCL_COLL, "config: peers_per_wait is %d, not 1, 2, 4 or the world size %d", c->peers_per_wait,
              comm->n);
    int max_threads = comm->props.is_host ? 1 : CCL_GPU_THREADS;
    CCL_CHECK(c->threads == CCL_UNSET || (c->threads > 0 && c->threads <= max_threads), cclInvalidArgument, CCL_COLL,
              "config: threads is %d, not 1 to %d", c->threads, max_threads);
    return check_fused_unset(c);
}

/* *flags: what an explicit choice rules out. Auto leaves direct or staged to each pair of ranks. */
static cclResult_t choose_variant(cclComm_t comm, const struct shape *s, cclCallConfig_t *c, uint32_t *flags)
{
    const uint64_t ll_cap = ccl_comm_ll_cap(comm);
    if (c->comm_sms == 0) {
        c->variant = cclVariantCopy;
    } else if (c->variant == CCL_UNSET) {
        c->variant = comm->agreed.variant;
    }
    if (c->variant == cclVariantAuto) {
        const bool words = s->rows == 1 && s->part_bytes % 8 == 0; /* else LL goes byte by byte */
        const int64_t ll_max = words ? comm->agreed.ll_words_max : comm->agreed.ll_max;
        c->variant = (int64_t)s->part_bytes <= ll_max && s->part_bytes <= ll_cap ? cclVariantLL : cclVariantStaged;
        return cclSuccess;
    }
    CCL_CHECK(c->variant != cclVariantLL || s->part_bytes <= ll_cap, cclInvalidArgument, CCL_COLL,
              "variant ll: %llu bytes per rank, at most %llu fit its scratch", (unsigned long long)s->part_bytes,
              (unsigned long long)ll_cap);
    *flags |= c->variant == cclVariantStaged ? CCL_F_FORCE_STAGED : 0u;
    *flags |= c->variant == cclVariantDirect ? CCL_F_FORCE_DIRECT : 0u;
    CCL_CHECK(c->variant != cclVariantPartitioned || comm->n <= comm->agreed.blocks, cclInvalidUsage, CCL_COLL,
              "variant partitioned needs a block for each of %d ranks, the limit is %d", comm->n, comm->agreed.blocks);
    return cclSuccess;
}

/* Columns of a piece where rows are longer than `fit` columns: where it can be, equal pieces of whole vectors, which make contiguous rows one run (find_flat). */
static uint64_t even_columns(const struct shape *s, uint64_t cols, uint64_t fit)
{
    const uint64_t least = (cols + fit - 1) / fit;
    for (uint64_t parts = least; s->rows > 1 && parts < least + 64; parts++) {
        if (cols % parts == 0 && cols / parts * s->esize % 16 == 0) {
            return cols / parts;
        }
    }
    return fit;
}

/* Pieces: what moves as one, at most `most` bytes. Explicit tiles are kept as they are and cut only where a ring slot is smaller. */
static void cut(const struct shape *s, uint64_t most, uint64_t slot, cclCallConfig_t *c, struct ccl_k_coll_args *a)
{
    uint64_t cols = s->row_bytes / s->esize;
    if (c->tile_n == CCL_UNSET) {
        uint64_t fit = most / s->esize;
        c->tile_n = (int)(cols <= fit ? cols : even_columns(s, cols, fit));
    }
    uint64_t tile_bytes = (uint64_t)c->tile_n * s->esize;
    tile_bytes = tile_bytes < s->row_bytes ? tile_bytes : s->row_bytes;
    a->piece_bytes = tile_bytes < slot ? tile_bytes : slot / s->esize * s->esize;
    uint64_t fit_rows = slot / a->piece_bytes, auto_rows = most / a->piece_bytes;
    if (c->tile_m == CCL_UNSET) {
        auto_rows = auto_rows < 1 ? 1 : auto_rows;
        c->tile_m = (int)(s->rows < auto_rows ? s->rows : auto_rows);
    }
    a->piece_rows = (uint64_t)c->tile_m < fit_rows ? (uint64_t)c->tile_m : fit_rows;
    a->piece_rows = a->piece_rows < s->rows ? a->piece_rows : s->rows;
    a->pieces_across = (s->row_bytes + a->piece_bytes - 1) / a->piece_bytes;
    a->pieces_down = (s->rows + a->piece_rows - 1) / a->piece_rows;
}

/* A kernel of one block before the copies and one behind them; nothing is cut. */
static cclResult_t choose_copy(cclComm_t comm, const struct shape *s, cclCallConfig_t *c, struct ccl_k_coll_args *a,
                               struct ccl_plan *plan)
{
    int threads = comm->props.is_host ? 1 : COPY_THREADS;
    CCL_CHECK(c->threads == CCL_UNSET || c->threads == threads, cclInvalidArgument, CCL_COLL,
              "config: threads is %d, but the kernels of variant copy have %d", c->threads, threads);
    CCL_CHECK(c->tile_m == CCL_UNSET && c->tile_n == CCL_UNSET, cclInvalidArgument, CCL_COLL,
              "config: %s is %d, but the copy engine has no tiles", c->tile_m != CCL_UNSET ? "tile_m" : "tile_n",
              c->tile_m != CCL_UNSET ? c->tile_m : c->tile_n);
    uint64_t cols = s->row_bytes / s->esize;
    c->tile_m = (int)(s->rows < INT_MAX ? s->rows : INT_MAX);
    c->tile_n = (int)(cols < INT_MAX ? cols : INT_MAX);
    c->threads = threads;
    c->comm_sms = 0;
    a->piece_rows = s->rows;
    a->piece_bytes = s->row_bytes;
    a->pieces_down = a->pieces_across = 1;
    plan->grid = 1;
    return cclSuccess;
}

/* GPU: are the pieces runs of 16-byte vectors, so many a thread at most, as kernels/push_flat.h wants them? For this rank's pitches; the peers may see it otherwise. */
static void find_flat(const struct shape *s, uint32_t threads, uint32_t vectors, struct ccl_k_coll_args *a)
{
    const uint32_t flat = CCL_F_FLAT_SRC | CCL_F_FLAT_DST;
    const bool across = a->pieces_across > 1, uneven = s->rows > 1 && (a->piece_rows > 1 || s->row_bytes % a->piece_bytes != 0);
    const uint64_t piece = across ? a->piece_bytes : a->piece_rows * s->row_bytes;
    a->flat_piece = 0;
    a->unit_shift = 0;
    if ((a->flags & flat) != flat || (across && uneven) || s->part_bytes % 16 != 0 || piece % 16 != 0) {
        return;
    }
    while (1u << a->unit_shift < vectors && ((uint64_t)threads * 16 << a->unit_shift) < piece) {
        a->unit_shift++;
    }
    a->flat_piece = ((uint64_t)threads * 16 << a->unit_shift) < piece ? 0 : (uint32_t)piece;
}

/* Of the call, or of the communicator, which LL does not heed; CCL_UNSET: neither. */
static int blocks_asked(cclComm_t comm, const cclCallConfig_t *c)
{
    int asked = c->comm_sms != CCL_UNSET || c->variant == cclVariantLL ? c->comm_sms : comm->agreed.comm_sms;
    return asked < comm->agreed.blocks ? asked : comm->agreed.blocks;
}

static cclResult_t choose_grid(cclComm_t comm, const struct ccl_tune *tune, cclCallConfig_t *c,
                               struct ccl_k_coll_args *a, struct ccl_plan *plan)
{
    int wanted = blocks_asked(comm, c);
    uint64_t pieces = a->pieces_down * a->pieces_across, blocks = (uint64_t)tune->blocks;
    if (wanted == CCL_UNSET) {
        wanted = c->variant == cclVariantLL || blocks < pieces ? (int)blocks : (int)pieces;
        wanted = c->variant == cclVariantPartitioned && wanted < comm->n ? comm->n : wanted;
    }
    if (wanted > comm->agreed.blocks) {
        wanted = comm->agreed.blocks;
    }
    if (c->variant == cclVariantPartitioned) {
        CCL_CHECK(wanted >= comm->n, cclInvalidArgument, CCL_COLL,
                  "variant partitioned: comm_sms is %d, at least one block for each of %d ranks is needed", wanted, comm->n);
    }
    uint64_t channels = c->variant == cclVariantPartitioned ? (uint64_t)wanted / (uint64_t)comm->n : (uint64_t)wanted;
    CCL_CHECK(pieces / channels < CCL_STEP_DIRECT - 1, cclInvalidArgument, CCL_COLL,
              "tiles of %d x %d cut a part into %llu pieces, too many for %d blocks", c->tile_m, c->tile_n,
              (unsigned long long)pieces, wanted);
    c->comm_sms = wanted;
    plan->grid = (uint32_t)wanted;
    return cclSuccess;
}

uint32_t ccl_coll_signature(const uint64_t *words, size_t count)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a, 64 bits, folded */
    for (size_t i = 0; i < count; i++) {
        for (int b = 0; b < 64; b += 8) {
            h = (h ^ (words[i] >> b & 0xff)) * 0x100000001b3u;
        }
    }
    uint32_t sig = (uint32_t)(h ^ h >> 32);
    return sig == CCL_SIG_REVOKED ? 0 : sig;
}

static uint32_t signature(const struct ccl_k_coll_args *a, const struct ccl_plan *plan, uint64_t ld_recv)
{
    const uint64_t words[] = {a->desc.word1,   a->rows,      a->row_bytes,     ld_recv,       plan->kernel,
                              plan->grid,      a->piece_rows, a->piece_bytes,
                              a->flags & (CCL_F_FORCE_STAGED | CCL_F_FORCE_DIRECT), a->desc.ld_send};
    return ccl_coll_signature(words, CCL_ARRAY_LEN(words));
}

static enum ccl_kernel choose_kernel(int n, int variant, uint32_t op)
{
    if (op == CCL_OP_BARRIER) {
        return CCL_KERNEL_barrier;
    }
    if (variant == cclVariantCopy) {
        return CCL_KERNEL_copy_open;
    }
    if (variant == cclVariantPartitioned) {
        return CCL_KERNEL_push_part;
    }
    enum ccl_kernel first = variant == cclVariantLL ? CCL_KERNEL_ll_2 : CCL_KERNEL_push_2;
    return n >= 2 && n <= 8 ? (enum ccl_kernel)((int)first + n - 2) : (enum ccl_kernel)((int)first + 7);
}

static cclResult_t check_shape(cclComm_t comm, const struct ccl_coll_call *call, struct shape *s)
{
    uint64_t n = (uint64_t)comm->n;
    s->esize = ccl_type_size(call->type);
    CCL_CHECK(call->rows <= MAX_OFFSET && call->ld_recv <= MAX_OFFSET && call->ld_send <= MAX_OFFSET &&
                  (call->rows == 0 || (call->ld_recv <= MAX_OFFSET / s->esize / n / call->rows &&
                                       call->ld_send <= MAX_OFFSET / s->esize / call->rows)),
              cclInvalidArgument, CCL_COLL, "%zu rows of pitch %zu on %d ranks exceed the %llu bytes of a window", call->rows,
              call->ld_recv, comm->n, (unsigned long long)MAX_OFFSET);
    s->rows = call->rows;
    s->row_bytes = call->count * s->esize;
    s->part_bytes = s->rows * s->row_bytes;
    return cclSuccess;
}

cclResult_t ccl_coll_plan(cclComm_t comm, const struct ccl_coll_call *call, struct ccl_plan *plan,
                          struct ccl_k_coll_args *args)
{
    const cclCallConfig_t unset = CCL_CALL_CONFIG_INITIALIZER;
    struct ccl_k_coll_args a = *args;
    cclCallConfig_t c = call->has_config ? call->config : unset;
    struct shape s;
    struct ccl_tune tune = {.blocks = 1, .threads = comm->props.is_host ? 1 : CCL_GPU_THREADS};
    memset(plan, 0, sizeof(*plan));
    CCL_TRY(check_shape(comm, call, &s));
    CCL_TRY(check_config(comm, &c));
    a.flags = comm->agreed.host_flags;
    if (call->op == CCL_OP_BARRIER) {
        c.variant = cclVariantAuto;
        c.comm_sms = c.tile_m = c.tile_n = 1;
        plan->grid = 1;
    } else {
        CCL_TRY(choose_variant(comm, &s, &c, &a.flags));
        if (c.variant == cclVariantCopy) {
            CCL_TRY(choose_copy(comm, &s, &c, &a, plan));
            tune.threads = c.threads;
        } else {
            bool forced = c.variant != cclVariantStaged || (a.flags & CCL_F_FORCE_STAGED); /* auto is tuned as direct */
            ccl_tune(comm, forced ? c.variant : cclVariantDirect, s.part_bytes, blocks_asked(comm, &c), c.threads, &tune);
            cut(&s, tune.piece_bytes, comm->args.lay.slot_bytes, &c, &a);
            CCL_TRY(choose_grid(comm, &tune, &c, &a, plan));
        }
    }
    a.rows = s.rows;
    a.row_bytes = s.row_bytes;
    a.part_bytes = s.part_bytes;
    a.ld_src = call->ld_send * s.esize;
    a.ld_dst = call->ld_recv * s.esize;
    a.dst_part = s.rows * a.ld_dst;
    a.flags |= s.rows == 1 || a.ld_src == a.row_bytes ? CCL_F_FLAT_SRC : 0u;
    a.flags |= s.rows == 1 || a.ld_dst == a.row_bytes ? CCL_F_FLAT_DST : 0u;
    a.flags |= comm->props.is_host && s.part_bytes * ((uint64_t)comm->n + 1) > HOST_STREAM_BYTES ? CCL_F_STREAM : 0u;
    uint64_t pairs = (s.part_bytes + 7) / 8;
    a.div_mul = pairs > 1 ? (uint32_t)(((1ull << 32) + pairs - 1) / pairs) : 0;
    plan->kernel = choose_kernel(comm->n, c.variant, call->op);
    bool by_pair = c.variant == cclVariantStaged && !(a.flags & CCL_F_FORCE_STAGED); /* auto: direct or staged */
    plan->threads = (uint32_t)tune.threads;
    c.threads = tune.threads;
    find_flat(&s, plan->threads, ccl_tune_vectors(comm), &a);
    if (tune.bulk_pieces != 0 && a.flat_piece != 0) {
        a.flags |= CCL_F_BULK;
        plan->shared_bytes = tune.bulk_pieces * a.flat_piece;
    }
    if (a.flat_piece != 0 && 2ull * plan->grid * a.flat_piece <= s.part_bytes) { /* blocks with one piece or none go another way, which leaves gaps in the paced one */
        a.flags |= tune.pace << CCL_F_PACE_AT;
    }
    plan->threads += !comm->props.is_host && c.variant == cclVariantLL ? CCL_GPU_HELPER_THREADS : 0;
    /* On a GPU, who stages keeps step with all peers, LL hears from all, and a partitioned block has one peer. */
    bool groups = comm->props.is_host || by_pair || c.variant == cclVariantDirect;
    c.peers_per_wait = groups && c.peers_per_wait != CCL_UNSET ? c.peers_per_wait : comm->n;
    a.group = (uint32_t)c.peers_per_wait;
    a.desc = (struct ccl_k_desc){.word1 = CCL_WORD1(call->op, call->type, 0, 0),
                                 .variant = by_pair ? cclVariantAuto : (uint32_t)c.variant,
                                 .blocks = c.variant == cclVariantCopy ? 0 : plan->grid,
                                 .tile_m = (uint32_t)c.tile_m,
                                 .tile_n = (uint32_t)c.tile_n,
                                 .rows = call->rows,
                                 .count = call->count,
                                 .ld = call->ld_recv,
                                 .ld_send = c.variant == cclVariantCopy ? call->ld_send : 0};
    a.sig = signature(&a, plan, call->ld_recv);
    plan->valid = true;
    plan->has_config = call->has_config;
    plan->config = call->config;
    plan->op = call->op;
    plan->type = (uint32_t)call->type;
    plan->rows = call->rows;
    plan->count = call->count;
    plan->ld_send = call->ld_send;
    plan->ld_recv = call->ld_recv;
    plan->recv_bytes = call->rows == 0 ? 0 : (((size_t)comm->n * call->rows - 1) * call->ld_recv + call->count) * s.esize;
    plan->wants_window = call->op != CCL_OP_BARRIER && c.variant != cclVariantLL && c.variant != cclVariantCopy &&
                         !(a.flags & CCL_F_FORCE_STAGED);
    plan->needs_window = (a.flags & CCL_F_FORCE_DIRECT) != 0;
    plan->effective = c;
    *args = a;
    return cclSuccess;
}
