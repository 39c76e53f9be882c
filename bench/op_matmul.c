/* SPDX-License-Identifier: MIT
 *
 * all_gather_matmul, matmul_all_gather: the fused call against its two halves, the same halves one after the other, MPI_Allgather with our product, and a vendor's product
 * where one is installed; all of them in alternating rounds of the same run, on random normal data, checked. tune: the fastest of many configs, as rows of CCL_TUNE_FILE.
 * M is rows of the whole product, K its whole depth. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "matmul_run.h"

static bool applies(const struct bench_run *r, enum bench_matmul_side side)
{
    if (side == WITH_MPI) { /* K shards would have to be put together; and counts are 32 bits */
        return bench_on_host() && r->p.desc.gather != cclGatherColumns && 2 * r->p.desc.shard * (r->p.desc.lda + r->p.desc.ldc) < 1u << 31;
    }
    return side != VENDOR || r->p.vendor;
}

/* One block of iterations; times of the slowest rank are added to the side's. */
static bool run_block(struct bench_run *r, enum bench_matmul_side side, int iterations, bool count)
{
    for (int i = 0; i < iterations; i++) {
        bench_quiet_barrier(r->s.mpi);
        MPI_Barrier(r->s.mpi);
        double start = bench_now_us();
        cclResult_t rc = cclSuccess;
        for (int call = 0; call < r->calls && rc == cclSuccess; call++) {
            rc = bench_matmul_issue(r, side);
        }
        rc = rc == cclSuccess ? cclStreamSynchronize(r->s.stream) : rc;
        double us = bench_max(&r->s, (bench_now_us() - start) / r->calls);
        if (!bench_agree(&r->s, rc, "product")) {
            return false;
        }
        if (count) {
            r->us[side][r->count + i] = us;
        }
    }
    return true;
}

/* Is what a side leaves in C the whole product? */
static bool is_checked(const struct bench_run *r, enum bench_matmul_side side)
{
    const bool part = r->p.desc.gather == cclGatherOutput;
    return side == FUSED || side == SEQUENTIAL || side == WITH_MPI || (side == GEMM && !part) || (side == VENDOR && !part && r->p.vendor_writes_c);
}

static bool measure(struct bench_run *r, long long *errors)
{
    const int rounds = (int)r->options->rounds;
    double longest = 1;
    *errors = 0;
    r->calls = 1;
    for (int side = 0; side < SIDES; side++) {
        if (!applies(r, (enum bench_matmul_side)side)) {
            continue;
        }
        if (!bench_agree(&r->s, bench_product_poison(&r->p, &r->s), "poison") || !run_block(r, (enum bench_matmul_side)side, 1, false)) {
            return false;
        }
        const long long wrong = is_checked(r, (enum bench_matmul_side)side) ? bench_product_check(&r->p, &r->s, r->options->corrupt) : 0;
        if (!bench_agree(&r->s, wrong < 0 ? cclSystemError : cclSuccess, "reading the product")) {
            return false;
        }
        *errors += wrong;
        double start = bench_now_us(); /* the first call also loaded and mapped */
        if (!run_block(r, (enum bench_matmul_side)side, 1, false)) {
            return false;
        }
        start = bench_max(&r->s, bench_now_us() - start);
        longest = start > longest ? start : longest;
        if (side == FUSED && !bench_agree(&r->s, cclGetEffectiveConfig(r->s.comm, &r->used), "effective config")) {
            return false;
        }
    }
    *errors = (long long)bench_max(&r->s, (double)*errors);
    double share = r->options->max_time_s * 1e6 / rounds / longest;
    if (r->options->mode.values[0] == BENCH_BATCH) {
        const double most = share < (double)r->options->batch ? share : (double)r->options->batch;
        r->calls = most < 1 ? 1 : (int)most;
        share /= r->calls;
    }
    int iterations = share < 1 ? 1 : share > (double)r->options->iters / rounds ? (int)(r->options->iters / rounds) + 1 : (int)share;
    iterations = iterations > r->capacity / rounds ? r->capacity / rounds : iterations;
    for (int round = 0; round < rounds; round++) {
        for (int side = 0; side < SIDES; side++) {
            if (applies(r, (enum bench_matmul_side)side) && !run_block(r, (enum bench_matmul_side)side, iterations, true)) {
                return false;
            }
        }
        r->count += iterations;
    }
    return true;
}

static void report(struct bench_run *r, long long errors)
{
    static const char *const gathers[] = {"rows", "columns", "output"};
    const cclMatmulDesc_t *d = &r->p.desc;
    struct bench_pair pairs[40];
    double us[SIDES] = {0};
    int n = 0;
    for (int side = 0; side < SIDES; side++) {
        us[side] = applies(r, (enum bench_matmul_side)side) && r->count > 0 ? bench_median(r->us[side], r->count) : 0;
    }
    const double rows = d->gather == cclGatherOutput ? (double)d->shard : (double)d->m, bound = us[GEMM] > us[COMM] ? us[GEMM] : us[COMM];
    bench_pairs_head(pairs, &n, d->gather == cclGatherOutput ? "matmul_all_gather" : "all_gather_matmul", r->s.ranks);
    bench_pair_integer(pairs, &n, "M", (long long)d->m, true);
    bench_pair_integer(pairs, &n, "N", (long long)d->n, true);
    bench_pair_integer(pairs, &n, "K", (long long)d->k, true);
    bench_pair_text(pairs, &n, "gather", gathers[d->gather]);
    bench_pair_text(pairs, &n, "b_layout", bench_name_of(bench_b_layouts, d->b_transposed ? BENCH_B_NK : BENCH_B_KN));
    bench_pair_text(pairs, &n, "dtype", bench_name_of(bench_dtypes, d->type));
    bench_pair_text(pairs, &n, "algorithm", bench_name_of(bench_algorithms, r->choice.algorithm));
    bench_pair_text(pairs, &n, "algorithm_used", r->used.algorithm == CCL_UNSET ? NULL : bench_name_of(bench_algorithms, r->used.algorithm));
    bench_pair_integer(pairs, &n, "blocks", r->used.comm_sms, r->used.comm_sms != CCL_UNSET);
    bench_pair_integer(pairs, &n, "num_fetch_sms", r->used.num_fetch_sms, r->used.num_fetch_sms != CCL_UNSET);
    bench_pair_integer(pairs, &n, "k_per_flag", r->used.k_per_flag, r->used.k_per_flag != CCL_UNSET);
    bench_pair_integer(pairs, &n, "tile_m", r->used.gemm_tile_m, r->used.gemm_tile_m != CCL_UNSET);
    bench_pair_integer(pairs, &n, "tile_n", r->used.gemm_tile_n, r->used.gemm_tile_n != CCL_UNSET);
    bench_pair_integer(pairs, &n, "tile_k", r->used.gemm_tile_k, r->used.gemm_tile_k != CCL_UNSET);
    bench_pair_real(pairs, &n, "gemm_us", us[GEMM], us[GEMM] > 0);
    bench_pair_real(pairs, &n, "vendor_us", us[VENDOR], us[VENDOR] > 0);
    bench_pair_real(pairs, &n, "comm_us", us[COMM], us[COMM] > 0);
    bench_pair_real(pairs, &n, "sequential_us", us[SEQUENTIAL], us[SEQUENTIAL] > 0);
    bench_pair_real(pairs, &n, "mpi_us", us[WITH_MPI], us[WITH_MPI] > 0);
    bench_pair_real(pairs, &n, "time_us", us[FUSED], us[FUSED] > 0);
    bench_pair_real(pairs, &n, "p99_us", us[FUSED] > 0 ? bench_percentile(r->us[FUSED], r->count, 99) : 0, us[FUSED] > 0);
    bench_pair_real(pairs, &n, "tflops", us[FUSED] > 0 ? 2 * rows * (double)d->n * (double)d->k / us[FUSED] * 1e-6 : 0, us[FUSED] > 0);
    bench_pair_real(pairs, &n, "overlap", bound > 0 ? us[FUSED] / bound : 0, us[FUSED] > 0 && bound > 0);
    bench_pair_integer(pairs, &n, "errors", errors, errors >= 0);
    bench_report_pairs(pairs, n);
}

static bool run_choice(struct bench_run *r, long long *errors)
{
    const cclCallConfig_t fresh = CCL_CALL_CONFIG_INITIALIZER;
    r->used = fresh;
    r->count = 0;
    return measure(r, errors);
}

static bool open_alone(struct bench_run *r)
{
    cclUniqueId id;
    cclResult_t rc = cclGetUniqueId(&id);
    rc = rc == cclSuccess ? cclCommInitRank(&r->alone.comm, 1, id, 0) : rc;
    return bench_agree(&r->s, rc, "a communicator of one rank");
}

/* What is measured at one shape. False: an error that ends the world's part. */
typedef bool (*shape_fn)(struct bench_run *r, int *status);

static bool sweep_choices(struct bench_run *r, int *status)
{
    const struct bench_options *o = r->options;
    for (int a = 0; a < o->algorithm.count; a++) {
        for (int t = 0; t < o->tile.count; t++) {
            for (int f = 0; f < o->fetch_sms.count; f++) {
                for (int k = 0; k < o->k_per_flag.count; k++) {
                    const long long tile = o->tile.values[t];
                    long long errors = -1;
                    r->choice = (struct bench_choice){(int)o->algorithm.values[a], CCL_UNSET, CCL_UNSET, tile == BENCH_AUTO ? BENCH_AUTO : (int)(tile >> 32),
                                                tile == BENCH_AUTO ? BENCH_AUTO : (int)(tile & 0xffffffff), (int)o->fetch_sms.values[f],
                                                (int)o->k_per_flag.values[k]};
                    bool good = run_choice(r, &errors);
                    *status = !good || errors != 0 ? 1 : *status;
                    if (r->s.rank == 0) {
                        report(r, good ? errors : -1);
                    }
                    if (!good && !bench_session_check(&r->s)) {
                        return false;
                    }
                }
            }
        }
    }
    return true;
}

static bool tune_shape(struct bench_run *r, int *status)
{
    static const int tiles[][2] = {{BENCH_AUTO, BENCH_AUTO}, {128, 128}, {128, 224}, {128, 256}, {256, 128}, {256, 256}, {256, 512}, {512, 256}};
    static const int ways[][4] = {{cclAlgoBaseline, CCL_UNSET, CCL_UNSET, BENCH_AUTO},          {cclAlgoSequential, CCL_UNSET, CCL_UNSET, BENCH_AUTO},
                                  {cclAlgoHbmBuffer, cclKContiguous, cclFetchPull, BENCH_AUTO}, {cclAlgoHbmBuffer, cclKContiguous, cclFetchPull, 1},
                                  {cclAlgoHbmBuffer, cclMContiguous, cclFetchPull, BENCH_AUTO}, {cclAlgoHbmBuffer, cclKContiguous, cclFetchPush, BENCH_AUTO}};
    const cclMatmulDesc_t *d = &r->p.desc;
    const size_t count = d->gather == cclGatherOutput ? 1 : d->gather == cclGatherColumns ? 5 : 6;
    const cclCallConfig_t fresh = CCL_CALL_CONFIG_INITIALIZER;
    cclCallConfig_t best = fresh;
    double least = 0;
    r->used = fresh;
    for (size_t w = 0; w < count; w++) {
        for (size_t t = 0; t < sizeof(tiles) / sizeof(tiles[0]); t++) {
            r->choice = (struct bench_choice){ways[w][0], ways[w][1], ways[w][2], tiles[t][0], tiles[t][1], BENCH_AUTO, ways[w][3]};
            r->count = 0;
            r->calls = 1;
            if (!bench_agree(&r->s, bench_product_poison(&r->p, &r->s), "poison")) {
                *status = 1;
                return false;
            }
            if (!run_block(r, FUSED, 1, false)) { /* not every core has every tile */
                if (!bench_session_check(&r->s)) {
                    *status = 1;
                    return false;
                }
                continue;
            }
            cclGetEffectiveConfig(r->s.comm, &r->used);
            if (bench_max(&r->s, bench_product_check(&r->p, &r->s, false) != 0) > 0) {
                bench_note(&r->s, "wrong result, algorithm %d", ways[w][0]);
                *status = 1;
                continue;
            }
            const int iterations = (int)(r->options->iters < r->capacity ? r->options->iters : r->capacity);
            if (!run_block(r, FUSED, iterations < 5 ? iterations : 5, true)) {
                return false;
            }
            double us = bench_median(r->us[FUSED], iterations < 5 ? iterations : 5);
            MPI_Bcast(&us, 1, MPI_DOUBLE, 0, r->s.mpi);
            if (least == 0 || us < least) {
                least = us;
                best = r->used;
            }
        }
    }
    if (r->s.rank == 0) {
        bench_product_tune_row(&r->p, r->s.ranks, &best, least);
    }
    return true;
}

static void run_shapes(struct bench_run *r, int gather, shape_fn measure_shape, int *status)
{
    const struct bench_options *o = r->options;
    const int total = o->rows.count * o->columns.count * o->depth.count * o->dtype.count;
    for (int i = 0; i < total; i++) {
        const size_t m = (size_t)o->rows.values[i % o->rows.count], n = (size_t)o->columns.values[i / o->rows.count % o->columns.count];
        const size_t k = (size_t)o->depth.values[i / o->rows.count / o->columns.count % o->depth.count];
        const int dtype = (int)o->dtype.values[i / (total / o->dtype.count)];
        if ((gather == cclGatherColumns ? k : m) % (size_t)r->s.ranks != 0) {
            bench_note(&r->s, "skipped: %zu x %zu x %zu: %s does not divide by %d ranks", m, n, k, gather == cclGatherColumns ? "K" : "M", r->s.ranks);
            continue;
        }
        bool good = bench_product_create(&r->p, &r->s, gather, o->b_layout == BENCH_B_NK, o->buffers.values[0] != BENCH_PLAIN, m, n, k, (cclDataType_t)dtype, (uint64_t)o->seed);
        good = good && measure_shape(r, status);
        *status = good ? *status : 1;
        bench_product_destroy(&r->p, &r->s);
        if (!good && r->s.comm == NULL) {
            return;
        }
    }
}

static int run_all(const struct bench_options *options, const struct bench_list *gathers, int only, shape_fn measure_shape)
{
    int world, rank, status = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (options->rows.count == 0 || options->depth.count == 0) {
        if (rank == 0) {
            fputs("ccl_bench: --M, --N and --K are needed\n", stderr);
        }
        return 2;
    }
    for (int i = 0; i < (options->ranks.count > 0 ? options->ranks.count : 1); i++) {
        struct bench_run r = {.options = options, .s = {.rank = rank, .ranks = world}, .capacity = 4096};
        if (options->ranks.count > 0 && options->ranks.values[i] > 0) {
            r.s.ranks = (int)options->ranks.values[i];
        }
        MPI_Comm_split(MPI_COMM_WORLD, rank < r.s.ranks ? 0 : MPI_UNDEFINED, rank, &r.s.mpi);
        for (int side = 0; side < SIDES; side++) {
            r.us[side] = calloc((size_t)r.capacity, sizeof(double));
        }
        if (r.s.mpi != MPI_COMM_NULL && bench_session_open(&r.s) && open_alone(&r)) {
            for (int g = 0; g < (only >= 0 ? 1 : gathers->count); g++) {
                run_shapes(&r, only >= 0 ? only : (int)gathers->values[g], measure_shape, &status);
            }
        } else if (r.s.mpi != MPI_COMM_NULL) {
            status = 1;
        }
        if (r.s.mpi != MPI_COMM_NULL) {
            cclCommDestroy(r.alone.comm);
            bench_session_close(&r.s);
            MPI_Comm_free(&r.s.mpi);
        }
        for (int side = 0; side < SIDES; side++) {
            free(r.us[side]);
        }
        bench_quiet_barrier(MPI_COMM_WORLD);
    }
    MPI_Allreduce(MPI_IN_PLACE, &status, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return status;
}

static int run_gather_matmul(const struct bench_options *options) { return run_all(options, &options->gather, -1, sweep_choices); }
static int run_matmul_gather(const struct bench_options *options) { return run_all(options, &options->gather, cclGatherOutput, sweep_choices); }
static int run_tune(const struct bench_options *options) { return run_all(options, &options->gather, -1, tune_shape); }

const struct bench_op bench_op_all_gather_matmul = {
    .name = "all_gather_matmul",
    .summary = "cclAllGatherMatmul over --M (all rows) --N --K, --gather, --algorithm, --tile, --num_fetch_sms, --k_per_flag",
    .run = run_gather_matmul,
};
const struct bench_op bench_op_matmul_all_gather = {
    .name = "matmul_all_gather",
    .summary = "cclMatmulAllGather over --M (all rows) --N --K, --tile",
    .run = run_matmul_gather,
};
const struct bench_op bench_op_tune = {
    .name = "tune",
    .summary = "try configs of cclAllGatherMatmul at --M --N --K --gather, and write the fastest as rows of CCL_TUNE_FILE (--out, or stdout)",
    .run = run_tune,
};
