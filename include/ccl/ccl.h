/* SPDX-License-Identifier: MIT
 *
 * libccl: collective communication between the GPUs (or the CPU processes and threads) of one node.
 *
 * The shapes follow NCCL with the prefix ccl. This header is C99-clean and needs no GPU header: streams and events are
 * opaque pointers (on the gpu backend a cclStream_t is the hipStream_t / cudaStream_t itself).
 *
 * Words used below:
 *   collective   every rank of the communicator must make the call, in the same order as its other collective calls
 *   local        only the calling rank is concerned
 *   count        elements of the given type, per rank, never bytes
 *   device memory  memory of the communicator's device: from cclDeviceMalloc, cclMemAlloc or the GPU runtime; on the host
 *                  backend any memory of the process will do. CCL_CHECK=1 has every call look, and refuses by name
 * Unless a function says otherwise, outputs are written only on success, one communicator must not be used by two threads at
 * the same time (cclCommAbort, cclCommGetAsyncError and cclGetLastError may be called at any time by any thread), and the
 * calling thread's current device is unchanged on return. A call for a communicator works on the communicator's device, whatever
 * the current one is.
 */
#ifndef CCL_H
#define CCL_H

#include <stddef.h>
#include <stdint.h>

#include "device_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CCL_API __attribute__((visibility("default")))
#else
#define CCL_API
#endif

#define CCL_VERSION_MAJOR 0
#define CCL_VERSION_MINOR 1
#define CCL_VERSION_PATCH 0
#define CCL_VERSION (CCL_VERSION_MAJOR * 10000 + CCL_VERSION_MINOR * 100 + CCL_VERSION_PATCH)

#define CCL_UNIQUE_ID_BYTES 128
/* "The library chooses": the value of every tunable that was not set. An explicit value is never mistaken for it. */
#define CCL_UNSET (-2147483647 - 1)
#define CCL_SPLIT_NOCOLOR (-1)
#define CCL_STRUCT_MAGIC 0xcc1cafe5u

typedef struct cclComm *cclComm_t;
typedef struct cclStream *cclStream_t; /* NULL is the default stream: of the communicator's device, in the portable helpers of the current one */
typedef struct cclEvent *cclEvent_t;
typedef struct cclGraph *cclGraph_t; /* operations captured once, launched as often as wanted */
typedef struct cclMatmulWorkspace *cclMatmulWorkspace_t; /* memory of the fused matrix products of one communicator */

typedef struct {
    char internal[CCL_UNIQUE_ID_BYTES];
} cclUniqueId;

typedef enum {
    cclSuccess = 0,
    cclUnhandledDeviceError = 1, /* a GPU runtime call failed */
    cclSystemError = 2,          /* a system call failed, memory ran out, a deadline passed */
    cclInternalError = 3,        /* a fault of libccl */
    cclInvalidArgument = 4,      /* one argument is wrong by itself */
    cclInvalidUsage = 5,         /* arguments are fine, the use is not: ranks disagree, wrong order of calls */
    cclRemoteError = 6,          /* a peer died or aborted */
    cclInProgress = 7,
    cclNumResults = 8
} cclResult_t;

typedef enum {
    cclInt8 = 0,
    cclChar = 0,
    cclUint8 = 1,
    cclInt32 = 2,
    cclInt = 2,
    cclUint32 = 3,
    cclInt64 = 4,
    cclUint64 = 5,
    cclFloat16 = 6,
    cclHalf = 6,
    cclFloat32 = 7,
    cclFloat = 7,
    cclFloat64 = 8,
    cclDouble = 8,
    cclBfloat16 = 9,
    cclFloat8e4m3 = 10,
    cclFloat8e5m2 = 11,
    cclNumTypes = 12
} cclDataType_t;

/* How a reduction joins elements. Values from cclNumOps on are operators made by cclRedOpCreatePreMulSum. */
typedef enum {
    cclSum = 0,
    cclProd = 1,
    cclMax = 2,
    cclMin = 3,
    cclAvg = 4, /* the sum, which wraps in integer types, divided by the number of ranks; integers are rounded towards zero */
    cclNumOps = 5,
    cclMaxRedOp = 0x7fffffff
} cclRedOp_t;

/* Where the scalar of an operator lies. */
typedef enum {
    cclScalarDevice = 0,       /* device memory, read when the reduction runs */
    cclScalarHostImmediate = 1 /* host memory, read by the call that makes the operator */
} cclScalarResidence_t;

/* How an all-gather moves its data. The choice made is reported by cclGetEffectiveConfig. */
typedef enum {
    cclVariantAuto = 0,
    cclVariantLL = 1,          /* packets through scratch, no handshake: small counts */
    cclVariantDirect = 2,      /* stores straight into the peers' receive buffers: these must lie in windows */
    cclVariantStaged = 3,      /* through rings in the peers' scratch */
    cclVariantPartitioned = 4, /* each block serves one peer; direct or staged per peer */
    cclVariantCopy = 5         /* copy engine (comm_sms 0): ranks fetch; send buffers from cclMemAlloc at the same place on all
                                  ranks, or all in place in such receive buffers. The host backend copies with memcpy */
} cclVariant_t;

/* ---- choices of the fused matrix products ---- */

/* How cclAllGatherMatmul gets at the other ranks' A. */
typedef enum {
    cclAlgoAuto = 0,
    cclAlgoBaseline = 1,  /* the product reads the peers' A where it lies, each tile as soon as its peer has called */
    cclAlgoHbmBuffer = 2, /* some blocks copy the peers' A to the workspace, tile by tile, others multiply what has arrived */
    cclAlgoSequential = 3 /* an all-gather to the workspace, then the product */
} cclAlgorithm_t;
/* hbm_buffer: how the copy of A lies in the workspace. */
typedef enum {
    cclKContiguous = 0, /* [m][k] */
    cclMContiguous = 1  /* [k][m] */
} cclLayout_t;
/* hbm_buffer: who moves A. */
typedef enum {
    cclFetchPull = 0, /* a rank reads from its peers */
    cclFetchPush = 1  /* a rank writes to its peers' workspaces; cclGatherRows and cclKContiguous only */
} cclFetch_t;

/* Tunables of one call. Initialise with CCL_CALL_CONFIG_INITIALIZER, then set what you want to fix; CCL_UNSET leaves the
 * choice to the library. All ranks must pass equal values. Values that cannot be honoured are cclInvalidArgument (or
 * cclInvalidUsage where it depends on the buffers), and the error text names the field and the value. */
typedef struct {
    size_t size;
    unsigned magic, version;
    int comm_sms;       /* blocks (compute units) used, 1..agreed maximum; 0 = copy engine */
    int variant;        /* cclVariant_t */
    int tile_m, tile_n; /* rows and columns of a tile, elements */
    int peers_per_wait; /* 1, 2, 4 or the world size: peers served between two waits for loads; without effect on the host backend */
    int threads;        /* per block; 1 on the host backend */
    /* cclAllGatherMatmul and cclMatmulAllGather only; they take comm_sms, and none of the four behind it: */
    int algorithm;      /* cclAlgorithm_t */
    int layout;         /* cclLayout_t */
    int fetch;          /* cclFetch_t */
    int gemm_tile_m, gemm_tile_n, gemm_tile_k; /* elements of a tile of C, and of K that are multiplied as one block */
    int group_m;        /* rows of tiles walked down before one step to the right, 1..rows of tiles */
    int k_per_flag;     /* K blocks that are announced by one flag, 1..K blocks */
    int num_fetch_sms;  /* hbm_buffer: blocks that copy before they multiply, 1..comm_sms */
    int fixed_order;    /* 1: sums run over K from 0 on all ranks, so results are equal to the bit; 0: each rank may begin with its own K shard */
    int trace;          /* 0: this call leaves no records in a traced communicator, 1: it does */
} cclCallConfig_t;

#define CCL_CALL_CONFIG_INITIALIZER                                                                                    \
    {                                                                                                                  \
        sizeof(cclCallConfig_t), CCL_STRUCT_MAGIC, CCL_VERSION, CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET, \
            CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET,         \
            CCL_UNSET, CCL_UNSET, CCL_UNSET                                                                            \
    }

/* Configuration of a communicator, agreed at init: rank 0's values hold for all (timeout_ms and trace are each rank's own). */
typedef struct {
    size_t size;
    unsigned magic, version;
    int timeout_ms;    /* deadline of init, split and heap calls, milliseconds, > 0; default CCL_INIT_TIMEOUT */
    int max_blocks;    /* upper limit of comm_sms, 1..128. Unset: on a GPU what leaves room for a second communicator of the same ranks. A value may
                          take the whole GPU: then operations of two communicators of the same ranks must not run at the same time */
    int variant;       /* default variant of every call of this communicator, cclVariant_t */
    int heap_chunk_mb; /* smallest heap chunk, MiB, 1..1048576 */
    int trace;         /* 1: record a trace for cclTraceExport, 0: none; default: 1 when CCL_TRACE is set, or the split communicator's */
} cclConfig_t;

#define CCL_CONFIG_INITIALIZER \
    { sizeof(cclConfig_t), CCL_STRUCT_MAGIC, CCL_VERSION, CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET }

/* ---- fused matrix products: what is multiplied ---- */

typedef enum {
    cclGatherRows = 0,    /* cclAllGatherMatmul: each rank has so many rows of A */
    cclGatherColumns = 1, /* cclAllGatherMatmul: each rank has so many columns of A (K shards) */
    cclGatherOutput = 2   /* cclMatmulAllGather: each rank computes so many rows of C, and all get all of them */
} cclMatmulGather_t;
typedef enum { cclBiasNone = 0, cclBiasByColumn = 1, cclBiasByRow = 2 } cclMatmulBias_t;

/* C = A x B + bias; C is [m][n], A [m][k], B [k][n], all of one type, sums in 32-bit floats, rounded once to nearest even.
 * Leading dimensions are row pitches in elements, multiples of 8, at least as long as a row; a matrix takes rows x pitch elements, and those behind the
 * end of a row are neither used nor written. Equal on all ranks: everything but ldb, b_transposed and bias, and but ldc in cclAllGatherMatmul. */
typedef struct {
    size_t size;
    unsigned magic, version;
    size_t m, n, k;     /* of the whole product, 1..2^31-1 */
    size_t shard;       /* rows (cclGatherColumns: columns) of A on each rank; world size x shard is m (cclGatherColumns: k) */
    size_t lda, ldb, ldc;
    cclDataType_t type; /* cclFloat16 or cclBfloat16 */
    int gather;         /* cclMatmulGather_t */
    int b_transposed;   /* 0: B is [k][n], 1: B is [n][k] */
    int bias;           /* cclMatmulBias_t: none, n elements (one a column), or one a row of C: m elements, for cclGatherOutput the `shard` of this rank */
} cclMatmulDesc_t;

/* m to ldc must be set, and type. */
#define CCL_MATMUL_DESC_INITIALIZER \
    { sizeof(cclMatmulDesc_t), CCL_STRUCT_MAGIC, CCL_VERSION, 0, 0, 0, 0, 0, 0, 0, cclNumTypes, cclGatherRows, 0, cclBiasNone }

typedef enum { cclMemPlain = 0, cclMemHeap = 1, cclMemRegistered = 2 } cclMemKind_t;

/* What a communicator knows about a pointer. */
typedef struct {
    int kind;          /* cclMemKind_t; Plain = in no window, so peers cannot store into it and data is staged */
    void *base;        /* start of the heap block or of the registered range; NULL when plain */
    size_t size;       /* bytes of that block or range; 0 when plain */
    size_t offset;     /* bytes from base to the pointer */
    int window;        /* window id, 0 when plain */
    int peers_mapped;  /* peers that can store into it right now, 0..world-1 */
} cclPointerInfo_t;

/* ---- library ---- */

/* Version of the library, CCL_VERSION of the header it was built with. version not NULL. */
CCL_API cclResult_t cclGetVersion(int *version);
/* Constant English text of a result code; never NULL. */
CCL_API const char *cclGetErrorString(cclResult_t result);
/* Text of the last error: of the calling thread if it had one, else of the process; "" when there was none. comm is ignored
 * and may be NULL. Owned by the library, valid until the thread's next failing call. Never NULL. */
CCL_API const char *cclGetLastError(cclComm_t comm);

/* ---- communicators ---- */

/* Make an id for one communicator. Opens a listener in this process, which must live until cclCommInitRank has returned on
 * all ranks. Called by one process; give the bytes to the other ranks by any means (MPI_Bcast). One id makes one
 * communicator. cclSystemError: no listener could be opened. */
CCL_API cclResult_t cclGetUniqueId(cclUniqueId *id);
/* Join the communicator of nranks ranks as rank (0..nranks-1). Collective over the ranks to be: blocks until all have
 * come, or the deadline (CCL_INIT_TIMEOUT) passes: cclSystemError, and the text names the missing ranks. On failure *comm is
 * NULL on every rank. Uses the calling thread's current device. Inside a group it runs at cclGroupEnd. */
CCL_API cclResult_t cclCommInitRank(cclComm_t *comm, int nranks, cclUniqueId id, int rank);
/* The same with a configuration; config may be NULL. cclInvalidArgument: a field out of range, named in the text. */
CCL_API cclResult_t cclCommInitRankConfig(cclComm_t *comm, int nranks, cclUniqueId id, int rank, cclConfig_t *config);
/* ndev communicators of one world in this process: comms[i] is rank i on device devlist[i] (NULL: i modulo the number of
 * devices; a device may be named several times, on a GPU at most as often as a process has hardware queues there, else
 * cclInvalidUsage names the variable). comms: caller's array of ndev. Drive them from one thread in a group, or from
 * a thread each. */
CCL_API cclResult_t cclCommInitAll(cclComm_t *comms, int ndev, const int *devlist);
/* Collective over comm: ranks with equal color (>= 0) form a new communicator, ordered by key, ties by rank.
 * CCL_SPLIT_NOCOLOR takes part and gets *newcomm = NULL. Shares the heap windows of comm. config NULL inherits. */
CCL_API cclResult_t cclCommSplit(cclComm_t comm, int color, int key, cclComm_t *newcomm, cclConfig_t *config);
/* Wait until all enqueued operations of comm are done; afterwards only cclMemFree, cclCommDestroy and queries are allowed. Local. NULL is
 * fine. A second call is cclInvalidArgument. */
CCL_API cclResult_t cclCommFinalize(cclComm_t comm);
/* Finish pending operations and release comm with all it owns (heap memory included). Local: needs no peer; a peer that still waits for an
 * operation of this rank which will not come gets cclRemoteError. NULL is fine. In a forked child communicators of the parent are refused. */
CCL_API cclResult_t cclCommDestroy(cclComm_t comm);
/* Give up: waits of all ranks of comm end with cclRemoteError, comm is released. From any thread, also while another waits
 * in cclStreamSynchronize or cclCommDestroy (which then returns); no thread may be inside another call on comm. Returns in under 5 s,
 * needs no peer. NULL is fine. cclInvalidArgument: no live communicator. */
CCL_API cclResult_t cclCommAbort(cclComm_t comm);
/* *async_error: cclSuccess while comm is healthy, else the first error of any of its operations. */
CCL_API cclResult_t cclCommGetAsyncError(cclComm_t comm, cclResult_t *async_error);
CCL_API cclResult_t cclCommCount(const cclComm_t comm, int *count);
CCL_API cclResult_t cclCommUserRank(const cclComm_t comm, int *rank);
CCL_API cclResult_t cclCommDevice(const cclComm_t comm, int *device);
/* What kernels of the caller's own need to reach the peers (ccl/device.h, docs/device.md). *dev is plain data, valid until comm is destroyed, also
 * for heap memory allocated later. Local. End your kernels that use it before cclCommDestroy; cclCommAbort ends their waits and keeps what these
 * read, but heap memory is gone. cclInvalidUsage: comm is finalized. */
CCL_API cclResult_t cclDeviceComm(cclComm_t comm, cclDeviceComm_t *dev);

/* ---- groups ---- */

/* Calls between Start and End are collected and take effect at the outermost End: collectives of any communicators, and
 * cclCommInitRank*, cclMemAlloc, cclMemFree, cclCommSplit of several communicators of one thread (these run side by side; their
 * outputs are valid after End). Nesting is counted per thread. The first error inside is returned by End, which then
 * drops the whole group. End without Start, or streams of one communicator of which some are captured into a graph and others are not, or into
 * another one: cclInvalidUsage. */
CCL_API cclResult_t cclGroupStart(void);
CCL_API cclResult_t cclGroupEnd(void);

/* ---- memory ---- */

/* One thread that drives several ranks calls this and cclMemFree inside a group, else it waits for itself. */
/* Symmetric allocation: bytes > 0 (equal on all ranks), 256-byte aligned, at the same window offset on every rank, zeroed
 * when the chunk is new, else as the last user left it. Collective. A failure on any rank is an error on all, and the heap
 * is as before. Freed by cclMemFree or with the communicator. */
CCL_API cclResult_t cclMemAlloc(cclComm_t comm, void **ptr, size_t bytes);
/* Collective; ptr from cclMemAlloc of this communicator, the same allocation on every rank. NULL on all ranks is fine. Waits for the
 * enqueued operations of comm. cclInvalidArgument: ptr is not the start of an allocation (named). */
CCL_API cclResult_t cclMemFree(cclComm_t comm, void *ptr);
/* Make [buff, buff+bytes) known to the peers so that they store into it directly. Local, returns at once: peers map it in
 * the background, until then data for it is staged. *handle: for cclCommDeregister; NULL when this memory cannot be shared (it
 * stays staged, which is no error). The caller keeps buff allocated until deregistered. cclSystemError: no file descriptor left. */
CCL_API cclResult_t cclCommRegister(cclComm_t comm, void *buff, size_t bytes, void **handle);
/* Local. NULL is fine. cclInvalidUsage: not a live handle of comm. */
CCL_API cclResult_t cclCommDeregister(cclComm_t comm, void *handle);
/* What comm knows about ptr. Local. info: caller's. */
CCL_API cclResult_t cclPointerInfo(cclComm_t comm, const void *ptr, cclPointerInfo_t *info);

/* ---- collectives: enqueue and return; stream order; collective over comm ---- */

/* Every rank has entered before the stream of any rank goes on. */
CCL_API cclResult_t cclBarrier(cclComm_t comm, cclStream_t stream);
/* Two ranks of one communicator that live in one process need a stream each (the default stream is one), or a group: a second rank that
 * comes to the same stream gets cclInvalidUsage. */
/* recvbuff[r * sendcount ..] = sendbuff of rank r. sendbuff: sendcount elements, recvbuff: world * sendcount, device memory.
 * In place when sendbuff == recvbuff + rank * sendcount; any other overlap is undefined. Both are borrowed until the stream has
 * passed the operation. sendcount 0 enqueues nothing. Ranks that disagree about count or type get cclInvalidUsage through the
 * stream's synchronisation and cclCommGetAsyncError, with both sides in the text. */
CCL_API cclResult_t cclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, cclDataType_t type,
                                 cclComm_t comm, cclStream_t stream);
/* send [m][n] with row pitch ld_send, recv [world * m][n] with row pitch ld_recv, both >= n, in elements. Elements between n and ld_recv
 * are not touched. config NULL: the library chooses. In place when send == recv + rank * m * ld_recv and ld_send == ld_recv. */
CCL_API cclResult_t cclAllGather2D(const void *send, size_t ld_send, void *recv, size_t ld_recv, size_t m, size_t n,
                                   cclDataType_t type, const cclCallConfig_t *config, cclComm_t comm,
                                   cclStream_t stream);
/* The collectives below follow the rules of cclAllGather: device memory, borrowed until the stream has passed the operation, count 0 enqueues
 * nothing, ranks that disagree about count, type, operator or root get cclInvalidUsage with both sides in the text. Buffers that
 * overlap in another way than the one named are undefined. Sums, products and averages of 8- and 16-bit floating types are computed in
 * float32 and rounded once; integers wrap. Contributions are joined in the order of ranks, whatever the algorithm, so that a result has the same
 * bits on all ranks and in all runs. */

/* recvbuff = op over the sendbuff of all ranks, count elements each, the same on every rank. In place: sendbuff == recvbuff. */
CCL_API cclResult_t cclAllReduce(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, cclRedOp_t op, cclComm_t comm,
                                 cclStream_t stream);
/* recvbuff of rank r = op over elements r * recvcount .. of all sendbuff. sendbuff: world * recvcount elements. In place:
 * recvbuff == sendbuff + rank * recvcount. */
CCL_API cclResult_t cclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, cclDataType_t type, cclRedOp_t op,
                                     cclComm_t comm, cclStream_t stream);
/* As cclAllReduce, but only root has a result; elsewhere recvbuff is not used and may be NULL. In place: sendbuff == recvbuff. */
CCL_API cclResult_t cclReduce(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, cclRedOp_t op, int root,
                              cclComm_t comm, cclStream_t stream);
/* recvbuff of every rank = sendbuff of root, which is not used elsewhere and may be NULL there. In place: sendbuff == recvbuff. */
CCL_API cclResult_t cclBroadcast(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, int root, cclComm_t comm,
                                 cclStream_t stream);
/* recvbuff[r * count ..] = sendbuff[rank * count ..] of rank r. count: of a pair of ranks; both buffers hold world * count elements. Not in
 * place. */
CCL_API cclResult_t cclAllToAll(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, cclComm_t comm,
                                cclStream_t stream);
/* Rank r gets sendcounts[r] elements from sendbuff + sdispls[r], and this rank recvcounts[r] of rank r at recvbuff + rdispls[r]; all in
 * elements. The four arrays have an entry a rank and are read by the call. What r sends me and what I expect of it must be equal. A buffer of which
 * all counts are 0 may be NULL. Every rank takes part, also one with nothing to move. Not in place. */
CCL_API cclResult_t cclAllToAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[], void *recvbuff,
                                 const size_t recvcounts[], const size_t rdispls[], cclDataType_t type, cclComm_t comm,
                                 cclStream_t stream);
/* At root recvbuff[r * count ..] = sendbuff of rank r, count elements each; recvbuff is not used elsewhere and may be NULL there. In place at
 * root: sendbuff == recvbuff + root * count. */
CCL_API cclResult_t cclGather(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, int root, cclComm_t comm,
                              cclStream_t stream);
/* recvbuff of rank r = sendbuff[r * count ..] of root, count elements each; sendbuff is not used elsewhere and may be NULL there. In place at
 * root: recvbuff == sendbuff + root * count. */
CCL_API cclResult_t cclScatter(const void *sendbuff, void *recvbuff, size_t count, cclDataType_t type, int root, cclComm_t comm,
                               cclStream_t stream);
/* *op: the sum of the elements of every rank, each multiplied by the scalar of its rank first. scalar points to one value of type; residence says where. The
 * operator serves reductions of that type on comm. Local. Destroy it with cclRedOpDestroy, or with the communicator. */
CCL_API cclResult_t cclRedOpCreatePreMulSum(cclRedOp_t *op, void *scalar, cclDataType_t type, cclScalarResidence_t residence,
                                            cclComm_t comm);
/* Local; reductions that were enqueued with op keep it. cclInvalidArgument: op was not made by comm, or is destroyed. */
CCL_API cclResult_t cclRedOpDestroy(cclRedOp_t op, cclComm_t comm);

/* ---- point to point ---- */

/* Send count elements to peer, which receives them with cclRecv of the same size in bytes; messages of a pair of ranks are matched in the order
 * they are issued. The stream goes on when buff may be overwritten. A message of 0 elements pairs up like any other; buff may be NULL then. Calls inside
 * a group progress together, whatever their order; without a group a call ends only when its peer has called too, but for some small messages, which go ahead of
 * their receiver. A rank may send to itself, within a group. In a group that has both, collectives come first. Sizes that differ: cclInvalidUsage on both sides,
 * named; the sender of a small message may get it only from a later call, or cclCommGetAsyncError. */
CCL_API cclResult_t cclSend(const void *buff, size_t count, cclDataType_t type, int peer, cclComm_t comm, cclStream_t stream);
CCL_API cclResult_t cclRecv(void *buff, size_t count, cclDataType_t type, int peer, cclComm_t comm, cclStream_t stream);

/* ---- fused matrix products: enqueue and return; stream order; collective over comm ---- */

/* Memory for calls with this desc (and config, may be NULL): staged copies of A or C in the symmetric heap, flags, and scratch. It serves one call after
 * the other, any that need no more of each kind of memory, with whatever pointers. Collective; blocks. Inside a group it runs at cclGroupEnd.
 * On success *ws is the caller's, for cclMatmulWorkspaceDestroy; memory goes with the communicator at the latest. cclInvalidArgument: desc or config as for the
 * calls below. cclInvalidUsage: the backend has no such operations (named; host has). cclSystemError: out of memory on some rank; nothing is left. */
CCL_API cclResult_t cclMatmulWorkspaceCreate(cclComm_t comm, const cclMatmulDesc_t *desc, const cclCallConfig_t *config,
                                             cclMatmulWorkspace_t *ws);
/* Collective. Waits for the enqueued operations of the communicator. NULL on all ranks is fine. cclInvalidArgument: not a live workspace. Not after its
 * communicator was destroyed. */
CCL_API cclResult_t cclMatmulWorkspaceDestroy(cclMatmulWorkspace_t ws);
/* c = gather(a) x b + bias on every rank. a: this rank's shard, [shard][k] or (cclGatherColumns) [m][shard]; b: [k][n] or [n][k]; c: [m][n]; bias: see desc, NULL with
 * cclBiasNone. All 16-byte aligned device memory, borrowed until the stream has passed the operation; c must not overlap the others. Peers read a where it lies if it
 * is in a window that all of them have mapped (cclMemAlloc, cclCommRegister), else it is copied to the workspace first, which is said at
 * CCL_DEBUG=INFO. When the call has completed on this rank's stream, no peer reads its a any more. ws NULL: the communicator makes a workspace at the
 * first use (then the call blocks like cclMatmulWorkspaceCreate, and is refused while the stream is captured: cclInvalidUsage) and keeps it.
 * cclInvalidArgument, with the name and the value, before anything is enqueued: type, sizes, shards that do not add up, leading dimensions, config that cannot cover
 * the shape, workspace that is too small. These depend on what is equal on all ranks, so all ranks get them. A workspace of another communicator, or a misaligned
 * pointer, may concern one rank alone: then the peers get cclInvalidUsage or cclInvalidArgument from their streams' synchronisation, and the communicator is of no
 * more use. Ranks that disagree about desc, config or workspace get cclInvalidUsage as in cclAllGather. */
CCL_API cclResult_t cclAllGatherMatmul(const cclMatmulDesc_t *desc, const void *a, const void *b, const void *bias, void *c,
                                       cclMatmulWorkspace_t ws, const cclCallConfig_t *config, cclComm_t comm, cclStream_t stream);
/* Rows rank x shard .. of c, on every rank, = a x b + bias of that rank: a is [shard][k], c [m][n]. Tiles go to the peers' c as they are computed, starting
 * with the next rank's. Where c lies in no window that all peers have mapped they go to the workspace and are copied from there. Everything else as in
 * cclAllGatherMatmul; desc.gather is cclGatherOutput, and algorithm, layout, fetch, k_per_flag and num_fetch_sms must be unset. */
CCL_API cclResult_t cclMatmulAllGather(const cclMatmulDesc_t *desc, const void *a, const void *b, const void *bias, void *c,
                                       cclMatmulWorkspace_t ws, const cclCallConfig_t *config, cclComm_t comm, cclStream_t stream);

/* What the last all-gather or matrix product enqueued on comm really used; no field that applies is CCL_UNSET. config: caller's,
 * initialised (its size field is honoured). cclInvalidUsage: nothing was enqueued yet. */
CCL_API cclResult_t cclGetEffectiveConfig(cclComm_t comm, cclCallConfig_t *config);

/* ---- tracing ---- */

/* Write what this rank recorded, the last CCL_TRACE_OPS operations, as a Chrome trace (JSON, microseconds; chrome://tracing, Perfetto): a
 * process a rank, a track a block, on it each operation with its waits. path: %r is the rank, %p the process id, %w 16 digits that name the
 * communicator, %% a percent sign; an existing file is replaced. Local. Waits for the operations enqueued on comm; graphs that replay
 * operations of comm must have ended. The trace goes on. Not while a stream of this thread is being captured. cclInvalidUsage: comm records
 * no trace. cclSystemError: the file cannot be written, with its name and the reason. */
CCL_API cclResult_t cclTraceExport(cclComm_t comm, const char *path);

/* ---- portable helpers: the same program runs on every backend ---- */

/* Name of the backend in use ("host", "gpu", "emu:gfx942"); never NULL. Chosen by CCL_BACKEND. */
CCL_API const char *cclBackendName(void);
CCL_API cclResult_t cclDeviceCount(int *count);
CCL_API cclResult_t cclSetDevice(int device);
CCL_API cclResult_t cclGetDevice(int *device);
/* Owned by the caller. A stream runs its operations in order. Destroy waits for them. */
CCL_API cclResult_t cclStreamCreate(cclStream_t *stream);
CCL_API cclResult_t cclStreamDestroy(cclStream_t stream);
/* Wait until the stream has drained. Returns the first error of an operation since the last synchronisation. */
CCL_API cclResult_t cclStreamSynchronize(cclStream_t stream);
/* cclSuccess when drained, cclInProgress otherwise. */
CCL_API cclResult_t cclStreamQuery(cclStream_t stream);
/* Later work of stream starts after event has happened (an event never recorded has). */
CCL_API cclResult_t cclStreamWaitEvent(cclStream_t stream, cclEvent_t event);
CCL_API cclResult_t cclEventCreate(cclEvent_t *event);
CCL_API cclResult_t cclEventDestroy(cclEvent_t event);
CCL_API cclResult_t cclEventRecord(cclEvent_t event, cclStream_t stream);
CCL_API cclResult_t cclEventSynchronize(cclEvent_t event);
/* Milliseconds between two recorded events that have happened. cclInvalidUsage otherwise. */
CCL_API cclResult_t cclEventElapsed(float *ms, cclEvent_t start, cclEvent_t end);
/* What is enqueued to stream from here to cclGraphEnd is captured instead of run: collectives, copies, fills, and what other streams do behind an
 * event recorded in stream, if they are joined to it again by an event before the end. Capturing with the GPU runtime's own calls, in any
 * mode, is fine as well. Every launch of a graph counts as a call of its collectives, so all ranks launch their graphs in the same order
 * among their other calls. A communicator's operations stay in order, whatever streams and graphs they come from. thread_local_mode 0: until the end
 * no thread may make a GPU call that a capture forbids (allocate, wait); otherwise just the calling thread may not. End in the same thread.
 * cclInvalidUsage: the backend has no graphs (named; so it is on the host), or stream is the default stream. */
CCL_API cclResult_t cclGraphBegin(cclStream_t stream, int thread_local_mode);
/* *graph: owned by the caller. On failure the capture has ended, nothing is left of it. */
CCL_API cclResult_t cclGraphEnd(cclStream_t stream, cclGraph_t *graph);
/* Enqueue to stream, any that is not being captured. Two launches of one graph never overlap. Errors of its collectives are returned by
 * cclCommGetAsyncError, and by the synchronisation of the streams they were captured in. Not after a communicator in it was destroyed. */
CCL_API cclResult_t cclGraphLaunch(cclGraph_t graph, cclStream_t stream);
/* Local; before or after the communicators in it are destroyed. A launch under way ends as usual. NULL is fine. */
CCL_API cclResult_t cclGraphDestroy(cclGraph_t graph);
/* On the current device. bytes > 0; zeroed; aligned to 4096 bytes on the host backend, to 256 on a GPU. cclSystemError: out of memory. */
CCL_API cclResult_t cclDeviceMalloc(void **ptr, size_t bytes);
/* NULL is fine. cclInvalidArgument: not the start of an allocation. */
CCL_API cclResult_t cclDeviceFree(void *ptr);
/* dst and src: host or device memory, not overlapping, borrowed until the stream has passed the copy. */
CCL_API cclResult_t cclMemcpyAsync(void *dst, const void *src, size_t bytes, cclStream_t stream);
CCL_API cclResult_t cclMemsetAsync(void *dst, int byte, size_t bytes, cclStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
