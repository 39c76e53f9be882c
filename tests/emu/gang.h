/* SPDX-License-Identifier: MIT
 *
 * Making and releasing what a gang needs, and who may use a device when. */
#ifndef EMU_GANG_H
#define EMU_GANG_H

#include "run.h"

/* false: the result says why. Always followed by emu_gang_finish(). */
bool emu_gang_init(struct emu_gang *gang, const struct emu_launch *launches, uint32_t n);
void emu_gang_finish(struct emu_gang *gang);

/* Shared runs hold a device for a turn; other runs hold all of theirs from init to finish, so that nobody else decides anything. */
void emu_gang_lock(struct emu_gang *gang, struct emu_device *d);
void emu_gang_unlock(struct emu_gang *gang, struct emu_device *d);

/* waves.c: a wave that has ended performs what is outstanding. */
void emu_drain(struct emu_wave *w);
/* vmem.c: is the first operand of this memory instruction a destination? */
bool emu_loads_first_operand(const struct emu_inst *inst);

#endif
