/* SPDX-License-Identifier: MIT
 *
 * Buffers of one configuration: allocation by kind, filling, checking. Device memory is touched only through cclMemcpyAsync
 * and cclMemsetAsync, a chunk at a time, so the same code serves every backend and needs no second copy of the buffers. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define GAP_SOURCE (-1) /* pattern of the elements between two rows */
#define IMPORT_WAIT_US 2e6

static size_t pitch_bytes(const struct bench_config *c)
{
    return c->ld * bench_dtype_bytes(c->dtype);
}

double bench_buffers_need(const struct bench_config *c, int ranks, bool with_baseline)
{
    double part = (double)c->m * (double)pitch_bytes(c);
    double parts = c->op->input != NULL ? c->op->parts_in(ranks) + c->op->parts_out(ranks) : ranks + 1;
    double ours = part * (parts - (c->in_place ? 1 : 0)), theirs = (double)c->part_bytes * parts;
    return ranks * (ours + (with_baseline ? theirs : 0) + 2.0 * BENCH_CHUNK);
}

static cclResult_t allocate(struct bench_session *s, int kind, unsigned char **out, size_t bytes, void **handle)
{
    void *memory = NULL;
    cclResult_t rc = kind == BENCH_HEAP ? cclMemAlloc(s->comm, &memory, bytes) : cclDeviceMalloc(&memory, bytes);
    if (rc != cclSuccess) {
        return rc;
    }
    *out = memory;
    return kind == BENCH_REGISTERED ? cclCommRegister(s->comm, memory, bytes, handle) : cclSuccess;
}

static cclResult_t allocate_all(struct bench_buffers *b, struct bench_session *s, bool with_baseline)
{
    const struct bench_config *c = b->config;
    cclResult_t rc = allocate(s, c->buffers, &b->recv, b->recv_bytes, &b->recv_handle);

    /* Heap calls are collective: each rank makes all of them, whatever the first one gave (a failure is one on all ranks). */
    if (rc == cclSuccess && !c->in_place) {
        rc = allocate(s, c->buffers, &b->send, b->send_bytes, &b->send_handle);
    } else if (rc == cclSuccess) {
        b->send = b->recv + (size_t)s->rank * b->send_bytes;
    }
    if (with_baseline) {
        b->base_send = aligned_alloc(4096, (b->base_send_bytes + 4095) / 4096 * 4096);
        b->base_recv = aligned_alloc(4096, (b->base_recv_bytes + 4095) / 4096 * 4096);
    }
    bool short_of_memory = with_baseline && (b->base_send == NULL || b->base_recv == NULL);
    return rc == cclSuccess && short_of_memory ? cclSystemError : rc;
}

/* Peers map a registration in the background and data is staged until then: wait, so that the row shows the steady state. */
static void await_imports(const struct bench_buffers *b, struct bench_session *s)
{
    const struct timespec pause = {0, 1000000};
    cclPointerInfo_t info = {0};

    for (double until = bench_now_us() + IMPORT_WAIT_US; bench_now_us() < until; nanosleep(&pause, NULL)) {
        if (cclPointerInfo(s->comm, b->recv, &info) != cclSuccess || info.kind == cclMemPlain ||
            info.peers_mapped == s->ranks - 1) {
            break;
        }
    }
}

bool bench_buffers_create(struct bench_buffers *b, struct bench_session *s, const struct bench_config *config,
                          bool with_baseline)
{
    *b = (struct bench_buffers){.config = config, .session = s};
    b->send_bytes = config->m * pitch_bytes(config);
    b->recv_bytes = (size_t)s->ranks * b->send_bytes;
    b->base_send_bytes = config->part_bytes;
    b->base_recv_bytes = (size_t)s->ranks * config->part_bytes;
    if (config->op->input != NULL) {
        b->send_bytes = b->base_send_bytes = (size_t)config->op->parts_in(s->ranks) * config->part_bytes;
        b->recv_bytes = b->base_recv_bytes = (size_t)config->op->parts_out(s->ranks) * config->part_bytes;
    }
    if (!bench_agree(s, allocate_all(b, s, with_baseline), "buffers")) {
        bench_session_check(s);
        bench_buffers_destroy(b, s);
        return false;
    }
    if (config->buffers == BENCH_REGISTERED) {
        await_imports(b, s);
        bench_quiet_barrier(s->mpi);
    }
    return true;
}

void bench_buffers_destroy(struct bench_buffers *b, struct bench_session *s)
{
    unsigned char *send = b->config->in_place ? NULL : b->send;

    if (b->config->buffers == BENCH_HEAP) {
        if (s->comm != NULL) {
            cclMemFree(s->comm, send);
            cclMemFree(s->comm, b->recv);
        }
    } else {
        if (s->comm != NULL) {
            cclCommDeregister(s->comm, b->send_handle);
            cclCommDeregister(s->comm, b->recv_handle);
        }
        cclDeviceFree(send);
        cclDeviceFree(b->recv);
    }
    free(b->base_send);
    free(b->base_recv);
    *b = (struct bench_buffers){.config = b->config, .session = s};
}

/* All-gather: rows of data with gaps between them. */
static void gathered(const struct bench_buffers *b, unsigned char *dst, size_t off, size_t length)
{
    const struct bench_config *c = b->config;
    size_t row_bytes = c->n * bench_dtype_bytes(c->dtype), pitch = pitch_bytes(c), rows = c->m;

    if (row_bytes == pitch) { /* no gaps: a part is one long row */
        row_bytes = pitch = c->part_bytes;
        rows = 1;
    }
    while (length > 0) {
        size_t row = off / pitch, column = off % pitch;
        bool data = column < row_bytes;
        size_t piece = (data ? row_bytes : pitch) - column;
        piece = piece < length ? piece : length;
        if (data) {
            bench_pattern(dst, piece, b->seed, (int)(row / rows), row % rows * row_bytes + column);
        } else {
            bench_pattern(dst, piece, b->seed, GAP_SOURCE, off);
        }
        dst += piece;
        off += piece;
        length -= piece;
    }
}

/* What bytes off.. of the receive buffer must become. */
static void expected(const struct bench_buffers *b, unsigned char *dst, size_t off, size_t length)
{
    if (b->config->op->output != NULL) {
        b->config->op->output(b, dst, off, length);
    } else {
        gathered(b, dst, off, length);
    }
}

static cclResult_t copy_chunk(const struct bench_worker *w, void *dst, const void *src, size_t bytes)
{
    cclResult_t rc = cclMemcpyAsync(dst, src, bytes, w->stream);
    return rc == cclSuccess ? cclStreamSynchronize(w->stream) : rc;
}

/* The state before the call of a receive buffer with gaps: these as they must stay, 0 for data. */
static cclResult_t poison_chunk(void *ctx, struct bench_worker *w, size_t off, size_t length, long long *wrong)
{
    const struct bench_buffers *b = ctx;
    const struct bench_config *c = b->config;
    size_t row_bytes = c->n * bench_dtype_bytes(c->dtype), pitch = pitch_bytes(c);

    (void)wrong;
    expected(b, w->stage, off, length);
    for (size_t i = 0, column = off % pitch; i < length; i++) {
        w->stage[i] = (unsigned char)(column < row_bytes ? 0 : w->stage[i]);
        column = column + 1 == pitch ? 0 : column + 1;
    }
    return copy_chunk(w, b->recv + off, w->stage, length);
}

static cclResult_t send_chunk(void *ctx, struct bench_worker *w, size_t off, size_t length, long long *wrong)
{
    const struct bench_buffers *b = ctx;

    (void)wrong;
    if (b->config->op->input != NULL) {
        b->config->op->input(b, w->stage, off, length);
    } else {
        gathered(b, w->stage, (size_t)b->session->rank * b->send_bytes + off, length);
    }
    return copy_chunk(w, b->send + off, w->stage, length);
}

cclResult_t bench_buffers_fill(struct bench_buffers *b, struct bench_session *s, uint64_t seed)
{
    const struct bench_config *c = b->config;
    cclResult_t rc;

    b->seed = seed;
    if (c->n == c->ld) { /* no gaps */
        rc = cclMemsetAsync(b->recv, 0, b->recv_bytes, s->stream);
        rc = rc == cclSuccess ? cclStreamSynchronize(s->stream) : rc;
    } else {
        rc = bench_chunks(s, b->recv_bytes, poison_chunk, b, NULL);
    }
    rc = rc == cclSuccess ? bench_chunks(s, b->send_bytes, send_chunk, b, NULL) : rc;
    if (rc == cclSuccess && b->base_send != NULL && c->op->input != NULL) {
        memset(b->base_recv, 0, b->base_recv_bytes);
        for (size_t off = 0; off < b->base_send_bytes; off += BENCH_CHUNK) {
            c->op->input(b, b->base_send + off, off, b->base_send_bytes - off < BENCH_CHUNK ? b->base_send_bytes - off : BENCH_CHUNK);
        }
    } else if (rc == cclSuccess && b->base_send != NULL) {
        size_t part = c->part_bytes;
        for (int r = 0; r < s->ranks; r++) {
            bench_pattern(b->base_recv + (size_t)r * part, part, ~seed, r, 0);
        }
        bench_pattern(c->in_place ? b->base_recv + (size_t)s->rank * part : b->base_send, part, seed, s->rank, 0);
    }
    return rc;
}

static long long count_wrong(const unsigned char *got, const unsigned char *want, size_t length)
{
    long long wrong = 0;
    if (memcmp(got, want, length) != 0) {
        for (size_t i = 0; i < length; i++) {
            wrong += got[i] != want[i];
        }
    }
    return wrong;
}

static cclResult_t check_chunk(void *ctx, struct bench_worker *w, size_t off, size_t length, long long *wrong)
{
    const struct bench_buffers *b = ctx;
    cclResult_t rc = copy_chunk(w, w->stage, b->recv + off, length);

    if (rc != cclSuccess) {
        return rc;
    }
    if (b->corrupt && off == 0) {
        w->stage[length / 2] ^= 1;
    }
    expected(b, w->expect, off, length);
    *wrong += count_wrong(w->stage, w->expect, length);
    return cclSuccess;
}

cclResult_t bench_buffers_check(struct bench_buffers *b, struct bench_session *s, long long *wrong)
{
    return bench_chunks(s, b->recv_bytes, check_chunk, b, wrong);
}

long long bench_buffers_check_baseline(struct bench_buffers *b)
{
    unsigned char *expect = b->session->workers[0].expect;
    long long wrong = 0;

    for (size_t off = 0; b->base_recv != NULL && off < b->base_recv_bytes; off += BENCH_CHUNK) {
        size_t length = b->base_recv_bytes - off < BENCH_CHUNK ? b->base_recv_bytes - off : BENCH_CHUNK, part = b->config->part_bytes;
        if (b->config->op->output != NULL) {
            b->config->op->output(b, expect, off, length);
        }
        for (size_t at = 0; at < length && b->config->op->output == NULL;) { /* parts without the gaps of ours */
            size_t left = part - (off + at) % part, piece = left < length - at ? left : length - at;
            bench_pattern(expect + at, piece, b->seed, (int)((off + at) / part), (off + at) % part);
            at += piece;
        }
        wrong += count_wrong(b->base_recv + off, expect, length);
    }
    return wrong;
}
