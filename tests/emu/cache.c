/* SPDX-License-Identifier: MIT
 *
 * The way of loads and stores through the levels. Sections cited are those of LLVM's "User Guide for AMDGPU Backend". */
#include <string.h>

#include "cache.h"
#include "lines.h"
#include "memory.h"

/* What a stranger would have read just before a line of this level changes. */
static void take_copy(struct emu_device *d, uint32_t xcd, enum emu_level level, uint64_t tag, struct emu_fate *fate)
{
    struct emu_copy *copy;
    struct emu_line *line;
    struct emu_cache *c = level == EMU_LEVEL_L2 && d->num_xcds > 0 ? &d->l2[xcd] : &d->agent;

    if (!emu_chance(&fate->rng, fate->strangers) || fate->num_copies == EMU_MAX_COPIES) {
        return;
    }
    copy = &fate->copies[fate->num_copies++];
    copy->tag = tag;
    copy->device = d;
    copy->xcd = xcd;
    copy->level = level;
    line = level == EMU_LEVEL_MEMORY ? NULL : emu_cache_find(c, tag);
    if (line == NULL) {
        emu_memory_read(tag, copy->data);
        copy->valid = ~0ull;
        if (c != &d->agent && (line = emu_cache_find(&d->agent, tag)) != NULL) {
            emu_line_merge(copy->data, line->data, line->valid);
        }
    } else {
        memcpy(copy->data, line->data, EMU_LINE);
        copy->valid = line->valid;
    }
}

static void write_back_line(struct emu_device *d, struct emu_cache *c, struct emu_line *line, struct emu_fate *fate);

/* The line of tag, empty if it is new; a full cache gives up any other. */
static struct emu_line *place(struct emu_device *d, struct emu_cache *c, uint64_t tag, struct emu_fate *fate)
{
    struct emu_line *line = emu_cache_find(c, tag), *instead = NULL;

    if (line != NULL) {
        return line;
    }
    if (c->used == c->capacity) {
        instead = &c->lines[emu_below(&fate->rng, c->used)];
        if (instead->dirty != 0) {
            write_back_line(d, c, instead, fate);
        }
    }
    return emu_line_place(c, tag, instead);
}

/* An L2 of gfx942 writes back to the device's point of coherence, that one to memory. "Memory Model GFX942": "buffer_wbl2 sc1 ... will writeback dirty L2
 * cache lines". Only dirty bytes travel: neighbours in the line may belong to others. */
static void write_back_line(struct emu_device *d, struct emu_cache *c, struct emu_line *line, struct emu_fate *fate)
{
    if (c == &d->agent) {
        take_copy(d, 0, EMU_LEVEL_MEMORY, line->tag, fate);
        emu_memory_write(line->tag, line->data, line->dirty, &fate->rng);
    } else {
        struct emu_line *below;

        take_copy(d, (uint32_t)(c - d->l2), EMU_LEVEL_AGENT, line->tag, fate);
        below = place(d, &d->agent, line->tag, fate);

        emu_line_merge(below->data, line->data, line->dirty);
        emu_line_mark_dirty(&d->agent, below, line->dirty, line->stamp);
    }
    emu_line_clean(c, line, ~0ull);
}

/* ---- loads: each level returns the bytes that it has, need at least ---- */

static uint64_t look(struct emu_device *d, struct emu_cache *c, uint64_t tag, uint64_t need, uint8_t *out, struct emu_fate *fate)
{
    struct emu_line *line = emu_cache_find(c, tag);
    uint64_t got = ~0ull;

    if (line != NULL && (line->valid & need) == need) {
        memcpy(out, line->data, EMU_LINE);
        return line->valid;
    }
    if (c == &d->agent) {
        emu_memory_read(tag, out);
    } else {
        got = look(d, &d->agent, tag, need, out, fate);
    }
    if (line == NULL && emu_chance(&fate->rng, fate->keep)) {
        line = place(d, c, tag, fate);
    } else if (line == NULL) {
        return got;
    }
    emu_line_merge(out, line->data, line->valid);
    emu_line_merge(line->data, out, got & ~line->valid);
    line->valid |= got;
    return line->valid;
}

static struct emu_cache *l2_of(const struct emu_path *p)
{
    return p->device->num_xcds == 0 ? &p->device->agent : &p->device->l2[p->xcd];
}

/* Own stores that still stand in the L2 are seen by loads of every scope: a wave's accesses of one address keep their order. */
static void add_dirty(struct emu_cache *c, uint64_t tag, uint8_t *out)
{
    struct emu_line *line = emu_cache_find(c, tag);

    if (line != NULL && line->dirty != 0) {
        emu_line_merge(out, line->data, line->dirty);
    }
}

static uint64_t byte_mask(uint32_t at, uint32_t bytes)
{
    return (bytes == EMU_LINE ? ~0ull : (1ull << bytes) - 1) << at;
}

void emu_mem_read(const struct emu_path *p, uint64_t addr, void *out, uint32_t bytes, enum emu_scope scope)
{
    struct emu_device *d = p->device;
    struct emu_cache *l2 = l2_of(p);
    uint64_t tag = addr & ~(uint64_t)(EMU_LINE - 1), got;
    uint32_t at = (uint32_t)(addr - tag);
    uint64_t need = byte_mask(at, bytes);
    struct emu_line *line;
    _Alignas(8) uint8_t data[EMU_LINE];

    switch (scope) {
    case EMU_SCOPE_WAVE:
    case EMU_SCOPE_GROUP:
        /* "the vector memory operations access a single vector L1 cache shared by all SIMDs a CU": a hit there may be as old as the last invalidation. */
        line = emu_cache_find(p->l1, tag);
        if (line != NULL && (line->valid & need) == need) {
            memcpy(out, line->data + at, bytes);
            return;
        }
        got = look(d, l2, tag, need, data, p->fate);
        if (line != NULL || emu_chance(&p->fate->rng, p->fate->keep)) {
            line = place(d, p->l1, tag, p->fate);
            emu_line_merge(line->data, data, got);
            line->valid |= got;
        }
        break;
    case EMU_SCOPE_AGENT:
        if (d->num_xcds == 0 && emu_chance(&p->fate->rng, 1u << 15) && (line = emu_cache_find(&d->agent, tag)) != NULL) {
            /* gfx90a, glc: agent and system scope have the same bits ("Memory Model GFX90A", monotonic loads), the memory type tells them apart: an L2
             * that fine-grained memory bypasses must be as possible as one that keeps the line. */
            line->valid = line->dirty;
        }
        look(d, &d->agent, tag, need, data, p->fate);
        if (l2 != &d->agent) {
            add_dirty(l2, tag, data);
        }
        break;
    case EMU_SCOPE_SYSTEM:
        emu_memory_read(tag, data);
        add_dirty(&d->agent, tag, data);
        if (l2 != &d->agent) {
            add_dirty(l2, tag, data);
        }
        break;
    }
    memcpy(out, data + at, bytes);
}

void emu_mem_read_scalar(const struct emu_path *p, uint64_t addr, void *out, uint32_t bytes)
{
    struct emu_cache *c = &p->device->scalar[p->xcd];
    uint64_t tag = addr & ~(uint64_t)(EMU_LINE - 1);
    uint32_t at = (uint32_t)(addr - tag);
    uint64_t need = byte_mask(at, bytes);
    struct emu_line *line = emu_cache_find(c, tag);

    /* "The scalar and vector L1 caches are not coherent." */
    if (line == NULL || (line->valid & need) != need) {
        _Alignas(8) uint8_t data[EMU_LINE];
        uint64_t got = look(p->device, l2_of(p), tag, need, data, p->fate);

        line = place(p->device, c, tag, p->fate);
        emu_line_merge(line->data, data, got);
        line->valid |= got;
    }
    memcpy(out, line->data + at, bytes);
}

/* ---- stores ---- */

void emu_mem_write(const struct emu_path *p, uint64_t addr, const void *data, uint32_t bytes, enum emu_scope scope)
{
    struct emu_device *d = p->device;
    struct emu_cache *l2 = l2_of(p), *target = scope == EMU_SCOPE_AGENT ? &d->agent : l2;
    uint64_t tag = addr & ~(uint64_t)(EMU_LINE - 1);
    uint32_t at = (uint32_t)(addr - tag);
    uint64_t mask = byte_mask(at, bytes);
    struct emu_line *line = emu_cache_find(p->l1, tag);

    if (line != NULL) { /* write-through; waves of one workgroup see each other's stores in it */
        memcpy(line->data + at, data, bytes);
        line->valid |= mask;
    }
    if (target != l2 || scope == EMU_SCOPE_SYSTEM) {
        emu_line_forget(l2, tag, mask);
    }
    if (scope == EMU_SCOPE_SYSTEM) {
        _Alignas(8) uint8_t whole[EMU_LINE];

        take_copy(d, p->xcd, EMU_LEVEL_MEMORY, tag, p->fate);
        emu_line_forget(&d->agent, tag, mask);
        memcpy(whole + at, data, bytes);
        emu_memory_write(tag, whole, mask, &p->fate->rng);
        return;
    }
    take_copy(d, p->xcd, target == l2 ? EMU_LEVEL_L2 : EMU_LEVEL_AGENT, tag, p->fate);
    line = place(d, target, tag, p->fate);
    memcpy(line->data + at, data, bytes);
    emu_line_mark_dirty(target, line, mask, ++d->clock);
}

/* "Atomic read-modify-write instructions implicitly bypass the L1 cache ... They do use sc1 to indicate system or agent scope coherence." */
uint64_t emu_mem_modify(const struct emu_path *p, uint64_t addr, uint32_t bytes, enum emu_scope scope, emu_modify_fn *next, const void *context)
{
    struct emu_device *d = p->device;
    struct emu_cache *l2 = l2_of(p);
    uint64_t tag = addr & ~(uint64_t)(EMU_LINE - 1), old = 0, value;
    uint32_t at = (uint32_t)(addr - tag);
    uint64_t mask = byte_mask(at, bytes);
    struct emu_line *line = emu_cache_find(l2, tag);

    if (line != NULL && (line->dirty & mask) != 0) {
        write_back_line(d, l2, line, p->fate);
    }
    if (l2 != &d->agent) {
        emu_line_forget(l2, tag, mask);
    }
    emu_line_forget(p->l1, tag, mask);
    if (scope == EMU_SCOPE_SYSTEM) {
        line = emu_cache_find(&d->agent, tag);
        if (line != NULL && (line->dirty & mask) != 0) {
            write_back_line(d, &d->agent, line, p->fate);
        }
        emu_line_forget(&d->agent, tag, mask);
        return emu_memory_modify(addr, bytes, next, context);
    }
    line = place(d, &d->agent, tag, p->fate);
    if ((line->valid & mask) != mask) {
        _Alignas(8) uint8_t data[EMU_LINE];

        emu_memory_read(tag, data);
        emu_line_merge(line->data, data, ~line->valid);
        line->valid = ~0ull;
    }
    memcpy(&old, line->data + at, bytes);
    value = next(old, context);
    memcpy(line->data + at, &value, bytes);
    emu_line_mark_dirty(&d->agent, line, mask, ++d->clock);
    return old;
}

/* ---- what instructions and the caches themselves do to lines ---- */

void emu_mem_invalidate(const struct emu_path *p, enum emu_scope scope)
{
    if (p->device->num_xcds == 0) {
        /* "Memory Model GFX90A": buffer_wbinvl1_vol is for the L1 alone, buffer_invl2 for the L2 alone. */
        emu_cache_invalidate(scope == EMU_SCOPE_SYSTEM ? &p->device->agent : p->l1);
        return;
    }
    if (scope >= EMU_SCOPE_AGENT) {
        emu_cache_invalidate(p->l1);
        emu_cache_invalidate(l2_of(p)); /* "buffer_inv sc1 ... will invalidate non-local L2 cache lines" */
    }
    if (scope == EMU_SCOPE_SYSTEM) {
        emu_cache_invalidate(&p->device->agent);
    }
}

static uint32_t write_back_some(struct emu_device *d, struct emu_cache *c, uint64_t stamp, uint32_t n, struct emu_fate *fate)
{
    uint32_t start = c->num_dirty > 0 ? emu_below(&fate->rng, c->num_dirty) : 0, done = 0;

    for (uint32_t k = 0; k < c->num_dirty && done < n;) {
        struct emu_line *line = &c->lines[c->dirty[(start + k) % c->num_dirty]];

        if (line->stamp <= stamp) { /* later stores are none of this write-back's business */
            write_back_line(d, c, line, fate);
            done++;
            k = 0;
            start = c->num_dirty > 0 ? emu_below(&fate->rng, c->num_dirty) : 0;
        } else {
            k++;
        }
    }
    return done;
}

bool emu_mem_write_back(const struct emu_path *p, enum emu_scope scope, uint64_t stamp, uint32_t n)
{
    struct emu_device *d = p->device;
    uint32_t done = 0;

    if (d->num_xcds > 0 && scope >= EMU_SCOPE_AGENT) {
        done = write_back_some(d, l2_of(p), stamp, n, p->fate);
    }
    if (done < n && scope == EMU_SCOPE_SYSTEM) {
        done += write_back_some(d, &d->agent, stamp, n - done, p->fate);
    }
    return done < n;
}

void emu_mem_evict(struct emu_device *d, struct emu_fate *fate)
{
    uint32_t which = emu_below(&fate->rng, d->num_xcds + 1);
    struct emu_cache *c = which == d->num_xcds ? &d->agent : &d->l2[which];
    struct emu_line *line;

    if (c->num_dirty > 0 && emu_chance(&fate->rng, 3u << 14)) {
        line = &c->lines[c->dirty[emu_below(&fate->rng, c->num_dirty)]];
        write_back_line(d, c, line, fate);
        if (c != &d->agent && emu_chance(&fate->rng, 1u << 15) && (line = emu_cache_find(&d->agent, line->tag)) != NULL && line->dirty != 0) {
            write_back_line(d, &d->agent, line, fate);
        }
    } else if (c->used > 0) {
        line = &c->lines[emu_below(&fate->rng, c->used)];
        line->valid &= line->dirty;
    }
}

static void plant(struct emu_device *d, struct emu_cache *c, const struct emu_copy *copy, struct emu_fate *fate)
{
    struct emu_line *line = place(d, c, copy->tag, fate);

    emu_line_merge(line->data, copy->data, copy->valid & ~line->dirty);
    line->valid |= copy->valid;
}

static bool holds(struct emu_cache *c, uint64_t tag)
{
    struct emu_line *line = emu_cache_find(c, tag);

    return line != NULL && line->valid != 0;
}

void emu_mem_plant(const struct emu_path *p, const struct emu_copy *copy)
{
    struct emu_device *d = p->device;
    struct emu_cache *l2 = l2_of(p);
    uint64_t bits = emu_rand64(&p->fate->rng);

    /* A copy that is there is as new, or newer. The L2 of an L2-level copy is the one that was written. */
    if (holds(p->l1, copy->tag) || (copy->level != EMU_LEVEL_L2 && holds(l2, copy->tag)) || (d != copy->device && holds(&d->agent, copy->tag))) {
        return;
    }
    if (d != copy->device && (bits & 1) != 0) {
        plant(d, &d->agent, copy, p->fate);
    }
    if (copy->level != EMU_LEVEL_L2 && l2 != &d->agent && (bits & 2) != 0) {
        plant(d, l2, copy, p->fate);
    }
    if ((bits & 4) != 0) {
        plant(d, p->l1, copy, p->fate);
    }
}

void emu_mem_kernel_start(struct emu_device *d)
{
    emu_cache_invalidate(&d->agent);
    for (uint32_t x = 0; x < EMU_MAX_XCDS; x++) {
        emu_cache_invalidate(&d->l2[x]);
        emu_cache_invalidate(&d->scalar[x]);
    }
}

void emu_mem_kernel_end(struct emu_device *d, struct emu_fate *fate)
{
    for (uint32_t x = 0; x < d->num_xcds; x++) {
        write_back_some(d, &d->l2[x], UINT64_MAX, UINT32_MAX, fate);
    }
    write_back_some(d, &d->agent, UINT64_MAX, UINT32_MAX, fate);
}
