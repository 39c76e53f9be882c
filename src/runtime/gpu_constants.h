/* SPDX-License-Identifier: MIT
 *
 * The numbers of the two GPU runtimes that the gpu backend passes or compares: X(our name, value, vendor's name). A row makes an enum constant;
 * tests/unit/test_gpu_headers*.c compare each with the vendor's header, and the structs. Result codes mean the same in both and stand once. */
#ifndef CCL_GPU_CONSTANTS_H
#define CCL_GPU_CONSTANTS_H

#include <stddef.h>
#include <stdint.h>

/* CCL_GPU_E_*: equal in HIP and CUDA. */
#define CCL_GPU_ERRORS(X)                                                                             \
    X(CCL_GPU_E_INVALID_VALUE, 1, hipErrorInvalidValue, CUDA_ERROR_INVALID_VALUE)                     \
    X(CCL_GPU_E_OUT_OF_MEMORY, 2, hipErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY)                      \
    X(CCL_GPU_E_NOT_INITIALIZED, 3, hipErrorNotInitialized, CUDA_ERROR_NOT_INITIALIZED)               \
    X(CCL_GPU_E_NO_DEVICE, 100, hipErrorNoDevice, CUDA_ERROR_NO_DEVICE)                               \
    X(CCL_GPU_E_INVALID_DEVICE, 101, hipErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE)                \
    X(CCL_GPU_E_INVALID_IMAGE, 200, hipErrorInvalidImage, CUDA_ERROR_INVALID_IMAGE)                   \
    X(CCL_GPU_E_INVALID_CONTEXT, 201, hipErrorInvalidContext, CUDA_ERROR_INVALID_CONTEXT)             \
    X(CCL_GPU_E_MAP_FAILED, 205, hipErrorMapFailed, CUDA_ERROR_MAP_FAILED)                            \
    X(CCL_GPU_E_NO_BINARY, 209, hipErrorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU)                 \
    X(CCL_GPU_E_PEER_UNSUPPORTED, 217, hipErrorPeerAccessUnsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED) \
    X(CCL_GPU_E_INVALID_KERNEL, 218, hipErrorInvalidKernelFile, CUDA_ERROR_INVALID_PTX)               \
    X(CCL_GPU_E_INVALID_HANDLE, 400, hipErrorInvalidHandle, CUDA_ERROR_INVALID_HANDLE)                \
    X(CCL_GPU_E_NOT_FOUND, 500, hipErrorNotFound, CUDA_ERROR_NOT_FOUND)                               \
    X(CCL_GPU_E_NOT_READY, 600, hipErrorNotReady, CUDA_ERROR_NOT_READY)                               \
    X(CCL_GPU_E_PEER_ENABLED, 704, hipErrorPeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) \
    X(CCL_GPU_E_HOST_REGISTERED, 712, hipErrorHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) \
    X(CCL_GPU_E_HOST_NOT_REGISTERED, 713, hipErrorHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) \
    X(CCL_GPU_E_NOT_SUPPORTED, 801, hipErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED)                   \
    X(CCL_GPU_E_CAPTURE_UNSUPPORTED, 900, hipErrorStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) \
    X(CCL_GPU_E_CAPTURE_INVALIDATED, 901, hipErrorStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) \
    X(CCL_GPU_E_CAPTURE_IMPLICIT, 906, hipErrorStreamCaptureImplicit, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)

/* Flags and modes that are equal in both. */
#define CCL_GPU_FLAGS(X)                                                                              \
    X(CCL_GPU_STREAM_NON_BLOCKING, 1, hipStreamNonBlocking, CU_STREAM_NON_BLOCKING)                   \
    X(CCL_GPU_EVENT_NO_TIMING, 2, hipEventDisableTiming, CU_EVENT_DISABLE_TIMING)                     \
    X(CCL_GPU_HOST_PORTABLE, 1, hipHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE)                 \
    X(CCL_GPU_HOST_MAPPED, 2, hipHostRegisterMapped, CU_MEMHOSTREGISTER_DEVICEMAP)                    \
    X(CCL_GPU_CAPTURE_GLOBAL, 0, hipStreamCaptureModeGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL)           \
    X(CCL_GPU_CAPTURE_THREAD_LOCAL, 1, hipStreamCaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) \
    X(CCL_GPU_CAPTURE_RELAXED, 2, hipStreamCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED)        \
    X(CCL_GPU_CAPTURE_NONE, 0, hipStreamCaptureStatusNone, CU_STREAM_CAPTURE_STATUS_NONE)             \
    X(CCL_GPU_CAPTURE_ACTIVE, 1, hipStreamCaptureStatusActive, CU_STREAM_CAPTURE_STATUS_ACTIVE)       \
    X(CCL_GPU_CAPTURE_BROKEN, 2, hipStreamCaptureStatusInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED) \
    X(CCL_GPU_DEPS_ADD, 0, hipStreamAddCaptureDependencies, CU_STREAM_ADD_CAPTURE_DEPENDENCIES)       \
    X(CCL_GPU_DEPS_SET, 1, hipStreamSetCaptureDependencies, CU_STREAM_SET_CAPTURE_DEPENDENCIES)       \
    X(CCL_GPU_PTR_MEMORY_TYPE, 2, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) \
    X(CCL_GPU_PTR_HOST, 4, HIP_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER)     \
    X(CCL_GPU_PTR_BUFFER_ID, 7, HIP_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID)      \
    X(CCL_GPU_PTR_MANAGED, 8, HIP_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED)      \
    X(CCL_GPU_PTR_DEVICE, 9, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) \
    X(CCL_GPU_PTR_IPC_CAPABLE, 10, HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) \
    X(CCL_GPU_MEM_PINNED, 1, hipMemAllocationTypePinned, CU_MEM_ALLOCATION_TYPE_PINNED)               \
    X(CCL_GPU_MEM_ON_DEVICE, 1, hipMemLocationTypeDevice, CU_MEM_LOCATION_TYPE_DEVICE)                \
    X(CCL_GPU_MEM_FD, 1, hipMemHandleTypePosixFileDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) \
    X(CCL_GPU_MEM_READ_WRITE, 3, hipMemAccessFlagsProtReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) \
    X(CCL_GPU_MEM_GRANULE_BEST, 1, hipMemAllocationGranularityRecommended, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) \
    X(CCL_GPU_FUNC_SHARED_STATIC, 1, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)

/* Equal in both, and not in HIP before 5.3. */
#define CCL_GPU_FLAGS_LATER(X)                                                                        \
    X(CCL_GPU_OBJECT_NO_SYNC, 1, hipUserObjectNoDestructorSync, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)    \
    X(CCL_GPU_OBJECT_MOVE, 1, hipGraphUserObjectMove, CU_GRAPH_USER_OBJECT_MOVE)

/* HIP only. From HIP 6: hipMemoryTypeHost 1, hipMemoryTypeDevice 2 (0 and 1 before). */
#define CCL_HIP_CONSTANTS(X)                                                  \
    X(CCL_HIP_ATTR_UNITS, 63, hipDeviceAttributeMultiprocessorCount)          \
    X(CCL_HIP_ATTR_SHARED_BYTES, 74, hipDeviceAttributeMaxSharedMemoryPerBlock) \
    X(CCL_HIP_MALLOC_FINE, 1, hipDeviceMallocFinegrained)                     \
    X(CCL_HIP_COPY_DEFAULT, 4, hipMemcpyDefault)                              \
    X(CCL_HIP_EXTERNAL_FD, 1, hipExternalMemoryHandleTypeOpaqueFd)

/* HIP from 6 on; before, hipIpcMemLazyEnablePeerAccess was 0, the only value allowed, and hipDeviceMallocUncached not there in all versions. */
#define CCL_HIP_VERSION_6 60000000
#define CCL_HIP_CONSTANTS_LATER(X)                              \
    X(CCL_HIP_MALLOC_UNCACHED, 3, hipDeviceMallocUncached)      \
    X(CCL_HIP_IPC_LAZY_PEER, 1, hipIpcMemLazyEnablePeerAccess)

#define CCL_CUDA_CONSTANTS(X)                                                                          \
    X(CCL_CUDA_ATTR_UNITS, 16, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)                               \
    X(CCL_CUDA_ATTR_MAJOR, 75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)                           \
    X(CCL_CUDA_ATTR_MINOR, 76, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)                           \
    X(CCL_CUDA_ATTR_SHARED_BYTES, 97, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)           \
    X(CCL_CUDA_ATTR_VMM, 102, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)                 \
    X(CCL_CUDA_ATTR_FD, 103, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)          \
    X(CCL_CUDA_E_UNSUPPORTED_PTX, 222, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)                             \
    X(CCL_CUDA_FUNC_MAX_SHARED, 8, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)                    \
    X(CCL_CUDA_IPC_LAZY_PEER, 1, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)                                   \
    X(CCL_CUDA_MEMORY_HOST, 1, CU_MEMORYTYPE_HOST)                                                     \
    X(CCL_CUDA_MEMORY_DEVICE, 2, CU_MEMORYTYPE_DEVICE)                                                 \
    X(CCL_CUDA_MEMORY_UNIFIED, 4, CU_MEMORYTYPE_UNIFIED)

/* From CUDA 12 on. */
#define CCL_CUDA_CONSTANTS_LATER(X)                                          \
    X(CCL_CUDA_MAP_UINT16, 1, CU_TENSOR_MAP_DATA_TYPE_UINT16)                \
    X(CCL_CUDA_MAP_NOT_INTERLEAVED, 0, CU_TENSOR_MAP_INTERLEAVE_NONE)        \
    X(CCL_CUDA_MAP_SWIZZLE_128, 3, CU_TENSOR_MAP_SWIZZLE_128B)               \
    X(CCL_CUDA_MAP_PROMOTE_256, 3, CU_TENSOR_MAP_L2_PROMOTION_L2_256B)       \
    X(CCL_CUDA_MAP_FILL_ZEROS, 0, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)

#define CCL_HSA_CONSTANTS(X)                                 \
    X(CCL_HSA_INFO_NAME, 0, HSA_AGENT_INFO_NAME)             \
    X(CCL_HSA_INFO_DEVICE, 17, HSA_AGENT_INFO_DEVICE)        \
    X(CCL_HSA_INFO_BDF, 0xA006, HSA_AMD_AGENT_INFO_BDFID)    \
    X(CCL_HSA_INFO_DOMAIN, 0xA00F, HSA_AMD_AGENT_INFO_DOMAIN) \
    X(CCL_HSA_DEVICE_GPU, 1, HSA_DEVICE_TYPE_GPU)            \
    X(CCL_HSA_STATUS_BREAK, 1, HSA_STATUS_INFO_BREAK)

enum {
#define CCL_BOTH(name, value, hip, cuda) name = value,
#define CCL_ONE(name, value, vendor) name = value,
    CCL_GPU_ERRORS(CCL_BOTH) CCL_GPU_FLAGS(CCL_BOTH) CCL_GPU_FLAGS_LATER(CCL_BOTH) CCL_HIP_CONSTANTS(CCL_ONE)
    CCL_HIP_CONSTANTS_LATER(CCL_ONE) CCL_CUDA_CONSTANTS(CCL_ONE) CCL_CUDA_CONSTANTS_LATER(CCL_ONE) CCL_HSA_CONSTANTS(CCL_ONE)
#undef CCL_BOTH
#undef CCL_ONE
};

/* The structs that are passed, with our names of the members; the tests compare sizes and offsets. */

struct ccl_cuda_location { /* CUmemLocation */
    int type, id;
};
struct ccl_cuda_alloc_prop { /* CUmemAllocationProp */
    int type, handle_types;
    struct ccl_cuda_location location;
    void *unused;
    unsigned char compression, rdma;
    unsigned short usage;
    unsigned char reserved[4];
};
struct ccl_cuda_access { /* CUmemAccessDesc */
    struct ccl_cuda_location location;
    int flags;
};
struct ccl_cuda_copy_side {
    size_t x_bytes, y;
    int type;
    void *host;
    uint64_t device;
    void *array;
    size_t pitch;
};
struct ccl_cuda_copy_2d { /* CUDA_MEMCPY2D */
    struct ccl_cuda_copy_side src, dst;
    size_t row_bytes, rows;
};
/* The ends of these two are reserved in later versions. */
struct ccl_hip_external { /* hipExternalMemoryHandleDesc */
    int type, pad0;
    int fd, pad1;
    void *unused;
    unsigned long long bytes;
    unsigned flags, reserved[17];
};
struct ccl_hip_external_range { /* hipExternalMemoryBufferDesc */
    unsigned long long offset, bytes;
    unsigned flags, reserved[17];
};

#endif
