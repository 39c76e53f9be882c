/* SPDX-License-Identifier: MIT
 *
 * Vector integer instructions compute what the ISA manuals say, lane by lane, under every EXEC. */
#include "test_lane.h"

static uint32_t A(const struct lane *l)
{
    return (uint32_t)l->a;
}

static uint32_t B(const struct lane *l)
{
    return (uint32_t)l->b;
}

static uint32_t C(const struct lane *l)
{
    return (uint32_t)l->c;
}

static void put(struct lane *l, uint64_t value)
{
    l->r = (l->d >> 32 << 32) | (uint32_t)value;
}

static int64_t sext(uint64_t value, unsigned bits)
{
    return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

#define R(name, ...)                       \
    static void name(struct lane *l)       \
    {                                      \
        __VA_ARGS__                        \
    }

R(mov, put(l, A(l));)
R(mov_s, put(l, l->sa);)
R(mov_64, l->r = l->a;)
R(mov_64s, l->r = l->sa;)
R(mov_half, put(l, 0x3f000000);)
R(mov_minus, put(l, 0xfffffff0u);)
R(not, put(l, A(l) ^ 0xffffffffu);)
R(brev, uint32_t r = 0; for (int k = 0; k < 32; k++) { r = r << 1 | (A(l) >> k & 1); } put(l, r);)
R(ffbh, uint32_t n = 0; while (n < 32 && (A(l) >> (31 - n) & 1) == 0) { n++; } put(l, n == 32 ? 0xffffffffu : n);)
R(ffbl, uint32_t n = 0; while (n < 32 && (A(l) >> n & 1) == 0) { n++; } put(l, n == 32 ? 0xffffffffu : n);)
R(ffbhi, uint32_t n = 0; while (n < 32 && (A(l) >> (31 - n) & 1) == A(l) >> 31) { n++; } put(l, n == 32 ? 0xffffffffu : n);)
R(add, put(l, l->a + l->b);)
R(add_s, put(l, l->sa + l->b);)
R(add_lit, put(l, 0x12345678u + B(l));)
R(add_sat, uint64_t s = (uint64_t)A(l) + B(l); put(l, s >> 32 ? 0xffffffffu : s);)
R(sub_sat, put(l, A(l) < B(l) ? 0 : A(l) - B(l));)
R(addi_sat, int64_t s = sext(A(l), 32) + sext(B(l), 32); put(l, (uint64_t)(s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : s));)
R(subi_sat, int64_t s = sext(A(l), 32) - sext(B(l), 32); put(l, (uint64_t)(s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : s));)
R(sub, put(l, l->a - l->b);)
R(subrev, put(l, l->b - l->a);)
R(add_co, uint64_t s = (uint64_t)A(l) + B(l); put(l, s); l->carry = s > 0xffffffff;)
R(sub_co, put(l, A(l) - B(l)); l->carry = A(l) < B(l);)
R(subrev_co, put(l, B(l) - A(l)); l->carry = B(l) < A(l);)
R(addc, uint64_t s = (uint64_t)A(l) + B(l) + l->carry; put(l, s); l->carry = s > 0xffffffff;)
R(subb, int64_t s = (int64_t)A(l) - B(l) - l->carry; put(l, (uint64_t)s); l->carry = s < 0;)
R(subbrev, int64_t s = (int64_t)B(l) - A(l) - l->carry; put(l, (uint64_t)s); l->carry = s < 0;)
R(and, put(l, l->a & l->b);)
R(or, put(l, l->a | l->b);)
R(xor, put(l, l->a ^ l->b);)
R(xnor, put(l, ~(l->a ^ l->b));)
R(shl, put(l, (uint64_t)B(l) << A(l) % 32);)
R(shr, put(l, B(l) / (1ull << A(l) % 32));)
R(sar, put(l, (uint64_t)(sext(B(l), 32) >> A(l) % 32));)
R(shl64, l->r = l->b << A(l) % 64;)
R(shr64, l->r = l->b >> A(l) % 64;)
R(sar64, l->r = (uint64_t)((int64_t)l->b >> A(l) % 64);)
R(mini, put(l, (uint64_t)(sext(A(l), 32) < sext(B(l), 32) ? A(l) : B(l)));)
R(maxi, put(l, (uint64_t)(sext(A(l), 32) > sext(B(l), 32) ? A(l) : B(l)));)
R(minu, put(l, A(l) < B(l) ? A(l) : B(l));)
R(maxu, put(l, A(l) > B(l) ? A(l) : B(l));)
R(mul, put(l, (uint64_t)A(l) * B(l));)
R(mulhi, put(l, (uint64_t)A(l) * B(l) / 0x100000000ull);)
R(mulhi_i, put(l, (uint64_t)(sext(A(l), 32) * sext(B(l), 32)) >> 32);)
R(mul24, put(l, (uint64_t)(A(l) % (1 << 24)) * (B(l) % (1 << 24)));)
R(mul24i, put(l, (uint64_t)(sext(A(l), 24) * sext(B(l), 24)));)
R(mulhi24, put(l, (uint64_t)(A(l) % (1 << 24)) * (B(l) % (1 << 24)) >> 32);)
R(mulhi24i, put(l, (uint64_t)(sext(A(l), 24) * sext(B(l), 24)) >> 32);)
R(mad24, put(l, (uint64_t)(A(l) % (1 << 24)) * (B(l) % (1 << 24)) + C(l));)
R(mad24i, put(l, (uint64_t)(sext(A(l), 24) * sext(B(l), 24)) + C(l));)
R(bcnt, uint32_t n = B(l); for (int k = 0; k < 32; k++) { n += A(l) >> k & 1; } put(l, n);)
R(bfm, uint32_t r = 0; for (uint32_t k = 0; k < A(l) % 32; k++) { r |= (uint32_t)(1ull << (k + B(l) % 32)); } put(l, r);)
R(add3, put(l, l->a + l->b + l->c);)
R(lshl_add, put(l, ((uint64_t)A(l) << B(l) % 32) + l->c);)
R(add_lshl, put(l, (uint64_t)(A(l) + B(l)) << C(l) % 32);)
R(lshl_or, put(l, (uint64_t)A(l) << B(l) % 32 | C(l));)
R(and_or, put(l, (l->a & l->b) | l->c);)
R(or3, put(l, l->a | l->b | l->c);)
R(xad, put(l, (l->a ^ l->b) + l->c);)
R(bfe, uint32_t r = 0; for (uint32_t k = 0; k < C(l) % 32 && k + B(l) % 32 < 32; k++) { r |= (A(l) >> (k + B(l) % 32) & 1) << k; } put(l, r);)
R(bfei, uint32_t n = C(l) % 32; if (n + B(l) % 32 > 32) { n = 32 - B(l) % 32; } put(l, n == 0 ? 0 : (uint64_t)sext(A(l) >> B(l) % 32, n));)
R(bfi, uint32_t r = 0; for (int k = 0; k < 32; k++) { r |= ((A(l) >> k & 1 ? B(l) : C(l)) >> k & 1) << k; } put(l, r);)
R(alignbit, uint64_t both = (uint64_t)A(l) * 0x100000000ull + B(l); put(l, both >> C(l) % 32);)
R(alignbyte, uint64_t both = (uint64_t)A(l) * 0x100000000ull + B(l); put(l, both >> C(l) % 4 * 8);)
R(min3, uint32_t m = A(l) < B(l) ? A(l) : B(l); put(l, m < C(l) ? m : C(l));)
R(max3i, int64_t m = sext(A(l), 32) > sext(B(l), 32) ? sext(A(l), 32) : sext(B(l), 32); put(l, (uint64_t)(m > sext(C(l), 32) ? m : sext(C(l), 32)));)
R(med3, uint64_t x = A(l); uint64_t y = B(l); uint64_t z = C(l); uint64_t m = (x >= y && x <= z) || (x >= z && x <= y) ? x :
  (y >= x && y <= z) || (y >= z && y <= x) ? y : z; put(l, m);)
R(med3i, int64_t x = sext(A(l), 32); int64_t y = sext(B(l), 32); int64_t z = sext(C(l), 32); int64_t m = (x >= y && x <= z) || (x >= z && x <= y) ? x :
  (y >= x && y <= z) || (y >= z && y <= x) ? y : z; put(l, (uint64_t)m);)
R(sad32, put(l, (A(l) > B(l) ? A(l) - B(l) : B(l) - A(l)) + C(l));)
R(sad8, uint32_t s = C(l); for (int k = 0; k < 4; k++) { s += (uint32_t)abs((int)(A(l) >> 8 * k & 255) - (int)(B(l) >> 8 * k & 255)); } put(l, s);)
R(dot4i, int64_t s = sext(C(l), 32); for (int k = 0; k < 4; k++) { s += sext(A(l) >> 8 * k, 8) * sext(B(l) >> 8 * k, 8); } put(l, (uint64_t)s);)
R(dot4ci, int64_t s = sext(l->d, 32); for (int k = 0; k < 4; k++) { s += sext(A(l) >> 8 * k, 8) * sext(B(l) >> 8 * k, 8); } put(l, (uint64_t)s);)
R(dot2u, put(l, (uint64_t)C(l) + (uint64_t)(A(l) & 0xffff) * (B(l) & 0xffff) + (uint64_t)(A(l) >> 16) * (B(l) >> 16));)
R(cndmask, put(l, l->carry ? B(l) : A(l));)
R(cndmask_neg, put(l, l->carry ? (B(l) & 0x7fffffff) : A(l) ^ 0x80000000u);)
R(mad64, uint64_t p = (uint64_t)A(l) * B(l); l->r = p + l->c; l->carry = UINT64_MAX - p < l->c;)
R(mad64i, int64_t p = sext(A(l), 32) * sext(B(l), 32); int64_t c = (int64_t)l->c; l->r = (uint64_t)p + l->c;
  l->carry = p > 0 ? c > INT64_MAX - p : c < INT64_MIN - p;)
R(lshl_add64, l->r = (l->a << (B(l) & 7)) + l->c;)
R(pk_mov, l->r = (l->b >> 32 << 32) | A(l);)
R(pk_mov_swap, l->r = (uint64_t)B(l) << 32 | l->a >> 32;)
R(zero64, l->r = 0;)
R(add16, put(l, (l->a + l->b) & 0xffff);)
R(subrev16, put(l, (l->b - l->a) & 0xffff);)
R(mul16, put(l, (l->a & 0xffff) * (l->b & 0xffff) & 0xffff);)
R(shl16, put(l, l->b << A(l) % 16 & 0xffff);)
R(sar16, put(l, (uint64_t)(sext(l->b, 16) >> A(l) % 16) & 0xffff);)
R(max16i, put(l, (uint64_t)(sext(l->a, 16) > sext(l->b, 16) ? l->a : l->b) & 0xffff);)
R(mad16, put(l, (l->d & 0xffff0000) | ((l->a * l->b + l->c) & 0xffff));)
R(mad16_high, put(l, (l->d & 0xffff) | ((l->a >> 16) * l->b + (l->c >> 16)) << 16);)
R(mad32_16, put(l, (uint64_t)(sext(l->a, 16) * sext(l->b, 16)) + C(l));)
R(pk_add16, put(l, ((l->a + l->b) & 0xffff) | ((l->a >> 16) + (l->b >> 16)) << 16);)
R(pk_sub16_sel, put(l, (((l->a >> 16) - l->b) & 0xffff) | ((l->a >> 16) - l->b) << 16);)
R(pk_mul16, put(l, (A(l) * B(l) & 0xffff) | (A(l) >> 16) * (B(l) >> 16) << 16);)
R(pk_shl16, put(l, (l->b << A(l) % 16 & 0xffff) | (B(l) >> 16) << (A(l) >> 16) % 16 << 16);)
R(pk_addi_sat, uint32_t r = 0; for (int k = 0; k < 32; k += 16) { int64_t s = sext(l->a >> k, 16) + sext(l->b >> k, 16);
  r |= (uint32_t)((uint64_t)(s > INT16_MAX ? INT16_MAX : s < INT16_MIN ? INT16_MIN : s) & 0xffff) << k; } put(l, r);)
R(pack_ll, put(l, (l->a & 0xffff) | B(l) << 16);)
R(pack_hl, put(l, (A(l) >> 16) | B(l) << 16);)

/* v_perm_b32 as a list of bytes: 0..3 of b, 4..7 of a, four signs, 0, ff. */
static void perm(struct lane *l)
{
    uint8_t bytes[256];
    uint32_t r = 0;

    memset(bytes, 0xff, sizeof(bytes));
    for (int k = 0; k < 4; k++) {
        bytes[k] = (uint8_t)(B(l) >> 8 * k);
        bytes[4 + k] = (uint8_t)(A(l) >> 8 * k);
    }
    bytes[8] = bytes[1] >> 7 ? 0xff : 0;
    bytes[9] = bytes[3] >> 7 ? 0xff : 0;
    bytes[10] = bytes[5] >> 7 ? 0xff : 0;
    bytes[11] = bytes[7] >> 7 ? 0xff : 0;
    bytes[12] = 0;
    for (int k = 0; k < 4; k++) {
        r |= (uint32_t)bytes[C(l) >> 8 * k & 255] << 8 * k;
    }
    put(l, r);
}

static void perm_low(struct lane *l) /* the selector's useful values */
{
    l->c = 0x05040100;
    perm(l);
}

static void bitop(struct lane *l, unsigned table)
{
    uint32_t r = 0;

    for (int k = 0; k < 32; k++) {
        r |= (table >> ((A(l) >> k & 1) * 4 + (B(l) >> k & 1) * 2 + (C(l) >> k & 1)) & 1) << k;
    }
    put(l, r);
}

R(bitop_40, bitop(l, 0x40);)
R(bitop_e8, bitop(l, 0xe8);)

/* SDWA: parts of registers. */
R(byte1_word1, put(l, (l->d & 0xffff00ff) | (l->a >> 16 & 255) << 8);)
R(word1_add, put(l, ((l->a & 255) + (l->b >> 16)) << 16);)
R(sext_add, put(l, (uint64_t)(sext(A(l) >> 24, 8)) + l->b);)
R(byte1_sext, put(l, (uint64_t)sext(l->a, 8) << 8);)
R(cmp_parts, l->carry = (l->a >> 8 & 255) < (l->b & 0xffff);)
R(add_co_parts, put(l, (l->a & 0xffff) + B(l)); l->carry = (l->a & 0xffff) + B(l) > 0xffffffff;)

/* DPP: other lanes. What a lane reads that is not there keeps the result, or with bound is 0. */
static void from_lane(struct lane *l, int source, bool bound, uint32_t add)
{
    if (source >= 0 && (l->exec >> source & 1) != 0) {
        put(l, l->row[source] + add);
    } else if (bound) {
        put(l, add);
    }
}

R(row_shr1, from_lane(l, l->lane % 16 == 0 ? -1 : (int)l->lane - 1, false, 0);)
R(row_shl3, from_lane(l, l->lane % 16 > 12 ? -1 : (int)l->lane + 3, true, 0);)
R(row_ror5, from_lane(l, (int)(l->lane / 16 * 16 + (l->lane + 11) % 16), false, 0);)
R(quad_add, from_lane(l, (int)(l->lane ^ 1), false, B(l));)
R(mirror, from_lane(l, (int)(l->lane ^ 15), false, 0);)
R(half_mirror, from_lane(l, (int)(l->lane ^ 7), false, 0);)
R(bcast15, if (l->lane / 16 % 2 == 1) { from_lane(l, (int)(l->lane / 16 * 16) - 1, false, B(l)); })
R(bcast31, if (l->lane / 16 >= 2) { from_lane(l, 31, false, 0); })
R(wave_ror, from_lane(l, (int)(l->lane + 63) % 64, false, 0);)
R(banks, if (l->lane / 4 % 4 == 0 || l->lane / 4 % 4 == 2) { from_lane(l, (int)l->lane, false, 0); })
R(newbcast, from_lane(l, (int)(l->lane / 16 * 16 + 6), false, 0);)

/* Comparisons of integers; those of floats are in test_float.c. */
R(lt_u32, l->carry = A(l) < B(l);)
R(ge_i32, l->carry = sext(A(l), 32) >= sext(B(l), 32);)
R(gt_i32s, l->carry = sext(l->sa, 32) > sext(B(l), 32);)
R(eq_u32, l->carry = A(l) == B(l);)
R(eq_zero, l->carry = B(l) == 0;)
R(ne_u64, l->carry = l->a != l->b;)
R(le_u64, l->carry = l->a <= l->b;)
R(gt_i64, l->carry = (int64_t)l->a > (int64_t)l->b;)
R(lt_i64_lit, l->carry = -0x12345678ll < (int64_t)l->b;)
R(lt_u16, l->carry = (l->a & 0xffff) < (l->b & 0xffff);)
R(ge_i16, l->carry = sext(l->a, 16) >= sext(l->b, 16);)
R(always, l->carry = true;)
R(never, l->carry = false;)

static const struct row rows[] = {
    {"v_mov_b32 v0, v2", mov, 0}, {"v_mov_b32 v0, s2", mov_s, 0}, {"v_mov_b32 v0, 0.5", mov_half, 0}, {"v_mov_b32 v0, -16", mov_minus, 0},
    {"v_mov_b64 v[0:1], v[2:3]", mov_64, ON_GFX942 | ON_GFX950}, {"v_mov_b64 v[0:1], s[2:3]", mov_64s, ON_GFX942 | ON_GFX950},
    {"v_not_b32 v0, v2", not, 0}, {"v_bfrev_b32 v0, v2", brev, 0}, {"v_ffbh_u32 v0, v2", ffbh, 0}, {"v_ffbl_b32 v0, v2", ffbl, 0},
    {"v_ffbh_i32 v0, v2", ffbhi, 0}, {"v_add_u32 v0, v2, v4", add, 0}, {"v_add_u32 v0, s2, v4", add_s, 0},
    {"v_add_u32 v0, 0x12345678, v4", add_lit, 0}, {"v_add_u32_e64 v0, v2, v4 clamp", add_sat, 0},
    {"v_sub_u32_e64 v0, v2, v4 clamp", sub_sat, 0}, {"v_add_i32 v0, v2, v4 clamp", addi_sat, 0},
    {"v_sub_i32 v0, v2, v4 clamp", subi_sat, 0}, {"v_sub_u32 v0, v2, v4", sub, 0}, {"v_subrev_u32 v0, v2, v4", subrev, 0},
    {"v_add_co_u32 v0, vcc, v2, v4", add_co, MASK}, {"v_sub_co_u32 v0, vcc, v2, v4", sub_co, MASK},
    {"v_subrev_co_u32 v0, vcc, v2, v4", subrev_co, MASK}, {"v_addc_co_u32 v0, vcc, v2, v4, vcc", addc, MASK},
    {"v_addc_co_u32_e64 v0, vcc, v2, v4, s[10:11]", addc, MASK}, {"v_subb_co_u32 v0, vcc, v2, v4, vcc", subb, MASK},
    {"v_subbrev_co_u32 v0, vcc, v2, v4, vcc", subbrev, MASK}, {"v_and_b32 v0, v2, v4", and, 0}, {"v_or_b32 v0, v2, v4", or, 0},
    {"v_xor_b32 v0, v2, v4", xor, 0}, {"v_xnor_b32 v0, v2, v4", xnor, 0}, {"v_lshlrev_b32 v0, v2, v4", shl, 0},
    {"v_lshrrev_b32 v0, v2, v4", shr, 0}, {"v_ashrrev_i32 v0, v2, v4", sar, 0}, {"v_lshlrev_b64 v[0:1], v2, v[4:5]", shl64, 0},
    {"v_lshrrev_b64 v[0:1], v2, v[4:5]", shr64, 0}, {"v_ashrrev_i64 v[0:1], v2, v[4:5]", sar64, 0}, {"v_min_i32 v0, v2, v4", mini, 0},
    {"v_max_i32 v0, v2, v4", maxi, 0}, {"v_min_u32 v0, v2, v4", minu, 0}, {"v_max_u32 v0, v2, v4", maxu, 0},
    {"v_mul_lo_u32 v0, v2, v4", mul, 0}, {"v_mul_hi_u32 v0, v2, v4", mulhi, 0}, {"v_mul_hi_i32 v0, v2, v4", mulhi_i, 0},
    {"v_mul_u32_u24 v0, v2, v4", mul24, 0}, {"v_mul_i32_i24 v0, v2, v4", mul24i, 0}, {"v_mul_hi_u32_u24 v0, v2, v4", mulhi24, 0},
    {"v_mul_hi_i32_i24 v0, v2, v4", mulhi24i, 0}, {"v_mad_u32_u24 v0, v2, v4, v6", mad24, 0}, {"v_mad_i32_i24 v0, v2, v4, v6", mad24i, 0},
    {"v_bcnt_u32_b32 v0, v2, v4", bcnt, 0}, {"v_bfm_b32 v0, v2, v4", bfm, 0}, {"v_add3_u32 v0, v2, v4, v6", add3, 0},
    {"v_lshl_add_u32 v0, v2, v4, v6", lshl_add, 0}, {"v_add_lshl_u32 v0, v2, v4, v6", add_lshl, 0},
    {"v_lshl_or_b32 v0, v2, v4, v6", lshl_or, 0}, {"v_and_or_b32 v0, v2, v4, v6", and_or, 0}, {"v_or3_b32 v0, v2, v4, v6", or3, 0},
    {"v_xad_u32 v0, v2, v4, v6", xad, 0}, {"v_bfe_u32 v0, v2, v4, v6", bfe, 0}, {"v_bfe_i32 v0, v2, v4, v6", bfei, 0},
    {"v_bfi_b32 v0, v2, v4, v6", bfi, 0}, {"v_alignbit_b32 v0, v2, v4, v6", alignbit, 0}, {"v_alignbyte_b32 v0, v2, v4, v6", alignbyte, 0},
    {"v_perm_b32 v0, v2, v4, v6", perm, 0}, {"v_min3_u32 v0, v2, v4, v6", min3, 0}, {"v_max3_i32 v0, v2, v4, v6", max3i, 0},
    {"v_med3_u32 v0, v2, v4, v6", med3, 0}, {"v_med3_i32 v0, v2, v4, v6", med3i, 0}, {"v_sad_u32 v0, v2, v4, v6", sad32, 0},
    {"v_sad_u8 v0, v2, v4, v6", sad8, 0}, {"v_dot4_i32_i8 v0, v2, v4, v6", dot4i, 0}, {"v_dot4c_i32_i8 v0, v2, v4", dot4ci, 0},
    {"v_dot2_u32_u16 v0, v2, v4, v6", dot2u, 0}, {"v_cndmask_b32 v0, v2, v4, vcc", cndmask, 0},
    {"v_cndmask_b32_e64 v0, -v2, |v4|, s[10:11]", cndmask_neg, 0}, {"v_mad_u64_u32 v[0:1], vcc, v2, v4, v[6:7]", mad64, MASK},
    {"v_mad_i64_i32 v[0:1], vcc, v2, v4, v[6:7]", mad64i, MASK},
    {"v_lshl_add_u64 v[0:1], v[2:3], v4, v[6:7]", lshl_add64, ON_GFX942 | ON_GFX950},
    {"v_pk_mov_b32 v[0:1], v[2:3], v[4:5] op_sel:[0,1]", pk_mov, 0}, {"v_pk_mov_b32 v[0:1], v[2:3], v[4:5] op_sel:[1,0]", pk_mov_swap, 0},
    {"v_pk_mov_b32 v[0:1], 0, 0", zero64, 0}, {"v_add_u16 v0, v2, v4", add16, 0}, {"v_subrev_u16 v0, v2, v4", subrev16, 0},
    {"v_mul_lo_u16 v0, v2, v4", mul16, 0}, {"v_lshlrev_b16 v0, v2, v4", shl16, 0}, {"v_ashrrev_i16 v0, v2, v4", sar16, 0},
    {"v_max_i16 v0, v2, v4", max16i, 0}, {"v_mad_u16 v0, v2, v4, v6", mad16, 0},
    {"v_mad_u16 v0, v2, v4, v6 op_sel:[1,0,1,1]", mad16_high, 0}, {"v_mad_i32_i16 v0, v2, v4, v6", mad32_16, 0},
    {"v_pk_add_u16 v0, v2, v4", pk_add16, 0}, {"v_pk_sub_u16 v0, v2, v4 op_sel:[1,0] op_sel_hi:[1,0]", pk_sub16_sel, 0},
    {"v_pk_mul_lo_u16 v0, v2, v4", pk_mul16, 0}, {"v_pk_lshlrev_b16 v0, v2, v4", pk_shl16, 0},
    {"v_pk_add_i16 v0, v2, v4 clamp", pk_addi_sat, 0}, {"v_pack_b32_f16 v0, v2, v4", pack_ll, 0},
    {"v_pack_b32_f16 v0, v2, v4 op_sel:[1,0,0]", pack_hl, 0}, {"v_perm_b32 v0, v2, v4, s12", perm_low, 0},
    {"v_bitop3_b32 v0, v2, v4, v6 bitop3:0x40", bitop_40, ON_GFX950}, {"v_bitop3_b32 v0, v2, v4, v6 bitop3:0xe8", bitop_e8, ON_GFX950},
    {"v_cmp_lt_u32 vcc, v2, v4", lt_u32, MASK}, {"v_cmp_ge_i32 vcc, v2, v4", ge_i32, MASK}, {"v_cmp_gt_i32 vcc, s2, v4", gt_i32s, MASK},
    {"v_cmp_eq_u32 vcc, v2, v4", eq_u32, MASK}, {"v_cmp_eq_u32 vcc, 0, v4", eq_zero, MASK},
    {"v_cmp_ne_u64 vcc, v[2:3], v[4:5]", ne_u64, MASK}, {"v_cmp_le_u64 vcc, v[2:3], v[4:5]", le_u64, MASK},
    {"v_cmp_gt_i64 vcc, v[2:3], v[4:5]", gt_i64, MASK}, {"v_cmp_lt_i64 vcc, 0xedcba988, v[4:5]", lt_i64_lit, MASK},
    {"v_cmp_lt_u16 vcc, v2, v4", lt_u16, MASK}, {"v_cmp_ge_i16 vcc, v2, v4", ge_i16, MASK},
    {"v_mov_b32_sdwa v0, v2 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1", byte1_word1, 0},
    {"v_add_u32_sdwa v0, v2, v4 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:WORD_1", word1_add, 0},
    {"v_add_u32_sdwa v0, sext(v2), v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3 src1_sel:DWORD", sext_add, 0},
    {"v_mov_b32_sdwa v0, v2 dst_sel:BYTE_1 dst_unused:UNUSED_SEXT src0_sel:DWORD", byte1_sext, 0},
    {"v_cmp_lt_u32_sdwa vcc, v2, v4 src0_sel:BYTE_1 src1_sel:WORD_0", cmp_parts, MASK},
    {"v_add_co_u32_sdwa v0, vcc, v2, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_0 src1_sel:DWORD", add_co_parts, MASK},
    {"v_mov_b32_dpp v0, v2 row_shr:1 row_mask:0xf bank_mask:0xf", row_shr1, 0},
    {"v_mov_b32_dpp v0, v2 row_shl:3 row_mask:0xf bank_mask:0xf bound_ctrl:0", row_shl3, 0},
    {"v_mov_b32_dpp v0, v2 row_ror:5 row_mask:0xf bank_mask:0xf", row_ror5, 0},
    {"v_add_u32_dpp v0, v2, v4 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", quad_add, 0},
    {"v_mov_b32_dpp v0, v2 row_mirror row_mask:0xf bank_mask:0xf", mirror, 0},
    {"v_mov_b32_dpp v0, v2 row_half_mirror row_mask:0xf bank_mask:0xf", half_mirror, 0},
    {"v_add_u32_dpp v0, v2, v4 row_bcast:15 row_mask:0xa bank_mask:0xf", bcast15, 0},
    {"v_mov_b32_dpp v0, v2 row_bcast:31 row_mask:0xc bank_mask:0xf", bcast31, 0},
    {"v_mov_b32_dpp v0, v2 wave_ror:1 row_mask:0xf bank_mask:0xf", wave_ror, 0},
    {"v_mov_b32_dpp v0, v2 quad_perm:[0,1,2,3] row_mask:0xf bank_mask:0x5", banks, 0},
    {"v_mov_b32_dpp v0, v2 row_newbcast:6 row_mask:0xf bank_mask:0xf", newbcast, 0}, {"v_cmp_t_u32 vcc, v2, v4", always, MASK},
    {"v_cmp_f_i64 vcc, v[2:3], v[4:5]", never, MASK}, {"v_cmpx_lt_u32 vcc, v2, v4", lt_u32, MASK | CMPX},
};

int main(int argc, char **argv)
{
    return lane_main(argc, argv, rows, sizeof(rows) / sizeof(rows[0]));
}
