// Communicators: the entries in the file, and what only this process needs: handle -> index, the
// counters of point-to-point positions, the numbers of children.
//
// Each entry exists twice: in the file, for readers, and in memory of the process, which alone is
// read here. Whoever writes into the file changes what readers find, and nothing that the job rests
// on.
//
// Look-ups are lock-free (an open-addressed table that only ever gains keys); changes hold the
// ColdLock. An entry is never reused: records refer to it by index when the communicator is gone.
#include <sys/mman.h>

#include <atomic>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/capture/comm_handles.h"
#include "core/capture/live.h"

namespace rollcall::capture {

namespace {

// Of one communicator, as many counters per peer as there are kinds (PeerCounter). Reserved address
// space; a page exists once a peer on it is talked to.
struct PeerCounters {
  std::atomic<uint32_t*> counts;
  std::atomic<uint32_t> peers;
};
constinit PeerCounters peer_counters[kCommsMax]{};
constinit std::atomic<uint32_t> child_numbers[kCommsMax]{};

// The process's own entries, in pages that exist once they are used.
constinit CommEntry* known = nullptr;

// A field of both.
template <class Value>
void store_both(uint32_t index, Value CommEntry::*field, Value value) noexcept {
  store_relaxed(known[index].*field, value);
  store_relaxed(live.comms[index].*field, value);
}
void store_state(uint32_t index, CommState state) noexcept {
  store_release(known[index].state, static_cast<uint32_t>(state));
  store_release(live.comms[index].state, static_cast<uint32_t>(state));
}

uint32_t find_handle(const void* handle) noexcept {
  for (uint32_t probe = 0, at = place_of_handle(handle); probe < kCommHandles;
       ++probe, at = (at + 1) & (kCommHandles - 1)) {
    const void* found = comm_handles[at].handle.load(std::memory_order_acquire);
    if (found == handle) return comm_handles[at].index.load(std::memory_order_relaxed);
    if (found == nullptr) break;
  }
  return kCommUnknown;
}

// ColdLock held.
void set_handle(const void* handle, uint32_t index) noexcept {
  for (uint32_t probe = 0, at = place_of_handle(handle); probe < kCommHandles;
       ++probe, at = (at + 1) & (kCommHandles - 1)) {
    const void* found = comm_handles[at].handle.load(std::memory_order_relaxed);
    if (found != nullptr && found != handle) continue;
    comm_handles[at].index.store(index, std::memory_order_relaxed);
    comm_handles[at].handle.store(handle, std::memory_order_release);
    break;
  }
}

bool is_entry(uint32_t index) noexcept {
  return index < live.comm_count.load(std::memory_order_acquire);  // kCommsMax at most
}

// ColdLock held.
uint32_t new_entry(const CommOpening& opening) noexcept {
  const uint32_t index = live.comm_count.load(std::memory_order_relaxed);
  if (index >= kCommsMax) {
    count(live.stats->comm_table_full);
    return kCommUnknown;
  }
  CommEntry entry{};
  entry.origin = opening.origin;
  entry.non_blocking = opening.non_blocking ? 1 : 0;
  entry.key = opening.key;
  entry.parent_key = opening.parent_key;
  entry.parent_index = opening.parent_index;
  entry.child_number = opening.child_number;
  entry.nranks = opening.nranks;
  entry.rank = opening.rank;
  entry.device = opening.device;
  entry.colour = opening.colour;
  entry.split_key = opening.split_key;
  entry.created_ticks = ticks_now();
  if (opening.name != nullptr) copy_padded(entry.name, opening.name);
  known[index] = entry;
  live.comms[index] = entry;
  store_state(index, CommState::initialising);
  live.comm_count.store(index + 1, std::memory_order_release);
  store_release(live.header->comm_count, index + 1);
  return index;
}

// ColdLock held.
void bind(uint32_t index, const void* handle) noexcept {
  const uint32_t older = find_handle(handle);
  if (older == index) return;
  store_both(index, &CommEntry::handle, uint64_t{reinterpret_cast<uintptr_t>(handle)});
  set_handle(handle, index);
}

constexpr size_t kPeerCounters = static_cast<size_t>(PeerCounter::Count);

constexpr size_t counter_bytes(uint32_t peers) {
  return size_t{peers} * kPeerCounters * sizeof(uint32_t);
}

bool is_peer(const PeerCounters& counters, int32_t peer) noexcept {
  return peer >= 0 && static_cast<uint32_t>(peer) < counters.peers.load(std::memory_order_relaxed);
}

size_t place_of(int32_t peer, PeerCounter counter) noexcept {
  return static_cast<uint32_t>(peer) * kPeerCounters + static_cast<size_t>(counter);
}

uint32_t* map_counters(uint32_t comm_index) noexcept {
  PeerCounters& counters = peer_counters[comm_index];
  const int32_t nranks = load_relaxed(known[comm_index].nranks);
  const uint32_t peers = nranks > 0 && static_cast<uint32_t>(nranks) <= kRanksMax
                             ? static_cast<uint32_t>(nranks)
                             : kRanksMax;
  void* memory = mmap(nullptr, counter_bytes(peers), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  counters.peers.store(peers, std::memory_order_relaxed);
  counters.counts.store(static_cast<uint32_t*>(memory), std::memory_order_release);
  return static_cast<uint32_t*>(memory);
}

}  // namespace

constinit CommHandle comm_handles[kCommHandles]{};

bool map_known_comms() noexcept {
  void* memory = mmap(nullptr, kCommsMax * sizeof(CommEntry), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  known = static_cast<CommEntry*>(memory);
  live.known_comms = known;
  return true;
}

void reset_comm_table() noexcept {
  if (known != nullptr) munmap(known, kCommsMax * sizeof(CommEntry));
  known = nullptr;
  for (CommHandle& place : comm_handles) {
    place.handle.store(nullptr, std::memory_order_relaxed);
    place.index.store(kCommUnknown, std::memory_order_relaxed);
  }
  for (PeerCounters& counters : peer_counters) {
    uint32_t* counts = counters.counts.exchange(nullptr, std::memory_order_relaxed);
    if (counts == nullptr) continue;
    munmap(counts, counter_bytes(counters.peers.load(std::memory_order_relaxed)));
  }
  for (std::atomic<uint32_t>& number : child_numbers) number.store(0, std::memory_order_relaxed);
}

bool next_p2p_seq(uint32_t comm_index, int32_t peer, PeerCounter counter, uint64_t& seq,
                  uint32_t step) noexcept {
  const PeerCounters& counters = peer_counters[comm_index];
  uint32_t* counts = counters.counts.load(std::memory_order_acquire);
  if (__builtin_expect(counts == nullptr, 0)) {
    const ColdLock lock;
    counts = counters.counts.load(std::memory_order_acquire);
    if (counts == nullptr) counts = map_counters(comm_index);
    if (counts == nullptr) return false;
  }
  if (!is_peer(counters, peer)) return false;  // NCCL will refuse the call
  seq = add_relaxed(counts[place_of(peer, counter)], step);
  return true;
}

bool give_back_p2p_seq(uint32_t comm_index, int32_t peer, PeerCounter counter, uint64_t seq,
                       uint32_t step) noexcept {
  const PeerCounters& counters = peer_counters[comm_index];
  uint32_t* counts = counters.counts.load(std::memory_order_acquire);
  if (counts == nullptr || !is_peer(counters, peer)) return false;
  const auto before = static_cast<uint32_t>(seq);
  return replace_relaxed(counts[place_of(peer, counter)], before + step, before);
}

uint32_t find_or_adopt_comm(const void* handle) noexcept {
  const uint32_t found = find_handle(handle);
  if (found != kCommUnknown) return found;
  // A job with more communicators comes here with every call of theirs: no lock for those, and
  // comm_table_full has counted the communicator when it was made.
  if (live.comm_count.load(std::memory_order_acquire) >= kCommsMax) {
    count(live.stats->comm_unknown);
    return kCommUnknown;
  }
  const ColdLock lock;
  const uint32_t again = find_handle(handle);
  if (again != kCommUnknown) return again;
  count(live.stats->comm_unknown);
  const uint32_t index = new_entry(CommOpening{});
  if (index != kCommUnknown) bind(index, handle);
  return index;
}

uint32_t open_comm(const CommOpening& opening) noexcept {
  if (!enter(this_thread)) return kCommUnknown;
  const ColdLock lock;
  const uint32_t index = new_entry(opening);
  // What the plugin opens itself has no origin.
  if (index == kCommUnknown && opening.origin != CommOrigin::unknown) {
    live.watches_unlisted.store(true, std::memory_order_relaxed);
  }
  return index;
}

void bind_comm(uint32_t index, const void* handle) noexcept {
  if (!enter(this_thread) || !is_entry(index) || handle == nullptr) return;
  const ColdLock lock;
  bind(index, handle);
}

void comm_ready(uint32_t index, int nranks, int rank, int device, uint64_t nccl_hash) noexcept {
  if (!enter(this_thread) || !is_entry(index)) return;
  const ColdLock lock;
  if (nranks >= 0) store_both(index, &CommEntry::nranks, int32_t{nranks});
  if (rank >= 0) store_both(index, &CommEntry::rank, int32_t{rank});
  if (device >= 0) store_both(index, &CommEntry::device, int32_t{device});
  if (nccl_hash != 0) store_both(index, &CommEntry::nccl_hash, nccl_hash);
  const uint32_t state = load_relaxed(known[index].state);
  if (state != static_cast<uint32_t>(CommState::initialising)) return;
  store_both(index, &CommEntry::ready_ticks, ticks_now());
  store_state(index, CommState::ready);
}

void close_comm(uint32_t index, CommState state) noexcept {
  if (!enter(this_thread) || !is_entry(index)) return;
  if (!ROLLCALL_CHECK(state >= CommState::failed && state < CommState::Count)) return;
  const ColdLock lock;
  store_both(index, &CommEntry::ended_ticks, ticks_now());
  store_state(index, state);
  if (state != CommState::destroyed && state != CommState::aborted) return;
  const auto* handle = reinterpret_cast<const void*>(load_relaxed(known[index].handle));
  // The handle may already belong to a communicator that came after this one.
  if (handle != nullptr && find_handle(handle) == index) set_handle(handle, kCommUnknown);
  uint32_t* counts = peer_counters[index].counts.load(std::memory_order_acquire);
  if (counts == nullptr) return;
  // The address range stays: a thread that uses the communicator after its end must not crash here.
  madvise(counts, counter_bytes(peer_counters[index].peers.load()), MADV_DONTNEED);
}

uint32_t find_comm(const void* handle) noexcept {
  if (handle == nullptr || !enter(this_thread)) return kCommUnknown;
  return find_handle(handle);
}

const CommEntry* comm_entry(uint32_t index) noexcept {
  if (!enter(this_thread) || !is_entry(index)) return nullptr;
  return &known[index];
}

uint32_t next_child_number(uint32_t parent_index) noexcept {
  if (!enter(this_thread) || !is_entry(parent_index)) return 0;
  return child_numbers[parent_index].fetch_add(1, std::memory_order_relaxed);
}

bool async_state_changed(uint32_t index, int state, int* previous) noexcept {
  if (!enter(this_thread) || !is_entry(index)) return false;
  const auto now = static_cast<uint64_t>(static_cast<int64_t>(state));
  // Asked for in a loop by PyTorch's watchdog: the usual answer must not write.
  if (load_relaxed(known[index].async_state) == now) return false;
  const uint64_t before = __atomic_exchange_n(&known[index].async_state, now, __ATOMIC_RELAXED);
  store_relaxed(live.comms[index].async_state, now);
  if (previous != nullptr) *previous = static_cast<int>(before);
  return before != now;
}

}  // namespace rollcall::capture
