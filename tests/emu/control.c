/* SPDX-License-Identifier: MIT
 *
 * Branches, the program counter, hardware registers, and instructions without an effect here. What ends a wave's turn is in sched.c. */
#include "salu.h"

/* hwreg(): its number, first bit and width in simm16. */
enum { HWREG_MODE = 1, HWREG_HW_ID = 4, HWREG_SH_MEM_BASES = 15, HWREG_XCC_ID = 20 };

static bool nothing(struct emu_wave *w, const struct emu_inst *i)
{
    (void)w, (void)i;
    return true;
}

static bool trap(struct emu_wave *w, const struct emu_inst *i)
{
    return emu_wave_fail(w, "the kernel stopped itself (%s)", i->text);
}

static bool branch(struct emu_wave *w, const struct emu_inst *i)
{
    w->pc = i->target;
    return true;
}

static bool branch_if(struct emu_wave *w, const struct emu_inst *i, bool taken)
{
    if (taken) {
        w->pc = i->target;
    }
    return true;
}

static bool branch_scc(struct emu_wave *w, const struct emu_inst *i)
{
    return branch_if(w, i, w->scc == i->sub);
}

static bool branch_vcc(struct emu_wave *w, const struct emu_inst *i)
{
    const uint64_t known = 3ull << EMU_VCC % 64;

    if ((w->s_known[EMU_VCC / 64] & known) != known) {
        return emu_wave_fail(w, "branch on vcc, which was never written");
    }
    return branch_if(w, i, (w->s[EMU_VCC] != 0 || w->s[EMU_VCC + 1] != 0) == i->sub);
}

static bool branch_exec(struct emu_wave *w, const struct emu_inst *i)
{
    return branch_if(w, i, (emu_exec_mask(w) != 0) == i->sub);
}

/* ---- 64-bit addresses of instructions; the last operand is where the text lies ---- */

static uint64_t text_address(const struct emu_inst *i)
{
    const struct emu_operand *o = &i->ops[i->num_operands - 1];

    return (uint64_t)o->high << 32 | o->value;
}

/* The fetch of an address outside the text fails, and so does that of an odd one. */
static void jump(struct emu_wave *w, const struct emu_inst *i, uint64_t address)
{
    uint64_t pc = address - text_address(i);

    w->pc = pc < UINT32_MAX ? (uint32_t)pc : UINT32_MAX;
}

static bool getpc(struct emu_wave *w, const struct emu_inst *i)
{
    emu_write_s64(w, i->ops[0].index, text_address(i) + i->pc + i->bytes);
    return true;
}

static bool setpc(struct emu_wave *w, const struct emu_inst *i)
{
    jump(w, i, emu_src64(w, &i->ops[0]));
    return true;
}

static bool swappc(struct emu_wave *w, const struct emu_inst *i)
{
    uint64_t to = emu_src64(w, &i->ops[1]);

    emu_write_s64(w, i->ops[0].index, text_address(i) + i->pc + i->bytes);
    jump(w, i, to);
    return true;
}

static bool call(struct emu_wave *w, const struct emu_inst *i)
{
    emu_write_s64(w, i->ops[0].index, text_address(i) + i->pc + i->bytes);
    w->pc = i->target;
    return true;
}

/* ---- hardware registers ---- */

static bool getreg(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t reg = i->ops[1].value, value, width = (reg >> 11 & 31) + 1;

    switch (reg & 63) {
    case HWREG_MODE: value = w->mode; break;
    case HWREG_HW_ID: value = (w->index >> 2 & 15) | (w->index & 3) << 4 | (w->group->id & 15) << 8; break; /* wave, SIMD, CU: some placement */
    case HWREG_SH_MEM_BASES: value = (uint32_t)(EMU_PRIVATE_BASE >> 48 | EMU_SHARED_BASE >> 48 << 16); break;
    case HWREG_XCC_ID: value = w->group->xcd; break;
    default: return emu_wave_fail(w, "this hardware register is not implemented");
    }
    emu_write_s(w, i->ops[0].index, (uint32_t)((uint64_t)(value >> (reg >> 6 & 31)) & ((1ull << width) - 1)));
    return true;
}

static bool setreg(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t reg = i->ops[0].value, shift = reg >> 6 & 31, mask = (uint32_t)((2ull << (reg >> 11 & 31)) - 1) << shift;
    uint32_t mode = (w->mode & ~mask) | (emu_src32(w, &i->ops[1]) << shift & mask);

    if ((reg & 63) != HWREG_MODE) {
        return emu_wave_fail(w, "writing this hardware register is not implemented");
    }
    if ((mode & ~0x3f0u) != 0) { /* denormals, dx10_clamp and ieee are what the arithmetic follows */
        return emu_wave_fail(w, "mode 0x%x: rounding other than to nearest even, exceptions and index modes are not implemented", (unsigned)mode);
    }
    w->mode = mode;
    return true;
}

#define ROW(name, function, sub) {name, function, EMU_CONTROL, sub, 0, 0}

const struct emu_op emu_ops_control[] = {
    ROW("s_nop", nothing, 0),
    ROW("s_setprio", nothing, 0),
    ROW("s_icache_inv", nothing, 0),
    ROW("s_incperflevel", nothing, 0),
    ROW("s_decperflevel", nothing, 0),
    ROW("s_ttracedata", nothing, 0),
    ROW("s_trap", trap, 0),
    ROW("s_sethalt", trap, 0),
    ROW("s_branch", branch, 0),
    ROW("s_cbranch_scc0", branch_scc, 0),
    ROW("s_cbranch_scc1", branch_scc, 1),
    ROW("s_cbranch_vccz", branch_vcc, 0),
    ROW("s_cbranch_vccnz", branch_vcc, 1),
    ROW("s_cbranch_execz", branch_exec, 0),
    ROW("s_cbranch_execnz", branch_exec, 1),
    {"s_getpc_b64", getpc, EMU_CONTROL, 0, 0, EMU_WANTS_TEXT},
    {"s_setpc_b64", setpc, EMU_CONTROL, 0, 0, EMU_WANTS_TEXT},
    {"s_swappc_b64", swappc, EMU_CONTROL, 0, 0, EMU_WANTS_TEXT},
    {"s_call_b64", call, EMU_CONTROL, 0, 0, EMU_WANTS_TEXT},
    ROW("s_getreg_b32", getreg, 0),
    ROW("s_setreg_b32", setreg, 0),
    ROW("s_setreg_imm32_b32", setreg, 0),
    {0},
};
