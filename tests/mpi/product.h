/* SPDX-License-Identifier: MIT
 *
 * Matrices for the tests of fused products: 16-bit floats that are a function of (seed, rank, index), approximately normal; a float64 reference; and comparison within a
 * bound that follows from the type: half a unit in the last place of the result, and one rounding in 2^24 for each of k + 2 additions of the magnitudes. */
#ifndef CCL_TESTS_MPI_PRODUCT_H
#define CCL_TESTS_MPI_PRODUCT_H

#include "common.h"

struct tp_case {
    cclMatmulDesc_t desc;
    uint64_t seed;
    bool b_differs; /* each rank has its own B and bias */
};

double tp_value(cclDataType_t type, uint16_t bits);
/* Elements that the matrices of this rank take, pads included. */
size_t tp_a_elements(const struct tp_case *t);
size_t tp_b_elements(const struct tp_case *t);
size_t tp_c_elements(const struct tp_case *t);
size_t tp_bias_elements(const struct tp_case *t);
/* What rank's A, B and bias hold; pads are NaN. */
void tp_fill_a(const struct tp_case *t, int rank, uint16_t *a);
void tp_fill_b(const struct tp_case *t, int rank, uint16_t *b);
void tp_fill_bias(const struct tp_case *t, int rank, uint16_t *bias);
/* c: host memory, of this rank; elements behind the rows' ends hold TM_POISON. False: prints and counts a failure. */
bool tp_verify(const struct tp_case *t, int ranks, int rank, const uint16_t *c, const char *what);
/* Largest error so far in units of the bound, over all calls of tp_verify. */
extern double tp_worst;

#endif
