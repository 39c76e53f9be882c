/* SPDX-License-Identifier: MIT
 *
 * The arithmetic of read-modify-write operations. */
#include "atomic.h"

#include <string.h>

#include "access.h"
#include "float16.h"

static double as_float(uint64_t bits, uint32_t bytes)
{
    double d;
    float f;
    uint32_t low = (uint32_t)bits;

    memcpy(&d, &bits, 8);
    memcpy(&f, &low, 4);
    return bytes == 8 ? d : (double)f;
}

static uint64_t from_float(double value, uint32_t bytes)
{
    float f = (float)value;
    uint64_t bits;
    uint32_t low;

    memcpy(&bits, &value, 8);
    memcpy(&low, &f, 4);
    return bytes == 8 ? bits : low;
}

static int64_t as_signed(uint64_t x, uint32_t bytes)
{
    return bytes == 8 ? (int64_t)x : (int32_t)(uint32_t)x;
}

static uint32_t add_halves(uint32_t x, uint32_t y, bool bf16)
{
    uint32_t sum = 0;

    for (unsigned shift = 0; shift < 32; shift += 16) {
        uint16_t a = (uint16_t)(x >> shift), b = (uint16_t)(y >> shift);

        sum |= (bf16 ? emu_f32_to_bf16(emu_bf16_to_f32(a) + emu_bf16_to_f32(b)) : emu_f32_to_f16(emu_f16_to_f32(a) + emu_f16_to_f32(b))) << shift;
    }
    return sum;
}

static uint64_t next(const struct emu_atomic_args *a, uint64_t old)
{
    uint64_t x = a->data;

    switch (a->op) {
    case EMU_ATOMIC_SWAP: return x;
    case EMU_ATOMIC_CMPSWAP: return old == a->compare ? x : old;
    case EMU_ATOMIC_ADD: return old + x;
    case EMU_ATOMIC_SUB: return old - x;
    case EMU_ATOMIC_RSUB: return x - old;
    case EMU_ATOMIC_SMIN: return as_signed(x, a->bytes) < as_signed(old, a->bytes) ? x : old;
    case EMU_ATOMIC_SMAX: return as_signed(x, a->bytes) > as_signed(old, a->bytes) ? x : old;
    case EMU_ATOMIC_UMIN: return x < old ? x : old;
    case EMU_ATOMIC_UMAX: return x > old ? x : old;
    case EMU_ATOMIC_AND: return old & x;
    case EMU_ATOMIC_OR: return old | x;
    case EMU_ATOMIC_XOR: return old ^ x;
    case EMU_ATOMIC_INC: return old >= x ? 0 : old + 1;
    case EMU_ATOMIC_DEC: return old == 0 || old > x ? x : old - 1;
    case EMU_ATOMIC_MSKOR: return (old & ~x) | a->compare;
    case EMU_ATOMIC_FADD: return a->bytes == 8 ? from_float(as_float(old, 8) + as_float(x, 8), 8) :
                                 from_float((double)((float)as_float(old, 4) + (float)as_float(x, 4)), 4);
    case EMU_ATOMIC_FMIN: return as_float(x, a->bytes) < as_float(old, a->bytes) ? x : old;
    case EMU_ATOMIC_FMAX: return as_float(x, a->bytes) > as_float(old, a->bytes) ? x : old;
    case EMU_ATOMIC_PK_ADD_F16: return add_halves((uint32_t)old, (uint32_t)x, false);
    case EMU_ATOMIC_PK_ADD_BF16: return add_halves((uint32_t)old, (uint32_t)x, true);
    }
    return old;
}

uint64_t emu_atomic_next(uint64_t old, const void *args)
{
    const struct emu_atomic_args *a = args;
    uint64_t value = next(a, old);

    return a->bytes == 8 ? value : (uint32_t)value;
}

/* data holds the operand of each lane, compare-and-swap: the new value, then the expected one; the old value replaces it. */
void emu_atomic_lane(struct emu_wave *w, struct emu_access *a, unsigned lane)
{
    struct emu_path p = emu_path_of(w);
    uint8_t *data = a->data + (size_t)lane * a->width;
    struct emu_atomic_args args = {.op = (enum emu_atomic)a->inst->sub, .bytes = a->size};
    uint64_t old;

    memcpy(&args.data, data, a->size);
    if (args.op == EMU_ATOMIC_CMPSWAP) {
        memcpy(&args.compare, data + a->size, a->size);
    }
    old = emu_mem_modify(&p, a->addr[lane], a->size, (enum emu_scope)a->scope, emu_atomic_next, &args);
    memcpy(data, &old, a->size);
}
