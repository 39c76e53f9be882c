/* SPDX-License-Identifier: MIT
 *
 * Vector integer instructions of 32 and 16 bits. 16-bit results fill the register with zeroes above, as gfx9 does, but for those that can
 * choose the half (v_mad_u16 and its like), which keep the other half. */
#include "valu.h"

static inline int32_t s32(uint32_t a)
{
    return (int32_t)a;
}

static inline int32_t s24(uint32_t a)
{
    return (int32_t)(a << 8) >> 8;
}

static inline uint32_t u24(uint32_t a)
{
    return a & 0xffffff;
}

static inline uint32_t ashr(uint32_t a, uint32_t by)
{
    return (uint32_t)((int32_t)a >> (by & 31));
}

static inline uint32_t min_u(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t max_u(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline int32_t min_s(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static inline int32_t max_s(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static inline uint32_t bfe_u(uint32_t a, uint32_t offset, uint32_t width)
{
    return (width & 31) == 0 ? 0 : a >> (offset & 31) & ((1u << (width & 31)) - 1);
}

static inline uint32_t bfe_i(uint32_t a, uint32_t offset, uint32_t width)
{
    uint32_t from = offset & 31, bits = width & 31, left = from + bits > 32 ? 32 - from : bits;

    return bits == 0 ? 0 : (uint32_t)((int32_t)(a << (32 - from - left)) >> (32 - left));
}

/* Byte of {a, b} (a above) or a constant, as v_perm_b32 selects it. */
static inline uint32_t perm_byte(uint64_t both, uint32_t selector)
{
    if (selector >= 13) {
        return 0xff;
    } else if (selector == 12) {
        return 0;
    } else if (selector >= 8) { /* signs of the odd bytes 1, 3, 5, 7 */
        return (both >> (16 * (selector - 8) + 15) & 1) != 0 ? 0xff : 0;
    }
    return both >> 8 * selector & 0xff;
}

static inline uint32_t perm(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t both = (uint64_t)a << 32 | b;

    return perm_byte(both, c & 255) | perm_byte(both, c >> 8 & 255) << 8 | perm_byte(both, c >> 16 & 255) << 16 | perm_byte(both, c >> 24) << 24;
}

static inline uint32_t reverse(uint32_t a)
{
    a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
    a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
    a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(a);
}

static inline uint32_t sad_bytes(uint32_t a, uint32_t b, bool masked)
{
    uint32_t sum = 0;

    for (unsigned k = 0; k < 32; k += 8) {
        uint32_t x = a >> k & 255, y = b >> k & 255;

        sum += masked && y == 0 ? 0 : x > y ? x - y : y - x;
    }
    return sum;
}

static inline uint32_t sad_halves(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;

    for (unsigned k = 0; k < 32; k += 16) {
        uint32_t x = a >> k & 0xffff, y = b >> k & 0xffff;

        sum += x > y ? x - y : y - x;
    }
    return sum;
}

static inline uint32_t lerp_bytes(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r = 0;

    for (unsigned k = 0; k < 32; k += 8) {
        r |= ((a >> k & 255) + (b >> k & 255) + (c >> k & 1)) >> 1 << k;
    }
    return r;
}

static inline uint32_t dot4(uint32_t a, uint32_t b, uint32_t c, bool sign)
{
    for (unsigned k = 0; k < 32; k += 8) {
        c += sign ? (uint32_t)((int8_t)(a >> k) * (int8_t)(b >> k)) : (a >> k & 255) * (b >> k & 255);
    }
    return c;
}

static inline uint32_t dot8(uint32_t a, uint32_t b, uint32_t c, bool sign)
{
    for (unsigned k = 0; k < 32; k += 4) {
        int32_t x = (int32_t)(a << (28 - k)) >> 28, y = (int32_t)(b << (28 - k)) >> 28;

        c += sign ? (uint32_t)(x * y) : (a >> k & 15) * (b >> k & 15);
    }
    return c;
}

static inline uint32_t dot2(uint32_t a, uint32_t b, uint32_t c, bool sign)
{
    return sign ? c + (uint32_t)((int16_t)a * (int16_t)b) + (uint32_t)((int16_t)(a >> 16) * (int16_t)(b >> 16)) :
                  c + (a & 0xffff) * (b & 0xffff) + (a >> 16) * (b >> 16);
}

/* The table of 8 bits gives the result for the bits of the sources: a is bit 2 of its index, b bit 1, c bit 0. */
static inline uint32_t bitop3(uint32_t table, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r = 0;

    for (unsigned k = 0; k < 8; k++) {
        r |= (table >> k & 1) != 0 ? ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c) : 0;
    }
    return r;
}

EMU_VOP1(mov_b32, a)
EMU_VOP1(not_b32, ~a)
EMU_VOP1(bfrev_b32, reverse(a))
EMU_VOP1(ffbh_u32, a == 0 ? UINT32_MAX : (uint32_t)__builtin_clz(a))
EMU_VOP1(ffbl_b32, a == 0 ? UINT32_MAX : (uint32_t)__builtin_ctz(a))
EMU_VOP1(ffbh_i32, a == 0 || a == UINT32_MAX ? UINT32_MAX : (uint32_t)__builtin_clz(s32(a) < 0 ? ~a : a))
EMU_VOP1(sat_pk_u8, min_u(s32((uint32_t)(int16_t)a) < 0 ? 0 : a & 0xffff, 255) | min_u(s32(a) < 0 ? 0 : a >> 16, 255) << 8)

EMU_VOP2(add_u32, a + b)
EMU_VOP2(sub_u32, a - b)
EMU_VOP2(subrev_u32, b - a)
EMU_VOP2(and_b32, a & b)
EMU_VOP2(or_b32, a | b)
EMU_VOP2(xor_b32, a ^ b)
EMU_VOP2(xnor_b32, ~(a ^ b))
EMU_VOP2(lshlrev_b32, b << (a & 31))
EMU_VOP2(lshrrev_b32, b >> (a & 31))
EMU_VOP2(ashrrev_i32, ashr(b, a))
EMU_VOP2(min_i32, min_s(s32(a), s32(b)))
EMU_VOP2(max_i32, max_s(s32(a), s32(b)))
EMU_VOP2(min_u32, min_u(a, b))
EMU_VOP2(max_u32, max_u(a, b))
EMU_VOP2(mul_lo_u32, a * b)
EMU_VOP2(mul_hi_u32, (uint64_t)a * b >> 32)
EMU_VOP2(mul_hi_i32, (uint64_t)((int64_t)s32(a) * s32(b)) >> 32)
EMU_VOP2(mul_i32_i24, (uint32_t)s24(a) * (uint32_t)s24(b))
EMU_VOP2(mul_hi_i32_i24, (uint64_t)((int64_t)s24(a) * s24(b)) >> 32)
EMU_VOP2(mul_u32_u24, u24(a) * u24(b))
EMU_VOP2(mul_hi_u32_u24, (uint64_t)u24(a) * u24(b) >> 32)
EMU_VOP2(bcnt_u32, (uint32_t)__builtin_popcount(a) + b)
EMU_VOP2(bfm_b32, ((1u << (a & 31)) - 1) << (b & 31))

EMU_VOP3(add3_u32, a + b + c)
EMU_VOP3(lshl_add_u32, (a << (b & 31)) + c)
EMU_VOP3(add_lshl_u32, (a + b) << (c & 31))
EMU_VOP3(lshl_or_b32, a << (b & 31) | c)
EMU_VOP3(and_or_b32, (a & b) | c)
EMU_VOP3(or3_b32, a | b | c)
EMU_VOP3(xad_u32, (a ^ b) + c)
EMU_VOP3(mad_i32_i24, (uint32_t)s24(a) * (uint32_t)s24(b) + c)
EMU_VOP3(mad_u32_u24, u24(a) * u24(b) + c)
EMU_VOP3(bfe_u32, bfe_u(a, b, c))
EMU_VOP3(bfe_i32, bfe_i(a, b, c))
EMU_VOP3(bfi_b32, (a & b) | (~a & c))
EMU_VOP3(alignbit_b32, ((uint64_t)a << 32 | b) >> (c & 31))
EMU_VOP3(alignbyte_b32, ((uint64_t)a << 32 | b) >> 8 * (c & 3))
EMU_VOP3(perm_b32, perm(a, b, c))
EMU_VOP3(min3_i32, min_s(min_s(s32(a), s32(b)), s32(c)))
EMU_VOP3(min3_u32, min_u(min_u(a, b), c))
EMU_VOP3(max3_i32, max_s(max_s(s32(a), s32(b)), s32(c)))
EMU_VOP3(max3_u32, max_u(max_u(a, b), c))
EMU_VOP3(med3_i32, max_s(min_s(s32(a), s32(b)), min_s(max_s(s32(a), s32(b)), s32(c))))
EMU_VOP3(med3_u32, max_u(min_u(a, b), min_u(max_u(a, b), c)))
EMU_VOP3(sad_u8, sad_bytes(a, b, false) + c)
EMU_VOP3(sad_hi_u8, (sad_bytes(a, b, false) << 16) + c)
EMU_VOP3(msad_u8, sad_bytes(a, b, true) + c)
EMU_VOP3(sad_u16, sad_halves(a, b) + c)
EMU_VOP3(sad_u32, (a > b ? a - b : b - a) + c)
EMU_VOP3(lerp_u8, lerp_bytes(a, b, c))
EMU_VOP3(dot4_i32_i8, dot4(a, b, c, true))
EMU_VOP3(dot4_u32_u8, dot4(a, b, c, false))
EMU_VOP3(dot8_i32_i4, dot8(a, b, c, true))
EMU_VOP3(dot8_u32_u4, dot8(a, b, c, false))
EMU_VOP3(dot2_i32_i16, dot2(a, b, c, true))
EMU_VOP3(dot2_u32_u16, dot2(a, b, c, false))
EMU_VOP3(bitop3_b32, bitop3((uint32_t)i->offset, a, b, c))

/* The third source is the destination. */
static bool dot4c_i32_i8(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES], r[EMU_LANES];
    const uint32_t *a = emu_row(w, &i->ops[1], 0, ta), *b = emu_row(w, &i->ops[2], 0, tb), *c = emu_v(w, &i->ops[0], 0);

    EMU_FOR_LANES(lane) {
        r[lane] = dot4(a[lane], b[lane], c[lane], true);
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

/* v_add_u32 and its like with the clamp modifier saturate. */
static bool add_sub_clamp(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES], r[EMU_LANES];
    const uint32_t *a = emu_row(w, &i->ops[1], 0, ta), *b = emu_row(w, &i->ops[2], 0, tb);

    EMU_FOR_LANES(lane) {
        uint64_t x = a[lane], y = b[lane];

        if (i->sub == 0) {
            r[lane] = i->clamp && x + y > UINT32_MAX ? UINT32_MAX : (uint32_t)(x + y);
        } else {
            uint64_t from = i->sub == 1 ? x : y, less = i->sub == 1 ? y : x;

            r[lane] = i->clamp && less > from ? 0 : (uint32_t)(from - less);
        }
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

static bool add_u32_any(struct emu_wave *w, const struct emu_inst *i)
{
    return i->clamp ? add_sub_clamp(w, i) : i->sub == 0 ? add_u32(w, i) : i->sub == 1 ? sub_u32(w, i) : subrev_u32(w, i);
}

/* Signed ones that saturate. */
static bool add_i32_any(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES], r[EMU_LANES];
    const uint32_t *a = emu_row(w, &i->ops[1], 0, ta), *b = emu_row(w, &i->ops[2], 0, tb);

    EMU_FOR_LANES(lane) {
        int64_t sum = i->sub == 0 ? (int64_t)s32(a[lane]) + s32(b[lane]) : (int64_t)s32(a[lane]) - s32(b[lane]);

        r[lane] = i->clamp && sum > INT32_MAX ? INT32_MAX : i->clamp && sum < INT32_MIN ? (uint32_t)INT32_MIN : (uint32_t)sum;
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

#define CLAMPED(name, function, sub) {"v_" name, function, EMU_VALU, sub, 0, EMU_ALLOW_CLAMP}

const struct emu_op emu_ops_valu[] = {
    EMU_VROW("mov_b32", mov_b32), EMU_VROW("accvgpr_read_b32", mov_b32), EMU_VROW("accvgpr_write_b32", mov_b32),
    EMU_VROW("accvgpr_mov_b32", mov_b32), EMU_VROW("not_b32", not_b32), EMU_VROW("bfrev_b32", bfrev_b32), EMU_VROW("ffbh_u32", ffbh_u32),
    EMU_VROW("ffbl_b32", ffbl_b32), EMU_VROW("ffbh_i32", ffbh_i32), EMU_VROW("sat_pk_u8_i16", sat_pk_u8), CLAMPED("add_u32", add_u32_any, 0),
    CLAMPED("sub_u32", add_u32_any, 1), CLAMPED("subrev_u32", add_u32_any, 2), CLAMPED("add_i32", add_i32_any, 0),
    CLAMPED("sub_i32", add_i32_any, 1), EMU_VROW("and_b32", and_b32), EMU_VROW("or_b32", or_b32), EMU_VROW("xor_b32", xor_b32),
    EMU_VROW("xnor_b32", xnor_b32), EMU_VROW("lshlrev_b32", lshlrev_b32), EMU_VROW("lshrrev_b32", lshrrev_b32),
    EMU_VROW("ashrrev_i32", ashrrev_i32), EMU_VROW("min_i32", min_i32), EMU_VROW("max_i32", max_i32), EMU_VROW("min_u32", min_u32),
    EMU_VROW("max_u32", max_u32), EMU_VROW("mul_lo_u32", mul_lo_u32), EMU_VROW("mul_hi_u32", mul_hi_u32), EMU_VROW("mul_hi_i32", mul_hi_i32),
    EMU_VROW("mul_i32_i24", mul_i32_i24), EMU_VROW("mul_hi_i32_i24", mul_hi_i32_i24), EMU_VROW("mul_u32_u24", mul_u32_u24),
    EMU_VROW("mul_hi_u32_u24", mul_hi_u32_u24), EMU_VROW("bcnt_u32_b32", bcnt_u32), EMU_VROW("bfm_b32", bfm_b32),
    EMU_VROW("add3_u32", add3_u32), EMU_VROW("lshl_add_u32", lshl_add_u32), EMU_VROW("add_lshl_u32", add_lshl_u32),
    EMU_VROW("lshl_or_b32", lshl_or_b32), EMU_VROW("and_or_b32", and_or_b32), EMU_VROW("or3_b32", or3_b32), EMU_VROW("xad_u32", xad_u32),
    EMU_VROW("mad_i32_i24", mad_i32_i24), EMU_VROW("mad_u32_u24", mad_u32_u24), EMU_VROW("bfe_u32", bfe_u32), EMU_VROW("bfe_i32", bfe_i32),
    EMU_VROW("bfi_b32", bfi_b32), EMU_VROW("alignbit_b32", alignbit_b32), EMU_VROW("alignbyte_b32", alignbyte_b32),
    EMU_VROW("perm_b32", perm_b32), EMU_VROW("min3_i32", min3_i32), EMU_VROW("min3_u32", min3_u32), EMU_VROW("max3_i32", max3_i32),
    EMU_VROW("max3_u32", max3_u32), EMU_VROW("med3_i32", med3_i32), EMU_VROW("med3_u32", med3_u32), EMU_VROW("sad_u8", sad_u8),
    EMU_VROW("sad_hi_u8", sad_hi_u8), EMU_VROW("msad_u8", msad_u8), EMU_VROW("sad_u16", sad_u16), EMU_VROW("sad_u32", sad_u32),
    EMU_VROW("lerp_u8", lerp_u8), EMU_VROW("dot4_i32_i8", dot4_i32_i8), EMU_VROW("dot4c_i32_i8", dot4c_i32_i8),
    EMU_VROW("dot4_u32_u8", dot4_u32_u8), EMU_VROW("dot8_i32_i4", dot8_i32_i4), EMU_VROW("dot8_u32_u4", dot8_u32_u4),
    EMU_VROW("dot2_i32_i16", dot2_i32_i16), EMU_VROW("dot2_u32_u16", dot2_u32_u16),
    {"v_bitop3_b32", bitop3_b32, EMU_VALU, 0, 0, EMU_ALLOW_BITOP3}, {0},
};
