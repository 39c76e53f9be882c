/* SPDX-License-Identifier: MIT
 *
 * Proves that the library does no harm to its process: forked children, exits with live communicators and pending calls, dlclose with threads of ours still
 * there, many inits that leave nothing behind. */
/* CTEST: labels quick */
/* CTEST: args missing; env CCL_INIT_TIMEOUT=1; labels quick */
#include "world.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>

static ncclComm_t one(void)
{
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    TEST_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
    return comm;
}

/* Wait for pid, at most 10 s; its exit code, -signal, or -1000. */
static int wait_for(pid_t pid)
{
    int status = 0;
    for (int ms = 0; ms < 10000; ms++) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        }
        usleep(1000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1000;
}

/* The child may not use the parent's communicator, and says so; its end does nothing to it. */
static void test_fork(void)
{
    ncclComm_t comm = one();
    cclStream_t stream;
    TEST_EQ(cclStreamCreate(&stream), cclSuccess);
    world_check(comm, 0, 1, (cudaStream_t)stream, "before fork");
    usleep(50000); /* as in leave: the child must not be a copy of a thread's half-done start */
    pid_t pid = fork();
    if (pid == 0) {
        char buf[8];
        int bad = ncclAllGather(buf, buf, 8, ncclInt8, comm, NULL) != ncclInvalidUsage;
        bad += ncclCommDestroy(comm) != ncclInvalidArgument;
        exit(bad);
    }
    TEST_EQ(wait_for(pid), 0);
    world_check(comm, 0, 1, (cudaStream_t)stream, "after fork");
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
    TEST_EQ(cclStreamDestroy(stream), cclSuccess);
}

/* What a program of its own does before it leaves without cleaning up. */
static void leave(int how)
{
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = one(), waiting;
    char *buf = world_alloc(64);
    ncclResult_t rc = ncclAllGather(buf, buf, 64, ncclInt8, comm, NULL);
    config.blocking = 0;
    ncclGetUniqueId(&id);
    if (rc == ncclSuccess && how == 1) {
        rc = ncclCommInitRankConfig(&waiting, 2, id, 0, &config) == ncclInProgress ? ncclSuccess : ncclInternalError; /* never ends */
    } else if (rc == ncclSuccess && how == 2) {
        ncclGroupStart();
        rc = ncclAllGather(buf, buf, 64, ncclInt8, comm, NULL); /* in a group nobody ends */
    }
    usleep(50000); /* the sanitizers do not like threads that are just starting */
    exit(rc == ncclSuccess && test_failures == 0 ? 42 : 1);
}

static void test_exit(const char *self)
{
    for (int how = 0; how < 3; how++) {
        char arg[32];
        snprintf(arg, sizeof(arg), "leave%d", how);
        pid_t pid = fork();
        if (pid == 0) {
            execl(self, self, arg, (char *)NULL);
            _exit(99);
        }
        TEST_EQ(wait_for(pid), 42);
    }
}

/* The other rank is a process that joins, and dies. */
static void join_and_die(const char *hex)
{
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    for (size_t i = 0; i < sizeof(id); i++) {
        unsigned byte = 0;
        sscanf(hex + 2 * i, "%2x", &byte);
        id.internal[i] = (char)byte;
    }
    raise(ncclCommInitRank(&comm, 2, id, 1) == ncclSuccess ? SIGKILL : SIGABRT);
}

static void test_death(const char *self)
{
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    ncclResult_t state = ncclSuccess;
    void *buf = world_alloc(16);
    char hex[2 * sizeof(id) + 1] = "";
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    for (size_t i = 0; i < sizeof(id); i++) {
        snprintf(hex + 2 * i, 3, "%02x", (unsigned)(unsigned char)id.internal[i]);
    }
    pid_t pid = fork();
    if (pid == 0) {
        execl(self, self, "die", hex, (char *)NULL);
        _exit(99);
    }
    TEST_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess);
    TEST_EQ(wait_for(pid), -SIGKILL);
    ncclResult_t rc = ncclAllGather(buf, buf, 8, ncclInt8, comm, NULL);
    TEST_CHECK(rc == ncclSuccess || rc == ncclRemoteError);
    for (int ms = 0; ms < 5000 && state == ncclSuccess; ms++) {
        TEST_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
        usleep(1000);
    }
    TEST_EQ(state, ncclRemoteError);
    TEST_CHECK(strstr(ncclGetLastError(comm), "rank 1 died") != NULL);
    TEST_EQ(ncclCommAbort(comm), ncclSuccess);
    TEST_EQ(ncclMemFree(buf), ncclSuccess);
}

/* Nobody else comes: the deadline, who is missing, and no communicator. */
static void test_missing(void)
{
    ncclUniqueId id;
    ncclComm_t comm = (ncclComm_t)&id;
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    TEST_EQ(ncclCommInitRank(&comm, 3, id, 1), ncclSystemError);
    TEST_CHECK(comm == NULL);
    TEST_CHECK(strstr(ncclGetLastError(NULL), "ranks 0, 2 of 3 did not come") != NULL);
    /* An id serves once. */
    TEST_EQ(ncclGetUniqueId(&id), ncclSuccess);
    TEST_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
    ncclComm_t again = comm;
    TEST_CHECK(ncclCommInitRank(&again, 1, id, 0) != ncclSuccess);
    TEST_CHECK(again == NULL);
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
}

/* Two libraries in one process; the second one comes and goes while its rendezvous still waits. */
static void test_dlclose(void)
{
    for (int i = 0; i < 2; i++) {
        void *lib = dlopen("librccl.so.1", RTLD_NOW | RTLD_LOCAL);
        ncclResult_t (*get_id)(ncclUniqueId *);
        ncclUniqueId id;
        if (lib == NULL) {
            TEST_FAIL("%s", dlerror());
            return;
        }
        *(void **)&get_id = dlsym(lib, "ncclGetUniqueId");
        TEST_EQ(get_id(&id), ncclSuccess);
        dlclose(lib);
        usleep(20000);
    }
}

static int count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return count;
}

/* Descriptors and threads, after the first rounds have made what stays. */
static void test_leaks(void)
{
    int before = 0;
    for (int i = 0; i < 60; i++) {
        ncclComm_t comm = one(), none = comm;
        TEST_EQ(ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, NULL), ncclSuccess);
        TEST_CHECK(none == NULL);
        TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
        if (i == 10) {
            usleep(100000);
            before = count_fds();
        }
    }
    int after = count_fds();
    for (int ms = 0; ms < 2000 && after > before; ms += 10) { /* rendezvous threads close theirs in their own time */
        usleep(10000);
        after = count_fds();
    }
    TEST_CHECK(before > 0);
    if (after > before) {
        TEST_FAIL("%d descriptors after 50 communicators, %d before", after, before);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strncmp(argv[1], "leave", 5) == 0) {
        leave(argv[1][5] - '0');
    }
    if (argc > 2 && strcmp(argv[1], "die") == 0) {
        join_and_die(argv[2]);
    }
    if (argc > 1 && strcmp(argv[1], "missing") == 0) {
        test_missing();
        return test_result();
    }
    test_exit(argv[0]);
    test_death(argv[0]);
    test_leaks();
    test_fork();
    test_dlclose();
    return test_result();
}
