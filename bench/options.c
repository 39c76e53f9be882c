/* SPDX-License-Identifier: MIT
 *
 * The command line. One table of options serves parsing and --help. */
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum kind { SIZES, INTEGERS, NAMES, TILES, NAME, NUMBER, SECONDS, TEXT, FLAG };

struct option {
    const char *name, *argument;
    enum kind kind;
    size_t field; /* offset in struct bench_options */
    const struct bench_name *names;
    long long low, high;
    const char *help;
};

#define FIELD(f) offsetof(struct bench_options, f)

static const struct option options_table[] = {
    {"--bytes", "SIZES", SIZES, FIELD(bytes), NULL, 0, 0, "bytes per rank (default 8:64M:x2): calls cclAllGather"},
    {"--M", "SIZES", SIZES, FIELD(rows), NULL, 0, 0,
     "rows per rank; with --N; replaces --bytes (the later one counts): calls cclAllGather2D"},
    {"--N", "SIZES", SIZES, FIELD(columns), NULL, 0, 0, "columns, elements"},
    {"--K", "SIZES", SIZES, FIELD(depth), NULL, 0, 0, "matrix products: columns of all of A; there --M is all rows"},
    {"--gather", "LIST", NAMES, FIELD(gather), bench_gathers, 0, 0, "all_gather_matmul: A is sharded by rows, by columns (default rows)"},
    {"--b_layout", "NAME", NAME, FIELD(b_layout), bench_b_layouts, 0, 0, "matrix products: B as [k][n] or, transposed, [n][k] (default kn)"},
    {"--algorithm", "LIST", NAMES, FIELD(algorithm), bench_algorithms, 0, 0,
     "all_gather_matmul: auto, baseline, hbm_buffer, sequential (default auto)"},
    {"--num_fetch_sms", "LIST", INTEGERS, FIELD(fetch_sms), NULL, 1, INT_MAX, "hbm_buffer: blocks that fetch first, or auto (default auto)"},
    {"--k_per_flag", "LIST", INTEGERS, FIELD(k_per_flag), NULL, 1, INT_MAX, "hbm_buffer: K blocks of a flag, or auto (default auto)"},
    {"--ld", "SIZE", NUMBER, FIELD(leading), NULL, 1, LLONG_MAX,
     "row pitch of both buffers with --M, elements (default N)"},
    {"--ranks", "LIST", INTEGERS, FIELD(ranks), NULL, 1, 1024,
     "use the first ranks of mpirun's (default: all of them)"},
    {"--dtype", "LIST", NAMES, FIELD(dtype), bench_dtypes, 0, 0, "element types (default uint8)"},
    {"--comm_sms", "LIST", INTEGERS, FIELD(comm_sms), NULL, 0, INT_MAX, "blocks of a call, or auto (default auto)"},
    {"--tile", "LIST", TILES, FIELD(tile), NULL, 0, 0,
     "ROWSxCOLUMNS of a tile, or auto (default auto); with --bytes 1xCOLUMNS"},
    {"--peers-per-wait", "LIST", INTEGERS, FIELD(peers_per_wait), NULL, BENCH_PEERS_ALL, INT_MAX,
     "peers served between two waits: 1, 2, 4, all, or auto (default auto)"},
    {"--buffers", "LIST", NAMES, FIELD(buffers), bench_kinds, 0, 0, "kind of send and receive buffers (default heap); matrix products: plain or not, where comm_us goes"},
    {"--mode", "LIST", NAMES, FIELD(mode), bench_modes, 0, 0,
     "eager: synchronise after each call; batch: after 100 calls; graph: replays of a graph of up to 100 calls (default eager)"},
    {"--variant", "LIST", NAMES, FIELD(variant), bench_variants, 0, 0, "how data moves (default auto)"},
    {"--in-place", NULL, FLAG, FIELD(in_place), NULL, 0, 0,
     "the send buffer is this rank's part of the receive buffer"},
    {"--baseline", "NAME", NAME, FIELD(baseline), bench_baselines, 0, 0,
     "in alternating rounds with libccl, the same data: mpi: MPI's operation; nccl: that of the library --nccl (default none)"},
    {"--nccl", "FILE", TEXT, FIELD(nccl), NULL, 0, 0, "NCCL library of --baseline nccl (default libnccl.so.2)"},
    {"--warmup", "N", NUMBER, FIELD(warmup), NULL, 0, 1000000,
     "iterations before measuring (default 25; fewer when they are long)"},
    {"--iters", "N", NUMBER, FIELD(iters), NULL, 1, 1000000,
     "iterations measured (default 100); an iteration of mode batch is one batch"},
    {"--min-time", "SECONDS", SECONDS, FIELD(min_time_s), NULL, 0, 3600,
     "more iterations until each side ran this long (default 0.1)"},
    {"--max-time", "SECONDS", SECONDS, FIELD(max_time_s), NULL, 0, 3600,
     "fewer iterations when a side would run longer (default 2)"},
    {"--rounds", "N", NUMBER, FIELD(rounds), NULL, BENCH_MIN_ROUNDS, 1000,
     "rounds that alternate the two sides (default 5)"},
    {"--batch", "N", NUMBER, FIELD(batch), NULL, 1, 10000, "calls of a batch (default 100; fewer when they are long)"},
    {"--seed", "N", NUMBER, FIELD(seed), NULL, 0, LLONG_MAX,
     "seed of the random data (default: from the clock, printed)"},
    {"--format", "NAME", NAME, FIELD(format), bench_formats, 0, 0,
     "table, csv or json (default table, or by the ending of --out)"},
    {"--out", "FILE", TEXT, FIELD(out), NULL, 0, 0, "write the rows there; the table still goes to stdout"},
    {"--device", "NAME", TEXT, FIELD(device), NULL, 0, 0, "what the rows call the machine (default: its CPU)"},
    {"--progress", NULL, FLAG, FIELD(progress), NULL, 0, 0, "progress on stderr even when that is no terminal"},
    {"--corrupt", NULL, FLAG, FIELD(corrupt), NULL, 0, 0,
     "flip one received byte before each check, to see the check fail"},
    {"--help", NULL, FLAG, FIELD(help), NULL, 0, 0, "this text"},
};

#define OPTIONS (sizeof(options_table) / sizeof(options_table[0]))

static bool complain(bool speak, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool complain(bool speak, const char *format, ...)
{
    if (speak) {
        va_list ap;
        fputs("ccl_bench: ", stderr);
        va_start(ap, format);
        vfprintf(stderr, format, ap);
        va_end(ap);
        fputs(" (ccl_bench --help lists the options)\n", stderr);
    }
    return false;
}

static bool set_value(struct bench_options *options, const struct option *option, const char *value, char *why,
                      size_t why_size)
{
    void *field = (char *)options + option->field;
    struct bench_list one = {0};
    bool ok = true;

    switch (option->kind) {
    case SIZES:
        return bench_parse_sizes(value, field, why, why_size);
    case INTEGERS:
        return bench_parse_integers(value, field, option->low, option->high, why, why_size);
    case NAMES:
        return bench_parse_names(value, option->names, field, why, why_size);
    case TILES:
        return bench_parse_tiles(value, field, why, why_size);
    case NAME:
        ok = bench_parse_names(value, option->names, &one, why, why_size);
        if (ok && one.count != 1) {
            snprintf(why, why_size, "takes one name");
            ok = false;
        } else if (ok) {
            *(int *)field = (int)one.values[0];
        }
        free(one.values);
        return ok;
    case NUMBER:
        if (!bench_parse_size(value, strlen(value), field, why, why_size)) {
            return false;
        }
        if (*(long long *)field < option->low || *(long long *)field > option->high) {
            snprintf(why, why_size, "must be %lld to %lld", option->low, option->high);
            return false;
        }
        return true;
    case SECONDS: {
        char *end;
        double seconds = strtod(value, &end);
        if (end == value || *end != '\0' || !(seconds >= 0 && seconds <= (double)option->high)) {
            snprintf(why, why_size, "must be a number of seconds, 0 to %lld", option->high);
            return false;
        }
        *(double *)field = seconds;
        return true;
    }
    case TEXT:
        *(const char **)field = value;
        return true;
    case FLAG:
        *(bool *)field = true;
        return true;
    }
    return false;
}

static const struct option *find_option(const char *text, size_t length)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        if (strlen(options_table[i].name) == length && memcmp(options_table[i].name, text, length) == 0) {
            return &options_table[i];
        }
    }
    return NULL;
}

/* Lists that were not given get their one default value. */
static bool set_defaults(struct bench_options *options)
{
    char why[256];
    struct {
        struct bench_list *list;
        long long value;
    } defaults[] = {
        {&options->dtype, cclUint8},         {&options->comm_sms, BENCH_AUTO},       {&options->tile, BENCH_AUTO},
        {&options->buffers, BENCH_HEAP},     {&options->peers_per_wait, BENCH_AUTO}, {&options->mode, BENCH_EAGER},
        {&options->variant, cclVariantAuto}, {&options->gather, cclGatherRows},      {&options->algorithm, cclAlgoAuto},
        {&options->fetch_sms, BENCH_AUTO},   {&options->k_per_flag, BENCH_AUTO},
    };
    if (options->depth.count != 0 && options->dtype.count == 0 && !bench_list_add(&options->dtype, cclFloat16)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        if (defaults[i].list->count == 0 && !bench_list_add(defaults[i].list, defaults[i].value)) {
            return false;
        }
    }
    if (options->rows.count == 0 && options->bytes.count == 0) {
        return bench_parse_sizes("8:64M:x2", &options->bytes, why, sizeof(why));
    }
    return true;
}

/* What no single option can see. */
static bool check_together(const struct bench_options *options, bool speak)
{
    if ((options->rows.count > 0) != (options->columns.count > 0)) {
        return complain(speak, "--M and --N go together: --%s is missing", options->rows.count > 0 ? "N" : "M");
    }
    if (options->leading > 0 && options->rows.count == 0) {
        return complain(speak, "--ld %lld needs --M and --N", options->leading);
    }
    for (int i = 0; options->leading > 0 && i < options->columns.count; i++) {
        if (options->columns.values[i] > options->leading) {
            return complain(speak, "--ld %lld is less than --N %lld", options->leading, options->columns.values[i]);
        }
    }
    for (int d = 0; d < options->dtype.count; d++) {
        size_t size = bench_dtype_bytes((int)options->dtype.values[d]);
        for (int i = 0; i < options->bytes.count; i++) {
            if ((size_t)options->bytes.values[i] % size != 0) {
                return complain(speak, "--bytes %lld is not a multiple of the %zu bytes of --dtype %s",
                                options->bytes.values[i], size,
                                bench_name_of(bench_dtypes, (int)options->dtype.values[d]));
            }
        }
    }
    if (options->min_time_s > options->max_time_s) {
        return complain(speak, "--min-time %g is more than --max-time %g", options->min_time_s, options->max_time_s);
    }
    return true;
}

static int format_by_name(const char *path)
{
    const char *dot = path == NULL ? NULL : strrchr(path, '.');
    if (dot != NULL && (strcmp(dot, ".json") == 0 || strcmp(dot, ".jsonl") == 0)) {
        return BENCH_JSON;
    }
    return dot != NULL && strcmp(dot, ".csv") == 0 ? BENCH_CSV : BENCH_TABLE;
}

bool bench_options_parse(struct bench_options *options, int argc, char **argv, bool speak)
{
    char why[512];

    *options = (struct bench_options){.warmup = 25,
                                      .iters = 100,
                                      .rounds = BENCH_MIN_ROUNDS,
                                      .batch = 100,
                                      .seed = -1,
                                      .min_time_s = 0.1,
                                      .max_time_s = 2,
                                      .format = -1};
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        if (text[0] != '-') {
            if (options->operation != NULL) {
                return complain(speak, "'%s': one operation only, %s was named already", text, options->operation);
            }
            options->operation = text;
            continue;
        }
        size_t length = strcspn(text, "=");
        const struct option *option = find_option(text, length);
        const char *value = text[length] == '=' ? text + length + 1 : NULL;
        if (option == NULL) {
            return complain(speak, "unknown option %s", text);
        }
        if (option->kind == FLAG && value != NULL) {
            return complain(speak, "%s takes no value, '%s' was given", option->name, value);
        }
        if (option->kind != FLAG && value == NULL) {
            if (i + 1 == argc) {
                return complain(speak, "%s needs a value (%s)", option->name, option->argument);
            }
            value = argv[++i];
        }
        if (!set_value(options, option, value, why, sizeof(why))) {
            return complain(speak, "%s %s: %s", option->name, value, why);
        }
        /* Two ways to give shapes: the later one replaces the other, so that a script's defaults can be overridden. */
        if (option->field == FIELD(bytes)) {
            options->rows.count = options->columns.count = 0;
        } else if (option->field == FIELD(rows) || option->field == FIELD(columns)) {
            options->bytes.count = 0;
        }
    }
    if (options->help) {
        return true;
    }
    if (options->operation == NULL) {
        return complain(speak, "no operation was named (ccl_bench --help lists them)");
    }
    if (!check_together(options, speak)) {
        return false;
    }
    if (options->format < 0) {
        options->format = format_by_name(options->out);
    }
    return set_defaults(options) || complain(speak, "out of memory");
}

void bench_options_free(struct bench_options *options)
{
    struct bench_list *lists[] = {&options->depth,   &options->gather,   &options->algorithm, &options->fetch_sms, &options->k_per_flag, &options->ranks,   &options->bytes,    &options->rows,   &options->columns,
                                  &options->dtype,   &options->comm_sms, &options->tile,   &options->peers_per_wait,
                                  &options->buffers, &options->mode,     &options->variant};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        free(lists[i]->values);
        *lists[i] = (struct bench_list){0};
    }
}

static const char help_text[] =
    "\nSIZES and LIST are comma lists. A size has an optional suffix K, M or G (powers of 1024), or is a range\n"
    "low:high:xFACTOR or low:high:+STEP, bounds included. --name value and --name=value are the same.\n"
    "\nThe sweep runs every combination of the axes. For each: allocate, fill with fresh random data, warm up, measure "
    "in rounds\n"
    "(libccl, baseline, libccl, ...), check every received byte against a recomputation, free. A configuration that "
    "the library\n"
    "refuses is a row without numbers, its error text goes to stderr, and the sweep goes on.\n"
    "\nColumns and keys (S = bytes per rank, n = ranks, us = microseconds, GB = 10^9 bytes):\n"
    "  time_us      median over iterations of the maximum over ranks of one call's duration; each round has its "
    "median, this is\n"
    "               the median of the rounds. baseline_us likewise\n"
    "  min_us p99_us  smallest and 99th percentile (nearest rank) over all iterations of the maximum over ranks\n"
    "  skew_us      median over iterations of the slowest rank's duration minus the fastest's\n"
    "  algbw_gbps   n * S / time          busbw_gbps   (n - 1) * S / time; all_reduce: S and 2 (n - 1) / n S; reduce, broadcast,\n"
    "               sendrecv: S\n"
    "  host_us      mean duration of the enqueue call alone in a loop of calls (median over loops, slowest rank)\n"
    "  limit_gbps   bytes read + written per second of a plain copy by all ranks at once, same run, same working set\n"
    "               (n * S * (n + 1) in all); the better of memcpy and non-temporal stores; null where it fits the L2 "
    "caches.\n"
    "               On a GPU: its own copy of 256 MiB, by one rank while the others are idle\n"
    "  fraction     (n * S + n * n * S) / time / limit: one read and n writes of each rank's part\n"
    "  ratio        baseline_us / time_us: above 1 libccl is faster\n"
    "  errors       wrong bytes of all ranks; more than 0 makes the exit status 1\n"
    "  comm_sms, variant: as asked for (null, auto: left to the library); blocks, variant_used, tile_m, tile_n, "
    "peers_per_wait:\n"
    "  what the last call really used\n"
    "\nMatrix products have rows of their own: gemm_us, vendor_us (host: OpenBLAS' sgemm; NVIDIA: cuBLAS; null when it is not installed), comm_us are our\n"
    "product alone, a vendor's and the all-gather alone, all ranks at once; --mode batch: of calls that follow each other; sequential_us the two one after the other, mpi_us MPI_Allgather and our product; time_us\n"
    "the fused call; tflops of a rank; overlap = time_us / max(gemm_us, comm_us). All are medians over iterations of the slowest rank; errors counts\n"
    "wrong elements of a random sample and elements not written.\n"
    "\nExit status: 0; 1 wrong bytes or a failed configuration; 2 wrong use.\n";

void bench_help(FILE *to)
{
    fputs("usage: mpirun -n RANKS ccl_bench OPERATION [options]\n\noperations\n", to);
    for (const struct bench_op *const *op = bench_operations; *op != NULL; op++) {
        fprintf(to, "  %-18s %s\n", (*op)->name, (*op)->summary);
    }
    fputs("\noptions\n", to);
    for (size_t i = 0; i < OPTIONS; i++) {
        const struct option *option = &options_table[i];
        char left[64];
        snprintf(left, sizeof(left), "%s%s%s", option->name, option->argument != NULL ? " " : "",
                 option->argument != NULL ? option->argument : "");
        fprintf(to, "  %-24s %s\n", left, option->help);
        for (const struct bench_name *name = option->names; name != NULL && name->name != NULL; name++) {
            fprintf(to, "%s%s%s", name == option->names ? "                           : " : " ", name->name,
                    name[1].name == NULL ? "\n" : "");
        }
    }
    fputs(help_text, to);
}
