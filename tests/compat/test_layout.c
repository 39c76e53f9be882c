/* SPDX-License-Identifier: MIT
 *
 * Proves that nccl.h has NCCL's layouts and values, that the libraries answer with the version they stand for, and NCCL's error texts. */
/* CTEST: labels quick */
#include <dlfcn.h>
#include <string.h>

#include "nccl.h"
#include "test.h"

_Static_assert(sizeof(ncclUniqueId) == 128 && _Alignof(ncclUniqueId) == 1, "ncclUniqueId");
_Static_assert(sizeof(ncclConfig_t) == 72, "ncclConfig_t of 2.27");
_Static_assert(offsetof(ncclConfig_t, magic) == 8 && offsetof(ncclConfig_t, version) == 12 && offsetof(ncclConfig_t, blocking) == 16 &&
                   offsetof(ncclConfig_t, cgaClusterSize) == 20 && offsetof(ncclConfig_t, minCTAs) == 24 && offsetof(ncclConfig_t, maxCTAs) == 28 &&
                   offsetof(ncclConfig_t, netName) == 32 && offsetof(ncclConfig_t, splitShare) == 40 && offsetof(ncclConfig_t, trafficClass) == 44 &&
                   offsetof(ncclConfig_t, commName) == 48 && offsetof(ncclConfig_t, collnetEnable) == 56 && offsetof(ncclConfig_t, CTAPolicy) == 60 &&
                   offsetof(ncclConfig_t, shrinkShare) == 64 && offsetof(ncclConfig_t, nvlsCTAs) == 68,
               "ncclConfig_t");
_Static_assert(sizeof(ncclSimInfo_t) == 24 && offsetof(ncclSimInfo_t, estimatedTime) == 16, "ncclSimInfo_t");
_Static_assert(ncclRemoteError == 6 && ncclInProgress == 7 && ncclNumResults == 8, "ncclResult_t");
_Static_assert(ncclUint8 == 1 && ncclInt32 == 2 && ncclUint64 == 5 && ncclFloat16 == 6 && ncclFloat64 == 8 && ncclBfloat16 == 9 &&
                   ncclFloat8e4m3 == 10 && ncclFloat8e5m2 == 11 && ncclNumTypes == 12,
               "ncclDataType_t");
_Static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4 && ncclNumOps == 5 && sizeof(ncclRedOp_t) == 4,
               "ncclRedOp_t");
_Static_assert(NCCL_VERSION(2, 8, 3) == 2803 && NCCL_VERSION(2, 28, 9) == 22809, "NCCL_VERSION");

static void test_texts(void)
{
    static const char *const want[] = {"no error",
                                       "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                       "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                       "internal error - please report this issue to the NCCL developers",
                                       "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                       "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                       "remote process exited or there was a network error",
                                       "NCCL operation in progress",
                                       "timeout",
                                       "unknown result code"};
    for (int i = 0; i < 10; i++) {
        const char *got = ncclGetErrorString((ncclResult_t)i);
        if (strcmp(got, want[i]) != 0) {
            TEST_FAIL("text of %d is \"%s\", want \"%s\"", i, got, want[i]);
        }
    }
    TEST_CHECK(strcmp(ncclGetErrorString((ncclResult_t)-1), "unknown result code") == 0);
    TEST_CHECK(strcmp(ncclGetLastError(NULL), "") == 0);
    TEST_EQ(ncclGetVersion(NULL), ncclInvalidArgument);
    TEST_CHECK(strcmp(ncclGetLastError(NULL), "") != 0);
}

static void test_rccl(void)
{
    int version = 0;
    ncclResult_t (*get_version)(int *);
    void *lib = dlopen("librccl.so.1", RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL) {
        TEST_FAIL("%s", dlerror());
        return;
    }
    *(void **)&get_version = dlsym(lib, "ncclGetVersion");
    TEST_EQ(get_version(&version), ncclSuccess);
    TEST_EQ(version, 22707);
    dlclose(lib);
    /* It stays in memory, with its threads if it has any, and works on. */
    TEST_EQ(get_version(&version), ncclSuccess);
}

int main(void)
{
    int version = 0;
    test_texts();
    TEST_EQ(ncclGetVersion(&version), ncclSuccess);
    TEST_EQ(version, 22809);
    TEST_EQ(pncclGetVersion(&version), ncclSuccess);
    test_rccl();
    return test_result();
}
