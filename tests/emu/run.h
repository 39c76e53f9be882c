/* SPDX-License-Identifier: MIT
 *
 * A gang while it runs: its launches, workgroups and waves, the random numbers of its schedule, the allocations that it found, its outstanding
 * accesses. Internal to the interpreter. */
#ifndef EMU_RUN_H
#define EMU_RUN_H

#include "cache.h"
#include "program.h"

/* How this run behaves; drawn from the seed, so that schedules differ in kind. Chances are of 65536. */
struct emu_mood {
    uint32_t quantum;  /* longest turn of a wave, in instructions */
    uint32_t early;    /* a turn begins with completing an access of some wave */
    uint32_t linger;   /* a wait gives the turn away after each access that it needs */
    uint32_t tear;     /* an access is performed in parts */
    uint32_t evict;    /* a turn begins with evictions */
    uint32_t evictions; /* how many at most */
    uint32_t stay;     /* the same wave gets the next turn */
    uint32_t starve;   /* a wave of the unlucky launch or group loses its turn */
    uint32_t doze;     /* a wave that slept loses its turn */
    uint32_t start;    /* a launch that has not begun begins */
    uint32_t slow_kind; /* accesses of this kind take long, on one launch or on all (UINT32_MAX) */
    uint32_t slow_grid;
    uint32_t finish;   /* a launch whose waves have ended is released */
};

/* Allocations that accesses have touched; the gang's own buffers stay when the others are forgotten. */
struct emu_region {
    uint64_t base, end;
    bool own, host;
};
struct emu_regions {
    struct emu_region *list;
    uint32_t num, capacity, last;
    uint64_t version;
};

struct emu_grid {
    struct emu_gang *gang;
    const struct emu_launch *launch;
    const struct emu_kernel *kernel;
    struct emu_program *program;
    struct emu_device *device;
    struct emu_group *groups;
    struct emu_wave *waves;
    emu_lanes *registers;
    uint8_t *kernarg;
    struct emu_dispatch_packet packet;
    uint32_t num_left;   /* workgroups */
    bool started, ended, ending; /* ending: its waves have ended, its stores are not all released */
    struct emu_counts counts;
};

struct emu_gang {
    struct emu_fate fate;
    struct emu_mood mood;
    const struct emu_options *options;
    struct emu_result *result;
    struct emu_grid *grids;
    uint32_t num_grids, num_started, num_ending, num_ended;
    struct emu_wave **live;      /* waves that can run or must still complete accesses; in an order that depends on the seed only */
    struct emu_wave **all;
    uint32_t num_live, num_all;
    uint32_t unlucky_grid, unlucky_group, unlucky_turns;
    uint64_t steps, trace;
    struct emu_regions regions;
    struct emu_access *spare;    /* free list */
    uint64_t progress, idle, idle_turns; /* shared runs: what happened besides polling; instructions and, once idle, turns since */
    bool end_turn, stalled, failed, claimed; /* stalled: an access did not move, a wait should give the turn away */
};

static inline struct emu_gang *emu_gang_of(const struct emu_wave *w)
{
    return w->group->grid->gang;
}

static inline struct emu_path emu_path_of(const struct emu_wave *w)
{
    return (struct emu_path){w->group->grid->device, w->group->l1, w->group->xcd, &w->group->grid->gang->fate};
}

/* A counter of a wave's kernel. */
#define EMU_COUNT(w, field, n) ((w)->group->grid->counts.field += (n))

/* sched.c: a barrier let its waves go, or a wave can run again. */
void emu_wave_ready(struct emu_wave *w);

/* regions.c: the allocation that holds bytes at addr, or NULL. */
const struct emu_region *emu_region_find(struct emu_regions *r, uint64_t addr, uint64_t bytes);
bool emu_region_add(struct emu_regions *r, uint64_t base, uint64_t bytes, bool own);
/* "... bytes behind the end of ..." of the nearest allocation. */
void emu_region_describe(const struct emu_regions *r, uint64_t addr, char *text, size_t bytes);

/* report.c */
void emu_report_hang(struct emu_gang *gang);

#endif
