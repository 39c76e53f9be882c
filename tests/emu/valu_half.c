/* SPDX-License-Identifier: MIT
 *
 * Vector instructions on one 16-bit number a lane, f16 and integers. The result fills the register with zeroes above, but for the rows with
 * sub = 1, where gfx9 keeps the half that it does not write (LLVM lists them in GCNSubtarget::zeroesHigh16BitsOfDest). */
#include <math.h>

#include "valu.h"

static inline float min16(float a, float b)
{
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : signbit(a) ? a : b;
}

static inline float max16(float a, float b)
{
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : signbit(a) ? b : a;
}

static inline float med16(float a, float b, float c)
{
    return a != a || b != b || c != c ? min16(min16(a, b), c) : max16(min16(a, b), min16(max16(a, b), c));
}

static inline float fract16(float a)
{
    float f = a - floorf(a);

    return f >= 0x1.ffcp-1f ? 0x1.ffcp-1f : f;
}

static inline float mantissa16(float a)
{
    int e;

    return isfinite(a) ? frexpf(a, &e) : a;
}

/* Rounded once to f16 by the caller: f32 has more than twice the bits, so the intermediate rounding of +, *, / and square root does no harm. */
EMU_FLOAT2(add_f16, float, f16, a + b)
EMU_FLOAT2(sub_f16, float, f16, a - b)
EMU_FLOAT2(subrev_f16, float, f16, b - a)
EMU_FLOAT2(mul_f16, float, f16, a * b)
EMU_FLOAT2(min_f16, float, f16, min16(a, b))
EMU_FLOAT2(max_f16, float, f16, max16(a, b))
EMU_FLOAT3(fma_f16, float, f16, 3, emu_fma_odd(a, b, c))
EMU_FLOAT3(mad_f16, float, f16, 3, emu_f16_to_f32(emu_f32_to_f16(a * b)) + c)
EMU_FLOAT3(mac_f16, float, f16, 0, emu_f16_to_f32(emu_f32_to_f16(a * b)) + c)
EMU_FLOAT3(min3_f16, float, f16, 3, min16(min16(a, b), c))
EMU_FLOAT3(max3_f16, float, f16, 3, max16(max16(a, b), c))
EMU_FLOAT3(med3_f16, float, f16, 3, med16(a, b, c))
EMU_FLOAT1(rcp_f16, float, f16, 1.0f / a)
EMU_FLOAT1(rsq_f16, float, f16, 1.0 / sqrt((double)a))
EMU_FLOAT1(sqrt_f16, float, f16, sqrtf(a))
EMU_FLOAT1(exp_f16, float, f16, exp2f(a))
EMU_FLOAT1(log_f16, float, f16, log2f(a))
EMU_FLOAT1(floor_f16, float, f16, floorf(a))
EMU_FLOAT1(ceil_f16, float, f16, ceilf(a))
EMU_FLOAT1(trunc_f16, float, f16, truncf(a))
EMU_FLOAT1(rndne_f16, float, f16, nearbyintf(a))
EMU_FLOAT1(fract_f16, float, f16, fract16(a))
EMU_FLOAT1(frexp_mant_f16, float, f16, mantissa16(a))

static bool ldexp_f16(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t tb[EMU_LANES];
    float a[EMU_LANES];
    const uint32_t *b = emu_row(w, &i->ops[2], 0, tb);

    emu_row_f16(w, i, 1, a);
    EMU_FOR_LANES(lane) {
        a[lane] = ldexpf(a[lane], (int16_t)b[lane]);
    }
    emu_put_f16(w, i, a);
    return true;
}

/* ---- integers: the sources are the low halves, but where op_sel chooses ---- */

EMU_VOP2(add_u16, (a + b) & 0xffff)
EMU_VOP2(sub_u16, (a - b) & 0xffff)
EMU_VOP2(subrev_u16, (b - a) & 0xffff)
EMU_VOP2(mul_lo_u16, (a & 0xffff) * (b & 0xffff) & 0xffff)
EMU_VOP2(lshlrev_b16, b << (a & 15) & 0xffff)
EMU_VOP2(lshrrev_b16, (b & 0xffff) >> (a & 15))
EMU_VOP2(ashrrev_i16, ((int16_t)b >> (a & 15)) & 0xffff)
EMU_VOP2(min_u16, (a & 0xffff) < (b & 0xffff) ? a & 0xffff : b & 0xffff)
EMU_VOP2(max_u16, (a & 0xffff) > (b & 0xffff) ? a & 0xffff : b & 0xffff)
EMU_VOP2(min_i16, ((int16_t)a < (int16_t)b ? a : b) & 0xffff)
EMU_VOP2(max_i16, ((int16_t)a > (int16_t)b ? a : b) & 0xffff)
EMU_VOP3(mad_u32_u16, (a & 0xffff) * (b & 0xffff) + c)
EMU_VOP3(mad_i32_i16, (uint32_t)((int16_t)a * (int16_t)b) + c)

enum { MAD, MIN3U, MAX3U, MED3U, MIN3I, MAX3I, MED3I, PACK, ADDI, SUBI };

static uint32_t three16(unsigned operation, uint32_t a, uint32_t b, uint32_t c)
{
    bool sign = operation >= MIN3I;
    int32_t x = sign ? (int16_t)a : (int32_t)a, y = sign ? (int16_t)b : (int32_t)b, z = sign ? (int16_t)c : (int32_t)c;
    int32_t low = x < y ? x : y, high = x < y ? y : x;

    switch (operation) {
    case MAD: return a * b + c;
    case MIN3U: case MIN3I: return (uint32_t)(low < z ? low : z);
    case MAX3U: case MAX3I: return (uint32_t)(high > z ? high : z);
    case ADDI: return (uint32_t)(x + y);
    case SUBI: return (uint32_t)(x - y);
    default: return (uint32_t)(z < low ? low : z > high ? high : z);
    }
}

/* Instructions with op_sel. sub: the operation; its bit 3 of op_sel is the half that is written. */
static bool with_opsel(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES], tc[EMU_LANES], r[EMU_LANES];
    const uint32_t *ra = emu_row(w, &i->ops[1], 0, ta), *rb = emu_row(w, &i->ops[2], 0, tb);
    const uint32_t *rc = i->num_operands > 3 ? emu_row(w, &i->ops[3], 0, tc) : rb, *old = emu_v(w, &i->ops[0], 0);
    unsigned sa = (i->op_sel & 1) * 16, sb = (i->op_sel >> 1 & 1) * 16, sc = (i->op_sel >> 2 & 1) * 16;

    EMU_FOR_LANES(lane) {
        uint32_t a = ra[lane] >> sa & 0xffff, b = rb[lane] >> sb & 0xffff, c = rc[lane] >> sc & 0xffff;

        if (i->sub == PACK) {
            a = ((i->ops[1].abs ? a & 0x7fff : a) ^ (i->ops[1].neg ? 0x8000u : 0));
            b = ((i->ops[2].abs ? b & 0x7fff : b) ^ (i->ops[2].neg ? 0x8000u : 0));
            r[lane] = a | b << 16;
        } else {
            uint32_t h = three16(i->sub, a, b, c) & 0xffff;

            r[lane] = (i->op_sel & 8) != 0 ? (old[lane] & 0xffff) | h << 16 : (old[lane] & 0xffff0000) | h;
        }
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

static bool bitop3_b16(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES], tc[EMU_LANES], r[EMU_LANES];
    const uint32_t *ra = emu_row(w, &i->ops[1], 0, ta), *rb = emu_row(w, &i->ops[2], 0, tb), *rc = emu_row(w, &i->ops[3], 0, tc);
    const uint32_t *old = emu_v(w, &i->ops[0], 0);

    EMU_FOR_LANES(lane) {
        uint32_t h = 0;

        for (unsigned bit = 0; bit < 16; bit++) {
            unsigned row = (ra[lane] >> bit & 1) << 2 | (rb[lane] >> bit & 1) << 1 | (rc[lane] >> bit & 1);

            h |= ((uint32_t)i->offset >> row & 1) << bit;
        }
        r[lane] = (old[lane] & 0xffff0000) | h;
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

#define KEEPS(name, function) {"v_" name, function, EMU_VALU, 1, 0, EMU_ALLOW_NEG | EMU_ALLOW_CLAMP | EMU_ALLOW_OMOD | EMU_ALLOW_OPSEL}
#define OPSEL(name, sub) {"v_" name, with_opsel, EMU_VALU, sub, 0, EMU_ALLOW_OPSEL}

const struct emu_op emu_ops_valu_half[] = {
    EMU_FROW("add_f16", add_f16), EMU_FROW("sub_f16", sub_f16), EMU_FROW("subrev_f16", subrev_f16), EMU_FROW("mul_f16", mul_f16),
    EMU_FROW("min_f16", min_f16), EMU_FROW("max_f16", max_f16), KEEPS("fma_f16", fma_f16),
    KEEPS("mad_f16", mad_f16), KEEPS("madmk_f16", mad_f16),
    KEEPS("madak_f16", mad_f16), KEEPS("mac_f16", mac_f16), KEEPS("min3_f16", min3_f16), KEEPS("max3_f16", max3_f16),
    KEEPS("med3_f16", med3_f16), EMU_FROW("rcp_f16", rcp_f16), EMU_FROW("rsq_f16", rsq_f16), EMU_FROW("sqrt_f16", sqrt_f16),
    EMU_FROW("exp_f16", exp_f16), EMU_FROW("log_f16", log_f16), EMU_FROW("floor_f16", floor_f16), EMU_FROW("ceil_f16", ceil_f16),
    EMU_FROW("trunc_f16", trunc_f16), EMU_FROW("rndne_f16", rndne_f16), EMU_FROW("fract_f16", fract_f16),
    EMU_FROW("frexp_mant_f16", frexp_mant_f16), EMU_FROW("ldexp_f16", ldexp_f16), EMU_VROW("add_u16", add_u16), EMU_VROW("sub_u16", sub_u16),
    EMU_VROW("subrev_u16", subrev_u16), EMU_VROW("mul_lo_u16", mul_lo_u16), EMU_VROW("lshlrev_b16", lshlrev_b16),
    EMU_VROW("lshrrev_b16", lshrrev_b16), EMU_VROW("ashrrev_i16", ashrrev_i16), EMU_VROW("min_u16", min_u16), EMU_VROW("max_u16", max_u16),
    EMU_VROW("min_i16", min_i16), EMU_VROW("max_i16", max_i16), EMU_VROW("mad_u32_u16", mad_u32_u16), EMU_VROW("mad_i32_i16", mad_i32_i16),
    OPSEL("mad_u16", MAD), OPSEL("mad_i16", MAD), OPSEL("min3_u16", MIN3U), OPSEL("max3_u16", MAX3U), OPSEL("med3_u16", MED3U),
    OPSEL("min3_i16", MIN3I), OPSEL("max3_i16", MAX3I), OPSEL("med3_i16", MED3I), OPSEL("add_i16", ADDI), OPSEL("sub_i16", SUBI),
    {"v_pack_b32_f16", with_opsel, EMU_VALU, PACK, 0, EMU_ALLOW_OPSEL | EMU_ALLOW_NEG},
    {"v_bitop3_b16", bitop3_b16, EMU_VALU, 0, 0, EMU_ALLOW_BITOP3}, {0},
};
