/* SPDX-License-Identifier: MIT
 *
 * The communicator: one rank's view of a world. It owns its bootstrap, heap, monitor port, control memory and host page; streams and buffers
 * of the user are borrowed. coll reads it; only comm changes it, except for the fields under "enqueue". */
#ifndef CCL_COMM_H
#define CCL_COMM_H

#include <string.h>

#include "args.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/monitor.h"
#include "heap/heap.h"
#include "runtime/runtime.h"
#include "util/base.h"

#define CCL_COMM_MAGIC 0xcc1c0331u
#define CCL_COMM_STREAMS 16
#define CCL_NUM_VARIANTS (cclVariantCopy + 1)

/* By cclVariant_t, as CCL_VARIANT spells them. */
extern const char *const ccl_variant_names[CCL_NUM_VARIANTS];

#define CCL_NUM_ALGORITHMS (cclAlgoSequential + 1)
extern const char *const ccl_algorithm_names[CCL_NUM_ALGORITHMS];

/* Agreed at init, equal on all ranks: rank 0's choice, or the minimum where it is a limit. */
struct ccl_agreed {
    uint64_t world_id;  /* random; names the world within a process */
    int variant;        /* default of calls */
    int comm_sms;       /* default of calls, CCL_UNSET: by size */
    int64_t ll_max;     /* bytes per rank up to which auto takes LL */
    int64_t ll_words_max; /* the same for all-gathers of runs of 8-byte words, */
    int64_t ll_parts_max; /* for what goes between two ranks in another collective, */
    int64_t ll_one_way_max; /* in one that only one rank sends in, or only one receives, */
    int64_t ll_sum_max;   /* and for an all-reduce that sum_words_W can do; 0: none */
    int ring_slots, ring_slot_bytes; /* of the rings that stage data, CCL_UNSET: by world and device */
    size_t chunk_bytes; /* heap growth */
    int blocks;         /* B of the layout: largest grid */
    int host_blocks;    /* blocks auto uses for large operations on the host backend */
    enum ccl_matrix_core matrix_core; /* of fused matrix products on GPUs; none: not all ranks have the same */
    int matrix_blocks;  /* largest grid of such a product */
    uint32_t spin;      /* host: polls before sleeping */
    uint32_t host_flags; /* CCL_F_FENCE, CCL_F_YIELD, CCL_F_AHEAD */
    bool shared_ring;
    bool shared_host; /* control memory and heap are shared host memory: devices cannot share theirs, or CCL_HEAP_MEM says so */
    uint64_t timeout_ns; /* own */
};

/* The device's clock, as kernels read it, against CLOCK_MONOTONIC. */
struct ccl_comm_clock {
    int64_t offset_ns; /* CLOCK_MONOTONIC = device time + offset */
    uint64_t error_ns; /* largest error of the offset */
};

/* A planned operation, reusable while the shape and config repeat. */
struct ccl_plan {
    bool valid;
    uint32_t op, type;
    size_t rows, count, ld_send, ld_recv;
    bool has_config;
    cclCallConfig_t config; /* as passed */
    enum ccl_kernel kernel;
    uint32_t grid, threads, shared_bytes;
    bool needs_window, wants_window;
    bool words;        /* words of the communicator are for this plan: where buffers allow, ll_words_W runs in place of ll_W */
    size_t recv_bytes; /* from the first to behind the last byte of the output */
    cclCallConfig_t effective;
};

/* An operator made by cclRedOpCreatePreMulSum. */
struct ccl_redop {
    bool used, on_device;
    cclDataType_t type;
    uint64_t scalar; /* its bits, or its address */
};

struct cclComm {
    uint32_t magic;
    uint32_t generation; /* ccl_comm_generation when it was made: a forked child must not use it */
    int rank, n, device;
    bool finalized;
    const struct ccl_runtime_ops *rt;
    struct ccl_device_props props;
    struct ccl_agreed agreed;
    struct ccl_bootstrap *boot;
    struct ccl_monitor_port *port;
    struct ccl_heap *heap;
    struct ccl_comm_trace *trace; /* NULL: off, and the untraced kernels are launched */

    struct ccl_k_page *page; /* own host page, as mapped by the host */
    void **peer_page;        /* by rank, as mapped by the host; own entry is page */
    size_t page_bytes;
    int pages_registered;    /* peer_page[0..] that kernels may use */
    void *ctl;               /* own control + scratch memory */
    bool ctl_counted;        /* peers' mappings keep it alive */
    uint64_t *peer_ctl;      /* by rank, kernel-side address; own entry is ctl */
    void *priv;              /* struct ccl_k_priv, device memory */
    void *tables;            /* struct ccl_k_comm and its arrays, device memory */
    bool has_device_comm;    /* cclDeviceComm was called: kernels we know nothing of may look at control memory and pages */
    bool keep_words;         /* aborted while such kernels may wait: these memories are never given back */

    /* enqueue: the calling thread's only */
    struct ccl_k_coll_args args; /* template of the next launch */
    uint32_t args_bytes;         /* bytes of args that this world uses */
    struct ccl_k_words_args words; /* of the kernels ll_words_W */
    struct ccl_plan plan;
    struct ccl_k_p2p_layout p2p; /* where the words of sends and receives lie */
    uint64_t p2p_seq;            /* device memory, see struct ccl_k_p2p_args */
    struct ccl_k_p2p_args *p2p_args; /* of coll/p2p.c, as parts */
    struct ccl_k_parts_args *meet_args; /* of coll/ahead.c, as parts */
    uint32_t ahead;           /* host: operations since all ranks last heard from all; the same on all */
    struct ccl_parts *parts;  /* of coll/parts.c, made at the first call that needs it; freed as one piece of memory */
    const struct ccl_k_desc *called; /* of the last call; NULL: in args */
    struct ccl_redop *redops; /* handle cclNumOps is the first */
    int num_redops;
    const cclCallConfig_t *effective; /* of the last enqueued operation; NULL: none yet */
    cclCallConfig_t matmul_effective;
    struct cclMatmulWorkspace *workspaces;     /* of fused matrix products, all there are */
    struct cclMatmulWorkspace *auto_workspace; /* the one for calls that bring none */
    struct ccl_matmul_table *matmul_table;     /* tuning table, once it was asked for; malloc */
    void (*free_workspaces)(cclComm_t comm);   /* set with the first one: their memory outside the heap, at the end */
    bool used_stream;
    struct cclStream *last_stream;
    struct ccl_chain *chain;
    bool unchained; /* an operation may have been enqueued that the chain could not note */
    struct cclStream *own_stream; /* for merged launches of groups, made at the first need */

    /* lifetime, under the list's lock */
    bool closing; /* somebody destroys or aborts it, and only he frees it */
    int busy;     /* threads that use it without owning it */

    /* error reporting */
    struct {
        struct cclStream *stream;
        bool reported; /* its synchronisation has returned the error */
    } streams[CCL_COMM_STREAMS]; /* that operations ran on, under the list's lock */
    int num_streams;
    bool more_streams;  /* than there are places: every stream reports, again and again */
    bool sync_reported; /* some synchronisation has */
    uint64_t stall_seen, stall_since_ns;
    bool stall_told;

    struct cclComm *next; /* list of the process, under its lock */
};

/* Is the device one of NVIDIA's? Their kernels have ways of their own. */
static inline bool ccl_comm_on_nvidia(const struct cclComm *comm)
{
    return strncmp(comm->props.arch, "sm_", 3) == 0;
}

/* Collective over the ranks to be. config may be NULL. On success *out is owned by the caller. */
cclResult_t ccl_comm_create(const cclUniqueId *id, int n, int rank, const cclConfig_t *config, cclComm_t *out);
/* Collective over parent. */
cclResult_t ccl_comm_split(cclComm_t parent, int color, int key, const cclConfig_t *config, cclComm_t *out);
/* ranks: [count], ascending, of parent, this one among them: they form *out, in this order. Collective over them; the other ranks of parent are
 * not asked, and may be dead. Operations of parent may have failed. */
cclResult_t ccl_comm_shrink(cclComm_t parent, const int *ranks, int count, cclComm_t *out);
/* Wait for the enqueued operations of comm; an error of theirs is not returned. */
cclResult_t ccl_comm_wait_idle(cclComm_t comm);
/* Some have not ended. */
bool ccl_comm_busy(cclComm_t comm);
/* Local; the own operations have ended. NULL and half-built are fine. unclean: peers may still be in an operation with us, and the memory is not
 * reference counted by the system (on the host it is), so what they can hit stays mapped. */
void ccl_comm_destroy(cclComm_t comm, bool unclean);

/* comm/comm_layout.c: from the agreed numbers and the device of the communicator. */
void ccl_comm_layout(cclComm_t comm, struct ccl_k_layout *lay);

/* LL scratch of one source and parity, and the largest part that fits it, bytes. */
uint64_t ccl_comm_ll_src(cclComm_t comm);
uint64_t ccl_comm_ll_cap(cclComm_t comm);

/* comm/comm_setup.c: everything between the bootstrap and the first operation. parent may be NULL. ranks: parent rank by child rank. */
cclResult_t ccl_comm_setup(cclComm_t comm, const cclConfig_t *config, cclComm_t parent, const int *ranks);
void ccl_comm_release(cclComm_t comm, bool unclean);

/* comm/comm_share.c */
/* Collective. Allocate the control memory and map the peers': device memory where all can, else shared host memory on all ranks. */
cclResult_t ccl_comm_share_ctl(cclComm_t comm);
/* Takes over memory that peers may still map uncounted, and the host's mappings of the peers' pages, until all have said there that they closed theirs. The
 * kernels' mappings of the pages have ended. */
void ccl_comm_keep(cclComm_t comm, struct ccl_mem_list *memory);
/* Free what was kept and is no longer mapped by peers. Called when communicators are made and destroyed. */
void ccl_comm_free_kept(void);
/* comm/comm_trace.c. Nothing happens in any of these when comm->trace is NULL, except where said. */
/* Decide whether comm is traced. config may be NULL. cclInvalidArgument: CCL_TRACE is no pattern, or one file for several ranks. */
cclResult_t ccl_comm_trace_create(cclComm_t comm, const cclConfig_t *config, bool parent_traces);
/* Memory for the records, after the layout is known; fills the fields of priv. */
cclResult_t ccl_comm_trace_alloc(cclComm_t comm, struct ccl_k_priv *priv);
/* Runs kernels of a world of its own; any communicator. */
cclResult_t ccl_comm_trace_measure(cclComm_t comm, struct ccl_comm_clock *clock);
/* comm->trace not NULL. */
void ccl_comm_trace_set_clock(cclComm_t comm, const struct ccl_comm_clock *clock);
/* Wait for the enqueued operations and write the file. cclInvalidUsage: comm->trace is NULL. */
cclResult_t ccl_comm_trace_export(cclComm_t comm, const char *pattern);
/* Before the release: the file of CCL_TRACE, if any. */
cclResult_t ccl_comm_trace_finish(cclComm_t comm);
void ccl_comm_trace_destroy(cclComm_t comm);

/* comm/comm_error.c */
/* Constant text, for any number. */
const char *ccl_comm_op_name(uint32_t op);
const char *ccl_comm_type_name(uint32_t type);
/* cclSuccess, or the code of the first failure; its text becomes the thread's last error. */
cclResult_t ccl_comm_async_error(cclComm_t comm);
/* Tell all ranks that this rank gives up, and why. */
void ccl_comm_raise(cclComm_t comm, cclResult_t code, enum ccl_reason reason, int peer);
/* After ccl_comm_claim with raise: wait at most 4 s for the own kernels, release. */
cclResult_t ccl_comm_abort(cclComm_t comm);
extern const struct ccl_monitor_callbacks ccl_comm_monitor_callbacks;

/* comm/comm_list.c: the communicators of this process */
void ccl_comm_list_add(cclComm_t comm);
/* Waits for the threads that are busy with comm. Nothing happens when it is not in the list. */
void ccl_comm_list_remove(cclComm_t comm);
/* How a thread gets the right to free comm: once. *live: comm is in the list. raise: tell all ranks first that this one aborts, also when another
 * thread owns comm, whose wait then ends. */
bool ccl_comm_claim(cclComm_t comm, bool raise, bool *live);
/* Tell all ranks that this one gives up, as an abort does, and keep comm. False: it is not in the list. */
bool ccl_comm_raise_live(cclComm_t comm);
/* Operations of comm run on stream, or on a stream that it waits for. */
void ccl_comm_add_stream(cclComm_t comm, struct cclStream *stream);
/* Changes in a forked child. */
extern uint32_t ccl_comm_generation;
/* Give a thread on its way out of cclStreamSynchronize a moment to find the error of a failed operation, before comm goes. */
void ccl_comm_await_report(cclComm_t comm);
/* stream is about to be destroyed. */
void ccl_comm_forget_stream(struct cclStream *stream);
/* First unreported error of a communicator that used stream last. */
cclResult_t ccl_comm_stream_error(struct cclStream *stream);
/* The next launch of comm goes to stream. cclInvalidUsage: another rank of the same world uses this stream, outside a group (in_group: the group
 * has seen to it). */
cclResult_t ccl_comm_use_stream(cclComm_t comm, struct cclStream *stream, bool in_group);

#endif
