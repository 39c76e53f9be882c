/* SPDX-License-Identifier: MIT
 *
 * Why a config covers its shape. Each map walks bands of a rectangle; it is a bijection if the bands tile the rectangle, which is compared as numbers, and if it sends the
 * corners of each band to the corners of its part of the rectangle, and each step of the first and last band to where it belongs, which is evaluated (of very many
 * bands, some). The unit
 * test shows on 100,000 random shapes that what is proved here holds for every single tile and fetch, and that broken maps are refused. */
#include "fused/matmul.h"

#include <stddef.h>

#define MAX_BANDS 16  /* that are looked at on either end, and in between */
#define MAX_STEPS 256 /* of the first and the last band */

static void map_tile(const struct ccl_k_map *map, uint32_t i, uint32_t *unit, uint32_t *tile_n) { ccl_map_tile(map, i, unit, tile_n); }
static struct ccl_k_block map_fetch(const struct ccl_k_map *map, uint32_t i) { return ccl_map_fetch(map, i); }

const struct ccl_matmul_maps ccl_matmul_maps = {map_tile, map_fetch};

static bool tile_at(const struct ccl_k_map *map, const struct ccl_matmul_maps *maps, uint64_t i, uint32_t position, uint32_t column)
{
    uint32_t unit, tile_n;
    maps->tile(map, (uint32_t)i, &unit, &tile_n);
    return unit == ccl_map_unit(map, position) && tile_n == column;
}

static bool fetch_at(const struct ccl_k_map *map, const struct ccl_matmul_maps *maps, uint64_t i, uint32_t position, uint32_t group)
{
    const struct ccl_k_block b = maps->fetch(map, (uint32_t)i);
    uint32_t turned = position < ccl_map_own(map) ? group : (group + ccl_map_own_group(map)) % map->groups;
    return b.unit == ccl_map_unit(map, position) && b.group == turned && b.peer == map->rank;
}

typedef bool (*at_fn)(const struct ccl_k_map *map, const struct ccl_matmul_maps *maps, uint64_t i, uint32_t position, uint32_t step);

/* Places `start`.. of a list walk positions first..first+down-1 in bands, `across` steps each. */
static bool prove_walk(const struct ccl_k_map *map, const struct ccl_matmul_maps *maps, at_fn at, uint64_t start, uint32_t first, uint32_t down,
                       uint32_t across, uint32_t band)
{
    const uint32_t bands = down == 0 ? 0 : (down - 1) / band + 1;
    const uint32_t leap = bands / MAX_BANDS + 1;
    for (uint32_t b = 0; b < bands; b += b < MAX_BANDS || b + MAX_BANDS >= bands ? 1 : leap < bands - MAX_BANDS - b ? leap : bands - MAX_BANDS - b) {
        uint32_t top = b * band, height = down - top < band ? down - top : band;
        uint64_t i = start + (uint64_t)top * across, count = (uint64_t)height * across;
        uint32_t p = first + top;
        const bool outer = b == 0 || b + 1 == bands;
        for (uint32_t step = 0; outer && step < across; step += across / MAX_STEPS + 1) {
            if (!at(map, maps, i + (uint64_t)step * height + step % height, p + step % height, step)) {
                return false;
            }
        }
        if (!at(map, maps, i, p, 0) || !at(map, maps, i + height - 1, p + height - 1, 0) || !at(map, maps, i + count - height, p, across - 1) ||
            !at(map, maps, i + count - 1, p + height - 1, across - 1) || !at(map, maps, i + count / 2, p + (uint32_t)(count / 2 % height),
                                                                            (uint32_t)(count / 2 / height))) {
            return false;
        }
    }
    return true;
}

static bool prove_push(const struct ccl_k_map *map, const struct ccl_matmul_maps *maps)
{
    const uint32_t peers = map->ranks - 1, own = map->shard_units;
    for (uint32_t end = 0; end < 2; end++) {
        for (uint32_t d = 0; d < peers; d++) {
            uint32_t position = end ? own - 1 : 0, group = end ? map->groups - 1 : 0;
            uint64_t i = ((uint64_t)position * map->groups + group) * peers + d;
            const struct ccl_k_block b = maps->fetch(map, (uint32_t)i);
            if (b.unit != ccl_map_unit(map, position) || b.group != group || b.peer != (map->rank + 1 + d) % map->ranks) {
                return false;
            }
        }
    }
    return true;
}

const char *ccl_matmul_prove(const struct ccl_k_map *map, const struct ccl_matmul_maps *maps)
{
    if (map->ranks == 0 || map->rank >= map->ranks || map->shard == 0 || map->tile_m == 0 || map->tile_n == 0 || map->tile_k == 0 ||
        map->k_per_flag == 0 || map->group_m == 0 || map->group_remote == 0) {
        return "a size is 0";
    }
    const uint32_t cut = map->columns ? map->m : map->shard;
    if (map->shard_units != (cut - 1) / map->tile_m + 1 || map->tiles_n != (map->n - 1) / map->tile_n + 1) {
        return "tiles do not cover m and n";
    }
    if (map->blocks_k != (map->k - 1) / map->tile_k + 1 || map->groups != (map->blocks_k - 1) / map->k_per_flag + 1) {
        return "flag groups do not cover k";
    }
    if ((uint64_t)map->shard * map->ranks != (map->columns ? map->k : map->m) && !map->local) {
        return "shards do not add up";
    }
    const uint32_t own = ccl_map_own(map), units = ccl_map_units(map), rest = units - own;
    if ((own != 0 && map->group_m > own) || (rest != 0 && map->group_remote > rest)) {
        return "group_m exceeds the rows of tiles";
    }
    if (map->pairs && (own % 2 != 0 || rest % 2 != 0 || (own != 0 && map->group_m % 2 != 0) || (rest != 0 && map->group_remote % 2 != 0))) {
        return "two tiles of a pair may be of two columns";
    }
    if ((uint64_t)units * map->tiles_n != map->tiles || map->tiles > 0x7fffffffu) {
        return "there are not as many tile tasks as tiles, or too many";
    }
    const uint64_t staged = map->own_fetched || map->columns ? units : rest;
    const uint64_t fetches = map->pushes ? (uint64_t)own * map->groups * (map->ranks - 1) : staged * map->groups;
    if (map->fetches != 0 && (map->fetches != fetches || fetches > 0x7fffffffu || (uint64_t)units * map->groups > 0x7fffffffu)) {
        return "there are not as many fetches as flags, or too many";
    }
    if (map->pushes && (map->columns || map->own_fetched || map->local)) {
        return "push is for shards of rows";
    }
    if (!prove_walk(map, maps, tile_at, 0, 0, own, map->tiles_n, map->group_m) ||
        !prove_walk(map, maps, tile_at, (uint64_t)own * map->tiles_n, own, rest, map->tiles_n, map->group_remote)) {
        return "the tile map is no bijection";
    }
    if (map->fetches == 0) {
        return NULL;
    }
    const uint64_t local = map->own_fetched ? (uint64_t)own * map->groups : 0;
    if (map->pushes ? !prove_push(map, maps)
                    : (map->own_fetched && !prove_walk(map, maps, fetch_at, 0, 0, own, map->groups, 1)) ||
                          !prove_walk(map, maps, fetch_at, local, own, rest, map->groups, map->group_remote)) {
        return "the fetch order is no bijection";
    }
    return NULL;
}
