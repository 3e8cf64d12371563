// Where the ranks of a communicator stop calling the same things, and what kind of slip explains it
// best.
//
// At the first position where the calls differ, the majority is right; where there is none, what
// the communicator did in the steps before, and what its siblings (the other groups of the same
// split) do at the same position, decide. A rank that left out one call disagrees with the others
// at every later position: that is one missing call, not a hundred mismatches, so the deviator's
// calls are aligned with the reference's under every slip that comes into question, and the slip
// that explains most of what follows is taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/alignment/slip.h"
#include "analysis/record/index.h"

namespace rollcall::analysis {

// Members that made the same call at the position of a difference.
struct Camp {
  Signature signature;
  std::vector<uint32_t> members;
};

struct Difference {
  uint32_t group = kNone;
  uint64_t seq = 0;
  Slip slip = Slip::op;
  std::vector<uint32_t> deviators;  // members
  uint32_t reference = kNone;       // a member of the majority
  std::vector<Camp> camps;          // largest first; the reference's leads
  bool undecided = false;           // two camps, and nothing tells which is right
  bool is_scattered = false;        // more than two, none of them most: all are deviators
  bool predicted = false;           // rests on what the steps before did, not on calls seen
  uint32_t length = 1;              // calls left out, added or reordered
  uint32_t later = 0;               // so many calls later the steps before have the call; 0: none
  uint32_t matched = 0;             // later calls that agree, if it is that
  uint32_t contradicted = 0;        // and that do not
  uint32_t foreseen = 0;            // later calls that the steps before have there
  uint32_t unforeseen = 0;          // and that they do not
  bool may_be_other = false;        // of calls left out: see Alignment
  uint32_t may_be_extra = 0;
  uint32_t may_be_missing = 0;  // of calls more: see Alignment
  uint64_t repeats = 0;         // later positions that differ in the same way
  std::string edits;            // order: the edit script
  int64_t since_ns = 0;         // first call at this position
};

// The first difference of every communicator that has one, by group; and those behind it where it
// is in a captured call, which stopped nobody. Linear in records.
std::vector<Difference> find_differences(const Index& index);

}  // namespace rollcall::analysis
