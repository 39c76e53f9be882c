/* SPDX-License-Identifier: MIT
 *
 * From the arguments of a fused matrix product to the kernel of the core that runs it, with tensor maps where that core loads by them. */
#include "fused/matmul.h"

#include <string.h>

/* AMD has a kernel for each form. */
static enum ccl_kernel kernel_of(const struct ccl_matmul_world *world, const struct ccl_k_matmul_args *a)
{
    const struct ccl_k_gemm *g = &a->gemm;
    const int km = g->a_layout == CCL_GEMM_K_OUTER, bf16 = g->type == CCL_GEMM_BF16, kn = g->b_layout == CCL_GEMM_K_OUTER;
    if (world->is_host) {
        return CCL_KERNEL_matmul;
    }
    return world->core == CCL_MATRIX_CORE_wgmma ? (a->map.pairs ? CCL_KERNEL_matmul_wgmma_pairs : CCL_KERNEL_matmul_wgmma)
           : world->core == CCL_MATRIX_CORE_mma ? CCL_KERNEL_matmul_mma
                                                : (enum ccl_kernel)(CCL_KERNEL_matmul_nk_f16 + 4 * km + 2 * bf16 + kn);
}

/* The matrices as the tensor memory accelerator finds them. */
static cclResult_t make_maps(cclComm_t comm, const struct cclMatmulWorkspace *ws, const struct ccl_k_matmul_args *a, struct ccl_k_matmul_tma_args *t)
{
    const cclMatmulDesc_t *d = &ws->desc;
    const struct ccl_k_map *map = &a->map;
    const size_t rows = map->columns ? map->m : d->shard, cols = map->columns ? d->shard : d->k;
    const bool km = a->gemm.a_layout == CCL_GEMM_K_OUTER, kn = a->gemm.b_layout == CCL_GEMM_K_OUTER;
    const void *staged = ccl_matmul_space(ws) + ws->stage_off;
    memset(t, 0, offsetof(struct ccl_k_matmul_tma_args, all));
    t->b_rows = map->tile_n <= CCL_WGMMA_NARROW ? CCL_WGMMA_NARROW : ccl_matmul_core(&(struct ccl_matmul_world){.core = CCL_MATRIX_CORE_wgmma})->tile_n;
    t->b_rows /= map->pairs ? 2 : 1; /* each block loads its half */
    t->all = *a;
    CCL_TRY(comm->rt->tensor_map(&t->own, (const void *)a->gemm.a, rows, cols, a->gemm.lda, CCL_WGMMA_ROWS, 0));
    if (a->source != CCL_A_REMOTE && km) {
        const size_t all = map->columns ? map->m : (map->ranks - 1) * ccl_round_up(d->shard, CCL_GEMM_PITCH) + d->shard;
        CCL_TRY(comm->rt->tensor_map(&t->staged, staged, d->k, all, a->stage_ld, CCL_MATRIX_TILE_K, 0));
    } else if (a->source != CCL_A_REMOTE) {
        CCL_TRY(comm->rt->tensor_map(&t->staged, staged, d->m, d->k, a->stage_ld, CCL_WGMMA_ROWS, 0));
    }
    if (ws->plan.bulk) {
        t->fetchers = a->fetchers;
        t->all.fetchers = 0;
        CCL_TRY(comm->rt->tensor_map(&t->fetched, staged, d->shard, d->k, a->stage_ld, CCL_WGMMA_ROWS, map->ranks));
    }
    if ((a->source == CCL_A_REMOTE || ws->plan.bulk) && map->ranks > 1 && !map->local) {
        CCL_TRY(comm->rt->tensor_map(&t->copy, ws->space + ws->copy_off, rows, cols, a->copy_ld, CCL_WGMMA_ROWS, 0));
    }
    return kn ? comm->rt->tensor_map(&t->b, (const void *)a->gemm.b, d->k, d->n, a->gemm.ldb, CCL_MATRIX_TILE_K, 0)
              : comm->rt->tensor_map(&t->b, (const void *)a->gemm.b, d->n, d->k, a->gemm.ldb, t->b_rows, 0);
}

cclResult_t ccl_matmul_launch(cclComm_t comm, const struct cclMatmulWorkspace *ws, enum ccl_k_matmul_kind kind, struct ccl_k_matmul_args *a,
                              struct cclStream *stream)
{
    const struct ccl_matmul_world world = ccl_matmul_world(comm);
    const struct ccl_matmul_core *core = ccl_matmul_core(&world);
    const bool maps = core != NULL && world.core == CCL_MATRIX_CORE_wgmma;
    struct ccl_k_matmul_tma_args with_maps;
    a->kind = kind;
    if (maps) {
        CCL_TRY(make_maps(comm, ws, a, &with_maps));
    }
    const struct ccl_launch l = {.kernel = kernel_of(&world, a),
                                 .device = comm->device,
                                 .traced = comm->trace != NULL && ws->plan.effective.trace != 0,
                                 .grid = ws->plan.grid,
                                 .threads = core != NULL ? core->threads : 1,
                                 .shared_bytes = core != NULL ? core->shared_bytes : 0,
                                 .host_threads = (uint32_t)comm->agreed.host_blocks,
                                 .args = maps ? (const void *)&with_maps : a,
                                 .args_bytes = (uint32_t)offsetof(struct ccl_k_matmul_args, coll) + comm->args_bytes};
    return comm->rt->launch(stream, &l);
}
