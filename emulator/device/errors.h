// Every error of CUDA 12 and 13, one table: number (the same in driver and runtime), both names,
// text.
#pragma once

// X(number, DRIVER_NAME, RuntimeName, "text"): CUDA_ERROR_<DRIVER_NAME>, cudaError<RuntimeName>.
#define EMU_ERRORS(X)                                                                              \
  X(1, INVALID_VALUE, InvalidValue, "invalid argument")                                            \
  X(2, OUT_OF_MEMORY, MemoryAllocation, "out of memory")                                           \
  X(3, NOT_INITIALIZED, InitializationError, "initialization error")                               \
  X(4, DEINITIALIZED, CudartUnloading, "driver shutting down")                                     \
  X(5, PROFILER_DISABLED, ProfilerDisabled,                                                        \
    "profiler disabled while using external profiling tool")                                       \
  X(6, PROFILER_NOT_INITIALIZED, ProfilerNotInitialized, "profiler not initialized")               \
  X(7, PROFILER_ALREADY_STARTED, ProfilerAlreadyStarted, "profiler already started")               \
  X(8, PROFILER_ALREADY_STOPPED, ProfilerAlreadyStopped, "profiler already stopped")               \
  X(34, STUB_LIBRARY, StubLibrary, "CUDA driver is a stub library")                                \
  X(36, CALL_REQUIRES_NEWER_DRIVER, CallRequiresNewerDriver,                                       \
    "API call is not supported in the installed CUDA driver")                                      \
  X(46, DEVICE_UNAVAILABLE, DevicesUnavailable,                                                    \
    "CUDA-capable device(s) is/are busy or unavailable")                                           \
  X(100, NO_DEVICE, NoDevice, "no CUDA-capable device is detected")                                \
  X(101, INVALID_DEVICE, InvalidDevice, "invalid device ordinal")                                  \
  X(102, DEVICE_NOT_LICENSED, DeviceNotLicensed, "device doesn't have valid Grid license")         \
  X(200, INVALID_IMAGE, InvalidKernelImage, "device kernel image is invalid")                      \
  X(201, INVALID_CONTEXT, DeviceUninitialized, "invalid device context")                           \
  X(205, MAP_FAILED, MapBufferObjectFailed, "mapping of buffer object failed")                     \
  X(206, UNMAP_FAILED, UnmapBufferObjectFailed, "unmapping of buffer object failed")               \
  X(207, ARRAY_IS_MAPPED, ArrayIsMapped, "array is mapped")                                        \
  X(208, ALREADY_MAPPED, AlreadyMapped, "resource already mapped")                                 \
  X(209, NO_BINARY_FOR_GPU, NoKernelImageForDevice,                                                \
    "no kernel image is available for execution on the device")                                    \
  X(210, ALREADY_ACQUIRED, AlreadyAcquired, "resource already acquired")                           \
  X(211, NOT_MAPPED, NotMapped, "resource not mapped")                                             \
  X(212, NOT_MAPPED_AS_ARRAY, NotMappedAsArray, "resource not mapped as array")                    \
  X(213, NOT_MAPPED_AS_POINTER, NotMappedAsPointer, "resource not mapped as pointer")              \
  X(214, ECC_UNCORRECTABLE, ECCUncorrectable, "uncorrectable ECC error encountered")               \
  X(215, UNSUPPORTED_LIMIT, UnsupportedLimit, "limit is not supported on this architecture")       \
  X(216, CONTEXT_ALREADY_IN_USE, DeviceAlreadyInUse,                                               \
    "exclusive-thread device already in use by a different thread")                                \
  X(217, PEER_ACCESS_UNSUPPORTED, PeerAccessUnsupported,                                           \
    "peer access is not supported between these two devices")                                      \
  X(218, INVALID_PTX, InvalidPtx, "a PTX JIT compilation failed")                                  \
  X(219, INVALID_GRAPHICS_CONTEXT, InvalidGraphicsContext, "invalid OpenGL or DirectX context")    \
  X(220, NVLINK_UNCORRECTABLE, NvlinkUncorrectable,                                                \
    "uncorrectable NVLink error detected during the execution")                                    \
  X(221, JIT_COMPILER_NOT_FOUND, JitCompilerNotFound, "PTX JIT compiler library not found")        \
  X(222, UNSUPPORTED_PTX_VERSION, UnsupportedPtxVersion,                                           \
    "the provided PTX was compiled with an unsupported toolchain.")                                \
  X(223, JIT_COMPILATION_DISABLED, JitCompilationDisabled, "PTX JIT compilation was disabled")     \
  X(224, UNSUPPORTED_EXEC_AFFINITY, UnsupportedExecAffinity,                                       \
    "the provided execution affinity is not supported")                                            \
  X(225, UNSUPPORTED_DEVSIDE_SYNC, UnsupportedDevSideSync,                                         \
    "the operation is not supported with device side synchronization")                             \
  X(226, CONTAINED, Contained, "contained error")                                                  \
  X(300, INVALID_SOURCE, InvalidSource, "device kernel image is invalid")                          \
  X(301, FILE_NOT_FOUND, FileNotFound, "file not found")                                           \
  X(302, SHARED_OBJECT_SYMBOL_NOT_FOUND, SharedObjectSymbolNotFound,                               \
    "shared object symbol not found")                                                              \
  X(303, SHARED_OBJECT_INIT_FAILED, SharedObjectInitFailed, "shared object initialization failed") \
  X(304, OPERATING_SYSTEM, OperatingSystem,                                                        \
    "OS call failed or operation not supported on this OS")                                        \
  X(400, INVALID_HANDLE, InvalidResourceHandle, "invalid resource handle")                         \
  X(401, ILLEGAL_STATE, IllegalState, "the operation cannot be performed in the present state")    \
  X(402, LOSSY_QUERY, LossyQuery, "attempted introspection would be semantically lossy")           \
  X(500, NOT_FOUND, SymbolNotFound, "named symbol not found")                                      \
  X(600, NOT_READY, NotReady, "device not ready")                                                  \
  X(700, ILLEGAL_ADDRESS, IllegalAddress, "an illegal memory access was encountered")              \
  X(701, LAUNCH_OUT_OF_RESOURCES, LaunchOutOfResources, "too many resources requested for launch") \
  X(702, LAUNCH_TIMEOUT, LaunchTimeout, "the launch timed out and was terminated")                 \
  X(703, LAUNCH_INCOMPATIBLE_TEXTURING, LaunchIncompatibleTexturing,                               \
    "launch uses incompatible texturing mode")                                                     \
  X(704, PEER_ACCESS_ALREADY_ENABLED, PeerAccessAlreadyEnabled, "peer access is already enabled")  \
  X(705, PEER_ACCESS_NOT_ENABLED, PeerAccessNotEnabled, "peer access has not been enabled")        \
  X(708, PRIMARY_CONTEXT_ACTIVE, SetOnActiveProcess,                                               \
    "cannot set while device is active in this process")                                           \
  X(709, CONTEXT_IS_DESTROYED, ContextIsDestroyed, "context is destroyed")                         \
  X(710, ASSERT, Assert, "device-side assert triggered")                                           \
  X(711, TOO_MANY_PEERS, TooManyPeers, "peer mapping resources exhausted")                         \
  X(712, HOST_MEMORY_ALREADY_REGISTERED, HostMemoryAlreadyRegistered,                              \
    "part or all of the requested memory range is already mapped")                                 \
  X(713, HOST_MEMORY_NOT_REGISTERED, HostMemoryNotRegistered,                                      \
    "pointer does not correspond to a registered memory region")                                   \
  X(714, HARDWARE_STACK_ERROR, HardwareStackError, "hardware stack error")                         \
  X(715, ILLEGAL_INSTRUCTION, IllegalInstruction, "an illegal instruction was encountered")        \
  X(716, MISALIGNED_ADDRESS, MisalignedAddress, "misaligned address")                              \
  X(717, INVALID_ADDRESS_SPACE, InvalidAddressSpace,                                               \
    "operation not supported on global/shared address space")                                      \
  X(718, INVALID_PC, InvalidPc, "invalid program counter")                                         \
  X(719, LAUNCH_FAILED, LaunchFailure, "unspecified launch failure")                               \
  X(720, COOPERATIVE_LAUNCH_TOO_LARGE, CooperativeLaunchTooLarge,                                  \
    "too many blocks in cooperative launch")                                                       \
  X(721, TENSOR_MEMORY_LEAK, TensorMemoryLeak, "tensor memory not completely freed")               \
  X(800, NOT_PERMITTED, NotPermitted, "operation not permitted")                                   \
  X(801, NOT_SUPPORTED, NotSupported, "operation not supported")                                   \
  X(802, SYSTEM_NOT_READY, SystemNotReady, "system not yet initialized")                           \
  X(803, SYSTEM_DRIVER_MISMATCH, SystemDriverMismatch,                                             \
    "system has unsupported display driver / cuda driver combination")                             \
  X(804, COMPAT_NOT_SUPPORTED_ON_DEVICE, CompatNotSupportedOnDevice,                               \
    "forward compatibility was attempted on non supported HW")                                     \
  X(805, MPS_CONNECTION_FAILED, MpsConnectionFailed,                                               \
    "MPS client failed to connect to the MPS control daemon or the MPS server")                    \
  X(806, MPS_RPC_FAILURE, MpsRpcFailure,                                                           \
    "the remote procedural call between the MPS server and the MPS client failed")                 \
  X(807, MPS_SERVER_NOT_READY, MpsServerNotReady,                                                  \
    "MPS server is not ready to accept new MPS client requests")                                   \
  X(808, MPS_MAX_CLIENTS_REACHED, MpsMaxClientsReached,                                            \
    "the hardware resources required to create MPS client have been exhausted")                    \
  X(809, MPS_MAX_CONNECTIONS_REACHED, MpsMaxConnectionsReached,                                    \
    "the hardware resources required to support device connections have been exhausted")           \
  X(810, MPS_CLIENT_TERMINATED, MpsClientTerminated,                                               \
    "the MPS client has been terminated by the server")                                            \
  X(811, CDP_NOT_SUPPORTED, CdpNotSupported,                                                       \
    "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not "        \
    "support it")                                                                                  \
  X(812, CDP_VERSION_MISMATCH, CdpVersionMismatch,                                                 \
    "unsupported interaction between different versions of CUDA Dynamic Parallelism")              \
  X(900, STREAM_CAPTURE_UNSUPPORTED, StreamCaptureUnsupported,                                     \
    "operation not permitted when stream is capturing")                                            \
  X(901, STREAM_CAPTURE_INVALIDATED, StreamCaptureInvalidated,                                     \
    "operation failed due to a previous error during capture")                                     \
  X(902, STREAM_CAPTURE_MERGE, StreamCaptureMerge,                                                 \
    "operation would result in a merge of separate capture sequences")                             \
  X(903, STREAM_CAPTURE_UNMATCHED, StreamCaptureUnmatched,                                         \
    "capture was not ended in the same stream as it began")                                        \
  X(904, STREAM_CAPTURE_UNJOINED, StreamCaptureUnjoined, "capturing stream has unjoined work")     \
  X(905, STREAM_CAPTURE_ISOLATION, StreamCaptureIsolation,                                         \
    "dependency created on uncaptured work in another stream")                                     \
  X(906, STREAM_CAPTURE_IMPLICIT, StreamCaptureImplicit,                                           \
    "operation would make the legacy stream depend on a capturing blocking stream")                \
  X(907, CAPTURED_EVENT, CapturedEvent,                                                            \
    "operation not permitted on an event last recorded in a capturing stream")                     \
  X(908, STREAM_CAPTURE_WRONG_THREAD, StreamCaptureWrongThread,                                    \
    "attempt to terminate a thread-local capture sequence from another thread")                    \
  X(909, TIMEOUT, Timeout, "wait operation timed out")                                             \
  X(910, GRAPH_EXEC_UPDATE_FAILURE, GraphExecUpdateFailure,                                        \
    "the graph update was not performed because it included changes which violated constraints "   \
    "specific to instantiated graph update")                                                       \
  X(911, EXTERNAL_DEVICE, ExternalDevice,                                                          \
    "an async error has occurred in external entity outside of CUDA")                              \
  X(912, INVALID_CLUSTER_SIZE, InvalidClusterSize,                                                 \
    "a kernel launch error has occurred due to cluster misconfiguration")                          \
  X(913, FUNCTION_NOT_LOADED, FunctionNotLoaded,                                                   \
    "a function handle is not loaded when calling an API that requires a loaded function")         \
  X(914, INVALID_RESOURCE_TYPE, InvalidResourceType,                                               \
    "this error indicates one or more resources are not valid resource types for the operation")   \
  X(915, INVALID_RESOURCE_CONFIGURATION, InvalidResourceConfiguration,                             \
    "one or more resources are insufficient or non-applicable for the operation")                  \
  X(916, KEY_ROTATION, StreamDetached, "an error happened during a key rotation sequence")         \
  X(999, UNKNOWN, Unknown, "unknown error")
