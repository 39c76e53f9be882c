/* SPDX-License-Identifier: MIT
 *
 * Proves that all-gather delivers exactly the data of every rank for every element size, count around the edges of
 * packets, lines and slots, kind of memory (mixed by rank too), variant, in place and not, and at any
 * misalignment, touching nothing beside it; with variant copy also into receive buffers of any kind. */
/* CTEST: ranks 1 2 3 4 5 7 8; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 2 3 8; labels mpi host; timeout 120; args full */
/* CTEST: ranks 2 4 7; labels mpi host; timeout 60; args align */
/* CTEST: ranks 2 5; labels mpi host; timeout 60; args small; env CCL_HOST_THREADS=1; name one_thread */
#include <string.h>

#include "common.h"

#define LARGEST_BYTES ((size_t)1048576 + 5)

enum { MIXED = TM_NUM_KINDS, NUM_BUFFERS };

static const size_t counts[] = {
    0,   1,   3,   7,   8,   13,  15,   16,   17,   55,   56,   57,   63,    64,      65,
    111, 112, 113, 127, 128, 129, 1001, 1023, 1024, 1025, 4096, 4097, 65541, 1048581,
};
static const int variants[] = {cclVariantAuto,   cclVariantLL,          cclVariantDirect,
                               cclVariantStaged, cclVariantPartitioned, cclVariantCopy};
static const char *const variant_names[] = {"auto", "ll", "direct", "staged", "partitioned", "copy"};
static const size_t skews[] = {0, 1, 2, 3, 5, 8, 13};
#define NUM_SKEWS (sizeof(skews) / sizeof(skews[0]))

static cclComm_t comm;
static cclStream_t stream;
static struct tm_buf send_buf[TM_NUM_KINDS], recv_buf[TM_NUM_KINDS];
static uint64_t seed = 1;

static void setup(size_t part_bytes)
{
    size_t slack = 2 * TM_GUARD + 64;

    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_create(&send_buf[k], comm, (enum tm_kind)k, part_bytes + slack);
        tm_buf_create(&recv_buf[k], comm, (enum tm_kind)k, part_bytes * (size_t)tm_size + slack);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* every registration is mapped by every rank */
}

static void teardown(void)
{
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_destroy(&send_buf[k]);
        tm_buf_destroy(&recv_buf[k]);
    }
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclCommDestroy(comm));
}

static enum tm_kind kind_of(int buffers, int shift)
{
    return buffers == MIXED ? (enum tm_kind)((tm_rank + shift) % TM_NUM_KINDS) : (enum tm_kind)buffers;
}

static bool legal(int variant, int buffers, size_t bytes)
{
    if (variant == cclVariantLL) {
        return bytes <= 65536;
    }
    if (variant == cclVariantCopy) {
        return buffers == TM_HEAP;
    }
    /* one rank alone stores into nobody, but the library may still refuse a plain buffer for direct */
    return variant != cclVariantDirect || buffers == TM_HEAP || buffers == TM_REG;
}

static void one(int buffers, const struct tm_type *type, size_t count, int variant, bool in_place, size_t send_skew,
                size_t recv_skew, bool against_mpi)
{
    char what[96];
    struct tm_gather g;

    snprintf(what, sizeof(what), "buffers %s, %s, skew %zu/%zu", buffers == MIXED ? "mixed" : tm_kind_names[buffers],
             variant_names[variant], send_skew, recv_skew);
    memset(&g, 0, sizeof(g));
    g.comm = comm;
    g.stream = stream;
    g.rank = tm_rank;
    g.n = tm_size;
    g.send = send_buf[kind_of(buffers, (int)(seed % 4))].base + TM_GUARD + send_skew;
    g.recv = recv_buf[kind_of(buffers, (int)(seed / 4 % 4))].base + TM_GUARD + recv_skew;
    g.count = count;
    g.type = type;
    g.seed = seed++;
    g.variant = variant;
    g.in_place = in_place;
    g.against_mpi = against_mpi && count > 0;
    g.what = what;
    tm_gather(&g);
    if (variant != cclVariantAuto && count > 0 && tm_size > 1) {
        cclCallConfig_t used = CCL_CALL_CONFIG_INITIALIZER;

        if (TM_OK(cclGetEffectiveConfig(comm, &used)) && used.variant != variant) {
            TEST_FAIL("%s, count %zu: variant %d was used instead of %d", what, count, used.variant, variant);
        }
    }
}

/* Every step-th case of the whole table, other ones for every number of ranks; all ranks choose alike. */
static void table(unsigned step)
{
    unsigned number = (unsigned)tm_size;

    for (size_t size = 1; size <= 8; size *= 2) {
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            size_t bytes = size * counts[c];
            unsigned here = bytes > 65536 ? step * 3 : step;
            bool compared = false;

            if (bytes > LARGEST_BYTES) {
                continue;
            }
            for (int buffers = 0; buffers < NUM_BUFFERS; buffers++) {
                for (size_t v = 0; v < sizeof(variants) / sizeof(variants[0]); v++) {
                    for (int in_place = 0; in_place < 2; in_place++, number++) {
                        if (number % here != 0 || !legal(variants[v], buffers, bytes)) {
                            continue;
                        }
                        one(buffers, tm_type_of_size(size, number / here), counts[c], variants[v], in_place != 0, 0, 0,
                            !compared);
                        compared = true;
                    }
                }
            }
        }
    }
}

/* Send and receive pointers off by 0..13 bytes, independently and differently on every rank. */
static void misaligned(unsigned step)
{
    static const size_t some[] = {1, 7, 16, 33, 56, 129, 1000, 4097, 70001};
    unsigned number = (unsigned)tm_size;

    for (size_t c = 0; c < sizeof(some) / sizeof(some[0]); c++) {
        for (size_t a = 0; a < NUM_SKEWS; a++) {
            for (size_t b = 0; b < NUM_SKEWS; b++) {
                for (size_t v = 0; v < sizeof(variants) / sizeof(variants[0]); v++, number++) {
                    uint64_t state = number, dice = tm_random(&state); /* equal on all ranks */
                    size_t mine = (size_t)tm_rank * (dice % 3); /* every third case: equal misalignment on all ranks */
                    int buffers = (int)(dice / 3 % NUM_BUFFERS);
                    size_t size = dice / 16 % 2 == 0 ? 1 : 4;
                    bool in_place = dice / 32 % 4 == 3;

                    if (variants[v] == cclVariantCopy) { /* the inputs, in place the outputs, lie at one place */
                        buffers = TM_HEAP;
                        mine = 0;
                    }
                    if (number % step != 0 || !legal(variants[v], buffers, some[c] * size)) {
                        continue;
                    }
                    one(buffers, tm_type_of_size(size, number), some[c], variants[v], in_place,
                        skews[(a + mine) % NUM_SKEWS], skews[(b + 2 * mine) % NUM_SKEWS], false);
                }
            }
        }
    }
}

/* The default variant of a communicator holds for cclAllGather, and a child inherits it with the parent's windows. */
static void by_configuration(void)
{
    for (int v = cclVariantLL; v <= cclVariantCopy; v++) {
        cclConfig_t config = CCL_CONFIG_INITIALIZER;
        cclCallConfig_t used = CCL_CALL_CONFIG_INITIALIZER;
        cclComm_t child = NULL;
        struct tm_gather g;

        config.variant = v;
        tm_at("split with variant %d", v);
        TM_MUST(cclCommSplit(comm, 0, tm_rank, &child, &config));
        memset(&g, 0, sizeof(g));
        g.comm = child;
        g.stream = stream;
        g.rank = tm_rank;
        g.n = tm_size;
        g.send = send_buf[TM_HEAP].base + TM_GUARD;
        g.recv = recv_buf[TM_HEAP].base + TM_GUARD;
        g.count = 777;
        g.type = tm_type_of_size(4, 0);
        g.seed = seed++;
        g.what = "variant of the communicator";
        if (tm_gather(&g) && tm_size > 1 && TM_OK(cclGetEffectiveConfig(child, &used))) {
            TEST_EQ(used.variant, v);
        }
        TM_OK(cclCommDestroy(child));
    }
}

/* The inputs of variant copy lie in the heap at one place on all ranks; the outputs may lie anywhere, elsewhere on each rank. */
static void copies_into_anything(void)
{
    for (int kind = 0; kind < TM_NUM_KINDS; kind++) {
        for (size_t count = 1; count < 300000; count = count * 17 + 5) {
            size_t skew = skews[((size_t)tm_rank + count) % NUM_SKEWS];
            struct tm_gather g;

            memset(&g, 0, sizeof(g));
            g.comm = comm;
            g.stream = stream;
            g.rank = tm_rank;
            g.n = tm_size;
            g.send = send_buf[TM_HEAP].base + TM_GUARD + 3;
            g.recv = recv_buf[(kind + tm_rank) % TM_NUM_KINDS].base + TM_GUARD + skew;
            g.count = count;
            g.type = tm_type_of_size(1, 0);
            g.seed = seed++;
            g.variant = cclVariantCopy;
            g.what = "copy into memory of any kind";
            tm_gather(&g);
        }
    }
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    tm_watchdog(tm_has_arg("full") ? 110 : 50);
    setup(LARGEST_BYTES + 8);
    if (tm_has_arg("full")) {
        table(1);
    } else if (tm_has_arg("align")) {
        misaligned(1);
    } else if (tm_has_arg("smoke")) { /* for tools that make every kernel slow */
        table(97);
        misaligned(311);
    } else {
        table(11);
        misaligned(23);
        by_configuration();
        copies_into_anything();
    }
    teardown();
    return tm_finish();
}
