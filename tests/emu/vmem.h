/* SPDX-License-Identifier: MIT
 *
 * From the addresses of the lanes to an outstanding access: shared by global, flat and buffer instructions. */
#ifndef EMU_VMEM_H
#define EMU_VMEM_H

#include "access.h"

/* What an instruction asks for. */
struct emu_request {
    enum emu_access_kind kind;
    enum emu_scope scope;
    uint64_t lanes;                /* that access memory: active and in range */
    const struct emu_operand *reg; /* destination of loads and returning atomics, or NULL */
    const struct emu_operand *data; /* of stores and atomics */
    uint32_t lds_base;             /* loads into LDS: where lane 0's data goes */
    uint64_t lds_lanes;            /* flat: lanes whose addresses are in LDS */
    uint64_t addr[EMU_LANES];
};

/* Checks the addresses, captures the data, counts, issues. */
bool emu_vmem_issue(struct emu_wave *w, const struct emu_inst *inst, const struct emu_request *request);
enum emu_scope emu_vmem_scope(struct emu_wave *w, const struct emu_inst *inst, enum emu_access_kind kind);
/* Fails when one of the registers was never written. */
bool emu_vmem_known(struct emu_wave *w, const struct emu_operand *o, const char *role);

/* emu_inst.sub of loads: EMU_SUB_* with this bit. */
#define EMU_SUB_LOAD 0x40
#define EMU_SUB_TO_LDS 0x20

/* buffer.c */
bool emu_buffer_load(struct emu_wave *w, const struct emu_inst *inst);
bool emu_buffer_store(struct emu_wave *w, const struct emu_inst *inst);
bool emu_buffer_atomic(struct emu_wave *w, const struct emu_inst *inst);

#endif
