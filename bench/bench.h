/* SPDX-License-Identifier: MIT
 *
 * Types and functions shared by the files of ccl_bench, grouped by the file that defines them. The bench uses the public API
 * and MPI only. Rules: rank 0 prints; every function marked collective is called by all ranks of the session; nothing but the
 * calls under test runs inside a timed region; a rank that waits for others outside of timed regions sleeps, because ranks may
 * outnumber cores. */
#ifndef CCL_BENCH_H
#define CCL_BENCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "ccl/ccl.h"

#define BENCH_AUTO (-1)      /* axis value "auto": the library chooses */
#define BENCH_PEERS_ALL (-2) /* --peers-per-wait all: the world size */
#define BENCH_MIN_ROUNDS 5
#define BENCH_CHUNK ((size_t)1 << 20) /* bytes filled or checked at a time */
#define BENCH_MAX_WORKERS 16

enum bench_mode { BENCH_EAGER, BENCH_BATCH, BENCH_GRAPH };
enum bench_buffer_kind { BENCH_HEAP, BENCH_REGISTERED, BENCH_PLAIN };
enum bench_format { BENCH_TABLE, BENCH_CSV, BENCH_JSON };
enum bench_b_layout { BENCH_B_KN, BENCH_B_NK };
enum bench_baseline { BENCH_BASELINE_NONE, BENCH_BASELINE_MPI, BENCH_BASELINE_NCCL };

static inline double bench_now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

/* ---- parse.c: values of options ---- */

struct bench_name {
    const char *name;
    int value;
};

struct bench_list {
    long long *values;
    int count, capacity;
};

extern const struct bench_name bench_algorithms[], bench_b_layouts[], bench_gathers[], bench_dtypes[], bench_variants[], bench_modes[], bench_kinds[], bench_formats[],
    bench_baselines[];

/* Each parser appends to or replaces *out; false with a reason in why (what is wrong, without the option's name). */
bool bench_parse_size(const char *text, size_t length, long long *out, char *why, size_t why_size);
bool bench_parse_sizes(const char *text, struct bench_list *out, char *why, size_t why_size);
bool bench_parse_integers(const char *text, struct bench_list *out, long long low, long long high, char *why,
                          size_t why_size);
bool bench_parse_names(const char *text, const struct bench_name *names, struct bench_list *out, char *why,
                       size_t why_size);
bool bench_parse_tiles(const char *text, struct bench_list *out, char *why, size_t why_size);
bool bench_list_add(struct bench_list *list, long long value);
const char *bench_name_of(const struct bench_name *names, int value);
size_t bench_dtype_bytes(int dtype);

/* ---- options.c ---- */

struct bench_options {
    struct bench_list depth, gather, algorithm, fetch_sms, k_per_flag; /* of matrix products */
    struct bench_list ranks, bytes, rows, columns, dtype, comm_sms, tile, peers_per_wait, buffers, mode, variant;
    long long leading, warmup, iters, rounds, batch, seed;
    double min_time_s, max_time_s;
    int format, baseline, b_layout;
    bool in_place, progress, corrupt, help;
    const char *operation, *out, *device, *nccl;
};

/* Fill *options from the command line. False: a message naming option and value was printed (when speak is set). */
bool bench_options_parse(struct bench_options *options, int argc, char **argv, bool speak);
void bench_options_free(struct bench_options *options);
void bench_help(FILE *to);

/* ---- session.c: the communicator under test ---- */

struct bench_worker {
    cclStream_t stream;
    unsigned char *stage, *expect; /* BENCH_CHUNK bytes each */
};

struct bench_session {
    MPI_Comm mpi; /* the ranks that take part */
    int rank, ranks;
    cclComm_t comm; /* NULL after an abort */
    void *nccl;     /* the baseline's communicator, NULL without one */
    cclStream_t stream;
    uint64_t fills; /* times the buffers got new data */
    int device, worker_count;
    struct bench_worker workers[BENCH_MAX_WORKERS];
};

/* Collective: make communicator and stream; false when any rank failed (the reason was printed). */
bool bench_session_open(struct bench_session *s);
void bench_session_close(struct bench_session *s);
/* Collective: after a failed configuration. Leaves a healthy communicator alone; otherwise aborts it on all ranks (s->comm becomes
 * NULL). True when s->comm is still usable. */
bool bench_session_check(struct bench_session *s);
/* Collective: true when rc is cclSuccess on every rank; else rank 0 prints what the first failing rank says. */
bool bench_agree(struct bench_session *s, cclResult_t rc, const char *what);
/* Collective barriers and reductions that sleep while they wait. */
void bench_wait(MPI_Request *request);
void bench_quiet_barrier(MPI_Comm mpi);
double bench_max(struct bench_session *s, double value);
double bench_min(struct bench_session *s, double value);
void bench_note(const struct bench_session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The backend's kernels are C functions: no graphs, and device memory is the machine's. */
bool bench_on_host(void);

/* ---- workers.c: threads for large buffers ---- */

/* Bytes off.. of a buffer; wrong: count of wrong bytes, added to. */
typedef cclResult_t (*bench_chunk_fn)(void *ctx, struct bench_worker *worker, size_t off, size_t length, long long *wrong);
cclResult_t bench_workers_create(struct bench_session *s);
void bench_workers_destroy(struct bench_session *s);
/* Run body for every chunk of bytes, on this rank's threads. Returns the first error; *wrong (may be NULL) gets the sum. */
cclResult_t bench_chunks(struct bench_session *s, size_t bytes, bench_chunk_fn body, void *ctx, long long *wrong);

/* ---- sweep.c: axes to configurations ---- */

struct bench_op;
struct bench_config {
    const struct bench_op *op;
    int dtype, mode, buffers, variant, comm_sms, peers_per_wait;
    int tile_m, tile_n; /* BENCH_AUTO: the library chooses */
    size_t m, n, ld;    /* rows per rank, columns, row pitch: elements */
    size_t part_bytes;  /* m * n elements: what one rank contributes (S in the formulas) */
    bool two_d;         /* asked for by M and N, so cclAllGather2D */
    bool in_place;
};

/* Run every combination of the axes. Collective over MPI_COMM_WORLD. Returns the exit status: 0, or 1 for wrong bytes or errors. */
int bench_sweep(const struct bench_op *op, const struct bench_options *options);

/* ---- pattern.c: random data that can be recomputed ---- */

/* Bytes off.. of the stream named by seed and source. Every byte depends on all three; none is 0. */
void bench_pattern(unsigned char *dst, size_t length, uint64_t seed, int source, size_t off);
uint64_t bench_mix(uint64_t value);

/* ---- buffers.c ---- */

struct bench_buffers {
    const struct bench_config *config;
    const struct bench_session *session;
    uint64_t seed;
    unsigned char *send, *recv; /* device memory; send lies inside recv when in place */
    void *send_handle, *recv_handle;
    size_t send_bytes, recv_bytes;        /* physical, with the gaps between rows */
    unsigned char *base_send, *base_recv; /* the baseline's, NULL without one */
    size_t base_send_bytes, base_recv_bytes; /* packed */
    bool corrupt;                         /* flip one byte before each check */
};

/* Collective. On failure of any rank all are left without buffers, and the reason was printed. */
bool bench_buffers_create(struct bench_buffers *b, struct bench_session *s, const struct bench_config *config,
                          bool with_baseline);
/* Collective while the communicator lives; after an abort it frees what is not the communicator's. */
void bench_buffers_destroy(struct bench_buffers *b, struct bench_session *s);
/* Fresh data under a new seed; the receive buffers become 0, which no byte of data is, so that a byte that is not written always
 * counts as wrong. Local. */
cclResult_t bench_buffers_fill(struct bench_buffers *b, struct bench_session *s, uint64_t seed);
/* Count wrong bytes of the receive buffer, gaps between rows included. Local. */
cclResult_t bench_buffers_check(struct bench_buffers *b, struct bench_session *s, long long *wrong);
long long bench_buffers_check_baseline(struct bench_buffers *b);
/* Memory of all ranks together, bytes. */
double bench_buffers_need(const struct bench_config *config, int ranks, bool with_baseline);

/* ---- limit.c ---- */

/* Collective: the yardstick in GB/s, bytes read + written per second. Host backend: a plain copy by all ranks at once with the working
 * set of a collective of part_bytes; 0 where that set fits the L2 caches, or memory is short. The last result is kept. Else: the
 * device's own copy of 256 MiB, by rank 0 while the others are idle, measured once. */
double bench_limit_gbps(struct bench_session *s, size_t part_bytes);

/* ---- measure.c ---- */

/* One of the two things measured against each other. */
struct bench_side {
    const char *name;
    cclResult_t (*issue)(void *ctx);
    cclResult_t (*wait)(void *ctx); /* NULL: issue blocks by itself */
    void *ctx;
    bool same_buffers; /* a baseline that works on the buffers of libccl's calls */
};

struct bench_result {
    double time_us, min_us, p99_us, skew_us; /* of the side libccl; 0 when nothing was measured */
    double host_us, baseline_us;             /* 0: does not apply */
    double limit_gbps;
    long long errors; /* wrong bytes of all ranks; -1: never checked */
};

/* Collective: measure one configuration on filled buffers. False when it failed; the reason was printed. */
bool bench_measure(struct bench_session *s, const struct bench_options *options, struct bench_buffers *buffers,
                   const struct bench_side *ours, const struct bench_side *baseline, struct bench_result *result);

/* Steps of it, collective. The first call of a configuration, on its own: a refusal is seen by all ranks before any goes on, and a
 * refusal by all leaves the communicator usable. */
bool bench_first_call(struct bench_session *s, const struct bench_side *side);
/* Fresh data on all ranks; every received byte of all ranks, added to result->errors. bench_check_theirs: after calls of a baseline on the same buffers; false,
 * and printed, when a byte is wrong. */
bool bench_fill(struct bench_session *s, const struct bench_options *options, struct bench_buffers *b);
bool bench_check(struct bench_session *s, struct bench_buffers *b, struct bench_result *result);
bool bench_check_theirs(struct bench_session *s, struct bench_buffers *b, const char *name);

/* ---- measure_graph.c ---- */

/* Collective: the same for calls captured into a graph, whose launches are timed. baseline: NULL, or one on the same buffers. */
bool bench_measure_graph(struct bench_session *s, const struct bench_options *options, struct bench_buffers *buffers,
                         const struct bench_side *ours, const struct bench_side *baseline, struct bench_result *result);

/* ---- nccl.c: the baseline nccl ---- */

/* Collective: load the library (once) and make a communicator of the session's ranks on the current device. False when any rank failed; printed. */
bool bench_nccl_open(struct bench_session *s, const char *file);
void bench_nccl_close(struct bench_session *s, bool broken);
/* Name and version of the loaded library. */
const char *bench_nccl_name(void);
bool bench_nccl_can(const struct bench_config *config);
cclResult_t bench_nccl_issue(void *ctx); /* ctx: struct bench_call */

/* ---- stats.c ---- */

double bench_median(double *values, int count);                     /* sorts; 0 when empty */
double bench_percentile(double *values, int count, double percent); /* sorts; nearest rank */
/* time_us, min_us, p99_us and skew_us of count > 0 samples: the slowest rank of each, and the slowest less the fastest. Sorts both. */
void bench_summarise(double *slowest, double *skew, int count, struct bench_result *result);

/* ---- report.c ---- */

struct bench_row {
    const char *op;
    int ranks;
    bool has_shape; /* an operation that moves data */
    struct bench_config config;
    cclCallConfig_t effective; /* fields CCL_UNSET where unknown */
    struct bench_result result;
    const char *baseline; /* NULL: none */
    double alg_factor, bus_factor, traffic_bytes;
};

/* A row of keys of its own. */
struct bench_pair {
    const char *key;
    int kind; /* of report.c */
    char text[160];
};
void bench_pairs_head(struct bench_pair *pairs, int *count, const char *op, int ranks); /* op, backend, device, commit, ranks */
void bench_pair_text(struct bench_pair *pairs, int *count, const char *key, const char *text); /* NULL: null */
void bench_pair_integer(struct bench_pair *pairs, int *count, const char *key, long long value, bool applies);
void bench_pair_real(struct bench_pair *pairs, int *count, const char *key, double value, bool applies);
void bench_report_pairs(const struct bench_pair *pairs, int count);
/* A line as it is: to --out, or to stdout. */
void bench_report_raw(const char *line);

/* Rank 0 only. Opens --out and prints the head. False: the file cannot be written (printed). */
bool bench_report_open(const struct bench_options *options, int world);
void bench_report_row(const struct bench_row *row);
bool bench_report_close(void);
void bench_report_progress(const struct bench_options *options, int done, int total, const char *what);

/* ---- op_*.c: one descriptor a collective ---- */

struct bench_op {
    const char *name, *summary;
    /* Operations that move data: enqueue one call; ctx is struct bench_call. */
    cclResult_t (*issue)(void *ctx);
    cclResult_t (*baseline)(void *ctx);
    bool (*has_baseline)(const struct bench_config *config); /* NULL: always */
    /* Beside all-gather: parts of S bytes in the send and receive buffer, and what bytes off.. of them hold before and after a call (0: untouched). */
    double (*parts_in)(int ranks), (*parts_out)(int ranks);
    void (*input)(const struct bench_buffers *b, unsigned char *dst, size_t off, size_t length);
    void (*output)(const struct bench_buffers *b, unsigned char *dst, size_t off, size_t length);
    double (*alg_factor)(int ranks);                       /* algbw = alg_factor * S / time; NULL: ranks */
    double (*bus_factor)(int ranks);                       /* busbw = bus_factor * S / time */
    double (*traffic_bytes)(int ranks, double part_bytes); /* read + written by all ranks, for fraction */
    /* Other operations measure themselves. Returns the exit status. */
    int (*run)(const struct bench_options *options);
};

struct bench_call {
    struct bench_buffers *buffers;
    struct bench_session *session;
    const struct bench_config *config;
    cclCallConfig_t call;
    bool with_config; /* call has a field that is set */
};

extern const struct bench_op bench_op_all_gather, bench_op_init, bench_op_all_reduce, bench_op_reduce_scatter, bench_op_reduce, bench_op_broadcast,
    bench_op_all_to_all, bench_op_all_to_all_v, bench_op_gather, bench_op_scatter, bench_op_sendrecv, bench_op_all_gather_matmul, bench_op_matmul_all_gather, bench_op_tune;
/* All of them, NULL behind the last. */
extern const struct bench_op *const bench_operations[];

#endif
