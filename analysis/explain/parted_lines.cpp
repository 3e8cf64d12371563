#include "analysis/explain/parted_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "analysis/slips/script_lines.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

// Who is blamed and who is not, by index into Group::members, one of each.
struct LineSides {
  uint32_t odd = 0;
  uint32_t other = 0;
};

std::optional<LineSides> sides_of(const Facts& facts, const CallSites& lines, const Draft& draft) {
  const Group& group = facts.group(draft.group);
  const std::vector<uint32_t> blamed = culprits_of(draft.finding);
  std::optional<uint32_t> odd;
  std::optional<uint32_t> other;
  for (uint32_t m = 0; m < group.members.size(); ++m) {
    const Member& member = group.members[m];
    if (!member.lane.has(draft.seq) || !lines.are_known(member.process)) continue;
    std::optional<uint32_t>& side =
        std::ranges::binary_search(blamed, member.process) ? odd : other;
    if (!side) side = m;
  }
  return odd && other ? std::optional(LineSides{*odd, *other}) : std::nullopt;
}

// The first position of the stretch up to `seq` in which every call of the two comes from another
// line; `seq` where they part at it, or where they have parted in the same way before, as a rank
// does that has a branch of its own.
uint64_t first_parted(const CallSites& lines, const Member& odd, const Member& other,
                      uint64_t seq) {
  const uint64_t from = std::max(odd.lane.first, other.lane.first);
  uint64_t begin = seq + 1;
  while (begin > from && odd.lane.has(begin - 1) && other.lane.has(begin - 1) &&
         lines.of(odd, begin - 1, begin) != lines.of(other, begin - 1, begin)) {
    --begin;
  }
  if (begin >= seq) return seq;
  const auto pair_at = [&](uint64_t at) {
    return std::pair(lines.of(odd, at, at + 1), lines.of(other, at, at + 1));
  };
  const auto first = pair_at(begin);
  for (uint64_t at = from; at < begin; ++at) {
    if (odd.lane.has(at) && other.lane.has(at) && pair_at(at) == first) return seq;
  }
  return begin;
}

// "train.py:14 save"; of a call without a line "no line of the script, behind train.py:12 step".
std::string place_text(const Facts& facts, const Member& member, uint64_t seq) {
  const trace::Process& process = facts.process(member.process);
  const uint32_t index = member.lane.at(seq);
  std::string line = innermost_line_text(process, process.ops[index]);
  if (!line.empty()) return line;
  for (uint32_t before = index; before-- > 0;) {
    const std::string last = innermost_line_text(process, process.ops[before]);
    if (!last.empty()) return "no line of the script itself, behind " + last;
  }
  return "no line of the script";
}

void name_parting(const Facts& facts, const CallSites& lines, Draft& draft) {
  const std::optional<LineSides> sides = sides_of(facts, lines, draft);
  if (!sides) return;
  const Group& group = facts.group(draft.group);
  const Member& odd = group.members[sides->odd];
  const Member& other = group.members[sides->other];
  const uint64_t begin = first_parted(lines, odd, other, draft.seq);
  const bool has_lines =
      !innermost_line_text(facts.process(odd.process), facts.index.op_at(odd, draft.seq)).empty() &&
      !innermost_line_text(facts.process(other.process), facts.index.op_at(other, draft.seq))
           .empty();
  if (begin == draft.seq && has_lines) return;
  draft.finding.summary +=
      fmt::format("; {} {} called from {}, {} from {}",
                  begin == draft.seq ? fmt::format("at seq {}", begin)
                                     : fmt::format("the lines part at seq {}:", begin),
                  rank_text(facts.process(other.process)), place_text(facts, other, begin),
                  rank_text(facts.process(odd.process)), place_text(facts, odd, begin));
  for (Culprit& culprit : draft.finding.culprits) {
    if (culprit.seq == draft.seq) culprit.seq = begin;
  }
}

}  // namespace

void name_parted_lines(const Facts& facts, std::vector<Draft>& drafts) {
  const CallSites lines(facts.index, SiteDepth::line);
  if (lines.is_empty()) return;
  for (Draft& draft : drafts) {
    const bool is_at_a_call = draft.group != kNone && is_about_calls(draft.finding.verdict) &&
                              facts.group(draft.group).may_be_matched;
    if (is_at_a_call) name_parting(facts, lines, draft);
  }
}

}  // namespace rollcall::analysis
