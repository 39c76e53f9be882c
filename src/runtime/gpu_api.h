/* SPDX-License-Identifier: MIT
 *
 * The GPU runtime of this machine as one table of function pointers, filled once by dlopen: the HIP runtime on AMD, the CUDA driver on
 * NVIDIA. Shared by the files runtime_gpu.c and gpu_*.c; nothing else in src/ includes it. */
#ifndef CCL_GPU_API_H
#define CCL_GPU_API_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/runtime.h"

struct ccl_gpu_ipc { /* hipIpcMemHandle_t, CUipcMemHandle */
    char bytes[64];
};

enum ccl_gpu_vendor { CCL_GPU_NONE, CCL_GPU_AMD, CCL_GPU_NVIDIA };

struct ccl_gpu_api {
    enum ccl_gpu_vendor vendor;
    const char *library; /* soname that was loaded */
    void *emulator;      /* CCL_BACKEND=emu:ARCH: its library, which has HIP's and HSA's calls; else NULL */
    const char *(*hip_error_text)(int error); /* AMD only: these two return text, unlike all rows */
    const char *(*hip_error_symbol)(int error);
#define CCL_GPU(field, hip, cuda, params) int(*field) params;
#define CCL_HIP(field, hip, params) int(*field) params;
#define CCL_CUDA(field, cuda, params) int(*field) params;
#include "runtime/gpu_api.def"
};

/* Filled by ccl_gpu_api_load, constant afterwards. */
extern struct ccl_gpu_api ccl_gpu;

/* Find and open a runtime, once. cclSystemError: neither library is here, or it lacks a symbol (named). CUDA is tried first where its driver
 * reports a device, then HIP. */
cclResult_t ccl_gpu_api_load(void);
/* The same without an error: NULL, or why there is none. Not thorough: HIP, whose loading takes 0.1 s, is left alone where the kernel has no AMD GPU. */
const char *ccl_gpu_api_try(bool thorough);
/* Take the HIP runtime in this library, and no other. NULL, or the call that it lacks or the one that fails; *error: its code, 0: lacking. */
const char *ccl_gpu_api_adopt(void *library, const char *name, int *error);
/* The runtime is HIP before 6: some flags of its own differ (gpu_constants.h). */
cclResult_t ccl_gpu_before_hip6(bool *before);
/* Log and return cclUnhandledDeviceError (out of memory: cclSystemError) with the call's name, the code, its symbol and text. */
cclResult_t ccl_gpu_failed(int error, const char *call);

#define CCL_GPU_TRY(field, ...)                       \
    do {                                              \
        int gpu_error_ = ccl_gpu.field(__VA_ARGS__);  \
        if (CCL_UNLIKELY(gpu_error_ != 0)) {          \
            return ccl_gpu_failed(gpu_error_, #field); \
        }                                             \
    } while (0)

#endif
