// Any bytes as a ring file. The magic, version and byte order are put in place, because chance does
// not find eight right bytes; everything behind them is the fuzzer's.
#include "trace/ring_reader.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "core/format/ring_layout.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> file(size);
  if (size > 0) std::memcpy(file.data(), data, size);
  // One input in eight keeps the fuzzer's own first bytes.
  if (size >= offsetof(rollcall::FileHeader, file_bytes) && (data[size - 1] & 7) != 0) {
    const uint64_t magic = rollcall::kRingMagic;
    const uint32_t version = rollcall::kRingVersion;
    const uint32_t endian_mark = rollcall::kEndianMark;
    std::memcpy(file.data() + offsetof(rollcall::FileHeader, magic), &magic, sizeof(magic));
    std::memcpy(file.data() + offsetof(rollcall::FileHeader, version), &version, sizeof(version));
    std::memcpy(file.data() + offsetof(rollcall::FileHeader, endian_mark), &endian_mark,
                sizeof(endian_mark));
  }
  const rollcall::trace::MemorySource source{std::span<const std::byte>(file)};
  rollcall::trace::RingImage image;
  std::vector<rollcall::trace::Issue> issues;
  const bool writer_may_live = size > 0 && (data[size - 1] & 8) != 0;
  const bool usable =
      rollcall::trace::read_ring(source, "fuzz.ring", writer_may_live, image, issues);
  // What cannot be used must say why.
  if (!usable && issues.empty()) __builtin_trap();
  return 0;
}
