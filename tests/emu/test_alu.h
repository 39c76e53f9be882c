/* SPDX-License-Identifier: MIT
 *
 * What the tests of single instructions share. A test lists instructions with a function that says, in its own words, what each does; `--asm
 * ARCH` prints them as assembly, and run with the code objects it steps a wave through them with random and edge operands and compares all
 * registers. */
#ifndef EMU_TEST_ALU_H
#define EMU_TEST_ALU_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "run.h"
#include "test.h"

#define TRIALS 60

/* Archs that have the instruction; 0: all. */
enum { ON_GFX90A = 0x100, ON_GFX942 = 0x200, ON_GFX950 = 0x400, ON_ALL = 0x700 };

static uint64_t rng_state = 0x9e3779b97f4a7c15u;

static inline uint32_t rnd(void)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 32) ^ (uint32_t)(rng_state >> 11);
}

static inline uint64_t rnd64(void)
{
    uint64_t high = rnd();

    return high << 32 | rnd();
}

static inline uint32_t edge32(void)
{
    static const uint32_t edges[] = {0, 1, 2, 0xffffffff, 0xfffffffe, 0x7fffffff, 0x80000000, 0x80000001, 31, 32, 33, 63, 64, 15, 16,
                                     0xff, 0x100, 0xffff, 0x10000, 0x7fff, 0x8000, 0x00ff00ff, 0x55555555, 0xaaaaaaaa, 0xffffff, 0x800000,
                                     /* floats: */ 0x3f800000, 0xbf800000, 0x3f000000, 0x40000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                     0x7f7fffff, 0x00800000, 0x007fffff, 0x4f000000, 0xcf000000, 0x4f800000, 0x4effffff, 0x3effffff,
                                     0x477fefff, 0x477ff000, 0x38800000, 0x33000000, 0x33000001, 0x387fffff,
                                     /* halves: */ 0x3c003c00, 0xbc00c000, 0x7bff0400, 0x7c00fc00, 0x03ff0001, 0x7e003800};
    uint32_t r = rnd();

    if (r % 4 == 0) {
        return rnd();
    } else if (r % 4 == 1) { /* a float of moderate size */
        return (rnd() & 0x80ffffff) | (0x3b000000 + (rnd() % 10) * 0x800000);
    } else if (r % 16 == 2) { /* two halves of moderate size */
        return (rnd() & 0x87ff87ff) | (0x3000 + (rnd() % 4) * 0x800) * 0x10001;
    }
    return edges[rnd() % (sizeof(edges) / sizeof(edges[0]))];
}

static inline uint64_t edge64(void)
{
    static const uint64_t edges[] = {0, 1, UINT64_MAX, INT64_MAX, 1ull << 63, 0xffffffff, 0x100000000, 0x3ff0000000000000, 0xbff0000000000000,
                                     0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x0010000000000000, 0x000fffffffffffff,
                                     0x41dfffffffc00000, 0x41e0000000000000, 0xc1e0000000000000, 0x41efffffffe00000, 0x47efffffe0000000};
    uint32_t r = rnd();

    if (r % 4 == 0) {
        return edges[rnd() % (sizeof(edges) / sizeof(edges[0]))];
    } else if (r % 4 == 1) { /* a double of moderate size */
        return (rnd64() & 0x800fffffffffffff) | (uint64_t)(0x3f8 + rnd() % 16) << 52;
    }
    return (uint64_t)edge32() << 32 | edge32();
}

static inline uint64_t random_mask(void)
{
    switch (rnd() % 5) {
    case 0: return ~0ull;
    case 1: return 1ull << rnd() % 64;
    case 2: return 0;
    default: return rnd64() & (rnd() % 2 ? rnd64() : ~0ull);
    }
}

static inline float f32_of(uint64_t bits)
{
    uint32_t u = (uint32_t)bits;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

static inline double f64_of(uint64_t bits)
{
    double f;

    memcpy(&f, &bits, 8);
    return f;
}

static inline uint64_t bits_of64(double f)
{
    uint64_t u;

    memcpy(&u, &f, 8);
    return u;
}

/* ---- assembly ---- */

static inline unsigned arch_bit(const char *arch)
{
    return strcmp(arch, "gfx90a") == 0 ? ON_GFX90A : strcmp(arch, "gfx942") == 0 ? ON_GFX942 : ON_GFX950;
}

static inline void print_asm_head(const char *arch)
{
    printf("    .amdgcn_target \"amdgcn-amd-amdhsa--%s\"\n    .amdhsa_code_object_version 5\n    .text\n    .globl alu\n    .p2align 8\n"
           "    .type alu,@function\nalu:\n", arch);
}

static inline void print_asm_tail(void)
{
    printf("    s_endpgm\n    .rodata\n    .p2align 6\n    .amdhsa_kernel alu\n        .amdhsa_next_free_vgpr 512\n        .amdhsa_next_free_sgpr 100\n"
           "        .amdhsa_accum_offset 256\n    .end_amdhsa_kernel\n    .amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.kernels:\n"
           "  - .name: alu\n    .symbol: alu.kd\n    .kernarg_segment_size: 0\n    .group_segment_fixed_size: 0\n"
           "    .private_segment_fixed_size: 0\n    .kernarg_segment_align: 8\n    .wavefront_size: 64\n    .sgpr_count: 100\n"
           "    .vgpr_count: 512\n    .max_flat_workgroup_size: 64\n...\n    .end_amdgpu_metadata\n");
}

/* ---- a wave to step ---- */

struct bench {
    struct emu_program *program;
    struct emu_gang gang; /* counts as failed already, so that reports are not made */
    struct emu_grid grid;
    struct emu_group group;
    struct emu_wave wave;
    emu_lanes *registers;
    char arch[16];
};

static inline void bench_open(struct bench *b, const char *path)
{
    FILE *file = fopen(path, "rb");
    const char *from = strrchr(path, '_');
    char why[EMU_TEXT] = "no such file";
    size_t bytes = 0;
    void *data = malloc(8u << 20);

    memset(b, 0, sizeof(*b));
    snprintf(b->arch, sizeof(b->arch), "%.*s", from == NULL ? 0 : (int)strcspn(from + 1, "."), from == NULL ? "" : from + 1);
    if (file != NULL && data != NULL) {
        bytes = fread(data, 1, 8u << 20, file);
        fclose(file);
    }
    b->program = bytes == 0 ? NULL : emu_program_load(data, bytes, b->arch, NULL, why);
    free(data);
    if (b->program == NULL) {
        fprintf(stderr, "%s: %s\n", path, why);
        exit(1);
    }
    b->registers = calloc(EMU_MAX_VGPRS, sizeof(*b->registers));
    b->gang.failed = true;
    b->grid.gang = &b->gang;
    b->grid.program = b->program;
    b->group.grid = &b->grid;
    b->wave.group = &b->group;
    b->wave.v = b->registers;
    b->wave.arch = b->program->arch;
    b->wave.mode = 0x3f0;
    b->wave.pc = b->program->kernels[0].entry;
}

static inline void bench_close(struct bench *b)
{
    emu_program_free(b->program);
    free(b->registers);
}

/* The instruction at the wave's pc; ends the test when the interpreter does not know it. */
static inline const struct emu_inst *bench_next(struct bench *b, const char *text)
{
    const struct emu_inst *inst = emu_decode(b->program, b->wave.pc);

    if (inst == NULL || inst->exec == NULL) {
        fprintf(stderr, "%s: unknown instruction: %s (%s)\n", b->arch, inst == NULL ? "?" : inst->text, text);
        exit(1);
    }
    return inst;
}

/* The interpreter's side of a step: pc stands behind the instruction while it executes. */
static inline bool bench_step(struct bench *b, const struct emu_inst *inst)
{
    b->wave.inst = inst;
    b->wave.pc = inst->pc + inst->bytes;
    return inst->exec(&b->wave, inst);
}

static inline void set_s64(struct emu_wave *w, unsigned index, uint64_t value)
{
    w->s[index] = (uint32_t)value;
    w->s[index + 1] = (uint32_t)(value >> 32);
}

static inline uint64_t get_s64(const struct emu_wave *w, unsigned index)
{
    return (uint64_t)w->s[index + 1] << 32 | w->s[index];
}

#endif
