/* SPDX-License-Identifier: MIT
 *
 * The instructions that end a wave's turn: waits, barriers, sleep, the end. */
#include "access.h"
#include "gang.h"
#include "lds.h"

/* Completes what the wait covers, at random now or in later turns, in any order. true: all of it is complete. */
static bool complete(struct emu_wave *w, int vmcnt, int lgkmcnt)
{
    struct emu_gang *gang = emu_gang_of(w);

    gang->stalled = false;
    while (!gang->stalled && (gang->idling || !emu_chance(&gang->fate.rng, gang->mood.linger))) {
        if (!emu_access_progress(w, vmcnt, lgkmcnt)) {
            return true;
        }
    }
    gang->end_turn = true;
    return false;
}

static bool waitcnt(struct emu_wave *w, const struct emu_inst *i)
{
    uint32_t stores;

    if (!emu_access_outstanding(w, i->vmcnt, i->lgkmcnt)) {
        return true;
    }
    if (!complete(w, i->vmcnt, i->lgkmcnt)) {
        w->pc = i->pc;
        return true;
    }
    EMU_COUNT(w, waits, 1);
    stores = emu_access_retire(w, i->vmcnt, i->lgkmcnt);
    EMU_COUNT(w, waits_for_stores, stores > 0);
    return true;
}

/* Waves that have ended do not take part. */
static void release_barrier(struct emu_group *g)
{
    if (g->num_at_barrier == 0 || g->num_at_barrier + g->num_ended < g->num_waves) {
        return;
    }
    g->epoch++;
    g->num_at_barrier = 0;
    for (uint32_t i = 0; i < g->num_waves; i++) {
        if (g->waves[i].at_barrier) {
            g->waves[i].at_barrier = false;
            if (&g->waves[i] != g->arriving) { /* that one has the turn and is in the list */
                emu_wave_ready(&g->waves[i]);
            }
        }
    }
}

/* The hardware counts waves, not lanes: a wave whose lanes come to a barrier on different ways passes it several times, and others in its place do not wait.
 * So all lanes have to come at once, which is what the language asks for, too. */
static bool barrier(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    if (emu_exec_mask(w) != w->born) {
        return emu_wave_fail(w, "s_barrier reached by %d of %d lanes", __builtin_popcountll(emu_exec_mask(w)), __builtin_popcountll(w->born));
    }
    EMU_COUNT(w, barriers, 1);
    emu_lds_barrier(w);
    w->at_barrier = true;
    w->group->num_at_barrier++;
    w->group->arriving = w;
    release_barrier(w->group);
    w->group->arriving = NULL;
    emu_gang_of(w)->progress++;
    emu_gang_of(w)->end_turn = true;
    return true;
}

static bool endpgm(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    w->ended = true;
    w->group->num_ended++;
    release_barrier(w->group);
    emu_gang_of(w)->end_turn = true;
    return true;
}

void emu_drain(struct emu_wave *w)
{
    if (complete(w, 0, 0)) {
        emu_access_retire(w, 0, 0);
    }
}

static bool sleep_wave(struct emu_wave *w, const struct emu_inst *i)
{
    (void)i;
    w->slept = w->polled = true;
    emu_gang_of(w)->end_turn = true;
    return true;
}

const struct emu_op emu_ops_sched[] = {
    {"s_waitcnt", waitcnt, EMU_CONTROL, 0, 0, 0},
    {"s_barrier", barrier, EMU_CONTROL, 0, 0, 0},
    {"s_endpgm", endpgm, EMU_CONTROL, 0, 0, 0},
    {"s_endpgm_saved", endpgm, EMU_CONTROL, 0, 0, 0},
    {"s_sleep", sleep_wave, EMU_CONTROL, 0, 0, 0},
    {"s_wakeup", sleep_wave, EMU_CONTROL, 0, 0, 0},
    {0},
};
