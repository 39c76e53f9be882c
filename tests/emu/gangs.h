/* SPDX-License-Identifier: MIT
 *
 * What a test can ask libccl_emu.so in its own process, found with dlsym under the name ccl_emu: gangs (launches of several devices under one scheduler
 * with a seed, so that a run can be repeated exactly), other code for some kernels (mutants), and what the kernels did. */
#ifndef EMU_GANGS_H
#define EMU_GANGS_H

#include "emu.h"

struct ccl_emu_control {
    /* From now on each n launches, one of each of n devices, run as one emu_run(), in order of the devices. Gang i runs under a seed made of `seed` and i.
     * A gang of more than max_steps wave-instructions has failed (0: no limit). After a failure kernels are no longer run, their streams go on. n 0: no
     * gangs; with nothing enqueued. The caches of all devices are made anew. */
    void (*gang)(int n, uint64_t seed, uint64_t max_steps);
    /* A gang has failed since gang(); what. */
    bool (*failed)(struct emu_result *result);
    /* Kernels that this code object (a file) has too are taken from it, in all later launches. false: why says what is wrong with it (EMU_TEXT bytes). */
    bool (*replace)(const char *path, char *why);
    /* Sums over all runs of a kernel by its name; false: it did not run. */
    bool (*counts)(const char *name, struct emu_counts *counts, uint64_t *launches);
};

#endif
