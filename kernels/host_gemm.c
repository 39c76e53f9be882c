/* SPDX-License-Identifier: MIT
 *
 * The GEMM core of the host backend in three forms: AVX-512, AVX2 with FMA, and one for any processor. This file is compiled with contraction of a * b + c. */
#include "host_gemm.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* ---- any processor: vectors of 4, conversions by whole numbers ---- */

typedef float four_floats __attribute__((vector_size(16)));
typedef uint32_t four_ints __attribute__((vector_size(16)));
typedef uint16_t four_shorts __attribute__((vector_size(8), aligned(2), may_alias));

/* Exact: the exponent moves to its new place and is corrected by a multiplication, which also normalises small numbers. */
static inline four_floats widen_f16(const uint16_t *src)
{
    four_ints half = __builtin_convertvector(*(const four_shorts *)src, four_ints), bits = (half & 0x7fffu) << 13;
    four_floats value;
    memcpy(&value, &bits, sizeof(value));
    value *= 0x1p112f;
    memcpy(&bits, &value, sizeof(bits));
    bits |= (four_ints)((half & 0x7c00u) == 0x7c00u) & 0x7f800000u; /* infinities, not a number */
    bits |= (half & 0x8000u) << 16;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Rounded by adding, to the magnitude, a number whose last bit is worth as much as the result's. */
static inline uint16_t narrow_f16(float x)
{
    uint32_t bits, sign, rounded;
    memcpy(&bits, &x, sizeof(bits));
    sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits >= 0x7f800000u) {
        return (uint16_t)(sign | (bits > 0x7f800000u ? 0x7e00u : 0x7c00u));
    }
    if (bits >= 0x477ff000u) {
        return (uint16_t)(sign | 0x7c00u); /* 65520 and more round to infinity */
    }
    if (bits < 0x38800000u) { /* below 2^-14: multiples of 2^-24 */
        float magnitude;
        memcpy(&magnitude, &bits, sizeof(magnitude));
        magnitude += 0.5f;
        memcpy(&rounded, &magnitude, sizeof(rounded));
        return (uint16_t)(sign | (rounded - 0x3f000000u));
    }
    bits += 0xfffu + (bits >> 13 & 1u);
    return (uint16_t)(sign | (bits - 0x38000000u) >> 13);
}

#define CORE(name) any_##name
#define TARGET
#define LANES 4
#define MICRO_ROWS 4
#define MICRO_VECTORS 2
#define LOAD_F16(src) widen_f16(src)
#define STORE_F16(dst, v)                         \
    for (int lane_ = 0; lane_ < LANES; lane_++) { \
        (dst)[lane_] = narrow_f16((v)[lane_]);    \
    }
#include "host_gemm_body.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CORE(name) avx2_##name
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define LANES 8
#define MICRO_ROWS 6
#define MICRO_VECTORS 2
#define LOAD_F16(src) (avx2_vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src)))
#define STORE_F16(dst, v) _mm_storeu_si128((__m128i *)(dst), _mm256_cvtps_ph((__m256)(v), _MM_FROUND_TO_NEAREST_INT))
#include "host_gemm_body.h"

#define CORE(name) avx512_##name
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define LANES 16
#define MICRO_ROWS 8
#define MICRO_VECTORS 2
#define LOAD_F16(src) (avx512_vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(src)))
#define STORE_F16(dst, v) _mm256_storeu_si256((__m256i *)(dst), _mm512_cvtps_ph((__m512)(v), _MM_FROUND_TO_NEAREST_INT))
#include "host_gemm_body.h"

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
}

static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }
#endif

const char *ccl_host_gemm_variant(unsigned index, ccl_host_gemm_fn *fn)
{
    *fn = NULL;
    switch (index) {
#if defined(__x86_64__)
    case 0: *fn = has_avx512() ? avx512_segment : NULL; return "avx512";
    case 1: *fn = has_avx2() ? avx2_segment : NULL; return "avx2";
    case 2: *fn = any_segment; return "any";
#else
    case 0: *fn = any_segment; return "any";
#endif
    default: return NULL;
    }
}

static void first_call(const struct ccl_k_gemm *g, const struct ccl_k_gemm_tile *t, void *scratch)
{
    ccl_host_gemm_fn fn = NULL;
    for (unsigned i = 0; fn == NULL; i++) {
        (void)ccl_host_gemm_variant(i, &fn); /* the last one runs everywhere */
    }
    __atomic_store_n(&ccl_host_gemm_chosen, fn, __ATOMIC_RELAXED);
    fn(g, t, scratch);
}

ccl_host_gemm_fn ccl_host_gemm_chosen = first_call;
