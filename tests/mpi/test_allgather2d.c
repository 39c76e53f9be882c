/* SPDX-License-Identifier: MIT
 *
 * Proves that the 2-D all-gather places every row of every rank right for shapes that are no multiple of the tile,
 * leaves the padding of both matrices alone, runs with exactly the tile, blocks and variant it was told (and
 * reports them), and refuses impossible values by name without harm to the communicator. */
/* CTEST: ranks 1 2 3 4 5 7 8; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 2 3 8; labels mpi host; timeout 120; args full */
#include <string.h>

#include "common.h"

struct shape {
    size_t m, n, pad_send, pad_recv; /* rows, columns, elements behind each row */
};
static const struct shape shapes[] = {
    {1, 1, 0, 0},    {3, 5, 0, 0},      {33, 65, 0, 0},     {32, 64, 0, 0},   {31, 257, 7, 0},
    {31, 257, 0, 3}, {100, 100, 1, 5},  {17, 4097, 0, 16},  {257, 31, 3, 3},  {1, 5000, 0, 9},
    {300, 1, 2, 11}, {64, 200, 56, 56}, {130, 129, 127, 1}, {5, 16384, 0, 0}, {1000, 3, 0, 1},
};
static const int tiles[][2] = {
    {CCL_UNSET, CCL_UNSET}, {32, 64}, {8, 256}, {16, 128}, {1, 4096}, {64, 32}, {3, 7}, {1, 1}, {128, CCL_UNSET},
};
static const int blocks[] = {CCL_UNSET, 1, 2, 3, 8};
static const int variants[] = {CCL_UNSET, cclVariantDirect, cclVariantStaged, cclVariantPartitioned, cclVariantLL};
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define LARGEST ((size_t)1 << 21) /* bytes of a part, padding included */

static cclComm_t comm;
static cclStream_t stream;
static struct tm_buf heap_send, heap_recv, plain_send, plain_recv;
static uint8_t *host;
static uint64_t seed = 1;

/* Fill rows of [m][n] with f(seed, rank, row * n + column) and everything else with the guard byte. */
static void prepare(uint8_t *send, uint8_t *recv, const struct shape *s, size_t size, bool in_place)
{
    size_t ld_send = (s->n + (in_place ? s->pad_recv : s->pad_send)) * size, ld_recv = (s->n + s->pad_recv) * size;
    size_t all = s->m * ld_recv * (size_t)tm_size;

    memset(host, TM_POISON, all + 2 * TM_GUARD);
    tm_put(recv - TM_GUARD, host, all + 2 * TM_GUARD);
    for (size_t row = 0; row < s->m; row++) {
        tm_gen(host + TM_GUARD + row * ld_send, row * s->n * size, s->n * size, seed, tm_rank);
    }
    if (in_place) {
        tm_put(recv + (size_t)tm_rank * s->m * ld_recv, host + TM_GUARD, s->m * ld_send);
    } else {
        tm_put(send - TM_GUARD, host, s->m * ld_send + 2 * TM_GUARD);
    }
}

static bool verify(const uint8_t *recv, const struct shape *s, size_t size, const char *what)
{
    size_t row_bytes = s->n * size, ld = row_bytes + s->pad_recv * size, all = s->m * ld * (size_t)tm_size;
    bool good;

    tm_gathers++;
    tm_get(host, recv - TM_GUARD, all + 2 * TM_GUARD);
    good = tm_check_bytes(host, TM_GUARD, TM_POISON, "guard before recv");
    good = tm_check_bytes(host + TM_GUARD + all, TM_GUARD, TM_POISON, "guard behind recv") && good;
    for (size_t row = 0; row < s->m * (size_t)tm_size && good; row++) {
        const uint8_t *at = host + TM_GUARD + row * ld;
        int rank = (int)(row / s->m);

        good = tm_check_data(at, row % s->m * row_bytes, row_bytes, size, seed, rank, what) &&
               tm_check_bytes(at + row_bytes, ld - row_bytes, TM_POISON, "padding between rows of recv");
        if (!good) {
            tm_fail(__FILE__, __LINE__, "  in row %zu of rank %d", row % s->m, rank);
        }
    }
    return good;
}

static void same(const char *field, int got, int want, const char *what)
{
    if (want != CCL_UNSET ? got != want : got == CCL_UNSET) {
        tm_fail(__FILE__, __LINE__, "%s: effective %s is %d, asked for %d", what, field, got, want);
    }
}

static void one(const struct shape *s, const struct tm_type *type, const cclCallConfig_t *config, bool heap,
                bool in_place)
{
    struct tm_buf *send = heap ? &heap_send : &plain_send, *recv = heap ? &heap_recv : &plain_recv;
    uint8_t *to = recv->base + TM_GUARD, *from = send->base + TM_GUARD;
    size_t ld_recv = s->n + s->pad_recv, ld_send = in_place ? ld_recv : s->n + s->pad_send;
    cclCallConfig_t used = CCL_CALL_CONFIG_INITIALIZER;
    char what[200];

    snprintf(what, sizeof(what), "%zux%zu pad %zu/%zu %s tile %dx%d comm_sms %d variant %d %s%s", s->m, s->n,
             s->pad_send, s->pad_recv, type->name, config->tile_m, config->tile_n, config->comm_sms, config->variant,
             heap ? "heap" : "plain", in_place ? " in place" : "");
    tm_at("%s", what);
    seed++;
    prepare(from, to, s, type->size, in_place);
    if (in_place) {
        from = to + (size_t)tm_rank * s->m * ld_recv * type->size;
    }
    if (config->variant == cclVariantPartitioned && config->comm_sms != CCL_UNSET && config->comm_sms < tm_size) {
        TM_RC(cclAllGather2D(from, ld_send, to, ld_recv, s->m, s->n, type->type, config, comm, stream), cclInvalidArgument);
        TM_TEXT("partitioned"); /* a block serves one peer, so there are too few */
        return;
    }
    if (!TM_OK(cclAllGather2D(from, ld_send, to, ld_recv, s->m, s->n, type->type, config, comm, stream)) ||
        !TM_OK(cclStreamSynchronize(stream))) {
        return;
    }
    verify(to, s, type->size, what);
    if (TM_OK(cclGetEffectiveConfig(comm, &used)) && tm_size > 1) {
        same("variant", used.variant, config->comm_sms == 0 ? cclVariantCopy : config->variant, what);
        if (config->variant != cclVariantLL) { /* packets have no tile */
            same("tile_m", used.tile_m, config->tile_m, what);
            same("tile_n", used.tile_n, config->tile_n, what);
        }
        same("comm_sms", used.comm_sms, config->comm_sms, what);
        /* On a GPU only direct stores can go group by group; auto learns of them in the kernel. */
        bool groups = tm_backend_is_host() || used.variant == cclVariantDirect ||
                      (config->variant == CCL_UNSET && used.variant == cclVariantStaged);
        same("peers_per_wait", used.peers_per_wait, groups ? config->peers_per_wait : tm_size, what);
        same("threads", used.threads, config->threads, what);
    }
}

static void table(unsigned step)
{
    for (unsigned i = 0; i < LENGTH(shapes) * LENGTH(tiles) * LENGTH(blocks) * LENGTH(variants); i += step) {
        uint64_t state = i + 1000u * (unsigned)tm_size, dice = tm_random(&state);
        const struct shape *s = &shapes[i % LENGTH(shapes)];
        const struct tm_type *type = tm_type_of_size((size_t)1 << (dice >> 8 & 3), (unsigned)(dice >> 16 & 7));
        cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
        unsigned rest = i / (unsigned)LENGTH(shapes);
        bool heap;

        config.tile_m = tiles[rest % LENGTH(tiles)][0];
        config.tile_n = tiles[rest % LENGTH(tiles)][1];
        rest /= (unsigned)LENGTH(tiles);
        config.comm_sms = blocks[rest % LENGTH(blocks)];
        config.variant = variants[rest / LENGTH(blocks)];
        if ((dice & 7) == 1) {
            config.peers_per_wait = (dice & 8) != 0 ? 1 : 2;
        }
        if (config.variant == cclVariantLL &&
            (s->m * s->n * type->size > 65536 || config.tile_m != CCL_UNSET || config.tile_n != CCL_UNSET)) {
            continue;
        }
        if (config.variant == cclVariantPartitioned && config.comm_sms != CCL_UNSET && config.comm_sms < tm_size) {
            continue; /* a block serves one rank: see refused() */
        }
        if (config.tile_m == 1 && config.tile_n == 1 && s->m * s->n > 20000) {
            continue; /* slow, and the small shapes show the same */
        }
        heap = config.variant == cclVariantDirect || (dice & 16) != 0;
        one(s, type, &config, heap, (dice >> 5 & 3) == 0);
    }
}

/* Variant copy has neither tiles nor blocks to choose. */
static void copies(void)
{
    for (unsigned i = 0; i < 4 * LENGTH(shapes); i++) {
        cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;

        if (i % 2 == 0) {
            config.variant = cclVariantCopy;
        } else {
            config.comm_sms = 0;
        }
        one(&shapes[i / 4], tm_type_of_size((size_t)1 << i % 4, i), &config, true, i / 2 % 2 != 0);
    }
}

static const struct shape probe = {33, 65, 1, 2};

/* Refused with this code at once on every rank, and the text names the field. */
static void refuse(const cclCallConfig_t *config, cclResult_t want, cclResult_t or_want, const char *needle)
{
    cclResult_t rc;

    tm_at("refusing %s", needle);
    rc = cclAllGather2D(heap_send.base, probe.n, heap_recv.base, probe.n, probe.m, probe.n, cclFloat32, config, comm,
                        stream);
    if (rc != or_want) {
        tm_expect(__FILE__, __LINE__, needle, rc, want);
    }
    if (rc == cclSuccess) {
        TM_OK(cclStreamSynchronize(stream));
    } else {
        TM_TEXT(needle);
    }
}

#define REFUSE_FIELD(field, value)                                        \
    do {                                                                  \
        cclCallConfig_t config_ = CCL_CALL_CONFIG_INITIALIZER;            \
        config_.field = (value);                                          \
        refuse(&config_, cclInvalidArgument, cclInvalidArgument, #field); \
    } while (0)

static void refused(void)
{
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    const cclCallConfig_t unset = CCL_CALL_CONFIG_INITIALIZER;
    size_t n = probe.n;

    REFUSE_FIELD(tile_m, 0);
    REFUSE_FIELD(tile_n, 0);
    REFUSE_FIELD(tile_m, -5);
    REFUSE_FIELD(tile_n, -5);
    REFUSE_FIELD(comm_sms, -1);
    REFUSE_FIELD(comm_sms, 1000000);
    REFUSE_FIELD(variant, 99);
    REFUSE_FIELD(variant, -1);
    REFUSE_FIELD(peers_per_wait, 0);
    if (tm_size != 3) {
        REFUSE_FIELD(peers_per_wait, 3);
    }
    REFUSE_FIELD(peers_per_wait, 9);
    REFUSE_FIELD(threads, 0);
    REFUSE_FIELD(size, 4);
    REFUSE_FIELD(magic, 0x12345678u);
    if (tm_backend_is_host()) {
        REFUSE_FIELD(threads, 64);
    }
    config.comm_sms = 0;
    config.variant = cclVariantStaged;
    refuse(&config, cclInvalidArgument, cclInvalidArgument, "comm_sms 0");
    config.comm_sms = 3;
    config.variant = cclVariantCopy;
    refuse(&config, cclInvalidArgument, cclInvalidArgument, "comm_sms is 3");
    config.comm_sms = CCL_UNSET;
    config.tile_n = 64;
    refuse(&config, cclInvalidArgument, cclInvalidArgument, "tile_n is 64");
    config.tile_n = CCL_UNSET;
    tm_at("leading dimensions shorter than a row");
    TM_RC(cclAllGather2D(heap_send.base, n - 1, heap_recv.base, n, 4, n, cclFloat32, &unset, comm, stream),
          cclInvalidArgument);
    TM_TEXT("ld_send|send");
    TM_RC(cclAllGather2D(heap_send.base, n, heap_recv.base, n - 1, 4, n, cclFloat32, &unset, comm, stream),
          cclInvalidArgument);
    TM_TEXT("ld_recv|recv");
    TM_OK(cclStreamSynchronize(stream)); /* nothing of it was enqueued */
    one(&probe, tm_type_of_size(4, 0), &unset, true, false);
    /* too large for packets; fewer blocks than ranks where each block serves one */
    config.variant = cclVariantLL;
    config.comm_sms = CCL_UNSET;
    if (tm_size > 1) {
        const char *backend = getenv("CCL_BACKEND");
        bool few = !tm_backend_is_host() && tm_size <= 4 && (backend == NULL || strncmp(backend, "emu", 3) != 0); /* NVIDIA's scratch holds 1 MiB there */
        size_t bytes = few ? LARGEST : LARGEST / 2;
        cclResult_t rc = cclAllGather2D(heap_send.base, bytes, heap_recv.base, bytes, 1, bytes, cclUint8, &config, comm, stream);

        tm_expect(__FILE__, __LINE__, "LL with 1 MiB a rank, or 2 MiB", rc, cclInvalidArgument);
        TM_TEXT("variant|ll");
        config.variant = cclVariantPartitioned;
        config.comm_sms = 1;
        refuse(&config, cclInvalidArgument, cclInvalidArgument, "comm_sms");
        TM_OK(cclStreamSynchronize(stream));
    }
    one(&probe, tm_type_of_size(2, 0), &unset, false, false);
}

/* Zero rows or columns enqueue nothing. */
static void empty(void)
{
    uint8_t *to = heap_recv.base;

    tm_at("empty matrices");
    tm_set(to, TM_POISON, 4096);
    TM_OK(cclAllGather2D(heap_send.base, 8, to, 8, 0, 8, cclFloat32, NULL, comm, stream));
    TM_OK(cclAllGather2D(heap_send.base, 8, to, 8, 8, 0, cclFloat32, NULL, comm, stream));
    TM_OK(cclStreamSynchronize(stream));
    tm_get(host, to, 4096);
    tm_check_bytes(host, 4096, TM_POISON, "output of an empty gather");
}

int main(int argc, char **argv)
{
    size_t slack = 2 * TM_GUARD;

    TM_INIT(argc, argv);
    tm_watchdog(tm_has_arg("full") ? 110 : 50);
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    host = malloc(LARGEST * (size_t)tm_size + slack);
    tm_buf_create(&heap_send, comm, TM_HEAP, LARGEST + slack);
    tm_buf_create(&heap_recv, comm, TM_HEAP, LARGEST * (size_t)tm_size + slack);
    tm_buf_create(&plain_send, comm, TM_PLAIN, LARGEST + slack);
    tm_buf_create(&plain_recv, comm, TM_PLAIN, LARGEST * (size_t)tm_size + slack);
    table(tm_has_arg("full") ? 1 : tm_has_arg("smoke") ? 307 : 17);
    copies();
    refused();
    empty();
    tm_buf_destroy(&heap_send);
    tm_buf_destroy(&heap_recv);
    tm_buf_destroy(&plain_send);
    tm_buf_destroy(&plain_recv);
    free(host);
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclCommDestroy(comm));
    return tm_finish();
}
