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

static pthread_mutex_t run_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t run_changed = PTHREAD_COND_INITIALIZER;
static struct emu_device *devices[MAX_DEVICES];
static struct emu_program *replacement;
static uint64_t runs; /* alone */

static struct {
    int size, present;
    uint64_t seed, done, max_steps; /* done: gangs that have run */
    struct emu_launch launches[MAX_DEVICES]; /* [device]; kernel NULL: not here yet */
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

/* With the lock held, which is given up meanwhile. The last to come runs all. */
static void run_in_gang(int device, const struct emu_launch *launch)
{
    uint64_t mine = gang.done;
    if (gang.failed) {
        return;
    }
    if (gang.launches[device].kernel != NULL) {
        fprintf(stderr, "FAILED: emu: two launches of device %d in one gang of %d\n", device, gang.size);
        abort();
    }
    gang.launches[device] = *launch;
    if (++gang.present < gang.size) {
        while (gang.done == mine) {
            pthread_cond_wait(&run_changed, &run_lock);
        }
        return;
    }
    struct emu_launch launches[MAX_DEVICES];
    struct emu_options options = {.seed = mix(gang.seed, gang.done), .max_steps = gang.max_steps};
    int n = 0;
    for (int i = 0; i < MAX_DEVICES; i++) {
        if (gang.launches[i].kernel != NULL) {
            launches[n++] = gang.launches[i];
        }
    }
    memset(gang.launches, 0, sizeof(gang.launches));
    gang.present = 0;
    pthread_mutex_unlock(&run_lock);
    struct emu_result result = {0};
    bool ok = emu_run(launches, n, &options, &result);
    pthread_mutex_lock(&run_lock);
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
        run_in_gang(device, launch);
        pthread_mutex_unlock(&run_lock);
        return;
    }
    uint64_t number = runs++;
    pthread_mutex_unlock(&run_lock);
    run_alone(launch, number);
}

/* ---- control ---- */

static void control_gang(int n, uint64_t seed, uint64_t max_steps)
{
    pthread_mutex_lock(&run_lock);
    memset(&gang, 0, sizeof(gang));
    gang.size = n;
    gang.seed = seed;
    gang.max_steps = max_steps;
    for (int i = 0; i < MAX_DEVICES; i++) {
        emu_device_free(devices[i]);
        devices[i] = NULL;
    }
    pthread_mutex_unlock(&run_lock);
}

static bool control_failed(struct emu_result *result)
{
    pthread_mutex_lock(&run_lock);
    bool failed = gang.failed;
    *result = gang.result;
    pthread_mutex_unlock(&run_lock);
    return failed;
}

static bool control_replace(const char *path, char *why)
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

static bool control_counts(const char *name, struct emu_counts *counts, uint64_t *launches)
{
    return emu_hip_counts(name, replacement, counts, launches);
}

FAKE_EXPORT extern const struct ccl_emu_control ccl_emu;
const struct ccl_emu_control ccl_emu = {.gang = control_gang, .failed = control_failed, .replace = control_replace, .counts = control_counts};
