/* SPDX-License-Identifier: MIT
 *
 * The disassembler's text of one instruction as a struct emu_inst. */
#ifndef EMU_PARSE_H
#define EMU_PARSE_H

#include "inst.h"

#define EMU_MAX_MNEMONIC 64

/* Fills operands and modifiers of inst (zeroed by the caller, pc and bytes set) and the mnemonic without its encoding suffix. code: its dwords.
 * used: the EMU_ALLOW_* that it needs. false: it has an operand or a modifier that is not known. */
bool emu_parse(struct emu_inst *inst, const char *text, const uint32_t *code, char mnemonic[EMU_MAX_MNEMONIC], unsigned *used);

#endif
