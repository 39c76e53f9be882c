/* SPDX-License-Identifier: MIT
 *
 * Joining elements on a CPU: loops that the compiler turns into vector code, for the instruction set of every machine and for wider ones, chosen when the library is
 * used first. A block of elements is joined over all inputs before the next, so what is joined stays in the nearest cache. */
#include "host_reduce.h"

#include <string.h>

#include "floats.h"

#define HR_BLOCK 1024u

struct ccl_host_reduce_ops {
    void (*join)(uint32_t redop, char *dst, const uint64_t *in, uint32_t n, uint64_t count);
    void (*scale)(char *dst, const char *src, uint64_t count, const void *scalar);
};

#define HR_NAME(x) x##_base
#define HR_TARGET
#include "host_reduce_body.h"
#undef HR_NAME
#undef HR_TARGET

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define HR_NAME(x) x##_avx2
#define HR_TARGET __attribute__((target("avx2")))
#include "host_reduce_body.h"
#undef HR_NAME
#undef HR_TARGET
#define HR_HAS_AVX2 1
#else
#define HR_HAS_AVX2 0
#endif

static const struct ccl_host_reduce_ops *ops_of(uint32_t type)
{
#if HR_HAS_AVX2
    if (__builtin_cpu_supports("avx2")) {
        return &ops_avx2[type];
    }
#endif
    return &ops_base[type];
}

void ccl_host_reduce_join(uint32_t type, uint32_t redop, uint64_t dst, const uint64_t *in, uint32_t n, uint64_t count)
{
    ops_of(type)->join(redop, (char *)dst, in, n, count);
}

void ccl_host_reduce_scale(uint32_t type, uint64_t dst, uint64_t src, uint64_t count, const void *scalar)
{
    ops_of(type)->scale((char *)dst, (const char *)src, count, scalar);
}
