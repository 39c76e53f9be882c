/* SPDX-License-Identifier: MIT
 *
 * Runs the GPU bodies of the kernels on the CPU (gpu_shim.h) for 2 to 4 ranks: LL, direct, staged with both ring forms and 2 or 4 slots, mixed,
 * partitioned, groups of peers, odd shapes and alignments, in random interleavings; then calls that do not fit each other. Proves that every byte
 * arrives, nothing beside it is touched, all threads leave, and a mismatch is reported to every rank before a byte is stored. */
/* CTEST: labels quick; timeout 120 */
#include "gpu_shim.h"

#include "ll.hip"
#include "push.hip"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#define RANKS 4
#define GRID 6
#define THREADS 128
#define STACK (48u << 10)
#define PAD 64u
#define DST_BYTES (1u << 20)

extern char __start_gpu_shared[], __stop_gpu_shared[];

typedef void (*kernel_fn)(const struct ccl_k_coll_args *);

struct block {
    uint32_t index, grid, threads, alive, arrived, turn;
    uint32_t warp_alive[THREADS / 32 + 1], warp_arrived[THREADS / 32 + 1], warp_turn[THREADS / 32 + 1];
    char *shared;
    kernel_fn fn;
    const struct ccl_k_coll_args *args;
    struct thread *first;
};

struct thread {
    ucontext_t context;
    struct block *block;
    uint32_t tid;
    int done;
    char *stack;
};

static ucontext_t scheduler;
static struct thread *running;
static uint32_t seed = 1, failures;

static uint32_t dice(uint32_t sides)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)seed * sides) >> 32);
}

uint32_t ccl_tid(void) { return running->tid; }
uint32_t ccl_bid(void) { return running->block->index; }
uint32_t ccl_grid(void) { return running->block->grid; }
uint32_t ccl_threads(void) { return running->block->threads; }
void ccl_pause(void) { swapcontext(&running->context, &scheduler); }

void gpu_maybe_yield(void)
{
    if (dice(8) == 0) {
        ccl_pause();
    }
}

uint64_t ccl_clock_ns(void)
{
    static uint64_t now;
    return now += 1000;
}

static void rendezvous(uint32_t *arrived, uint32_t *turn, const uint32_t *alive)
{
    uint32_t mine = *turn;
    (*arrived)++;
    while (*turn == mine) {
        if (*arrived >= *alive) {
            *arrived = 0;
            (*turn)++;
            return;
        }
        ccl_pause();
    }
}

void ccl_block_sync(void)
{
    struct block *b = running->block;
    rendezvous(&b->arrived, &b->turn, &b->alive);
}

void ccl_warp_sync(void)
{
    struct block *b = running->block;
    uint32_t w = running->tid / 32;
    rendezvous(&b->warp_arrived[w], &b->warp_turn[w], &b->warp_alive[w]);
}

static void enter(void)
{
    struct thread *t = running;
    t->block->fn(t->block->args);
    t->done = 1;
    t->block->alive--;
    t->block->warp_alive[t->tid / 32]--;
    for (;;) {
        swapcontext(&t->context, &scheduler);
    }
}

/* ---- a world ---- */

struct rank {
    struct ccl_k_coll_args args;
    struct ccl_k_priv *priv;
    struct ccl_k_page *page;
    struct ccl_k_comm comm;
    char *ctl, *src, *dst;
    kernel_fn fn;
    uint32_t grid, threads;
};

static struct rank ranks[RANKS];
static uint64_t ctl_table[RANKS], page_table[RANKS], windows[RANKS * CCL_WINDOWS];
static uint32_t world;

static void make_world(uint32_t n, uint32_t slots, uint32_t slot_bytes, uint32_t shared)
{
    struct ccl_k_layout lay = {.flag_stride = 8, .flag_row = 64, .blocks = GRID, .slots = slots, .slot_bytes = slot_bytes, .shared_ring = shared};
    lay.full = 2 * n * 64;
    lay.credit = lay.full + GRID * 64;
    lay.ll = 8192;
    lay.ring = lay.ll + 2ull * n * CCL_LL_SRC_BYTES;
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
    }
}

static void make_thread(struct thread *t)
{
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = t->stack;
    t->context.uc_stack.ss_size = STACK;
    makecontext(&t->context, enter, 0);
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
        if (++slices > 3000000) {
            printf("FAILED %s: %u threads never end\n", what, left);
            exit(1);
        }
    }
}

/* ---- calls ---- */

struct call {
    const char *name;
    kernel_fn fn[2]; /* worlds of 2 and more: compiled-in and any */
    uint32_t rows, row_bytes, pad, piece_rows, piece_bytes; /* pad: pitch beyond the row */
    uint32_t shift;                                          /* misalignment of the buffers */
    uint32_t staged;                                         /* bit a rank: its receive buffer is in no window */
    uint32_t group, grid, threads, flags;
};

static char input(uint32_t r, uint32_t i, uint32_t round) { return (char)(r * 37 + i * 11 + i / 251 + round * 5 + 1); }

static void set_call(uint32_t r, const struct call *c)
{
    struct rank *k = &ranks[r];
    struct ccl_k_coll_args *a = &k->args;
    a->src = (uint64_t)k->src + c->shift;
    a->dst = (uint64_t)k->dst + PAD + c->shift;
    a->rows = c->rows;
    a->row_bytes = c->row_bytes;
    a->ld_src = c->row_bytes + c->pad;
    a->ld_dst = c->row_bytes + 2 * c->pad;
    a->dst_part = c->rows * a->ld_dst;
    a->part_bytes = (uint64_t)c->rows * c->row_bytes;
    a->piece_rows = c->piece_rows;
    a->piece_bytes = c->piece_bytes;
    a->pieces_across = (c->row_bytes + c->piece_bytes - 1) / c->piece_bytes;
    a->pieces_down = (c->rows + c->piece_rows - 1) / c->piece_rows;
    a->flags = c->flags | (c->rows == 1 || c->pad == 0 ? CCL_F_FLAT_SRC | CCL_F_FLAT_DST : 0u);
    uint64_t pairs = (a->part_bytes + 7) / 8, piece = c->rows == 1 ? c->piece_bytes : (uint64_t)c->piece_rows * c->row_bytes;
    a->div_mul = pairs > 1 ? (uint32_t)(((1ull << 32) + pairs - 1) / pairs) : 0;
    a->group = c->group ? c->group : world;
    a->flat_piece = a->unit_shift = 0;
    if ((a->flags & CCL_F_FLAT_SRC) && (c->rows == 1 || a->pieces_across == 1) && a->part_bytes % 16 == 0 && piece % 16 == 0) {
        while ((c->threads * 16u << a->unit_shift) < piece) {
            a->unit_shift++;
        }
        a->flat_piece = a->unit_shift <= 2 ? (uint32_t)piece : 0;
    }
    a->sig = 1000 + c->rows * 7 + c->row_bytes;
    a->where = (c->staged >> r & 1) ? 0 : 1ull << 48 | (PAD + c->shift);
    a->expect_id = a->where != 0 ? 1 : 0;
    for (uint32_t q = 0; q < world; q++) {
        a->peer[q].win = (uint64_t)ranks[q].dst;
        windows[q * CCL_WINDOWS + 1] = (uint64_t)ranks[q].dst;
    }
    k->fn = c->fn[0];
    k->grid = c->grid;
    k->threads = c->threads;
}

static void check(uint32_t r, const struct call *c, uint32_t round)
{
    const struct ccl_k_coll_args *a = &ranks[r].args;
    static char want[DST_BYTES];
    memset(want, 0x5a, sizeof(want));
    for (uint32_t q = 0; q < world; q++) {
        for (uint32_t i = 0; i < c->rows; i++) {
            for (uint32_t j = 0; j < c->row_bytes; j++) {
                want[PAD + c->shift + q * a->dst_part + i * a->ld_dst + j] = input(q, i * c->row_bytes + j, round);
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
            ranks[r].src[c->shift + i * ranks[r].args.ld_src + j] = input(r, i * c->row_bytes + j, round);
        }
    }
}

static void gather(const struct call *c, uint32_t round)
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

#define LL(rows, bytes, pad, shift, grid, threads) \
    {"ll", {ccl_k_ll_n, 0}, rows, bytes, pad, 1, bytes, shift, 0, 0, grid, threads, 0}
#define PUSH(name, rows, bytes, pad, prows, pbytes, shift, staged, group, grid) \
    {name, {ccl_k_push_n, 0}, rows, bytes, pad, prows, pbytes, shift, staged, group, grid, 64, 0}
#define PART(name, rows, bytes, pad, prows, pbytes, shift, staged, grid) \
    {name, {ccl_k_push_part, 0}, rows, bytes, pad, prows, pbytes, shift, staged, 0, grid, 64, 0}

static const struct call calls[] = {
    LL(1, 8, 0, 0, 1, 96),
    LL(1, 4096, 0, 0, 2, 96),
    LL(1, 4100, 0, 4, 2, 96),
    LL(3, 40, 8, 1, 1, 96),
    PUSH("direct", 1, 16384, 0, 1, 1024, 0, 0, 0, 3),
    PUSH("direct, pieces of 4 units", 1, 40960, 0, 1, 4096, 0, 0, 0, 2),
    PUSH("direct, tail", 1, 16400, 0, 1, 2048, 0, 0, 0, 3),
    PUSH("direct, one piece a block", 1, 3056, 0, 1, 1024, 0, 0, 0, 3),
    PUSH("direct, idle blocks", 1, 64, 0, 1, 64, 0, 0, 0, 3),
    PUSH("direct, groups of 1", 1, 16384, 0, 1, 1024, 0, 0, 1, 3),
    PUSH("direct, groups of 2", 1, 16384, 0, 1, 1024, 0, 0, 2, 2),
    PUSH("direct, odd bytes", 1, 5001, 0, 1, 512, 3, 0, 0, 2),
    PUSH("direct, rectangles", 24, 96, 32, 8, 48, 0, 0, 0, 3),
    PUSH("direct, odd rectangles", 7, 35, 5, 3, 20, 1, 0, 0, 2),
    PUSH("direct, whole rows", 32, 64, 0, 4, 64, 0, 0, 0, 3),
    PUSH("staged", 1, 16384, 0, 1, 1024, 0, 15, 0, 3),
    PUSH("staged, one chunk", 1, 1024, 0, 1, 512, 0, 15, 0, 2),
    PUSH("staged, tail", 1, 16400, 0, 1, 4096, 0, 15, 0, 2),
    PUSH("staged, odd bytes", 1, 5001, 0, 1, 512, 3, 15, 0, 2),
    PUSH("staged, rectangles", 24, 96, 32, 8, 48, 0, 15, 0, 3),
    PUSH("mixed 1", 1, 16384, 0, 1, 1024, 0, 1, 0, 3),
    PUSH("mixed 2", 1, 16384, 0, 1, 1024, 0, 2, 0, 3),
    PUSH("mixed 5, groups of 1", 1, 16384, 0, 1, 1024, 0, 5, 1, 3),
    PUSH("mixed 6, odd", 1, 9001, 0, 1, 1000, 1, 6, 1, 3),
    PART("partitioned", 1, 16384, 0, 1, 1024, 0, 0, 5),
    PART("partitioned, staged", 1, 16384, 0, 1, 1024, 0, 15, 5),
    PART("partitioned, mixed, rectangles", 24, 96, 32, 8, 48, 0, 3, 4),
};
static const struct call barrier_call = {"barrier", {ccl_k_barrier, 0}, 0, 0, 0, 1, 1, 0, 0, 0, 1, 64, 0};

/* The kernels with the world compiled in, in place of the general ones. */
static kernel_fn of_world(kernel_fn any, uint32_t n)
{
    static const kernel_fn ll[] = {ccl_k_ll_2, ccl_k_ll_3, ccl_k_ll_4}, push[] = {ccl_k_push_2, ccl_k_push_3, ccl_k_push_4};
    return any == ccl_k_ll_n ? ll[n - 2] : any == ccl_k_push_n ? push[n - 2] : any;
}

static void run_calls(uint32_t n)
{
    static const struct { uint32_t slots, shared; } rings[] = {{2, 1}, {4, 1}, {2, 0}, {4, 0}};
    for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
        make_world(n, rings[i].slots, 4096, rings[i].shared);
        for (uint32_t round = 0; round < 2; round++) {
            for (size_t j = 0; j < sizeof(calls) / sizeof(calls[0]); j++) {
                struct call c = calls[(j * 7 + round) % (sizeof(calls) / sizeof(calls[0]))];
                if (c.fn[0] == ccl_k_push_part && c.grid < n) {
                    continue;
                }
                c.fn[0] = round == 0 ? c.fn[0] : of_world(c.fn[0], n);
                gather(&c, round);
                if (j % 5 == 0) {
                    for (uint32_t r = 0; r < n; r++) {
                        set_call(r, &barrier_call);
                    }
                    run_all("barrier");
                }
            }
        }
    }
}

/* Rank `odd` calls something else: everybody learns of it, nobody's buffer changes. */
static void mismatch(uint32_t n, uint32_t odd, const struct call *common, const struct call *other)
{
    make_world(n, 2, 4096, dice(2));
    gather(&calls[4], 0);
    for (uint32_t r = 0; r < n; r++) {
        prepare(r, r == odd ? other : common, 1);
    }
    run_all("mismatch");
    for (uint32_t r = 0; r < n; r++) {
        uint32_t own = (uint32_t)(PAD + (r == odd ? other : common)->shift + r * ranks[r].args.dst_part);
        for (uint32_t i = 0; i < DST_BYTES && common->fn[0] == ccl_k_push_n; i++) {
            if (ranks[r].dst[i] != 0x5a && (i < own || i >= own + ranks[r].args.part_bytes) && r == odd) {
                printf("FAILED mismatch of %s and %s: byte %u of rank %u was stored\n", common->name, other->name, i, r);
                failures++;
                break;
            }
        }
        if (ranks[r].page->abort == 0 || !(ranks[r].priv->op & CCL_OP_STOPPED)) {
            printf("FAILED mismatch of %s and %s: rank %u has not heard\n", common->name, other->name, r);
            failures++;
        }
    }
}

int main(void)
{
    for (uint32_t n = 2; n <= RANKS; n++) {
        run_calls(n);
        for (uint32_t odd = 0; odd < n; odd++) {
            mismatch(n, odd, &calls[4], &calls[5]);   /* direct, another size */
            mismatch(n, odd, &calls[15], &calls[16]); /* staged, another size */
            mismatch(n, odd, &calls[0], &calls[4]);   /* LL and push */
            mismatch(n, odd, &calls[4], &calls[1]);   /* push and LL */
            mismatch(n, odd, &calls[9], &calls[5]);   /* groups */
        }
    }
    if (failures == 0) {
        printf("ok\n");
    }
    return failures != 0;
}
