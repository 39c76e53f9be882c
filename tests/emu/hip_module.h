/* SPDX-License-Identifier: MIT
 *
 * What the files of libccl_emu.so share beyond the interpreter: hip_module.c is the runtime's side, hip_run.c runs launches, alone or in gangs,
 * hip_debug.c finds line tables. */
#ifndef EMU_HIP_MODULE_H
#define EMU_HIP_MODULE_H

#include "emu.h"

uint64_t emu_hip_seed(void); /* of this process */
/* emu_program_load with the debug file of the same code, if there is one. */
struct emu_program *emu_hip_load(const void *image, size_t bytes, const char *arch, char *why);
/* Returns when the kernel has ended. launch->device is filled in; kernels of a code object given to replace() come first. */
void emu_hip_run(int device, struct emu_launch *launch);
/* Sums over all runs of a kernel, in `first` if that has it (may be NULL), else in the modules. false: it did not run. */
bool emu_hip_counts(const char *name, const struct emu_program *first, struct emu_counts *counts, uint64_t *launches);

#endif
