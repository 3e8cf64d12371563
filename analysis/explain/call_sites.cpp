#include "analysis/explain/call_sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "analysis/alignment/expectation.h"
#include "analysis/slips/script_lines.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

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
  Search(const Facts& facts, const CallSites& sites, uint32_t group)
      : sites_(sites), group_(facts.group(group)) {
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

std::string ranks_of(const Facts& facts, const Group& group, const std::vector<uint32_t>& members) {
  return processes_text(facts.index.run(), group.processes(members));
}

// With the innermost line of the script, which the evidence has in full: "AllReduce of 1 float32
// (sum) (train.py:14 save)".
std::string sited_call_text(const Facts& facts, const Member& member, uint64_t seq) {
  const trace::Op& op = facts.index.op_at(member, seq);
  const std::string line = innermost_line_text(facts.process(member.process), op);
  return call_text(facts.index, member.process, op) +
         (line.empty() ? "" : fmt::format(" ({})", line));
}

std::string slip_text(const Facts& facts, const Group& group, const Slipped& slipped) {
  const std::string who = ranks_of(facts, group, slipped.odd);
  const std::string others = ranks_of(facts, group, slipped.others);
  const std::string mine = sited_call_text(facts, group.members[slipped.odd.front()], slipped.seq);
  const std::string theirs =
      sited_call_text(facts, group.members[slipped.others.front()], slipped.seq);
  const std::string calls =
      slipped.length == 1 ? "" : fmt::format("{} calls, first ", slipped.length);
  const std::string apart =
      slipped.length == 1 ? "one position" : fmt::format("{} positions", slipped.length);
  switch (slipped.slip) {
    case Slip::missing:
      return fmt::format(
          "{} left out {}{} at seq {} of {}, which {} made; the later calls of {} come from the "
          "lines of the others' calls {} on",
          who, calls, theirs, slipped.seq, group.name, others, who, apart);
    case Slip::extra:
      return fmt::format(
          "{} made {}{} at seq {} of {}, which {} did not; the later calls of {} come from the "
          "lines of the others' calls {} back",
          who, calls, mine, slipped.seq, group.name, others, who, apart);
    default:
      return fmt::format(
          "{} made {} calls from seq {} of {} on in another order than {}; first {}, "
          "not {}",
          who, slipped.length, slipped.seq, group.name, others, mine, theirs);
  }
}

// Where nothing tells which side is right, one left out what the other made more.
std::optional<Misstep> misstep_of(const Slipped& slipped) {
  if (slipped.slip == Slip::order) return Misstep::reordered;
  if (!slipped.is_decided) return std::nullopt;
  return slipped.slip == Slip::missing ? Misstep::left_out : Misstep::made_more;
}

void blame(const Facts& facts, uint32_t g, const Slipped& slipped, Finding& finding) {
  const Group& group = facts.group(g);
  std::vector<uint32_t> blamed = slipped.odd;
  if (!slipped.is_decided) {
    blamed.insert(blamed.end(), slipped.others.begin(), slipped.others.end());
  }
  const std::vector<uint32_t>& quoted =
      slipped.slip == Slip::missing ? slipped.others : slipped.odd;
  for (const uint32_t m : blamed) {
    Culprit culprit = culprit_of(facts, group.members[m].process, g);
    culprit.seq = slipped.seq;
    culprit.op = std::string(
        rollcall::name_of(facts.index.op_at(group.members[quoted.front()], slipped.seq).kind));
    finding.culprits.push_back(std::move(culprit));
  }
  std::vector<uint32_t> members;
  for (const Member& member : group.members) members.push_back(member.process);
  set_victims(facts, members, finding);
  std::vector<Evidence> evidence;
  for (const std::vector<uint32_t>* side : {&slipped.others, &slipped.odd}) {
    const Member& member = group.members[side->front()];
    evidence.push_back(op_evidence(facts, member.process, member.lane.at(slipped.seq),
                                   fmt::format("seq {} of {}, so {}", slipped.seq, group.name,
                                               ranks_of(facts, group, *side))));
  }
  finding.evidence.insert(finding.evidence.begin(), evidence.begin(), evidence.end());
  finding.verdict = slipped.slip == Slip::order ? Verdict::order_mismatch : Verdict::missing_call;
  finding.misstep = misstep_of(slipped);
  finding.confidence = Confidence::likely;
  finding.next = "look at the branch that decides about this call on that rank";
}

constexpr const char* kUndecided = "; nothing on file tells which side is right";

// Where it began; where it showed becomes what followed.
void retell(const Facts& facts, const Slipped& slipped, Draft& draft) {
  Finding showed = std::move(draft.finding);
  Finding& finding = draft.finding;
  finding = {};
  finding.severity = showed.severity;
  finding.summary = fmt::format(
      "{}{}; the calls behind it look alike, so it shows only at seq {}, and the results "
      "of those between are wrong",
      slip_text(facts, facts.group(draft.group), slipped), slipped.is_decided ? "" : kUndecided,
      draft.seq);
  blame(facts, draft.group, slipped, finding);
  take_what_follows(showed, finding);
  finding.consequences.insert(finding.consequences.begin(), std::move(showed));
}

Draft draft_silent(const Facts& facts, uint32_t g, const Slipped& slipped) {
  const Group& group = facts.group(g);
  Draft draft = make_draft(Verdict::missing_call, Confidence::likely);
  draft.finding.severity = Severity::corruption;
  draft.finding.summary =
      fmt::format("{}{}; the calls look alike: nobody waits for that, and the results are wrong",
                  slip_text(facts, group, slipped), slipped.is_decided ? "" : kUndecided);
  blame(facts, g, slipped, draft.finding);
  draft.group = g;
  draft.seq = slipped.seq;
  draft.since_ns = facts.index.op_at(group.members[slipped.others.front()], slipped.seq).called_ns;
  return draft;
}

}  // namespace

void trace_to_call_sites(const Facts& facts, std::vector<Draft>& drafts) {
  const CallSites lines(facts.index, SiteDepth::line);
  if (lines.is_empty()) return;
  const CallSites stacks(facts.index, SiteDepth::stack);
  for (uint32_t g = 0; g < facts.index.groups().size(); ++g) {
    if (!facts.group(g).may_be_matched) continue;
    std::optional<Slipped> slipped = Search(facts, lines, g).find();
    std::optional<Slipped> by_stack = Search(facts, stacks, g).find();
    if (by_stack && (!slipped || by_stack->seq < slipped->seq)) slipped = std::move(by_stack);
    if (!slipped) continue;
    const auto shown = std::ranges::find_if(drafts, [&](const Draft& draft) {
      return draft.group == g && is_about_calls(draft.finding.verdict);
    });
    if (shown == drafts.end()) {
      drafts.push_back(draft_silent(facts, g, *slipped));
    } else if (slipped->seq < shown->seq) {
      retell(facts, *slipped, *shown);
    }
  }
}

}  // namespace rollcall::analysis
