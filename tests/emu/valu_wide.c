/* SPDX-License-Identifier: MIT
 *
 * Vector instructions that leave their lane or their 32 bits: carries, 64-bit numbers, moves between lanes and scalar registers, selection by
 * a mask. */
#include "valu.h"

/* ---- masks of lanes ---- */

static void put_mask(struct emu_wave *w, const struct emu_operand *d, uint64_t mask)
{
    emu_write_s64(w, d->index, mask & emu_exec_mask(w)); /* lanes that do not take part write 0 */
}

enum { ADD, SUB, SUBREV };

/* v_add_co_u32 v, carry out, a, b; v_addc_co_u32 has the carry in as fifth operand. sub: operation, bit 2: with carry in. */
static bool add_carry(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES], r[EMU_LANES];
    const uint32_t *ra = emu_row(w, &i->ops[2], 0, ta), *rb = emu_row(w, &i->ops[3], 0, tb);
    uint64_t in = (i->sub & 4) != 0 ? emu_src64(w, &i->ops[4]) : 0, out = 0;
    unsigned operation = i->sub & 3;

    EMU_FOR_LANES(lane) {
        uint64_t a = ra[lane], b = rb[lane], carry = in >> lane & 1;
        uint64_t sum = operation == ADD ? a + b + carry : operation == SUB ? a - b - carry : b - a - carry;
        uint32_t over = (uint32_t)(sum >> 32) & 1;

        r[lane] = i->clamp && over ? (operation == ADD ? UINT32_MAX : 0) : (uint32_t)sum;
        out |= (uint64_t)over << lane;
    }
    emu_put(w, &i->ops[0], 0, r);
    put_mask(w, &i->ops[1], out);
    return true;
}

/* v_mad_u64_u32 v[0:1], carry out, a, b, v[2:3]: sub: signed */
static bool mad_64_32(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES];
    uint64_t r[EMU_LANES], out = 0;
    const uint32_t *a = emu_row(w, &i->ops[2], 0, ta), *b = emu_row(w, &i->ops[3], 0, tb);

    emu_row64(w, &i->ops[4], r);
    EMU_FOR_LANES(lane) {
        if (i->sub) {
            int64_t product = (int64_t)(int32_t)a[lane] * (int32_t)b[lane], sum;

            out |= (uint64_t)__builtin_add_overflow(product, (int64_t)r[lane], &sum) << lane;
            r[lane] = (uint64_t)sum;
        } else {
            out |= (uint64_t)__builtin_add_overflow((uint64_t)a[lane] * b[lane], r[lane], &r[lane]) << lane;
        }
    }
    emu_put64(w, &i->ops[0], r);
    put_mask(w, &i->ops[1], out);
    return true;
}

static bool cndmask(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES], r[EMU_LANES];
    const uint32_t *ra = emu_row(w, &i->ops[1], 0, ta), *rb = emu_row(w, &i->ops[2], 0, tb);
    uint64_t mask = emu_src64(w, &i->ops[3]);
    /* The sign modifiers are those of floats. */
    uint32_t keep_a = i->ops[1].abs ? INT32_MAX : UINT32_MAX, keep_b = i->ops[2].abs ? INT32_MAX : UINT32_MAX;
    uint32_t flip_a = (uint32_t)i->ops[1].neg << 31, flip_b = (uint32_t)i->ops[2].neg << 31;

    for (unsigned byte = 0; byte < 8; byte++) {
        const uint32_t *m = emu_lane_masks[mask >> 8 * byte & 255];

        for (unsigned k = 0; k < 8; k++) {
            unsigned lane = 8 * byte + k;

            r[lane] = (((rb[lane] & keep_b) ^ flip_b) & m[k]) | (((ra[lane] & keep_a) ^ flip_a) & ~m[k]);
        }
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

/* sub: lanes 32 to 63 */
static bool mbcnt(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES], r[EMU_LANES];
    const uint32_t *mask = emu_row(w, &i->ops[1], 0, ta), *add = emu_row(w, &i->ops[2], 0, tb);

    EMU_FOR_LANES(lane) {
        unsigned below = i->sub ? (lane < 32 ? 0 : lane - 32) : (lane < 32 ? lane : 32);

        r[lane] = add[lane] + (uint32_t)__builtin_popcountll(mask[lane] & ((1ull << below) - 1));
    }
    emu_put(w, &i->ops[0], 0, r);
    return true;
}

/* ---- single lanes; EXEC does not matter but for readfirstlane ---- */

static bool readfirstlane(struct emu_wave *w, const struct emu_inst *i)
{
    uint64_t exec = emu_exec_mask(w);
    uint32_t tmp[EMU_LANES];

    emu_write_s(w, i->ops[0].index, emu_row(w, &i->ops[1], 0, tmp)[exec == 0 ? 0 : __builtin_ctzll(exec)]);
    return true;
}

static bool readlane(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t tmp[EMU_LANES];

    emu_write_s(w, i->ops[0].index, emu_row(w, &i->ops[1], 0, tmp)[emu_src32(w, &i->ops[2]) & 63]);
    return true;
}

static bool writelane(struct emu_wave *w, const struct emu_inst *i)
{
    unsigned index = i->ops[0].index;

    w->v[index][emu_src32(w, &i->ops[2]) & 63] = emu_src32(w, &i->ops[1]);
    w->v_known[index / 64] |= 1ull << index % 64;
    return true;
}

/* Both registers are destinations. sub: 0 whole registers, else rows of that many lanes: the odd rows of the first operand change places with the even
 * rows of the second one. EXEC is as for other vector instructions: the lane that is written must be active. */
static bool swap(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t a[EMU_LANES], b[EMU_LANES];

    memcpy(a, emu_v(w, &i->ops[0], 0), sizeof(a));
    memcpy(b, emu_v(w, &i->ops[1], 0), sizeof(b));
    EMU_FOR_LANES(lane) {
        if (i->sub == 0) {
            uint32_t t = a[lane];

            a[lane] = b[lane];
            b[lane] = t;
        } else if ((lane & i->sub) != 0) {
            uint32_t t = a[lane];

            a[lane] = b[lane - i->sub];
            b[lane - i->sub] = t;
        }
    }
    emu_put(w, &i->ops[0], 0, a);
    emu_put(w, &i->ops[1], 0, b);
    return true;
}

/* ---- 64 bits ---- */

enum { SHL, SHR, ASHR };

static bool shift64(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES];
    uint64_t r[EMU_LANES];
    const uint32_t *by = emu_row(w, &i->ops[1], 0, ta);

    emu_row64(w, &i->ops[2], r);
    EMU_FOR_LANES(lane) {
        unsigned n = by[lane] & 63;

        r[lane] = i->sub == SHL ? r[lane] << n : i->sub == SHR ? r[lane] >> n : (uint64_t)((int64_t)r[lane] >> n);
    }
    emu_put64(w, &i->ops[0], r);
    return true;
}

static bool mov_b64(struct emu_wave *w, const struct emu_inst *i)
{
    uint64_t r[EMU_LANES];

    emu_row64(w, &i->ops[1], r);
    emu_put64(w, &i->ops[0], r);
    return true;
}

static bool lshl_add_u64(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t tb[EMU_LANES];
    uint64_t a[EMU_LANES], c[EMU_LANES];
    const uint32_t *by = emu_row(w, &i->ops[2], 0, tb);

    emu_row64(w, &i->ops[1], a);
    emu_row64(w, &i->ops[3], c);
    EMU_FOR_LANES(lane) {
        a[lane] = (a[lane] << (by[lane] & 7)) + c[lane];
    }
    emu_put64(w, &i->ops[0], a);
    return true;
}

/* Each dword of the result is one of the halves of a source. */
static bool pk_mov_b32(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t ta[EMU_LANES], tb[EMU_LANES], low[EMU_LANES], high[EMU_LANES];

    memcpy(low, emu_row(w, &i->ops[1], i->op_sel & 1, ta), sizeof(low));
    memcpy(high, emu_row(w, &i->ops[2], i->op_sel >> 1 & 1, tb), sizeof(high));
    emu_put(w, &i->ops[0], 0, low);
    emu_put(w, &i->ops[0], 1, high);
    return true;
}

#define ROW(name, function, sub) {"v_" name, function, EMU_VALU, sub, 0, 0}
#define CARRY(name, sub) {"v_" name "_co_u32", add_carry, EMU_VALU, sub, 0, EMU_ALLOW_CLAMP}

const struct emu_op emu_ops_valu_wide[] = {
    CARRY("add", ADD), CARRY("sub", SUB), CARRY("subrev", SUBREV), CARRY("addc", ADD | 4), CARRY("subb", SUB | 4), CARRY("subbrev", SUBREV | 4),
    ROW("mad_u64_u32", mad_64_32, 0), ROW("mad_i64_i32", mad_64_32, 1),
    {"v_cndmask_b32", cndmask, EMU_VALU, 0, 0, EMU_ALLOW_NEG}, ROW("mbcnt_lo_u32_b32", mbcnt, 0), ROW("mbcnt_hi_u32_b32", mbcnt, 1),
    ROW("readfirstlane_b32", readfirstlane, 0), ROW("readlane_b32", readlane, 0), ROW("writelane_b32", writelane, 0), ROW("swap_b32", swap, 0),
    ROW("permlane16_swap_b32", swap, 16), ROW("permlane32_swap_b32", swap, 32), ROW("lshlrev_b64", shift64, SHL),
    ROW("lshrrev_b64", shift64, SHR), ROW("ashrrev_i64", shift64, ASHR), ROW("mov_b64", mov_b64, 0), ROW("lshl_add_u64", lshl_add_u64, 0),
    {"v_pk_mov_b32", pk_mov_b32, EMU_VALU, 0, 0, EMU_ALLOW_OPSEL}, {0},
};
