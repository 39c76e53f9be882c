/* SPDX-License-Identifier: MIT
 *
 * The numbers of the two GPU runtimes that the gpu backend passes or compares: X(our name, value, vendor's name). A row makes an enum constant;
 * tests/unit/test_gpu_headers*.c compare each with the vendor's header. Result codes mean the same in both and stand once. */
#ifndef CCL_GPU_CONSTANTS_H
#define CCL_GPU_CONSTANTS_H

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
    X(CCL_GPU_E_INVALID_HANDLE, 400, hipErrorInvalidHandle, CUDA_ERROR_INVALID_HANDLE)                \
    X(CCL_GPU_E_NOT_FOUND, 500, hipErrorNotFound, CUDA_ERROR_NOT_FOUND)                               \
    X(CCL_GPU_E_NOT_READY, 600, hipErrorNotReady, CUDA_ERROR_NOT_READY)                               \
    X(CCL_GPU_E_PEER_ENABLED, 704, hipErrorPeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) \
    X(CCL_GPU_E_HOST_REGISTERED, 712, hipErrorHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) \
    X(CCL_GPU_E_HOST_NOT_REGISTERED, 713, hipErrorHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) \
    X(CCL_GPU_E_NOT_SUPPORTED, 801, hipErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED)                   \
    X(CCL_GPU_E_CAPTURE_UNSUPPORTED, 900, hipErrorStreamCaptureUnsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) \
    X(CCL_GPU_E_CAPTURE_INVALIDATED, 901, hipErrorStreamCaptureInvalidated, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)

/* Flags and modes that are equal in both. */
#define CCL_GPU_FLAGS(X)                                                                              \
    X(CCL_GPU_STREAM_NON_BLOCKING, 1, hipStreamNonBlocking, CU_STREAM_NON_BLOCKING)                   \
    X(CCL_GPU_EVENT_NO_TIMING, 2, hipEventDisableTiming, CU_EVENT_DISABLE_TIMING)                     \
    X(CCL_GPU_HOST_PORTABLE, 1, hipHostRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE)                 \
    X(CCL_GPU_HOST_MAPPED, 2, hipHostRegisterMapped, CU_MEMHOSTREGISTER_DEVICEMAP)                    \
    X(CCL_GPU_CAPTURE_GLOBAL, 0, hipStreamCaptureModeGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL)           \
    X(CCL_GPU_CAPTURE_THREAD_LOCAL, 1, hipStreamCaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) \
    X(CCL_GPU_CAPTURE_RELAXED, 2, hipStreamCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED)        \
    X(CCL_GPU_CAPTURE_ACTIVE, 1, hipStreamCaptureStatusActive, CU_STREAM_CAPTURE_STATUS_ACTIVE)       \
    X(CCL_GPU_CAPTURE_BROKEN, 2, hipStreamCaptureStatusInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED) \
    X(CCL_GPU_DEPS_SET, 1, hipStreamSetCaptureDependencies, CU_STREAM_SET_CAPTURE_DEPENDENCIES)       \
    X(CCL_GPU_PTR_MEMORY_TYPE, 2, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) \
    X(CCL_GPU_PTR_HOST, 4, HIP_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER)     \
    X(CCL_GPU_PTR_DEVICE, 9, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) \
    X(CCL_GPU_PTR_IPC_CAPABLE, 10, HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) \
    X(CCL_GPU_MEM_PINNED, 1, hipMemAllocationTypePinned, CU_MEM_ALLOCATION_TYPE_PINNED)               \
    X(CCL_GPU_MEM_ON_DEVICE, 1, hipMemLocationTypeDevice, CU_MEM_LOCATION_TYPE_DEVICE)                \
    X(CCL_GPU_MEM_FD, 1, hipMemHandleTypePosixFileDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) \
    X(CCL_GPU_MEM_READ_WRITE, 3, hipMemAccessFlagsProtReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)

/* HIP only. From HIP 6: hipMemoryTypeHost 1, hipMemoryTypeDevice 2 (0 and 1 before); hipDeviceMallocUncached 3 is new there. */
#define CCL_HIP_CONSTANTS(X)                                                  \
    X(CCL_HIP_ATTR_UNITS, 63, hipDeviceAttributeMultiprocessorCount)          \
    X(CCL_HIP_ATTR_SHARED_BYTES, 74, hipDeviceAttributeMaxSharedMemoryPerBlock) \
    X(CCL_HIP_MALLOC_FINE, 1, hipDeviceMallocFinegrained)                     \
    X(CCL_HIP_COPY_DEFAULT, 4, hipMemcpyDefault)

#define CCL_CUDA_CONSTANTS(X)                                                                          \
    X(CCL_CUDA_ATTR_UNITS, 16, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)                               \
    X(CCL_CUDA_ATTR_MAJOR, 75, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)                           \
    X(CCL_CUDA_ATTR_MINOR, 76, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)                           \
    X(CCL_CUDA_ATTR_SHARED_BYTES, 97, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)           \
    X(CCL_CUDA_FUNC_MAX_SHARED, 8, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)                    \
    X(CCL_CUDA_IPC_LAZY_PEER, 1, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)                                   \
    X(CCL_CUDA_MEMORY_HOST, 1, CU_MEMORYTYPE_HOST)                                                     \
    X(CCL_CUDA_MEMORY_DEVICE, 2, CU_MEMORYTYPE_DEVICE)

enum {
#define CCL_BOTH(name, value, hip, cuda) name = value,
#define CCL_ONE(name, value, vendor) name = value,
    CCL_GPU_ERRORS(CCL_BOTH) CCL_GPU_FLAGS(CCL_BOTH) CCL_HIP_CONSTANTS(CCL_ONE) CCL_CUDA_CONSTANTS(CCL_ONE)
#undef CCL_BOTH
#undef CCL_ONE
};

#endif
