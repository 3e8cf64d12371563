// What NCCL gives as `context` to every callback: one per communicator and rank.
//
// A context outlives its communicator (shared proxy threads keep the parent's), and NCCL passes
// contexts of other processes, so it is a generation-tagged number like the handles. Contexts of
// two communicators never have the same value: NCCL 2.31 drops queued events by it.
//
// Whose operations it brings is decided once: where the shim watches the communicator's creation,
// the shim records the calls and the events only enrich its records; otherwise the plugin records
// them itself, in a communicator entry of its own.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/limits.h"
#include "core/capture/recorder.h"
#include "profiler_plugin/gpu_clock.h"
#include "profiler_plugin/handles.h"
#include "profiler_plugin/mapped_table.h"

namespace rollcall::profiler {

// One rank's end of one communicator each; recycled when finalized. As many as the file has
// entries for.
inline constexpr uint32_t kContextsMax = kCommsMax;

// Channels of one communicator that KernelCh times are followed on: NCCL's MAXCHANNELS.
inline constexpr unsigned kKernelChannels = 64;
// NCCL has two queues of kernels to report per channel, up to 2.30: one of receives, one of all
// else. Each is in order.
inline constexpr unsigned kKernelQueues = 2;

// What every event looks at comes first. The size is a power of two: each event finds its context.
struct alignas(128) Context {
  std::atomic<const void*> value;        // what NCCL has of it; null: not in use
  std::atomic<uint32_t> comm_index;      // kCommUnknown: not known yet
  std::atomic<uint16_t> is_own;          // 1: the plugin records the operations
  std::atomic<uint16_t> launches_late;   // 1: behind the ends of its calls (operations.h)
  std::atomic<uint64_t> user_tag;        // of the newest tagged call; 0 none
  std::atomic<uint64_t> launched_ticks;  // its newest launch of a kernel; 0: none yet
  std::atomic<uint32_t> version;
  std::atomic<uint32_t> kernels_untold;  // kernels.h
  std::atomic<uint64_t> kernels;         // operations whose kernels report, so far
  GpuClock gpu_clock;
  std::atomic<uint64_t> comm_hash;
  uint64_t generation;         // how often it was opened; with the lock
  std::atomic<void*> chained;  // the chained plugin's context
};
static_assert(sizeof(Context) == 128);

struct ContextOpening {
  unsigned version = 0;
  bool has_identity = false;  // version 4 and later
  uint64_t comm_hash = 0;
  const char* name = nullptr;
  int32_t nranks = -1;
  int32_t rank = -1;
  const void* caller = nullptr;  // an address in the NCCL that opens it
};

namespace contexts_detail {
// Hidden and constant-initialised, as clock_detail's.
extern constinit Context contexts[kContextsMax] __attribute__((visibility("hidden")));
// Start of the newest KernelCh of a context per queue: a time before it is a slot of NCCL's ring
// reused.
using KernelStarts = std::atomic<uint64_t>[kKernelChannels * kKernelQueues];
extern constinit MappedTable<KernelStarts, kContextsMax> kernel_starts_ns
    __attribute__((visibility("hidden")));

// Of a context that launches late: turn of its newest call that is still awaited; 0: none is.
extern constinit std::atomic<uint64_t> late_calls[kContextsMax]
    __attribute__((visibility("hidden")));

constexpr unsigned kIndexBits = 12;
static_assert(kContextsMax < 1u << kIndexBits, "the last index stands for `no room`");
constexpr uint32_t kNoRoom = (1u << kIndexBits) - 1;
}  // namespace contexts_detail

// [cold] Never null: where there is no room the context is one that nothing finds.
void* open_context(const ContextOpening& opening) noexcept;
void close_context(void* context) noexcept;  // [cold]
// In a forked child: the thread that held it is not there.
void reset_contexts_lock() noexcept;
// Null for what is none of this process's open contexts.
inline Context* find_context(const void* value) noexcept {
  const uint64_t index = reinterpret_cast<uintptr_t>(value) & contexts_detail::kNoRoom;
  if (index >= kContextsMax || value == nullptr) return nullptr;
  Context& context = contexts_detail::contexts[index];
  return context.value.load(std::memory_order_acquire) == value ? &context : nullptr;
}
inline uint32_t index_of(const Context& context) noexcept {
  return static_cast<uint32_t>(&context - contexts_detail::contexts);
}
inline Context& context_at(uint32_t index) noexcept {
  return contexts_detail::contexts[index % kContextsMax];
}
inline std::atomic<uint64_t>& newest_late_call(const Context& context) noexcept {
  return contexts_detail::late_calls[index_of(context)];
}
// Null where there is no memory for them.
inline std::atomic<uint64_t>* newest_kernel_start_ns(const Context& context, uint8_t channel,
                                                     bool is_recv) noexcept {
  contexts_detail::KernelStarts* all = contexts_detail::kernel_starts_ns.wanted_entries();
  if (all == nullptr) return nullptr;
  return &all[index_of(context)][channel % kKernelChannels * kKernelQueues + (is_recv ? 1 : 0)];
}

// The communicator that the plugin records into, made from what an event up to version 3 tells;
// [cold] the first time.
void identify_context(Context& context, void* value, const ContextOpening& identity) noexcept;

}  // namespace rollcall::profiler
