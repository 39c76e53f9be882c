/* SPDX-License-Identifier: MIT
 *
 * The memory behind all caches: the memory of this process, which other devices, other processes and the host see. */
#ifndef EMU_MEMORY_H
#define EMU_MEMORY_H

#include "cache.h"

/* Bytes of mask from source to target; both are lines. */
void emu_line_merge(uint8_t *target, const uint8_t *source, uint64_t mask);

/* A whole line at tag, by aligned words of 8 bytes: no word is torn. A line never leaves a page, so its bytes outside an allocation can be read too. */
void emu_memory_read(uint64_t tag, uint8_t *out);
/* Bytes of mask, by the widest aligned words that it allows, in random order: 8 aligned bytes of one access arrive together, 16 may not. */
void emu_memory_write(uint64_t tag, const uint8_t *line, uint64_t mask, struct emu_rng *rng);
uint64_t emu_memory_modify(uint64_t addr, uint32_t bytes, emu_modify_fn *next, const void *context);

#endif
