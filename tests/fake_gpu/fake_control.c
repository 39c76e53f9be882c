/* SPDX-License-Identifier: MIT
 *
 * The tests' side of the fake runtime: settings, planned failures, the log of calls, and counts of what is alive. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PLANS 32
#define MAX_SETTINGS 16
#define NOT_PERMITTED 800

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct fake_counts fake_live;

static const char *const call_names[NUM_CALLS] = {
#define CCL_GPU(field, hip, cuda, params) [CALL_##field] = FAKE_NAME(hip, cuda),
#ifdef FAKE_CUDA
#define CCL_HIP(field, hip, params) [CALL_##field] = "",
#define CCL_CUDA(field, cuda, params) [CALL_##field] = cuda,
#else
#define CCL_HIP(field, hip, params) [CALL_##field] = hip,
#define CCL_CUDA(field, cuda, params) [CALL_##field] = "",
#endif
#include "runtime/gpu_api.def"
};

/* Each row must have a definition, or the library does not link. */
void (*const fake_functions[])(void) = {
#define CCL_GPU(field, hip, cuda, params) (void (*)(void))fake_##field,
#ifdef FAKE_CUDA
#define CCL_HIP(field, hip, params)
#define CCL_CUDA(field, cuda, params) (void (*)(void))fake_##field,
#else
#define CCL_HIP(field, hip, params) (void (*)(void))fake_##field,
#define CCL_CUDA(field, cuda, params)
#endif
#include "runtime/gpu_api.def"
};

static struct plan {
    int call, nth, code; /* nth 0: every call */
} plans[MAX_PLANS];
static int num_plans, counts[NUM_CALLS];
static struct setting {
    char name[32], value[96];
} settings[MAX_SETTINGS];
static int num_settings;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static FILE *log_file;

/* With the lock held or before other threads can be here. */
static void add_plan(const char *call, int nth, int code)
{
    for (int i = 0; i < NUM_CALLS; i++) {
        if (strcmp(call_names[i], call) == 0 && num_plans < MAX_PLANS) {
            plans[num_plans++] = (struct plan){i, nth, code};
        }
    }
}

static void read_environment(void)
{
    const char *fail = getenv("FAKE_GPU_FAIL"), *only = getenv("FAKE_GPU_RANK"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    const char *path = getenv("FAKE_GPU_LOG");
    if (path != NULL) {
        log_file = fopen(path, "ae");
    }
    if (fail == NULL || (only != NULL && rank != NULL && strcmp(only, rank) != 0)) {
        return;
    }
    char text[1024], *save = NULL;
    snprintf(text, sizeof(text), "%s", fail);
    for (char *item = strtok_r(text, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
        char call[96];
        int nth, code;
        if (sscanf(item, "%95[^:]:%d:%d", call, &nth, &code) == 3) {
            add_plan(call, nth, code);
        }
    }
}

static _Thread_local bool in_callback;

void fake_in_callback(bool in)
{
    in_callback = in;
}

int fake_enter(enum fake_call call)
{
    int code = in_callback ? NOT_PERMITTED : 0;
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&fake_lock);
    counts[call]++;
    for (int i = 0; i < num_plans; i++) {
        if (plans[i].call == (int)call && (plans[i].nth == 0 || plans[i].nth == counts[call])) {
            code = plans[i].code;
        }
    }
    if (log_file != NULL) {
        fprintf(log_file, "%d %s %d\n", (int)getpid(), call_names[call], code);
        fflush(log_file);
    }
    pthread_mutex_unlock(&fake_lock);
    return code;
}

const char *fake_setting(const char *name, const char *otherwise)
{
    for (int i = 0; i < num_settings; i++) {
        if (strcmp(settings[i].name, name) == 0) {
            return settings[i].value;
        }
    }
    const char *value = getenv(name);
    return value != NULL ? value : otherwise;
}

static const char *control_name(int call)
{
    return call < NUM_CALLS ? call_names[call] : NULL;
}

static int control_count(int call)
{
    pthread_mutex_lock(&fake_lock);
    int count = counts[call];
    pthread_mutex_unlock(&fake_lock);
    return count;
}

static void control_reset(void)
{
    pthread_once(&once, read_environment);
    pthread_mutex_lock(&fake_lock);
    memset(counts, 0, sizeof(counts));
    num_plans = 0;
    pthread_mutex_unlock(&fake_lock);
}

static void control_fail(const char *call, int nth, int code)
{
    pthread_mutex_lock(&fake_lock);
    add_plan(call, nth, code);
    pthread_mutex_unlock(&fake_lock);
}

static void control_set(const char *name, const char *value)
{
    pthread_mutex_lock(&fake_lock);
    int i = 0;
    while (i < num_settings && strcmp(settings[i].name, name) != 0) {
        i++;
    }
    if (i < MAX_SETTINGS) {
        snprintf(settings[i].name, sizeof(settings[i].name), "%s", name);
        snprintf(settings[i].value, sizeof(settings[i].value), "%s", value);
        num_settings = i == num_settings ? i + 1 : num_settings;
    }
    pthread_mutex_unlock(&fake_lock);
}

static struct fake_counts control_counts(void)
{
    pthread_mutex_lock(&fake_lock);
    struct fake_counts now = fake_live;
    pthread_mutex_unlock(&fake_lock);
    return now;
}

static void control_settle(void)
{
    fake_settle(-1);
}

const struct fake_control ccl_fake_gpu = {
    .call_name = control_name,
    .call_count = control_count,
    .reset = control_reset,
    .fail = control_fail,
    .set = control_set,
    .counts = control_counts,
    .settle = control_settle,
    .current = fake_current,
    .make_current = fake_make_current,
};
