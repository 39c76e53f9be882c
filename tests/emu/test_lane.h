/* SPDX-License-Identifier: MIT
 *
 * Tests of vector instructions that compute lane by lane. In the text of a row: destination v0 or v[0:1]; sources v2, v4, v6 or v[2:3],
 * v[4:5], v[6:7], or s2, s4 or s[2:3], s[4:5]; carries in vcc, the same in s[10:11]; masks of comparisons go to vcc. */
#ifndef EMU_TEST_LANE_H
#define EMU_TEST_LANE_H

#include <math.h>

#include "test_alu.h"

struct lane {
    uint64_t a, b, c;   /* the sources */
    uint64_t d;         /* the destination's two registers before */
    uint64_t sa, sb;    /* the scalar sources */
    bool carry;         /* in; when the row has MASK, out */
    uint64_t r;         /* the destination's two registers behind; starts as d */
    const uint32_t *row; /* the first source in all lanes */
    unsigned lane;
    uint64_t exec;
};

enum { MASK = 1, NAN32 = 2, NAN64 = 4, NAN16 = 8, NANPK = 16, CMPX = 32, FLUSH = 64 }; /* NAN: any NaN is as good as another; FLUSH: no denormals */

struct row {
    const char *text;
    void (*ref)(struct lane *l);
    unsigned flags;
};

static bool nan32(uint32_t u)
{
    return (u & 0x7fffffff) > 0x7f800000;
}

static bool nan16(uint32_t u)
{
    return (u & 0x7fff) > 0x7c00;
}

static bool same(uint64_t got, uint64_t want, unsigned flags)
{
    if (got == want) {
        return true;
    } else if ((flags & NAN64) != 0) {
        return (got & INT64_MAX) > 0x7ff0000000000000 && (want & INT64_MAX) > 0x7ff0000000000000;
    } else if ((flags & NAN16) != 0) {
        return got >> 16 == want >> 16 && nan16((uint32_t)got) && nan16((uint32_t)want);
    } else if ((flags & NANPK) != 0) {
        return got >> 32 == want >> 32 && ((got & 0xffff) == (want & 0xffff) || (nan16(got & 0xffff) && nan16(want & 0xffff))) &&
               ((got >> 16 & 0xffff) == (want >> 16 & 0xffff) || (nan16(got >> 16 & 0xffff) && nan16(want >> 16 & 0xffff)));
    } else if ((flags & NAN32) != 0) { /* each half that a row writes as f32 */
        return (got >> 32 == want >> 32 || (nan32((uint32_t)(got >> 32)) && nan32((uint32_t)(want >> 32)))) &&
               ((uint32_t)got == (uint32_t)want || (nan32((uint32_t)got) && nan32((uint32_t)want)));
    }
    return false;
}

static uint64_t lane64(const struct bench *b, unsigned reg, unsigned lane)
{
    return (uint64_t)b->registers[reg + 1][lane] << 32 | b->registers[reg][lane];
}

static void try_row(struct bench *b, const struct emu_inst *inst, const struct row *row)
{
    struct emu_wave *w = &b->wave;
    emu_lanes before[8];
    uint64_t exec = random_mask(), carry = rnd64(), sa = edge64(), sb = edge64(), mask_want = 0;

    for (unsigned reg = 0; reg < 8; reg += 2) {
        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            uint64_t value = edge64();

            b->registers[reg][lane] = (uint32_t)value;
            b->registers[reg + 1][lane] = (uint32_t)(value >> 32);
        }
    }
    memcpy(before, b->registers, sizeof(before));
    set_s64(w, EMU_EXEC, exec);
    set_s64(w, EMU_VCC, carry);
    set_s64(w, 10, carry);
    set_s64(w, 2, sa);
    set_s64(w, 4, sb);
    w->s[12] = 0x05040100; /* for v_perm_b32 */
    w->v_known[0] = 0;
    w->mode = (row->flags & FLUSH) != 0 ? 0x300 : 0x3f0;
    if (!bench_step(b, inst)) {
        TEST_FAIL("%s %s: refused", b->arch, row->text);
        return;
    }
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        struct lane l = {.sa = sa, .sb = sb, .carry = (carry >> lane & 1) != 0, .row = before[2], .lane = lane, .exec = exec};
        uint64_t got = lane64(b, 0, lane);

        l.d = l.r = (uint64_t)before[1][lane] << 32 | before[0][lane];
        l.a = (uint64_t)before[3][lane] << 32 | before[2][lane];
        l.b = (uint64_t)before[5][lane] << 32 | before[4][lane];
        l.c = (uint64_t)before[7][lane] << 32 | before[6][lane];
        row->ref(&l);
        if ((exec >> lane & 1) == 0) {
            l.r = l.d;
        } else if ((row->flags & MASK) != 0) {
            mask_want |= (uint64_t)l.carry << lane;
        }
        if (!same(got, l.r, row->flags)) {
            TEST_FAIL("%s %s: lane %u a %016llx b %016llx c %016llx d %016llx s %016llx %016llx carry %d: got %016llx, want %016llx", b->arch,
                      row->text, lane, (unsigned long long)l.a, (unsigned long long)l.b, (unsigned long long)l.c, (unsigned long long)l.d,
                      (unsigned long long)sa, (unsigned long long)sb, l.carry, (unsigned long long)got, (unsigned long long)l.r);
            return;
        }
    }
    if (memcmp(before[2], b->registers[2], 6 * sizeof(emu_lanes)) != 0) {
        TEST_FAIL("%s %s: wrote a source", b->arch, row->text);
    }
    if (get_s64(w, EMU_VCC) != ((row->flags & MASK) != 0 ? mask_want : carry)) {
        TEST_FAIL("%s %s: mask %016llx, want %016llx, exec %016llx", b->arch, row->text, (unsigned long long)get_s64(w, EMU_VCC),
                  (unsigned long long)mask_want, (unsigned long long)exec);
    }
    if (get_s64(w, EMU_EXEC) != ((row->flags & CMPX) != 0 ? mask_want : exec)) {
        TEST_FAIL("%s %s: exec %016llx", b->arch, row->text, (unsigned long long)get_s64(w, EMU_EXEC));
    }
}

static int lane_main(int argc, char **argv, const struct row *rows, size_t n)
{
    if (argc == 3 && strcmp(argv[1], "--asm") == 0) {
        print_asm_head(argv[2]);
        for (size_t i = 0; i < n; i++) {
            if ((rows[i].flags & ON_ALL) == 0 || (rows[i].flags & arch_bit(argv[2])) != 0) {
                printf("    %s\n", rows[i].text);
            }
        }
        print_asm_tail();
        return 0;
    }
    for (int file = 1; file < argc; file++) {
        struct bench b;

        bench_open(&b, argv[file]);
        for (size_t i = 0; i < n; i++) {
            const struct emu_inst *inst;

            if ((rows[i].flags & ON_ALL) != 0 && (rows[i].flags & arch_bit(b.arch)) == 0) {
                continue;
            }
            inst = bench_next(&b, rows[i].text);
            for (int trial = 0; trial < TRIALS; trial++) {
                try_row(&b, inst, &rows[i]);
            }
        }
        bench_close(&b);
    }
    printf("%zu instructions, %d code objects\n", n, argc - 1);
    return test_result();
}

#endif
