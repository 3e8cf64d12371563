// Differences between sequences become findings.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/rules/replay_waits.h"
#include "analysis/rules/rules.h"
#include "analysis/slips/own_past.h"
#include "analysis/terms/numbers.h"
#include "analysis/words/label.h"
#include "analysis/words/readings.h"
#include "core/format/call_site.h"

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::Process;

constexpr size_t kCampsShown = 8;

std::string call_text_of(const Facts& facts, const Group& group, uint32_t m, uint64_t seq) {
  return call_text(facts.index, group.members[m].process, facts.index.op_at(group.members[m], seq));
}

const Op& call_of(const Facts& facts, const Group& group, uint32_t m, uint64_t seq) {
  return facts.index.op_at(group.members[m], seq);
}

// An extra call is what it shows as: the difference at its position.
Verdict verdict_of(const Facts& facts, const Difference& d) {
  if (d.slip != Slip::extra) return verdict_of(d.slip);
  const Group& group = facts.group(d.group);
  const Op& mine = call_of(facts, group, d.deviators.front(), d.seq);
  const Op& theirs = call_of(facts, group, d.reference, d.seq);
  if (mine.kind != theirs.kind) return Verdict::op_mismatch;
  if (mine.datatype != theirs.datatype) return Verdict::dtype_mismatch;
  if (mine.count != theirs.count) return Verdict::count_mismatch;
  return mine.reduction != theirs.reduction ? Verdict::redop_mismatch : Verdict::root_mismatch;
}

// As it is told: an extra call that shows as a difference is one.
std::optional<Misstep> misstep_of(const Difference& d, Verdict verdict) {
  const bool is_missing = d.slip == Slip::missing;
  if (!is_missing && !(d.slip == Slip::extra && agrees_behind(d))) return misstep_of(verdict);
  if (d.undecided) return std::nullopt;  // one side left out what the other made more
  return is_missing ? Misstep::left_out : Misstep::made_more;
}

std::string span_of(const std::set<int64_t>& values) {
  return fmt::format("{} to {}", *values.begin(), *values.rbegin());
}

// What the ranks passed, where that is one number of one call: counts, or roots. Else empty.
std::set<int64_t> values_of(const Facts& facts, const Difference& d) {
  if (d.slip != Slip::count && d.slip != Slip::root) return {};
  const Group& group = facts.group(d.group);
  const Op& quoted = call_of(facts, group, d.reference, d.seq);
  std::set<int64_t> values;
  for (const uint32_t m : d.deviators) {
    const Op& op = call_of(facts, group, m, d.seq);
    if (op.datatype != quoted.datatype) return {};
    if (op.count == trace::kCountUnknown) continue;
    values.insert(d.slip == Slip::count ? static_cast<int64_t>(op.count) : op.root_or_peer);
  }
  return values;
}

// "all 4 ranks of world passed different counts to AllGather at seq 6: 31 to 34 float32".
std::string values_text(const Facts& facts, const Difference& d, const std::set<int64_t>& values) {
  const Group& group = facts.group(d.group);
  const Op& quoted = call_of(facts, group, d.reference, d.seq);
  const bool are_counts = d.slip == Slip::count;
  const std::string what =
      fmt::format("different {} to {} at seq {}", are_counts ? "counts" : "roots",
                  rollcall::name_of(quoted.kind), d.seq);
  const std::string span =
      span_of(values) + (are_counts ? " " + datatype_text(quoted.datatype) : "");
  if (values.size() == d.deviators.size()) {
    return fmt::format("all {} ranks of {} passed {}: {}", d.deviators.size(), group.name, what,
                       span);
  }
  return fmt::format("{} passed {} {} of {}: {}",
                     processes_text(facts.index.run(), group.processes(d.deviators)), values.size(),
                     what, group.name, span);
}

// "ranks 0-3 called 4 different things at seq 6 of world: rank 0 AllGather of 5 float32, ...".
std::string camps_text(const Facts& facts, const Difference& d) {
  const Group& group = facts.group(d.group);
  const std::string those = processes_text(facts.index.run(), group.processes(d.deviators));
  const bool is_order = d.slip == Slip::order;
  std::string text =
      is_order ? fmt::format("{} made the same calls from seq {} of {} on in {} different orders",
                             those, d.seq, group.name, d.camps.size())
               : fmt::format("{} called {} different things at seq {} of {}", those, d.camps.size(),
                             d.seq, group.name);
  for (size_t i = 0; i < d.camps.size() && i < kCampsShown; ++i) {
    const std::vector<uint32_t>& members = d.camps[i].members;
    text +=
        fmt::format("{} {} {}{}", i == 0 ? ":" : ",",
                    processes_text(facts.index.run(), group.processes(members)),
                    call_text_of(facts, group, members.front(), d.seq), is_order ? " first" : "");
  }
  return text + (d.camps.size() > kCampsShown ? ", ..." : "");
}

std::string scattered_text(const Facts& facts, const Difference& d) {
  const std::set<int64_t> values = values_of(facts, d);
  return values.empty() ? camps_text(facts, d) : values_text(facts, d, values);
}

// Of a difference between two sides: who they are, and what each called where they part.
struct Sides {
  std::string who;
  std::string others;
  std::string mine;
  std::string theirs;
  std::string place;  // "seq 6 of world"
};
Sides sides_of(const Facts& facts, const Difference& d) {
  const Group& group = facts.group(d.group);
  return {processes_text(facts.index.run(), group.processes(d.deviators)),
          processes_text(facts.index.run(), group.processes(d.camps[0].members)),
          call_text_of(facts, group, d.deviators.front(), d.seq),
          call_text_of(facts, group, d.reference, d.seq),
          fmt::format("seq {} of {}", d.seq, group.name)};
}

std::string omission_text(const Difference& d, const Sides& sides) {
  const std::string left_out =
      d.length == 1 ? sides.theirs : fmt::format("{} calls, the first {},", d.length, sides.theirs);
  return fmt::format("{} left out {} at {}, which {} called{}", sides.who, left_out, sides.place,
                     sides.others, behind_text(d, sides.who));
}

std::string addition_text(const Difference& d, const Sides& sides) {
  const std::string made =
      d.length == 1
          ? fmt::format("{} called {} at {}, which {} never did; behind it", sides.who, sides.mine,
                        sides.place, sides.others)
          : fmt::format("{} made {} calls more than {} from {} on, the first {}; behind them",
                        sides.who, d.length, sides.others, sides.place, sides.mine);
  return fmt::format("{} the calls agree again with theirs, which begin with {}{}", made,
                     sides.theirs, readings_text(d, sides.who));
}

// " (64 against 128 bytes)"; empty where it is not sizes that differ, or they are not known.
std::string sizes_text(const Facts& facts, const Difference& d) {
  if (d.slip != Slip::count && d.slip != Slip::dtype) return "";
  const Group& group = facts.group(d.group);
  const uint64_t mine = bytes_of(call_of(facts, group, d.deviators.front(), d.seq));
  const uint64_t theirs = bytes_of(call_of(facts, group, d.reference, d.seq));
  if (mine == 0 || theirs == 0) return "";
  return mine == theirs ? fmt::format(" ({} bytes on both sides)", mine)
                        : fmt::format(" ({} against {} bytes)", mine, theirs);
}

std::string other_call_text(const Facts& facts, const Difference& d, const Sides& sides) {
  std::string text = fmt::format("{} called {} at {} where {} called {}{}", sides.who, sides.mine,
                                 sides.place, sides.others, sides.theirs, sizes_text(facts, d));
  if (d.repeats != 0) {
    text +=
        fmt::format(", and so at {}", number_text(d.repeats, "later position", "later positions"));
  }
  text += readings_text(d, sides.who);
  if (d.later != 0) {
    const Member& reference = facts.group(d.group).members[d.reference];
    const bool is_on_file = reference.lane.has(d.seq + d.later);
    text +=
        fmt::format("; {} that {} calls later: {} may have left these out",
                    is_on_file ? "the others called" : "the steps before had", d.later, sides.who);
  }
  return text;
}

std::string slip_text(const Facts& facts, const Difference& d) {
  const Sides sides = sides_of(facts, d);
  if (d.slip == Slip::missing && !is_open(d)) return omission_text(d, sides);
  if (d.slip == Slip::extra && agrees_behind(d)) return addition_text(d, sides);
  if (d.slip == Slip::order) {
    return fmt::format("{} made {} calls from {} on in another order than {}; {}", sides.who,
                       d.length, sides.place, sides.others, d.edits);
  }
  return other_call_text(facts, d, sides);
}

std::string difference_text(const Facts& facts, const Difference& d) {
  std::string text = d.is_scattered ? scattered_text(facts, d) : slip_text(facts, d);
  if (!d.undecided) return text;
  if (d.slip == Slip::missing) {
    const Group& group = facts.group(d.group);
    text += fmt::format("; or {} made {} without need",
                        processes_text(facts.index.run(), group.processes(d.camps[0].members)),
                        d.length == 1 ? "it" : "them");
  }
  return text + "; nothing on file tells which side is right";
}

// The line of the script that a call comes from; empty of one from a thread without a script, as
// autograd's are. Nothing where lines are not on file, or not all of them.
std::optional<std::string> site_of(const Process& process, const Op& op) {
  std::string text = call_site_text(process, op);
  const bool has_all =
      process.meta.contains("frame.1") && !process.meta.contains(kFramesLeftOutKey);
  if (text.empty() && !has_all) return std::nullopt;
  return text;
}

// The ranks did not come to one call with different arguments, but to different calls.
bool are_of_two_sites(const Facts& facts, const Difference& d) {
  const Group& group = facts.group(d.group);
  const auto site_at = [&](uint32_t m) {
    return site_of(facts.process(group.members[m].process), call_of(facts, group, m, d.seq));
  };
  const std::optional<std::string> mine = site_at(d.deviators.front());
  const std::optional<std::string> theirs = site_at(d.reference);
  return mine && theirs && mine != theirs;
}

// Of a script whose lines nobody wanted.
bool may_name_lines(const Process& process) {
  const auto note = process.meta.find("python_frames");
  return note != process.meta.end() && note->second == "off";
}

// The calls that stand in another order come from several threads of a rank.
bool are_of_several_threads(const Facts& facts, const Difference& d) {
  const Group& group = facts.group(d.group);
  const auto has_several = [&](uint32_t m) {
    const Member& member = group.members[m];
    for (uint64_t seq = d.seq; seq < d.seq + d.length && member.lane.has(seq); ++seq) {
      if (call_of(facts, group, m, seq).thread != call_of(facts, group, m, d.seq).thread)
        return true;
    }
    return false;
  };
  return has_several(d.deviators.front()) || has_several(d.reference);
}

std::string next_text(const Facts& facts, const Difference& d) {
  if (d.is_scattered && d.slip == Slip::count) {
    return "look at what the ranks compute the count from: it has to be the same on all of them";
  }
  if (d.slip == Slip::order && are_of_several_threads(facts, d)) {
    return "several threads make these calls: see to it that they come to them in one order on all "
           "ranks";
  }
  if (d.is_scattered && d.slip == Slip::order) {
    return "look at what the order comes from: a set, or the files of a directory, has one of its "
           "own in each process";
  }
  const bool is_argument = d.slip == Slip::count || d.slip == Slip::dtype ||
                           d.slip == Slip::redop || d.slip == Slip::root;
  if (is_argument && !are_of_two_sites(facts, d)) {
    const Member& odd = facts.group(d.group).members[d.deviators.front()];
    return fmt::format(
        "compare the call sites: what the ranks computed this call from differs, or one of them "
        "made a call more or less in front of it{}",
        may_name_lines(facts.process(odd.process))
            ? " (the lines are recorded without ROLLCALL_PYTHON_FRAMES=0)"
            : "");
  }
  return d.is_scattered || d.undecided ? "look at the branches that decide about this call"
                                       : "look at the branch that decides about this call on that "
                                         "rank";
}

// Of a communicator's members those that are gone, and were so before they came to this position.
std::vector<uint32_t> gone_before(const Facts& facts, const Group& group, uint64_t seq) {
  std::vector<uint32_t> gone;
  for (const Member& member : group.members) {
    const bool is_without = member.lane.called <= seq;
    if (is_without && facts.job.processes[member.process].gone) gone.push_back(member.process);
  }
  std::sort(gone.begin(), gone.end());
  return gone;
}

// Among all its calls, those on other communicators as well, the rank left one out.
bool has_left_out(const Facts& facts, const Difference& d) {
  constexpr uint32_t kMatchedMin = 2;  // one call alone may only look like a later one
  const uint32_t p = facts.group(d.group).members[d.deviators.front()].process;
  const std::optional<HabitBreak> habit = habit_break(facts, p);
  return habit && habit->alignment.slip == Slip::missing && habit->alignment.contradicted == 0 &&
         habit->alignment.matched >= kMatchedMin && !facts.playback.is_done(p, habit->op);
}

// How two calls of one operation differ, if in one argument alone.
std::optional<Slip> only_argument(const Op& one, const Op& other) {
  Signature mended = signature_of(one);
  const Signature theirs = signature_of(other);
  const Slip slip = argument_slip(mended, theirs);
  if (slip == Slip::count) mended.count = theirs.count;
  if (slip == Slip::dtype) mended.datatype = theirs.datatype;
  if (slip == Slip::redop) mended.reduction = theirs.reduction;
  if (slip == Slip::root) mended.root = theirs.root;
  return slip != Slip::op && agree(mended, theirs) ? std::optional(slip) : std::nullopt;
}

// With what the lines of the script and the rank's own past tell beside the calls of this
// communicator.
Difference as_told(const Facts& facts, const Difference& found) {
  Difference told = found;
  const bool is_argument = found.slip == Slip::count || found.slip == Slip::dtype ||
                           found.slip == Slip::redop || found.slip == Slip::root;
  const bool are_two = !found.is_scattered && are_of_two_sites(facts, found);
  if (is_argument && are_two) told.slip = Slip::op;
  if (found.slip != Slip::missing || !(found.may_be_other || found.may_be_extra != 0)) return told;
  if (has_left_out(facts, found)) {
    told.may_be_other = false;
    told.may_be_extra = 0;
    return told;
  }
  // A call of the next one's size may be the next one, but is more often a wrong size.
  const Group& group = facts.group(found.group);
  const std::optional<Slip> argument =
      only_argument(call_of(facts, group, found.deviators.front(), found.seq),
                    call_of(facts, group, found.reference, found.seq));
  if (argument && found.may_be_other && !are_two) told.slip = *argument;
  return told;
}

Confidence confidence_of(const Difference& d) {
  const bool is_likely =
      d.undecided || d.predicted || d.later != 0 || is_open(d) || d.slip == Slip::missing;
  return d.is_scattered || !is_likely ? Confidence::certain : Confidence::likely;
}

void blame_deviators(const Facts& facts, const Difference& d, Finding& finding) {
  const Group& group = facts.group(d.group);
  std::vector<uint32_t> blamed = d.deviators;
  if (d.undecided) {
    blamed.insert(blamed.end(), d.camps[0].members.begin(), d.camps[0].members.end());
  }
  for (const uint32_t m : blamed) {
    Culprit culprit = culprit_of(facts, group.members[m].process, d.group);
    culprit.seq = d.seq;
    const uint32_t quoted = d.slip == Slip::missing ? d.reference : m;
    culprit.op = std::string(rollcall::name_of(call_of(facts, group, quoted, d.seq).kind));
    finding.culprits.push_back(std::move(culprit));
  }
}

void quote_camps(const Facts& facts, const Difference& d, Finding& finding) {
  const Group& group = facts.group(d.group);
  for (const Camp& camp : std::span(d.camps).first(std::min(d.camps.size(), kCampsShown))) {
    const Member& member = group.members[camp.members.front()];
    finding.evidence.push_back(
        op_evidence(facts, member.process, member.lane.at(d.seq),
                    fmt::format("seq {} of {}, so {}", d.seq, group.name,
                                processes_text(facts.index.run(), group.processes(camp.members)))));
  }
}

void mention_gone(const Facts& facts, const std::vector<uint32_t>& gone, Finding& finding) {
  if (gone.empty()) return;
  const std::string those = processes_text(facts.index.run(), gone);
  finding.summary +=
      fmt::format("; {} {} gone, and did not come to it", those, gone.size() == 1 ? "is" : "are");
  finding.next += fmt::format("; and look at the log and exit status of {}", those);
}

Draft draft_difference(const Facts& facts, const Difference& found) {
  const Difference d = as_told(facts, found);
  const Group& group = facts.group(d.group);
  Draft draft = make_draft(verdict_of(facts, d), confidence_of(d));
  Finding& finding = draft.finding;
  blame_deviators(facts, d, finding);
  quote_camps(facts, d, finding);
  finding.summary = difference_text(facts, d);
  finding.misstep = misstep_of(d, finding.verdict);
  finding.next = next_text(facts, d);
  const std::vector<uint32_t> gone = gone_before(facts, group, d.seq);
  mention_gone(facts, gone, finding);
  std::vector<uint32_t> victims = group.processes();
  draft.since_ns = d.since_ns;
  draft.group = d.group;
  draft.seq = d.seq;
  if (const uint32_t n = facts.graph.find_collective(d.group, d.seq); n != kNone) {
    draft.root = facts.graph.root_of(n);
    const Root& root = facts.graph.roots()[draft.root];
    victims.insert(victims.end(), root.victims.begin(), root.victims.end());
    if (facts.job.is_stale(d.since_ns) && !facts.job.all_ended_themselves)
      finding.severity = Severity::hang;
  }
  if (stands_in_replay(facts, d.group, d.seq)) finding.severity = Severity::hang;
  std::erase_if(victims,
                [&](uint32_t p) { return std::binary_search(gone.begin(), gone.end(), p); });
  set_victims(facts, victims, finding);
  return draft;
}

}  // namespace

std::vector<Draft> judge_differences(const Facts& facts) {
  std::vector<Draft> drafts;
  for (const Difference& d : facts.differences) drafts.push_back(draft_difference(facts, d));
  return drafts;
}

}  // namespace rollcall::analysis
