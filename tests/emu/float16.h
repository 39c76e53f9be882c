/* SPDX-License-Identifier: MIT
 *
 * Conversions between f32 and the 16-bit float types, written without branches where they run over lanes. */
#ifndef EMU_FLOAT16_H
#define EMU_FLOAT16_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t emu_bits(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

static inline float emu_float(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/* Exact. The exponent is moved by a multiplication, which normalises denormals on the way. */
static inline float emu_f16_to_f32(uint32_t h)
{
    uint32_t magnitude = h & 0x7fff, sign = (h & 0x8000) << 16;
    uint32_t finite = emu_bits(emu_float(magnitude << 13) * 0x1p112f), special = magnitude << 13 | 0x7f800000;

    return emu_float(sign | (magnitude >= 0x7c00 ? special : finite));
}

/* To nearest even. */
static inline uint32_t emu_f32_to_f16(float f)
{
    uint32_t u = emu_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    /* Below 2^-14 the addition of 1/2 leaves the multiples of 2^-24, rounded, in the low bits. */
    uint32_t small = emu_bits(emu_float(a) + 0.5f) - 0x3f000000;
    uint32_t normal = (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13;
    uint32_t special = a > 0x7f800000 ? 0x7e00 | (a >> 13 & 0x3ff) : 0x7c00;

    return sign | (a >= 0x477ff000 ? special : a < 0x38800000 ? small : normal);
}

/* Toward zero; what overflows becomes the largest number (v_cvt_pkrtz_f16_f32). */
static inline uint32_t emu_f32_to_f16_zero(float f)
{
    uint32_t u = emu_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;

    if (a >= 0x7f800000) {
        return sign | (a > 0x7f800000 ? 0x7e00 | (a >> 13 & 0x3ff) : 0x7c00);
    } else if (a >= 0x47800000) {
        return sign | 0x7bff;
    } else if (a >= 0x38800000) {
        return sign | (a - 0x38000000) >> 13;
    }
    return sign | (uint32_t)(emu_float(a) * 0x1p24f);
}

/* a * b + c rounded to odd: a later rounding to f16 is then the only one that shows. a, b and c are f16 values. */
static inline float emu_fma_odd(float a, float b, float c)
{
    double product = (double)a * b, sum = product + c, part = sum - product;
    double error = (product - (sum - part)) + (c - part); /* of the addition, exact */
    float f = (float)sum;
    double rest = sum - f + error;
    uint32_t u = emu_bits(f);

    if (!isfinite(f) || rest == 0) {
        return f;
    } else if (f == 0) {
        return emu_float((rest < 0 ? 0x80000000u : 0) | 1);
    }
    return emu_float((u - ((rest < 0) != (f < 0) ? 1 : 0)) | 1); /* cut toward zero, then mark that something was cut */
}

static inline float emu_bf16_to_f32(uint32_t h)
{
    return emu_float(h << 16);
}

/* To nearest even. */
static inline uint32_t emu_f32_to_bf16(float f)
{
    uint32_t u = emu_bits(f);

    return (u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

#endif
