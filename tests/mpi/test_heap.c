/* SPDX-License-Identifier: MIT
 *
 * Proves that the symmetric heap gives equal offsets on all ranks for any equal sequence of allocations and frees,
 * keeps data intact when neighbours are freed, and that different sizes, wrong pointers and exhaustion on one or
 * all ranks are errors on every rank that leave the heap usable. */
/* CTEST: ranks 1 2 3 8; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 2 4 5 7; labels mpi host; timeout 60; args full */
#include <string.h>
#include <sys/resource.h>

#include "common.h"

#define LIVE 24
#define MOST_OPERATIONS 600

struct block {
    uint8_t *ptr;
    size_t bytes;
    uint64_t seed;
};

/* Where a block lies: window, and the distance from the first block ever seen in that window, which is a
 * difference of window offsets. */
struct where {
    long long window, distance;
};

static cclComm_t comm;
static cclStream_t stream;
static struct block live[LIVE];
static uint8_t *host;
static size_t host_bytes;

static void fill(const struct block *b)
{
    tm_gen(host, 0, b->bytes, b->seed, tm_rank);
    tm_put(b->ptr, host, b->bytes);
}

static bool intact(const struct block *b, const char *when)
{
    tm_get(host, b->ptr, b->bytes);
    return tm_check_data(host, 0, b->bytes, 1, b->seed, tm_rank, when);
}

static void check_info(const struct block *b, struct where *where)
{
    static const uint8_t *reference[4096];
    cclPointerInfo_t info;
    size_t inner = b->bytes - 1;

    memset(&info, 0, sizeof(info));
    TM_MUST(cclPointerInfo(comm, b->ptr + inner, &info));
    TEST_EQ(info.kind, cclMemHeap);
    TEST_CHECK(info.base == b->ptr);
    TEST_CHECK(info.size >= b->bytes);
    TEST_EQ(info.offset, inner);
    TEST_EQ(info.peers_mapped, tm_size - 1);
    TEST_EQ((uintptr_t)b->ptr % 256, 0);
    if (info.window < 1 || info.window >= 4096) {
        TEST_FAIL("window id %d of a heap block", info.window);
        return;
    }
    if (reference[info.window] == NULL) {
        reference[info.window] = b->ptr;
    }
    where->window = info.window;
    where->distance = (long long)(b->ptr - reference[info.window]);
}

/* A small gather through two live blocks, so that the offsets are really those that peers use. */
static void gather_between(const struct block *send, const struct block *recv)
{
    size_t count = recv->bytes / (size_t)tm_size < send->bytes ? recv->bytes / (size_t)tm_size : send->bytes;

    if (count == 0) {
        return;
    }
    TM_MUST(cclAllGather(send->ptr, recv->ptr, count, cclUint8, comm, stream));
    TM_MUST(cclStreamSynchronize(stream));
    tm_get(host, recv->ptr, count * (size_t)tm_size);
    tm_gathers++;
    for (int r = 0; r < tm_size; r++) {
        tm_check_data(host + (size_t)r * count, 0, count, 1, send->seed, r, "gather between blocks");
    }
    fill(recv);
}

static void random_sequence(unsigned operations)
{
    struct where *mine = calloc(MOST_OPERATIONS, sizeof(*mine));
    struct where *all = calloc((size_t)MOST_OPERATIONS * (size_t)tm_size, sizeof(*all));
    uint64_t state = 7, next_seed = 1;
    unsigned allocations = 0;

    for (unsigned i = 0; i < operations; i++) {
        uint64_t dice = tm_random(&state);
        struct block *b = &live[dice % LIVE];

        tm_at("random sequence: operation %u of %u", i, operations);
        if (b->ptr != NULL) {
            intact(b, "block before its free");
            TM_MUST(cclMemFree(comm, b->ptr));
            b->ptr = NULL;
        } else {
            void *ptr = NULL;

            b->bytes = 1 + (dice >> 8) % ((dice >> 5 & 7) == 0 ? host_bytes : 20000);
            b->seed = next_seed++;
            TM_MUST(cclMemAlloc(comm, &ptr, b->bytes));
            b->ptr = ptr;
            check_info(b, &mine[allocations++]);
            fill(b);
        }
        for (int k = 0; k < LIVE && b->ptr != NULL && i % 3 == 0; k++) {
            const struct block *send = &live[(i + (unsigned)k) % LIVE];

            if (send->ptr != NULL && send != b) {
                gather_between(send, b);
                break;
            }
        }
    }
    for (int b = 0; b < LIVE; b++) {
        for (int c = 0; c < b; c++) {
            TEST_CHECK(live[b].ptr == NULL || live[c].ptr == NULL || live[b].ptr + live[b].bytes <= live[c].ptr ||
                       live[c].ptr + live[c].bytes <= live[b].ptr);
        }
    }
    MPI_Allgather(mine, MOST_OPERATIONS * 2, MPI_LONG_LONG, all, MOST_OPERATIONS * 2, MPI_LONG_LONG, MPI_COMM_WORLD);
    for (int r = 0; r < tm_size; r++) {
        for (unsigned i = 0; i < allocations; i++) {
            const struct where *theirs = &all[(size_t)r * MOST_OPERATIONS + i];

            if (theirs->window != mine[i].window || theirs->distance != mine[i].distance) {
                TEST_FAIL("allocation %u: window %lld offset +%lld here, window %lld offset +%lld on rank %d", i,
                          mine[i].window, mine[i].distance, theirs->window, theirs->distance, r);
                break;
            }
        }
    }
    free(mine);
    free(all);
}

static void all_intact(const char *when)
{
    for (int b = 0; b < LIVE; b++) {
        if (live[b].ptr != NULL) {
            intact(&live[b], when);
        }
    }
}

/* A plain allocation of `bytes` works, holds data and goes away again. */
static void still_usable(size_t bytes, const char *after)
{
    struct block b = {NULL, bytes < host_bytes ? bytes : host_bytes, 77};
    void *ptr = NULL;

    tm_at("heap usable after %s", after);
    TM_MUST(cclMemAlloc(comm, &ptr, bytes));
    b.ptr = ptr;
    fill(&b);
    intact(&b, after);
    TM_MUST(cclMemFree(comm, ptr));
    all_intact(after);
}

static void wrong_arguments(void)
{
    void *ptr = (void *)(uintptr_t)0x1234, *block = NULL, *other = NULL;
    char text[64];

    TM_RC(cclMemAlloc(comm, &ptr, 0), cclInvalidArgument);
    TM_RC(cclMemAlloc(comm, NULL, 16), cclInvalidArgument);
    TM_RC(cclMemAlloc(NULL, &ptr, 16), cclInvalidArgument);
    TEST_CHECK(ptr == (void *)(uintptr_t)0x1234);
    if (tm_size > 1) {
        tm_at("sizes that differ");
        TM_RC(cclMemAlloc(comm, &ptr, tm_rank == tm_size - 1 ? 70000 : 80000), cclInvalidArgument);
        TM_TEXT("70000");
        TM_TEXT("80000");
        still_usable(50000, "sizes that differ");
    }
    tm_at("wrong pointers to free");
    TM_MUST(cclMemAlloc(comm, &block, 5000));
    TM_MUST(cclMemAlloc(comm, &other, 5000));
    TM_RC(cclMemFree(comm, (uint8_t *)block + 256), cclInvalidArgument);
    snprintf(text, sizeof(text), "%p", (void *)((uint8_t *)block + 256));
    if (tm_rank == 0) {
        TM_TEXT(text); /* the others get the text of the lowest failing rank, with its address */
    }
    TM_RC(cclMemFree(comm, text), cclInvalidArgument); /* not of this heap at all */
    if (tm_size > 1) {
        TM_RC(cclMemFree(comm, tm_rank == 0 ? block : other), cclInvalidArgument);
        TM_RC(cclMemFree(comm, tm_rank == 0 ? (void *)text : other), cclInvalidArgument);
    }
    TM_OK(cclMemFree(comm, NULL));
    TM_OK(cclMemFree(comm, block));
    TM_OK(cclMemFree(comm, other));
    TM_RC(cclMemFree(comm, block), cclInvalidArgument); /* freed twice */
    still_usable(9000, "wrong pointers");
}

/* RLIMIT_AS of one rank is lowered below what the allocation needs: all ranks get the error, none is harmed. */
static void exhaustion(void)
{
    size_t large = (size_t)640 << 20;
    void *ptr = (void *)(uintptr_t)0x1234;
    struct rlimit limit, low;
    cclResult_t rc;

    tm_at("2^50 bytes on all ranks");
    TM_RC(cclMemAlloc(comm, &ptr, (size_t)1 << 50), cclSystemError);
    TEST_CHECK(ptr == (void *)(uintptr_t)0x1234);
    still_usable(123456, "exhaustion on all ranks");
    if (TM_SANITIZED || !tm_backend_is_host()) {
        return; /* a sanitizer needs the address space itself */
    }
    tm_at("out of address space on one rank");
    getrlimit(RLIMIT_AS, &limit);
    low = limit;
    if (tm_rank == tm_size / 2) {
        FILE *file = fopen("/proc/self/statm", "r");
        unsigned long pages = 0;

        if (file == NULL || fscanf(file, "%lu", &pages) != 1) {
            tm_die();
        }
        fclose(file);
        low.rlim_cur = pages * 4096 + ((size_t)64 << 20);
        setrlimit(RLIMIT_AS, &low);
    }
    rc = cclMemAlloc(comm, &ptr, large);
    setrlimit(RLIMIT_AS, &limit);
    TM_RC(rc, cclSystemError);
    TEST_CHECK(ptr == (void *)(uintptr_t)0x1234);
    still_usable(123456, "exhaustion on one rank");
    TM_RC(cclMemAlloc(comm, &ptr, large), cclSuccess); /* and now it fits */
    if (ptr != (void *)(uintptr_t)0x1234) {
        TM_OK(cclMemFree(comm, ptr));
    }
}

/* The first block of a new heap is zeroed; blocks of two communicators in one group; alloc and free do not eat
 * address space. */
static void fresh_and_reused(unsigned cycles)
{
    cclComm_t second = tm_comm_create(MPI_COMM_WORLD, NULL);
    void *a = NULL, *b = NULL;

    tm_at("new heap");
    TM_MUST(cclMemAlloc(second, &a, host_bytes));
    tm_get(host, a, host_bytes);
    tm_check_bytes(host, host_bytes, 0, "first block of a new heap");
    TM_MUST(cclMemFree(second, a));
    TM_MUST(cclGroupStart());
    TM_OK(cclMemAlloc(second, &a, 1000));
    TM_OK(cclMemAlloc(comm, &b, 2000));
    TM_MUST(cclGroupEnd());
    TEST_CHECK(a != NULL && b != NULL && a != b);
    TM_MUST(cclGroupStart());
    TM_OK(cclMemFree(second, a));
    TM_OK(cclMemFree(comm, b));
    TM_MUST(cclGroupEnd());
    for (unsigned i = 0; i < cycles; i++) {
        tm_at("cycle %u", i);
        TM_MUST(cclMemAlloc(second, &a, (size_t)1 << 20));
        b = i == 0 ? a : b;
        TEST_CHECK(a == b); /* the same hole every time */
        TM_MUST(cclMemFree(second, a));
    }
    TM_OK(cclCommDestroy(second));
}

int main(int argc, char **argv)
{
    bool full;

    TM_INIT(argc, argv);
    full = tm_has_arg("full");
    host_bytes = full ? 3000000 : 300000;
    host = malloc(host_bytes);
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    random_sequence(full ? MOST_OPERATIONS : 150);
    all_intact("after the random sequence");
    wrong_arguments();
    fresh_and_reused(full ? 200 : 30);
    exhaustion();
    for (int b = 0; b < LIVE; b++) {
        TM_OK(cclMemFree(comm, live[b].ptr));
    }
    free(host);
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclCommDestroy(comm));
    return tm_finish();
}
