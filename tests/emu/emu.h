/* SPDX-License-Identifier: MIT
 *
 * The interpreter of AMD code objects: what its users see. It executes the machine code that clang made for gfx90a, gfx942 and gfx950, wave by
 * wave, over the memory of this process, with the waves of all workgroups interleaved at random and with caches and outstanding accesses
 * that do only what the LLVM AMDGPU memory model promises (docs/emulator.md). One emu_run() is one gang of kernels under one scheduler. */
#ifndef EMU_H
#define EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMU_TEXT 2048

/* ---- programs: code objects, v4 and v5, ELF or a clang offload bundle that holds one for the arch ---- */

struct emu_program;
struct emu_kernel; /* owned by its program */

/* Copies the image. arch: "gfx942"; an image of another arch is an error. NULL: why says what is wrong (EMU_TEXT bytes). debug_path: an
 * unstripped copy of the same code for source lines in reports, or NULL. Freed by emu_program_free. */
struct emu_program *emu_program_load(const void *image, size_t bytes, const char *arch, const char *debug_path, char *why);
void emu_program_free(struct emu_program *program);
/* Bytes of the image at p, of an ELF or a bundle: what a loader must copy. 0: neither. */
size_t emu_image_bytes(const void *image);
/* NULL: no kernel of this name. */
const struct emu_kernel *emu_program_kernel(const struct emu_program *program, const char *name);
const struct emu_kernel *emu_program_next(const struct emu_program *program, const struct emu_kernel *kernel); /* NULL: the first */

struct emu_kernel_info {
    const char *name;
    uint32_t explicit_bytes; /* arguments of the source */
    uint32_t kernarg_bytes;  /* with the implicit ones */
    uint32_t lds_bytes;      /* static */
    uint32_t vgprs, agprs, sgprs, max_threads;
};
void emu_kernel_info(const struct emu_kernel *kernel, struct emu_kernel_info *info);

/* ---- devices ---- */

/* A GPU: its caches. Memory is the memory of this process, which peers (other devices, other processes, the host) see past the caches. */
struct emu_device;
struct emu_device *emu_device_new(int number, const char *arch, uint64_t seed);
void emu_device_free(struct emu_device *device);

/* Which allocation holds addr: fills base and bytes, and whether it is the host's memory. Called at every access that no region found before holds;
 * thread-safe; must not call back. emu_regions_changed(): allocations were freed or unmapped. */
typedef bool emu_find_region(uint64_t addr, uint64_t *base, uint64_t *bytes, bool *host);
void emu_set_regions(emu_find_region *find);
void emu_regions_changed(void);

/* ---- running ---- */

struct emu_launch {
    const struct emu_kernel *kernel;
    struct emu_device *device;
    uint32_t grid, threads; /* workgroups (x), workitems of each (x) */
    uint32_t dynamic_lds;   /* bytes */
    const void *args;       /* explicit_bytes of the kernel, copied */
    int after;              /* starts when this launch of the same run has ended, its index + 1, lower than the own; 0: at once */
};

struct emu_options {
    uint64_t seed;          /* of the schedule */
    uint64_t max_steps;     /* wave-instructions after which a gang counts as hung; 0: no limit */
    bool shared;            /* other threads or processes take part: give the processor away where all waves poll */
    /* A launch has ended and its stores are in memory. Called between two instructions; must not call emu_run. NULL: nobody asks. */
    void (*ended)(int launch, void *arg);
    void *arg;
};

struct emu_counts {
    uint64_t wave_instructions, salu, valu, mfma, smem, vmem, lds;
    uint64_t loads, stores, atomics;                    /* wave-wide global accesses */
    uint64_t load_bytes, store_bytes;                   /* of active lanes */
    uint64_t load_transactions, store_transactions;     /* 64-byte segments touched */
    uint64_t lds_accesses, lds_conflict_cycles;         /* beyond what the widths need */
    uint64_t waits, waits_for_stores;                   /* s_waitcnt that had something to wait for; that retired a store */
    uint64_t barriers, write_backs, invalidates;
    uint64_t mfma_cycles;                               /* lower bound of the matrix pipes */
};

struct emu_result {
    bool failed;
    char text[EMU_TEXT]; /* what, kernel, workgroup, wave, lane, instruction, source line, seed */
    uint64_t steps;
    uint64_t trace; /* a hash of the schedule: equal for equal seeds */
};

/* Run n kernels to their end under one scheduler; kernels of one device share its caches. Thread-safe; calls on one device interleave. */
bool emu_run(const struct emu_launch *launches, int n, const struct emu_options *options, struct emu_result *result);

/* Sums over all runs of a kernel in this process. */
void emu_counts_of(const struct emu_kernel *kernel, struct emu_counts *counts, uint64_t *launches);
/* All kernels that ran, a table of lines for people. */
void emu_counts_print(void *file /* FILE * */);

#endif
