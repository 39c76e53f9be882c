/* SPDX-License-Identifier: MIT
 *
 * Proves that ranks may be threads: all of one process made by cclCommInitAll and driven by one thread in a group
 * or by a thread each, and several in each of several processes. */
/* CTEST: ranks 1 2; gpu 2; labels mpi host quick tsan; timeout 60; args small; env CUDA_DEVICE_MAX_CONNECTIONS=32 */
/* CTEST: ranks 2 3 4; gpu 2; labels mpi host; timeout 60; args full; env CUDA_DEVICE_MAX_CONNECTIONS=32 */
#include <pthread.h>
#include <string.h>

#include "common.h"

#define MOST_THREADS 8

struct rank_thread {
    cclComm_t comm;
    cclUniqueId id;
    int rank, n;
    bool init, destroy;
};

static void *run_rank(void *argument)
{
    struct rank_thread *t = argument;
    if (t->init) {
        TM_MUST(cclSetDevice(0));
    } else {
        tm_use_device_of(t->comm);
    }
    cclStream_t stream = tm_stream_create();

    if (t->init) {
        TM_MUST(cclCommInitRank(&t->comm, t->n, t->id, t->rank));
    }
    for (size_t count = 1; count <= 100000; count = count * 10 + 3) {
        tm_gather_once(t->comm, stream, t->rank, t->n, count, "rank as a thread");
    }
    if (t->destroy) {
        TM_OK(cclCommDestroy(t->comm));
    }
    TM_OK(cclStreamDestroy(stream));
    return NULL;
}

static void init_all(int n)
{
    cclComm_t comms[MOST_THREADS];
    cclStream_t streams[MOST_THREADS];
    struct rank_thread ranks[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    int devices[MOST_THREADS] = {0};
    uint8_t *send[MOST_THREADS], *recv[MOST_THREADS], *host;
    size_t count = 2000, all = count * (size_t)n;

    tm_at("InitAll of %d", n);
    memset(comms, 0, sizeof(comms));
    TM_MUST(cclCommInitAll(comms, n, n % 2 == 0 ? devices : NULL));
    host = malloc(all);
    for (int i = 0; i < n; i++) {
        int rank = -1, size = -1;

        tm_use_device_of(comms[i]); /* a stream belongs to the device it was made on */
        TM_OK(cclCommUserRank(comms[i], &rank));
        TM_OK(cclCommCount(comms[i], &size));
        TEST_EQ(rank, i);
        TEST_EQ(size, n);
        streams[i] = tm_stream_create();
        TM_MUST(cclDeviceMalloc((void **)&recv[i], all));
    }
    TM_MUST(cclSetDevice(0));
    TM_MUST(cclGroupStart()); /* collective calls of several ranks of one thread: a group */
    for (int i = 0; i < n; i++) {
        TM_OK(cclMemAlloc(comms[i], (void **)&send[i], count));
    }
    TM_MUST(cclGroupEnd());
    for (int round = 0; round < 5; round++) {
        tm_at("InitAll of %d: group %d", n, round);
        for (int i = 0; i < n; i++) {
            tm_use_device_of(comms[i]);
            tm_gen(host, 0, count, (uint64_t)round, i);
            tm_put(send[i], host, count);
            tm_set(recv[i], TM_POISON, all);
        }
        TM_MUST(cclGroupStart());
        for (int i = 0; i < n; i++) {
            cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;

            config.variant = round % 2 == 0 ? cclVariantAuto : cclVariantCopy;
            TM_OK(cclAllGather2D(send[i], count, recv[i], count, 1, count, cclUint8, &config, comms[i], streams[i]));
        }
        TM_MUST(cclGroupEnd());
        for (int i = 0; i < n; i++) {
            TM_OK(cclStreamSynchronize(streams[(i + round) % n]));
        }
        for (int i = 0; i < n; i++) {
            tm_gathers++;
            tm_use_device_of(comms[i]);
            tm_get(host, recv[i], all);
            for (int r = 0; r < n; r++) {
                tm_check_data(host + (size_t)r * count, 0, count, 1, (uint64_t)round, r, "InitAll, one thread");
            }
        }
    }
    tm_at("InitAll of %d: a thread each", n);
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank_thread){comms[i], {{0}}, i, n, false, i % 2 == 0};
        pthread_create(&threads[i], NULL, run_rank, &ranks[i]);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < n; i++) {
        if (i % 2 != 0) {
            TM_OK(cclCommDestroy(comms[i]));
        }
        TM_OK(cclStreamDestroy(streams[i]));
        TM_OK(cclDeviceFree(recv[i]));
    }
    free(host);
}

/* Every process holds some ranks as threads; unequal numbers, interleaved numbering when reversed. */
static void threads_of_processes(int per_process, bool interleaved)
{
    struct rank_thread ranks[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    cclUniqueId id;

    memset(&id, 0, sizeof(id));
    if (tm_rank == 0) {
        TM_MUST(cclGetUniqueId(&id));
    }
    MPI_Bcast(&id, (int)sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
    tm_at("%d threads in each of %d processes", per_process, tm_size);
    for (int i = 0; i < per_process; i++) {
        int rank = interleaved ? i * tm_size + tm_rank : tm_rank * per_process + i;

        ranks[i] = (struct rank_thread){NULL, id, rank, per_process * tm_size, true, true};
        pthread_create(&threads[i], NULL, run_rank, &ranks[i]);
    }
    for (int i = 0; i < per_process; i++) {
        pthread_join(threads[i], NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    bool full;

    TM_INIT(argc, argv);
    full = tm_has_arg("full");
    if (tm_rank == 0) {
        for (int n = 1; n <= MOST_THREADS; n += full || tm_size == 1 ? 1 : 3) {
            init_all(n);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    threads_of_processes(2, false);
    if (full) {
        threads_of_processes(3, true);
    }
    return tm_finish();
}
