/* SPDX-License-Identifier: MIT
 *
 * Counters of a launch are added to those of its kernel when it ends. */
#ifndef EMU_COUNTS_H
#define EMU_COUNTS_H

#include "run.h"

void emu_counts_add(const struct emu_grid *grid);
/* The program is about to be freed. */
void emu_counts_forget(const struct emu_program *program);

#endif
