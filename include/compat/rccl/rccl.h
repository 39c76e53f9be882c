/* SPDX-License-Identifier: MIT
 *
 * The same under RCCL's name: streams are hipStream_t, and RCCL's feature macros are set. */
#ifndef CCL_COMPAT_RCCL_H
#define CCL_COMPAT_RCCL_H

#define CCL_COMPAT_HIP 1
#define RCCL_BFLOAT16 1
#define RCCL_FLOAT8 1
#define RCCL_GATHER_SCATTER 1
#define RCCL_ALLTOALLV 1

#include "../nccl.h"

#endif
