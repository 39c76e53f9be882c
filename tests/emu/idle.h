/* SPDX-License-Identifier: MIT
 *
 * Gangs whose waves only poll. What those of a shared run wait for may be the work of a process without a processor. */
#ifndef EMU_IDLE_H
#define EMU_IDLE_H

#include "run.h"

/* After each turn of w, which was this many instructions long; may sleep. No device lock is held. */
void emu_idle_turn(struct emu_gang *gang, struct emu_wave *w, uint64_t instructions);
/* Idle gangs: whose turn it is, its number among the live waves. */
uint32_t emu_idle_next(struct emu_gang *gang);

#endif
