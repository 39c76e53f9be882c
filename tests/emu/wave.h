/* SPDX-License-Identifier: MIT
 *
 * State of a wave and of its workgroup, and how instructions reach registers. A register that an outstanding access will still write is pending: reading
 * or writing it is an error of the program (a missing s_waitcnt). */
#ifndef EMU_WAVE_H
#define EMU_WAVE_H

#include <stddef.h>

#include "emu.h"
#include "inst.h"

#define EMU_LANES 64
#define EMU_MAX_VGPRS 512 /* vector registers, then accumulation registers from index num_vgprs_arch on (gfx90a and later: one file) */

typedef uint32_t emu_lanes[EMU_LANES];

enum emu_arch { EMU_GFX90A, EMU_GFX942, EMU_GFX950 };

struct emu_access; /* an outstanding memory access: vmem.c */
struct emu_group;

struct emu_wave {
    struct emu_group *group;
    uint32_t index;      /* in the workgroup */
    uint32_t pc;         /* offset in .text of the next instruction */
    uint32_t scc;
    uint32_t mode;       /* the MODE register: bits 4..7 say which denormals are kept (emu_kernel.mode at the start) */
    enum emu_arch arch;
    uint64_t born;       /* lanes at the start */
    bool ended, at_barrier;
    bool slept;          /* the last quantum ran s_sleep */
    bool polled;         /* it did, or loaded past a cache */
    uint32_t busy;       /* idle.c: instructions since it polled */
    uint64_t polls_since; /* and the gang's progress since which it only polls; 0: it does not */
    uint32_t s[EMU_NUM_SGPRS];
    emu_lanes *v;        /* [EMU_MAX_VGPRS]: v0.., AGPR i at [256 + i] */
    /* Never written since the start of the wave: reading one as an address, store data or branch condition is reported. 1 bit a register. */
    uint64_t s_known[EMU_NUM_SGPRS / 64], v_known[EMU_MAX_VGPRS / 64];
    /* Outstanding loads will write these; checked by the scheduler before each instruction, for all its operands. */
    uint64_t s_pending[EMU_NUM_SGPRS / 64], v_pending[EMU_MAX_VGPRS / 64];
    struct emu_access *vm, *lgkm; /* outstanding, oldest first */
    uint32_t num_vm, num_lgkm;
    const struct emu_inst *inst;  /* being executed, for reports */
};

struct emu_group {
    struct emu_grid *grid; /* the launch: kernel, device, program, random numbers, counters (run.h) */
    uint32_t id;           /* workgroup id x */
    uint32_t num_waves, num_ended, num_at_barrier;
    uint32_t num_drained;  /* ended, and nothing is outstanding */
    struct emu_wave *arriving; /* at a barrier, in its turn */
    struct emu_wave *waves;
    uint8_t *lds;
    uint32_t lds_bytes;
    void *lds_shadow;      /* ds.c: who touched what since which barrier */
    uint32_t epoch;        /* barriers passed */
    void *l1;              /* cache.c */
    uint32_t xcd;
};

static inline uint64_t emu_exec_mask(const struct emu_wave *w)
{
    return (uint64_t)w->s[EMU_EXEC + 1] << 32 | w->s[EMU_EXEC];
}

static inline void emu_write_s64(struct emu_wave *w, unsigned index, uint64_t value)
{
    w->s[index] = (uint32_t)value;
    w->s[index + 1] = (uint32_t)(value >> 32);
    w->s_known[index / 64] |= 3ull << index % 64; /* pairs are even */
}

static inline void emu_write_s(struct emu_wave *w, unsigned index, uint32_t value)
{
    w->s[index] = value;
    w->s_known[index / 64] |= 1ull << index % 64;
}

/* Row of a vector operand's dword k. */
static inline uint32_t *emu_v(struct emu_wave *w, const struct emu_operand *o, unsigned k)
{
    return w->v[(o->kind == EMU_AGPR ? 256u : 0u) + o->index + k];
}

/* Records the first failure of the run: text, then kernel, workgroup, wave, instruction and source line. Returns false. sched.c. */
bool emu_wave_fail(struct emu_wave *wave, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* exec of a control instruction that ends a quantum: sched.c has s_waitcnt, s_barrier, s_endpgm, s_sleep; salu.c branches and the rest. */

#endif
