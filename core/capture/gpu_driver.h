// The functions of the CUDA driver that GPU timing needs, found by name at run time: nothing of
// CUDA is linked or included, and a process without a driver simply has no GPU times.
//
// The names are those that the library exports since CUDA 10.1 and still exports in CUDA 13 (newer
// releases of cuda.h map the short names to others, which changes nothing here). Handles are opaque
// and results are CUresult numbers.
#pragma once

#include <cstdint>

namespace rollcall::capture {

using GpuContextHandle = void*;
using GpuStream = const void*;
using GpuEvent = void*;

// Results that mean something here.
inline constexpr int kGpuSuccess = 0;
inline constexpr int kGpuNotReady = 600;
inline constexpr int kGpuCaptureUnsupported = 900;  // a call that some capture forbids

inline constexpr int kGpuCaptureRelaxed = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr unsigned kGpuNonBlockingStream = 1;
// Stream handles below this are no pointers: the default streams, which belong to the thread's
// current context.
inline constexpr uintptr_t kGpuFirstRealStream = 3;

// X(member, exported name, parameters). All are required, and all return a CUresult.
#define ROLLCALL_GPU_DRIVER(X)                                                                   \
  X(context_get_current, "cuCtxGetCurrent", (GpuContextHandle * context))                        \
  X(context_set_current, "cuCtxSetCurrent", (GpuContextHandle context))                          \
  X(context_get_device, "cuCtxGetDevice", (int* device))                                         \
  X(primary_get_state, "cuDevicePrimaryCtxGetState", (int device, unsigned* flags, int* active)) \
  X(primary_retain, "cuDevicePrimaryCtxRetain", (GpuContextHandle * context, int device))        \
  X(primary_release, "cuDevicePrimaryCtxRelease_v2", (int device))                               \
  X(stream_get_context, "cuStreamGetCtx", (GpuStream stream, GpuContextHandle * context))        \
  X(stream_is_capturing, "cuStreamIsCapturing", (GpuStream stream, int* status))                 \
  X(stream_capture_info, "cuStreamGetCaptureInfo",                                               \
    (GpuStream stream, int* status, uint64_t* capture))                                          \
  X(stream_create, "cuStreamCreate", (GpuStream * stream, unsigned flags))                       \
  X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", (int* mode))                     \
  X(event_create, "cuEventCreate", (GpuEvent * event, unsigned flags))                           \
  X(event_record, "cuEventRecord", (GpuEvent event, GpuStream stream))                           \
  X(event_query, "cuEventQuery", (GpuEvent event))                                               \
  X(event_elapsed, "cuEventElapsedTime", (float* milliseconds, GpuEvent start, GpuEvent end))

struct GpuDriver {
#define ROLLCALL_X(member, name, parameters) int(*member) parameters = nullptr;
  ROLLCALL_GPU_DRIVER(ROLLCALL_X)
#undef ROLLCALL_X
};

// Looks a function of the loaded driver up; null when there is none, or no driver.
using GpuSymbolLookup = void* (*)(const char* name);

// False, and `driver` is not to be used, when a function is missing.
inline bool load_gpu_driver(GpuSymbolLookup lookup, GpuDriver& driver) noexcept {
  bool complete = true;
#define ROLLCALL_X(member, name, parameters)                         \
  driver.member = reinterpret_cast<int(*) parameters>(lookup(name)); \
  complete = complete && driver.member != nullptr;
  ROLLCALL_GPU_DRIVER(ROLLCALL_X)
#undef ROLLCALL_X
  return complete;
}

}  // namespace rollcall::capture
