/* SPDX-License-Identifier: MIT
 *
 * From the records that traced kernels leave (kernels/args.h) to a file for Perfetto or chrome://tracing. Knows no device: the records are a
 * copy in host memory. Format and accuracy: docs/tracing.md. */
#ifndef CCL_TRACE_H
#define CCL_TRACE_H

#include "args.h"
#include "util/base.h"

#define CCL_TRACE_PATH_BYTES 1024
#define CCL_TRACE_NAME_BYTES 96

/* Everything one file says. All of it is borrowed. */
struct ccl_trace_dump {
    int rank, ranks;
    uint64_t world;              /* names the communicator, equal on its ranks */
    const char *backend, *device;
    uint32_t ops;                /* operations that the records have room for, a power of two */
    uint32_t blocks;             /* records an operation */
    uint32_t drawn;              /* operations so far; the first is number 1 */
    const struct ccl_k_trace_op *op;       /* [ops] */
    const struct ccl_k_trace_event *event; /* [ops][blocks] */
    const struct ccl_k_trace_ring *ring;   /* [blocks], or NULL: none */
    int64_t clock_offset_ns;     /* to be added to device time; the sum is CLOCK_MONOTONIC */
    uint64_t clock_error_ns;     /* the offset was exact to this when it was measured */
    int64_t clock_drift_ns;      /* by which it has changed since */
    /* What was called, at most CCL_TRACE_NAME_BYTES with the final zero: "all_gather ll 4096 float16". */
    void (*name)(const struct ccl_k_trace_op *op, char *text, size_t bytes);
};

/* path is a pattern: %r rank, %p process id, %w world, %% a percent sign. cclInvalidArgument: another letter behind a %, or longer than
 * bytes. */
cclResult_t ccl_trace_path(const char *pattern, int rank, uint64_t world, char *path, size_t bytes);
/* An existing file is replaced. cclSystemError: it cannot be written, with path and reason. */
cclResult_t ccl_trace_write(const struct ccl_trace_dump *dump, const char *path);

#endif
