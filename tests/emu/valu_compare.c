/* SPDX-License-Identifier: MIT
 *
 * Vector comparisons (VOPC): a bit for each active lane, 0 for the others, into vcc or a pair of SGPRs; v_cmpx writes EXEC as well (gfx9). */
#include <math.h>

#include "valu.h"

/* Conditions as bits: true for less, equal, greater, unordered. Those of integers are among them. */
enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8, CMPX = 16 };

static bool put(struct emu_wave *w, const struct emu_inst *i, uint64_t mask)
{
    mask &= emu_exec_mask(w);
    emu_write_s64(w, i->ops[0].index, mask);
    if ((i->sub & CMPX) != 0) {
        emu_write_s64(w, EMU_EXEC, mask);
    }
    return true;
}

/* One loop for each condition keeps the lanes free of branches. less: a < b, equal: a == b; what is neither is greater. */
#define ORDERED(mask, condition, less, equal)                                                                 \
    switch ((condition) & 7) {                                                                               \
    case 0: break;                                                                                           \
    case LESS: EMU_FOR_LANES(lane) { mask |= (uint64_t)(less) << lane; } break;                              \
    case EQUAL: EMU_FOR_LANES(lane) { mask |= (uint64_t)(equal) << lane; } break;                            \
    case LESS | EQUAL: EMU_FOR_LANES(lane) { mask |= (uint64_t)((less) || (equal)) << lane; } break;         \
    case GREATER: EMU_FOR_LANES(lane) { mask |= (uint64_t)!((less) || (equal)) << lane; } break;             \
    case LESS | GREATER: EMU_FOR_LANES(lane) { mask |= (uint64_t)!(equal) << lane; } break;                  \
    case EQUAL | GREATER: EMU_FOR_LANES(lane) { mask |= (uint64_t)!(less) << lane; } break;                  \
    default: mask = ~0ull; break;                                                                            \
    }

#define INTEGERS32(name, type)                                                                                \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        uint32_t ta[EMU_LANES], tb[EMU_LANES];                                                               \
        const uint32_t *a = emu_row(w, &i->ops[1], 0, ta), *b = emu_row(w, &i->ops[2], 0, tb);               \
        uint64_t mask = 0;                                                                                   \
                                                                                                             \
        ORDERED(mask, i->sub, (type)a[lane] < (type)b[lane], (type)a[lane] == (type)b[lane])                 \
        return put(w, i, mask);                                                                              \
    }

#define INTEGERS64(name, type)                                                                                \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        uint64_t a[EMU_LANES], b[EMU_LANES], mask = 0;                                                       \
                                                                                                             \
        emu_row64(w, &i->ops[1], a);                                                                         \
        emu_row64(w, &i->ops[2], b);                                                                         \
        ORDERED(mask, i->sub, (type)a[lane] < (type)b[lane], a[lane] == b[lane])                             \
        return put(w, i, mask);                                                                              \
    }

#define FLOATS(name, type, suffix)                                                                            \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        type a[EMU_LANES], b[EMU_LANES];                                                                     \
        uint64_t mask = 0;                                                                                   \
                                                                                                             \
        emu_row_##suffix(w, i, 1, a);                                                                        \
        emu_row_##suffix(w, i, 2, b);                                                                        \
        EMU_FOR_LANES(lane) {                                                                                \
            unsigned relation = a[lane] < b[lane] ? LESS : a[lane] == b[lane] ? EQUAL : a[lane] > b[lane] ? GREATER : UNORDERED; \
                                                                                                             \
            mask |= (uint64_t)((i->sub & relation) != 0) << lane;                                            \
        }                                                                                                    \
        return put(w, i, mask);                                                                              \
    }

INTEGERS32(compare_u32, uint32_t)
INTEGERS32(compare_i32, int32_t)
INTEGERS32(compare_u16, uint16_t)
INTEGERS32(compare_i16, int16_t)
INTEGERS64(compare_u64, uint64_t)
INTEGERS64(compare_i64, int64_t)
FLOATS(compare_f32, float, f32)
FLOATS(compare_f64, double, f64)
FLOATS(compare_f16, float, f16)

/* Which of the ten kinds of numbers, as a bit of the second source: signalling and quiet NaN, then from -infinity to +infinity. */
static unsigned class_of(uint64_t magnitude, bool negative, unsigned mantissa_bits, unsigned exponent_bits)
{
    uint64_t infinity = ((1ull << exponent_bits) - 1) << mantissa_bits;

    if (magnitude > infinity) {
        return (magnitude >> (mantissa_bits - 1) & 1) != 0 ? 1 : 0;
    } else if (magnitude == infinity) {
        return negative ? 2 : 9;
    } else if (magnitude == 0) {
        return negative ? 5 : 6;
    }
    return magnitude >> mantissa_bits == 0 ? (negative ? 4 : 7) : (negative ? 3 : 8);
}

/* width: bits of the float */
static bool compare_class(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t tb[EMU_LANES];
    uint64_t a[EMU_LANES], mask = 0, sign = 1ull << (i->width - 1);
    const struct emu_operand *o = &i->ops[1];
    const uint32_t *b = emu_row(w, &i->ops[2], 0, tb);

    if (i->width == 64) {
        emu_row64(w, o, a);
    } else {
        uint32_t ta[EMU_LANES];
        const uint32_t *row = emu_row(w, o, 0, ta);

        EMU_FOR_LANES(lane) {
            a[lane] = row[lane];
        }
    }
    EMU_FOR_LANES(lane) {
        bool negative = ((a[lane] & sign) != 0 && !o->abs) != o->neg;
        unsigned mantissa = i->width == 64 ? 52 : i->width == 32 ? 23 : 10;

        mask |= (uint64_t)(b[lane] >> class_of(a[lane] & (sign - 1), negative, mantissa, i->width - 1u - mantissa) & 1) << lane;
    }
    return put(w, i, mask);
}

#define BOTH(name, type, function, condition, allow)                                                          \
    {"v_cmp_" name "_" type, function, EMU_VALU, condition, 0, allow},                                       \
    {"v_cmpx_" name "_" type, function, EMU_VALU, (condition) | CMPX, 0, allow}

#define OF_INTEGERS(type, function)                                                                           \
    BOTH("f", type, function, 0, 0), BOTH("lt", type, function, LESS, 0), BOTH("eq", type, function, EQUAL, 0),  \
    BOTH("le", type, function, LESS | EQUAL, 0), BOTH("gt", type, function, GREATER, 0),                     \
    BOTH("ne", type, function, LESS | GREATER, 0), BOTH("ge", type, function, EQUAL | GREATER, 0),           \
    BOTH("t", type, function, LESS | EQUAL | GREATER, 0)

#define FLOAT_BOTH(name, type, function, condition) BOTH(name, type, function, condition, EMU_ALLOW_NEG)
#define OF_FLOATS(type, function)                                                                             \
    FLOAT_BOTH("f", type, function, 0), FLOAT_BOTH("lt", type, function, LESS), FLOAT_BOTH("eq", type, function, EQUAL), \
    FLOAT_BOTH("le", type, function, LESS | EQUAL), FLOAT_BOTH("gt", type, function, GREATER),               \
    FLOAT_BOTH("lg", type, function, LESS | GREATER), FLOAT_BOTH("ge", type, function, EQUAL | GREATER),     \
    FLOAT_BOTH("o", type, function, LESS | EQUAL | GREATER), FLOAT_BOTH("u", type, function, UNORDERED),     \
    FLOAT_BOTH("nge", type, function, LESS | UNORDERED), FLOAT_BOTH("nlg", type, function, EQUAL | UNORDERED), \
    FLOAT_BOTH("ngt", type, function, LESS | EQUAL | UNORDERED), FLOAT_BOTH("nle", type, function, GREATER | UNORDERED), \
    FLOAT_BOTH("neq", type, function, LESS | GREATER | UNORDERED),                                           \
    FLOAT_BOTH("nlt", type, function, EQUAL | GREATER | UNORDERED),                                          \
    FLOAT_BOTH("tru", type, function, LESS | EQUAL | GREATER | UNORDERED)

#define OF_CLASSES(type, bits)                                                                                \
    {"v_cmp_class_" type, compare_class, EMU_VALU, 0, bits, EMU_ALLOW_NEG},                                  \
    {"v_cmpx_class_" type, compare_class, EMU_VALU, CMPX, bits, EMU_ALLOW_NEG}

const struct emu_op emu_ops_valu_compare[] = {
    OF_INTEGERS("u32", compare_u32), OF_INTEGERS("i32", compare_i32), OF_INTEGERS("u16", compare_u16), OF_INTEGERS("i16", compare_i16),
    OF_INTEGERS("u64", compare_u64), OF_INTEGERS("i64", compare_i64), OF_FLOATS("f32", compare_f32), OF_FLOATS("f64", compare_f64),
    OF_FLOATS("f16", compare_f16), OF_CLASSES("f16", 16), OF_CLASSES("f32", 32), OF_CLASSES("f64", 64), {0},
};
