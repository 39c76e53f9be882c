/* SPDX-License-Identifier: MIT
 *
 * Runs launches: alone, beside those of other streams, processes and the host; or in gangs (gangs.h), which depend on the seed only. Nothing a
 * gang does may depend on which thread came first: its launches stand in order of their devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_gpu/fake.h"

#include "gangs.h"
#include "hip_module.h"

#define MAX_DEVICES 16
#define MAX_DEPTH 8

static pthread_mutex_t run_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t run_changed = PTHREAD_COND_INITIALIZER;
static struct emu_device *devices[MAX_DEVICES];
static struct emu_program *replacement;
static uint64_t runs; /* alone */

static struct {
    int size, depth, present; /* present: launches of the next gang that are here */
    int have[MAX_DEVICES];    /* of each device */
    uint64_t seed, done, max_steps; /* done: gangs that have run */
    struct emu_launch launches[MAX_DEVICES][MAX_DEPTH]; /* with arguments of their own, but for the last of a device */
    emu_gang_ended *ended;
    void *arg;
    bool failed;
    struct emu_result result;
} gang;

/* splitmix64: near inputs, unrelated outputs. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a + (b + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* With the lock held. */
static struct emu_device *device_of(int number)
{
    if (devices[number] == NULL) {
        devices[number] = emu_device_new(number, fake_arch(), mix(gang.size != 0 ? gang.seed : emu_hip_seed(), (uint64_t)number));
    }
    return devices[number];
}

static void run_alone(const struct emu_launch *launch, uint64_t number)
{
    struct emu_result result = {0};
    struct emu_options options = {.seed = mix(emu_hip_seed(), number), .shared = true};
    if (!emu_run(launch, 1, &options, &result)) {
        fprintf(stderr, "FAILED: emu: %s\n", result.text);
        fflush(stderr);
        abort();
    }
}

/* Launch i of a gang is number i % depth of device ordinals[i / depth]. */
struct members {
    struct emu_launch launches[MAX_DEVICES * MAX_DEPTH];
    int ordinals[MAX_DEVICES], n;
};

static void launch_ended(int launch, void *arg)
{
    const struct members *m = arg;
    if (gang.ended != NULL) {
        gang.ended(m->ordinals[launch / gang.depth], launch % gang.depth, gang.arg);
    }
}

/* With the lock held. */
static void collect(struct members *m)
{
    int devices_in = 0;
    m->n = 0;
    for (int d = 0; d < MAX_DEVICES; d++) {
        for (int i = 0; i < gang.have[d]; i++) {
            m->launches[m->n] = gang.launches[d][i];
            m->launches[m->n].after = i > 0 ? m->n : 0;
            m->n++;
        }
        if (gang.have[d] > 0) {
            m->ordinals[devices_in++] = d;
        }
    }
}

static void free_members(const struct members *m)
{
    for (int i = 0; i < m->n; i++) {
        if (i % gang.depth != gang.depth - 1) {
            free((void *)m->launches[i].args);
        }
    }
}

/* With the lock held, which is given up meanwhile. The last to come runs all. */
static void run_in_gang(int device, const struct emu_launch *launch, uint32_t args_bytes)
{
    static struct members members; /* one gang at a time */
    uint64_t mine = gang.done;
    if (gang.failed) {
        return;
    }
    if (gang.have[device] == gang.depth) {
        fprintf(stderr, "FAILED: emu: more than %d launches of device %d in one gang\n", gang.depth, device);
        abort();
    }
    struct emu_launch *slot = &gang.launches[device][gang.have[device]++];
    *slot = *launch;
    gang.present++;
    if (gang.have[device] < gang.depth) {
        void *args = malloc(args_bytes);
        if (args == NULL) {
            abort();
        }
        slot->args = memcpy(args, launch->args, args_bytes);
        return;
    }
    if (gang.present < gang.size * gang.depth) {
        while (gang.done == mine) {
            pthread_cond_wait(&run_changed, &run_lock);
        }
        return;
    }
    struct emu_options options = {.seed = mix(gang.seed, gang.done), .max_steps = gang.max_steps, .ended = launch_ended, .arg = &members};
    struct emu_result result = {0};
    collect(&members);
    memset(gang.have, 0, sizeof(gang.have));
    gang.present = 0;
    pthread_mutex_unlock(&run_lock);
    bool ok = emu_run(members.launches, members.n, &options, &result);
    pthread_mutex_lock(&run_lock);
    free_members(&members);
    gang.failed = !ok;
    gang.result = result;
    gang.done++;
    pthread_cond_broadcast(&run_changed);
}

void emu_hip_run(int device, struct emu_launch *launch)
{
    struct emu_kernel_info info;
    emu_kernel_info(launch->kernel, &info);
    pthread_mutex_lock(&run_lock);
    const struct emu_kernel *other = replacement != NULL ? emu_program_kernel(replacement, info.name) : NULL;
    launch->kernel = other != NULL ? other : launch->kernel;
    launch->device = device_of(device);
    if (gang.size != 0) {
        run_in_gang(device, launch, info.explicit_bytes);
        pthread_mutex_unlock(&run_lock);
        return;
    }
    uint64_t number = runs++;
    pthread_mutex_unlock(&run_lock);
    run_alone(launch, number);
}

/* ---- what tests call ---- */

static void gangs_start(int n, int depth, uint64_t seed, uint64_t max_steps, emu_gang_ended *ended, void *arg)
{
    pthread_mutex_lock(&run_lock);
    memset(&gang, 0, sizeof(gang));
    gang.size = n;
    gang.depth = depth;
    gang.seed = seed;
    gang.max_steps = max_steps;
    gang.ended = ended;
    gang.arg = arg;
    for (int i = 0; i < MAX_DEVICES; i++) {
        emu_device_free(devices[i]);
        devices[i] = NULL;
    }
    pthread_mutex_unlock(&run_lock);
}

static bool gangs_result(struct emu_result *result)
{
    pthread_mutex_lock(&run_lock);
    bool ok = !gang.failed;
    *result = gang.result;
    pthread_mutex_unlock(&run_lock);
    return ok;
}

static bool gangs_replace(const char *path, char *why)
{
    FILE *file = fopen(path, "rb");
    static char image[8u << 20];
    size_t bytes = file != NULL ? fread(image, 1, sizeof(image), file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    struct emu_program *program = NULL;
    snprintf(why, EMU_TEXT, "%s cannot be read", path);
    if (bytes > 0 && bytes < sizeof(image)) {
        program = emu_program_load(image, bytes, fake_arch(), path, why);
    }
    pthread_mutex_lock(&run_lock);
    replacement = program != NULL ? program : replacement;
    pthread_mutex_unlock(&run_lock);
    return program != NULL;
}

static bool gangs_counts(const char *name, struct emu_counts *counts, uint64_t *launches)
{
    return emu_hip_counts(name, replacement, counts, launches);
}

FAKE_EXPORT extern const struct ccl_emu_gangs ccl_emu;
const struct ccl_emu_gangs ccl_emu = {.start = gangs_start, .result = gangs_result, .replace = gangs_replace, .counts = gangs_counts};
