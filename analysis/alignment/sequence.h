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

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/record/changing_sizes.h"
#include "analysis/record/index.h"

namespace rollcall::analysis {

// What must agree between the ranks of a communicator, packed for comparison. Unknown fields agree
// with everything.
struct Signature {
  uint64_t count = 0;
  // Where calls of several communicators are compared: the communicator, or the part it plays.
  uint64_t place = 0;
  int32_t root = -1;
  OpKind kind = OpKind::AllReduce;
  uint8_t datatype = kUnknown8;
  uint8_t reduction = kUnknown8;
  // What agrees need not be equal.
  friend bool operator==(const Signature&, const Signature&) = default;
  // An order without a meaning, for tables.
  friend bool operator<(const Signature& a, const Signature& b) {
    return std::tie(a.count, a.place, a.root, a.kind, a.datatype, a.reduction) <
           std::tie(b.count, b.place, b.root, b.kind, b.datatype, b.reduction);
  }
};
Signature signature_of(const trace::Op& op);
bool agree(const Signature& a, const Signature& b);
// As a call compares with those of other steps: its count is unknown where sizes change.
Signature usual_signature(const ChangingSizes& sizes, uint32_t process, const trace::Op& op);

enum class Slip : uint8_t { op, count, dtype, redop, root, missing, extra, order };

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
  uint64_t repeats = 0;             // later positions that differ in the same way
  std::string edits;                // order: the edit script
  int64_t since_ns = 0;             // first call at this position
};

// The first difference of every communicator that has one, by group; and those behind it where it
// is in a captured call, which stopped nobody. Linear in records.
std::vector<Difference> find_differences(const Index& index);

// How `calls` of a deviator follow from `expected` of the reference; calls from `seen` on are
// predictions. Both start at the difference. A slip is a few calls long, or one of
// `group_lengths` were left out, a whole group.
struct Alignment {
  Slip slip = Slip::op;
  uint32_t length = 1;
  uint32_t matched = 0;   // later calls that agree
  uint32_t foreseen = 0;  // and that agree with predictions
  uint32_t contradicted = 0;
  bool predicted = false;
  bool may_be_order = false;  // the same calls in another order explain as much
  uint32_t later = 0;         // of an argument or operation: see Difference
};
Alignment align(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                size_t seen, std::span<const uint32_t> group_lengths = {});

}  // namespace rollcall::analysis
