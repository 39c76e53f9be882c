/* SPDX-License-Identifier: MIT
 *
 * Proves that both fused products are right within the bound of their type for shapes that divide by the tiles and that do not, by rows and by columns, with one row or one
 * column, with bias and pads, in every kind of memory, and that every algorithm, tile and layout gives the same bits on all ranks; with ranks that come
 * late; and call behind call with inputs that change in stream order, in one workspace. */
/* CTEST: ranks 2 3 4 8; labels mpi host quick; timeout 60; args small; gpu 0 */
/* CTEST: ranks 1 3; labels mpi host; timeout 120; args full; gpu 0 */
/* CTEST: ranks 2 3; labels mpi host; timeout 60; args behind; gpu 0; env CCL_HOST_THREADS=3; name threads */
/* CTEST: ranks 2; labels mpi host quick; timeout 60; args tuned; gpu 0 */
/* CTEST: ranks 2; labels mpi host quick; timeout 60; args mistuned; gpu 0 */
/* CTEST: ranks 2 3; labels mpi host quick; timeout 60; args trace; gpu 0; env CCL_HOST_THREADS=2; name trace */
/* CTEST: ranks 1; labels mpi host quick tsan; timeout 60; args group; gpu 0; env CCL_HOST_THREADS=2; name group */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "product.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define LARGEST ((size_t)1 << 20) /* bytes of a matrix */

struct shape {
    size_t rows, n, cols; /* rows x cols is A of a rank, or all of m, n, k but for the gathered size */
    size_t pad;           /* multiples of 8 elements behind the rows */
};
static const struct shape shapes[] = {{1, 1, 1, 0},   {1, 40, 33, 1}, {33, 1, 16, 0},  {16, 32, 64, 0}, {33, 17, 65, 1},
                                      {5, 100, 300, 0}, {48, 24, 7, 2}, {31, 65, 40, 0}, {64, 64, 128, 0}};
static const int algorithms[][3] = {{cclAlgoAuto, CCL_UNSET, CCL_UNSET},
                                    {cclAlgoBaseline, CCL_UNSET, CCL_UNSET},
                                    {cclAlgoSequential, CCL_UNSET, CCL_UNSET},
                                    {cclAlgoHbmBuffer, cclKContiguous, cclFetchPull},
                                    {cclAlgoHbmBuffer, cclMContiguous, cclFetchPull},
                                    {cclAlgoHbmBuffer, cclKContiguous, cclFetchPush}};
static const int tiles[][4] = {{CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET}, {16, 16, 16, 1}, {8, 24, 32, 2}, {5, 7, 3, 4}, {64, 8, 11, 1}};

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

static cclComm_t comm;
static cclStream_t stream;
static struct tm_buf a_bufs[TM_NUM_KINDS], c_bufs[TM_NUM_KINDS], b_buf, bias_buf;
static uint16_t *host, *first;
static uint64_t seed = 1;
static unsigned long products;

static size_t pitch(size_t cols, size_t pad) { return (cols + 7) / 8 * 8 + 8 * pad; }

static struct tp_case make_case(const struct shape *s, int gather, unsigned turn)
{
    struct tp_case t = {.desc = CCL_MATMUL_DESC_INITIALIZER, .seed = ++seed};
    cclMatmulDesc_t *d = &t.desc;
    d->gather = gather;
    d->m = gather == cclGatherColumns ? s->rows : s->rows * (size_t)tm_size;
    d->k = gather == cclGatherColumns ? s->cols * (size_t)tm_size : s->cols;
    d->n = s->n;
    d->shard = gather == cclGatherColumns ? s->cols : s->rows;
    d->type = turn % 2 ? cclBfloat16 : cclFloat16;
    d->b_transposed = turn / 2 % 2;
    d->bias = (int)(turn % 3);
    d->lda = pitch(s->cols, s->pad);
    d->ldb = pitch(d->b_transposed ? d->k : d->n, s->pad);
    d->ldc = pitch(d->n, s->pad);
    t.b_differs = turn / 4 % 2;
    return t;
}

static void upload(const struct tp_case *t, struct tm_buf *a, struct tm_buf *c)
{
    tp_fill_a(t, tm_rank, host);
    tm_put(a->base, host, 2 * tp_a_elements(t));
    tp_fill_b(t, tm_rank, host);
    tm_put(b_buf.base, host, 2 * tp_b_elements(t));
    tp_fill_bias(t, tm_rank, host);
    tm_put(bias_buf.base, host, 2 * tp_bias_elements(t) + 2);
    tm_set(c->base, TM_POISON, 2 * tp_c_elements(t) + TM_GUARD);
}

static cclResult_t call(const struct tp_case *t, struct tm_buf *a, struct tm_buf *c, cclMatmulWorkspace_t ws, const cclCallConfig_t *config)
{
    const void *bias = t->desc.bias == cclBiasNone ? NULL : bias_buf.base;
    return t->desc.gather == cclGatherOutput ? cclMatmulAllGather(&t->desc, a->base, b_buf.base, bias, c->base, ws, config, comm, stream)
                                             : cclAllGatherMatmul(&t->desc, a->base, b_buf.base, bias, c->base, ws, config, comm, stream);
}

/* The result is right, and behind it nothing was touched. */
static bool fetch_and_verify(const struct tp_case *t, struct tm_buf *c, const char *what)
{
    const size_t bytes = 2 * tp_c_elements(t);
    tm_get(host, c->base, bytes + TM_GUARD);
    products++;
    return tm_check_bytes((char *)host + bytes, TM_GUARD, TM_POISON, "guard behind c") && tp_verify(t, tm_size, tm_rank, host, what);
}

/* Bits of c, pads left out, are the same as in `first`, and where all ranks have one B, on all ranks. */
static void same_bits(const struct tp_case *t, bool is_first, const char *what)
{
    const size_t elements = tp_c_elements(t);
    if (is_first) {
        memcpy(first, host, 2 * elements);
        if (!t->b_differs) {
            MPI_Bcast(first, (int)elements, MPI_UINT16_T, 0, MPI_COMM_WORLD);
        }
    }
    for (size_t i = 0; i < elements; i++) {
        if (i % t->desc.ldc < t->desc.n && host[i] != first[i]) {
            tm_fail(__FILE__, __LINE__, "%s: c[%zu][%zu] is %#06x, elsewhere %#06x", what, i / t->desc.ldc, i % t->desc.ldc, host[i], first[i]);
            return;
        }
    }
}

static void check_effective(const cclCallConfig_t *asked, const char *what)
{
    cclCallConfig_t used = CCL_CALL_CONFIG_INITIALIZER;
    if (!TM_OK(cclGetEffectiveConfig(comm, &used))) {
        return;
    }
    const int pairs[][2] = {{asked->algorithm == cclAlgoAuto ? CCL_UNSET : asked->algorithm, used.algorithm},
                            {asked->layout, used.layout},
                            {asked->fetch, used.fetch},
                            {asked->gemm_tile_m, used.gemm_tile_m},
                            {asked->gemm_tile_n, used.gemm_tile_n},
                            {asked->gemm_tile_k, used.gemm_tile_k},
                            {asked->k_per_flag, used.k_per_flag},
                            {asked->fixed_order, used.fixed_order}};
    for (size_t i = 0; i < LENGTH(pairs); i++) {
        if (pairs[i][0] != CCL_UNSET && pairs[i][0] != pairs[i][1]) {
            tm_fail(__FILE__, __LINE__, "%s: effective field %zu is %d, asked for %d", what, i, pairs[i][1], pairs[i][0]);
        }
    }
    TEST_CHECK(used.gemm_tile_m > 0 && used.gemm_tile_n > 0 && used.gemm_tile_k > 0 && used.comm_sms > 0 && used.group_m > 0);
}

static int at_most(int value, size_t most) { return value == CCL_UNSET || (size_t)value <= most ? value : (int)most; }

static void one(const struct tp_case *t, const int *algorithm, const int *tile, int order, struct tm_buf *a, struct tm_buf *c, bool is_first)
{
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    char what[240];
    config.algorithm = algorithm[0], config.layout = algorithm[1], config.fetch = algorithm[2];
    config.gemm_tile_m = tile[0], config.gemm_tile_n = tile[1], config.gemm_tile_k = tile[2];
    if (config.algorithm == cclAlgoHbmBuffer && tile[2] != CCL_UNSET) {
        config.k_per_flag = at_most(tile[3], (t->desc.k + (size_t)tile[2] - 1) / (size_t)tile[2]);
    }
    config.fixed_order = order;
    snprintf(what, sizeof(what), "gather %d %zux%zux%zu type %d b^T %d bias %d, algorithm %d layout %d fetch %d, tile %dx%dx%d flag %d order %d, a %s c %s",
             t->desc.gather, t->desc.m, t->desc.n, t->desc.k, (int)t->desc.type, t->desc.b_transposed, t->desc.bias, config.algorithm, config.layout,
             config.fetch, tile[0], tile[1], tile[2], config.k_per_flag, order, tm_kind_names[a->kind], tm_kind_names[c->kind]);
    tm_at("%s", what);
    upload(t, a, c);
    if (TM_OK(call(t, a, c, NULL, &config)) && TM_OK(cclStreamSynchronize(stream)) && fetch_and_verify(t, c, what)) {
        check_effective(&config, what);
        if (order != 0) {
            same_bits(t, is_first, what);
        }
    }
}

/* Every step-th combination. */
static void table(unsigned step)
{
    unsigned turn = 0, count = 0;
    for (size_t s = 0; s < LENGTH(shapes); s++) {
        for (int gather = cclGatherRows; gather <= cclGatherOutput; gather++) {
            const struct tp_case t = make_case(&shapes[s], gather, turn++);
            const size_t ways = gather == cclGatherOutput ? 1 : gather == cclGatherColumns ? LENGTH(algorithms) - 1 : LENGTH(algorithms);
            bool is_first = true;
            for (size_t i = 0; i < ways * LENGTH(tiles); i++) {
                if (i != 0 && count++ % step != 0) {
                    continue;
                }
                const unsigned kinds = turn + (unsigned)i;
                one(&t, algorithms[i % ways], tiles[i / ways], gather == cclGatherOutput ? CCL_UNSET : 1, &a_bufs[kinds % TM_NUM_KINDS],
                    &c_bufs[kinds / 2 % TM_NUM_KINDS], is_first);
                is_first = false;
            }
            if (gather == cclGatherColumns) {
                one(&t, algorithms[1 + turn % 3], tiles[turn % LENGTH(tiles)], 0, &a_bufs[TM_HEAP], &c_bufs[TM_PLAIN], false);
            }
        }
    }
}

/* Ranks come one by one, the last one late, in another order each time. */
static void skewed(void)
{
    for (unsigned i = 0; i < 6; i++) {
        const struct tp_case t = make_case(&shapes[4], (int)(i % 3), i);
        tm_at("skewed ranks, turn %u", i);
        upload(&t, &a_bufs[TM_HEAP], &c_bufs[TM_HEAP]);
        cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
        config.algorithm = i % 3 == 2 ? CCL_UNSET : algorithms[1 + i % 4][0];
        tm_sleep_ms((unsigned)((tm_rank + (int)i) % tm_size) * 10);
        if (TM_OK(call(&t, &a_bufs[TM_HEAP], &c_bufs[TM_HEAP], NULL, &config)) && TM_OK(cclStreamSynchronize(stream))) {
            fetch_and_verify(&t, &c_bufs[TM_HEAP], "skewed");
        }
    }
}

#define DEPTH 12

/* Calls enqueued one behind the other: A is overwritten in stream order right behind each, in one workspace, with shapes that need less than it has. */
static void behind(int gather, const int *algorithm, unsigned turn)
{
    const struct shape s = {33, 40, 72, 0}, small = {17, 40, 40, 0};
    struct tp_case cases[DEPTH];
    uint16_t *inputs[DEPTH];
    struct tm_buf *a = &a_bufs[turn % 2 ? TM_HEAP : TM_PLAIN], outs;
    cclMatmulWorkspace_t ws = NULL;
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    config.algorithm = gather == cclGatherOutput ? CCL_UNSET : algorithm[0];
    config.layout = gather == cclGatherOutput ? CCL_UNSET : algorithm[1];
    config.fetch = gather == cclGatherOutput ? CCL_UNSET : algorithm[2];
    config.gemm_tile_m = 16, config.gemm_tile_n = 16, config.gemm_tile_k = 16;
    cases[0] = make_case(&s, gather, turn);
    tm_at("call behind call, gather %d algorithm %d layout %d fetch %d", gather, config.algorithm, config.layout, config.fetch);
    TM_MUST(cclMatmulWorkspaceCreate(comm, &cases[0].desc, &config, &ws));
    tm_buf_create(&outs, comm, turn % 2 ? TM_HEAP : TM_PLAIN, DEPTH * LARGEST);
    upload(&cases[0], a, &outs); /* B and bias stay */
    for (int i = 0; i < DEPTH; i++) {
        struct tp_case *t = &cases[i];
        *t = make_case(i % 4 == 3 ? &small : &s, gather, turn);
        const size_t of_a = tp_a_elements(t), of_b = tp_b_elements(t), of_bias = tp_bias_elements(t);
        struct tm_buf out = outs;
        out.base += (size_t)i * LARGEST;
        inputs[i] = malloc(2 * (of_a + of_b + of_bias));
        tp_fill_a(t, tm_rank, inputs[i]);
        tp_fill_b(t, tm_rank, inputs[i] + of_a);
        tp_fill_bias(t, tm_rank, inputs[i] + of_a + of_b);
        TM_OK(cclMemsetAsync(out.base, TM_POISON, 2 * tp_c_elements(t) + TM_GUARD, stream));
        TM_OK(cclMemcpyAsync(a->base, inputs[i], 2 * of_a, stream));
        TM_OK(cclMemcpyAsync(b_buf.base, inputs[i] + of_a, 2 * of_b, stream));
        if (of_bias != 0) {
            TM_OK(cclMemcpyAsync(bias_buf.base, inputs[i] + of_a + of_b, 2 * of_bias, stream));
        }
        if ((i * 7 + tm_rank) % 5 == 0) {
            tm_sleep_ms(2);
        }
        TM_OK(call(t, a, &out, ws, &config));
        if (i % 4 == 3) {
            TM_OK(cclStreamSynchronize(stream));
        }
    }
    TM_OK(cclStreamSynchronize(stream));
    for (int i = 0; i < DEPTH; i++) {
        struct tm_buf out = outs;
        out.base += (size_t)i * LARGEST;
        fetch_and_verify(&cases[i], &out, "call behind call");
        free(inputs[i]);
    }
    tm_buf_destroy(&outs);
    TM_OK(cclMatmulWorkspaceDestroy(ws));
}

/* Many tiny calls on one workspace: tags of ready words come round again in a library with narrow ones. Every 1024th call has words that no call in between has, and
 * its peers come late. */
static void wrap(unsigned calls)
{
    const struct shape s = {3, 4, 5, 0};
    for (unsigned i = 0; i < calls; i++) {
        const bool rare = i % 1024 == 0;
        const int *way = algorithms[i % 512 == 511 ? 1 : rare ? 3 : 3 + i % 3];
        const struct tp_case t = make_case(&s, cclGatherRows, 2);
        cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
        config.algorithm = way[0], config.layout = way[1], config.fetch = way[2];
        config.gemm_tile_m = rare ? 1 : 2 + (int)(i / 100 % 2), config.gemm_tile_k = rare ? 1 : 3 + (int)(i / 100 % 3);
        config.k_per_flag = way[0] == cclAlgoHbmBuffer ? 1 : CCL_UNSET;
        tm_at("tiny call %u", i);
        upload(&t, &a_bufs[TM_HEAP], &c_bufs[TM_HEAP]);
        if (rare && tm_rank != 0) {
            tm_sleep_ms(50);
        }
        if (!TM_OK(call(&t, &a_bufs[TM_HEAP], &c_bufs[TM_HEAP], NULL, &config)) || !TM_OK(cclStreamSynchronize(stream)) ||
            !fetch_and_verify(&t, &c_bufs[TM_HEAP], "tiny call")) {
            tm_die(); /* the others would go on, and wait for this rank */
        }
    }
}

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
        t = make_case(&s, (int)(turn % 3), turn * 3);
        t.desc.bias = cclBiasNone;
        config.gemm_tile_m = 16, config.gemm_tile_n = 16, config.gemm_tile_k = 16;
        config.algorithm = turn % 3 == cclGatherOutput ? CCL_UNSET : algorithms[1 + turn / 3 % 4][0];
        config.layout = turn % 3 == cclGatherOutput ? CCL_UNSET : algorithms[1 + turn / 3 % 4][1];
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
            products++;
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
    const struct tp_case t = make_case(&s, cclGatherRows, 2);
    cclCallConfig_t used = CCL_CALL_CONFIG_INITIALIZER;
    tm_at("%s", what);
    upload(&t, &a_bufs[TM_HEAP], &c_bufs[TM_HEAP]);
    if (TM_OK(call(&t, &a_bufs[TM_HEAP], &c_bufs[TM_HEAP], NULL, NULL)) && TM_OK(cclStreamSynchronize(stream)) &&
        fetch_and_verify(&t, &c_bufs[TM_HEAP], what) && TM_OK(cclGetEffectiveConfig(comm, &used))) {
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
    const struct tp_case t = make_case(&s, cclGatherRows, 2);
    tm_at("a wrong tuning table");
    TM_RC(call(&t, &a_bufs[TM_HEAP], &c_bufs[TM_HEAP], NULL, NULL), cclInvalidArgument);
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
    const cclComm_t before = comm;
    char path[256], want[80], *text = calloc(1, bytes);
    struct tm_buf a, c;
    with_trace.trace = 1;
    tm_at("traced products");
    comm = tm_comm_create(MPI_COMM_WORLD, &with_trace);
    tm_buf_create(&a, comm, TM_HEAP, LARGEST);
    tm_buf_create(&c, comm, TM_HEAP, LARGEST + TM_GUARD);
    config.algorithm = cclAlgoHbmBuffer, config.gemm_tile_m = 16, config.gemm_tile_n = 16, config.gemm_tile_k = 16, config.k_per_flag = 2;
    const struct tp_case t = make_case(&s, cclGatherRows, 2), out = make_case(&s, cclGatherOutput, 2);
    upload(&t, &a, &c);
    TM_OK(call(&t, &a, &c, NULL, &config));
    TM_OK(cclStreamSynchronize(stream));
    fetch_and_verify(&t, &c, "traced");
    config.trace = 0;
    TM_OK(call(&t, &a, &c, NULL, &config)); /* leaves nothing */
    TM_OK(cclStreamSynchronize(stream));
    upload(&out, &a, &c);
    TM_OK(call(&out, &a, &c, NULL, NULL));
    TM_OK(cclStreamSynchronize(stream));
    fetch_and_verify(&out, &c, "traced");
    snprintf(path, sizeof(path), "%s/ccl_matmul_%ld.json", getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp", (long)getpid());
    TM_OK(cclTraceExport(comm, path));
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
    TM_OK(cclCommDestroy(comm));
    comm = before;
}

static void several_behind(void)
{
    unsigned turn = 0;
    for (int gather = cclGatherRows; gather <= cclGatherOutput; gather++) {
        const size_t ways = gather == cclGatherOutput ? 2 : gather == cclGatherColumns ? LENGTH(algorithms) - 1 : LENGTH(algorithms);
        for (size_t i = 1; i < ways; i++) {
            behind(gather, algorithms[i], turn++);
        }
    }
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    tm_watchdog(tm_has_arg("full") ? 110 : 50);
    if (tm_has_arg("group")) {
        grouped();
        return tm_finish();
    }
    char path[256];
    if (tm_has_arg("tuned") || tm_has_arg("mistuned")) {
        write_table(tm_has_arg("tuned") ? TABLE : "\nall_gather_matmul x86-64 2 rows float16 32 32 32 fast - - - - - - - -\n", path, sizeof(path));
    }
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    host = malloc(LARGEST + TM_GUARD);
    first = malloc(LARGEST);
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_create(&a_bufs[k], comm, (enum tm_kind)k, LARGEST);
        tm_buf_create(&c_bufs[k], comm, (enum tm_kind)k, LARGEST + TM_GUARD);
    }
    tm_buf_create(&b_buf, comm, TM_PLAIN, LARGEST);
    tm_buf_create(&bias_buf, comm, TM_PLAIN, LARGEST);
    if (tm_has_arg("trace")) {
        traced();
    } else if (tm_has_arg("wrap")) {
        wrap(2600);
    } else if (tm_has_arg("tuned") || tm_has_arg("mistuned")) {
        if (tm_has_arg("tuned")) {
            tuned();
        } else {
            mistuned();
        }
        if (tm_rank == 0) {
            remove(path);
        }
    } else if (tm_has_arg("behind")) {
        several_behind();
    } else {
        table((tm_has_arg("full") ? 1 : 13) * (TM_SANITIZED ? 5 : 1));
        skewed();
        several_behind();
    }
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_destroy(&a_bufs[k]);
        tm_buf_destroy(&c_bufs[k]);
    }
    tm_buf_destroy(&b_buf);
    tm_buf_destroy(&bias_buf);
    free(host);
    free(first);
    if (tm_rank == 0) {
        printf("%lu products a rank, largest error %.3f of the bound\n", products, tp_worst);
    }
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclCommDestroy(comm));
    return tm_finish();
}
