/* SPDX-License-Identifier: MIT
 *
 * Writes the trace event format: a process a rank, a thread a block, on it one span an operation with the spans of its phases inside. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "trace/trace.h"
#include "util/log.h"

/* A span inside an operation. */
struct phase {
    const char *name;
    enum ccl_trace_point from, to;
};
#define MAX_PHASES 3

/* By the order in which a protocol does things; a phase without a name ends the list. */
static const struct phase push_phases[MAX_PHASES] = {
    {"wait", CCL_TRACE_START, CCL_TRACE_MET}, {"send", CCL_TRACE_MET, CCL_TRACE_SENT}, {"drain", CCL_TRACE_SENT, CCL_TRACE_END}};
static const struct phase ll_phases[MAX_PHASES] = {{"send", CCL_TRACE_START, CCL_TRACE_SENT},
                                                   {"wait", CCL_TRACE_SENT, CCL_TRACE_END}};
static const struct phase matmul_phases[MAX_PHASES] = {
    {"fetch", CCL_TRACE_START, CCL_TRACE_MET}, {"gemm", CCL_TRACE_MET, CCL_TRACE_SENT}, {"leave", CCL_TRACE_SENT, CCL_TRACE_END}};
static const char *const task_names[CCL_TRACE_TASKS] = {"fetch", "gemm", "wait"}, *const part_names[CCL_TRACE_TASKS] = {"group", "column", "group"};
static const struct phase barrier_phases[MAX_PHASES] = {{"wait", CCL_TRACE_START, CCL_TRACE_END}};

struct writer {
    const struct ccl_trace_dump *dump;
    FILE *file;
    bool first; /* no event is written yet */
};

static const struct phase *phases_of(const struct ccl_k_trace_op *op)
{
    if ((op->word1 & 63) == CCL_OP_BARRIER) {
        return barrier_phases;
    }
    if ((op->word1 & 63) == CCL_OP_ALL_GATHER_MATMUL || (op->word1 & 63) == CCL_OP_MATMUL_ALL_GATHER) {
        return matmul_phases;
    }
    return op->variant == cclVariantLL ? ll_phases : push_phases;
}

/* A string of JSON. Bytes outside of ASCII are taken for Latin-1, so that the file is valid whatever they are. */
static void put_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\') {
            fprintf(file, "\\%c", *p);
        } else if (*p < 0x20 || *p >= 0x7f) {
            fprintf(file, "\\u%04x", *p);
        } else {
            fputc(*p, file);
        }
    }
    fputc('"', file);
}

/* Nanoseconds as microseconds, exactly. */
static void put_us(FILE *file, int64_t ns)
{
    uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    fprintf(file, "%s%llu.%03u", ns < 0 ? "-" : "", (unsigned long long)(size / 1000), (unsigned)(size % 1000));
}

static void begin_event(struct writer *w, const char *ph, uint32_t block)
{
    fprintf(w->file, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%u", w->first ? "" : ",", ph, w->dump->rank, block);
    w->first = false;
}

static void put_track_name(struct writer *w, const char *kind, uint32_t block, const char *name)
{
    begin_event(w, "M", block);
    fprintf(w->file, ",\"name\":\"%s\",\"args\":{\"name\":", kind);
    put_string(w->file, name);
    fputs("}}", w->file);
}

static void put_head(struct writer *w, uint32_t kept, uint32_t lost)
{
    const struct ccl_trace_dump *d = w->dump;
    fprintf(w->file, "{\"displayTimeUnit\":\"ns\",\n\"otherData\":{\"library\":\"libccl %d.%d.%d\",\"world\":\"%016llx\",",
            CCL_VERSION_MAJOR, CCL_VERSION_MINOR, CCL_VERSION_PATCH, (unsigned long long)d->world);
    fprintf(w->file, "\"rank\":%d,\"ranks\":%d,\"backend\":", d->rank, d->ranks);
    put_string(w->file, d->backend);
    fputs(",\"device\":", w->file);
    put_string(w->file, d->device);
    fprintf(w->file, ",\"operations\":%u,\"kept\":%u,\"lost\":%u,\"clock\":\"CLOCK_MONOTONIC\",\"clock_error_us\":", d->drawn, kept,
            lost);
    put_us(w->file, (int64_t)d->clock_error_ns);
    fputs(",\"clock_drift_us\":", w->file);
    put_us(w->file, d->clock_drift_ns);
    fputs("},\n\"traceEvents\":[", w->file);
}

static void put_tracks(struct writer *w)
{
    const struct ccl_trace_dump *d = w->dump;
    char name[160];
    uint32_t used = 0;
    for (uint32_t slot = 0; slot < d->ops; slot++) {
        uint32_t blocks = d->op[slot].op != 0 ? d->op[slot].blocks : 0;
        used = blocks > used ? blocks : used;
    }
    snprintf(name, sizeof(name), "rank %d of %d, %s", d->rank, d->ranks, d->device);
    put_track_name(w, "process_name", 0, name);
    begin_event(w, "M", 0);
    fprintf(w->file, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%d}}", d->rank);
    for (uint32_t b = 0; b < used && b < d->blocks; b++) {
        snprintf(name, sizeof(name), "block %u", b);
        put_track_name(w, "thread_name", b, name);
    }
}

static void put_span(struct writer *w, uint32_t block, const char *category, const char *name, uint64_t from, uint64_t to)
{
    begin_event(w, "X", block);
    fputs(",\"ts\":", w->file);
    put_us(w->file, (int64_t)from + w->dump->clock_offset_ns);
    fputs(",\"dur\":", w->file);
    put_us(w->file, (int64_t)(to - from));
    fprintf(w->file, ",\"cat\":\"%s\",\"name\":", category);
    put_string(w->file, name);
}

/* An operation on one block's track. A block that left early, after an error, has its phases up to there. */
static void put_block(struct writer *w, const struct ccl_k_trace_op *op, const struct ccl_k_trace_event *e, uint32_t block,
                      const char *name)
{
    const struct phase *phase = phases_of(op);
    uint64_t last = e->at_ns[CCL_TRACE_START];
    bool ended = e->op[CCL_TRACE_END] == op->op;
    if (e->op[CCL_TRACE_START] != op->op) {
        return;
    }
    for (int p = CCL_TRACE_MET; p < CCL_TRACE_POINTS; p++) {
        last = e->op[p] == op->op && e->at_ns[p] > last ? e->at_ns[p] : last;
    }
    put_span(w, block, "operation", name, e->at_ns[CCL_TRACE_START], last);
    fprintf(w->file, ",\"args\":{\"op\":%u,\"rows\":%llu,\"count\":%llu,\"blocks\":%u,\"tile_m\":%u,\"tile_n\":%u,\"ended\":%s}}",
            op->op, (unsigned long long)op->rows, (unsigned long long)op->count, op->blocks, op->tile_m, op->tile_n,
            ended ? "true" : "false");
    for (int i = 0; i < MAX_PHASES && phase[i].name != NULL; i++) {
        if (e->op[phase[i].from] == op->op && e->op[phase[i].to] == op->op) {
            put_span(w, block, "phase", phase[i].name, e->at_ns[phase[i].from], e->at_ns[phase[i].to]);
            fprintf(w->file, ",\"args\":{\"op\":%u}}", op->op);
        }
    }
}

static void put_operations(struct writer *w, uint32_t kept)
{
    const struct ccl_trace_dump *d = w->dump;
    for (uint32_t i = 0; i < kept; i++) {
        uint32_t n = d->drawn - kept + 1 + i, slot = n & (d->ops - 1);
        const struct ccl_k_trace_op *op = &d->op[slot];
        char call[CCL_TRACE_NAME_BYTES], name[CCL_TRACE_NAME_BYTES + 16];
        if (op->op != n) {
            continue;
        }
        d->name(op, call, sizeof(call));
        snprintf(name, sizeof(name), "%s op %u", call, n);
        for (uint32_t b = 0; b < op->blocks && b < d->blocks; b++) {
            put_block(w, op, &d->event[(size_t)slot * d->blocks + b], b, name);
        }
    }
}

/* What the blocks did inside matrix products that are kept, on their tracks: nested by time. */
static void put_tasks(struct writer *w)
{
    const struct ccl_trace_dump *d = w->dump;
    for (uint32_t b = 0; d->ring != NULL && b < d->blocks; b++) {
        const struct ccl_k_trace_ring *ring = &d->ring[b];
        const uint64_t kept = ring->count < CCL_TRACE_SPANS ? ring->count : CCL_TRACE_SPANS;
        for (uint64_t i = ring->count - kept; i < ring->count; i++) {
            const struct ccl_k_trace_span *s = &ring->span[i % CCL_TRACE_SPANS];
            char name[64];
            if (d->op[s->op & (d->ops - 1)].op != s->op || s->task >= CCL_TRACE_TASKS) {
                continue;
            }
            snprintf(name, sizeof(name), "%s unit %u %s %u", task_names[s->task], s->unit, part_names[s->task], s->part);
            put_span(w, b, "task", name, s->from_ns, s->to_ns);
            fprintf(w->file, ",\"args\":{\"op\":%u,\"unit\":%u,\"%s\":%u}}", s->op, s->unit, part_names[s->task], s->part);
        }
    }
}

cclResult_t ccl_trace_write(const struct ccl_trace_dump *dump, const char *path)
{
    struct writer w = {.dump = dump, .file = fopen(path, "we"), .first = true};
    CCL_CHECK(w.file != NULL, cclSystemError, CCL_INIT, "trace file %s: %s", path, strerror(errno));
    uint32_t kept = dump->drawn < dump->ops ? dump->drawn : dump->ops;
    put_head(&w, kept, dump->drawn - kept);
    put_tracks(&w);
    put_operations(&w, kept);
    put_tasks(&w);
    fputs("\n]}\n", w.file);
    bool failed = ferror(w.file) != 0;
    int reason = errno;
    if (fclose(w.file) != 0 && !failed) {
        failed = true;
        reason = errno;
    }
    CCL_CHECK(!failed, cclSystemError, CCL_INIT, "trace file %s: %s", path, strerror(reason));
    CCL_LOG(CCL_LOG_INFO, CCL_INIT, "rank %d: %u operations in trace file %s, %u lost", dump->rank, kept, path, dump->drawn - kept);
    return cclSuccess;
}
