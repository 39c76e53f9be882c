/* SPDX-License-Identifier: MIT
 *
 * buffer_*: addresses through a descriptor of four scalar registers (CDNA3 ISA, "Buffer Resource Descriptor"; range checks: "Buffer Addressing"). Linear
 * buffers only: raw, or structured without swizzle. */
#include <string.h>

#include "vmem.h"

struct buffer {
    uint64_t base;
    uint32_t stride, records, soffset;
    const uint32_t *index, *offset; /* rows, or NULL */
};

static bool describe(struct emu_wave *w, const struct emu_inst *i, unsigned vaddr, struct buffer *b)
{
    const struct emu_operand *v = &i->ops[vaddr], *r = &i->ops[vaddr + 1], *s = &i->ops[vaddr + 2];
    const uint32_t *word = &w->s[r->index];

    if (!emu_vmem_known(w, r, "the buffer descriptor") || !emu_vmem_known(w, s, "the buffer offset") ||
        (v->kind != EMU_NONE && !emu_vmem_known(w, v, "the buffer address"))) {
        return false;
    }
    b->base = (uint64_t)(word[1] & 0xffff) << 32 | word[0];
    b->stride = word[1] >> 16 & 0x3fff;
    b->records = word[2];
    b->soffset = s->kind == EMU_SGPR ? w->s[s->index] : s->value;
    b->index = i->mods & EMU_IDXEN ? emu_v(w, v, 0) : NULL;
    b->offset = i->mods & EMU_OFFEN ? emu_v(w, v, i->mods & EMU_IDXEN ? 1 : 0) : NULL;
    if (word[1] >> 31 != 0 || (word[3] >> 23 & 1) != 0) {
        return emu_wave_fail(w, "buffer descriptor with swizzle or added thread id: not implemented");
    }
    return true;
}

/* Lanes out of range do not access memory: raw buffers count bytes, structured ones records. Whole elements: an element that is partly inside fails,
 * since hardware's answer depends on its mode. */
static bool addresses(struct emu_wave *w, const struct emu_inst *i, unsigned vaddr, struct emu_request *q)
{
    struct buffer b;

    if (!describe(w, i, vaddr, &b)) {
        return false;
    }
    q->lanes = 0;
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        uint64_t offset = (uint64_t)(uint32_t)i->offset + (b.offset != NULL ? b.offset[lane] : 0), index = b.index != NULL ? b.index[lane] : 0;
        bool inside;

        q->addr[lane] = b.base + b.soffset + offset + index * b.stride;
        if ((emu_exec_mask(w) >> lane & 1) == 0) {
            continue;
        }
        if (b.stride == 0 || b.index == NULL) { /* "offset >= num_records - sgpr_offset" */
            uint64_t end = offset + b.soffset;

            inside = end < b.records;
            if (inside && end + i->width > b.records) {
                return emu_wave_fail(w, "lane %u: the access crosses the end of its buffer (%u bytes at %llu of %u)", lane, i->width, (unsigned long long)end,
                                     (unsigned)b.records);
            }
        } else {
            inside = index < b.records && offset + i->width <= b.stride;
        }
        q->lanes |= (uint64_t)inside << lane;
    }
    return true;
}

static bool issue(struct emu_wave *w, const struct emu_inst *i, struct emu_request *q)
{
    q->scope = emu_vmem_scope(w, i, q->kind);
    return (q->data == NULL || emu_vmem_known(w, q->data, "the data")) && emu_vmem_issue(w, i, q);
}

bool emu_buffer_load(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_request q = {.kind = EMU_ACCESS_LOAD, .reg = &i->ops[0]};

    if (i->mods & EMU_LDS_FLAG) {
        q.kind = EMU_ACCESS_TO_LDS;
        q.reg = NULL;
        q.lds_base = (w->s[EMU_M0] & (w->arch == EMU_GFX950 ? 0x3ffffu : 0xffffu)) + (uint32_t)i->offset;
        if (i->width < 4) {
            return emu_wave_fail(w, "loads of less than a dword into LDS: not implemented");
        }
        if ((w->s_known[EMU_M0 / 64] >> EMU_M0 % 64 & 1) == 0) {
            return emu_wave_fail(w, "m0, the LDS address, was never written");
        }
        return addresses(w, i, 0, &q) && issue(w, i, &q);
    }
    return addresses(w, i, 1, &q) && issue(w, i, &q);
}

bool emu_buffer_store(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_request q = {.kind = EMU_ACCESS_STORE, .data = &i->ops[0]};

    return addresses(w, i, 1, &q) && issue(w, i, &q);
}

bool emu_buffer_atomic(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_request q = {.kind = EMU_ACCESS_ATOMIC, .reg = i->mods & EMU_SC0 ? &i->ops[0] : NULL, .data = &i->ops[0]};

    return addresses(w, i, 1, &q) && issue(w, i, &q);
}
