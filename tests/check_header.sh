#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Proves that the public headers are C99 and C++ without a warning, each as the only include of a file, and that device.h is accepted by the GPU
# compilers that are here: clang for AMD without HIP's headers (both halves of a HIP file), nvcc. The kernels of docs/examples compile too.
# Usage: check_header.sh INCLUDE_DIR CC
set -eu
include=$1
cc=$2
examples=$include/../docs/examples
warnings="-Wall -Wextra -pedantic-errors -Werror"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/ccl.c" <<'END'
#include "ccl/ccl.h"
int use(void);
int use(void)
{
    cclCallConfig_t call = CCL_CALL_CONFIG_INITIALIZER;
    cclConfig_t config = CCL_CONFIG_INITIALIZER;
    cclDeviceComm_t dev;
    int version = 0;
    return (int)cclDeviceComm(0, &dev) + (int)cclGetVersion(&version) + call.tile_m + config.max_blocks;
}
END
cat >"$dir/device.c" <<'END'
#include "ccl/device.h"
int use(const cclDeviceComm_t *dev, void *p, uint64_t *word);
int use(const cclDeviceComm_t *dev, void *p, uint64_t *word)
{
    cclBlock_t b = ccl_host_block(0, 1);
    ccl_put_release_block_system(b, ccl_translate(dev, p, 1), p, 16);
    ccl_signal_set_block_system(b, ccl_signal(dev, 1, 0), ccl_atomic_cas_acq_rel_system_u64(word, 0, 1));
    return (int)ccl_wait_ge_acquire_system(dev, ccl_signal(dev, 0, 0), 1, CCL_ANY_PEER) +
           (int)ccl_barrier_grid_system(dev, b, 0);
}
END
cat >"$dir/kernel.hip" <<'END'
#include "ccl/ccl.h"
#include "ccl/device.h"
#if defined(__CUDACC__)
extern "C" __global__
#else
extern "C" __attribute__((global))
#endif
void use(cclDeviceComm_t dev, char *p, uint64_t *word, uint32_t *half, uint64_t bytes)
{
    cclBlock_t b = ccl_this_block();
    ccl_put_block(b, ccl_translate(&dev, p, 1), p, bytes);
    ccl_signal_add_block_system(b, ccl_signal(&dev, 1, 0), 1);
    *half = ccl_wait_eq_block_system(&dev, b, ccl_signal(&dev, dev.rank, 0), 1, 1);
    *half |= ccl_barrier_block_system(&dev, b, 0) | ccl_barrier_grid_system(&dev, b, 1);
    ccl_get_block(b, p, ccl_translate(&dev, p, 1), bytes);
    *word = ccl_atomic_add_acq_rel_system_u64(word, 1) + ccl_atomic_cas_release_agent_u64(word, 1, 2) +
            ccl_atomic_xor_acquire_system_u64(word, 1);
    *half = ccl_atomic_or_acq_rel_agent_u32(half, 1) + ccl_atomic_and_relaxed_system_u32(half, 1) +
            ccl_atomic_exchange_release_system_u32(half, 1);
}
END
cat >"$dir/nccl.c" <<'END'
#include "nccl.h"
typedef struct CUstream_st *cudaStream_t; /* as CUDA's header does it */
int use(void);
int use(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;
    ncclUniqueId id;
    ncclComm_t comm = NCCL_COMM_NULL;
    cudaStream_t stream = NULL;
    ncclResult_t rc = ncclGetUniqueId(&id);
    return (int)rc + (int)ncclCommInitRankConfig(&comm, 1, id, 0, &config) + (int)ncclGroupSimulateEnd(&sim) +
           (int)pncclAllReduce(NULL, NULL, 0, ncclFloat8e5m2, ncclAvg, comm, stream);
}
END
cat >"$dir/rccl.c" <<'END'
#include "rccl/rccl.h"
int use(hipStream_t stream);
int use(hipStream_t stream)
{
    return (int)ncclAllToAll(NULL, NULL, 0, ncclBfloat16, NULL, stream);
}
END
cp "$dir/nccl.c" "$dir/nccl.cc"
cp "$dir/rccl.c" "$dir/rccl.cc"
cp "$dir/ccl.c" "$dir/ccl.cc"
cp "$dir/device.c" "$dir/device.cc"

for std in c99 c11; do
    for header in ccl device; do
        # shellcheck disable=SC2086
        "$cc" -std=$std $warnings -Wstrict-prototypes -I"$include" -fsyntax-only "$dir/$header.c"
    done
    # shellcheck disable=SC2086
    "$cc" -std=$std $warnings -Wstrict-prototypes -I"$include/compat" -fsyntax-only "$dir/rccl.c"
    if [ $std = c11 ]; then # where a typedef may be repeated
        # shellcheck disable=SC2086
        "$cc" -std=$std $warnings -Wstrict-prototypes -I"$include/compat" -fsyntax-only "$dir/nccl.c"
    fi
    echo "$std: clean"
done

# The first of these compilers that is here.
first() {
    for name in "$@"; do
        if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1; then
            echo "$name"
            return
        fi
    done
}

clang=$(first clang-22 clang-23 clang-24 clang-25 clang-26 /opt/rocm/llvm/bin/clang)
if [ -n "$clang" ]; then
    hip="-x hip -O3 -nogpulib -nogpuinc -std=c++17 -Wall -Wextra -Werror -DOWN_KERNEL_DEVICE_ONLY -I$include"
    for arch in gfx90a gfx942 gfx950 gfx1100 gfx1201 gfx1250; do
        for source in "$dir/kernel.hip" "$examples"/*.hip; do
            # shellcheck disable=SC2086
            "$clang" $hip --cuda-device-only --no-gpu-bundle-output --offload-arch=$arch -S -o "$dir/kernel.s" "$source"
            if grep -E '^[[:space:]]*(flat|scratch)_(load|store|atomic)|private_segment_fixed_size: *[1-9]' "$dir/kernel.s"; then
                echo "$arch: $source uses flat or scratch accesses"
                exit 1
            fi
        done
    done
    # shellcheck disable=SC2086
    "$clang" $hip --cuda-host-only --offload-arch=gfx942 -fsyntax-only "$dir/kernel.hip"
    echo "AMD: clean ($clang)"
fi
nvcc=$(first nvcc /usr/local/cuda/bin/nvcc)
if [ -n "$nvcc" ]; then
    for source in "$dir/kernel.hip" "$examples"/*.hip; do
        "$nvcc" -cubin -x cu -O3 -std=c++17 -arch=sm_90 -Werror all-warnings -DOWN_KERNEL_DEVICE_ONLY -I"$include" \
            -o "$dir/kernel.cubin" "$source"
    done
    echo "NVIDIA: clean ($nvcc)"
fi

cxx=$(first "${CXX:-}" c++ g++ clang++ clang++-22)
if [ -z "$cxx" ]; then
    echo "SKIPPED: C99 is clean, no C++ compiler to try the headers with"
    exit 77
fi
for std in c++11 c++17; do
    for header in ccl device; do
        # shellcheck disable=SC2086
        "$cxx" -std=$std $warnings -I"$include" -fsyntax-only "$dir/$header.cc"
    done
    for header in nccl rccl; do
        # shellcheck disable=SC2086
        "$cxx" -std=$std $warnings -I"$include/compat" -fsyntax-only "$dir/$header.cc"
    done
    echo "$std: clean ($cxx)"
done
