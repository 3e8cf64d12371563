// Which operations are timed where not all can be: the same ones on every rank.
//
// How late a rank came to a call is told by the times of all ranks that made it. Each thread finds
// out for itself which share of its operations it can afford, so a count of its own would choose
// others than its peers do, and one call of a step over and over where the step has a power of two
// of them. What decides instead is a hash of the communicator and the call's position in it, which
// every rank counts alike. Shares are powers of two, and of hashes that end in so many zeros: what
// a rank that can afford little has timed, all others have timed as well.
#pragma once

#include <cstdint>

#include "core/format/ring_layout.h"

namespace rollcall::gpu {

// A call as its communicator counts it.
struct CallPlace {
  uint64_t seq = 0;     // among the collectives, or the transfers between these two
  int32_t sender = -1;  // of a transfer: ranks in the communicator; -1: a collective
  int32_t receiver = -1;
};

// Never 0.
constexpr uint64_t sample_hash(const CommKey& comm, const CallPlace& place) noexcept {
  // Odd factors keep apart what is added; the finaliser of MurmurHash3 (Appleby, public domain)
  // then spreads each bit over all, the low ones included.
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;
  const uint64_t transfer =
      uint64_t{static_cast<uint32_t>(place.sender)} << 32 | static_cast<uint32_t>(place.receiver);
  uint64_t hash = comm.low ^ comm.high * kFactor;
  hash = (hash ^ transfer) * kFactor + place.seq;
  hash = (hash ^ hash >> 33) * 0xFF51AFD7ED558CCD;
  hash = (hash ^ hash >> 33) * 0xC4CEB9FE1A85EC53;
  hash ^= hash >> 33;
  return hash != 0 ? hash : 1;
}

// Of a thread that has one in 2^`shift` timed.
constexpr bool is_in_sample(uint64_t hash, uint32_t shift) noexcept {
  return (hash & ((uint64_t{1} << shift) - 1)) == 0;
}

}  // namespace rollcall::gpu
