/* SPDX-License-Identifier: MIT
 *
 * What the unit tests of the gpu backend over the fake runtimes share. Every case runs in a forked process, since a backend is chosen once and
 * keeps its devices open. */
#ifndef FAKE_TEST_H
#define FAKE_TEST_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_control.h"
#include "test.h"
#include "util/log.h"

#define CASE_SECONDS 20

static inline bool fake_is_cuda(void) { return strcmp(getenv("FAKE_GPU"), "cuda") == 0; }

/* The library that the backend opens, opened before it. */
static inline const struct fake_control *fake_open(void)
{
    void *library = dlopen(fake_is_cuda() ? "libcuda.so.1" : "libamdhip64.so", RTLD_NOW | RTLD_LOCAL);
    void *control = library != NULL ? dlsym(library, "ccl_fake_gpu") : NULL;
    if (control == NULL) {
        fprintf(stderr, "the fake library was not found: %s\n", dlerror());
        exit(1);
    }
    return control;
}

/* Run one case in a child: its exit code, or -1 when it hung or died. */
static inline int run_case(int (*function)(const void *arg), const void *arg)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        test_failures = 0;
        alarm(CASE_SECONDS);
        _exit(function(arg));
    }
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
