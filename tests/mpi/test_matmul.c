/* SPDX-License-Identifier: MIT
 *
 * Proves that both fused products are right within the bound of their type for shapes that divide by the tiles and that do not, by rows and by columns, with one row or one
 * column, with bias and pads, in every kind of memory, and that every algorithm, tile and layout gives the same bits on all ranks; with ranks that come
 * late; and call behind call with inputs that change in stream order, in one workspace; with an even number of rows of tiles, several of each block and deeper than its
 * stages, which pairs of blocks of sm_90a take. */
/* CTEST: ranks 2 3 4 8; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 1 3; labels mpi host; timeout 120; args full; gpu 1 2 3 */
/* CTEST: ranks 2; labels mpi host; timeout 60; args pairs; gpu 1 2 3 5; env CCL_MATMUL_PAIRS=1; name pairs */
/* CTEST: ranks 2 3; labels mpi host; timeout 60; args behind; gpu 0; env CCL_HOST_THREADS=3; name threads */
#include <string.h>

#include "product_call.h"

static const struct shape shapes[] = {{1, 1, 1, 0},   {1, 40, 33, 1}, {33, 1, 16, 0},  {16, 32, 64, 0}, {33, 17, 65, 1},
                                      {5, 100, 300, 0}, {48, 24, 7, 2}, {31, 65, 40, 0}, {64, 64, 128, 0}};
#define TILES 5
static const int host_tiles[TILES][4] = {{CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET}, {16, 16, 16, 1}, {8, 24, 32, 2}, {5, 7, 3, 4}, {64, 8, 11, 1}};
static const int gpu_tiles[TILES][4] = {{CCL_UNSET, CCL_UNSET, CCL_UNSET, CCL_UNSET}, {16, 16, 16, 1}, {8, 24, 32, 2}, {40, 56, 8, 4}, {64, 8, 64, 1}};

static uint16_t *first;

/* Bits of c, pads left out, are the same as in `first`, and where all ranks have one B, on all ranks. */
static void same_bits(const struct tp_case *t, bool is_first, const char *what)
{
    const size_t elements = tp_c_elements(t);
    if (is_first) {
        memcpy(first, tp_host, 2 * elements);
        if (!t->b_differs) {
            MPI_Bcast(first, (int)elements, MPI_UINT16_T, 0, MPI_COMM_WORLD);
        }
    }
    for (size_t i = 0; i < elements; i++) {
        if (i % t->desc.ldc < t->desc.n && tp_host[i] != first[i]) {
            tm_fail(__FILE__, __LINE__, "%s: c[%zu][%zu] is %#06x, elsewhere %#06x", what, i / t->desc.ldc, i % t->desc.ldc, tp_host[i], first[i]);
            return;
        }
    }
}

static void check_effective(const cclCallConfig_t *asked, const char *what)
{
    cclCallConfig_t used = CCL_CALL_CONFIG_INITIALIZER;
    if (!TM_OK(cclGetEffectiveConfig(tp_comm, &used))) {
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
    tp_upload(t, a, c);
    if (TM_OK(tp_call(t, a, c, NULL, &config)) && TM_OK(cclStreamSynchronize(tp_stream)) && tp_fetch_and_verify(t, c, what)) {
        check_effective(&config, what);
        if (order != 0) {
            same_bits(t, is_first, what);
        }
    }
}

/* Every step-th combination. */
static void table(unsigned step)
{
    const int(*tiles)[4] = tm_backend_is_host() ? host_tiles : gpu_tiles;
    unsigned turn = 0, count = 0;
    for (size_t s = 0; s < LENGTH(shapes); s++) {
        for (int gather = cclGatherRows; gather <= cclGatherOutput; gather++) {
            const struct tp_case t = tp_make_case(&shapes[s], gather, turn++);
            const size_t ways = gather == cclGatherOutput ? 1 : gather == cclGatherColumns ? TP_WAYS - 1 : TP_WAYS;
            bool is_first = true;
            for (size_t i = 0; i < ways * TILES; i++) {
                if ((i != 0 && count++ % step != 0) || !tp_has_way(gather, tp_ways[i % ways])) {
                    continue;
                }
                const unsigned kinds = turn + (unsigned)i;
                one(&t, tp_ways[i % ways], tiles[i / ways], gather == cclGatherOutput ? CCL_UNSET : 1, &tp_a[kinds % TM_NUM_KINDS],
                    &tp_c[kinds / 2 % TM_NUM_KINDS], is_first);
                is_first = false;
            }
            if (gather == cclGatherColumns) {
                one(&t, tp_ways[tm_backend_is_host() ? 1 + turn % 3 : 2 + turn % 2], tiles[turn % TILES], 0, &tp_a[TM_HEAP], &tp_c[TM_PLAIN], false);
            }
        }
    }
}

/* Ranks come one by one, the last one late, in another order each time. */
static void skewed(void)
{
    for (unsigned i = 0; i < 6; i++) {
        const struct tp_case t = tp_make_case(&shapes[4], (int)(i % 3), i);
        tm_at("skewed ranks, turn %u", i);
        tp_upload(&t, &tp_a[TM_HEAP], &tp_c[TM_HEAP]);
        cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
        config.algorithm = i % 3 == 2 || !tp_has_way((int)(i % 3), tp_ways[1 + i % 4]) ? CCL_UNSET : tp_ways[1 + i % 4][0];
        tm_sleep_ms((unsigned)((tm_rank + (int)i) % tm_size) * 10);
        if (TM_OK(tp_call(&t, &tp_a[TM_HEAP], &tp_c[TM_HEAP], NULL, &config)) && TM_OK(cclStreamSynchronize(tp_stream))) {
            tp_fetch_and_verify(&t, &tp_c[TM_HEAP], "skewed");
        }
    }
}

/* One shape, every algorithm, shards of rows and of columns, and cclMatmulAllGather, each with one of the first tiles. */
static void each_way(const struct shape *s, size_t tiles)
{
    for (int gather = cclGatherRows; gather <= cclGatherOutput; gather++) {
        const struct tp_case t = tp_make_case(s, gather, (unsigned)gather * 5);
        const size_t ways = gather == cclGatherOutput ? 1 : gather == cclGatherColumns ? TP_WAYS - 1 : TP_WAYS;
        bool is_first = true;
        for (size_t i = gather == cclGatherOutput ? 0 : 1; i < ways; i++) {
            if (tp_has_way(gather, tp_ways[i])) {
                one(&t, tp_ways[i], gpu_tiles[i % tiles], gather == cclGatherOutput ? CCL_UNSET : 1, &tp_a[TM_HEAP], &tp_c[TM_HEAP], is_first);
                is_first = false;
            }
        }
    }
}

/* Every way and several tiles; layout of B, type and bias turn. The last column of tiles has 8 columns. Now and then a rank comes late. */
static void in_pairs(void)
{
    static const struct shape deep = {256, 264, 520, 1}, flat = {130, 264, 24, 0};
    static const int tiles[3] = {0, 1, 4};
    unsigned turn = 0;
    for (int i = 0; i < 4; i++) {
        for (int gather = cclGatherRows; gather <= cclGatherOutput; gather++) {
            const struct tp_case t = tp_make_case(i < 3 ? &deep : &flat, gather, (unsigned)i * 3 + (unsigned)gather);
            const size_t ways = gather == cclGatherOutput ? 1 : gather == cclGatherColumns ? TP_WAYS - 1 : TP_WAYS;
            bool is_first = true;
            for (size_t way = 0; way < ways; way++) {
                if (tp_has_way(gather, tp_ways[way])) {
                    tm_sleep_ms((unsigned)tm_rank == turn % 4 ? 5 : 0);
                    one(&t, tp_ways[way], gpu_tiles[tiles[turn++ % 3]], gather == cclGatherOutput ? CCL_UNSET : 1, &tp_a[TM_HEAP], &tp_c[TM_HEAP], is_first);
                    is_first = false;
                }
            }
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
    struct tm_buf *a = &tp_a[turn % 2 ? TM_HEAP : TM_PLAIN], outs;
    cclMatmulWorkspace_t ws = NULL;
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    config.algorithm = gather == cclGatherOutput ? CCL_UNSET : algorithm[0];
    config.layout = gather == cclGatherOutput ? CCL_UNSET : algorithm[1];
    config.fetch = gather == cclGatherOutput ? CCL_UNSET : algorithm[2];
    config.gemm_tile_m = 16, config.gemm_tile_n = 16, config.gemm_tile_k = 16;
    cases[0] = tp_make_case(&s, gather, turn);
    tm_at("call behind call, gather %d algorithm %d layout %d fetch %d", gather, config.algorithm, config.layout, config.fetch);
    TM_MUST(cclMatmulWorkspaceCreate(tp_comm, &cases[0].desc, &config, &ws));
    tm_buf_create(&outs, tp_comm, turn % 2 ? TM_HEAP : TM_PLAIN, DEPTH * LARGEST);
    tp_upload(&cases[0], a, &outs); /* B and bias stay */
    for (int i = 0; i < DEPTH; i++) {
        struct tp_case *t = &cases[i];
        *t = tp_make_case(i % 4 == 3 ? &small : &s, gather, turn);
        const size_t of_a = tp_a_elements(t), of_b = tp_b_elements(t), of_bias = tp_bias_elements(t);
        struct tm_buf out = outs;
        out.base += (size_t)i * LARGEST;
        inputs[i] = malloc(2 * (of_a + of_b + of_bias));
        tp_fill_a(t, tm_rank, inputs[i]);
        tp_fill_b(t, tm_rank, inputs[i] + of_a);
        tp_fill_bias(t, tm_rank, inputs[i] + of_a + of_b);
        TM_OK(cclMemsetAsync(out.base, TM_POISON, 2 * tp_c_elements(t) + TM_GUARD, tp_stream));
        TM_OK(cclMemcpyAsync(a->base, inputs[i], 2 * of_a, tp_stream));
        TM_OK(cclMemcpyAsync(tp_b.base, inputs[i] + of_a, 2 * of_b, tp_stream));
        if (of_bias != 0) {
            TM_OK(cclMemcpyAsync(tp_bias.base, inputs[i] + of_a + of_b, 2 * of_bias, tp_stream));
        }
        if ((i * 7 + tm_rank) % 5 == 0) {
            tm_sleep_ms(2);
        }
        TM_OK(tp_call(t, a, &out, ws, &config));
        if (i % 4 == 3) {
            TM_OK(cclStreamSynchronize(tp_stream));
        }
    }
    TM_OK(cclStreamSynchronize(tp_stream));
    for (int i = 0; i < DEPTH; i++) {
        struct tm_buf out = outs;
        out.base += (size_t)i * LARGEST;
        tp_fetch_and_verify(&cases[i], &out, "call behind call");
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
        const int *way = tp_ways[i % 512 == 511 ? 1 : rare ? 3 : 3 + i % 3];
        const struct tp_case t = tp_make_case(&s, cclGatherRows, 2);
        cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
        config.algorithm = way[0], config.layout = way[1], config.fetch = way[2];
        config.gemm_tile_m = rare ? 1 : 2 + (int)(i / 100 % 2), config.gemm_tile_k = rare ? 1 : 3 + (int)(i / 100 % 3);
        config.k_per_flag = way[0] == cclAlgoHbmBuffer ? 1 : CCL_UNSET;
        tm_at("tiny call %u", i);
        tp_upload(&t, &tp_a[TM_HEAP], &tp_c[TM_HEAP]);
        if (rare && tm_rank != 0) {
            tm_sleep_ms(50);
        }
        if (!TM_OK(tp_call(&t, &tp_a[TM_HEAP], &tp_c[TM_HEAP], NULL, &config)) || !TM_OK(cclStreamSynchronize(tp_stream)) ||
            !tp_fetch_and_verify(&t, &tp_c[TM_HEAP], "tiny call")) {
            tm_die(); /* the others would go on, and wait for this rank */
        }
    }
}

static void several_behind(void)
{
    unsigned turn = 0;
    for (int gather = cclGatherRows; gather <= cclGatherOutput; gather++) {
        const size_t ways = gather == cclGatherOutput ? 2 : gather == cclGatherColumns ? TP_WAYS - 1 : TP_WAYS;
        for (size_t i = 1; i < ways; i++) {
            if (tp_has_way(gather, tp_ways[i])) {
                behind(gather, tp_ways[i], turn++);
            }
        }
    }
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    tm_watchdog(tm_has_arg("full") ? 110 : 50);
    tp_open();
    first = malloc(LARGEST);
    const struct shape tails = {17, 40, 72, 1}, larger = {130, 264, 136, 0}; /* than any tile, in m and n */
    if (tm_has_arg("smoke")) { /* each algorithm once, on the interpreter */
        each_way(&tails, 2);
    } else if (tm_has_arg("wrap")) {
        wrap(2600);
    } else if (tm_has_arg("pairs")) {
        in_pairs();
    } else if (tm_has_arg("behind")) {
        several_behind();
    } else {
        table((tm_has_arg("full") ? 1 : 13) * (TM_SANITIZED ? 5 : 1));
        each_way(&larger, 1);
        skewed();
        several_behind();
    }
    free(first);
    tp_close();
    return tm_finish();
}
