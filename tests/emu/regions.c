/* SPDX-License-Identifier: MIT
 *
 * Which memory a kernel may touch: the allocations that the user of the interpreter knows, and the gang's own buffers. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "run.h"

static _Atomic(emu_find_region *) find_region;
static atomic_uint_fast64_t version;

void emu_set_regions(emu_find_region *find)
{
    atomic_store(&find_region, find);
    atomic_fetch_add(&version, 1);
}

void emu_regions_changed(void)
{
    atomic_fetch_add(&version, 1);
}

static bool add(struct emu_regions *r, uint64_t base, uint64_t bytes, bool own, bool host)
{
    if (r->num == r->capacity) {
        uint32_t capacity = r->capacity == 0 ? 16 : 2 * r->capacity;
        struct emu_region *list = realloc(r->list, capacity * sizeof(*list));

        if (list == NULL) {
            return false;
        }
        r->list = list;
        r->capacity = capacity;
    }
    r->list[r->num++] = (struct emu_region){base, base + bytes, own, host};
    return true;
}

bool emu_region_add(struct emu_regions *r, uint64_t base, uint64_t bytes, bool own)
{
    return add(r, base, bytes, own, false);
}

static bool holds(const struct emu_region *region, uint64_t addr, uint64_t bytes)
{
    return addr >= region->base && addr < region->end && bytes <= region->end - addr;
}

const struct emu_region *emu_region_find(struct emu_regions *r, uint64_t addr, uint64_t bytes)
{
    uint64_t now = atomic_load_explicit(&version, memory_order_acquire), base, size;
    emu_find_region *find;
    bool host = false;

    if (r->version != now) {
        uint32_t kept = 0;

        for (uint32_t i = 0; i < r->num; i++) {
            if (r->list[i].own) {
                r->list[kept++] = r->list[i];
            }
        }
        r->num = kept;
        r->last = 0;
        r->version = now;
    }
    if (r->last < r->num && holds(&r->list[r->last], addr, bytes)) {
        return &r->list[r->last];
    }
    for (uint32_t i = 0; i < r->num; i++) {
        if (holds(&r->list[i], addr, bytes)) {
            r->last = i;
            return &r->list[i];
        }
    }
    find = atomic_load(&find_region);
    if (find != NULL && find(addr, &base, &size, &host) && add(r, base, size, false, host)) {
        r->last = r->num - 1;
        return holds(&r->list[r->last], addr, bytes) ? &r->list[r->last] : NULL;
    }
    return NULL;
}

void emu_region_describe(const struct emu_regions *r, uint64_t addr, char *text, size_t bytes)
{
    const struct emu_region *near = NULL;
    uint64_t distance = UINT64_MAX;

    for (uint32_t i = 0; i < r->num; i++) {
        const struct emu_region *region = &r->list[i];
        uint64_t away = addr < region->base ? region->base - addr : addr >= region->end ? addr - region->end : 0;

        if (away < distance) {
            near = region;
            distance = away;
        }
    }
    if (near == NULL) {
        snprintf(text, bytes, "no allocation was touched before");
    } else {
        snprintf(text, bytes, "%llu bytes %s the nearest known allocation, %llu bytes at 0x%llx", (unsigned long long)distance,
                 addr < near->base ? "before" : addr >= near->end ? "behind the end of" : "inside, but reaching over the end of",
                 (unsigned long long)(near->end - near->base), (unsigned long long)near->base);
    }
}
