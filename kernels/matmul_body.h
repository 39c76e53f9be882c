/* SPDX-License-Identifier: MIT
 *
 * Tiles and kernels of fused matrix products over one core. Included once for each, with
 *   MATMUL_FORM      suffix of the kernels' names; empty on the host
 *   CCL_MATMUL_CORE(a, tile, sh, feed)   the core (gemm.h); GPU: not 0 = leave
 *   MATMUL_KM        1: A is staged as [k][m], which only gather_matmul has
 * which are undefined again at the end. */
#define MATMUL_CAT2(a, b) a##b
#define MATMUL_CAT(a, b) MATMUL_CAT2(a, b)
#define MATMUL_F(x) MATMUL_CAT(x, MATMUL_FORM)

/* The product of a tile; all threads. False: leave. */
CCL_DEVICE uint32_t MATMUL_F(matmul_product)(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t unit, uint32_t kind, struct ccl_k_gemm_tile *t)
{
#if defined(CCL_ON_HOST)
    const struct ccl_k_map map = a->map;
    uint32_t k0, k1;
    (void)kind;
    t->part = CCL_GEMM_FIRST;
    for (uint32_t i = 0; i < map.groups; i++) {
        const uint32_t group = ccl_map_group(&map, i);
        ccl_map_columns(&map, group, &k0, &k1);
        for (uint32_t k = k0; k < k1; k = t->k1) {
            if (!matmul_find(a, sh, unit, group, k, k1, t)) {
                return 0;
            }
            t->part |= i + 1 == map.groups && t->k1 == k1 ? (uint32_t)CCL_GEMM_LAST : 0u;
            CCL_MATMUL_CORE(a, t, sh, NULL);
            t->part = 0;
        }
    }
    return 1;
#else
    struct matmul_feed feed = {a, sh, 0};
    t->part = CCL_GEMM_FIRST | CCL_GEMM_LAST;
    if (!matmul_find(a, sh, unit, t, &feed.ready)) {
        return 0;
    }
    if (kind != MATMUL_GATHERS_A) {
        feed.ready = UINT32_MAX; /* known when it is compiled: there is nothing to wait for */
    }
    return CCL_MATMUL_CORE(a, t, sh, &feed) == 0;
#endif
}

/* One of map.tiles; all threads. kind: which kernel this is, a constant. False: leave. */
CCL_DEVICE uint32_t MATMUL_F(matmul_tile)(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t item, uint32_t kind)
{
    CCL_AFRESH(a); /* nothing of the map stays in registers from tile to tile */
    const struct ccl_k_map map = a->map;
    struct ccl_k_gemm_tile t;
    uint32_t unit, column;
    ccl_map_tile(&map, item, &unit, &column);
    t.row = ccl_map_row(&map, unit);
    t.rows = ccl_map_rows(&map, unit);
    t.col = column * map.tile_n;
    t.cols = map.n - t.col < map.tile_n ? map.n - t.col : map.tile_n;
    t.unit = unit;
    const uint64_t row = t.row + (kind == MATMUL_GATHERS_C ? (uint64_t)map.rank * map.shard : 0), at = MATMUL_BYTES(row * a->gemm.ldc + t.col);
    t.c = a->gemm.c + at;
    t.more = kind == MATMUL_GATHERS_C ? map.ranks - 1 : 0;
    t.others = 0;
    MATMUL_OTHERS(a, sh, t, at, kind);
    CCL_TRACE_NOTE_BEGIN(from);
    if (!MATMUL_F(matmul_product)(a, sh, unit, kind, &t)) {
        return 0;
    }
    if (kind != MATMUL_IS_LOCAL) { /* that kernel has no number */
        CCL_TRACE_NOTE_SPAN(&a->coll, sh->n, CCL_TRACE_GEMM, from, unit, column);
    }
    matmul_sync(); /* as in matmul_fetch */
    return 1;
}

/* Take tiles until there are none. */
CCL_DEVICE void MATMUL_F(matmul_multiply)(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t kind)
{
    uint32_t item;
    while (!matmul_stopped(a, sh) && (item = matmul_ticket(sh, &matmul_state(a)->tile)) < a->map.tiles) {
        if (!MATMUL_F(matmul_tile)(a, sh, item, kind)) {
            return;
        }
    }
}

/* cclAllGatherMatmul but for its sequential form. */
MATMUL_KERNEL(MATMUL_F(gather_matmul))
{
    MATMUL_SHARED(a, sh);
    uint32_t item;
    matmul_enter(a, sh);
    if (matmul_position(sh) < a->fetchers) {
        while (!matmul_stopped(a, sh) && (item = matmul_ticket(sh, &matmul_state(a)->fetch)) < a->map.fetches) {
            if (!matmul_fetch(a, sh, item)) {
                break;
            }
        }
    }
    CCL_TRACE_NOTE_FIRST(&a->coll, sh->n, CCL_TRACE_MET);
    MATMUL_F(matmul_multiply)(a, sh, MATMUL_GATHERS_A);
    matmul_leave(a, sh, a->map.pushes);
}

#if !MATMUL_KM

/* cclMatmulAllGather: all peers are met before the first store. */
MATMUL_KERNEL(MATMUL_F(matmul_gather))
{
    MATMUL_SHARED(a, sh);
    uint32_t good = 1;
    matmul_enter(a, sh);
    for (uint32_t d = 1; d < a->coll.n && good; d++) {
        good = matmul_meet(a, sh, ccl_rotate(&a->coll, d));
    }
    CCL_TRACE_NOTE_FIRST(&a->coll, sh->n, CCL_TRACE_MET);
    MATMUL_F(matmul_multiply)(a, sh, MATMUL_GATHERS_C);
    matmul_leave(a, sh, 1);
}

/* The product alone, of this rank's memory: behind the all-gather of the sequential form. Draws no number, meets nobody. */
MATMUL_KERNEL(MATMUL_F(matmul_local))
{
    MATMUL_SHARED(a, sh);
    if (ccl_tid() == 0) {
        sh->n = sh->epoch = 0;
        sh->bad = CCL_BAD_NONE;
    }
    matmul_sync();
    for (uint32_t item = ccl_bid(); item < a->map.tiles; item += ccl_grid()) {
        MATMUL_F(matmul_tile)(a, sh, item, MATMUL_IS_LOCAL);
    }
}

#endif

#undef MATMUL_CAT2
#undef MATMUL_CAT
#undef MATMUL_F
#undef MATMUL_FORM
#undef CCL_MATMUL_CORE
#undef MATMUL_KM
