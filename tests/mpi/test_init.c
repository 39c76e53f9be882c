/* SPDX-License-Identifier: MIT
 *
 * Proves that communicators can be made and destroyed many times and several at once without growth, that a
 * missing rank, contradicting arguments and garbage on the bootstrap port are answered as documented. */
/* CTEST: ranks 1 3 8; labels mpi host quick; timeout 60 */
/* CTEST: ranks 2 4 5 7; gpu 0; labels mpi host; timeout 60; name more */
/* CTEST: ranks 1 2 4; labels mpi host long; timeout 300; args cycles */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

/* ---- growth ---- */

struct usage {
    long descriptors, threads, rss_kb;
};

static long entries_of(const char *path)
{
    DIR *dir = opendir(path);
    long number = -3; /* ".", "..", and the directory's own descriptor */

    while (dir != NULL && readdir(dir) != NULL) {
        number++;
    }
    closedir(dir);
    return number;
}

static struct usage usage_now(void)
{
    struct usage u = {entries_of("/proc/self/fd"), entries_of("/proc/self/task"), 0};
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "VmRSS: %ld", &u.rss_kb) == 1) {
            break;
        }
    }
    fclose(file);
    return u;
}

static void cycles(unsigned number)
{
    cclStream_t stream = tm_stream_create();
    struct usage before = {0, 0, 0}, after;
    double end, start = tm_now();

    for (unsigned i = 0; i < number; i++) {
        cclComm_t comm;
        void *ptr = NULL;

        tm_at("init cycle %u of %u", i, number);
        comm = tm_comm_create(MPI_COMM_WORLD, NULL);
        if (i % 4 == 0) {
            tm_gather_once(comm, stream, tm_rank, tm_size, 999, "init cycle");
        }
        if (i % 3 == 0) {
            TM_MUST(cclMemAlloc(comm, &ptr, 100000));
        }
        if (i % 2 == 0) {
            TM_OK(cclCommFinalize(comm));
        }
        TM_OK(cclCommDestroy(comm));
        if (i == (number < 100 ? 9 : 49)) {
            MPI_Barrier(MPI_COMM_WORLD);
            tm_sleep_ms(200); /* what ends in the background has ended */
            before = usage_now();
        }
    }
    if (tm_rank == 0 && tm_has_arg("cycles")) {
        printf("%u cycles of %d ranks: %.2f ms each\n", number, tm_size, (tm_now() - start) * 1e3 / number);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    end = tm_now() + tm_limit(5.0);
    for (after = usage_now(); tm_now() < end; after = usage_now()) {
        if (after.descriptors <= before.descriptors && after.threads <= before.threads) {
            break;
        }
        tm_sleep_ms(20);
    }
    if (after.descriptors > before.descriptors || after.threads > before.threads) {
        TEST_FAIL("after %u cycles %ld descriptors and %ld threads, before %ld and %ld", number, after.descriptors,
                  after.threads, before.descriptors, before.threads);
    }
    /* a sanitizer keeps freed memory, a GPU's driver grows its pools */
    if (!TM_SANITIZED && after.rss_kb > before.rss_kb + (tm_backend_is_host() ? 4096 : 32768)) {
        TEST_FAIL("after %u cycles %ld KiB resident, before %ld KiB", number, after.rss_kb, before.rss_kb);
    }
    TM_OK(cclStreamDestroy(stream));
}

static void several_at_once(void)
{
    enum { SEVERAL = 6 };
    cclComm_t comm[SEVERAL];
    cclStream_t stream = tm_stream_create();

    for (int i = 0; i < SEVERAL; i++) {
        tm_at("several at once: init %d", i);
        comm[i] = tm_comm_create(MPI_COMM_WORLD, NULL);
    }
    for (int i = SEVERAL - 1; i >= 0; i--) {
        tm_at("several at once: gather %d", i);
        tm_gather_once(comm[i], stream, tm_rank, tm_size, 50 + (size_t)i * 4000, "several communicators");
    }
    for (int i = 0; i < SEVERAL; i++) {
        TM_OK(cclCommDestroy(comm[(i + tm_rank) % SEVERAL]));
    }
    TM_OK(cclStreamDestroy(stream));
}

/* ---- failures ---- */

static cclUniqueId shared_id(void)
{
    cclUniqueId id;

    memset(&id, 0, sizeof(id));
    if (tm_rank == 0) {
        TM_MUST(cclGetUniqueId(&id));
    }
    MPI_Bcast(&id, (int)sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
    return id;
}

/* The ranks 0..n-1 of the communicator but `missing` come, as MPI ranks in this order; all get the deadline and
 * its name. */
static void missing_rank(int n, int missing)
{
    cclConfig_t config = CCL_CONFIG_INITIALIZER;
    cclComm_t comm = (cclComm_t)(uintptr_t)0x1234;
    cclUniqueId id = shared_id();
    int rank = tm_rank < missing ? tm_rank : tm_rank + 1;
    char needle[16];
    double start;

    config.timeout_ms = 700;
    snprintf(needle, sizeof(needle), "%d", missing);
    tm_at("init of %d ranks without rank %d", n, missing);
    MPI_Barrier(MPI_COMM_WORLD);
    start = tm_now();
    if (rank < n) {
        TM_RC(cclCommInitRankConfig(&comm, n, id, rank, &config), cclSystemError);
        TM_TEXT(needle);
        TEST_CHECK(comm == NULL);
        if (tm_now() - start < 0.5) {
            TEST_FAIL("gave up after %.3f s, the deadline is 0.7 s", tm_now() - start);
        }
        TM_WITHIN("init with a missing rank", tm_now() - start, 4.0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void contradictions(void)
{
    cclConfig_t config = CCL_CONFIG_INITIALIZER;
    cclComm_t comm;
    cclUniqueId id;
    cclResult_t rc;

    config.timeout_ms = 1000;
    if (tm_size < 2) {
        return;
    }
    tm_at("ranks that give different nranks");
    id = shared_id();
    comm = (cclComm_t)(uintptr_t)0x1234;
    rc = cclCommInitRankConfig(&comm, tm_rank == tm_size - 1 ? tm_size + 1 : tm_size, id, tm_rank, &config);
    if (rc != cclInvalidUsage) { /* the ranks that agree with each other may only see the deadline */
        TM_RC(rc, cclSystemError);
    }
    TEST_CHECK(comm == NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    tm_at("the same rank twice");
    id = shared_id();
    comm = (cclComm_t)(uintptr_t)0x1234;
    rc = cclCommInitRankConfig(&comm, tm_size, id, tm_rank == tm_size - 1 ? 0 : tm_rank, &config);
    if (rc != cclInvalidUsage) {
        TM_RC(rc, cclSystemError);
    }
    TEST_CHECK(comm == NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- garbage on the port ---- */

struct listeners {
    unsigned short ports[64];
    int number;
};

/* TCP ports on which this process listens: sockets in /proc/self/fd that /proc/self/net/tcp shows in state LISTEN. */
static void find_listeners(struct listeners *out)
{
    FILE *table = fopen("/proc/self/net/tcp", "r");
    char line[512];

    out->number = 0;
    while (table != NULL && fgets(line, sizeof(line), table) != NULL && out->number < 64) {
        unsigned port, state;
        unsigned long inode;
        char want[64];
        DIR *dir;

        if (sscanf(line, " %*d: %*8x:%x %*8x:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %lu", &port, &state, &inode) != 3 ||
            state != 10) {
            continue;
        }
        snprintf(want, sizeof(want), "socket:[%lu]", inode);
        dir = opendir("/proc/self/fd");
        for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
            char target[64];
            ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

            if (length > 0 && (size_t)length == strlen(want) && memcmp(target, want, (size_t)length) == 0) {
                out->ports[out->number++] = (unsigned short)port;
                break;
            }
        }
        closedir(dir);
    }
    if (table != NULL) {
        fclose(table);
    }
}

struct attack {
    unsigned short port;
    int stop, connections;
};

/* Connects again and again: says nothing, sends noise, claims huge lengths, speaks HTTP, half a message, closes or
 * stays. */
static void *attack_port(void *argument)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    struct attack *a = argument;
    struct sockaddr_in address;
    int held[64], holding = 0;
    uint64_t state = 99;

    memset(&address, 0, sizeof(address));
    address.sin_family = AF_INET;
    address.sin_port = htons(a->port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while (__atomic_load_n(&a->stop, __ATOMIC_ACQUIRE) == 0) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        uint8_t noise[4096];

        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
            if (fd >= 0) {
                close(fd); /* the listener is gone: init is over */
            }
            tm_sleep_ms(1);
            continue;
        }
        tm_gen(noise, 0, sizeof(noise), tm_random(&state), 0);
        switch (a->connections % 6) {
        case 0:
            break;
        case 1:
            (void)send(fd, noise, sizeof(noise), MSG_NOSIGNAL);
            break;
        case 2:
            memset(noise, 0xFF, 256);
            (void)send(fd, noise, 256, MSG_NOSIGNAL);
            break;
        case 3:
            (void)send(fd, http, sizeof(http) - 1, MSG_NOSIGNAL);
            break;
        case 4:
            (void)send(fd, noise, 1 + tm_random(&state) % 200, MSG_NOSIGNAL);
            break;
        default:
            memset(noise, 0, 256);
            (void)send(fd, noise, 1 + tm_random(&state) % 256, MSG_NOSIGNAL);
            break;
        }
        if (holding < 64 && a->connections % 2 == 0) {
            held[holding++] = fd; /* stays open, says no more */
        } else {
            close(fd);
        }
        a->connections++;
        tm_sleep_ms(1);
    }
    while (holding > 0) {
        close(held[--holding]);
    }
    return NULL;
}

static void garbage(void)
{
    struct listeners before, after;
    struct attack a = {0, 0, 0};
    cclStream_t stream = tm_stream_create();
    cclComm_t comm = NULL;
    cclUniqueId id;
    pthread_t thread;
    bool attacking = false;
    double start;

    tm_at("garbage on the bootstrap port");
    find_listeners(&before);
    id = shared_id();
    find_listeners(&after);
    for (int i = 0; i < after.number && tm_rank == 0; i++) {
        bool known = false;

        for (int k = 0; k < before.number; k++) {
            known = known || before.ports[k] == after.ports[i];
        }
        a.port = known ? a.port : after.ports[i];
    }
    if (tm_rank == 0) {
        if (a.port == 0) {
            TEST_FAIL("cclGetUniqueId opened no TCP listener (%d before, %d after)", before.number, after.number);
        } else {
            attacking = pthread_create(&thread, NULL, attack_port, &a) == 0;
            tm_sleep_ms(100); /* garbage comes first */
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (tm_rank != 0) {
        tm_sleep_ms(20); /* and in between */
    }
    start = tm_now();
    TM_MUST(cclCommInitRank(&comm, tm_size, id, tm_rank));
    TM_WITHIN("init under fire", tm_now() - start, 5.0);
    tm_gather_once(comm, stream, tm_rank, tm_size, 3000, "after garbage");
    if (attacking) {
        __atomic_store_n(&a.stop, 1, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        TEST_CHECK(a.connections >= 10);
    }
    TM_OK(cclCommDestroy(comm));
    TM_OK(cclStreamDestroy(stream));
}

int main(int argc, char **argv)
{
    TM_INIT(argc, argv);
    if (tm_has_arg("cycles")) {
        tm_watchdog(280);
        cycles(500);
        return tm_finish();
    }
    cycles(50);
    several_at_once();
    missing_rank(tm_size + 1, tm_size);
    if (tm_size > 1) {
        missing_rank(tm_size, 0); /* the last MPI rank stays out, and nobody is rank 0 */
    }
    contradictions();
    garbage();
    return tm_finish();
}
