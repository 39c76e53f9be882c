/* SPDX-License-Identifier: MIT
 *
 * The yardstick: how fast do these ranks copy plain memory, all at once? Where each rank has a core, a copy's time is the slowest rank's
 * and a round's the median of its copies, as for the operations themselves. Where ranks share cores such times would count a core
 * several times; there it is the time from the first start to the last end of a round on the node's common clock. The best of a few
 * rounds is taken, because a limit is what the machine can do. A device has one rate, whoever copies. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "bench.h"

#define ROUNDS 6
#define MIN_COPIES 5 /* of a round */
#define MAX_COPIES 256
#define ROUND_US 20000.0
#define BUDGET_US 600000.0
#define DEFAULT_L2 (1 << 20)
#define DEVICE_BYTES ((size_t)256 << 20)
#define DEVICE_WARMUP 3
#define DEVICE_COPIES 20

static void copy_cached(unsigned char *dst, const unsigned char *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

/* Stores that do not read the line first: a third less traffic on large copies. bytes: a multiple of 64. */
static void copy_streaming(unsigned char *dst, const unsigned char *src, size_t bytes)
{
#if defined(__SSE2__)
    for (size_t i = 0; i < bytes; i += 64) {
        __m128i a = _mm_load_si128((const __m128i *)(const void *)(src + i));
        __m128i b = _mm_load_si128((const __m128i *)(const void *)(src + i + 16));
        __m128i c = _mm_load_si128((const __m128i *)(const void *)(src + i + 32));
        __m128i d = _mm_load_si128((const __m128i *)(const void *)(src + i + 48));
        _mm_stream_si128((__m128i *)(void *)(dst + i), a);
        _mm_stream_si128((__m128i *)(void *)(dst + i + 16), b);
        _mm_stream_si128((__m128i *)(void *)(dst + i + 32), c);
        _mm_stream_si128((__m128i *)(void *)(dst + i + 48), d);
    }
    _mm_sfence();
#else
    memcpy(dst, src, bytes);
#endif
}

typedef void (*copy_fn)(unsigned char *, const unsigned char *, size_t);

/* Microseconds of one copy in a round of times copies by all ranks. */
static double timed_round(struct bench_session *s, copy_fn copy, unsigned char *dst, const unsigned char *src,
                          size_t bytes, int times)
{
    double us[MAX_COPIES], slowest[MAX_COPIES];
    MPI_Request request;

    bench_quiet_barrier(s->mpi);
    MPI_Barrier(s->mpi);
    double start = bench_now_us(), end = start;
    for (int i = 0; i < times; i++) {
        double before = end;
        copy(dst, src, bytes);
        end = bench_now_us();
        us[i] = end - before;
    }
    if (s->ranks > sysconf(_SC_NPROCESSORS_ONLN)) {
        double first = bench_min(s, start);
        return bench_max(s, end - first) / times;
    }
    MPI_Iallreduce(us, slowest, times, MPI_DOUBLE, MPI_MAX, s->mpi, &request);
    bench_wait(&request);
    return bench_median(slowest, times);
}

static double best_rate(struct bench_session *s, unsigned char *dst, const unsigned char *src, size_t bytes)
{
    const copy_fn kinds[] = {copy_cached, copy_streaming};
    double best = 0, spent = 0;

    for (int k = 0; k < 2; k++) {
        double once = timed_round(s, kinds[k], dst, src, bytes, MIN_COPIES);
        int times = once < ROUND_US ? (int)(ROUND_US / (once < 1 ? 1 : once)) + 1 : 1;
        times = times < MIN_COPIES ? MIN_COPIES : times > MAX_COPIES ? MAX_COPIES : times;
        for (int round = 0; round < ROUNDS && (round == 0 || spent < BUDGET_US * (k + 1) / 2); round++) {
            double us = timed_round(s, kinds[k], dst, src, bytes, times);
            double gbps = 2.0 * (double)bytes * s->ranks / us * 1e-3;
            best = gbps > best ? gbps : best;
            spent += us * times;
        }
    }
    return best;
}

/* Device to device, by rank 0 alone: the ranks of a one-device world share this rate. */
static double device_rate(struct bench_session *s)
{
    cclEvent_t start = NULL, end = NULL;
    void *src = NULL, *dst = NULL;
    float ms = 0;
    bool good = s->rank == 0 && cclEventCreate(&start) == cclSuccess && cclEventCreate(&end) == cclSuccess &&
                cclDeviceMalloc(&src, DEVICE_BYTES) == cclSuccess && cclDeviceMalloc(&dst, DEVICE_BYTES) == cclSuccess;

    for (int i = -DEVICE_WARMUP; good && i < DEVICE_COPIES; i++) {
        good = (i != 0 || cclEventRecord(start, s->stream) == cclSuccess) &&
               cclMemcpyAsync(dst, src, DEVICE_BYTES, s->stream) == cclSuccess;
    }
    good = good && cclEventRecord(end, s->stream) == cclSuccess && cclStreamSynchronize(s->stream) == cclSuccess &&
           cclEventElapsed(&ms, start, end) == cclSuccess && ms > 0;
    if (start != NULL) {
        cclEventDestroy(start);
    }
    if (end != NULL) {
        cclEventDestroy(end);
    }
    cclDeviceFree(src);
    cclDeviceFree(dst);
    return bench_max(s, good ? 2.0 * (double)DEVICE_BYTES * DEVICE_COPIES / ms * 1e-6 : 0);
}

double bench_limit_gbps(struct bench_session *s, size_t part_bytes)
{
    static double of_device;
    static struct {
        size_t part_bytes;
        int ranks;
        double gbps;
    } last;
    /* Each rank of the collective reads its part and writes ranks parts; half of that, rounded, is the copy's length. */
    size_t bytes = (part_bytes * (size_t)(s->ranks + 1) / 2 + 63) / 64 * 64;
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE), cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (!bench_on_host()) {
        of_device = of_device > 0 ? of_device : device_rate(s);
        return of_device;
    }
    if (last.part_bytes == part_bytes && last.ranks == s->ranks) {
        return last.gbps;
    }
    last.part_bytes = part_bytes;
    last.ranks = s->ranks;
    last.gbps = 0;
    double caches = (double)(l2 > 0 ? l2 : DEFAULT_L2) * (double)(cpus < s->ranks ? cpus : s->ranks);
    if (2.0 * (double)bytes * s->ranks <= caches) {
        return 0;
    }
    unsigned char *src = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    unsigned char *dst = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (bench_min(s, src != NULL && dst != NULL) == 1) {
        /* Data, because pages never written all map to one page of zeros. */
        bench_pattern(src, bytes, 1, s->rank, 0);
        memset(dst, 1, bytes);
        last.gbps = best_rate(s, dst, src, bytes);
    } else {
        bench_note(s, "limit: no memory for two buffers of %zu bytes, left out", bytes);
    }
    free(src);
    free(dst);
    return last.gbps;
}
