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

uint64_t key_of(const ChannelOpening& opening) noexcept {
  // Peers have 20 bits (kRanksMax), communicators 11 and "unknown".
  const uint64_t comm = opening.comm_index == kCommUnknown ? kCommsMax : opening.comm_index;
  return uint64_t{1} << 63 | comm << 40 | (static_cast<uint64_t>(opening.peer) & 0xffffff) << 12 |
         uint64_t{opening.channel} << 1 | (opening.is_send ? 1 : 0);
}

uint32_t home_of(uint64_t key) noexcept {
  return static_cast<uint32_t>(key * 0x9e3779b97f4a7c15 >> 40) & (kChannelsMax - 1);
}

// One thread brings all events of a channel: the network thread of its communicator. So the sums
// need no locked additions, of which there would be six per step.
void add_up(uint64_t& sum, uint64_t by) noexcept { store_relaxed(sum, load_relaxed(sum) + by); }

void fill(ChannelEntry& entry, const ChannelOpening& opening) noexcept {
  entry.comm_index = opening.comm_index;
  entry.peer = opening.peer;
  entry.channel = opening.channel;
  entry.is_send = opening.is_send ? 1 : 0;
  store_release(entry.state, kInUse);
}

ChannelEntry* entry_at(uint32_t channel) noexcept {
  if (channel >= kChannelsMax || !enter(this_thread)) return nullptr;
  ChannelEntry& entry = live.channels[channel];
  return load_acquire(entry.state) == kInUse ? &entry : nullptr;
}

// A forked child has a file, and therefore a table, of its own.
void forget_other_process() noexcept {
  const uint64_t now = live.incarnation.load(std::memory_order_acquire);
  if (keys_incarnation.load(std::memory_order_acquire) == now) return;
  const ColdLock lock;
  if (keys_incarnation.load(std::memory_order_relaxed) == now) return;
  for (std::atomic<uint64_t>& key : keys) key.store(0, std::memory_order_relaxed);
  keys_incarnation.store(now, std::memory_order_release);
}

}  // namespace

uint32_t open_channel(const ChannelOpening& opening) noexcept {
  if (!enter(this_thread)) return kChannelUnknown;
  forget_other_process();
  const uint64_t key = key_of(opening);
  uint32_t place = home_of(key);
  for (uint32_t probe = 0; probe < kChannelsMax; ++probe, place = (place + 1) % kChannelsMax) {
    uint64_t found = keys[place].load(std::memory_order_acquire);
    if (found == 0 && keys[place].compare_exchange_strong(found, key)) {
      fill(live.channels[place], opening);
      found = key;
    }
    if (found != key) continue;
    add_up(live.channels[place].operations_started, 1);
    return place;
  }
  count(live.stats->plugin_full);
  return kChannelUnknown;
}

void close_channel_op(uint32_t channel) noexcept {
  if (ChannelEntry* entry = entry_at(channel)) add_up(entry->operations_done, 1);
}

void add_to_channel(uint32_t channel, const StepNews& news) noexcept {
  ChannelEntry* entry = entry_at(channel);
  if (entry == nullptr || news.waited >= ChannelWait::Count) return;
  add_up(entry->wait_ticks[static_cast<size_t>(news.waited)], news.waited_ticks);
  store_relaxed(entry->waiting_since_ticks, news.since_ticks);
  store_relaxed(entry->waiting, static_cast<uint8_t>(news.waits));
  if (!news.is_done) return;
  add_up(entry->steps_done, 1);
  add_up(entry->bytes, news.bytes);
}

}  // namespace rollcall::capture
