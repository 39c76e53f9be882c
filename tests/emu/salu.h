/* SPDX-License-Identifier: MIT
 *
 * Reading scalar sources. */
#ifndef EMU_SALU_H
#define EMU_SALU_H

#include "wave.h"

static inline uint64_t emu_special(const struct emu_wave *w, const struct emu_operand *o)
{
    switch (o->index) {
    case EMU_SRC_SCC: return w->scc;
    case EMU_SRC_VCCZ: return w->s[EMU_VCC] == 0 && w->s[EMU_VCC + 1] == 0;
    case EMU_SRC_EXECZ: return emu_exec_mask(w) == 0;
    case EMU_SRC_SHARED_BASE: return EMU_SHARED_BASE;
    default: return EMU_PRIVATE_BASE;
    }
}

static inline uint32_t emu_src32(const struct emu_wave *w, const struct emu_operand *o)
{
    return o->kind == EMU_SGPR ? w->s[o->index] : o->kind == EMU_IMM ? o->value : (uint32_t)emu_special(w, o);
}

static inline uint64_t emu_src64(const struct emu_wave *w, const struct emu_operand *o)
{
    return o->kind == EMU_SGPR ? (uint64_t)w->s[o->index + 1] << 32 | w->s[o->index] :
           o->kind == EMU_IMM ? (uint64_t)o->high << 32 | o->value : emu_special(w, o);
}

#endif
