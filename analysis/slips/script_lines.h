// Calls that look alike, told apart by the line of the script that they come from.
//
// A rank that leaves out a call goes on unnoticed where the next one has the same operation, count
// and datatype: its calls meet other calls of the others, the results are wrong, and what shows in
// the end is a call that is missing far behind. The same with a call too many, and with two calls
// in another order, which nobody ever waits for. Where call sites are on file (meta keys "frame.N",
// written unless ROLLCALL_PYTHON_FRAMES=0) they tell where it began.
//
// Sites may differ between healthy ranks: one branch for the root and another for the rest. So a
// difference alone says nothing. Only where all later calls of the two ranks agree again, so many
// positions on, or behind a few that changed places, is it a slip.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "analysis/alignment/sequence.h"
#include "analysis/facts.h"
#include "analysis/record/index.h"

namespace rollcall::analysis {

// How one sequence of call sites follows from another.
struct SiteSlip {
  Slip slip = Slip::missing;  // of the first sequence: missing, extra or order
  size_t begin = 0;           // index of the first call concerned, in both
  size_t length = 1;          // calls left out, added, or in another order
  size_t matched = 0;         // later calls that agree so, at least 1
  friend bool operator==(const SiteSlip&, const SiteSlip&) = default;
};

// A call from no script, from a thread of autograd for one, has a site, too: this one. That two
// calls both have it says nothing.
inline constexpr uint32_t kNoSite = 0;
// Slips are this long at most: calls left out or added, and calls in another order.
inline constexpr size_t kSiteShiftMax = 64;
inline constexpr size_t kSiteWindowMax = 8;

// Nothing where `mine` is `theirs` as far as both go, or the rest agrees in no such way. Of several
// ways the one that fits the numbers of calls: the shorter sequence left out, the longer one added.
std::optional<SiteSlip> slip_of_sites(std::span<const uint32_t> mine,
                                      std::span<const uint32_t> theirs);

// What makes two call sites the same: the line that calls, or the lines that led to it, too. A
// helper that all calls go through has one line; and one line may be reached through different
// branches.
enum class SiteDepth : uint8_t { line, stack };

// The call sites of a run by number, alike in all processes; kNoSite for none.
class CallSites {
 public:
  CallSites(const Index& index, SiteDepth depth);
  bool is_empty() const { return numbers_.empty(); }
  // Of a member's collectives at [from, to), all of which are on file.
  std::vector<uint32_t> of(const Member& member, uint64_t from, uint64_t to) const;
  // Whether the calls of this process have sites: it recorded them, and left none out.
  bool are_known(uint32_t process) const { return !by_process_[process].empty(); }

 private:
  const Index& index_;
  std::unordered_map<std::string, uint32_t> numbers_;  // by text
  std::vector<std::vector<uint32_t>> by_process_;      // by Op::frames; empty: not known
};

}  // namespace rollcall::analysis
