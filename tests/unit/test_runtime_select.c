/* SPDX-License-Identifier: MIT
 *
 * Proves that every value of CCL_BACKEND selects the host backend or fails with the promised code and a text that names
 * it (gpu: where no device can be used), that an incomplete table is refused, and that the members without a stream check their arguments. */
/* CTEST: labels quick; env CCL_BACKEND=host */
#include <string.h>

#include "runtime/runtime_select.h"
#include "test.h"
#include "util/log.h"

static void check_backend(const char *backend, cclResult_t want)
{
    const struct ccl_runtime_ops *ops = NULL;
    cclResult_t rc = ccl_runtime_select(backend, &ops);
    TEST_EQ(rc, want);
    TEST_CHECK((ops != NULL) == (want == cclSuccess));
    if (want != cclSuccess && strstr(ccl_error_last(), backend) == NULL) {
        TEST_FAIL("the error text does not name %s: %s", backend, ccl_error_last());
    }
}

static void check_incomplete(void)
{
    struct ccl_runtime_ops broken = ccl_runtime_host;
    TEST_EQ(ccl_runtime_check(&broken), cclSuccess);
    TEST_EQ(ccl_runtime_check(&ccl_runtime_gpu), cclSuccess);
    broken.launch = NULL;
    TEST_EQ(ccl_runtime_check(&broken), cclInternalError);
    broken = ccl_runtime_host;
    broken.init = NULL;
    TEST_EQ(ccl_runtime_check(&broken), cclInternalError);
    broken = ccl_runtime_host;
    broken.event_sync = NULL;
    TEST_EQ(ccl_runtime_check(&broken), cclInternalError);
}

static void check_device(const struct ccl_runtime_ops *ops)
{
    struct ccl_device_props props, again;
    int count = 0, device = -1, blocks = 0;
    uint64_t id = 1;
    TEST_EQ(ops->device_count(&count), cclSuccess);
    TEST_EQ(count, 1);
    TEST_EQ(ops->device_set(0), cclSuccess);
    TEST_EQ(ops->device_set(1), cclInvalidArgument);
    TEST_EQ(ops->device_set(-1), cclInvalidArgument);
    TEST_EQ(ops->device_get(&device), cclSuccess);
    TEST_EQ(device, 0);
    TEST_EQ(ops->device_props(0, &props), cclSuccess);
    TEST_EQ(ops->device_props(0, &again), cclSuccess);
    TEST_EQ(ops->device_props(1, &again), cclInvalidArgument);
    printf("device: %s, %s, %d cores, uid %016llx\n", props.name, props.arch, props.units,
           (unsigned long long)props.uid);
    TEST_CHECK(props.name[0] != '\0' && props.uid != 0 && props.uid == again.uid);
    TEST_CHECK(props.units >= 1 && props.max_blocks >= 1 && props.is_host);
    TEST_EQ(props.flag_stride, 64);
    TEST_EQ(ops->max_resident(CCL_KERNEL_barrier, 1, 0, &blocks), cclSuccess);
    TEST_EQ(blocks, props.max_blocks);
    TEST_EQ(ops->max_resident(CCL_NUM_HOST_KERNELS, 1, 0, &blocks), cclInvalidArgument);
    TEST_EQ(ops->max_resident(CCL_KERNEL_ll_words_2, 1, 0, &blocks), cclInvalidArgument);
    TEST_EQ(ops->max_resident(CCL_KERNEL_barrier, 256, 0, &blocks), cclInvalidArgument);
    TEST_EQ(ops->capture_query(NULL, &id), cclSuccess);
    TEST_EQ(id, 0);
}

static void check_bad_arguments(const struct ccl_runtime_ops *ops)
{
    static char word[8];
    void *dev = NULL;
    struct ccl_launch launch = {.kernel = CCL_NUM_HOST_KERNELS, .grid = 1, .threads = 1};
    TEST_EQ(ops->launch(NULL, &launch), cclInvalidArgument);
    launch.kernel = CCL_KERNEL_ll_words_2; /* of GPUs only */
    TEST_EQ(ops->launch(NULL, &launch), cclInvalidArgument);
    launch.kernel = CCL_KERNEL_barrier;
    launch.grid = 0;
    TEST_EQ(ops->launch(NULL, &launch), cclInvalidArgument);
    launch.grid = 1;
    launch.threads = 64;
    TEST_EQ(ops->launch(NULL, &launch), cclInvalidArgument);
    launch.threads = 1;
    launch.args = word;
    launch.args_bytes = 1 << 20;
    TEST_EQ(ops->launch(NULL, &launch), cclInvalidArgument);
    TEST_EQ(ops->copy(NULL, word, 1, NULL), cclInvalidArgument);
    TEST_EQ(ops->copy(word, NULL, 1, NULL), cclInvalidArgument);
    TEST_EQ(ops->copy(NULL, NULL, 0, NULL), cclSuccess);
    TEST_EQ(ops->fill(NULL, 0, 1, NULL), cclInvalidArgument);
    TEST_EQ(ops->event_record(NULL, NULL), cclInvalidArgument);
    TEST_EQ(ops->event_wait(NULL, NULL), cclInvalidArgument);
    TEST_EQ(ops->event_sync(NULL), cclInvalidArgument);
    TEST_EQ(ops->event_destroy(NULL), cclSuccess);
    TEST_EQ(ops->stream_destroy(NULL), cclSuccess);
    TEST_EQ(ops->host_register(NULL, 8, &dev), cclInvalidArgument);
    TEST_EQ(ops->host_register(word, 8, &dev), cclSuccess);
    TEST_CHECK(dev == word);
    TEST_EQ(ops->host_unregister(word), cclSuccess);
}

/* The default stream serves NULL. */
static void check_copy_fill(const struct ccl_runtime_ops *ops)
{
    unsigned char from[100], to[102];
    memset(from, 7, sizeof(from));
    memset(to, 0, sizeof(to));
    TEST_EQ(ops->copy(to + 1, from, 100, NULL), cclSuccess);
    TEST_EQ(ops->fill(to + 51, 0x1ff, 50, NULL), cclSuccess);
    TEST_EQ(ops->stream_sync(NULL), cclSuccess);
    for (int i = 0; i < 102; i++) {
        TEST_EQ(to[i], i == 0 || i == 101 ? 0 : i <= 50 ? 7 : 0xff);
    }
    TEST_EQ(ops->stream_query(NULL), cclSuccess);
}

int main(void)
{
    const struct ccl_runtime_ops *ops = NULL, *again = NULL;
    const char *no_gpu = ccl_gpu_unusable(true);
    printf("gpu backend: %s\n", no_gpu != NULL ? no_gpu : "usable");
    check_backend("auto", cclSuccess);
    TEST_EQ(ccl_runtime_select("auto", &ops), cclSuccess);
    TEST_CHECK(ops == (no_gpu != NULL ? &ccl_runtime_host : &ccl_runtime_gpu));
    check_backend("host", cclSuccess);
    check_backend("gpu", no_gpu != NULL ? cclInvalidUsage : cclSuccess);
    check_backend("emu:gfx942", cclInvalidUsage); /* no libccl_emu.so beside this program, or no code object */
    check_backend("emu:gfx900", cclInvalidArgument);
    check_backend("emu:gfx9422", cclInvalidArgument);
    check_backend("emu:", cclInvalidArgument);
    check_backend("hosts", cclInvalidArgument);
    check_backend("Host", cclInvalidArgument);
    check_incomplete();
    TEST_EQ(ccl_runtime_get(&ops), cclSuccess);
    TEST_EQ(ccl_runtime_get(&again), cclSuccess);
    TEST_CHECK(ops == again && ops == &ccl_runtime_host && strcmp(ops->name, "host") == 0);
    check_device(ops);
    check_bad_arguments(ops);
    check_copy_fill(ops);
    return test_result();
}
