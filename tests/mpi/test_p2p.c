/* SPDX-License-Identifier: MIT
 *
 * Proves that sends and receives deliver what was sent, in the order of each pair, that all of a group progress together (a cycle over three ranks, all to all, self
 * included, more messages than one launch holds), with collectives, nested groups, two communicators and two streams, and that messages of different
 * sizes, a peer that aborts and one that dies end in errors that name both sides. */
/* CTEST: ranks 1 2 3 4 8; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 3; labels mpi host; timeout 60; args small; env CCL_VARIANT=staged; name staged */
/* CTEST: ranks 4; labels mpi host; timeout 60; args small; env CCL_COMM_SMS=3; name few */
/* CTEST: ranks 2 3; labels mpi host; timeout 60; args errors */
#include <string.h>

#include "common.h"

#define MOST ((size_t)3 << 20)
static cclComm_t comm;
static cclStream_t stream;
static struct tm_buf send_buf[TM_NUM_KINDS], recv_buf[TM_NUM_KINDS];
static uint8_t *host;
static uint64_t seed = 1;
static bool smoke; /* where kernels are interpreted: little data */

/* Bytes off.. of the message `number` from a rank. */
static void fill(uint8_t *to, size_t bytes, uint64_t number, int from)
{
    tm_gen(to, 0, bytes, number, from);
}

static void put_message(uint8_t *to, size_t bytes, uint64_t number)
{
    fill(host, bytes, number, tm_rank);
    tm_put(to, host, bytes);
}

static void check_message(const uint8_t *at, size_t bytes, uint64_t number, int from, const char *what)
{
    tm_get(host, at, bytes + TM_GUARD);
    tm_gathers++;
    tm_check_data(host, 0, bytes, 1, number, from, what);
    tm_check_bytes(host + bytes, TM_GUARD, TM_POISON, what);
}

static int right_of(int by) { return (tm_rank + by) % tm_size; }
static int left_of(int by) { return (tm_rank + tm_size - by) % tm_size; }

/* Everybody sends to the right and receives from the left, in one group. */
static void ring(size_t bytes, int send_kind, int recv_kind, size_t skew)
{
    uint8_t *send = send_buf[send_kind].base + skew, *recv = recv_buf[recv_kind].base + 2 * skew;
    uint64_t number = seed++;

    put_message(send, bytes, number);
    tm_set(recv, TM_POISON, bytes + TM_GUARD);
    tm_at("ring of %zu bytes", bytes);
    TM_MUST(cclGroupStart());
    TM_MUST(cclSend(bytes != 0 ? send : NULL, bytes, cclUint8, right_of(1), comm, stream));
    TM_MUST(cclRecv(bytes != 0 ? recv : NULL, bytes, cclUint8, left_of(1), comm, stream));
    TM_MUST(cclGroupEnd());
    TM_MUST(cclStreamSynchronize(stream));
    check_message(recv, bytes, number, left_of(1), "ring");
}

static void rings(void)
{
    static const size_t sizes[] = {0, 1, 7, 64, 1000, 65536, 65537, 200003, 1048576 + 5};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !(smoke && sizes[i] > 70000); i++) {
        for (int kind = 0; kind < TM_NUM_KINDS; kind++) {
            ring(sizes[i], kind, (kind + tm_rank + (int)i) % TM_NUM_KINDS, i % 3);
        }
    }
}

/* Without groups: the even ranks send first. Three messages a pair, the last one empty. */
static void alone(void)
{
    const size_t sizes[3] = {5, 100000, 0};
    uint64_t number = seed;

    seed += 3;
    for (int i = 0; i < 3 && tm_size > 1; i++) {
        int peer = tm_rank ^ 1;

        if (peer >= tm_size) {
            continue;
        }
        put_message(send_buf[TM_PLAIN].base, sizes[i], number + (uint64_t)i);
        tm_set(recv_buf[TM_PLAIN].base, TM_POISON, sizes[i] + TM_GUARD);
        for (int turn = 0; turn < 2; turn++) {
            if ((tm_rank & 1) == turn) {
                TM_MUST(cclSend(send_buf[TM_PLAIN].base, sizes[i], cclUint8, peer, comm, stream));
            } else {
                TM_MUST(cclRecv(recv_buf[TM_PLAIN].base, sizes[i], cclUint8, peer, comm, stream));
            }
        }
        TM_MUST(cclStreamSynchronize(stream));
        check_message(recv_buf[TM_PLAIN].base, sizes[i], number + (uint64_t)i, peer, "without a group");
    }
}

/* A {send B, receive C}; B {receive C}, {receive A}; C {send A}, {send B}: A's send waits for a receive that comes only after C has been served. */
static void cycle(size_t bytes)
{
    uint8_t *out = send_buf[TM_PLAIN].base, *in = recv_buf[TM_HEAP].base, *in2 = in + MOST / 2;
    uint64_t number = seed++;

    if (tm_size < 3 || tm_rank > 2) {
        return;
    }
    put_message(out, bytes, number);
    tm_set(in, TM_POISON, MOST);
    tm_at("cycle of %zu bytes", bytes);
    if (tm_rank == 0) {
        TM_MUST(cclGroupStart());
        TM_MUST(cclSend(out, bytes, cclUint8, 1, comm, stream));
        TM_MUST(cclRecv(in, bytes, cclUint8, 2, comm, stream));
        TM_MUST(cclGroupEnd());
    } else if (tm_rank == 1) {
        TM_MUST(cclRecv(in, bytes, cclUint8, 2, comm, stream));
        TM_MUST(cclRecv(in2, bytes, cclUint8, 0, comm, stream));
    } else {
        TM_MUST(cclSend(out, bytes, cclUint8, 0, comm, stream));
        TM_MUST(cclSend(out, bytes, cclUint8, 1, comm, stream));
    }
    TM_MUST(cclStreamSynchronize(stream));
    if (tm_rank == 0) {
        check_message(in, bytes, number, 2, "cycle");
    } else if (tm_rank == 1) {
        check_message(in, bytes, number, 2, "cycle");
        check_message(in2, bytes, number, 0, "cycle");
    }
}

/* Everybody to everybody and itself, `messages` a pair, ragged sizes, the receives in another order; elements of 4 bytes meet elements of 1. */
static size_t ragged(int from, int to, int message)
{
    return (size_t)((from * 7 + to * 13 + message * 29) % 11) * 4 * (message % 2 == 0 ? 1 : 301);
}

static void all_to_all(int messages, bool nested)
{
    const size_t place = messages > 10 ? 13 * 1024 : 40 * 1024;
    uint64_t number = seed;

    seed += (uint64_t)messages;
    if ((size_t)messages * (size_t)tm_size * place > MOST) {
        return;
    }
    tm_set(recv_buf[TM_HEAP].base, TM_POISON, MOST);
    for (int r = 0; r < tm_size; r++) {
        for (int m = 0; m < messages; m++) {
            put_message(send_buf[TM_PLAIN].base + ((size_t)r * (size_t)messages + (size_t)m) * place, ragged(tm_rank, r, m), number + (uint64_t)m);
        }
    }
    tm_at("all to all, %d messages a pair", messages);
    TM_MUST(cclGroupStart());
    for (int m = 0; m < messages; m++) {
        if (nested) {
            TM_MUST(cclGroupStart());
        }
        for (int d = 0; d < tm_size; d++) {
            int to = right_of(d);

            TM_MUST(cclSend(send_buf[TM_PLAIN].base + ((size_t)to * (size_t)messages + (size_t)m) * place, ragged(tm_rank, to, m) / 4, cclInt32, to,
                            comm, stream));
        }
        if (nested) {
            TM_MUST(cclGroupEnd());
        }
    }
    for (int r = 0; r < tm_size; r++) {
        for (int m = 0; m < messages; m++) {
            TM_MUST(cclRecv(recv_buf[TM_HEAP].base + ((size_t)r * (size_t)messages + (size_t)m) * place, ragged(r, tm_rank, m), cclUint8, r, comm,
                            stream));
        }
    }
    TM_MUST(cclGroupEnd());
    TM_MUST(cclStreamSynchronize(stream));
    for (int r = 0; r < tm_size; r++) {
        for (int m = 0; m < messages; m++) {
            check_message(recv_buf[TM_HEAP].base + ((size_t)r * (size_t)messages + (size_t)m) * place, ragged(r, tm_rank, m), number + (uint64_t)m, r,
                          "all to all");
        }
    }
}

/* Collectives and messages in one group, issued mixed; and the messages on another stream. */
static void with_collectives(void)
{
    const size_t count = 5000;
    cclStream_t other = tm_stream_create();
    int32_t *values = malloc(count * 4 * (size_t)tm_size);
    uint64_t number = seed++;
    uint8_t *sum = recv_buf[TM_HEAP].base, *all = recv_buf[TM_PLAIN].base, *in = recv_buf[TM_REG].base;

    for (size_t i = 0; i < count; i++) {
        values[i] = (int32_t)i + tm_rank;
    }
    tm_put(send_buf[TM_HEAP].base, values, count * 4);
    put_message(send_buf[TM_PLAIN].base, 70001, number);
    tm_set(in, TM_POISON, 70001 + TM_GUARD);
    tm_at("collectives and messages");
    TM_MUST(cclGroupStart());
    TM_MUST(cclRecv(in, 70001, cclUint8, left_of(1), comm, other));
    TM_MUST(cclAllReduce(send_buf[TM_HEAP].base, sum, count, cclInt32, cclSum, comm, stream));
    TM_MUST(cclSend(send_buf[TM_PLAIN].base, 70001, cclUint8, right_of(1), comm, stream));
    TM_MUST(cclAllGather(send_buf[TM_HEAP].base, all, count, cclInt32, comm, stream));
    TM_MUST(cclGroupEnd());
    TM_MUST(cclStreamSynchronize(stream));
    TM_MUST(cclStreamSynchronize(other));
    check_message(in, 70001, number, left_of(1), "with collectives");
    tm_get(values, sum, count * 4);
    for (size_t i = 0; i < count; i++) {
        if (values[i] != (int32_t)i * tm_size + tm_size * (tm_size - 1) / 2) {
            tm_fail(__FILE__, __LINE__, "all-reduce in a group with messages: index %zu is %d", i, values[i]);
            break;
        }
    }
    tm_get(values, all, count * 4 * (size_t)tm_size);
    for (size_t i = 0; i < count * (size_t)tm_size; i++) {
        if (values[i] != (int32_t)(i % count + i / count)) {
            tm_fail(__FILE__, __LINE__, "all-gather in a group with messages: index %zu is %d", i, values[i]);
            break;
        }
    }
    free(values);
    TM_OK(cclStreamDestroy(other));
}

/* The same peers in two communicators, in one group. */
static void two_communicators(void)
{
    cclComm_t child = NULL;
    uint64_t number = seed;
    uint8_t *out = send_buf[TM_PLAIN].base, *in = recv_buf[TM_PLAIN].base;

    seed += 2;
    TM_MUST(cclCommSplit(comm, 0, tm_size - tm_rank, &child, NULL)); /* the other way round */
    put_message(out, 3000, number);
    put_message(out + 8192, 90000, number + 1);
    tm_set(in, TM_POISON, 200000);
    tm_at("two communicators");
    cclStream_t second = tm_stream_create();
    TM_MUST(cclGroupStart());
    TM_MUST(cclSend(out, 3000, cclUint8, right_of(1), comm, stream));
    TM_MUST(cclSend(out + 8192, 90000, cclUint8, tm_size - 1 - right_of(1), child, second));
    TM_MUST(cclRecv(in + 8192, 90000, cclUint8, tm_size - 1 - left_of(1), child, second));
    TM_MUST(cclRecv(in, 3000, cclUint8, left_of(1), comm, stream));
    TM_MUST(cclGroupEnd());
    TM_MUST(cclStreamSynchronize(stream));
    TM_MUST(cclStreamSynchronize(second));
    check_message(in, 3000, number, left_of(1), "two communicators");
    check_message(in + 8192, 90000, number + 1, left_of(1), "two communicators");
    TM_OK(cclStreamDestroy(second));
    TM_OK(cclCommDestroy(child));
}

static void to_itself_alone(void)
{
    uint8_t *p = send_buf[TM_PLAIN].base;

    TM_RC(cclSend(p, 4, cclInt8, tm_rank, comm, stream), cclInvalidUsage);
    TM_TEXT("itself");
    TM_RC(cclRecv(p, 4, cclInt8, tm_rank, comm, stream), cclInvalidUsage);
    TM_OK(cclGroupStart());
    TM_OK(cclSend(p, 4, cclInt8, tm_rank, comm, stream));
    TM_OK(cclRecv(p, 5, cclInt8, tm_rank, comm, stream));
    TM_RC(cclGroupEnd(), cclInvalidUsage);
    TM_TEXT("4");
    TM_OK(cclGroupStart());
    TM_RC(cclSend(p, 4, cclInt8, tm_size, comm, stream), cclInvalidArgument);
    TM_RC(cclGroupEnd(), cclInvalidArgument);
    ring(100, TM_PLAIN, TM_PLAIN, 0); /* the thread and the communicator are usable */
}

static void setup(void)
{
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_create(&send_buf[k], comm, (enum tm_kind)k, MOST);
        tm_buf_create(&recv_buf[k], comm, (enum tm_kind)k, MOST + TM_GUARD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void teardown(bool aborted)
{
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        if (!aborted || k == TM_PLAIN || k == TM_HOST) {
            tm_buf_destroy(&send_buf[k]);
            tm_buf_destroy(&recv_buf[k]);
        }
    }
    if (!aborted) {
        TM_OK(cclCommDestroy(comm));
    }
}

/* Every rank gets the error, and the text names both sides. */
static void sizes_differ(size_t sent, size_t expected, int recv_kind)
{
    char text[32];
    cclResult_t rc;
    double start;

    setup();
    tm_set(recv_buf[recv_kind].base, TM_POISON, MOST);
    start = tm_now();
    tm_at("sizes differ: %zu, %zu", sent, expected);
    if (tm_rank == 0) {
        rc = cclSend(send_buf[TM_PLAIN].base, sent, cclUint8, 1, comm, stream);
    } else if (tm_rank == 1) {
        rc = cclRecv(recv_buf[recv_kind].base, expected, cclUint8, 0, comm, stream);
    } else {
        rc = cclRecv(recv_buf[recv_kind].base, 10, cclUint8, 0, comm, stream); /* never comes */
    }
    rc = rc == cclSuccess ? cclStreamSynchronize(stream) : rc;
    while (rc == cclSuccess && tm_rank == 0 && tm_now() - start < tm_limit(5.0)) { /* a small message is sent before it is refused */
        TM_OK(cclCommGetAsyncError(comm, &rc));
    }
    TEST_EQ(rc, cclInvalidUsage);
    snprintf(text, sizeof(text), "send of %zu", sent);
    TM_TEXT(text);
    snprintf(text, sizeof(text), "recv of %zu", expected);
    TM_TEXT(text);
    TM_WITHIN("sizes that differ", tm_now() - start, 5.0);
    tm_get(host, recv_buf[recv_kind].base, MOST);
    tm_check_bytes(host, MOST, TM_POISON, "receive buffer of a refused message");
    TM_RC(cclAllReduce(host, host, 1, cclInt8, cclSum, comm, stream), cclInvalidUsage); /* the communicator stays dead */
    TM_OK(cclCommAbort(comm));
    (void)cclStreamSynchronize(stream);
    teardown(true);
}

/* The last rank gives up, or ends, while the others wait for it: in a group in which other messages go through. */
static void peer_leaves(void)
{
    const size_t bytes = 300000;
    cclResult_t rc = cclSuccess, async = cclSuccess;
    double start;

    setup();
    MPI_Barrier(MPI_COMM_WORLD);
    start = tm_now();
    tm_at("a peer aborts");
    if (tm_rank == tm_size - 1) {
        tm_sleep_ms(100);
        TM_OK(cclCommAbort(comm));
    } else {
        TM_MUST(cclGroupStart());
        TM_MUST(cclSend(send_buf[TM_PLAIN].base, bytes, cclUint8, tm_rank, comm, stream));
        TM_MUST(cclRecv(recv_buf[TM_HEAP].base, bytes, cclUint8, tm_rank, comm, stream));
        TM_MUST(cclRecv(recv_buf[TM_HEAP].base + bytes, bytes, cclUint8, tm_size - 1, comm, stream));
        TM_MUST(cclGroupEnd());
        rc = cclStreamSynchronize(stream);
        TEST_EQ(rc, cclRemoteError);
        TM_OK(cclCommGetAsyncError(comm, &async));
        TEST_EQ(async, cclRemoteError);
        TM_OK(cclCommAbort(comm));
    }
    TM_WITHIN("a peer that aborts", tm_now() - start, 5.0);
    (void)cclStreamSynchronize(stream);
    teardown(true);
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    host = malloc(MOST + TM_GUARD);
    stream = tm_stream_create();
    smoke = tm_has_arg("smoke");
    if (tm_has_arg("errors")) {
        sizes_differ(100, 200, TM_HEAP);
        sizes_differ(200000, 100, TM_HEAP);
        sizes_differ(0, 8, TM_PLAIN);
        sizes_differ(500000, 0, TM_PLAIN);
        peer_leaves();
    } else {
        setup();
        rings();
        alone();
        cycle(10);
        cycle(smoke ? 100000 : 1 << 20);
        all_to_all(1, false);
        all_to_all(3, true);
        all_to_all(smoke ? 20 : 70, false); /* more than a launch holds, for small worlds */
        with_collectives();
        two_communicators();
        to_itself_alone();
        for (int i = 0; i < (smoke ? 4 : 40); i++) {
            ring((size_t)(i * 3), TM_PLAIN, TM_HOST, 0);
        }
        teardown(false);
    }
    TM_OK(cclStreamDestroy(stream));
    free(host);
    return tm_finish();
}
