/* SPDX-License-Identifier: MIT
 *
 * Proves that every public function refuses wrong arguments with the documented code and a text that names them,
 * writes no output on failure, and that streams, events and the memory helpers do what ccl.h says. */
/* CTEST: ranks 1 2 3; labels mpi host quick; timeout 60 */
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "common.h"

#define COUNT 1000
#define UNTOUCHED ((void *)(uintptr_t)0x1234)
#define BAD(call) TM_RC(call, cclInvalidArgument)

static cclComm_t comm;
static cclStream_t stream;
static uint8_t *send_part, *recv_all, *host; /* device memory, device memory, host memory */

static void gather_works(uint64_t seed, const char *after)
{
    tm_at("all-gather after %s", after);
    tm_gen(host, 0, COUNT, seed, tm_rank);
    tm_put(send_part, host, COUNT);
    tm_set(recv_all, TM_POISON, (size_t)COUNT * (size_t)tm_size);
    if (TM_OK(cclAllGather(send_part, recv_all, COUNT, cclUint8, comm, stream)) &&
        TM_OK(cclStreamSynchronize(stream))) {
        tm_gathers++;
        tm_get(host, recv_all, (size_t)COUNT * (size_t)tm_size);
        for (int r = 0; r < tm_size; r++) {
            tm_check_data(host + (size_t)r * COUNT, 0, COUNT, 1, seed, r, after);
        }
    }
}

static void texts(void)
{
    int version = 0;

    tm_at("texts");
    TEST_CHECK(cclGetLastError(NULL) != NULL);
    TEST_EQ(cclGetLastError(NULL)[0], 0); /* nothing has gone wrong yet */
    TM_OK(cclGetVersion(&version));
    TEST_EQ(version, CCL_VERSION);
    BAD(cclGetVersion(NULL));
    TEST_CHECK(cclGetLastError(NULL)[0] != '\0');
    for (int code = -1; code <= (int)cclNumResults; code++) {
        TEST_CHECK(cclGetErrorString((cclResult_t)code) != NULL && cclGetErrorString((cclResult_t)code)[0] != '\0');
        for (int other = 0; other < code && code < (int)cclNumResults; other++) {
            TEST_CHECK(strcmp(cclGetErrorString((cclResult_t)code), cclGetErrorString((cclResult_t)other)) != 0);
        }
    }
    TEST_CHECK(cclBackendName() != NULL && cclBackendName()[0] != '\0');
}

static void *fail_elsewhere(void *argument)
{
    (void)argument;
    TEST_CHECK(cclGetLastError(NULL)[0] != '\0'); /* no error of its own: the process's last */
    BAD(cclSetDevice(-77));
    TM_TEXT("-77");
    return NULL;
}

static void texts_of_threads(void)
{
    pthread_t thread;

    tm_at("texts of two threads");
    BAD(cclSetDevice(-55));
    pthread_create(&thread, NULL, fail_elsewhere, NULL);
    pthread_join(thread, NULL);
    TM_TEXT("-55"); /* each thread keeps its own */
}

static void init_arguments(void)
{
    cclUniqueId id, garbage;
    cclComm_t out = UNTOUCHED;
    cclConfig_t config = CCL_CONFIG_INITIALIZER;
    static const struct {
        int timeout_ms, max_blocks, variant, heap_chunk_mb;
        const char *needle;
    } wrong[] = {
        {0, CCL_UNSET, CCL_UNSET, CCL_UNSET, "timeout_ms"},
        {-1, CCL_UNSET, CCL_UNSET, CCL_UNSET, "timeout_ms"},
        {CCL_UNSET, 0, CCL_UNSET, CCL_UNSET, "max_blocks"},
        {CCL_UNSET, 129, CCL_UNSET, CCL_UNSET, "max_blocks"},
        {CCL_UNSET, CCL_UNSET, 99, CCL_UNSET, "variant"},
        {CCL_UNSET, CCL_UNSET, -1, CCL_UNSET, "variant"},
        {CCL_UNSET, CCL_UNSET, CCL_UNSET, 0, "heap_chunk_mb"},
        {CCL_UNSET, CCL_UNSET, CCL_UNSET, 1048577, "heap_chunk_mb"},
    };

    tm_at("arguments of init");
    BAD(cclGetUniqueId(NULL));
    TM_OK(cclGetUniqueId(&id));
    memset(&garbage, 0x5A, sizeof(garbage));
    BAD(cclCommInitRank(NULL, 1, id, 0));
    BAD(cclCommInitRank(&out, 0, id, 0));
    TEST_CHECK(out == NULL); /* NULL after any failure */
    out = UNTOUCHED;
    BAD(cclCommInitRank(&out, -3, id, 0));
    TM_TEXT("-3");
    BAD(cclCommInitRank(&out, 2, id, -1));
    BAD(cclCommInitRank(&out, 2, id, 2));
    TEST_CHECK(out == NULL);
    out = UNTOUCHED;
    BAD(cclCommInitRank(&out, 1, garbage, 0));
    TEST_CHECK(out == NULL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cclConfig_t bad = config;

        bad.timeout_ms = wrong[i].timeout_ms;
        bad.max_blocks = wrong[i].max_blocks;
        bad.variant = wrong[i].variant;
        bad.heap_chunk_mb = wrong[i].heap_chunk_mb;
        out = UNTOUCHED;
        BAD(cclCommInitRankConfig(&out, 1, id, 0, &bad));
        TM_TEXT(wrong[i].needle);
        TEST_CHECK(out == NULL);
    }
    config.magic = 1;
    BAD(cclCommInitRankConfig(&out, 1, id, 0, &config));
    TM_TEXT("magic");
    config.magic = CCL_STRUCT_MAGIC;
    config.size = 3;
    BAD(cclCommInitRankConfig(&out, 1, id, 0, &config));
    TM_TEXT("size");
    TM_OK(cclCommInitRank(&out, 1, id, 0)); /* the id is still good for one communicator */
    TM_OK(cclCommDestroy(out));
    BAD(cclCommInitAll(NULL, 1, NULL));
    BAD(cclCommInitAll(&out, 0, NULL));
    BAD(cclCommInitAll(&out, -1, NULL));
    BAD(cclCommInitAll(&out, 1, (const int[]){1000}));
    TM_TEXT("1000");
}

static void comm_arguments(void)
{
    static uint64_t rubbish[1024]; /* no communicator: the magic words are missing */
    cclComm_t fake = (cclComm_t)(void *)rubbish, out = UNTOUCHED;
    cclResult_t async = cclInProgress;
    cclConfig_t config = CCL_CONFIG_INITIALIZER;
    int value = -5;

    tm_at("arguments of communicator calls");
    TM_OK(cclCommFinalize(NULL));
    TM_OK(cclCommDestroy(NULL));
    TM_OK(cclCommAbort(NULL));
    BAD(cclCommFinalize(fake));
    BAD(cclCommDestroy(fake));
    BAD(cclCommAbort(fake));
    BAD(cclCommCount(fake, &value));
    BAD(cclCommCount(NULL, &value));
    BAD(cclCommUserRank(NULL, &value));
    BAD(cclCommDevice(NULL, &value));
    TEST_EQ(value, -5);
    BAD(cclCommCount(comm, NULL));
    BAD(cclCommUserRank(comm, NULL));
    BAD(cclCommDevice(comm, NULL));
    BAD(cclCommGetAsyncError(NULL, &async));
    BAD(cclCommGetAsyncError(comm, NULL));
    TEST_EQ(async, cclInProgress);
    BAD(cclCommSplit(NULL, 0, 0, &out, NULL));
    BAD(cclCommSplit(comm, 0, 0, NULL, NULL));
    BAD(cclCommSplit(comm, -7, 0, &out, NULL));
    TM_TEXT("-7");
    config.max_blocks = 0;
    BAD(cclCommSplit(comm, 0, 0, &out, &config));
    TM_TEXT("max_blocks");
    TM_OK(cclCommCount(comm, &value));
    TEST_EQ(value, tm_size);
    TM_OK(cclCommUserRank(comm, &value));
    TEST_EQ(value, tm_rank);
    TM_OK(cclCommDevice(comm, &value));
    TEST_EQ(value, 0);
    TM_OK(cclCommGetAsyncError(comm, &async));
    TEST_EQ(async, cclSuccess);
    gather_works(1, "refused communicator calls");
}

static void call_arguments(void)
{
    static uint64_t rubbish[1024];
    cclPointerInfo_t info;
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;

    tm_at("effective config before any call");
    TM_RC(cclGetEffectiveConfig(comm, &config), cclInvalidUsage);
    gather_works(2, "GetEffectiveConfig");
    TM_OK(cclGetEffectiveConfig(comm, &config));
    BAD(cclGetEffectiveConfig(comm, NULL));
    BAD(cclGetEffectiveConfig(NULL, &config));
    tm_at("arguments of collectives");
    BAD(cclAllGather(send_part, recv_all, COUNT, cclUint8, NULL, stream));
    BAD(cclAllGather(send_part, recv_all, COUNT, cclUint8, (cclComm_t)(void *)rubbish, stream));
    BAD(cclAllGather(NULL, recv_all, COUNT, cclUint8, comm, stream));
    TM_TEXT("send");
    BAD(cclAllGather(send_part, NULL, COUNT, cclUint8, comm, stream));
    TM_TEXT("recv|receive");
    BAD(cclAllGather(send_part, recv_all, COUNT, (cclDataType_t)-1, comm, stream));
    BAD(cclAllGather(send_part, recv_all, COUNT, cclNumTypes, comm, stream));
    BAD(cclAllGather(send_part, recv_all, COUNT, (cclDataType_t)99, comm, stream));
    TM_TEXT("99");
    BAD(cclAllGather(send_part, recv_all, SIZE_MAX / 4, cclFloat64, comm,
                     stream)); /* more bytes than there are addresses */
    BAD(cclAllGather2D(send_part, SIZE_MAX / 8, recv_all, SIZE_MAX / 8, 1000, 8, cclFloat64, NULL, comm, stream));
    BAD(cclBarrier(NULL, stream));
    BAD(cclPointerInfo(NULL, send_part, &info));
    BAD(cclPointerInfo(comm, send_part, NULL));
    TM_OK(cclStreamSynchronize(stream)); /* none of it was enqueued */
    tm_set(recv_all, TM_POISON, COUNT);
    TM_OK(cclAllGather(send_part, recv_all, 0, cclUint8, comm, stream));
    TM_OK(cclStreamSynchronize(stream));
    tm_get(host, recv_all, COUNT);
    tm_check_bytes(host, COUNT, TM_POISON, "output of a gather of nothing");
    gather_works(3, "refused collectives");
}

static void devices_and_memory(void)
{
    int count = 0, device = -1;
    void *ptr = UNTOUCHED;
    uint8_t *bytes;

    tm_at("devices and memory");
    TM_OK(cclDeviceCount(&count));
    TEST_CHECK(count >= 1);
    BAD(cclDeviceCount(NULL));
    BAD(cclGetDevice(NULL));
    BAD(cclSetDevice(-1));
    BAD(cclSetDevice(count));
    TM_OK(cclSetDevice(0));
    TM_OK(cclGetDevice(&device));
    TEST_EQ(device, 0);
    BAD(cclDeviceMalloc(&ptr, 0));
    BAD(cclDeviceMalloc(NULL, 8));
    TM_RC(cclDeviceMalloc(&ptr, (size_t)1 << 50), cclSystemError);
    TEST_CHECK(ptr == UNTOUCHED);
    TM_OK(cclDeviceFree(NULL));
    TM_OK(cclDeviceMalloc(&ptr, 10000));
    bytes = ptr;
    if (tm_backend_is_host()) {
        TEST_EQ((uintptr_t)ptr % 4096, 0);
    }
    tm_get(host, bytes, COUNT);
    tm_check_bytes(host, COUNT, 0, "new device memory");
    BAD(cclDeviceFree(bytes + 64));
    TM_OK(cclMemsetAsync(bytes, 0x77, 10000, stream));
    TM_OK(cclMemsetAsync(bytes + 100, 0x88, 50, stream));
    TM_OK(cclMemcpyAsync(bytes + 5000, bytes + 100, 100, stream));
    TM_OK(cclMemcpyAsync(host, bytes + 5000, 100, stream)); /* all in the order of the stream */
    TM_OK(cclMemcpyAsync(host, bytes, 0, stream));
    TM_OK(cclStreamSynchronize(stream));
    tm_check_bytes(host, 50, 0x88, "fill, fill, copy, copy");
    tm_check_bytes(host + 50, 50, 0x77, "fill, copy, copy");
    BAD(cclMemcpyAsync(NULL, bytes, 8, stream));
    BAD(cclMemcpyAsync(bytes, NULL, 8, stream));
    BAD(cclMemsetAsync(NULL, 0, 8, stream));
    TM_OK(cclMemsetAsync(bytes, 0x11, 16, NULL)); /* the default stream */
    TM_OK(cclStreamSynchronize(NULL));
    tm_get(host, bytes, 16);
    tm_check_bytes(host, 16, 0x11, "fill on the default stream");
    TM_OK(cclDeviceFree(ptr));
    BAD(cclDeviceFree(ptr)); /* freed twice */
}

static void streams_and_events(void)
{
    cclStream_t other = tm_stream_create();
    cclEvent_t first = NULL, last = NULL;
    float ms = -1.0f;

    tm_at("streams and events");
    BAD(cclStreamCreate(NULL));
    BAD(cclEventCreate(NULL));
    TM_MUST(cclEventCreate(&first));
    TM_MUST(cclEventCreate(&last));
    BAD(cclEventRecord(NULL, stream));
    BAD(cclEventSynchronize(NULL));
    BAD(cclStreamWaitEvent(stream, NULL));
    BAD(cclEventElapsed(NULL, first, last));
    TM_RC(cclEventElapsed(&ms, first, last), cclInvalidUsage); /* never recorded */
    TEST_CHECK(ms == -1.0f);
    TM_OK(cclEventSynchronize(first));       /* never recorded: has happened */
    TM_OK(cclStreamWaitEvent(other, first)); /* so this waits for nothing */
    TM_OK(cclStreamSynchronize(other));
    TM_OK(cclStreamQuery(other));
    TM_OK(cclEventRecord(first, stream));
    TM_OK(cclEventSynchronize(first));
    tm_sleep_ms(30);
    TM_OK(cclEventRecord(last, stream));
    TM_OK(cclEventSynchronize(last));
    TM_OK(cclEventElapsed(&ms, first, last));
    if (ms < 25.0f || ms > 5000.0f) {
        TEST_FAIL("%.3f ms between two events 30 ms apart", (double)ms);
    }
    /* while peers are missing the stream is in progress and an event on it has not happened */
    MPI_Barrier(MPI_COMM_WORLD);
    if (tm_size > 1) {
        if (tm_rank == 0) {
            TM_OK(cclBarrier(comm, stream));
            TM_OK(cclEventRecord(last, stream));
            tm_sleep_ms(20);
            TM_RC(cclStreamQuery(stream), cclInProgress);
            TM_RC(cclEventElapsed(&ms, first, last), cclInvalidUsage);
            TM_OK(cclStreamQuery(other));
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (tm_rank != 0) {
            TM_OK(cclBarrier(comm, stream));
        }
        TM_OK(cclStreamSynchronize(stream));
        TM_OK(cclStreamQuery(stream));
    }
    TM_OK(cclMemsetAsync(recv_all, 1, COUNT, other));
    TM_OK(cclStreamDestroy(other)); /* waits for its work */
    tm_get(host, recv_all, COUNT);
    tm_check_bytes(host, COUNT, 1, "work of a destroyed stream");
    TM_OK(cclEventDestroy(first));
    TM_OK(cclEventDestroy(last));
}

/* A default that a call cannot honour is refused by name at the call, on every rank. */
static void copy_engine_by_default(void)
{
    cclConfig_t config = CCL_CONFIG_INITIALIZER;

    tm_at("variant copy as the communicator's default");
    config.variant = cclVariantCopy;
    cclComm_t copying = tm_comm_create(MPI_COMM_WORLD, &config);
    TM_RC(cclAllGather(send_part, recv_all, 1, cclUint8, copying, stream), cclInvalidUsage);
    TM_TEXT("copy");
    TM_RC(cclAllGather(send_part, recv_all, COUNT, cclUint8, copying, stream), cclInvalidUsage);
    TM_OK(cclCommDestroy(copying));
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    texts();
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    host = malloc((size_t)COUNT * (size_t)tm_size);
    TM_MUST(cclDeviceMalloc((void **)&send_part, COUNT));
    TM_MUST(cclDeviceMalloc((void **)&recv_all, (size_t)COUNT * (size_t)tm_size));
    call_arguments();
    comm_arguments();
    texts_of_threads();
    init_arguments();
    devices_and_memory();
    streams_and_events();
    copy_engine_by_default();
    gather_works(6, "everything");
    TM_OK(cclDeviceFree(send_part));
    TM_OK(cclDeviceFree(recv_all));
    free(host);
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclCommDestroy(comm));
    return tm_finish();
}
