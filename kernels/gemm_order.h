/* SPDX-License-Identifier: MIT
 *
 * Order in which the blocks of a GEMM walk its output tiles. Plain arithmetic, so that host tests and kernels share it.
 *
 * The hardware deals blocks round robin over the XCDs (block b runs on XCD b % xcds), and each XCD has an L2 of its own. So block numbers are regrouped
 * first: every XCD gets one contiguous run of tiles. In a run the tiles go group_m rows down before they go one column to the right,
 * which keeps a patch of few rows and few columns in that L2. A bijection for all tiles_m, tiles_n, xcds, group_m >= 1 with less than 2^32 tiles. */
#ifndef CCL_GEMM_ORDER_H
#define CCL_GEMM_ORDER_H

#include "ccl/device.h"

struct gemm_place {
    uint32_t m, n; /* tile row and column */
};

CCL_DEVICE struct gemm_place gemm_order(uint32_t number, uint32_t tiles_m, uint32_t tiles_n, uint32_t xcds, uint32_t group_m)
{
    uint32_t total = tiles_m * tiles_n, xcd = number % xcds, more = total % xcds; /* the first `more` XCDs own a tile more than the others */
    uint32_t logical = xcd * (total / xcds) + (xcd < more ? xcd : more) + number / xcds;
    uint32_t rows_wanted = group_m < tiles_m ? group_m : tiles_m; /* group_m * tiles_n must not overflow */
    uint32_t patch = rows_wanted * tiles_n, first = logical / patch * rows_wanted, within = logical % patch;
    uint32_t rows = tiles_m - first < rows_wanted ? tiles_m - first : rows_wanted;
    struct gemm_place place = {first + within % rows, within / rows};
    return place;
}

#endif
