// Any bytes as a ring file: a sound one that is changed here and there, as a list of patches says;
// one input in eight is the whole file itself.
#include "trace/ring_reader.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fuzz/patches.h"
#include "tests/trace/files.h"

namespace {

std::vector<std::byte> sound_ring() {
  rollcall::test::RingBytes ring;
  for (uint64_t ticket = 1; ticket <= 100; ++ticket) ring.add(rollcall::test::make_op(ticket));
  ring.put_channel(3, rollcall::test::make_channel(0));
  return ring.bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::byte> sound = sound_ring();
  if (size == 0) return 0;
  const uint8_t choice = data[size - 1];
  std::vector<std::byte> file;
  if ((choice & 7) == 0) {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    file.assign(bytes, bytes + size);
  } else {
    file = sound;
    for (size_t at = 0; at + rollcall::fuzz::kPatchBytes < size;
         at += rollcall::fuzz::kPatchBytes) {
      rollcall::fuzz::put_patch(data + at, file);
    }
  }
  const rollcall::trace::MemorySource source{std::span<const std::byte>(file)};
  rollcall::trace::RingImage image;
  std::vector<rollcall::trace::Issue> issues;
  const bool writer_may_live = (choice & 8) != 0;
  const bool usable =
      rollcall::trace::read_ring(source, "fuzz.ring", writer_may_live, image, issues);
  // What cannot be used must say why.
  if (!usable && issues.empty()) __builtin_trap();
  return 0;
}
