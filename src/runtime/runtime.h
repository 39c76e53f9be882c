/* SPDX-License-Identifier: MIT
 *
 * The contract of a backend: one const table of functions. Rules for all members:
 *  - every member is set (checked at selection); one that a backend cannot honour returns cclInvalidUsage by name;
 *  - the first function that sees an error logs it with ccl_error_set(); outputs are written only on success;
 *  - the calling thread's current device is unchanged on return, errors included, except by device_set;
 *  - all members may be called from several threads at once, on different objects;
 *  - a stream of NULL is the default stream of the current device.
 */
#ifndef CCL_RUNTIME_H
#define CCL_RUNTIME_H

#include "kernel_list.h"
#include "matrix_cores.h"
#include "util/base.h"

enum ccl_mem_type {
    CCL_MEM_DATA, /* users' data */
    CCL_MEM_FLAG, /* control words and scratch that peers poll and store into (uncached on AMD) */
    CCL_MEM_HOST  /* either, as shared host memory that the current device may use: where devices cannot share theirs */
};

struct ccl_device_props {
    char name[64];        /* for people */
    char arch[32];        /* "x86-64", "gfx942", "sm_90" */
    uint64_t uid;         /* equal on two ranks exactly when they use the same physical device; host: the same for all */
    int units;            /* compute units; host: cores this process may use */
    int max_blocks;       /* most blocks of a collective that run at once on the whole device */
    uint32_t flag_stride; /* bytes between two flag words written by different ranks */
    bool is_host;         /* kernels are C functions, one thread a block */
    bool bulk_copy;       /* kernels may copy through shared memory in bulk (machine code of sm_90) */
    bool ll_words;        /* has the kernels ll_words_W, untraced */
    enum ccl_matrix_core matrix_core; /* of fused matrix products; host: none of these, its kernels serve all */
    int matrix_blocks;    /* most blocks of such a product that run at once on the whole device */
    bool forced_fence;    /* a waiting rank can force a memory fence on all publishers (membarrier), so they need none of their own */
};

struct ccl_pointer_attr {
    void *base;        /* start of the underlying allocation; NULL when unknown */
    size_t size_bytes; /* of the underlying allocation; 0 when unknown */
    int device;        /* -1: ordinary host memory */
    bool exportable;   /* mem_export(base) can succeed */
};

#define CCL_HANDLE_BLOB_BYTES 96

/* What a peer needs to map an allocation. blob is opaque to all but the backend. */
struct ccl_mem_handle {
    uint64_t size_bytes;
    int fd;           /* -1: the blob says all; else passed beside the blob and owned by whoever holds it */
    uint32_t kind;    /* backend's own */
    bool counted;     /* set by mem_export: a peer's mapping keeps the memory alive. Else (legacy IPC) the owner must not mem_free it before all
                         peers have called mem_close */
    uint8_t blob[CCL_HANDLE_BLOB_BYTES];
};

struct ccl_launch {
    enum ccl_kernel kernel;
    int device;             /* where it runs; need not be the thread's current one */
    bool traced;            /* the form of the kernel that writes trace records */
    uint32_t grid, threads; /* blocks, threads a block (1 on the host) */
    uint32_t shared_bytes;
    uint32_t host_threads; /* host: most threads that run the blocks at once; blocks wait for peers, who need the cores too */
    uint32_t args_bytes; /* of args; a host backend copies just these */
    const void *args;    /* copied before launch returns */
};

struct cclStream;
struct cclEvent;
struct cclGraph;  /* ready to be launched */
struct ccl_chain; /* the order of one communicator's operations over all streams, captured or not */

struct ccl_runtime_ops {
    const char *name; /* "host", "gpu", "emu:gfx942" */

    /* Once per process, before any other member; cclSystemError or cclInvalidUsage when this machine cannot run it. */
    cclResult_t (*init)(void);
    cclResult_t (*device_count)(int *count);
    cclResult_t (*device_get)(int *device);
    /* For the calling thread. cclInvalidArgument: not 0..count-1, named. */
    cclResult_t (*device_set)(int device);
    cclResult_t (*device_props)(int device, struct ccl_device_props *props);

    /* bytes > 0, zeroed, on the current device, aligned to a page on the host and to 256 bytes on a GPU. cclSystemError: out of memory. */
    cclResult_t (*mem_alloc)(enum ccl_mem_type type, size_t bytes, void **ptr);
    /* ptr from mem_alloc, NULL is fine. Memory that peers still map stays until they close it, if its handle was counted. cclInvalidArgument:
     * unknown pointer. */
    cclResult_t (*mem_free)(void *ptr);
    /* Map host memory of this process (a shared memfd mapping) for the current device; *dev is the kernel-side address. */
    cclResult_t (*host_register)(void *ptr, size_t bytes, void **dev);
    cclResult_t (*host_unregister)(void *ptr);
    /* Kernels may sleep until something in a host page changes (struct ccl_k_page, its address here): wake them after changing it. */
    void (*host_wake)(void *page);
    /* Never fails for a pointer: unknown memory is device -1, base NULL, not exportable. */
    cclResult_t (*pointer_query)(const void *ptr, struct ccl_pointer_attr *attr);
    /* base from pointer_query. *handle's fd is owned by the caller. cclInvalidUsage: not exportable. */
    cclResult_t (*mem_export)(void *base, struct ccl_mem_handle *handle);
    /* Map a peer's allocation; the handle's fd stays the caller's. The same allocation imported twice, or imported in the process that
     * owns it, may give the same address (reference counted). cclSystemError: it cannot be mapped. */
    cclResult_t (*mem_import)(const struct ccl_mem_handle *handle, void **base);
    cclResult_t (*mem_close)(void *base);

    /* In stream order. dst, src: host or device memory. */
    cclResult_t (*copy)(void *dst, const void *src, size_t bytes, struct cclStream *stream);
    /* rows x row_bytes, both > 0, rows ld_dst and ld_src bytes apart (both >= row_bytes). */
    cclResult_t (*copy_2d)(void *dst, size_t ld_dst, const void *src, size_t ld_src, size_t row_bytes, size_t rows,
                           struct cclStream *stream);
    cclResult_t (*fill)(void *dst, int byte, size_t bytes, struct cclStream *stream);
    /* Describe rows x cols elements of 16 bits, rows `ld` elements apart, for kernels that load and store boxes of box_rows x 64 by hardware (NVIDIA, device
     * property matrix_core wgmma); map has CCL_TENSOR_MAP_BYTES. matrices: so many, one behind the other, the box number is then a third coordinate; 0: one, with
     * two. ptr is a multiple of 16, ld of 8, box_rows at most 256. */
    cclResult_t (*tensor_map)(void *map, const void *ptr, size_t rows, size_t cols, size_t ld, uint32_t box_rows, size_t matrices);

    cclResult_t (*stream_create)(struct cclStream **stream);
    cclResult_t (*stream_destroy)(struct cclStream *stream); /* waits for its work */
    cclResult_t (*stream_sync)(struct cclStream *stream);
    cclResult_t (*stream_query)(struct cclStream *stream);   /* cclSuccess or cclInProgress */
    /* *id is 0 when stream is not being captured into a graph, else a number that names the capture. */
    cclResult_t (*capture_query)(struct cclStream *stream, uint64_t *id);

    cclResult_t (*event_create)(struct cclEvent **event);
    cclResult_t (*event_destroy)(struct cclEvent *event);
    cclResult_t (*event_record)(struct cclEvent *event, struct cclStream *stream);
    cclResult_t (*event_wait)(struct cclStream *stream, struct cclEvent *event); /* stream order; never recorded: no wait */
    cclResult_t (*event_sync)(struct cclEvent *event);
    cclResult_t (*event_elapsed)(float *ms, struct cclEvent *start, struct cclEvent *end);

    /* On the current device. Operations enqueued between chain_before and chain_after, on whatever streams and from whatever graphs, run one
     * after the other in that order; operations captured into a graph follow each other by edges, and each launch of the graph follows
     * what was enqueued before it. destroy never waits, and graphs that were captured may outlive it; NULL is fine. */
    cclResult_t (*chain_create)(struct ccl_chain **chain);
    void (*chain_destroy)(struct ccl_chain *chain);
    cclResult_t (*chain_before)(struct ccl_chain *chain, struct cclStream *stream);
    cclResult_t (*chain_after)(struct ccl_chain *chain, struct cclStream *stream);
    /* Wait, or ask, for the end of what was enqueued between chain_before and chain_after and has been launched, whether its streams still exist
     * or not. No capture is disturbed; what was only captured does not count. query: cclSuccess or cclInProgress. */
    cclResult_t (*chain_sync)(struct ccl_chain *chain);
    cclResult_t (*chain_query)(struct ccl_chain *chain);
    /* stream is about to be destroyed through the portable helper; its work is waited for there. */
    void (*chain_forget)(struct ccl_chain *chain, struct cclStream *stream);

    /* A backend without graphs returns cclInvalidUsage from graph_begin, by name. Between begin and end what is enqueued to stream is recorded
     * instead of run. thread_local: other threads may go on making calls that a capture forbids. */
    cclResult_t (*graph_begin)(struct cclStream *stream, bool thread_local_mode);
    cclResult_t (*graph_end)(struct cclStream *stream, struct cclGraph **graph);
    cclResult_t (*graph_launch)(struct cclGraph *graph, struct cclStream *stream);
    cclResult_t (*graph_destroy)(struct cclGraph *graph);

    /* Most blocks of the kernel that the current device runs at once. */
    cclResult_t (*max_resident)(enum ccl_kernel kernel, uint32_t threads, uint32_t shared_bytes, int *blocks);
    /* False only when no kernel launched by this process can have reported an error to its communicator. Fast. */
    bool (*kernel_failed)(void);
    /* Enqueue. Returns at once. Errors of the kernel itself go through the communicator's host page, never through here. */
    cclResult_t (*launch)(struct cclStream *stream, const struct ccl_launch *launch);
};

/* The backend of this process, selected and initialised at the first call by CCL_BACKEND. On failure every call fails alike. */
cclResult_t ccl_runtime_get(const struct ccl_runtime_ops **ops);

extern const struct ccl_runtime_ops ccl_runtime_host, ccl_runtime_gpu;

/* Members act on the thread's current device: make it `device` until ccl_device_leave puts the old one back. Every entry into the library that works for a
 * communicator does this, whatever the caller's device is. is_host: there is one device, nothing to do. */
static inline cclResult_t ccl_device_enter(const struct ccl_runtime_ops *rt, bool is_host, int device, int *before)
{
    *before = -1;
    if (is_host) {
        return cclSuccess;
    }
    int current;
    cclResult_t rc = rt->device_get(&current);
    if (rc == cclSuccess && current != device) {
        rc = rt->device_set(device);
        *before = rc == cclSuccess ? current : -1;
    }
    return rc;
}

/* rc: of the work in between; it wins over an error of the way back, which is logged where it happens. */
static inline cclResult_t ccl_device_leave(const struct ccl_runtime_ops *rt, int before, cclResult_t rc)
{
    if (before < 0) {
        return rc;
    }
    cclResult_t back = rt->device_set(before);
    return rc != cclSuccess ? rc : back;
}

#endif
