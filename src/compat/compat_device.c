/* SPDX-License-Identifier: MIT
 *
 * What is out of scope, so that programs which name it load, and hear "no" when they call it: device communicators (their structs are NVIDIA's
 * private layout, another one in each version, which kernels of the program would read), one-sided operations, suspending, growing. The teams are
 * plain numbers and are answered. Declared here and not in nccl.h, which has no types for them; a pointer stands for every struct. */
#include "compat.h"

static ncclResult_t refuse(const char *func, const char *what)
{
    return ccl_compat_note(ccl_error_set(ncclInvalidUsage, CCL_INIT, "%s: libccl has no %s of NCCL", func, what));
}

/* Their arguments are not looked at, so none are declared: in every C calling convention here the caller cleans up. */
#define STUB(name, what)                   \
    ncclResult_t name(void);               \
    ncclResult_t name(void)                \
    {                                      \
        return refuse(#name, what);        \
    }                                      \
    CCL_COMPAT_ALIAS(name)

/* ---- NCCL 2.28 ---- */

struct team {
    int n, rank, stride;
};

/* The ranks of a node, all of which reach each other's memory; the ranks at the same place in all nodes, of which there is one. */
static struct team world(ncclComm_t comm)
{
    bool is_one = ccl_compat_check_object(comm, "ncclTeamWorld") == ncclSuccess;
    return is_one ? (struct team){comm->n, comm->rank, 1} : (struct team){0, 0, 0};
}

struct team ncclTeamWorld(ncclComm_t comm);
struct team ncclTeamWorld(ncclComm_t comm)
{
    return world(comm);
}
CCL_COMPAT_ALIAS(ncclTeamWorld);

struct team ncclTeamLsa(ncclComm_t comm);
struct team ncclTeamLsa(ncclComm_t comm)
{
    return world(comm);
}
CCL_COMPAT_ALIAS(ncclTeamLsa);

struct team ncclTeamRail(ncclComm_t comm);
struct team ncclTeamRail(ncclComm_t comm)
{
    struct team w = world(comm);
    return w.n > 0 ? (struct team){1, 0, w.n} : w;
}
CCL_COMPAT_ALIAS(ncclTeamRail);

int ncclTeamRankToWorld(ncclComm_t comm, struct team team, int rank);
int ncclTeamRankToWorld(ncclComm_t comm, struct team team, int rank)
{
    return world(comm).rank + (rank - team.rank) * team.stride;
}
CCL_COMPAT_ALIAS(ncclTeamRankToWorld);

int ncclTeamRankToLsa(ncclComm_t comm, struct team team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, struct team team, int rank)
{
    return ncclTeamRankToWorld(comm, team, rank);
}
CCL_COMPAT_ALIAS(ncclTeamRankToLsa);

STUB(ncclDevCommCreate, "device communicators");
STUB(ncclDevCommDestroy, "device communicators");
STUB(ncclLsaBarrierCreateRequirement, "device communicators");
STUB(ncclGinBarrierCreateRequirement, "device communicators");
STUB(ncclLLA2ACreateRequirement, "device communicators");

int ncclLLA2ACalcSlots(int maxElts, int maxEltSize);
int ncclLLA2ACalcSlots(int maxElts, int maxEltSize)
{
    (void)maxElts, (void)maxEltSize;
    return 0;
}
CCL_COMPAT_ALIAS(ncclLLA2ACalcSlots);

/* ---- NCCL 2.29: programs built with its header must load ---- */

STUB(ncclCommQueryProperties, "device communicators");
STUB(ncclGetLsaDevicePointer, "device communicators");
STUB(ncclGetPeerDevicePointer, "device communicators");
STUB(ncclGetLsaMultimemDevicePointer, "device communicators");
STUB(ncclGetMultimemDevicePointer, "device communicators");
STUB(ncclPutSignal, "one-sided operations");
STUB(ncclSignal, "one-sided operations");
STUB(ncclWaitSignal, "one-sided operations");
STUB(ncclCommGrow, "growing communicators");
STUB(ncclCommGetUniqueId, "growing communicators");
STUB(ncclCommSuspend, "suspending");
STUB(ncclCommResume, "suspending");
STUB(ncclCommMemStats, "memory statistics");
