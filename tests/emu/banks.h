/* SPDX-License-Identifier: MIT
 *
 * The cost of LDS access patterns. */
#ifndef EMU_BANKS_H
#define EMU_BANKS_H

#include "wave.h"

/* Cycles beyond those that an access of this width needs without conflicts. */
uint32_t emu_bank_conflicts(const uint32_t addr[EMU_LANES], uint64_t lanes, uint32_t bytes, bool read, enum emu_arch arch);

#endif
