/* SPDX-License-Identifier: MIT
 *
 * The kernels of matmul.hip on sm_90a, over the core of gemm_wgmma.h: for blocks alone and for pairs (wgmma_pair.h). The first thread of a block takes tiles, waits for A and loads it, that of its second warp loads
 * B, both up to a tile ahead of the two warpgroups that multiply. In the first blocks in, that of the third warp fetches meanwhile, or, where it cannot, all threads do
 * before. Tensor maps come with the arguments; those of peers' shards are made when the peer is met. */
#include "matrix_cores.h"

#define GEMM_HOOK const struct wgmma_hook *
#define WGMMA_PLACE(tile, d) matmul_other(hook->a, hook->sh, tile, d)
struct wgmma_hook {
    const struct ccl_k_matmul_args *a;
    const struct matmul_shared *sh;
};
#include "gemm_wgmma.h"

#define CCL_M(name, m, n, threads, shared, block, places, pitch) MATMUL_NUMBERS_##name(m, n, threads, shared, block, places)
#define MATMUL_NUMBERS_cdna(m, n, threads, shared, block, places)
#define MATMUL_NUMBERS_mma(m, n, threads, shared, block, places)
#define MATMUL_NUMBERS_wgmma(m, n, threads, shared, block, places)                                                                         \
    static_assert((m) == WGMMA_ROWS && (n) == WGMMA_COLUMNS && (threads) == WGMMA_THREADS && (shared) == WGMMA_SHARED_BYTES &&            \
                      (block) == MATMUL_RANKS * sizeof(struct ccl_k_tensor_map) && (places) <= MATMUL_RANKS && CCL_MATRIX_TILE_K == WGMMA_BLOCK_K, \
                  "what matrix_cores.h says of this core");
CCL_MATRIX_CORE_LIST(CCL_M)
#undef CCL_M

/* A tile on its way from the thread that takes it to the others. */
struct wgmma_slot {
    struct ccl_k_gemm_tile tile;
    uint32_t column;
    uint32_t last; /* there is none */
};

#define WGMMA_FETCH_THREAD 64
#define WGMMA_LEAVE 3 /* barrier of all threads, for which those that multiply do not wait: their registers are too many for what comes behind */
#define WGMMA_SLOTS 2
struct wgmma_pipe {
    uint64_t full[WGMMA_STAGES], empty[WGMMA_STAGES]; /* stages */
    uint64_t taken[WGMMA_SLOTS], stored[WGMMA_SLOTS]; /* slots */
    uint64_t mailed[WGMMA_SLOTS]; /* second block of a pair: the first one has said which tiles are next, */
    uint64_t fetched;
    struct wgmma_slot slot[WGMMA_SLOTS];
    uint32_t mail[WGMMA_SLOTS];   /* here */
};

/* A map of the shard of a peer that has been met, in memory of the block. made: bit a rank. */
CCL_DEVICE uint64_t wgmma_peer_map(const struct ccl_k_matmul_tma_args *args, const struct matmul_shared *sh, uint32_t peer, uint64_t *made)
{
    const struct ccl_k_matmul_args *a = &args->all;
    const uint64_t at = a->scratch + (uint64_t)ccl_bid() * CCL_MATMUL_MAP_BYTES + peer * sizeof(struct ccl_k_tensor_map), base = sh->base[peer];
    if ((*made >> peer & 1) == 0) {
        const struct ccl_k_tensor_map *from = base & 1 ? &args->copy : &args->own;
        for (uint32_t i = 0; i < CCL_TENSOR_MAP_WORDS; i++) {
            CCL_PTR(struct ccl_k_tensor_map, at)->word[i] = from->word[i];
        }
        asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(at), "l"(base & ~1ull) : "memory");
        asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(at) : "memory");
        *made |= 1ull << peer;
    }
    return at;
}

/* Where A of a unit lies: a map, and the place of its first row and of k 0 there. */
struct wgmma_source {
    uint64_t map;
    uint32_t row;
};

/* Meets the owner, or leaves the waiting for groups to the loads. False: leave. */
CCL_DEVICE uint32_t wgmma_find(const struct ccl_k_matmul_tma_args *args, struct matmul_shared *sh, uint32_t unit, uint64_t *made, struct wgmma_source *s,
                               uint32_t *ready)
{
    const struct ccl_k_matmul_args *a = &args->all;
    const struct ccl_k_map map = a->map;
    const uint32_t owner = map.local || map.columns ? map.rank : unit / map.shard_units, row = ccl_map_row(&map, unit);
    *ready = map.k;
    if (a->source == CCL_A_GATHERED || (a->source == CCL_A_STAGED && ccl_map_waits(&map, unit))) {
        *ready = a->source == CCL_A_STAGED ? 0 : map.k;
        s->map = (uint64_t)&args->staged;
        s->row = a->gemm.a_layout == CCL_GEMM_K_INNER ? row : matmul_turned_row(a, unit);
        return 1;
    }
    s->row = map.local || map.columns ? row : row - owner * map.shard;
    s->map = (uint64_t)&args->own;
    if (owner != map.rank) {
        if (!matmul_meet_one(a, sh, owner)) {
            return 0;
        }
        s->map = wgmma_peer_map(args, sh, owner, made);
        wgmma_fence_loads();
    }
    return 1;
}

#define WGMMA_AHEAD 8 /* ready words that are looked at in one trip to memory */

/* Groups from this one on that are in the workspace; they may then be read. */
CCL_DEVICE uint32_t wgmma_arrived(const struct ccl_k_matmul_args *a, const struct matmul_shared *sh, uint32_t unit, uint32_t group)
{
    const struct ccl_k_map map = a->map;
    const uint64_t words = a->space + 8 * ccl_map_ready(&map, unit, group);
    uint64_t w[WGMMA_AHEAD];
    uint32_t count = 0;
#pragma unroll
    for (uint32_t i = 0; i < WGMMA_AHEAD; i++) {
        w[i] = group + i < map.groups ? ccl_load_relaxed_system_u64(words + 8 * i) : 0;
    }
#pragma unroll
    for (uint32_t i = 0; i < WGMMA_AHEAD; i++) {
        count += count == i && CCL_TAG(w[i]) == sh->epoch && CCL_VALUE(w[i]) >= 1;
    }
    ccl_fence_acquire_system(); /* pairs with the release in front of the words */
    return count;
}

/* Until the K block from `at` on has arrived. Failed: later ones are not waited for, since nothing is stored any more. */
CCL_DEVICE void wgmma_await(struct matmul_feed *f, uint32_t unit, uint32_t at)
{
    MATMUL_ARGS a = f->a;
    const uint32_t k = a->map.k, width = a->map.k_per_flag * a->map.tile_k, need = at + WGMMA_BLOCK_K < k ? at + WGMMA_BLOCK_K : k;
    uint32_t group = f->ready / width;
    while (f->ready < need) {
        uint32_t count = 0;
#if !defined(CCL_TRACED) /* a trace has every wait */
        count = wgmma_arrived(a, f->sh, unit, group);
#endif
        if (count == 0) {
            if (!matmul_await(a, f->sh, unit, group)) {
                f->ready = k;
                return;
            }
            count = 1;
        }
        group += count;
        f->ready = (uint64_t)group * width < k ? group * width : k;
    }
}

#define WGMMA_NO_TILE 0xfffffffeu /* first of two numbers behind all tiles */

/* The i-th tile of this block, by ticket. The first block of a pair draws for both, so that they end together: only one of them may be told to stop, and neither can load B alone. */
CCL_DEVICE uint32_t wgmma_take(const struct ccl_k_matmul_args *a, struct matmul_shared *sh, struct wgmma_pipe *pipe, uint32_t i, bool pair)
{
    const uint32_t mailed = gemm_shared_addr(&pipe->mailed[i % WGMMA_SLOTS]), mail = gemm_shared_addr(&pipe->mail[i % WGMMA_SLOTS]);
    uint32_t item = WGMMA_NO_TILE;
    if (pair && wgmma_half() != 0) {
        wgmma_barrier_expect(mailed, 4);
        wgmma_pair_await(mailed, i / WGMMA_SLOTS % 2);
        item = *(const volatile uint32_t *)&pipe->mail[i % WGMMA_SLOTS];
        wgmma_pair_arrive(wgmma_addr_of(0, gemm_shared_addr(&pipe->stored[i % WGMMA_SLOTS]))); /* there is room for the next one */
        return item + 1;
    }
    if (!matmul_stopped_one(a, sh)) {
        item = (uint32_t)ccl_add_relaxed_agent_u64((uint64_t)&matmul_state(a)->tile, 1) * (pair ? 2 : 1);
    }
    if (pair) {
        wgmma_pair_send(wgmma_addr_of(1, mail), item, wgmma_addr_of(1, mailed));
    }
    return item;
}

/* The thread that takes tiles and loads A. What it does for a K block must take less time than multiplying one. */
CCL_DEVICE void wgmma_load_a(const struct ccl_k_matmul_tma_args *args, struct matmul_shared *sh, struct wgmma_pipe *pipe, uint32_t memory, bool pair)
{
    const struct ccl_k_matmul_args *a = &args->all;
    const uint32_t full = gemm_shared_addr(pipe->full), empty = gemm_shared_addr(pipe->empty), k = a->map.k, blocks = (k + WGMMA_BLOCK_K - 1) / WGMMA_BLOCK_K;
    const bool km = a->gemm.a_layout == CCL_GEMM_K_OUTER;
    uint32_t stage = 0, parity = 1, item = ccl_bid();
    uint64_t made = 0;
    for (uint32_t i = 0;; i++, item += ccl_grid()) {
        struct wgmma_slot *slot = &pipe->slot[i % WGMMA_SLOTS];
        struct wgmma_source source = {0, 0};
        struct matmul_feed feed = {a, sh, 0};
        wgmma_barrier_wait(gemm_shared_addr(&pipe->stored[i % WGMMA_SLOTS]), i / WGMMA_SLOTS % 2 ^ 1);
        if (a->kind != CCL_MATMUL_IS_LOCAL) {
            item = wgmma_take(a, sh, pipe, i, pair);
        }
        uint32_t last = item >= a->map.tiles;
        if (!last) {
            matmul_place_tile(a, item, 0, &slot->tile, &slot->column);
            slot->tile.k0 = 0;
            slot->tile.k1 = k;
            /* Failed: of a pair, the other block needs this one's half of B, so the rows of the own shard are multiplied and not stored. */
            last = !wgmma_find(args, sh, slot->tile.unit, &made, &source, &feed.ready) && !pair;
        }
        slot->last = last;
        const uint32_t unit = slot->tile.unit, boxes = km ? (slot->tile.rows + 63) / 64 : 1; /* a box outside of the matrix would be slow */
        const uint32_t bytes = km ? boxes * WGMMA_BOX_BYTES : WGMMA_A_BYTES;
        wgmma_barrier_arrive(gemm_shared_addr(&pipe->taken[i % WGMMA_SLOTS]));
        if (last) {
            return;
        }
        for (uint32_t kb = 0, at = 0; kb < blocks; kb++, at += WGMMA_BLOCK_K) {
            const uint32_t to = memory + stage * WGMMA_STAGE_BYTES, bar = full + 8 * stage;
            wgmma_barrier_wait(empty + 8 * stage, parity);
            if (at + WGMMA_BLOCK_K > feed.ready && feed.ready < k) {
                wgmma_await(&feed, unit, at); /* failed: the block is multiplied, whatever it is, and not stored */
                wgmma_fence_loads();
            }
            wgmma_barrier_expect(bar, bytes);
            if (!km) {
                wgmma_load_box(to, source.map, bar, at, source.row);
            } else {
                wgmma_load_box(to, source.map, bar, source.row, at);
                if (boxes == 2) {
                    wgmma_load_box(to + WGMMA_BOX_BYTES, source.map, bar, source.row + 64, at);
                }
            }
            stage = stage + 1 == WGMMA_STAGES ? 0 : stage + 1;
            parity ^= stage == 0;
        }
    }
}

/* The thread that loads B; of a pair, every second box of it for both. */
CCL_DEVICE void wgmma_load_b(const struct ccl_k_matmul_tma_args *args, struct wgmma_pipe *pipe, uint32_t memory, bool pair)
{
    const struct ccl_k_gemm *g = &args->all.gemm;
    const uint32_t full = gemm_shared_addr(pipe->full), empty = gemm_shared_addr(pipe->empty), blocks = (args->all.map.k + WGMMA_BLOCK_K - 1) / WGMMA_BLOCK_K;
    const uint64_t map = (uint64_t)&args->b;
    const bool kn = g->b_layout == CCL_GEMM_K_OUTER;
    const uint32_t columns = kn ? 64 : args->b_rows, box_bytes = columns * WGMMA_BLOCK_K * 2, half = pair ? wgmma_half() : 0;
    uint32_t stage = 0, parity = 1;
    for (uint32_t i = 0;; i++) {
        const struct wgmma_slot *slot = &pipe->slot[i % WGMMA_SLOTS];
        wgmma_barrier_wait(gemm_shared_addr(&pipe->taken[i % WGMMA_SLOTS]), i / WGMMA_SLOTS % 2);
        if (slot->last) {
            return;
        }
        const uint32_t col = slot->tile.col, boxes = kn || pair ? (slot->tile.cols + columns - 1) / columns : 1, bytes = boxes * box_bytes; /* none outside of the matrix */
        wgmma_barrier_arrive(gemm_shared_addr(&pipe->stored[i % WGMMA_SLOTS]));
        for (uint32_t kb = 0, at = 0; kb < blocks; kb++, at += WGMMA_BLOCK_K) {
            const uint32_t to = memory + stage * WGMMA_STAGE_BYTES + WGMMA_A_BYTES, bar = full + 8 * stage;
            wgmma_barrier_wait(empty + 8 * stage, parity);
            wgmma_barrier_expect(bar, bytes);
            if (pair) {
                for (uint32_t c = half; c < boxes; c += 2) {
                    wgmma_load_box_both(to + c * box_bytes, map, bar, kn ? col + c * columns : at, kn ? at : col + c * columns);
                }
            } else if (!kn) {
                wgmma_load_box(to, map, bar, at, col);
            } else {
#pragma unroll
                for (uint32_t c = 0; c < 4; c++) {
                    if (c < boxes) {
                        wgmma_load_box(to + c * WGMMA_BOX_BYTES, map, bar, col + c * 64, at);
                    }
                }
            }
            stage = stage + 1 == WGMMA_STAGES ? 0 : stage + 1;
            parity ^= stage == 0;
        }
    }
}

/* The thread that fetches, in some blocks. It waits for peers and for memory only, so a tile that waits for it always gets its data. */
CCL_DEVICE void wgmma_fetch(const struct ccl_k_matmul_tma_args *args, struct matmul_shared *sh, struct wgmma_pipe *pipe, uint32_t memory)
{
    const struct ccl_k_matmul_args *a = &args->all;
    const uint32_t bar = gemm_shared_addr(&pipe->fetched), box = memory + WGMMA_FETCH_AT;
    uint32_t parity = 0, item, k0, k1;
    uint64_t made = 0;
    while (!matmul_stopped_one(a, sh) && (item = (uint32_t)ccl_add_relaxed_agent_u64((uint64_t)&matmul_state(a)->fetch, 1)) < a->map.fetches) {
        const struct ccl_k_map map = a->map;
        const struct ccl_k_block b = ccl_map_fetch(&map, item);
        const uint32_t owner = b.unit / map.shard_units, row = ccl_map_row(&map, b.unit) - owner * map.shard;
        if (owner != map.rank && !matmul_meet_one(a, sh, owner)) {
            return;
        }
        CCL_TRACE_NOTE_BEGIN(from);
        const uint64_t source = owner == map.rank ? (uint64_t)&args->own : wgmma_peer_map(args, sh, owner, &made);
        wgmma_fence_loads();
        ccl_map_columns(&map, b.group, &k0, &k1);
        for (uint32_t k = k0; k < k1; k += WGMMA_BLOCK_K) {
            wgmma_store_was_read();
            wgmma_barrier_expect(bar, WGMMA_A_BYTES);
            wgmma_load_box(box, source, bar, k, row);
            wgmma_barrier_wait(bar, parity);
            parity ^= 1;
            wgmma_store_box((uint64_t)&args->fetched, box, k, row, owner);
        }
        wgmma_store_wait();
        wgmma_fence_loads();
        ccl_flag_release_system();
        ccl_publish_system(a->space + 8 * ccl_map_ready(&map, b.unit, b.group), CCL_TAGGED(sh->epoch, 1));
        CCL_TRACE_NOTE_SPAN_BY(WGMMA_FETCH_THREAD, &a->coll, sh->n, CCL_TRACE_FETCH, from, b.unit, b.group);
        if (ccl_atomic_add_acq_rel_agent_u64(&matmul_state(a)->fetched, 1) == map.fetches - 1) { /* acquire: the fetches of all other blocks */
            matmul_done(a, sh->n);
        }
    }
}

/* A warpgroup that multiplies. */
CCL_DEVICE void wgmma_consume(const struct ccl_k_matmul_args *a, struct matmul_shared *sh, struct wgmma_pipe *pipe, uint32_t memory, bool pair)
{
    const struct wgmma_hook hook = {a, sh};
    const uint32_t empty = gemm_shared_addr(pipe->empty);
    struct wgmma_ring ring = {gemm_shared_addr(pipe->full), empty, pair ? wgmma_addr_of(1 - wgmma_half(), empty) : 0, 0, 0};
    const uint32_t c = memory + WGMMA_C_AT + (ccl_tid() / 128 - 1) * WGMMA_BOX_BYTES;
    float d[128];
    for (uint32_t i = 0;; i++) {
        const struct wgmma_slot *slot = &pipe->slot[i % WGMMA_SLOTS];
        wgmma_barrier_wait(gemm_shared_addr(&pipe->taken[i % WGMMA_SLOTS]), i / WGMMA_SLOTS % 2);
        if (slot->last) {
            return;
        }
        CCL_TRACE_NOTE_BEGIN(from);
        wgmma_sums(&a->gemm, &slot->tile, memory, &ring, pair, d);
        if (*(const volatile uint32_t *)&sh->bad == CCL_BAD_NONE) { /* what a wait has found came before the loads of that block */
            wgmma_store(&a->gemm, &slot->tile, c, d, &hook);
            if (a->kind != CCL_MATMUL_IS_LOCAL) { /* that one has no number */
                CCL_TRACE_NOTE_SPAN_BY(128, &a->coll, sh->n, CCL_TRACE_GEMM, from, slot->tile.unit, slot->column);
            }
        }
        __syncwarp();
        if (ccl_tid() % 32 == 0) {
            wgmma_barrier_arrive(gemm_shared_addr(&pipe->stored[i % WGMMA_SLOTS]));
        }
    }
}

extern __shared__ __align__(1024) char matmul_memory[]; /* WGMMA_SHARED_BYTES, of the launch */

CCL_DEVICE void wgmma_init(const struct ccl_k_matmul_args *a, struct wgmma_pipe *pipe, bool pair)
{
    const uint32_t mails = pair && a->kind != CCL_MATMUL_IS_LOCAL && wgmma_half() == 0;
    for (uint32_t i = 0; i < WGMMA_STAGES; i++) {
        wgmma_barrier_init(gemm_shared_addr(&pipe->full[i]), 2);
        wgmma_barrier_init(gemm_shared_addr(&pipe->empty[i]), pair ? 4 : 2);
    }
    for (uint32_t i = 0; i < WGMMA_SLOTS; i++) {
        wgmma_barrier_init(gemm_shared_addr(&pipe->taken[i]), 1);
        wgmma_barrier_init(gemm_shared_addr(&pipe->stored[i]), 9 + mails);
        wgmma_barrier_init(gemm_shared_addr(&pipe->mailed[i]), 1);
    }
    wgmma_barrier_init(gemm_shared_addr(&pipe->fetched), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    wgmma_fence_loads();
}

/* All of a block. Neither block of a pair touches the other before that has its barriers, or leaves while the other may still touch it; it waits there for nothing else. */
CCL_DEVICE void wgmma_block(const struct ccl_k_matmul_tma_args *args, struct matmul_shared *sh, struct wgmma_pipe *pipe, bool pair)
{
    const struct ccl_k_matmul_args *a = &args->all;
    const uint32_t memory = (gemm_shared_addr(matmul_memory) + WGMMA_ALIGN - 1) / WGMMA_ALIGN * WGMMA_ALIGN, t = ccl_tid();
    if (t == 0) {
        wgmma_init(a, pipe, pair);
    }
    wgmma_pair_here(pair);
    matmul_begin(a, sh); /* has a barrier */
    wgmma_pair_met(pair);
    if (t < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(WGMMA_LOAD_REGISTERS));
        if (t == 0) {
            wgmma_load_a(args, sh, pipe, memory, pair);
        } else if (t == 32) {
            wgmma_load_b(args, pipe, memory, pair);
        } else if (t == WGMMA_FETCH_THREAD && matmul_position(sh) < args->fetchers) {
            wgmma_fetch(args, sh, pipe, memory);
        }
        __syncwarp();
        asm volatile("bar.sync %0, %1;" ::"n"(WGMMA_LEAVE), "n"(WGMMA_THREADS) : "memory"); /* as ccl_block_release_system */
        wgmma_pair_here(pair);
        if (t == 0 && a->kind != CCL_MATMUL_IS_LOCAL) {
            matmul_leave_one(a, sh);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(WGMMA_SUM_REGISTERS));
        wgmma_consume(a, sh, pipe, memory, pair);
        asm volatile("bar.arrive %0, %1;" ::"n"(WGMMA_LEAVE), "n"(WGMMA_THREADS) : "memory");
        wgmma_pair_here(pair);
    }
    wgmma_pair_met(pair);
}

extern "C" __global__ void __launch_bounds__(WGMMA_THREADS, 1) ccl_k_matmul_wgmma(const __grid_constant__ struct ccl_k_matmul_tma_args args)
{
    CCL_SHARED struct matmul_shared shared;
    CCL_SHARED struct wgmma_pipe pipe;
    wgmma_block(&args, &shared, &pipe, false);
}

/* Tiles 2 i and 2 i + 1 are of one column (map.pairs), and the grid is even. */
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(WGMMA_THREADS, 1) ccl_k_matmul_wgmma_pairs(const __grid_constant__ struct ccl_k_matmul_tma_args args)
{
    CCL_SHARED struct matmul_shared shared;
    CCL_SHARED struct wgmma_pipe pipe;
    wgmma_block(&args, &shared, &pipe, true);
}
