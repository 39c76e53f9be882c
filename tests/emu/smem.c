/* SPDX-License-Identifier: MIT
 *
 * Scalar loads, clocks and the constant cache. Scalar loads come back in any order: only lgkmcnt(0) says that one has. */
#include <string.h>
#include <time.h>

#include "access.h"
#include "vmem.h"

/* sbase, then an offset in a register, a constant, or both. */
static uint64_t offset_of(const struct emu_wave *w, const struct emu_inst *i)
{
    const struct emu_operand *o = &i->ops[2];

    return (uint64_t)(int64_t)i->offset + (i->num_operands < 3 ? 0 : o->kind == EMU_SGPR ? w->s[o->index] : (uint64_t)(int64_t)(int32_t)o->value);
}

static bool issue(struct emu_wave *w, const struct emu_inst *i, uint64_t addr, uint32_t bytes)
{
    struct emu_gang *gang = emu_gang_of(w);
    struct emu_access *a;
    char near[200];

    if (bytes > 0 && emu_region_find(&gang->regions, addr, bytes) == NULL) {
        emu_region_describe(&gang->regions, addr, near, sizeof(near));
        return emu_wave_fail(w, "scalar load of %u bytes at 0x%llx is out of bounds (%s)", (unsigned)bytes, (unsigned long long)addr, near);
    }
    a = emu_access_new(w, i, EMU_ACCESS_SCALAR);
    if (a == NULL) {
        return false;
    }
    a->reg = i->ops[0].index;
    a->num_regs = i->ops[0].count;
    a->runs[0] = (struct emu_run){addr, 0, bytes};
    a->num_runs = bytes > 0;
    a->todo[0] = (1ull << (bytes + 7) / 8) - 1;
    a->done = bytes == 0;
    if (bytes < 4u * a->num_regs) {
        memset(a->data, 0, 4 * a->num_regs); /* behind the end of a buffer */
    }
    emu_access_issue(w, a);
    return true;
}

static bool load(struct emu_wave *w, const struct emu_inst *i)
{
    const struct emu_operand *base = &i->ops[1];
    uint64_t addr;

    if (!emu_vmem_known(w, base, "the address") || (i->num_operands > 2 && !emu_vmem_known(w, &i->ops[2], "the offset"))) {
        return false;
    }
    addr = ((uint64_t)w->s[base->index + 1] << 32 | w->s[base->index]) + offset_of(w, i);
    return issue(w, i, addr & ~3ull, i->width);
}

static bool buffer_load(struct emu_wave *w, const struct emu_inst *i)
{
    const struct emu_operand *r = &i->ops[1];
    uint32_t stride, records;
    uint64_t base, offset, size;

    if (!emu_vmem_known(w, r, "the buffer descriptor") || (i->num_operands > 2 && !emu_vmem_known(w, &i->ops[2], "the offset"))) {
        return false;
    }
    base = (uint64_t)(w->s[r->index + 1] & 0xffff) << 32 | w->s[r->index];
    stride = w->s[r->index + 1] >> 16 & 0x3fff;
    records = w->s[r->index + 2];
    size = stride == 0 ? records : (uint64_t)stride * records;
    offset = offset_of(w, i) & ~3ull;
    return issue(w, i, base + offset, (uint32_t)(offset >= size ? 0 : size - offset < i->width ? (size - offset) & ~3ull : i->width));
}

/* A shared run sees real time (100 MHz), as other processes do; a gang of its own counts its steps, so that time is the same in each repetition. */
static bool clock_read(struct emu_wave *w, const struct emu_inst *i)
{
    struct emu_gang *gang = emu_gang_of(w);
    struct emu_access *a = emu_access_new(w, i, EMU_ACCESS_SCALAR);
    uint64_t now = gang->steps * (i->sub != 0 ? 1 : 16);

    if (a == NULL) {
        return false;
    }
    if (gang->options->shared) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        now = ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec) / 10 * (i->sub != 0 ? 1 : 16);
    }
    a->reg = i->ops[0].index;
    a->num_regs = 2;
    a->done = true;
    memcpy(a->data, &now, 8);
    emu_access_issue(w, a);
    return true;
}

static bool invalidate(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    emu_cache_invalidate(&w->group->grid->device->scalar[w->group->xcd]);
    return true;
}

static bool nothing(struct emu_wave *w, const struct emu_inst *i)
{
    (void)w, (void)i; /* s_dcache_wb: there are no scalar stores */
    return true;
}

#define LOADS(name, function) \
    {name, function, EMU_SMEM, 0, 4, 0}, {name "x2", function, EMU_SMEM, 0, 8, 0}, {name "x4", function, EMU_SMEM, 0, 16, 0}, \
    {name "x8", function, EMU_SMEM, 0, 32, 0}, {name "x16", function, EMU_SMEM, 0, 64, 0}

const struct emu_op emu_ops_smem[] = {
    LOADS("s_load_dword", load),
    LOADS("s_buffer_load_dword", buffer_load),
    {"s_memtime", clock_read, EMU_SMEM, 0, 8, 0},
    {"s_memrealtime", clock_read, EMU_SMEM, 1, 8, 0},
    {"s_dcache_inv", invalidate, EMU_SMEM, 0, 0, 0},
    {"s_dcache_inv_vol", invalidate, EMU_SMEM, 0, 0, 0},
    {"s_dcache_wb", nothing, EMU_SMEM, 0, 0, 0},
    {"s_dcache_wb_vol", nothing, EMU_SMEM, 0, 0, 0},
    {0},
};
