/* SPDX-License-Identifier: MIT
 *
 * The API of NCCL as libnccl.so.2 and librccl.so.1 of this project have it, for programs that are built where neither NCCL nor RCCL is installed.
 * Types, values and layouts are those of the originals, so objects built with this header and with theirs mix. What each call does
 * is said in docs/compat.md.
 *
 * The header states version 2.27.7 (the last one that needs no device header beside it) and its ncclConfig_t; functions of 2.28 are declared as well.
 * It needs no GPU header. A stream is an opaque pointer: cudaStream_t, with rccl/rccl.h hipStream_t, of the GPU runtime in use; on libccl's host backend
 * a cclStream_t, cast. NULL is the default stream everywhere.
 */
#ifndef CCL_COMPAT_NCCL_H
#define CCL_COMPAT_NCCL_H
/* The originals' guards: whoever has included one of those needs nothing from here. */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 27
#define NCCL_PATCH 7
#define NCCL_SUFFIX ""
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)

/* As the GPU runtimes declare them, which C11 and C++ allow to be repeated. */
#ifdef CCL_COMPAT_HIP
typedef struct ihipStream_t *hipStream_t;
#define NCCL_STREAM_T hipStream_t
#else
typedef struct CUstream_st *cudaStream_t;
#define NCCL_STREAM_T cudaStream_t
#endif

/* ---- types ---- */

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
    ncclNumResults = 8
} ncclResult_t;

typedef enum {
    ncclInt8 = 0,
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
    ncclNumOps = 5, /* values from here are operations made by ncclRedOpCreatePreMulSum */
    ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00

typedef struct ncclConfig_v22700 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                             \
    {                                                                                                       \
        sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,   \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT,     \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,     \
            NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                                                    \
    }

typedef struct ncclSimInfo_v22200 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER \
    { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

/* ---- functions; each exists as pnccl... too ---- */

#define CCL_COMPAT_DECLARE(type, name, args) \
    type name args;                          \
    type p##name args

CCL_COMPAT_DECLARE(ncclResult_t, ncclGetVersion, (int *version));
CCL_COMPAT_DECLARE(ncclResult_t, ncclGetUniqueId, (ncclUniqueId *uniqueId));
CCL_COMPAT_DECLARE(const char *, ncclGetErrorString, (ncclResult_t result));
CCL_COMPAT_DECLARE(const char *, ncclGetLastError, (ncclComm_t comm));
CCL_COMPAT_DECLARE(void, ncclResetDebugInit, (void));

CCL_COMPAT_DECLARE(ncclResult_t, ncclCommInitRank, (ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommInitRankConfig, (ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommInitRankScalable,
                   (ncclComm_t *newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds, ncclConfig_t *config));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommInitAll, (ncclComm_t *comm, int ndev, const int *devlist));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommShrink,
                   (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommFinalize, (ncclComm_t comm));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommDestroy, (ncclComm_t comm));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommAbort, (ncclComm_t comm));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank));

CCL_COMPAT_DECLARE(ncclResult_t, ncclMemAlloc, (void **ptr, size_t size));
CCL_COMPAT_DECLARE(ncclResult_t, ncclMemFree, (void *ptr));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void *buff, size_t size, void **handle));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommWindowRegister, (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags));
CCL_COMPAT_DECLARE(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win));

CCL_COMPAT_DECLARE(ncclResult_t, ncclRedOpCreatePreMulSum,
                   (ncclRedOp_t *op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm));
CCL_COMPAT_DECLARE(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));

CCL_COMPAT_DECLARE(ncclResult_t, ncclReduce,
                   (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                    NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclBcast, (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclBroadcast,
                   (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclAllReduce,
                   (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                    NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclReduceScatter,
                   (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                    NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclAllGather,
                   (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm, NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclSend,
                   (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclRecv, (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclAlltoAll,
                   (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm, NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclGather,
                   (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclScatter,
                   (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, NCCL_STREAM_T stream));

CCL_COMPAT_DECLARE(ncclResult_t, ncclGroupStart, (void));
CCL_COMPAT_DECLARE(ncclResult_t, ncclGroupEnd, (void));
CCL_COMPAT_DECLARE(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t *simInfo));

/* RCCL's own; in librccl.so.1 only. The spellings with a capital T are the older ones. */
CCL_COMPAT_DECLARE(ncclResult_t, ncclAllToAll,
                   (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm, NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclAllToAllv,
                   (const void *sendbuff, const size_t sendcounts[], const size_t sdispls[], void *recvbuff, const size_t recvcounts[],
                    const size_t rdispls[], ncclDataType_t datatype, ncclComm_t comm, NCCL_STREAM_T stream));
CCL_COMPAT_DECLARE(ncclResult_t, ncclAlltoAllv,
                   (const void *sendbuff, const size_t sendcounts[], const size_t sdispls[], void *recvbuff, const size_t recvcounts[],
                    const size_t rdispls[], ncclDataType_t datatype, ncclComm_t comm, NCCL_STREAM_T stream));

#undef CCL_COMPAT_DECLARE

#ifdef __cplusplus
}
#endif
#endif
#endif
