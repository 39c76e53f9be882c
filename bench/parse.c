/* SPDX-License-Identifier: MIT
 *
 * Values of options: sizes with suffixes, ranges, comma lists, names, tiles. No parser prints; each gives a reason. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define MAX_VALUES 100000

const struct bench_name bench_algorithms[] = {{"auto", cclAlgoAuto},
                                              {"baseline", cclAlgoBaseline},
                                              {"hbm_buffer", cclAlgoHbmBuffer},
                                              {"sequential", cclAlgoSequential},
                                              {NULL, 0}};
const struct bench_name bench_gathers[] = {{"rows", cclGatherRows}, {"columns", cclGatherColumns}, {NULL, 0}};
const struct bench_name bench_b_layouts[] = {{"kn", BENCH_B_KN}, {"nk", BENCH_B_NK}, {NULL, 0}};
const struct bench_name bench_dtypes[] = {
    {"fp16", cclFloat16},
    {"bf16", cclBfloat16},
    {"fp32", cclFloat32},
    {"fp64", cclFloat64},
    {"int8", cclInt8},
    {"uint8", cclUint8},
    {"int32", cclInt32},
    {"uint32", cclUint32},
    {"int64", cclInt64},
    {"uint64", cclUint64},
    {"fp8e4m3", cclFloat8e4m3},
    {"fp8e5m2", cclFloat8e5m2},
    {NULL, 0},
};
const struct bench_name bench_variants[] = {
    {"auto", cclVariantAuto},
    {"ll", cclVariantLL},
    {"direct", cclVariantDirect},
    {"staged", cclVariantStaged},
    {"partitioned", cclVariantPartitioned},
    {"copy", cclVariantCopy},
    {NULL, 0},
};
const struct bench_name bench_modes[] = {
    {"eager", BENCH_EAGER},
    {"batch", BENCH_BATCH},
    {"graph", BENCH_GRAPH},
    {NULL, 0},
};
const struct bench_name bench_kinds[] = {
    {"heap", BENCH_HEAP},
    {"registered", BENCH_REGISTERED},
    {"plain", BENCH_PLAIN},
    {NULL, 0},
};
const struct bench_name bench_formats[] = {
    {"table", BENCH_TABLE},
    {"csv", BENCH_CSV},
    {"json", BENCH_JSON},
    {NULL, 0},
};
const struct bench_name bench_baselines[] = {
    {"none", BENCH_BASELINE_NONE},
    {"mpi", BENCH_BASELINE_MPI},
    {"nccl", BENCH_BASELINE_NCCL},
    {NULL, 0},
};

const char *bench_name_of(const struct bench_name *names, int value)
{
    for (; names->name != NULL; names++) {
        if (names->value == value) {
            return names->name;
        }
    }
    return "unknown";
}

size_t bench_dtype_bytes(int dtype)
{
    switch (dtype) {
    case cclFloat16:
    case cclBfloat16:
        return 2;
    case cclFloat32:
    case cclInt32:
    case cclUint32:
        return 4;
    case cclFloat64:
    case cclInt64:
    case cclUint64:
        return 8;
    default:
        return 1;
    }
}

static bool fail(char *why, size_t why_size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static bool fail(char *why, size_t why_size, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(why, why_size, format, ap);
    va_end(ap);
    return false;
}

bool bench_list_add(struct bench_list *list, long long value)
{
    if (list->count == list->capacity) {
        int capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        long long *values = realloc(list->values, (size_t)capacity * sizeof(*values));
        if (values == NULL) {
            return false;
        }
        list->values = values;
        list->capacity = capacity;
    }
    list->values[list->count++] = value;
    return true;
}

/* A decimal number with an optional suffix K, M, G (powers of 1024), at most length characters. */
bool bench_parse_size(const char *text, size_t length, long long *out, char *why, size_t why_size)
{
    char copy[32];
    char *end;
    int shift = 0;

    if (length == 0 || length >= sizeof(copy) || text[0] < '0' || text[0] > '9') {
        return fail(why, why_size, "'%.*s' is not a number with an optional suffix K, M or G", (int)length, text);
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    errno = 0;
    long long value = strtoll(copy, &end, 10);
    if (*end != '\0') {
        static const char suffixes[] = "KMG";
        const char *at = strchr(suffixes, *end >= 'a' ? *end - 'a' + 'A' : *end);
        if (at == NULL || end[1] != '\0') {
            return fail(why, why_size, "'%s' is not a number with an optional suffix K, M or G", copy);
        }
        shift = 10 * (int)(at - suffixes + 1);
    }
    if (errno != 0 || value > (LLONG_MAX >> 1 >> shift)) {
        return fail(why, why_size, "'%s' is too large", copy);
    }
    *out = value << shift;
    return true;
}

/* lo:hi:xF or lo:hi:+S */
static bool add_range(const char *text, size_t length, struct bench_list *out, char *why, size_t why_size)
{
    const char *first = memchr(text, ':', length);
    const char *second = memchr(first + 1, ':', length - (size_t)(first + 1 - text));
    long long low, high, step;

    if (second == NULL || (second[1] != 'x' && second[1] != '+')) {
        return fail(why, why_size, "'%.*s' is not a range low:high:xFACTOR or low:high:+STEP", (int)length, text);
    }
    if (!bench_parse_size(text, (size_t)(first - text), &low, why, why_size) ||
        !bench_parse_size(first + 1, (size_t)(second - first - 1), &high, why, why_size) ||
        !bench_parse_size(second + 2, length - (size_t)(second + 2 - text), &step, why, why_size)) {
        return false;
    }
    bool times = second[1] == 'x';
    if (low < 1 || high < low || step < (times ? 2 : 1)) {
        return fail(why, why_size, "range '%.*s' needs 1 <= low <= high and %s", (int)length, text,
                    times ? "a factor of 2 or more" : "a step of 1 or more");
    }
    for (long long value = low; value <= high; value = times ? value * step : value + step) {
        if (out->count >= MAX_VALUES || !bench_list_add(out, value)) {
            return fail(why, why_size, "range '%.*s' has more than %d values", (int)length, text, MAX_VALUES);
        }
        if (times && value > high / step) {
            break;
        }
    }
    return true;
}

bool bench_parse_sizes(const char *text, struct bench_list *out, char *why, size_t why_size)
{
    out->count = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        long long value;
        if (memchr(at, ':', length) != NULL) {
            if (!add_range(at, length, out, why, why_size)) {
                return false;
            }
        } else {
            if (!bench_parse_size(at, length, &value, why, why_size)) {
                return false;
            }
            if (value < 1) {
                return fail(why, why_size, "'%.*s' must be at least 1", (int)length, at);
            }
            if (!bench_list_add(out, value)) {
                return fail(why, why_size, "out of memory");
            }
        }
        at += length;
        if (*at == '\0') {
            return true;
        }
    }
}

bool bench_parse_integers(const char *text, struct bench_list *out, long long low, long long high, char *why,
                          size_t why_size)
{
    out->count = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        long long value = BENCH_AUTO;
        if (length == 3 && memcmp(at, "all", 3) == 0 && low == BENCH_PEERS_ALL) {
            value = BENCH_PEERS_ALL;
        } else if (length != 4 || memcmp(at, "auto", 4) != 0) {
            if (!bench_parse_size(at, length, &value, why, why_size)) {
                return false;
            }
            if (value < low || value > high) {
                return fail(why, why_size, "%lld is outside %lld to %lld", value, low < 0 ? 1 : low, high);
            }
        }
        if (!bench_list_add(out, value)) {
            return fail(why, why_size, "out of memory");
        }
        at += length;
        if (*at == '\0') {
            return true;
        }
    }
}

bool bench_parse_names(const char *text, const struct bench_name *names, struct bench_list *out, char *why,
                       size_t why_size)
{
    out->count = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        const struct bench_name *name = names;
        while (name->name != NULL && (strlen(name->name) != length || memcmp(name->name, at, length) != 0)) {
            name++;
        }
        if (name->name == NULL) {
            size_t used = (size_t)snprintf(why, why_size, "'%.*s' is not one of", (int)length, at);
            for (name = names; name->name != NULL && used < why_size; name++) {
                used += (size_t)snprintf(why + used, why_size - used, " %s", name->name);
            }
            return false;
        }
        if (!bench_list_add(out, name->value)) {
            return fail(why, why_size, "out of memory");
        }
        at += length;
        if (*at == '\0') {
            return true;
        }
    }
}

/* ROWSxCOLUMNS, kept as rows << 32 | columns; or auto. */
bool bench_parse_tiles(const char *text, struct bench_list *out, char *why, size_t why_size)
{
    out->count = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        const char *cross = memchr(at, 'x', length);
        long long value = BENCH_AUTO;
        if (length != 4 || memcmp(at, "auto", 4) != 0) {
            long long rows, columns;
            if (cross == NULL) {
                return fail(why, why_size, "'%.*s' is neither auto nor ROWSxCOLUMNS", (int)length, at);
            }
            if (!bench_parse_size(at, (size_t)(cross - at), &rows, why, why_size) ||
                !bench_parse_size(cross + 1, length - (size_t)(cross + 1 - at), &columns, why, why_size)) {
                return false;
            }
            if (rows < 1 || rows > INT_MAX || columns < 1 || columns > INT_MAX) {
                return fail(why, why_size, "tile '%.*s' is outside 1x1 to %dx%d", (int)length, at, INT_MAX, INT_MAX);
            }
            value = rows << 32 | columns;
        }
        if (!bench_list_add(out, value)) {
            return fail(why, why_size, "out of memory");
        }
        at += length;
        if (*at == '\0') {
            return true;
        }
    }
}
