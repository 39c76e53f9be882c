/* SPDX-License-Identifier: MIT
 *
 * Proves that small messages are sent without their receiver, as far as a ring holds them, also by a rank that has destroyed its communicator since; that mixed with
 * large ones they keep their order and contents while tags come round (with a library of 10-bit tags: mpi.narrow_p2p_eager); and that ends which disagree about the
 * bytes get an error that names both sides on every rank, whichever of them is small, with messages in flight before and behind. */
/* CTEST: ranks 2 3; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 2 3; labels mpi host; timeout 120; args full */
#include <string.h>

#include "common.h"

#define SMALL_MAX 2048u
#define SMALL small_max() /* bytes of a small message, at most */
#define AHEAD 7     /* messages a sender may be ahead by */
#define CALLS 2600u /* two and a half times round a 10-bit tag */
#define MANY 20     /* more messages than a ring holds */

static cclComm_t comm;
static cclStream_t stream;
static uint8_t *send, *recv, host[3 * SMALL_MAX];

static size_t small_max(void) { return tm_backend_is_host() ? 512 : SMALL_MAX; }

static void setup(void)
{
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    TM_MUST(cclDeviceMalloc((void **)&send, MANY * sizeof(host)));
    TM_MUST(cclDeviceMalloc((void **)&recv, MANY * sizeof(host)));
}

static void teardown(bool aborted)
{
    TM_OK(aborted ? cclCommAbort(comm) : comm != NULL ? cclCommDestroy(comm) : cclSuccess);
    (void)cclStreamSynchronize(stream);
    TM_OK(cclDeviceFree(send));
    TM_OK(cclDeviceFree(recv));
}

static void check(const uint8_t *at, size_t bytes, uint64_t number, int from, const char *what)
{
    tm_get(host, at, bytes);
    tm_gathers++;
    tm_check_data(host, 0, bytes, 1, number, from, what);
}

static void put(uint8_t *at, size_t bytes, uint64_t number)
{
    tm_gen(host, 0, bytes, number, tm_rank);
    tm_put(at, host, bytes);
}

/* Rank 0 is through with its messages, and then with its communicator, before rank 1 has begun to receive. */
static void ahead(bool destroys)
{
    const size_t sizes[AHEAD] = {8, 0, 56, 57, 1, SMALL, 64};

    setup();
    tm_at("ahead");
    if (tm_rank == 0) {
        for (int i = 0; i < AHEAD; i++) {
            put(send, sizes[i], (uint64_t)i);
            TM_MUST(cclSend(send, sizes[i], cclUint8, 1, comm, stream));
            TM_MUST(cclStreamSynchronize(stream));
            tm_set(send, TM_POISON, SMALL); /* the buffer is free again */
        }
        if (destroys) {
            TM_MUST(cclCommDestroy(comm));
            comm = NULL;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < AHEAD && tm_rank == 1; i++) {
        TM_MUST(cclRecv(recv, sizes[i], cclUint8, 0, comm, stream));
        TM_MUST(cclStreamSynchronize(stream));
        check(recv, sizes[i], (uint64_t)i, 0, "ahead");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    teardown(false);
}

static size_t mostly_large(uint32_t i) { return i % 1024 == 5 ? 24 : SMALL + 1 + i % 7; }
static size_t mostly_small(uint32_t i) { return i % 1024 == 5 ? SMALL + 9 : i % 7 * 11; }
static size_t mixed(uint32_t i) { return (i * 2654435761u >> 16) % (2 * SMALL); }

/* Everybody to the right. Receivers are early now and then, so that they look at words before these are stored, and senders ahead. */
static void many(const char *what, size_t (*bytes_of)(uint32_t i), uint32_t calls)
{
    const int right = (tm_rank + 1) % tm_size, left = (tm_rank + tm_size - 1) % tm_size;

    setup();
    tm_at("%s", what);
    for (uint32_t i = 0; i < calls && test_failures == 0; i++) {
        const size_t bytes = bytes_of(i);

        put(send, bytes, i);
        if (i % 64 == 5 && tm_rank == (int)(i / 64) % tm_size) {
            tm_sleep_ms(1);
        }
        TM_MUST(cclGroupStart());
        TM_MUST(cclSend(send, bytes, cclUint8, right, comm, stream));
        TM_MUST(cclRecv(recv, bytes, cclUint8, left, comm, stream));
        TM_MUST(cclGroupEnd());
        TM_MUST(cclStreamSynchronize(stream));
        check(recv, bytes, i, left, what);
    }
    if (test_failures != 0) {
        tm_die(); /* others may wait */
    }
    MPI_Barrier(MPI_COMM_WORLD);
    teardown(false);
}

/* Rank 0 to rank 1, which is late for the small ones: what the sender remembers of adverts must not be as old as a tag is wide. */
static void one_way(void)
{
    setup();
    tm_at("one way");
    for (uint32_t round = 0, number = 0; round < 10 && tm_rank < 2; round++) {
        for (uint32_t i = 0; i < 1014 + round + MANY; i++, number++) {
            const size_t bytes = i < 1014 + round ? SMALL + 1 : 40;

            if (tm_rank == 0) {
                put(send, bytes, number);
                TM_MUST(cclSend(send, bytes, cclUint8, 1, comm, stream));
                TM_MUST(cclStreamSynchronize(stream));
                continue;
            }
            if (i == 1014 + round) {
                tm_sleep_ms(3);
            }
            TM_MUST(cclRecv(recv, bytes, cclUint8, 0, comm, stream));
            TM_MUST(cclStreamSynchronize(stream));
            check(recv, bytes, number, 0, "one way");
        }
    }
    if (test_failures != 0) {
        tm_die();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    teardown(false);
}

/* before: equal messages of 8 bytes ahead of the one that differs; late: who begins after the other, or -1; behind: equal messages behind it. */
static void differ(size_t sent, size_t expected, int before, int behind, int late)
{
    cclResult_t rc = cclSuccess, async = cclSuccess;
    char text[48];
    const double start = tm_now();

    setup();
    tm_set(recv, TM_POISON, MANY * sizeof(host));
    MPI_Barrier(MPI_COMM_WORLD);
    tm_at("%zu sent, %zu expected, %d before, %d behind, late %d", sent, expected, before, behind, late);
    if (tm_rank == late) {
        tm_sleep_ms(20);
    }
    for (int i = 0; i < before + 1 + behind && rc == cclSuccess && tm_rank < 2; i++) {
        const size_t bytes = i != before ? 8 : tm_rank == 0 ? sent : expected;

        rc = tm_rank == 0 ? cclSend(send, bytes, cclUint8, 1, comm, stream) : cclRecv(recv + sizeof(host), bytes, cclInt8, 0, comm, stream);
    }
    rc = rc == cclSuccess ? cclStreamSynchronize(stream) : rc;
    /* Who has sent small messages may be through: he is told by his next call, or when he asks. */
    while (rc == cclSuccess && async == cclSuccess && tm_now() - start < tm_limit(5.0)) {
        TM_OK(cclCommGetAsyncError(comm, &async));
        tm_sleep_ms(1);
    }
    TEST_EQ(rc == cclSuccess ? async : rc, cclInvalidUsage);
    if (tm_rank < 2) {
        TM_RC(tm_rank == 0 ? cclSend(send, 8, cclUint8, 1, comm, stream) : cclRecv(recv, 8, cclUint8, 0, comm, stream), cclInvalidUsage);
        snprintf(text, sizeof(text), "send of %zu bytes (uint8) to rank 1", sent);
        TM_TEXT(text);
        snprintf(text, sizeof(text), "recv of %zu bytes (int8) from rank 0", expected);
        TM_TEXT(text);
    }
    TM_WITHIN("sizes that differ", tm_now() - start, 5.0);
    tm_get(host, recv + sizeof(host) + 8, sizeof(host) - 8);
    tm_check_bytes(host, sizeof(host) - 8, TM_POISON, "receive buffer of a refused message");
    MPI_Barrier(MPI_COMM_WORLD);
    teardown(true);
}

int main(int argc, char **argv)
{
    bool full;

    TM_INIT(argc, argv);
    full = tm_has_arg("full");
    const size_t pairs[][2] = {{100, 200}, {200, 0}, {0, 8}, {100, 3 * SMALL}, {0, SMALL + 1}, {SMALL + 1, 100}, {3 * SMALL, 0}, {2 * SMALL, 3 * SMALL}};
    stream = tm_stream_create();
    ahead(false);
    ahead(true);
    many("mostly large", mostly_large, CALLS);
    many("mostly small", mostly_small, CALLS);
    many("mixed", mixed, CALLS);
    one_way();
    for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++) {
        differ(pairs[p][0], pairs[p][1], 0, 0, -1);
        differ(pairs[p][0], pairs[p][1], (int)p % AHEAD, MANY, (int)p % 2);
        for (int before = 0; before < MANY && full; before += 3) {
            differ(pairs[p][0], pairs[p][1], before, 0, 0);
            differ(pairs[p][0], pairs[p][1], before, 0, 1);
            differ(pairs[p][0], pairs[p][1], before, MANY, 1);
        }
    }
    TM_OK(cclStreamDestroy(stream));
    return tm_finish();
}
