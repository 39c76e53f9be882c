/* SPDX-License-Identifier: MIT
 *
 * The lines of one cache, for cache.c. */
#ifndef EMU_LINES_H
#define EMU_LINES_H

#include "cache.h"

/* Bytes of mask become dirty and valid; stamp is kept if older ones are dirty. */
void emu_line_mark_dirty(struct emu_cache *c, struct emu_line *line, uint64_t mask, uint64_t stamp);
void emu_line_clean(struct emu_cache *c, struct emu_line *line, uint64_t mask);
/* Bytes that another way has overwritten. */
void emu_line_forget(struct emu_cache *c, uint64_t tag, uint64_t mask);
/* A new, empty line for a tag that has none: instead of a clean one, or NULL while the cache is not full. */
struct emu_line *emu_line_place(struct emu_cache *c, uint64_t tag, struct emu_line *instead);

#endif
