/* SPDX-License-Identifier: MIT
 *
 * Read-modify-write operations of vector memory and LDS: emu_inst.sub of their table rows. */
#ifndef EMU_ATOMIC_H
#define EMU_ATOMIC_H

#include <stdint.h>

enum emu_atomic {
    EMU_ATOMIC_SWAP, EMU_ATOMIC_CMPSWAP, EMU_ATOMIC_ADD, EMU_ATOMIC_SUB, EMU_ATOMIC_RSUB, EMU_ATOMIC_SMIN, EMU_ATOMIC_UMIN, EMU_ATOMIC_SMAX,
    EMU_ATOMIC_UMAX, EMU_ATOMIC_AND, EMU_ATOMIC_OR, EMU_ATOMIC_XOR, EMU_ATOMIC_INC, EMU_ATOMIC_DEC, EMU_ATOMIC_MSKOR, EMU_ATOMIC_FADD,
    EMU_ATOMIC_FMIN, EMU_ATOMIC_FMAX, EMU_ATOMIC_PK_ADD_F16, EMU_ATOMIC_PK_ADD_BF16
};

struct emu_atomic_args {
    enum emu_atomic op;
    uint32_t bytes; /* 4 or 8 */
    uint64_t data, compare;
};
/* The new value. An emu_modify_fn. */
uint64_t emu_atomic_next(uint64_t old, const void *args);

#endif
