/* SPDX-License-Identifier: MIT
 *
 * What a launch writes before the first instruction: the kernarg block with its hidden arguments, the dispatch packet, and the initial
 * registers of a wave (LLVM's "User Guide for AMDGPU Backend", sections Initial Kernel Execution State and Preloaded Kernel Arguments). */
#include <stdio.h>
#include <string.h>

#include "program.h"

#define MAX_LDS_BYTES(arch) ((arch) == EMU_GFX950 ? 160u << 10 : 64u << 10)

const char *emu_launch_refused(const struct emu_launch *launch)
{
    const struct emu_kernel *k = launch->kernel;

    if (launch->grid == 0 || launch->threads == 0) {
        return "the launch has no workgroups or no workitems";
    }
    if (launch->threads > k->max_threads || launch->threads > 1024) {
        return "more workitems in a workgroup than the kernel was compiled for";
    }
    if (k->reqd_threads != 0 && launch->threads != k->reqd_threads) {
        return "the kernel was compiled for another workgroup size";
    }
    if (k->private_bytes != 0 || k->private_offset) {
        return "the kernel uses scratch memory, which is not implemented";
    }
    if (launch->dynamic_lds > MAX_LDS_BYTES(k->program->arch) || k->lds_bytes > MAX_LDS_BYTES(k->program->arch) - launch->dynamic_lds) {
        return "more LDS than a compute unit has";
    }
    if ((uint64_t)launch->grid * launch->threads > UINT32_MAX) {
        return "more than 2^32 workitems";
    }
    return NULL;
}

void emu_launch_arguments(const struct emu_launch *launch, void *kernarg, struct emu_dispatch_packet *packet)
{
    const struct emu_kernel *k = launch->kernel;
    uint8_t *bytes = kernarg;

    memset(kernarg, 0, k->kernarg_bytes);
    if (k->explicit_bytes > 0) {
        memcpy(kernarg, launch->args, k->explicit_bytes);
    }
    for (uint32_t i = 0; i < k->num_hidden; i++) {
        const uint64_t values[EMU_NUM_HIDDEN] = {
            [EMU_HIDDEN_BLOCK_COUNT_X] = launch->grid, [EMU_HIDDEN_BLOCK_COUNT_Y] = 1, [EMU_HIDDEN_BLOCK_COUNT_Z] = 1,
            [EMU_HIDDEN_GROUP_SIZE_X] = launch->threads, [EMU_HIDDEN_GROUP_SIZE_Y] = 1, [EMU_HIDDEN_GROUP_SIZE_Z] = 1,
            [EMU_HIDDEN_GRID_DIMS] = 1, [EMU_HIDDEN_DYNAMIC_LDS_SIZE] = launch->dynamic_lds,
        };

        memcpy(bytes + k->hidden[i].offset, &values[k->hidden[i].kind], k->hidden[i].bytes); /* little-endian */
    }
    *packet = (struct emu_dispatch_packet){
        .setup = 1, /* dimensions */
        .workgroup_size_x = (uint16_t)launch->threads, .workgroup_size_y = 1, .workgroup_size_z = 1,
        .grid_size_x = launch->grid * launch->threads, .grid_size_y = 1, .grid_size_z = 1,
        .group_segment_size = k->lds_bytes + launch->dynamic_lds,
        .kernarg_address = (uint64_t)(uintptr_t)kernarg,
    };
}

/* A user SGPR pair that holds an address; without known it only takes its place. */
static void user_pair(struct emu_wave *w, unsigned *next, uint64_t value, bool known)
{
    if (known) {
        w->s[*next] = (uint32_t)value;
        w->s[*next + 1] = (uint32_t)(value >> 32);
        w->s_known[*next / 64] |= 1ull << *next % 64;
        w->s_known[(*next + 1) / 64] |= 1ull << (*next + 1) % 64;
    }
    *next += 2;
}

void emu_wave_start(struct emu_wave *w, const struct emu_launch *launch, uint32_t group_id, const void *kernarg,
                    const struct emu_dispatch_packet *packet)
{
    const struct emu_kernel *k = launch->kernel;
    uint32_t first = w->index * EMU_LANES, lanes = launch->threads - first < EMU_LANES ? launch->threads - first : EMU_LANES;
    uint64_t exec = lanes == EMU_LANES ? ~0ull : (1ull << lanes) - 1;
    unsigned next = 0;

    w->pc = k->entry;
    w->scc = 0;
    w->mode = k->mode;
    w->born = exec;
    w->arch = k->program->arch;
    memset(w->s_known, 0, sizeof(w->s_known));
    memset(w->v_known, 0, sizeof(w->v_known));
    for (unsigned i = 0; i < EMU_NUM_SGPRS; i++) {
        w->s[i] = 0xdead5000u + i;
    }
    for (unsigned i = 0; i < EMU_MAX_VGPRS; i++) {
        if (i % 256 >= (i < 256 ? k->vgprs : k->agprs)) {
            continue; /* not this kernel's: left untouched, its memory is never paged in */
        }
        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            w->v[i][lane] = 0xdead0000u + (i << 6 | lane);
        }
    }
    next += k->user & EMU_USER_PRIVATE_SEGMENT_BUFFER ? 4 : 0;
    if (k->user & EMU_USER_DISPATCH_PTR) {
        user_pair(w, &next, (uint64_t)(uintptr_t)packet, true);
    }
    if (k->user & EMU_USER_QUEUE_PTR) {
        user_pair(w, &next, 0, false);
    }
    if (k->user & EMU_USER_KERNARG_PTR) {
        user_pair(w, &next, (uint64_t)(uintptr_t)kernarg, true);
    }
    if (k->user & EMU_USER_DISPATCH_ID) {
        user_pair(w, &next, 0, true);
    }
    if (k->user & EMU_USER_FLAT_SCRATCH_INIT) {
        user_pair(w, &next, 0, false);
    }
    next += k->user & EMU_USER_PRIVATE_SEGMENT_SIZE ? 1 : 0;
    for (uint32_t i = 0; i < k->preload_dwords && next < 32; i++) {
        uint32_t value;

        memcpy(&value, (const uint8_t *)kernarg + 4 * (size_t)(k->preload_offset + i), 4);
        emu_write_s(w, next++, value);
    }
    next = k->num_user_sgprs;
    for (unsigned i = 0; i < 3; i++) {
        if (k->group_id[i]) {
            emu_write_s(w, next++, i == 0 ? group_id : 0);
        }
    }
    next += k->group_info ? 1 : 0;
    /* gfx90a and later pack the ids into v0: x, y << 10, z << 20. Workgroups are of one dimension here. */
    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        w->v[0][lane] = first + lane;
    }
    w->v_known[0] |= 1;
    emu_write_s64(w, EMU_EXEC, exec);
}
