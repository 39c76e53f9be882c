/* SPDX-License-Identifier: MIT
 *
 * Proves that the CUDA column of gpu_api.def, and the CUDA numbers and structs of gpu_constants.h, agree with NVIDIA's header: every symbol is what the header maps the
 * call to, or, where the header has gone on to a newer version, has the signature of the version that the row names. */
/* CTEST: labels quick */
#if __has_include(<cuda.h>)
#include "gpu_headers.h"
#include <cuda.h>
#include <cudaTypedefs.h>

static const struct gpu_row our_rows[] = {
#define CCL_GPU(field, hip, cuda, params) {#field, cuda, OUR_PARAMS params},
#define CCL_HIP(field, hip, params)
#define CCL_CUDA(field, cuda, params) {#field, cuda, OUR_PARAMS params},
#include "runtime/gpu_api.def"
    {NULL, NULL, {0}, {0}}};

/* What NVIDIA declares, with its own type names; the compiler proves below that it is so. */
#define CUDA_ROWS(X)                                                                                                    \
    X(init, cuInit, unsigned int)                                                                                       \
    X(driver_version, cuDriverGetVersion, int *)                                                                        \
    X(device_count, cuDeviceGetCount, int *)                                                                            \
    X(device_handle, cuDeviceGet, CUdevice *, int)                                                                      \
    X(device_name, cuDeviceGetName, char *, int, CUdevice)                                                              \
    X(device_attribute, cuDeviceGetAttribute, int *, CUdevice_attribute, CUdevice)                                      \
    X(device_uuid, cuDeviceGetUuid, CUuuid *, CUdevice)                                                                 \
    X(device_pci, cuDeviceGetPCIBusId, char *, int, CUdevice)                                                           \
    X(can_access_peer, cuDeviceCanAccessPeer, int *, CUdevice, CUdevice)                                                \
    X(primary_retain, cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)                                                  \
    X(ctx_set, cuCtxSetCurrent, CUcontext)                                                                              \
    X(ctx_get, cuCtxGetCurrent, CUcontext *)                                                                            \
    X(ctx_device, cuCtxGetDevice, CUdevice *)                                                                           \
    X(ctx_enable_peer, cuCtxEnablePeerAccess, CUcontext, unsigned int)                                                  \
    X(error_text, cuGetErrorString, CUresult, const char **)                                                            \
    X(error_symbol, cuGetErrorName, CUresult, const char **)                                                            \
    X(mem_alloc, cuMemAlloc, CUdeviceptr *, size_t)                                                                     \
    X(mem_free, cuMemFree, CUdeviceptr)                                                                                 \
    X(copy, cuMemcpyAsync, CUdeviceptr, CUdeviceptr, size_t, CUstream)                                                  \
    X(copy_2d, cuMemcpy2DAsync, const CUDA_MEMCPY2D *, CUstream)                                                        \
    X(fill, cuMemsetD8Async, CUdeviceptr, unsigned char, size_t, CUstream)                                              \
    X(host_register, cuMemHostRegister, void *, size_t, unsigned int)                                                   \
    X(host_unregister, cuMemHostUnregister, void *)                                                                     \
    X(host_device_pointer, cuMemHostGetDevicePointer, CUdeviceptr *, void *, unsigned int)                              \
    X(address_range, cuMemGetAddressRange, CUdeviceptr *, size_t *, CUdeviceptr)                                        \
    X(pointer_attribute, cuPointerGetAttribute, void *, CUpointer_attribute, CUdeviceptr)                               \
    X(ipc_export, cuIpcGetMemHandle, CUipcMemHandle *, CUdeviceptr)                                                     \
    X(ipc_import, cuIpcOpenMemHandle, CUdeviceptr *, CUipcMemHandle, unsigned int)                                      \
    X(ipc_close, cuIpcCloseMemHandle, CUdeviceptr)                                                                      \
    X(vmm_granularity, cuMemGetAllocationGranularity, size_t *, const CUmemAllocationProp *,                            \
      CUmemAllocationGranularity_flags)                                                                                 \
    X(vmm_create, cuMemCreate, CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long) \
    X(vmm_release, cuMemRelease, CUmemGenericAllocationHandle)                                                          \
    X(vmm_export, cuMemExportToShareableHandle, void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType,        \
      unsigned long long)                                                                                               \
    X(vmm_import, cuMemImportFromShareableHandle, CUmemGenericAllocationHandle *, void *, CUmemAllocationHandleType)    \
    X(vmm_reserve, cuMemAddressReserve, CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long)                 \
    X(vmm_unreserve, cuMemAddressFree, CUdeviceptr, size_t)                                                             \
    X(vmm_map, cuMemMap, CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)                 \
    X(vmm_unmap, cuMemUnmap, CUdeviceptr, size_t)                                                                       \
    X(vmm_access, cuMemSetAccess, CUdeviceptr, size_t, const CUmemAccessDesc *, size_t)                                 \
    X(stream_create, cuStreamCreate, CUstream *, unsigned int)                                                          \
    X(stream_destroy, cuStreamDestroy, CUstream)                                                                        \
    X(stream_sync, cuStreamSynchronize, CUstream)                                                                       \
    X(stream_query, cuStreamQuery, CUstream)                                                                            \
    X(stream_id, cuStreamGetId, CUstream, unsigned long long *)                                                         \
    X(stream_wait, cuStreamWaitEvent, CUstream, CUevent, unsigned int)                                                  \
    X(event_create, cuEventCreate, CUevent *, unsigned int)                                                             \
    X(event_destroy, cuEventDestroy, CUevent)                                                                           \
    X(event_record, cuEventRecord, CUevent, CUstream)                                                                   \
    X(event_query, cuEventQuery, CUevent)                                                                               \
    X(event_sync, cuEventSynchronize, CUevent)                                                                          \
    X(capture_begin, cuStreamBeginCapture, CUstream, CUstreamCaptureMode)                                               \
    X(capture_end, cuStreamEndCapture, CUstream, CUgraph *)                                                             \
    X(capture_mode, cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode *)                                           \
    X(graph_instantiate, cuGraphInstantiate, CUgraphExec *, CUgraph, unsigned long long)                                \
    X(graph_launch, cuGraphLaunch, CUgraphExec, CUstream)                                                               \
    X(graph_exec_destroy, cuGraphExecDestroy, CUgraphExec)                                                              \
    X(graph_destroy, cuGraphDestroy, CUgraph)                                                                           \
    X(graph_add_record, cuGraphAddEventRecordNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent)        \
    X(graph_add_wait, cuGraphAddEventWaitNode, CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUevent)            \
    X(user_object_create, cuUserObjectCreate, CUuserObject *, void *, CUhostFn, unsigned int, unsigned int)             \
    X(user_object_release, cuUserObjectRelease, CUuserObject, unsigned int)                                             \
    X(graph_retain_object, cuGraphRetainUserObject, CUgraph, CUuserObject, unsigned int, unsigned int)                  \
    X(module_load, cuModuleLoadData, CUmodule *, const void *)                                                          \
    X(module_function, cuModuleGetFunction, CUfunction *, CUmodule, const char *)                                       \
    X(function_attribute, cuFuncGetAttribute, int *, CUfunction_attribute, CUfunction)                                  \
    X(function_set_attribute, cuFuncSetAttribute, CUfunction, CUfunction_attribute, int)                                \
    X(function_load, cuFuncLoad, CUfunction)                                                                            \
    X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor, int *, CUfunction, int, size_t)                           \
    X(tensor_map, cuTensorMapEncodeTiled, CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,       \
      const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,                \
      CUtensorMapL2promotion, CUtensorMapFloatOOBfill)                                                                  \
    X(launch, cuLaunchKernel, CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,         \
      unsigned int, unsigned int, CUstream, void **, void **)

/* X(field, symbol, vendor's typedef of this version, types): the header maps the plain name to a newer version from CUDA 12.8 or 13 on. */
#define CUDA_ROWS_KEPT(X)                                                                                                     \
    X(event_elapsed, "cuEventElapsedTime", PFN_cuEventElapsedTime_v2000, float *, CUevent, CUevent)                           \
    X(capture_info, "cuStreamGetCaptureInfo_v2", PFN_cuStreamGetCaptureInfo_v11030, CUstream, CUstreamCaptureStatus *,        \
      cuuint64_t *, CUgraph *, const CUgraphNode **, size_t *)                                                                \
    X(capture_set_deps, "cuStreamUpdateCaptureDependencies", PFN_cuStreamUpdateCaptureDependencies_v11030, CUstream,          \
      CUgraphNode *, size_t, unsigned int)                                                                                    \
    X(graph_add_edges, "cuGraphAddDependencies", PFN_cuGraphAddDependencies_v10000, CUgraph, const CUgraphNode *,             \
      const CUgraphNode *, size_t)                                                                                            \
    X(graph_remove_edges, "cuGraphRemoveDependencies", PFN_cuGraphRemoveDependencies_v10000, CUgraph, const CUgraphNode *,    \
      const CUgraphNode *, size_t)

#define VENDOR(field, symbol, ...) VENDOR_ROW(field, STRING(symbol), __VA_ARGS__)
#define KEPT(field, symbol, function, ...) VENDOR_ROW(field, symbol, __VA_ARGS__)
static const struct gpu_row vendor_rows[] = {CUDA_ROWS(VENDOR) CUDA_ROWS_KEPT(KEPT){NULL, NULL, {0}, {0}}};

#define PROVE(field, symbol, ...) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), CUresult(__VA_ARGS__)), #symbol " is declared otherwise");
#define PROVE_KEPT(field, symbol, function, ...) \
    _Static_assert(__builtin_types_compatible_p(function, CUresult(*)(__VA_ARGS__)), symbol " is declared otherwise");
CUDA_ROWS(PROVE)
CUDA_ROWS_KEPT(PROVE_KEPT)
_Static_assert(sizeof(CUresult) == sizeof(int), "our rows return int");
_Static_assert(sizeof(CUipcMemHandle) == sizeof(struct ccl_gpu_ipc), "IPC handles");
_Static_assert(_Alignof(CUipcMemHandle) == _Alignof(struct ccl_gpu_ipc), "IPC handles");
_Static_assert(sizeof(CUuuid) == 16, "uuid16");
#define SAME_AT(ours, member, theirs, their_member) \
    _Static_assert(offsetof(struct ours, member) == offsetof(theirs, their_member), #theirs "." #their_member);
_Static_assert(sizeof(struct ccl_cuda_location) == sizeof(CUmemLocation), "CUmemLocation");
SAME_AT(ccl_cuda_location, type, CUmemLocation, type)
SAME_AT(ccl_cuda_location, id, CUmemLocation, id)
_Static_assert(sizeof(struct ccl_cuda_alloc_prop) == sizeof(CUmemAllocationProp), "CUmemAllocationProp");
SAME_AT(ccl_cuda_alloc_prop, type, CUmemAllocationProp, type)
SAME_AT(ccl_cuda_alloc_prop, handle_types, CUmemAllocationProp, requestedHandleTypes)
SAME_AT(ccl_cuda_alloc_prop, location, CUmemAllocationProp, location)
SAME_AT(ccl_cuda_alloc_prop, unused, CUmemAllocationProp, win32HandleMetaData)
SAME_AT(ccl_cuda_alloc_prop, compression, CUmemAllocationProp, allocFlags.compressionType)
SAME_AT(ccl_cuda_alloc_prop, rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable)
SAME_AT(ccl_cuda_alloc_prop, usage, CUmemAllocationProp, allocFlags.usage)
_Static_assert(sizeof(struct ccl_cuda_access) == sizeof(CUmemAccessDesc), "CUmemAccessDesc");
SAME_AT(ccl_cuda_access, location, CUmemAccessDesc, location)
SAME_AT(ccl_cuda_access, flags, CUmemAccessDesc, flags)
_Static_assert(sizeof(struct ccl_cuda_copy_2d) == sizeof(CUDA_MEMCPY2D), "CUDA_MEMCPY2D");
SAME_AT(ccl_cuda_copy_2d, src.x_bytes, CUDA_MEMCPY2D, srcXInBytes)
SAME_AT(ccl_cuda_copy_2d, src.y, CUDA_MEMCPY2D, srcY)
SAME_AT(ccl_cuda_copy_2d, src.type, CUDA_MEMCPY2D, srcMemoryType)
SAME_AT(ccl_cuda_copy_2d, src.host, CUDA_MEMCPY2D, srcHost)
SAME_AT(ccl_cuda_copy_2d, src.device, CUDA_MEMCPY2D, srcDevice)
SAME_AT(ccl_cuda_copy_2d, src.array, CUDA_MEMCPY2D, srcArray)
SAME_AT(ccl_cuda_copy_2d, src.pitch, CUDA_MEMCPY2D, srcPitch)
SAME_AT(ccl_cuda_copy_2d, dst.x_bytes, CUDA_MEMCPY2D, dstXInBytes)
SAME_AT(ccl_cuda_copy_2d, dst.y, CUDA_MEMCPY2D, dstY)
SAME_AT(ccl_cuda_copy_2d, dst.type, CUDA_MEMCPY2D, dstMemoryType)
SAME_AT(ccl_cuda_copy_2d, dst.host, CUDA_MEMCPY2D, dstHost)
SAME_AT(ccl_cuda_copy_2d, dst.device, CUDA_MEMCPY2D, dstDevice)
SAME_AT(ccl_cuda_copy_2d, dst.array, CUDA_MEMCPY2D, dstArray)
SAME_AT(ccl_cuda_copy_2d, dst.pitch, CUDA_MEMCPY2D, dstPitch)
SAME_AT(ccl_cuda_copy_2d, row_bytes, CUDA_MEMCPY2D, WidthInBytes)
SAME_AT(ccl_cuda_copy_2d, rows, CUDA_MEMCPY2D, Height)
_Static_assert(sizeof(CUstreamCaptureMode) == sizeof(int) && sizeof(CUstreamCaptureStatus) == sizeof(int), "int *");

int main(void)
{
    static const char *const absent[] = {NULL};
    printf("CUDA %d\n", CUDA_VERSION);
    compare_rows(our_rows, vendor_rows, absent);
#define BOTH(name, value, hip, cuda) compare_constant(#name, name, #cuda, cuda);
#define ONE(name, value, cuda) compare_constant(#name, name, #cuda, cuda);
    CCL_GPU_ERRORS(BOTH)
    CCL_GPU_FLAGS(BOTH)
    CCL_GPU_FLAGS_LATER(BOTH)
    CCL_CUDA_CONSTANTS(ONE)
    CCL_CUDA_CONSTANTS_LATER(ONE)
    return test_result();
}

#else
#include "test.h"

int main(void)
{
    TEST_SKIP_NOW("no cuda.h (a CUDA toolkit has it)");
}

#endif
