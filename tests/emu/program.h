/* SPDX-License-Identifier: MIT
 *
 * A loaded code object and its kernels, and what a launch writes before the first instruction: arguments, dispatch packet, initial registers. load.h
 * says which file loads what; launch.c starts waves. */
#ifndef EMU_PROGRAM_H
#define EMU_PROGRAM_H

#include "emu.h"
#include "wave.h"

/* What the launch writes into the kernarg block behind the explicit arguments; v4 and v5 differ in the set only. */
enum emu_hidden {
    EMU_HIDDEN_BLOCK_COUNT_X, EMU_HIDDEN_BLOCK_COUNT_Y, EMU_HIDDEN_BLOCK_COUNT_Z,
    EMU_HIDDEN_GROUP_SIZE_X, EMU_HIDDEN_GROUP_SIZE_Y, EMU_HIDDEN_GROUP_SIZE_Z,
    EMU_HIDDEN_REMAINDER_X, EMU_HIDDEN_REMAINDER_Y, EMU_HIDDEN_REMAINDER_Z,
    EMU_HIDDEN_GLOBAL_OFFSET_X, EMU_HIDDEN_GLOBAL_OFFSET_Y, EMU_HIDDEN_GLOBAL_OFFSET_Z,
    EMU_HIDDEN_GRID_DIMS, EMU_HIDDEN_DYNAMIC_LDS_SIZE,
    EMU_HIDDEN_ZERO, /* pointers of services that are not there (printf, hostcall, heap): null */
    EMU_NUM_HIDDEN
};

struct emu_hidden_arg {
    uint32_t offset, bytes;
    enum emu_hidden kind;
};
#define EMU_MAX_HIDDEN 32

/* Sums of a kernel's runs, for emu_counts_of(). The scheduler adds and locks. */
struct emu_kernel_stats {
    struct emu_counts counts;
    uint64_t launches;
};

/* Which user SGPRs the kernel asked for, in the order in which they are filled (LLVM AMDGPU usage, "Initial Kernel Execution State"). */
enum {
    EMU_USER_PRIVATE_SEGMENT_BUFFER = 1,
    EMU_USER_DISPATCH_PTR = 2,
    EMU_USER_QUEUE_PTR = 4,
    EMU_USER_KERNARG_PTR = 8,
    EMU_USER_DISPATCH_ID = 16,
    EMU_USER_FLAT_SCRATCH_INIT = 32,
    EMU_USER_PRIVATE_SEGMENT_SIZE = 64
};

struct emu_kernel {
    struct emu_program *program;
    char *name;
    struct emu_kernel_stats *stats;
    uint32_t entry;              /* offset in .text of the first instruction */
    uint32_t lds_bytes, private_bytes;
    uint32_t kernarg_bytes, explicit_bytes;
    uint32_t user;               /* EMU_USER_* */
    uint32_t num_user_sgprs;
    uint32_t preload_dwords, preload_offset; /* kernarg dwords that come in SGPRs behind the other user SGPRs */
    bool group_id[3], group_info, private_offset;
    uint32_t workitem_id_dims;   /* 0: x only, 1: x y, 2: x y z */
    uint32_t mode;               /* FP mode: bits 0..3 round, 4..5 f32 denormals, 6..7 f64/f16 denormals; 8 dx10_clamp, 9 ieee: as the MODE register */
    uint32_t arch_vgprs;         /* vector registers before the accumulation registers (accum_offset) */
    uint32_t total_vgprs;        /* of both kinds, as allocated */
    uint32_t sgprs;              /* from the metadata */
    uint32_t vgprs, agprs;       /* from the metadata */
    uint32_t max_threads;        /* of a workgroup */
    uint32_t reqd_threads;       /* 0: any */
    uint32_t num_hidden;
    struct emu_hidden_arg hidden[EMU_MAX_HIDDEN];
};

struct emu_decoder; /* decode.c */

struct emu_program {
    enum emu_arch arch;
    char arch_name[16];
    int code_object;         /* 4 or 5 */
    uint8_t *image;          /* the segments at their distances: pc-relative addresses are addresses of this process */
    size_t image_bytes;
    const uint8_t *text;     /* the executable segment, in image */
    uint32_t text_bytes;
    uint64_t text_vaddr;     /* address of text in the ELF: what a symboliser wants */
    char *debug_path;        /* or NULL */
    uint32_t num_kernels;
    struct emu_kernel *kernels;
    struct emu_decoder *decoder;
    const struct emu_inst *_Atomic *decoded; /* one for each 4 bytes of text, NULL: not yet */
};

/* hsa_kernel_dispatch_packet_t: what a dispatch pointer points to. */
struct emu_dispatch_packet {
    uint16_t header, setup;
    uint16_t workgroup_size_x, workgroup_size_y, workgroup_size_z, reserved0;
    uint32_t grid_size_x, grid_size_y, grid_size_z; /* workitems */
    uint32_t private_segment_size, group_segment_size;
    uint64_t kernel_object, kernarg_address, reserved2, completion_signal;
};

/* NULL when launch can run; otherwise why not (a static or program-owned text). */
const char *emu_launch_refused(const struct emu_launch *launch);

/* Fills kernarg (kernarg_bytes of the kernel, 16-byte aligned by the caller) and the packet; both must live until the launch ends, and loads must reach
 * them (their addresses go into SGPRs). */
void emu_launch_arguments(const struct emu_launch *launch, void *kernarg, struct emu_dispatch_packet *packet);

/* Registers, pc and exec of wave w->index of workgroup group_id as the hardware starts it; w->v must be set. Registers that the ABI does not write are
 * filled with a pattern and unknown. kernarg and packet as of emu_launch_arguments(). */
void emu_wave_start(struct emu_wave *w, const struct emu_launch *launch, uint32_t group_id, const void *kernarg,
                    const struct emu_dispatch_packet *packet);

/* decode.c: false: libLLVM not found or too old, why says so. */
bool emu_decoder_open(struct emu_program *program, char *why);
void emu_decoder_close(struct emu_program *program);

#endif
