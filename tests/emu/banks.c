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

/* One word for all lanes, or neighbouring lanes with neighbouring units of 4 to 16 bytes: no phase, of either kind, has two words of a bank. */
static bool regular(const uint32_t addr[EMU_LANES], uint64_t lanes, uint32_t bytes)
{
    unsigned first = (unsigned)__builtin_ctzll(lanes);
    uint32_t stride = addr[first] % 4 == 0 && (bytes == 4 || bytes == 8 || bytes == 16) ? bytes : 0;
    uint64_t same = 0, row = 0;

    for (unsigned lane = 0; lane < EMU_LANES; lane++) {
        same |= (uint64_t)(addr[lane] == addr[first]) << lane;
        row |= (uint64_t)(addr[lane] - lane * stride == addr[first] - first * stride) << lane;
    }
    return (lanes & ~same) == 0 || (lanes & ~row) == 0;
}

uint32_t emu_bank_conflicts(const uint32_t addr[EMU_LANES], uint64_t lanes, uint32_t bytes, bool read, enum emu_arch arch)
{
    bool wide = arch == EMU_GFX950;
    uint32_t banks = wide ? 64 : 32, extra = 0, size = bytes < 4 ? 4 : bytes == 12 ? 16 : bytes;
    uint32_t words[8][EMU_LANES][8]; /* of each phase: different words of a bank; more than 8 are counted, not compared */
    uint8_t count[8][EMU_LANES] = {{0}}, most[8] = {0};

    if (lanes == 0 || regular(addr, lanes, bytes)) {
        return 0;
    }
    for (uint64_t left = lanes; left != 0; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctzll(left), phase = phase_of(lane, size, read, wide);

        for (uint32_t word = addr[lane] / 4; word <= (addr[lane] + bytes - 1) / 4; word++) {
            uint32_t bank = word % banks, n = count[phase][bank], i = 0;

            while (i < n && i < 8 && words[phase][bank][i] != word) {
                i++;
            }
            if (i == n || i == 8) {
                if (n < 8) {
                    words[phase][bank][n] = word;
                }
                n = ++count[phase][bank];
                most[phase] = n > most[phase] ? (uint8_t)n : most[phase];
            }
        }
    }
    for (unsigned phase = 0; phase < 8; phase++) {
        extra += most[phase] > 0 ? most[phase] - 1u : 0;
    }
    return extra;
}
