/* SPDX-License-Identifier: MIT
 *
 * The three instructions of a division that is rounded once (CDNA3 ISA, V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP): numerator and denominator are scaled so that
 * no intermediate result is a denormal or overflows, vcc remembers whether the quotient must be scaled back, and the special cases are put in. */
#include <math.h>

#include "valu.h"

#define DIVIDE(suffix, type, least, great, spread, power, low, copysign, ldexp, fma, exponent_of)                                                       \
    static type scale_##suffix(type x, type den, type num, bool *back)                                                                            \
    {                                                                                                                                             \
        type r = 1 / den, q = num / den;                                                                                                          \
        bool tiny_r = r != 0 && (r < 0 ? -r : r) < least, tiny_q = (q < 0 ? -q : q) < least;                                                      \
        *back = false;                                                                                                                            \
        if (num == 0 || den == 0) {                                                                                                               \
            return (type)NAN;                                                                                                                     \
        }                                                                                                                                         \
        if (exponent_of(num) - exponent_of(den) >= spread) {                                                                                      \
            *back = true;                                                                                                                         \
            return x == den ? ldexp(x, power) : x;                                                                                                \
        }                                                                                                                                         \
        if ((den < 0 ? -den : den) < least) {                                                                                                     \
            return ldexp(x, power);                                                                                                               \
        }                                                                                                                                         \
        if (tiny_r && tiny_q) {                                                                                                                   \
            *back = true;                                                                                                                         \
            return x == den ? ldexp(x, power) : x;                                                                                                \
        }                                                                                                                                         \
        if (tiny_r) {                                                                                                                             \
            return ldexp(x, -power);                                                                                                              \
        }                                                                                                                                         \
        if (tiny_q) {                                                                                                                             \
            *back = true;                                                                                                                         \
            return x == num ? ldexp(x, power) : x;                                                                                                \
        }                                                                                                                                         \
        return exponent_of(num) <= low ? ldexp(x, power) : x;                                                                                     \
    }                                                                                                                                             \
    /* v_div_scale v, where to scale back, x, denominator, numerator; x is one of the two. */                                                     \
    static bool div_scale_##suffix(struct emu_wave *w, const struct emu_inst *i)                                                                  \
    {                                                                                                                                             \
        type x[EMU_LANES], den[EMU_LANES], num[EMU_LANES];                                                                                        \
        uint64_t mask = 0;                                                                                                                        \
        emu_row_##suffix(w, i, 2, x);                                                                                                             \
        emu_row_##suffix(w, i, 3, den);                                                                                                           \
        emu_row_##suffix(w, i, 4, num);                                                                                                           \
        EMU_FOR_LANES(lane) {                                                                                                                     \
            bool back;                                                                                                                            \
            x[lane] = scale_##suffix(x[lane], den[lane], num[lane], &back);                                                                       \
            mask |= (uint64_t)back << lane;                                                                                                       \
        }                                                                                                                                         \
        emu_put_##suffix(w, i, x);                                                                                                                \
        emu_write_s64(w, i->ops[1].index, mask & emu_exec_mask(w));                                                                               \
        return true;                                                                                                                              \
    }                                                                                                                                             \
    static bool div_fmas_##suffix(struct emu_wave *w, const struct emu_inst *i)                                                                   \
    {                                                                                                                                             \
        type a[EMU_LANES], b[EMU_LANES], c[EMU_LANES];                                                                                            \
        const uint64_t vcc = (uint64_t)w->s[EMU_VCC + 1] << 32 | w->s[EMU_VCC];                                                                   \
        emu_row_##suffix(w, i, 1, a);                                                                                                             \
        emu_row_##suffix(w, i, 2, b);                                                                                                             \
        emu_row_##suffix(w, i, 3, c);                                                                                                             \
        EMU_FOR_LANES(lane) {                                                                                                                     \
            const type sum = fma(a[lane], b[lane], c[lane]);                                                                                      \
            a[lane] = vcc >> lane & 1 ? ldexp(sum, exponent_of(c[lane]) > great ? power : -power) : sum;                                          \
        }                                                                                                                                         \
        emu_put_##suffix(w, i, a);                                                                                                                \
        return true;                                                                                                                              \
    }                                                                                                                                             \
    /* v_div_fixup v, quotient, denominator, numerator */                                                                                         \
    static bool div_fixup_##suffix(struct emu_wave *w, const struct emu_inst *i)                                                                  \
    {                                                                                                                                             \
        type q[EMU_LANES], den[EMU_LANES], num[EMU_LANES];                                                                                        \
        emu_row_##suffix(w, i, 1, q);                                                                                                             \
        emu_row_##suffix(w, i, 2, den);                                                                                                           \
        emu_row_##suffix(w, i, 3, num);                                                                                                           \
        EMU_FOR_LANES(lane) {                                                                                                                     \
            const type d = den[lane], n = num[lane], sign = (signbit(d) != 0) != (signbit(n) != 0) ? -1 : 1;                                      \
            const bool special = d != d || n != n || d == 0 || n == 0 || isinf(d) || isinf(n) || q[lane] != q[lane]; /* out of range */           \
            q[lane] = special ? n / d : copysign(q[lane], sign);                                                                                  \
        }                                                                                                                                         \
        emu_put_##suffix(w, i, q);                                                                                                                \
        return true;                                                                                                                              \
    }

/* Exponents as the documents count them: biased, 0 for denormals. */
static int exponent32(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    return (int)(u >> 23 & 255);
}

static int exponent64(double x)
{
    uint64_t u;

    memcpy(&u, &x, sizeof(u));
    return (int)(u >> 52 & 2047);
}

DIVIDE(f32, float, 0x1p-126f, 127, 96, 64, 23, copysignf, ldexpf, fmaf, exponent32)
DIVIDE(f64, double, 0x1p-1022, 1023, 768, 128, 53, copysign, ldexp, fma, exponent64)

const struct emu_op emu_ops_valu_divide[] = {
    EMU_FROW("div_scale_f32", div_scale_f32), EMU_FROW("div_scale_f64", div_scale_f64), EMU_FROW("div_fmas_f32", div_fmas_f32),
    EMU_FROW("div_fmas_f64", div_fmas_f64),   EMU_FROW("div_fixup_f32", div_fixup_f32), EMU_FROW("div_fixup_f64", div_fixup_f64),
    {0},
};
