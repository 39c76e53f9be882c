/* SPDX-License-Identifier: MIT
 *
 * Local memory of a workgroup, and who touched which byte since which barrier.
 *
 * Two accesses of different waves to a byte, one of them a write and not both atomic, are a race unless a s_barrier stands between them and the first was
 * waited for (lgkmcnt; vmcnt for loads into LDS) before its wave arrived at it. Nothing else orders LDS accesses of different waves here: flags in
 * LDS or in memory do not. Since racing programs are refused, the order in which LDS operations are performed cannot be seen, and they are
 * performed when they are issued; "Completion is reported to a wavefront in execution order". */
#ifndef EMU_LDS_H
#define EMU_LDS_H

#include "access.h"

bool emu_lds_init(struct emu_group *group, uint32_t bytes);
void emu_lds_finish(struct emu_group *group);

enum emu_lds_use { EMU_LDS_READ, EMU_LDS_WRITE, EMU_LDS_ATOMIC };
/* Checks bounds, alignment and races of one lane's access, notes it; returns the bytes, or NULL when it failed. */
uint8_t *emu_lds_touch(struct emu_wave *w, unsigned lane, uint32_t addr, uint32_t bytes, uint32_t alignment, enum emu_lds_use use);

/* Reading bytes that nobody wrote is no error by itself: compilers load ahead of the condition. But what comes of it is unknown: the registers of the
 * access (bytes at at of each lane) are, once it is retired. */
void emu_lds_note_unwritten(const struct emu_wave *w, struct emu_access *a, uint32_t addr, uint32_t bytes, uint32_t at);

/* A wave arrives at a barrier: what it has not waited for stays unordered. */
void emu_lds_barrier(struct emu_wave *w);
void emu_lds_retire(struct emu_wave *w, struct emu_access *a);

/* Loads into LDS: the bytes belong to the access from its issue until it is retired. */
bool emu_lds_expect(struct emu_wave *w, struct emu_access *a);
/* The LDS lanes of a flat load or store, at once: a wave's own LDS accesses keep their order. */
bool emu_lds_flat(struct emu_wave *w, struct emu_access *a);
void emu_lds_arrive(struct emu_wave *w, struct emu_access *a);

#endif
