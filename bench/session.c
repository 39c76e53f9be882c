/* SPDX-License-Identifier: MIT
 *
 * The communicator under test, and the agreements between ranks outside of timed regions. Waiting here sleeps between looks,
 * so that a rank that is done early leaves its core to the others. */
#include <stdarg.h>
#include <string.h>

#include "bench.h"

#define TEXT_BYTES 512

void bench_wait(MPI_Request *request)
{
    struct timespec pause = {0, 20000};
    int done = 0;

    for (MPI_Test(request, &done, MPI_STATUS_IGNORE); !done; MPI_Test(request, &done, MPI_STATUS_IGNORE)) {
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 1000000) {
            pause.tv_nsec *= 2;
        }
    }
}

void bench_quiet_barrier(MPI_Comm mpi)
{
    MPI_Request request;
    MPI_Ibarrier(mpi, &request);
    bench_wait(&request);
}

static double reduce(struct bench_session *s, double value, MPI_Op op)
{
    MPI_Request request;
    double result = value;
    MPI_Iallreduce(&value, &result, 1, MPI_DOUBLE, op, s->mpi, &request);
    bench_wait(&request);
    return result;
}

double bench_max(struct bench_session *s, double value)
{
    return reduce(s, value, MPI_MAX);
}

double bench_min(struct bench_session *s, double value)
{
    return reduce(s, value, MPI_MIN);
}

void bench_note(const struct bench_session *s, const char *format, ...)
{
    if (s->rank == 0) {
        char text[2 * TEXT_BYTES];
        va_list ap;
        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        fprintf(stderr, "ccl_bench: %s\n", text); /* one write, because mpirun merges streams as they come */
    }
}

bool bench_agree(struct bench_session *s, cclResult_t rc, const char *what)
{
    char text[TEXT_BYTES] = "";
    MPI_Request request;

    /* The lowest failing rank speaks: it is often the only one that knows the reason. */
    double failing = bench_min(s, rc == cclSuccess ? s->ranks : s->rank);
    int speaker = (int)failing;
    if (speaker == s->ranks) {
        return true;
    }
    if (s->rank == speaker) {
        const char *last = cclGetLastError(s->comm);
        snprintf(text, sizeof(text), "%s: rank %d: %s%s%s", what, s->rank, cclGetErrorString(rc),
                 last[0] != '\0' ? ": " : "", last);
    }
    MPI_Ibcast(text, sizeof(text), MPI_CHAR, speaker, s->mpi, &request);
    bench_wait(&request);
    bench_note(s, "%s", text);
    return false;
}

bool bench_on_host(void)
{
    return strcmp(cclBackendName(), "host") == 0;
}

bool bench_session_open(struct bench_session *s)
{
    cclUniqueId id;
    MPI_Request request;

    memset(&id, 0, sizeof(id));
    if (!bench_agree(s, s->rank == 0 ? cclGetUniqueId(&id) : cclSuccess, "unique id")) {
        return false;
    }
    MPI_Ibcast(&id, sizeof(id), MPI_BYTE, 0, s->mpi, &request);
    bench_wait(&request);
    if (!bench_agree(s, cclCommInitRank(&s->comm, s->ranks, id, s->rank), "communicator")) {
        bench_session_close(s);
        return false;
    }
    if (!bench_agree(s, cclStreamCreate(&s->stream), "stream") || !bench_agree(s, bench_workers_create(s), "threads")) {
        bench_session_close(s);
        return false;
    }
    return true;
}

void bench_session_close(struct bench_session *s)
{
    bench_workers_destroy(s);
    if (s->stream != NULL) {
        cclStreamDestroy(s->stream);
        s->stream = NULL;
    }
    cclCommDestroy(s->comm);
    s->comm = NULL;
}

bool bench_session_check(struct bench_session *s)
{
    cclResult_t async = cclSuccess;
    bool broken = s->comm == NULL || cclCommGetAsyncError(s->comm, &async) != cclSuccess || async != cclSuccess;

    if (bench_max(s, broken) == 0) {
        return true;
    }
    cclCommAbort(s->comm);
    s->comm = NULL;
    bench_workers_destroy(s);
    if (s->stream != NULL) {
        cclStreamDestroy(s->stream);
        s->stream = NULL;
    }
    return false;
}
