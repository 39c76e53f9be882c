/* SPDX-License-Identifier: MIT
 *
 * Kernel descriptors (LLVM's "User Guide for AMDGPU Backend", section Kernel Descriptor). */
#include <string.h>

#include "load.h"

static uint32_t field(const uint8_t *d, unsigned at)
{
    uint32_t value;

    memcpy(&value, d + at, 4);
    return value;
}

bool emu_descriptor_read(struct emu_kernel *k, const uint8_t *d, uint64_t address, char *why)
{
    const struct emu_program *p = k->program;
    uint32_t rsrc1, rsrc2, rsrc3, properties;
    uint64_t entry, offset;

    rsrc3 = field(d, 44);
    rsrc1 = field(d, 48);
    rsrc2 = field(d, 52);
    properties = field(d, 56);
    k->lds_bytes = field(d, 0);
    k->private_bytes = field(d, 4);
    k->kernarg_bytes = field(d, 8);
    memcpy(&offset, d + 16, 8);
    k->preload_dwords = properties >> 16 & 0x7f;
    k->preload_offset = properties >> 23;
    /* A kernel with preloaded arguments begins with 256 bytes for firmware that cannot preload. */
    entry = address + offset + (k->preload_dwords > 0 ? 256 : 0) - p->text_vaddr;
    if (entry >= p->text_bytes || entry % 4 != 0) {
        return emu_load_fail(why, "kernel %s: its entry lies outside the code", k->name);
    }
    k->entry = (uint32_t)entry;
    k->user = properties & 0x7f;
    k->num_user_sgprs = rsrc2 >> 1 & 31;
    k->private_offset = (rsrc2 & 1) != 0;
    for (unsigned i = 0; i < 3; i++) {
        k->group_id[i] = (rsrc2 >> (7 + i) & 1) != 0;
    }
    k->group_info = (rsrc2 >> 10 & 1) != 0;
    k->workitem_id_dims = rsrc2 >> 11 & 3;
    k->mode = (rsrc1 >> 12 & 0xff) | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9;
    k->total_vgprs = ((rsrc1 & 63) + 1) * 8;
    k->arch_vgprs = ((rsrc3 & 63) + 1) * 4;
    if ((k->mode & 15) != 0 || (rsrc1 >> 26 & 1) != 0) {
        return emu_load_fail(why, "kernel %s: only rounding to nearest even without FP16_OVFL is implemented", k->name);
    }
    if ((properties >> 10 & 1) != 0) {
        return emu_load_fail(why, "kernel %s: wave32 on a wave64 machine", k->name);
    }
    if (k->kernarg_bytes > 1u << 20 || k->preload_offset + k->preload_dwords > (k->kernarg_bytes + 3) / 4) {
        return emu_load_fail(why, "kernel %s: %u bytes of arguments, of which dwords %u to %u are preloaded", k->name, (unsigned)k->kernarg_bytes,
                    (unsigned)k->preload_offset, (unsigned)(k->preload_offset + k->preload_dwords));
    }
    if (k->explicit_bytes > k->kernarg_bytes) {
        return emu_load_fail(why, "kernel %s: explicit arguments end behind the kernarg block", k->name);
    }
    for (uint32_t i = 0; i < k->num_hidden; i++) {
        const struct emu_hidden_arg *h = &k->hidden[i];

        if (h->bytes == 0 || h->bytes > 8 || h->offset > k->kernarg_bytes || h->bytes > k->kernarg_bytes - h->offset) {
            return emu_load_fail(why, "kernel %s: a hidden argument lies outside the kernarg block", k->name);
        }
    }
    return true;
}
