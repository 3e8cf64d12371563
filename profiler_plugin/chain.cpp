#include "profiler_plugin/chain.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cstring>

#include "core/base/text.h"
#include "core/capture/warning.h"
#include "profiler_plugin/chained_plugin.h"
#include "profiler_plugin/dispatch.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/exports.h"
#include "profiler_plugin/handles.h"
#include "profiler_plugin/mapped_table.h"
#include "profiler_plugin/settings.h"

namespace rollcall::profiler {

namespace chain_detail {
constinit std::atomic<bool> is_on{false};
}

namespace {

constinit pthread_mutex_t chain_mutex = PTHREAD_MUTEX_INITIALIZER;
constinit bool is_tried = false;  // a child forked meanwhile stays without: half of it is loaded
constinit ChainedPlugin chained{};
constinit unsigned nccl_version = 0;  // of the interface through which NCCL calls us

// What the chained plugin believes to be NCCL's integer. It may write to it at any time; what it
// says is carried over at the next event.
constinit int chained_mask = 0;
constinit std::atomic<int*> nccl_mask{nullptr};
constinit std::atomic<int> known_mask{0};

// A pair of handles. Given out in turn, like the plugin's own.
struct alignas(64) PairPlace {
  std::atomic<uint64_t> turn;
  std::atomic<void*> own;
  std::atomic<void*> other;
  std::atomic<bool> stops_null;
  std::atomic<bool> is_foreign;
};
constexpr uint64_t kPairPlaces = 16384;
static_assert((kPairPlaces & (kPairPlaces - 1)) == 0 && kPairPlaces > kOpPlaces);
constinit MappedTable<PairPlace, kPairPlaces> pairs{};  // there, once a plugin is chained
// On a line of its own: it is written with every event, and what lies about it is read by every
// call.
struct alignas(64) PairCounter {
  std::atomic<uint64_t> turn{1};
};
constinit PairCounter next_pair{};

struct Pair {
  void* own = nullptr;
  void* other = nullptr;
  bool stops_null = false;  // the chained plugin hears of the end although it gave no handle
  bool is_foreign = false;  // an operation of another process (PXN), or a step of one
  bool is_known = true;     // false: a handle that names no pair (any more)
};

void* make_pair(const Pair& pair) noexcept {
  const uint64_t turn =
      next_pair.turn.fetch_add(1, std::memory_order_relaxed) & ((uint64_t{1} << kTurnBits) - 1);
  PairPlace& place = pairs.entries()[turn % kPairPlaces];
  place.turn.store(~uint64_t{0}, std::memory_order_relaxed);
  place.own.store(pair.own, std::memory_order_release);
  place.other.store(pair.other, std::memory_order_release);
  place.stops_null.store(pair.stops_null, std::memory_order_release);
  place.is_foreign.store(pair.is_foreign, std::memory_order_release);
  place.turn.store(turn, std::memory_order_release);
  return pack({.kind = HandleKind::pair, .turn = turn});
}

Pair pair_of(void* value) noexcept {
  if (value == nullptr) return {};
  const uint64_t turn = handle_turn(value);
  const bool fits = handle_kind(value) == HandleKind::pair && turn != 0;
  const PairPlace& place = pairs.entries()[turn % kPairPlaces];
  if (fits && place.turn.load(std::memory_order_acquire) == turn) {
    const Pair pair{place.own.load(std::memory_order_acquire),
                    place.other.load(std::memory_order_acquire),
                    place.stops_null.load(std::memory_order_acquire),
                    place.is_foreign.load(std::memory_order_acquire)};
    if (place.turn.load(std::memory_order_relaxed) == turn) return pair;
  }
  capture::count_statistic(&SelfStatistics::plugin_stale);
  return {.is_known = false};
}

void complain(std::string_view what, std::string_view why) {
  TextBuffer<1024> sentence;
  sentence.text("ROLLCALL_PLUGIN_CHAIN=").text(part_of(chained_path(), 0, 256)).text(": ");
  sentence.text(what).text(why).text("; only Rollcall's own plugin is used");
  capture::write_warning(1, sentence.view());
}

// chain_mutex held.
void load_chained(unsigned version) noexcept {
  is_tried = true;
  nccl_version = version;
  void* library = dlopen(chained_path(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    return complain("cannot be loaded: ", error != nullptr ? error : "unknown error");
  }
  chained = chained_plugin_of(dlsym, library, version);
  if (chained.version == 0) {
    complain("exports no ncclProfiler_vN that this NCCL could use", "");
    return;
  }
  // Another copy of this plugin has joined this one, and would call itself for ever.
  const char* name = *static_cast<const char* const*>(chained.interface);
  if (name != nullptr && strcmp(name, kName) == 0) {
    complain("is Rollcall itself", "");
    return;
  }
  if (pairs.wanted_entries() == nullptr) {
    chained.version = 0;
    complain("no memory for it", "");
    return;
  }
  chain_detail::is_on.store(true, std::memory_order_release);
}

uint32_t wanted_by_chained() noexcept {
  return static_cast<uint32_t>(__atomic_load_n(&chained_mask, __ATOMIC_RELAXED));
}

// The chained plugin has changed its mind at run time.
void carry_mask_over() noexcept {
  const int now = __atomic_load_n(&chained_mask, __ATOMIC_RELAXED);
  if (known_mask.exchange(now, std::memory_order_relaxed) == now) return;
  int* mask = nccl_mask.load(std::memory_order_acquire);
  if (mask == nullptr) return;
  const uint32_t both = static_cast<uint32_t>(now) | wanted_events();
  __atomic_store_n(mask, static_cast<int>(both), __ATOMIC_RELAXED);
}

// What NCCL would have sent to the chained plugin if it were alone.
bool chained_gets(const Event& event, const Pair& parent, const Pair& group) noexcept {
  if ((event.type & events_of_version(chained.version)) == 0) return false;
  if (!is_emitted(event.type, wanted_by_chained(), nccl_version)) return false;
  const bool needs_group = nccl_version <= 4 && (event.type == kColl || event.type == kP2p);
  if (needs_group && parent.other == nullptr) return false;
  if ((event.type == kCeSync || event.type == kCeBatch) && parent.other == nullptr) return false;
  return parent.is_known && group.is_known;
}

// A proxy operation of another process, which this one serves (PXN). getpid() is a system call: it
// is asked only where the recorder's answer, which is 0 while nothing is recorded, does not decide.
bool is_foreign(const Event& event) noexcept {
  if (event.type != kProxyOp) return false;
  const auto pid = static_cast<uint32_t>(event.pid);
  return pid != capture::process_number() && pid != static_cast<uint32_t>(getpid());
}

// Its context and parent are that process's, and the chained plugin gets them as they are, as from
// NCCL. Even if they look like handles of ours they are none.
void* start_foreign(void* context_value, const Event& event) noexcept {
  Pair result{.is_foreign = true};
  if (is_emitted(event.type, wanted_events(), nccl_version)) {
    start_event(context_value, &result.own, event);  // counts it
  }
  if (chained_gets(event, {}, {})) {
    chained.start(chained.interface, context_value, &result.other, event);
  }
  return result.other == nullptr ? nullptr : make_pair(result);
}

void* start_of_stale() noexcept {
  counted(&SelfStatistics::plugin_stale);
  return nullptr;
}

// A step of it, or what the network plugin says of one.
void* start_below_foreign(void* context_value, const Event& event, const Pair& parent) noexcept {
  Pair result{.is_foreign = true};
  if (chained_gets(event, parent, {})) {
    Event other = event;
    other.parent = parent.other;
    chained.start(chained.interface, context_value, &result.other, other);
  }
  return result.other == nullptr ? nullptr : make_pair(result);
}

// States that the chained plugin's version has.
bool chained_knows_state(int state) noexcept {
  if (chained.version <= 3) return state < kProxyOpInProgress;
  if (chained.version == 4) return state <= kKernelChStop;
  return chained.version >= 7 || state != kKernelPhaseStop;
}

}  // namespace

uint32_t init_chained(void* value, const ContextOpening& opening, const ChainedInit& more,
                      int* mask) noexcept {
  if (chained_path() == nullptr) return 0;
  pthread_mutex_lock(&chain_mutex);
  if (!is_tried) load_chained(opening.version);
  pthread_mutex_unlock(&chain_mutex);
  if (!chain_is_on()) return 0;
  nccl_mask.store(mask, std::memory_order_release);
  void* context = nullptr;
  // An error is not NCCL's business: it would end profiling for everybody.
  if (chained.init(chained.interface, &context, &chained_mask, opening, more) != 0) {
    complain("its init failed", "");
  }
  if (Context* own = find_context(value)) own->chained.store(context, std::memory_order_release);
  known_mask.store(__atomic_load_n(&chained_mask, __ATOMIC_RELAXED), std::memory_order_relaxed);
  return wanted_by_chained();
}

void reset_chain_lock() noexcept { chain_mutex = PTHREAD_MUTEX_INITIALIZER; }

void finalize_chained(void* value) noexcept {
  Context* own = find_context(value);
  void* context = own == nullptr ? nullptr : own->chained.exchange(nullptr);
  finalize(value);
  // Since NCCL 2.28 a null context is not finalized; before it was.
  if (own != nullptr && (context != nullptr || nccl_version <= 4)) {
    chained.finalize(chained.interface, context);
  }
}

void* start_chained(void* context_value, const Event& event) noexcept {
  carry_mask_over();
  if (is_foreign(event)) return start_foreign(context_value, event);
  const Context* context = find_context(context_value);
  const bool is_below_operation = event.type == kProxyStep || event.type == kNetPlugin;
  if (context == nullptr && !is_below_operation) return start_of_stale();
  const Pair parent = pair_of(event.parent);
  if (is_below_operation && parent.is_foreign) {
    return start_below_foreign(context_value, event, parent);
  }
  if (context == nullptr) return start_of_stale();
  const Pair group = pair_of(event.parent_group);
  Pair result;
  if (is_emitted(event.type, wanted_events(), nccl_version)) {
    Event own = event;
    own.parent = parent.own;
    own.parent_group = group.own;
    start_event(context_value, &result.own, own);
  }
  if (chained_gets(event, parent, group)) {
    Event other = event;
    // NCCL's translation for plugins up to version 4 gives the group as the parent.
    const bool by_group = nccl_version >= 5 && chained.version <= 4;
    const bool is_operation = event.type == kColl || event.type == kP2p;
    other.parent = by_group && is_operation ? group.other : parent.other;
    other.parent_group = group.other;
    chained.start(chained.interface, context->chained.load(std::memory_order_acquire),
                  &result.other, other);
    // Up to 2.25 NCCL does not look whether it has one before it stops it.
    result.stops_null = nccl_version <= 2 && is_operation;
  }
  return result.own == nullptr && result.other == nullptr ? nullptr : make_pair(result);
}

int stop_chained(void* handle) noexcept {
  const Pair pair = pair_of(handle);
  if (!pair.is_known) return kSuccess;
  if (pair.own != nullptr || handle == nullptr) stop_event(pair.own);
  if (pair.other != nullptr || pair.stops_null || handle == nullptr) {
    chained.stop(chained.interface, pair.other);
  }
  return kSuccess;
}

int record_chained(void* handle, int state, void* arguments) noexcept {
  const Pair pair = pair_of(handle);
  if (!pair.is_known) return kSuccess;
  if (pair.own != nullptr || handle == nullptr) record_state(pair.own, state, arguments);
  if ((pair.other != nullptr || handle == nullptr) && chained_knows_state(state)) {
    chained.record(chained.interface, pair.other, state, arguments);
  }
  return kSuccess;
}

}  // namespace rollcall::profiler
