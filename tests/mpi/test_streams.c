/* SPDX-License-Identifier: MIT
 *
 * Proves that operations of a communicator keep their order whatever streams they are enqueued to: the default stream, two in turn without
 * waiting, streams destroyed right after the call, another thread; and that no call, failing ones included, changes the current device. */
/* CTEST: ranks 1 2 3 8; labels quick; timeout 60 */
#include <pthread.h>
#include <string.h>

#include "common.h"

#define PARTS 64 /* calls checked together, each into a place of its own */
#define COUNT 4099

static cclComm_t comm;
static uint8_t *send_part[PARTS], *recv_all[PARTS], *device, *host;
static size_t all;
static int home;

/* The current device is still the one chosen. */
#define SAME_DEVICE(call)                                        \
    do {                                                         \
        int now_ = -1;                                           \
        (void)(call);                                            \
        TM_OK(cclGetDevice(&now_));                              \
        if (now_ != home) {                                      \
            TEST_FAIL("%s: device %d, was %d", #call, now_, home); \
        }                                                        \
    } while (0)

static void fill(uint64_t seed)
{
    for (int i = 0; i < PARTS; i++) {
        tm_gen(host, 0, COUNT, seed + (uint64_t)i, tm_rank);
        tm_put(send_part[i], host, COUNT);
        tm_set(recv_all[i], TM_POISON, all);
    }
}

static void verify(uint64_t seed, const char *what)
{
    for (int i = 0; i < PARTS; i++) {
        tm_get(host, recv_all[i], all);
        tm_gathers++;
        for (int r = 0; r < tm_size; r++) {
            tm_check_data(host + (size_t)r * COUNT, 0, COUNT, 1, seed + (uint64_t)i, r, what);
        }
    }
}

static void gather(int i, cclStream_t stream)
{
    TM_MUST(cclAllGather(send_part[i], recv_all[i], COUNT, cclUint8, comm, stream));
}

static void default_stream(void)
{
    tm_at("default stream");
    fill(100);
    for (int i = 0; i < PARTS; i++) {
        gather(i, NULL);
    }
    TM_OK(cclStreamSynchronize(NULL));
    verify(100, "default stream");
}

/* Each operation gathers what the one before, on the other stream, has produced: only their order makes it right. */
static void alternating(void)
{
    cclStream_t streams[3] = {tm_stream_create(), tm_stream_create(), NULL};
    tm_at("alternating");
    fill(200);
    for (int i = 0; i < PARTS; i++) {
        gather(i, streams[i % 3]);
    }
    for (int i = 0; i < 3; i++) {
        TM_OK(cclStreamSynchronize(streams[i]));
    }
    verify(200, "alternating streams");
    fill(300);
    for (int i = 0; i < PARTS; i++) {
        const uint8_t *from = i == 0 ? send_part[0] : recv_all[i - 1] + (size_t)tm_rank * COUNT;
        TM_MUST(cclAllGather(from, recv_all[i], COUNT, cclUint8, comm, streams[i % 2]));
    }
    for (int i = 0; i < 2; i++) {
        TM_OK(cclStreamSynchronize(streams[i]));
        TM_OK(cclStreamDestroy(streams[i]));
    }
    tm_get(host, recv_all[PARTS - 1], all);
    for (int r = 0; r < tm_size; r++) {
        tm_check_data(host + (size_t)r * COUNT, 0, COUNT, 1, 300, r, "a chain over two streams");
    }
}

static void short_lived(void)
{
    tm_at("short-lived streams");
    fill(400);
    for (int i = 0; i < PARTS; i++) {
        cclStream_t stream = tm_stream_create();
        gather(i, stream);
        TM_OK(cclStreamDestroy(stream)); /* with the work pending */
    }
    verify(400, "short-lived streams");
}

static void *call_once(void *arg)
{
    /* a thread that has chosen no device */
    gather(*(int *)arg, NULL);
    TM_OK(cclStreamSynchronize(NULL));
    return NULL;
}

static void other_thread(void)
{
    cclStream_t stream = tm_stream_create();
    tm_at("another thread");
    fill(500);
    for (int i = 0; i < PARTS; i++) {
        if (i % 8 == 7) {
            pthread_t thread;
            TEST_EQ(pthread_create(&thread, NULL, call_once, &i), 0);
            TEST_EQ(pthread_join(thread, NULL), 0);
        } else {
            gather(i, stream);
        }
    }
    TM_OK(cclStreamSynchronize(stream));
    verify(500, "another thread");
    TM_OK(cclStreamDestroy(stream));
}

static void current_device(void)
{
    int count = 0, first = 0;
    cclStream_t stream = tm_stream_create();
    tm_at("current device");
    TM_OK(cclGetDevice(&first));
    TM_OK(cclDeviceCount(&count));
    for (home = 0; home < count && home < 2; home++) { /* the communicator's may be the other one */
        void *ptr = NULL;
        cclGraph_t graph = NULL;
        fill(600);
        TM_OK(cclSetDevice(home));
        for (int i = 0; i < PARTS; i++) {
            SAME_DEVICE(cclAllGather(send_part[i], recv_all[i], COUNT, cclUint8, comm, stream));
        }
        SAME_DEVICE(cclBarrier(comm, stream));
        SAME_DEVICE(cclStreamSynchronize(stream));
        SAME_DEVICE(cclAllGather(NULL, recv_all[0], COUNT, cclUint8, comm, stream));
        SAME_DEVICE(cclAllGather(send_part[0], recv_all[0], COUNT, (cclDataType_t)77, comm, stream));
        SAME_DEVICE(cclSetDevice(count));
        SAME_DEVICE(cclDeviceMalloc(&ptr, (size_t)1 << 60));
        SAME_DEVICE(cclDeviceFree((void *)(uintptr_t)0x1230));
        SAME_DEVICE(cclGraphBegin(NULL, 0));
        SAME_DEVICE(cclGraphEnd(stream, &graph)); /* nothing was begun */
        TEST_CHECK(graph == NULL && ptr == NULL);
        SAME_DEVICE(cclMemAlloc(comm, &ptr, 1000));
        SAME_DEVICE(cclMemFree(comm, ptr));
        TM_OK(cclSetDevice(first));
        verify(600, "current device");
    }
    home = first;
    TM_OK(cclStreamDestroy(stream));
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    all = (size_t)COUNT * (size_t)tm_size;
    host = malloc(all);
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    TM_MUST(cclDeviceMalloc((void **)&device, PARTS * (all + COUNT)));
    for (int i = 0; i < PARTS; i++) {
        recv_all[i] = device + (size_t)i * (all + COUNT);
        send_part[i] = recv_all[i] + all;
    }
    default_stream();
    alternating();
    short_lived();
    other_thread();
    current_device();
    SAME_DEVICE(cclCommDestroy(comm));
    TM_OK(cclDeviceFree(device));
    free(host);
    return tm_finish();
}
