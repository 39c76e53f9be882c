/* SPDX-License-Identifier: MIT
 *
 * Proves that the trace of a communicator names every operation it ran, on every block's track, with its phases in order (tests/check_trace.py
 * looks at the files), that a full ring counts what it lost, that CCL_TRACE writes the file at the end, and that nothing is traced, and
 * said so, when tracing is off. */

/* CTEST: args all; ranks 1 2 3 4; labels quick; timeout 60 */
/* CTEST: args overflow; ranks 2 3; labels quick; timeout 60; env CCL_TRACE_OPS=8 */
/* CTEST: args destroy; ranks 2; labels quick; timeout 60 */
/* CTEST: args untraced; ranks 2; labels quick; timeout 60 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define MAX_OPS 64
#define ROWS 4
#define COUNT 3000 /* elements a row */
#define OVERFLOW_KEEPS 8

static cclComm_t comm;
static cclStream_t stream;
static char dir[64] = "/tmp/ccl_trace_XXXXXX"; /* the same on all ranks */
static char expected[MAX_OPS][128];            /* "number blocks name" */
static int num_ops;

static cclComm_t traced_comm(void)
{
    cclConfig_t config = CCL_CONFIG_INITIALIZER;
    config.trace = 1;
    return tm_comm_create(MPI_COMM_WORLD, &config);
}

static void expect(int blocks, const char *name)
{
    if (num_ops == MAX_OPS) {
        TEST_FAIL("more than %d operations", MAX_OPS);
        return;
    }
    num_ops++;
    snprintf(expected[num_ops - 1], sizeof(expected[0]), "%d %d %s\n", num_ops, blocks, name);
}

static int effective_blocks(void)
{
    cclCallConfig_t used = CCL_CALL_CONFIG_INITIALIZER;
    TM_OK(cclGetEffectiveConfig(comm, &used));
    return used.comm_sms;
}

static void barrier(void)
{
    TM_OK(cclBarrier(comm, stream));
    expect(1, "barrier");
}

static void gather_2d(int variant, const char *how, enum tm_kind kind, int blocks)
{
    cclCallConfig_t config = CCL_CALL_CONFIG_INITIALIZER;
    struct tm_buf send, recv;
    char name[96];
    size_t bytes = ROWS * COUNT * 2;
    config.variant = variant;
    config.comm_sms = blocks;
    tm_at("2-D %s, %d blocks", how, blocks);
    tm_buf_create(&send, comm, TM_PLAIN, bytes);
    tm_buf_create(&recv, comm, kind, bytes * (size_t)tm_size);
    TM_OK(cclAllGather2D(send.base, COUNT, recv.base, COUNT, ROWS, COUNT, cclFloat16, &config, comm, stream));
    snprintf(name, sizeof(name), "all_gather_2d %s %dx%d float16", how, ROWS, COUNT);
    expect(effective_blocks(), name);
    TM_OK(cclStreamSynchronize(stream));
    tm_buf_destroy(&recv);
    tm_buf_destroy(&send);
}

static void gather_1d(size_t count)
{
    static const char *const how[] = {"auto", "ll", "direct", "staged", "partitioned", "copy"};
    cclCallConfig_t used = CCL_CALL_CONFIG_INITIALIZER;
    struct tm_buf send, recv;
    char name[96];
    tm_buf_create(&send, comm, TM_PLAIN, count * 4);
    tm_buf_create(&recv, comm, TM_PLAIN, count * 4 * (size_t)tm_size);
    TM_OK(cclAllGather(send.base, recv.base, count, cclFloat32, comm, stream));
    TM_OK(cclGetEffectiveConfig(comm, &used));
    snprintf(name, sizeof(name), "all_gather %s %zu float32", how[used.variant], count);
    expect(used.comm_sms, name);
    TM_OK(cclStreamSynchronize(stream));
    tm_buf_destroy(&recv);
    tm_buf_destroy(&send);
}

/* All ranks; rank 0 has the files checked. lost: operations the ring must have lost. */
static void check_files(int lost)
{
    char path[128], command[4096];
    MPI_Barrier(MPI_COMM_WORLD);
    if (tm_rank == 0) {
        snprintf(path, sizeof(path), "%s/expected", dir);
        FILE *file = fopen(path, "w");
        for (int i = 0; i < num_ops && file != NULL; i++) {
            fputs(expected[i], file);
        }
        TEST_EQ(file != NULL && fclose(file) == 0, 1);
        int used = snprintf(command, sizeof(command), "python3 %s %s %d", CCL_TRACE_CHECKER, path, lost);
        for (int r = 0; r < tm_size; r++) {
            used += snprintf(command + used, sizeof(command) - (size_t)used, " %s/%d.json", dir, r);
        }
        TEST_EQ(system(command), 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void export_and_check(int lost)
{
    char pattern[128];
    tm_at("export");
    snprintf(pattern, sizeof(pattern), "%s/%%r.json", dir);
    TM_OK(cclTraceExport(comm, pattern));
    check_files(lost);
}

static void every_operation(void)
{
    comm = traced_comm();
    barrier();
    gather_1d(1);
    gather_1d(100000);
    for (int blocks = 1; blocks <= 3; blocks += 2) {
        gather_2d(cclVariantLL, "ll", TM_PLAIN, blocks);
        gather_2d(cclVariantDirect, "direct", TM_HEAP, blocks);
        gather_2d(cclVariantStaged, "staged", TM_HEAP, blocks);
        gather_2d(cclVariantAuto, "ll", TM_PLAIN, CCL_UNSET);
        num_ops--; /* named by what auto chose, below */
        cclCallConfig_t used = CCL_CALL_CONFIG_INITIALIZER;
        TM_OK(cclGetEffectiveConfig(comm, &used));
        char name[96];
        snprintf(name, sizeof(name), "all_gather_2d %s %dx%d float16", used.variant == cclVariantLL ? "ll" : "staged", ROWS, COUNT);
        expect(used.comm_sms, name);
    }
    gather_2d(cclVariantPartitioned, "partitioned", TM_HEAP, tm_size);
    gather_2d(cclVariantPartitioned, "partitioned", TM_PLAIN, 2 * tm_size);
    export_and_check(0);
    tm_at("the trace goes on");
    barrier();
    export_and_check(0);
    tm_at("bad paths");
    TM_RC(cclTraceExport(comm, "/nowhere/%r.json"), cclSystemError);
    TM_TEXT("/nowhere/");
    TM_RC(cclTraceExport(comm, "/tmp/%q.json"), cclInvalidArgument);
    TM_TEXT("/tmp/%q.json");
    TM_RC(cclTraceExport(comm, ""), cclInvalidArgument);
    TM_RC(cclTraceExport(comm, NULL), cclInvalidArgument);
    TM_RC(cclTraceExport(NULL, "x"), cclInvalidArgument);
    if (tm_backend_is_host()) {
        TM_RC(cclTraceExport(comm, "/dev/full"), cclSystemError);
        TM_TEXT("/dev/full");
    }
    TM_OK(cclCommDestroy(comm));
}

static void full_ring(void)
{
    comm = traced_comm();
    for (int i = 0; i < 21; i++) {
        gather_1d((size_t)(1 + i));
    }
    export_and_check(num_ops - OVERFLOW_KEEPS);
    TM_OK(cclCommDestroy(comm));
}

/* CCL_TRACE is set before the library's first use. */
static void at_destroy(void)
{
    cclComm_t child;
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    barrier();
    gather_1d(10);
    TM_OK(cclCommSplit(comm, tm_rank, 0, &child, NULL)); /* each its own world of one rank, rank 0 */
    TM_OK(cclBarrier(child, stream));
    TM_OK(cclStreamSynchronize(stream));
    char pattern[128];
    snprintf(pattern, sizeof(pattern), "%s/child.%%w.json", dir);
    TM_OK(cclTraceExport(child, pattern));
    TM_OK(cclCommDestroy(child));
    MPI_Barrier(MPI_COMM_WORLD); /* all children have written 0.json, which the world's now replaces */
    TM_OK(cclCommDestroy(comm));
    check_files(0);
}

static void off(void)
{
    cclConfig_t config = CCL_CONFIG_INITIALIZER;
    comm = tm_comm_create(MPI_COMM_WORLD, NULL);
    barrier();
    TM_OK(cclStreamSynchronize(stream));
    TM_RC(cclTraceExport(comm, "/tmp/never.json"), cclInvalidUsage);
    TM_TEXT("CCL_TRACE");
    TEST_EQ(access("/tmp/never.json", F_OK), -1);
    TM_OK(cclCommDestroy(comm));

    tm_at("one rank of several traces");
    config.trace = tm_rank == tm_size - 1;
    comm = tm_comm_create(MPI_COMM_WORLD, &config);
    TM_OK(cclBarrier(comm, stream));
    TM_RC(cclTraceExport(comm, "/dev/null"), config.trace ? cclSuccess : cclInvalidUsage);
    TM_OK(cclCommDestroy(comm));
}

int main(int argc, char **argv)
{
    char name[128];
    TM_INIT(argc, argv);
    tm_watchdog(50);
    if (system("python3 -c ''") != 0) {
        TEST_SKIP_NOW("no python3 to look at the files with");
    }
    if (tm_rank == 0 && mkdtemp(dir) == NULL) {
        tm_die();
    }
    MPI_Bcast(dir, sizeof(dir), MPI_CHAR, 0, MPI_COMM_WORLD);
    if (tm_has_arg("destroy")) {
        snprintf(name, sizeof(name), "%s/%%r.json", dir);
        setenv("CCL_TRACE", name, 1);
    }
    stream = tm_stream_create();
    if (tm_has_arg("all")) {
        every_operation();
    } else if (tm_has_arg("overflow")) {
        full_ring();
    } else if (tm_has_arg("destroy")) {
        at_destroy();
    } else {
        off();
    }
    TM_OK(cclStreamDestroy(stream));
    if (tm_rank == 0 && test_failures == 0) {
        snprintf(name, sizeof(name), "rm -rf %s", dir);
        TEST_EQ(system(name), 0);
    }
    return tm_finish();
}
