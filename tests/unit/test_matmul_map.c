/* SPDX-License-Identifier: MIT
 *
 * Proves, on 100,000 random shapes and configs and on the large shapes that a published kernel gets wrong, that what the planner accepts computes every tile once, fetches
 * every group of A once from columns its owner has, and sets exactly the words that are waited for; that the quick proof says so too; and that it
 * refuses broken maps and numbers whenever they lose or double anything; and that
 * tiles which two blocks take as a pair are of one column. */
/* CTEST: labels quick */
#include <string.h>
#include <time.h>

#include "fused/matmul.h"
#include "test.h"
#include "util/log.h"

#define SHAPES 100000
#define MOST 4096 /* tiles, flags of a random shape */

static uint64_t state = 0x9e3779b97f4a7c15u;
static unsigned char *seen;
static size_t seen_bytes;

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 32) * n >> 32);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static unsigned char *blank(size_t bytes)
{
    if (bytes > seen_bytes) {
        free(seen);
        seen = malloc(bytes);
        seen_bytes = bytes;
    }
    memset(seen, 0, bytes);
    return seen;
}

/* ---- everything, one by one; NULL: right ---- */

static const char *count_tiles(const struct ccl_k_map *map, const struct ccl_matmul_maps *maps)
{
    const uint32_t units = ccl_map_units(map);
    uint32_t before = 0;
    unsigned char *s = blank((size_t)units * map->tiles_n);
    if (map->tiles != (uint64_t)units * map->tiles_n) {
        return "a tile is missing, or there are too many";
    }
    for (uint32_t i = 0; i < map->tiles; i++) {
        uint32_t unit, column;
        maps->tile(map, i, &unit, &column);
        if (unit >= units || column >= map->tiles_n || s[(size_t)unit * map->tiles_n + column]++ != 0) {
            return "a tile twice, or none that there is";
        }
        if (map->pairs && (i % 2 == 0 ? i + 1 == map->tiles : column != before)) {
            return "a pair of tiles is not of one column";
        }
        before = column;
    }
    return NULL;
}

/* The fetches that set words at `rank`: its own ones, or what its peers push. */
static const char *count_flags(const struct ccl_k_map *map, const struct ccl_matmul_maps *maps)
{
    const uint32_t units = ccl_map_units(map);
    unsigned char *s = blank((size_t)units * map->groups);
    const uint32_t own = ccl_map_own(map), pulled = map->own_fetched ? units : units - own;
    if (map->fetches != 0 && map->fetches != (map->pushes ? (uint64_t)own * (map->ranks - 1) : pulled) * map->groups) {
        return "not as many fetches as flags";
    }
    for (uint32_t r = 0; r < map->ranks; r++) {
        struct ccl_k_map theirs = *map;
        theirs.rank = r;
        for (uint32_t i = 0; i < map->fetches && (map->pushes || r == map->rank); i++) {
            const struct ccl_k_block b = maps->fetch(&theirs, i);
            if (b.unit >= units || b.group >= map->groups || b.peer >= map->ranks || (!map->pushes && b.peer != r)) {
                return "a fetch of nothing";
            }
            if (map->pushes && (b.unit / map->shard_units != r || b.peer == r)) {
                return "a push of what is not its own, or to itself";
            }
            if (b.peer == map->rank && s[ccl_map_ready(map, b.unit, b.group)]++ != 0) {
                return "a flag is set twice";
            }
        }
    }
    for (uint32_t unit = 0; unit < units && map->fetches != 0; unit++) {
        for (uint32_t g = 0; g < map->groups; g++) {
            if (s[ccl_map_ready(map, unit, g)] != (ccl_map_waits(map, unit) != 0)) {
                return "a flag is waited for that nobody sets, or the other way round";
            }
        }
    }
    return NULL;
}

static const char *count_rows(const struct ccl_k_map *map)
{
    uint32_t next = 0;
    for (uint32_t unit = 0; unit < ccl_map_units(map); unit++) {
        uint32_t row = ccl_map_row(map, unit), rows = ccl_map_rows(map, unit);
        if (row != next || rows < 1 || rows > map->tile_m) {
            return "rows are left out or doubled";
        }
        next = row + rows;
    }
    return next == (map->local ? map->shard : map->m) ? NULL : "not all rows";
}

static const char *count_columns(const struct ccl_k_map *map)
{
    const uint32_t unit = ccl_map_units(map) - 1;
    unsigned char *s = blank(map->groups);
    for (uint32_t i = 0; i < map->groups; i++) {
        uint32_t g = ccl_map_group(map, i), k0, k1, end, before;
        if (g >= map->groups || s[g]++ != 0) {
            return "a group is added twice";
        }
        ccl_map_columns(map, g, &k0, &k1);
        before = k0;
        if (g != 0) {
            uint32_t first;
            ccl_map_columns(map, g - 1, &first, &before);
        }
        if (before != k0 || k1 <= k0 || (g + 1 == map->groups) != (k1 == map->k)) {
            return "columns are left out or doubled";
        }
        for (uint32_t k = k0; k < k1; k = end) {
            uint32_t owner = ccl_map_owner(map, unit, k, k1, &end);
            if (end <= k || end > k1 || (!map->local && owner >= map->ranks) ||
                (map->columns && (k < owner * map->shard || end > (owner + 1) * map->shard))) {
                return "columns of nobody";
            }
        }
    }
    return NULL;
}

static const char *count_all(const struct ccl_k_map *map, const struct ccl_matmul_maps *maps)
{
    const char *fault = count_tiles(map, maps);
    fault = fault == NULL ? count_flags(map, maps) : fault;
    fault = fault == NULL ? count_rows(map) : fault;
    return fault == NULL ? count_columns(map) : fault;
}

/* ---- broken maps: each loses or doubles something in some shapes ---- */

/* The defect of a published kernel: the last band of tiles is taken for as high as the others. */
static void tile_full_band(const struct ccl_k_map *map, uint32_t i, uint32_t *unit, uint32_t *column)
{
    const uint32_t own = ccl_map_own(map), local = own * map->tiles_n, down = i < local ? own : ccl_map_units(map) - own;
    const uint32_t band = i < local ? map->group_m : map->group_remote, at = i < local ? i : i - local, within = at % (band * map->tiles_n);
    uint32_t position = at / (band * map->tiles_n) * band + within % band;
    *column = within / band;
    *unit = ccl_map_unit(map, (i < local ? 0 : own) + (position < down ? position : down - 1));
}

static struct ccl_k_block fetch_full_band(const struct ccl_k_map *map, uint32_t i)
{
    struct ccl_k_block b = ccl_map_fetch(map, i);
    const uint32_t own = ccl_map_own(map), local = map->own_fetched ? own * map->groups : 0, down = ccl_map_units(map) - own;
    if (!map->pushes && i >= local) {
        const uint32_t band = map->group_remote, within = (i - local) % (band * map->groups);
        uint32_t position = (i - local) / (band * map->groups) * band + within % band;
        b.group = (within / band + ccl_map_own_group(map)) % map->groups;
        b.unit = ccl_map_unit(map, own + (position < down ? position : down - 1));
    }
    return b;
}

/* Waits by one order, data by another: the pivot is forgotten. */
static void tile_no_pivot(const struct ccl_k_map *map, uint32_t i, uint32_t *unit, uint32_t *column)
{
    struct ccl_k_map other = *map;
    other.rank = 0;
    ccl_map_tile(i < ccl_map_own(map) * map->tiles_n ? map : &other, i, unit, column);
}

static struct ccl_k_block fetch_no_tail(const struct ccl_k_map *map, uint32_t i)
{
    struct ccl_k_block b = ccl_map_fetch(map, i);
    b.group = b.group + 1 == map->groups && b.group != 0 ? b.group - 1 : b.group;
    return b;
}

static struct ccl_k_block fetch_wrong_peer(const struct ccl_k_map *map, uint32_t i)
{
    struct ccl_k_block b = ccl_map_fetch(map, i);
    b.peer = map->pushes && b.peer + 1 == map->ranks ? map->rank : b.peer;
    return b;
}

static void tile_right(const struct ccl_k_map *map, uint32_t i, uint32_t *unit, uint32_t *column) { ccl_map_tile(map, i, unit, column); }
static struct ccl_k_block fetch_right(const struct ccl_k_map *map, uint32_t i) { return ccl_map_fetch(map, i); }

static const struct ccl_matmul_maps broken[] = {{tile_full_band, fetch_right},
                                                {tile_right, fetch_full_band},
                                                {tile_no_pivot, fetch_right},
                                                {tile_right, fetch_no_tail},
                                                {tile_right, fetch_wrong_peer}};
#define BROKEN (sizeof(broken) / sizeof(broken[0]))
static unsigned long refused[BROKEN], spoiled_refused;

/* One number of the map is off by one. */
static void spoil(struct ccl_k_map *map)
{
    uint32_t *fields[] = {&map->tiles, &map->fetches, &map->shard_units, &map->tiles_n, &map->groups, &map->blocks_k, &map->group_m, &map->group_remote};
    uint32_t i = below(sizeof(fields) / sizeof(fields[0]));
    *fields[i] += below(2) || *fields[i] == 0 ? 1 : -1u;
}

/* ---- shapes ---- */

static int some(int most) { return below(3) == 0 ? CCL_UNSET : 1 + (int)below((uint32_t)most); }

static void random_call(struct ccl_matmul_world *w, cclMatmulDesc_t *d, cclCallConfig_t *c)
{
    const cclMatmulDesc_t desc = CCL_MATMUL_DESC_INITIALIZER;
    const cclCallConfig_t unset = CCL_CALL_CONFIG_INITIALIZER;
    *d = desc;
    *c = unset;
    w->is_host = below(4) != 0;
    w->core = w->is_host ? CCL_MATRIX_CORE_NONE : (enum ccl_matrix_core)(1 + below(CCL_NUM_MATRIX_CORES - 1));
    w->ranks = 1 + (int)below(w->is_host ? 9 : 8);
    w->rank = (int)below((uint32_t)w->ranks);
    w->one_device = !w->is_host && below(3) == 0;
    w->shared_host = !w->is_host && below(3) == 0; /* then the own shard is fetched too */
    w->blocks = 1 + (int)below(64);
    w->auto_blocks = 1 + (int)below((uint32_t)w->blocks);
    w->pairs = 0;
    d->gather = (int)below(3);
    d->shard = 1 + below(60);
    d->m = 1 + below(300);
    d->k = 1 + below(300);
    d->n = 1 + below(200);
    *(d->gather == cclGatherColumns ? &d->k : &d->m) = d->shard * (size_t)w->ranks;
    d->type = below(2) ? cclFloat16 : cclBfloat16;
    d->b_transposed = (int)below(2);
    d->bias = (int)below(3);
    d->lda = ccl_round_up(d->gather == cclGatherColumns ? d->shard : d->k, 8);
    d->ldb = ccl_round_up(d->b_transposed ? d->k : d->n, 8);
    d->ldc = ccl_round_up(d->n, 8);
    c->gemm_tile_m = some(40);
    c->gemm_tile_n = some(40);
    c->gemm_tile_k = some(40);
    if (!w->is_host && below(8) != 0) { /* multiples of 8, or refused */
        c->gemm_tile_m = c->gemm_tile_m == CCL_UNSET ? CCL_UNSET : c->gemm_tile_m / 4 * 8 + 8;
        c->gemm_tile_n = c->gemm_tile_n == CCL_UNSET ? CCL_UNSET : c->gemm_tile_n / 4 * 8 + 8;
        c->gemm_tile_k = c->gemm_tile_k == CCL_UNSET ? CCL_UNSET : c->gemm_tile_k / 4 * 8 + 8;
    }
    c->fixed_order = below(2) ? CCL_UNSET : (int)below(2);
    c->group_m = some(6);
    c->comm_sms = some(w->blocks + 1);
    if (d->gather != cclGatherOutput) {
        c->algorithm = below(3) == 0 ? CCL_UNSET : (int)below(4);
        if (c->algorithm == cclAlgoHbmBuffer || c->algorithm == CCL_UNSET) {
            c->layout = below(2) ? CCL_UNSET : (int)below(2);
            c->fetch = below(2) ? CCL_UNSET : (int)below(2);
            c->k_per_flag = some(8);
            c->num_fetch_sms = some(w->blocks);
        }
    }
}

/* On some rank: what sets the words of one rank is what others do. */
static bool refuses(struct ccl_k_map map, const struct ccl_matmul_maps *maps)
{
    for (map.rank = 0; map.rank < map.ranks; map.rank++) {
        if (ccl_matmul_prove(&map, maps) != NULL) {
            return true;
        }
    }
    return false;
}

static void check_broken(const struct ccl_matmul_plan *plan)
{
    const unsigned i = below(BROKEN);
    struct ccl_k_map map = plan->map;
    if (count_all(&map, &broken[i]) != NULL) {
        refused[i]++;
        if (!refuses(map, &broken[i])) {
            TEST_FAIL("broken maps %u pass the proof: %u ranks, rank %u, %u x %u x %u, tile %u x %u x %u, group %u/%u, k_per_flag %u", i, map.ranks,
                      map.rank, map.m, map.n, map.k, map.tile_m, map.tile_n, map.tile_k, map.group_m, map.group_remote, map.k_per_flag);
        }
    }
    spoil(&map);
    if (map.groups == 0 || map.tiles_n == 0 || map.shard_units == 0 || map.group_m == 0 || map.group_remote == 0 || map.blocks_k == 0 ||
        count_all(&map, &ccl_matmul_maps) != NULL) {
        spoiled_refused++;
        if (ccl_matmul_prove(&map, &ccl_matmul_maps) == NULL) {
            TEST_FAIL("a spoiled map passes the proof: tiles %u fetches %u units %u tiles_n %u groups %u blocks_k %u group %u/%u", map.tiles, map.fetches,
                      map.shard_units, map.tiles_n, map.groups, map.blocks_k, map.group_m, map.group_remote);
        }
    }
}

static void check_needs(const struct ccl_matmul_world *w, const cclMatmulDesc_t *d, const cclCallConfig_t *c, const struct ccl_matmul_plan *plan)
{
    struct ccl_matmul_needs needs;
    if (ccl_matmul_plan_needs("test", w, d, c, &needs) != cclSuccess) {
        TEST_FAIL("no workspace for a call that can be planned: %s", ccl_error_last());
        return;
    }
    TEST_CHECK(needs.words >= plan->needs.words && needs.stage_bytes >= plan->needs.stage_bytes && needs.copy_bytes >= plan->needs.copy_bytes &&
               needs.block_bytes >= plan->needs.block_bytes && needs.blocks >= plan->needs.blocks);
    TEST_CHECK(plan->map.fetches == 0 || plan->needs.words == (uint64_t)ccl_map_units(&plan->map) * plan->map.groups);
    TEST_CHECK(plan->grid >= 1 && plan->grid <= (uint32_t)w->blocks && plan->fetchers <= plan->grid && (plan->fetchers != 0) == (plan->map.fetches != 0));
}

static enum ccl_matmul_op op_of(const cclMatmulDesc_t *d) { return d->gather == cclGatherOutput ? CCL_MATMUL_ALL_GATHER : CCL_ALL_GATHER_MATMUL; }

static void random_shapes(void)
{
    unsigned long accepted = 0, fetching = 0, pushing = 0, rejected = 0;
    double proving = 0;
    for (unsigned long i = 0; i < SHAPES; i++) {
        struct ccl_matmul_world w;
        struct ccl_matmul_plan plan;
        cclMatmulDesc_t d;
        cclCallConfig_t c;
        random_call(&w, &d, &c);
        const enum ccl_matmul_op op = op_of(&d);
        cclResult_t rc = ccl_matmul_plan("test", op, &w, &d, &c, &plan);
        if (rc != cclSuccess) {
            rejected++;
            TEST_EQ(rc, cclInvalidArgument);
            TEST_CHECK(strstr(ccl_error_last(), "config: ") != NULL && strstr(ccl_error_last(), "does not cover") == NULL);
            continue;
        }
        if (plan.map.tiles > MOST || plan.map.fetches > MOST) {
            continue;
        }
        accepted++;
        fetching += plan.map.fetches != 0;
        pushing += plan.map.pushes;
        const char *fault = count_all(&plan.map, &ccl_matmul_maps);
        if (fault != NULL) {
            TEST_FAIL("%s: %d ranks, rank %d, gather %d, %zu x %zu x %zu, shard %zu, tile %d x %d x %d, group_m %d, k_per_flag %d", fault, w.ranks, w.rank,
                      d.gather, d.m, d.n, d.k, d.shard, plan.effective.gemm_tile_m, plan.effective.gemm_tile_n, plan.effective.gemm_tile_k,
                      plan.effective.group_m, plan.effective.k_per_flag);
        }
        const double start = seconds();
        TEST_CHECK(ccl_matmul_prove(&plan.map, &ccl_matmul_maps) == NULL);
        proving += seconds() - start;
        check_needs(&w, &d, &c, &plan);
        check_broken(&plan);
    }
    printf("%d random calls: %lu accepted (%lu with fetches, %lu by push), %lu refused by name; a proof takes %.2f us\n", SHAPES, accepted, fetching,
           pushing, rejected, proving / (double)accepted * 1e6);
    TEST_CHECK(accepted > SHAPES / 4 && fetching > SHAPES / 20 && pushing > SHAPES / 200 && rejected > SHAPES / 20);
    for (unsigned b = 0; b < BROKEN; b++) {
        TEST_CHECK(refused[b] > 50);
    }
    printf("broken maps refused: %lu %lu %lu %lu %lu, spoiled numbers %lu\n", refused[0], refused[1], refused[2], refused[3], refused[4], spoiled_refused);
    TEST_CHECK(spoiled_refused > SHAPES / 20);
}

/* Random shapes for pairs of blocks, and numbers that are spoiled by one. */
static void paired_shapes(void)
{
    unsigned long paired = 0, odd = 0, uneven = 0;
    for (unsigned long i = 0; i < SHAPES; i++) {
        struct ccl_matmul_world w;
        struct ccl_matmul_plan plan;
        cclMatmulDesc_t d;
        cclCallConfig_t c;
        random_call(&w, &d, &c);
        w.core = CCL_MATRIX_CORE_wgmma, w.is_host = false, w.ranks = 1 + (w.ranks - 1) % 8, w.rank %= w.ranks, w.pairs = below(3) ? 1 : CCL_UNSET;
        *(d.gather == cclGatherColumns ? &d.k : &d.m) = d.shard * (size_t)w.ranks;
        w.blocks = w.auto_blocks = 2 + 2 * (int)below(48);
        if (ccl_matmul_plan("test", op_of(&d), &w, &d, &c, &plan) != cclSuccess ||
            plan.map.tiles > MOST || plan.map.fetches > MOST) {
            continue;
        }
        const char *fault = count_all(&plan.map, &ccl_matmul_maps);
        if (fault != NULL || (plan.map.pairs && (plan.grid % 2 != 0 || plan.grid > (uint32_t)w.blocks || plan.fetchers > plan.grid))) {
            TEST_FAIL("%s: %u units of %u tiles, group %u/%u, grid %u of %d", fault, ccl_map_units(&plan.map), plan.map.tiles_n, plan.map.group_m,
                      plan.map.group_remote, plan.grid, w.blocks);
        }
        paired += plan.map.pairs;
        odd += !plan.map.pairs;
        if (plan.map.pairs && below(2)) { /* what would be no pairs is refused, unless no band ends in between */
            *(below(2) ? &plan.map.group_m : &plan.map.group_remote) -= 1;
            if (count_all(&plan.map, &ccl_matmul_maps) != NULL) {
                uneven++;
                TEST_CHECK(ccl_matmul_prove(&plan.map, &ccl_matmul_maps) != NULL);
            }
        }
    }
    printf("%lu plans for pairs, %lu for blocks alone, uneven bands refused: %lu\n", paired, odd, uneven);
    TEST_CHECK(paired > SHAPES / 400 && odd > SHAPES / 100 && uneven > SHAPES / 2500);
}

/* Large products go by pairs where all bands of units are even. */
static void when_paired(void)
{
    static const struct {
        size_t shard, n;
        int ranks, blocks, want_unset, want_forced;
    } cases[] = {{16384, 3584, 1, 132, 0, 1}, {8192, 3584, 2, 66, 1, 1},  {2048, 3584, 8, 16, 1, 1}, {1024, 3584, 2, 132, 0, 1},
                 {8192, 3584, 2, 131, 0, 0}, {8100, 3584, 2, 132, 1, 1}, {8065, 3584, 2, 132, 1, 1}, {8064, 3584, 2, 132, 0, 0},
                 {4096, 24576, 4, 14, 0, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int pairs = 0; pairs <= 2; pairs++) {
            const struct ccl_matmul_world w = {.ranks = cases[i].ranks, .core = CCL_MATRIX_CORE_wgmma, .blocks = cases[i].blocks,
                                               .auto_blocks = cases[i].blocks, .pairs = pairs == 2 ? CCL_UNSET : pairs};
            cclMatmulDesc_t d = CCL_MATMUL_DESC_INITIALIZER;
            const cclCallConfig_t c = CCL_CALL_CONFIG_INITIALIZER;
            struct ccl_matmul_plan plan;
            d.shard = cases[i].shard, d.m = d.shard * (size_t)w.ranks, d.n = d.ldb = d.ldc = cases[i].n, d.k = d.lda = 8192, d.type = cclFloat16;
            TEST_EQ(ccl_matmul_plan("test", CCL_ALL_GATHER_MATMUL, &w, &d, &c, &plan), cclSuccess);
            TEST_EQ((int)plan.map.pairs, pairs == 0 ? 0 : pairs == 1 ? cases[i].want_forced : cases[i].want_unset);
        }
    }
}

/* The shapes for which a published table gives configs that leave tiles out, with those configs. */
static void large_shapes(void)
{
    static const struct {
        size_t m, n, k;
        int tile_m, group_m, k_per_flag;
    } shapes[] = {{262144, 8192, 8192, 256, 24, 64},  {131072, 16384, 16384, 256, 24, 32}, {147456, 28672, 4096, 256, 24, 16},
                  {229376, 28672, 4096, 256, 24, 16}, {327680, 28672, 4096, 256, 24, 16},  {8192, 8192, 262144, 128, 8, 32},
                  {16384, 16384, 131072, 128, 16, 16}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (int gather = cclGatherRows; gather <= cclGatherColumns; gather++) {
            const struct ccl_matmul_world w = {.ranks = 8, .rank = 3, .is_host = true, .blocks = 128, .auto_blocks = 128};
            cclMatmulDesc_t d = CCL_MATMUL_DESC_INITIALIZER;
            cclCallConfig_t c = CCL_CALL_CONFIG_INITIALIZER;
            struct ccl_matmul_plan plan;
            d.m = shapes[i].m, d.n = d.ldb = d.ldc = shapes[i].n, d.k = shapes[i].k, d.gather = gather, d.type = cclFloat16;
            d.shard = (gather == cclGatherRows ? d.m : d.k) / 8;
            d.lda = gather == cclGatherRows ? d.k : d.shard;
            c.algorithm = cclAlgoHbmBuffer, c.gemm_tile_m = shapes[i].tile_m, c.gemm_tile_n = 256, c.gemm_tile_k = 64;
            c.k_per_flag = shapes[i].k_per_flag;
            c.group_m = gather == cclGatherRows && shapes[i].m / 8 / (size_t)shapes[i].tile_m < (size_t)shapes[i].group_m ? CCL_UNSET : shapes[i].group_m;
            const double start = seconds();
            TEST_EQ(ccl_matmul_plan("test", CCL_ALL_GATHER_MATMUL, &w, &d, &c, &plan), cclSuccess);
            const double took = seconds() - start;
            const char *fault = count_all(&plan.map, &ccl_matmul_maps);
            printf("%zu x %zu x %zu by %s: %u tiles, %u fetches, planned and proved in %.1f us\n", d.m, d.n, d.k, gather ? "columns" : "rows",
                   plan.map.tiles, plan.map.fetches, took * 1e6);
            if (fault != NULL) {
                TEST_FAIL("%s", fault);
            }
        }
    }
}

int main(void)
{
    ccl_log_set_rank(0);
    random_shapes();
    paired_shapes();
    when_paired();
    large_shapes();
    free(seen);
    return test_result();
}
