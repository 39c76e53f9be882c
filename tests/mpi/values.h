/* SPDX-License-Identifier: MIT
 *
 * Numbers of every type for the tests of reductions: written and read independently of the library, by the definition of each format. */
#ifndef CCL_TESTS_MPI_VALUES_H
#define CCL_TESTS_MPI_VALUES_H

#include "common.h"

enum { TV_SUM, TV_PROD, TV_MAX, TV_MIN, TV_AVG, TV_PREMUL, TV_NUM_OPS };
extern const char *const tv_op_names[TV_NUM_OPS];
struct tv_type {
    cclDataType_t type;
    const char *name;
    size_t size;
};
extern const struct tv_type tv_types[cclNumTypes]; /* by cclDataType_t */

/* The nearest value of the type, even ones in doubt; integers wrap. */
void tv_put(cclDataType_t type, void *to, double value);
double tv_get(cclDataType_t type, const void *from);
/* Element index of rank's input: whole numbers whose results are exact before the last rounding in every type. */
double tv_value(cclDataType_t type, int op, uint64_t seed, int rank, size_t index);
/* What rank multiplies with, op TV_PREMUL. */
double tv_scalar(int rank);
/* The result of n ranks. */
double tv_result(cclDataType_t type, int op, uint64_t seed, int n, size_t index);

#endif
