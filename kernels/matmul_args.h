/* SPDX-License-Identifier: MIT
 *
 * Arguments and memory of the kernels of fused matrix products. The workspace of a rank is one heap block (so it lies at the same place of a window on all ranks):
 * ready words, staged A, and a copy of the user's A or C where peers cannot reach it; and private memory: the state below, scratch of the blocks. */
#ifndef CCL_MATMUL_ARGS_H
#define CCL_MATMUL_ARGS_H

#include "args.h"
#include "gemm.h"
#include "matmul_map.h"
#include "matrix_cores.h"

/* Private memory of a workspace; all 0 at first but the epoch, which is 1. Counters are 0 between two calls: the last block out sees to it. */
struct ccl_k_matmul_state {
    uint64_t epoch;   /* calls so far + 1; ready words carry it as a tag, so they need no reset. Equal on all ranks */
    uint64_t fetch;   /* next fetch, next tile: whoever adds gets it */
    uint64_t tile;
    uint64_t fetched; /* fetches that are complete */
    uint64_t outs;    /* blocks that have left */
    uint64_t done;    /* this rank has told its peers that it needs nothing of them any more */
    uint64_t bad;     /* a block has failed */
    uint64_t pad;
};

/* What a launch does. */
enum ccl_k_matmul_kind {
    CCL_MATMUL_GATHERS_A, /* cclAllGatherMatmul but for its sequential form */
    CCL_MATMUL_GATHERS_C, /* cclMatmulAllGather: all peers are met before the first store */
    CCL_MATMUL_IS_LOCAL   /* the product alone, of this rank's memory: behind the all-gather of the sequential form. Draws no number, meets nobody */
};

/* Where a tile finds A. */
enum ccl_k_source {
    CCL_A_REMOTE,  /* in the shards of all ranks */
    CCL_A_STAGED,  /* in the workspace, as soon as its ready word says so; except the own shard, unless map.own_fetched */
    CCL_A_GATHERED /* in the workspace, complete; by columns one shard behind the other */
};

struct ccl_k_matmul_args {
    struct ccl_k_gemm gemm; /* a, lda: the own shard where peers read it; c: where tiles of this rank go */
    struct ccl_k_map map;
    uint32_t kind;      /* enum ccl_k_matmul_kind */
    uint32_t source;    /* enum ccl_k_source */
    uint32_t fetchers;  /* so many blocks, the first ones in, fetch before they multiply */
    uint32_t pad;
    uint64_t state;     /* struct ccl_k_matmul_state */
    uint64_t scratch, scratch_bytes; /* private memory of each block */
    uint64_t space;     /* own workspace: ready words at its start */
    uint64_t idle;      /* ready words that this call does not use, 0: there are none such */
    uint64_t words;     /* ready words that there are, of either */
    uint64_t stage_off; /* bytes from the start of a workspace to staged A */
    uint64_t stage_ld;  /* elements */
    uint64_t copy_where; /* advert words 6, 7 of a rank whose A is a copy in its workspace, whose pitch is copy_ld and not gemm.lda */
    uint64_t peer_ld, copy_ld; /* elements: pitch of A of a peer otherwise */
    struct ccl_k_coll_args coll; /* last: the host backend copies only the peers that there are */
};

/* How the tensor memory accelerator of NVIDIA finds a matrix; made by the driver. */
#define CCL_TENSOR_MAP_WORDS (CCL_TENSOR_MAP_BYTES / 8)
struct ccl_k_tensor_map {
    uint64_t word[CCL_TENSOR_MAP_WORDS];
} __attribute__((aligned(64)));

/* Of kernel matmul_wgmma. Boxes: rows of 64 elements, 128 of them for A and b_rows for B with k inside, 64 with k outside. */
struct ccl_k_matmul_tma_args {
    struct ccl_k_tensor_map own, copy; /* A of this rank; of a peer whose A is a copy in its workspace: all but its address */
    struct ccl_k_tensor_map staged;    /* A in the workspace */
    struct ccl_k_tensor_map b;
    struct ccl_k_tensor_map fetched;   /* as staged, but each shard a matrix: what is stored to it ends at the end of a shard */
    uint32_t b_rows;
    uint32_t fetchers; /* so many blocks, the first ones in, have a thread that fetches boxes of 128 x 64, while the others multiply; then all.fetchers is 0 */
    struct ccl_k_matmul_args all;
};

#endif
