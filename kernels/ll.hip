/* SPDX-License-Identifier: MIT
 *
 * LL: small all-gathers pushed into the peers' two-parity scratch and unpacked there, one hop, no handshake. The body depends on what the
 * device moves as one unit: packets of 8 bytes on GPUs, cache lines on CPUs (kernel.h names the file). Every reuse of the scratch is safe by E
 * and the two parities: a rank that is in n has finished n-1, so it has heard from everyone, who had therefore left n-2. */
#include "fail.h"
#include "move.h"
#include "protocol.h"
#include "trace.h"

#include CCL_LL_BODY

/* Worlds to CCL_LL_FEW have so many blocks that two must fit a unit (src/coll/tune.c).
 * ISA ll_*: vgpr 64, sgpr 100, lds 16, waves 8, packets */
#define LL_KERNEL(name, world)                     \
    CCL_KERNEL_WORLD(name, world, CCL_LL_MAX_THREADS, (world) != 0 && (world) <= CCL_LL_FEW ? 2 : 1) \
    {                                              \
        ccl_ll_body(a, world);                     \
    }

LL_KERNEL(ll_2, 2)
LL_KERNEL(ll_3, 3)
LL_KERNEL(ll_4, 4)
LL_KERNEL(ll_5, 5)
LL_KERNEL(ll_6, 6)
LL_KERNEL(ll_7, 7)
LL_KERNEL(ll_8, 8)
LL_KERNEL(ll_n, 0)

#if defined(CCL_LL_WORDS)

#include "ll_words_body.h"

/* In worlds to 4 the registers of two blocks a unit are enough, and fewer start faster; in larger ones they spill, which costs a third at 64 KiB. */
#define LL_WORDS_KERNEL(name, world)                                         \
    CCL_KERNEL_WORDS(name, world, CCL_LL_MAX_THREADS, (world) <= 4 ? 2 : 1) \
    {                                                                        \
        ll_words_body(a, world);                                             \
    }

LL_WORDS_KERNEL(ll_words_2, 2)
LL_WORDS_KERNEL(ll_words_3, 3)
LL_WORDS_KERNEL(ll_words_4, 4)
LL_WORDS_KERNEL(ll_words_5, 5)
LL_WORDS_KERNEL(ll_words_6, 6)
LL_WORDS_KERNEL(ll_words_7, 7)
LL_WORDS_KERNEL(ll_words_8, 8)

#endif
