/* SPDX-License-Identifier: MIT
 *
 * Test data as a function of (seed, rank, index), buffers of every kind of memory with guard bytes, and one
 * all-gather checked from end to end. */
#include <string.h>

#include "common.h"

const struct tm_type tm_types[TM_NUM_TYPES] = {
    {cclInt8, 1, "int8"},         {cclUint8, 1, "uint8"},           {cclInt32, 4, "int32"},
    {cclUint32, 4, "uint32"},     {cclInt64, 8, "int64"},           {cclUint64, 8, "uint64"},
    {cclFloat16, 2, "float16"},   {cclFloat32, 4, "float32"},       {cclFloat64, 8, "float64"},
    {cclBfloat16, 2, "bfloat16"}, {cclFloat8e4m3, 1, "float8e4m3"},
};

const char *const tm_kind_names[TM_NUM_KINDS] = {"heap", "registered", "plain", "host"};

const struct tm_type *tm_type_of_size(size_t size, unsigned i)
{
    unsigned matching = 0;

    for (unsigned t = 0; t < TM_NUM_TYPES; t++) {
        matching += tm_types[t].size == size ? 1 : 0;
    }
    i %= matching;
    for (unsigned t = 0;; t++) {
        if (tm_types[t].size == size && i-- == 0) {
            return &tm_types[t];
        }
    }
}

uint64_t tm_random(uint64_t *state)
{
    uint64_t x = (*state += 0x9E3779B97F4A7C15u);

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static uint64_t word_of(uint64_t key, uint64_t index)
{
    uint64_t x = (key + index) * 0x9E3779B97F4A7C15u;

    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9u;
    return x ^ (x >> 32);
}

static uint64_t key_of(uint64_t seed, int rank)
{
    uint64_t state = seed * 0xD1342543DE82EF95u + (uint64_t)rank * 0x2545F4914F6CDD1Du + 1;

    return tm_random(&state);
}

void tm_gen(void *dst, size_t off, size_t bytes, uint64_t seed, int rank)
{
    uint64_t key = key_of(seed, rank);
    uint8_t *to = dst;

    while (bytes > 0) {
        uint64_t word = word_of(key, off / 8);
        size_t skip = off % 8, part = bytes < 8 - skip ? bytes : 8 - skip;

        if (part == 8) {
            memcpy(to, &word, 8); /* a constant size: one store */
        } else {
            memcpy(to, (const uint8_t *)&word + skip, part);
        }
        to += part;
        off += part;
        bytes -= part;
    }
}

/* The bytes of an element as one hexadecimal number. */
static const char *element_text(char *text, size_t text_bytes, const uint8_t *element, size_t bytes)
{
    size_t used = 0;

    for (size_t i = bytes; i-- > 0 && used + 3 <= text_bytes;) {
        used += (size_t)snprintf(text + used, text_bytes - used, "%02x", element[i]);
    }
    return text;
}

bool tm_check_data(const void *data, size_t off, size_t bytes, size_t type_size, uint64_t seed, int rank,
                   const char *what)
{
    const uint8_t *got = data;
    uint8_t want[4096]; /* whole elements of every type */

    for (size_t at = 0; at < bytes; at += sizeof(want)) {
        size_t part = bytes - at < sizeof(want) ? bytes - at : sizeof(want), i = 0;
        char got_text[20], want_text[20];

        tm_gen(want, off + at, part, seed, rank);
        if (memcmp(got + at, want, part) == 0) {
            continue;
        }
        while (got[at + i] == want[i]) {
            i++;
        }
        i -= i % type_size;
        tm_fail(__FILE__, __LINE__, "%s: part of rank %d, type size %zu, count %zu, index %zu: want 0x%s, got 0x%s",
                what, rank, type_size, bytes / type_size, (at + i) / type_size,
                element_text(want_text, sizeof(want_text), want + i, type_size),
                element_text(got_text, sizeof(got_text), got + at + i, type_size));
        return false;
    }
    return true;
}

bool tm_check_bytes(const void *data, size_t bytes, int value, const char *what)
{
    const uint8_t *got = data;

    for (size_t i = 0; i < bytes; i++) {
        if (got[i] != (uint8_t)value) {
            tm_fail(__FILE__, __LINE__, "%s: byte %zu of %zu: want 0x%02x, got 0x%02x", what, i, bytes, value & 0xff,
                    got[i]);
            return false;
        }
    }
    return true;
}

/* ---- buffers ---- */

void tm_wait_mapped(cclComm_t comm, const void *ptr)
{
    double end = tm_now() + tm_limit(10.0);
    cclPointerInfo_t info;
    int n = 0;

    tm_at("waiting until all peers have mapped a registration");
    TM_MUST(cclCommCount(comm, &n));
    for (;;) {
        memset(&info, 0, sizeof(info));
        TM_MUST(cclPointerInfo(comm, ptr, &info));
        if (info.peers_mapped == n - 1) {
            return;
        }
        if (tm_now() > end) {
            tm_fail(__FILE__, __LINE__, "registration mapped by %d of %d peers after %.0f s", info.peers_mapped, n - 1, tm_limit(10.0));
            return;
        }
        tm_sleep_ms(1);
    }
}

void tm_buf_create(struct tm_buf *buf, cclComm_t comm, enum tm_kind kind, size_t bytes)
{
    void *ptr = NULL;

    memset(buf, 0, sizeof(*buf));
    buf->kind = kind == TM_HOST && !tm_backend_is_host() ? TM_PLAIN : kind;
    buf->bytes = bytes;
    buf->comm = comm;
    switch (buf->kind) {
    case TM_HEAP:
        TM_MUST(cclMemAlloc(comm, &ptr, bytes));
        break;
    case TM_REG:
        TM_MUST(cclDeviceMalloc(&ptr, bytes));
        TM_MUST(cclCommRegister(comm, ptr, bytes, &buf->handle));
        if ((buf->handle == NULL) != (getenv("TEST_HOST_MEMORY") != NULL)) {
            tm_fail(__FILE__, __LINE__, "memory of cclDeviceMalloc %s be shared", buf->handle == NULL ? "cannot" : "can");
            tm_die();
        }
        if (buf->handle == NULL) {
            buf->kind = TM_PLAIN; /* an entry whose ranks have only host memory in common: registrations stay staged */
        } else {
            tm_wait_mapped(comm, ptr);
        }
        break;
    case TM_PLAIN:
        TM_MUST(cclDeviceMalloc(&ptr, bytes));
        break;
    default:
        ptr = malloc(bytes);
        if (ptr == NULL) {
            tm_die();
        }
        break;
    }
    buf->base = ptr;
}

void tm_buf_destroy(struct tm_buf *buf)
{
    switch (buf->kind) {
    case TM_HEAP:
        TM_OK(cclMemFree(buf->comm, buf->base));
        break;
    case TM_REG:
        TM_OK(cclCommDeregister(buf->comm, buf->handle));
        TM_OK(cclDeviceFree(buf->base));
        break;
    case TM_PLAIN:
        TM_OK(cclDeviceFree(buf->base));
        break;
    default:
        free(buf->base);
        break;
    }
    memset(buf, 0, sizeof(*buf));
}

/* Of the main thread, on the current device: memory of another one need not be in its reach. */
static cclStream_t copies(void)
{
    enum { MOST_DEVICES = 16 };
    static cclStream_t streams[MOST_DEVICES];
    int device = 0;

    TM_MUST(cclGetDevice(&device));
    if (device >= MOST_DEVICES) {
        TEST_FAIL("device %d, at most %d are expected", device, MOST_DEVICES);
        tm_die();
    }
    if (streams[device] == NULL) {
        TM_MUST(cclStreamCreate(&streams[device]));
    }
    return streams[device];
}

static void move_bytes(void *dst, const void *src, size_t bytes)
{
    TM_MUST(cclMemcpyAsync(dst, src, bytes, copies()));
    TM_MUST(cclStreamSynchronize(copies()));
}

void tm_put(void *dst, const void *host, size_t bytes)
{
    if (tm_backend_is_host()) {
        memcpy(dst, host, bytes);
    } else {
        move_bytes(dst, host, bytes);
    }
}

void tm_get(void *host, const void *src, size_t bytes)
{
    if (tm_backend_is_host()) {
        memcpy(host, src, bytes);
    } else {
        move_bytes(host, src, bytes);
    }
}

void tm_set(void *dst, int byte, size_t bytes)
{
    if (tm_backend_is_host()) {
        memset(dst, byte, bytes);
    } else {
        TM_MUST(cclMemsetAsync(dst, byte, bytes, copies()));
        TM_MUST(cclStreamSynchronize(copies()));
    }
}

/* ---- one all-gather ---- */

/* Host memory kept between calls: the tests make thousands of small gathers. */
static uint8_t *scratch(unsigned which, size_t bytes)
{
    static uint8_t *memory[3];
    static size_t have[3];

    if (have[which] < bytes) {
        free(memory[which]);
        memory[which] = malloc(bytes);
        have[which] = bytes;
        if (memory[which] == NULL) {
            tm_die();
        }
    }
    return memory[which];
}

void tm_gather_prepare(const struct tm_gather *g)
{
    size_t bytes = g->count * g->type->size, all = bytes * (size_t)g->n;
    uint8_t *host = scratch(0, all + 2 * TM_GUARD);
    uint8_t *mine = g->in_place ? g->recv + (size_t)g->rank * bytes : g->send;

    memset(host, TM_GUARD_BYTE, TM_GUARD);
    memset(host + TM_GUARD, TM_POISON, all);
    memset(host + TM_GUARD + all, TM_GUARD_BYTE, TM_GUARD);
    tm_put(g->recv - TM_GUARD, host, all + 2 * TM_GUARD);
    tm_gen(host + TM_GUARD, 0, bytes, g->seed, g->rank);
    if (g->in_place) {
        tm_put(mine, host + TM_GUARD, bytes);
    } else {
        memset(host + TM_GUARD + bytes, TM_GUARD_BYTE, TM_GUARD);
        tm_put(mine - TM_GUARD, host, bytes + 2 * TM_GUARD);
    }
}

cclResult_t tm_gather_enqueue(const struct tm_gather *g)
{
    const uint8_t *mine = g->in_place ? g->recv + (size_t)g->rank * g->count * g->type->size : g->send;
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;

    if (g->config == NULL && g->variant == cclVariantAuto) {
        return cclAllGather(mine, g->recv, g->count, g->type->type, g->comm, g->stream);
    }
    if (g->config != NULL) {
        config = *g->config;
    }
    if (g->variant != cclVariantAuto) {
        config.variant = g->variant;
    }
    return cclAllGather2D(mine, g->count, g->recv, g->count, 1, g->count, g->type->type, &config, g->comm, g->stream);
}

static bool equals_mpi(const struct tm_gather *g, const uint8_t *got, size_t bytes)
{
    uint8_t *mine = scratch(1, bytes), *want = scratch(2, bytes * (size_t)g->n);

    tm_gen(mine, 0, bytes, g->seed, g->rank);
    MPI_Allgather(mine, (int)bytes, MPI_BYTE, want, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    if (memcmp(got, want, bytes * (size_t)g->n) != 0) {
        tm_fail(__FILE__, __LINE__, "%s: the result differs from that of MPI_Allgather (%zu bytes a rank)", g->what,
                bytes);
        return false;
    }
    return true;
}

bool tm_gather_verify(const struct tm_gather *g)
{
    size_t bytes = g->count * g->type->size, all = bytes * (size_t)g->n;
    uint8_t *host = scratch(0, all + 2 * TM_GUARD);
    bool good;

    tm_gathers++;
    tm_get(host, g->recv - TM_GUARD, all + 2 * TM_GUARD);
    good = tm_check_bytes(host, TM_GUARD, TM_GUARD_BYTE, "guard before recv");
    good = tm_check_bytes(host + TM_GUARD + all, TM_GUARD, TM_GUARD_BYTE, "guard behind recv") && good;
    for (int r = 0; r < g->n; r++) {
        good = tm_check_data(host + TM_GUARD + (size_t)r * bytes, 0, bytes, g->type->size, g->seed, r, g->what) && good;
    }
    if (g->against_mpi) {
        good = equals_mpi(g, host + TM_GUARD, bytes) && good;
    }
    if (!g->in_place) {
        tm_get(host, g->send - TM_GUARD, bytes + 2 * TM_GUARD);
        good = tm_check_bytes(host, TM_GUARD, TM_GUARD_BYTE, "guard before send") && good;
        good = tm_check_bytes(host + TM_GUARD + bytes, TM_GUARD, TM_GUARD_BYTE, "guard behind send") && good;
        good = tm_check_data(host + TM_GUARD, 0, bytes, g->type->size, g->seed, g->rank, "send buffer changed") && good;
    }
    if (!good) {
        tm_fail(__FILE__, __LINE__, "  in: %s, rank %d of %d, %s, count %zu, variant %d, send %p, recv %p%s", g->what,
                g->rank, g->n, g->type->name, g->count, g->variant, (const void *)g->send, (const void *)g->recv,
                g->in_place ? ", in place" : "");
    }
    return good;
}

bool tm_gather(const struct tm_gather *g)
{
    tm_gather_prepare(g);
    tm_at("%s: rank %d of %d, %s, count %zu, variant %d%s", g->what, g->rank, g->n, g->type->name, g->count, g->variant,
          g->in_place ? ", in place" : "");
    if (!TM_OK(tm_gather_enqueue(g)) || !TM_OK(cclStreamSynchronize(g->stream))) {
        if (g->against_mpi) {
            tm_die(); /* the others would wait in MPI_Allgather */
        }
        return false;
    }
    return tm_gather_verify(g);
}

void tm_gather_once(cclComm_t comm, cclStream_t stream, int rank, int n, size_t count, const char *what)
{
    size_t all = count * (size_t)n;
    uint64_t seed = count; /* another sequence for every size, so that left-overs show */
    uint8_t *host = malloc(count + all), *device = NULL;

    tm_gen(host, 0, count, seed, rank);
    TM_MUST(cclDeviceMalloc((void **)&device, count + all));
    TM_OK(cclMemcpyAsync(device, host, count, stream));
    TM_OK(cclMemsetAsync(device + count, TM_POISON, all, stream));
    TM_OK(cclAllGather(device, device + count, count, cclUint8, comm, stream));
    if (!tm_backend_is_host()) { /* a copy to ordinary memory may keep the process's other threads from enqueuing what it waits for */
        TM_OK(cclStreamSynchronize(stream));
    }
    TM_OK(cclMemcpyAsync(host + count, device + count, all, stream));
    if (TM_OK(cclStreamSynchronize(stream))) {
        for (int r = 0; r < n; r++) {
            tm_check_data(host + count + (size_t)r * count, 0, count, 1, seed, r, what);
        }
    }
    TM_OK(cclDeviceFree(device));
    __atomic_fetch_add(&tm_gathers, 1, __ATOMIC_RELAXED);
    free(host);
}
