/* SPDX-License-Identifier: MIT
 *
 * Order statistics of samples. */
#include <math.h>
#include <stdlib.h>

#include "bench.h"

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int count)
{
    if (count == 0) {
        return 0;
    }
    qsort(values, (size_t)count, sizeof(*values), compare_doubles);
    return count % 2 != 0 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

double bench_percentile(double *values, int count, double percent)
{
    if (count == 0) {
        return 0;
    }
    qsort(values, (size_t)count, sizeof(*values), compare_doubles);
    int at = (int)ceil(percent / 100 * count) - 1;
    return values[at < 0 ? 0 : at];
}

void bench_summarise(double *slowest, double *skew, int count, struct bench_result *result)
{
    result->time_us = bench_median(slowest, count); /* sorts */
    result->min_us = slowest[0];
    result->p99_us = bench_percentile(slowest, count, 99);
    result->skew_us = bench_median(skew, count);
}
