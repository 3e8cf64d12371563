// A CUDA driver for tests of the GPU timer: streams come to their events when the test says so.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/gpu/driver.h"

namespace rollcall::test {

// One per test program; `the_gpu()` is what the driver's functions work on.
class FakeGpu {
 public:
  struct Event {
    uintptr_t context = 0;
    bool is_done = true;
    uint64_t gpu_ns = 0;
    bool is_gone = false;
  };
  struct Stream {
    uintptr_t context = 0;
    bool flows = false;              // everything is done at once
    uint64_t capture = 0;            // identity; 0: does not capture
    std::deque<size_t> queue;        // events that it has not come to
    std::vector<gpu::Node> waits{};  // while it captures: what its next node waits for
  };
  // A word that a replay writes; its handle is its number, from 1 on.
  struct Node {
    uintptr_t stream;
    uint64_t* word;
    uint64_t value;
    std::vector<gpu::Node> waits;
  };
  // A node of the job's own.
  static gpu::Node job_node(uintptr_t number) {
    return reinterpret_cast<gpu::Node>(0x9000 + number);
  }
  static gpu::Node mark_node(uintptr_t number) { return reinterpret_cast<gpu::Node>(number); }

  // Contexts are small numbers, streams start at 0x1000.
  gpu::Stream make_stream(uintptr_t context, bool flows = false) {
    const std::lock_guard<std::mutex> guard(mutex);
    const uintptr_t handle = 0x1000 + streams_made++;
    streams[handle] = {context, flows, 0, {}};
    return reinterpret_cast<gpu::Stream>(handle);
  }
  Stream& at(gpu::Stream stream) { return streams.at(reinterpret_cast<uintptr_t>(stream)); }

  // The stream comes to its next event at this time of the GPU's clock.
  void reach(gpu::Stream stream, uint64_t gpu_ns) {
    const std::lock_guard<std::mutex> guard(mutex);
    Stream& which = at(stream);
    events[which.queue.front()].is_done = true;
    events[which.queue.front()].gpu_ns = gpu_ns;
    which.queue.pop_front();
  }
  // Replays what was captured, `count` nodes of it; a mark is 4 bytes.
  void replay(size_t count) const {
    for (size_t i = 0; i < count && i < nodes.size(); ++i) {
      *reinterpret_cast<uint32_t*>(nodes[i].word) = static_cast<uint32_t>(nodes[i].value);
    }
  }
  void reach_all(gpu::Stream stream, uint64_t gpu_ns) {
    while (!at(stream).queue.empty()) reach(stream, gpu_ns);
  }
  // Its events and streams are none any more: who uses one of them has crashed the job.
  void forget_context(uintptr_t context) {
    const std::lock_guard<std::mutex> guard(mutex);
    for (Event& event : events) event.is_gone = event.is_gone || event.context == context;
    std::erase_if(streams, [&](const auto& known) { return known.second.context == context; });
  }
  Event& event(gpu::Event handle) {
    Event& found = events[reinterpret_cast<uintptr_t>(handle)];
    if (found.is_gone) std::abort();
    return found;
  }
  // The GPU's clock at a time of the host's.
  uint64_t gpu_ns_at(uint64_t host_ns) const { return host_ns + clock_offset_ns; }

  static FakeGpu& get() {
    static FakeGpu gpu;
    return gpu;
  }
  static void reset() {
    FakeGpu& gpu = get();
    gpu.streams.clear();
    gpu.streams_made = 0;
    gpu.events.assign(1, {});  // handle 0 is none
    gpu.queries = gpu.records = gpu.forbidden_calls = 0;
    gpu.sticky_error = 0;
    gpu.global_capture_elsewhere = false;
    gpu.primary_is_active = true;
    gpu.green_context = 0;
    gpu.probes_answer = true;
    gpu.events_left = ~size_t{0};
    gpu.cost_ticks = 0;
    gpu.nodes.clear();
    gpu.registered = 0;
    gpu.registered_memory = nullptr;
    gpu.refuses_registration = 0;
    gpu.captures_writes = gpu.can_write = true;
    gpu.has_lossy_edges = false;
    gpu.graph = nullptr;
  }

  std::mutex mutex;
  std::map<uintptr_t, Stream> streams;
  std::vector<Event> events{1};
  uint64_t clock_offset_ns = 777'000'000;
  uint64_t cost_ticks = 0;  // of recording an event, on the fake clock
  uint64_t queries = 0;
  uint64_t records = 0;
  uint64_t forbidden_calls = 0;  // would have invalidated a capture
  int sticky_error = 0;
  bool global_capture_elsewhere = false;
  bool primary_is_active = true;
  uintptr_t green_context = 0;  // none
  bool probes_answer = true;
  size_t events_left = ~size_t{0};
  uint64_t streams_made = 0;
  std::vector<Node> nodes;  // of all captures
  unsigned registered = 0;
  const void* registered_memory = nullptr;  // asked for last
  unsigned refuses_registration = 0;        // so many times
  bool captures_writes = true;              // false: a captured write breaks its capture
  bool has_lossy_edges = false;             // a stream waits for more than nodes can say
  bool can_write = true;                    // the device's attribute
  void* graph = nullptr;                    // that streams capture into
  static constexpr uint64_t kDeviceOffset = 0x7000'0000'0000;  // of registered memory
};

namespace fake_driver {
inline int init(unsigned) { return 0; }

inline thread_local uintptr_t current_context = 1;
inline thread_local int capture_mode = 0;

inline bool is_forbidden() {
  FakeGpu& gpu = FakeGpu::get();
  if (!gpu.global_capture_elsewhere || capture_mode == gpu::kCaptureRelaxed) return false;
  ++gpu.forbidden_calls;
  return true;
}
inline int context_get_current(gpu::ContextHandle* context) {
  *context = reinterpret_cast<void*>(current_context);
  return 0;
}
inline int context_set_current(gpu::ContextHandle context) {
  FakeGpu& gpu = FakeGpu::get();
  if (gpu.green_context != 0 && context == reinterpret_cast<void*>(gpu.green_context)) std::abort();
  current_context = reinterpret_cast<uintptr_t>(context);
  return 0;
}
inline int context_get_device(int* device) {
  *device = static_cast<int>(current_context) - 1;
  return 0;
}
inline int primary_get_state(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = FakeGpu::get().primary_is_active ? 1 : 0;
  return 0;
}
inline int primary_retain(gpu::ContextHandle* context, int device) {
  *context = reinterpret_cast<void*>(static_cast<uintptr_t>(device) + 1);
  return 0;
}
inline int primary_release(int) { return 0; }
inline int stream_get_context(gpu::Stream stream, gpu::ContextHandle* context) {
  FakeGpu& gpu = FakeGpu::get();
  const std::lock_guard<std::mutex> guard(gpu.mutex);
  *context = reinterpret_cast<void*>(gpu.at(stream).context);
  return 0;
}
inline int stream_get_green(gpu::Stream stream, gpu::ContextHandle* context,
                            gpu::GreenContext* green) {
  FakeGpu& gpu = FakeGpu::get();
  stream_get_context(stream, context);
  const bool is_green = *context == reinterpret_cast<void*>(gpu.green_context);
  *green = is_green ? *context : nullptr;
  return 0;
}
inline int stream_is_capturing(gpu::Stream stream, int* status) {
  FakeGpu& gpu = FakeGpu::get();
  const std::lock_guard<std::mutex> guard(gpu.mutex);
  const auto found = gpu.streams.find(reinterpret_cast<uintptr_t>(stream));
  *status = found != gpu.streams.end() && found->second.capture != 0 ? 1 : 0;
  return 0;
}
inline int stream_capture_info(gpu::Stream stream, int* status, uint64_t* capture) {
  FakeGpu& gpu = FakeGpu::get();
  const std::lock_guard<std::mutex> guard(gpu.mutex);
  *status = 1;
  *capture = gpu.at(stream).capture;
  return 0;
}
inline int stream_create(gpu::Stream* stream, unsigned) {
  *stream = FakeGpu::get().make_stream(current_context, FakeGpu::get().probes_answer);
  return 0;
}
inline int exchange_capture_mode(int* mode) {
  std::swap(*mode, capture_mode);
  return 0;
}
inline int event_create(gpu::Event* event, unsigned) {
  FakeGpu& gpu = FakeGpu::get();
  const std::lock_guard<std::mutex> guard(gpu.mutex);
  if (gpu.events_left == 0) return 2;
  --gpu.events_left;
  gpu.events.push_back({current_context, true, 0});
  *event = reinterpret_cast<void*>(gpu.events.size() - 1);
  return 0;
}
inline int event_record(gpu::Event event, gpu::Stream stream) {
  FakeGpu& gpu = FakeGpu::get();
  const std::lock_guard<std::mutex> guard(gpu.mutex);
  ++gpu.records;
  if (gpu.cost_ticks != 0) advance_fake_clock(gpu.cost_ticks);
  if (gpu.sticky_error != 0) return gpu.sticky_error;
  const auto number = reinterpret_cast<uintptr_t>(event);
  FakeGpu::Stream& which = gpu.at(stream);
  if (which.context != gpu.event(event).context) return 400;
  if (which.flows) {
    gpu.events[number].is_done = true;
    gpu.events[number].gpu_ns = gpu.gpu_ns_at(ticks_now());
  } else {
    gpu.events[number].is_done = false;
    which.queue.push_back(number);
  }
  return 0;
}
inline int event_query(gpu::Event event) {
  FakeGpu& gpu = FakeGpu::get();
  const std::lock_guard<std::mutex> guard(gpu.mutex);
  ++gpu.queries;
  if (is_forbidden()) return gpu::kCaptureUnsupported;
  if (gpu.sticky_error != 0) return gpu.sticky_error;
  return gpu.event(event).is_done ? 0 : gpu::kNotReady;
}
inline int event_elapsed(float* milliseconds, gpu::Event start, gpu::Event end) {
  FakeGpu& gpu = FakeGpu::get();
  const std::lock_guard<std::mutex> guard(gpu.mutex);
  const FakeGpu::Event& first = gpu.event(start);
  const FakeGpu::Event& last = gpu.event(end);
  if (!first.is_done || !last.is_done) return gpu::kNotReady;
  const auto apart_ns = static_cast<int64_t>(last.gpu_ns) - static_cast<int64_t>(first.gpu_ns);
  *milliseconds = static_cast<float>(static_cast<double>(apart_ns) / 1e6);
  return 0;
}

inline int stream_graph(gpu::Stream stream, int* status, uint64_t* capture, gpu::Graph* graph,
                        const gpu::Node** nodes, uint64_t* count) {
  FakeGpu& gpu = FakeGpu::get();
  *graph = gpu.graph;
  if (nodes != nullptr) {
    if (gpu.has_lossy_edges) return 402;  // CUDA_ERROR_LOSSY_QUERY
    const std::lock_guard<std::mutex> guard(gpu.mutex);
    *nodes = gpu.at(stream).waits.data();
    *count = gpu.at(stream).waits.size();
  }
  return stream_capture_info(stream, status, capture);
}
inline int stream_set_dependencies(gpu::Stream stream, const gpu::Node* nodes, uint64_t count,
                                   unsigned flags) {
  FakeGpu& gpu = FakeGpu::get();
  const std::lock_guard<std::mutex> guard(gpu.mutex);
  if (flags != gpu::kSetDependencies || gpu.at(stream).capture == 0) return 1;
  gpu.at(stream).waits.assign(nodes, nodes + count);
  return 0;
}
inline int stream_fill(uint64_t address, unsigned value, uint64_t, gpu::Stream stream) {
  FakeGpu& gpu = FakeGpu::get();
  const std::lock_guard<std::mutex> guard(gpu.mutex);
  FakeGpu::Stream& which = gpu.at(stream);
  if (which.context != current_context) return 201;  // CUDA_ERROR_INVALID_CONTEXT
  if (which.capture == 0 || !gpu.captures_writes) {
    ++gpu.forbidden_calls;
    return gpu::kCaptureUnsupported;
  }
  auto* word = reinterpret_cast<uint64_t*>(address - FakeGpu::kDeviceOffset);
  gpu.nodes.push_back({reinterpret_cast<uintptr_t>(stream), word, value, which.waits});
  which.waits = {FakeGpu::mark_node(gpu.nodes.size())};
  return 0;
}
inline int stream_write_value(gpu::Stream stream, uint64_t address, uint64_t value, unsigned) {
  FakeGpu& gpu = FakeGpu::get();
  const std::lock_guard<std::mutex> guard(gpu.mutex);
  auto* word = reinterpret_cast<uint64_t*>(address - FakeGpu::kDeviceOffset);
  if (gpu.at(stream).capture != 0) {
    ++gpu.forbidden_calls;
    return gpu::kCaptureUnsupported;
  }
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  return 0;
}
inline int device_get_attribute(int* value, int, int) {
  *value = FakeGpu::get().can_write ? 1 : 0;
  return 0;
}
inline int host_register(void* memory, uint64_t, unsigned) {
  FakeGpu& gpu = FakeGpu::get();
  gpu.registered_memory = memory;
  if (gpu.refuses_registration != 0) return --gpu.refuses_registration, 1;
  ++gpu.registered;
  return 0;
}
inline int host_unregister(void*) {
  --FakeGpu::get().registered;
  return 0;
}
inline int host_device_pointer(uint64_t* address, void* memory, unsigned) {
  *address = reinterpret_cast<uintptr_t>(memory) + FakeGpu::kDeviceOffset;
  return 0;
}
inline int begin_capture(gpu::Stream stream, int) {
  FakeGpu::get().at(stream).capture = 0xffff;
  return 0;
}
inline int end_capture(gpu::Stream stream, gpu::Graph* graph) {
  FakeGpu& gpu = FakeGpu::get();
  gpu.at(stream).capture = 0;
  gpu.nodes.clear();
  *graph = reinterpret_cast<void*>(0x999);
  return 0;
}
inline int graph_destroy(gpu::Graph) { return 0; }
inline int stream_destroy(gpu::Stream) { return 0; }

}  // namespace fake_driver

inline gpu::Driver fake_gpu_driver() {
  gpu::Driver driver;
#define ROLLCALL_X(member, name, parameters) driver.member = fake_driver::member;
  ROLLCALL_GPU_DRIVER(ROLLCALL_X)
  ROLLCALL_GPU_WORDS(ROLLCALL_X)
  ROLLCALL_GPU_OPTIONAL(ROLLCALL_X)
#undef ROLLCALL_X
  driver.has_words = true;
  return driver;
}

// `dlsym` in that driver.
inline void* find_in_fake_driver(const char* wanted) {
  const std::string_view name = wanted;
  if (name == "cuInit") return reinterpret_cast<void*>(fake_driver::init);
#define ROLLCALL_X(member, function, parameters) \
  if (name == function) return reinterpret_cast<void*>(fake_driver::member);
  ROLLCALL_GPU_DRIVER(ROLLCALL_X)
  ROLLCALL_GPU_WORDS(ROLLCALL_X)
  ROLLCALL_GPU_OPTIONAL(ROLLCALL_X)
#undef ROLLCALL_X
  return nullptr;
}

}  // namespace rollcall::test
