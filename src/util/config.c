/* SPDX-License-Identifier: MIT
 *
 * Reads every environment variable of config.def once. Logging depends on this file, so complaints go to stderr directly. */
#include "util/config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

static struct ccl_env env;
static pthread_once_t env_once = PTHREAD_ONCE_INIT;

static const char *read_str(const char *name, const char *dflt)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : dflt;
}

static int64_t read_int(const char *name, int64_t dflt, int64_t min, int64_t max)
{
    const char *value = getenv(name);
    if (value == NULL || value[0] == '\0') {
        return dflt;
    }
    char *end;
    errno = 0;
    long long v = strtoll(value, &end, 10);
    if (errno != 0 || *end != '\0' || v < min || v > max) {
        dprintf(STDERR_FILENO, "ccl: %s is %s, not an integer from %lld to %lld; ignored\n", name, value, (long long)min,
                (long long)max);
        return dflt;
    }
    return v;
}

static void env_init(void)
{
#define CCL_ENV_STR(field, name, dflt, help) env.field = read_str(name, dflt);
#define CCL_ENV_INT(field, name, dflt, min, max, help) env.field = read_int(name, dflt, min, max);
#include "util/config.def"
#undef CCL_ENV_STR
#undef CCL_ENV_INT
    const char *mode = env.nccl_check_mode;
    if (mode != NULL && (strcasecmp(mode, "DEBUG_LOCAL") == 0 || strcasecmp(mode, "DEBUG_GLOBAL") == 0)) {
        env.nccl_check_pointers = 1;
    }
    env.check = env.nccl_check_pointers != 0 ? 1 : env.check;
}

const struct ccl_env *ccl_env_get(void)
{
    pthread_once(&env_once, env_init);
    return &env;
}
