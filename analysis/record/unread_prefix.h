// Communicators of which the oldest calls cannot be compared: the history is bounded, or there is
// none, or fewer calls were read.
//
// A segment's digest covers all of a communicator's collectives in front of a position, also those
// that have been removed since. Where all members have the same one at one position, behind which
// their calls are on file, nothing is missing for the comparison. Where they have different ones,
// they called different things, and what is not known. Without one at a common position nothing is
// known of those calls.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/record/index.h"

namespace rollcall::analysis {

// Members whose digest at a position differs from that of the most.
struct PartedPrefix {
  uint32_t group = kNone;
  uint64_t seq = 0;                 // of the digests
  uint64_t behind = 0;              // the calls that differ lie in front of this one
  std::vector<uint32_t> deviators;  // processes; all of them where no more than half agree
};

// Whose calls in front of a position are at hand of no member, or not of all, and not compared.
struct OpenPrefix {
  uint32_t group = kNone;
  uint64_t seq = 0;
};

struct UnreadPrefixes {
  std::vector<PartedPrefix> parted;  // by group, like the other
  std::vector<OpenPrefix> open;
};

// Linear in members and their digests.
UnreadPrefixes unread_prefixes(const Index& index);

}  // namespace rollcall::analysis
