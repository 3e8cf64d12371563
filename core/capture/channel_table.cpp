// The table of channels in the file: open-addressed by communicator, peer, channel and direction.
// Entries are made by whichever network thread comes first and never removed.
#include <atomic>

#include "core/capture/live.h"

namespace rollcall::capture {

namespace {

constexpr uint32_t kInUse = 1;

// The key of each place; 0: free. Beside the file: a reader needs no keys.
constinit std::atomic<uint64_t> keys[kChannelsMax]{};
constinit std::atomic<uint64_t> keys_incarnation{0};

constexpr uint64_t kUsed = uint64_t{1} << 63;

// Peers have 20 bits (kRanksMax), communicators 11 and "unknown".
uint64_t key_of(uint32_t comm_index, int32_t peer, uint8_t channel, bool is_send) noexcept {
  const uint64_t comm = comm_index == kCommUnknown ? kCommsMax : comm_index;
  return kUsed | comm << 40 | (static_cast<uint64_t>(peer) & 0xffffff) << 12 |
         uint64_t{channel} << 1 | (is_send ? 1 : 0);
}

uint32_t home_of(uint64_t key) noexcept {
  return static_cast<uint32_t>(key * 0x9e3779b97f4a7c15 >> 40) & (kChannelsMax - 1);
}

// One thread brings all events of a channel: the network thread of its communicator. So the sums
// need no locked additions, of which there would be six per step.
void add_up(uint64_t& sum, uint64_t by) noexcept { store_relaxed(sum, load_relaxed(sum) + by); }

void fill(ChannelEntry& entry, uint64_t key) noexcept {
  const auto comm = static_cast<uint32_t>((key & ~kUsed) >> 40);
  entry.comm_index = comm == kCommsMax ? kCommUnknown : comm;
  entry.peer = static_cast<int32_t>(static_cast<uint32_t>(key >> 12 & 0xffffff) << 8) >> 8;
  entry.channel = static_cast<uint8_t>(key >> 1);
  entry.is_send = key & 1;
  store_release(entry.state, kInUse);
}

// Null while nothing is recorded, in a forked child above all, and for an entry of its parent's.
ChannelEntry* entry_at(uint32_t channel) noexcept {
  if (channel >= kChannelsMax || live.incarnation.load(std::memory_order_acquire) == 0) {
    return nullptr;
  }
  ChannelEntry& entry = live.channels[channel];
  return __builtin_expect(load_acquire(entry.state) == kInUse, 1) ? &entry : nullptr;
}

inline void add_wait(ChannelEntry& entry, ChannelWait waited, uint64_t waited_ticks,
                     ChannelWait waits, uint64_t since_ticks) noexcept {
  if (waited_ticks != 0 && waited < ChannelWait::Count) {
    add_up(entry.wait_ticks[static_cast<size_t>(waited)], waited_ticks);
  }
  store_relaxed(entry.waiting_since_ticks, since_ticks);
  store_relaxed(entry.waiting, static_cast<uint8_t>(waits));
}

// A forked child has a file, and therefore a table, of its own.
void forget_other_process(uint64_t incarnation) noexcept {
  if (keys_incarnation.load(std::memory_order_acquire) == incarnation) return;
  const ColdLock lock;
  if (keys_incarnation.load(std::memory_order_relaxed) == incarnation) return;
  for (std::atomic<uint64_t>& key : keys) key.store(0, std::memory_order_relaxed);
  keys_incarnation.store(incarnation, std::memory_order_release);
}

// Whatever is not found where it is looked for first.
[[gnu::noinline]] uint32_t open_elsewhere(int32_t pid, uint64_t key) noexcept {
  if (!enter(this_thread) || process_number() != static_cast<uint32_t>(pid)) return kChannelUnknown;
  forget_other_process(live.incarnation.load(std::memory_order_acquire));
  uint32_t place = home_of(key);
  for (uint32_t probe = 0; probe < kChannelsMax; ++probe, place = (place + 1) % kChannelsMax) {
    uint64_t found = keys[place].load(std::memory_order_acquire);
    if (found == 0 && keys[place].compare_exchange_strong(found, key)) {
      fill(live.channels[place], key);
      found = key;
    }
    if (found != key) continue;
    add_up(live.channels[place].operations_started, 1);
    return place;
  }
  count(live.stats->plugin_full);
  return kChannelUnknown;
}

}  // namespace

uint32_t open_channel(int32_t pid, uint32_t comm_index, int32_t peer, uint8_t channel,
                      bool is_send) noexcept {
  const uint64_t key = key_of(comm_index, peer, channel, is_send);
  const uint32_t home = home_of(key);
  const uint64_t incarnation = live.incarnation.load(std::memory_order_acquire);
  const bool is_at_home = keys[home].load(std::memory_order_acquire) == key &&
                          keys_incarnation.load(std::memory_order_acquire) == incarnation &&
                          incarnation >> 32 == static_cast<uint32_t>(pid);
  if (__builtin_expect(!is_at_home, 0)) return open_elsewhere(pid, key);
  add_up(live.channels[home].operations_started, 1);
  return home;
}

void close_channel_op(uint32_t channel) noexcept {
  if (ChannelEntry* entry = entry_at(channel)) add_up(entry->operations_done, 1);
}

void step_waited(uint32_t channel, ChannelWait waited, uint64_t waited_ticks, ChannelWait waits,
                 uint64_t since_ticks) noexcept {
  if (ChannelEntry* entry = entry_at(channel)) {
    add_wait(*entry, waited, waited_ticks, waits, since_ticks);
  }
}

void step_done(uint32_t channel, ChannelWait waited, uint64_t waited_ticks, ChannelWait waits,
               uint64_t since_ticks, uint64_t bytes) noexcept {
  ChannelEntry* entry = entry_at(channel);
  if (entry == nullptr) return;
  add_wait(*entry, waited, waited_ticks, waits, since_ticks);
  add_up(entry->steps_done, 1);
  add_up(entry->bytes, bytes);
}

}  // namespace rollcall::capture
