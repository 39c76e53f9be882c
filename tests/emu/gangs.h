/* SPDX-License-Identifier: MIT
 *
 * What a test can ask libccl_emu.so in its own process, found with dlsym under the name ccl_emu: gangs (launches of several devices under one scheduler
 * with a seed, so that a run can be repeated exactly), other code for some kernels (mutants), and what the kernels did. */
#ifndef EMU_GANGS_H
#define EMU_GANGS_H

#include "emu.h"

/* Kernel number `index` of this device in its gang has ended, and what it has stored is in memory. Called by the scheduler, between two instructions. */
typedef void emu_gang_ended(int device, int index, void *arg);

struct ccl_emu_gangs {
    /* From now on `depth` launches of each of n devices run as one emu_run(): the kernels of a device one behind the other, whatever the other devices
     * are at. Streams see all but the last kernel of a device end at once, so nothing else may stand between them. Gang i runs under a seed made of
     * `seed` and i. A gang of more than max_steps wave-instructions has failed (0: no limit). After a failure kernels are no longer run, and
     * their streams go on. n 0: no gangs. With nothing enqueued; the caches of all devices are made anew. ended may be NULL. */
    void (*start)(int n, int depth, uint64_t seed, uint64_t max_steps, emu_gang_ended *ended, void *arg);
    /* false: a gang has failed since start(); of that one, else of the last. */
    bool (*result)(struct emu_result *result);
    /* Kernels that this code object (a file) has too are taken from it, in all later launches. false: why says what is wrong with it (EMU_TEXT bytes). */
    bool (*replace)(const char *path, char *why);
    /* Sums over all runs of a kernel by its name; false: it did not run. */
    bool (*counts)(const char *name, struct emu_counts *counts, uint64_t *launches);
};

#endif
