/* SPDX-License-Identifier: MIT
 *
 * The choices of a fused matrix product that desc and config leave open, and the maps that follow from them. Pure functions of what is equal on all ranks (and
 * of the rank), so all ranks plan alike; the signature in the advert proves it. */
#include "fused/matmul.h"

#include <string.h>

#include "util/log.h"

#define HOST_TILE 256    /* of C: what is converted to floats for it is used so often that the conversion costs little */
#define HOST_TILE_LEAST 64
#define HOST_TILE_K 256  /* as deep as the core packs at once */
#define TILES_A_BLOCK 3  /* at least, so that the last round is short */
#define MOST_GROUPS 8    /* of K: coarse flags are faster, some are needed to begin early */
#define MOST_GROUPS_BULK 32 /* where single threads fetch and wait */
#define BULK_FETCHERS 24 /* boxes of 16 KiB on their way, enough for a link of 50 GB/s */
#define BULK_FETCHERS_LEAST 6 /* of a rank, where several share that link */
#define MOST_FETCHED (1u << 28) /* elements of a fetch that a GPU's threads count in 32 bits */
#define PAIRS_ROUNDS 4   /* of tiles, at least: a round of pairs is a large step where there are few */
#define PAIRS_BLOCKS 16  /* at least: a cluster lies within a part of the device, and a block may be left over in each of 8, so some pair always finds a place */
#define FINEST_TILE 32u  /* that a workspace made without a config has ready words for */
#define FINEST_TILE_K 64u

static uint32_t divide_up(uint64_t a, uint64_t b) { return (uint32_t)((a + b - 1) / b); }
static uint64_t round_pitch(uint64_t elements) { return ccl_round_up(elements, CCL_GEMM_PITCH); }
static uint64_t most_of(uint64_t a, uint64_t b) { return a > b ? a : b; }
static int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

/* Columns of a tile of core wgmma: the last round of tiles may be short, and narrower tiles may fill it. */
static int wgmma_columns(const struct ccl_k_map *map, uint64_t units, int blocks)
{
    const uint64_t wide = divide_up(units * divide_up(map->n, 256), (uint64_t)blocks) * 256ull;
    const uint64_t narrow = divide_up(units * divide_up(map->n, CCL_WGMMA_NARROW), (uint64_t)blocks) * (uint64_t)CCL_WGMMA_NARROW;
    return narrow < wide ? (int)CCL_WGMMA_NARROW : 256;
}

static void choose_tile(const struct ccl_matmul_world *world, const struct ccl_k_map *map, int blocks, cclCallConfig_t *c)
{
    const uint32_t rows = map->columns ? map->m : map->shard, shards = map->columns || map->local ? 1 : map->ranks;
    const struct ccl_matmul_core *core = ccl_matmul_core(world);
    if (core != NULL) { /* one form, which masks what a smaller tile leaves out */
        c->gemm_tile_m = c->gemm_tile_m != CCL_UNSET ? c->gemm_tile_m : least(core->tile_m, (int64_t)ccl_round_up(rows, CCL_MATRIX_TILE));
        const uint64_t units = (uint64_t)divide_up(rows, (uint64_t)c->gemm_tile_m) * shards;
        const int columns = world->core == CCL_MATRIX_CORE_wgmma ? wgmma_columns(map, units, blocks) : (int)core->tile_n;
        c->gemm_tile_n = c->gemm_tile_n != CCL_UNSET ? c->gemm_tile_n : least(columns, (int64_t)ccl_round_up(map->n, CCL_MATRIX_TILE));
        c->gemm_tile_k = c->gemm_tile_k != CCL_UNSET ? c->gemm_tile_k : least(CCL_MATRIX_TILE_K, (int64_t)ccl_round_up(map->k, CCL_MATRIX_TILE));
        return;
    }
    int m = c->gemm_tile_m != CCL_UNSET ? c->gemm_tile_m : least(HOST_TILE, rows);
    int n = c->gemm_tile_n != CCL_UNSET ? c->gemm_tile_n : least(HOST_TILE, map->n);
    /* Enough tiles for all blocks to end at about the same time; the longer side is cut. */
    while (blocks > 1 && (uint64_t)divide_up(rows, (uint64_t)m) * shards * divide_up(map->n, (uint64_t)n) < (uint64_t)blocks * TILES_A_BLOCK) {
        bool cut_m = c->gemm_tile_m == CCL_UNSET && m > HOST_TILE_LEAST, cut_n = c->gemm_tile_n == CCL_UNSET && n > HOST_TILE_LEAST;
        if (!cut_m && !cut_n) {
            break;
        }
        if (cut_m && (!cut_n || m >= n)) {
            m /= 2;
        } else {
            n /= 2;
        }
    }
    c->gemm_tile_m = m;
    c->gemm_tile_n = n;
    c->gemm_tile_k = c->gemm_tile_k != CCL_UNSET ? c->gemm_tile_k : least(HOST_TILE_K, map->k);
}

/* A field is set that only hbm_buffer has. */
static bool asks_for_stage(const cclCallConfig_t *c)
{
    return c->layout != CCL_UNSET || c->fetch != CCL_UNSET || c->k_per_flag != CCL_UNSET || c->num_fetch_sms != CCL_UNSET;
}

/* The host's memory is one: reading a peer's A where it lies costs what reading a copy costs, so nothing is gained by making one. On GPUs each column of tiles would
 * read it over the link again, unless all ranks are on one: then a copy is what costs. */
static void choose_algorithm(const struct ccl_matmul_world *world, enum ccl_matmul_op op, const struct ccl_k_map *map, cclCallConfig_t *c)
{
    if (op == CCL_MATMUL_ALL_GATHER) {
        c->algorithm = cclAlgoAuto;
    } else if (c->algorithm == CCL_UNSET || c->algorithm == cclAlgoAuto) {
        const bool asked = asks_for_stage(c);
        const bool near = !world->is_host && world->ranks > 1 && world->one_device && !world->shared_host;
        const bool staged = asked || (!world->is_host && (world->ranks > 1 || map->columns));
        c->algorithm = staged ? cclAlgoHbmBuffer : cclAlgoBaseline;
        if (near && !asked) {
            c->algorithm = map->columns ? cclAlgoSequential : cclAlgoBaseline;
        }
    }
    if (c->algorithm == cclAlgoHbmBuffer) {
        c->layout = c->layout != CCL_UNSET ? c->layout : cclKContiguous;
        c->fetch = c->fetch != CCL_UNSET ? c->fetch : cclFetchPull;
    }
}

/* Two blocks may take two tiles of a column at a time (map.pairs). */
static bool wants_pairs(const struct ccl_matmul_world *world, const cclCallConfig_t *c, const struct ccl_k_map *map)
{
    const uint32_t own = ccl_map_own(map), units = ccl_map_units(map);
    const int blocks = c->comm_sms != CCL_UNSET ? c->comm_sms : world->auto_blocks;
    const bool even = own % 2 == 0 && units % 2 == 0 && blocks % 2 == 0 && (c->group_m == CCL_UNSET || c->group_m % 2 == 0);
    /* A product alone gains nothing from them. */
    const bool pays = c->algorithm == cclAlgoHbmBuffer && (uint64_t)units * map->tiles_n >= (uint64_t)PAIRS_ROUNDS * (uint64_t)blocks;
    return !world->is_host && world->core == CCL_MATRIX_CORE_wgmma && even && blocks >= PAIRS_BLOCKS && (world->pairs == CCL_UNSET ? pays : world->pairs != 0);
}

/* Units that are fetched together, core wgmma. Wide products leave time for more to arrive than run at once, and B is read once for all of them. Behind the links between devices they are
 * there by the time the own shard is multiplied (16384 x 14336 on two H200, fused over product alone: 2 units 1.039, 8 1.028, 16 1.035; 16384 x 3584: 4 1.038, 8 1.043, 16 1.099). */
static uint32_t remote_band(const struct ccl_matmul_world *world, uint32_t blocks, uint32_t at_once)
{
    if (world->shared_host) {
        return blocks < 2 ? 4 : at_once;
    }
    return at_once < 8 ? 8 : at_once;
}

static cclResult_t fill_map(const char *who, const struct ccl_matmul_world *world, const cclCallConfig_t *c, struct ccl_k_map *map)
{
    const bool hbm = c->algorithm == cclAlgoHbmBuffer;
    map->tile_m = (uint32_t)c->gemm_tile_m;
    map->tile_n = (uint32_t)c->gemm_tile_n;
    map->tile_k = (uint32_t)c->gemm_tile_k;
    map->shard_units = divide_up(map->columns ? map->m : map->shard, map->tile_m);
    map->tiles_n = divide_up(map->n, map->tile_n);
    map->blocks_k = divide_up(map->k, map->tile_k);
    CCL_CHECK(c->k_per_flag == CCL_UNSET || (c->k_per_flag >= 1 && (uint32_t)c->k_per_flag <= map->blocks_k), cclInvalidArgument, CCL_COLL,
              "%s: config: k_per_flag is %d, but K of %u has %u blocks of gemm_tile_k %u", who, c->k_per_flag, map->k, map->blocks_k, map->tile_k);
    const uint64_t most = world->is_host ? UINT32_MAX : most_of(1, MOST_FETCHED / map->tile_m / map->tile_k);
    CCL_CHECK(c->k_per_flag == CCL_UNSET || (uint64_t)c->k_per_flag <= most, cclInvalidArgument, CCL_COLL,
              "%s: config: k_per_flag is %d, but a GPU fetches at most %llu blocks of %u x %u at once", who, c->k_per_flag, (unsigned long long)most,
              map->tile_m, map->tile_k);
    const uint32_t coarse = divide_up(map->blocks_k, world->core == CCL_MATRIX_CORE_wgmma && !world->is_host ? MOST_GROUPS_BULK : MOST_GROUPS);
    map->k_per_flag = c->k_per_flag != CCL_UNSET ? (uint32_t)c->k_per_flag : coarse <= most ? coarse : (uint32_t)most;
    map->groups = divide_up(map->blocks_k, map->k_per_flag);
    map->pushes = hbm && c->fetch == cclFetchPush;
    /* With a heap of host memory the own shard is as far as a peer's. */
    map->own_fetched = hbm && !map->columns && (c->layout == cclMContiguous || (world->shared_host && !map->pushes));
    CCL_CHECK(!map->pushes || !map->columns, cclInvalidArgument, CCL_COLL, "%s: config: fetch push needs shards of rows, gather is columns", who);
    const uint32_t own = ccl_map_own(map), units = ccl_map_units(map), rest = units - own;
    const uint32_t walked = map->columns ? units : own;
    CCL_CHECK(c->group_m == CCL_UNSET || (c->group_m >= 1 && (uint32_t)c->group_m <= walked), cclInvalidArgument, CCL_COLL,
              "%s: config: group_m is %d, but there are %u rows of tiles of gemm_tile_m %u in %s", who, c->group_m, walked, map->tile_m,
              map->columns ? "m" : "a shard");
    /* GPU: what runs at one time is a patch that its cache holds; what is fetched is walked by as many units as the blocks compute at one time, for they arrive
     * together. Core wgmma: by two at least, since with one no two blocks that run at the same time share B. */
    const bool wgmma = !world->is_host && world->core == CCL_MATRIX_CORE_wgmma;
    const uint32_t patch = world->is_host ? 4 : wgmma ? 16 : 8, blocks = world->is_host ? 1 : (uint32_t)world->auto_blocks / map->tiles_n;
    map->pairs = wants_pairs(world, c, map);
    const uint32_t fewest = wgmma ? 2 : 1, at_once = blocks > fewest ? blocks - (map->pairs ? blocks % 2 : 0) : fewest;
    const uint32_t band = map->own_fetched && world->shared_host ? at_once : patch;
    const uint32_t fetched = wgmma ? remote_band(world, blocks, at_once) : at_once;
    map->group_m = c->group_m != CCL_UNSET ? (uint32_t)c->group_m : own != 0 ? (own < band ? own : band) : 1;
    map->group_remote = map->columns && c->group_m != CCL_UNSET ? (uint32_t)c->group_m : rest == 0 ? 1 : fetched < rest ? fetched : rest;
    const uint64_t tiles = (uint64_t)units * map->tiles_n;
    const uint64_t fetches = !hbm ? 0
                             : map->pushes ? (uint64_t)own * map->groups * (map->ranks - 1)
                                           : (uint64_t)(map->own_fetched || map->columns ? units : rest) * map->groups;
    CCL_CHECK(tiles <= 0x7fffffff && fetches <= 0x7fffffff && (uint64_t)units * map->groups <= 0x7fffffff, cclInvalidArgument, CCL_COLL,
              "%s: tiles of %u x %u and groups of %u columns cut the product into %llu tiles and %llu fetches, at most 2147483647 can be counted", who,
              map->tile_m, map->tile_n, map->k_per_flag * map->tile_k, (unsigned long long)tiles, (unsigned long long)fetches);
    map->tiles = (uint32_t)tiles;
    map->fetches = (uint32_t)fetches;
    map->rotated = map->columns && c->fixed_order == 0 && world->is_host; /* the cores of GPUs walk K from 0 on */
    CCL_CHECK(world->is_host || !map->columns || c->algorithm != cclAlgoBaseline, cclInvalidArgument, CCL_COLL,
              "%s: config: algorithm baseline reads A where it lies, which on a GPU needs shards of rows, gather is columns", who);
    return cclSuccess;
}

/* How many workers, and how many of them fetch first. */
static cclResult_t choose_grid(const char *who, const struct ccl_matmul_world *world, cclCallConfig_t *c, struct ccl_matmul_plan *plan)
{
    const uint32_t tasks = world->is_host || plan->map.tiles > plan->map.fetches ? plan->map.tiles : plan->map.fetches;
    int grid = c->comm_sms != CCL_UNSET ? c->comm_sms : least(world->auto_blocks, tasks);
    grid += plan->map.pairs ? grid % 2 : 0;
    CCL_CHECK(c->num_fetch_sms == CCL_UNSET || (c->num_fetch_sms >= 1 && c->num_fetch_sms <= grid), cclInvalidArgument, CCL_COLL,
              "%s: config: num_fetch_sms is %d, but there are %d blocks (comm_sms)", who, c->num_fetch_sms, grid);
    if (plan->map.fetches != 0) {
        const int share = world->shared_host && world->one_device ? BULK_FETCHERS / world->ranks : BULK_FETCHERS;
        const int all = grid > 4 ? grid / 4 : 1, bulk = least(grid, share > BULK_FETCHERS_LEAST ? share : BULK_FETCHERS_LEAST);
        c->num_fetch_sms = c->num_fetch_sms != CCL_UNSET ? c->num_fetch_sms : plan->bulk ? bulk : all;
    }
    plan->fetchers = plan->map.fetches != 0 ? (uint32_t)c->num_fetch_sms : 0;
    plan->grid = (uint32_t)grid;
    c->comm_sms = grid;
    return cclSuccess;
}

static void fill_needs(const struct ccl_matmul_world *world, enum ccl_matmul_op op, const cclMatmulDesc_t *d, const cclCallConfig_t *c,
                       struct ccl_matmul_plan *plan)
{
    const struct ccl_matmul_core *core = ccl_matmul_core(world);
    const struct ccl_k_map *map = &plan->map;
    struct ccl_matmul_needs *needs = &plan->needs;
    const uint64_t shard_rows = map->columns ? map->m : map->shard, shard_cols = map->columns ? map->shard : map->k;
    plan->copy_ld = op == CCL_ALL_GATHER_MATMUL ? round_pitch(shard_cols) : d->ldc;
    if (c->algorithm == cclAlgoSequential) {
        plan->land_ld = plan->stage_ld = round_pitch(shard_cols);
        needs->stage_bytes = 2 * plan->land_ld * shard_rows * map->ranks;
        if (core != NULL && map->columns && map->ranks > 1) { /* the cores of GPUs want each row of A in one piece */
            plan->packs = true;
            plan->stage_ld = round_pitch(map->k);
            plan->land_off = ccl_round_up(2 * plan->stage_ld * map->m, CCL_CACHE_LINE);
            needs->stage_bytes += plan->land_off;
        }
    } else if (c->algorithm == cclAlgoHbmBuffer) {
        const uint64_t rows = map->columns ? round_pitch(map->m) : map->ranks * round_pitch(map->shard); /* the shard of each rank begins aligned */
        plan->stage_ld = c->layout == cclMContiguous ? rows : round_pitch(map->k);
        needs->stage_bytes = 2 * plan->stage_ld * (c->layout == cclMContiguous ? map->k : map->m);
        needs->words = (uint64_t)ccl_map_units(map) * map->groups;
    }
    if (map->ranks > 1 && c->algorithm != cclAlgoSequential && !map->pushes) {
        needs->copy_bytes = 2 * plan->copy_ld * (op == CCL_ALL_GATHER_MATMUL ? shard_rows : map->m);
    }
    plan->local = !world->is_host && needs->stage_bytes != 0 && !map->pushes && (c->algorithm == cclAlgoHbmBuffer || world->shared_host);
    if (plan->local) {
        needs->local_bytes = needs->stage_bytes;
        needs->stage_bytes = 0;
    }
    needs->block_bytes = core != NULL ? core->block_bytes : ccl_round_up(CCL_GEMM_HOST_SCRATCH(map->tile_m, map->tile_n), CCL_CACHE_LINE);
    needs->blocks = plan->grid;
}

static void fill_gemm(const cclMatmulDesc_t *d, const cclCallConfig_t *c, struct ccl_matmul_plan *plan)
{
    const struct ccl_k_map *map = &plan->map;
    plan->gemm = (struct ccl_k_gemm){.lda = d->lda,
                                     .ldb = d->ldb,
                                     .ldc = d->ldc,
                                     .m = map->m,
                                     .n = map->n,
                                     .k = map->k,
                                     .type = d->type == cclFloat16 ? CCL_GEMM_F16 : CCL_GEMM_BF16,
                                     .a_layout = c->layout == cclMContiguous ? CCL_GEMM_K_OUTER : CCL_GEMM_K_INNER,
                                     .b_layout = d->b_transposed ? CCL_GEMM_K_INNER : CCL_GEMM_K_OUTER,
                                     .bias_kind = d->bias == cclBiasNone       ? CCL_GEMM_NO_BIAS
                                                  : d->bias == cclBiasByColumn ? CCL_GEMM_BIAS_BY_COLUMN
                                                                               : CCL_GEMM_BIAS_BY_ROW,
                                     .tile_m = map->tile_m,
                                     .tile_n = map->tile_n,
                                     .tile_k = map->tile_k,
                                     .tiles_m = ccl_map_units(map),
                                     .tiles_n = map->tiles_n,
                                     .blocks_k = map->blocks_k,
                                     .group_m = map->group_m,
                                     .xcds = 1};
}

cclResult_t ccl_matmul_plan(const char *who, enum ccl_matmul_op op, const struct ccl_matmul_world *world, const cclMatmulDesc_t *d,
                            const cclCallConfig_t *config, struct ccl_matmul_plan *plan)
{
    cclCallConfig_t c = *config;
    memset(plan, 0, sizeof(*plan));
    CCL_TRY(ccl_matmul_check_desc(who, op, d, world->ranks));
    CCL_TRY(ccl_matmul_check_core(who, op, world, d));
    CCL_TRY(ccl_matmul_check_config(who, op, world, &c));
    plan->map = (struct ccl_k_map){.ranks = (uint32_t)world->ranks,
                                   .rank = (uint32_t)world->rank,
                                   .columns = d->gather == cclGatherColumns,
                                   .local = op == CCL_MATMUL_ALL_GATHER,
                                   .shard = (uint32_t)d->shard,
                                   .m = (uint32_t)d->m,
                                   .n = (uint32_t)d->n,
                                   .k = (uint32_t)d->k};
    choose_algorithm(world, op, &plan->map, &c);
    c.fixed_order = c.fixed_order != CCL_UNSET ? c.fixed_order : 1;
    choose_tile(world, &plan->map, c.comm_sms != CCL_UNSET ? c.comm_sms : world->auto_blocks, &c);
    CCL_TRY(fill_map(who, world, &c, &plan->map));
    plan->bulk = !world->is_host && world->core == CCL_MATRIX_CORE_wgmma && plan->map.fetches != 0 && !plan->map.pushes && !plan->map.columns &&
                 c.layout == cclKContiguous && plan->map.tile_m == CCL_WGMMA_ROWS && plan->map.tile_k * plan->map.k_per_flag % CCL_MATRIX_TILE_K == 0;
    CCL_TRY(choose_grid(who, world, &c, plan));
    const char *fault = ccl_matmul_prove(&plan->map, &ccl_matmul_maps);
    CCL_CHECK(fault == NULL, cclInvalidArgument, CCL_COLL,
              "%s: config does not cover the shape %zu x %zu x %zu on %d ranks (tile %d x %d x %d, group_m %d, k_per_flag %d): %s", who, d->m, d->n, d->k,
              world->ranks, c.gemm_tile_m, c.gemm_tile_n, c.gemm_tile_k, c.group_m, c.k_per_flag, fault);
    fill_needs(world, op, d, &c, plan);
    fill_gemm(d, &c, plan);
    plan->sequential = c.algorithm == cclAlgoSequential;
    plan->source = plan->sequential ? CCL_A_GATHERED : c.algorithm == cclAlgoHbmBuffer ? CCL_A_STAGED : CCL_A_REMOTE;
    c.group_m = (int)(plan->map.columns ? plan->map.group_remote : plan->map.group_m);
    c.k_per_flag = c.algorithm == cclAlgoHbmBuffer ? (int)plan->map.k_per_flag : CCL_UNSET;
    c.threads = world->is_host ? 1 : (int)ccl_matmul_core(world)->threads;
    plan->effective = c;
    return cclSuccess;
}

void ccl_matmul_add_needs(struct ccl_matmul_needs *sum, const struct ccl_matmul_needs *n)
{
    sum->words = most_of(sum->words, n->words);
    sum->stage_bytes = most_of(sum->stage_bytes, n->stage_bytes);
    sum->local_bytes = most_of(sum->local_bytes, n->local_bytes);
    sum->copy_bytes = most_of(sum->copy_bytes, n->copy_bytes);
    sum->block_bytes = most_of(sum->block_bytes, n->block_bytes);
    sum->blocks = most_of(sum->blocks, n->blocks);
}

cclResult_t ccl_matmul_plan_needs(const char *who, const struct ccl_matmul_world *world, const cclMatmulDesc_t *d, const cclCallConfig_t *config,
                                  struct ccl_matmul_needs *needs)
{
    const enum ccl_matmul_op op = d->gather == cclGatherOutput ? CCL_MATMUL_ALL_GATHER : CCL_ALL_GATHER_MATMUL;
    struct ccl_matmul_plan plan;
    cclCallConfig_t c = *config;
    memset(needs, 0, sizeof(*needs));
    CCL_TRY(ccl_matmul_plan(who, op, world, d, &c, &plan));
    ccl_matmul_add_needs(needs, &plan.needs);
    needs->blocks = most_of(needs->blocks, (uint64_t)(c.comm_sms != CCL_UNSET ? c.comm_sms : world->auto_blocks));
    if (op == CCL_MATMUL_ALL_GATHER || (c.algorithm != CCL_UNSET && c.algorithm != cclAlgoAuto && c.algorithm != cclAlgoHbmBuffer)) {
        return cclSuccess;
    }
    if (c.algorithm != cclAlgoHbmBuffer && !asks_for_stage(&c)) {
        c.algorithm = cclAlgoSequential;
        CCL_TRY(ccl_matmul_plan(who, op, world, d, &c, &plan));
        ccl_matmul_add_needs(needs, &plan.needs);
    }
    c.algorithm = cclAlgoHbmBuffer;
    for (int layout = cclKContiguous; layout <= cclMContiguous; layout++) {
        if (config->layout == CCL_UNSET || config->layout == layout) {
            c.layout = c.fetch == cclFetchPush ? cclKContiguous : layout;
            CCL_TRY(ccl_matmul_plan(who, op, world, d, &c, &plan));
            ccl_matmul_add_needs(needs, &plan.needs);
        }
    }
    if (config->fetch == CCL_UNSET && config->layout != cclMContiguous && !plan.map.columns) { /* staged where peers reach it */
        c.layout = cclKContiguous;
        c.fetch = cclFetchPush;
        CCL_TRY(ccl_matmul_plan(who, op, world, d, &c, &plan));
        ccl_matmul_add_needs(needs, &plan.needs);
    }
    /* Ready words for finer tiles and flags too, where they are left open. */
    const uint32_t tile_m = c.gemm_tile_m != CCL_UNSET ? (uint32_t)c.gemm_tile_m : FINEST_TILE;
    const uint32_t tile_k = c.gemm_tile_k != CCL_UNSET ? (uint32_t)c.gemm_tile_k : FINEST_TILE_K;
    const uint32_t groups = divide_up(divide_up(plan.map.k, tile_k), c.k_per_flag != CCL_UNSET ? (uint64_t)c.k_per_flag : 1);
    const uint64_t units = plan.map.columns ? divide_up(plan.map.m, tile_m) : (uint64_t)plan.map.ranks * divide_up(plan.map.shard, tile_m);
    needs->words = most_of(needs->words, units * groups);
    return cclSuccess;
}
