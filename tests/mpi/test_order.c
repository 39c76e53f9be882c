/* SPDX-License-Identifier: MIT
 *
 * Proves that operations follow one another correctly without any synchronisation in between: a thousand calls
 * back to back with changing data, any sequence of protocols and grids, skewed ranks, one communicator on two
 * streams, two communicators on two streams tied by events, and a rank that never synchronises while the others
 * do. */
/* CTEST: ranks 1 2 3 4 5 7 8; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 2 4 8; labels mpi host; timeout 120; args full */
/* CTEST: ranks 3; labels mpi host; timeout 60; gpu 0; args small; env CCL_HOST_THREADS=1; name one_thread */
#include <string.h>

#include "common.h"

#define MOST_BYTES 300000 /* of a part */

static cclComm_t comm;
static cclStream_t stream;
static struct tm_buf send_buf, recv_buf; /* heap */
static bool full;
static uint64_t seed = 1;

/* All calls of one run are enqueued at once; each has its own place, so every result can be checked afterwards. */
struct step {
    size_t count, send_off, recv_off;
    uint64_t seed;
    int variant, blocks;
};

static void enqueue(const struct step *s, cclStream_t on)
{
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;

    if (s->variant == cclVariantAuto && s->blocks == CCL_UNSET) {
        TM_MUST(cclAllGather(send_buf.base + s->send_off, recv_buf.base + s->recv_off, s->count, cclUint8, comm, on));
    } else {
        config.variant = s->variant;
        config.comm_sms = s->blocks;
        TM_MUST(cclAllGather2D(send_buf.base + s->send_off, s->count, recv_buf.base + s->recv_off, s->count, 1,
                               s->count, cclUint8, &config, comm, on));
    }
}

static void run_steps(struct step *steps, unsigned number, const char *what, void (*skew)(unsigned call))
{
    uint8_t *host = malloc(MOST_BYTES * (size_t)tm_size);
    size_t send_off = 0, recv_off = 0;

    for (unsigned i = 0; i < number;
         i++) { /* places behind one another, wrapping to the start when the buffer is full */
        steps[i].seed = seed++;
        steps[i].send_off = send_off;
        steps[i].recv_off = recv_off;
        send_off += steps[i].count + i % 3;
        recv_off += steps[i].count * (size_t)tm_size + i % 5;
        if (send_off > send_buf.bytes || recv_off > recv_buf.bytes) {
            tm_fail(__FILE__, __LINE__, "%s: the test's buffers are too small at call %u", what, i);
            tm_die();
        }
        tm_gen(host, 0, steps[i].count, steps[i].seed, tm_rank);
        tm_put(send_buf.base + steps[i].send_off, host, steps[i].count);
    }
    tm_set(recv_buf.base, TM_POISON, recv_off < recv_buf.bytes ? recv_off + 1 : recv_buf.bytes);
    for (unsigned i = 0; i < number; i++) {
        tm_at("%s: enqueue %u of %u, count %zu, variant %d, comm_sms %d", what, i, number, steps[i].count,
              steps[i].variant, steps[i].blocks);
        if (skew != NULL) {
            skew(i);
        }
        enqueue(&steps[i], stream);
    }
    tm_at("%s: synchronise", what);
    TM_MUST(cclStreamSynchronize(stream));
    for (unsigned i = 0; i < number; i++) {
        tm_get(host, recv_buf.base + steps[i].recv_off, steps[i].count * (size_t)tm_size);
        tm_gathers++;
        for (int r = 0; r < tm_size; r++) {
            if (!tm_check_data(host + (size_t)r * steps[i].count, 0, steps[i].count, 1, steps[i].seed, r, what)) {
                tm_fail(__FILE__, __LINE__, "  in call %u of %u, variant %d, comm_sms %d", i, number, steps[i].variant,
                        steps[i].blocks);
            }
        }
    }
    free(host);
}

/* The same buffers every time: call n+1 overwrites the input right after call n in stream order and takes the
 * result away. */
static void back_to_back(unsigned calls, int variant)
{
    enum { COUNT = 96 };
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    uint8_t *inputs = malloc((size_t)calls * COUNT), *outputs = malloc((size_t)calls * COUNT * (size_t)tm_size);
    size_t all = (size_t)COUNT * (size_t)tm_size;
    uint64_t first = seed;

    seed += calls;
    config.variant = variant;
    tm_at("back to back: %u calls, variant %d", calls, variant);
    for (unsigned i = 0; i < calls; i++) {
        tm_gen(inputs + (size_t)i * COUNT, 0, COUNT, first + i, tm_rank);
    }
    for (unsigned i = 0; i < calls; i++) {
        size_t count = 1 + i * 7 % COUNT;

        TM_MUST(cclMemcpyAsync(send_buf.base, inputs + (size_t)i * COUNT, count, stream));
        TM_MUST(cclAllGather2D(send_buf.base, count, recv_buf.base, count, 1, count, cclUint8, &config, comm, stream));
        TM_MUST(cclMemcpyAsync(outputs + i * all, recv_buf.base, count * (size_t)tm_size, stream));
    }
    TM_MUST(cclStreamSynchronize(stream));
    for (unsigned i = 0; i < calls; i++) {
        size_t count = 1 + i * 7 % COUNT;

        tm_gathers++;
        for (int r = 0; r < tm_size; r++) {
            if (!tm_check_data(outputs + i * all + (size_t)r * count, 0, count, 1, first + i, r, "back to back")) {
                tm_fail(__FILE__, __LINE__, "  in call %u of %u", i, calls);
            }
        }
    }
    free(inputs);
    free(outputs);
}

/* The input of a copy may be overwritten right after the call in stream order, however slow the peers that fetch it are. */
static void overwritten_input(unsigned rounds)
{
    size_t count = MOST_BYTES, all = count * (size_t)tm_size;
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    uint8_t *inputs = malloc(count * rounds), *host = malloc(all);
    uint64_t first = seed;

    config.variant = cclVariantCopy;
    seed += rounds;
    for (unsigned i = 0; i < rounds; i++) {
        tm_gen(inputs + i * count, 0, count, first + i, tm_rank);
    }
    for (unsigned i = 0; i < rounds; i++) {
        tm_at("overwritten input, round %u", i);
        TM_MUST(cclMemcpyAsync(send_buf.base, inputs + i * count, count, stream));
        TM_MUST(cclAllGather2D(send_buf.base, count, recv_buf.base, count, 1, count, cclUint8, &config, comm, stream));
        TM_MUST(cclMemsetAsync(send_buf.base, TM_POISON, count, stream));
        TM_MUST(cclStreamSynchronize(stream));
        tm_get(host, recv_buf.base, all);
        tm_gathers++;
        for (int r = 0; r < tm_size; r++) {
            tm_check_data(host + (size_t)r * count, 0, count, 1, first + i, r, "overwritten input");
        }
    }
    free(inputs);
    free(host);
}

/* LL, direct, staged, partitioned or copy, in all orders of three, with grids 1, 4, 16 alternating. */
static void all_orders(void)
{
    static const int variants[] = {cclVariantLL, cclVariantDirect, cclVariantStaged, cclVariantPartitioned, cclVariantCopy};
    enum { ALL = 5 * 5 * 5 };
    static const int blocks[] = {1, 4, 16, CCL_UNSET};
    static const unsigned weight[] = {1, 5, 25};
    struct step steps[ALL * 3];
    unsigned number = 0;

    for (unsigned i = 0; i < ALL; i++) {
        for (unsigned k = 0; k < 3; k++, number++) {
            struct step *s = &steps[number];

            memset(s, 0, sizeof(*s));
            s->variant = variants[i / weight[k] % 5];
            s->blocks = blocks[(number + number / 4) % 4];
            if (s->variant == cclVariantPartitioned && s->blocks < tm_size) { /* a block for each rank */
                s->blocks = s->blocks == CCL_UNSET ? CCL_UNSET : 16;
            }
            s->blocks = s->variant == cclVariantCopy ? CCL_UNSET : s->blocks;
            s->count = s->variant == cclVariantLL ? 1 + number * 37 % 3000 : 1 + number * 7919 % (full ? 40000 : 9000);
        }
    }
    run_steps(steps, number, "all orders", NULL);
}

/* Grids and sizes mixed at random, LL among them. */
static void random_orders(unsigned calls)
{
    struct step *steps = calloc(calls, sizeof(*steps));
    uint64_t state = 42;

    for (unsigned i = 0; i < calls; i++) {
        uint64_t dice = tm_random(&state);

        steps[i].variant = dice % 5 == 4 ? cclVariantCopy : (int)(dice % 5);
        steps[i].blocks = dice % 5 == 4 ? CCL_UNSET : (const int[]){CCL_UNSET, 1, 4, 16}[dice >> 8 & 3];
        steps[i].count = 1 + (dice >> 16) % ((dice >> 10 & 7) == 0 ? 60000 : 600);
    }
    run_steps(steps, calls, "random orders", NULL);
    free(steps);
}

static void sleep_sometimes(unsigned call)
{
    if ((int)(call % 7) == tm_rank) {
        tm_sleep_ms(5); /* before a call */
    }
    if (call % 11 == 3 && (int)(call / 11 % (unsigned)tm_size) == tm_rank) {
        TM_MUST(cclStreamSynchronize(stream));
        tm_sleep_ms(5); /* after one */
    }
}

static void skewed(void)
{
    struct step steps[40];

    memset(steps, 0, sizeof(steps));
    for (unsigned i = 0; i < 40; i++) {
        steps[i].variant = (int)(i % 4);
        steps[i].blocks = CCL_UNSET;
        steps[i].count = i % 3 == 0 ? 8 : 5000;
    }
    run_steps(steps, 40, "skewed", sleep_sometimes);
}

/* Operations of one communicator run in issue order on different streams, without events. */
static void two_streams_one_comm(void)
{
    enum { COUNT = 501, HOPS = 30 };
    cclStream_t other = tm_stream_create();
    uint8_t *host = malloc((size_t)COUNT * (size_t)tm_size);
    uint8_t *place[2] = {recv_buf.base, recv_buf.base + (size_t)COUNT * (size_t)tm_size};
    uint64_t mine = seed++;

    tm_at("one communicator, two streams");
    tm_gen(host, 0, COUNT, mine, tm_rank);
    tm_put(send_buf.base, host, COUNT);
    tm_set(recv_buf.base, TM_POISON, 2 * (size_t)COUNT * (size_t)tm_size);
    TM_MUST(cclAllGather(send_buf.base, place[0], COUNT, cclUint8, comm, stream));
    for (int hop = 1; hop <= HOPS;
         hop++) { /* my part of the last result is the input of the next, on the other stream */
        TM_MUST(cclAllGather(place[(hop + 1) % 2] + (size_t)tm_rank * COUNT, place[hop % 2], COUNT, cclUint8, comm,
                             hop % 2 != 0 ? other : stream));
    }
    TM_MUST(cclStreamSynchronize(other));
    TM_MUST(cclStreamSynchronize(stream));
    tm_get(host, place[HOPS % 2], (size_t)COUNT * (size_t)tm_size);
    tm_gathers++;
    for (int r = 0; r < tm_size; r++) {
        tm_check_data(host + (size_t)r * COUNT, 0, COUNT, 1, mine, r, "one communicator, two streams");
    }
    TM_OK(cclStreamDestroy(other));
    free(host);
}

/* A's result is B's input and the other way round, on two streams tied by events; the copies between them shift
 * the data by one rank. */
static void two_comms_two_streams(void)
{
    enum { COUNT = 777, ROUNDS = 20 };
    cclComm_t second = tm_comm_create(MPI_COMM_WORLD, NULL);
    cclStream_t other = tm_stream_create();
    cclEvent_t first_done = NULL, second_done = NULL;
    size_t all = (size_t)COUNT * (size_t)tm_size;
    uint8_t *host = malloc(all), *ra = recv_buf.base, *rb = NULL;
    int next = (tm_rank + 1) % tm_size;
    uint64_t mine = seed++;
    void *ptr = NULL;

    tm_at("two communicators, two streams");
    TM_MUST(cclMemAlloc(second, &ptr, all));
    rb = ptr;
    TM_MUST(cclEventCreate(&first_done));
    TM_MUST(cclEventCreate(&second_done));
    tm_gen(host, 0, COUNT, mine, tm_rank);
    tm_put(send_buf.base, host, COUNT);
    for (int round = 0; round < ROUNDS; round++) {
        TM_MUST(cclAllGather(send_buf.base, ra, COUNT, cclUint8, comm, stream));
        TM_MUST(cclEventRecord(first_done, stream));
        TM_MUST(cclStreamWaitEvent(other, first_done));
        TM_MUST(cclAllGather(ra + (size_t)next * COUNT, rb, COUNT, cclUint8, second, other));
        TM_MUST(cclEventRecord(second_done, other));
        TM_MUST(cclStreamWaitEvent(stream, second_done));
        TM_MUST(cclMemcpyAsync(send_buf.base, rb + (size_t)tm_rank * COUNT, COUNT, stream));
    }
    TM_MUST(cclStreamSynchronize(stream));
    TM_MUST(cclStreamSynchronize(other));
    tm_get(host, rb, all);
    tm_gathers++;
    for (int r = 0; r < tm_size; r++) { /* every round moved the data on by one rank */
        tm_check_data(host + (size_t)r * COUNT, 0, COUNT, 1, mine, (r + ROUNDS) % tm_size, "two communicators");
    }
    TM_OK(cclEventDestroy(first_done));
    TM_OK(cclEventDestroy(second_done));
    TM_OK(cclMemFree(second, ptr));
    TM_OK(cclStreamDestroy(other));
    TM_OK(cclCommDestroy(second));
    free(host);
}

/* Rank `lazy` enqueues and then waits for the others in MPI, which they reach only when their own calls are
 * complete. */
static void progress_without_sync(int lazy)
{
    enum { CALLS = 5 };
    size_t count = full ? 50000 : 3000, all = count * (size_t)tm_size;
    uint8_t *host = malloc(all);
    uint64_t first = seed;

    seed += CALLS;
    tm_at("progress without sync, rank %d lazy", lazy);
    for (unsigned i = 0; i < CALLS; i++) {
        tm_gen(host, 0, count, first + i, tm_rank);
        tm_put(send_buf.base + i * count, host, count);
    }
    for (unsigned i = 0; i < CALLS; i++) {
        TM_MUST(cclAllGather(send_buf.base + i * count, recv_buf.base + i * all, count, cclUint8, comm, stream));
    }
    if (tm_rank != lazy) {
        TM_MUST(cclStreamSynchronize(stream));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    TM_MUST(cclStreamSynchronize(stream));
    for (unsigned i = 0; i < CALLS; i++) {
        tm_get(host, recv_buf.base + i * all, all);
        tm_gathers++;
        for (int r = 0; r < tm_size; r++) {
            tm_check_data(host + (size_t)r * count, 0, count, 1, first + i, r, "progress without sync");
        }
    }
    free(host);
}

/* Nobody leaves the barrier before the last one has come: the time between a late rank's entry and my exit is not
 * negative. */
static void barriers(void)
{
    for (int late = 0; late < tm_size && late < 3; late++) {
        double entered, left, entry_of_late;

        tm_at("barrier, rank %d late", late);
        MPI_Barrier(MPI_COMM_WORLD);
        if (tm_rank == late) {
            tm_sleep_ms(30);
        }
        entered = tm_now(); /* CLOCK_MONOTONIC is one clock for all ranks of a machine */
        TM_MUST(cclBarrier(comm, stream));
        TM_MUST(cclStreamSynchronize(stream));
        left = tm_now();
        entry_of_late = entered;
        MPI_Bcast(&entry_of_late, 1, MPI_DOUBLE, late, MPI_COMM_WORLD);
        if (left < entry_of_late) {
            TEST_FAIL("left the barrier %.6f s before rank %d entered", entry_of_late - left, late);
        }
    }
    for (int i = 0; i < 200; i++) {
        TM_MUST(cclBarrier(comm, stream));
    }
    TM_MUST(cclStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    size_t budget;

    TM_INIT(argc, argv);
    full = tm_has_arg("full");
    const bool tiny = tm_has_arg("tiny"); /* where kernels are interpreted */
    tm_watchdog(full ? 110 : 50);
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    budget = full ? (size_t)16 << 20 : (size_t)3 << 20;
    tm_buf_create(&send_buf, comm, TM_HEAP, budget);
    tm_buf_create(&recv_buf, comm, TM_HEAP, budget * (size_t)tm_size);
    back_to_back(tiny ? 60 : 1000, cclVariantAuto);
    back_to_back(tiny ? 30 : 300, cclVariantCopy);
    overwritten_input(full ? 100 : tiny ? 4 : 20);
    all_orders();
    random_orders(full ? 1000 : tiny ? 20 : 200);
    skewed();
    two_streams_one_comm();
    two_comms_two_streams();
    for (int lazy = 0; lazy < tm_size && lazy < (full ? 8 : tiny ? 1 : 2); lazy++) {
        progress_without_sync(lazy);
    }
    barriers();
    tm_buf_destroy(&send_buf);
    tm_buf_destroy(&recv_buf);
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclCommDestroy(comm));
    return tm_finish();
}
