/* SPDX-License-Identifier: MIT
 *
 * Tiles and kernel of fused matrix products over one core. Included once for each, with
 *   MATMUL_FORM      suffix of the kernel's name; empty on the host
 *   CCL_MATMUL_CORE(a, tile, sh, feed)   the core (gemm.h); GPU: not 0 = leave
 *   MATMUL_KM        1: A is staged as [k][m], which only kind GATHERS_A has
 * which are undefined again at the end. */
#define MATMUL_CAT2(a, b) a##b
#define MATMUL_CAT(a, b) MATMUL_CAT2(a, b)
#define MATMUL_F(x) MATMUL_CAT(x, MATMUL_FORM)

/* The product of a tile; all threads. False: leave. */
CCL_DEVICE uint32_t MATMUL_F(matmul_product)(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t unit, struct ccl_k_gemm_tile *t)
{
#if defined(CCL_ON_HOST)
    const struct ccl_k_map map = a->map;
    uint32_t k0, k1;
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
    return matmul_find(a, sh, unit, t, &feed.ready) && CCL_MATMUL_CORE(a, t, sh, &feed) == 0;
#endif
}

/* One of map.tiles; all threads. False: leave. */
CCL_DEVICE uint32_t MATMUL_F(matmul_tile)(MATMUL_ARGS a, struct matmul_shared *sh, uint32_t item)
{
    struct ccl_k_gemm_tile t;
    uint32_t column;
    CCL_AFRESH(a); /* nothing of the map stays in registers from tile to tile */
    matmul_place_tile(a, item, MATMUL_KM, &t, &column);
    MATMUL_OTHERS(a, sh, t);
    CCL_TRACE_NOTE_BEGIN(from);
    if (!MATMUL_F(matmul_product)(a, sh, t.unit, &t)) {
        return 0;
    }
    if (a->kind != CCL_MATMUL_IS_LOCAL) { /* that one has no number */
        CCL_TRACE_NOTE_SPAN(&a->coll, sh->n, CCL_TRACE_GEMM, from, t.unit, column);
    }
    matmul_sync(); /* as in matmul_fetch */
    return 1;
}

/* Take tiles until there are none. */
CCL_DEVICE void MATMUL_F(matmul_multiply)(MATMUL_ARGS a, struct matmul_shared *sh)
{
    uint32_t item = ccl_bid();
    for (;;) {
        if (a->kind != CCL_MATMUL_IS_LOCAL) {
            if (matmul_stopped(a, sh)) {
                return;
            }
            item = matmul_ticket(sh, &matmul_state(a)->tile);
        }
        if (item >= a->map.tiles || !MATMUL_F(matmul_tile)(a, sh, item)) {
            return;
        }
        item += ccl_grid();
    }
}

MATMUL_KERNEL(MATMUL_F(matmul))
{
    MATMUL_SHARED(a, sh);
    matmul_begin(a, sh);
    MATMUL_F(matmul_multiply)(a, sh);
    if (a->kind != CCL_MATMUL_IS_LOCAL) {
        matmul_leave(a, sh);
    }
}

#undef MATMUL_CAT2
#undef MATMUL_CAT
#undef MATMUL_F
#undef MATMUL_FORM
#undef CCL_MATMUL_CORE
#undef MATMUL_KM
