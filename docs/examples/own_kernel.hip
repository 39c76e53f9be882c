/* SPDX-License-Identifier: MIT
 *
 * Kernels of your own that store into the peers' memory: a ring shift and a tile-wise all-gather, checked. One source for the CPU (host backend) and
 * for GPUs. docs/device.md explains the functions used.
 *   CPU     mpicc -x c -Iinclude docs/examples/own_kernel.hip -Lbuild/release -lccl -Wl,-rpath,$PWD/build/release -o own_kernel
 *   NVIDIA  nvcc -x cu -std=c++17 -arch=native -Iinclude docs/examples/own_kernel.hip $(mpicc --showme:compile) -Lbuild/release -lccl -lmpi -o own_kernel
 *   AMD     hipcc -Iinclude docs/examples/own_kernel.hip $(mpicc --showme:compile) -Lbuild/release -lccl -lmpi -o own_kernel
 * then  mpirun --oversubscribe -n 4 ./own_kernel */

/* CTEST: ranks 2 3 4 8; labels quick; timeout 60 */
#include <ccl/ccl.h>
#include <ccl/device.h>

#define MAX_RANKS 8
#define BLOCKS 8
#define THREADS 256
#define PART 65536        /* bytes a rank contributes: a multiple of TILE */
#define TILE 4096         /* bytes */
#define CREDIT BLOCKS     /* first signal word of each use; a block has one word in each */
#define GATHER (2 * BLOCKS)

/* ---- on the device ---- */

/* Every part travels once around the ring. buf[0] and buf[1] (heap) take turns: in round r a block puts its slice of the part it holds into the other
 * buffer of the next rank and signals; before it overwrites a buffer it waits until that rank has sent on what lies there. Signals only
 * count up: `before` rounds were done by earlier launches. */
CCL_DEVICE void ring_shift(cclBlock_t b, const cclDeviceComm_t *dev, char *buf0, char *buf1, uint64_t before, uint32_t *failed)
{
    const uint32_t next = (dev->rank + 1) % dev->n, prev = (dev->rank + dev->n - 1) % dev->n;
    const uint64_t slice = PART / b.blocks, at = b.block * slice;
    char *mine[2] = {buf0 + at, buf1 + at};
    char *theirs[2] = {(char *)ccl_translate(dev, mine[0], next), (char *)ccl_translate(dev, mine[1], next)};
    uint64_t *full = ccl_signal(dev, dev->rank, b.block), *credit = ccl_signal(dev, dev->rank, CREDIT + b.block);
    uint64_t *next_full = ccl_signal(dev, next, b.block), *prev_credit = ccl_signal(dev, prev, CREDIT + b.block);
    uint32_t bad = 0;

    for (uint64_t r = before + 1; r <= before + dev->n; r++) {
        if (r > before + 1) {
            bad |= ccl_wait_ge_block_system(dev, b, credit, r - 1, next); /* the target was sent on in round r - 1 */
        }
        if (bad) {
            break;
        }
        ccl_put_block(b, theirs[r & 1], mine[(r - 1) & 1], slice);
        ccl_signal_set_block_system(b, next_full, r);
        ccl_signal_set_block_system(b, prev_credit, r); /* mine[(r - 1) & 1] may be overwritten */
        bad |= ccl_wait_ge_block_system(dev, b, full, r, prev);
    }
    if (bad && b.thread == 0) {
        *failed = 1;
    }
}

/* all[r] = part of rank r, on every rank. All addresses are translated before the loop; in it each vector is loaded once and stored to every rank,
 * the own first, then rank + 1, rank + 2, ... so that no two ranks flood the same one. */
CCL_DEVICE void gather_tiles(cclBlock_t b, const cclDeviceComm_t *dev, const char *part, char *all, uint64_t launch, uint32_t *failed)
{
    const cclWindow_t w = ccl_window(dev, all);
    char *slot = all + (uint64_t)dev->rank * PART, *dst[MAX_RANKS];
    uint32_t bad = 0;

    CCL_UNROLLED for (uint32_t d = 0; d < MAX_RANKS; d++)
    {
        dst[d] = (char *)(d < dev->n ? ccl_window_translate(w, slot, (dev->rank + d) % dev->n) : 0);
    }
    for (uint64_t tile = b.block; tile < PART / TILE; tile += b.blocks) {
        for (uint64_t i = b.thread; i < TILE / 16; i += b.threads) {
            const uint64_t off = tile * TILE + i * 16;
            const ccl_vec16 v = ccl_load_weak_vec16(part + off);
            CCL_UNROLLED for (uint32_t d = 0; d < MAX_RANKS; d++)
            {
                if (d < dev->n) {
                    ccl_store_weak_vec16(dst[d] + off, v);
                }
            }
        }
    }
    ccl_settle_block_system();
    for (uint32_t d = b.thread; d < dev->n; d += b.threads) {
        ccl_signal_add_release_system(ccl_signal(dev, (dev->rank + d) % dev->n, GATHER + b.block), 1);
    }
    bad = ccl_wait_ge_block_system(dev, b, ccl_signal(dev, dev->rank, GATHER + b.block), launch * dev->n, CCL_ANY_PEER);
    if (bad && b.thread == 0) {
        *failed = 1;
    }
}

#if defined(CCL_ON_NVIDIA) || defined(CCL_ON_AMD)
#define KERNEL extern "C" __attribute__((global)) void
#if defined(CCL_ON_NVIDIA)
#undef KERNEL
#define KERNEL extern "C" __global__ void
#endif

KERNEL ring_shift_kernel(cclDeviceComm_t dev, char *buf0, char *buf1, uint64_t before, uint32_t *failed)
{
    ring_shift(ccl_this_block(), &dev, buf0, buf1, before, failed);
}

KERNEL gather_tiles_kernel(cclDeviceComm_t dev, const char *part, char *all, uint64_t launch, uint32_t *failed)
{
    gather_tiles(ccl_this_block(), &dev, part, all, launch, failed);
}
#endif

/* ---- on the host ---- */

#if !defined(OWN_KERNEL_DEVICE_ONLY)
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cclGetLastError says what went wrong, with numbers. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        cclResult_t rc_ = (call);                                                                  \
        if (rc_ != cclSuccess) {                                                                   \
            fprintf(stderr, "%s: %s: %s\n", #call, cclGetErrorString(rc_), cclGetLastError(NULL)); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

/* On a GPU a cclStream_t is the runtime's own stream. On the CPU the kernel is a function: wait for the stream, then call it once a block. Blocks
 * then run one after the other, which is right as long as a block waits for blocks of the same index only. */
#if defined(CCL_ON_NVIDIA) || defined(CCL_ON_AMD)
#if defined(CCL_ON_NVIDIA)
typedef cudaStream_t native_stream;
#define NATIVE_ERROR() ((int)cudaGetLastError())
#else
#include <hip/hip_runtime.h>
typedef hipStream_t native_stream;
#define NATIVE_ERROR() ((int)hipGetLastError())
#endif
#define WANTED_BACKEND "gpu"
#define LAUNCH(kernel, stream, ...)                                                                    \
    do {                                                                                               \
        kernel##_kernel<<<BLOCKS, THREADS, 0, (native_stream)(stream)>>>(dev, __VA_ARGS__);            \
        int error_ = NATIVE_ERROR();                                                                   \
        if (error_ != 0) {                                                                             \
            fprintf(stderr, "launch of " #kernel ": error %d of the GPU runtime\n", error_);           \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                              \
        }                                                                                              \
    } while (0)
#else
#define WANTED_BACKEND "host"
#define LAUNCH(kernel, stream, ...)                               \
    do {                                                          \
        CHECK(cclStreamSynchronize(stream));                      \
        for (uint32_t b_ = 0; b_ < BLOCKS; b_++) {                \
            kernel(ccl_host_block(b_, BLOCKS), &dev, __VA_ARGS__); \
        }                                                         \
    } while (0)
#endif

static void fill(char *data, int rank, int round)
{
    srand((unsigned)(1 + rank * 100 + round));
    for (int i = 0; i < PART; i++) {
        data[i] = (char)rand();
    }
}

int main(int argc, char **argv)
{
    int rank, size, devices, wrong = 0, wrong_anywhere = 0;
    cclUniqueId id;
    cclComm_t comm;
    cclStream_t stream;
    cclDeviceComm_t dev;
    void *buf[2], *part, *all, *flag;
    char *data = (char *)malloc(PART), *want = (char *)malloc(PART);
    uint32_t failed = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (data == NULL || want == NULL || size > MAX_RANKS || strcmp(cclBackendName(), WANTED_BACKEND) != 0) {
        fprintf(stderr, "this program was compiled for backend %s and 1 to %d ranks; here are %s and %d\n", WANTED_BACKEND, MAX_RANKS,
                cclBackendName(), size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    CHECK(cclDeviceCount(&devices));
    CHECK(cclSetDevice(rank % devices));
    memset(&id, 0, sizeof(id));
    if (rank == 0) {
        CHECK(cclGetUniqueId(&id));
    }
    MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK(cclCommInitRank(&comm, size, id, rank));

    /* Whatever peers store into or read from lies in the symmetric heap. */
    CHECK(cclMemAlloc(comm, &buf[0], PART));
    CHECK(cclMemAlloc(comm, &buf[1], PART));
    CHECK(cclMemAlloc(comm, &all, (size_t)PART * (size_t)size));
    CHECK(cclDeviceMalloc(&part, PART));
    CHECK(cclDeviceMalloc(&flag, sizeof(failed)));
    CHECK(cclStreamCreate(&stream));
    CHECK(cclDeviceComm(comm, &dev));

    for (int launch = 1; launch <= 3; launch++) {
        uint64_t before = (uint64_t)(launch - 1) * (uint64_t)size;
        fill(data, rank, launch);
        CHECK(cclMemcpyAsync(buf[before & 1], data, PART, stream));
        CHECK(cclMemcpyAsync(part, data, PART, stream));
        CHECK(cclMemsetAsync(all, 0xA5, (size_t)PART * (size_t)size, stream));
        CHECK(cclBarrier(comm, stream)); /* the peers' buffers are ready to be stored into */
        LAUNCH(ring_shift, stream, (char *)buf[0], (char *)buf[1], before, (uint32_t *)flag);
        LAUNCH(gather_tiles, stream, (const char *)part, (char *)all, (uint64_t)launch, (uint32_t *)flag);

        /* After a whole turn the own part is back. */
        CHECK(cclMemcpyAsync(want, buf[(before + (uint64_t)size) & 1], PART, stream));
        CHECK(cclStreamSynchronize(stream));
        wrong += memcmp(want, data, PART) != 0;
        for (int r = 0; r < size; r++) {
            CHECK(cclMemcpyAsync(data, (char *)all + (size_t)r * PART, PART, stream));
            CHECK(cclStreamSynchronize(stream));
            fill(want, r, launch);
            wrong += memcmp(want, data, PART) != 0;
        }
    }
    CHECK(cclMemcpyAsync(&failed, flag, sizeof(failed), stream));
    CHECK(cclStreamSynchronize(stream));
    wrong += failed != 0;
    MPI_Allreduce(&wrong, &wrong_anywhere, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d ranks, backend %s: ring shift and all-gather of %d bytes a rank, 3 launches, %d wrong\n", size, cclBackendName(), PART,
               wrong_anywhere);
    }

    CHECK(cclDeviceFree(flag));
    CHECK(cclDeviceFree(part));
    CHECK(cclMemFree(comm, all));
    CHECK(cclMemFree(comm, buf[1]));
    CHECK(cclMemFree(comm, buf[0]));
    CHECK(cclStreamDestroy(stream));
    CHECK(cclCommDestroy(comm));
    free(data);
    free(want);
    MPI_Finalize();
    return wrong_anywhere != 0;
}
#endif
