/* SPDX-License-Identifier: MIT
 *
 * What the tests of fused products share: cases by shape, and a call from end to end in buffers of every kind. */
#ifndef CCL_TESTS_MPI_PRODUCT_CALL_H
#define CCL_TESTS_MPI_PRODUCT_CALL_H

#include "product.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define LARGEST ((size_t)1 << 20) /* bytes of a matrix */

struct shape {
    size_t rows, n, cols; /* rows x cols is A of a rank, or all of m, n, k but for the gathered size */
    size_t pad;           /* multiples of 8 elements behind the rows */
};

/* algorithm, layout, fetch; the last one is for shards of rows only. */
#define TP_WAYS 6
extern const int tp_ways[TP_WAYS][3];

extern cclComm_t tp_comm;
extern cclStream_t tp_stream;
extern struct tm_buf tp_a[TM_NUM_KINDS], tp_c[TM_NUM_KINDS], tp_b, tp_bias; /* c has room for TM_GUARD bytes behind LARGEST */
extern uint16_t *tp_host;         /* what tp_fetch_and_verify has read */
extern uint64_t tp_seed;          /* of the last case */
extern unsigned long tp_products; /* verified */

/* GPUs read A where it lies for shards of rows only. */
bool tp_has_way(int gather, const int *way);
/* Collective: communicator, stream, buffers. */
void tp_open(void);
void tp_close(void);
/* gather, type, layout of B and bias change with the turn; each case has other data. */
struct tp_case tp_make_case(const struct shape *s, int gather, unsigned turn);
/* Inputs of this rank; c holds TM_POISON. */
void tp_upload(const struct tp_case *t, struct tm_buf *a, struct tm_buf *c);
cclResult_t tp_call(const struct tp_case *t, struct tm_buf *a, struct tm_buf *c, cclMatmulWorkspace_t ws, const cclCallConfig_t *config);
/* The result is right, and behind it nothing was touched. */
bool tp_fetch_and_verify(const struct tp_case *t, struct tm_buf *c, const char *what);

#endif
