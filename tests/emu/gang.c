/* SPDX-License-Identifier: MIT
 *
 * Devices, and what a gang needs while it runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access.h"
#include "counts.h"
#include "gang.h"
#include "lds.h"

#define AGENT_LINES_LOG2 10
#define L2_LINES_LOG2 9
#define L1_LINES_LOG2 6
#define SCALAR_LINES_LOG2 5

struct emu_device *emu_device_new(int number, const char *arch, uint64_t seed)
{
    struct emu_device *d = calloc(1, sizeof(*d));
    struct emu_rng rng = {seed ^ 0x5851f42d4c957f2du};
    bool made;

    if (d == NULL) {
        return NULL;
    }
    d->number = number;
    d->arch = strcmp(arch, "gfx90a") == 0 ? EMU_GFX90A : strcmp(arch, "gfx950") == 0 ? EMU_GFX950 : EMU_GFX942;
    /* "The gfx942 can be configured as a number of smaller agents with each having a single L2 ..., or as fewer (possibly one) larger agents with groups of
     * CUs on each agent each sharing separate L2 caches." Two is what finds most; more leave too few workgroups that share one. */
    d->num_xcds = d->arch == EMU_GFX90A ? 0 : 2u << emu_below(&rng, 3);
    pthread_mutex_init(&d->lock, NULL);
    made = emu_cache_init(&d->agent, AGENT_LINES_LOG2);
    for (uint32_t x = 0; made && x < EMU_MAX_XCDS && (x == 0 || x < d->num_xcds); x++) {
        made = emu_cache_init(&d->l2[x], L2_LINES_LOG2) && emu_cache_init(&d->scalar[x], SCALAR_LINES_LOG2);
    }
    if (!made) {
        emu_device_free(d);
        return NULL;
    }
    return d;
}

void emu_device_free(struct emu_device *d)
{
    if (d == NULL) {
        return;
    }
    emu_cache_finish(&d->agent);
    for (uint32_t x = 0; x < EMU_MAX_XCDS; x++) {
        emu_cache_finish(&d->l2[x]);
        emu_cache_finish(&d->scalar[x]);
    }
    pthread_mutex_destroy(&d->lock);
    free(d);
}

void emu_gang_lock(struct emu_gang *gang, struct emu_device *d)
{
    if (gang->options->shared) {
        pthread_mutex_lock(&d->lock);
    }
}

void emu_gang_unlock(struct emu_gang *gang, struct emu_device *d)
{
    if (gang->options->shared) {
        pthread_mutex_unlock(&d->lock);
    }
}

/* ---- claiming devices: each once, in the order of their numbers, so that two gangs do not wait for each other ---- */

static struct emu_device *next_device(const struct emu_gang *gang, const struct emu_device *last)
{
    struct emu_device *next = NULL;

    for (uint32_t g = 0; g < gang->num_grids; g++) {
        struct emu_device *d = gang->grids[g].device;

        if ((last == NULL || d->number > last->number || (d->number == last->number && d > last)) &&
            (next == NULL || d->number < next->number || (d->number == next->number && d < next))) {
            next = d;
        }
    }
    return next;
}

static void claim_devices(struct emu_gang *gang)
{
    for (struct emu_device *d = next_device(gang, NULL); d != NULL; d = next_device(gang, d)) {
        pthread_mutex_lock(&d->lock);
        if (d->num_running++ == 0) { /* nothing is left of older runs: one seed, one run */
            emu_cache_reset(&d->agent);
            for (uint32_t x = 0; x < EMU_MAX_XCDS && (x == 0 || x < d->num_xcds); x++) {
                emu_cache_reset(&d->l2[x]);
                emu_cache_reset(&d->scalar[x]);
            }
            d->clock = 0;
        }
        if (gang->options->shared) {
            pthread_mutex_unlock(&d->lock);
        }
    }
    gang->claimed = true;
}

static void give_back_devices(struct emu_gang *gang)
{
    for (struct emu_device *d = next_device(gang, NULL); gang->claimed && d != NULL; d = next_device(gang, d)) {
        emu_gang_lock(gang, d);
        d->num_running--;
        pthread_mutex_unlock(&d->lock);
    }
}

/* ---- workgroups and waves ---- */

static bool refuse(struct emu_gang *gang, const struct emu_launch *launch, const char *why)
{
    gang->failed = gang->result->failed = true;
    snprintf(gang->result->text, EMU_TEXT, "kernel %s cannot be launched: %s", launch->kernel->name, why);
    return false;
}

static bool init_grid(struct emu_gang *gang, struct emu_grid *grid, const struct emu_launch *launch)
{
    const struct emu_kernel *k = launch->kernel;
    uint32_t waves = (launch->threads + EMU_LANES - 1) / EMU_LANES, total = waves * launch->grid;
    struct emu_device *d = launch->device;

    if (d->arch != k->program->arch) {
        return refuse(gang, launch, "the device is of another architecture");
    }
    grid->num_left = launch->grid;
    grid->groups = calloc(launch->grid, sizeof(*grid->groups));
    grid->waves = calloc(total, sizeof(*grid->waves));
    grid->registers = aligned_alloc(64, (size_t)total * EMU_MAX_VGPRS * sizeof(emu_lanes));
    grid->kernarg = aligned_alloc(64, (k->kernarg_bytes + 63u) / 64 * 64 + 64); /* whole lines: nothing else stands in them */
    if (grid->groups == NULL || grid->waves == NULL || grid->registers == NULL || grid->kernarg == NULL) {
        return refuse(gang, launch, "out of memory");
    }
    emu_launch_arguments(launch, grid->kernarg, &grid->packet);
    if (!emu_region_add(&gang->regions, (uint64_t)(uintptr_t)grid->kernarg, k->kernarg_bytes, true) ||
        !emu_region_add(&gang->regions, (uint64_t)(uintptr_t)&grid->packet, sizeof(grid->packet), true) ||
        !emu_region_add(&gang->regions, (uint64_t)(uintptr_t)k->program->image, k->program->image_bytes, true)) {
        return refuse(gang, launch, "out of memory");
    }
    for (uint32_t g = 0; g < launch->grid; g++) {
        struct emu_group *group = &grid->groups[g];

        group->grid = grid;
        group->id = g;
        group->num_waves = waves;
        group->waves = &grid->waves[g * waves];
        group->xcd = d->num_xcds > 0 ? g % d->num_xcds : 0; /* workgroups go to the XCDs in turn */
        group->l1 = malloc(sizeof(struct emu_cache));
        if (group->l1 == NULL || !emu_cache_init(group->l1, L1_LINES_LOG2) || !emu_lds_init(group, k->lds_bytes + launch->dynamic_lds)) {
            return refuse(gang, launch, "out of memory");
        }
        for (uint32_t i = 0; i < waves; i++) {
            struct emu_wave *w = &group->waves[i];

            w->group = group;
            w->index = i;
            w->v = &grid->registers[(size_t)(g * waves + i) * EMU_MAX_VGPRS];
            emu_wave_start(w, launch, g, grid->kernarg, &grid->packet);
            gang->all[gang->num_all++] = w;
        }
    }
    return true;
}

bool emu_gang_init(struct emu_gang *gang, const struct emu_launch *launches, uint32_t n)
{
    size_t waves = 0;

    gang->grids = calloc(n, sizeof(*gang->grids));
    if (gang->grids == NULL) {
        return refuse(gang, &launches[0], "out of memory");
    }
    for (uint32_t i = 0; i < n; i++) {
        const char *why = emu_launch_refused(&launches[i]);

        if (why != NULL) {
            return refuse(gang, &launches[i], why);
        }
        gang->grids[i] = (struct emu_grid){.gang = gang, .launch = &launches[i], .kernel = launches[i].kernel, .program = launches[i].kernel->program,
                                           .device = launches[i].device};
        waves += (size_t)launches[i].grid * ((launches[i].threads + EMU_LANES - 1) / EMU_LANES);
    }
    gang->live = malloc(waves * sizeof(*gang->live));
    gang->all = malloc(waves * sizeof(*gang->all));
    if (gang->live == NULL || gang->all == NULL) {
        return refuse(gang, &launches[0], "out of memory");
    }
    gang->num_grids = n;
    for (uint32_t i = 0; i < n; i++) {
        if (!init_grid(gang, &gang->grids[i], &launches[i])) {
            return false;
        }
    }
    claim_devices(gang);
    return true;
}

static void free_list(struct emu_gang *gang, struct emu_access *a, bool vm)
{
    while (a != NULL) {
        struct emu_access *next = vm ? a->next_vm : a->next_lgkm;

        if (vm || !a->vm) {
            emu_access_free(gang, a);
        }
        a = next;
    }
}

void emu_gang_finish(struct emu_gang *gang)
{
    for (uint32_t i = 0; i < gang->num_all; i++) { /* of a run that failed */
        free_list(gang, gang->all[i]->lgkm, false);
        free_list(gang, gang->all[i]->vm, true);
    }
    while (gang->spare != NULL) {
        struct emu_access *a = gang->spare;

        gang->spare = a->next_vm;
        free(a);
    }
    give_back_devices(gang);
    for (uint32_t g = 0; g < gang->num_grids; g++) {
        struct emu_grid *grid = &gang->grids[g];

        if (grid->started) {
            emu_counts_add(grid);
        }
        for (uint32_t i = 0; grid->groups != NULL && i < grid->launch->grid; i++) {
            if (grid->groups[i].l1 != NULL) {
                emu_cache_finish(grid->groups[i].l1);
            }
            free(grid->groups[i].l1);
            emu_lds_finish(&grid->groups[i]);
        }
        free(grid->groups);
        free(grid->waves);
        free(grid->registers);
        free(grid->kernarg);
    }
    free(gang->grids);
    free(gang->live);
    free(gang->all);
    free(gang->regions.list);
}
