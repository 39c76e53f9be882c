/* SPDX-License-Identifier: MIT
 *
 * Bank conflicts of LDS accesses. An access is cut into phases, the lanes that are served together; in a phase each further word of one bank costs a
 * cycle. 32 banks of 4 bytes, gfx950: 64. Phases: neighbouring lanes that fill the banks once, but for reads of 16 bytes, whose phases are known
 * from public measurements: lanes {l..l+3, m..m+3} with (l, m) = (0,20), (4,16), (8,28), (12,24), the same + 32; gfx950 serves the first with the
 * last and the second with the third. */
#include "banks.h"

#include <string.h>

static unsigned phase_of(unsigned lane, uint32_t bytes, bool read, bool wide)
{
    unsigned quarter = lane % 32 / 4, together = (wide ? 256 : 128) / bytes;
    static const uint8_t phases[] = {0, 1, 2, 3, 1, 0, 3, 2}; /* of 4 lanes */

    if (bytes == 16 && read) {
        unsigned phase = phases[quarter];

        return wide ? (phase == 0 || phase == 3 ? 0 : 1) + 2 * (lane / 32) : phase + 4 * (lane / 32);
    }
    return together >= EMU_LANES ? 0 : lane / together;
}

/* Each word of a phase in a bank of its own? Most accesses are like that, and are done. */
static bool free_of_conflicts(const uint32_t addr[EMU_LANES], uint64_t lanes, uint32_t bytes, uint32_t size, bool read, bool wide)
{
    uint64_t taken[8] = {0};
    uint32_t first[8][EMU_LANES], banks = wide ? 64 : 32;

    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        unsigned phase = phase_of(lane, size, read, wide);

        if ((lanes >> lane & 1) == 0) {
            continue;
        }
        for (uint32_t word = addr[lane] / 4; word <= (addr[lane] + bytes - 1) / 4; word++) {
            uint32_t bank = word % banks;

            if ((taken[phase] >> bank & 1) == 0) {
                taken[phase] |= 1ull << bank;
                first[phase][bank] = word;
            } else if (first[phase][bank] != word) {
                return false;
            }
        }
    }
    return true;
}

uint32_t emu_bank_conflicts(const uint32_t addr[EMU_LANES], uint64_t lanes, uint32_t bytes, bool read, enum emu_arch arch)
{
    bool wide = arch == EMU_GFX950;
    uint32_t banks = wide ? 64 : 32, extra = 0, size = bytes < 4 ? 4 : bytes == 12 ? 16 : bytes;

    if (free_of_conflicts(addr, lanes, bytes, size, read, wide)) {
        return 0;
    }
    for (unsigned phase = 0; phase < 8; phase++) {
        uint32_t words[EMU_LANES][8]; /* different words of a bank; more than 8 are counted, not compared */
        uint8_t count[EMU_LANES] = {0}, most = 1;
        bool any = false;

        for (unsigned lane = 0; lane < EMU_LANES; lane++) {
            if ((lanes >> lane & 1) == 0 || phase_of(lane, size, read, wide) != phase) {
                continue;
            }
            any = true;
            for (uint32_t word = addr[lane] / 4; word <= (addr[lane] + bytes - 1) / 4; word++) {
                uint32_t bank = word % banks, n = count[bank], i = 0;

                while (i < n && i < 8 && words[bank][i] != word) {
                    i++;
                }
                if (i == n || i == 8) {
                    if (n < 8) {
                        words[bank][n] = word;
                    }
                    count[bank]++;
                    most = count[bank] > most ? count[bank] : most;
                }
            }
        }
        extra += any ? most - 1u : 0;
    }
    return extra;
}
