/* SPDX-License-Identifier: MIT
 *
 * Issuing vector memory accesses. */
#include "vmem.h"

#include <string.h>

#include "atomic.h"
#include "lds.h"

/* "Memory Model GFX942": sc0 and sc1 are the scope of loads and stores; of atomics sc1 alone, sc0 asks for the old value. "Memory Model GFX90A": glc makes
 * a load miss the L1, scc is not used by the memory model and reaches the system. Atomics there have no bits: agent and system scope are
 * one instruction, so it acts on memory; and stores of fine-grained memory never leave a dirty line, so any store may pass the L2. */
enum emu_scope emu_vmem_scope(struct emu_wave *w, const struct emu_inst *inst, enum emu_access_kind kind)
{
    if (w->arch == EMU_GFX90A) {
        if (kind == EMU_ACCESS_ATOMIC || (inst->mods & EMU_SC1) != 0) {
            return EMU_SCOPE_SYSTEM;
        }
        if (kind == EMU_ACCESS_STORE) {
            return emu_chance(&emu_gang_of(w)->fate.rng, 1u << 14) ? EMU_SCOPE_SYSTEM : EMU_SCOPE_WAVE;
        }
        return inst->mods & EMU_SC0 ? EMU_SCOPE_AGENT : EMU_SCOPE_WAVE;
    }
    if (kind == EMU_ACCESS_ATOMIC) {
        return inst->mods & EMU_SC1 ? EMU_SCOPE_SYSTEM : EMU_SCOPE_AGENT;
    }
    return (enum emu_scope)((inst->mods & EMU_SC0 ? 1 : 0) + (inst->mods & EMU_SC1 ? 2 : 0));
}

bool emu_vmem_known(struct emu_wave *w, const struct emu_operand *o, const char *role)
{
    for (unsigned k = 0; k < o->count; k++) {
        unsigned reg = o->index + k;
        const uint64_t *known = o->kind == EMU_SGPR ? w->s_known : w->v_known;

        reg += o->kind == EMU_AGPR ? 256 : 0;
        if (o->kind != EMU_SGPR && o->kind != EMU_VGPR && o->kind != EMU_AGPR) {
            return true;
        }
        if ((known[reg / 64] >> reg % 64 & 1) == 0) {
            return emu_wave_fail(w, "%s is %c%u, which was never written", role, o->kind == EMU_SGPR ? 's' : o->kind == EMU_AGPR ? 'a' : 'v', o->index + k);
        }
    }
    return true;
}

/* ---- addresses ---- */

static bool check_lane(struct emu_wave *w, const struct emu_request *q, unsigned lane, uint32_t width, uint32_t alignment)
{
    struct emu_gang *gang = emu_gang_of(w);
    uint64_t addr = q->addr[lane];
    char near[200];

    if (addr % alignment != 0) {
        return emu_wave_fail(w, "lane %u: address 0x%llx is not a multiple of %u", lane, (unsigned long long)addr, (unsigned)alignment);
    }
    if (emu_region_find(&gang->regions, addr, width) == NULL) {
        emu_region_describe(&gang->regions, addr, near, sizeof(near));
        return emu_wave_fail(w, "lane %u: %s of %u bytes at 0x%llx is out of bounds (%s)", lane, q->kind == EMU_ACCESS_STORE ? "store" :
                             q->kind == EMU_ACCESS_ATOMIC ? "atomic" : "load", (unsigned)width, (unsigned long long)addr, near);
    }
    return true;
}

static bool check_addresses(struct emu_wave *w, const struct emu_request *q, struct emu_access *a, uint32_t width)
{
    uint32_t alignment = q->kind == EMU_ACCESS_ATOMIC ? width : width >= 4 ? 4 : width;
    uint64_t low = UINT64_MAX, high = 0, bits = 0;

    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        if (q->lanes >> lane & 1) {
            low = q->addr[lane] < low ? q->addr[lane] : low;
            high = q->addr[lane] > high ? q->addr[lane] : high;
            bits |= q->addr[lane];
            a->lines |= 1ull << (q->addr[lane] / EMU_LINE % 64) | 1ull << ((q->addr[lane] + width - 1) / EMU_LINE % 64);
        }
    }
    a->low = low;
    a->high = high + width;
    if (bits % alignment == 0 && high + width >= low && emu_region_find(&emu_gang_of(w)->regions, low, high + width - low) != NULL) {
        return true;
    }
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        if ((q->lanes >> lane & 1) && !check_lane(w, q, lane, width, alignment)) {
            return false;
        }
    }
    return true;
}

/* PCIe carries fetch-and-add, exchange and compare-and-exchange; another operation is lost on the way to the host. And who works on a word that the host
 * reads must say so by the scope (gfx90a: its instruction has none). */
static bool check_host_atomic(struct emu_wave *w, const struct emu_inst *inst, const struct emu_request *q)
{
    const struct emu_region *r = emu_region_find(&emu_gang_of(w)->regions, q->addr[__builtin_ctzll(q->lanes)], inst->width);

    if (r == NULL || !r->host) {
        return true;
    }
    if (inst->sub != EMU_ATOMIC_ADD && inst->sub != EMU_ATOMIC_SWAP && inst->sub != EMU_ATOMIC_CMPSWAP) {
        return emu_wave_fail(w, "an atomic on host memory that is neither add nor swap nor cmpswap");
    }
    return q->scope == EMU_SCOPE_SYSTEM || emu_wave_fail(w, "an atomic of agent scope on host memory");
}

/* ---- runs: lanes whose bytes are neighbours, and their 64-byte segments ---- */

static uint32_t count_segments(const struct emu_access *a)
{
    uint64_t seen[256];
    uint8_t used[256] = {0};
    uint32_t n = 0;

    if (a->num_runs == 1) {
        return (uint32_t)((a->runs[0].addr + a->runs[0].bytes - 1) / EMU_LINE - a->runs[0].addr / EMU_LINE + 1);
    }
    for (uint32_t r = 0; r < a->num_runs; r++) { /* at most 2 for each lane: half of the table */
        for (uint64_t s = a->runs[r].addr / EMU_LINE; s <= (a->runs[r].addr + a->runs[r].bytes - 1) / EMU_LINE; s++) {
            uint8_t slot = (uint8_t)(s * 0x9e3779b97f4a7c15u >> 56);

            while (used[slot] && seen[slot] != s) {
                slot++;
            }
            n += !used[slot];
            used[slot] = 1;
            seen[slot] = s;
        }
    }
    return n;
}

static void make_runs(const struct emu_request *q, struct emu_access *a)
{
    uint32_t width = a->width, last_at = UINT32_MAX;
    uint64_t last = 0;
    struct emu_run *run = a->runs - 1;

    if (q->kind == EMU_ACCESS_LOAD && a->high - a->low == width && a->exec == q->lanes) {
        a->runs[0] = (struct emu_run){a->low, 0, width};
        a->num_runs = 1;
        a->uniform = true;
        a->todo[0] = width > 8 ? 3 : 1;
        return;
    }
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        uint32_t at = lane * width;

        if ((q->lanes >> lane & 1) == 0) {
            continue;
        }
        if (at == last_at && q->addr[lane] == last) {
            run->bytes += width;
        } else {
            *++run = (struct emu_run){q->addr[lane], at, width};
        }
        last_at = at + width;
        last = q->addr[lane] + width;
    }
    a->num_runs = (uint32_t)(run - a->runs) + 1;
    for (uint32_t r = 0; r < a->num_runs; r++) {
        for (uint32_t part = a->runs[r].at / 8; part <= (a->runs[r].at + a->runs[r].bytes - 1) / 8; part++) {
            a->todo[part / 64] |= 1ull << part % 64;
        }
    }
}

/* ---- data ---- */

static void capture(struct emu_wave *w, const struct emu_inst *inst, const struct emu_request *q, struct emu_access *a)
{
    if (a->width < 4) {
        const uint32_t *row = emu_v(w, q->data, 0);
        unsigned shift = (inst->sub & EMU_SUB_FORM) == EMU_SUB_D16_HIGH ? 16 : 0;

        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            uint32_t value = row[lane] >> shift;

            memcpy(a->data + (size_t)lane * a->width, &value, a->width);
        }
        return;
    }
    for (unsigned k = 0; k < a->width / 4u; k++) {
        const uint32_t *row = emu_v(w, q->data, k);

        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            memcpy(a->data + (size_t)lane * a->width + 4 * k, &row[lane], 4);
        }
    }
}

static void count(struct emu_wave *w, const struct emu_request *q, const struct emu_access *a)
{
    uint32_t lanes = (uint32_t)__builtin_popcountll(q->lanes);

    if (q->kind == EMU_ACCESS_ATOMIC) {
        EMU_COUNT(w, atomics, 1);
        emu_gang_of(w)->progress++;
    } else if (q->kind == EMU_ACCESS_STORE) {
        EMU_COUNT(w, stores, 1);
        EMU_COUNT(w, store_bytes, lanes * a->width);
        EMU_COUNT(w, store_transactions, a->num_runs > 0 ? count_segments(a) : 0);
        emu_gang_of(w)->progress++;
    } else {
        EMU_COUNT(w, loads, 1);
        EMU_COUNT(w, load_bytes, lanes * a->width);
        EMU_COUNT(w, load_transactions, a->num_runs > 0 ? count_segments(a) : 0);
    }
}

/* The counter holds 63: hardware waits for the oldest. A load stays, its register must be waited for. */
static void make_room(struct emu_wave *w)
{
    if (w->num_vm >= 63 && w->vm->num_regs == 0) {
        while (emu_access_progress(w, 62, -1)) {
        }
        emu_access_retire(w, 62, -1);
    }
}

static bool prepare(struct emu_wave *w, const struct emu_inst *inst, const struct emu_request *q, struct emu_access *a)
{
    if (a->exec != q->lanes) {
        memset(a->data, 0, sizeof(a->data)); /* a buffer's lanes out of range read zeroes */
    }
    if (q->data != NULL) {
        capture(w, inst, q, a);
    }
    if (q->kind == EMU_ACCESS_TO_LDS) {
        a->lds_lanes = a->exec;
        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            a->lds[0][lane] = q->lds_base + lane * a->width;
        }
        if (!emu_lds_expect(w, a)) {
            return false;
        }
    } else if (a->lds_lanes != 0) {
        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            a->lds[0][lane] = (uint32_t)q->addr[lane];
        }
        if (!emu_lds_flat(w, a)) {
            return false;
        }
    }
    if (q->lanes == 0) {
        a->done = true;
        if (q->kind == EMU_ACCESS_TO_LDS) {
            emu_lds_arrive(w, a);
        }
        return true;
    }
    if (!check_addresses(w, q, a, a->size)) {
        return false;
    }
    if (q->kind == EMU_ACCESS_ATOMIC) {
        if (!check_host_atomic(w, inst, q)) {
            return false;
        }
        memcpy(a->addr, q->addr, sizeof(a->addr));
        a->todo[0] = q->lanes;
    } else {
        make_runs(q, a);
    }
    return true;
}

bool emu_vmem_issue(struct emu_wave *w, const struct emu_inst *inst, const struct emu_request *q)
{
    struct emu_access *a;

    if (w->num_vm >= 63) {
        make_room(w);
    }
    a = emu_access_new(w, inst, q->kind);
    if (a == NULL) {
        return false;
    }
    a->scope = (uint8_t)q->scope;
    a->size = inst->width;
    a->width = (uint8_t)(q->kind == EMU_ACCESS_ATOMIC && inst->sub == EMU_ATOMIC_CMPSWAP ? 2 * inst->width : inst->width);
    a->places = 1;
    if (inst->text[0] == 'f') { /* flat */
        a->lgkm = a->unordered = true;
        a->lds_lanes = q->lds_lanes;
    }
    if (q->reg != NULL) {
        a->reg = (uint16_t)((q->reg->kind == EMU_AGPR ? 256u : 0u) + q->reg->index);
        a->num_regs = (uint8_t)((a->size + 3) / 4);
    }
    if (!prepare(w, inst, q, a)) {
        emu_access_free(emu_gang_of(w), a);
        return false;
    }
    count(w, q, a);
    emu_access_issue(w, a);
    return true;
}
