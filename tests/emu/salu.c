/* SPDX-License-Identifier: MIT
 *
 * Scalar instructions (SOP1, SOP2, SOPC, SOPK): what they compute and when SCC is set, after the "Instinct MI200/MI300 Instruction Set
 * Architecture" manuals, chapter "Scalar ALU Operations". */
#include "salu.h"

/* One function an instruction: a, b are the sources, r the result, scc what SCC becomes (an expression that may be w->scc: unchanged). */
#define SOP2_32(name, expression, scc_expression)                                                            \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        const uint32_t a = emu_src32(w, &i->ops[1]), b = emu_src32(w, &i->ops[2]), r = (uint32_t)(expression); \
                                                                                                             \
        (void)a, (void)b;                                                                                    \
        w->scc = (scc_expression);                                                                           \
        emu_write_s(w, i->ops[0].index, r);                                                                  \
        return true;                                                                                         \
    }

#define SOP2_64(name, expression, scc_expression)                                                            \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        const uint64_t a = emu_src64(w, &i->ops[1]), b = emu_src64(w, &i->ops[2]), r = (uint64_t)(expression); \
                                                                                                             \
        (void)a, (void)b;                                                                                    \
        w->scc = (scc_expression);                                                                           \
        emu_write_s64(w, i->ops[0].index, r);                                                                \
        return true;                                                                                         \
    }

/* 64-bit first source, 32-bit second one: shifts and bit fields. */
#define SOP2_64_32(name, expression, scc_expression)                                                         \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        const uint64_t a = emu_src64(w, &i->ops[1]);                                                         \
        const uint32_t b = emu_src32(w, &i->ops[2]);                                                         \
        const uint64_t r = (uint64_t)(expression);                                                           \
                                                                                                             \
        w->scc = (scc_expression);                                                                           \
        emu_write_s64(w, i->ops[0].index, r);                                                                \
        return true;                                                                                         \
    }

#define SOP1_32(name, expression, scc_expression)                                                            \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        const uint32_t a = emu_src32(w, &i->ops[1]), d = w->s[i->ops[0].index], r = (uint32_t)(expression);   \
                                                                                                             \
        (void)a, (void)d;                                                                                    \
        w->scc = (scc_expression);                                                                           \
        emu_write_s(w, i->ops[0].index, r);                                                                  \
        return true;                                                                                         \
    }

#define SOP1_64(name, expression, scc_expression)                                                            \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        const uint64_t a = emu_src64(w, &i->ops[1]), d = (uint64_t)w->s[i->ops[0].index + 1] << 32 | w->s[i->ops[0].index]; \
        const uint64_t r = (uint64_t)(expression);                                                           \
                                                                                                             \
        (void)a, (void)d;                                                                                    \
        w->scc = (scc_expression);                                                                           \
        emu_write_s64(w, i->ops[0].index, r);                                                                \
        return true;                                                                                         \
    }

/* 64-bit source, 32-bit result. */
#define SOP1_32_64(name, expression, scc_expression)                                                         \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        const uint64_t a = emu_src64(w, &i->ops[1]);                                                         \
        const uint32_t r = (uint32_t)(expression);                                                           \
                                                                                                             \
        w->scc = (scc_expression);                                                                           \
        emu_write_s(w, i->ops[0].index, r);                                                                  \
        return true;                                                                                         \
    }

/* D = EXEC, EXEC = expression of a and the old EXEC e; wrexec forms write the new EXEC to D. */
#define SAVEEXEC(name, expression, written)                                                                  \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        const uint64_t a = emu_src64(w, &i->ops[1]), e = emu_exec_mask(w), r = (expression);                 \
                                                                                                             \
        emu_write_s64(w, i->ops[0].index, (written));                                                        \
        emu_write_s64(w, EMU_EXEC, r);                                                                       \
        w->scc = r != 0;                                                                                     \
        return true;                                                                                         \
    }

#define SOPC(name, type, source, expression)                                                                 \
    static bool name(struct emu_wave *w, const struct emu_inst *i)                                           \
    {                                                                                                        \
        const type a = (type)source(w, &i->ops[0]), b = (type)source(w, &i->ops[1]);                         \
                                                                                                             \
        w->scc = (expression);                                                                               \
        return true;                                                                                         \
    }

#define NONZERO (r != 0)
#define KEEP (w->scc)

static uint32_t high_u(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

static uint32_t high_i(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)((int64_t)(int32_t)a * (int32_t)b) >> 32);
}

/* Arithmetic shifts: gcc and clang shift negative numbers as the machine does. */
static uint32_t ashr32(uint32_t a, uint32_t by)
{
    return (uint32_t)((int32_t)a >> (by & 31));
}

static uint64_t ashr64(uint64_t a, uint32_t by)
{
    return (uint64_t)((int64_t)a >> (by & 63));
}

static uint64_t field64(uint64_t a, uint32_t b, unsigned bits, bool sign)
{
    unsigned offset = b & (bits - 1), width = b >> 16 & 127;

    a >>= offset;
    width = width > bits - offset ? bits - offset : width; /* what lies above the register is zero, or its sign */
    if (width == 0) {
        return 0;
    }
    a <<= 64 - width;
    return sign ? ashr64(a, 64 - width) : a >> (64 - width);
}

static uint64_t reverse64(uint64_t a)
{
    uint64_t r = 0;

    for (int i = 0; i < 64; i++) {
        r |= (a >> i & 1) << (63 - i);
    }
    return r;
}

static uint64_t quads(uint64_t a, bool whole)
{
    uint64_t r = 0;

    for (int i = 0; i < 16; i++) {
        if ((a >> 4 * i & 15) != 0) {
            r |= whole ? 15ull << 4 * i : 1ull << i;
        }
    }
    return r;
}

/* Number of the first bit, from below or above; -1: none. */
static uint32_t first_bit(uint64_t a)
{
    return a == 0 ? UINT32_MAX : (uint32_t)__builtin_ctzll(a);
}

static uint32_t leading(uint64_t a, unsigned bits)
{
    return a == 0 ? UINT32_MAX : (uint32_t)__builtin_clzll(a) - (64 - bits);
}

/* Leading bits equal to the sign bit; -1: all are. */
static uint32_t leading_sign(int64_t a, unsigned bits)
{
    return leading((uint64_t)(a < 0 ? ~a : a), bits);
}

SOP2_32(add_u32, a + b, r < a)
SOP2_32(sub_u32, a - b, b > a)
SOP2_32(addc_u32, a + b + w->scc, (uint64_t)a + b + w->scc > UINT32_MAX)
SOP2_32(subb_u32, a - b - w->scc, (uint64_t)b + w->scc > a)
SOP2_32(add_i32, a + b, ((a ^ r) & (b ^ r)) >> 31)
SOP2_32(sub_i32, a - b, ((a ^ b) & (a ^ r)) >> 31)
SOP2_32(min_i32, (int32_t)a < (int32_t)b ? a : b, (int32_t)a < (int32_t)b)
SOP2_32(min_u32, a < b ? a : b, a < b)
SOP2_32(max_i32, (int32_t)a > (int32_t)b ? a : b, (int32_t)a > (int32_t)b)
SOP2_32(max_u32, a > b ? a : b, a > b)
SOP2_32(cselect_b32, w->scc ? a : b, KEEP)
SOP2_64(cselect_b64, w->scc ? a : b, KEEP)
SOP2_32(and_b32, a & b, NONZERO)
SOP2_64(and_b64, a & b, NONZERO)
SOP2_32(or_b32, a | b, NONZERO)
SOP2_64(or_b64, a | b, NONZERO)
SOP2_32(xor_b32, a ^ b, NONZERO)
SOP2_64(xor_b64, a ^ b, NONZERO)
SOP2_32(andn2_b32, a & ~b, NONZERO)
SOP2_64(andn2_b64, a & ~b, NONZERO)
SOP2_32(orn2_b32, a | ~b, NONZERO)
SOP2_64(orn2_b64, a | ~b, NONZERO)
SOP2_32(nand_b32, ~(a & b), NONZERO)
SOP2_64(nand_b64, ~(a & b), NONZERO)
SOP2_32(nor_b32, ~(a | b), NONZERO)
SOP2_64(nor_b64, ~(a | b), NONZERO)
SOP2_32(xnor_b32, ~(a ^ b), NONZERO)
SOP2_64(xnor_b64, ~(a ^ b), NONZERO)
SOP2_32(lshl_b32, a << (b & 31), NONZERO)
SOP2_64_32(lshl_b64, a << (b & 63), NONZERO)
SOP2_32(lshr_b32, a >> (b & 31), NONZERO)
SOP2_64_32(lshr_b64, a >> (b & 63), NONZERO)
SOP2_32(ashr_i32, ashr32(a, b), NONZERO)
SOP2_64_32(ashr_i64, ashr64(a, b), NONZERO)
SOP2_32(bfm_b32, ((1u << (a & 31)) - 1) << (b & 31), KEEP)
SOP2_32(mul_i32, a * b, KEEP)
SOP2_32(mul_hi_u32, high_u(a, b), KEEP)
SOP2_32(mul_hi_i32, high_i(a, b), KEEP)
SOP2_32(bfe_u32, field64(a, b, 32, false), NONZERO)
SOP2_32(bfe_i32, field64((uint64_t)(int64_t)(int32_t)a, b, 32, true), NONZERO)
SOP2_64_32(bfe_u64, field64(a, b, 64, false), NONZERO)
SOP2_64_32(bfe_i64, field64(a, b, 64, true), NONZERO)
SOP2_32(absdiff_i32, (int32_t)(a - b) < 0 ? b - a : a - b, NONZERO)
SOP2_32(lshl1_add_u32, (a << 1) + b, ((uint64_t)a << 1) + b > UINT32_MAX)
SOP2_32(lshl2_add_u32, (a << 2) + b, ((uint64_t)a << 2) + b > UINT32_MAX)
SOP2_32(lshl3_add_u32, (a << 3) + b, ((uint64_t)a << 3) + b > UINT32_MAX)
SOP2_32(lshl4_add_u32, (a << 4) + b, ((uint64_t)a << 4) + b > UINT32_MAX)
SOP2_32(pack_ll, (a & 0xffff) | b << 16, KEEP)
SOP2_32(pack_lh, (a & 0xffff) | (b & 0xffff0000), KEEP)
SOP2_32(pack_hh, a >> 16 | (b & 0xffff0000), KEEP)

static bool bfm_b64(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t a = emu_src32(w, &i->ops[1]), b = emu_src32(w, &i->ops[2]);

    emu_write_s64(w, i->ops[0].index, ((1ull << (a & 63)) - 1) << (b & 63));
    return true;
}

SOP1_32(mov_b32, a, KEEP)
SOP1_64(mov_b64, a, KEEP)
SOP1_32(cmov_b32, w->scc ? a : d, KEEP)
SOP1_64(cmov_b64, w->scc ? a : d, KEEP)
SOP1_32(not_b32, ~a, NONZERO)
SOP1_64(not_b64, ~a, NONZERO)
SOP1_32(wqm_b32, quads(a, true), NONZERO)
SOP1_64(wqm_b64, quads(a, true), NONZERO)
SOP1_32(quadmask_b32, quads(a, false), NONZERO)
SOP1_64(quadmask_b64, quads(a, false), NONZERO)
SOP1_32(brev_b32, reverse64(a) >> 32, KEEP)
SOP1_64(brev_b64, reverse64(a), KEEP)
SOP1_32(bcnt0_b32, 32 - __builtin_popcount(a), NONZERO)
SOP1_32_64(bcnt0_b64, 64 - __builtin_popcountll(a), NONZERO)
SOP1_32(bcnt1_b32, __builtin_popcount(a), NONZERO)
SOP1_32_64(bcnt1_b64, __builtin_popcountll(a), NONZERO)
SOP1_32(ff0_b32, first_bit((uint32_t)~a), KEEP)
SOP1_32_64(ff0_b64, first_bit(~a), KEEP)
SOP1_32(ff1_b32, first_bit(a), KEEP)
SOP1_32_64(ff1_b64, first_bit(a), KEEP)
SOP1_32(flbit_b32, leading(a, 32), KEEP)
SOP1_32_64(flbit_b64, leading(a, 64), KEEP)
SOP1_32(flbit_i32, leading_sign((int32_t)a, 32), KEEP)
SOP1_32_64(flbit_i64, leading_sign((int64_t)a, 64), KEEP)
SOP1_32(sext_i8, (int32_t)(int8_t)a, KEEP)
SOP1_32(sext_i16, (int32_t)(int16_t)a, KEEP)
SOP1_32(bitset0_b32, d & ~(1u << (a & 31)), KEEP)
SOP1_32(bitset1_b32, d | 1u << (a & 31), KEEP)
SOP1_32(abs_i32, (int32_t)a < 0 ? 0 - a : a, NONZERO)
/* SOPK: the constant is sign-extended already; unsigned comparisons take its low half. */
SOP1_32(addk_i32, d + a, ((d ^ r) & (a ^ r)) >> 31)
SOP1_32(mulk_i32, d * a, KEEP)

static bool bitset_b64(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_operand d = i->ops[0];
    uint64_t bit = 1ull << (emu_src32(w, &i->ops[1]) & 63), old = emu_src64(w, &d);

    emu_write_s64(w, d.index, i->sub ? old | bit : old & ~bit);
    return true;
}

static bool bitreplicate(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t a = emu_src32(w, &i->ops[1]);
    uint64_t r = 0;

    for (int bit = 0; bit < 32; bit++) {
        r |= (a >> bit & 1) * (3ull << 2 * bit);
    }
    emu_write_s64(w, i->ops[0].index, r);
    return true;
}

SAVEEXEC(and_saveexec, a & e, e)
SAVEEXEC(or_saveexec, a | e, e)
SAVEEXEC(xor_saveexec, a ^ e, e)
SAVEEXEC(andn2_saveexec, a & ~e, e)
SAVEEXEC(orn2_saveexec, a | ~e, e)
SAVEEXEC(nand_saveexec, ~(a & e), e)
SAVEEXEC(nor_saveexec, ~(a | e), e)
SAVEEXEC(xnor_saveexec, ~(a ^ e), e)
SAVEEXEC(andn1_saveexec, ~a & e, e)
SAVEEXEC(orn1_saveexec, ~a | e, e)
SAVEEXEC(andn1_wrexec, ~a & e, r)
SAVEEXEC(andn2_wrexec, a & ~e, r)

SOPC(eq_32, uint32_t, emu_src32, a == b)
SOPC(lg_32, uint32_t, emu_src32, a != b)
SOPC(gt_i32, int32_t, emu_src32, a > b)
SOPC(ge_i32, int32_t, emu_src32, a >= b)
SOPC(lt_i32, int32_t, emu_src32, a < b)
SOPC(le_i32, int32_t, emu_src32, a <= b)
SOPC(gt_u32, uint32_t, emu_src32, a > b)
SOPC(ge_u32, uint32_t, emu_src32, a >= b)
SOPC(lt_u32, uint32_t, emu_src32, a < b)
SOPC(le_u32, uint32_t, emu_src32, a <= b)
SOPC(eq_u64, uint64_t, emu_src64, a == b)
SOPC(lg_u64, uint64_t, emu_src64, a != b)
SOPC(bitcmp0_b32, uint32_t, emu_src32, (a >> (b & 31) & 1) == 0)
SOPC(bitcmp1_b32, uint32_t, emu_src32, a >> (b & 31) & 1)
SOPC(eqk_u32, uint32_t, emu_src32, a == (b & 0xffff))
SOPC(lgk_u32, uint32_t, emu_src32, a != (b & 0xffff))
SOPC(gtk_u32, uint32_t, emu_src32, a > (b & 0xffff))
SOPC(gek_u32, uint32_t, emu_src32, a >= (b & 0xffff))
SOPC(ltk_u32, uint32_t, emu_src32, a < (b & 0xffff))
SOPC(lek_u32, uint32_t, emu_src32, a <= (b & 0xffff))

static bool bitcmp_b64(struct emu_wave *w, const struct emu_inst *i)
{
    w->scc = (emu_src64(w, &i->ops[0]) >> (emu_src32(w, &i->ops[1]) & 63) & 1) == i->sub;
    return true;
}

#define ROW(name, function) {"s_" name, function, EMU_SALU, 0, 0, 0}

const struct emu_op emu_ops_salu[] = {
    ROW("add_u32", add_u32), ROW("sub_u32", sub_u32), ROW("addc_u32", addc_u32), ROW("subb_u32", subb_u32), ROW("add_i32", add_i32),
    ROW("sub_i32", sub_i32), ROW("min_i32", min_i32), ROW("min_u32", min_u32), ROW("max_i32", max_i32), ROW("max_u32", max_u32),
    ROW("cselect_b32", cselect_b32), ROW("cselect_b64", cselect_b64), ROW("and_b32", and_b32), ROW("and_b64", and_b64),
    ROW("or_b32", or_b32), ROW("or_b64", or_b64), ROW("xor_b32", xor_b32), ROW("xor_b64", xor_b64), ROW("andn2_b32", andn2_b32),
    ROW("andn2_b64", andn2_b64), ROW("orn2_b32", orn2_b32), ROW("orn2_b64", orn2_b64), ROW("nand_b32", nand_b32),
    ROW("nand_b64", nand_b64), ROW("nor_b32", nor_b32), ROW("nor_b64", nor_b64), ROW("xnor_b32", xnor_b32), ROW("xnor_b64", xnor_b64),
    ROW("lshl_b32", lshl_b32), ROW("lshl_b64", lshl_b64), ROW("lshr_b32", lshr_b32), ROW("lshr_b64", lshr_b64), ROW("ashr_i32", ashr_i32),
    ROW("ashr_i64", ashr_i64), ROW("bfm_b32", bfm_b32), ROW("bfm_b64", bfm_b64), ROW("mul_i32", mul_i32), ROW("mul_hi_u32", mul_hi_u32),
    ROW("mul_hi_i32", mul_hi_i32), ROW("bfe_u32", bfe_u32), ROW("bfe_i32", bfe_i32), ROW("bfe_u64", bfe_u64), ROW("bfe_i64", bfe_i64),
    ROW("absdiff_i32", absdiff_i32), ROW("lshl1_add_u32", lshl1_add_u32), ROW("lshl2_add_u32", lshl2_add_u32),
    ROW("lshl3_add_u32", lshl3_add_u32), ROW("lshl4_add_u32", lshl4_add_u32), ROW("pack_ll_b32_b16", pack_ll),
    ROW("pack_lh_b32_b16", pack_lh), ROW("pack_hh_b32_b16", pack_hh), ROW("mov_b32", mov_b32), ROW("mov_b64", mov_b64),
    ROW("cmov_b32", cmov_b32), ROW("cmov_b64", cmov_b64), ROW("not_b32", not_b32), ROW("not_b64", not_b64), ROW("wqm_b32", wqm_b32),
    ROW("wqm_b64", wqm_b64), ROW("quadmask_b32", quadmask_b32), ROW("quadmask_b64", quadmask_b64), ROW("brev_b32", brev_b32),
    ROW("brev_b64", brev_b64), ROW("bcnt0_i32_b32", bcnt0_b32), ROW("bcnt0_i32_b64", bcnt0_b64), ROW("bcnt1_i32_b32", bcnt1_b32),
    ROW("bcnt1_i32_b64", bcnt1_b64), ROW("ff0_i32_b32", ff0_b32), ROW("ff0_i32_b64", ff0_b64), ROW("ff1_i32_b32", ff1_b32),
    ROW("ff1_i32_b64", ff1_b64), ROW("flbit_i32_b32", flbit_b32), ROW("flbit_i32_b64", flbit_b64), ROW("flbit_i32", flbit_i32),
    ROW("flbit_i32_i64", flbit_i64), ROW("sext_i32_i8", sext_i8), ROW("sext_i32_i16", sext_i16), ROW("bitset0_b32", bitset0_b32),
    ROW("bitset1_b32", bitset1_b32), {"s_bitset0_b64", bitset_b64, EMU_SALU, 0, 0, 0}, {"s_bitset1_b64", bitset_b64, EMU_SALU, 1, 0, 0},
    ROW("bitreplicate_b64_b32", bitreplicate), ROW("abs_i32", abs_i32), ROW("movk_i32", mov_b32), ROW("cmovk_i32", cmov_b32),
    ROW("addk_i32", addk_i32), ROW("mulk_i32", mulk_i32), ROW("and_saveexec_b64", and_saveexec), ROW("or_saveexec_b64", or_saveexec),
    ROW("xor_saveexec_b64", xor_saveexec), ROW("andn2_saveexec_b64", andn2_saveexec), ROW("orn2_saveexec_b64", orn2_saveexec),
    ROW("nand_saveexec_b64", nand_saveexec), ROW("nor_saveexec_b64", nor_saveexec), ROW("xnor_saveexec_b64", xnor_saveexec),
    ROW("andn1_saveexec_b64", andn1_saveexec), ROW("orn1_saveexec_b64", orn1_saveexec), ROW("andn1_wrexec_b64", andn1_wrexec),
    ROW("andn2_wrexec_b64", andn2_wrexec), ROW("cmp_eq_i32", eq_32), ROW("cmp_lg_i32", lg_32), ROW("cmp_gt_i32", gt_i32),
    ROW("cmp_ge_i32", ge_i32), ROW("cmp_lt_i32", lt_i32), ROW("cmp_le_i32", le_i32), ROW("cmp_eq_u32", eq_32), ROW("cmp_lg_u32", lg_32),
    ROW("cmp_gt_u32", gt_u32), ROW("cmp_ge_u32", ge_u32), ROW("cmp_lt_u32", lt_u32), ROW("cmp_le_u32", le_u32), ROW("cmp_eq_u64", eq_u64),
    ROW("cmp_lg_u64", lg_u64), ROW("cmpk_eq_i32", eq_32), ROW("cmpk_lg_i32", lg_32), ROW("cmpk_gt_i32", gt_i32), ROW("cmpk_ge_i32", ge_i32),
    ROW("cmpk_lt_i32", lt_i32), ROW("cmpk_le_i32", le_i32), ROW("cmpk_eq_u32", eqk_u32), ROW("cmpk_lg_u32", lgk_u32),
    ROW("cmpk_gt_u32", gtk_u32), ROW("cmpk_ge_u32", gek_u32), ROW("cmpk_lt_u32", ltk_u32), ROW("cmpk_le_u32", lek_u32),
    ROW("bitcmp0_b32", bitcmp0_b32), ROW("bitcmp1_b32", bitcmp1_b32), {"s_bitcmp0_b64", bitcmp_b64, EMU_SALU, 0, 0, 0},
    {"s_bitcmp1_b64", bitcmp_b64, EMU_SALU, 1, 0, 0}, {0},
};
