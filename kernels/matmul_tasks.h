/* SPDX-License-Identifier: MIT
 *
 * The tasks of a fused matrix product: fetch a group of K blocks of one unit, find what a tile multiplies and wait for it. Which ones: matmul_map.h; when:
 * matmul_protocol.h; tiles and kernels: matmul_body.h. */
#ifndef CCL_MATMUL_TASKS_H
#define CCL_MATMUL_TASKS_H

#include "matmul_protocol.h"

#define MATMUL_BYTES(elements) ((uint64_t)(elements)*2)

/* ---- where A lies ---- */

/* First row of a unit that is staged with k outside: there the shard of each rank begins at a multiple of 8 rows, as cores want it. */
CCL_DEVICE uint32_t matmul_turned_row(MATMUL_ARGS a, uint32_t unit)
{
    const struct ccl_k_map map = a->map;
    const uint32_t pad = (0u - map.shard) % CCL_GEMM_PITCH;
    return ccl_map_row(&map, unit) + (map.columns ? 0 : unit / map.shard_units * pad);
}

/* Where the unit is staged. */
CCL_DEVICE uint64_t matmul_stage(MATMUL_ARGS a, uint64_t space, uint32_t unit, uint32_t k)
{
    const struct ccl_k_map map = a->map;
    const uint64_t row = ccl_map_row(&map, unit);
    const uint64_t at = a->gemm.a_layout == CCL_GEMM_K_INNER ? row * a->stage_ld + k : k * a->stage_ld + matmul_turned_row(a, unit);
    return space + a->stage_off + MATMUL_BYTES(at);
}

/* Element (first row of the unit, k) of the shard of `owner`, whom the block has met, and its pitch. */
CCL_DEVICE uint64_t matmul_shard(MATMUL_ARGS a, const struct matmul_shared *sh, uint32_t owner, uint32_t unit, uint32_t k, uint64_t *ld)
{
    const struct ccl_k_map map = a->map;
    const uint32_t own = owner == map.rank, first = owner * map.shard;
    const uint32_t row = map.local ? ccl_map_row(&map, unit) : map.columns ? ccl_map_row(&map, unit) : ccl_map_row(&map, unit) - first;
    const uint64_t base = own ? a->gemm.a : sh->base[owner];
    *ld = own ? a->gemm.lda : (base & 1) ? a->copy_ld : a->peer_ld;
    return (base & ~1ull) + MATMUL_BYTES(row * *ld + (map.columns ? k - first : k));
}

/* ---- fetch ---- */

#if defined(CCL_ON_HOST)
#define MATMUL_CORNER 32u /* rows and columns that are turned at a time: both sides stay in the cache */
#else
#define MATMUL_CORNER 1u
#define MATMUL_IN_FLIGHT 8 /* vectors of a thread */
#endif

/* A fetch as it is. Several loads of a thread are on their way at once: that is what a link wants. */
CCL_DEVICE void matmul_copy(uint64_t dst, uint64_t ld_dst, uint64_t src, uint64_t ld_src, uint32_t rows, uint32_t bytes)
{
#if !defined(CCL_ON_HOST)
    const uint32_t across = bytes / 16, all = rows * across, threads = ccl_threads();
    if ((dst | src | ld_dst | ld_src | bytes) % 16 == 0) {
        for (uint32_t i = ccl_tid(); i < all; i += MATMUL_IN_FLIGHT * threads) {
            ccl_vec16 v[MATMUL_IN_FLIGHT];
#pragma unroll
            for (uint32_t j = 0; j < MATMUL_IN_FLIGHT; j++) {
                const uint32_t at = i + j * threads < all ? i + j * threads : i, r = at / across;
                v[j] = *CCL_PTR(const ccl_vec16, src + r * ld_src + (at - r * across) * 16);
            }
#pragma unroll
            for (uint32_t j = 0; j < MATMUL_IN_FLIGHT; j++) {
                const uint32_t at = i + j * threads, r = at / across;
                if (at < all) {
                    *CCL_PTR(ccl_vec16, dst + r * ld_dst + (at - r * across) * 16) = v[j];
                }
            }
        }
        return;
    }
#endif
    ccl_move_rows(dst, ld_dst, src, ld_src, rows, bytes, 0);
}

/* rows x cols elements, turned: dst[c][r] = src[r][c]. */
CCL_DEVICE void matmul_turn(uint64_t dst, uint64_t ld_dst, uint64_t src, uint64_t ld_src, uint32_t rows, uint32_t cols)
{
    const uint32_t down = (rows + MATMUL_CORNER - 1) / MATMUL_CORNER, across = (cols + MATMUL_CORNER - 1) / MATMUL_CORNER;
    for (uint32_t i = ccl_tid(); i < down * across; i += ccl_threads()) {
        const uint32_t r0 = i % down * MATMUL_CORNER, c0 = i / down * MATMUL_CORNER;
        const uint32_t r1 = r0 + MATMUL_CORNER < rows ? r0 + MATMUL_CORNER : rows, c1 = c0 + MATMUL_CORNER < cols ? c0 + MATMUL_CORNER : cols;
        for (uint32_t c = c0; c < c1; c++) {
            for (uint32_t r = r0; r < r1; r++) {
                *CCL_PTR(uint16_t, dst + MATMUL_BYTES(c * ld_dst + r)) = *CCL_PTR(const uint16_t, src + MATMUL_BYTES(r * ld_src + c));
            }
        }
    }
}

/* Set the ready word of a group at a workspace, whose owner is `rank`. All threads, after their stores. */
CCL_DEVICE void matmul_publish(MATMUL_ARGS a, const struct matmul_shared *sh, uint64_t space, uint32_t unit, uint32_t group, uint32_t rank)
{
    ccl_block_release_system();
    if (ccl_tid() == 0) {
        const struct ccl_k_map map = a->map;
        ccl_flag_release_system();
        ccl_publish_system(space + 8 * ccl_map_ready(&map, unit, group), CCL_TAGGED(sh->epoch, 1));
        ccl_notify_fence(&a->coll);
        ccl_notify(&a->coll, rank);
    }
}

/* One of map.fetches; all threads. False: leave. */
CCL_DEVICE uint32_t matmul_fetch(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t item)
{
    CCL_AFRESH(a); /* nothing of the map stays in registers from fetch to fetch */
    const struct ccl_k_map map = a->map;
    const struct ccl_k_block b = ccl_map_fetch(&map, item);
    const uint32_t rows = ccl_map_rows(&map, b.unit);
    uint32_t k0, k1, end;
    uint64_t space = a->space;
    if (map.pushes) {
        if (!matmul_meet(a, sh, b.peer)) {
            return 0;
        }
        space = sh->base[b.peer] & ~1ull;
    }
    CCL_TRACE_NOTE_BEGIN(from);
    ccl_map_columns(&map, b.group, &k0, &k1);
    for (uint32_t k = k0; k < k1; k = end) {
        const uint32_t owner = ccl_map_owner(&map, b.unit, k, k1, &end);
        uint64_t ld;
        if (owner != map.rank && !matmul_meet(a, sh, owner)) {
            return 0;
        }
        const uint64_t src = matmul_shard(a, sh, owner, b.unit, k, &ld), dst = matmul_stage(a, space, b.unit, k);
        if (a->gemm.a_layout == CCL_GEMM_K_INNER) {
            matmul_copy(dst, MATMUL_BYTES(a->stage_ld), src, MATMUL_BYTES(ld), rows, (uint32_t)MATMUL_BYTES(end - k));
        } else {
            matmul_turn(dst, a->stage_ld, src, ld, rows, end - k);
        }
    }
    matmul_publish(a, sh, space, b.unit, b.group, b.peer);
    CCL_TRACE_NOTE_SPAN(&a->coll, sh->n, CCL_TRACE_FETCH, from, b.unit, b.group);
    if (ccl_tid() == 0 &&
        ccl_atomic_add_acq_rel_agent_u64(&matmul_state(a)->fetched, 1) == map.fetches - 1) { /* acquire: the fetches of all other blocks */
        matmul_done(a, sh->n);
    }
    matmul_sync(); /* else a compiler makes two loops of the caller's: one for this thread, which then waits until the others have left theirs */
    return 1;
}

/* All threads: what comes before the tiles. */
CCL_DEVICE void matmul_begin(MATMUL_ARGS a, struct matmul_shared *sh)
{
    uint32_t item, good = 1;
    if (a->kind == CCL_MATMUL_IS_LOCAL) {
        if (ccl_tid() == 0) {
            sh->n = sh->epoch = 0;
            sh->bad = CCL_BAD_NONE;
        }
        matmul_sync();
        return;
    }
    matmul_enter(a, sh);
    for (uint32_t d = 1; d < a->coll.n && good && a->kind == CCL_MATMUL_GATHERS_C; d++) {
        good = matmul_meet(a, sh, ccl_rotate(&a->coll, d));
    }
    if (matmul_position(sh) < a->fetchers) { /* only with GATHERS_A */
        while (!matmul_stopped(a, sh) && (item = matmul_ticket(sh, &matmul_state(a)->fetch)) < a->map.fetches) {
            if (!matmul_fetch(a, sh, item)) {
                break;
            }
        }
    }
    CCL_TRACE_NOTE_FIRST(&a->coll, sh->n, CCL_TRACE_MET);
}

/* ---- what a tile multiplies ---- */

/* Which part of C tile `item` is, and its column of tiles. km: A is staged as [k][m], known when it is compiled. */
CCL_DEVICE void matmul_place_tile(MATMUL_ARGS a, uint32_t item, uint32_t km, struct ccl_k_gemm_tile *t, uint32_t *column)
{
    const struct ccl_k_map map = a->map;
    const uint32_t gathers_c = !km && a->kind == CCL_MATMUL_GATHERS_C;
    ccl_map_tile(&map, item, &t->unit, column);
    t->row = ccl_map_row(&map, t->unit);
    t->rows = ccl_map_rows(&map, t->unit);
    t->col = *column * map.tile_n;
    t->cols = map.n - t->col < map.tile_n ? map.n - t->col : map.tile_n;
    t->c = a->gemm.c + MATMUL_BYTES((t->row + (gathers_c ? (uint64_t)map.rank * map.shard : 0)) * a->gemm.ldc + t->col);
    t->more = gathers_c ? map.ranks - 1 : 0;
    t->others = 0;
}

/* cclMatmulAllGather: where the tile goes at the peer that is d + 1 rotations on. */
CCL_DEVICE uint64_t matmul_other(MATMUL_ARGS a, const struct matmul_shared *sh, const struct ccl_k_gemm_tile *t, uint32_t d)
{
    return (sh->base[ccl_rotate(&a->coll, d + 1)] & ~1ull) + (t->c - a->gemm.c);
}

/* All of these places, in rotation. The core's barriers stand in front of the first look. */
CCL_DEVICE void matmul_set_others(MATMUL_ARGS a, struct matmul_shared *sh, struct ccl_k_gemm_tile *t)
{
    t->others = sh->others;
    if (ccl_tid() == 0) {
        for (uint32_t d = 0; d < t->more; d++) {
            sh->others[d] = matmul_other(a, sh, t, d);
        }
    }
}

#if defined(CCL_ON_AMD)

/* Wait until a group of a unit is in the workspace; each wave for itself. Waves may see different errors at once: the first one stays. */
CCL_DEVICE uint32_t matmul_await(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t unit, uint32_t group)
{
    const struct ccl_k_map map = a->map;
    uint32_t k0, k1, end, bad = CCL_BAD_NONE;
    ccl_map_columns(&map, group, &k0, &k1);
    const uint32_t owner = ccl_map_owner(&map, unit, k0, k1, &end);
    CCL_TRACE_NOTE_BEGIN(from);
    ccl_wait_word(&a->coll, a->space + 8 * ccl_map_ready(&map, unit, group), ccl_uniform(sh->epoch), 1, owner, 0, &bad);
    CCL_TRACE_NOTE_SPAN(&a->coll, sh->n, CCL_TRACE_WAIT, from, unit, group);
    bad = ccl_uniform(bad);
    if (bad != CCL_BAD_NONE && ccl_tid() % 64 == 0) {
        ccl_replace_relaxed_system_u64((uint64_t)&sh->bad, 0, (uint64_t)owner << 32 | bad);
        ccl_or_relaxed_agent_u64((uint64_t) & ((struct ccl_k_priv *)a->coll.priv)->stop, 1);
    }
    return bad == CCL_BAD_NONE;
}

#else

/* Wait until a group of a unit is in the workspace. The first thread of a block. */
CCL_DEVICE void matmul_await_one(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t unit, uint32_t group)
{
    const struct ccl_k_map map = a->map;
    uint32_t k0, k1, end, bad = CCL_BAD_NONE;
    ccl_map_columns(&map, group, &k0, &k1);
    const uint32_t owner = ccl_map_owner(&map, unit, k0, k1, &end);
    CCL_TRACE_NOTE_BEGIN(from);
    ccl_wait_word(&a->coll, a->space + 8 * ccl_map_ready(&map, unit, group), sh->epoch, 1, owner, 0, &bad);
    CCL_TRACE_NOTE_SPAN(&a->coll, sh->n, CCL_TRACE_WAIT, from, unit, group);
    if (bad != CCL_BAD_NONE) {
        matmul_set_bad(a, sh, bad, owner);
    }
}

/* The same for all threads; MATMUL_ALONE: for that one, and the others do not ask. */
CCL_DEVICE uint32_t matmul_await(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t unit, uint32_t group)
{
#if defined(MATMUL_ALONE)
    matmul_await_one(a, sh, unit, group);
#else
    if (ccl_tid() == 0) {
        matmul_await_one(a, sh, unit, group);
    }
    matmul_sync();
#endif
    return sh->bad == CCL_BAD_NONE;
}

#endif

#if defined(CCL_ON_HOST)

/* Where columns k.. of a unit lie and how far they do there; waits for them. False: leave. */
CCL_DEVICE uint32_t matmul_find(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t unit, uint32_t group, uint32_t k, uint32_t k1,
                                struct ccl_k_gemm_tile *t)
{
    const struct ccl_k_map map = a->map;
    const uint32_t row = ccl_map_row(&map, unit);
    t->k0 = k;
    t->k1 = k1;
    if (a->source == CCL_A_STAGED && ccl_map_waits(&map, unit)) {
        t->a = matmul_stage(a, a->space, unit, k);
        t->lda = a->stage_ld;
        return matmul_await(a, sh, unit, group);
    }
    const uint32_t owner = map.local ? map.rank : ccl_map_owner(&map, unit, k, k1, &t->k1);
    if (a->source == CCL_A_GATHERED) {
        const uint64_t first = map.columns ? (uint64_t)owner * map.m * a->stage_ld + k - (uint64_t)owner * map.shard : k;
        t->a = a->space + a->stage_off + MATMUL_BYTES(row * a->stage_ld + first);
        t->lda = a->stage_ld;
        return 1;
    }
    if (owner != map.rank && !matmul_meet(a, sh, owner)) {
        return 0;
    }
    t->a = matmul_shard(a, sh, owner, unit, k, &t->lda);
    return 1;
}

#else

/* How far A of a tile is there, for the core's waits: one segment of K from 0 on, in groups. */
struct matmul_feed {
    MATMUL_ARGS a;
    struct matmul_shared *sh;
    uint32_t ready; /* columns 0.. that are known to be there */
};

/* Where all columns of a unit lie. Meets their owner, or leaves the waiting for groups to the core. False: leave. */
CCL_DEVICE uint32_t matmul_find(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t unit, struct ccl_k_gemm_tile *t, uint32_t *ready)
{
    const struct ccl_k_map map = a->map;
    const uint32_t owner = map.local || map.columns ? map.rank : unit / map.shard_units;
    t->k0 = 0;
    t->k1 = map.k;
    *ready = map.k;
    if (a->source == CCL_A_GATHERED || (a->source == CCL_A_STAGED && ccl_map_waits(&map, unit))) {
        *ready = a->source == CCL_A_STAGED ? 0 : map.k;
        t->a = matmul_stage(a, a->space, unit, 0);
        t->lda = a->stage_ld;
        return 1;
    }
    if (owner != map.rank && !matmul_meet(a, sh, owner)) {
        return 0;
    }
    t->a = ccl_uniform_u64(matmul_shard(a, sh, owner, unit, 0, &t->lda));
    return 1;
}

/* Before a core loads columns of A up to `end` (not counted) from `from` on. Not 0: leave. */
CCL_DEVICE uint32_t matmul_feed_wait(struct matmul_feed *f, uint32_t unit, uint32_t from, uint32_t end)
{
    MATMUL_ARGS a = f->a;
    const uint32_t k = a->map.k, width = a->map.k_per_flag * a->map.tile_k, need = end < k ? end : k;
    uint32_t failed = 0, group = (from > f->ready ? from : f->ready) / width;
    if (need <= f->ready) {
        return 0;
    }
    while (group * width < need && failed == 0) {
        failed = matmul_await(a, f->sh, unit, group) ? 0 : 1;
        group++;
    }
    if (from <= f->ready) {
        f->ready = group * width;
    }
    return failed;
}

#endif

#endif
