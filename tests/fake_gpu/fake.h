/* SPDX-License-Identifier: MIT
 *
 * A GPU runtime for tests: the calls of src/runtime/gpu_api.def over ordinary memory, threads and the kernels' CPU form. One source, three
 * libraries: libamdhip64.so.7, with FAKE_CUDA libcuda.so.1, and with FAKE_EMU libccl_emu.so, whose kernels are interpreted machine code (tests/emu). Each row of the table is the declaration of a function here, under the
 * vendor's name; a definition that differs from its row does not compile, a row without definition does not link. What happens:
 *   device memory   memfd mappings, poisoned; a handle of one process can be opened in another through /proc/PID/fd
 *   streams         one thread each, tasks in order; the NULL stream of a device orders itself with its blocking streams
 *   kernels         blocks in index order on the stream's thread, functions by name from kernels/host.c
 *   graphs          nodes with edges, launched in a topological order on one stream
 * Environment: FAKE_GPU=hip|cuda (the other library then reports no device), FAKE_GPU_DEVICES, FAKE_GPU_ARCH, FAKE_GPU_PEERS=none,
 * FAKE_GPU_VERSION, FAKE_GPU_VMM=0, FAKE_GPU_FAIL=CALL:N:CODE[,...] (the Nth call fails; N 0: every call), FAKE_GPU_RANK (failures in this MPI rank only),
 * FAKE_GPU_SHARED (1: devices of one number are one device in all processes, 0: each process has its own),
 * FAKE_GPU_FREE_WAITS=0 (freeing does not wait for the device), FAKE_GPU_LOG=FILE (one line per call). */
#ifndef FAKE_GPU_H
#define FAKE_GPU_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fake_control.h"
#include "runtime/gpu_api.h"
#include "runtime/gpu_constants.h"

#define FAKE_EXPORT __attribute__((visibility("default")))

#ifdef FAKE_EMU
#define FAKE_IS_EMU 1
#else
#define FAKE_IS_EMU 0
#endif

#ifdef FAKE_CUDA
#define FAKE_NAME(hip, cuda) cuda
#else
#define FAKE_NAME(hip, cuda) hip
#endif

/* int fake_<field>(...), exported under the vendor's name. */
#define CCL_GPU(field, hip, cuda, params) FAKE_EXPORT int fake_##field params __asm__(FAKE_NAME(hip, cuda));
#ifdef FAKE_CUDA
#define CCL_HIP(field, hip, params)
#define CCL_CUDA(field, cuda, params) FAKE_EXPORT int fake_##field params __asm__(cuda);
#else
#define CCL_HIP(field, hip, params) FAKE_EXPORT int fake_##field params __asm__(hip);
#define CCL_CUDA(field, cuda, params)
#endif
#include "runtime/gpu_api.def"

enum fake_call {
#define CCL_GPU(field, hip, cuda, params) CALL_##field,
#define CCL_HIP(field, hip, params) CALL_##field,
#define CCL_CUDA(field, cuda, params) CALL_##field,
#include "runtime/gpu_api.def"
    NUM_CALLS
};

FAKE_EXPORT extern const struct fake_control ccl_fake_gpu;

/* fake_control.c */
extern pthread_mutex_t fake_lock; /* all state; never held while a kernel or a callback runs */
extern struct fake_counts fake_live;
int fake_enter(enum fake_call call); /* result code of a planned failure, else 0 */
void fake_in_callback(bool in);      /* this thread runs a user's callback, which may make no call */
#define FAKE_ENTER(field)                       \
    do {                                        \
        int planned_ = fake_enter(CALL_##field); \
        if (planned_ != 0) {                    \
            return planned_;                    \
        }                                       \
    } while (0)
const char *fake_setting(const char *name, const char *otherwise); /* of the environment or set() */

/* fake_device.c */
int fake_num_devices(void);
void fake_make_current(int device);
int fake_current(void); /* device of the thread, -1: none (CUDA without context) */
#define FAKE_CURRENT(device)                       \
    int device = fake_current();                   \
    if (device < 0) {                              \
        return CCL_GPU_E_INVALID_CONTEXT;          \
    }
const char *fake_arch(void);
bool fake_before_hip6(void);

/* fake_stream.c. What is done in stream order; copied into each run, so that a graph can run it many times. */
#define FAKE_ARGS_BYTES 4096
struct fake_event;
struct fake_graph;
struct fake_op {
    enum { OP_NOTHING, OP_COPY, OP_FILL, OP_KERNEL, OP_RECORD, OP_WAIT } kind;
    void *dst;
    const void *src;
    size_t bytes, rows, ld_dst, ld_src;
    int byte;
    const void *function; /* of the module's file */
    uint32_t grid, threads, shared_bytes, args_bytes;
    struct fake_event *event; /* of a graph's node */
    struct fake_mark *mark;   /* of an eager record or wait; a reference */
    uint64_t args[];          /* args_bytes */
};
struct fake_op *fake_op_new(int kind, uint32_t args_bytes);
struct fake_op *fake_op_copy(const struct fake_op *op);
struct fake_stream;
/* The stream behind a handle (NULL: the default stream of the current device); with the lock held. NULL: *code says why. */
struct fake_stream *fake_stream_of(void *handle, int *code);
int fake_stream_device(const struct fake_stream *stream);
/* In stream order, or into the graph where the stream is being captured. Takes op over, on failure too. */
int fake_enqueue(void *handle, struct fake_op *op);
void fake_push(struct fake_stream *stream, struct fake_op *op); /* with the lock held, never captured */
void fake_settle(int device); /* -1: of all, and graphs that were destroyed are gone; without the lock */
extern int fake_reaping;      /* graphs that are being destroyed */
void fake_streams_end_capture(const struct fake_graph *graph); /* those that joined it; with the lock held */

/* An occasion of an event: made by each record, shared by those who wait for it. All with the lock held. */
struct fake_mark {
    int refs;
    bool done;
    uint64_t ns;
};
struct fake_event {
    struct fake_mark *mark; /* of the latest record; NULL: never recorded */
    int device;
    unsigned flags;
    struct fake_graph *graph; /* the latest record was captured: into this graph, behind these nodes */
    struct fake_nodes {
        struct fake_node **list;
        size_t count;
    } deps;
};
bool fake_event_alive(const struct fake_event *event);
struct fake_mark *fake_event_mark(struct fake_event *event); /* a new occasion, two references: the event's and the caller's */
extern pthread_cond_t fake_changed;                          /* a mark was set or a stream became idle */

/* fake_graph.c. With the lock held. */
struct fake_capture {
    struct fake_graph *graph; /* NULL: not being captured */
    struct fake_nodes deps;
    bool origin, broken;
};
struct fake_capture *fake_stream_capture(struct fake_stream *stream);
int fake_capture_op(struct fake_capture *capture, struct fake_op *op); /* takes op over */
int fake_capture_record(struct fake_capture *capture, struct fake_event *event);
int fake_capture_wait(struct fake_capture *capture, struct fake_event *event);
void fake_capture_drop(struct fake_capture *capture); /* a stream is destroyed */
/* Calls that may not be made while a capture is running somewhere (allocation, synchronisation): result code. */
int fake_forbidden(void);
#define FAKE_SETUP(field)                    \
    do {                                     \
        FAKE_ENTER(field);                   \
        int forbidden_ = fake_forbidden();   \
        if (forbidden_ != 0) {               \
            return forbidden_;               \
        }                                    \
    } while (0)

/* The file of the modules: fake_module.c, or in libccl_emu.so tests/emu/hip_module.c. */
void fake_run_kernel(const struct fake_op *op); /* on the stream's thread, without the lock */
void fake_memory_gone(void);                    /* addresses are no longer memory of a device; with the lock held, still mapped */

/* fake_memory.c: the own allocation that holds ptr; false: none. */
FAKE_EXPORT bool ccl_fake_find_memory(const void *ptr, void **base, size_t *bytes, int *device, int *fd);
/* All that kernels may touch: allocations, mappings, registered memory of the host; exactly the bytes that were asked for. */
bool fake_find_region(uint64_t addr, uint64_t *base, uint64_t *bytes, bool *host);

/* The same allocation mapped again gives the same address. Takes fd over. Without the lock. */
int fake_map_peer(int fd, size_t bytes, int device, void **ptr);
int fake_unmap_peer(const void *ptr);
/* With the lock held. */
void fake_note_mapping(void *base, size_t bytes, int device);
bool fake_forget_mapping(const void *base);

#endif
