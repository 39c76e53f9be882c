/* SPDX-License-Identifier: MIT
 *
 * f32 and f64 vector arithmetic. Rounding is to nearest even everywhere. The hardware's approximations (rcp, rsq, sqrt, exp, log, sin, cos: about
 * 1 unit in the last place) are correctly rounded here, so a kernel must not depend on their last bit. NaN payloads are those of the host. */
#include <math.h>

#include "valu.h"

#define TWO_PI 6.283185307179586476925

/* The smaller one; a number wins over NaN, and -0 is below +0. */
static inline float min32(float a, float b)
{
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : signbit(a) ? a : b;
}

static inline float max32(float a, float b)
{
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : signbit(a) ? b : a;
}

static inline double min64(double a, double b)
{
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : signbit(a) ? a : b;
}

static inline double max64(double a, double b)
{
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : signbit(a) ? b : a;
}

static inline float med3(float a, float b, float c)
{
    return a != a || b != b || c != c ? min32(min32(a, b), c) : max32(min32(a, b), min32(max32(a, b), c));
}

static inline float flush(float f)
{
    return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f;
}

/* v_mad_f32 and v_mac_f32 round twice and never keep denormals. */
static inline float mad32(float a, float b, float c)
{
    float product = flush(flush(a) * flush(b));

    return flush(product + flush(c));
}

/* Sine and cosine of revolutions; beyond 256 of them the hardware gives up. */
static inline float sin_turns(double a)
{
    return isfinite(a) ? fabs(a) > 256 ? 0.0f : (float)sin(TWO_PI * (a - floor(a))) : NAN;
}

static inline float cos_turns(double a)
{
    return isfinite(a) ? fabs(a) > 256 ? 1.0f : (float)cos(TWO_PI * (a - floor(a))) : NAN;
}

static inline float fract32(float a)
{
    float f = a - floorf(a);

    return f >= 1 ? 0x1.fffffep-1f : f;
}

static inline double fract64(double a)
{
    double f = a - floor(a);

    return f >= 1 ? 0x1.fffffffffffffp-1 : f;
}

static inline float mantissa32(float a)
{
    int e;

    return isfinite(a) ? frexpf(a, &e) : a;
}

static inline double mantissa64(double a)
{
    int e;

    return isfinite(a) ? frexp(a, &e) : a;
}

static inline int exponent(double a)
{
    int e = 0;

    if (isfinite(a)) {
        frexp(a, &e);
    }
    return e;
}

EMU_FLOAT2(add_f32, float, f32, a + b)
EMU_FLOAT2(sub_f32, float, f32, a - b)
EMU_FLOAT2(subrev_f32, float, f32, b - a)
EMU_FLOAT2(mul_f32, float, f32, a * b)
EMU_FLOAT2(mul_legacy_f32, float, f32, a == 0 || b == 0 ? 0.0f : a * b)
EMU_FLOAT2(min_f32, float, f32, min32(a, b))
EMU_FLOAT2(max_f32, float, f32, max32(a, b))
EMU_FLOAT3(mac_f32, float, f32, 0, mad32(a, b, c))
EMU_FLOAT3(mad_f32, float, f32, 3, mad32(a, b, c))
EMU_FLOAT3(fmac_f32, float, f32, 0, fmaf(a, b, c))
EMU_FLOAT3(fma_f32, float, f32, 3, fmaf(a, b, c))
EMU_FLOAT3(min3_f32, float, f32, 3, min32(min32(a, b), c))
EMU_FLOAT3(max3_f32, float, f32, 3, max32(max32(a, b), c))
EMU_FLOAT3(med3_f32, float, f32, 3, med3(a, b, c))
EMU_FLOAT1(rcp_f32, float, f32, 1.0f / a)
EMU_FLOAT1(rsq_f32, float, f32, 1.0 / sqrt((double)a))
EMU_FLOAT1(sqrt_f32, float, f32, sqrtf(a))
EMU_FLOAT1(exp_f32, float, f32, exp2((double)a))
EMU_FLOAT1(log_f32, float, f32, log2((double)a))
EMU_FLOAT1(sin_f32, float, f32, sin_turns(a))
EMU_FLOAT1(cos_f32, float, f32, cos_turns(a))
EMU_FLOAT1(floor_f32, float, f32, floorf(a))
EMU_FLOAT1(ceil_f32, float, f32, ceilf(a))
EMU_FLOAT1(trunc_f32, float, f32, truncf(a))
EMU_FLOAT1(rndne_f32, float, f32, nearbyintf(a))
EMU_FLOAT1(fract_f32, float, f32, fract32(a))
EMU_FLOAT1(frexp_mant_f32, float, f32, mantissa32(a))

EMU_FLOAT2(add_f64, double, f64, a + b)
EMU_FLOAT2(mul_f64, double, f64, a * b)
EMU_FLOAT2(min_f64, double, f64, min64(a, b))
EMU_FLOAT2(max_f64, double, f64, max64(a, b))
EMU_FLOAT3(fma_f64, double, f64, 3, fma(a, b, c))
EMU_FLOAT3(fmac_f64, double, f64, 0, fma(a, b, c))
EMU_FLOAT1(rcp_f64, double, f64, 1.0 / a)
EMU_FLOAT1(rsq_f64, double, f64, 1.0 / sqrt(a))
EMU_FLOAT1(sqrt_f64, double, f64, sqrt(a))
EMU_FLOAT1(floor_f64, double, f64, floor(a))
EMU_FLOAT1(ceil_f64, double, f64, ceil(a))
EMU_FLOAT1(trunc_f64, double, f64, trunc(a))
EMU_FLOAT1(rndne_f64, double, f64, nearbyint(a))
EMU_FLOAT1(fract_f64, double, f64, fract64(a))
EMU_FLOAT1(frexp_mant_f64, double, f64, mantissa64(a))

/* The second source is an integer. */
static bool ldexp_f32(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t tb[EMU_LANES];
    float a[EMU_LANES];
    const uint32_t *b = emu_row(w, &i->ops[2], 0, tb);

    emu_row_f32(w, i, 1, a);
    EMU_FOR_LANES(lane) {
        a[lane] = ldexpf(a[lane], (int32_t)b[lane]);
    }
    emu_put_f32(w, i, a);
    return true;
}

static bool ldexp_f64(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t tb[EMU_LANES];
    double a[EMU_LANES];
    const uint32_t *b = emu_row(w, &i->ops[2], 0, tb);

    emu_row_f64(w, i, 1, a);
    EMU_FOR_LANES(lane) {
        a[lane] = ldexp(a[lane], (int32_t)b[lane]);
    }
    emu_put_f64(w, i, a);
    return true;
}

static bool frexp_exp_f32(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t r[EMU_LANES];
    float a[EMU_LANES];

    emu_row_f32(w, i, 1, a);
    EMU_FOR_LANES(lane) {
        r[lane] = (uint32_t)exponent(a[lane]);
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

static bool frexp_exp_f64(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t r[EMU_LANES];
    double a[EMU_LANES];

    emu_row_f64(w, i, 1, a);
    EMU_FOR_LANES(lane) {
        r[lane] = (uint32_t)exponent(a[lane]);
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

const struct emu_op emu_ops_valu_float[] = {
    EMU_FROW("add_f32", add_f32), EMU_FROW("sub_f32", sub_f32), EMU_FROW("subrev_f32", subrev_f32), EMU_FROW("mul_f32", mul_f32),
    EMU_FROW("mul_legacy_f32", mul_legacy_f32), EMU_FROW("min_f32", min_f32), EMU_FROW("max_f32", max_f32), EMU_FROW("mac_f32", mac_f32),
    EMU_FROW("mad_f32", mad_f32), EMU_FROW("madmk_f32", mad_f32), EMU_FROW("madak_f32", mad_f32), EMU_FROW("fmac_f32", fmac_f32),
    EMU_FROW("fma_f32", fma_f32), EMU_FROW("fmamk_f32", fma_f32), EMU_FROW("fmaak_f32", fma_f32), EMU_FROW("min3_f32", min3_f32),
    EMU_FROW("max3_f32", max3_f32), EMU_FROW("med3_f32", med3_f32), EMU_FROW("rcp_f32", rcp_f32), EMU_FROW("rcp_iflag_f32", rcp_f32),
    EMU_FROW("rsq_f32", rsq_f32), EMU_FROW("sqrt_f32", sqrt_f32), EMU_FROW("exp_f32", exp_f32), EMU_FROW("log_f32", log_f32),
    EMU_FROW("sin_f32", sin_f32), EMU_FROW("cos_f32", cos_f32), EMU_FROW("floor_f32", floor_f32), EMU_FROW("ceil_f32", ceil_f32),
    EMU_FROW("trunc_f32", trunc_f32), EMU_FROW("rndne_f32", rndne_f32), EMU_FROW("fract_f32", fract_f32),
    EMU_FROW("frexp_mant_f32", frexp_mant_f32), EMU_FROW("add_f64", add_f64), EMU_FROW("mul_f64", mul_f64), EMU_FROW("min_f64", min_f64),
    EMU_FROW("max_f64", max_f64), EMU_FROW("fma_f64", fma_f64), EMU_FROW("fmac_f64", fmac_f64), EMU_FROW("rcp_f64", rcp_f64),
    EMU_FROW("rsq_f64", rsq_f64), EMU_FROW("sqrt_f64", sqrt_f64), EMU_FROW("floor_f64", floor_f64), EMU_FROW("ceil_f64", ceil_f64),
    EMU_FROW("trunc_f64", trunc_f64), EMU_FROW("rndne_f64", rndne_f64), EMU_FROW("fract_f64", fract_f64),
    EMU_FROW("frexp_mant_f64", frexp_mant_f64), EMU_FROW("ldexp_f32", ldexp_f32), EMU_FROW("ldexp_f64", ldexp_f64),
    {"v_frexp_exp_i32_f32", frexp_exp_f32, EMU_VALU, 0, 0, EMU_ALLOW_NEG}, {"v_frexp_exp_i32_f64", frexp_exp_f64, EMU_VALU, 0, 0, EMU_ALLOW_NEG},
    {0},
};
