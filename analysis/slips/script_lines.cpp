#include "analysis/slips/script_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "analysis/alignment/expectation.h"
#include "analysis/words/label.h"
#include "core/base/limits.h"
#include "core/format/call_site.h"

namespace rollcall::analysis {
namespace {

using Sites = std::span<const uint32_t>;

// Sites that differ between two ranks in places where all the rest agrees: each has its branch.
class UsualPairs {
 public:
  void add(uint32_t mine, uint32_t theirs) { pairs_.emplace(mine, theirs); }
  bool holds(uint32_t mine, uint32_t theirs) const { return pairs_.contains({mine, theirs}); }
  UsualPairs swapped() const {
    UsualPairs other;
    for (const auto& [mine, theirs] : pairs_) other.add(theirs, mine);
    return other;
  }

 private:
  std::set<std::pair<uint32_t, uint32_t>> pairs_;
};

// How many positions agree, as far as both go; 0 where one contradicts.
size_t agreement_of(Sites mine, Sites theirs, const UsualPairs& usual) {
  size_t matched = 0;
  const size_t both = std::min(mine.size(), theirs.size());
  for (size_t i = 0; i < both; ++i) {
    if (mine[i] == theirs[i]) {
      matched += mine[i] != kNoSite;
    } else if (!usual.holds(mine[i], theirs[i])) {
      return 0;
    }
  }
  return matched;
}

std::optional<SiteSlip> find_missing(Sites mine, Sites theirs, const UsualPairs& usual) {
  for (size_t n = 1; n <= kSiteShiftMax && n < theirs.size(); ++n) {
    const size_t matched = agreement_of(mine, theirs.subspan(n), usual);
    if (matched != 0) return SiteSlip{.slip = Slip::missing, .length = n, .matched = matched};
  }
  return std::nullopt;
}

std::optional<SiteSlip> find_extra(Sites mine, Sites theirs, const UsualPairs& usual) {
  std::optional<SiteSlip> found = find_missing(theirs, mine, usual.swapped());
  if (found) found->slip = Slip::extra;
  return found;
}

// Calls that changed places, perhaps again and again. Where no call that agrees lies between two
// such places, it is a shift of all of them.
std::optional<SiteSlip> find_order(Sites mine, Sites theirs, size_t window) {
  const Sites my_first = mine.first(window);
  const Sites their_first = theirs.first(window);
  if (!std::ranges::is_permutation(my_first, their_first)) return std::nullopt;
  const size_t both = std::min(mine.size(), theirs.size());
  SiteSlip found{.slip = Slip::order, .length = window, .matched = 0};
  bool may_differ = true;
  for (size_t i = 0; i < both;) {
    if (i != 0 && mine[i] == theirs[i]) {
      found.matched += mine[i] != kNoSite;
      may_differ = true;
      ++i;
      continue;
    }
    const size_t seen = std::min(window, both - i);
    const bool is_again = may_differ &&
                          std::ranges::equal(mine.subspan(i, seen), my_first.first(seen)) &&
                          std::ranges::equal(theirs.subspan(i, seen), their_first.first(seen));
    if (!is_again) return std::nullopt;
    may_differ = false;
    i += seen;
  }
  return found.matched != 0 ? std::optional(found) : std::nullopt;
}

std::optional<SiteSlip> find_order(Sites mine, Sites theirs) {
  const size_t both = std::min(mine.size(), theirs.size());
  for (size_t window = 2; window <= std::min(kSiteWindowMax, both); ++window) {
    if (const auto found = find_order(mine, theirs, window)) return found;
  }
  return std::nullopt;
}

// `mine` and `theirs` differ in their first calls.
std::optional<SiteSlip> explain(Sites mine, Sites theirs, const UsualPairs& usual) {
  const bool is_longer = mine.size() > theirs.size();
  std::optional<SiteSlip> found;
  if (mine.size() == theirs.size()) found = find_order(mine, theirs);
  if (!found && is_longer) found = find_extra(mine, theirs, usual);
  if (!found) found = find_missing(mine, theirs, usual);
  if (!found && !is_longer) found = find_extra(mine, theirs, usual);
  if (!found) found = find_order(mine, theirs);
  return found;
}

// The positions of which two members have every record, behind the last gap of either.
struct Range {
  uint64_t from = 0;
  uint64_t my_end = 0;
  uint64_t their_end = 0;
};

uint64_t first_without_gap(const Lane& lane) {
  uint64_t first = lane.end();
  while (first > lane.first && lane.has(first - 1)) --first;
  return first;
}

Range range_of(const Member& mine, const Member& theirs) {
  const uint64_t from = std::max(first_without_gap(mine.lane), first_without_gap(theirs.lane));
  return {from, std::max(from, mine.lane.end()), std::max(from, theirs.lane.end())};
}

// A slip on a communicator: who made it, by index into Group::members.
struct Slipped {
  std::vector<uint32_t> odd;
  std::vector<uint32_t> others;
  Slip slip = Slip::missing;
  uint64_t seq = 0;
  size_t length = 1;
  bool is_decided = true;  // false: nothing tells which of the two sides is right
};

class Search {
 public:
  Search(const Case& the_case, const CallSites& sites, uint32_t group)
      : sites_(sites), group_(the_case.group(group)) {
    for (uint32_t m = 0; m < group_.members.size(); ++m) {
      if (sites.are_known(group_.members[m].process)) known_.push_back(m);
    }
  }

  // The earliest slip against those who agree; nothing where nobody made one.
  std::optional<Slipped> find() const {
    const std::vector<uint32_t> agreeing = largest_camp();
    if (agreeing.empty() || agreeing.size() == known_.size()) return std::nullopt;
    std::optional<Slipped> found;
    for (const uint32_t m : known_) {
      if (std::ranges::binary_search(agreeing, m)) continue;
      const std::optional<SiteSlip> slip = between(m, agreeing.front());
      if (!slip || (found && slip->begin > found->seq)) continue;
      if (!found || !is_alike(*found, *slip)) {
        found = Slipped{{}, {}, slip->slip, slip->begin, slip->length};
      }
      found->odd.push_back(m);
    }
    if (!found) return std::nullopt;
    std::ranges::set_difference(known_, found->odd, std::back_inserter(found->others));
    if (found->odd.size() == found->others.size()) decide_by_habit(*found);
    return found;
  }

 private:
  static bool is_alike(const Slipped& slipped, const SiteSlip& slip) {
    return slip.begin == slipped.seq && slip.slip == slipped.slip && slip.length == slipped.length;
  }

  // Members whose sites are the same as far as all of them are on file.
  std::vector<uint32_t> largest_camp() const {
    uint64_t from = 0;
    uint64_t to = UINT64_MAX;
    for (const uint32_t m : known_) {
      const Lane& lane = group_.members[m].lane;
      from = std::max(from, first_without_gap(lane));
      to = std::min(to, lane.end());
    }
    std::map<std::vector<uint32_t>, std::vector<uint32_t>> camps;
    if (known_.empty() || from >= to) return {};
    for (const uint32_t m : known_) camps[sites_.of(group_.members[m], from, to)].push_back(m);
    return std::ranges::max_element(camps, {}, [](const auto& camp) { return camp.second.size(); })
        ->second;
  }

  std::optional<SiteSlip> between(uint32_t mine, uint32_t theirs) const {
    const Member& me = group_.members[mine];
    const Member& them = group_.members[theirs];
    const Range range = range_of(me, them);
    std::optional<SiteSlip> found = slip_of_sites(sites_.of(me, range.from, range.my_end),
                                                  sites_.of(them, range.from, range.their_end));
    if (found) found->begin += range.from;
    return found;
  }

  // The two sides are equally many: what came after such calls in the steps before?
  void decide_by_habit(Slipped& slipped) const {
    const Member& odd = group_.members[slipped.odd.front()];
    const Member& other = group_.members[slipped.others.front()];
    std::vector<Signature> history;
    for (const uint32_t site : sites_.of(other, range_of(odd, other).from, slipped.seq)) {
      history.push_back({.count = site});
    }
    const std::optional<Signature> usual = expected_next(history);
    const auto is_usual = [&](const Member& member) {
      return usual && usual->count == sites_.of(member, slipped.seq, slipped.seq + 1)[0];
    };
    slipped.is_decided = is_usual(odd) || is_usual(other);
    if (!is_usual(odd)) return;
    std::swap(slipped.odd, slipped.others);
    if (slipped.slip == Slip::order) return;
    slipped.slip = slipped.slip == Slip::missing ? Slip::extra : Slip::missing;
  }

  const CallSites& sites_;
  const Group& group_;
  std::vector<uint32_t> known_;  // members, rising
};

std::string ranks_of(const Case& c, const Group& group, const std::vector<uint32_t>& members) {
  std::vector<uint32_t> processes;
  for (const uint32_t m : members) processes.push_back(group.members[m].process);
  return processes_text(c.index.run(), processes);
}

std::string sited_call_text(const Case& c, const Member& member, uint64_t seq) {
  const trace::Op& op = c.index.op_at(member, seq);
  return call_text(c.index, member.process, op) + call_site_text(c.process(member.process), op) +
         ",";
}

std::string slip_text(const Case& c, const Group& group, const Slipped& slipped) {
  const std::string who = ranks_of(c, group, slipped.odd);
  const std::string others = ranks_of(c, group, slipped.others);
  const std::string mine = sited_call_text(c, group.members[slipped.odd.front()], slipped.seq);
  const std::string theirs = sited_call_text(c, group.members[slipped.others.front()], slipped.seq);
  const std::string calls =
      slipped.length == 1 ? "" : fmt::format("{} calls, first ", slipped.length);
  const std::string apart =
      slipped.length == 1 ? "one position" : fmt::format("{} positions", slipped.length);
  switch (slipped.slip) {
    case Slip::missing:
      return fmt::format(
          "{} left out {}{} at seq {} of {}, which {} made: its later calls come from the lines "
          "of the others' calls {} on",
          who, calls, theirs, slipped.seq, group.name, others, apart);
    case Slip::extra:
      return fmt::format(
          "{} made {}{} at seq {} of {}, which {} did not: its later calls come from the "
          "lines of the others' calls {} back",
          who, calls, mine, slipped.seq, group.name, others, apart);
    default:
      return fmt::format(
          "{} made {} calls from seq {} of {} on in another order than {}: first {} not {}", who,
          slipped.length, slipped.seq, group.name, others, mine,
          theirs.substr(0, theirs.size() - 1));
  }
}

void blame(const Case& c, uint32_t g, const Slipped& slipped, Finding& finding) {
  const Group& group = c.group(g);
  std::vector<uint32_t> blamed = slipped.odd;
  if (!slipped.is_decided) {
    blamed.insert(blamed.end(), slipped.others.begin(), slipped.others.end());
  }
  const std::vector<uint32_t>& quoted =
      slipped.slip == Slip::missing ? slipped.others : slipped.odd;
  for (const uint32_t m : blamed) {
    Culprit culprit = culprit_of(c, group.members[m].process, g);
    culprit.seq = slipped.seq;
    culprit.op = std::string(
        rollcall::name_of(c.index.op_at(group.members[quoted.front()], slipped.seq).kind));
    finding.culprits.push_back(std::move(culprit));
  }
  std::vector<uint32_t> members;
  for (const Member& member : group.members) members.push_back(member.process);
  set_victims(c, members, finding);
  std::vector<Evidence> evidence;
  for (const std::vector<uint32_t>* side : {&slipped.others, &slipped.odd}) {
    const Member& member = group.members[side->front()];
    evidence.push_back(op_evidence(
        c, member.process, member.lane.at(slipped.seq),
        fmt::format("seq {} of {}, so {}", slipped.seq, group.name, ranks_of(c, group, *side))));
  }
  finding.evidence.insert(finding.evidence.begin(), evidence.begin(), evidence.end());
  finding.verdict = slipped.slip == Slip::order ? Verdict::order_mismatch : Verdict::missing_call;
  finding.confidence = Confidence::likely;
  finding.next = "look at the branch that decides about this call on that rank";
}

constexpr const char* kUndecided = "; nothing on file tells which side is right";

// Where it began; where it showed becomes what followed.
void retell(const Case& c, const Slipped& slipped, Draft& draft) {
  Finding showed = std::move(draft.finding);
  Finding& finding = draft.finding;
  finding = {};
  finding.severity = showed.severity;
  finding.summary = fmt::format(
      "{}{}; the calls behind it look alike, so it shows only at seq {}, and the results "
      "of those between are wrong",
      slip_text(c, c.group(draft.group), slipped), slipped.is_decided ? "" : kUndecided, draft.seq);
  blame(c, draft.group, slipped, finding);
  finding.consequences = std::move(showed.consequences);
  showed.consequences.clear();
  finding.consequences.insert(finding.consequences.begin(), std::move(showed));
}

Draft draft_silent(const Case& c, uint32_t g, const Slipped& slipped) {
  const Group& group = c.group(g);
  Draft draft = make_draft(Verdict::missing_call, Confidence::likely);
  draft.finding.severity = Severity::corruption;
  draft.finding.summary =
      fmt::format("{}{}; the calls look alike: nobody waits for that, and the results are wrong",
                  slip_text(c, group, slipped), slipped.is_decided ? "" : kUndecided);
  blame(c, g, slipped, draft.finding);
  draft.group = g;
  draft.seq = slipped.seq;
  draft.since_ns = c.index.op_at(group.members[slipped.others.front()], slipped.seq).called_ns;
  return draft;
}

}  // namespace

std::optional<SiteSlip> slip_of_sites(Sites mine, Sites theirs) {
  UsualPairs usual;
  const size_t both = std::min(mine.size(), theirs.size());
  for (size_t i = 0; i < both; ++i) {
    if (mine[i] == theirs[i] || usual.holds(mine[i], theirs[i])) continue;
    std::optional<SiteSlip> found = explain(mine.subspan(i), theirs.subspan(i), usual);
    if (found) {
      found->begin = i;
      return found;
    }
    usual.add(mine[i], theirs[i]);
  }
  return std::nullopt;
}

CallSites::CallSites(const Index& index, SiteDepth depth)
    : index_(index), by_process_(index.run().processes.size()) {
  for (const uint32_t p : index.active()) {
    const trace::Process& process = index.run().processes[p];
    std::vector<uint32_t> numbers{kNoSite};
    for (;;) {
      const auto text = process.meta.find(fmt::format("frame.{}", numbers.size()));
      if (text == process.meta.end()) break;
      const size_t end =
          depth == SiteDepth::line ? text->second.find(kCallerSeparator) : std::string::npos;
      const auto next = static_cast<uint32_t>(numbers_.size()) + 1;
      numbers.push_back(numbers_.try_emplace(text->second.substr(0, end), next).first->second);
    }
    const bool is_full = !process.is_foreign() && numbers.size() > kFrameSitesMax;
    if (numbers.size() > 1 && !is_full) by_process_[p] = std::move(numbers);
  }
}

std::vector<uint32_t> CallSites::of(const Member& member, uint64_t from, uint64_t to) const {
  const std::vector<uint32_t>& numbers = by_process_[member.process];
  std::vector<uint32_t> found;
  found.reserve(to - from);
  for (uint64_t seq = from; seq < to; ++seq) {
    const uint16_t frames = index_.op_at(member, seq).frames;
    found.push_back(frames < numbers.size() ? numbers[frames] : kNoSite);
  }
  return found;
}

void trace_to_call_sites(const Case& c, std::vector<Draft>& drafts) {
  const CallSites lines(c.index, SiteDepth::line);
  if (lines.is_empty()) return;
  const CallSites stacks(c.index, SiteDepth::stack);
  for (uint32_t g = 0; g < c.index.groups().size(); ++g) {
    if (!c.group(g).may_be_matched) continue;
    std::optional<Slipped> slipped = Search(c, lines, g).find();
    std::optional<Slipped> by_stack = Search(c, stacks, g).find();
    if (by_stack && (!slipped || by_stack->seq < slipped->seq)) slipped = std::move(by_stack);
    if (!slipped) continue;
    const auto shown = std::ranges::find_if(drafts, [&](const Draft& draft) {
      return draft.group == g && is_about_calls(draft.finding.verdict);
    });
    if (shown == drafts.end()) {
      drafts.push_back(draft_silent(c, g, *slipped));
    } else if (slipped->seq < shown->seq) {
      retell(c, *slipped, *shown);
    }
  }
}

}  // namespace rollcall::analysis
