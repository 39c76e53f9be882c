/* SPDX-License-Identifier: MIT
 *
 * Push: medium and large all-gathers (and the barrier). Block b of a rank stores its pieces of the rank's part to every peer: straight into the
 * peer's receive buffer where the peer's advert names a window this launch has a base for, else through a ring in scratch which the peer's block b
 * drains. Nothing is stored for operation n before the peer's advert n has been read and compared (A).
 * Bytes moved per rank: direct reads S, writes n S; staged writes S (shared ring) or (n-1) S (pair rings) more and reads (n-1) S. */
#include "push_common.h"

#include CCL_PUSH_BODY

#define PUSH_RANKS(world) ((world) != 0 ? (world) : CCL_MAX_RANKS)

/* ISA push_2: vgpr 64, sgpr 100, lds 64, waves 8, tile 2, live 24
 * ISA push_3: vgpr 64, sgpr 100, lds 80, waves 8, tile 3, live 24
 * ISA push_4: vgpr 64, sgpr 100, lds 96, waves 8, tile 4, live 24
 * ISA push_5: vgpr 64, sgpr 100, lds 112, waves 8, tile 5, live 24
 * ISA push_6: vgpr 64, sgpr 100, lds 128, waves 8, tile 6, live 24
 * ISA push_7: vgpr 64, sgpr 100, lds 144, waves 8, tile 7, live 24
 * ISA push_8: vgpr 64, sgpr 100, lds 160, waves 8, tile 8, live 24
 * ISA push_n: vgpr 64, sgpr 106, lds 16416, waves 6, tile 8, live 24
 * ISA push_part: vgpr 64, sgpr 106, lds 16416, waves 6, tile 1, live 24
 * ISA barrier: vgpr 32, sgpr 100, lds 16, waves 8 */
#define PUSH_KERNEL(name, world)                       \
    CCL_KERNEL_WORLD(name, world, CCL_MAX_THREADS, 2)  \
    {                                                  \
        PUSH_MEMORY(memory, PUSH_RANKS(world));        \
        push_all(a, world, &memory.sh, memory.end);    \
    }

PUSH_KERNEL(push_2, 2)
PUSH_KERNEL(push_3, 3)
PUSH_KERNEL(push_4, 4)
PUSH_KERNEL(push_5, 5)
PUSH_KERNEL(push_6, 6)
PUSH_KERNEL(push_7, 7)
PUSH_KERNEL(push_8, 8)
PUSH_KERNEL(push_n, 0)

CCL_KERNEL(push_part, struct ccl_k_coll_args)
{
    PUSH_MEMORY(memory, CCL_MAX_RANKS);
    push_partitioned(a, &memory.sh, memory.end);
}

CCL_KERNEL(barrier, struct ccl_k_coll_args)
{
    CCL_SHARED struct push_shared sh;
    push_barrier(a, &sh);
}
