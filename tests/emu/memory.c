/* SPDX-License-Identifier: MIT
 *
 * Access to real memory, word by word. */
#include <string.h>

#include "memory.h"

/* Reading the rest of a line beside an allocation, and racing with the host or a peer on purpose, is what a cache does: not for the sanitizers. */
#define UNCHECKED __attribute__((no_sanitize("address", "thread")))

static uint64_t spread_byte(uint32_t bits)
{
    uint64_t x = bits;

    x = (x | x << 28) & 0x0000000f0000000fu;
    x = (x | x << 14) & 0x0003000300030003u;
    x = (x | x << 7) & 0x0101010101010101u;
    return x * 0xff;
}

void emu_line_merge(uint8_t *target, const uint8_t *source, uint64_t mask)
{
    if (mask == ~0ull) {
        memcpy(target, source, EMU_LINE);
        return;
    }
    for (unsigned i = 0; mask != 0; i++, mask >>= 8) {
        uint32_t bits = mask & 0xff;

        if (bits != 0) {
            uint64_t select = spread_byte(bits), old, new;

            memcpy(&old, target + 8 * i, 8);
            memcpy(&new, source + 8 * i, 8);
            old = (old & ~select) | (new & select);
            memcpy(target + 8 * i, &old, 8);
        }
    }
}

UNCHECKED void emu_memory_read(uint64_t tag, uint8_t *out)
{
    const uint64_t *words = (const uint64_t *)(uintptr_t)tag;

    for (unsigned i = 0; i < EMU_LINE / 8; i++) {
        uint64_t word = __atomic_load_n(&words[i], __ATOMIC_RELAXED);

        memcpy(out + 8 * i, &word, 8);
    }
}

UNCHECKED static void write_part(uint64_t addr, const uint8_t *data, uint32_t bits, unsigned bytes)
{
    uint32_t all = (1u << bytes) - 1;

    if ((bits & all) == 0) {
        return;
    }
    if ((bits & all) != all) {
        write_part(addr, data, bits, bytes / 2);
        write_part(addr + bytes / 2, data + bytes / 2, bits >> bytes / 2, bytes / 2);
        return;
    }
    switch (bytes) {
    case 8: {
        uint64_t word;

        memcpy(&word, data, 8);
        __atomic_store_n((uint64_t *)(uintptr_t)addr, word, __ATOMIC_RELAXED);
        break;
    }
    case 4: {
        uint32_t word;

        memcpy(&word, data, 4);
        __atomic_store_n((uint32_t *)(uintptr_t)addr, word, __ATOMIC_RELAXED);
        break;
    }
    case 2: {
        uint16_t word;

        memcpy(&word, data, 2);
        __atomic_store_n((uint16_t *)(uintptr_t)addr, word, __ATOMIC_RELAXED);
        break;
    }
    default:
        __atomic_store_n((uint8_t *)(uintptr_t)addr, *data, __ATOMIC_RELAXED);
    }
}

void emu_memory_write(uint64_t tag, const uint8_t *line, uint64_t mask, struct emu_rng *rng)
{
    uint32_t start = (uint32_t)emu_rand64(rng);

    for (unsigned k = 0; k < EMU_LINE / 8; k++) {
        unsigned i = (start ^ k) % (EMU_LINE / 8);

        write_part(tag + 8 * i, line + 8 * i, mask >> 8 * i & 0xff, 8);
    }
}

UNCHECKED uint64_t emu_memory_modify(uint64_t addr, uint32_t bytes, emu_modify_fn *next, const void *context)
{
    if (bytes == 8) {
        uint64_t *word = (uint64_t *)(uintptr_t)addr, old = __atomic_load_n(word, __ATOMIC_RELAXED);

        while (!__atomic_compare_exchange_n(word, &old, next(old, context), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
        }
        return old;
    } else {
        uint32_t *word = (uint32_t *)(uintptr_t)addr, old = __atomic_load_n(word, __ATOMIC_RELAXED);

        while (!__atomic_compare_exchange_n(word, &old, (uint32_t)next(old, context), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
        }
        return old;
    }
}
