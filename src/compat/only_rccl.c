/* SPDX-License-Identifier: MIT
 *
 * What makes the shim librccl.so.1: the version of ROCm 7.2, and what RCCL has beside NCCL. */
#include "compat.h"

const int ccl_compat_version = 22707;
const char *const ccl_compat_name = "librccl.so.1";

/* PyTorch for ROCm calls the spellings with a capital T. */
ncclResult_t ncclAllToAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return ncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream);
}
CCL_COMPAT_ALIAS(ncclAllToAll);

ncclResult_t ncclAlltoAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[], void *recvbuff, const size_t recvcounts[],
                           const size_t rdispls[], ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    CCL_COMPAT_TRY(ccl_compat_check(comm, "ncclAlltoAllv"));
    return ccl_compat_result(cclAllToAllv(sendbuff, sendcounts, sdispls, recvbuff, recvcounts, rdispls, (cclDataType_t)datatype, comm->ccl,
                                          (cclStream_t)stream));
}
CCL_COMPAT_ALIAS(ncclAlltoAllv);

ncclResult_t ncclAllToAllv(const void *sendbuff, const size_t sendcounts[], const size_t sdispls[], void *recvbuff, const size_t recvcounts[],
                           const size_t rdispls[], ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream)
{
    return ncclAlltoAllv(sendbuff, sendcounts, sdispls, recvbuff, recvcounts, rdispls, datatype, comm, stream);
}
CCL_COMPAT_ALIAS(ncclAllToAllv);

/* As in compat_device.c: named by programs, not there. RCCL itself has dropped MSCCL. */
#define STUB(name)                                                                                                \
    ncclResult_t name(void);                                                                                      \
    ncclResult_t name(void)                                                                                       \
    {                                                                                                             \
        return ccl_compat_note(ccl_error_set(ncclInvalidUsage, CCL_INIT, "%s: libccl has no such call", #name)); \
    }                                                                                                             \
    CCL_COMPAT_ALIAS(name)

STUB(ncclAllReduceWithBias);
STUB(mscclLoadAlgo);
STUB(mscclRunAlgo);
STUB(mscclUnloadAlgo);

/* ncclCommDump(ncclComm_t, std::unordered_map<std::string, std::string> &): a C++ function, which PyTorch for ROCm calls. There is nothing to add to
 * the map. */
ncclResult_t ccl_compat_comm_dump(ncclComm_t comm, void *map)
    __asm__("_Z12ncclCommDumpP8ncclCommRSt13unordered_mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES7_St4hashIS7_ESt8equal_toIS7_"
            "ESaISt4pairIKS7_S7_EEE");
ncclResult_t ccl_compat_comm_dump(ncclComm_t comm, void *map)
{
    (void)map;
    return ccl_compat_check_object(comm, "ncclCommDump");
}
