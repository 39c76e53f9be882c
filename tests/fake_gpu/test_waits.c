/* SPDX-License-Identifier: MIT
 *
 * Proves that the work is over when a wait returns, also when the wait failed: what was used may then be freed. */
#include "fake_test.h"
#include "runtime/runtime.h"

#define CODE 719 /* nothing the backend treats specially */
#define BYTES ((size_t)64 << 20)
#define FILLS 8

static const struct fake_control *fake;

enum wait { WAIT_STREAM, WAIT_EVENT, WAIT_CHAIN, WAIT_DESTROY, NUM_WAITS };
static const char *const wait_names[NUM_WAITS] = {"stream_sync", "event_sync", "chain_sync", "stream_destroy"};

static bool is_event(enum wait wait)
{
    return wait == WAIT_EVENT || wait == WAIT_CHAIN;
}

static int wait_fails(const void *arg)
{
    const enum wait wait = *(const enum wait *)arg;
    const bool cuda = strcmp(getenv("FAKE_GPU"), "cuda") == 0;
    const struct ccl_runtime_ops *rt;
    struct cclStream *stream;
    struct cclEvent *event;
    struct ccl_chain *chain;
    unsigned char *data;
    if (ccl_runtime_get(&rt) != cclSuccess || rt->stream_create(&stream) != cclSuccess || rt->event_create(&event) != cclSuccess ||
        rt->chain_create(&chain) != cclSuccess || rt->mem_alloc(CCL_MEM_DATA, BYTES, (void **)&data) != cclSuccess) {
        TEST_FAIL("%s: %s", wait_names[wait], ccl_error_last());
        return test_result();
    }
    fake->reset();
    fake->fail(is_event(wait) ? (cuda ? "cuEventSynchronize" : "hipEventSynchronize") : (cuda ? "cuStreamSynchronize" : "hipStreamSynchronize"), 1,
               CODE);
    TEST_EQ(rt->chain_before(chain, stream), cclSuccess);
    for (int i = 1; i <= FILLS; i++) {
        TEST_EQ(rt->fill(data, i, BYTES, stream), cclSuccess);
    }
    TEST_EQ(rt->chain_after(chain, stream), cclSuccess);
    TEST_EQ(rt->event_record(event, stream), cclSuccess);
    TEST_EQ(rt->stream_query(stream), cclInProgress); /* else nothing is proved */
    cclResult_t rc = wait == WAIT_STREAM  ? rt->stream_sync(stream)
                     : wait == WAIT_EVENT ? rt->event_sync(event)
                     : wait == WAIT_CHAIN ? rt->chain_sync(chain)
                                          : rt->stream_destroy(stream);
    TEST_EQ(rc, cclUnhandledDeviceError);
    if (data[BYTES - 1] != FILLS) {
        TEST_FAIL("%s: returned when %d of %d fills had ended", wait_names[wait], data[BYTES - 1], FILLS);
    }
    fake->settle();
    return test_result();
}

/* The zeroing of a new allocation that is given back, with its addresses. */
static int zeroing_fails(const void *arg)
{
    const struct ccl_runtime_ops *rt;
    void *data = NULL;
    (void)arg;
    if (ccl_runtime_get(&rt) != cclSuccess) {
        TEST_FAIL("%s", ccl_error_last());
        return test_result();
    }
    fake->fail(strcmp(getenv("FAKE_GPU"), "cuda") == 0 ? "cuStreamSynchronize" : "hipStreamSynchronize", 1, CODE);
    TEST_EQ(rt->mem_alloc(CCL_MEM_DATA, BYTES * FILLS, &data), cclUnhandledDeviceError);
    TEST_CHECK(data == NULL);
    TEST_EQ(fake->counts().allocations + fake->counts().mappings + fake->counts().reservations, 0);
    fake->settle(); /* a fill of memory that is gone would end the process */
    return test_result();
}

int main(void)
{
    if (getenv("LD_LIBRARY_PATH") == NULL || getenv("FAKE_GPU") == NULL) {
        TEST_SKIP_NOW("run by CTest, which sets LD_LIBRARY_PATH and FAKE_GPU");
    }
    setenv("CCL_BACKEND", "gpu", 1);
    setenv("CCL_DEBUG", "none", 0);
    fake = fake_open();
    for (enum wait wait = 0; wait < NUM_WAITS; wait++) {
        TEST_EQ(run_case(wait_fails, &wait), 0);
    }
    TEST_EQ(run_case(zeroing_fails, NULL), 0);
    return test_result();
}
