/* SPDX-License-Identifier: MIT
 *
 * What the ranks of a new communicator tell each other about themselves, and what they make of it. */
#ifndef CCL_COMM_AGREE_H
#define CCL_COMM_AGREE_H

#include "comm/comm.h"

#define CCL_COMM_CPU_WORDS 16u

/* What a rank tells the others about itself. */
struct ccl_comm_hello {
    uint64_t device_uid, world_id;
    uint64_t process_id; /* random; equal for the ranks of one process */
    uint64_t cpus[CCL_COMM_CPU_WORDS]; /* processors its threads may use */
    int64_t ll_max, host_spin, chunk_mb;
    int32_t ring_slots, ring_slot_bytes;
    int32_t capacity, shared_host; /* blocks that its device runs at once; it wants shared host memory */
    int32_t matrix_core, matrix_capacity; /* enum ccl_matrix_core, blocks of its kernels that the device runs at once */
    int32_t whole;                 /* the limit of its blocks was named, so it may take the whole device */
    int32_t version, is_host, forced_fence, max_blocks, variant, comm_sms, host_threads, traced, queues, lone;
    char backend[24];
};

/* Fills in what this rank is and wants. parent: null, or the communicator that is split. Errors: a setting that makes no sense, named. */
cclResult_t ccl_comm_say_hello(cclComm_t comm, const cclConfig_t *config, cclComm_t parent, struct ccl_comm_hello *h);
/* all: of every rank, by rank. Fills in comm->agreed; the same data give the same verdict on all ranks. */
cclResult_t ccl_comm_agree(cclComm_t comm, const struct ccl_comm_hello *all);

#endif
