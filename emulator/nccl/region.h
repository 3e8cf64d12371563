// The shared memory of one communicator, seen by all its ranks.
//
// It is a memfd: nothing is ever named in a file system, so nothing remains when the last process
// is gone, however it went. The process that makes the unique id keeps the descriptor open, the
// others open /proc/<its pid>/fd/<n>; once every rank has mapped the memory the descriptor is
// closed (sweep()).
//
// Layout, sizes derived from the number of ranks alone; pages are allocated by the kernel when
// first touched:
//
//     RegionHeader | RankSlot[n] | Channel[n][n] | input windows [n][2] | result windows [2] |
//     channel data [n][n]
//
// Every counter has one writer and only grows. A writer fills the data, then stores the counter
// with release order; a reader loads it with acquire order before it looks at the data.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace emu_nccl {

// More ranks than this on one machine is not what the emulator is for.
constexpr int kRanksMax = 64;
// A rank's share of the pipeline of a collective. Two of them per rank; larger ones gain nothing,
// smaller ones cost a round of all ranks each.
constexpr size_t kWindowBytes = 256 * 1024;
constexpr size_t kWindows = 2;
constexpr int kMessageSlots = 2;

struct alignas(64) Counter {
  std::atomic<uint64_t> value;
  uint64_t get() const { return value.load(std::memory_order_acquire); }
  void set(uint64_t to) { value.store(to, std::memory_order_release); }
};

// Where to find a region.
struct RegionAddress {
  int32_t pid;
  int32_t descriptor;
  uint64_t token[2];  // random: tells a stale address from a good one
};

// What one rank says about the collective it has reached.
struct CollectiveHeader {
  uint32_t kind;
  int32_t root;
  uint64_t bytes;
  uint64_t started_ns;
  uint32_t untouched;  // its contribution is memory never written: all zero
};

// Creation of a child (split, shrink or grow): what each rank asks for, and where the child's first
// rank put the child's memory. Two places in turn suffice: nobody can ask for a third before all
// have read the first.
struct ChildRequest {
  int32_t color;
  int32_t key;
  RegionAddress child;
};
struct ChildExchange {
  Counter asked;
  Counter made;
  ChildRequest request[2];
};
enum ChildKind { kSplit = 0, kShrink = 1, kGrow = 2, kChildKinds = 3 };

// A network operation, and what the process it belongs to has of it from a profiler plugin.
struct ProxyWork {
  void* context;  // addresses, or whatever the plugin in that process takes them for
  void* parent;
  uint64_t bytes;
  int32_t pid;
  int32_t rank;
  int32_t peer;
  uint32_t mask;  // what the plugin wanted when the call was made
  uint8_t channel;
  bool is_send;
};
// PXN: work that one other rank, always the same, hands over to this rank's proxy.
constexpr uint64_t kHandedOverMax = 64;
struct ProxyInbox {
  Counter handed_over;
  Counter taken;
  ProxyWork work[kHandedOverMax];
};

struct alignas(64) RankSlot {
  std::atomic<uint32_t> joined;  // 0 free, 1 taken, 2 filled
  std::atomic<uint32_t> aborted;
  std::atomic<uint32_t> mapped;  // has the whole region mapped
  int32_t pid;
  uint64_t process_started;  // clock ticks since boot: tells a process from a later one with its id
  int32_t device;
  int32_t job_rank;
  uint64_t gpu;  // equal for equal GPUs of one host
  CollectiveHeader collective[2];
  Counter collectives_started;
  Counter staged;
  Counter reduced;
  Counter consumed;
  ChildExchange children[kChildKinds];
  ProxyInbox proxies;
};

struct Message {
  uint64_t bytes;
  uint32_t untouched;
};

// Messages from one rank to another: announced by both sides, matched by number, flowing through a
// ring of bytes.
struct alignas(64) Channel {
  Counter sends_posted;
  Counter receives_posted;
  Counter receives_done;
  Counter written;  // bytes put into the ring so far
  Counter read;
  Message send[kMessageSlots];
  Message receive[kMessageSlots];
};

struct alignas(64) RegionHeader {
  uint64_t token[2];
  std::atomic<int32_t> ranks;  // 0 until the first rank joined
  std::atomic<int32_t> refused;
};

class Region {
 public:
  // A new region of unknown size (ranks = 0) or for `ranks` ranks. Null and errno where the system
  // refuses.
  static std::shared_ptr<Region> create(int ranks);
  // Maps a region made elsewhere for `ranks` ranks. Null: not there (any more).
  // `*agreed` is false when other ranks said another number of ranks: nothing can come of it.
  static std::shared_ptr<Region> attach(const RegionAddress& address, int ranks, bool* agreed);
  ~Region();

  const RegionAddress& address() const { return address_; }
  int ranks() const { return ranks_; }
  RegionHeader& header() { return *reinterpret_cast<RegionHeader*>(base_); }
  RankSlot& slot(int rank) { return slots_[rank]; }
  Channel& channel(int source, int destination) { return channels_[source * ranks_ + destination]; }
  std::byte* input(int rank, uint64_t step) {
    return inputs_ + (static_cast<size_t>(rank) * kWindows + step % kWindows) * kWindowBytes;
  }
  std::byte* result(uint64_t step) { return results_ + (step % kWindows) * kWindowBytes; }
  std::byte* channel_data(int source, int destination) {
    return channel_data_ + static_cast<size_t>(source * ranks_ + destination) * channel_bytes_;
  }
  size_t channel_bytes() const { return channel_bytes_; }

  // Keeps a region's descriptor open until all its ranks have it mapped.
  static void publish(const std::shared_ptr<Region>& region);
  // Closes the descriptors of published regions that everybody has.
  static void sweep();

 private:
  Region() = default;
  bool map(int descriptor, int ranks);
  bool everybody_has_it();

  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  int descriptor_ = -1;
  int ranks_ = 0;
  RegionAddress address_ = {};
  RankSlot* slots_ = nullptr;
  Channel* channels_ = nullptr;
  std::byte* inputs_ = nullptr;
  std::byte* results_ = nullptr;
  std::byte* channel_data_ = nullptr;
  size_t channel_bytes_ = 0;
};

}  // namespace emu_nccl
