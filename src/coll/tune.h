/* SPDX-License-Identifier: MIT
 *
 * The measured choices of the collectives: blocks, threads and bytes that move as one, by device class, variant and size. */
#ifndef CCL_TUNE_H
#define CCL_TUNE_H

#include "comm/comm.h"

struct ccl_coll_call;

#define CCL_GPU_THREADS 512       /* largest block of the push kernels, and data threads of LL */
#define CCL_GPU_HELPER_THREADS 32 /* LL: the warp beside the data */

struct ccl_tune {
    int blocks;           /* most that pay, at most the agreed ones */
    int threads;          /* of a block, without helpers */
    uint64_t piece_bytes; /* largest piece where the caller gives no tile */
    uint32_t pace;        /* CCL_PACE of flat parts that are stored directly, 0: as fast as blocks and threads can */
    uint32_t bulk_pieces; /* pieces that direct keeps in flight by bulk copies, 0: it moves them in registers */
};

/* Vectors of 16 bytes that a thread moves of one piece at most: CCL_CHUNK_UNITS of the kernels for this device. */
uint32_t ccl_tune_vectors(cclComm_t comm);
/* For a part of so many bytes a rank. comm_sms, threads: what the caller asks for, or CCL_UNSET; threads are rounded up to whole waves. */
void ccl_tune(cclComm_t comm, int variant, uint64_t part_bytes, int comm_sms, int threads, struct ccl_tune *tune);
/* Largest part of a pair of ranks that goes by LL, of any collective but all-gather. */
uint64_t ccl_tune_ll_limit(cclComm_t comm, const struct ccl_coll_call *call);
bool ccl_tune_is_reduction(uint32_t op);
/* Only one rank sends, or only one receives. */
bool ccl_tune_is_one_way(uint32_t op);
/* CCL_COMM_SMS, as far as the communicator has as many; CCL_UNSET: not set. */
int ccl_tune_asked(cclComm_t comm);
/* For a collective that moves so many bytes, part_bytes of them between each two ranks: blocks, threads, largest piece. */
void ccl_tune_pairs(cclComm_t comm, uint64_t bytes, uint64_t part_bytes, struct ccl_tune *tune);
/* parts_ll on a GPU with 2^unit_lanes threads for 8 bytes of a part: blocks and data threads. */
void ccl_tune_parts_ll(cclComm_t comm, uint64_t part_bytes, uint32_t unit_lanes, struct ccl_tune *tune);
/* sum_words_W: the same, a thread for 8 bytes of all ranks. */
void ccl_tune_sum_words(cclComm_t comm, uint64_t bytes, struct ccl_tune *tune);

#endif
