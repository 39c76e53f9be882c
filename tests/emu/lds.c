/* SPDX-License-Identifier: MIT
 *
 * LDS bytes and their shadow. */
#include "lds.h"

#include <stdlib.h>
#include <string.h>

/* Of each byte, the last write and the last read: epoch << 8 | wave, with ATOMIC and OPEN above the wave. 0: never. Epochs start at 1. */
struct shadow {
    uint32_t write, read;
};
#define WAVE_MASK 31u
#define MANY 31u    /* readers: several waves. A workgroup has at most 16 */
#define ATOMIC 32u
#define OPEN 64u    /* the write is not known to be complete: of use to its own wave only */
#define UNORDERED 128u /* by a load into LDS: not even its own wave's LDS operations come behind it before it was waited for */
#define EPOCH_SHIFT 8

bool emu_lds_init(struct emu_group *group, uint32_t bytes)
{
    group->epoch = 1;
    group->lds_bytes = bytes;
    if (bytes == 0) {
        return true;
    }
    group->lds = malloc(bytes);
    group->lds_shadow = calloc(bytes, sizeof(struct shadow));
    if (group->lds == NULL || group->lds_shadow == NULL) {
        return false;
    }
    memset(group->lds, 0xa5, bytes); /* what the workgroup before left */
    return true;
}

void emu_lds_finish(struct emu_group *group)
{
    free(group->lds);
    free(group->lds_shadow);
}

static bool race(struct emu_wave *w, unsigned lane, uint32_t addr, enum emu_lds_use use, const char *was, uint32_t mark)
{
    uint32_t other = mark & WAVE_MASK;
    const char *now = use == EMU_LDS_READ ? "read" : use == EMU_LDS_WRITE ? "write" : "atomic";

    if (mark & UNORDERED) {
        return emu_wave_fail(w, "lane %u: LDS %s at %u before the load into it by wave %u was waited for", lane, now, (unsigned)addr, (unsigned)other);
    }
    if (mark & OPEN) {
        return emu_wave_fail(w, "lane %u: LDS race at %u: %s, and a %s by wave %u that was not waited for before the barrier", lane, (unsigned)addr, now, was,
                             (unsigned)other);
    }
    if (other == MANY) {
        return emu_wave_fail(w, "lane %u: LDS race at %u: %s, and %s by several waves since the last barrier", lane, (unsigned)addr, now, was);
    }
    return emu_wave_fail(w, "lane %u: LDS race at %u: %s, and %s by wave %u since the last barrier", lane, (unsigned)addr, now, was, (unsigned)other);
}

/* Ordered behind the write of this mark? */
static bool after_write(uint32_t mark, uint32_t epoch, uint32_t self, bool atomic)
{
    if ((mark & UNORDERED) != 0) {
        return false;
    }
    if ((mark & WAVE_MASK) == self) {
        return true;
    }
    return mark == 0 || ((mark >> EPOCH_SHIFT != epoch && (mark & OPEN) == 0) || (atomic && (mark & ATOMIC) != 0));
}

enum verdict { FINE, UNWRITTEN, AFTER_WRITE, AFTER_READ };

/* Notes the access in the shadow, unless there is something to report. */
static enum verdict note(const struct emu_wave *w, struct shadow *s, enum emu_lds_use use)
{
    uint32_t epoch = w->group->epoch, self = w->index, mark = epoch << EPOCH_SHIFT | self | (use == EMU_LDS_ATOMIC ? ATOMIC : 0);

    if (use == EMU_LDS_ATOMIC && s->write == 0) {
        return UNWRITTEN;
    }
    if (!after_write(s->write, epoch, self, use == EMU_LDS_ATOMIC)) {
        return AFTER_WRITE;
    }
    if (use == EMU_LDS_READ) {
        s->read = s->read >> EPOCH_SHIFT == epoch && (s->read & WAVE_MASK) != self ? epoch << EPOCH_SHIFT | MANY : mark;
        return FINE;
    }
    if (s->read >> EPOCH_SHIFT == epoch && (s->read & WAVE_MASK) != self) {
        return AFTER_READ;
    }
    s->write = mark;
    return FINE;
}

static bool touch_byte(struct emu_wave *w, unsigned lane, uint32_t addr, struct shadow *s, enum emu_lds_use use)
{
    switch (note(w, s, use)) {
    case UNWRITTEN: return emu_wave_fail(w, "lane %u: LDS byte %u is read, which was never written", lane, (unsigned)addr);
    case AFTER_WRITE: return race(w, lane, addr, use, "written", s->write);
    case AFTER_READ: return race(w, lane, addr, use, "read", s->read);
    case FINE: break;
    }
    return true;
}

uint8_t *emu_lds_touch(struct emu_wave *w, unsigned lane, uint32_t addr, uint32_t bytes, uint32_t alignment, enum emu_lds_use use)
{
    struct emu_group *g = w->group;
    struct shadow *s, was;

    if (addr % alignment != 0) {
        emu_wave_fail(w, "lane %u: LDS address %u is not a multiple of %u", lane, (unsigned)addr, (unsigned)alignment);
        return NULL;
    }
    if (addr >= g->lds_bytes || bytes > g->lds_bytes - addr) {
        emu_wave_fail(w, "lane %u: %u bytes at LDS address %u are out of bounds: the workgroup has %u", lane, (unsigned)bytes, (unsigned)addr,
                      (unsigned)g->lds_bytes);
        return NULL;
    }
    s = (struct shadow *)g->lds_shadow + addr;
    was = s[0];
    if (!touch_byte(w, lane, addr, &s[0], use)) {
        return NULL;
    }
    for (uint32_t i = 1; i < bytes; i++) {
        if (s[i].write == was.write && s[i].read == was.read) { /* as nearly always: the same thing happens to it */
            s[i] = s[0];
        } else if (!touch_byte(w, lane, addr + i, &s[i], use)) {
            return NULL;
        }
    }
    return g->lds + addr;
}

/* Bytes that all have the same history: one decision for all of them. false: they have not, or there is something to report. */
static bool touch_alike(const struct emu_wave *w, uint32_t addr, uint32_t bytes, enum emu_lds_use use)
{
    struct shadow *s = (struct shadow *)w->group->lds_shadow + addr, next;
    uint64_t first, other, differ = 0;

    if (addr >= w->group->lds_bytes || bytes > w->group->lds_bytes - addr) {
        return false;
    }
    memcpy(&first, s, sizeof(first));
    for (uint32_t i = 1; i < bytes; i++) {
        memcpy(&other, &s[i], sizeof(other));
        differ |= other ^ first;
    }
    next = s[0];
    if (differ != 0 || (use == EMU_LDS_READ && next.write == 0) || note(w, &next, use) != FINE) {
        return false;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        s[i] = next;
    }
    return true;
}

uint8_t *emu_lds_touch_row(struct emu_wave *w, const uint32_t addr[EMU_LANES], uint32_t bytes, uint32_t alignment, enum emu_lds_use use, bool *same)
{
    uint64_t exec = emu_exec_mask(w), equal = 0, row = 0;
    unsigned first = exec != 0 ? (unsigned)__builtin_ctzll(exec) : 0, last = exec != 0 ? 63u - (unsigned)__builtin_clzll(exec) : 0;

    if (exec == 0 || addr[first] % alignment != 0) {
        return NULL;
    }
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        equal |= (uint64_t)(addr[lane] == addr[first]) << lane;
        row |= (uint64_t)(addr[lane] - lane * bytes == addr[first] - first * bytes) << lane;
    }
    *same = (exec & ~equal) == 0;
    if (*same ? use != EMU_LDS_READ : (exec & ~row) != 0 || exec >> first != ~0ull >> (63 - last) >> first) {
        return NULL;
    }
    return touch_alike(w, addr[first], *same ? bytes : (last - first + 1) * bytes, use) ? w->group->lds + addr[first] : NULL;
}

void emu_lds_note_unwritten(const struct emu_wave *w, struct emu_access *a, uint32_t addr, uint32_t bytes, uint32_t at)
{
    const struct shadow *s = (const struct shadow *)w->group->lds_shadow + addr;
    bool some = false;

    for (uint32_t i = 0; i < bytes; i++) {
        some |= s[i].write == 0;
    }
    for (uint32_t i = 0; some && i < bytes; i++) {
        a->unwritten |= (uint8_t)((s[i].write == 0) << (at + i) / 4);
    }
}

/* ---- what is outstanding at a barrier ---- */

/* Calls mark on the shadow of all bytes that an LDS access touched. */
typedef void mark_fn(struct shadow *s, uint32_t self, uint32_t epoch);

static void mark_access(struct emu_wave *w, const struct emu_access *a, mark_fn *mark)
{
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        for (unsigned place = 0; (a->lds_lanes >> lane & 1) && place < a->places; place++) {
            struct shadow *s = (struct shadow *)w->group->lds_shadow + a->lds[place][lane];

            for (uint32_t i = 0; i < a->size; i++) {
                mark(&s[i], w->index, w->group->epoch);
            }
        }
    }
}

static void open_mark(struct shadow *s, uint32_t self, uint32_t epoch)
{
    if ((s->write & WAVE_MASK) == self && s->write != 0) {
        s->write |= OPEN;
    }
    if ((s->read & WAVE_MASK) == self && s->read != 0) {
        s->read = (epoch + 1) << EPOCH_SHIFT | self; /* as if it were read behind the barrier */
    }
}

static void close_mark(struct shadow *s, uint32_t self, uint32_t epoch)
{
    if ((s->write & WAVE_MASK) == self && (s->write & OPEN) != 0) {
        s->write = epoch << EPOCH_SHIFT | (s->write & (WAVE_MASK | ATOMIC));
    }
}

static void claim_mark(struct shadow *s, uint32_t self, uint32_t epoch)
{
    (void)self, (void)epoch;
    s->write |= OPEN | UNORDERED;
}

static void release_mark(struct shadow *s, uint32_t self, uint32_t epoch)
{
    if ((s->write & UNORDERED) != 0 && (s->write & WAVE_MASK) == self) {
        s->write = epoch << EPOCH_SHIFT | self;
    }
}

void emu_lds_barrier(struct emu_wave *w)
{
    for (struct emu_access *a = w->lgkm; a != NULL; a = a->next_lgkm) {
        if (a->lds_lanes != 0) {
            mark_access(w, a, open_mark);
            a->late = true;
        }
    }
}

void emu_lds_retire(struct emu_wave *w, struct emu_access *a)
{
    if (a->kind == EMU_ACCESS_TO_LDS) {
        mark_access(w, a, release_mark);
    } else if (a->late) {
        mark_access(w, a, close_mark);
    }
}

/* ---- loads into LDS, flat accesses ---- */

bool emu_lds_expect(struct emu_wave *w, struct emu_access *a)
{
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        if ((a->lds_lanes >> lane & 1) && emu_lds_touch(w, lane, a->lds[0][lane], a->size, 4, EMU_LDS_WRITE) == NULL) {
            return false;
        }
    }
    mark_access(w, a, claim_mark);
    return true;
}

void emu_lds_arrive(struct emu_wave *w, struct emu_access *a)
{
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        if (a->lds_lanes >> lane & 1) {
            memcpy(w->group->lds + a->lds[0][lane], a->data + (size_t)lane * a->width, a->width);
        }
    }
}

bool emu_lds_flat(struct emu_wave *w, struct emu_access *a)
{
    bool store = a->kind == EMU_ACCESS_STORE;

    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        uint8_t *data = a->data + (size_t)lane * a->width, *lds;

        if ((a->lds_lanes >> lane & 1) == 0) {
            continue;
        }
        lds = emu_lds_touch(w, lane, a->lds[0][lane], a->width, a->width < 4 ? a->width : 4, store ? EMU_LDS_WRITE : EMU_LDS_READ);
        if (lds == NULL) {
            return false;
        }
        memcpy(store ? lds : data, store ? data : lds, a->width);
        if (!store) {
            emu_lds_note_unwritten(w, a, a->lds[0][lane], a->width, 0);
        }
    }
    return true;
}
