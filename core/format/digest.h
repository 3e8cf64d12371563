// The running digest of a communicator's collectives (segment_layout.h): what must agree between
// ranks, and nothing else. 2^-64 that two different sequences agree.
#pragma once

#include <cstdint>

#include "core/format/ring_layout.h"

namespace rollcall {

inline constexpr uint64_t kDigestStart = 0x526f6c6c63616c6c;

// The digest of the sequence so far with one more collective. The order of the calls counts.
constexpr uint64_t extend_digest(uint64_t digest, const OpRecord& op) {
  const auto mix = [](uint64_t state, uint64_t value) {
    state = (state ^ value) * 0x9fb21c651e98df25;
    return state ^ state >> 32;
  };
  const uint64_t small =
      static_cast<uint64_t>(op.kind) | uint64_t{op.datatype} << 8 | uint64_t{op.reduction} << 16;
  digest = mix(digest, small | uint64_t{static_cast<uint32_t>(op.root_or_peer)} << 32);
  return mix(digest, op.count);
}

}  // namespace rollcall
