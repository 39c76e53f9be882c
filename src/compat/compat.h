/* SPDX-License-Identifier: MIT
 *
 * The NCCL shim: nccl* names over libccl. A ncclComm is a small object around a cclComm_t, with what NCCL has beside it: the state of non-blocking calls,
 * windows, revocation. Rules for all of it:
 *  - codes of libccl and NCCL are equal, 0 to 7; nothing ever returns 8, which programs built before NCCL 2.30 cannot convert;
 *  - the first function that sees an error sets the error text (util/log.h), which ncclGetLastError returns for the whole process;
 *  - an error inside a group is noted, so that ncclGroupEnd returns it and drops the group. */
#ifndef CCL_COMPAT_COMPAT_H
#define CCL_COMPAT_COMPAT_H

#include "comm/bridge.h"
#include "compat/nccl.h"
#include "util/base.h"
#include "util/log.h"

/* Every nccl function has a second name, so that a profiler can take the first. */
#define CCL_COMPAT_ALIAS(name) extern __typeof__(name) p##name __attribute__((alias(#name)))

/* What a configuration says once it is read: NCCL 2.28's layout, every field set. */
struct ccl_compat_config {
    size_t size;
    unsigned magic, version;
    int blocking;
    int cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share, traffic_class;
    const char *comm_name;
    int collnet_enable, cta_policy, shrink_share, nvls_ctas;
    int channels_per_net_peer, nvlink_centric_sched;
};

struct ccl_compat_window {
    struct ccl_compat_window *next;
    void *buff, *handle; /* handle: of the registration */
};

#define CCL_COMPAT_MAGIC 0x6e63636cu

struct ncclComm {
    uint32_t magic;
    int state; /* atomic: ncclInProgress while a call runs in the background, else ncclSuccess or the error of such a call */
    cclComm_t ccl; /* NULL until the init has succeeded */
    int n, rank, device;
    struct ccl_compat_config config;
    bool revoked;
    bool cancel; /* atomic: the init, split or finalize that waits for other ranks shall give up */
    /* under the list's lock */
    bool closing; /* a thread destroys or aborts it, and only that one frees it */
    bool orphan;  /* aborted while a call ran in the background, which frees it at its end */
    int running;  /* jobs not finished */
    struct ccl_compat_window *windows;
    struct ncclComm *next;
    uint32_t end_magic; /* NCCL looks at both ends, too: a half overwritten object is found */
};

/* ---- compat_config.c ---- */

/* user NULL: parent's, or the defaults. cclInvalidArgument: no magic, or a value out of range, named. */
ncclResult_t ccl_compat_read_config(const ncclConfig_t *user, const struct ccl_compat_config *parent, const char *func, struct ccl_compat_config *out);

/* ---- compat_comm.c: the communicators of this process ---- */

cclResult_t ccl_compat_new(int n, int rank, const struct ccl_compat_config *config, ncclComm_t *out);
/* Nobody knows of it. */
void ccl_compat_free(ncclComm_t comm);
/* Its init has failed. Freed, unless a thread has claimed it, which then frees it. */
void ccl_compat_drop(ncclComm_t comm);
void ccl_compat_begin(ncclComm_t comm);
/* A call in the background has ended with rc; may free comm. */
void ccl_compat_end(ncclComm_t comm, ncclResult_t rc);

ncclResult_t ccl_compat_check_object(ncclComm_t comm, const char *func);
/* comm may be used: it is one, nothing runs in the background, nothing has failed. */
ncclResult_t ccl_compat_check_slow(ncclComm_t comm, const char *func);

/* ---- compat_group.c ---- */

/* A call that is not an enqueue: it makes, splits or ends a communicator. */
struct ccl_compat_job {
    struct ccl_compat_job *next;
    ncclResult_t (*run)(struct ccl_compat_job *job);
    ncclComm_t comm;  /* whose state shows it: the new one of an init, the parent of a split. Jobs of one run one after the other */
    ncclComm_t child; /* made by it, or NULL */
    ncclComm_t *out;  /* where the program wants comm or child */
    bool early_out;   /* *out holds the communicator from the call on */
    bool after;       /* in a group: behind its operations, not before them */
    bool ran;
    int device;
    ncclResult_t rc;
    union {
        struct {
            cclUniqueId id;
        } init;
        struct {
            int color, key;
        } split;
        struct {
            int *ranks, count;
            bool abort;
        } shrink;
    } u;
};

/* A call on comm joins the open group, if any. ncclInvalidArgument: the group has blocking and non-blocking communicators. */
ncclResult_t ccl_compat_join(ncclComm_t comm, const char *func);
bool ccl_compat_grouped(void);
/* Run the job now, at the end of the group, or in the background, as its communicator and the group want it. Takes job. */
ncclResult_t ccl_compat_submit(struct ccl_compat_job *job);
/* Destroy comm, which is claimed, when the group has ended. */
ncclResult_t ccl_compat_destroy_later(ncclComm_t comm);
/* compat_comm.c: what runs then. */
ncclResult_t ccl_compat_destroy_now(ncclComm_t comm);

/* ---- shared by the files with the nccl functions ---- */

static inline ncclResult_t ccl_compat_result(cclResult_t rc)
{
    return (unsigned)rc < ncclNumResults ? (ncclResult_t)rc : ncclInternalError;
}

static inline ncclResult_t ccl_compat_note(ncclResult_t rc)
{
    if (CCL_UNLIKELY(rc != ncclSuccess && rc != ncclInProgress)) {
        ccl_group_note((cclResult_t)rc);
    }
    return rc;
}

#define CCL_COMPAT_TRY(call)                            \
    do {                                                \
        ncclResult_t try_rc_ = (call);                  \
        if (CCL_UNLIKELY(try_rc_ != ncclSuccess)) {     \
            return try_rc_;                             \
        }                                               \
    } while (0)

/* First detector: set the error text, return. */
#define CCL_COMPAT_CHECK(cond, code, ...)                                \
    do {                                                                 \
        if (CCL_UNLIKELY(!(cond))) {                                     \
            return ccl_error_set(code, CCL_INIT, __VA_ARGS__);           \
        }                                                                \
    } while (0)

/* The way of every collective: a few loads when all is well. */
static inline ncclResult_t ccl_compat_check(ncclComm_t comm, const char *func)
{
    if (CCL_LIKELY(comm != NULL && comm->magic == CCL_COMPAT_MAGIC && comm->end_magic == CCL_COMPAT_MAGIC &&
                   __atomic_load_n(&comm->state, __ATOMIC_ACQUIRE) == ncclSuccess && !comm->revoked && comm->ccl != NULL)) {
        cclResult_t failed = cclSuccess;
        if (CCL_LIKELY(cclCommGetAsyncError(comm->ccl, &failed) == cclSuccess && failed == cclSuccess)) {
            return ccl_compat_join(comm, func);
        }
    }
    return ccl_compat_check_slow(comm, func);
}

/* only_nccl.c, only_rccl.c: what ncclGetVersion says, and the library's name. */
extern const int ccl_compat_version;
extern const char *const ccl_compat_name;
/* compat_misc.c: NCCL_DEBUG=VERSION and more print a line, once. */
void ccl_compat_tell_version(void);

#endif
