/* SPDX-License-Identifier: MIT
 *
 * The lines of a cache: found by address, numbered by history, dirty or not. */
#include "lines.h"

#include <stdlib.h>
#include <string.h>

#define NO_LINE UINT16_MAX

bool emu_cache_init(struct emu_cache *c, uint32_t capacity_log2)
{
    *c = (struct emu_cache){.capacity = 1u << capacity_log2, .shift = 63 - capacity_log2};
    c->lines = malloc(c->capacity * sizeof(*c->lines));
    c->heads = malloc(2 * c->capacity * sizeof(*c->heads));
    c->dirty = malloc(c->capacity * sizeof(*c->dirty));
    if (c->lines == NULL || c->heads == NULL || c->dirty == NULL) {
        emu_cache_finish(c);
        return false;
    }
    emu_cache_reset(c);
    return true;
}

void emu_cache_finish(struct emu_cache *c)
{
    free(c->lines);
    free(c->heads);
    free(c->dirty);
    *c = (struct emu_cache){0};
}

void emu_cache_reset(struct emu_cache *c)
{
    memset(c->heads, 0xff, 2 * c->capacity * sizeof(*c->heads));
    c->used = c->num_dirty = c->generation = 0;
}

static uint16_t *head_of(struct emu_cache *c, uint64_t tag)
{
    return &c->heads[(tag / EMU_LINE) * 0x9e3779b97f4a7c15u >> c->shift];
}

struct emu_line *emu_cache_find(struct emu_cache *c, uint64_t tag)
{
    for (uint16_t i = *head_of(c, tag); i != NO_LINE; i = c->lines[i].next) {
        struct emu_line *line = &c->lines[i];

        if (line->tag == tag) {
            if (line->generation != c->generation) {
                line->generation = c->generation;
                line->valid = line->dirty;
            }
            return line;
        }
    }
    return NULL;
}

void emu_line_mark_dirty(struct emu_cache *c, struct emu_line *line, uint64_t mask, uint64_t stamp)
{
    if (line->dirty == 0) {
        line->dirty_at = (uint16_t)c->num_dirty;
        c->dirty[c->num_dirty++] = (uint16_t)(line - c->lines);
        line->stamp = stamp;
    } else if (stamp < line->stamp) {
        line->stamp = stamp;
    }
    line->dirty |= mask;
    line->valid |= mask;
}

void emu_line_clean(struct emu_cache *c, struct emu_line *line, uint64_t mask)
{
    if (line->dirty != 0 && (line->dirty &= ~mask) == 0) {
        uint16_t last = c->dirty[--c->num_dirty];

        c->dirty[line->dirty_at] = last;
        c->lines[last].dirty_at = line->dirty_at;
    }
}

void emu_line_forget(struct emu_cache *c, uint64_t tag, uint64_t mask)
{
    struct emu_line *line = emu_cache_find(c, tag);

    if (line != NULL) {
        emu_line_clean(c, line, mask);
        line->valid &= ~mask;
    }
}

static void unlink_line(struct emu_cache *c, struct emu_line *line)
{
    uint16_t number = (uint16_t)(line - c->lines), *link = head_of(c, line->tag);

    while (*link != number) {
        link = &c->lines[*link].next;
    }
    *link = line->next;
}

struct emu_line *emu_line_place(struct emu_cache *c, uint64_t tag, struct emu_line *instead)
{
    struct emu_line *line = instead;
    uint16_t *head;

    if (instead != NULL) {
        unlink_line(c, instead);
    } else {
        line = &c->lines[c->used++];
    }
    head = head_of(c, tag);
    line->tag = tag;
    line->valid = line->dirty = 0;
    line->generation = c->generation;
    line->next = *head;
    *head = (uint16_t)(line - c->lines);
    return line;
}
