/* SPDX-License-Identifier: MIT
 *
 * Fused matrix products: from a checked call to launches. plan and proof are pure functions of what all ranks know alike. */
#ifndef CCL_MATMUL_H
#define CCL_MATMUL_H

#include "comm/comm.h"
#include "matmul_args.h"

enum ccl_matmul_op { CCL_ALL_GATHER_MATMUL, CCL_MATMUL_ALL_GATHER };

struct ccl_matmul_call {
    enum ccl_matmul_op op;
    cclMatmulDesc_t desc;
    const void *a, *b, *bias;
    void *c;
    cclMatmulWorkspace_t ws; /* NULL: the communicator's */
    bool has_config;
    cclCallConfig_t config;
};

/* What a planner knows of the world besides the call. */
struct ccl_matmul_world {
    int ranks, rank;
    bool is_host;
    enum ccl_matrix_core core; /* GPU */
    int blocks;      /* most of a grid */
    int auto_blocks; /* that pay */
    bool one_device; /* all ranks are on it: what peers have is as near as the own */
    bool shared_host; /* the heap is host memory */
    int pairs;        /* core wgmma: pairs of blocks share B. 0: never; 1: wherever tiles can be paired; CCL_UNSET: where it pays */
};

/* Memory that a call needs, or a workspace has, of each kind. */
struct ccl_matmul_needs {
    uint64_t words;         /* ready words */
    uint64_t stage_bytes;   /* staged A that peers store into */
    uint64_t local_bytes;   /* staged A of this rank alone: in device memory of its own wherever the heap is */
    uint64_t copy_bytes;    /* for the shard of A, or for C, where peers cannot reach the user's */
    uint64_t block_bytes;   /* scratch of a block */
    uint64_t blocks;
};

struct ccl_matmul_plan {
    struct ccl_k_map map;
    struct ccl_k_gemm gemm; /* but for addresses */
    uint32_t source;        /* enum ccl_k_source */
    uint32_t grid, fetchers;
    bool bulk;              /* a thread of a block fetches, while the others multiply (core wgmma) */
    uint64_t stage_ld, copy_ld; /* elements */
    bool sequential;
    bool local;             /* ready words and staged A are the workspace's private ones */
    bool packs;             /* sequential by columns on a GPU: the shards land one behind the other, and are put side by side for the product */
    uint64_t land_off, land_ld; /* where they land: bytes behind staged A, elements */
    struct ccl_matmul_needs needs;
    cclCallConfig_t effective;
};

/* fused/matmul_check.c. What a core takes; NULL: none, on the host. */
struct ccl_matmul_core {
    const char *name;
    uint32_t tile_m, tile_n, threads, shared_bytes, block_bytes;
    int places;      /* most ranks of cclMatmulAllGather */
    uint32_t pitch;  /* largest, 0: any */
};
const struct ccl_matmul_core *ccl_matmul_core(const struct ccl_matmul_world *world);
/* cclInvalidArgument with name and value: a field of desc, or of config as far as it can be judged by itself. who: the public function. */
cclResult_t ccl_matmul_check_desc(const char *who, enum ccl_matmul_op op, const cclMatmulDesc_t *desc, int ranks);
cclResult_t ccl_matmul_check_config(const char *who, enum ccl_matmul_op op, const struct ccl_matmul_world *world, const cclCallConfig_t *config);

/* The core of this world can do it: pitches, number of ranks. */
cclResult_t ccl_matmul_check_core(const char *who, enum ccl_matmul_op op, const struct ccl_matmul_world *world, const cclMatmulDesc_t *desc);

/* fused/matmul_plan.c: choose what config leaves open, and prove the result. config: all fields known to this library, CCL_UNSET allowed. cclInvalidArgument: desc or config,
 * or a config that cannot cover the shape, by name. */
cclResult_t ccl_matmul_plan(const char *who, enum ccl_matmul_op op, const struct ccl_matmul_world *world, const cclMatmulDesc_t *desc,
                            const cclCallConfig_t *config, struct ccl_matmul_plan *plan);
/* *sum becomes the larger of the two, kind by kind. */
void ccl_matmul_add_needs(struct ccl_matmul_needs *sum, const struct ccl_matmul_needs *n);
/* The same for a workspace: what a call with this config may need, whatever the tuning table and the user choose of what is left open. */
cclResult_t ccl_matmul_plan_needs(const char *who, const struct ccl_matmul_world *world, const cclMatmulDesc_t *desc,
                                  const cclCallConfig_t *config, struct ccl_matmul_needs *needs);

/* fused/matmul_tune.c */
struct ccl_matmul_table;
/* Collective at the first call for a communicator: rank 0's table for all. cclInvalidArgument, on all ranks: a line is wrong, by file, number and word. */
cclResult_t ccl_matmul_tune_load(cclComm_t comm);
/* False: no row is near; else the choices of that row are in *config. table may be NULL. */
bool ccl_matmul_tune_find(const struct ccl_matmul_table *table, const char *arch, int ranks, enum ccl_matmul_op op, const cclMatmulDesc_t *desc,
                          cclCallConfig_t *config);

/* fused/matmul_proof.c */
/* The maps, replaceable by tests that show what the proof sees. */
struct ccl_matmul_maps {
    void (*tile)(const struct ccl_k_map *map, uint32_t i, uint32_t *unit, uint32_t *tile_n);
    struct ccl_k_block (*fetch)(const struct ccl_k_map *map, uint32_t i);
};
extern const struct ccl_matmul_maps ccl_matmul_maps;
/* Every tile is computed once, every group of a staged unit is fetched once, from columns that there are, and sets the word that its tiles wait for. In microseconds:
 * sizes are compared, and the maps are evaluated at the corners of their bands. NULL: proved. Else what is wrong, in words (constant). */
const char *ccl_matmul_prove(const struct ccl_k_map *map, const struct ccl_matmul_maps *maps);

/* fused/matmul_workspace.c */
#define CCL_WORKSPACE_MAGIC 0xcc1c5aceu
struct cclMatmulWorkspace {
    uint32_t magic;
    cclComm_t comm;
    struct ccl_matmul_needs has;
    char *space;        /* heap block: ready words, staged A, copy */
    char *local;        /* private: ready words and staged A again, at the same places; NULL: none */
    uint64_t stage_off, copy_off;
    uint32_t window;    /* id of the heap chunk that holds it */
    uint64_t window_off;
    char *state;        /* private memory: struct ccl_k_matmul_state, scratch */
    uint64_t scratch_off;
    /* the last call: a repeated one plans nothing */
    bool planned, has_config;
    enum ccl_matmul_op op;
    cclMatmulDesc_t desc;
    cclCallConfig_t config;
    struct ccl_matmul_plan plan;
    struct cclMatmulWorkspace *next; /* of the communicator */
};

/* Collective, outside captures; the communicator's device is current. On success *ws is in the communicator's list. */
cclResult_t ccl_matmul_workspace_create(cclComm_t comm, const struct ccl_matmul_needs *needs, cclMatmulWorkspace_t *ws);
/* Collective; the operations of the communicator have ended. */
cclResult_t ccl_matmul_workspace_destroy(cclMatmulWorkspace_t ws);
/* Collective where it must grow: the communicator's own workspace serves such a call. */
cclResult_t ccl_matmul_workspace_ensure(cclComm_t comm, const struct ccl_matmul_needs *needs, cclMatmulWorkspace_t *ws);
/* cclInvalidArgument, by kind of memory and bytes: the workspace is too small. */
cclResult_t ccl_matmul_workspace_check(const char *who, const struct cclMatmulWorkspace *ws, const struct ccl_matmul_needs *needs);

/* Where a call of the workspace's plan has its ready words and stages A. */
static inline char *ccl_matmul_space(const struct cclMatmulWorkspace *ws) { return ws->plan.local ? ws->local : ws->space; }

/* fused/matmul_launch.c. a: all but its kind. */
cclResult_t ccl_matmul_launch(cclComm_t comm, const struct cclMatmulWorkspace *ws, enum ccl_k_matmul_kind kind, struct ccl_k_matmul_args *a,
                              struct cclStream *stream);

/* fused/matmul.c */
struct ccl_matmul_world ccl_matmul_world(cclComm_t comm);
/* What a workspace for such calls must have, the choices of the tuning table included. Collective at the first call for a communicator. */
cclResult_t ccl_matmul_needs(cclComm_t comm, const cclMatmulDesc_t *desc, const cclCallConfig_t *config, struct ccl_matmul_needs *needs);
/* Before a group's enqueues, or before the call: make the communicator's workspace, if the call wants it. */
cclResult_t ccl_matmul_prepare(cclComm_t comm, const struct ccl_matmul_call *call);
/* Enqueue on stream; NULL is the default stream of the communicator's device. */
cclResult_t ccl_matmul_enqueue(cclComm_t comm, const struct ccl_matmul_call *call, struct cclStream *stream);

#endif
