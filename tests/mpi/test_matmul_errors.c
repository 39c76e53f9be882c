/* SPDX-License-Identifier: MIT
 *
 * Proves that what is wrong with a fused product gets an error on all ranks that names the field and its value, leaves the communicator usable where all ranks see
 * it alike, and ends the waits of the peers, with a text, where one rank alone is wrong, calls something else, aborts or is gone. */
/* CTEST: ranks 1 2 3; labels mpi host quick; timeout 60 */
/* CTEST: ranks 2; labels mpi host; timeout 60; gpu 2 3; env CCL_MATMUL_PAIRS=1; name pairs */
#include <string.h>

#include "product.h"

#define BYTES ((size_t)1 << 16)

static cclComm_t comm;
static cclStream_t stream;
static struct tm_buf bufs[4];
static uint16_t *mem[4]; /* a, b, bias, c */
static const cclCallConfig_t unset = CCL_CALL_CONFIG_INITIALIZER;

static cclMatmulDesc_t good_desc(int gather)
{
    cclMatmulDesc_t d = CCL_MATMUL_DESC_INITIALIZER;
    d.gather = gather;
    d.shard = 16;
    d.m = gather == cclGatherColumns ? 24 : 16 * (size_t)tm_size;
    d.k = gather == cclGatherColumns ? 16 * (size_t)tm_size : 40;
    d.n = 24;
    d.lda = 56, d.ldb = 64, d.ldc = 32;
    d.type = cclFloat16;
    return d;
}

static cclResult_t call_on(cclComm_t on, const cclMatmulDesc_t *d, const void *bias, cclMatmulWorkspace_t ws, const cclCallConfig_t *config)
{
    return d->gather == cclGatherOutput ? cclMatmulAllGather(d, mem[0], mem[1], bias, mem[3], ws, config, on, stream)
                                        : cclAllGatherMatmul(d, mem[0], mem[1], bias, mem[3], ws, config, on, stream);
}

/* Refused alike on all ranks, before anything is enqueued, by calls and workspaces. */
static void refuse(const cclMatmulDesc_t *d, const cclCallConfig_t *config, const char *needle)
{
    cclMatmulWorkspace_t ws = NULL;
    tm_at("refusing %s", needle);
    TM_RC(call_on(comm, d, d->bias != cclBiasNone ? mem[2] : NULL, NULL, config), cclInvalidArgument);
    TM_TEXT(needle);
    TM_RC(cclMatmulWorkspaceCreate(comm, d, config, &ws), cclInvalidArgument);
    TM_TEXT(needle);
    TEST_CHECK(ws == NULL);
}

#define REFUSE_DESC(gather_, field, value, needle)   \
    do {                                             \
        cclMatmulDesc_t desc_ = good_desc(gather_);  \
        desc_.field = (value);                       \
        refuse(&desc_, NULL, needle);                \
    } while (0)
#define REFUSE_CONFIG(gather_, set, needle)          \
    do {                                             \
        cclMatmulDesc_t desc_ = good_desc(gather_);  \
        cclCallConfig_t config_ = unset;             \
        set;                                         \
        refuse(&desc_, &config_, needle);            \
    } while (0)

static void bad_desc(void)
{
    for (int gather = cclGatherRows; gather <= cclGatherOutput; gather++) {
        REFUSE_DESC(gather, type, cclFloat32, "type 7 (float32) is not supported");
        REFUSE_DESC(gather, type, cclNumTypes, "type 12");
        REFUSE_DESC(gather, m, 0, "m is 0");
        REFUSE_DESC(gather, n, (size_t)1 << 31, "n is 2147483648");
        REFUSE_DESC(gather, shard, 15, "shards do not add up");
        REFUSE_DESC(gather, shard, 0, "shard is 0");
        REFUSE_DESC(gather, lda, 8, "lda is 8, shorter");
        REFUSE_DESC(gather, lda, 57, "lda is 57, not a multiple of 8");
        REFUSE_DESC(gather, ldb, 66, "ldb is 66");
        REFUSE_DESC(gather, ldc, 16, "ldc is 16, shorter");
        REFUSE_DESC(gather, ldc, (size_t)1 << 46, "ldc 70368744177664");
        REFUSE_DESC(gather, bias, 7, "bias 7");
        REFUSE_DESC(gather, b_transposed, 2, "b_transposed is 2");
        REFUSE_DESC(gather, magic, 1, "magic 0x1");
        REFUSE_DESC(gather, size, 8, "size 8");
    }
    REFUSE_DESC(cclGatherRows, gather, 9, "gather 9");
    cclMatmulDesc_t d = good_desc(cclGatherRows);
    TM_RC(cclMatmulAllGather(&d, mem[0], mem[1], NULL, mem[3], NULL, NULL, comm, stream), cclInvalidArgument);
    TM_TEXT("gather is 0 (rows), this call wants cclGatherOutput");
    d = good_desc(cclGatherOutput);
    TM_RC(cclAllGatherMatmul(&d, mem[0], mem[1], NULL, mem[3], NULL, NULL, comm, stream), cclInvalidArgument);
    TM_TEXT("gather is 2 (output)");
    d = good_desc(cclGatherRows);
    TM_RC(call_on(comm, &d, mem[2], NULL, NULL), cclInvalidArgument);
    TM_TEXT("desc.bias is 0");
    d.bias = cclBiasByRow;
    TM_RC(call_on(comm, &d, NULL, NULL, NULL), cclInvalidArgument);
    TM_TEXT("desc.bias is 2");
    TM_RC(cclAllGatherMatmul(NULL, mem[0], mem[1], NULL, mem[3], NULL, NULL, comm, stream), cclInvalidArgument);
    TM_TEXT("desc is NULL");
    d.bias = cclBiasNone;
    TM_RC(cclAllGatherMatmul(&d, NULL, mem[1], NULL, mem[3], NULL, NULL, comm, stream), cclInvalidArgument);
    TM_TEXT("a is NULL");
    TM_RC(cclAllGatherMatmul(&d, mem[0], mem[1], NULL, mem[3], NULL, NULL, NULL, stream), cclInvalidArgument);
    TM_TEXT("comm is NULL");
}

static void bad_config(void)
{
    REFUSE_CONFIG(cclGatherRows, config_.algorithm = 4, "algorithm is 4");
    REFUSE_CONFIG(cclGatherRows, config_.variant = 1, "variant is 1");
    REFUSE_CONFIG(cclGatherRows, config_.tile_m = 32, "tile_m is 32");
    REFUSE_CONFIG(cclGatherRows, config_.threads = 64, "threads is 64");
    REFUSE_CONFIG(cclGatherRows, config_.comm_sms = 0, "comm_sms is 0");
    REFUSE_CONFIG(cclGatherRows, config_.comm_sms = 1 << 20, "comm_sms is 1048576");
    REFUSE_CONFIG(cclGatherRows, config_.gemm_tile_m = 0, "gemm_tile_m is 0");
    REFUSE_CONFIG(cclGatherRows, config_.gemm_tile_n = 4096, "gemm_tile_n is 4096");
    REFUSE_CONFIG(cclGatherRows, config_.gemm_tile_k = -3, "gemm_tile_k is -3");
    REFUSE_CONFIG(cclGatherRows, config_.fixed_order = 2, "fixed_order is 2");
    REFUSE_CONFIG(cclGatherRows, config_.trace = 7, "trace is 7");
    REFUSE_CONFIG(cclGatherRows, (config_.gemm_tile_k = 16, config_.k_per_flag = 4), "k_per_flag is 4, but K of 40 has 3 blocks");
    REFUSE_CONFIG(cclGatherRows, (config_.gemm_tile_m = 8, config_.group_m = 3), "group_m is 3, but there are 2 rows of tiles");
    REFUSE_CONFIG(cclGatherColumns, (config_.gemm_tile_m = 8, config_.group_m = 4), "group_m is 4, but there are 3 rows of tiles");
    REFUSE_CONFIG(cclGatherRows, (config_.comm_sms = 1, config_.num_fetch_sms = 2), "num_fetch_sms is 2, but there are 1 blocks");
    REFUSE_CONFIG(cclGatherColumns, config_.fetch = cclFetchPush, "fetch push needs shards of rows");
    REFUSE_CONFIG(cclGatherRows, (config_.fetch = cclFetchPush, config_.layout = cclMContiguous), "fetch push and layout m_contiguous");
    REFUSE_CONFIG(cclGatherRows, (config_.algorithm = cclAlgoBaseline, config_.layout = 0), "layout is 0, but algorithm baseline");
    REFUSE_CONFIG(cclGatherRows, (config_.algorithm = cclAlgoSequential, config_.k_per_flag = 1), "k_per_flag is 1, but algorithm sequential");
    REFUSE_CONFIG(cclGatherOutput, config_.algorithm = cclAlgoBaseline, "algorithm is 1, but there is only one");
    REFUSE_CONFIG(cclGatherOutput, config_.num_fetch_sms = 1, "num_fetch_sms is 1");
    REFUSE_CONFIG(cclGatherRows, config_.magic = 5, "magic 0x5");
}

/* The communicator works, with this workspace or with its own. */
static void works(cclMatmulWorkspace_t ws, const cclCallConfig_t *config)
{
    struct tp_case t = {.desc = good_desc(cclGatherRows), .seed = 5};
    tm_at("a call that must work");
    uint16_t *host = malloc(BYTES);
    tp_fill_a(&t, tm_rank, host);
    tm_put(mem[0], host, 2 * tp_a_elements(&t));
    tp_fill_b(&t, tm_rank, host);
    tm_put(mem[1], host, 2 * tp_b_elements(&t));
    tm_set(mem[3], TM_POISON, 2 * tp_c_elements(&t));
    if (TM_OK(call_on(comm, &t.desc, NULL, ws, config)) && TM_OK(cclStreamSynchronize(stream))) {
        tm_get(host, mem[3], 2 * tp_c_elements(&t));
        tp_verify(&t, tm_size, tm_rank, host, "after errors");
    }
    free(host);
}

static void bad_workspace(void)
{
    cclMatmulDesc_t d = good_desc(cclGatherRows), larger = d;
    cclMatmulWorkspace_t ws = NULL, dead;
    cclCallConfig_t config = unset, finer = unset;
    larger.k = 56;
    config.algorithm = cclAlgoHbmBuffer, config.gemm_tile_k = 16, config.k_per_flag = 1, config.gemm_tile_m = 16, config.gemm_tile_n = 16;
    TM_MUST(cclMatmulWorkspaceCreate(comm, &d, &config, &ws));
    works(ws, &config);
    TM_RC(call_on(comm, &larger, NULL, ws, &config), cclInvalidArgument);
    TM_TEXT("workspace was made for another shape");
    finer = config;
    finer.gemm_tile_m = 8;
    TM_RC(call_on(comm, &d, NULL, ws, &finer), cclInvalidArgument);
    TM_TEXT("ready words");
    finer.gemm_tile_m = 128;
    if (tm_backend_is_host()) { /* on a GPU a block needs as much for any tile */
        TM_RC(call_on(comm, &d, NULL, ws, &finer), cclInvalidArgument);
        TM_TEXT("bytes of scratch");
    }
    works(ws, &config);
    dead = ws;
    TM_OK(cclMatmulWorkspaceDestroy(ws));
    (void)dead;
    TM_OK(cclMatmulWorkspaceDestroy(NULL));
    works(NULL, &config);
    TM_MUST(cclMatmulWorkspaceCreate(comm, &d, NULL, &ws)); /* for whatever algorithm; left to the communicator */
    for (int a = cclAlgoBaseline; a <= cclAlgoSequential; a++) {
        config = unset;
        config.algorithm = a;
        works(ws, &config);
    }
}

/* ---- a communicator each: it ends with an error ---- */

static void expect_end(cclComm_t c, cclResult_t rc, cclResult_t want, const char *needle, const char *what)
{
    if (rc == cclSuccess) {
        rc = cclStreamSynchronize(stream);
    }
    tm_expect(__FILE__, __LINE__, what, rc, want);
    TM_TEXT(needle);
    TM_OK(cclCommDestroy(c));
}

static void one_rank_wrong(void)
{
    cclMatmulDesc_t d = good_desc(cclGatherRows);
    cclCallConfig_t config = unset;
    cclMatmulWorkspace_t ws = NULL;

    tm_at("ranks disagree about k");
    cclComm_t c = tm_comm_create(MPI_COMM_WORLD, NULL);
    d.k = tm_rank == 0 ? 40 : 39;
    expect_end(c, call_on(c, &d, NULL, NULL, NULL), cclInvalidUsage, "x 24 x 39", "another k");

    tm_at("ranks disagree about the algorithm");
    c = tm_comm_create(MPI_COMM_WORLD, NULL);
    d = good_desc(cclGatherRows);
    TM_MUST(cclMatmulWorkspaceCreate(c, &d, NULL, &ws));
    config.algorithm = tm_rank == tm_size - 1 ? cclAlgoHbmBuffer : cclAlgoBaseline;
    expect_end(c, call_on(c, &d, NULL, ws, &config), cclInvalidUsage, "hbm_buffer", "another algorithm");

    tm_at("one rank gathers, the others multiply");
    c = tm_comm_create(MPI_COMM_WORLD, NULL);
    TM_MUST(cclMatmulWorkspaceCreate(c, &d, NULL, &ws));
    cclResult_t rc = tm_rank == 0 ? cclAllGather(mem[0], mem[3], 64, cclFloat16, c, stream) : call_on(c, &d, NULL, ws, NULL);
    expect_end(c, rc, cclInvalidUsage, "all_gather_matmul", "another operation");

    tm_at("one rank has a misaligned pointer, behind another collective");
    c = tm_comm_create(MPI_COMM_WORLD, NULL);
    TM_MUST(cclMatmulWorkspaceCreate(c, &d, NULL, &ws));
    TM_MUST(cclAllReduce(mem[1], mem[3], 64, cclFloat16, cclSum, c, stream));
    TM_MUST(cclStreamSynchronize(stream));
    MPI_Barrier(MPI_COMM_WORLD);
    rc = cclAllGatherMatmul(&d, mem[0] + (tm_rank == 0), mem[1], NULL, mem[3], ws, NULL, c, stream);
    expect_end(c, rc, cclInvalidArgument, tm_rank == 0 ? "not aligned to 16" : "in its own error text: all_gather_matmul", "a misaligned pointer");

    tm_at("one rank brings a workspace of another communicator");
    c = tm_comm_create(MPI_COMM_WORLD, NULL);
    cclMatmulWorkspace_t other = NULL;
    TM_MUST(cclMatmulWorkspaceCreate(c, &d, NULL, &ws));
    TM_MUST(cclMatmulWorkspaceCreate(comm, &d, NULL, &other));
    rc = call_on(c, &d, NULL, tm_rank == 0 ? other : ws, NULL);
    expect_end(c, rc, cclInvalidArgument, tm_rank == 0 ? "belongs to another communicator" : "could not enqueue", "a workspace of another communicator");
}

/* Rank 0 never comes to the second call and gives up: the others are told, whatever they wait for. */
static void aborted(void)
{
    for (int way = 0; way < 4; way++) {
        cclMatmulDesc_t d = good_desc(way == 3 ? cclGatherOutput : cclGatherRows);
        cclCallConfig_t config = unset;
        cclComm_t c = tm_comm_create(MPI_COMM_WORLD, NULL);
        config.gemm_tile_m = 8; /* two rows of tiles: blocks may be pairs */
        config.algorithm = way == 0 ? cclAlgoBaseline : way == 3 ? CCL_UNSET : cclAlgoHbmBuffer;
        config.fetch = way == 1 ? cclFetchPull : way == 2 ? cclFetchPush : CCL_UNSET;
        tm_at("abort, way %d", way);
        TM_OK(call_on(c, &d, NULL, NULL, &config));
        TM_OK(cclStreamSynchronize(stream));
        double start = tm_now();
        if (tm_rank == 0) {
            tm_sleep_ms(30);
            TM_OK(cclCommAbort(c));
        } else {
            TM_OK(call_on(c, &d, NULL, NULL, &config));
            expect_end(c, cclSuccess, cclRemoteError, "rank 0 called cclCommAbort", "an abort");
        }
        TM_WITHIN("the end after an abort", tm_now() - start, 5.0);
    }
}

/* A backend without such kernels says so, and the communicator lives on. */
static void no_kernels(void)
{
    const cclMatmulDesc_t d = good_desc(cclGatherRows), out = good_desc(cclGatherOutput);
    cclMatmulWorkspace_t ws = NULL;
    for (int i = 0; i < 4; i++) {
        mem[i] = (uint16_t *)(uintptr_t)4096; /* not looked at */
    }
    TM_RC(call_on(comm, &d, NULL, NULL, NULL), cclInvalidUsage);
    TM_TEXT("has no fused matrix products");
    TM_RC(call_on(comm, &out, NULL, NULL, NULL), cclInvalidUsage);
    TM_TEXT(cclBackendName());
    TM_RC(cclMatmulWorkspaceCreate(comm, &d, NULL, &ws), cclInvalidUsage);
    TM_TEXT("cclMatmulWorkspaceCreate: backend");
    TM_OK(cclBarrier(comm, stream));
    TM_OK(cclStreamSynchronize(stream));
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    tm_watchdog(50);
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    const cclMatmulDesc_t probe = good_desc(cclGatherRows);
    cclMatmulWorkspace_t ws = NULL;
    if (cclMatmulWorkspaceCreate(comm, &probe, NULL, &ws) == cclInvalidUsage) {
        no_kernels();
        TM_OK(cclStreamDestroy(stream));
        TM_OK(cclCommDestroy(comm));
        return tm_finish();
    }
    TM_OK(cclMatmulWorkspaceDestroy(ws));
    for (int i = 0; i < 4; i++) {
        tm_buf_create(&bufs[i], comm, TM_PLAIN, BYTES);
        mem[i] = (uint16_t *)bufs[i].base;
        tm_set(mem[i], 0, BYTES);
    }
    bad_desc();
    bad_config();
    works(NULL, NULL);
    bad_workspace();
    if (tm_size > 1) {
        one_rank_wrong();
        aborted();
    }
    works(NULL, NULL);
    for (int i = 0; i < 4; i++) {
        tm_buf_destroy(&bufs[i]);
    }
    TM_OK(cclCommDestroy(comm));
    TM_OK(cclStreamDestroy(stream));
    return tm_finish();
}
