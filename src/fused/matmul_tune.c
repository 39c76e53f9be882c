/* SPDX-License-Identifier: MIT
 *
 * The tuning table of fused products: CCL_TUNE_FILE of rank 0, read once a communicator and handed to all ranks, so that all choose alike. A line is
 *
 *     op arch ranks gather type m n k  algorithm layout fetch tile_m tile_n tile_k group_m k_per_flag num_fetch_sms
 *
 * with the names of the bench (all_gather_matmul x86-64 2 rows float16 4096 3584 8192 hbm_buffer k_contiguous pull 256 256 256 4 2 1); - leaves a choice to the library; # begins a
 * comment. arch: as the devices name theirs, or any. A call whose config leaves everything open takes the row of its op, arch, ranks, gather and type with the nearest shape, each size within NEAR of its own. */
#include "fused/matmul.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/config.h"
#include "util/log.h"

#define MAX_ROWS 256
#define NEAR 1.15
#define FIELDS 17
#define WORD 32

struct row {
    char op[WORD], arch[WORD];
    int32_t ranks, gather, type;
    int64_t size[3]; /* m, n, k */
    int32_t algorithm, layout, fetch, rest[6]; /* tile_m, tile_n, tile_k, group_m, k_per_flag, num_fetch_sms */
};

struct ccl_matmul_table {
    uint32_t rows;
    struct row row[MAX_ROWS];
};

static const char *const op_names[] = {"all_gather_matmul", "matmul_all_gather", NULL};
static const char *const gather_names[] = {"rows", "columns", "output", NULL};
static const char *const algorithm_names[] = {"auto", "baseline", "hbm_buffer", "sequential", NULL};
static const char *const layout_names[] = {"k_contiguous", "m_contiguous", NULL};
static const char *const fetch_names[] = {"pull", "push", NULL};

/* A name, or - for CCL_UNSET. False: neither. */
static bool parse_name(const char *word, const char *const *names, int32_t *out)
{
    *out = CCL_UNSET;
    for (int32_t i = 0; names[i] != NULL; i++) {
        if (strcmp(word, names[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return strcmp(word, "-") == 0;
}

static bool parse_number(const char *word, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(word, &end, 10);
    return end != word && *end == '\0' && errno == 0 && *out >= 1 && *out <= INT32_MAX;
}

static bool parse_choice(const char *word, int32_t *out)
{
    int64_t value = CCL_UNSET;
    bool good = strcmp(word, "-") == 0 || parse_number(word, &value);
    *out = (int32_t)value;
    return good;
}

/* The first word that is wrong, or NULL. */
static const char *parse_row(char words[FIELDS][WORD], struct row *r)
{
    int32_t op;
    int64_t ranks;
    if (!parse_name(words[0], op_names, &op) || op == CCL_UNSET) {
        return words[0];
    }
    strcpy(r->op, words[0]);
    strcpy(r->arch, words[1]);
    if (!parse_number(words[2], &ranks)) {
        return words[2];
    }
    r->ranks = (int32_t)ranks;
    if (!parse_name(words[3], gather_names, &r->gather) || r->gather == CCL_UNSET) {
        return words[3];
    }
    r->type = strcmp(words[4], "float16") == 0 ? cclFloat16 : strcmp(words[4], "bfloat16") == 0 ? cclBfloat16 : -1;
    if (r->type < 0) {
        return words[4];
    }
    for (int i = 0; i < 3; i++) {
        if (!parse_number(words[5 + i], &r->size[i])) {
            return words[5 + i];
        }
    }
    if (!parse_name(words[8], algorithm_names, &r->algorithm)) {
        return words[8];
    }
    if (!parse_name(words[9], layout_names, &r->layout)) {
        return words[9];
    }
    if (!parse_name(words[10], fetch_names, &r->fetch)) {
        return words[10];
    }
    for (int i = 0; i < 6; i++) {
        if (!parse_choice(words[11 + i], &r->rest[i])) {
            return words[11 + i];
        }
    }
    return NULL;
}

static cclResult_t read_line(const char *path, int number, char *line, struct ccl_matmul_table *table)
{
    char words[FIELDS][WORD], *at = line;
    int count = 0, used = 0, some;
    line[strcspn(line, "#\n")] = '\0';
    while (count < FIELDS && sscanf(at, " %31s%n", words[count], &some) == 1) {
        at += some;
        count++;
    }
    if (count == 0) {
        return cclSuccess;
    }
    while (at[used] == ' ' || at[used] == '\t') {
        used++;
    }
    CCL_CHECK(count == FIELDS && at[used] == '\0', cclInvalidArgument, CCL_COLL, "CCL_TUNE_FILE %s line %d: %s than %d words", path, number,
              count == FIELDS ? "more" : "fewer", FIELDS);
    CCL_CHECK(table->rows < MAX_ROWS, cclInvalidArgument, CCL_COLL, "CCL_TUNE_FILE %s line %d: more than %d rows", path, number, MAX_ROWS);
    const char *wrong = parse_row(words, &table->row[table->rows]);
    CCL_CHECK(wrong == NULL, cclInvalidArgument, CCL_COLL, "CCL_TUNE_FILE %s line %d: '%s' is not understood", path, number, wrong);
    table->rows++;
    return cclSuccess;
}

static cclResult_t read_file(const char *path, struct ccl_matmul_table *table)
{
    char line[1024];
    cclResult_t rc = cclSuccess;
    FILE *file = fopen(path, "re");
    CCL_CHECK(file != NULL, cclSystemError, CCL_COLL, "CCL_TUNE_FILE %s: %s", path, strerror(errno));
    for (int number = 1; rc == cclSuccess && fgets(line, sizeof(line), file) != NULL; number++) {
        rc = read_line(path, number, line, table);
    }
    fclose(file);
    return rc;
}

cclResult_t ccl_matmul_tune_load(cclComm_t comm)
{
    if (comm->matmul_table != NULL) {
        return cclSuccess;
    }
    const char *path = ccl_env_get()->tune_file;
    struct ccl_matmul_table *table = calloc(1, sizeof(*table)), *all = calloc((size_t)comm->n, sizeof(*all));
    cclResult_t rc = table != NULL && all != NULL ? cclSuccess : ccl_error_set(cclSystemError, CCL_COLL, "out of memory for the tuning table");
    if (rc == cclSuccess && comm->rank == 0 && path != NULL) {
        rc = read_file(path, &all[0]);
    }
    CCL_TRY_GOTO(ccl_bootstrap_agree(comm->boot, rc), done);
    CCL_TRY_GOTO(ccl_bootstrap_allgather(comm->boot, all, sizeof(*all)), done);
    *table = all[0];
    comm->matmul_table = table;
    table = NULL;
done:
    free(table);
    free(all);
    return rc;
}

/* Product of the factors by which the sizes differ; negative: too far. */
static double distance(const struct row *r, const cclMatmulDesc_t *d)
{
    const double sizes[3] = {(double)d->m, (double)d->n, (double)d->k};
    double product = 1;
    for (int i = 0; i < 3; i++) {
        double factor = sizes[i] / (double)r->size[i];
        factor = factor < 1 ? 1 / factor : factor;
        if (factor > NEAR) {
            return -1;
        }
        product *= factor;
    }
    return product;
}

bool ccl_matmul_tune_find(const struct ccl_matmul_table *table, const char *arch, int ranks, enum ccl_matmul_op op, const cclMatmulDesc_t *d,
                          cclCallConfig_t *config)
{
    const struct row *best = NULL;
    double least = 0;
    for (uint32_t i = 0; table != NULL && i < table->rows; i++) {
        const struct row *r = &table->row[i];
        if (strcmp(r->op, op_names[op]) == 0 && (strcmp(r->arch, arch) == 0 || strcmp(r->arch, "any") == 0) && r->ranks == ranks && r->gather == d->gather && r->type == (int32_t)d->type) {
            double off = distance(r, d);
            if (off >= 0 && (best == NULL || off < least)) {
                best = r;
                least = off;
            }
        }
    }
    if (best == NULL) {
        return false;
    }
    config->algorithm = best->algorithm;
    config->layout = best->layout;
    config->fetch = best->fetch;
    config->gemm_tile_m = best->rest[0];
    config->gemm_tile_n = best->rest[1];
    config->gemm_tile_k = best->rest[2];
    config->group_m = best->rest[3];
    config->k_per_flag = best->rest[4];
    config->num_fetch_sms = best->rest[5];
    return true;
}
