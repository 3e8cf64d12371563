#include "core/gpu/cupti.h"

#include <cupti.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/base/clock.h"

namespace rollcall::gpu {

namespace {

// What is needed, and what is done without. All of it is there in CUDA 12.
#define ROLLCALL_CUPTI_NEEDED(X)            \
  X(cuptiActivityDisable)                   \
  X(cuptiActivityEnable)                    \
  X(cuptiActivityFlushAll)                  \
  X(cuptiActivityGetNextRecord)             \
  X(cuptiActivityGetNumDroppedRecords)      \
  X(cuptiActivityPopExternalCorrelationId)  \
  X(cuptiActivityPushExternalCorrelationId) \
  X(cuptiActivityRegisterCallbacks)         \
  X(cuptiGetResultString)                   \
  X(cuptiGetTimestamp)                      \
  X(cuptiSubscribe)                         \
  X(cuptiUnsubscribe)
#define ROLLCALL_CUPTI_WELCOME(X)           \
  X(cuptiActivityEnableDriverApi)           \
  X(cuptiActivityEnableRuntimeApi)          \
  X(cuptiActivityRegisterTimestampCallback) \
  X(cuptiActivitySetAttribute)              \
  X(cuptiGetStreamIdEx)

struct Functions {
#define ROLLCALL_X(name) decltype(&::name) name;  // NOLINT(bugprone-macro-parentheses)
  ROLLCALL_CUPTI_NEEDED(ROLLCALL_X)
  ROLLCALL_CUPTI_WELCOME(ROLLCALL_X)
#undef ROLLCALL_X
};
constinit Functions cupti{};

constexpr CUpti_ExternalCorrelationKind kRegion = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

// The layout of a kernel's record has grown behind its name ever since CUDA 9, so the oldest one
// reads those of every version of the library; that of a graph likewise.
using KernelRecord = CUpti_ActivityKernel4;
using GraphRecord = CUpti_ActivityGraphTrace;
#if CUPTI_API_VERSION >= 130000
using KernelRecordNow = CUpti_ActivityKernel10;
using GraphRecordNow = CUpti_ActivityGraphTrace2;
static_assert(offsetof(KernelRecord, start) == offsetof(KernelRecordNow, start));
static_assert(offsetof(KernelRecord, end) == offsetof(KernelRecordNow, end));
static_assert(offsetof(KernelRecord, deviceId) == offsetof(KernelRecordNow, deviceId));
static_assert(offsetof(KernelRecord, streamId) == offsetof(KernelRecordNow, streamId));
static_assert(offsetof(KernelRecord, correlationId) == offsetof(KernelRecordNow, correlationId));
static_assert(offsetof(KernelRecord, name) == offsetof(KernelRecordNow, name));
static_assert(offsetof(GraphRecord, correlationId) == offsetof(GraphRecordNow, correlationId));
static_assert(offsetof(GraphRecord, start) == offsetof(GraphRecordNow, start));
static_assert(offsetof(GraphRecord, end) == offsetof(GraphRecordNow, end));
static_assert(offsetof(GraphRecord, streamId) == offsetof(GraphRecordNow, streamId));
#endif

// The calls by which a kernel or a graph is launched. Numbers of calls are never reused.
constexpr CUpti_CallbackId kDriverLaunches[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
};
constexpr CUpti_CallbackId kRuntimeLaunches[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_ptsz_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernelMultiDevice_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000,
#if CUPTI_API_VERSION >= 130000
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
#endif
};

template <size_t kCount>
bool is_among(const CUpti_CallbackId (&calls)[kCount], CUpti_CallbackId wanted) noexcept {
  for (const CUpti_CallbackId call : calls) {
    if (call == wanted) return true;
  }
  return false;
}

bool is_launch(const CUpti_ActivityAPI& call) noexcept {
  switch (call.kind) {
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return is_among(kDriverLaunches, call.cbid);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return is_among(kRuntimeLaunches, call.cbid);
    default:
      return true;  // CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API
  }
}

// --- buffers -------------------------------------------------------------------------------------

struct Buffer {
  enum State : uint32_t { free, with_cupti, to_be_read };
  std::atomic<uint32_t> state;
  std::atomic<uint64_t> valid_bytes;
  std::atomic<uint64_t> turn;  // in which it was handed back
};
constinit Buffer buffers[kGpuActivityBuffers]{};
constinit std::atomic<uint8_t*> buffer_memory{nullptr};
constinit std::atomic<uint64_t> buffers_handed_back{0};
constinit bool wants_zeroes = false;  // a buffer that is given must be all zeroes
constinit CUpti_SubscriberHandle subscriber{};
constinit bool is_subscribed = false;

bool map_buffers() noexcept {
  if (buffer_memory.load(std::memory_order_relaxed) != nullptr) return true;
  void* memory = mmap(nullptr, kGpuActivityBuffers * kGpuActivityBufferBytes,
                      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  buffer_memory.store(static_cast<uint8_t*>(memory), std::memory_order_release);
  return true;
}

// The lowest one that is free, so that no more memory is touched than is used at a time.
void CUPTIAPI give_buffer(uint8_t** memory, size_t* bytes, size_t* records_max) {
  *memory = nullptr;
  *bytes = 0;
  *records_max = 0;  // as many as it holds
  uint8_t* base = buffer_memory.load(std::memory_order_acquire);
  for (uint64_t i = 0; i < kGpuActivityBuffers && base != nullptr; ++i) {
    uint32_t expected = Buffer::free;
    if (!buffers[i].state.compare_exchange_strong(expected, Buffer::with_cupti,
                                                  std::memory_order_acquire)) {
      continue;
    }
    *memory = base + i * kGpuActivityBufferBytes;
    *bytes = kGpuActivityBufferBytes;
    return;
  }
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* memory, size_t, size_t valid_bytes) {
  const uint8_t* base = buffer_memory.load(std::memory_order_acquire);
  const uint64_t offset = reinterpret_cast<uintptr_t>(memory) - reinterpret_cast<uintptr_t>(base);
  if (base == nullptr || offset >= kGpuActivityBuffers * kGpuActivityBufferBytes) return;
  Buffer& buffer = buffers[offset / kGpuActivityBufferBytes];
  buffer.valid_bytes.store(
      valid_bytes < kGpuActivityBufferBytes ? valid_bytes : kGpuActivityBufferBytes,
      std::memory_order_relaxed);
  buffer.turn.store(buffers_handed_back.fetch_add(1, std::memory_order_relaxed),
                    std::memory_order_relaxed);
  buffer.state.store(Buffer::to_be_read, std::memory_order_release);
}

// The one that was handed back first; null: none is there.
Buffer* next_to_be_read() noexcept {
  Buffer* next = nullptr;
  for (Buffer& buffer : buffers) {
    if (buffer.state.load(std::memory_order_acquire) != Buffer::to_be_read) continue;
    const bool is_earlier = next == nullptr || buffer.turn.load(std::memory_order_relaxed) <
                                                   next->turn.load(std::memory_order_relaxed);
    if (is_earlier) next = &buffer;
  }
  return next;
}

// --- records -------------------------------------------------------------------------------------

void hand_over(const CUpti_Activity& activity, ActivitySource::Take take, void* taker) noexcept {
  ActivityRecord out{};
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& record = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(activity);
      if (record.externalKind != kRegion) return;
      out.kind = ActivityRecord::region;
      out.correlation = record.correlationId;
      out.region_id = record.externalId;
      break;
    }
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API: {
      const auto& record = reinterpret_cast<const CUpti_ActivityAPI&>(activity);
      const bool is_outer = record.kind == CUPTI_ACTIVITY_KIND_RUNTIME;
      out.kind = is_outer ? ActivityRecord::outer_launch : ActivityRecord::launch;
      if (!is_launch(record)) out.kind = ActivityRecord::other_call;
      out.correlation = record.correlationId;
      out.start_ns = record.start;
      out.end_ns = record.end;
      break;
    }
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& record = reinterpret_cast<const KernelRecord&>(activity);
      out.kind = ActivityRecord::kernel;
      out.correlation = record.correlationId;
      out.start_ns = record.start;
      out.end_ns = record.end;
      out.device = static_cast<int32_t>(record.deviceId);
      out.stream_number = record.streamId;
      out.name = record.name;
      break;
    }
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: {
      const auto& record = reinterpret_cast<const GraphRecord&>(activity);
      out.kind = ActivityRecord::graph;
      out.correlation = record.correlationId;
      out.start_ns = record.start;
      out.end_ns = record.end;
      out.device = static_cast<int32_t>(record.deviceId);
      out.stream_number = record.streamId;
      break;
    }
    default:
      return;
  }
  take(taker, out);
}

void read_buffer(Buffer& buffer, ActivitySource::Take take, void* taker) noexcept {
  const auto place = static_cast<uint64_t>(&buffer - buffers);
  uint8_t* memory = buffer_memory.load(std::memory_order_relaxed) + place * kGpuActivityBufferBytes;
  const size_t valid_bytes = buffer.valid_bytes.load(std::memory_order_relaxed);
  CUpti_Activity* record = nullptr;
  while (valid_bytes != 0 &&
         cupti.cuptiActivityGetNextRecord(memory, valid_bytes, &record) == CUPTI_SUCCESS) {
    hand_over(*record, take, taker);
  }
  if (wants_zeroes) memset(memory, 0, valid_bytes);
  buffer.state.store(Buffer::free, std::memory_order_release);
}

// --- what Activity asks -----------------------------------------------------------------------

void enter(uint64_t region_id) noexcept {
  cupti.cuptiActivityPushExternalCorrelationId(kRegion, region_id);
}

void leave() noexcept { cupti.cuptiActivityPopExternalCorrelationId(kRegion, nullptr); }

bool number_of_stream(Stream stream, uint32_t* number) noexcept {
  auto* handle = reinterpret_cast<CUstream>(const_cast<void*>(stream));
  return cupti.cuptiGetStreamIdEx != nullptr &&
         cupti.cuptiGetStreamIdEx(nullptr, handle, 0, number) == CUPTI_SUCCESS;
}

// Of a few readings the one that took the least time.
bool read_clock(ActivityInstant* instant) noexcept {
  constexpr int kReadings = 3;
  uint64_t least_ticks = ~uint64_t{0};
  for (int i = 0; i < kReadings; ++i) {
    uint64_t ns = 0;
    const uint64_t before = ticks_now();
    if (cupti.cuptiGetTimestamp(&ns) != CUPTI_SUCCESS) return false;
    const uint64_t took = ticks_now() - before;
    if (took >= least_ticks) continue;
    least_ticks = took;
    *instant = {.ticks = before + took / 2, .ns = ns};
  }
  return true;
}

uint64_t collect(ActivitySource::Asking asking, ActivitySource::Take take, void* taker) noexcept {
  const bool is_forced = asking == ActivitySource::everything;
  if (asking != ActivitySource::nothing) {
    cupti.cuptiActivityFlushAll(is_forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
  }
  // Not more than there are: a job may launch faster than this reads.
  for (uint32_t i = 0; i < kGpuActivityBuffers; ++i) {
    Buffer* buffer = next_to_be_read();
    if (buffer == nullptr) break;
    read_buffer(*buffer, take, taker);
  }
  size_t dropped = 0;
  const bool knows = cupti.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS;
  return knows ? dropped : 0;
}

// --- on and off ----------------------------------------------------------------------------------

uint64_t CUPTIAPI monotonic_time() { return monotonic_now_ns(); }
// CUPTI's own clock on Linux: it takes no null to have it back.
uint64_t CUPTIAPI default_time() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void set_clock(CUpti_TimestampCallbackFunc clock) noexcept {
  if (cupti.cuptiActivityRegisterTimestampCallback == nullptr) return;
  cupti.cuptiActivityRegisterTimestampCallback(clock);
}

// CUPTI would zero a buffer on the launching thread; with this the polling one does. True when
// done.
bool set_zeroes_itself(uint8_t on) noexcept {
  size_t bytes = sizeof(on);
  return cupti.cuptiActivitySetAttribute != nullptr &&
         cupti.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes,
                                         &on) == CUPTI_SUCCESS;
}

// Nothing is asked to be called back for; CUPTI wants a function all the same.
void CUPTIAPI called_back(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_RUNTIME};

// Of all calls, which their kind has switched on, those that launch are left. The other way round,
// launches alone without their kind, CUPTI 13.0 answers success and tells of none. A call that
// stays on is read and passed over.
template <size_t kCount>
void leave_launches(CUptiResult(CUPTIAPI* enable)(CUpti_CallbackId, uint8_t),
                    const CUpti_CallbackId (&launches)[kCount], CUpti_CallbackId calls) noexcept {
  for (CUpti_CallbackId call = 1; enable != nullptr && call < calls; ++call) {
    if (!is_among(launches, call)) enable(call, 0);
  }
}

void switch_off() noexcept {
  for (const CUpti_ActivityKind kind : kKinds) cupti.cuptiActivityDisable(kind);
  set_zeroes_itself(0);
  set_clock(default_time);
  cupti.cuptiUnsubscribe(subscriber);
  is_subscribed = false;
}

// True when CUPTI has done it; else what it says goes to `why`.
bool is_done(const char* function, CUptiResult result, TextWriter& why) noexcept {
  if (result == CUPTI_SUCCESS) return true;
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    why.text("another client of CUPTI, a profiler, is active in this process");
    return false;
  }
  const char* text = nullptr;
  if (cupti.cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "error";
  why.text(function).text(": ").text(text).text(" (").number(static_cast<uint64_t>(result));
  why.character(')');
  return false;
}

bool find_functions(const CuptiLibrary& library, TextWriter& why) noexcept {
  const char* missing = nullptr;
#define ROLLCALL_X(name)                                                                 \
  cupti.name = reinterpret_cast<decltype(&::name)>(library.find(library.handle, #name)); \
  if (cupti.name == nullptr) missing = #name;
  ROLLCALL_CUPTI_NEEDED(ROLLCALL_X)
#undef ROLLCALL_X
#define ROLLCALL_X(name) \
  cupti.name = reinterpret_cast<decltype(&::name)>(library.find(library.handle, #name));
  ROLLCALL_CUPTI_WELCOME(ROLLCALL_X)
#undef ROLLCALL_X
  if (missing == nullptr) return true;
  why.text("it has no ").text(missing);
  return false;
}

bool enable_all(TextWriter& why) noexcept {
  const CUptiResult registered = cupti.cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  if (!is_done("cuptiActivityRegisterCallbacks", registered, why)) return false;
  for (const CUpti_ActivityKind kind : kKinds) {
    if (!is_done("cuptiActivityEnable", cupti.cuptiActivityEnable(kind), why)) return false;
  }
  leave_launches(cupti.cuptiActivityEnableDriverApi, kDriverLaunches, CUPTI_DRIVER_TRACE_CBID_SIZE);
  leave_launches(cupti.cuptiActivityEnableRuntimeApi, kRuntimeLaunches,
                 CUPTI_RUNTIME_TRACE_CBID_SIZE);
  return true;
}

}  // namespace

bool start_cupti(const CuptiLibrary& library, ActivitySource& source, TextWriter& why) noexcept {
  if (!find_functions(library, why)) return false;
  if (!map_buffers()) {
    why.text("no memory for its buffers");
    return false;
  }
  const CUptiResult subscribed = cupti.cuptiSubscribe(&subscriber, called_back, nullptr);
  if (!is_done("cuptiSubscribe", subscribed, why)) return false;
  is_subscribed = true;
  // Before anything is enabled, so that no record has another clock's times.
  set_clock(monotonic_time);
  wants_zeroes = set_zeroes_itself(1);
  if (!enable_all(why)) {
    switch_off();
    return false;
  }
  source = {.enter = enter,
            .leave = leave,
            .number_of_stream = number_of_stream,
            .read_clock = read_clock,
            .collect = collect,
            .note_name = source.note_name};
  return true;
}

// The buffers stay: those that CUPTI has are handed back when it pleases.
void stop_cupti() noexcept {
  if (is_subscribed) switch_off();
}

void forget_cupti() noexcept {
  is_subscribed = false;
  buffer_memory.store(nullptr, std::memory_order_relaxed);
  for (Buffer& buffer : buffers) buffer.state.store(Buffer::free, std::memory_order_relaxed);
}

}  // namespace rollcall::gpu
