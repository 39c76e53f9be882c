/* SPDX-License-Identifier: MIT
 *
 * global_*, flat_* and the cache instructions. */
#include <string.h>

#include "atomic.h"
#include "gang.h"
#include "lds.h"
#include "vmem.h"

static uint64_t scalar_pair(const struct emu_wave *w, const struct emu_operand *o)
{
    return (uint64_t)w->s[o->index + 1] << 32 | w->s[o->index];
}

/* vaddr, and saddr or "off"; flat has no saddr. */
static bool addresses(struct emu_wave *w, const struct emu_inst *i, unsigned vaddr, unsigned saddr, struct emu_request *q)
{
    const struct emu_operand *v = &i->ops[vaddr], *s = saddr < i->num_operands && i->ops[saddr].kind == EMU_SGPR ? &i->ops[saddr] : NULL;
    uint64_t base = (uint64_t)(int64_t)i->offset + (s != NULL ? scalar_pair(w, s) : 0);

    q->lanes = emu_exec_mask(w);
    if ((s != NULL && !emu_vmem_known(w, s, "the base address")) || (v->kind != EMU_NONE && !emu_vmem_known(w, v, "the address"))) {
        return false;
    }
    if (v->kind == EMU_NONE) {
        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            q->addr[lane] = base;
        }
    } else if (s != NULL) {
        const uint32_t *offset = emu_v(w, v, 0);

        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            q->addr[lane] = base + offset[lane];
        }
    } else {
        const uint32_t *low = emu_v(w, v, 0), *high = emu_v(w, v, 1);

        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            q->addr[lane] = base + ((uint64_t)high[lane] << 32 | low[lane]);
        }
    }
    return true;
}

/* Lanes of a flat instruction whose addresses are in the LDS aperture. */
static bool flat_lds(struct emu_wave *w, const struct emu_inst *i, struct emu_request *q)
{
    for (unsigned lane = 0; i->text[0] == 'f' && lane < EMU_LANES; lane++) {
        if ((q->lanes >> lane & 1) && q->addr[lane] >> 48 == EMU_SHARED_BASE >> 48) {
            q->lds_lanes |= 1ull << lane;
        }
    }
    if (q->lds_lanes != 0 && q->kind == EMU_ACCESS_ATOMIC) {
        return emu_wave_fail(w, "flat atomic on LDS: not implemented");
    }
    q->lanes &= ~q->lds_lanes;
    return true;
}

static bool issue(struct emu_wave *w, const struct emu_inst *i, struct emu_request *q)
{
    if (q->data != NULL && !emu_vmem_known(w, q->data, "the data")) {
        return false;
    }
    q->scope = emu_vmem_scope(w, i, q->kind);
    return flat_lds(w, i, q) && emu_vmem_issue(w, i, q);
}

static bool load(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_request q = {.kind = EMU_ACCESS_LOAD, .reg = &i->ops[0]};

    return addresses(w, i, 1, 2, &q) && issue(w, i, &q);
}

static bool store(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_request q = {.kind = EMU_ACCESS_STORE, .data = &i->ops[1]};

    return addresses(w, i, 0, 2, &q) && issue(w, i, &q);
}

static bool atomic(struct emu_wave *w, const struct emu_inst *i)
{
    bool returns = (i->mods & EMU_SC0) != 0;
    struct emu_request q = {.kind = EMU_ACCESS_ATOMIC, .reg = returns ? &i->ops[0] : NULL, .data = &i->ops[returns ? 2 : 1]};

    return addresses(w, i, returns ? 1 : 0, returns ? 3 : 2, &q) && issue(w, i, &q);
}

/* LDS address = M0 + offset + lane * width: M0 is the same for the wave, the instruction's offset counts on both sides. */
static bool load_to_lds(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_request q = {.kind = EMU_ACCESS_TO_LDS, .lds_base = (w->s[EMU_M0] & (w->arch == EMU_GFX950 ? 0x3ffffu : 0xffffu)) + (uint32_t)i->offset};

    if ((w->s_known[EMU_M0 / 64] >> EMU_M0 % 64 & 1) == 0) {
        return emu_wave_fail(w, "m0, the LDS address, was never written");
    }
    return addresses(w, i, 0, 1, &q) && issue(w, i, &q);
}

/* ---- caches ---- */

/* Acts at once: "must happen before any following global/generic load", which issue in order, and as early as it may it drops the fewest stale lines. An
 * earlier load that was not waited for may still be performed later. The compiler does not count it in vmcnt, so nothing waits for it. */
static bool invalidate(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_path p = emu_path_of(w);
    enum emu_scope scope = (enum emu_scope)i->sub;

    if (i->sub == EMU_SCOPE_WAVE) { /* buffer_inv: the scope is in its bits */
        scope = (enum emu_scope)((i->mods & EMU_SC0 ? 1 : 0) + (i->mods & EMU_SC1 ? 2 : 0));
    }
    EMU_COUNT(w, invalidates, 1);
    emu_mem_invalidate(&p, scope);
    return true;
}

/* "buffer_wbl2 ... Must happen before following s_waitcnt": it counts in vmcnt, and takes what was in the cache when it was issued. */
static bool write_back(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_access *a = emu_access_new(w, i, EMU_ACCESS_WRITE_BACK);

    if (a == NULL) {
        return false;
    }
    EMU_COUNT(w, write_backs, 1);
    a->scope = w->arch == EMU_GFX90A ? EMU_SCOPE_SYSTEM : (uint8_t)((i->mods & EMU_SC0 ? 1 : 0) + (i->mods & EMU_SC1 ? 2 : 0));
    a->stamp = w->group->grid->device->clock;
    emu_access_issue(w, a);
    return true;
}

bool emu_loads_first_operand(const struct emu_inst *i)
{
    return (i->sub & EMU_SUB_LOAD) != 0 && (i->exec != atomic);
}

#define LOAD(name, form, width) {"global_load_" name, load, EMU_VMEM, form | EMU_SUB_LOAD, width, 0}, \
    {"flat_load_" name, load, EMU_VMEM, form | EMU_SUB_LOAD, width, 0}
#define STORE(name, form, width) {"global_store_" name, store, EMU_VMEM, form, width, 0}, {"flat_store_" name, store, EMU_VMEM, form, width, 0}
#define ATOMIC(name, op) {"global_atomic_" name, atomic, EMU_VMEM, EMU_ATOMIC_##op, 4, 0}, \
    {"flat_atomic_" name, atomic, EMU_VMEM, EMU_ATOMIC_##op, 4, 0}, \
    {"buffer_atomic_" name, emu_buffer_atomic, EMU_VMEM, EMU_ATOMIC_##op, 4, 0}
#define ATOMIC8(name, op) {"global_atomic_" name, atomic, EMU_VMEM, EMU_ATOMIC_##op, 8, 0}, \
    {"flat_atomic_" name, atomic, EMU_VMEM, EMU_ATOMIC_##op, 8, 0}, \
    {"buffer_atomic_" name, emu_buffer_atomic, EMU_VMEM, EMU_ATOMIC_##op, 8, 0}
#define ATOMICS(name, op) ATOMIC(name, op), ATOMIC8(name "_x2", op)
#define BUFFER_LOAD(name, form, width) {"buffer_load_" name, emu_buffer_load, EMU_VMEM, form | EMU_SUB_LOAD, width, 0}
#define BUFFER_STORE(name, form, width) {"buffer_store_" name, emu_buffer_store, EMU_VMEM, form, width, 0}
#define LOADS(M) M("ubyte", EMU_SUB_PLAIN, 1), M("sbyte", EMU_SUB_SIGNED, 1), M("ushort", EMU_SUB_PLAIN, 2), M("sshort", EMU_SUB_SIGNED, 2), \
    M("dword", 0, 4), M("dwordx2", 0, 8), M("dwordx3", 0, 12), M("dwordx4", 0, 16), \
    M("ubyte_d16", EMU_SUB_D16_LOW, 1), M("ubyte_d16_hi", EMU_SUB_D16_HIGH, 1), M("sbyte_d16", EMU_SUB_D16_LOW_SIGNED, 1), \
    M("sbyte_d16_hi", EMU_SUB_D16_HIGH_SIGNED, 1), M("short_d16", EMU_SUB_D16_LOW, 2), M("short_d16_hi", EMU_SUB_D16_HIGH, 2)
#define STORES(M) M("byte", 0, 1), M("short", 0, 2), M("dword", 0, 4), M("dwordx2", 0, 8), M("dwordx3", 0, 12), M("dwordx4", 0, 16), \
    M("byte_d16_hi", EMU_SUB_D16_HIGH, 1), M("short_d16_hi", EMU_SUB_D16_HIGH, 2)

const struct emu_op emu_ops_vmem[] = {
    LOADS(LOAD), STORES(STORE), LOADS(BUFFER_LOAD), STORES(BUFFER_STORE),
    ATOMICS("swap", SWAP), ATOMICS("cmpswap", CMPSWAP), ATOMICS("add", ADD), ATOMICS("sub", SUB), ATOMICS("smin", SMIN), ATOMICS("umin", UMIN),
    ATOMICS("smax", SMAX), ATOMICS("umax", UMAX), ATOMICS("and", AND), ATOMICS("or", OR), ATOMICS("xor", XOR), ATOMICS("inc", INC), ATOMICS("dec", DEC),
    ATOMIC("add_f32", FADD), ATOMIC8("add_f64", FADD), ATOMIC8("min_f64", FMIN), ATOMIC8("max_f64", FMAX), ATOMIC("pk_add_f16", PK_ADD_F16),
    ATOMIC("pk_add_bf16", PK_ADD_BF16),
    {"global_load_lds_dword", load_to_lds, EMU_VMEM, 0, 4, 0},
    {"global_load_lds_dwordx3", load_to_lds, EMU_VMEM, 0, 12, 0},
    {"global_load_lds_dwordx4", load_to_lds, EMU_VMEM, 0, 16, 0},
    {"buffer_inv", invalidate, EMU_VMEM, EMU_SCOPE_WAVE, 0, 0},
    {"buffer_wbinvl1", invalidate, EMU_VMEM, EMU_SCOPE_AGENT, 0, 0},
    {"buffer_wbinvl1_vol", invalidate, EMU_VMEM, EMU_SCOPE_AGENT, 0, 0},
    {"buffer_invl2", invalidate, EMU_VMEM, EMU_SCOPE_SYSTEM, 0, 0},
    {"buffer_wbl2", write_back, EMU_VMEM, 0, 0, 0},
    {0},
};
