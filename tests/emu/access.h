/* SPDX-License-Identifier: MIT
 *
 * Outstanding memory accesses of a wave. An instruction issues one; it is performed, in parts and in any order that its wave cannot tell from program
 * order, some time before a s_waitcnt retires it; only then may its registers be used. */
#ifndef EMU_ACCESS_H
#define EMU_ACCESS_H

#include "run.h"

enum emu_access_kind {
    EMU_ACCESS_LOAD, EMU_ACCESS_STORE, EMU_ACCESS_ATOMIC, EMU_ACCESS_TO_LDS, EMU_ACCESS_WRITE_BACK, /* vector memory */
    EMU_ACCESS_SCALAR,                                                                              /* out of order */
    EMU_ACCESS_DS                                                                                   /* performed when issued */
};

/* emu_inst.sub of loads and stores: how less than a register is placed. */
enum { EMU_SUB_PLAIN, EMU_SUB_SIGNED, EMU_SUB_D16_LOW, EMU_SUB_D16_LOW_SIGNED, EMU_SUB_D16_HIGH, EMU_SUB_D16_HIGH_SIGNED, EMU_SUB_FORM = 7 };

/* Bytes that are neighbours in memory and in the access's data. */
struct emu_run {
    uint64_t addr;
    uint32_t at, bytes;
};

struct emu_access {
    struct emu_access *next_vm, *next_lgkm;
    const struct emu_inst *inst;
    uint64_t exec;
    uint64_t low, high, lines;   /* what it may touch: a range, and a bit for each line of a page */
    uint64_t todo[2];            /* not yet performed: a bit for 8 bytes of data; atomics: a lane */
    uint64_t stamp;              /* write-backs */
    uint16_t reg;                /* first destination register: row of w->v; scalar: register number */
    uint8_t num_regs, kind, scope, width;
    uint8_t size;                /* atomics: operand bytes */
    bool vm, lgkm;               /* counted by */
    bool unordered;              /* flat: no order in either counter */
    bool begun, done, uniform;          /* uniform: all lanes read the same bytes, which stand once in data */
    uint8_t unwritten;           /* LDS: bit k: register k holds bytes that nobody wrote */
    bool late;                   /* LDS: a barrier was passed before it was waited for */
    uint32_t num_runs;
    uint8_t places;              /* LDS: how many addresses a lane has, size bytes each */
    uint64_t lds_lanes;          /* that access LDS */
    union {
        struct emu_run runs[EMU_LANES];
        uint64_t addr[EMU_LANES]; /* atomics */
    };
    uint32_t lds[2][EMU_LANES];
    _Alignas(16) uint8_t data[EMU_LANES * 16];
};

struct emu_access *emu_access_new(struct emu_wave *w, const struct emu_inst *inst, enum emu_access_kind kind);
void emu_access_free(struct emu_gang *gang, struct emu_access *a);
/* Appends it to the lists of the counters that count it, and marks its destination as pending. */
void emu_access_issue(struct emu_wave *w, struct emu_access *a);
/* Marks num registers of the file from reg on; vector registers by row. */
void emu_pend(struct emu_wave *w, const struct emu_access *a);

/* Performs some of an outstanding access of the wave that may come next, one that a s_waitcnt of these counts needs if there is one. false: none left. */
bool emu_access_progress(struct emu_wave *w, int vmcnt, int lgkmcnt);
/* Retires all that is covered; every one of them must be done. Returns how many were stores. */
uint32_t emu_access_retire(struct emu_wave *w, int vmcnt, int lgkmcnt);
bool emu_access_outstanding(const struct emu_wave *w, int vmcnt, int lgkmcnt);

/* atomic.c: performs one lane. */
void emu_atomic_lane(struct emu_wave *w, struct emu_access *a, unsigned lane);

#endif
