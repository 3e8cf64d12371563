#include "core/gpu/events.h"

#include <algorithm>

#include "core/base/keep_errno.h"
#include "core/gpu/in_context.h"

namespace rollcall::gpu {
namespace {

constexpr uint32_t kPairAttempts = 8;

}  // namespace

// --- contexts ------------------------------------------------------------------------------------

Context* Events::find_context(ContextHandle handle) noexcept {
  const uint32_t contexts = context_count_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < contexts; ++i) {
    Context& context = contexts_[i];
    const bool is_alive = context.state.load(std::memory_order_acquire) == Context::alive;
    if (is_alive && context.handle == handle) return &context;
  }
  return nullptr;
}

// Events for pairs [from, to) in the thread's current context; how many pairs have theirs.
uint32_t Events::create_events(Context& context, uint32_t from, uint32_t to) noexcept {
  for (uint32_t i = from; i < to; ++i) {
    Pair& pair = context.pairs[i];
    for (Event* event : {&pair.start, &pair.end}) {
      if (*event == nullptr && ask<&Driver::event_create>(event, 0) != kSuccess) {
        *event = nullptr;
        return i;
      }
    }
    pair.context = &context;
    pair.state.store(Pair::free, std::memory_order_release);
  }
  return to;
}

void Events::look_up_device(Context& context) noexcept {
  if (ask<&Driver::context_get_device>(&context.device) != kSuccess) context.device = -1;
  unsigned flags = 0;
  int active = 0;
  ContextHandle primary = nullptr;
  const bool has_primary =
      ask<&Driver::primary_get_state>(context.device, &flags, &active) == kSuccess && active != 0;
  if (!has_primary || ask<&Driver::primary_retain>(&primary, context.device) != kSuccess) return;
  ask<&Driver::primary_release>(context.device);
  context.is_primary = primary == context.handle;
}

// A green context may be current to one thread at a time, and the driver does not see to it: ours
// would have to make it so beside the job's.
bool Events::is_green(Stream stream) noexcept {
  ContextHandle context = nullptr;
  GreenContext green = nullptr;
  return driver_->driver.stream_get_green != nullptr &&
         driver_->driver.stream_get_green(stream, &context, &green) == kSuccess && green != nullptr;
}

// The first operation in a context: a slow moment on the launching thread.
Context* Events::open_context(ContextHandle handle, Stream stream) noexcept {
  const KeepErrno keep;
  pthread_mutex_lock(&opening_);
  Context* context = find_context(handle);
  const uint32_t number = context_count_.load(std::memory_order_relaxed);
  const bool is_hopeless = std::any_of(contexts_, contexts_ + number, [&](const Context& old) {
    return old.handle == handle && old.cannot_be_opened;
  });
  if (context != nullptr || number == kGpuContextsMax || is_hopeless) {
    pthread_mutex_unlock(&opening_);
    return context;
  }
  Context& fresh = contexts_[number];
  fresh.handle = handle;
  uint32_t pairs = 0;
  if (!is_green(stream)) {
    const InContext inside(driver_->driver, handle);
    if (inside.is_current()) {
      look_up_device(fresh);
      pairs = create_events(fresh, 0, kGpuPairsFirst);
    }
  }
  fresh.pair_count.store(kGpuPairsFirst, std::memory_order_relaxed);
  const bool works = pairs == kGpuPairsFirst;
  fresh.cannot_be_opened = !works;
  fresh.state.store(works ? Context::alive : Context::lost, std::memory_order_release);
  context_count_.store(number + 1, std::memory_order_release);
  pthread_mutex_unlock(&opening_);
  return works ? &fresh : nullptr;
}

Context* Events::context_of(KnownStream& known, Stream stream, int device) noexcept {
  if (!is_default_stream(stream)) {
    Context* context = known.context;
    if (known.stream == stream && context != nullptr &&
        context->state.load(std::memory_order_relaxed) == Context::alive) {
      return context;
    }
  }
  ContextHandle handle = nullptr;
  const int result = is_default_stream(stream) ? ask<&Driver::context_get_current>(&handle)
                                               : ask<&Driver::stream_get_context>(stream, &handle);
  if (result != kSuccess || handle == nullptr) return nullptr;
  Context* context = find_context(handle);
  if (context == nullptr) context = open_context(handle, stream);
  if (context == nullptr) return nullptr;
  // NCCL means the default stream of the communicator's device.
  if (is_default_stream(stream) && device >= 0 && device != context->device) return nullptr;
  known = {stream, context};
  return context;
}

// Default streams are those of the current context; all others are named by their handle alone.
bool Events::is_reachable(const Context& context, Stream stream) noexcept {
  if (context.state.load(std::memory_order_relaxed) != Context::alive) return false;
  if (!is_default_stream(stream)) return true;
  ContextHandle current = nullptr;
  return ask<&Driver::context_get_current>(&current) == kSuccess && current == context.handle;
}

// --- pairs ---------------------------------------------------------------------------------------

Pair* Events::find_free_pair(Context& context) noexcept {
  const uint32_t mask = context.pair_count.load(std::memory_order_acquire) - 1;
  for (uint32_t attempt = 0; attempt < kPairAttempts; ++attempt) {
    const uint64_t number = context.next_pair.fetch_add(1, std::memory_order_relaxed);
    Pair& pair = context.pairs[number & mask];
    uint16_t expected = Pair::free;
    if (pair.state.compare_exchange_strong(expected, Pair::taken, std::memory_order_acquire)) {
      return &pair;
    }
  }
  return nullptr;
}

// Twice as many pairs, as often as they run out: some ten microseconds of the launching thread, at
// most six times in the life of a context. Where another thread is at it, this one does without.
bool Events::grow(Context& context) noexcept {
  if (context.pair_count.load(std::memory_order_acquire) == kGpuPairsMax) return false;
  if (pthread_mutex_trylock(&opening_) != 0) return false;
  const KeepErrno keep;
  const uint32_t pairs = context.pair_count.load(std::memory_order_relaxed);
  bool has_grown = false;
  if (pairs < kGpuPairsMax) {
    const InContext inside(driver_->driver, context.handle);
    has_grown = inside.is_current() && create_events(context, pairs, pairs * 2) == pairs * 2;
  }
  if (has_grown) {
    context.pair_count.store(pairs * 2, std::memory_order_release);
    context.next_pair.store(pairs, std::memory_order_relaxed);  // where the fresh ones begin
  }
  pthread_mutex_unlock(&opening_);
  return has_grown;
}

Pair* Events::take_pair(Context& context) noexcept {
  Pair* pair = find_free_pair(context);
  return pair != nullptr || !grow(context) ? pair : find_free_pair(context);
}

Pair* Events::open(KnownStream& known, Context& context, Stream stream,
                   uint64_t earliest_ticks) noexcept {
  Pair* pair = take_pair(context);
  if (pair == nullptr) return nullptr;
  pair->stream = stream;
  pair->is_started = 0;
  pair->earliest_ticks = earliest_ticks;
  if (ask<&Driver::event_record>(pair->start, stream) == kSuccess) return pair;
  abandon(*pair);
  known.context = nullptr;  // the stream may be another one by now
  return nullptr;
}

bool Events::close(const Pair& pair) noexcept {
  return ask<&Driver::event_record>(pair.end, pair.stream) == kSuccess;
}

void Events::fly(Pair& pair) noexcept {
  pair.state.store(Pair::in_flight, std::memory_order_release);
  pair.context->has_flown.store(true, std::memory_order_release);
}

}  // namespace rollcall::gpu
