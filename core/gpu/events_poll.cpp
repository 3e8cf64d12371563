// Events: the polling thread, and contexts that end.
#include <time.h>

#include <algorithm>

#include "core/base/clock.h"
#include "core/gpu/events.h"

namespace rollcall::gpu {

namespace {

constexpr uint32_t kPollsPerFullOne = 16;
// A job that resets a GPU because the driver hangs does not wait longer for the poller inside it.
constexpr time_t kPollerPatienceSeconds = 1;

}  // namespace

bool Events::BlockedStreams::has(Stream wanted) const noexcept {
  return std::find(stream, stream + count, wanted) != stream + count;
}

void Events::BlockedStreams::add(Stream blocked) noexcept {
  if (count < sizeof(stream) / sizeof(stream[0])) stream[count++] = blocked;
}

void Events::poll(double ticks_per_ns, bool is_last) noexcept {
  const uint32_t contexts = context_count_.load(std::memory_order_acquire);
  if (contexts == 0) return;
  const bool asks_all = is_last || polls_++ % kPollsPerFullOne == 0;
  pthread_mutex_lock(&polling_);
  poll_contexts(contexts, ticks_per_ns, asks_all);
  pthread_mutex_unlock(&polling_);
}

void Events::poll_contexts(uint32_t contexts, double ticks_per_ns, bool asks_all) noexcept {
  int mode = kCaptureRelaxed;
  if (ask<&Driver::exchange_capture_mode>(&mode) != kSuccess) return;
  ContextHandle before = nullptr;
  ask<&Driver::context_get_current>(&before);
  for (uint32_t i = 0; i < contexts && !is_stopped(); ++i) {
    Context& context = contexts_[i];
    // What flies from here on is seen in this round or leaves its word for the next one. By the
    // language, a thread's word may hide another's pair: a full round looks without a word, too.
    const bool has_flown = context.has_flown.exchange(false, std::memory_order_acq_rel);
    const bool has_work = has_flown || (asks_all && !records_->is_idle());
    if (context.state.load(std::memory_order_acquire) == Context::lost) {
      if (has_work) lose_context(context);
    } else if (has_work || context.reference.event == nullptr) {
      poll_context(context, ticks_per_ns, asks_all);
    }
  }
  ask<&Driver::context_set_current>(before);
  ask<&Driver::exchange_capture_mode>(&mode);
}

bool Events::context_is_gone(const Context& context) noexcept {
  if (!context.is_primary) return false;
  unsigned flags = 0;
  int active = 0;
  return ask<&Driver::primary_get_state>(context.device, &flags, &active) != kSuccess ||
         active == 0;
}

// Nothing of it is given back: its events went with it, or cannot be trusted any more.
void Events::lose_context(Context& context) noexcept {
  context.state.store(Context::lost, std::memory_order_release);
  for (Pair& pair : context.pairs) {
    if (pair.state.load(std::memory_order_acquire) != Pair::in_flight) continue;
    records_->give_up(pair.span());
    pair.state.store(Pair::absent, std::memory_order_relaxed);
  }
}

// --- contexts that the job ends ------------------------------------------------------------------

// The poller gives up what it awaits of them in its next round.
template <class Wanted>
void Events::lose_contexts(Wanted is_wanted) noexcept {
  const uint32_t contexts = context_count_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < contexts; ++i) {
    Context& context = contexts_[i];
    if (context.state.load(std::memory_order_acquire) != Context::alive) continue;
    if (!is_wanted(context)) continue;
    context.state.store(Context::lost, std::memory_order_release);
    context.has_flown.store(true, std::memory_order_release);
  }
}

bool Events::hold_poller() noexcept {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kPollerPatienceSeconds;
  return pthread_mutex_timedlock(&polling_, &until) == 0;
}

void Events::release_poller() noexcept { pthread_mutex_unlock(&polling_); }

void Events::context_ends(ContextHandle context) noexcept {
  lose_contexts([&](const Context& known) { return known.handle == context; });
}

void Events::primary_ends(int device) noexcept {
  lose_contexts([&](const Context& known) { return known.is_primary && known.device == device; });
}

void Events::primary_may_have_ended(int device) noexcept {
  lose_contexts([&](const Context& known) {
    return known.is_primary && known.device == device && context_is_gone(known);
  });
}

// --- what the events say -------------------------------------------------------------------------

void Events::poll_context(Context& context, double ticks_per_ns, bool asks_all) noexcept {
  if (context_is_gone(context) || ask<&Driver::context_set_current>(context.handle) != kSuccess) {
    return lose_context(context);
  }
  probe(context, ticks_per_ns);
  // About in the order in which they were recorded: of a stream that has not come to one of them,
  // the later ones need not be asked. Only about, because pairs are stepped over and threads
  // overtake each other; so now and then every pair is asked.
  const uint32_t pairs = context.pair_count.load(std::memory_order_acquire);
  const uint64_t oldest = context.next_pair.load(std::memory_order_acquire);
  BlockedStreams blocked;
  for (uint32_t i = 0; i < pairs; ++i) {
    Pair& pair = context.pairs[(oldest + i) & (pairs - 1)];
    if (pair.state.load(std::memory_order_acquire) != Pair::in_flight) continue;
    const bool is_asked = asks_all || !blocked.has(pair.stream);
    const int result = is_asked ? poll_pair(context, pair, ticks_per_ns) : kNotReady;
    if (result == kSuccess) continue;
    const bool is_later = result == kNotReady || result == kCaptureUnsupported;
    if (!is_later) return lose_context(context);
    context.has_flown.store(true, std::memory_order_relaxed);  // and still does
    if (result == kCaptureUnsupported) return;                 // not now
    if (is_asked) blocked.add(pair.stream);
  }
}

// Publishes what is new. The answer of the driver: not ready, success when it is through, an error.
int Events::poll_pair(Context& context, Pair& pair, double ticks_per_ns) noexcept {
  if (pair.is_started == 0) {
    const int result = ask<&Driver::event_query>(pair.start);
    if (result != kSuccess) return result;
    const uint64_t seen = ticks_now();
    const uint64_t started = time_of(context, pair.start, pair.earliest_ticks, seen, ticks_per_ns);
    records_->visit(pair.span(), [&](OpRecord& record, uint64_t) {
      store_release(record.started_ticks, started);
    });
    pair.is_started = 1;
    pair.earliest_ticks = started;
  }
  const int result = ask<&Driver::event_query>(pair.end);
  if (result != kSuccess) return result;
  const uint64_t finished =
      time_of(context, pair.end, pair.earliest_ticks, ticks_now(), ticks_per_ns);
  records_->visit(pair.span(), [&](OpRecord& record, uint64_t ticket) {
    store_release(record.finished_ticks, finished);
    records_->finish(record, ticket);
  });
  pair.state.store(Pair::free, std::memory_order_release);
  return kSuccess;
}

}  // namespace rollcall::gpu
