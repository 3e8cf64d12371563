// The functions of the CUDA driver that GPU timing needs, found by name at run time: nothing of
// CUDA is linked or included, and a process without a driver simply has no GPU times.
//
// The names are those that the library exports since CUDA 10.1 and still exports in CUDA 13 (newer
// releases of cuda.h map the short names to others, which changes nothing here). Handles are opaque
// and results are CUresult numbers.
#pragma once

#include <atomic>
#include <cstdint>

namespace rollcall::gpu {

using ContextHandle = void*;
using GreenContext = void*;
using Stream = const void*;
using Event = void*;
using Graph = void*;
using Node = const void*;  // of a graph

// Results that mean something here.
inline constexpr int kSuccess = 0;
inline constexpr int kLossyQuery = 402;  // an edge of a capture is more than its node
inline constexpr int kNotReady = 600;
inline constexpr int kCaptureUnsupported = 900;  // a call that some capture forbids

inline constexpr int kCaptureRelaxed = 2;        // CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr int kCaptureActive = 1;         // CU_STREAM_CAPTURE_STATUS_ACTIVE; 2: invalidated
inline constexpr unsigned kSetDependencies = 1;  // CU_STREAM_SET_CAPTURE_DEPENDENCIES
inline constexpr unsigned kNonBlockingStream = 1;
inline constexpr unsigned kRegisterPortable = 1;  // CU_MEMHOSTREGISTER_PORTABLE
inline constexpr unsigned kRegisterMapped = 2;    // CU_MEMHOSTREGISTER_DEVICEMAP
inline constexpr int kCanWrite64 = 122;  // CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS
// Stream handles below this are no pointers: the default streams, which belong to the thread's
// current context.
inline constexpr uintptr_t kFirstRealStream = 3;
inline bool is_default_stream(Stream stream) noexcept {
  return reinterpret_cast<uintptr_t>(stream) < kFirstRealStream;
}

// X(member, exported name, parameters). All are required, and all return a CUresult.
#define ROLLCALL_GPU_DRIVER(X)                                                                   \
  X(stream_is_capturing, "cuStreamIsCapturing", (Stream stream, int* status))                    \
  X(context_get_current, "cuCtxGetCurrent", (ContextHandle * context))                           \
  X(context_set_current, "cuCtxSetCurrent", (ContextHandle context))                             \
  X(context_get_device, "cuCtxGetDevice", (int* device))                                         \
  X(primary_get_state, "cuDevicePrimaryCtxGetState", (int device, unsigned* flags, int* active)) \
  X(primary_retain, "cuDevicePrimaryCtxRetain", (ContextHandle * context, int device))           \
  X(primary_release, "cuDevicePrimaryCtxRelease_v2", (int device))                               \
  X(stream_get_context, "cuStreamGetCtx", (Stream stream, ContextHandle * context))              \
  X(stream_capture_info, "cuStreamGetCaptureInfo",                                               \
    (Stream stream, int* status, uint64_t* capture))                                             \
  X(stream_create, "cuStreamCreate", (Stream * stream, unsigned flags))                          \
  X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", (int* mode))                     \
  X(event_create, "cuEventCreate", (Event * event, unsigned flags))                              \
  X(event_record, "cuEventRecord", (Event event, Stream stream))                                 \
  X(event_query, "cuEventQuery", (Event event))                                                  \
  X(event_elapsed, "cuEventElapsedTime", (float* milliseconds, Event start, Event end))

// What marks in graphs and progress words need besides; newer than the rest (CUDA 11.7), and done
// without where it is missing.
#define ROLLCALL_GPU_WORDS(X)                                                                \
  X(stream_graph, "cuStreamGetCaptureInfo_v2",                                               \
    (Stream stream, int* status, uint64_t* capture, Graph* graph, const Node** dependencies, \
     uint64_t* dependency_count))                                                            \
  X(stream_set_dependencies, "cuStreamUpdateCaptureDependencies",                            \
    (Stream stream, const Node* nodes, uint64_t count, unsigned flags))                      \
  X(stream_fill, "cuMemsetD32Async",                                                         \
    (uint64_t address, unsigned value, uint64_t count, Stream stream))                       \
  X(stream_write_value, "cuStreamWriteValue64_v2",                                           \
    (Stream stream, uint64_t address, uint64_t value, unsigned flags))                       \
  X(device_get_attribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))   \
  X(host_register, "cuMemHostRegister_v2", (void* memory, uint64_t bytes, unsigned flags))   \
  X(host_unregister, "cuMemHostUnregister", (void* memory))                                  \
  X(host_device_pointer, "cuMemHostGetDevicePointer_v2",                                     \
    (uint64_t * address, void* memory, unsigned flags))                                      \
  X(begin_capture, "cuStreamBeginCapture_v2", (Stream stream, int mode))                     \
  X(end_capture, "cuStreamEndCapture", (Stream stream, Graph * graph))                       \
  X(graph_destroy, "cuGraphDestroy", (Graph graph))                                          \
  X(stream_destroy, "cuStreamDestroy_v2", (Stream stream))

// Each is done without where it is missing. cuStreamGetCtx_v2 is of CUDA 12.5.
#define ROLLCALL_GPU_OPTIONAL(X)           \
  X(stream_get_green, "cuStreamGetCtx_v2", \
    (Stream stream, ContextHandle * context, GreenContext * green))

// A list of parameters in parentheses of its own is no expression.
// NOLINTBEGIN(bugprone-macro-parentheses)
struct Driver {
#define ROLLCALL_X(member, name, parameters) int(*member) parameters = nullptr;
  ROLLCALL_GPU_DRIVER(ROLLCALL_X)
  ROLLCALL_GPU_WORDS(ROLLCALL_X)
  ROLLCALL_GPU_OPTIONAL(ROLLCALL_X)
#undef ROLLCALL_X
  bool has_words = false;  // all of the second table is there
};

// The exported name of &Driver::member.
template <auto kFunction>
inline constexpr const char* kFunctionName = nullptr;
#define ROLLCALL_X(member, name, parameters) \
  template <>                                \
  inline constexpr const char* kFunctionName<&Driver::member> = name;
ROLLCALL_GPU_DRIVER(ROLLCALL_X)
ROLLCALL_GPU_WORDS(ROLLCALL_X)
ROLLCALL_GPU_OPTIONAL(ROLLCALL_X)
#undef ROLLCALL_X

// The first call that the driver refused: which, and its CUresult. Any thread. Zeroes are its
// initial state.
class Fault {
 public:
  void note(const char* function, int result) noexcept {
    int none = 0;
    if (!result_.compare_exchange_strong(none, result, std::memory_order_relaxed)) return;
    function_.store(function, std::memory_order_release);
  }
  // Null: none yet.
  const char* function() const noexcept { return function_.load(std::memory_order_acquire); }
  // Of that function.
  int result() const noexcept { return result_.load(std::memory_order_relaxed); }

 private:
  std::atomic<const char*> function_;
  std::atomic<int> result_;
};

// The driver, and the first call that it refused. Zeroes are its initial state.
struct AskedDriver {
  Driver driver;
  Fault fault;

  template <auto kFunction, class... Arguments>
  int ask(Arguments... arguments) noexcept {
    const int result = (driver.*kFunction)(arguments...);
    if (__builtin_expect(result != kSuccess && result != kNotReady, 0)) {
      fault.note(kFunctionName<kFunction>, result);
    }
    return result;
  }
};

// Looks a function of the loaded driver up; null when there is none, or no driver.
using SymbolLookup = void* (*)(const char* name);

// False, and `driver` is not to be used, when a function of the first table is missing.
inline bool load_driver(SymbolLookup lookup, Driver& driver) noexcept {
  bool complete = true;
#define ROLLCALL_X(member, name, parameters)                         \
  driver.member = reinterpret_cast<int(*) parameters>(lookup(name)); \
  complete = complete && driver.member != nullptr;
  ROLLCALL_GPU_DRIVER(ROLLCALL_X)
  const bool is_usable = complete;
  ROLLCALL_GPU_WORDS(ROLLCALL_X)
  driver.has_words = complete;
  ROLLCALL_GPU_OPTIONAL(ROLLCALL_X)
#undef ROLLCALL_X
  return is_usable;
}
// NOLINTEND(bugprone-macro-parentheses)

// The first function of the first table that is missing, null where none is.
inline const char* missing_function(SymbolLookup lookup) noexcept {
#define ROLLCALL_X(member, name, parameters) \
  if (lookup(name) == nullptr) return name;
  ROLLCALL_GPU_DRIVER(ROLLCALL_X)
#undef ROLLCALL_X
  return nullptr;
}

}  // namespace rollcall::gpu
