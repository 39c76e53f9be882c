/* SPDX-License-Identifier: MIT
 *
 * Packed instructions (VOP3P): two numbers a lane. Bit n of op_sel chooses which half (of 16 or 32 bits) of source n enters the lower result,
 * op_sel_hi which one enters the upper result; neg_lo and neg_hi change their signs. Mixed f16 and f32 instructions and dot products stand
 * here too. */
#include <math.h>

#include "valu.h"

/* ---- f32 pairs ---- */

static void pick_f32(struct emu_wave *w, const struct emu_inst *i, unsigned n, bool upper, float values[EMU_LANES])
{
    unsigned half = ((upper ? i->op_sel_hi : i->op_sel) >> (n - 1) & 1);
    uint32_t tmp[EMU_LANES], flip = ((upper ? i->neg_hi : i->neg_lo) >> (n - 1) & 1u) << 31;
    const uint32_t *row = emu_row(w, &i->ops[n], half, tmp);
    bool flush = (w->mode & EMU_MODE_F32_IN) == 0;

    EMU_FOR_LANES(lane) {
        float f = emu_float(row[lane] ^ flip);

        values[lane] = flush && fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
    }
}

enum { ADD, MUL, FMA };

static bool pk_f32(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t r[2][EMU_LANES];

    for (unsigned half = 0; half < 2; half++) {
        float a[EMU_LANES], b[EMU_LANES], c[EMU_LANES];

        pick_f32(w, i, 1, half, a);
        pick_f32(w, i, 2, half, b);
        if (i->sub == FMA) {
            pick_f32(w, i, 3, half, c);
        }
        EMU_FOR_LANES(lane) {
            float f = i->sub == ADD ? a[lane] + b[lane] : i->sub == MUL ? a[lane] * b[lane] : fmaf(a[lane], b[lane], c[lane]);

            r[half][lane] = emu_bits(emu_finish_f32(w, f, i->clamp));
        }
    }
    emu_put(w, &i->ops[0], 0, r[0]);
    emu_put(w, &i->ops[0], 1, r[1]);
    return true;
}

/* ---- f16 pairs ---- */

static void pick_f16(struct emu_wave *w, const struct emu_inst *i, unsigned n, bool upper, float values[EMU_LANES])
{
    unsigned shift = ((upper ? i->op_sel_hi : i->op_sel) >> (n - 1) & 1) * 16;
    uint32_t tmp[EMU_LANES], flip = ((upper ? i->neg_hi : i->neg_lo) >> (n - 1) & 1u) << 15;
    const uint32_t *row = emu_row(w, &i->ops[n], 0, tmp);
    bool flush = (w->mode & EMU_MODE_F64_IN) == 0;

    EMU_FOR_LANES(lane) {
        uint32_t h = (row[lane] >> shift & 0xffff) ^ flip;

        values[lane] = emu_f16_to_f32(flush && (h & 0x7c00) == 0 ? h & 0x8000 : h);
    }
}

static inline float smaller(float a, float b)
{
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : signbit(a) ? a : b;
}

enum { ADD16, MUL16, MIN16, MAX16, FMA16 };

static bool pk_f16(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t r[EMU_LANES] = {0};

    for (unsigned half = 0; half < 2; half++) {
        float a[EMU_LANES], b[EMU_LANES], c[EMU_LANES];

        pick_f16(w, i, 1, half, a);
        pick_f16(w, i, 2, half, b);
        if (i->sub == FMA16) {
            pick_f16(w, i, 3, half, c);
        }
        EMU_FOR_LANES(lane) {
            float x = a[lane], y = b[lane];
            float f = i->sub == ADD16 ? x + y : i->sub == MUL16 ? x * y : i->sub == MIN16 ? smaller(x, y) :
                      i->sub == MAX16 ? -smaller(-x, -y) : emu_fma_odd(x, y, c[lane]);

            r[lane] |= emu_finish_f16(w, f, i->clamp) << 16 * half;
        }
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

/* ---- 16-bit integer pairs ---- */

enum { ADDU, SUBU, ADDI, SUBI, MULLO, SHL, SHR, ASHR, MINU, MAXU, MINI, MAXI, MADU, MADI };

static uint32_t limit(int32_t value, int32_t low, int32_t high)
{
    return (uint32_t)(value < low ? low : value > high ? high : value);
}

static uint32_t pair16(unsigned operation, bool clamp, uint32_t a, uint32_t b, uint32_t c)
{
    int32_t x = (int16_t)a, y = (int16_t)b, ua = (int32_t)a, ub = (int32_t)b;

    switch (operation) {
    case ADDU: return clamp ? limit(ua + ub, 0, 0xffff) : a + b;
    case SUBU: return clamp ? limit(ua - ub, 0, 0xffff) : a - b;
    case ADDI: return clamp ? limit(x + y, INT16_MIN, INT16_MAX) : a + b;
    case SUBI: return clamp ? limit(x - y, INT16_MIN, INT16_MAX) : a - b;
    case MULLO: return a * b;
    case SHL: return b << (a & 15);
    case SHR: return b >> (a & 15);
    case ASHR: return (uint32_t)(y >> (a & 15));
    case MINU: return a < b ? a : b;
    case MAXU: return a > b ? a : b;
    case MINI: return x < y ? a : b;
    case MAXI: return x > y ? a : b;
    case MADU: return clamp && (uint64_t)a * b + c > 0xffff ? 0xffff : a * b + c;
    default: return clamp ? limit(x * y + (int16_t)c, INT16_MIN, INT16_MAX) : a * b + c;
    }
}

static bool pk_16(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES], tc[EMU_LANES], r[EMU_LANES] = {0};
    const uint32_t *ra = emu_row(w, &i->ops[1], 0, ta), *rb = emu_row(w, &i->ops[2], 0, tb);
    const uint32_t *rc = i->sub >= MADU ? emu_row(w, &i->ops[3], 0, tc) : rb;

    for (unsigned half = 0; half < 2; half++) {
        unsigned select = half ? i->op_sel_hi : i->op_sel;
        unsigned sa = (select & 1) * 16, sb = (select >> 1 & 1) * 16, sc = (select >> 2 & 1) * 16;

        EMU_FOR_LANES(lane) {
            uint32_t h = pair16(i->sub, i->clamp, ra[lane] >> sa & 0xffff, rb[lane] >> sb & 0xffff, rc[lane] >> sc & 0xffff);

            r[lane] |= (h & 0xffff) << 16 * half;
        }
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

/* ---- mixed precision: op_sel_hi says which sources are f16, op_sel which half of them; results of v_fma_mixlo, mixhi are f16 ---- */

enum { MIX, MIXLO, MIXHI };

static bool fma_mix(struct emu_wave *w, const struct emu_inst *i)
{
    const uint32_t *old = emu_v(w, &i->ops[0], 0);
    uint32_t r[EMU_LANES];
    float v[3][EMU_LANES];

    for (unsigned n = 0; n < 3; n++) {
        const struct emu_operand *o = &i->ops[n + 1];
        bool half = (i->op_sel_hi >> n & 1) != 0;
        unsigned shift = half && (i->op_sel >> n & 1) != 0 ? 16 : 0;
        uint32_t tmp[EMU_LANES];
        const uint32_t *row = emu_row(w, o, 0, tmp);

        EMU_FOR_LANES(lane) {
            float f = half ? emu_f16_to_f32(row[lane] >> shift & 0xffff) : emu_float(row[lane]);

            f = o->abs ? fabsf(f) : f;
            v[n][lane] = o->neg ? -f : f;
        }
    }
    EMU_FOR_LANES(lane) {
        float f = fmaf(v[0][lane], v[1][lane], v[2][lane]);

        if (i->sub == MIX) {
            r[lane] = emu_bits(emu_finish_f32(w, f, i->clamp));
        } else {
            uint32_t h = emu_finish_f16(w, f, i->clamp);

            r[lane] = i->sub == MIXLO ? (old[lane] & 0xffff0000) | h : (old[lane] & 0xffff) | h << 16;
        }
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

/* ---- dot products: the products of the halves are added to the third source, lower one first, each sum rounded to f32 ---- */

enum { DOT_F16, DOT_BF16 };

static bool dot2_f32(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES], tc[EMU_LANES], r[EMU_LANES];
    const uint32_t *a = emu_row(w, &i->ops[1], 0, ta), *b = emu_row(w, &i->ops[2], 0, tb);
    const uint32_t *c = emu_row(w, &i->ops[i->num_operands > 3 ? 3 : 0], 0, tc); /* v_dot2c accumulates into its destination */

    EMU_FOR_LANES(lane) {
        float f = emu_float(c[lane]);

        for (unsigned shift = 0; shift < 32; shift += 16) {
            uint32_t x = a[lane] >> shift & 0xffff, y = b[lane] >> shift & 0xffff;

            f += i->sub == DOT_F16 ? emu_f16_to_f32(x) * emu_f16_to_f32(y) : emu_bf16_to_f32(x) * emu_bf16_to_f32(y);
        }
        r[lane] = emu_bits(emu_finish_f32(w, f, i->clamp));
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

#define PACKED(name, function, sub) {"v_" name, function, EMU_VALU, sub, 0, EMU_ALLOW_PACKED | EMU_ALLOW_OPSEL | EMU_ALLOW_CLAMP}
#define MIXED(name, sub) {"v_" name, fma_mix, EMU_VALU, sub, 0, EMU_ALLOW_PACKED | EMU_ALLOW_OPSEL | EMU_ALLOW_CLAMP | EMU_ALLOW_NEG}

const struct emu_op emu_ops_valu_packed[] = {
    PACKED("pk_add_f32", pk_f32, ADD), PACKED("pk_mul_f32", pk_f32, MUL), PACKED("pk_fma_f32", pk_f32, FMA),
    PACKED("pk_add_f16", pk_f16, ADD16), PACKED("pk_mul_f16", pk_f16, MUL16), PACKED("pk_min_f16", pk_f16, MIN16),
    PACKED("pk_max_f16", pk_f16, MAX16), PACKED("pk_fma_f16", pk_f16, FMA16), PACKED("pk_add_u16", pk_16, ADDU),
    PACKED("pk_sub_u16", pk_16, SUBU), PACKED("pk_add_i16", pk_16, ADDI), PACKED("pk_sub_i16", pk_16, SUBI),
    PACKED("pk_mul_lo_u16", pk_16, MULLO), PACKED("pk_lshlrev_b16", pk_16, SHL), PACKED("pk_lshrrev_b16", pk_16, SHR),
    PACKED("pk_ashrrev_i16", pk_16, ASHR), PACKED("pk_min_u16", pk_16, MINU), PACKED("pk_max_u16", pk_16, MAXU),
    PACKED("pk_min_i16", pk_16, MINI), PACKED("pk_max_i16", pk_16, MAXI), PACKED("pk_mad_u16", pk_16, MADU), PACKED("pk_mad_i16", pk_16, MADI),
    MIXED("fma_mix_f32", MIX), MIXED("fma_mixlo_f16", MIXLO), MIXED("fma_mixhi_f16", MIXHI),
    {"v_dot2_f32_f16", dot2_f32, EMU_VALU, DOT_F16, 0, EMU_ALLOW_CLAMP}, {"v_dot2c_f32_f16", dot2_f32, EMU_VALU, DOT_F16, 0, 0},
    {"v_dot2_f32_bf16", dot2_f32, EMU_VALU, DOT_BF16, 0, EMU_ALLOW_CLAMP}, {"v_dot2c_f32_bf16", dot2_f32, EMU_VALU, DOT_BF16, 0, 0}, {0},
};
