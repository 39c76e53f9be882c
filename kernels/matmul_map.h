/* SPDX-License-Identifier: MIT
 *
 * Who computes, fetches and waits for what in a fused matrix product: plain C11, one copy for plan, proof, kernels and tests.
 *
 * Words. A unit is a row of output tiles (tile_m rows of A and C). A shard of rows has shard_units units, none across two shards; where A is sharded by columns
 * units are cut over all rows. A group is k_per_flag K blocks. A fetch brings one group of one unit and sets one ready word.
 * A position is a place in the order in which units are computed: the own shard first, then one unit of each peer in rotation (arrival order). The fetches
 * go the same way, in bands of group_remote positions, so that what is computed together arrives together, group by group.
 * All maps are bijections if ccl_matmul_prove (src/fused/matmul_proof.c) says so. */
#ifndef CCL_MATMUL_MAP_H
#define CCL_MATMUL_MAP_H

#ifndef __HIP__
#include <stdint.h>
#endif

#if defined(CCL_DEVICE)
#define CCL_MAP CCL_DEVICE
#else
#define CCL_MAP static inline
#endif

struct ccl_k_map {
    uint32_t ranks, rank;
    uint32_t columns; /* A is sharded by columns */
    uint32_t local;   /* only the own shard is multiplied (cclMatmulAllGather) */
    uint32_t shard;   /* rows, or columns, of a rank */
    uint32_t m, n, k; /* of the whole product */
    uint32_t tile_m, tile_n, tile_k;
    uint32_t shard_units; /* units of a shard; by columns: all units */
    uint32_t tiles_n, blocks_k;
    uint32_t k_per_flag, groups;
    uint32_t group_m;      /* positions of the own shard that are walked down together */
    uint32_t group_remote; /* the same, and of one band of fetches, behind the own shard */
    uint32_t own_fetched;  /* the own shard is copied to the workspace too */
    uint32_t pushes;       /* fetches are stores of own units to the peers: 1 */
    uint32_t rotated;      /* by columns: sums begin with the group that holds this rank's first column */
    uint32_t pairs;        /* tiles 2 i and 2 i + 1 are of one column: all bands are even */
    uint32_t tiles, fetches; /* tasks of this rank */
};

/* Part of a unit and group: where it lies and whose it is. */
struct ccl_k_block {
    uint32_t unit, group;
    uint32_t peer; /* push: who gets it */
};

CCL_MAP uint32_t ccl_map_units(const struct ccl_k_map *map)
{
    return map->columns || map->local ? map->shard_units : map->ranks * map->shard_units;
}

/* Positions of the own shard. */
CCL_MAP uint32_t ccl_map_own(const struct ccl_k_map *map) { return map->columns ? 0 : map->shard_units; }

/* i-th of `down` x `across` places: down first, `band` of them, then one step to the right. */
CCL_MAP void ccl_map_walk(uint32_t i, uint32_t down, uint32_t across, uint32_t band, uint32_t *d, uint32_t *a)
{
    uint32_t width = band * across, first = i / width * band, within = i % width;
    uint32_t height = down - first < band ? down - first : band; /* the last band may be lower */
    *d = first + within % height;
    *a = within / height;
}

/* Position -> unit. */
CCL_MAP uint32_t ccl_map_unit(const struct ccl_k_map *map, uint32_t position)
{
    const uint32_t own = ccl_map_own(map), peers = map->ranks - 1;
    if (map->columns || map->local) {
        return position;
    }
    if (position < own) {
        return map->rank * map->shard_units + position;
    }
    return (map->rank + 1 + (position - own) % peers) % map->ranks * map->shard_units + (position - own) / peers;
}

/* Group in which the own columns begin. */
CCL_MAP uint32_t ccl_map_own_group(const struct ccl_k_map *map)
{
    return map->columns ? (uint32_t)((uint64_t)map->rank * map->shard / map->tile_k / map->k_per_flag) : 0;
}

/* i-th group that a tile adds. */
CCL_MAP uint32_t ccl_map_group(const struct ccl_k_map *map, uint32_t i)
{
    uint32_t g = i + (map->rotated ? ccl_map_own_group(map) : 0);
    return g >= map->groups ? g - map->groups : g;
}

/* i-th tile of this rank -> unit and column of tiles. */
CCL_MAP void ccl_map_tile(const struct ccl_k_map *map, uint32_t i, uint32_t *unit, uint32_t *tile_n)
{
    const uint32_t own = ccl_map_own(map), local = own * map->tiles_n;
    uint32_t position;
    if (i < local) {
        ccl_map_walk(i, own, map->tiles_n, map->group_m, &position, tile_n);
    } else {
        ccl_map_walk(i - local, ccl_map_units(map) - own, map->tiles_n, map->group_remote, &position, tile_n);
        position += own;
    }
    *unit = ccl_map_unit(map, position);
}

/* i-th fetch of this rank. Push: the own units, each group to all peers in rotation. */
CCL_MAP struct ccl_k_block ccl_map_fetch(const struct ccl_k_map *map, uint32_t i)
{
    const uint32_t own = ccl_map_own(map), local = map->own_fetched ? own * map->groups : 0;
    struct ccl_k_block b = {0, 0, map->rank};
    uint32_t position;
    if (map->pushes) {
        const uint32_t peers = map->ranks - 1;
        b.peer = (map->rank + 1 + i % peers) % map->ranks;
        ccl_map_walk(i / peers, own, map->groups, 1, &position, &b.group);
    } else if (i < local) {
        ccl_map_walk(i, own, map->groups, 1, &position, &b.group);
    } else {
        ccl_map_walk(i - local, ccl_map_units(map) - own, map->groups, map->group_remote, &position, &b.group);
        position += own;
        b.group += ccl_map_own_group(map); /* by columns: the own ones first, and no two ranks ask the same peer at once */
        b.group -= b.group >= map->groups ? map->groups : 0;
    }
    b.unit = ccl_map_unit(map, position);
    return b;
}

/* First row of a unit in the whole product, and how many there are. */
CCL_MAP uint32_t ccl_map_row(const struct ccl_k_map *map, uint32_t unit)
{
    return unit / map->shard_units * map->shard + unit % map->shard_units * map->tile_m;
}

CCL_MAP uint32_t ccl_map_rows(const struct ccl_k_map *map, uint32_t unit)
{
    uint32_t all = map->columns ? map->m : map->shard, left = all - unit % map->shard_units * map->tile_m;
    return left < map->tile_m ? left : map->tile_m;
}

/* Columns k0..k1-1 of A are those of a group. */
CCL_MAP void ccl_map_columns(const struct ccl_k_map *map, uint32_t group, uint32_t *k0, uint32_t *k1)
{
    uint64_t width = (uint64_t)map->k_per_flag * map->tile_k, from = group * width;
    *k0 = (uint32_t)from;
    *k1 = from + width < map->k ? (uint32_t)(from + width) : map->k;
}

/* Whose columns begin at k in the rows of a unit, and where that rank's end (at most at k1). */
CCL_MAP uint32_t ccl_map_owner(const struct ccl_k_map *map, uint32_t unit, uint32_t k, uint32_t k1, uint32_t *end)
{
    uint32_t owner = map->columns ? k / map->shard : unit / map->shard_units;
    uint64_t last = map->columns ? ((uint64_t)owner + 1) * map->shard : k1;
    *end = last < k1 ? (uint32_t)last : k1;
    return owner;
}

/* Which ready word says that a group of a unit is in the workspace. */
CCL_MAP uint64_t ccl_map_ready(const struct ccl_k_map *map, uint32_t unit, uint32_t group)
{
    return (uint64_t)unit * map->groups + group;
}

/* Must a tile wait for it, or does A lie where the tile's own shard is? */
CCL_MAP uint32_t ccl_map_waits(const struct ccl_k_map *map, uint32_t unit)
{
    return map->fetches != 0 && (map->columns || map->own_fetched || unit / map->shard_units != map->rank);
}

#endif
