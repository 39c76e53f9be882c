/* SPDX-License-Identifier: MIT
 *
 * Proves that fused products take their choices from the tuning table of rank 0, on all ranks, and refuse one that is wrong; that a trace has every fetch, tile and wait once;
 * and that ranks of one process, driven by one thread, get their workspaces and results in groups. */
/* CTEST: ranks 2; labels mpi host quick; timeout 60; args tuned; gpu 0 */
/* CTEST: ranks 2; labels mpi host quick; timeout 60; args mistuned; gpu 0 */
/* CTEST: ranks 2 3; labels mpi host quick; timeout 60; args trace; gpu 2 3; env CCL_HOST_THREADS=2; name trace */
/* CTEST: ranks 1; labels mpi host quick tsan; timeout 60; args group; gpu 0; env CCL_HOST_THREADS=2; name group */
#include <string.h>
#include <unistd.h>

#include "product_call.h"

#if defined(__aarch64__)
#define ARCH "aarch64"
#else
#define ARCH "x86-64"
#endif
#define TABLE                                                                                          \
    "all_gather_matmul " ARCH " 2 rows float16 64 64 40  hbm_buffer m_contiguous pull 16 24 8 1 2 1\n"  \
    "all_gather_matmul " ARCH " 2 rows float16 68 72 40  sequential - - 8 8 8 - - - # nearer to 71\n"   \
    "all_gather_matmul " ARCH " 2 rows bfloat16 64 64 40 baseline - - 5 5 5 - - -\n"                    \
    "all_gather_matmul " ARCH " 3 rows float16 64 64 40  baseline - - 5 5 5 - - -\n"                    \
    "all_gather_matmul " ARCH " 2 columns float16 64 64 40 baseline - - 5 5 5 - - -\n"                  \
    "matmul_all_gather " ARCH " 2 output float16 64 64 40 - - - 5 5 5 - - -\n"                          \
    "all_gather_matmul " ARCH " 2 rows float16 8 4 40    hbm_buffer - - 4 4 8 7 - -\n"

/* Ranks of one process, driven by one thread: grouped calls make their workspaces and run side by side. */
static void grouped(void)
{
    enum { RANKS = 3 };
    cclComm_t comms[RANKS];
    cclStream_t streams[RANKS];
    struct tp_case t;
    uint16_t *mem[RANKS][3];
    const struct shape s = {33, 40, 72, 0};
    tm_size = RANKS;
    TM_MUST(cclCommInitAll(comms, RANKS, NULL));
    for (int r = 0; r < RANKS; r++) {
        TM_MUST(cclStreamCreate(&streams[r]));
    }
    for (unsigned turn = 0; turn < 12; turn++) {
        cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
        t = tp_make_case(&s, (int)(turn % 3), turn * 3);
        t.desc.bias = cclBiasNone;
        config.gemm_tile_m = 16, config.gemm_tile_n = 16, config.gemm_tile_k = 16;
        config.algorithm = turn % 3 == cclGatherOutput ? CCL_UNSET : tp_ways[1 + turn / 3 % 4][0];
        config.layout = turn % 3 == cclGatherOutput ? CCL_UNSET : tp_ways[1 + turn / 3 % 4][1];
        tm_at("grouped, turn %u", turn);
        TM_MUST(cclGroupStart());
        for (int r = 0; r < RANKS; r++) {
            const size_t sizes[3] = {tp_a_elements(&t), tp_b_elements(&t), tp_c_elements(&t)};
            for (int i = 0; i < 3; i++) {
                mem[r][i] = aligned_alloc(64, (2 * sizes[i] + 63) / 64 * 64);
            }
            tp_fill_a(&t, r, mem[r][0]);
            tp_fill_b(&t, r, mem[r][1]);
            memset(mem[r][2], TM_POISON, 2 * sizes[2]);
            TM_OK(t.desc.gather == cclGatherOutput
                      ? cclMatmulAllGather(&t.desc, mem[r][0], mem[r][1], NULL, mem[r][2], NULL, &config, comms[r], turn % 2 ? streams[r] : streams[0])
                      : cclAllGatherMatmul(&t.desc, mem[r][0], mem[r][1], NULL, mem[r][2], NULL, &config, comms[r], turn % 2 ? streams[r] : streams[0]));
        }
        TM_OK(cclGroupEnd());
        for (int r = 0; r < RANKS; r++) {
            TM_OK(cclStreamSynchronize(streams[r]));
        }
        for (int r = 0; r < RANKS; r++) {
            tp_verify(&t, RANKS, r, mem[r][2], "grouped");
            tp_products++;
            free(mem[r][0]), free(mem[r][1]), free(mem[r][2]);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        TM_OK(cclStreamDestroy(streams[r]));
    }
    TM_MUST(cclGroupStart());
    for (int r = 0; r < RANKS; r++) {
        TM_OK(cclCommDestroy(comms[r]));
    }
    TM_OK(cclGroupEnd());
    tm_size = 1;
}

/* CCL_TUNE_FILE of rank 0 alone, before the library reads its environment. */
static void write_table(const char *rows, char *path, size_t bytes)
{
    const char *dir = getenv("TMPDIR");
    snprintf(path, bytes, "%s/ccl_tune_%ld.txt", dir != NULL ? dir : "/tmp", (long)getpid());
    FILE *file = tm_rank == 0 ? fopen(path, "w") : NULL;
    if (file != NULL) {
        fprintf(file, "# op arch ranks gather type m n k  algorithm layout fetch tile_m tile_n tile_k group_m k_per_flag num_fetch_sms\n%s", rows);
        fclose(file);
        setenv("CCL_TUNE_FILE", path, 1);
    }
}

static void tuned_call(size_t shard, size_t n, const int *want, const char *what)
{
    const struct shape s = {shard, n, 40, 0};
    const struct tp_case t = tp_make_case(&s, cclGatherRows, 2);
    cclCallConfig_t used = CCL_CALL_CONFIG_INITIALIZER;
    tm_at("%s", what);
    tp_upload(&t, &tp_a[TM_HEAP], &tp_c[TM_HEAP]);
    if (TM_OK(tp_call(&t, &tp_a[TM_HEAP], &tp_c[TM_HEAP], NULL, NULL)) && TM_OK(cclStreamSynchronize(tp_stream)) &&
        tp_fetch_and_verify(&t, &tp_c[TM_HEAP], what) && TM_OK(cclGetEffectiveConfig(tp_comm, &used))) {
        const int got[5] = {used.algorithm, used.layout, used.gemm_tile_m, used.gemm_tile_n, used.k_per_flag};
        for (int i = 0; i < 5; i++) {
            if (want[i] != got[i]) {
                tm_fail(__FILE__, __LINE__, "%s: field %d is %d, want %d", what, i, got[i], want[i]);
            }
        }
    }
}

/* The table's row for the shape, for a near one the nearest row's, for a far one none; a row that cannot cover the shape is left alone. */
static void tuned(void)
{
    const int exact[5] = {cclAlgoHbmBuffer, cclMContiguous, 16, 24, 2}, other[5] = {cclAlgoSequential, CCL_UNSET, 8, 8, CCL_UNSET};
    const int none[5] = {cclAlgoBaseline, CCL_UNSET, 64, 64, CCL_UNSET}, small[5] = {cclAlgoBaseline, CCL_UNSET, 4, 4, CCL_UNSET};
    tuned_call(32, 64, exact, "the very shape of a row");
    tuned_call(33, 63, exact, "a shape near that row");
    tuned_call(34, 71, other, "a shape nearer to another row");
    tuned_call(64, 64, none, "a shape far from all rows");
    tuned_call(4, 4, small, "a row that does not cover its shape");
}

/* A line that is not understood is an error on all ranks, with its place. */
static void mistuned(void)
{
    const struct shape s = {16, 16, 16, 0};
    const struct tp_case t = tp_make_case(&s, cclGatherRows, 2);
    tm_at("a wrong tuning table");
    TM_RC(tp_call(&t, &tp_a[TM_HEAP], &tp_c[TM_HEAP], NULL, NULL), cclInvalidArgument);
    TM_TEXT("line 3: 'fast' is not understood");
}

static size_t count_text(const char *text, const char *needle)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, needle)) != NULL; at++) {
        count++;
    }
    return count;
}

/* A trace names the products and has every fetch and every tile once, and the waits for their flags. */
static void traced(void)
{
    const struct shape s = {32, 40, 64, 0};
    const size_t peers = (size_t)tm_size - 1, units = (size_t)tm_size * 2, bytes = (size_t)1 << 22;
    cclConfig_t with_trace = CCL_CONFIG_INITIALIZER;
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    const cclComm_t before = tp_comm;
    char path[256], want[80], *text = calloc(1, bytes);
    struct tm_buf a, c;
    with_trace.trace = 1;
    tm_at("traced products");
    tp_comm = tm_comm_create(MPI_COMM_WORLD, &with_trace);
    tm_buf_create(&a, tp_comm, TM_HEAP, LARGEST);
    tm_buf_create(&c, tp_comm, TM_HEAP, LARGEST + TM_GUARD);
    config.algorithm = cclAlgoHbmBuffer, config.gemm_tile_m = 16, config.gemm_tile_n = 16, config.gemm_tile_k = 16, config.k_per_flag = 2;
    const struct tp_case t = tp_make_case(&s, cclGatherRows, 2), out = tp_make_case(&s, cclGatherOutput, 2);
    tp_upload(&t, &a, &c);
    TM_OK(tp_call(&t, &a, &c, NULL, &config));
    TM_OK(cclStreamSynchronize(tp_stream));
    tp_fetch_and_verify(&t, &c, "traced");
    config.trace = 0;
    TM_OK(tp_call(&t, &a, &c, NULL, &config)); /* leaves nothing */
    TM_OK(cclStreamSynchronize(tp_stream));
    tp_upload(&out, &a, &c);
    TM_OK(tp_call(&out, &a, &c, NULL, NULL));
    TM_OK(cclStreamSynchronize(tp_stream));
    tp_fetch_and_verify(&out, &c, "traced");
    snprintf(path, sizeof(path), "%s/ccl_matmul_%ld.json", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp", (long)getpid());
    TM_OK(cclTraceExport(tp_comm, path));
    FILE *file = fopen(path, "r");
    if (file == NULL || fread(text, 1, bytes - 1, file) == 0) {
        tm_fail(__FILE__, __LINE__, "no trace in %s", path);
    }
    if (file != NULL) {
        fclose(file);
        remove(path);
    }
    snprintf(want, sizeof(want), "all_gather_matmul hbm_buffer %zux40 float16 op 1\"", t.desc.m);
    TEST_CHECK(count_text(text, want) >= 1 && count_text(text, "hbm_buffer") == count_text(text, want));
    snprintf(want, sizeof(want), "matmul_all_gather fused %zux40 float16 op 3\"", t.desc.m);
    TEST_CHECK(count_text(text, want) >= 1);
    TEST_EQ(count_text(text, "\"fetch unit"), peers * 2 * 2);            /* units of peers, groups */
    TEST_EQ(count_text(text, "\"wait unit"), peers * 2 * 2 * 3);         /* for each column of tiles */
    TEST_CHECK(count_text(text, "\"gemm unit") > units * 3);             /* the other product's too */
    TEST_CHECK(count_text(text, "{") == count_text(text, "}"));
    free(text);
    tm_buf_destroy(&a);
    tm_buf_destroy(&c);
    TM_OK(cclCommDestroy(tp_comm));
    tp_comm = before;
}

int main(int argc, char **argv)
{
    char path[256];
    TM_INIT(argc, argv);
    tm_watchdog(50);
    if (tm_has_arg("group")) {
        grouped();
        return tm_finish();
    }
    if (!tm_has_arg("trace")) {
        write_table(tm_has_arg("tuned") ? TABLE : "\nall_gather_matmul x86-64 2 rows float16 32 32 32 fast - - - - - - - -\n", path, sizeof(path));
    }
    tp_open();
    if (tm_has_arg("trace")) {
        traced();
    } else if (tm_has_arg("tuned")) {
        tuned();
    } else {
        mistuned();
    }
    if (!tm_has_arg("trace") && tm_rank == 0) {
        remove(path);
    }
    tp_close();
    return tm_finish();
}
