/* SPDX-License-Identifier: MIT
 *
 * Scalar instructions, branches, moves between lanes and scalar registers: results, SCC, EXEC and VCC as the ISA manuals say. */
#include "test_alu.h"

/* Registers of a trial: destination s[0:1], sources s[2:3] and s[4:5]; scc, exec and vcc are in and out. */
struct scalar {
    uint64_t a, b, d, r, exec, vcc;
    uint32_t scc;
    emu_lanes *v; /* v2 at [2] */
    uint32_t pc_after, at;
};

struct row {
    const char *text;
    void (*ref)(struct scalar *s);
};

static uint32_t A(const struct scalar *s)
{
    return (uint32_t)s->a;
}

static uint32_t B(const struct scalar *s)
{
    return (uint32_t)s->b;
}

static int64_t sext(uint64_t value, unsigned bits)
{
    return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static void put(struct scalar *s, uint64_t value)
{
    s->r = (s->d >> 32 << 32) | (uint32_t)value;
}

/* Result, and SCC where it says "not zero". */
static void put_nz(struct scalar *s, uint64_t value)
{
    put(s, value);
    s->scc = (uint32_t)value != 0;
}

static void put64_nz(struct scalar *s, uint64_t value)
{
    s->r = value;
    s->scc = value != 0;
}

static void put_exec(struct scalar *s, uint64_t exec)
{
    s->r = s->exec;
    s->exec = exec;
    s->scc = exec != 0;
}

static bool fits(int64_t value)
{
    return value >= INT32_MIN && value <= INT32_MAX;
}

#define R(name, ...)                       \
    static void name(struct scalar *s)     \
    {                                      \
        __VA_ARGS__                        \
    }

R(add_u, put(s, s->a + s->b); s->scc = (uint64_t)A(s) + B(s) > UINT32_MAX;)
R(sub_u, put(s, s->a - s->b); s->scc = B(s) > A(s);)
R(addc, uint64_t t = (uint64_t)A(s) + B(s) + s->scc; put(s, t); s->scc = t > UINT32_MAX;)
R(subb, int64_t t = (int64_t)A(s) - B(s) - s->scc; put(s, (uint64_t)t); s->scc = t < 0;)
R(add_i, int64_t t = sext(A(s), 32) + sext(B(s), 32); put(s, (uint64_t)t); s->scc = !fits(t);)
R(sub_i, int64_t t = sext(A(s), 32) - sext(B(s), 32); put(s, (uint64_t)t); s->scc = !fits(t);)
R(addk, int64_t t = sext(s->d, 32) - 100; put(s, (uint64_t)t); s->scc = !fits(t);)
R(mulk, put(s, (uint64_t)(sext(s->d, 32) * -100));)
R(movk, put(s, (uint64_t)-100);)
R(cmovk, if (s->scc) { put(s, (uint64_t)-100); })
R(cmov, if (s->scc) { put(s, A(s)); })
R(min_i, int64_t a = sext(A(s), 32); int64_t b = sext(B(s), 32); put(s, (uint64_t)(a < b ? a : b)); s->scc = a < b;)
R(max_u, put(s, A(s) > B(s) ? A(s) : B(s)); s->scc = A(s) > B(s);)
R(cselect, put(s, s->scc ? A(s) : B(s));)
R(cselect64, s->r = s->scc ? s->a : s->b;)
R(cselect_c, s->r = s->scc ? UINT64_MAX : 0;)
R(and64, put64_nz(s, s->a & s->b);)
R(and32, put_nz(s, s->a & s->b);)
R(or64, put64_nz(s, s->a | s->b);)
R(xor64_ones, put64_nz(s, ~s->a);)
R(andn2, put64_nz(s, s->a & ~s->b);)
R(orn2, put_nz(s, s->a | ~s->b);)
R(nand, put64_nz(s, ~(s->a & s->b));)
R(nor, put64_nz(s, ~(s->a | s->b));)
R(xnor, put_nz(s, ~(s->a ^ s->b));)
R(shl, put_nz(s, (uint64_t)A(s) << B(s) % 32);)
R(shl64, put64_nz(s, s->a << B(s) % 64);)
R(shr64, put64_nz(s, s->a >> B(s) % 64);)
R(sar, put_nz(s, (uint64_t)(sext(A(s), 32) >> B(s) % 32));)
R(sar64, put64_nz(s, (uint64_t)((int64_t)s->a >> B(s) % 64));)
R(bfe, unsigned from = B(s) & 31; unsigned n = B(s) >> 16 & 127; uint32_t r = 0; for (unsigned k = 0; k < n && from + k < 32; k++) {
  r |= (A(s) >> (from + k) & 1) << k; } put_nz(s, r);)
R(bfe_field, put_nz(s, A(s) >> 8 & 0xffff);)
R(bfei_field, put_nz(s, (uint64_t)sext(A(s) >> 8, 12));)
R(bfe64_field, put64_nz(s, s->a >> 20 & 0xfffffffff);)
R(bfm, uint32_t r = 0; for (unsigned k = 0; k < A(s) % 32; k++) { r |= (uint32_t)(1ull << (k + B(s) % 32)); } put(s, r);)
R(mul, put(s, (uint64_t)A(s) * B(s));)
R(mulhi, put(s, (uint64_t)A(s) * B(s) >> 32);)
R(mulhi_i, put(s, (uint64_t)(sext(A(s), 32) * sext(B(s), 32)) >> 32);)
R(absdiff, int64_t t = sext(A(s), 32) - sext(B(s), 32); uint32_t u = (uint32_t)t; put_nz(s, (int32_t)u < 0 ? 0 - u : u);)
R(lshl3_add, uint64_t t = ((uint64_t)A(s) << 3) + B(s); put(s, t); s->scc = t > UINT32_MAX;)
R(pack_lh, put(s, (s->a & 0xffff) | (s->b & 0xffff0000));)
R(mov64, s->r = s->a;)
R(mov64_lit, s->r = 0xfffff000;)
R(mov64_minus, s->r = (uint64_t)-5;)
R(mov64_half, s->r = 0x3fe0000000000000;)
R(not32, put_nz(s, ~s->a);)
R(brev, uint32_t r = 0; for (int k = 0; k < 32; k++) { r = r << 1 | (A(s) >> k & 1); } put(s, r);)
R(bcnt64, uint32_t n = 0; for (int k = 0; k < 64; k++) { n += s->a >> k & 1; } put_nz(s, n);)
R(bcnt0, uint32_t n = 0; for (int k = 0; k < 32; k++) { n += !(s->a >> k & 1); } put_nz(s, n);)
R(ff1, int k = 0; while (k < 32 && !(A(s) >> k & 1)) { k++; } put(s, k == 32 ? UINT32_MAX : (uint32_t)k);)
R(ff1_64, int k = 0; while (k < 64 && !(s->a >> k & 1)) { k++; } put(s, k == 64 ? UINT32_MAX : (uint32_t)k);)
R(flbit, int k = 0; while (k < 32 && !(A(s) >> (31 - k) & 1)) { k++; } put(s, k == 32 ? UINT32_MAX : (uint32_t)k);)
R(sext8, put(s, (uint64_t)sext(s->a, 8));)
R(bitset1, put(s, s->d | 1ull << A(s) % 32);)
R(bitset0, put(s, s->d & ~(1ull << A(s) % 32));)
R(abs_, uint32_t u = A(s); put_nz(s, u >> 31 ? 0 - u : u);)
R(and_save, put_exec(s, s->a & s->exec);)
R(or_save, put_exec(s, s->a | s->exec);)
R(xor_save, put_exec(s, s->a ^ s->exec);)
R(andn2_save, put_exec(s, s->a & ~s->exec);)
R(andn1_save, put_exec(s, ~s->a & s->exec);)
R(andn1_wr, put_exec(s, ~s->a & s->exec); s->r = s->exec;)
R(or_exec, s->exec |= s->a; s->scc = s->exec != 0;)
R(mov_vcc, s->vcc = s->a;)
R(cmp_lt_i, s->scc = sext(A(s), 32) < sext(B(s), 32);)
R(cmp_ge_u, s->scc = A(s) >= B(s);)
R(cmp_eq, s->scc = A(s) == B(s);)
R(cmp_lg64, s->scc = s->a != s->b;)
R(cmpk_gt_u, s->scc = A(s) > 0xfff0;)
R(cmpk_lt_i, s->scc = sext(A(s), 32) < -16;)
R(bitcmp1, s->scc = A(s) >> B(s) % 32 & 1;)
R(bitcmp0, s->scc = !(A(s) >> B(s) % 32 & 1);)
R(scc_source, put(s, s->scc);)
R(jump, s->pc_after = s->at + 4 + 4 * 5;)
R(jump_scc1, if (s->scc) { s->pc_after = s->at + 4 + 4 * 5; })
R(jump_scc0, if (!s->scc) { s->pc_after = s->at + 4 - 4 * 3; })
R(jump_vccz, if (s->vcc == 0) { s->pc_after = s->at + 4 + 4 * 5; })
R(jump_vccnz, if (s->vcc != 0) { s->pc_after = s->at + 4 + 4 * 5; })
R(jump_execz, if (s->exec == 0) { s->pc_after = s->at + 4 + 4 * 5; })
R(jump_execnz, if (s->exec != 0) { s->pc_after = s->at + 4 + 4 * 5; })
R(nothing, (void)s;)
R(first_lane, int k = 0; while (k < 63 && !(s->exec >> k & 1)) { k++; } put(s, s->v[2][s->exec == 0 ? 0 : k]);)
R(read_lane, put(s, s->v[2][B(s) % 64]);)
R(read_lane_c, put(s, s->v[2][17]);)
R(mode_denormals, put(s, 3);)

static const struct row rows[] = {
    {"s_add_u32 s0, s2, s4", add_u}, {"s_sub_u32 s0, s2, s4", sub_u}, {"s_addc_u32 s0, s2, s4", addc}, {"s_subb_u32 s0, s2, s4", subb},
    {"s_add_i32 s0, s2, s4", add_i}, {"s_sub_i32 s0, s2, s4", sub_i}, {"s_addk_i32 s0, 0xff9c", addk}, {"s_mulk_i32 s0, 0xff9c", mulk},
    {"s_movk_i32 s0, 0xff9c", movk}, {"s_cmovk_i32 s0, 0xff9c", cmovk}, {"s_cmov_b32 s0, s2", cmov}, {"s_min_i32 s0, s2, s4", min_i},
    {"s_max_u32 s0, s2, s4", max_u}, {"s_cselect_b32 s0, s2, s4", cselect}, {"s_cselect_b64 s[0:1], s[2:3], s[4:5]", cselect64},
    {"s_cselect_b64 s[0:1], -1, 0", cselect_c}, {"s_and_b64 s[0:1], s[2:3], s[4:5]", and64}, {"s_and_b32 s0, s2, s4", and32},
    {"s_or_b64 s[0:1], s[2:3], s[4:5]", or64}, {"s_xor_b64 s[0:1], s[2:3], -1", xor64_ones}, {"s_andn2_b64 s[0:1], s[2:3], s[4:5]", andn2},
    {"s_orn2_b32 s0, s2, s4", orn2}, {"s_nand_b64 s[0:1], s[2:3], s[4:5]", nand}, {"s_nor_b64 s[0:1], s[2:3], s[4:5]", nor},
    {"s_xnor_b32 s0, s2, s4", xnor}, {"s_lshl_b32 s0, s2, s4", shl}, {"s_lshl_b64 s[0:1], s[2:3], s4", shl64},
    {"s_lshr_b64 s[0:1], s[2:3], s4", shr64}, {"s_ashr_i32 s0, s2, s4", sar}, {"s_ashr_i64 s[0:1], s[2:3], s4", sar64},
    {"s_bfe_u32 s0, s2, s4", bfe}, {"s_bfe_u32 s0, s2, 0x100008", bfe_field}, {"s_bfe_i32 s0, s2, 0xc0008", bfei_field},
    {"s_bfe_u64 s[0:1], s[2:3], 0x240014", bfe64_field}, {"s_bfm_b32 s0, s2, s4", bfm}, {"s_mul_i32 s0, s2, s4", mul},
    {"s_mul_hi_u32 s0, s2, s4", mulhi}, {"s_mul_hi_i32 s0, s2, s4", mulhi_i}, {"s_absdiff_i32 s0, s2, s4", absdiff},
    {"s_lshl3_add_u32 s0, s2, s4", lshl3_add}, {"s_pack_lh_b32_b16 s0, s2, s4", pack_lh}, {"s_mov_b64 s[0:1], s[2:3]", mov64},
    {"s_mov_b64 s[0:1], 0xfffff000", mov64_lit}, {"s_mov_b64 s[0:1], -5", mov64_minus}, {"s_mov_b64 s[0:1], 0.5", mov64_half},
    {"s_not_b32 s0, s2", not32}, {"s_brev_b32 s0, s2", brev}, {"s_bcnt1_i32_b64 s0, s[2:3]", bcnt64}, {"s_bcnt0_i32_b32 s0, s2", bcnt0},
    {"s_ff1_i32_b32 s0, s2", ff1}, {"s_ff1_i32_b64 s0, s[2:3]", ff1_64}, {"s_flbit_i32_b32 s0, s2", flbit}, {"s_sext_i32_i8 s0, s2", sext8},
    {"s_bitset1_b32 s0, s2", bitset1}, {"s_bitset0_b32 s0, s2", bitset0}, {"s_abs_i32 s0, s2", abs_},
    {"s_and_saveexec_b64 s[0:1], s[2:3]", and_save}, {"s_or_saveexec_b64 s[0:1], s[2:3]", or_save},
    {"s_xor_saveexec_b64 s[0:1], s[2:3]", xor_save}, {"s_andn2_saveexec_b64 s[0:1], s[2:3]", andn2_save},
    {"s_andn1_saveexec_b64 s[0:1], s[2:3]", andn1_save}, {"s_andn1_wrexec_b64 s[0:1], s[2:3]", andn1_wr}, {"s_or_b64 exec, exec, s[2:3]", or_exec},
    {"s_mov_b64 vcc, s[2:3]", mov_vcc}, {"s_cmp_lt_i32 s2, s4", cmp_lt_i}, {"s_cmp_ge_u32 s2, s4", cmp_ge_u}, {"s_cmp_eq_u32 s2, s4", cmp_eq},
    {"s_cmp_lg_u64 s[2:3], s[4:5]", cmp_lg64}, {"s_cmpk_gt_u32 s2, 0xfff0", cmpk_gt_u}, {"s_cmpk_lt_i32 s2, 0xfff0", cmpk_lt_i},
    {"s_bitcmp1_b32 s2, s4", bitcmp1}, {"s_bitcmp0_b32 s2, s4", bitcmp0}, {"s_mov_b32 s0, src_scc", scc_source}, {"s_branch 5", jump},
    {"s_cbranch_scc1 5", jump_scc1}, {"s_cbranch_scc0 0xfffd", jump_scc0}, {"s_cbranch_vccz 5", jump_vccz}, {"s_cbranch_vccnz 5", jump_vccnz},
    {"s_cbranch_execz 5", jump_execz}, {"s_cbranch_execnz 5", jump_execnz}, {"s_nop 3", nothing}, {"s_setprio 1", nothing},
    {"v_readfirstlane_b32 s0, v2", first_lane}, {"v_readlane_b32 s0, v2, s4", read_lane}, {"v_readlane_b32 s0, v2, 17", read_lane_c},
    {"s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 2)", mode_denormals},
};

static void try_row(struct bench *b, const struct emu_inst *inst, const struct row *row)
{
    struct emu_wave *w = &b->wave;
    struct scalar s = {.a = edge64(), .b = edge64(), .d = edge64(), .exec = random_mask(), .vcc = random_mask(), .scc = rnd() & 1, .v = b->registers};
    uint32_t others[EMU_NUM_SGPRS];

    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        b->registers[2][lane] = rnd();
    }
    if (rnd() % 4 == 0) {
        s.b = s.a;
    }
    for (unsigned k = 0; k < EMU_NUM_SGPRS; k++) {
        w->s[k] = rnd();
    }
    set_s64(w, 0, s.d);
    set_s64(w, 2, s.a);
    set_s64(w, 4, s.b);
    set_s64(w, EMU_EXEC, s.exec);
    set_s64(w, EMU_VCC, s.vcc);
    w->s_known[EMU_VCC / 64] |= 3ull << EMU_VCC % 64;
    w->scc = s.scc;
    w->mode = 0x3f0;
    memcpy(others, w->s, sizeof(others));
    s.r = s.d;
    s.at = inst->pc;
    s.pc_after = inst->pc + inst->bytes;
    row->ref(&s);
    if (!bench_step(b, inst)) {
        TEST_FAIL("%s %s: refused", b->arch, row->text);
        return;
    }
    if (get_s64(w, 0) != s.r || w->scc != s.scc || get_s64(w, EMU_EXEC) != s.exec || get_s64(w, EMU_VCC) != s.vcc || w->pc != s.pc_after) {
        TEST_FAIL("%s %s: a %016llx b %016llx d %016llx: got %016llx scc %u exec %016llx vcc %016llx pc %u, want %016llx scc %u exec %016llx vcc %016llx "
                  "pc %u", b->arch, row->text, (unsigned long long)s.a, (unsigned long long)s.b, (unsigned long long)s.d,
                  (unsigned long long)get_s64(w, 0), w->scc, (unsigned long long)get_s64(w, EMU_EXEC), (unsigned long long)get_s64(w, EMU_VCC), w->pc,
                  (unsigned long long)s.r, s.scc, (unsigned long long)s.exec, (unsigned long long)s.vcc, s.pc_after);
    }
    for (unsigned k = 2; k < EMU_NUM_SGPRS; k++) {
        if (k != EMU_VCC && k != EMU_VCC + 1 && k < EMU_EXEC && others[k] != w->s[k]) {
            TEST_FAIL("%s %s: wrote s%u", b->arch, row->text, k);
        }
    }
}

/* What needs more than one instruction: addresses of the program counter, mbcnt, writelane, swaps, the mode register. */
static const char tail[] = "    s_getpc_b64 s[0:1]\n    s_setpc_b64 s[2:3]\n    v_mbcnt_lo_u32_b32 v0, s2, 7\n    v_mbcnt_hi_u32_b32 v1, s3, v0\n"
                           "    v_writelane_b32 v2, s2, m0\n    v_swap_b32 v2, v4\n    s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0\n"
                           "    s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1\n";

static const struct emu_inst *tail_step(struct bench *b, bool fine)
{
    const struct emu_inst *inst = bench_next(b, "tail");

    if (bench_step(b, inst) != fine) {
        TEST_FAIL("%s %s: %s", b->arch, inst->text, fine ? "refused" : "not refused");
    }
    return inst;
}

static void check_tail(struct bench *b)
{
    struct emu_wave *w = &b->wave;
    const struct emu_inst *inst = tail_step(b, true);
    uint32_t next = w->pc;
    emu_lanes old2, old4;
    uint64_t mask = rnd64(), exec = 0xffff0000ffff0000u;

    TEST_CHECK(get_s64(w, 0) == (uint64_t)(uintptr_t)b->program->text + inst->pc + 4);
    set_s64(w, 2, (uint64_t)(uintptr_t)b->program->text + 64);
    inst = tail_step(b, true);
    TEST_EQ(w->pc, 64);
    w->pc = next + 4;

    set_s64(w, EMU_EXEC, ~0ull);
    set_s64(w, 2, mask);
    tail_step(b, true);
    tail_step(b, true);
    for (unsigned lane = 0, n = 0; lane < EMU_LANES; lane++) {
        TEST_EQ(b->registers[1][lane], 7 + n);
        n += mask >> lane & 1;
    }
    set_s64(w, EMU_EXEC, 0); /* v_writelane ignores it */
    w->s[EMU_M0] = 64 + 9;
    memcpy(old2, b->registers[2], sizeof(old2));
    old2[9] = w->s[2];
    tail_step(b, true);
    TEST_CHECK(memcmp(old2, b->registers[2], sizeof(old2)) == 0);
    set_s64(w, EMU_EXEC, exec);
    memcpy(old4, b->registers[4], sizeof(old4));
    tail_step(b, true);
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        bool active = (exec >> lane & 1) != 0;

        TEST_EQ(b->registers[2][lane], active ? old4[lane] : old2[lane]);
        TEST_EQ(b->registers[4][lane], active ? old2[lane] : old4[lane]);
    }
    tail_step(b, true);
    TEST_EQ(w->mode, 0x300);
    tail_step(b, false); /* other roundings are not implemented */
}

int main(int argc, char **argv)
{
    size_t n = sizeof(rows) / sizeof(rows[0]);

    if (argc == 3 && strcmp(argv[1], "--asm") == 0) {
        print_asm_head(argv[2]);
        for (size_t i = 0; i < n; i++) {
            printf("    %s\n", rows[i].text);
        }
        printf("%s", tail);
        print_asm_tail();
        return 0;
    }
    for (int file = 1; file < argc; file++) {
        struct bench b;

        bench_open(&b, argv[file]);
        for (size_t i = 0; i < n; i++) {
            const struct emu_inst *inst = bench_next(&b, rows[i].text);

            for (int trial = 0; trial < 8 * TRIALS; trial++) {
                try_row(&b, inst, &rows[i]);
            }
            b.wave.pc = inst->pc + inst->bytes;
        }
        check_tail(&b);
        bench_close(&b);
    }
    printf("%zu instructions, %d code objects\n", n, argc - 1);
    return test_result();
}
