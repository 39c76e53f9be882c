/* SPDX-License-Identifier: MIT
 *
 * For the tests with hostile clients: random bytes, small socket helpers, and the log as a file in memory. */
#ifndef TEST_BOOTSTRAP_HOSTILE_H
#define TEST_BOOTSTRAP_HOSTILE_H

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "bootstrap/net.h"
#include "test_bootstrap.h"

static uint64_t rng_state;

static inline uint32_t rng(void)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33);
}

static inline void rng_fill(void *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)p)[i] = (uint8_t)rng();
    }
}

static inline void rng_seed(const char *text)
{
    rng_state = text != NULL ? strtoull(text, NULL, 0) : ccl_now_ns();
    printf("seed %llu\n", (unsigned long long)rng_state);
}

/* Until the other side hangs up; false: it did not within the time. */
static inline bool closed_within(int fd, int ms)
{
    char buf[256];
    uint64_t deadline = ccl_net_deadline((uint64_t)ms * MS);
    while (ccl_net_wait(fd, POLLIN, deadline)) {
        if (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) <= 0) {
            return true;
        }
    }
    return false;
}

static inline void send_ignoring(int fd, const void *data, size_t bytes)
{
    ssize_t ignored = send(fd, data, bytes, MSG_NOSIGNAL);
    (void)ignored;
}

/* Before anything logs, for the environment is read once. */
static inline int log_to_memory(void)
{
    char path[64];
    int log = memfd_create("log", MFD_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", log);
    setenv("CCL_DEBUG", "warn", 1);
    setenv("CCL_DEBUG_FILE", path, 1);
    return log;
}

static inline int count_lines(int fd, const char *part)
{
    int n = 0;
    char line[2048];
    FILE *f = fdopen(dup(fd), "r");
    rewind(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        n += strstr(line, part) != NULL && strstr(line, " warn boot: ") != NULL;
    }
    fclose(f);
    return n;
}

#endif
