/* SPDX-License-Identifier: MIT
 *
 * Every matrix instruction multiplies matrices without symmetry as a plain triple loop does, the elements placed as the matrix instruction
 * calculator of AMD places them (the rules here go from lane and register to the element; those of mfma.c go the other way). */
#include <math.h>

#include "test_alu.h"

enum type { F16, BF16, F32, F64, I8 };

struct form {
    const char *name;
    unsigned m, k, blocks, type, archs;
};

static const struct form forms[] = {
    {"f32_32x32x1f32", 32, 1, 2, F32, ON_GFX90A}, {"f32_16x16x1f32", 16, 1, 4, F32, ON_GFX90A}, {"f32_4x4x1f32", 4, 1, 16, F32, ON_GFX90A},
    {"f32_32x32x2f32", 32, 2, 1, F32, ON_GFX90A}, {"f32_16x16x4f32", 16, 4, 1, F32, ON_GFX90A}, {"f32_32x32x4f16", 32, 4, 2, F16, ON_GFX90A},
    {"f32_16x16x4f16", 16, 4, 4, F16, ON_GFX90A}, {"f32_4x4x4f16", 4, 4, 16, F16, ON_GFX90A}, {"f32_32x32x8f16", 32, 8, 1, F16, ON_GFX90A},
    {"f32_16x16x16f16", 16, 16, 1, F16, ON_GFX90A}, {"f32_32x32x2bf16", 32, 2, 2, BF16, ON_GFX90A}, {"f32_16x16x2bf16", 16, 2, 4, BF16, ON_GFX90A},
    {"f32_4x4x2bf16", 4, 2, 16, BF16, ON_GFX90A}, {"f32_32x32x4bf16", 32, 4, 1, BF16, ON_GFX90A}, {"f32_16x16x8bf16", 16, 8, 1, BF16, ON_GFX90A},
    {"f32_32x32x4bf16_1k", 32, 4, 2, BF16, ON_GFX90A}, {"f32_16x16x4bf16_1k", 16, 4, 4, BF16, ON_GFX90A},
    {"f32_4x4x4bf16_1k", 4, 4, 16, BF16, ON_GFX90A}, {"f32_32x32x8bf16_1k", 32, 8, 1, BF16, ON_GFX90A},
    {"f32_16x16x16bf16_1k", 16, 16, 1, BF16, ON_GFX90A}, {"i32_32x32x4i8", 32, 4, 2, I8, ON_GFX90A}, {"i32_16x16x4i8", 16, 4, 4, I8, ON_GFX90A},
    {"i32_4x4x4i8", 4, 4, 16, I8, ON_GFX90A}, {"i32_32x32x8i8", 32, 8, 1, I8, ON_GFX90A}, {"i32_16x16x16i8", 16, 16, 1, I8, ON_GFX90A},
    {"f64_16x16x4f64", 16, 4, 1, F64, ON_GFX90A}, {"f64_4x4x4f64", 4, 4, 4, F64, ON_GFX90A},
#define NEW (ON_GFX942 | ON_GFX950)
    {"f32_32x32x1_2b_f32", 32, 1, 2, F32, NEW}, {"f32_16x16x1_4b_f32", 16, 1, 4, F32, NEW}, {"f32_4x4x1_16b_f32", 4, 1, 16, F32, NEW},
    {"f32_32x32x2_f32", 32, 2, 1, F32, NEW}, {"f32_16x16x4_f32", 16, 4, 1, F32, NEW}, {"f32_32x32x4_2b_f16", 32, 4, 2, F16, NEW},
    {"f32_16x16x4_4b_f16", 16, 4, 4, F16, NEW}, {"f32_4x4x4_16b_f16", 4, 4, 16, F16, NEW}, {"f32_32x32x8_f16", 32, 8, 1, F16, NEW},
    {"f32_16x16x16_f16", 16, 16, 1, F16, NEW}, {"f32_32x32x4_2b_bf16", 32, 4, 2, BF16, NEW}, {"f32_16x16x4_4b_bf16", 16, 4, 4, BF16, NEW},
    {"f32_4x4x4_16b_bf16", 4, 4, 16, BF16, NEW}, {"f32_32x32x8_bf16", 32, 8, 1, BF16, NEW}, {"f32_16x16x16_bf16", 16, 16, 1, BF16, NEW},
    {"i32_32x32x4_2b_i8", 32, 4, 2, I8, NEW}, {"i32_16x16x4_4b_i8", 16, 4, 4, I8, NEW}, {"i32_4x4x4_16b_i8", 4, 4, 16, I8, NEW},
    {"i32_32x32x16_i8", 32, 16, 1, I8, NEW}, {"i32_16x16x32_i8", 16, 32, 1, I8, NEW}, {"f64_16x16x4_f64", 16, 4, 1, F64, NEW},
    {"f64_4x4x4_4b_f64", 4, 4, 4, F64, NEW}, {"f32_32x32x16_f16", 32, 16, 1, F16, ON_GFX950}, {"f32_16x16x32_f16", 16, 32, 1, F16, ON_GFX950},
    {"f32_32x32x16_bf16", 32, 16, 1, BF16, ON_GFX950}, {"f32_16x16x32_bf16", 16, 32, 1, BF16, ON_GFX950},
    {"i32_32x32x32_i8", 32, 32, 1, I8, ON_GFX950}, {"i32_16x16x64_i8", 16, 64, 1, I8, ON_GFX950},
};

#define NUM_FORMS (sizeof(forms) / sizeof(forms[0]))

static unsigned element_bytes(const struct form *f)
{
    return f->type == F64 ? 8 : f->type == F32 ? 4 : f->type == I8 ? 1 : 2;
}

static unsigned per_lane(const struct form *f)
{
    return f->m * f->k * f->blocks / 64;
}

static unsigned input_registers(const struct form *f)
{
    unsigned bytes = per_lane(f) * element_bytes(f);

    return bytes < 4 ? 1 : bytes / 4;
}

static unsigned outputs_per_lane(const struct form *f)
{
    return f->m * f->m * f->blocks / 64;
}

static unsigned output_registers(const struct form *f)
{
    return outputs_per_lane(f) * (f->type == F64 ? 2 : 1);
}

/* Which element of D a lane holds as its n-th one: as the calculator's tables show, kind by kind. */
static void output_element(const struct form *f, unsigned lane, unsigned n, unsigned *block, unsigned *row, unsigned *column)
{
    *column = lane % f->m;
    if (f->type == F64 && f->m == 16) {
        *block = 0;
        *row = 4 * n + lane / 16;
    } else if (f->type == F64) {
        *block = lane / 4 % 4;
        *row = lane / 16;
    } else if (f->m == 32) {
        *block = n / 16;
        *row = 8 * (n % 16 / 4) + 4 * (lane / 32) + n % 4;
    } else if (f->m == 16) {
        *block = n / 4;
        *row = 4 * (lane / 16) + n % 4;
    } else {
        *block = lane / 4;
        *row = n;
    }
}

/* ---- assembly: three of each form, of those with 16-bit inputs one more that writes D over A; A in v0, B in v16 or a16, C in v64 or a64, D in v128 or a64 ---- */

static void operand(char *out, size_t bytes, char file, unsigned first, unsigned n)
{
    if (n == 1) {
        snprintf(out, bytes, "%c%u", file, first);
    } else {
        snprintf(out, bytes, "%c[%u:%u]", file, first, first + n - 1);
    }
}

static void print_forms(const char *arch)
{
    for (size_t i = 0; i < NUM_FORMS; i++) {
        const struct form *f = &forms[i];
        unsigned in = input_registers(f), out = output_registers(f);
        char a[20], b[20], b2[20], c[20], c2[20], d[20];

        if ((f->archs & arch_bit(arch)) == 0) {
            continue;
        }
        operand(a, sizeof(a), 'v', 0, in);
        operand(b, sizeof(b), 'v', 16, in);
        operand(b2, sizeof(b2), 'a', 16, in);
        operand(c, sizeof(c), 'v', 64, out);
        operand(c2, sizeof(c2), 'a', 64, out);
        operand(d, sizeof(d), 'v', 128, out);
        printf("    v_mfma_%s %s, %s, %s, %s\n", f->name, d, a, b, c);
        printf("    v_mfma_%s %s, %s, %s, %s\n", f->name, c2, a, b2, c2);
        printf("    v_mfma_%s %s, %s, %s, %s\n", f->name, d, a, b, f->type == I8 ? "-3" : "-4.0");
        if (f->type == F16 || f->type == BF16) {
            operand(d, sizeof(d), 'v', 0, out);
            printf("    v_mfma_%s %s, %s, %s, 0\n", f->name, d, a, b);
        }
    }
    printf("    v_mfma_f32_16x16x4%sf32 v[0:3], v4, v5, v[0:3] blgp:1\n", strcmp(arch, "gfx90a") == 0 ? "" : "_");
}

/* ---- numbers: multiples of 1/4 (f64, f32: of 1/16) so small that every sum is exact in any order ---- */

static double draw(const struct form *f)
{
    return f->type == I8 ? (double)(rnd() % 256) - 128 :
           f->type == F16 || f->type == BF16 ? ((double)(rnd() % 64) - 31) / 4 : ((double)(rnd() % 512) - 255) / 16;
}

static uint64_t encode(const struct form *f, double x)
{
    uint32_t u = emu_bits((float)x);

    switch (f->type) {
    case F64: return bits_of64(x);
    case F32: return u;
    case BF16: return u >> 16;
    case I8: return (uint8_t)(int8_t)x;
    default: return x == 0 ? 0 : (u >> 16 & 0x8000) | ((u >> 23 & 255) - 112) << 10 | (u >> 13 & 0x3ff);
    }
}

static void put_input(const struct form *f, struct bench *b, unsigned reg, unsigned lane, unsigned n, double x)
{
    unsigned bytes = element_bytes(f), at = n * bytes;
    uint64_t bits = encode(f, x);

    for (unsigned k = 0; k < bytes; k++) {
        uint32_t *word = &b->registers[reg + (at + k) / 4][lane];
        unsigned shift = (at + k) % 4 * 8;

        *word = (*word & ~(255u << shift)) | (uint32_t)(bits >> 8 * k & 255) << shift;
    }
}

static double get_output(const struct form *f, const struct bench *b, unsigned reg, unsigned lane, unsigned n)
{
    if (f->type == F64) {
        return f64_of((uint64_t)b->registers[reg + 2 * n + 1][lane] << 32 | b->registers[reg + 2 * n][lane]);
    }
    return f->type == I8 ? (double)(int32_t)b->registers[reg + n][lane] : (double)emu_float(b->registers[reg + n][lane]);
}

static void put_output(const struct form *f, struct bench *b, unsigned reg, unsigned lane, unsigned n, double x)
{
    uint64_t bits = f->type == F64 ? bits_of64(x) : f->type == I8 ? (uint32_t)(int32_t)x : emu_bits((float)x);

    b->registers[reg + (f->type == F64 ? 2 * n : n)][lane] = (uint32_t)bits;
    if (f->type == F64) {
        b->registers[reg + 2 * n + 1][lane] = (uint32_t)(bits >> 32);
    }
}

static double A[16][32][64], B[16][64][32], C[16][32][32], D[16][32][32]; /* [block][row][column] */

static void check_form(struct bench *b, const struct form *f, unsigned variant)
{
    const unsigned reg_b = variant == 1 ? 256 + 16 : 16, reg_c = variant == 1 ? 256 + 64 : 64, reg_d = variant == 1 ? 256 + 64 : 128;
    const struct emu_inst *inst = bench_next(b, f->name);
    unsigned p = per_lane(f);

    for (unsigned k = 0; k < EMU_MAX_VGPRS; k++) {
        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            b->registers[k][lane] = rnd();
        }
    }
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        unsigned x = lane % f->m, block = lane / f->m % f->blocks, group = lane / (f->m * f->blocks);

        for (unsigned n = 0; n < p; n++) {
            A[block][x][group * p + n] = draw(f);
            B[block][group * p + n][x] = draw(f);
            put_input(f, b, 0, lane, n, A[block][x][group * p + n]);
            put_input(f, b, reg_b, lane, n, B[block][group * p + n][x]);
        }
        for (unsigned n = 0; n < outputs_per_lane(f); n++) {
            unsigned row, column;

            output_element(f, lane, n, &block, &row, &column);
            C[block][row][column] = variant == 2 ? (f->type == I8 ? -3 : -4) : draw(f);
            put_output(f, b, reg_c, lane, n, variant == 2 ? 77 : C[block][row][column]);
        }
    }
    for (unsigned block = 0; block < f->blocks; block++) {
        for (unsigned row = 0; row < f->m; row++) {
            for (unsigned column = 0; column < f->m; column++) {
                D[block][row][column] = C[block][row][column];
                for (unsigned k = 0; k < f->k; k++) {
                    D[block][row][column] += A[block][row][k] * B[block][k][column];
                }
            }
        }
    }
    set_s64(&b->wave, EMU_EXEC, rnd64()); /* does not matter */
    b->wave.v_known[reg_d / 64] = 0;
    if (!bench_step(b, inst)) {
        TEST_FAIL("%s %s: refused", b->arch, inst->text);
        return;
    }
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        for (unsigned n = 0; n < outputs_per_lane(f); n++) {
            unsigned block, row, column;
            double got = get_output(f, b, reg_d, lane, n);

            output_element(f, lane, n, &block, &row, &column);
            if (got != D[block][row][column]) {
                TEST_FAIL("%s %s: block %u row %u column %u: got %g, want %g", b->arch, inst->text, block, row, column, got, D[block][row][column]);
                return;
            }
        }
    }
    TEST_CHECK((b->wave.v_known[reg_d / 64] & 1ull << reg_d % 64) != 0);
    TEST_CHECK(inst->unit == EMU_MFMA && inst->width >= 8 && inst->width <= 64);
}

/* Numbers that are not normal, times 1: each column of B has its own in its first row. D is written over A. */
static void check_special(struct bench *b, const struct form *f)
{
    static const uint16_t halves[] = {0x0000, 0x0001, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x3c00};
    static const uint16_t brains[] = {0x0000, 0x0001, 0x8001, 0x007f, 0x807f, 0x0080, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x3f80};
    const uint16_t *bits = f->type == F16 ? halves : brains;
    const struct emu_inst *inst = bench_next(b, f->name);

    memset(b->registers, 0, EMU_MAX_VGPRS * sizeof(b->registers[0]));
    for (unsigned lane = 0; lane < f->m * f->blocks; lane++) { /* those with k 0 */
        b->registers[0][lane] = bits[11];
        b->registers[16][lane] = bits[lane % f->m % 12];
    }
    if (!bench_step(b, inst)) {
        TEST_FAIL("%s %s: refused", b->arch, inst->text);
        return;
    }
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        for (unsigned n = 0; n < outputs_per_lane(f); n++) {
            unsigned block, row, column, u;
            double got = get_output(f, b, 0, lane, n), want;

            output_element(f, lane, n, &block, &row, &column);
            u = bits[column % 12];
            want = f->type == BF16 ? (double)emu_float(u << 16) : ldexp((double)(u & 0x3ff) + (u & 0x7c00 ? 1024 : 0), (int)(u & 0x7c00 ? u >> 10 & 31 : 1) - 25);
            want = f->type == F16 && (u & 0x7c00) == 0x7c00 ? ((u & 0x3ff) != 0 ? NAN : INFINITY) : want;
            want = f->type == F16 && (u & 0x8000) ? -want : want;
            if (got != want && !(isnan(got) && isnan(want))) {
                TEST_FAIL("%s %s: block %u row %u column %u: got %g, want %g", b->arch, inst->text, block, row, column, got, want);
                return;
            }
        }
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--asm") == 0) {
        print_asm_head(argv[2]);
        print_forms(argv[2]);
        print_asm_tail();
        return 0;
    }
    for (int file = 1; file < argc; file++) {
        const struct emu_inst *inst;
        struct bench b;

        bench_open(&b, argv[file]);
        for (size_t i = 0; i < NUM_FORMS; i++) {
            for (unsigned variant = 0; variant < 3 && (forms[i].archs & arch_bit(b.arch)) != 0; variant++) {
                check_form(&b, &forms[i], variant);
            }
            if ((forms[i].archs & arch_bit(b.arch)) != 0 && (forms[i].type == F16 || forms[i].type == BF16)) {
                check_special(&b, &forms[i]);
            }
        }
        /* Rearranged inputs are not implemented: the instruction must not pass for the plain one. */
        inst = emu_decode(b.program, b.wave.pc);
        TEST_CHECK(inst != NULL && strstr(inst->text, "blgp") != NULL && inst->exec == NULL);
        bench_close(&b);
    }
    printf("%zu forms, %d code objects\n", NUM_FORMS, argc - 1);
    return test_result();
}
