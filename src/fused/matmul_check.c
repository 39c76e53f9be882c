/* SPDX-License-Identifier: MIT
 *
 * What is wrong with a desc or a config by itself, in words with the name and the value. Only what is equal on all ranks is judged here, so all ranks come to the
 * same verdict. */
#include "fused/matmul.h"

#include "util/log.h"

#define MAX_SIZE 0x7fffffffu
#define MAX_BYTES (1ull << 47) /* advert offsets have 48 bits */
#define MAX_TILE_K 65536

static cclResult_t check_size(const char *who, const char *name, size_t value)
{
    CCL_CHECK(value >= 1 && value <= MAX_SIZE, cclInvalidArgument, CCL_COLL, "%s: %s is %zu, not 1 to %u", who, name, value, MAX_SIZE);
    return cclSuccess;
}

/* A matrix of rows x cols with this pitch. */
static cclResult_t check_pitch(const char *who, const char *name, size_t value, size_t rows, const char *cols_name, size_t cols)
{
    CCL_CHECK(value >= cols, cclInvalidArgument, CCL_COLL, "%s: %s is %zu, shorter than a row, %s is %zu", who, name, value, cols_name, cols);
    CCL_CHECK(value % CCL_GEMM_PITCH == 0, cclInvalidArgument, CCL_COLL, "%s: %s is %zu, not a multiple of %u elements", who, name, value,
              CCL_GEMM_PITCH);
    CCL_CHECK(value <= MAX_BYTES / 2 / rows, cclInvalidArgument, CCL_COLL, "%s: %zu rows with %s %zu exceed the %llu bytes of a window", who, rows, name,
              value, MAX_BYTES);
    return cclSuccess;
}

cclResult_t ccl_matmul_check_desc(const char *who, enum ccl_matmul_op op, const cclMatmulDesc_t *d, int ranks)
{
    const bool columns = d->gather == cclGatherColumns;
    CCL_CHECK(d->type == cclFloat16 || d->type == cclBfloat16, cclInvalidArgument, CCL_COLL,
              "%s: type %d (%s) is not supported, float16 and bfloat16 are", who, (int)d->type, ccl_comm_type_name((uint32_t)d->type));
    CCL_CHECK(d->gather == cclGatherRows || columns || d->gather == cclGatherOutput, cclInvalidArgument, CCL_COLL, "%s: gather %d is unknown", who,
              d->gather);
    CCL_CHECK((op == CCL_MATMUL_ALL_GATHER) == (d->gather == cclGatherOutput), cclInvalidArgument, CCL_COLL, "%s: gather is %d (%s), this call wants %s", who,
              d->gather, columns ? "columns" : d->gather == cclGatherRows ? "rows" : "output",
              op == CCL_MATMUL_ALL_GATHER ? "cclGatherOutput" : "cclGatherRows or cclGatherColumns");
    CCL_CHECK(d->bias >= cclBiasNone && d->bias <= cclBiasByRow, cclInvalidArgument, CCL_COLL, "%s: bias %d is unknown", who, d->bias);
    CCL_CHECK(d->b_transposed == 0 || d->b_transposed == 1, cclInvalidArgument, CCL_COLL, "%s: b_transposed is %d, not 0 or 1", who, d->b_transposed);
    CCL_TRY(check_size(who, "m", d->m));
    CCL_TRY(check_size(who, "n", d->n));
    CCL_TRY(check_size(who, "k", d->k));
    CCL_TRY(check_size(who, "shard", d->shard));
    CCL_CHECK(d->shard * (size_t)ranks == (columns ? d->k : d->m), cclInvalidArgument, CCL_COLL,
              "%s: shards do not add up: %d ranks with %zu %s each make %zu, but %s is %zu", who, ranks, d->shard, columns ? "columns" : "rows",
              d->shard * (size_t)ranks, columns ? "k" : "m", columns ? d->k : d->m);
    CCL_TRY(check_pitch(who, "lda", d->lda, columns ? d->m : d->shard, columns ? "shard" : "k", columns ? d->shard : d->k));
    CCL_TRY(check_pitch(who, "ldb", d->ldb, d->b_transposed ? d->n : d->k, d->b_transposed ? "k" : "n", d->b_transposed ? d->k : d->n));
    return check_pitch(who, "ldc", d->ldc, d->m, "n", d->n);
}

struct field {
    const char *name;
    int value;
};

static cclResult_t check_unset(const char *who, const struct field *fields, size_t count, const char *why)
{
    for (size_t i = 0; i < count; i++) {
        CCL_CHECK(fields[i].value == CCL_UNSET, cclInvalidArgument, CCL_COLL, "%s: config: %s is %d, but %s", who, fields[i].name, fields[i].value, why);
    }
    return cclSuccess;
}

static cclResult_t check_range(const char *who, const char *name, int value, int most)
{
    CCL_CHECK(value == CCL_UNSET || (value >= 0 && value <= most), cclInvalidArgument, CCL_COLL, "%s: config: %s is %d, not 0 to %d", who, name, value,
              most);
    return cclSuccess;
}

static cclResult_t check_tile(const char *who, const char *name, int value, int most)
{
    CCL_CHECK(value == CCL_UNSET || (value >= 1 && value <= most), cclInvalidArgument, CCL_COLL, "%s: config: %s is %d, not 1 to %d", who, name, value,
              most);
    return cclSuccess;
}

/* Fields that only some algorithms have. */
static cclResult_t check_algorithm(const char *who, enum ccl_matmul_op op, const cclCallConfig_t *c)
{
    const struct field hbm[] = {{"layout", c->layout}, {"fetch", c->fetch}, {"k_per_flag", c->k_per_flag}, {"num_fetch_sms", c->num_fetch_sms}};
    const bool open = c->algorithm == CCL_UNSET || c->algorithm == cclAlgoAuto;
    CCL_TRY(check_range(who, "algorithm", c->algorithm, cclAlgoSequential));
    CCL_TRY(check_range(who, "layout", c->layout, cclMContiguous));
    CCL_TRY(check_range(who, "fetch", c->fetch, cclFetchPush));
    if (op == CCL_MATMUL_ALL_GATHER) {
        CCL_CHECK(open, cclInvalidArgument, CCL_COLL, "%s: config: algorithm is %d, but there is only one", who, c->algorithm);
        return check_unset(who, hbm, CCL_ARRAY_LEN(hbm), "cclMatmulAllGather stages nothing");
    }
    if (!open && c->algorithm != cclAlgoHbmBuffer) {
        return check_unset(who, hbm, CCL_ARRAY_LEN(hbm), c->algorithm == cclAlgoBaseline ? "algorithm baseline stages nothing"
                                                                                         : "algorithm sequential stages all of A before the product");
    }
    CCL_CHECK(c->fetch != cclFetchPush || c->layout != cclMContiguous, cclInvalidArgument, CCL_COLL,
              "%s: config: fetch push and layout m_contiguous do not go together", who);
    return cclSuccess;
}

cclResult_t ccl_matmul_check_config(const char *who, enum ccl_matmul_op op, const struct ccl_matmul_world *world, const cclCallConfig_t *c)
{
    const struct field other[] = {
        {"variant", c->variant}, {"tile_m", c->tile_m}, {"tile_n", c->tile_n}, {"peers_per_wait", c->peers_per_wait}};
    CCL_TRY(check_unset(who, other, CCL_ARRAY_LEN(other), "a matrix product has no such tunable (see gemm_tile_m ..)"));
    CCL_CHECK(c->threads == CCL_UNSET || (world->is_host && c->threads == 1), cclInvalidArgument, CCL_COLL,
              "%s: config: threads is %d, but the core decides (host: 1)", who, c->threads);
    CCL_CHECK(c->comm_sms == CCL_UNSET || (c->comm_sms >= 1 && c->comm_sms <= world->blocks), cclInvalidArgument, CCL_COLL,
              "%s: config: comm_sms is %d, not 1 to %d", who, c->comm_sms, world->blocks);
    CCL_TRY(check_algorithm(who, op, c));
    CCL_TRY(check_tile(who, "gemm_tile_m", c->gemm_tile_m, CCL_GEMM_HOST_TILE_MAX));
    CCL_TRY(check_tile(who, "gemm_tile_n", c->gemm_tile_n, CCL_GEMM_HOST_TILE_MAX));
    CCL_TRY(check_tile(who, "gemm_tile_k", c->gemm_tile_k, MAX_TILE_K));
    CCL_TRY(check_range(who, "fixed_order", c->fixed_order, 1));
    return check_range(who, "trace", c->trace, 1);
}
