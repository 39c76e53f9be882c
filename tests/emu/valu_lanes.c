/* SPDX-License-Identifier: MIT
 *
 * SDWA and DPP: forms of one- and two-operand vector instructions whose sources are parts of registers, or come from other lanes of a row of
 * 16. The plain instruction runs on a copy of the wave whose vector registers are the prepared rows ("Instinct MI200 Instruction Set
 * Architecture", SDWA and DPP). */
#include <stdlib.h>

#include "valu.h"

enum { ROW_DST = 0, ROW_SRC0 = 1, ROW_SRC1 = 2, NUM_ROWS };

struct lane_mode {
    struct emu_inst plain; /* its vector operands are the rows above */
    uint8_t first;         /* number of the first source operand */
    bool compares;         /* the result is a mask */
    /* SDWA */
    uint8_t dst_sel, dst_unused, sel[2];
    bool sext[2];
    /* DPP */
    uint16_t control;
    uint8_t bank_mask, row_mask;
    bool bound;            /* lanes without a source read 0 instead of keeping their result */
};

enum { UNUSED_PAD, UNUSED_SEXT, UNUSED_PRESERVE };
enum { SEL_WORD_0 = 4, SEL_DWORD = 6 };

static unsigned part_bits(unsigned sel)
{
    return sel < SEL_WORD_0 ? 8 : sel < SEL_DWORD ? 16 : 32;
}

static unsigned part_shift(unsigned sel)
{
    return sel < SEL_WORD_0 ? 8 * sel : sel < SEL_DWORD ? 16 * (sel - SEL_WORD_0) : 0;
}

static uint32_t part(uint32_t value, unsigned sel, bool sign)
{
    unsigned bits = part_bits(sel);

    value = value >> part_shift(sel) << (32 - bits);
    return sign ? (uint32_t)((int32_t)value >> (32 - bits)) : value >> (32 - bits);
}

static uint32_t merge(uint32_t old, uint32_t value, unsigned sel, unsigned unused)
{
    unsigned bits = part_bits(sel), shift = part_shift(sel);
    uint32_t mask = (bits == 32 ? UINT32_MAX : (1u << bits) - 1) << shift, placed = value << shift & mask;

    if (bits == 32 || unused == UNUSED_PAD) {
        return placed;
    } else if (unused == UNUSED_PRESERVE) {
        return (old & ~mask) | placed;
    }
    return part(value, bits == 8 ? 0 : SEL_WORD_0, true) << shift; /* sign above, zeroes below */
}

/* Runs the plain instruction on rows under exec; scalar results and EXEC, which only v_cmpx writes, are w's then. */
static bool run_plain(struct emu_wave *w, const struct lane_mode *m, emu_lanes rows[NUM_ROWS], uint64_t exec)
{
    struct emu_wave copy = *w;
    uint64_t outer = emu_exec_mask(w);

    copy.v = rows;
    emu_write_s64(&copy, EMU_EXEC, exec);
    if (!m->plain.exec(&copy, &m->plain)) {
        return false;
    }
    memcpy(w->s, copy.s, sizeof(w->s));
    memcpy(w->s_known, copy.s_known, sizeof(w->s_known));
    if (emu_exec_mask(w) == exec) {
        emu_write_s64(w, EMU_EXEC, outer);
    }
    return true;
}

static void fetch(struct emu_wave *w, const struct emu_operand *o, uint32_t *to)
{
    uint32_t tmp[EMU_LANES];

    memcpy(to, emu_row(w, o, 0, tmp), sizeof(tmp));
}

static bool sdwa(struct emu_wave *w, const struct emu_inst *i)
{
    const struct lane_mode *m = i->priv;
    emu_lanes rows[NUM_ROWS] = {{0}};
    uint32_t old[EMU_LANES];

    if (!m->compares) {
        fetch(w, &i->ops[0], old);
        memcpy(rows[ROW_DST], old, sizeof(old));
    }
    for (unsigned n = 0; n < 2 && (unsigned)m->first + n < i->num_operands; n++) {
        uint32_t *row = rows[ROW_SRC0 + n];

        if (i->ops[m->first + n].kind == EMU_SGPR && i->ops[m->first + n].count == 2) {
            continue; /* a mask */
        }
        fetch(w, &i->ops[m->first + n], row);
        EMU_FOR_LANES(lane) {
            row[lane] = part(row[lane], m->sel[n], m->sext[n]);
        }
    }
    if (!run_plain(w, m, rows, emu_exec_mask(w))) {
        return false;
    }
    if (!m->compares) {
        EMU_FOR_LANES(lane) {
            rows[ROW_DST][lane] = merge(old[lane], rows[ROW_DST][lane], m->dst_sel, m->dst_unused);
        }
        emu_put(w, &i->ops[0], 0, rows[ROW_DST]);
    }
    return true;
}

/* The lane that a lane reads; -1: none. */
static int source_lane(unsigned control, int lane)
{
    int row = lane & ~15, in_row = lane & 15, by = (int)(control & 15);

    if (control < 0x100) { /* quad_perm */
        return (lane & ~3) | (int)(control >> 2 * (lane & 3) & 3);
    }
    switch (control >> 4) {
    case 0x10: return in_row + by < 16 ? lane + by : -1;       /* row_shl */
    case 0x11: return in_row - by >= 0 ? lane - by : -1;       /* row_shr */
    case 0x12: return row | ((in_row - by) & 15);              /* row_ror */
    case 0x15: return row | by;                                /* row_newbcast */
    default: break;
    }
    switch (control) {
    case 0x130: return lane + 1 < EMU_LANES ? lane + 1 : -1;   /* wave_shl */
    case 0x134: return (lane + 1) % EMU_LANES;                 /* wave_rol */
    case 0x138: return lane - 1;                               /* wave_shr */
    case 0x13c: return (lane + EMU_LANES - 1) % EMU_LANES;     /* wave_ror */
    case 0x140: return row | (15 - in_row);                    /* row_mirror */
    case 0x141: return (lane & ~7) | (7 - (lane & 7));         /* row_half_mirror */
    case 0x142: return row - 1;                                /* row_bcast:15 */
    default: return lane >= 32 ? 31 : -1;                      /* row_bcast:31 */
    }
}

static bool dpp(struct emu_wave *w, const struct emu_inst *i)
{
    const struct lane_mode *m = i->priv;
    emu_lanes rows[NUM_ROWS] = {{0}};
    uint32_t from[EMU_LANES];
    uint64_t exec = emu_exec_mask(w), active = exec;

    if (!m->compares) {
        fetch(w, &i->ops[0], rows[ROW_DST]);
    }
    fetch(w, &i->ops[m->first], from);
    if ((unsigned)m->first + 1 < i->num_operands && i->ops[m->first + 1].kind != EMU_SGPR) {
        fetch(w, &i->ops[m->first + 1], rows[ROW_SRC1]);
    }
    for (int lane = 0; lane < EMU_LANES; lane++) {
        int source = source_lane(m->control, lane);
        bool there = source >= 0 && (exec >> source & 1) != 0;

        rows[ROW_SRC0][lane] = there ? from[source] : 0;
        if ((!there && !m->bound) || (m->row_mask >> lane / 16 & 1) == 0 || (m->bank_mask >> lane / 4 % 4 & 1) == 0) {
            active &= ~(1ull << lane);
        }
    }
    if (!run_plain(w, m, rows, active)) {
        return false;
    }
    if (!m->compares) {
        emu_put(w, &i->ops[0], 0, rows[ROW_DST]); /* lanes that were not active kept their old result */
    }
    return true;
}

bool emu_lane_mode(struct emu_inst *inst, const uint32_t *code)
{
    struct lane_mode *m = calloc(1, sizeof(*m));
    uint32_t bits = code[1];

    if (m == NULL) {
        return false;
    }
    m->plain = *inst;
    m->compares = inst->ops[0].kind == EMU_SGPR;
    m->first = !m->compares && inst->num_operands > 2 && inst->ops[1].kind == EMU_SGPR && inst->ops[1].count == 2 ? 2 : 1; /* behind a carry */
    for (unsigned n = 0; n < 2 && (unsigned)m->first + n < inst->num_operands; n++) {
        struct emu_operand *o = &m->plain.ops[m->first + n];

        if (o->kind != EMU_SGPR || o->count == 1) {
            o->kind = EMU_VGPR;
            o->index = (uint16_t)(ROW_SRC0 + n);
        }
    }
    if (!m->compares) {
        m->plain.ops[0].index = ROW_DST;
    }
    if (inst->lane_mode == EMU_LANES_SDWA) {
        m->dst_sel = m->compares ? SEL_DWORD : bits >> 8 & 7;
        m->dst_unused = bits >> 11 & 3;
        m->sel[0] = bits >> 16 & 7;
        m->sext[0] = (bits >> 19 & 1) != 0;
        m->sel[1] = bits >> 24 & 7;
        m->sext[1] = (bits >> 27 & 1) != 0;
        inst->exec = sdwa;
    } else {
        m->control = bits >> 8 & 0x1ff;
        m->bound = (bits >> 19 & 1) != 0;
        m->bank_mask = bits >> 24 & 15;
        m->row_mask = bits >> 28;
        inst->exec = dpp;
    }
    inst->priv = m;
    return true;
}
