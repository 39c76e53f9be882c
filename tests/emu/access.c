/* SPDX-License-Identifier: MIT
 *
 * How outstanding accesses are performed and retired. */
#include <stdlib.h>
#include <string.h>

#include "access.h"
#include "lds.h"

struct emu_access *emu_access_new(struct emu_wave *w, const struct emu_inst *inst, enum emu_access_kind kind)
{
    struct emu_gang *gang = emu_gang_of(w);
    struct emu_access *a = gang->spare;

    if (a != NULL) {
        gang->spare = a->next_vm;
    } else if ((a = malloc(sizeof(*a))) == NULL) {
        emu_wave_fail(w, "out of memory");
        return NULL;
    }
    memset(a, 0, offsetof(struct emu_access, runs));
    a->inst = inst;
    a->kind = (uint8_t)kind;
    a->exec = emu_exec_mask(w);
    a->width = inst->width;
    a->vm = kind <= EMU_ACCESS_WRITE_BACK;
    a->lgkm = !a->vm;
    return a;
}

void emu_access_free(struct emu_gang *gang, struct emu_access *a)
{
    a->next_vm = gang->spare;
    gang->spare = a;
}

static void set_bits(uint64_t *words, uint32_t first, uint32_t num, bool value)
{
    for (uint32_t i = first; i < first + num; i++) {
        if (value) {
            words[i / 64] |= 1ull << i % 64;
        } else {
            words[i / 64] &= ~(1ull << i % 64);
        }
    }
}

void emu_pend(struct emu_wave *w, const struct emu_access *a)
{
    if (a->kind == EMU_ACCESS_SCALAR) {
        set_bits(w->s_pending, a->reg, a->num_regs, true);
        set_bits(w->s_known, a->reg, a->num_regs, true);
    } else {
        set_bits(w->v_pending, a->reg, a->num_regs, true);
        set_bits(w->v_known, a->reg, a->num_regs, true);
    }
}

void emu_access_issue(struct emu_wave *w, struct emu_access *a)
{
    struct emu_access **link;

    if (a->num_regs > 0) {
        emu_pend(w, a);
    }
    if (a->vm) {
        for (link = &w->vm; *link != NULL; link = &(*link)->next_vm) {
        }
        *link = a;
        w->num_vm++;
    }
    if (a->lgkm) {
        for (link = &w->lgkm; *link != NULL; link = &(*link)->next_lgkm) {
        }
        *link = a;
        w->num_lgkm++;
    }
}

/* ---- performing ---- */

static void transfer(const struct emu_path *p, struct emu_access *a, uint64_t addr, uint32_t at, uint32_t bytes)
{
    while (bytes > 0) {
        uint32_t room = EMU_LINE - (uint32_t)(addr % EMU_LINE), n = bytes < room ? bytes : room;

        if (a->kind == EMU_ACCESS_STORE) {
            emu_mem_write(p, addr, a->data + at, n, (enum emu_scope)a->scope);
        } else if (a->kind == EMU_ACCESS_SCALAR) {
            emu_mem_read_scalar(p, addr, a->data + at, n);
        } else {
            emu_mem_read(p, addr, a->data + at, n, (enum emu_scope)a->scope);
        }
        addr += n;
        at += n;
        bytes -= n;
    }
}

/* Only the parts of select, 8 bytes of data each. */
static void transfer_parts(const struct emu_path *p, struct emu_access *a, const uint64_t select[2])
{
    for (uint32_t r = 0; r < a->num_runs; r++) {
        const struct emu_run *run = &a->runs[r];

        for (uint32_t at = run->at, end = run->at + run->bytes; at < end;) {
            uint32_t part = at / 8, stop = (part + 1) * 8 < end ? (part + 1) * 8 : end;

            if (select[part / 64] >> part % 64 & 1) {
                transfer(p, a, run->addr + (at - run->at), at, stop - at);
            }
            at = stop;
        }
    }
}

static void perform(struct emu_wave *w, struct emu_access *a)
{
    struct emu_gang *gang = emu_gang_of(w);
    struct emu_path p = emu_path_of(w);
    uint64_t select[2] = {a->todo[0], a->todo[1]};
    bool whole = true;

    if (a->kind == gang->mood.slow_kind && !gang->idling && emu_chance(&gang->fate.rng, 63000) &&
        (gang->mood.slow_grid == UINT32_MAX || w->group->grid == &gang->grids[gang->mood.slow_grid])) {
        gang->stalled = true;
        return;
    }
    if (a->kind == EMU_ACCESS_WRITE_BACK) {
        a->done = emu_mem_write_back(&p, (enum emu_scope)a->scope, a->stamp, emu_chance(&gang->fate.rng, gang->mood.tear) ?
                                     1 + emu_below(&gang->fate.rng, 8) : UINT32_MAX);
        return;
    }
    if (emu_chance(&gang->fate.rng, gang->mood.tear)) {
        /* The parts of one access are ordered by nothing: a store of 16 bytes may be seen torn, one of 8 aligned bytes may not. */
        uint64_t sparse = emu_rand64(&gang->fate.rng);

        select[0] &= emu_rand64(&gang->fate.rng) | sparse;
        select[1] &= emu_rand64(&gang->fate.rng) | sparse;
        whole = select[0] == a->todo[0] && select[1] == a->todo[1];
    }
    if (a->kind == EMU_ACCESS_ATOMIC) {
        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            if (select[0] >> lane & 1) {
                emu_atomic_lane(w, a, lane);
            }
        }
    } else if (whole && !a->begun) {
        for (uint32_t r = 0; r < a->num_runs; r++) {
            transfer(&p, a, a->runs[r].addr, a->runs[r].at, a->runs[r].bytes);
        }
    } else {
        transfer_parts(&p, a, select);
    }
    a->begun = true;
    a->todo[0] &= ~select[0];
    a->todo[1] &= ~select[1];
    for (struct emu_access *b = a->next_vm; a->kind == EMU_ACCESS_STORE && b != NULL; b = b->next_vm) {
        if (b->kind == EMU_ACCESS_WRITE_BACK) { /* takes it, but not what other waves stored since it was issued */
            b->stamp = p.device->clock;
        }
    }
    if ((a->todo[0] | a->todo[1]) == 0) {
        a->done = true;
        if (a->kind == EMU_ACCESS_TO_LDS) {
            emu_lds_arrive(w, a);
        }
    }
}

static bool conflicts(const struct emu_access *a, const struct emu_access *b)
{
    /* "No special action is required for coherence between the lanes of a single wavefront", so accesses of a wave to one address keep their order; of
     * two loads only those that bypass the L1, which may be atomic. */
    if (a->kind == EMU_ACCESS_WRITE_BACK || b->kind == EMU_ACCESS_WRITE_BACK) {
        /* "buffer_wbl2 ... Performs L2 writeback to ensure previous global/generic store/atomicrmw are visible": the sequences put no wait before it, so it
         * comes behind the older stores of its wave. */
        return a->kind == EMU_ACCESS_WRITE_BACK && b->kind != EMU_ACCESS_WRITE_BACK && b->kind != EMU_ACCESS_LOAD;
    }
    if ((a->kind == EMU_ACCESS_LOAD || a->kind == EMU_ACCESS_TO_LDS) && (b->kind == EMU_ACCESS_LOAD || b->kind == EMU_ACCESS_TO_LDS) &&
        (a->scope < EMU_SCOPE_AGENT || b->scope < EMU_SCOPE_AGENT)) {
        return false;
    }
    return a->low < b->high && b->low < a->high && (a->lines & b->lines) != 0;
}

/* The oldest access that must be performed before a may be. */
static struct emu_access *first_in_order(struct emu_wave *w, struct emu_access *a)
{
    for (struct emu_access *b = w->vm; a->vm && b != NULL && b != a; b = b->next_vm) {
        if (!b->done && conflicts(a, b)) {
            return first_in_order(w, b);
        }
    }
    return a;
}

/* ---- the counters ----
 *
 * vmcnt: "completion is reported to a wavefront in execution order. The exception is that flat_load/store/atomic instructions can report out of vector
 * memory order" (Memory Model GFX90A, GFX942). lgkmcnt counts LDS operations, reported in order, and scalar loads, which are not. So an ordered
 * access is known to be complete when n younger ordered ones of its kind are allowed to be outstanding and n exist; an unordered one for n = 0 only. */

static uint32_t ordered_vm(const struct emu_wave *w)
{
    uint32_t n = 0;

    for (const struct emu_access *a = w->vm; a != NULL; a = a->next_vm) {
        n += !a->unordered;
    }
    return n;
}

static uint32_t ordered_lgkm(const struct emu_wave *w)
{
    uint32_t n = 0;

    for (const struct emu_access *a = w->lgkm; a != NULL; a = a->next_lgkm) {
        n += a->kind == EMU_ACCESS_DS;
    }
    return n;
}

#define MAX_COVERED 128

/* Accesses that the counts cover and that are not done. */
static uint32_t covered(const struct emu_wave *w, int vmcnt, int lgkmcnt, struct emu_access *list[MAX_COVERED])
{
    uint32_t left, n = 0;

    if (vmcnt >= 0 && w->num_vm > 0) {
        left = vmcnt > 0 ? ordered_vm(w) : UINT32_MAX;
        for (struct emu_access *a = w->vm; a != NULL && n < MAX_COVERED; a = a->next_vm) {
            bool covers = a->unordered ? vmcnt == 0 : left-- > (uint32_t)vmcnt;

            if (covers && !a->done) {
                list[n++] = a;
            }
        }
    }
    if (lgkmcnt == 0) { /* LDS operations are performed when issued */
        for (struct emu_access *a = w->lgkm; a != NULL && n < MAX_COVERED; a = a->next_lgkm) {
            if (!a->done && (!a->vm || vmcnt < 0)) {
                list[n++] = a;
            }
        }
    }
    return n;
}

bool emu_access_progress(struct emu_wave *w, int vmcnt, int lgkmcnt)
{
    struct emu_access *list[MAX_COVERED];
    uint32_t n = covered(w, vmcnt, lgkmcnt, list);

    if (n == 0) {
        return false;
    }
    perform(w, first_in_order(w, list[n == 1 ? 0 : emu_below(&emu_gang_of(w)->fate.rng, n)]));
    return true;
}

bool emu_access_outstanding(const struct emu_wave *w, int vmcnt, int lgkmcnt)
{
    return (vmcnt >= 0 && w->num_vm > (uint32_t)vmcnt) || (lgkmcnt >= 0 && w->num_lgkm > (uint32_t)lgkmcnt);
}

/* ---- retiring ---- */

static uint32_t merge_half(const struct emu_inst *inst, uint32_t old, uint32_t value)
{
    switch (inst->sub & EMU_SUB_FORM) {
    case EMU_SUB_SIGNED: return inst->width == 1 ? (uint32_t)(int8_t)value : inst->width == 2 ? (uint32_t)(int16_t)value : value;
    case EMU_SUB_D16_LOW: return (old & 0xffff0000u) | (value & 0xffff);
    case EMU_SUB_D16_LOW_SIGNED: return (old & 0xffff0000u) | (uint16_t)(int16_t)(int8_t)value;
    case EMU_SUB_D16_HIGH: return (old & 0xffff) | value << 16;
    case EMU_SUB_D16_HIGH_SIGNED: return (old & 0xffff) | (uint32_t)(uint16_t)(int16_t)(int8_t)value << 16;
    default: return value;
    }
}

/* One dword of all active lanes; from lanes that are `stride` bytes apart, 0: one value for all. */
static void write_row(uint32_t *row, uint64_t exec, const uint8_t *data, uint32_t stride)
{
    for (unsigned lane = 0; exec == ~0ull && lane < EMU_LANES; lane++) {
        memcpy(&row[lane], data + lane * stride, 4);
    }
    for (uint64_t left = exec == ~0ull ? 0 : exec; left != 0; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctzll(left);

        memcpy(&row[lane], data + lane * stride, 4);
    }
}

static void write_vector(struct emu_wave *w, const struct emu_access *a)
{
    uint32_t stride = a->uniform ? 0 : a->width;

    for (uint32_t k = 0; k < a->num_regs; k++) {
        uint32_t *row = w->v[a->reg + k];

        if (a->width >= 4) {
            write_row(row, a->exec, a->data + 4 * k, stride);
            continue;
        }
        for (uint64_t left = a->exec; left != 0; left &= left - 1) {
            unsigned lane = (unsigned)__builtin_ctzll(left);
            uint32_t value = 0;

            memcpy(&value, a->data + lane * stride, a->width);
            row[lane] = merge_half(a->inst, row[lane], value);
        }
    }
}

static bool retire(struct emu_wave *w, struct emu_access *a)
{
    bool store = a->kind == EMU_ACCESS_STORE;

    if (a->kind == EMU_ACCESS_SCALAR) {
        memcpy(&w->s[a->reg], a->data, 4 * a->num_regs);
        set_bits(w->s_pending, a->reg, a->num_regs, false);
    } else if (a->num_regs > 0) {
        write_vector(w, a);
        set_bits(w->v_pending, a->reg, a->num_regs, false);
        for (uint32_t k = 0; a->unwritten >> k != 0; k++) {
            if (a->unwritten >> k & 1) {
                set_bits(w->v_known, a->reg + k, 1, false);
            }
        }
    }
    if (a->lds_lanes != 0) {
        emu_lds_retire(w, a);
    }
    emu_access_free(emu_gang_of(w), a);
    return store;
}

uint32_t emu_access_retire(struct emu_wave *w, int vmcnt, int lgkmcnt)
{
    uint32_t left, stores = 0, retired = 0;
    struct emu_access **link;

    if (vmcnt >= 0 && w->num_vm > 0) {
        left = ordered_vm(w);
        for (link = &w->vm; *link != NULL;) {
            struct emu_access *a = *link;
            bool covers = a->unordered ? vmcnt == 0 : left-- > (uint32_t)vmcnt;

            if (covers) {
                *link = a->next_vm;
                w->num_vm--;
                a->vm = false;
                if (!a->lgkm) { /* flat accesses wait for both counters */
                    stores += retire(w, a);
                    retired++;
                }
            } else {
                link = &a->next_vm;
            }
        }
    }
    if (lgkmcnt >= 0 && w->num_lgkm > 0) {
        left = ordered_lgkm(w);
        for (link = &w->lgkm; *link != NULL;) {
            struct emu_access *a = *link;
            bool covers = a->kind == EMU_ACCESS_DS ? left-- > (uint32_t)lgkmcnt : lgkmcnt == 0;

            if (covers) {
                *link = a->next_lgkm;
                w->num_lgkm--;
                a->lgkm = false;
                if (!a->vm) {
                    stores += retire(w, a);
                    retired++;
                }
            } else {
                link = &a->next_lgkm;
            }
        }
    }
    if (retired > 0) { /* two loads of one register may be outstanding, in order: it is pending until the last */
        for (struct emu_access *a = w->vm; a != NULL; a = a->next_vm) {
            if (a->num_regs > 0) {
                emu_pend(w, a);
            }
        }
        for (struct emu_access *a = w->lgkm; a != NULL; a = a->next_lgkm) {
            if (a->num_regs > 0) {
                emu_pend(w, a);
            }
        }
    }
    return stores;
}
