/* SPDX-License-Identifier: MIT
 *
 * Proves that registered memory is right at every moment: before, while and after peers map it, at any offset,
 * with ranks of different kinds, after the range was deregistered and its address given out again, and that cycles
 * leak no descriptors. */
/* CTEST: ranks 1 2 3 8; labels mpi host quick; timeout 60; args small */
/* CTEST: ranks 2 5 7; labels mpi host; timeout 60; args full */
#include <dirent.h>
#include <string.h>

#include "common.h"

#define COUNT 3001 /* bytes of a part */

static cclComm_t comm;
static cclStream_t stream;
static uint64_t seed = 1;
static size_t range_bytes;

static struct tm_gather gather_of(uint8_t *send, uint8_t *recv, size_t count, int variant, const char *what)
{
    struct tm_gather g;

    memset(&g, 0, sizeof(g));
    g.comm = comm;
    g.stream = stream;
    g.rank = tm_rank;
    g.n = tm_size;
    g.send = send;
    g.recv = recv;
    g.count = count;
    g.type = tm_type_of_size(1, 0);
    g.seed = seed++;
    g.variant = variant;
    g.what = what;
    return g;
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int number = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        number++;
    }
    closedir(dir);
    return number;
}

/* Register, gather at once (staged for some peers, direct for others, changing), gather when mapped (direct
 * forced), deregister. */
static void cycles(unsigned number)
{
    void *send = NULL, *recv = NULL;
    int before = 0, after;
    double end;

    TM_MUST(cclDeviceMalloc(&send, range_bytes));
    for (unsigned i = 0; i < number; i++) {
        size_t skew = i * 13 % 97;
        void *handle = NULL;
        struct tm_gather g;

        tm_at("cycle %u of %u", i, number);
        TM_MUST(cclDeviceMalloc(
            &recv, range_bytes)); /* likely at the address of the last cycle: old mappings of it must be gone */
        TM_MUST(cclCommRegister(comm, recv, range_bytes, &handle));
        TEST_CHECK(handle != NULL);
        for (int k = 0; k < 3; k++) {
            g = gather_of((uint8_t *)send + TM_GUARD, (uint8_t *)recv + TM_GUARD + skew, COUNT, cclVariantAuto,
                          "while peers map");
            tm_gather(&g);
        }
        if (i % 4 == 0) {
            tm_wait_mapped(comm, recv);
            MPI_Barrier(MPI_COMM_WORLD);
            g = gather_of((uint8_t *)send + TM_GUARD, (uint8_t *)recv + TM_GUARD + skew, COUNT, cclVariantDirect,
                          "when mapped");
            tm_gather(&g);
        }
        TM_OK(cclCommDeregister(comm, handle));
        if (i % 2 == 0) { /* not registered any more: staged, still right */
            g = gather_of((uint8_t *)send + TM_GUARD, (uint8_t *)recv + TM_GUARD, COUNT, cclVariantAuto,
                          "after deregistration");
            tm_gather(&g);
        }
        TM_OK(cclDeviceFree(recv));
        before = i == 7 ? open_descriptors() : before;
    }
    end = tm_now() + tm_limit(5.0);
    for (after = open_descriptors(); number > 8 && after > before && tm_now() < end; after = open_descriptors()) {
        tm_sleep_ms(10); /* peers close in the background */
    }
    if (number > 8 && after > before) {
        TEST_FAIL("%d descriptors open after %u cycles, %d after 8", after, number, before);
    }
    TM_OK(cclDeviceFree(send)); /* after counting: it was there when the first number was taken */
    MPI_Barrier(MPI_COMM_WORLD); /* what a rank registers next is a descriptor of those that still count */
}

/* One range in the middle of an allocation: pointers all over it, and what PointerInfo says in it, beside it and
 * at its edges. */
static void offsets(unsigned places)
{
    void *memory = NULL, *handle = NULL;
    uint8_t *range, *send;
    cclPointerInfo_t info;
    uint64_t state = 5;

    tm_at("offsets in a range");
    TM_MUST(cclDeviceMalloc(&memory, range_bytes + 8192));
    range = (uint8_t *)memory + 1000;
    TM_MUST(cclDeviceMalloc((void **)&send, COUNT + 2 * TM_GUARD));
    TM_MUST(cclCommRegister(comm, range, range_bytes, &handle));
    TEST_CHECK(handle != NULL);
    tm_wait_mapped(comm, range);
    MPI_Barrier(MPI_COMM_WORLD);
    for (unsigned i = 0; i < places; i++) {
        uint64_t mine = tm_random(&state) + (uint64_t)tm_rank * 977; /* another offset on every rank */
        size_t room = range_bytes - (size_t)COUNT * (size_t)tm_size - 2 * TM_GUARD;
        struct tm_gather g = gather_of(send + TM_GUARD, range + TM_GUARD + mine % room, COUNT,
                                       i % 2 == 0 ? cclVariantDirect : cclVariantAuto, "offsets");

        tm_gather(&g);
        TM_OK(cclPointerInfo(comm, g.recv, &info));
        TEST_EQ(info.kind, cclMemRegistered);
        TEST_CHECK(info.base == range);
        TEST_EQ(info.size, range_bytes);
        TEST_EQ(info.offset, g.recv - range);
        TEST_EQ(info.peers_mapped, tm_size - 1);
    }
    TM_OK(cclPointerInfo(comm, range + range_bytes - 1, &info));
    TEST_EQ(info.kind, cclMemRegistered);
    TM_OK(cclPointerInfo(comm, send, &info));
    TEST_EQ(info.kind, cclMemPlain);
    TEST_CHECK(info.base == NULL);
    TEST_EQ(info.size, 0);
    TEST_EQ(info.window, 0);
    TM_OK(cclCommDeregister(comm, handle));
    TM_OK(cclPointerInfo(comm, range, &info));
    TEST_EQ(info.kind, cclMemPlain);
    TM_OK(cclDeviceFree(memory));
    TM_OK(cclDeviceFree(send));
}

/* Ranks register different numbers of segments and gather into different kinds, changing from call to call. */
static void different_kinds(unsigned calls)
{
    struct tm_buf buf[TM_NUM_KINDS];
    void *extra[8], *handles[8];
    uint8_t *send;

    tm_at("different kinds");
    TM_MUST(cclDeviceMalloc((void **)&send, COUNT + 2 * TM_GUARD));
    for (int i = 0; i < 8; i++) {
        TM_MUST(cclDeviceMalloc(&extra[i], 4096));
        handles[i] = NULL;
        if (i < tm_rank) {
            TM_MUST(cclCommRegister(comm, extra[i], 4096, &handles[i]));
        }
    }
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_create(&buf[k], comm, (enum tm_kind)k, range_bytes);
    }
    for (unsigned i = 0; i < calls; i++) {
        struct tm_gather g = gather_of(
            send + TM_GUARD, buf[(i + (unsigned)tm_rank * (1 + i / 4)) % TM_NUM_KINDS].base + TM_GUARD,
            i % 5 == 4 ? 16 : COUNT, i % 3 == 2 ? cclVariantPartitioned : cclVariantAuto, "different kinds");

        tm_gather(&g);
    }
    for (int k = 0; k < TM_NUM_KINDS; k++) {
        tm_buf_destroy(&buf[k]);
    }
    for (int i = 7; i >= 0; i--) {
        TM_OK(cclCommDeregister(comm, handles[i])); /* NULL is fine */
        TM_OK(cclDeviceFree(extra[i]));
    }
    TM_OK(cclDeviceFree(send));
}

/* Many ranges at once, the same range twice, wrong handles, memory that may not be shareable, a communicator with
 * live handles. */
static void handles_and_errors(unsigned ranges)
{
    cclComm_t second = tm_comm_create(MPI_COMM_WORLD, NULL);
    uint8_t *memory = NULL, *send = NULL, *ordinary = malloc(65536);
    void **handles = calloc(ranges, sizeof(*handles)), *twice[2] = {NULL, NULL}, *left = NULL, *maybe = NULL;
    struct tm_gather g;
    int wrong = 0;

    tm_at("handles");
    TM_MUST(cclDeviceMalloc((void **)&memory, range_bytes));
    TM_MUST(cclDeviceMalloc((void **)&send, COUNT + 2 * TM_GUARD));
    for (unsigned i = 0; i < ranges; i++) {
        TM_MUST(cclCommRegister(comm, memory + i * 64 % (range_bytes / 2), 4096, &handles[i]));
    }
    TM_MUST(cclCommRegister(comm, memory, range_bytes, &twice[0]));
    TM_MUST(cclCommRegister(comm, memory, range_bytes, &twice[1]));
    for (unsigned i = 0; i < ranges; i++) {
        TM_OK(cclCommDeregister(comm, handles[i]));
    }
    TM_OK(cclCommDeregister(comm, twice[0]));
    tm_wait_mapped(comm, memory); /* the second registration still holds */
    MPI_Barrier(MPI_COMM_WORLD);
    g = gather_of(send + TM_GUARD, memory + TM_GUARD, COUNT, cclVariantDirect, "registered twice, once undone");
    tm_gather(&g);
    TM_RC(cclCommDeregister(comm, twice[0]), cclInvalidUsage);
    TM_RC(cclCommDeregister(comm, &wrong), cclInvalidUsage);
    TM_RC(cclCommDeregister(second, twice[1]), cclInvalidUsage); /* of another communicator */
    TM_OK(cclCommDeregister(comm, twice[1]));
    TM_RC(cclCommRegister(comm, NULL, 4096, &left), cclInvalidArgument);
    TM_RC(cclCommRegister(comm, memory, 0, &left), cclInvalidArgument);
    TM_RC(cclCommRegister(comm, memory, 4096, NULL), cclInvalidArgument);
    TM_RC(cclCommRegister(NULL, memory, 4096, &left), cclInvalidArgument);
    TM_RC(cclCommDeregister(NULL, NULL), cclInvalidArgument);
    if (tm_backend_is_host()) { /* memory of malloc: accepted, shared or not, and right either way */
        TM_OK(cclCommRegister(comm, ordinary, 65536, &maybe));
        g = gather_of(send + TM_GUARD, ordinary + TM_GUARD, 1000, cclVariantAuto, "memory of malloc");
        tm_gather(&g);
        TM_OK(cclCommDeregister(comm, maybe));
    }
    TM_MUST(cclCommRegister(second, memory, range_bytes, &left));
    TM_OK(cclCommDestroy(second)); /* takes the registration along */
    g = gather_of(send + TM_GUARD, memory + TM_GUARD, COUNT, cclVariantAuto, "after the other communicator is gone");
    tm_gather(&g);
    TM_OK(cclDeviceFree(memory));
    TM_OK(cclDeviceFree(send));
    free(handles);
    free(ordinary);
}

int main(int argc, char **argv)
{
    bool full;

    TM_INIT(argc, argv);
    full = tm_has_arg("full");
    range_bytes = (size_t)COUNT * (size_t)tm_size + 65536;
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    stream = tm_stream_create();
    cycles(full ? 120 : 16);
    offsets(full ? 200 : 20);
    different_kinds(full ? 200 : 24);
    handles_and_errors(full ? 400 : 40);
    TM_OK(cclStreamDestroy(stream));
    TM_OK(cclCommDestroy(comm));
    return tm_finish();
}
