/* SPDX-License-Identifier: MIT
 *
 * The random numbers of a run: splitmix64, one generator for all decisions of a gang. */
#ifndef EMU_RNG_H
#define EMU_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct emu_rng {
    uint64_t state;
};

static inline uint64_t emu_rand64(struct emu_rng *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 0 .. n - 1. */
static inline uint32_t emu_below(struct emu_rng *r, uint32_t n)
{
    return (uint32_t)((emu_rand64(r) >> 32) * n >> 32);
}

/* true in p of 65536 cases. */
static inline bool emu_chance(struct emu_rng *r, uint32_t p)
{
    return (emu_rand64(r) >> 48) < p;
}

#endif
