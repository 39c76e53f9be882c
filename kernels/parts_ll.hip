/* SPDX-License-Identifier: MIT
 *
 * LL for all collectives but all-gather, where what one rank has for another is small: stored into the peers' two-parity scratch and taken out there, one hop,
 * no handshake. Reductions are one-shot: every rank that gets a result gets the inputs of all and joins them itself, in the order of ranks. As in ll.hip
 * the body depends on what the device moves as one unit (kernel.h names the file), and every reuse of the scratch is safe by E and the two parities. */
#include "kernel.h"

#include CCL_PARTS_LL_BODY

/* ISA parts_ll: vgpr 64, sgpr 100, lds 16, waves 8, packets */
CCL_KERNEL_PARTS_LL(parts_ll, CCL_LL_MAX_THREADS) { parts_ll_run(a); }

#if defined(CCL_LL_WORDS)

#include "sum_words_body.h"

#define SUM_WORDS_KERNEL(name, world)                                                                                        \
    CCL_KERNEL_WORDS(name, world, (world) <= CCL_LL_FEW ? CCL_LL_MAX_THREADS : CCL_SUM_FEW_THREADS + CCL_WARP, 2) \
    {                                                                                                                        \
        sum_words_body(a, world);                                                                                            \
    }

SUM_WORDS_KERNEL(sum_words_2, 2)
SUM_WORDS_KERNEL(sum_words_3, 3)
SUM_WORDS_KERNEL(sum_words_4, 4)
SUM_WORDS_KERNEL(sum_words_5, 5)
SUM_WORDS_KERNEL(sum_words_6, 6)
SUM_WORDS_KERNEL(sum_words_7, 7)
SUM_WORDS_KERNEL(sum_words_8, 8)

#endif
