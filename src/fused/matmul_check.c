/* SPDX-License-Identifier: MIT
 *
 * What is wrong with a desc or a config by itself, in words with the name and the value. Only what is equal on all ranks is judged here, so all ranks come to the
 * same verdict. */
#include "fused/matmul.h"

#include "util/log.h"

#define MAX_SIZE 0x7fffffffu
#define MAX_BYTES (1ull << 47) /* advert offsets have 48 bits */
#define MAX_TILE_K 65536

const struct ccl_matmul_core *ccl_matmul_core(const struct ccl_matmul_world *world)
{
    static const struct ccl_matmul_core cores[CCL_NUM_MATRIX_CORES] = {
#define CCL_M(name, m, n, threads, shared, block, places, pitch) [CCL_MATRIX_CORE_##name] = {#name, m, n, threads, shared, block, places, pitch},
        CCL_MATRIX_CORE_LIST(CCL_M)
#undef CCL_M
    };
    return world->is_host ? NULL : &cores[world->core];
}

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

static cclResult_t check_tiles(const char *who, const struct ccl_matmul_core *core, const cclCallConfig_t *c)
{
    const struct field sides[] = {{"gemm_tile_m", c->gemm_tile_m}, {"gemm_tile_n", c->gemm_tile_n}, {"gemm_tile_k", c->gemm_tile_k}};
    CCL_TRY(check_tile(who, "gemm_tile_m", c->gemm_tile_m, core != NULL ? (int)core->tile_m : (int)CCL_GEMM_HOST_TILE_MAX));
    CCL_TRY(check_tile(who, "gemm_tile_n", c->gemm_tile_n, core != NULL ? (int)core->tile_n : (int)CCL_GEMM_HOST_TILE_MAX));
    CCL_TRY(check_tile(who, "gemm_tile_k", c->gemm_tile_k, MAX_TILE_K));
    for (size_t i = 0; core != NULL && i < CCL_ARRAY_LEN(sides); i++) {
        CCL_CHECK(sides[i].value == CCL_UNSET || (uint32_t)sides[i].value % CCL_MATRIX_TILE == 0, cclInvalidArgument, CCL_COLL,
                  "%s: config: %s is %d, not a multiple of %u, as core %s needs it", who, sides[i].name, sides[i].value, CCL_MATRIX_TILE, core->name);
    }
    return cclSuccess;
}

cclResult_t ccl_matmul_check_core(const char *who, enum ccl_matmul_op op, const struct ccl_matmul_world *world, const cclMatmulDesc_t *d)
{
    const struct ccl_matmul_core *core = ccl_matmul_core(world);
    const struct {
        const char *name;
        size_t value;
    } pitches[] = {{"lda", d->lda}, {"ldb", d->ldb}, {"ldc", d->ldc}};
    if (core == NULL) {
        return cclSuccess;
    }
    for (size_t i = 0; i < CCL_ARRAY_LEN(pitches); i++) {
        CCL_CHECK(core->pitch == 0 || pitches[i].value <= core->pitch, cclInvalidArgument, CCL_COLL, "%s: %s is %zu, core %s reaches %u elements", who,
                  pitches[i].name, pitches[i].value, core->name, core->pitch);
    }
    CCL_CHECK(op == CCL_ALL_GATHER_MATMUL || world->ranks <= core->places, cclInvalidUsage, CCL_COLL, "%s: %d ranks, core %s stores to at most %d", who,
              world->ranks, core->name, core->places);
    return cclSuccess;
}

cclResult_t ccl_matmul_check_config(const char *who, enum ccl_matmul_op op, const struct ccl_matmul_world *world, const cclCallConfig_t *c)
{
    const struct field other[] = {
        {"variant", c->variant}, {"tile_m", c->tile_m}, {"tile_n", c->tile_n}, {"peers_per_wait", c->peers_per_wait}};
    CCL_TRY(check_unset(who, other, CCL_ARRAY_LEN(other), "a matrix product has no such tunable (see gemm_tile_m ..)"));
    const struct ccl_matmul_core *core = ccl_matmul_core(world);
    const int threads = core != NULL ? (int)core->threads : 1;
    CCL_CHECK(c->threads == CCL_UNSET || c->threads == threads, cclInvalidArgument, CCL_COLL,
              "%s: config: threads is %d, but the core decides: %d", who, c->threads, threads);
    CCL_CHECK(c->comm_sms == CCL_UNSET || (c->comm_sms >= 1 && c->comm_sms <= world->blocks), cclInvalidArgument, CCL_COLL,
              "%s: config: comm_sms is %d, not 1 to %d", who, c->comm_sms, world->blocks);
    CCL_TRY(check_algorithm(who, op, c));
    CCL_TRY(check_tiles(who, core, c));
    CCL_TRY(check_range(who, "fixed_order", c->fixed_order, 1));
    return check_range(who, "trace", c->trace, 1);
}
