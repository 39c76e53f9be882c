// SPDX-License-Identifier: MIT
//
// The bare reference of the GPU numbers: all-gathers written by hand for n processes on one NVIDIA GPU, without adverts, exit rule, scrub or
// error paths. Packets {8 bytes, tags} through two-parity slots for small parts; stores into the peers' buffers and a barrier kernel for large
// ones. Graphs are timed as ccl_bench times its own, results are checked first, rows have its keys with backend "bare", so that both can
// be read side by side. The processes are made with fork() and need the MPS daemon to run at the same time.
//
//   nvcc -O3 -std=c++17 -arch=native bench/probe.cu -o probe && ./probe RANKS [OUT.json]
#include <cuda_runtime.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "probe_kernels.h"

#define CHECK(call)                                                                                             \
    do {                                                                                                        \
        cudaError_t error_ = (call);                                                                            \
        if (error_ != cudaSuccess) {                                                                            \
            fprintf(stderr, "probe: rank %d: line %d: %s: %s\n", rank, __LINE__, #call, cudaGetErrorString(error_)); \
            _exit(1);                                                                                           \
        }                                                                                                       \
    } while (0)

enum { REPEATS = 5 };

struct Shared {
    cudaIpcMemHandle_t scratch[MOST_RANKS], out[MOST_RANKS];
    double us[MOST_RANKS];
    uint32_t wrong[MOST_RANKS];
    volatile uint32_t arrived;
};

static Shared *shared;
static int rank, ranks;
static uint32_t barriers, *counter; // counter: call number and wrong words, on the device
static cudaStream_t stream;
static World world;
static FILE *out_file;
static char device_name[256];
static double limit_gbps;

static void host_barrier(void)
{
    barriers += ranks;
    __atomic_fetch_add(&shared->arrived, 1, __ATOMIC_ACQ_REL);
    while ((int32_t)(__atomic_load_n(&shared->arrived, __ATOMIC_ACQUIRE) - barriers) < 0) {
        sched_yield();
    }
}

static double now_us(void)
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

struct Candidate {
    const char *name;
    int blocks;
    bool streaming, small; // small: packets
};

template <int N> static void launch(const Candidate &c, size_t bytes)
{
    if (c.small) {
        packets<N><<<c.blocks, THREADS, 0, stream>>>(world, (uint32_t)(bytes / 8));
        return;
    }
    if (c.streaming) {
        push<N, 8, true><<<c.blocks, THREADS, 0, stream>>>(world, (uint32_t)(bytes / 16));
    } else {
        push<N, 4, false><<<c.blocks, THREADS, 0, stream>>>(world, (uint32_t)(bytes / 16));
    }
    barrier<N><<<1, 32, 0, stream>>>(world);
}

static void reset(void)
{
    CHECK(cudaStreamSynchronize(stream));
    host_barrier();
    CHECK(cudaMemset(world.state, 0, (MOST_BLOCKS + 1) * sizeof(uint32_t)));
    CHECK(cudaMemset(world.scratch[rank], 0, SCRATCH));
    CHECK(cudaDeviceSynchronize());
    host_barrier();
}

// One call on new data, compared on the device. The barrier behind it keeps a fast peer's next stores away until that is done.
template <int N> static void checked_call(const Candidate &c, size_t bytes)
{
    int blocks = (int)std::min<size_t>(64, bytes / 4096 + 1);
    fill<<<blocks, 256, 0, stream>>>((uint32_t *)world.in, (uint32_t)(bytes / 4), rank, counter);
    launch<N>(c, bytes);
    compare<<<blocks, 256, 0, stream>>>((const uint32_t *)world.out[rank], (uint32_t)(bytes / 4), N, counter);
    next_call<<<1, 1, 0, stream>>>(counter);
    barrier<N><<<1, 32, 0, stream>>>(world);
}

template <int N> static cudaGraphExec_t capture(const Candidate &c, size_t bytes, int calls, bool checked)
{
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < calls; i++) {
        checked ? checked_call<N>(c, bytes) : launch<N>(c, bytes);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    host_barrier();
    return ready;
}

// Wrong words of all ranks.
template <int N> static uint32_t validate(const Candidate &c, size_t bytes)
{
    uint32_t all = 0;
    reset();
    checked_call<N>(c, bytes);
    cudaGraphExec_t graph = capture<N>(c, bytes, 3, true);
    for (int i = 0; i < 2; i++) {
        CHECK(cudaGraphLaunch(graph, stream));
    }
    CHECK(cudaMemcpyAsync(&shared->wrong[rank], counter + 1, 4, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemsetAsync(counter + 1, 0, 4, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(graph));
    host_barrier();
    for (int r = 0; r < N; r++) {
        all += shared->wrong[r];
    }
    host_barrier();
    return all;
}

// Median over repeats of the slowest rank's time of one call.
template <int N> static double time_us(const Candidate &c, size_t bytes)
{
    const int calls = bytes <= (64 << 10) ? 100 : bytes <= (1 << 20) ? 40 : 5;
    const int replays = bytes <= (64 << 10) ? 5 : bytes <= (1 << 20) ? 3 : 2;
    double slowest[REPEATS];
    cudaGraphExec_t graph = capture<N>(c, bytes, calls, false);

    CHECK(cudaGraphLaunch(graph, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < REPEATS; i++) {
        host_barrier();
        double start = now_us();
        for (int k = 0; k < replays; k++) {
            CHECK(cudaGraphLaunch(graph, stream));
        }
        CHECK(cudaStreamSynchronize(stream));
        shared->us[rank] = (now_us() - start) / (calls * replays);
        host_barrier();
        slowest[i] = *std::max_element(shared->us, shared->us + N);
        host_barrier();
    }
    CHECK(cudaGraphExecDestroy(graph));
    std::sort(slowest, slowest + REPEATS);
    return slowest[REPEATS / 2];
}

static void measure_limit(void)
{
    const size_t bytes = (size_t)256 << 20;
    const int copies = 20;
    if (rank == 0) { // both halves of the receive buffer; the peers are idle
        cudaEvent_t start, end;
        float ms;
        CHECK(cudaEventCreate(&start));
        CHECK(cudaEventCreate(&end));
        for (int i = -3; i < copies; i++) {
            if (i == 0) {
                CHECK(cudaEventRecord(start, stream));
            }
            CHECK(cudaMemcpyAsync(world.out[0], world.out[0] + bytes, bytes, cudaMemcpyDeviceToDevice, stream));
        }
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventElapsedTime(&ms, start, end));
        limit_gbps = 2.0 * bytes * copies / ms * 1e-6;
    }
    host_barrier();
}

static void report(const Candidate &c, size_t bytes, double us, uint32_t wrong)
{
    double traffic = (double)ranks * bytes * (ranks + 1);
    printf("%d ranks %10zu bytes %-7s %3d blocks %10.2f us  %.3f of the limit%s\n", ranks, bytes, c.name, c.blocks, us,
           traffic / us * 1e-3 / limit_gbps, wrong != 0 ? "  WRONG DATA" : "");
    fflush(stdout);
    if (out_file == NULL) {
        return;
    }
    fprintf(out_file,
            "{\"op\": \"all_gather\", \"backend\": \"bare\", \"device\": \"%s\", \"commit\": null, \"ranks\": %d, \"M\": 1, \"N\": %zu, "
            "\"K\": null, \"dtype\": \"uint8\", \"bytes_per_rank\": %zu, \"in_place\": false, \"mode\": \"graph\", \"buffers\": \"heap\", "
            "\"comm_sms\": null, \"blocks\": %d, \"variant\": \"%s\", \"variant_used\": \"%s\", \"tile_m\": null, \"tile_n\": null, "
            "\"peers_per_wait\": null, \"algorithm\": null, \"time_us\": %.6g, \"min_us\": %.6g, \"p99_us\": %.6g, \"skew_us\": 0, "
            "\"algbw_gbps\": %.6g, \"busbw_gbps\": %.6g, \"host_us\": null, \"limit_gbps\": %.6g, \"fraction\": %.6g, "
            "\"baseline\": null, \"baseline_us\": null, \"ratio\": null, \"errors\": %u}\n",
            device_name, ranks, bytes, bytes, c.blocks, c.name, c.name, us, us, us, ranks * (double)bytes / us * 1e-3,
            (ranks - 1) * (double)bytes / us * 1e-3, limit_gbps, traffic / us * 1e-3 / limit_gbps, wrong);
    fflush(out_file);
}

// The best of a few hand-picked candidates a size; a candidate with wrong data does not count and fails the run.
template <int N> static int measure(void)
{
    const int large = N == 2 ? 64 : N == 4 ? 32 : 16;
    const size_t small_sizes[] = {8, 4 << 10, 64 << 10};
    const size_t M = 1 << 20, large_sizes[] = {64 << 10, M, 256 * M / N, 256 * M};
    int failed = 0;

    measure_limit();
    for (size_t bytes : small_sizes) {
        Candidate c = {"ll", bytes <= 2048 ? 1 : bytes <= 16384 ? 4 : 12, false, true};
        uint32_t wrong = validate<N>(c, bytes);
        double us = time_us<N>(c, bytes);
        failed |= wrong != 0;
        if (rank == 0) {
            report(c, bytes, us, wrong);
        }
    }
    for (size_t bytes : large_sizes) {
        Candidate candidates[] = {{"push", 64, false, false}, {"push", bytes <= 65536 ? 4 : bytes <= M ? 16 : large, true, false}};
        double us[2];
        uint32_t wrong = 0;
        for (int i = 0; i < 2; i++) {
            wrong += validate<N>(candidates[i], bytes);
            us[i] = time_us<N>(candidates[i], bytes);
        }
        failed |= wrong != 0;
        if (rank == 0) {
            int best = us[1] < us[0];
            report(candidates[best], bytes, us[best], wrong);
        }
    }
    return failed;
}

static int run_rank(void)
{
    char *scratch, *out, *in;
    cudaDeviceProp properties;

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    CHECK(cudaSetDevice(0));
    CHECK(cudaGetDeviceProperties(&properties, 0));
    snprintf(device_name, sizeof(device_name), "%s", properties.name);
    CHECK(cudaMalloc(&scratch, SCRATCH));
    CHECK(cudaMalloc(&out, PUSH_MOST * ranks));
    CHECK(cudaMalloc(&in, PUSH_MOST));
    CHECK(cudaMalloc(&world.state, 4096));
    CHECK(cudaMalloc(&counter, 8));
    CHECK(cudaMemset(out, 0, PUSH_MOST * ranks));
    CHECK(cudaMemset(counter, 0, 8));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcGetMemHandle(&shared->scratch[rank], scratch));
    CHECK(cudaIpcGetMemHandle(&shared->out[rank], out));
    host_barrier();
    world.rank = rank;
    world.in = in;
    for (int r = 0; r < ranks; r++) {
        world.scratch[r] = scratch;
        world.out[r] = out;
        if (r != rank) {
            CHECK(cudaIpcOpenMemHandle((void **)&world.scratch[r], shared->scratch[r], cudaIpcMemLazyEnablePeerAccess));
            CHECK(cudaIpcOpenMemHandle((void **)&world.out[r], shared->out[r], cudaIpcMemLazyEnablePeerAccess));
        }
    }
    host_barrier();
    int failed = ranks == 2 ? measure<2>() : ranks == 4 ? measure<4>() : measure<8>();
    CHECK(cudaStreamSynchronize(stream));
    host_barrier(); // nobody frees what another may still store into
    return failed;
}

int main(int argc, char **argv)
{
    pid_t children[MOST_RANKS];
    int status, failed = 0;

    ranks = argc > 1 ? atoi(argv[1]) : 0;
    if (ranks != 2 && ranks != 4 && ranks != 8) {
        fprintf(stderr, "usage: probe 2|4|8 [OUT.json]\n");
        return 2;
    }
    out_file = argc > 2 ? fopen(argv[2], "w") : NULL;
    if (argc > 2 && out_file == NULL) {
        perror(argv[2]);
        return 2;
    }
    shared = (Shared *)mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    for (rank = 0; rank < ranks; rank++) {
        children[rank] = fork();
        if (children[rank] == 0) {
            _exit(run_rank());
        }
    }
    for (int left = ranks; left > 0; left--) {
        pid_t ended = wait(&status);
        for (int r = 0; r < ranks; r++) {
            children[r] = children[r] == ended ? 0 : children[r];
        }
        if (status != 0 && !failed) { // the others wait for it
            failed = 1;
            fprintf(stderr, "probe: a rank ended with status %x\n", status);
            for (int r = 0; r < ranks; r++) {
                if (children[r] > 0) {
                    kill(children[r], SIGKILL);
                }
            }
        }
    }
    return failed;
}
