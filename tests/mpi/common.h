/* SPDX-License-Identifier: MIT
 *
 * Helpers of the tests that mpirun launches: communicators out of MPI communicators, buffers of every kind of
 * memory, data that is a function of (seed, rank, index), exact comparison, agreement of all ranks on the result,
 * and a watchdog that says where each rank hangs. The tests use ccl.h and MPI only, so they run on every backend.
 * MPI is called by the main thread alone. */
#ifndef CCL_TESTS_MPI_COMMON_H
#define CCL_TESTS_MPI_COMMON_H

#include <ccl/ccl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TM_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TM_SANITIZED 1
#endif
#endif
#ifndef TM_SANITIZED
#define TM_SANITIZED 0
#endif

#define TM_GUARD 64    /* bytes checked before and behind every buffer */
#define TM_POISON 0xA5 /* what an output holds before the call */
#define TM_GUARD_BYTE 0x5C

extern int tm_rank, tm_size;     /* of MPI_COMM_WORLD */
extern unsigned long tm_gathers; /* checked so far, printed at the end */

/* ---- start, end ---- */

/* failures, rank: the counters of the test file's test.h, which common.c raises too. Starts MPI and the watchdog. */
void tm_init(int argc, char **argv, int *failures, int *rank);
#define TM_INIT(argc, argv) tm_init(argc, argv, &test_failures, &test_rank)
/* The same without MPI, for programs that make their ranks with fork(). */
void tm_init_plain(int argc, char **argv, int *failures, int *rank);
/* All ranks agree; the exit code of main. */
int tm_finish(void);
/* The program was started with this word among its arguments. */
bool tm_has_arg(const char *word);
/* Seconds from now after which this process prints where it is and dies; CCL_TEST_WATCHDOG in the environment
 * overrides. */
void tm_watchdog(unsigned seconds);
/* What the watchdog prints. */
void tm_at(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Raise the failure count and print (at most 10 lines a rank). */
void tm_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
double tm_now(void); /* seconds, monotonic */
void tm_sleep_ms(unsigned ms);

/* ---- checks of calls ---- */

const char *tm_code(cclResult_t rc); /* "cclSuccess", .. */
bool tm_expect(const char *file, int line, const char *call, cclResult_t got, cclResult_t want);
/* Both continue after a failure; the value is true when the result was the wanted one. */
#define TM_OK(call) tm_expect(__FILE__, __LINE__, #call, (call), cclSuccess)
#define TM_RC(call, want) tm_expect(__FILE__, __LINE__, #call, (call), (want))
/* For calls without which the other ranks would hang: ends the whole job. */
#define TM_MUST(call)                                                    \
    do {                                                                 \
        if (!tm_expect(__FILE__, __LINE__, #call, (call), cclSuccess)) { \
            tm_die();                                                    \
        }                                                                \
    } while (0)
void tm_die(void) __attribute__((noreturn));
/* The last error text of this thread contains needle (letter case does not matter); "a|b": one of them. */
bool tm_text_names(const char *file, int line, const char *needle);
#define TM_TEXT(needle) tm_text_names(__FILE__, __LINE__, (needle))
/* The kernels are interpreted (CCL_BACKEND=emu:ARCH). */
bool tm_is_interpreted(void);
/* A limit of so many seconds, longer under a sanitizer and on interpreted kernels, whose processes share few cores with other tests. */
double tm_limit(double seconds);
/* `what` took less than tm_limit(limit) seconds. */
void tm_within(const char *file, int line, const char *what, double seconds, double limit);
#define TM_WITHIN(what, seconds, limit) tm_within(__FILE__, __LINE__, (what), (seconds), (limit))

/* ---- communicators and streams ---- */

/* Collective over mpi: one libccl communicator of the same ranks. config may be NULL. */
cclComm_t tm_comm_create(MPI_Comm mpi, cclConfig_t *config);
cclStream_t tm_stream_create(void);
/* Make the device of comm the current one, where its streams and buffers belong. */
void tm_use_device_of(cclComm_t comm);
bool tm_backend_is_host(void);

/* ---- data ---- */

struct tm_type {
    cclDataType_t type;
    size_t size;
    const char *name;
};
#define TM_NUM_TYPES 11
extern const struct tm_type tm_types[TM_NUM_TYPES];
/* A type of this size (1, 2, 4, 8); i picks among several. */
const struct tm_type *tm_type_of_size(size_t size, unsigned i);

/* Bytes off..off+bytes-1 of the endless random sequence of (seed, rank). */
void tm_gen(void *dst, size_t off, size_t bytes, uint64_t seed, int rank);
/* data (host memory) holds the sequence of (seed, rank) from byte off on. what: named in the lines printed. */
bool tm_check_data(const void *data, size_t off, size_t bytes, size_t type_size, uint64_t seed, int rank,
                   const char *what);
bool tm_check_bytes(const void *data, size_t bytes, int value, const char *what);
uint64_t tm_random(uint64_t *state);

/* ---- buffers ---- */

enum tm_kind { TM_HEAP, TM_REG, TM_PLAIN, TM_HOST, TM_NUM_KINDS };
extern const char *const tm_kind_names[TM_NUM_KINDS];

struct tm_buf {
    enum tm_kind kind;
    uint8_t *base;
    size_t bytes;
    void *handle; /* of the registration */
    cclComm_t comm;
};

/* Collective over comm for TM_HEAP and (waits until all peers have mapped it) TM_REG, whatever kinds ranks take
 * otherwise. TM_HOST is memory from malloc; on a backend with its own memory it is the same as TM_PLAIN. */
void tm_buf_create(struct tm_buf *buf, cclComm_t comm, enum tm_kind kind, size_t bytes);
void tm_buf_destroy(struct tm_buf *buf);
/* Until every peer can store into ptr, at most 10 s. Local. */
void tm_wait_mapped(cclComm_t comm, const void *ptr);
/* Between the host and a buffer, complete on return; nothing may be enqueued that touches the buffer. */
void tm_put(void *dst, const void *host, size_t bytes);
void tm_get(void *host, const void *src, size_t bytes);
void tm_set(void *dst, int byte, size_t bytes);

/* One all-gather checked from end to end: fills send (guard bytes around it), poisons recv, calls, synchronises,
 * compares every part, the guards and the send buffer. config NULL and variant cclVariantAuto: cclAllGather, else
 * cclAllGather2D with one row. */
struct tm_gather {
    cclComm_t comm;
    cclStream_t stream;
    int rank, n;   /* in comm */
    uint8_t *send; /* has TM_GUARD bytes of the caller's before and behind; ignored when in_place */
    uint8_t *recv; /* the same */
    size_t count;
    const struct tm_type *type;
    uint64_t seed; /* data = f(seed, rank in comm, index) */
    int variant;
    const cclCallConfig_t *config;
    bool in_place;
    bool against_mpi; /* compare with MPI_Allgather over MPI_COMM_WORLD too: comm must have its ranks in its order */
    const char *what;
};
bool tm_gather(const struct tm_gather *g);
/* The three steps of it, for tests that do other things in between. */
void tm_gather_prepare(const struct tm_gather *g);
cclResult_t tm_gather_enqueue(const struct tm_gather *g);
bool tm_gather_verify(const struct tm_gather *g);
/* A gather of count bytes a rank through memory of its own, compared; may be called by several threads at once. */
void tm_gather_once(cclComm_t comm, cclStream_t stream, int rank, int n, size_t count, const char *what);

#endif
