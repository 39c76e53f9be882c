/* SPDX-License-Identifier: MIT
 *
 * Proves that the HIP column of gpu_api.def, and the HIP and HSA numbers and HIP structs of gpu_constants.h, agree with AMD's header: every symbol exists under this name, takes
 * as many parameters of the same sizes and register classes, and the constants are equal. Compiled against any version (5.2 to 7 known). */
/* CTEST: labels quick */
#if __has_include(<hip/hip_runtime_api.h>)
#include "gpu_headers.h"
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#if __has_include(<hsa/hsa_ext_amd.h>)
#define HAS_HSA
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#endif

static const struct gpu_row our_rows[] = {
#define CCL_GPU(field, hip, cuda, params) {#field, hip, OUR_PARAMS params},
#define CCL_HIP(field, hip, params) {#field, hip, OUR_PARAMS params},
#define CCL_CUDA(field, cuda, params)
#include "runtime/gpu_api.def"
    {NULL, NULL, {0}, {0}}};

/* What AMD declares, with its own type names; the compiler proves below that it is so. */
#define HIP_ROWS(X)                                                                                                         \
    X(init, hipInit, unsigned int)                                                                                          \
    X(driver_version, hipDriverGetVersion, int *)                                                                           \
    X(device_count, hipGetDeviceCount, int *)                                                                               \
    X(device_handle, hipDeviceGet, hipDevice_t *, int)                                                                      \
    X(device_name, hipDeviceGetName, char *, int, hipDevice_t)                                                              \
    X(device_attribute, hipDeviceGetAttribute, int *, hipDeviceAttribute_t, int)                                            \
    X(device_uuid, hipDeviceGetUuid, hipUUID *, hipDevice_t)                                                                \
    X(device_pci, hipDeviceGetPCIBusId, char *, int, int)                                                                   \
    X(can_access_peer, hipDeviceCanAccessPeer, int *, int, int)                                                             \
    X(set_device, hipSetDevice, int)                                                                                        \
    X(get_device, hipGetDevice, int *)                                                                                      \
    X(enable_peer, hipDeviceEnablePeerAccess, int, unsigned int)                                                            \
    X(link_type, hipExtGetLinkTypeAndHopCount, int, int, uint32_t *, uint32_t *)                                            \
    X(mem_alloc, hipMalloc, void **, size_t)                                                                                \
    X(mem_alloc_flags, hipExtMallocWithFlags, void **, size_t, unsigned int)                                                \
    X(mem_free, hipFree, void *)                                                                                            \
    X(copy_kind, hipMemcpyAsync, void *, const void *, size_t, hipMemcpyKind, hipStream_t)                                  \
    X(copy_2d_kind, hipMemcpy2DAsync, void *, size_t, const void *, size_t, size_t, size_t, hipMemcpyKind, hipStream_t)     \
    X(fill, hipMemsetAsync, void *, int, size_t, hipStream_t)                                                               \
    X(host_register, hipHostRegister, void *, size_t, unsigned int)                                                         \
    X(host_unregister, hipHostUnregister, void *)                                                                           \
    X(host_device_pointer, hipHostGetDevicePointer, void **, void *, unsigned int)                                          \
    X(address_range, hipMemGetAddressRange, hipDeviceptr_t *, size_t *, hipDeviceptr_t)                                     \
    X(pointer_attribute, hipPointerGetAttribute, void *, hipPointer_attribute, hipDeviceptr_t)                              \
    X(ipc_export, hipIpcGetMemHandle, hipIpcMemHandle_t *, void *)                                                          \
    X(ipc_import, hipIpcOpenMemHandle, void **, hipIpcMemHandle_t, unsigned int)                                            \
    X(ipc_close, hipIpcCloseMemHandle, void *)                                                                              \
    X(external_import, hipImportExternalMemory, hipExternalMemory_t *, const hipExternalMemoryHandleDesc *)                 \
    X(external_map, hipExternalMemoryGetMappedBuffer, void **, hipExternalMemory_t, const hipExternalMemoryBufferDesc *)    \
    X(external_destroy, hipDestroyExternalMemory, hipExternalMemory_t)                                                      \
    X(vmm_granularity, hipMemGetAllocationGranularity, size_t *, const hipMemAllocationProp *,                              \
      hipMemAllocationGranularity_flags)                                                                                    \
    X(vmm_create, hipMemCreate, hipMemGenericAllocationHandle_t *, size_t, const hipMemAllocationProp *, unsigned long long) \
    X(vmm_release, hipMemRelease, hipMemGenericAllocationHandle_t)                                                          \
    X(vmm_export, hipMemExportToShareableHandle, void *, hipMemGenericAllocationHandle_t, hipMemAllocationHandleType,       \
      unsigned long long)                                                                                                   \
    X(vmm_import, hipMemImportFromShareableHandle, hipMemGenericAllocationHandle_t *, void *, hipMemAllocationHandleType)   \
    X(vmm_reserve, hipMemAddressReserve, void **, size_t, size_t, void *, unsigned long long)                               \
    X(vmm_unreserve, hipMemAddressFree, void *, size_t)                                                                     \
    X(vmm_map, hipMemMap, void *, size_t, size_t, hipMemGenericAllocationHandle_t, unsigned long long)                      \
    X(vmm_unmap, hipMemUnmap, void *, size_t)                                                                               \
    X(vmm_access, hipMemSetAccess, void *, size_t, const hipMemAccessDesc *, size_t)                                        \
    X(stream_create, hipStreamCreateWithFlags, hipStream_t *, unsigned int)                                                 \
    X(stream_destroy, hipStreamDestroy, hipStream_t)                                                                        \
    X(stream_sync, hipStreamSynchronize, hipStream_t)                                                                       \
    X(stream_query, hipStreamQuery, hipStream_t)                                                                            \
    X(stream_wait, hipStreamWaitEvent, hipStream_t, hipEvent_t, unsigned int)                                               \
    X(event_create, hipEventCreateWithFlags, hipEvent_t *, unsigned)                                                        \
    X(event_destroy, hipEventDestroy, hipEvent_t)                                                                           \
    X(event_record, hipEventRecord, hipEvent_t, hipStream_t)                                                                \
    X(event_query, hipEventQuery, hipEvent_t)                                                                               \
    X(event_sync, hipEventSynchronize, hipEvent_t)                                                                          \
    X(event_elapsed, hipEventElapsedTime, float *, hipEvent_t, hipEvent_t)                                                  \
    X(capture_begin, hipStreamBeginCapture, hipStream_t, hipStreamCaptureMode)                                              \
    X(capture_end, hipStreamEndCapture, hipStream_t, hipGraph_t *)                                                          \
    X(capture_info, hipStreamGetCaptureInfo_v2, hipStream_t, hipStreamCaptureStatus *, unsigned long long *, hipGraph_t *,  \
      const hipGraphNode_t **, size_t *)                                                                                    \
    X(capture_set_deps, hipStreamUpdateCaptureDependencies, hipStream_t, hipGraphNode_t *, size_t, unsigned int)            \
    X(capture_mode, hipThreadExchangeStreamCaptureMode, hipStreamCaptureMode *)                                             \
    X(graph_instantiate, hipGraphInstantiateWithFlags, hipGraphExec_t *, hipGraph_t, unsigned long long)                    \
    X(graph_launch, hipGraphLaunch, hipGraphExec_t, hipStream_t)                                                            \
    X(graph_exec_destroy, hipGraphExecDestroy, hipGraphExec_t)                                                              \
    X(graph_destroy, hipGraphDestroy, hipGraph_t)                                                                           \
    X(graph_add_record, hipGraphAddEventRecordNode, hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, hipEvent_t) \
    X(graph_add_wait, hipGraphAddEventWaitNode, hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, hipEvent_t)   \
    X(graph_add_edges, hipGraphAddDependencies, hipGraph_t, const hipGraphNode_t *, const hipGraphNode_t *, size_t)         \
    X(graph_remove_edges, hipGraphRemoveDependencies, hipGraph_t, const hipGraphNode_t *, const hipGraphNode_t *, size_t)   \
    X(module_load, hipModuleLoadData, hipModule_t *, const void *)                                                          \
    X(module_function, hipModuleGetFunction, hipFunction_t *, hipModule_t, const char *)                                    \
    X(function_attribute, hipFuncGetAttribute, int *, hipFunction_attribute, hipFunction_t)                                 \
    X(occupancy, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor, int *, hipFunction_t, int, size_t)                     \
    X(launch, hipModuleLaunchKernel, hipFunction_t, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,   \
      unsigned int, unsigned int, hipStream_t, void **, void **)

/* Rows that came with HIP 5.3. */
#define HIP_ROWS_LATER(X)                                                                                 \
    X(user_object_create, hipUserObjectCreate, hipUserObject_t *, void *, hipHostFn_t, unsigned int, unsigned int) \
    X(user_object_release, hipUserObjectRelease, hipUserObject_t, unsigned int)                                    \
    X(graph_retain_object, hipGraphRetainUserObject, hipGraph_t, hipUserObject_t, unsigned int, unsigned int)

#define HAS_LATER (HIP_VERSION >= 50300000)
#define VENDOR(field, symbol, ...) VENDOR_ROW(field, STRING(symbol), __VA_ARGS__)
static const struct gpu_row vendor_rows[] = {
    HIP_ROWS(VENDOR)
#if HAS_LATER
        HIP_ROWS_LATER(VENDOR)
#endif
            {NULL, NULL, {0}, {0}}};

#if HAS_LATER
static const char *const absent[] = {NULL};
#else
static const char *const absent[] = {"user_object_create", "user_object_release", "graph_retain_object", NULL};
#endif

#define PROVE(field, symbol, ...) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), hipError_t(__VA_ARGS__)), #symbol " is declared otherwise");
HIP_ROWS(PROVE)
#if HAS_LATER
HIP_ROWS_LATER(PROVE)
#endif
_Static_assert(sizeof(hipError_t) == sizeof(int), "our rows return int");
_Static_assert(sizeof(hipIpcMemHandle_t) == sizeof(struct ccl_gpu_ipc), "IPC handles");
_Static_assert(_Alignof(hipIpcMemHandle_t) == _Alignof(struct ccl_gpu_ipc), "IPC handles");
_Static_assert(sizeof(hipUUID) == 16, "uuid16");
#define SAME_AT(ours, member, theirs, their_member) \
    _Static_assert(offsetof(struct ours, member) == offsetof(theirs, their_member), #theirs "." #their_member);
_Static_assert(sizeof(struct ccl_hip_external) >= sizeof(hipExternalMemoryHandleDesc), "hipExternalMemoryHandleDesc");
SAME_AT(ccl_hip_external, type, hipExternalMemoryHandleDesc, type)
SAME_AT(ccl_hip_external, fd, hipExternalMemoryHandleDesc, handle.fd)
SAME_AT(ccl_hip_external, bytes, hipExternalMemoryHandleDesc, size)
SAME_AT(ccl_hip_external, flags, hipExternalMemoryHandleDesc, flags)
_Static_assert(sizeof(struct ccl_hip_external_range) >= sizeof(hipExternalMemoryBufferDesc), "hipExternalMemoryBufferDesc");
SAME_AT(ccl_hip_external_range, offset, hipExternalMemoryBufferDesc, offset)
SAME_AT(ccl_hip_external_range, bytes, hipExternalMemoryBufferDesc, size)
SAME_AT(ccl_hip_external_range, flags, hipExternalMemoryBufferDesc, flags)
_Static_assert(sizeof(hipStreamCaptureMode) == sizeof(int) && sizeof(hipStreamCaptureStatus) == sizeof(int), "int *");
_Static_assert(__builtin_types_compatible_p(__typeof__(hipGetErrorString), const char *(hipError_t)), "hip_error_text");
_Static_assert(__builtin_types_compatible_p(__typeof__(hipGetErrorName), const char *(hipError_t)), "hip_error_symbol");

int main(void)
{
    printf("HIP %d.%d\n", HIP_VERSION / 10000000, HIP_VERSION / 100000 % 100);
    compare_rows(our_rows, vendor_rows, absent);
#define BOTH(name, value, hip, cuda) compare_constant(#name, name, #hip, hip);
#define ONE(name, value, hip) compare_constant(#name, name, #hip, hip);
    CCL_GPU_ERRORS(BOTH)
    CCL_GPU_FLAGS(BOTH)
    CCL_HIP_CONSTANTS(ONE)
#if HAS_LATER
    CCL_GPU_FLAGS_LATER(BOTH)
#endif
#if HIP_VERSION >= 60000000
    CCL_HIP_CONSTANTS_LATER(ONE)
#endif
#ifdef HAS_HSA
    CCL_HSA_CONSTANTS(ONE)
#endif
    return test_result();
}

#else
#include "test.h"

int main(void)
{
    TEST_SKIP_NOW("no hip/hip_runtime_api.h (libamdhip64-dev has it)");
}

#endif
