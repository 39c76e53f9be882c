/* SPDX-License-Identifier: MIT
 *
 * Vector float instructions, conversions and float comparisons: results rounded once to nearest even, denormals and NaN, modifiers. */
#include "test_lane.h"

#define R(name, ...)                       \
    static void name(struct lane *l)       \
    {                                      \
        __VA_ARGS__                        \
    }

static void put(struct lane *l, uint64_t value)
{
    l->r = (l->d >> 32 << 32) | (uint32_t)value;
}

static void putf(struct lane *l, double value)
{
    put(l, emu_bits((float)value));
}

static float fa(const struct lane *l)
{
    return emu_float(l->a);
}

static float fb(const struct lane *l)
{
    return emu_float(l->b);
}

static float fc(const struct lane *l)
{
    return emu_float(l->c);
}

/* ---- f16 by the definition of the format ---- */

static double half(uint64_t bits)
{
    unsigned m = bits & 0x3ff, e = bits >> 10 & 31;
    double magnitude = e == 31 ? (m != 0 ? NAN : INFINITY) : e == 0 ? ldexp(m, -24) : ldexp(1024 + m, (int)e - 25);

    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

static uint32_t to_half(long double x)
{
    uint32_t sign = signbit(x) ? 0x8000 : 0;
    long double a = fabsl(x), q;
    int e;

    if (x != x) {
        return 0x7e00;
    } else if (isinf(x)) {
        return sign | 0x7c00;
    }
    e = a == 0 ? -14 : ilogbl(a) < -14 ? -14 : ilogbl(a);
    q = nearbyintl(ldexpl(a, 10 - e)); /* the mantissa with its leading bit, rounded */
    if (q == 2048) {
        q = 1024;
        e++;
    }
    return e > 15 ? sign | 0x7c00 : q < 1024 ? sign | (uint32_t)q : sign | (uint32_t)(e + 15) << 10 | ((uint32_t)q - 1024);
}

static uint32_t to_bf16(float f)
{
    uint32_t u = emu_bits(f), low = u & 0xffff, up = u >> 16;

    if (f != f) {
        return 0x7fc0;
    }
    return low > 0x8000 || (low == 0x8000 && (up & 1) != 0) ? up + 1 : up;
}

static void puth(struct lane *l, long double value)
{
    put(l, to_half(value));
}

static void keeph(struct lane *l, long double value)
{
    put(l, (l->d & 0xffff0000) | to_half(value));
}

static double smaller(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static double larger(double a, double b)
{
    return -smaller(-a, -b);
}

static double flush(double f)
{
    return fabs(f) < 0x1p-126 ? copysign(0, f) : f;
}

static double unit(double f)
{
    return isnan(f) ? 0 : f < 0 ? 0 : f > 1 ? 1 : f;
}

/* a * b + c rounded once: the long double sum (x86: 64 bits of mantissa, the low 8 bytes) is rounded to odd, which keeps it off the ties of f32. */
static float fused(double a, double b, double c)
{
    long double product = (long double)a * b, sum = product + c, part = sum - product;
    long double error = (product - (sum - part)) + (c - part);
    uint64_t mantissa;

    memcpy(&mantissa, &sum, sizeof(mantissa));
    return (float)(isfinite(sum) && error != 0 && mantissa % 2 == 0 ? nextafterl(sum, error > 0 ? INFINITY : -INFINITY) : sum);
}

/* Conversion to integers with the limits of the type. */
static int64_t whole(double f, double low, double high)
{
    return isnan(f) ? 0 : f < low ? (int64_t)low : f > high ? (int64_t)high : (int64_t)f;
}

R(add, putf(l, (double)fa(l) + fb(l));)
R(add_s, putf(l, (double)emu_float(l->sa) + fb(l));)
R(add_one, putf(l, 1.0 + fb(l));)
R(add_mods, putf(l, -fabs((double)fa(l)) + -(double)fb(l));)
R(add_clamp, putf(l, unit((double)fa(l) + fb(l)));)
R(add_flush, putf(l, flush((float)(flush(fa(l)) + flush(fb(l)))));)
R(add_flush_mul, putf(l, flush(2.0f * (float)(flush(fa(l)) + flush(fb(l)))));)
R(sub, putf(l, (double)fa(l) - fb(l));)
R(subrev, putf(l, (double)fb(l) - fa(l));)
R(mul, putf(l, (double)fa(l) * fb(l));)
R(mul_legacy, putf(l, fa(l) == 0 || fb(l) == 0 ? 0 : (double)fa(l) * fb(l));)
R(min, putf(l, smaller(fa(l), fb(l)));)
R(max, putf(l, larger(fa(l), fb(l)));)
R(fma_, putf(l, fused(fa(l), fb(l), fc(l)));)
R(fmac, putf(l, fused(fa(l), fb(l), emu_float(l->d)));)
R(fmamk, putf(l, fused(fa(l), 2.5, fc(l)));)
R(fmaak, putf(l, fused(fa(l), fb(l), 2.5));)
R(mad, putf(l, flush((float)((double)(float)flush((float)(flush(fa(l)) * flush(fb(l)))) + flush(fc(l)))));)
R(mac, putf(l, flush((float)((double)(float)flush((float)(flush(fa(l)) * flush(fb(l)))) + flush(emu_float(l->d)))));)
R(med3, double a = fa(l); double b = fb(l); double c = fc(l);
  putf(l, isnan(a) || isnan(b) || isnan(c) ? smaller(smaller(a, b), c) : larger(smaller(a, b), smaller(larger(a, b), c)));)
R(max3, putf(l, larger(larger(fa(l), fb(l)), fc(l)));)
R(rcp, putf(l, 1.0 / fa(l));)
R(fixup, double q = (double)fc(l) / fb(l); bool normal = !isnan(fa(l)) && isfinite(fb(l)) && isfinite(fc(l)) && fb(l) != 0 && fc(l) != 0;
  putf(l, normal ? copysign(fa(l), q) : q);)
R(fixup64, double q = f64_of(l->c) / f64_of(l->b); bool normal = !isnan(f64_of(l->a)) && isfinite(f64_of(l->b)) && isfinite(f64_of(l->c)) && f64_of(l->b) != 0 && f64_of(l->c) != 0;
  l->r = bits_of64(normal ? copysign(f64_of(l->a), q) : q);)
R(rsq, putf(l, (double)(1.0L / sqrtl(fa(l))));)
R(root, putf(l, sqrt(fa(l)));)
R(floor_, putf(l, floor(fa(l)));)
R(ceil_, putf(l, ceil(fa(l)));)
R(trunc_, putf(l, trunc(fa(l)));)
R(rndne, double f = fa(l); double t = floor(f); double rest = f - t; double n = rest > 0.5 || (rest == 0.5 && fmod(t, 2) != 0) ? t + 1 : t;
  putf(l, isfinite(f) ? copysign(n, f) : f);)
R(ldexp_, putf(l, ldexp((double)fa(l), (int)(int32_t)l->b < -1000 ? -1000 : (int)(int32_t)l->b > 1000 ? 1000 : (int)(int32_t)l->b));)
R(add64, l->r = bits_of64(f64_of(l->a) + f64_of(l->b));)
R(add64_one, l->r = bits_of64(1.0 + f64_of(l->b));)
R(mul64, l->r = bits_of64(f64_of(l->a) * -f64_of(l->b));)
R(max64, l->r = bits_of64(larger(f64_of(l->a), f64_of(l->b)));)
R(f32_i32, putf(l, (int32_t)l->a);)
R(f32_u32, putf(l, (uint32_t)l->a);)
R(ubyte2, putf(l, l->a >> 16 & 255);)
R(u32_f32, put(l, (uint64_t)whole(fa(l), 0, UINT32_MAX));)
R(i32_f32, put(l, (uint64_t)whole(fa(l), INT32_MIN, INT32_MAX));)
R(i32_f64, put(l, (uint64_t)whole(f64_of(l->a), INT32_MIN, INT32_MAX));)
R(u32_f64, put(l, (uint64_t)whole(f64_of(l->a), 0, UINT32_MAX));)
R(f64_u32, l->r = bits_of64((uint32_t)l->a);)
R(f64_i32, l->r = bits_of64((int32_t)l->a);)
R(f64_f32, l->r = bits_of64(fa(l));)
R(f32_f64, putf(l, f64_of(l->a));)
R(f16_f32, puth(l, fa(l));)
R(f32_f16, putf(l, half(l->a));)
R(f16_i16, puth(l, (int16_t)l->a);)
R(u16_f16, put(l, (uint64_t)whole(half(l->a), 0, 65535));)
R(rtz, uint32_t r = 0; for (int k = 0; k < 2; k++) { float f = k == 0 ? fa(l) : fb(l); uint32_t h = to_half(f);
  if (isfinite(f) && fabs(half(h)) > fabs(f)) { h--; } r |= h << 16 * k; } put(l, r);)
R(pk_f16_f32, put(l, to_half(fa(l)) | to_half(fb(l)) << 16);)
R(pk_bf16_f32, put(l, to_bf16(fa(l)) | to_bf16(fb(l)) << 16);)
R(pk_u16, uint32_t a = (uint32_t)l->a; uint32_t b = (uint32_t)l->b; put(l, (a > 65535 ? 65535 : a) | (b > 65535 ? 65535 : b) << 16);)
R(add16, puth(l, (long double)half(l->a) + half(l->b));)
R(add16_lit, puth(l, (long double)1.0 + half(l->b));)
R(mul16, puth(l, (long double)half(l->a) * half(l->b));)
R(mul16_neg, puth(l, -fabsl((long double)half(l->a)) * half(l->b));)
R(min16, puth(l, smaller(half(l->a), half(l->b)));)
R(fma16, keeph(l, (long double)half(l->a) * half(l->b) + half(l->c));)
R(fma16_sel, put(l, (l->d & 0xffff) | to_half((long double)half(l->a >> 16) * half(l->b) + half(l->c)) << 16);)
R(rcp16, puth(l, 1.0L / half(l->a));)
R(pk_add16, put(l, to_half((long double)half(l->a) + half(l->b)) | to_half((long double)half(l->a >> 16) + half(l->b >> 16)) << 16);)
R(pk_add16_sel, put(l, to_half((long double)half(l->a >> 16) - half(l->b)) | to_half((long double)half(l->a >> 16) + half(l->b)) << 16);)
R(pk_fma16, put(l, to_half((long double)half(l->a) * half(l->b) + half(l->c)) |
  to_half((long double)half(l->a >> 16) * half(l->b >> 16) + half(l->c >> 16)) << 16);)
R(pk_max16, put(l, to_half(larger(half(l->a), half(l->b))) | to_half(larger(half(l->a >> 16), half(l->b >> 16))) << 16);)
R(pk_mul16_one, put(l, to_half(half(l->a)) | to_half(half(l->a >> 16)) << 16);)
R(pk_add32, l->r = emu_bits((float)((double)fa(l) + fb(l))) | (uint64_t)emu_bits((float)((double)emu_float(l->a >> 32) + emu_float(l->b >> 32))) << 32;)
R(pk_mul32_sel, l->r = emu_bits((float)((double)fa(l) * emu_float(l->sa))) | (uint64_t)emu_bits((float)((double)emu_float(l->a >> 32) * emu_float(l->sa))) << 32;)
R(pk_fma32, l->r = emu_bits(fused(fa(l), fb(l), fc(l))) |
  (uint64_t)emu_bits(fused(emu_float(l->a >> 32), emu_float(l->b >> 32), -emu_float(l->c >> 32))) << 32;)
R(mix, putf(l, fused(half(l->a), fb(l), half(l->c >> 16)));)
R(dot2, float s = fc(l) + (float)(half(l->a) * half(l->b)); putf(l, s + (float)(half(l->a >> 16) * half(l->b >> 16)));)

R(f32_f16_high, putf(l, half(l->a >> 16));)
R(add16_parts, put(l, (l->d & 0xffff) | to_half(-(long double)half(l->a >> 16) + half(l->b)) << 16);)

R(lt, l->carry = fa(l) < fb(l);)
R(nlt, l->carry = !(fa(l) < fb(l));)
R(eq, l->carry = fa(l) == fb(l);)
R(neq, l->carry = !(fa(l) == fb(l));)
R(lg, l->carry = fa(l) < fb(l) || fa(l) > fb(l);)
R(nle, l->carry = !(fa(l) <= fb(l));)
R(u, l->carry = isnan(fa(l)) || isnan(fb(l));)
R(o, l->carry = !isnan(fa(l)) && !isnan(fb(l));)
R(gt_abs, l->carry = fabsf(fa(l)) > -fb(l);)
R(ge64, l->carry = f64_of(l->a) >= f64_of(l->b);)
R(gt16, l->carry = half(l->a) > half(l->b);)

static void classes(struct lane *l)
{
    uint32_t u = (uint32_t)l->a;
    bool negative = u >> 31;
    int kind = isnan(fa(l)) ? (u >> 22 & 1) : isinf(fa(l)) ? (negative ? 2 : 9) : fa(l) == 0 ? (negative ? 5 : 6) :
               fabsf(fa(l)) < 0x1p-126f ? (negative ? 4 : 7) : negative ? 3 : 8;

    l->carry = (l->b >> kind & 1) != 0;
}

#define MAD (ON_GFX90A)
#define NEW (ON_GFX950)

static const struct row rows[] = {
    {"v_add_f32 v0, v2, v4", add, NAN32}, {"v_add_f32 v0, s2, v4", add_s, NAN32}, {"v_add_f32 v0, 1.0, v4", add_one, NAN32},
    {"v_add_f32_e64 v0, -|v2|, -v4", add_mods, NAN32}, {"v_add_f32_e64 v0, v2, v4 clamp", add_clamp, NAN32},
    {"v_add_f32 v0, v2, v4", add_flush, NAN32 | FLUSH}, {"v_add_f32_e64 v0, v2, v4 mul:2", add_flush_mul, NAN32 | FLUSH},
    {"v_add_f32_e64 v0, v2, v4 mul:2", add, NAN32}, {"v_sub_f32 v0, v2, v4", sub, NAN32}, {"v_subrev_f32 v0, v2, v4", subrev, NAN32},
    {"v_mul_f32 v0, v2, v4", mul, NAN32}, {"v_mul_legacy_f32 v0, v2, v4", mul_legacy, NAN32 | ON_GFX90A},
    {"v_min_f32 v0, v2, v4", min, NAN32}, {"v_max_f32 v0, v2, v4", max, NAN32}, {"v_fma_f32 v0, v2, v4, v6", fma_, NAN32},
    {"v_fmac_f32 v0, v2, v4", fmac, NAN32}, {"v_fmamk_f32 v0, v2, 0x40200000, v6", fmamk, NAN32 | ON_GFX942 | ON_GFX950},
    {"v_fmaak_f32 v0, v2, v4, 0x40200000", fmaak, NAN32 | ON_GFX942 | ON_GFX950}, {"v_mad_f32 v0, v2, v4, v6", mad, NAN32 | MAD},
    {"v_mac_f32 v0, v2, v4", mac, NAN32 | MAD}, {"v_med3_f32 v0, v2, v4, v6", med3, NAN32}, {"v_max3_f32 v0, v2, v4, v6", max3, NAN32},
    {"v_rcp_f32 v0, v2", rcp, NAN32}, {"v_rcp_iflag_f32 v0, v2", rcp, NAN32}, {"v_rsq_f32 v0, v2", rsq, NAN32},
    {"v_sqrt_f32 v0, v2", root, NAN32}, {"v_floor_f32 v0, v2", floor_, NAN32}, {"v_ceil_f32 v0, v2", ceil_, NAN32},
    {"v_trunc_f32 v0, v2", trunc_, NAN32}, {"v_rndne_f32 v0, v2", rndne, NAN32}, {"v_ldexp_f32 v0, v2, v4", ldexp_, NAN32},
    {"v_add_f64 v[0:1], v[2:3], v[4:5]", add64, NAN64}, {"v_add_f64 v[0:1], 1.0, v[4:5]", add64_one, NAN64},
    {"v_mul_f64 v[0:1], v[2:3], -v[4:5]", mul64, NAN64}, {"v_max_f64 v[0:1], v[2:3], v[4:5]", max64, NAN64},
    {"v_cvt_f32_i32 v0, v2", f32_i32, 0}, {"v_cvt_f32_u32 v0, v2", f32_u32, 0}, {"v_cvt_f32_ubyte2 v0, v2", ubyte2, 0},
    {"v_cvt_u32_f32 v0, v2", u32_f32, 0}, {"v_cvt_i32_f32 v0, v2", i32_f32, 0}, {"v_cvt_i32_f64 v0, v[2:3]", i32_f64, 0},
    {"v_cvt_u32_f64 v0, v[2:3]", u32_f64, 0}, {"v_cvt_f64_u32 v[0:1], v2", f64_u32, 0}, {"v_cvt_f64_i32 v[0:1], v2", f64_i32, 0},
    {"v_cvt_f64_f32 v[0:1], v2", f64_f32, NAN64}, {"v_cvt_f32_f64 v0, v[2:3]", f32_f64, NAN32}, {"v_cvt_f16_f32 v0, v2", f16_f32, NANPK},
    {"v_cvt_f32_f16 v0, v2", f32_f16, NAN32}, {"v_cvt_f16_i16 v0, v2", f16_i16, 0}, {"v_cvt_u16_f16 v0, v2", u16_f16, 0},
    {"v_cvt_pkrtz_f16_f32 v0, v2, v4", rtz, NANPK}, {"v_cvt_pk_f16_f32 v0, v2, v4", pk_f16_f32, NANPK | NEW},
    {"v_cvt_pk_bf16_f32 v0, v2, v4", pk_bf16_f32, NANPK | NEW}, {"v_cvt_pk_u16_u32 v0, v2, v4", pk_u16, 0},
    {"v_add_f16 v0, v2, v4", add16, NANPK}, {"v_add_f16 v0, 1.0, v4", add16_lit, NANPK}, {"v_mul_f16 v0, v2, v4", mul16, NANPK},
    {"v_mul_f16_e64 v0, -|v2|, v4", mul16_neg, NANPK}, {"v_min_f16 v0, v2, v4", min16, NANPK}, {"v_fma_f16 v0, v2, v4, v6", fma16, NANPK},
    {"v_fma_f16 v0, v2, v4, v6 op_sel:[1,0,0,1]", fma16_sel, NANPK}, {"v_rcp_f16 v0, v2", rcp16, NANPK},
    {"v_pk_add_f16 v0, v2, v4", pk_add16, NANPK},
    {"v_pk_add_f16 v0, v2, v4 op_sel:[1,0] op_sel_hi:[1,0] neg_lo:[0,1]", pk_add16_sel, NANPK},
    {"v_pk_fma_f16 v0, v2, v4, v6", pk_fma16, NANPK}, {"v_pk_max_f16 v0, v2, v4", pk_max16, NANPK},
    {"v_pk_mul_f16 v0, v2, 1.0 op_sel_hi:[1,0]", pk_mul16_one, NANPK}, {"v_pk_add_f32 v[0:1], v[2:3], v[4:5]", pk_add32, NAN32},
    {"v_pk_mul_f32 v[0:1], v[2:3], s[2:3] op_sel_hi:[1,0]", pk_mul32_sel, NAN32},
    {"v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] neg_hi:[0,0,1]", pk_fma32, NAN32},
    {"v_fma_mix_f32 v0, v2, v4, v6 op_sel:[0,0,1] op_sel_hi:[1,0,1]", mix, NAN32}, {"v_dot2_f32_f16 v0, v2, v4, v6", dot2, NAN32},
    {"v_cvt_f32_f16_sdwa v0, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1", f32_f16_high, NAN32},
    {"v_add_f16_sdwa v0, -v2, v4 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_0", add16_parts, NANPK},
    {"v_cmp_lt_f32 vcc, v2, v4", lt, MASK}, {"v_cmp_nlt_f32 vcc, v2, v4", nlt, MASK}, {"v_cmp_eq_f32 vcc, v2, v4", eq, MASK},
    {"v_cmp_neq_f32 vcc, v2, v4", neq, MASK}, {"v_cmp_lg_f32 vcc, v2, v4", lg, MASK}, {"v_cmp_nle_f32 vcc, v2, v4", nle, MASK},
    {"v_cmp_u_f32 vcc, v2, v4", u, MASK}, {"v_cmp_o_f32 vcc, v2, v4", o, MASK}, {"v_cmp_gt_f32_e64 vcc, |v2|, -v4", gt_abs, MASK},
    {"v_cmp_ge_f64 vcc, v[2:3], v[4:5]", ge64, MASK}, {"v_cmp_gt_f16 vcc, v2, v4", gt16, MASK},
    {"v_cmp_class_f32 vcc, v2, v4", classes, MASK}, {"v_cmpx_lt_f32 vcc, v2, v4", lt, MASK | CMPX},
    {"v_div_fixup_f32 v0, v2, v4, v6", fixup, NAN32}, {"v_div_fixup_f64 v[0:1], v[2:3], v[4:5], v[6:7]", fixup64, NAN64},
};

int main(int argc, char **argv)
{
    return lane_main(argc, argv, rows, sizeof(rows) / sizeof(rows[0]));
}
