/* SPDX-License-Identifier: MIT
 *
 * Conversions. Floats that do not fit an integer become the nearest one that exists, NaN becomes 0. */
#include <math.h>

#include "valu.h"

static inline uint32_t to_u32(double f)
{
    return f != f || f <= 0 ? 0 : f >= 4294967295.0 ? UINT32_MAX : (uint32_t)f;
}

static inline uint32_t to_i32(double f)
{
    return f != f ? 0 : f >= 2147483647.0 ? INT32_MAX : f <= -2147483648.0 ? 0x80000000u : (uint32_t)(int32_t)f;
}

static inline uint32_t to_u16(double f)
{
    return f != f || f <= 0 ? 0 : f >= 65535 ? 65535 : (uint32_t)f;
}

static inline uint32_t to_i16(double f)
{
    return f != f ? 0 : f >= 32767 ? 0x7fff : f <= -32768 ? 0x8000 : (uint32_t)(int32_t)f & 0xffff;
}

/* [-1, 1] to 16 bits, to nearest even. */
static inline uint32_t norm_i16(float f)
{
    return to_i16(nearbyint((f > 1 ? 1.0 : f < -1 ? -1.0 : (double)f) * 32767));
}

static inline uint32_t norm_u16(float f)
{
    return to_u16(nearbyint((f > 1 ? 1.0 : f < 0 ? 0.0 : (double)f) * 65535));
}

static inline uint32_t pack(uint32_t low, uint32_t high)
{
    return (low & 0xffff) | high << 16;
}

/* From raw bits to a float of one type, from a float to raw bits. */
#define FROM_BITS(name, type, suffix, expression)                                                              \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        uint32_t ta[EMU_LANES];                                                                              \
        type r[EMU_LANES];                                                                                   \
        const uint32_t *ra = emu_row(w, &i->ops[1], 0, ta);                                                  \
                                                                                                             \
        EMU_FOR_LANES(lane) {                                                                                \
            const uint32_t a = ra[lane];                                                                     \
                                                                                                             \
            r[lane] = (type)(expression);                                                                    \
        }                                                                                                    \
        emu_put_##suffix(w, i, r);                                                                           \
        return true;                                                                                         \
    }

#define TO_BITS(name, type, suffix, expression)                                                                \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        uint32_t r[EMU_LANES];                                                                               \
        type ra[EMU_LANES];                                                                                  \
                                                                                                             \
        emu_row_##suffix(w, i, 1, ra);                                                                       \
        EMU_FOR_LANES(lane) {                                                                                \
            const type a = ra[lane];                                                                         \
                                                                                                             \
            r[lane] = (expression);                                                                          \
        }                                                                                                    \
        emu_put(w, &i->ops[0], 0, r);                                                                        \
        return true;                                                                                         \
    }

#define TO_BITS2(name, type, suffix, expression)                                                               \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        uint32_t r[EMU_LANES];                                                                               \
        type ra[EMU_LANES], rb[EMU_LANES];                                                                   \
                                                                                                             \
        emu_row_##suffix(w, i, 1, ra);                                                                       \
        emu_row_##suffix(w, i, 2, rb);                                                                       \
        EMU_FOR_LANES(lane) {                                                                                \
            const type a = ra[lane], b = rb[lane];                                                           \
                                                                                                             \
            r[lane] = (expression);                                                                          \
        }                                                                                                    \
        emu_put(w, &i->ops[0], 0, r);                                                                        \
        return true;                                                                                         \
    }

#define BETWEEN(name, from_type, from, to_type, to)                                                            \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        from_type a[EMU_LANES];                                                                              \
        to_type r[EMU_LANES];                                                                                \
                                                                                                             \
        emu_row_##from(w, i, 1, a);                                                                          \
        EMU_FOR_LANES(lane) {                                                                                \
            r[lane] = (to_type)a[lane];                                                                      \
        }                                                                                                    \
        emu_put_##to(w, i, r);                                                                               \
        return true;                                                                                         \
    }

FROM_BITS(f32_i32, float, f32, (int32_t)a)
FROM_BITS(f32_u32, float, f32, a)
FROM_BITS(f32_ubyte, float, f32, a >> 8 * i->sub & 255)
FROM_BITS(f32_bf16, float, f32, emu_float((i->op_sel & 1) != 0 ? a & 0xffff0000 : a << 16))
FROM_BITS(off_f32_i4, float, f32, (float)((int32_t)(a << 28) >> 28) * 0x1p-4f)
FROM_BITS(f64_i32, double, f64, (int32_t)a)
FROM_BITS(f64_u32, double, f64, a)
FROM_BITS(f16_u16, float, f16, a & 0xffff)
FROM_BITS(f16_i16, float, f16, (int16_t)a)
TO_BITS(u32_f32, float, f32, to_u32(a))
TO_BITS(i32_f32, float, f32, to_i32(a))
TO_BITS(u32_f64, double, f64, to_u32(a))
TO_BITS(i32_f64, double, f64, to_i32(a))
TO_BITS(u16_f16, float, f16, to_u16(a))
TO_BITS(i16_f16, float, f16, to_i16(a))
TO_BITS(rpi_i32_f32, float, f32, to_i32(floor((double)a + 0.5)))
TO_BITS(flr_i32_f32, float, f32, to_i32(floorf(a)))
TO_BITS(norm_i16_f16, float, f16, norm_i16(a))
TO_BITS(norm_u16_f16, float, f16, norm_u16(a))
TO_BITS2(pkrtz, float, f32, pack(emu_f32_to_f16_zero(a), emu_f32_to_f16_zero(b)))
TO_BITS2(pk_f16_f32, float, f32, pack(emu_finish_f16(w, a, false), emu_finish_f16(w, b, false)))
TO_BITS2(pk_bf16_f32, float, f32, pack(emu_f32_to_bf16(a), emu_f32_to_bf16(b)))
TO_BITS2(pknorm_i16_f32, float, f32, pack(norm_i16(a), norm_i16(b)))
TO_BITS2(pknorm_u16_f32, float, f32, pack(norm_u16(a), norm_u16(b)))
TO_BITS2(pknorm_i16_f16, float, f16, pack(norm_i16(a), norm_i16(b)))
TO_BITS2(pknorm_u16_f16, float, f16, pack(norm_u16(a), norm_u16(b)))
BETWEEN(f16_f32, float, f32, float, f16)
BETWEEN(f32_f16, float, f16, float, f32)
BETWEEN(f64_f32, float, f32, double, f64)
BETWEEN(f32_f64, double, f64, float, f32)
EMU_VOP2(pk_u16_u32, pack(a > 0xffff ? 0xffff : a, b > 0xffff ? 0xffff : b))
EMU_VOP2(pk_i16_i32, pack(to_i16((int32_t)a), to_i16((int32_t)b)))

/* v_cvt_pk_u8_f32 d, value, byte, others */
static bool pk_u8_f32(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t tb[EMU_LANES], tc[EMU_LANES], r[EMU_LANES];
    const uint32_t *b = emu_row(w, &i->ops[2], 0, tb), *c = emu_row(w, &i->ops[3], 0, tc);
    float a[EMU_LANES];

    emu_row_f32(w, i, 1, a);
    EMU_FOR_LANES(lane) {
        unsigned shift = 8 * (b[lane] & 3);
        double rounded = nearbyint((double)a[lane]);
        uint32_t byte = rounded != rounded || rounded <= 0 ? 0 : rounded >= 255 ? 255 : (uint32_t)rounded;

        r[lane] = (c[lane] & ~(255u << shift)) | byte << shift;
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

#define ROW(name, function) EMU_FROW("cvt_" name, function)
#define SIGNED(name, function) {"v_cvt_" name, function, EMU_VALU, 0, 0, EMU_ALLOW_NEG}

const struct emu_op emu_ops_valu_convert[] = {
    ROW("f32_i32", f32_i32), ROW("f32_u32", f32_u32), {"v_cvt_f32_ubyte0", f32_ubyte, EMU_VALU, 0, 0, 0},
    {"v_cvt_f32_ubyte1", f32_ubyte, EMU_VALU, 1, 0, 0}, {"v_cvt_f32_ubyte2", f32_ubyte, EMU_VALU, 2, 0, 0},
    {"v_cvt_f32_ubyte3", f32_ubyte, EMU_VALU, 3, 0, 0}, {"v_cvt_f32_bf16", f32_bf16, EMU_VALU, 0, 0, EMU_ALLOW_OPSEL},
    ROW("off_f32_i4", off_f32_i4), ROW("f64_i32", f64_i32), ROW("f64_u32", f64_u32), ROW("f16_u16", f16_u16), ROW("f16_i16", f16_i16),
    SIGNED("u32_f32", u32_f32), SIGNED("i32_f32", i32_f32), SIGNED("u32_f64", u32_f64), SIGNED("i32_f64", i32_f64),
    SIGNED("u16_f16", u16_f16), SIGNED("i16_f16", i16_f16), SIGNED("rpi_i32_f32", rpi_i32_f32), SIGNED("flr_i32_f32", flr_i32_f32),
    SIGNED("norm_i16_f16", norm_i16_f16), SIGNED("norm_u16_f16", norm_u16_f16), SIGNED("pkrtz_f16_f32", pkrtz),
    SIGNED("pk_f16_f32", pk_f16_f32), SIGNED("pk_bf16_f32", pk_bf16_f32), SIGNED("pknorm_i16_f32", pknorm_i16_f32),
    SIGNED("pknorm_u16_f32", pknorm_u16_f32), SIGNED("pknorm_i16_f16", pknorm_i16_f16), SIGNED("pknorm_u16_f16", pknorm_u16_f16),
    ROW("f16_f32", f16_f32), ROW("f32_f16", f32_f16), ROW("f64_f32", f64_f32), ROW("f32_f64", f32_f64),
    EMU_VROW("cvt_pk_u16_u32", pk_u16_u32), EMU_VROW("cvt_pk_i16_i32", pk_i16_i32), SIGNED("pk_u8_f32", pk_u8_f32), {0},
};
