/* SPDX-License-Identifier: MIT
 *
 * Rows as a table, CSV or JSON lines. One list of keys, in the agreed order, makes both machine formats; numbers that do not
 * apply are null (JSON) or empty (CSV). */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench.h"
#include "commit.h" /* CCL_BENCH_COMMIT, made by every build */

enum field_kind { FIELD_TEXT, FIELD_LITERAL, FIELD_NULL };

#define MAX_FIELDS 40

static struct {
    FILE *file; /* --out, NULL without */
    int format, rows, width;
    bool failed, progress_shown;
    char device[160];
} report;

static void add_text(struct bench_pair *fields, int *count, const char *key, const char *text)
{
    struct bench_pair *f = &fields[(*count)++];
    f->key = key;
    f->kind = text == NULL ? FIELD_NULL : FIELD_TEXT;
    snprintf(f->text, sizeof(f->text), "%s", text == NULL ? "" : text);
}

static void add_integer(struct bench_pair *fields, int *count, const char *key, long long value, bool applies)
{
    struct bench_pair *f = &fields[(*count)++];
    f->key = key;
    f->kind = applies ? FIELD_LITERAL : FIELD_NULL;
    snprintf(f->text, sizeof(f->text), "%lld", value);
    if (!applies) {
        f->text[0] = '\0';
    }
}

static void add_real(struct bench_pair *fields, int *count, const char *key, double value, bool applies)
{
    struct bench_pair *f = &fields[(*count)++];
    f->key = key;
    f->kind = applies ? FIELD_LITERAL : FIELD_NULL;
    f->text[0] = '\0';
    if (applies) {
        snprintf(f->text, sizeof(f->text), "%.6g", value);
    }
}

void bench_pair_text(struct bench_pair *pairs, int *count, const char *key, const char *text) { add_text(pairs, count, key, text); }
void bench_pair_integer(struct bench_pair *pairs, int *count, const char *key, long long value, bool applies)
{
    add_integer(pairs, count, key, value, applies);
}
void bench_pair_real(struct bench_pair *pairs, int *count, const char *key, double value, bool applies) { add_real(pairs, count, key, value, applies); }

void bench_pairs_head(struct bench_pair *pairs, int *count, const char *op, int ranks)
{
    add_text(pairs, count, "op", op);
    add_text(pairs, count, "backend", cclBackendName());
    add_text(pairs, count, "device", report.device);
    add_text(pairs, count, "commit", CCL_BENCH_COMMIT);
    add_integer(pairs, count, "ranks", ranks, true);
}

static double gbps(double bytes, double us)
{
    return us > 0 ? bytes / us * 1e-3 : 0;
}

static double fraction_of(const struct bench_row *row)
{
    double rate = gbps(row->traffic_bytes, row->result.time_us);
    return row->result.limit_gbps > 0 ? rate / row->result.limit_gbps : 0;
}

static double ratio_of(const struct bench_row *row)
{
    return row->result.time_us > 0 ? row->result.baseline_us / row->result.time_us : 0;
}

/* What was asked for. */
static void add_request(const struct bench_row *row, struct bench_pair *fields, int *n)
{
    const struct bench_config *c = &row->config;
    const cclCallConfig_t *e = &row->effective;
    bool shape = row->has_shape;

    add_text(fields, n, "op", row->op);
    add_text(fields, n, "backend", cclBackendName());
    add_text(fields, n, "device", report.device);
    add_text(fields, n, "commit", CCL_BENCH_COMMIT);
    add_integer(fields, n, "ranks", row->ranks, true);
    add_integer(fields, n, "M", (long long)c->m, shape);
    add_integer(fields, n, "N", (long long)c->n, shape);
    add_integer(fields, n, "K", 0, false);
    add_text(fields, n, "dtype", shape ? bench_name_of(bench_dtypes, c->dtype) : NULL);
    add_integer(fields, n, "bytes_per_rank", (long long)c->part_bytes, shape);
    add_text(fields, n, "in_place", NULL);
    if (shape) {
        fields[*n - 1].kind = FIELD_LITERAL;
        snprintf(fields[*n - 1].text, sizeof(fields[0].text), "%s", c->in_place ? "true" : "false");
    }
    add_text(fields, n, "mode", shape ? bench_name_of(bench_modes, c->mode) : NULL);
    add_text(fields, n, "buffers", shape ? bench_name_of(bench_kinds, c->buffers) : NULL);
    add_integer(fields, n, "comm_sms", c->comm_sms, shape && c->comm_sms != BENCH_AUTO);
    add_integer(fields, n, "blocks", e->comm_sms, e->comm_sms != CCL_UNSET);
    add_text(fields, n, "variant", shape ? bench_name_of(bench_variants, c->variant) : NULL);
    add_text(fields, n, "variant_used", e->variant == CCL_UNSET ? NULL : bench_name_of(bench_variants, e->variant));
    add_integer(fields, n, "tile_m", e->tile_m, e->tile_m != CCL_UNSET);
    add_integer(fields, n, "tile_n", e->tile_n, e->tile_n != CCL_UNSET);
    add_integer(fields, n, "peers_per_wait", e->peers_per_wait, e->peers_per_wait != CCL_UNSET);
    add_integer(fields, n, "algorithm", e->algorithm, e->algorithm != CCL_UNSET);
}

/* What was measured. */
static void add_result(const struct bench_row *row, struct bench_pair *fields, int *n)
{
    const struct bench_result *r = &row->result;
    bool timed = r->time_us > 0, moved = timed && row->has_shape;
    double bytes = (double)row->config.part_bytes;

    add_real(fields, n, "time_us", r->time_us, timed);
    add_real(fields, n, "min_us", r->min_us, timed);
    add_real(fields, n, "p99_us", r->p99_us, timed);
    add_real(fields, n, "skew_us", r->skew_us, timed);
    add_real(fields, n, "algbw_gbps", gbps(row->alg_factor * bytes, r->time_us), moved);
    add_real(fields, n, "busbw_gbps", gbps(row->bus_factor * bytes, r->time_us), moved);
    add_real(fields, n, "host_us", r->host_us, moved && r->host_us > 0);
    add_real(fields, n, "limit_gbps", r->limit_gbps, r->limit_gbps > 0);
    add_real(fields, n, "fraction", fraction_of(row), moved && r->limit_gbps > 0);
    add_text(fields, n, "baseline", row->baseline);
    add_real(fields, n, "baseline_us", r->baseline_us, row->baseline != NULL && timed);
    add_real(fields, n, "ratio", ratio_of(row), row->baseline != NULL && timed);
    add_integer(fields, n, "errors", r->errors, r->errors >= 0);
}

static void write_json(FILE *to, const struct bench_pair *fields, int count)
{
    for (int i = 0; i < count; i++) {
        fprintf(to, "%s\"%s\": ", i == 0 ? "{" : ", ", fields[i].key);
        if (fields[i].kind == FIELD_NULL) {
            fputs("null", to);
        } else if (fields[i].kind == FIELD_LITERAL) {
            fputs(fields[i].text, to);
        } else {
            fputc('"', to);
            for (const char *at = fields[i].text; *at != '\0'; at++) {
                if (*at == '"' || *at == '\\') {
                    fputc('\\', to);
                }
                fputc((unsigned char)*at < 0x20 ? ' ' : *at, to);
            }
            fputc('"', to);
        }
    }
    fputs("}\n", to);
}

static void write_csv(FILE *to, const struct bench_pair *fields, int count, bool head)
{
    for (int i = 0; head && i < count; i++) {
        fprintf(to, "%s%s", i == 0 ? "" : ",", fields[i].key);
    }
    fputs(head ? "\n" : "", to);
    for (int i = 0; i < count; i++) {
        bool quoted = strpbrk(fields[i].text, ",\"") != NULL;
        fputs(i == 0 ? "" : ",", to);
        fputs(quoted ? "\"" : "", to);
        for (const char *at = fields[i].text; *at != '\0'; at++) {
            fputs(*at == '"' ? "\"" : "", to);
            fputc(*at, to);
        }
        fputs(quoted ? "\"" : "", to);
    }
    fputc('\n', to);
}

static void table_real(FILE *to, int width, int digits, double value, bool applies)
{
    if (applies) {
        fprintf(to, " %*.*f", width, digits, value);
    } else {
        fprintf(to, " %*s", width, "-");
    }
}

static void write_table(FILE *to, const struct bench_row *row, bool head)
{
    const struct bench_config *c = &row->config;
    const struct bench_result *r = &row->result;
    const cclCallConfig_t *e = &row->effective;
    bool timed = r->time_us > 0, moved = timed && row->has_shape, compared = timed && row->baseline != NULL;
    double bytes = (double)c->part_bytes;
    char shape[48] = "-", part[24] = "-", tile[32] = "-", blocks[16] = "-";

    if (head) {
        fprintf(to, "%5s %11s %14s %7s %10s %5s %11s %6s %11s %10s %10s %10s %9s %8s %8s %7s %7s %5s %10s %6s %6s\n",
                "ranks", "bytes/rank", "MxN", "dtype", "buffers", "mode", "variant", "blocks", "tile", "time us",
                "min us", "p99 us", "skew us", "alg GB/s", "bus GB/s", "host us", "limit", "frac", "base us", "ratio",
                "errors");
    }
    if (row->has_shape) {
        snprintf(shape, sizeof(shape), "%zux%zu", c->m, c->n);
        snprintf(part, sizeof(part), "%zu", c->part_bytes);
    }
    if (e->tile_m != CCL_UNSET && e->tile_n != CCL_UNSET) {
        snprintf(tile, sizeof(tile), "%dx%d", e->tile_m, e->tile_n);
    }
    if (e->comm_sms != CCL_UNSET) {
        snprintf(blocks, sizeof(blocks), "%d", e->comm_sms);
    }
    fprintf(to, "%5d %11s %14s %7s %10s %5s %11s %6s %11s", row->ranks, part, shape,
            row->has_shape ? bench_name_of(bench_dtypes, c->dtype) : "-",
            row->has_shape ? bench_name_of(bench_kinds, c->buffers) : "-",
            row->has_shape ? bench_name_of(bench_modes, c->mode) : "-",
            row->has_shape ? bench_name_of(bench_variants, e->variant != CCL_UNSET ? e->variant : c->variant) : "-",
            blocks, tile);
    table_real(to, 10, 2, r->time_us, timed);
    table_real(to, 10, 2, r->min_us, timed);
    table_real(to, 10, 2, r->p99_us, timed);
    table_real(to, 9, 2, r->skew_us, timed);
    table_real(to, 8, 3, gbps(row->alg_factor * bytes, r->time_us), moved);
    table_real(to, 8, 3, gbps(row->bus_factor * bytes, r->time_us), moved);
    table_real(to, 7, 3, r->host_us, moved && r->host_us > 0);
    table_real(to, 7, 2, r->limit_gbps, r->limit_gbps > 0);
    table_real(to, 5, 2, fraction_of(row), moved && r->limit_gbps > 0);
    table_real(to, 10, 2, r->baseline_us, compared);
    table_real(to, 6, 2, ratio_of(row), compared);
    table_real(to, 6, 0, (double)r->errors, r->errors >= 0);
    fputc('\n', to);
}

static void find_device(const char *given)
{
    char line[256], *at;
    struct utsname machine;
    FILE *file = fopen("/proc/cpuinfo", "r");
    const char *name = "unknown CPU";

    if (uname(&machine) == 0) {
        name = machine.machine;
    }
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "model name", 10) == 0 && (at = strchr(line, ':')) != NULL) {
            at[strcspn(at, "\n")] = '\0';
            name = at + 1 + strspn(at + 1, " \t");
            break;
        }
    }
    if (given != NULL) {
        snprintf(report.device, sizeof(report.device), "%s", given);
    } else {
        snprintf(report.device, sizeof(report.device), "%.120s, %ld CPUs", name, sysconf(_SC_NPROCESSORS_ONLN));
    }
    if (file != NULL) {
        fclose(file);
    }
}

bool bench_report_open(const struct bench_options *options, int world)
{
    int version = 0;
    find_device(options->device);
    cclGetVersion(&version);
    report.format = options->format;
    if (options->out != NULL) {
        report.file = fopen(options->out, "w");
        if (report.file == NULL) {
            fprintf(stderr, "ccl_bench: --out %s: %s\n", options->out, strerror(errno));
            return false;
        }
    }
    if (options->out != NULL || options->format == BENCH_TABLE) {
        printf("# libccl %d.%d.%d commit %s, backend %s, %s, %d ranks, seed %lld%s\n", version / 10000,
               version / 100 % 100, version % 100, CCL_BENCH_COMMIT, cclBackendName(), report.device, world,
               options->seed, options->leading > 0 ? ", rows padded" : "");
        fflush(stdout);
    }
    return true;
}

static void write_row(FILE *to, int format, const struct bench_row *row, bool head)
{
    struct bench_pair fields[MAX_FIELDS];
    int count = 0;

    if (format == BENCH_TABLE) {
        write_table(to, row, head);
    } else {
        add_request(row, fields, &count);
        add_result(row, fields, &count);
        if (format == BENCH_JSON) {
            write_json(to, fields, count);
        } else {
            write_csv(to, fields, count, head);
        }
    }
    /* At once, so that a run that is stopped keeps what it has. */
    if (fflush(to) != 0) {
        report.failed = true;
    }
}

/* Columns as wide as key or value; device and commit stand in the head of the run. */
static void write_pairs_table(FILE *to, const struct bench_pair *pairs, int count, bool head)
{
    for (int line = head ? 0 : 1; line < 2; line++) {
        for (int i = 0; i < count; i++) {
            const char *text = line == 0 ? pairs[i].key : pairs[i].kind == FIELD_NULL ? "-" : pairs[i].text;
            int width = (int)strlen(pairs[i].key) < 10 ? 10 : (int)strlen(pairs[i].key);
            if (strcmp(pairs[i].key, "device") != 0 && strcmp(pairs[i].key, "commit") != 0) {
                fprintf(to, "%s%*s", i == 0 ? "" : " ", i == 0 ? 18 : width, text);
            }
        }
        fputc('\n', to);
    }
}

static void write_pairs(FILE *to, int format, const struct bench_pair *pairs, int count, bool head)
{
    if (format == BENCH_TABLE) {
        write_pairs_table(to, pairs, count, head);
    } else if (format == BENCH_JSON) {
        write_json(to, pairs, count);
    } else {
        write_csv(to, pairs, count, head);
    }
    report.failed = fflush(to) != 0 || report.failed;
}

void bench_report_pairs(const struct bench_pair *pairs, int count)
{
    if (report.file != NULL) {
        write_pairs(report.file, report.format, pairs, count, report.rows == 0);
    }
    write_pairs(stdout, report.file != NULL ? BENCH_TABLE : report.format, pairs, count, report.rows == 0);
    report.rows++;
}

void bench_report_raw(const char *line)
{
    FILE *to = report.file != NULL ? report.file : stdout;
    report.failed = fputs(line, to) < 0 || fflush(to) != 0 || report.failed;
}

void bench_report_row(const struct bench_row *row)
{
    if (report.progress_shown) {
        fputs("\r\033[K", stderr);
        report.progress_shown = false;
    }
    if (report.file != NULL) {
        write_row(report.file, report.format, row, report.rows == 0);
    }
    write_row(stdout, report.file != NULL ? BENCH_TABLE : report.format, row, report.rows == 0);
    report.rows++;
}

bool bench_report_close(void)
{
    if (report.file != NULL && fclose(report.file) != 0) {
        report.failed = true;
    }
    report.file = NULL;
    if (report.failed) {
        fputs("ccl_bench: not all rows could be written\n", stderr);
    }
    return !report.failed;
}

void bench_report_progress(const struct bench_options *options, int done, int total, const char *what)
{
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K[%d/%d] %s", done + 1, total, what);
        report.progress_shown = true;
    } else if (options->progress) {
        fprintf(stderr, "[%d/%d] %s\n", done + 1, total, what);
    }
    fflush(stderr);
}
