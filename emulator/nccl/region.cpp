#include "emulator/nccl/region.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <vector>

#include "emulator/nccl/patient_open.h"

namespace emu_nccl {
namespace {

constexpr size_t kPage = 4096;

size_t round_up(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// All pairs together stay below 150 MiB also where every byte was touched.
size_t channel_bytes_for(int ranks) {
  if (ranks <= 16) return 128 * 1024;
  return ranks <= 32 ? 64 * 1024 : 32 * 1024;
}

struct Layout {
  size_t slots, channels, inputs, results, channel_data, end;
  explicit Layout(int ranks) {
    const size_t n = static_cast<size_t>(ranks);
    slots = round_up(sizeof(RegionHeader));
    channels = slots + round_up(n * sizeof(RankSlot));
    inputs = channels + round_up(n * n * sizeof(Channel));
    results = inputs + n * kWindows * kWindowBytes;
    channel_data = results + kWindows * kWindowBytes;
    end = channel_data + n * n * channel_bytes_for(ranks);
  }
};

struct Published {
  std::mutex mutex;
  std::vector<std::shared_ptr<Region>> regions;
};

Published& published() {
  static Published* const all = new Published;  // outlives every thread
  return *all;
}

}  // namespace

std::shared_ptr<Region> Region::create(int ranks) {
  sweep();
  const int descriptor = memfd_create("rollcall-emulated-nccl", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  std::shared_ptr<Region> region(new Region);
  region->descriptor_ = descriptor;
  if (ftruncate(descriptor, static_cast<off_t>(kPage)) != 0) return nullptr;
  if (!region->map(descriptor, ranks)) return nullptr;
  RegionAddress& address = region->address_;
  address.pid = getpid();
  address.descriptor = descriptor;
  if (getrandom(address.token, sizeof(address.token), 0) != sizeof(address.token)) return nullptr;
  std::memcpy(region->header().token, address.token, sizeof(address.token));
  region->header().ranks.store(ranks, std::memory_order_release);
  return region;
}

std::shared_ptr<Region> Region::attach(const RegionAddress& address, int ranks, bool* agreed) {
  sweep();
  *agreed = true;
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/fd/%d", address.pid, address.descriptor);
  const int descriptor = open_patiently(path, O_RDWR);
  if (descriptor < 0) return nullptr;
  std::shared_ptr<Region> region(new Region);
  region->descriptor_ = descriptor;
  region->address_ = address;
  // Some other file may have the number by now; look before mapping.
  char kind[64] = {};
  const ssize_t length = readlink(path, kind, sizeof(kind) - 1);
  if (length < 0 || std::strstr(kind, "rollcall-emulated-nccl") == nullptr) return nullptr;
  if (!region->map(descriptor, 0)) return nullptr;
  RegionHeader& header = region->header();
  if (std::memcmp(header.token, address.token, sizeof(address.token)) != 0) return nullptr;
  int32_t expected = 0;
  if (!header.ranks.compare_exchange_strong(expected, ranks) && expected != ranks) {
    header.refused.fetch_add(1);
    *agreed = false;
    return region;
  }
  if (!region->map(descriptor, ranks)) return nullptr;
  close(descriptor);  // the mapping keeps the memory
  region->descriptor_ = -1;
  return region;
}

// With ranks = 0 the header alone. Pointers to an earlier, smaller mapping become invalid.
bool Region::map(int descriptor, int ranks) {
  const Layout layout(ranks == 0 ? 1 : ranks);
  const size_t wanted = ranks == 0 ? kPage : layout.end;
  struct stat status;
  if (fstat(descriptor, &status) != 0) return false;
  // Growing is idempotent: every rank computes the same size.
  if (static_cast<size_t>(status.st_size) < wanted &&
      ftruncate(descriptor, static_cast<off_t>(wanted)) != 0) {
    return false;
  }
  void* const memory = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return false;
  if (base_ != nullptr) munmap(base_, bytes_);
  base_ = static_cast<std::byte*>(memory);
  bytes_ = wanted;
  if (ranks == 0) return true;
  ranks_ = ranks;
  slots_ = reinterpret_cast<RankSlot*>(base_ + layout.slots);
  channels_ = reinterpret_cast<Channel*>(base_ + layout.channels);
  inputs_ = base_ + layout.inputs;
  results_ = base_ + layout.results;
  channel_data_ = base_ + layout.channel_data;
  channel_bytes_ = channel_bytes_for(ranks);
  return true;
}

Region::~Region() {
  if (base_ != nullptr) munmap(base_, bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

bool Region::everybody_has_it() {
  const int32_t ranks = header().ranks.load(std::memory_order_acquire);
  if (ranks == 0) return false;
  if (ranks_ == 0 && !map(descriptor_, ranks)) return false;
  for (int rank = 0; rank < ranks; ++rank) {
    if (slot(rank).mapped.load(std::memory_order_acquire) == 0) return false;
  }
  return true;
}

void Region::publish(const std::shared_ptr<Region>& region) {
  Published& all = published();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.regions.push_back(region);
}

void Region::sweep() {
  Published& all = published();
  std::lock_guard<std::mutex> lock(all.mutex);
  std::erase_if(all.regions,
                [](const std::shared_ptr<Region>& region) { return region->everybody_has_it(); });
}

}  // namespace emu_nccl
