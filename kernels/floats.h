/* SPDX-License-Identifier: MIT
 *
 * Floating types of 8 and 16 bits to float32 and back, by integer arithmetic without branches, or by NVIDIA's instructions, which say the same but for the bits of what is
 * no number. Rounding is to nearest even. bfloat16 and float16 overflow to infinity; e4m3 (which has none) and e5m2 saturate at their largest finite value. */
#ifndef CCL_FLOATS_H
#define CCL_FLOATS_H

#include "ccl/device.h"

CCL_DEVICE uint32_t ccl_bits_of_float(float x)
{
    union {
        float f;
        uint32_t u;
    } v;
    v.f = x;
    return v.u;
}

CCL_DEVICE float ccl_float_of_bits(uint32_t x)
{
    union {
        uint32_t u;
        float f;
    } v;
    v.u = x;
    return v.f;
}

CCL_DEVICE float ccl_float_of_bf16(uint16_t x) { return ccl_float_of_bits((uint32_t)x << 16); }

#if !defined(CCL_ON_NVIDIA) || __CUDA_ARCH__ < 890

/* em: exponent and mantissa of a type with so many mantissa bits, without the sign; scale: 2^(127 - its bias). */
CCL_DEVICE uint32_t ccl_widen(uint32_t em, uint32_t mantissa, float scale)
{
    return ccl_bits_of_float(ccl_float_of_bits(em << (23 - mantissa)) * scale);
}

/* u: |x| as bits, in range; bias: of the narrow type. Denormals by adding a power of two whose last place is theirs. */
CCL_DEVICE uint32_t ccl_narrow(uint32_t u, uint32_t mantissa, uint32_t bias)
{
    const uint32_t shift = 23 - mantissa, least = (128 - bias) << 23, magic = (127 + 23 - (bias - 1) - mantissa) << 23;
    const uint32_t normal = (u + ((1u << (shift - 1)) - 1) + (u >> shift & 1)) >> shift;
    const uint32_t denormal = ccl_bits_of_float(ccl_float_of_bits(u) + ccl_float_of_bits(magic)) - magic;
    return u < least ? denormal : normal - ((127 - bias) << mantissa);
}

#endif

#if defined(CCL_ON_NVIDIA)

CCL_DEVICE uint16_t ccl_bf16_of_float(float x)
{
    uint16_t v;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(v) : "f"(x));
    return v;
}

CCL_DEVICE float ccl_float_of_f16(uint16_t x)
{
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(x));
    return v;
}

CCL_DEVICE uint16_t ccl_f16_of_float(float x)
{
    uint16_t v;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v) : "f"(x));
    return v;
}

#else

CCL_DEVICE uint16_t ccl_bf16_of_float(float x)
{
    const uint32_t u = ccl_bits_of_float(x);
    const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? (u >> 16 | 0x40) : rounded);
}

CCL_DEVICE float ccl_float_of_f16(uint16_t x)
{
    const uint32_t em = x & 0x7fffu, u = ccl_widen(em, 10, 0x1p112f);
    return ccl_float_of_bits((em >= 0x7c00 ? (em << 13 | 0x7f800000) : u) | (uint32_t)(x & 0x8000u) << 16);
}

CCL_DEVICE uint16_t ccl_f16_of_float(float x)
{
    const uint32_t bits = ccl_bits_of_float(x), u = bits & 0x7fffffff;
    const uint32_t special = u > 0x7f800000 ? 0x7e00u : 0x7c00u;
    return (uint16_t)((u >= 0x47800000 ? special : ccl_narrow(u, 10, 15)) | (bits >> 16 & 0x8000));
}

#endif

CCL_DEVICE float ccl_float_of_e5m2(uint8_t x) { return ccl_float_of_f16((uint16_t)((uint32_t)x << 8)); }

#if defined(CCL_ON_NVIDIA) && __CUDA_ARCH__ >= 890

/* Two at a time, of which one is looked at. */
CCL_DEVICE float ccl_float_of_e4m3(uint8_t x)
{
    uint32_t v;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(v) : "h"((uint16_t)x));
    return ccl_float_of_f16((uint16_t)v);
}

CCL_DEVICE uint8_t ccl_e4m3_of_float(float x)
{
    uint16_t v;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(v) : "f"(0.0f), "f"(x));
    return (uint8_t)v;
}

CCL_DEVICE uint8_t ccl_e5m2_of_float(float x)
{
    uint16_t v;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(v) : "f"(0.0f), "f"(x));
    return (uint8_t)v;
}

#else

CCL_DEVICE float ccl_float_of_e4m3(uint8_t x)
{
    const uint32_t em = x & 0x7fu, u = ccl_widen(em, 3, 0x1p120f);
    return ccl_float_of_bits((em == 0x7f ? 0x7fc00000 : u) | (uint32_t)(x & 0x80u) << 24);
}

CCL_DEVICE uint8_t ccl_e4m3_of_float(float x)
{
    const uint32_t bits = ccl_bits_of_float(x), u = bits & 0x7fffffff, most = 0x43e00000; /* 448 */
    return (uint8_t)((u > 0x7f800000 ? 0x7fu : ccl_narrow(u < most ? u : most, 3, 7)) | (bits >> 24 & 0x80));
}

CCL_DEVICE uint8_t ccl_e5m2_of_float(float x)
{
    const uint32_t bits = ccl_bits_of_float(x), u = bits & 0x7fffffff, most = 0x47600000; /* 57344 */
    return (uint8_t)((u > 0x7f800000 ? 0x7fu : ccl_narrow(u < most ? u : most, 2, 15)) | (bits >> 24 & 0x80));
}

#endif

#endif
