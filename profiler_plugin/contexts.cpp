#include "profiler_plugin/contexts.h"

#include <pthread.h>

namespace rollcall::profiler {

namespace contexts_detail {
constinit Context contexts[kContextsMax]{};
constinit MappedTable<KernelStarts, kContextsMax> kernel_starts_ns{};
constinit std::atomic<uint64_t> late_calls[kContextsMax]{};
}  // namespace contexts_detail

namespace {

using namespace contexts_detail;

constinit pthread_mutex_t contexts_mutex = PTHREAD_MUTEX_INITIALIZER;
constinit uint32_t first_free = 0;  // where the search for a free one begins

void* value_of(uint32_t index, uint64_t generation) noexcept {
  return pack({.kind = HandleKind::context, .turn = generation << kIndexBits | index});
}

uint64_t mixed(uint64_t value) noexcept {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

// How often this process has met the communicator identifier on this rank. NCCL's identifiers may
// return in the life of a job; every rank meets them in the same order.
uint32_t meetings_of(uint64_t comm_hash, int32_t rank) noexcept {
  uint32_t meetings = 0;
  for (uint32_t index = 0; const CommEntry* entry = capture::comm_entry(index); ++index) {
    if (entry->nccl_hash == comm_hash && entry->rank == rank) ++meetings;
  }
  return meetings;
}

// The same on every rank: NCCL's identifier, and which of its communicators it is.
CommKey key_of(uint64_t comm_hash, uint32_t meetings) noexcept {
  if (comm_hash == 0) return {};
  const uint64_t high = mixed(comm_hash + 0x726f6c6c63616c6c);
  return {high, mixed(high ^ mixed(comm_hash) ^ meetings)};
}

void open_entry(Context& context, void* value, const ContextOpening& opening) noexcept {
  const uint32_t meetings =
      opening.comm_hash == 0 ? 0 : meetings_of(opening.comm_hash, opening.rank);
  const uint32_t entry = capture::open_comm({.key = key_of(opening.comm_hash, meetings),
                                             .nranks = opening.nranks,
                                             .rank = opening.rank,
                                             .name = opening.name});
  if (entry == kCommUnknown) return;
  capture::bind_comm(entry, value);
  // Version 4 and later are told when the ranks have already met; the others with their first
  // operation.
  capture::comm_ready(entry, opening.nranks, opening.rank, -1, opening.comm_hash);
  context.comm_index.store(entry, std::memory_order_release);
}

class ContextsLock {
 public:
  ContextsLock() noexcept { pthread_mutex_lock(&contexts_mutex); }
  ~ContextsLock() { pthread_mutex_unlock(&contexts_mutex); }
  ContextsLock(const ContextsLock&) = delete;
  ContextsLock& operator=(const ContextsLock&) = delete;
};

// With the lock held; kNoRoom when all are in use.
uint32_t find_free() noexcept {
  for (uint32_t step = 0; step < kContextsMax; ++step) {
    const uint32_t index = (first_free + step) % kContextsMax;
    if (contexts[index].value.load(std::memory_order_relaxed) == nullptr) return index;
  }
  return kNoRoom;
}

void reset(Context& context, const ContextOpening& opening) noexcept {
  context.comm_index.store(kCommUnknown, std::memory_order_relaxed);
  context.comm_hash.store(opening.comm_hash, std::memory_order_relaxed);
  context.version.store(opening.version, std::memory_order_relaxed);
  context.chained.store(nullptr, std::memory_order_relaxed);
  context.user_tag.store(0, std::memory_order_relaxed);
  context.kernels.store(0, std::memory_order_relaxed);
  context.launched_ticks.store(0, std::memory_order_relaxed);
  context.kernels_untold.store(0, std::memory_order_relaxed);
  context.launches_late.store(0, std::memory_order_relaxed);
  newest_late_call(context).store(0, std::memory_order_relaxed);
  context.gpu_clock.reset();
  KernelStarts* starts = kernel_starts_ns.entries();
  if (starts == nullptr) return;
  for (auto& start : starts[index_of(context)]) start.store(0, std::memory_order_relaxed);
}

}  // namespace

void* open_context(const ContextOpening& opening) noexcept {
  const bool is_watched = capture::creation_is_watched();
  const ContextsLock lock;
  const uint32_t index = find_free();
  if (index == kNoRoom) {
    capture::count_statistic(&SelfStatistics::plugin_full);
    return value_of(kNoRoom, 1);
  }
  first_free = index + 1;
  Context& context = contexts[index];
  reset(context, opening);
  context.is_own.store(is_watched ? 0 : 1, std::memory_order_relaxed);
  void* value = value_of(index, ++context.generation);
  if (!is_watched && opening.has_identity) open_entry(context, value, opening);
  context.value.store(value, std::memory_order_release);
  return value;
}

void identify_context(Context& context, void* value, const ContextOpening& identity) noexcept {
  const ContextsLock lock;
  if (context.comm_index.load(std::memory_order_relaxed) != kCommUnknown) return;
  open_entry(context, value, identity);
}

void reset_contexts_lock() noexcept { contexts_mutex = PTHREAD_MUTEX_INITIALIZER; }

void close_context(void* value) noexcept {
  const ContextsLock lock;
  Context* context = find_context(value);
  if (context == nullptr) {
    capture::count_statistic(&SelfStatistics::plugin_stale);
    return;
  }
  const uint32_t entry = context->comm_index.load(std::memory_order_relaxed);
  // Destroyed or aborted: the plugin is not told which.
  if (context->is_own.load(std::memory_order_relaxed) != 0 && entry != kCommUnknown) {
    capture::close_comm(entry, CommState::destroyed);
  }
  context->value.store(nullptr, std::memory_order_release);
}

}  // namespace rollcall::profiler
