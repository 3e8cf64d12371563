// Which slip explains how the calls of one side follow from those of the other: one of them left
// out, made more, reordered, or made with other arguments. Calls alone: whose they are does not
// matter here.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "analysis/record/changing_sizes.h"
#include "analysis/record/index.h"

namespace rollcall::analysis {

// A step that was left out is longer than other slips: believed where nothing shorter explains as
// much. As many as a host can queue: no rank gets further ahead of one that waits.
inline constexpr uint32_t kFarSlipMax = 2048;

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
// Calls that are the same, and stand at other places.
bool is_shift(Slip slip);
// In what two calls differ that do not agree.
Slip argument_slip(const Signature& a, const Signature& b);

// How `calls` of a deviator follow from `expected` of the reference; calls from `seen` on are
// predictions. Both start at the difference.
struct Alignment {
  Slip slip = Slip::op;
  uint32_t length = 1;
  uint32_t matched = 0;   // later calls that agree
  uint32_t foreseen = 0;  // and that agree with predictions
  uint32_t contradicted = 0;
  bool predicted = false;
  bool may_be_order = false;  // the same calls in another order explain as much
  uint32_t later = 0;         // of an argument or operation: see Difference
  uint32_t unforeseen = 0;    // calls that disagree with predictions
  // Of calls left out: nothing on file speaks against another argument or operation in their place,
  // or against so many calls more (0: something does, or they would be many).
  bool may_be_other = false;
  uint32_t may_be_extra = 0;
  // Of calls more: that so many were left out instead fits all that was called since, and what the
  // steps before lead one to expect (0: it does not, or they would be many).
  uint32_t may_be_missing = 0;
};
struct AlignmentHints {
  // A slip is a few calls long, or so many were left out, a whole group.
  std::span<const uint32_t> group_lengths = {};
  // So many calls more were made by the deviator in all; less than 0: fewer. It decides where one
  // call more and one left out explain as much.
  std::optional<int64_t> surplus = std::nullopt;
  // Among all calls of the deviator some are known to be missing.
  bool has_left_out = false;
};
Alignment align(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                size_t seen, const AlignmentHints& hints = {});

// A longer stretch in another order, where align() found nothing that all later calls agree with.
bool find_reordered(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                    size_t seen, Alignment& best);
// What kind of slip align() could not see because it is too long. `is_same_site`: of the deviator's
// first call and that of the reference so many later, as one call alone may look like another.
void look_further(std::span<const Signature> calls, std::span<const Signature> expected,
                  size_t seen, const std::function<bool(uint64_t)>& is_same_site, Alignment& best);
// The rest of what was left out may not be on file, where the others wait in its first call: then
// the steps before tell how much later the deviator's calls were due. One call alone may only look
// like one of those.
void look_back(std::span<const Signature> history, std::span<const Signature> calls,
               std::span<const Signature> expected, Alignment& best);
// The shortest way from the first `window` calls of one side to those of the other: "Reduce 1 int32
// at seq 3 instead of 4; ..."; `seq`: the position of the first.
std::string edit_script(const std::vector<Signature>& from, const std::vector<Signature>& to,
                        uint32_t window, uint64_t seq);

}  // namespace rollcall::analysis
