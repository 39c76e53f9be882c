/* SPDX-License-Identifier: MIT
 *
 * Proves what NCCL's environment variables do: logging with level, file and subsystem, interfaces, registrations switched off; and that values nobody
 * knows do no harm. The environment of each case stands in its CTEST line; %h and %p in the file's name are this host and process. */
/* CTEST: args file info; env NCCL_DEBUG=INFO NCCL_DEBUG_FILE=compat_env.%h.%p.log; labels quick */
/* CTEST: args file warn; env NCCL_DEBUG=warn NCCL_DEBUG_FILE=compat_env.%h.%p.log; labels quick */
/* CTEST: args file version; env NCCL_DEBUG=VERSION NCCL_DEBUG_FILE=compat_env.%h.%p.log; labels quick */
/* CTEST: args file none; env NCCL_DEBUG=NONE NCCL_DEBUG_FILE=compat_env.%h.%p.log; labels quick */
/* CTEST: args file none; env NCCL_DEBUG=INFO CCL_DEBUG=none NCCL_DEBUG_FILE=compat_env.%h.%p.log; labels quick; name ours_wins */
/* CTEST: args file warn; env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NO_SUCH,BOOTSTRAP,INIT,RAS CCL_DEBUG=warn NCCL_DEBUG_FILE=compat_env.%h.%p.log; labels quick; name level */
/* CTEST: args file other; env NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=^INIT,ENV,BOOTSTRAP NCCL_DEBUG_FILE=compat_env.%h.%p.log; labels quick; name subsystems */
/* CTEST: args works; env NCCL_DEBUG=LOUD NCCL_DEBUG_SUBSYS=,, NCCL_SOCKET_IFNAME=nosuch0,other NCCL_ALGO=Bogus NCCL_PROTO=^^LL NCCL_BUFFSIZE=-3 NCCL_COMM_BLOCKING=maybe NCCL_CHECK_POINTERS=yes NCCL_CHECK_MODE=9 NCCL_LOCAL_REGISTER=x NCCL_NVLS_ENABLE=7 NCCL_DEBUG_FILE=/nosuch/dir/file; labels quick; name garbage */
/* CTEST: args works; env NCCL_SOCKET_IFNAME==lo; labels quick; name exact */
/* CTEST: args works; env NCCL_SOCKET_IFNAME=^docker,eth,en; labels quick; name excluded */
/* CTEST: args unregistered; env NCCL_LOCAL_REGISTER=0; labels quick; name unregistered */
#include "world.h"

static ncclComm_t one(void)
{
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    ncclResult_t rc = ncclGetUniqueId(&id);
    rc = rc != ncclSuccess ? rc : ncclCommInitRank(&comm, 1, id, 0);
    if (rc != ncclSuccess) {
        TEST_FAIL("init: %d, %s", (int)rc, ncclGetLastError(NULL));
        exit(test_result());
    }
    return comm;
}

static void works(void)
{
    ncclComm_t comm = one();
    world_check(comm, 0, 1, NULL, "works");
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
}

/* One line of each kind is provoked; which ones are in the file? */
static void file(const char *what)
{
    char host[64] = "", name[128], text[65536] = "";
    int value;
    gethostname(host, sizeof(host) - 1);
    snprintf(name, sizeof(name), "compat_env.%s.%d.log", host, (int)getpid());
    works();
    TEST_EQ(ncclCommCount(NULL, &value), ncclInvalidArgument);
    TEST_CHECK(strstr(ncclGetLastError(NULL), "ncclCommCount: comm is NULL") != NULL); /* whatever is printed */
    FILE *f = fopen(name, "r");
    size_t len = f != NULL ? fread(text, 1, sizeof(text) - 1, f) : 0;
    text[len] = '\0';
    if (f != NULL) {
        fclose(f);
    }
    unlink(name);
    bool version = strstr(text, "NCCL version 2.28.9") != NULL;
    bool info = strstr(text, "world of 1 ranks") != NULL;
    bool warning = strstr(text, "ncclCommCount: comm is NULL") != NULL;
    bool is_info = strcmp(what, "info") == 0, is_warn = strcmp(what, "warn") == 0, is_version = strcmp(what, "version") == 0,
         is_other = strcmp(what, "other") == 0;
    if (info != is_info || warning != (is_info || is_warn) || (strstr(text, " warn ") != NULL && !is_info && !is_warn) ||
        (version != (is_info || is_version || is_other) && getenv("CCL_DEBUG") == NULL && !is_warn)) {
        TEST_FAIL("%s: version %d, info %d, warning %d in %s: %.1000s", what, version, info, warning, name, text);
    }
}

static void unregistered(void)
{
    ncclComm_t comm = one();
    void *handle = (void *)comm, *buf = world_alloc(8192);
    ncclWindow_t win = (ncclWindow_t)comm;
    TEST_EQ(ncclCommRegister(comm, buf, 8192, &handle), ncclSuccess);
    TEST_CHECK(handle == NULL);
    TEST_EQ(ncclCommWindowRegister(comm, buf, 8192, &win, NCCL_WIN_DEFAULT), ncclSuccess);
    TEST_CHECK(win == NULL);
    TEST_EQ(ncclCommDeregister(comm, handle), ncclSuccess);
    TEST_EQ(ncclCommWindowDeregister(comm, win), ncclSuccess);
    TEST_EQ(ncclCommDestroy(comm), ncclSuccess);
    TEST_EQ(ncclMemFree(buf), ncclSuccess);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "works";
    if (strcmp(what, "file") == 0) {
        file(argc > 2 ? argv[2] : "");
    } else if (strcmp(what, "unregistered") == 0) {
        unregistered();
    } else {
        works();
    }
    return test_result();
}
