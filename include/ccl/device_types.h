/* SPDX-License-Identifier: MIT
 *
 * What cclDeviceComm fills on the host and the functions of ccl/device.h read in a kernel. Plain data: pass it to a kernel by value or lay
 * it in device memory. C99; no other header of libccl is needed. */
#ifndef CCL_DEVICE_TYPES_H
#define CCL_DEVICE_TYPES_H

#include <stdint.h>

#define CCL_SIGNALS 256     /* 64-bit signal words of each rank, for the user's kernels alone; 0 after init */
#define CCL_BARRIERS 16     /* barriers over all ranks that can be in use side by side */
#define CCL_ANY_PEER 0xFFFFFFFFu

/* One rank's view of a communicator. Read rank and n; the other fields belong to ccl/device.h. Addresses are those of this rank's device. */
typedef struct {
    uint32_t size;         /* bytes of this struct */
    uint32_t rank, n;      /* of the communicator */
    uint32_t window_pitch; /* entries of a row of windows */
    uint64_t windows;      /* uint64_t[n + 1][window_pitch]: base of heap chunk id at each rank; row n: bytes of chunk id, [n][0]: ids end */
    uint64_t ctl;          /* uint64_t[n]: control memory of each rank */
    uint64_t pages;        /* uint64_t[n]: host page of each rank */
    uint64_t page;         /* own host page; its first word is not 0 once the communicator has failed */
    uint64_t priv;         /* uint64_t[2][CCL_BARRIERS]: epochs, arrivals; no other rank touches them */
    uint64_t signals;      /* bytes from the start of a rank's control memory to its signal words */
    uint64_t barriers;     /* the same, to its barrier words [CCL_BARRIERS][n] */
    uint32_t word_stride;  /* bytes between two words of these */
    uint32_t dead;         /* bytes from the start of a host page to its bits of dead ranks */
    uint32_t state;        /* bytes from the start of a host page to its 32-bit state, 0 = the rank has not left */
    uint32_t reserved;
} cclDeviceComm_t;

#endif
