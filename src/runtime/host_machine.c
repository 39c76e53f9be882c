/* SPDX-License-Identifier: MIT
 *
 * Facts about the machine from /proc, /sys and the scheduler. */
#include "runtime/host_machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whole small file as text; false when it cannot be read. */
static bool read_text(const char *path, char *text, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    ssize_t got = fd >= 0 ? 1 : -1;
    while (got > 0 && n + 1 < bytes) {
        got = read(fd, text + n, bytes - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    text[n] = '\0';
    return got >= 0;
}

/* Text behind "key" and its separators at the start of a line; NULL: no such line. */
static const char *find_key(const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0) {
            return line + len + strspn(line + len, ": \t");
        }
    }
    return NULL;
}

static uint64_t number_of(const char *text, const char *key, uint64_t dflt)
{
    const char *value = find_key(text, key);
    return value != NULL ? strtoull(value, NULL, 10) : dflt;
}

int ccl_host_machine_cores(void)
{
    unsigned long mask[1024]; /* the raw call tells how much it filled in, for machines beyond CPU_SETSIZE */
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
    int cores = 0;
    for (long i = 0; i < bytes / (long)sizeof(mask[0]); i++) {
        cores += __builtin_popcountl(mask[i]);
    }
    return cores > 0 ? cores : 1;
}

void ccl_host_machine_cpu_name(char *name, size_t bytes)
{
    char text[4096];
    const char *model = read_text("/proc/cpuinfo", text, sizeof(text)) ? find_key(text, "model name") : NULL;
    if (model == NULL) {
        model = "unknown processor";
    }
    snprintf(name, bytes, "%.*s", (int)strcspn(model, "\n"), model);
}

uint64_t ccl_host_machine_uid(void)
{
    char text[128];
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    if (!read_text("/proc/sys/kernel/random/boot_id", text, sizeof(text)) && gethostname(text, sizeof(text)) != 0) {
        text[0] = '\0';
    }
    text[sizeof(text) - 1] = '\0';
    for (const char *p = text; *p != '\0' && *p != '\n'; p++) {
        hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
    }
    return hash;
}

/* What the memory cgroup at dir leaves; file cache counts as free. UINT64_MAX: no limit or no such directory. */
static uint64_t cgroup_free(const char *dir, const char *limit_name, const char *usage_name)
{
    char path[1024], text[8192];
    snprintf(path, sizeof(path), "%s/%s", dir, limit_name);
    if (!read_text(path, text, sizeof(text)) || text[0] < '0' || text[0] > '9') { /* "max" */
        return UINT64_MAX;
    }
    uint64_t limit = strtoull(text, NULL, 10);
    snprintf(path, sizeof(path), "%s/%s", dir, usage_name);
    if (limit >= (uint64_t)1 << 60 || !read_text(path, text, sizeof(text))) {
        return UINT64_MAX;
    }
    uint64_t used = strtoull(text, NULL, 10);
    snprintf(path, sizeof(path), "%s/memory.stat", dir);
    uint64_t cache = 0;
    if (read_text(path, text, sizeof(text))) {
        cache = number_of(text, "active_file ", 0) + number_of(text, "inactive_file ", 0);
    }
    used -= cache < used ? cache : used;
    return limit > used ? limit - used : 0;
}

/* The smallest over the group and all above it, up to the mount point. */
static uint64_t cgroup_chain_free(const char *mount, const char *group, const char *limit_name, const char *usage_name)
{
    char dir[768];
    uint64_t least = UINT64_MAX;
    snprintf(dir, sizeof(dir), "%s%.*s", mount, (int)strcspn(group, "\n"), group);
    for (;;) {
        uint64_t left = cgroup_free(dir, limit_name, usage_name);
        least = left < least ? left : least;
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= strlen(mount) || slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

uint64_t ccl_host_machine_free_bytes(void)
{
    char text[8192];
    uint64_t least = UINT64_MAX;
    if (read_text("/proc/meminfo", text, sizeof(text))) {
        uint64_t kib = number_of(text, "MemAvailable", UINT64_MAX / 1024) + number_of(text, "SwapFree", 0);
        least = kib < UINT64_MAX / 1024 ? kib * 1024 : UINT64_MAX;
    }
    if (read_text("/proc/self/cgroup", text, sizeof(text))) {
        uint64_t left = UINT64_MAX;
        const char *group = strstr(text, ":memory:"); /* version 1 */
        if (group != NULL) {
            left = cgroup_chain_free("/sys/fs/cgroup/memory", group + strlen(":memory:"), "memory.limit_in_bytes",
                                     "memory.usage_in_bytes");
        } else if ((group = find_key(text, "0:")) != NULL) { /* version 2: "0::/path" */
            left = cgroup_chain_free("/sys/fs/cgroup", group, "memory.max", "memory.current");
        }
        least = left < least ? left : least;
    }
    return least;
}
