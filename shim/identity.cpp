#include "shim/identity.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include "core/base/keep_errno.h"
#include "core/base/small_file.h"

namespace rollcall::shim {
namespace {

enum Domain : uint64_t { kIds = 1, kInitAll, kSplit, kShrink, kGrow };

// Full 64x64 multiplication folded: every input bit reaches every output bit.
uint64_t fold(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Odd constants with half their bits set; the two lanes differ so that they are independent hashes.
constexpr uint64_t kHighA = 0x9e3779b97f4a7c15, kHighB = 0xd1b54a32d192ed03;
constexpr uint64_t kLowA = 0xbf58476d1ce4e5b9, kLowB = 0x94d049bb133111eb;

struct Mixer {
  uint64_t high, low;
  explicit Mixer(uint64_t domain)
      : high(fold(domain ^ kHighA, kHighB)), low(fold(domain ^ kLowA, kLowB)) {}
  void add(uint64_t word) {
    high = fold(high ^ word ^ kHighA, kHighB) + word;
    low = fold(low + word + kLowA, kLowB) ^ word;
  }
  CommKey key() const {
    const CommKey key{fold(high ^ low, kHighA), fold(low + high, kLowA)};
    return key.is_null() ? CommKey{1, 1} : key;  // null means unknown
  }
};

CommKey key_of_child(Domain domain, const CommKey& parent, uint32_t child_number, uint64_t detail) {
  if (parent.is_null()) return {};
  Mixer mixer(domain);
  mixer.add(parent.high);
  mixer.add(parent.low);
  mixer.add(child_number);
  mixer.add(detail);
  return mixer.key();
}

}  // namespace

CommKey key_of_bytes(const void* bytes, size_t size, uint64_t domain) noexcept {
  Mixer mixer(domain);
  const char* at = static_cast<const char*>(bytes);
  mixer.add(size);
  for (; size >= 8; at += 8, size -= 8) {
    uint64_t word;
    memcpy(&word, at, 8);
    mixer.add(word);
  }
  uint64_t tail = 0;
  memcpy(&tail, at, size);
  mixer.add(tail);
  return mixer.key();
}

CommKey key_of_ids(const nccl::UniqueId* ids, int count) noexcept {
  if (ids == nullptr || count <= 0) return {};
  return key_of_bytes(ids, sizeof(*ids) * static_cast<size_t>(count), kIds);
}

CommKey key_of_init_all() noexcept {
  static std::atomic<uint64_t> cliques{0};
  const KeepErrno keep;
  struct {
    char host[64];
    char boot_id[40];
    uint64_t pid;
    uint64_t number;
  } where = {};
  if (gethostname(where.host, sizeof(where.host) - 1) != 0) where.host[0] = 0;
  read_small_file("/proc/sys/kernel/random/boot_id", where.boot_id);
  where.pid = static_cast<uint64_t>(getpid());
  where.number = cliques.fetch_add(1, std::memory_order_relaxed);
  return key_of_bytes(&where, sizeof(where), kInitAll);
}

CommKey key_of_split(const CommKey& parent, uint32_t child_number, int colour) noexcept {
  return key_of_child(kSplit, parent, child_number, static_cast<uint32_t>(colour));
}

CommKey key_of_shrink(const CommKey& parent, uint32_t child_number,
                      uint64_t excluded_hash) noexcept {
  return key_of_child(kShrink, parent, child_number, excluded_hash);
}

CommKey key_of_grow(const CommKey& parent, uint32_t child_number, int nranks) noexcept {
  return key_of_child(kGrow, parent, child_number, static_cast<uint32_t>(nranks));
}

uint64_t hash_of_ranks(const int* ranks, int count) noexcept {
  if (ranks == nullptr || count <= 0) return 0;
  uint64_t sum = static_cast<uint64_t>(count);
  for (int i = 0; i < count; ++i)  // a sum does not see the order
    sum += fold(static_cast<uint32_t>(ranks[i]) ^ kHighA, kLowB);
  return fold(sum ^ kLowA, kHighB);
}

int64_t short_hash(const CommKey& key) noexcept {
  return static_cast<int64_t>((key.high ^ key.low) >> 1);
}

}  // namespace rollcall::shim
