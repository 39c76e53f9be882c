/* SPDX-License-Identifier: MIT
 *
 * The direct all-gather for 8 ranks with bases looked up in each step: what the gates must reject, and the "before" of their table.
 * Compiled with CCL_TEST_BASES_INSIDE. */
#include "push_common.h"

#include CCL_PUSH_BODY

CCL_KERNEL_WORLD(push_8, 8, CCL_MAX_THREADS, 2)
{
    PUSH_MEMORY(memory, 8);
    push_all(a, 8, &memory.sh, memory.end);
}
