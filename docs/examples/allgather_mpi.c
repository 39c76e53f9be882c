/* SPDX-License-Identifier: MIT
 *
 * Every rank contributes random numbers, an all-gather through the symmetric heap brings them together on all ranks, and each rank checks the
 * result. Build and run:  mpicc -Iinclude docs/examples/allgather_mpi.c -Lbuild/release -lccl -Wl,-rpath,$PWD/build/release -o allgather_mpi
 *                         mpirun --oversubscribe -n 4 ./allgather_mpi */
#include <ccl/ccl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 100000 /* elements of each rank */

/* cclGetLastError says what went wrong, with numbers. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        cclResult_t rc_ = (call);                                                                  \
        if (rc_ != cclSuccess) {                                                                   \
            fprintf(stderr, "%s: %s: %s\n", #call, cclGetErrorString(rc_), cclGetLastError(NULL)); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv)
{
    int rank, size, wrong = 0, wrong_anywhere = 0;
    cclUniqueId id = {{0}};
    cclComm_t comm;
    cclStream_t stream;
    void *send, *recv;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    /* 1. One rank makes an id, MPI carries it to the others, all join. */
    if (rank == 0) {
        CHECK(cclGetUniqueId(&id));
    }
    MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK(cclCommInitRank(&comm, size, id, rank));

    /* 2. Memory of the symmetric heap: peers store into it directly. */
    size_t part_bytes = COUNT * sizeof(uint32_t), all_bytes = part_bytes * (size_t)size;
    uint32_t *mine = malloc(part_bytes), *all = malloc(all_bytes);
    CHECK(cclMemAlloc(comm, &send, part_bytes));
    CHECK(cclMemAlloc(comm, &recv, all_bytes));
    CHECK(cclStreamCreate(&stream));

    /* 3. Random data there, gather, results back, all in the order of one stream. */
    srand((unsigned)rank + 1);
    for (int i = 0; i < COUNT; i++) {
        mine[i] = (uint32_t)rand();
    }
    CHECK(cclMemcpyAsync(send, mine, part_bytes, stream));
    CHECK(cclAllGather(send, recv, COUNT, cclUint32, comm, stream));
    CHECK(cclMemcpyAsync(all, recv, all_bytes, stream));
    CHECK(cclStreamSynchronize(stream));

    /* 4. The same numbers again, rank by rank, to check. */
    for (int r = 0; r < size; r++) {
        srand((unsigned)r + 1);
        for (int i = 0; i < COUNT; i++) {
            wrong += all[(size_t)r * COUNT + (size_t)i] != (uint32_t)rand();
        }
    }
    MPI_Allreduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d ranks gathered %d random numbers each on backend %s: %d wrong\n", size, COUNT, cclBackendName(),
               wrong_anywhere);
    }

    CHECK(cclMemFree(comm, recv));
    CHECK(cclMemFree(comm, send));
    CHECK(cclStreamDestroy(stream));
    CHECK(cclCommDestroy(comm));
    free(mine);
    free(all);
    MPI_Finalize();
    return wrong_anywhere != 0;
}
