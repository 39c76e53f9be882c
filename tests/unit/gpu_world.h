/* SPDX-License-Identifier: MIT
 *
 * A world of ranks in one process whose kernels run as coroutines, and calls of all-gathers on it: arguments as src/coll/plan.c makes them, inputs,
 * comparison of the whole output buffer with what must stand there. */
#ifndef CCL_GPU_WORLD_H
#define CCL_GPU_WORLD_H

#include "gpu_threads.h"

#define PAD 64u
#define DST_BYTES (1u << 20)

struct rank {
    struct ccl_k_coll_args args;
    struct ccl_k_priv *priv;
    struct ccl_k_page *page;
    struct ccl_k_comm comm;
    struct ccl_k_coll_args full; /* as in device memory: what is the same in all calls */
    struct ccl_k_words_args words;
    char *ctl, *src, *dst;
    kernel_fn fn;
    uint32_t grid, threads;
    uint32_t leaves; /* destroys its communicator as soon as its kernel has ended */
};

static struct rank ranks[RANKS];
static uint64_t ctl_table[RANKS], page_table[RANKS], windows[(2 * RANKS + 1) * CCL_WINDOWS];
static uint32_t world;

static void make_world(uint32_t n, uint32_t slots, uint32_t slot_bytes, uint32_t shared)
{
    struct ccl_k_layout lay = {.flag_stride = 8, .flag_row = 64, .blocks = GRID, .slots = slots, .slot_bytes = slot_bytes, .shared_ring = shared};
    lay.full = 2 * n * 64;
    lay.credit = lay.full + GRID * 64;
    lay.ll = 8192;
    lay.ring = lay.ll + 2ull * n * CCL_LL_SRC(n);
    lay.bytes = lay.ring + (uint64_t)n * GRID * slots * slot_bytes;
    world = n;
    memset(windows, 0, sizeof(windows));
    for (uint32_t r = 0; r < n; r++) {
        struct rank *k = &ranks[r];
        free(k->priv), free(k->page), free(k->ctl), free(k->src), free(k->dst);
        memset(k, 0, sizeof(*k));
        k->priv = calloc(1, sizeof(*k->priv));
        k->priv->op = 1ull << 32;
        k->page = calloc(1, sizeof(*k->page) + 2 * n * sizeof(struct ccl_k_err));
        k->ctl = aligned_alloc(4096, (lay.bytes + 4095) / 4096 * 4096);
        memset(k->ctl, 0, lay.bytes);
        k->src = aligned_alloc(4096, DST_BYTES);
        k->dst = aligned_alloc(4096, DST_BYTES);
        ctl_table[r] = (uint64_t)k->ctl;
        page_table[r] = (uint64_t)k->page;
        k->comm = (struct ccl_k_comm){(uint64_t)ctl_table, (uint64_t)page_table, (uint64_t)windows};
        k->args.priv = (uint64_t)k->priv;
        k->args.page = (uint64_t)k->page;
        k->args.comm = (uint64_t)&k->comm;
        k->args.lay = lay;
        k->args.rank = r;
        k->args.n = n;
    }
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t q = 0; q < n; q++) {
            ranks[r].args.peer[q].ctl = ctl_table[q];
        }
        ranks[r].full = ranks[r].args;
    }
}

static void make_thread(struct thread *t)
{
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = t->stack;
    t->context.uc_stack.ss_size = STACK;
    makecontext(&t->context, enter, 0);
}

/* Block b has run: was it the last of a rank that leaves? */
static void close_page(const struct block *blocks, uint32_t num_blocks, const struct block *b)
{
    struct rank *k = &ranks[b->args->rank];
    uint32_t alive = 0;
    for (uint32_t i = 0; i < num_blocks; i++) {
        alive += blocks[i].args == b->args ? blocks[i].alive : 0;
    }
    if (k->leaves && alive == 0) {
        k->page->state = CCL_PAGE_CLOSED;
    }
}

static void run_all(const char *what)
{
    static char *stacks;
    static struct thread *threads;
    static struct block blocks[RANKS * GRID];
    const size_t bytes = (size_t)(__stop_gpu_shared - __start_gpu_shared);
    uint32_t num_blocks = 0, num_threads = 0, left;
    if (!stacks) {
        stacks = malloc((size_t)STACK * RANKS * GRID * (THREADS + 32));
        threads = calloc(RANKS * GRID * (THREADS + 32), sizeof(*threads));
    }
    for (uint32_t r = 0; r < world; r++) {
        for (uint32_t i = 0; i < ranks[r].grid; i++) {
            struct block *b = &blocks[num_blocks++];
            char *shared = b->shared ? b->shared : malloc(bytes);
            memset(shared, 0xa5, bytes);
            *b = (struct block){.index = i, .grid = ranks[r].grid, .threads = ranks[r].threads, .alive = ranks[r].threads};
            b->shared = shared;
            b->fn = ranks[r].fn;
            b->args = &ranks[r].args;
            b->first = &threads[num_threads];
            for (uint32_t t = 0; t < b->threads; t++) {
                struct thread *th = &threads[num_threads];
                *th = (struct thread){.block = b, .tid = t, .stack = stacks + (size_t)num_threads * STACK};
                make_thread(th);
                b->warp_alive[t / 32]++;
                num_threads++;
            }
        }
    }
    uint64_t slices = 0;
    for (left = num_threads; left != 0;) {
        struct block *b = &blocks[dice(num_blocks)];
        if (b->alive == 0) {
            continue;
        }
        memcpy(__start_gpu_shared, b->shared, bytes);
        uint32_t start = dice(b->threads), count = 1 + dice(2 * b->threads);
        for (uint32_t i = 0; i < count; i++) {
            struct thread *t = &b->first[(start + i) % b->threads];
            if (!t->done) {
                running = t;
                swapcontext(&scheduler, &t->context);
                left -= (uint32_t)t->done;
            }
        }
        memcpy(b->shared, __start_gpu_shared, bytes);
        close_page(blocks, num_blocks, b);
        if (++slices > 1000000) {
            printf("FAILED %s: %u threads never end, %u ranks\n", what, left, world);
            exit(1);
        }
    }
}

/* ---- calls ---- */

struct call {
    const char *name;
    kernel_fn fn;
    uint32_t rows, row_bytes, pad_src, pad_dst, piece_rows, piece_bytes; /* pads: pitch beyond the row */
    uint32_t shift_src, shift_dst, skew; /* buffers of rank r start so many bytes behind an aligned address, and r x skew more */
    uint32_t in_place;
    uint32_t staged; /* bit a rank: its receive buffer is in no window */
    uint32_t group, grid, threads, flags;
    uint32_t words; /* bit a rank: where its buffers allow, it runs ll_words_W */
};

static void words_2(const struct ccl_k_coll_args *a) { ccl_k_ll_words_2(&ranks[a->rank].words); }
static void words_3(const struct ccl_k_coll_args *a) { ccl_k_ll_words_3(&ranks[a->rank].words); }
static void words_4(const struct ccl_k_coll_args *a) { ccl_k_ll_words_4(&ranks[a->rank].words); }
static const kernel_fn words_of[] = {words_2, words_3, words_4};
static uint64_t words_calls;

/* As plan_words of src/coll/all_gather.c. */
static void set_words(struct rank *k)
{
    const struct ccl_k_coll_args *a = &k->args;
    const uint32_t flat = CCL_F_FLAT_SRC | CCL_F_FLAT_DST;
    if ((a->flags & flat) != flat || ((a->part_bytes | a->src | a->dst) & 7) != 0 || a->dst_part != a->part_bytes) {
        return;
    }
    k->words = (struct ccl_k_words_args){.full = (uint64_t)&k->full, .priv = a->priv, .src = a->src, .dst = a->dst,
                                         .adv = (uint32_t)a->lay.adv, .ll = (uint32_t)a->lay.ll, .part_bytes = (uint32_t)a->part_bytes,
                                         .rank = a->rank, .sig = a->sig, .div_mul = a->div_mul, .word1 = a->desc.word1,
                                         .rows = (uint32_t)a->desc.rows, .count = (uint32_t)a->desc.count};
    for (uint32_t d = 0; d < world; d++) {
        k->words.peer[d] = ctl_table[(a->rank + d) % world];
    }
    k->fn = words_of[world - 2];
    words_calls++;
}

static char input(uint32_t r, uint32_t i, uint32_t round) { return (char)(r * 37 + i * 11 + i / 251 + round * 5 + 1); }

static uint32_t dst_at(uint32_t r, const struct call *c) { return PAD + c->shift_dst + r * c->skew % 32; }

/* Are all pieces runs of 16-byte vectors: as find_flat of src/coll/plan.c. */
static void set_flat(struct ccl_k_coll_args *a, uint32_t threads)
{
    const uint32_t flat = CCL_F_FLAT_SRC | CCL_F_FLAT_DST;
    uint64_t piece = a->rows == 1 ? a->piece_bytes : a->piece_rows * a->row_bytes;
    a->flat_piece = a->unit_shift = 0;
    if ((a->flags & flat) == flat && (a->rows == 1 || a->pieces_across == 1) && a->part_bytes % 16 == 0 && piece % 16 == 0) {
        while (2u << a->unit_shift <= CCL_CHUNK_UNITS && (threads * 16u << a->unit_shift) < piece) {
            a->unit_shift++;
        }
        a->flat_piece = (threads * 16u << a->unit_shift) < piece ? 0 : (uint32_t)piece;
    }
}

static void set_call(uint32_t r, const struct call *c)
{
    struct rank *k = &ranks[r];
    struct ccl_k_coll_args *a = &k->args;
    a->rows = c->rows;
    a->row_bytes = c->row_bytes;
    a->ld_dst = c->row_bytes + c->pad_dst;
    a->ld_src = c->in_place ? a->ld_dst : c->row_bytes + c->pad_src;
    a->dst_part = c->rows * a->ld_dst;
    a->dst = (uint64_t)k->dst + dst_at(r, c);
    a->src = c->in_place ? a->dst + r * a->dst_part : (uint64_t)k->src + c->shift_src + r * c->skew % 32;
    a->part_bytes = (uint64_t)c->rows * c->row_bytes;
    a->piece_rows = c->piece_rows;
    a->piece_bytes = c->piece_bytes;
    a->pieces_across = (c->row_bytes + c->piece_bytes - 1) / c->piece_bytes;
    a->pieces_down = (c->rows + c->piece_rows - 1) / c->piece_rows;
    a->flags = c->flags;
    const uint32_t pace = CCL_FLAT_UNITS && c->threads >= 32 && dice(4) == 0 ? CCL_PACE(1 + dice(c->threads / 32), dice(3)) : 0; /* each rank for itself */
    a->flags |= c->rows == 1 || a->ld_src == a->row_bytes ? CCL_F_FLAT_SRC : 0u;
    a->flags |= c->rows == 1 || a->ld_dst == a->row_bytes ? CCL_F_FLAT_DST : 0u;
    uint64_t pairs = (a->part_bytes + 7) / 8;
    a->div_mul = pairs > 1 ? (uint32_t)(((1ull << 32) + pairs - 1) / pairs) : 0;
    a->group = c->group ? c->group : world;
    set_flat(a, c->threads);
    a->flags |= a->flat_piece != 0 && 2ull * c->grid * a->flat_piece <= a->part_bytes ? pace << CCL_F_PACE_AT : 0u; /* as plan.c */
    a->sig = 1000 + c->rows * 7 + c->row_bytes;
    a->where = (c->staged >> r & 1) ? 0 : 1ull << 48 | dst_at(r, c);
    a->expect_id = a->where != 0 ? 1 : 0;
    for (uint32_t q = 0; q < world; q++) {
        a->peer[q].win = (uint64_t)ranks[q].dst;
        windows[q * CCL_WINDOWS + 1] = (uint64_t)ranks[q].dst;
    }
    a->desc = (struct ccl_k_desc){.word1 = CCL_OP_ALL_GATHER, .blocks = c->grid, .rows = c->rows, .count = c->row_bytes, .ld = a->ld_dst};
    k->fn = c->fn;
    k->grid = c->grid;
    k->threads = c->threads;
    if (c->words >> r & 1) {
        set_words(k);
    }
}

static void check(uint32_t r, const struct call *c, uint32_t round)
{
    const struct ccl_k_coll_args *a = &ranks[r].args;
    static char want[DST_BYTES];
    memset(want, 0x5a, sizeof(want));
    for (uint32_t q = 0; q < world; q++) {
        for (uint32_t i = 0; i < c->rows; i++) {
            for (uint32_t j = 0; j < c->row_bytes; j++) {
                want[dst_at(r, c) + q * a->dst_part + i * a->ld_dst + j] = input(q, i * c->row_bytes + j, round);
            }
        }
    }
    for (uint32_t i = 0; i < DST_BYTES; i++) {
        if (want[i] != ranks[r].dst[i]) {
            printf("FAILED %s, %u ranks, round %u: rank %u byte %u is %d, not %d\n", c->name, world, round, r, i, ranks[r].dst[i], want[i]);
            failures++;
            return;
        }
    }
}

static void prepare(uint32_t r, const struct call *c, uint32_t round)
{
    set_call(r, c);
    memset(ranks[r].dst, 0x5a, DST_BYTES);
    for (uint32_t i = 0; i < c->rows; i++) {
        for (uint32_t j = 0; j < c->row_bytes; j++) {
            *(char *)(ranks[r].args.src + i * ranks[r].args.ld_src + j) = input(r, i * c->row_bytes + j, round);
        }
    }
}

__attribute__((unused)) static void gather(const struct call *c, uint32_t round)
{
    for (uint32_t r = 0; r < world; r++) {
        prepare(r, c, round);
    }
    run_all(c->name);
    for (uint32_t r = 0; r < world; r++) {
        if (ranks[r].page->abort != 0 || (uint32_t)ranks[r].priv->op != 0) {
            printf("FAILED %s: rank %u has abort %llx, op %llx\n", c->name, r, (unsigned long long)ranks[r].page->abort,
                   (unsigned long long)ranks[r].priv->op);
            failures++;
            return;
        }
        check(r, c, round);
    }
}

/* The kernels with the world compiled in, in place of the general ones. */
__attribute__((unused)) static kernel_fn of_world(kernel_fn any, uint32_t n)
{
    static const kernel_fn ll[] = {ccl_k_ll_2, ccl_k_ll_3, ccl_k_ll_4}, push[] = {ccl_k_push_2, ccl_k_push_3, ccl_k_push_4};
    return any == ccl_k_ll_n ? ll[n - 2] : any == ccl_k_push_n ? push[n - 2] : any;
}

/* Random calls of 2 to RANKS ranks, argv[1] or so many. Returns the exit status. */
static __attribute__((unused)) int run_random(int argc, char **argv, uint32_t count, void (*run_one)(uint32_t n, uint32_t number))
{
    count = argc > 1 ? (uint32_t)atoi(argv[1]) : count;
    for (uint32_t i = 0; i < count && failures < 10; i++) {
        run_one(2 + dice(RANKS - 1), i);
    }
    if (failures == 0) {
        printf("ok\n");
    }
    return failures != 0;
}

/* Behind a call: rank r has not failed, and its memory is as wanted, byte for byte. */
static __attribute__((unused)) void look_at_rank(const char *text, uint32_t r, const uint8_t *want, uint32_t bytes)
{
    if (ranks[r].page->abort != 0) {
        printf("FAILED %s: rank %u has abort %llx\n", text, r, (unsigned long long)ranks[r].page->abort);
        failures++;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        if (want[i] != (uint8_t)ranks[r].dst[i]) {
            printf("FAILED %s: rank %u, byte %u of its memory is %02x, not %02x\n", text, r, i, (uint8_t)ranks[r].dst[i], want[i]);
            failures++;
            break;
        }
    }
}

#endif
