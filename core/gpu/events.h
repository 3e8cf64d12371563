// The witness that asks CUDA events: contexts, the pairs of events that each of them has, and what
// their polling tells. The other one is activity.h; witness.h says what both can do.
//
// Nothing here waits for the GPU: events are asked (cuEventQuery), never synchronised, and the
// asking thread is in the relaxed capture mode, so that a capture elsewhere in the process is left
// alone.
//
// From the GPU's clock to ours: events tell only the time between two of them. One event per
// context is the reference, and the interval of ticks in which it happened is kept as small as what
// is known allows: it was recorded on an idle stream of our own between two readings of the clock,
// no start event can lie before the call that recorded it, and no event behind the moment it was
// seen done. A time is never outside [recorded, seen done].
//
// Bounded: pairs per context and contexts (core/base/limits.h). Events are made by the launching
// thread: the first ones with the first operation of a context, twice as many whenever they run
// out.
//
// Threads: open() to abandon() from any thread; poll() from one at a time. A pair belongs to the
// launching thread from open() to fly(), and to the polling thread from then on. Errors: a context
// that answers with an error, is no longer active, or is about to be destroyed by the job, is given
// up: its operations keep what is known of them, and nothing of it is touched again. Handles are
// the driver's memory, so asking for an event of a context that is gone may crash the job: the
// calls that end one are heard (hold_poller), and wait until the poller has its hands off.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "core/base/limits.h"
#include "core/gpu/driver.h"
#include "core/gpu/records.h"
#include "core/gpu/witness.h"

namespace rollcall::gpu {

struct Context;

// Two events and what lies between them. One line of the processor's cache: launching threads and
// the poller change neighbours.
struct alignas(64) Pair {
  enum State : uint16_t { absent, free, taken, in_flight };
  std::atomic<uint16_t> state;
  uint16_t is_started;  // the poller has published the start
  uint32_t group;       // 0: one operation
  Context* context;     // its own, from the first event on
  Event start;
  Event end;
  Stream stream;
  uint64_t first_ticket;  // of the operations, both included
  uint64_t last_ticket;
  uint64_t earliest_ticks;  // before the event that is asked next was recorded

  Span span() const noexcept { return {first_ticket, last_ticket, group, stream}; }
};

static_assert(sizeof(Pair) == 64);

// A point on the GPU's clock and the interval of host ticks that it lies in.
struct Reference {
  Event event;
  uint64_t earliest_ticks;
  uint64_t latest_ticks;
};

struct Context {
  enum State : uint32_t { unused, alive, lost };
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> pair_count;  // power of two; pairs beyond it have no events yet
  std::atomic<uint64_t> next_pair;
  // A pair may be in flight. Launching threads say so behind its state, the poller takes it back in
  // front of a look at all of them: no count that both would have to lock.
  std::atomic<bool> has_flown;
  ContextHandle handle;
  int device;
  bool is_primary;
  bool cannot_be_opened;
  // The poller's.
  Stream probe_stream;
  Reference reference;  // event null: none yet
  Event probe;          // spare event; recorded while probe_before_ticks is not 0
  uint64_t probe_before_ticks;
  Pair pairs[kGpuPairsMax];
};

// The last stream of a thread, and the context it belongs to.
struct KnownStream {
  Stream stream = nullptr;
  Context* context = nullptr;
};

class Events {
 public:
  // In zeroed memory; what it is given outlives it. `is_stopped`: the driver is about to be torn
  // down, and not touched any more.
  void begin(AskedDriver& driver, Records& records, const std::atomic<bool>& is_stopped) noexcept {
    driver_ = &driver;
    records_ = &records;
    is_stopped_ = &is_stopped;
    opening_ = PTHREAD_MUTEX_INITIALIZER;
    polling_ = PTHREAD_MUTEX_INITIALIZER;
  }

  // --- the launching thread
  // Null: events cannot be recorded there. `device`: the communicator's, -1 if not known.
  Context* context_of(KnownStream& known, Stream stream, int device) noexcept;
  // Whether what is recorded on this stream now goes into that context.
  bool is_reachable(const Context& context, Stream stream) noexcept;
  // The start event goes onto the stream; null when it does not.
  Pair* open(KnownStream& known, Context& context, Stream stream, uint64_t earliest_ticks) noexcept;
  // The end event does; false when it does not.
  bool close(const Pair& pair) noexcept;
  // Its operations are published as pending.
  void fly(Pair& pair) noexcept;
  void abandon(Pair& pair) noexcept { pair.state.store(Pair::free); }

  // --- contexts that the job ends, by a call of its own, on any thread
  // Between the two nobody polls. False: the poller does not let go; then there is nothing to
  // release.
  bool hold_poller() noexcept;
  void release_poller() noexcept;
  void context_ends(ContextHandle context) noexcept;
  void primary_ends(int device) noexcept;
  // Its users are fewer by one: the last one takes it along.
  void primary_may_have_ended(int device) noexcept;

  // --- the polling thread
  // `is_last`: every event is asked, in whatever order.
  void poll(double ticks_per_ns, bool is_last) noexcept;

 private:
  struct BlockedStreams {
    Stream stream[16];
    unsigned count = 0;
    bool has(Stream wanted) const noexcept;
    void add(Stream blocked) noexcept;
  };

  template <auto kFunction, class... Arguments>
  int ask(Arguments... arguments) noexcept {
    return driver_->ask<kFunction>(arguments...);
  }
  bool is_stopped() const noexcept { return is_stopped_->load(std::memory_order_acquire); }

  Context* find_context(ContextHandle handle) noexcept;
  bool is_green(Stream stream) noexcept;
  Context* open_context(ContextHandle handle, Stream stream) noexcept;
  void look_up_device(Context& context) noexcept;
  uint32_t create_events(Context& context, uint32_t from, uint32_t to) noexcept;
  Pair* find_free_pair(Context& context) noexcept;
  bool grow(Context& context) noexcept;
  Pair* take_pair(Context& context) noexcept;

  void poll_contexts(uint32_t contexts, double ticks_per_ns, bool asks_all) noexcept;
  void poll_context(Context& context, double ticks_per_ns, bool asks_all) noexcept;
  int poll_pair(Context& context, Pair& pair, double ticks_per_ns) noexcept;
  bool context_is_gone(const Context& context) noexcept;
  void lose_context(Context& context) noexcept;
  template <class Wanted>
  void lose_contexts(Wanted is_wanted) noexcept;
  void probe(Context& context, double ticks_per_ns) noexcept;
  void take_reference(Context& context, uint64_t before, uint64_t after,
                      double ticks_per_ns) noexcept;
  uint64_t time_of(Context& context, Event event, uint64_t earliest, uint64_t latest,
                   double ticks_per_ns) noexcept;

  AskedDriver* driver_;
  Records* records_;
  const std::atomic<bool>* is_stopped_;
  std::atomic<uint32_t> context_count_;
  uint32_t polls_;
  pthread_mutex_t opening_;
  pthread_mutex_t polling_;  // held by the poller while it has its hands on contexts
  Context contexts_[kGpuContextsMax];
};

static_assert(Witness<Events, Pair>);

}  // namespace rollcall::gpu
