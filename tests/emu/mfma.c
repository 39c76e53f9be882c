/* SPDX-License-Identifier: MIT
 *
 * Matrix instructions: D = A x B + C of m x k and k x m matrices, in one or more independent blocks, spread over the 64 lanes; EXEC does not
 * matter.
 *
 * Layout ("Instinct MI300 Instruction Set Architecture", section on matrix instructions; AMD matrix instruction calculator): with b blocks,
 * each lane holds p = m * k * b / 64 consecutive k of a row of A, of 8 to 64 bits each, packed from the low end of the lowest register:
 *   A[block][row][k]     lane row    + m * (block + b * (k / p)), element k % p
 *   B[block][k][column]  lane column + m * (block + b * (k / p)), element k % p
 * and of C and D, with h = 4 (f64: 1) rows following each other in a lane, g lanes of a block side by side (r rows of lanes):
 *   s = ceil(64 * h / (m * m)) blocks side by side, r = 64 / (s * m), g = m / (h * r) groups
 *   D[block][row][column] lane column + m * (block % s + s * (row / h % r)), register row % h + h * (row / (h * r) % g + g * (block / s))
 *
 * Arithmetic: each element starts from C and adds its products in the order of k; the products are exact (as f32, so those of bf16 may
 * overflow), each sum is rounded to nearest even, denormals are kept. The hardware's order inside an instruction is not documented: tests with
 * numbers whose sums are exact do not depend on it. */
#include <math.h>

#include "valu.h"

enum type { F16, BF16, F32, F64, I8 };

struct shape {
    uint8_t m, k, blocks, type;
};

/* name, m, k, blocks, type, cycles of the matrix pipe (4 a pass). gfx90a first, then the names and rates of gfx942 and gfx950. */
#define SHAPES                                     \
    SHAPE(f32_32x32x1f32, 32, 1, 2, F32, 64)     \
    SHAPE(f32_16x16x1f32, 16, 1, 4, F32, 32)     \
    SHAPE(f32_4x4x1f32, 4, 1, 16, F32, 8)        \
    SHAPE(f32_32x32x2f32, 32, 2, 1, F32, 64)     \
    SHAPE(f32_16x16x4f32, 16, 4, 1, F32, 32)     \
    SHAPE(f32_32x32x4f16, 32, 4, 2, F16, 64)     \
    SHAPE(f32_16x16x4f16, 16, 4, 4, F16, 32)     \
    SHAPE(f32_4x4x4f16, 4, 4, 16, F16, 8)        \
    SHAPE(f32_32x32x8f16, 32, 8, 1, F16, 64)     \
    SHAPE(f32_16x16x16f16, 16, 16, 1, F16, 32)   \
    SHAPE(f32_32x32x2bf16, 32, 2, 2, BF16, 64)   \
    SHAPE(f32_16x16x2bf16, 16, 2, 4, BF16, 32)   \
    SHAPE(f32_4x4x2bf16, 4, 2, 16, BF16, 8)      \
    SHAPE(f32_32x32x4bf16, 32, 4, 1, BF16, 64)   \
    SHAPE(f32_16x16x8bf16, 16, 8, 1, BF16, 32)   \
    SHAPE(f32_32x32x4bf16_1k, 32, 4, 2, BF16, 64) \
    SHAPE(f32_16x16x4bf16_1k, 16, 4, 4, BF16, 32) \
    SHAPE(f32_4x4x4bf16_1k, 4, 4, 16, BF16, 8)   \
    SHAPE(f32_32x32x8bf16_1k, 32, 8, 1, BF16, 64) \
    SHAPE(f32_16x16x16bf16_1k, 16, 16, 1, BF16, 32) \
    SHAPE(i32_32x32x4i8, 32, 4, 2, I8, 64)       \
    SHAPE(i32_16x16x4i8, 16, 4, 4, I8, 32)       \
    SHAPE(i32_4x4x4i8, 4, 4, 16, I8, 8)          \
    SHAPE(i32_32x32x8i8, 32, 8, 1, I8, 64)       \
    SHAPE(i32_16x16x16i8, 16, 16, 1, I8, 32)     \
    SHAPE(f64_16x16x4f64, 16, 4, 1, F64, 32)     \
    SHAPE(f64_4x4x4f64, 4, 4, 4, F64, 16)        \
    SHAPE(f32_32x32x1_2b_f32, 32, 1, 2, F32, 64) \
    SHAPE(f32_16x16x1_4b_f32, 16, 1, 4, F32, 32) \
    SHAPE(f32_4x4x1_16b_f32, 4, 1, 16, F32, 8)   \
    SHAPE(f32_32x32x2_f32, 32, 2, 1, F32, 64)    \
    SHAPE(f32_16x16x4_f32, 16, 4, 1, F32, 32)    \
    SHAPE(f32_32x32x4_2b_f16, 32, 4, 2, F16, 64) \
    SHAPE(f32_16x16x4_4b_f16, 16, 4, 4, F16, 32) \
    SHAPE(f32_4x4x4_16b_f16, 4, 4, 16, F16, 8)   \
    SHAPE(f32_32x32x8_f16, 32, 8, 1, F16, 32)    \
    SHAPE(f32_16x16x16_f16, 16, 16, 1, F16, 16)  \
    SHAPE(f32_32x32x4_2b_bf16, 32, 4, 2, BF16, 64) \
    SHAPE(f32_16x16x4_4b_bf16, 16, 4, 4, BF16, 32) \
    SHAPE(f32_4x4x4_16b_bf16, 4, 4, 16, BF16, 8) \
    SHAPE(f32_32x32x8_bf16, 32, 8, 1, BF16, 32)  \
    SHAPE(f32_16x16x16_bf16, 16, 16, 1, BF16, 16) \
    SHAPE(i32_32x32x4_2b_i8, 32, 4, 2, I8, 64)   \
    SHAPE(i32_16x16x4_4b_i8, 16, 4, 4, I8, 32)   \
    SHAPE(i32_4x4x4_16b_i8, 4, 4, 16, I8, 8)     \
    SHAPE(i32_32x32x16_i8, 32, 16, 1, I8, 32)    \
    SHAPE(i32_16x16x32_i8, 16, 32, 1, I8, 16)    \
    SHAPE(f64_16x16x4_f64, 16, 4, 1, F64, 32)    \
    SHAPE(f64_4x4x4_4b_f64, 4, 4, 4, F64, 16)    \
    SHAPE(f32_32x32x16_f16, 32, 16, 1, F16, 32)  \
    SHAPE(f32_16x16x32_f16, 16, 32, 1, F16, 16)  \
    SHAPE(f32_32x32x16_bf16, 32, 16, 1, BF16, 32) \
    SHAPE(f32_16x16x32_bf16, 16, 32, 1, BF16, 16) \
    SHAPE(i32_32x32x32_i8, 32, 32, 1, I8, 32)    \
    SHAPE(i32_16x16x64_i8, 16, 64, 1, I8, 16)

#define SHAPE(name, m, k, blocks, type, cycles) SHAPE_##name,
enum { SHAPES };
#undef SHAPE
#define SHAPE(name, m, k, blocks, type, cycles) {m, k, blocks, type},
static const struct shape shapes[] = {SHAPES};
#undef SHAPE

#define MAX_INPUT 1024  /* m * k * blocks of the largest shapes */
#define MAX_OUTPUT 2048 /* m * m * blocks: 32 registers of 64 lanes */

/* ---- where the numbers are ---- */

/* Elements of A or B into out[block][k][row or column]. size: bytes of an element. */
static void load_input(struct emu_wave *w, const struct emu_operand *o, const struct shape *s, unsigned size, uint64_t *out)
{
    unsigned per_lane = s->m * s->k * s->blocks / 64u;
    uint64_t keep = size == 8 ? UINT64_MAX : (1ull << 8 * size) - 1;

    for (unsigned block = 0; block < s->blocks; block++) {
        for (unsigned k = 0; k < s->k; k++) {
            unsigned lane = s->m * (block + s->blocks * (k / per_lane)), bit = k % per_lane * size * 8;
            const uint32_t *row = emu_v(w, o, bit / 32);

            for (unsigned x = 0; x < s->m; x++) {
                uint64_t value = size == 8 ? (uint64_t)row[EMU_LANES + lane + x] << 32 | row[lane + x] : row[lane + x] >> bit % 32;

                *out++ = value & keep;
            }
        }
    }
}

struct place {
    unsigned lane, item;
};

/* Of D[block][row][0]; its columns are the following lanes. */
static struct place output_place(const struct shape *s, unsigned block, unsigned row)
{
    unsigned h = s->type == F64 ? 1 : 4, m = s->m, side = (64 * h + m * m - 1) / (m * m);
    unsigned rows = 64 / (side * m), groups = m / (h * rows);

    return (struct place){m * (block % side + side * (row / h % rows)), row % h + h * (row / (h * rows) % groups + groups * (block / side))};
}

/* C into out[block][row][column], 4-byte numbers. */
static void load_output(struct emu_wave *w, const struct emu_operand *o, const struct shape *s, uint32_t *out)
{
    uint32_t constant = o->kind == EMU_IMM ? o->value : 0;

    for (unsigned block = 0; block < s->blocks; block++) {
        for (unsigned row = 0; row < s->m; row++, out += s->m) {
            struct place p = output_place(s, block, row);

            if (o->kind != EMU_IMM) {
                memcpy(out, emu_v(w, o, p.item) + p.lane, s->m * sizeof(*out));
                continue;
            }
            for (unsigned column = 0; column < s->m; column++) {
                out[column] = constant;
            }
        }
    }
}

static void mark_known(struct emu_wave *w, const struct emu_operand *d)
{
    for (unsigned k = 0; k < d->count; k++) {
        unsigned index = (d->kind == EMU_AGPR ? 256u : 0u) + d->index + k;

        w->v_known[index / 64] |= 1ull << index % 64;
    }
}

static void store_output(struct emu_wave *w, const struct emu_operand *d, const struct shape *s, const uint32_t *in)
{
    for (unsigned block = 0; block < s->blocks; block++) {
        for (unsigned row = 0; row < s->m; row++, in += s->m) {
            struct place p = output_place(s, block, row);

            memcpy(emu_v(w, d, p.item) + p.lane, in, s->m * sizeof(*in));
        }
    }
    mark_known(w, d);
}

/* ---- multiplication ---- */

/* A row of m sums: += a * b for each k. exact: the products are exact in f32, so that two roundings are one. */
static inline void add_products(float *restrict sums, const float *restrict a, const float *restrict b, unsigned k, unsigned m, bool exact)
{
    for (unsigned n = 0; n < k; n++) {
        float factor = a[n * m];

        if (exact) {
            for (unsigned column = 0; column < m; column++) {
                sums[column] += factor * b[n * m + column];
            }
        } else {
            for (unsigned column = 0; column < m; column++) {
                sums[column] = fmaf(factor, b[n * m + column], sums[column]);
            }
        }
    }
}

static float number(uint64_t bits, unsigned type)
{
    return type == F16 ? emu_f16_to_f32((uint32_t)bits) : type == BF16 ? emu_bf16_to_f32((uint32_t)bits) : emu_float((uint32_t)bits);
}

static bool mfma_float(struct emu_wave *w, const struct emu_inst *i)
{
    const struct shape *s = &shapes[i->sub];
    unsigned inputs = s->m * s->k * s->blocks, outputs = s->m * s->m * s->blocks, size = s->type == F32 ? 4 : 2;
    uint64_t bits[MAX_INPUT];
    uint32_t out[MAX_OUTPUT];
    float a[MAX_INPUT], b[MAX_INPUT], sums[MAX_OUTPUT];

    load_input(w, &i->ops[1], s, size, bits);
    for (unsigned n = 0; n < inputs; n++) {
        a[n] = number(bits[n], s->type);
    }
    load_input(w, &i->ops[2], s, size, bits);
    for (unsigned n = 0; n < inputs; n++) {
        b[n] = number(bits[n], s->type);
    }
    load_output(w, &i->ops[3], s, out);
    memcpy(sums, out, outputs * sizeof(float));
    for (unsigned block = 0; block < s->blocks; block++) {
        for (unsigned row = 0; row < s->m; row++) {
            float *to = sums + (block * s->m + row) * s->m;
            const float *from_a = a + block * s->k * s->m + row, *from_b = b + block * s->k * s->m;

            /* Constant widths let the compiler keep the row in registers. */
            switch (s->m) {
            case 32: add_products(to, from_a, from_b, s->k, 32, s->type != F32); break;
            case 16: add_products(to, from_a, from_b, s->k, 16, s->type != F32); break;
            default: add_products(to, from_a, from_b, s->k, 4, s->type != F32); break;
            }
        }
    }
    memcpy(out, sums, outputs * sizeof(float));
    store_output(w, &i->ops[0], s, out);
    return true;
}

/* ---- 16-bit inputs, m of 16 or 32: nearly all that is executed ---- */

typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t eight_bits __attribute__((vector_size(32), aligned(4), may_alias));

/* Numbers of one half of the dwords of 8 lanes. fp16: exponent and mantissa moved to their places and scaled by 2^112, denormals become normal; infinities
 * and NaNs have the largest exponent in both formats. */
static inline __attribute__((always_inline)) void widen(const eight_bits *in, unsigned shift, bool bf16, float *out)
{
    eight_bits half = *in >> shift & 0xffffu;
    const eight_bits scale = {0x77800000, 0x77800000, 0x77800000, 0x77800000, 0x77800000, 0x77800000, 0x77800000, 0x77800000};
    eight_bits magnitude = (half & 0x7fffu) << 13, special = (eight_bits)((half & 0x7c00u) == 0x7c00u);

    magnitude = (eight_bits)((eight)magnitude * (eight)scale);
    if (bf16) {
        *(eight_bits *)(void *)out = half << 16;
    } else {
        *(eight_bits *)(void *)out = (half & 0x8000u) << 16 | magnitude | (special & 0x7f800000u);
    }
}

/* Elements of A or B into out[block][k][row or column]. */
static inline __attribute__((always_inline)) void load_halves(struct emu_wave *w, const struct emu_operand *o, const struct shape *s, float *out)
{
    unsigned m = s->m, per_lane = m * s->k * s->blocks / 64u;

    for (unsigned d = 0; d < per_lane / 2; d++) {
        const uint32_t *row = emu_v(w, o, d);

        for (unsigned lane = 0; lane < EMU_LANES; lane += 8) {
            unsigned at = lane / m, block = at % s->blocks, k = at / s->blocks * per_lane + 2 * d;
            float *to = out + (block * s->k + k) * m + lane % m;

            widen((const eight_bits *)(row + lane), 0, s->type == BF16, to);
            widen((const eight_bits *)(row + lane), 16, s->type == BF16, to + m);
        }
    }
}

/* 16 columns of 4 rows. The products are exact, so that two roundings are one. */
static inline __attribute__((always_inline)) void multiply_rows(float *const rows[4], const float *a, const float *b, unsigned k, unsigned m)
{
    eight sums[4][2];

    for (unsigned r = 0; r < 4; r++) {
        sums[r][0] = *(const eight *)rows[r];
        sums[r][1] = *(const eight *)(rows[r] + 8);
    }
    for (unsigned n = 0; n < k; n++) {
        eight b0 = *(const eight *)(b + n * m), b1 = *(const eight *)(b + n * m + 8);

#pragma GCC unroll 4
        for (unsigned r = 0; r < 4; r++) {
            sums[r][0] += a[n * m + r] * b0;
            sums[r][1] += a[n * m + r] * b1;
        }
    }
    for (unsigned r = 0; r < 4; r++) {
        *(eight *)rows[r] = sums[r][0];
        *(eight *)(rows[r] + 8) = sums[r][1];
    }
}

/* C is in D's registers already. */
static inline __attribute__((always_inline)) void multiply_halves(struct emu_wave *w, const struct emu_inst *i, const struct shape *s)
{
    float a[MAX_INPUT], b[MAX_INPUT];

    load_halves(w, &i->ops[1], s, a);
    load_halves(w, &i->ops[2], s, b);
    for (unsigned block = 0; block < s->blocks; block++) {
        for (unsigned row = 0; row < s->m; row += 4) { /* neighbours in a lane */
            struct place p = output_place(s, block, row);

            for (unsigned column = 0; column < s->m; column += 16) {
                float *rows[4];

                for (unsigned r = 0; r < 4; r++) {
                    rows[r] = (float *)(void *)(emu_v(w, &i->ops[0], p.item + r) + p.lane + column);
                }
                multiply_rows(rows, a + block * s->k * s->m + row, b + block * s->k * s->m + column, s->k, s->m);
            }
        }
    }
}

#if defined(__x86_64__)
static __attribute__((target("avx2"))) void multiply_halves_avx2(struct emu_wave *w, const struct emu_inst *i, const struct shape *s)
{
    multiply_halves(w, i, s);
}
#endif

static void multiply_halves_plain(struct emu_wave *w, const struct emu_inst *i, const struct shape *s)
{
    multiply_halves(w, i, s);
}

static unsigned register_of(const struct emu_operand *o)
{
    return (o->kind == EMU_AGPR ? 256u : 0u) + o->index;
}

static bool overlap(const struct emu_operand *x, const struct emu_operand *y)
{
    return (y->kind == EMU_VGPR || y->kind == EMU_AGPR) && register_of(x) < register_of(y) + y->count && register_of(y) < register_of(x) + x->count;
}

static bool mfma_half(struct emu_wave *w, const struct emu_inst *i)
{
    const struct shape *s = &shapes[i->sub];
    const struct emu_operand *d = &i->ops[0], *c = &i->ops[3];

    /* Inputs are taken before D is written; only C may be D. */
    if (s->m < 16 || overlap(d, &i->ops[1]) || overlap(d, &i->ops[2]) || (overlap(d, c) && register_of(d) != register_of(c))) {
        return mfma_float(w, i);
    }
    for (unsigned n = 0; n < d->count; n++) {
        if (c->kind == EMU_IMM) {
            for (unsigned lane = 0; lane < EMU_LANES; lane++) {
                emu_v(w, d, n)[lane] = c->value;
            }
        } else if (register_of(d) != register_of(c)) {
            memcpy(emu_v(w, d, n), emu_v(w, c, n), sizeof(emu_lanes));
        }
    }
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        multiply_halves_avx2(w, i, s);
    } else {
        multiply_halves_plain(w, i, s);
    }
#else
    multiply_halves_plain(w, i, s);
#endif
    mark_known(w, d);
    return true;
}

static bool mfma_i8(struct emu_wave *w, const struct emu_inst *i)
{
    const struct shape *s = &shapes[i->sub];
    uint64_t a[MAX_INPUT], b[MAX_INPUT];
    uint32_t out[MAX_OUTPUT];

    load_input(w, &i->ops[1], s, 1, a);
    load_input(w, &i->ops[2], s, 1, b);
    load_output(w, &i->ops[3], s, out);
    for (unsigned n = 0; n < (unsigned)s->m * s->m * s->blocks; n++) {
        unsigned block = n / (s->m * s->m), row = n / s->m % s->m, column = n % s->m;

        for (unsigned k = 0; k < s->k; k++) {
            unsigned at = (block * s->k + k) * s->m;

            out[n] += (uint32_t)((int8_t)a[at + row] * (int8_t)b[at + column]);
        }
    }
    store_output(w, &i->ops[0], s, out);
    return true;
}

static bool mfma_f64(struct emu_wave *w, const struct emu_inst *i)
{
    const struct shape *s = &shapes[i->sub];
    const struct emu_operand *c = &i->ops[3], *d = &i->ops[0];
    uint64_t a[MAX_INPUT], b[MAX_INPUT], bits;
    uint64_t out[256];

    load_input(w, &i->ops[1], s, 8, a);
    load_input(w, &i->ops[2], s, 8, b);
    for (unsigned n = 0; n < (unsigned)s->m * s->m * s->blocks; n++) {
        unsigned block = n / (s->m * s->m), row = n / s->m % s->m, column = n % s->m;
        struct place p = output_place(s, block, row);
        double x, y, sum;

        bits = c->kind == EMU_IMM ? (uint64_t)c->high << 32 | c->value :
               (uint64_t)emu_v(w, c, 2 * p.item + 1)[p.lane + column] << 32 | emu_v(w, c, 2 * p.item)[p.lane + column];
        memcpy(&sum, &bits, 8);
        for (unsigned k = 0; k < s->k; k++) {
            unsigned at = (block * s->k + k) * s->m;

            memcpy(&x, &a[at + row], 8);
            memcpy(&y, &b[at + column], 8);
            sum = fma(x, y, sum);
        }
        memcpy(&out[n], &sum, 8);
    }
    for (unsigned n = 0; n < (unsigned)s->m * s->m * s->blocks; n++) {
        struct place p = output_place(s, n / (s->m * s->m), n / s->m % s->m);

        emu_v(w, d, 2 * p.item)[p.lane + n % s->m] = (uint32_t)out[n];
        emu_v(w, d, 2 * p.item + 1)[p.lane + n % s->m] = (uint32_t)(out[n] >> 32);
    }
    mark_known(w, d);
    return true;
}

static bool mfma(struct emu_wave *w, const struct emu_inst *i)
{
    switch (shapes[i->sub].type) {
    case F64: return mfma_f64(w, i);
    case I8: return mfma_i8(w, i);
    case F16:
    case BF16: return mfma_half(w, i);
    default: return mfma_float(w, i);
    }
}

#define SHAPE(name, m, k, blocks, type, cycles) {"v_mfma_" #name, mfma, EMU_MFMA, SHAPE_##name, cycles, 0},
const struct emu_op emu_ops_mfma[] = {SHAPES{0}};
