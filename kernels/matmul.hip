/* SPDX-License-Identifier: MIT
 *
 * Fused matrix products on GPUs with matrix cores: cclAllGatherMatmul, cclMatmulAllGather, and the product behind the all-gather of the sequential form. Tasks are
 * handed out by tickets; order of work and protocol: docs/kernels.md, section 13; cores: gemm.h. Bytes moved: each rank reads the shards of A of all others once
 * (hbm_buffer) or once for each column of tiles that its cache does not hold (baseline); cclMatmulAllGather stores the own rows of C to all ranks once. Addresses
 * are multiples of 16, pitches of 8 elements.
 *
 * Compilers older than clang 17 cannot make buffers: NEEDS __builtin_amdgcn_make_buffer_rsrc */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MATMUL_ALONE /* one thread of a block loads */
#define CCL_DEVICE_SLOW static __device__ __forceinline__ /* with calls in the kernel ptxas finds no registers for the warpgroups that multiply */
#endif
#include "matmul_tasks.h"

/* ISA matmul_*: vgpr 256, sgpr 106, lds 65536, waves 2, mfma 128, age 64, busy 95, epilogue 128
 * ISA matmul_km_*: vgpr 256, sgpr 106, lds 65536, waves 2, mfma 128, age 64, busy 95, epilogue 16
 * ISA matmul_km_kn_*: vgpr 256, sgpr 106, lds 65536, waves 2, mfma 128, age 64, busy 94, epilogue 16
 * ISA matmul_*@gfx950: vgpr 256, sgpr 106, lds 163840, waves 2, mfma 64, age 72, flight 8, busy 95, epilogue 128
 * ISA matmul_km_*@gfx950: vgpr 256, sgpr 106, lds 163840, waves 2, mfma 64, age 72, flight 8, busy 94, epilogue 16 */

#if defined(CCL_ON_NVIDIA) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "matmul_wgmma.h"
#elif defined(CCL_ON_NVIDIA)
#include "matmul_mma.h"
#else
#include "matmul_cdna.h"
#endif
