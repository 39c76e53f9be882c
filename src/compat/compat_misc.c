/* SPDX-License-Identifier: MIT
 *
 * Version, error texts, logging. */
#include "compat.h"

#include <pthread.h>

#include "util/config.h"

/* NCCL's own wording: programs and people search for it. */
static const char *const texts[ncclNumResults] = {
    "no error",
    "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
    "unhandled system error (run with NCCL_DEBUG=INFO for details)",
    "internal error - please report this issue to the NCCL developers",
    "invalid argument (run with NCCL_DEBUG=WARN for details)",
    "invalid usage (run with NCCL_DEBUG=WARN for details)",
    "remote process exited or there was a network error",
    "NCCL operation in progress",
};

ncclResult_t ncclGetVersion(int *version)
{
    CCL_COMPAT_CHECK(version != NULL, ncclInvalidArgument, "ncclGetVersion: version is NULL");
    *version = ccl_compat_version;
    return ncclSuccess;
}
CCL_COMPAT_ALIAS(ncclGetVersion);

const char *ncclGetErrorString(ncclResult_t result)
{
    if ((int)result == 8) {
        return "timeout"; /* of NCCL 2.30 and later; never returned here */
    }
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}
CCL_COMPAT_ALIAS(ncclGetErrorString);

/* Of the process, not of comm or the thread: so it is in NCCL, where a watchdog prints what another thread met. */
const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return ccl_error_last_of_process();
}
CCL_COMPAT_ALIAS(ncclGetLastError);

static void print_version(void)
{
    if (ccl_log_prints_version()) {
        ccl_log_write(CCL_LOG_INFO, CCL_INIT, "NCCL version %d.%d.%d+libccl%d.%d.%d (%s)", ccl_compat_version / 10000, ccl_compat_version % 10000 / 100,
                      ccl_compat_version % 100, CCL_VERSION_MAJOR, CCL_VERSION_MINOR, CCL_VERSION_PATCH, ccl_compat_name);
    }
}

void ccl_compat_tell_version(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, print_version);
}

/* The environment is read once, and stays. */
void ncclResetDebugInit(void)
{
}
CCL_COMPAT_ALIAS(ncclResetDebugInit);

void ncclResetDebugInitInternal(void);
void ncclResetDebugInitInternal(void)
{
}
