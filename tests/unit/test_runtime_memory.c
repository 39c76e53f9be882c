/* SPDX-License-Identifier: MIT
 *
 * Proves that device memory of the host backend is zeroed, shared by its descriptor with threads and processes, kept as
 * long as anybody uses it and no longer, and that memory which is not there is refused when it is asked for. */
/* CTEST: labels quick tsan */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "runtime/host_machine.h"
#include "runtime/host_memory.h"
#include "runtime_test.h"
#include "util/log.h"

#define MIB ((size_t)1 << 20)

static void *alloc(size_t bytes)
{
    void *p = NULL;
    TEST_OK(ccl_host_memory_alloc(CCL_MEM_DATA, bytes, &p));
    return p;
}

static void check_alloc(void)
{
    static const size_t sizes[] = {1, 4096, 4097, 3 * MIB + 5};
    for (size_t i = 0; i < CCL_ARRAY_LEN(sizes); i++) {
        unsigned char *p = alloc(sizes[i]);
        TEST_EQ((uintptr_t)p % 4096, 0);
        for (size_t k = 0; k < sizes[i]; k++) {
            if (p[k] != 0) {
                TEST_EQ(p[k], 0);
            }
        }
        memset(p, 0xff, sizes[i]); /* not seen by the next one */
        TEST_OK(ccl_host_memory_free(p));
    }
    void *none = &none;
    TEST_EQ(ccl_host_memory_alloc(CCL_MEM_FLAG, 0, &none), cclInvalidArgument);
    TEST_CHECK(none == &none);
    TEST_OK(ccl_host_memory_free(NULL));
    TEST_EQ(ccl_host_memory_free(&none), cclInvalidArgument);
}

static void check_query(void)
{
    enum { COUNT = 200 };
    char *blocks[COUNT];
    struct ccl_pointer_attr attr;
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = alloc((i % 5 + 1) * 4096);
    }
    for (size_t i = 0; i < COUNT; i++) {
        size_t bytes = (i % 5 + 1) * 4096;
        TEST_OK(ccl_host_memory_query(blocks[i] + (i * 977) % bytes, &attr));
        TEST_CHECK(attr.base == blocks[i] && attr.size_bytes == bytes && attr.device == 0 && attr.exportable);
        TEST_OK(ccl_host_memory_query(blocks[i] + bytes - 1, &attr));
        TEST_CHECK(attr.base == blocks[i]);
        TEST_EQ(ccl_host_memory_free(blocks[i] + 4096 * (i % 5 > 0)), i % 5 > 0 ? cclInvalidArgument : cclSuccess);
        if (i % 5 > 0) {
            TEST_OK(ccl_host_memory_free(blocks[i]));
        }
        TEST_OK(ccl_host_memory_query(blocks[i], &attr));
        TEST_CHECK(attr.base == NULL && attr.device == -1 && !attr.exportable && attr.size_bytes == 0);
    }
    TEST_OK(ccl_host_memory_query(&attr, &attr));
    TEST_EQ(attr.device, -1);
    TEST_EQ(ccl_host_memory_count(), 0);
}

/* The owner imports its own allocation: one address, and freeing leaves it usable until the last close. */
static void check_same_process(void)
{
    struct ccl_mem_handle handle;
    struct ccl_pointer_attr attr;
    void *again[2] = {NULL, NULL};
    char *p = alloc(8192);
    TEST_EQ(ccl_host_memory_export(p + 4096, &handle), cclInvalidUsage);
    TEST_OK(ccl_host_memory_export(p, &handle));
    TEST_CHECK((fcntl(handle.fd, F_GETFD) & FD_CLOEXEC) != 0);
    TEST_EQ(handle.size_bytes, 8192);
    TEST_EQ(ccl_host_memory_close(p), cclInvalidArgument);
    for (int i = 0; i < 2; i++) {
        TEST_OK(ccl_host_memory_import(&handle, &again[i]));
        TEST_CHECK(again[i] == p);
    }
    close(handle.fd);
    TEST_OK(ccl_host_memory_free(p));
    TEST_EQ(ccl_host_memory_free(p), cclInvalidArgument);
    p[5000] = 1;
    TEST_OK(ccl_host_memory_query(p, &attr));
    TEST_CHECK(attr.base == p && !attr.exportable);
    TEST_EQ(ccl_host_memory_export(p, &handle), cclInvalidUsage);
    TEST_OK(ccl_host_memory_close(p));
    p[5000]++;
    TEST_EQ(p[5000], 2);
    TEST_OK(ccl_host_memory_close(p));
    TEST_EQ(ccl_host_memory_close(p), cclInvalidArgument);
    TEST_EQ(ccl_host_memory_count(), 0);
}

/* Send a handle with its descriptor, or take one. */
static void pass_handle(int sock, struct ccl_mem_handle *handle, bool receive)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {handle, sizeof(*handle)};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    memset(&control, 0, sizeof(control));
    if (receive) {
        TEST_EQ(recvmsg(sock, &msg, MSG_CMSG_CLOEXEC), sizeof(*handle));
        memcpy(&handle->fd, CMSG_DATA(&control.header), sizeof(int));
        return;
    }
    control.header =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &handle->fd, sizeof(int));
    TEST_EQ(sendmsg(sock, &msg, 0), sizeof(*handle));
}

/* The peer imports twice, adds one to every byte, waits until the owner has freed, and still sees its mapping. */
static int peer_main(int sock)
{
    struct ccl_mem_handle handle;
    struct ccl_pointer_attr attr;
    void *base = NULL, *second = NULL;
    char byte = 0;
    pass_handle(sock, &handle, true);
    TEST_OK(ccl_host_memory_import(&handle, &base));
    TEST_OK(ccl_host_memory_import(&handle, &second));
    TEST_CHECK(base == second && base != NULL);
    close(handle.fd);
    TEST_OK(ccl_host_memory_query((char *)base + 100, &attr));
    TEST_CHECK(attr.base == base && attr.size_bytes == 3 * MIB && attr.device == 0 && !attr.exportable);
    TEST_EQ(ccl_host_memory_export(base, &handle), cclInvalidUsage);
    TEST_EQ(ccl_host_memory_free(base), cclInvalidArgument);
    for (size_t i = 0; i < 3 * MIB; i++) {
        ((unsigned char *)base)[i]++;
    }
    TEST_EQ(write(sock, &byte, 1), 1);
    TEST_EQ(read(sock, &byte, 1), 1); /* freed */
    TEST_OK(ccl_host_memory_close(base));
    TEST_EQ(((unsigned char *)base)[77], 78);
    TEST_OK(ccl_host_memory_close(base));
    TEST_EQ(ccl_host_memory_close(base), cclInvalidArgument);
    TEST_EQ(ccl_host_memory_count(), 0);
    return test_result();
}

static void check_two_processes(void)
{
    int socks[2], status = -1;
    struct ccl_mem_handle handle;
    char byte = 0;
    TEST_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks), 0);
    fflush(NULL);
    pid_t pid = fork(); /* before the allocation: the peer knows nothing of it */
    if (pid == 0) {
        close(socks[0]);
        exit(peer_main(socks[1]));
    }
    close(socks[1]);
    unsigned char *p = alloc(3 * MIB);
    for (size_t i = 0; i < 3 * MIB; i++) {
        p[i] = (unsigned char)i;
    }
    TEST_OK(ccl_host_memory_export(p, &handle));
    pass_handle(socks[0], &handle, false);
    close(handle.fd);
    TEST_EQ(read(socks[0], &byte, 1), 1);
    for (size_t i = 0; i < 3 * MIB; i++) {
        if (p[i] != (unsigned char)(i + 1)) {
            TEST_EQ(p[i], (unsigned char)(i + 1));
        }
    }
    TEST_OK(ccl_host_memory_free(p));
    TEST_EQ(write(socks[0], &byte, 1), 1);
    TEST_EQ(waitpid(pid, &status, 0), pid);
    TEST_EQ(status, 0);
    close(socks[0]);
}

static void check_bad_import(void)
{
    struct ccl_mem_handle handle, bad;
    void *base = NULL;
    int pipe_fds[2];
    char *p = alloc(4096);
    TEST_OK(ccl_host_memory_export(p, &handle));
    TEST_OK(ccl_host_memory_free(p));
    bad = handle;
    bad.size_bytes = 8192; /* would be a SIGBUS at the first touch */
    TEST_EQ(ccl_host_memory_import(&bad, &base), cclSystemError);
    bad = handle;
    bad.kind = 0;
    TEST_EQ(ccl_host_memory_import(&bad, &base), cclSystemError);
    bad = handle;
    bad.fd = -1;
    TEST_EQ(ccl_host_memory_import(&bad, &base), cclSystemError);
    TEST_EQ(pipe(pipe_fds), 0);
    bad.fd = pipe_fds[0];
    TEST_EQ(ccl_host_memory_import(&bad, &base), cclSystemError);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    TEST_CHECK(base == NULL);
    TEST_EQ(ftruncate(handle.fd, 0), -1); /* sealed */
    TEST_EQ(errno, EPERM);
    close(handle.fd);
    TEST_EQ(ccl_host_memory_count(), 0);
}

static void refuse(size_t bytes)
{
    void *p = NULL;
    char number[32];
    TEST_EQ(ccl_host_memory_alloc(CCL_MEM_DATA, bytes, &p), cclSystemError);
    snprintf(number, sizeof(number), "%zu", bytes);
    if (strstr(ccl_error_last(), number) == NULL) {
        TEST_FAIL("the error text does not name %s: %s", number, ccl_error_last());
    }
    TEST_CHECK(p == NULL);
}

static void check_exhaustion(void)
{
    struct rlimit files, size;
    int fds = test_count_entries("/proc/self/fd");
    uint64_t left = ccl_host_machine_free_bytes();
    printf("%llu MiB of memory are free\n", (unsigned long long)(left >> 20));
    TEST_CHECK(left < UINT64_MAX);
    refuse((size_t)(left * 2) / 4096 * 4096);
    refuse((size_t)1 << 60);
    refuse(SIZE_MAX);
    refuse((size_t)PTRDIFF_MAX);
    /* What is promised counts, though nobody has touched it; small allocations count as well. */
    size_t most = (size_t)(left / 10 * 6) / 4096 * 4096;
    void *p = alloc(most);
    refuse(most);
    TEST_OK(ccl_host_memory_free(p));
    TEST_OK(ccl_host_memory_free(alloc(most)));

    getrlimit(RLIMIT_FSIZE, &size);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){MIB, size.rlim_max});
    refuse(8 * MIB);
    setrlimit(RLIMIT_FSIZE, &size);

    if (!TEST_SANITIZED) { /* sanitizers need address space of their own */
        getrlimit(RLIMIT_AS, &size);
        setrlimit(RLIMIT_AS, &(struct rlimit){MIB, size.rlim_max});
        refuse(8 * MIB);
        setrlimit(RLIMIT_AS, &size);
    }
    TEST_EQ(test_count_entries("/proc/self/fd"), fds);
    getrlimit(RLIMIT_NOFILE, &files);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, files.rlim_max});
    refuse(4096);
    setrlimit(RLIMIT_NOFILE, &files);
    TEST_EQ(ccl_host_memory_count(), 0);
}

static void check_cycles(void)
{
    int fds = test_count_entries("/proc/self/fd");
    for (int i = 0; i < 500; i++) {
        struct ccl_mem_handle handle;
        void *base = NULL;
        char *p = alloc(64 * 1024);
        p[i] = 1;
        TEST_OK(ccl_host_memory_export(p, &handle));
        TEST_OK(ccl_host_memory_import(&handle, &base));
        close(handle.fd);
        TEST_OK(ccl_host_memory_free(p));
        TEST_OK(ccl_host_memory_close(base));
    }
    TEST_EQ(test_count_entries("/proc/self/fd"), fds);
    TEST_EQ(ccl_host_memory_count(), 0);
}

static void *memory_thread(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < 300; i++) {
        struct ccl_mem_handle handle;
        struct ccl_pointer_attr attr;
        void *base = NULL;
        size_t bytes = (i % 7 + 1) * 4096;
        char *p = alloc(bytes);
        TEST_OK(ccl_host_memory_query(p + bytes - 1, &attr));
        TEST_CHECK(attr.base == p);
        p[bytes - 1] = 3;
        TEST_OK(ccl_host_memory_export(p, &handle));
        TEST_OK(ccl_host_memory_import(&handle, &base));
        TEST_CHECK(base == p);
        close(handle.fd);
        TEST_OK(ccl_host_memory_close(base));
        TEST_OK(ccl_host_memory_free(p));
    }
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        TEST_EQ(pthread_create(&threads[i], NULL, memory_thread, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    TEST_EQ(ccl_host_memory_count(), 0);
}

int main(void)
{
    check_two_processes();
    check_alloc();
    check_query();
    check_same_process();
    check_bad_import();
    check_exhaustion();
    check_cycles();
    check_threads();
    return test_result();
}
