/* SPDX-License-Identifier: MIT
 *
 * Random data that can be recomputed anywhere: word i of a stream is a 64-bit mix of the stream's key and i, so any range can be made
 * without the part before it. */
#include <string.h>

#include "bench.h"

/* The finaliser of splitmix64: every output bit depends on every input bit. */
uint64_t bench_mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

/* Word number index of a stream. Bytes that would be 0 become 0x80: a receive buffer of zeros then holds no right byte. */
static inline uint64_t word_of(uint64_t key, uint64_t index)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7fu;
    uint64_t word = bench_mix(key + index * 0x9e3779b97f4a7c15u);

    return word | ~(((word & low) + low) | word | low);
}

void bench_pattern(unsigned char *dst, size_t length, uint64_t seed, int source, size_t off)
{
    const uint64_t golden = 0x9e3779b97f4a7c15u;
    uint64_t key = bench_mix(bench_mix(seed + golden) ^ (uint64_t)(int64_t)source * golden);
    uint64_t index = off / 8, word;
    size_t skip = off % 8;

    if (skip != 0 && length > 0) {
        size_t head = 8 - skip < length ? 8 - skip : length;
        word = word_of(key, index++);
        memcpy(dst, (unsigned char *)&word + skip, head);
        dst += head;
        length -= head;
    }
    for (; length >= 8; dst += 8, length -= 8) {
        word = word_of(key, index++);
        memcpy(dst, &word, 8);
    }
    if (length > 0) {
        word = word_of(key, index);
        memcpy(dst, &word, length);
    }
}
