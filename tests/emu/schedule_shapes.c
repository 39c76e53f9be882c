/* SPDX-License-Identifier: MIT
 *
 * Random operations for schedules.c: shapes that take the kernels through vectors, tails, rectangles, several steps of the rings, and their buffers. */
#include "schedules.h"

#include <stdio.h>
#include <string.h>

uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(uint64_t *state, size_t n)
{
    return (size_t)(next_random(state) % n);
}

static bool chance(uint64_t *state, unsigned percent)
{
    return below(state, 100) < percent;
}

/* ---- shapes ---- */

static size_t draw_cols(uint64_t *state)
{
    switch (below(state, 5)) {
    case 0: return 1 + below(state, 40);
    case 1: return 8 * (1 + below(state, 60));
    case 2: return 16 * (1 + below(state, 60));
    case 3: return 1 + below(state, 1000);
    default: return 16 * (1 + below(state, 12)) + below(state, 16);
    }
}

static void draw_config(uint64_t *state, int n, int max_blocks, struct shape *s)
{
    static const int threads[] = {64, 128, 192, 256};
    cclCallConfig_t *c = &s->config;
    const bool partitioned = c->variant == cclVariantPartitioned;
    int least = partitioned ? n : 1, most = partitioned ? 2 * n : 3;
    most = most < max_blocks ? most : max_blocks;
    c->comm_sms = least + (int)below(state, (size_t)(most - least + 1));
    c->threads = threads[below(state, 4)];
    if (s->config.variant == cclVariantLL) {
        return;
    }
    if (chance(state, 60)) { /* so that there are more pieces than a block has slots */
        size_t most_cols = s->cols < 256 ? s->cols : 256;
        c->tile_n = (int)(1 + below(state, most_cols));
        c->tile_n = chance(state, 50) && s->cols >= 16 ? (c->tile_n + 15) / 16 * 16 : c->tile_n;
        c->tile_n = s->cols / (size_t)c->tile_n > 12 ? (int)(s->cols / 12) + 1 : c->tile_n;
        c->tile_m = 1 + (int)below(state, s->rows);
    }
    if (chance(state, 50)) {
        c->peers_per_wait = chance(state, 70) || n < 4 ? 1 : 2;
    }
}

void draw_shape(uint64_t *state, unsigned kinds, int n, int max_blocks, struct shape *s)
{
    static const int variants[] = {[DO_LL] = cclVariantLL,     [DO_DIRECT] = cclVariantDirect,           [DO_STAGED] = cclVariantStaged,
                                   [DO_AUTO] = cclVariantAuto, [DO_PARTITIONED] = cclVariantPartitioned, [DO_COPY] = cclVariantCopy};
    const cclCallConfig_t unset = CCL_CALL_CONFIG_INITIALIZER;
    memset(s, 0, sizeof(*s));
    s->key = next_random(state);
    do {
        s->kind = 1 << below(state, 8);
    } while (!(kinds & (unsigned)s->kind));
    s->config = unset;
    if (s->kind == DO_BARRIER) {
        return;
    }
    s->rows = chance(state, 70) ? 1 : 2 + below(state, 4);
    s->cols = draw_cols(state);
    s->cols = s->rows > 1 && s->cols > 500 ? 500 : s->cols;
    const bool mismatch = s->kind == DO_MISMATCH;
    s->cols += mismatch && s->cols == 1; /* the rank that disagrees has fewer */
    bool even = chance(state, 50);
    s->ld_send = s->cols + (s->rows > 1 && chance(state, 60) ? (even ? (16 - s->cols % 16) % 16 : below(state, 30)) : 0);
    s->ld_recv = s->cols + (s->rows > 1 && chance(state, 60) ? (even ? (16 - s->cols % 16) % 16 + 16 : below(state, 30)) : 0);
    s->in_place = chance(state, 20);
    s->ld_send = s->in_place ? s->ld_recv : s->ld_send;
    static const int kinds_of_mismatch[] = {DO_DIRECT, DO_DIRECT, DO_STAGED, DO_LL, DO_COPY, DO_PARTITIONED};
    const int kind = mismatch ? kinds_of_mismatch[below(state, 6)] : s->kind;
    s->config.variant = variants[kind];
    const bool copy = kind == DO_COPY, aligned = chance(state, 50), any_memory = s->kind == DO_AUTO || s->kind == DO_PARTITIONED;
    const bool all_plain = s->kind == DO_LL || s->kind == DO_STAGED ? chance(state, 50) : any_memory && chance(state, 30);
    const size_t send = aligned ? 0 : below(state, 16), recv = aligned ? 0 : below(state, 16);
    for (int r = 0; r < n; r++) {
        s->of[r].plain = all_plain || (any_memory && chance(state, 40));
        s->of[r].send = (SLACK / 2 + 15) / 16 * 16 + (chance(state, 80) || copy ? send : below(state, 16));
        s->of[r].recv = (SLACK / 2 + 15) / 16 * 16 + (chance(state, 80) || copy ? recv : below(state, 16));
    }
    if (!copy) {
        draw_config(state, n, max_blocks, s);
    }
    s->config.peers_per_wait = mismatch && kind == DO_DIRECT ? 1 : s->config.peers_per_wait; /* those who agree store before they hear from those who do not */
}

void describe_shape(const struct shape *s, int n, char *text, size_t bytes)
{
    char where[MAX_RANKS * 24] = "";
    for (int r = 0; r < n; r++) {
        size_t used = strlen(where);
        snprintf(where + used, sizeof(where) - used, " %s%zu/%zu", s->of[r].plain ? "plain" : "heap", s->of[r].send, s->of[r].recv);
    }
    if (s->coll != COLL_NONE) {
        snprintf(text, bytes, "collective %d, count %zu, type %d, root %d, peers %#x%s%s, offsets%s", (int)s->coll, s->count, (int)s->type, s->root, s->peers,
                 s->twice ? " twice" : "", s->in_place ? ", in place" : "", where);
        return;
    }
    snprintf(text, bytes, "kind %d, %zu x %zu bytes, pitches %zu %zu, blocks %d, threads %d, tiles %d x %d, peers_per_wait %d%s, offsets%s", s->kind, s->rows,
             s->cols, s->ld_send, s->ld_recv, s->config.comm_sms, s->config.threads, s->config.tile_m, s->config.tile_n, s->config.peers_per_wait,
             s->in_place ? ", in place" : "", where);
}

/* ---- memory ---- */

uint8_t *recv_of(const struct rank_memory *m, const struct shape *s, int rank, int op)
{
    return m->recv[s->of[rank].plain] + op * RECV_BYTES + s->of[rank].recv;
}

uint8_t *send_of(const struct rank_memory *m, const struct shape *s, int rank, int op)
{
    if (s->in_place) {
        return recv_of(m, s, rank, op) + (size_t)rank * s->rows * s->ld_recv;
    }
    return m->send[s->of[rank].plain] + op * SEND_BYTES + s->of[rank].send;
}

static void make_bytes(uint8_t *out, size_t bytes, uint64_t key)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = next_random(&key);
        memcpy(out + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

static uint64_t key_of(const struct shape *s, int rank, int op, int what)
{
    return s->key ^ (uint64_t)(rank + 1) << 40 ^ (uint64_t)(op + 1) << 32 ^ (uint64_t)what;
}
enum { DATA, NOISE_SEND, NOISE_RECV, LATER_SEND, LATER_RECV };

void make_data(uint8_t *to, size_t bytes, const struct shape *s, int rank, int op)
{
    make_bytes(to, bytes, key_of(s, rank, op, DATA));
}

/* Part r of a tight output, into rows of pitch ld. */
static void put_part(uint8_t *out, size_t ld, const struct shape *s, int r, int op)
{
    uint8_t data[MAX_PART];
    make_bytes(data, s->rows * s->cols, key_of(s, r, op, DATA));
    for (size_t i = 0; i < s->rows; i++) {
        memcpy(out + i * ld, data + i * s->cols, s->cols);
    }
}

void fill_areas(const struct rank_memory *m, const struct shape *s, int n, int rank, int op)
{
    make_bytes(m->send[s->of[rank].plain] + op * SEND_BYTES, SEND_BYTES, key_of(s, rank, op, NOISE_SEND));
    make_bytes(m->recv[s->of[rank].plain] + op * RECV_BYTES, RECV_BYTES, key_of(s, rank, op, NOISE_RECV));
    if (s->coll != COLL_NONE) {
        coll_put_input(send_of(m, s, rank, op), s, n, rank, op);
    } else {
        put_part(send_of(m, s, rank, op), s->ld_send, s, rank, op);
    }
}

static bool same(const uint8_t *got, const uint8_t *want, size_t bytes, const char *what, const struct shape *s, int rank, int op, char *text, size_t text_bytes)
{
    if (memcmp(got, want, bytes) == 0) {
        return true;
    }
    size_t first = 0, wrong = 0;
    while (got[first] == want[first]) {
        first++;
    }
    for (size_t i = first; i < bytes; i++) {
        wrong += got[i] != want[i];
    }
    snprintf(text, text_bytes, "rank %d, operation %d: %s: %zu bytes differ from byte %td of the output on (got %02x, want %02x)", rank, op, what, wrong,
             (ptrdiff_t)first - (ptrdiff_t)s->of[rank].recv, got[first], want[first]);
    return false;
}

/* A failed call leaves the parts as they happen to be. */
static void excuse_parts(uint8_t *want, const uint8_t *got, const struct shape *s, int n, int rank)
{
    for (size_t i = 0; i < (size_t)n * s->rows; i++) {
        size_t at = s->of[rank].recv + i * s->ld_recv;
        memcpy(want + at, got + at, s->cols);
    }
}

bool check_areas(const struct rank_memory *m, const struct shape *s, int n, int rank, int op, bool failed, char *text, size_t bytes)
{
    uint8_t want[RECV_BYTES], *recv = m->recv[s->of[rank].plain] + op * RECV_BYTES, *send = m->send[s->of[rank].plain] + op * SEND_BYTES;
    make_bytes(want, RECV_BYTES, key_of(s, rank, op, NOISE_RECV));
    if (s->coll != COLL_NONE) {
        coll_put_output(want + s->of[rank].recv, s, n, rank, op);
    }
    for (int r = 0; r < n && s->coll == COLL_NONE; r++) {
        put_part(want + s->of[rank].recv + (size_t)r * s->rows * s->ld_recv, s->ld_recv, s, r, op);
    }
    if (failed) {
        excuse_parts(want, recv, s, n, rank);
    }
    if (!same(recv, want, RECV_BYTES, "output and its surroundings", s, rank, op, text, bytes)) {
        return false;
    }
    make_bytes(want, SEND_BYTES, key_of(s, rank, op, NOISE_SEND));
    if (!s->in_place) {
        if (s->coll != COLL_NONE) {
            coll_put_input(want + s->of[rank].send, s, n, rank, op);
        } else {
            put_part(want + s->of[rank].send, s->ld_send, s, rank, op);
        }
        if (!same(send, want, SEND_BYTES, "input and its surroundings", s, rank, op, text, bytes)) {
            return false;
        }
    }
    make_bytes(send, SEND_BYTES, key_of(s, rank, op, LATER_SEND));
    make_bytes(recv, RECV_BYTES, key_of(s, rank, op, LATER_RECV));
    return true;
}

bool check_untouched(const struct rank_memory *m, const struct shape *s, int rank, int op, char *text, size_t bytes)
{
    uint8_t want[RECV_BYTES];
    make_bytes(want, RECV_BYTES, key_of(s, rank, op, LATER_RECV));
    if (!same(m->recv[s->of[rank].plain] + op * RECV_BYTES, want, RECV_BYTES, "output after the end of its operation", s, rank, op, text, bytes)) {
        return false;
    }
    make_bytes(want, SEND_BYTES, key_of(s, rank, op, LATER_SEND));
    return same(m->send[s->of[rank].plain] + op * SEND_BYTES, want, SEND_BYTES, "input after the end of its operation", s, rank, op, text, bytes);
}
