/* SPDX-License-Identifier: MIT
 *
 * The scheduler: takes turns between the waves of all workgroups of all launches of a gang. Everything that it decides comes from one random generator
 * and from the history of the run, never from addresses or time, so a seed gives the same run again (a shared run depends on the others, too). All
 * workgroups are resident: kernels that wait for each other must be anyway, and a kernel that needs fewer is right here too. */
#include <stdlib.h>
#include <string.h>

#include "access.h"
#include "gang.h"
#include "idle.h"
#include "run.h"

/* ---- the character of a run ---- */

static uint32_t pick(struct emu_rng *r, const uint32_t *values, uint32_t n)
{
    return values[emu_below(r, n)];
}
#define LONG_TURN 100
#define PICK(r, ...) pick(r, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void draw_mood(struct emu_gang *gang)
{
    struct emu_rng *r = &gang->fate.rng;
    struct emu_mood *m = &gang->mood;

    m->quantum = PICK(r, 1, 3, 8, 20, 20, 60, 200);
    m->early = PICK(r, 0, 2000, 16000, 40000, 65536);
    m->linger = PICK(r, 0, 0, 10000, 40000, 62000);
    m->tear = PICK(r, 0, 1000, 8000, 30000);
    /* 0: what a program does not write back or invalidate stays. Not on gfx90a, where the same instructions serve words for the device and for others. */
    m->evict = gang->grids[0].device->arch == EMU_GFX90A ? PICK(r, 40, 100, 300, 3000, 20000) : PICK(r, 0, 40, 100, 300, 3000, 20000);
    m->evictions = PICK(r, 4, 30, 100);
    m->stay = PICK(r, 0, 0, 20000, 50000);
    m->starve = PICK(r, 0, 0, 50000, 63000);
    m->doze = PICK(r, 0, 40000, 60000);
    m->start = PICK(r, 200, 3000, 65536, 65536);
    m->finish = PICK(r, 60, 300, 3000, 65536);
    if (gang->options->shared) { /* other processes wait, and tests have limits in seconds */
        m->quantum = m->quantum > 8 ? m->quantum : 8;
        m->linger = m->linger < 10000 ? m->linger : 10000;
        m->starve = m->doze = 0;
    }
    m->slow_kind = PICK(r, UINT32_MAX, UINT32_MAX, EMU_ACCESS_WRITE_BACK, EMU_ACCESS_WRITE_BACK, EMU_ACCESS_STORE, EMU_ACCESS_LOAD);
    m->slow_grid = emu_chance(r, 1u << 15) ? UINT32_MAX : emu_below(r, gang->num_grids);
    gang->fate.keep = PICK(r, 8000, 30000, 60000);
    gang->fate.strangers = PICK(r, 0, 1000, 6000, 20000);
}

/* ---- the waves that take turns ---- */

void emu_wave_ready(struct emu_wave *w)
{
    struct emu_gang *gang = emu_gang_of(w);

    gang->live[gang->num_live++] = w;
}

static void remove_live(struct emu_gang *gang, uint32_t i)
{
    gang->live[i] = gang->live[--gang->num_live];
}

static void start_grid(struct emu_gang *gang, struct emu_grid *grid)
{
    emu_mem_kernel_start(grid->device);
    grid->started = true;
    gang->num_started++;
    gang->progress++;
    for (uint32_t i = 0; i < grid->launch->grid * grid->groups[0].num_waves; i++) {
        emu_wave_ready(&grid->waves[i]);
    }
}

/* The release at the end of a kernel comes some time after its last wave. */
static void maybe_end(struct emu_gang *gang)
{
    if (gang->num_ending == 0 || (gang->num_live > 0 && !emu_chance(&gang->fate.rng, gang->mood.finish))) {
        return;
    }
    for (uint32_t g = 0; g < gang->num_grids; g++) {
        struct emu_grid *grid = &gang->grids[g];

        if (grid->ending) {
            emu_gang_lock(gang, grid->device);
            emu_mem_kernel_end(grid->device, &gang->fate);
            emu_gang_unlock(gang, grid->device);
            grid->ending = false;
            grid->ended = true;
            gang->num_ending--;
            gang->num_ended++;
            gang->progress++;
            if (gang->options->ended != NULL) {
                gang->options->ended((int)g, gang->options->arg);
            }
            return;
        }
    }
}

static bool may_start(const struct emu_gang *gang, uint32_t g)
{
    const struct emu_grid *grid = &gang->grids[g];

    return !grid->started && (grid->launch->after == 0 || gang->grids[grid->launch->after - 1].ended);
}

static uint32_t num_startable(const struct emu_gang *gang)
{
    uint32_t num = 0;

    for (uint32_t g = 0; gang->num_started < gang->num_grids && g < gang->num_grids; g++) {
        num += may_start(gang, g);
    }
    return num;
}

static void maybe_start(struct emu_gang *gang)
{
    uint32_t left, nth;

    if (gang->num_started == gang->num_grids || (gang->num_live > 0 && !emu_chance(&gang->fate.rng, gang->mood.start))) {
        return;
    }
    left = num_startable(gang);
    if (left == 0) {
        return;
    }
    nth = emu_below(&gang->fate.rng, left);
    for (uint32_t g = 0; g < gang->num_grids; g++) {
        if (may_start(gang, g) && nth-- == 0) {
            emu_gang_lock(gang, gang->grids[g].device);
            start_grid(gang, &gang->grids[g]);
            emu_gang_unlock(gang, gang->grids[g].device);
            return;
        }
    }
}

static bool unlucky(const struct emu_gang *gang, const struct emu_wave *w)
{
    uint32_t grid = (uint32_t)(w->group->grid - gang->grids);

    return grid == gang->unlucky_grid && (gang->unlucky_group == UINT32_MAX || w->group->id == gang->unlucky_group);
}

static uint32_t next_turn(struct emu_gang *gang, uint32_t last)
{
    struct emu_rng *r = &gang->fate.rng;
    uint32_t i = 0;

    if (last < gang->num_live && emu_chance(r, gang->mood.stay)) {
        return last;
    }
    if (gang->unlucky_turns-- == 0) { /* the bias changes, so that nobody starves for ever */
        gang->unlucky_turns = 1 + emu_below(r, 20000);
        gang->unlucky_grid = emu_below(r, gang->num_grids);
        gang->unlucky_group = emu_chance(r, 1u << 15) ? UINT32_MAX : emu_below(r, gang->grids[gang->unlucky_grid].launch->grid);
    }
    for (uint32_t tries = 0; tries < 4; tries++) {
        i = emu_below(r, gang->num_live);
        if (!(unlucky(gang, gang->live[i]) && emu_chance(r, gang->mood.starve)) && !(gang->live[i]->slept && emu_chance(r, gang->mood.doze))) {
            break;
        }
    }
    return i;
}

/* ---- one turn ---- */

static bool bits_set(const uint64_t *words, uint32_t first, uint32_t num)
{
    uint64_t mask = ((1ull << num) - 1) << first % 64, beyond = first % 64 + num > 64 ? (1ull << (first % 64 + num - 64)) - 1 : 0;

    return (words[first / 64] & mask) != 0 || (beyond != 0 && (words[first / 64 + 1] & beyond) != 0);
}

/* Vector memory and LDS loads come back in order, so one may follow another into the same register. */
static bool in_order_writer(const struct emu_wave *w, const struct emu_inst *inst, const struct emu_operand *o)
{
    uint32_t first = (o->kind == EMU_AGPR ? 256u : 0u) + o->index;
    bool found = false;

    if (o != &inst->ops[0] || (inst->unit != EMU_VMEM && inst->unit != EMU_DS) || o->kind == EMU_SGPR) {
        return false;
    }
    for (const struct emu_access *a = w->vm; a != NULL; a = a->next_vm) {
        if (a->num_regs > 0 && a->reg < first + o->count && first < (uint32_t)a->reg + a->num_regs) {
            if (inst->unit != EMU_VMEM || a->unordered) {
                return false;
            }
            found = true;
        }
    }
    for (const struct emu_access *a = w->lgkm; a != NULL; a = a->next_lgkm) {
        if (a->kind == EMU_ACCESS_DS && a->num_regs > 0 && a->reg < first + o->count && first < (uint32_t)a->reg + a->num_regs) {
            if (inst->unit != EMU_DS) {
                return false;
            }
            found = true;
        }
    }
    return found && emu_loads_first_operand(inst);
}

/* No register of the instruction may still be written by an access that no wait covers. */
static bool check_pending(struct emu_wave *w, const struct emu_inst *inst)
{
    for (uint32_t i = 0; i < inst->num_operands; i++) {
        const struct emu_operand *o = &inst->ops[i];

        if (o->kind == EMU_SGPR && bits_set(w->s_pending, o->index, o->count)) {
            return emu_wave_fail(w, "s%u is used before a s_waitcnt covers the load that writes it", o->index);
        }
        if ((o->kind == EMU_VGPR || o->kind == EMU_AGPR) && bits_set(w->v_pending, (o->kind == EMU_AGPR ? 256u : 0u) + o->index, o->count) &&
            !in_order_writer(w, inst, o)) {
            return emu_wave_fail(w, "%c%u is used before a s_waitcnt covers the access that writes it", o->kind == EMU_AGPR ? 'a' : 'v', o->index);
        }
    }
    if (bits_set(w->s_pending, EMU_VCC, 2) && strstr(inst->text, "vcc") != NULL) {
        return emu_wave_fail(w, "vcc is used before a s_waitcnt covers the load that writes it");
    }
    return true;
}

static void count(struct emu_grid *grid, const struct emu_inst *inst)
{
    struct emu_counts *c = &grid->counts;

    c->wave_instructions++;
    switch (inst->unit) {
    case EMU_SALU: c->salu++; break;
    case EMU_VALU: c->valu++; break;
    case EMU_MFMA: c->mfma++; c->mfma_cycles += inst->width; break;
    case EMU_SMEM: c->smem++; break;
    case EMU_VMEM: c->vmem++; break;
    case EMU_DS: c->lds++; break;
    default: break;
    }
}

static void run_wave(struct emu_gang *gang, struct emu_wave *w, uint32_t n)
{
    struct emu_grid *grid = w->group->grid;
    struct emu_program *program = grid->program;

    gang->end_turn = false;
    w->slept = w->polled = false;
    for (; n > 0 && !gang->end_turn; n--) {
        const struct emu_inst *inst = emu_decode(program, w->pc);

        w->inst = inst;
        if (inst == NULL) {
            emu_wave_fail(w, "there is no instruction at 0x%x", w->pc);
            return;
        }
        if (inst->exec == NULL) {
            emu_wave_fail(w, "unknown instruction");
            return;
        }
        if ((w->num_vm | w->num_lgkm) != 0 && !check_pending(w, inst)) {
            return;
        }
        w->pc = inst->pc + inst->bytes;
        gang->steps++;
        count(grid, inst);
        if (!inst->exec(w, inst)) {
            return;
        }
    }
}

/* Accesses of any wave complete at any time. */
static void happen_early(struct emu_gang *gang, struct emu_device *locked)
{
    struct emu_wave *w = gang->all[emu_below(&gang->fate.rng, gang->num_all)];

    if ((locked == NULL || w->group->grid->device == locked) && (w->num_vm | w->num_lgkm) != 0) {
        emu_access_progress(w, 0, 0);
    }
}

static void evict(struct emu_gang *gang, struct emu_device *locked)
{
    uint32_t n = 1 + emu_below(&gang->fate.rng, gang->mood.evictions);
    struct emu_device *d = gang->grids[emu_below(&gang->fate.rng, gang->num_grids)].device;

    for (; n > 0 && (locked == NULL || d == locked); n--) {
        emu_mem_evict(d, &gang->fate);
    }
}

/* What gfx90a keeps of stores to fine-grained memory (cache.h), which its L2 never keeps, must come out when everybody waits for it. */
static uint32_t eviction_chance(const struct emu_gang *gang, const struct emu_device *device)
{
    return gang->waiting && device->num_xcds == 0 && gang->mood.evict < 20000 ? 20000 : gang->mood.evict;
}

/* Old copies of what this turn overwrote, in caches of workgroups that had no turn. */
static void plant_copies(struct emu_gang *gang, const struct emu_group *ran, struct emu_device *locked)
{
    for (uint32_t i = 0; i < gang->fate.num_copies; i++) {
        const struct emu_copy *copy = &gang->fate.copies[i];
        struct emu_wave *w = gang->all[emu_below(&gang->fate.rng, gang->num_all)];
        struct emu_path p = emu_path_of(w);
        bool may = w->group != ran && w->group->grid->started && w->group->num_ended < w->group->num_waves && (locked == NULL || p.device == locked);

        switch (copy->level) {
        case EMU_LEVEL_MEMORY: may = may && p.device != copy->device; break;
        case EMU_LEVEL_AGENT: may = may && p.device == copy->device && p.xcd != copy->xcd; break;
        case EMU_LEVEL_L2: may = may && p.device == copy->device && p.xcd == copy->xcd; break;
        }
        if (may) {
            emu_mem_plant(&p, copy);
        }
    }
    gang->fate.num_copies = 0;
}

static void turn(struct emu_gang *gang, uint32_t i)
{
    struct emu_wave *w = gang->live[i];
    struct emu_grid *grid = w->group->grid;
    struct emu_device *locked = gang->options->shared ? grid->device : NULL;
    uint64_t before = gang->steps;

    emu_gang_lock(gang, grid->device);
    if (emu_chance(&gang->fate.rng, gang->mood.early)) {
        happen_early(gang, locked);
    }
    if (emu_chance(&gang->fate.rng, eviction_chance(gang, grid->device))) {
        evict(gang, locked);
    }
    gang->fate.num_copies = 0; /* others' accesses were among these: nobody is known not to have run */
    if (w->ended) {
        emu_drain(w);
    } else {
        run_wave(gang, w, gang->idling ? LONG_TURN : 1 + emu_below(&gang->fate.rng, gang->mood.quantum));
    }
    if (gang->fate.num_copies > 0) {
        plant_copies(gang, w->group, locked);
    }
    gang->trace = (gang->trace ^ ((uint64_t)w->pc << 32 | (uint64_t)(grid - gang->grids) << 24 | w->group->id << 8 | w->index)) * 0x100000001b3u +
                  (gang->steps - before);
    if ((w->ended && (w->num_vm | w->num_lgkm) == 0) || w->at_barrier) {
        /* A barrier that this wave completed has put it behind i already. */
        remove_live(gang, i);
        if (w->ended && ++w->group->num_drained == w->group->num_waves && --grid->num_left == 0) {
            grid->ending = true;
            gang->num_ending++;
        }
        if (w->ended) {
            gang->progress++;
        }
    }
    emu_gang_unlock(gang, grid->device);
    emu_idle_turn(gang, w, gang->steps - before);
}

static void run_gang(struct emu_gang *gang)
{
    uint32_t last = UINT32_MAX;

    while (gang->num_ended < gang->num_grids && !gang->failed) {
        maybe_start(gang);
        maybe_end(gang);
        if (gang->num_live == 0) {
            if (num_startable(gang) == 0 && gang->num_ended < gang->num_grids && gang->num_ending == 0) {
                emu_report_hang(gang); /* all at barriers */
            }
            continue;
        }
        last = gang->idling ? emu_idle_next(gang) : next_turn(gang, last);
        turn(gang, last);
        if (gang->options->max_steps != 0 && gang->steps > gang->options->max_steps && gang->num_ended < gang->num_grids && !gang->failed) {
            emu_report_hang(gang);
        }
    }
}

bool emu_run(const struct emu_launch *launches, int n, const struct emu_options *options, struct emu_result *result)
{
    struct emu_gang gang = {.options = options, .result = result, .progress = 1, .fate.rng.state = options->seed * 0x9e3779b97f4a7c15u + 1};

    *result = (struct emu_result){0};
    if (n > 0 && emu_gang_init(&gang, launches, (uint32_t)n)) {
        draw_mood(&gang);
        run_gang(&gang);
    }
    result->steps = gang.steps;
    result->trace = gang.trace;
    emu_gang_finish(&gang);
    return !result->failed;
}
