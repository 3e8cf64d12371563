#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

#include "analysis/analysis.h"
#include "analysis/explain/wrong_peer.h"
#include "analysis/gpu/captured.h"
#include "analysis/gpu/fronts.h"
#include "analysis/rules/judge.h"
#include "analysis/rules/stray_call.h"
#include "analysis/slips/script_lines.h"
#include "analysis/views/as_executed.h"
#include "analysis/views/before_giving_up.h"
#include "analysis/views/by_gpu.h"
#include "analysis/views/stream_order.h"
#include "analysis/views/without_aftermath.h"
#include "analysis/words/gaps.h"
#include "analysis/words/label.h"
#include "analysis/words/tables.h"

namespace rollcall::analysis {
namespace {

// So many calls of every member behind a difference show that it did not stop them; of a job that
// stands, more than a host can queue.
constexpr uint64_t kWentOnCalls = 64;

// Did the job pass this difference? Counts, types and reductions that differ corrupt more often
// than they hang.
bool was_passed(const Index& index, const JobState& job, const Options& options,
                const Difference& difference) {
  const Group& group = index.groups()[difference.group];
  const bool stands = !job.all_ended_themselves && job.is_stale(job.last_call_ns);
  const uint64_t went_on = stands ? kQueuedCallsMax : kWentOnCalls;
  if (group.shortest >= difference.seq + went_on) return true;
  int64_t earliest_last_ns = INT64_MAX;
  for (const Member& member : group.members) {
    earliest_last_ns = std::min(earliest_last_ns, job.processes[member.process].last_call_ns);
  }
  return earliest_last_ns - difference.since_ns > options.ended_threshold_ns &&
         group.shortest > difference.seq + 1;
}

int exit_status(const std::vector<Finding>& findings) {
  int status = 0;
  bool has_gap = false;
  for (const Finding& finding : findings) {
    if (is_defect(finding)) return 1;
    if (finding.severity != Severity::info) status = 4;
    has_gap = has_gap || finding.verdict == Verdict::record_gap;
  }
  const Verdict lead = findings.empty() ? Verdict::insufficient : findings.front().verdict;
  // Of what is not on file nobody knows whether it was in lockstep.
  const bool is_undecided =
      lead == Verdict::insufficient || (lead == Verdict::in_lockstep && has_gap);
  return is_undecided ? 3 : status;
}

bool is_defect(const Draft& draft) { return is_defect(draft.finding); }

// An answer that is left open says more than what is missing for it.
bool is_open(const Draft& draft) { return draft.finding.verdict == Verdict::insufficient; }

// Findings that blame somebody, by process: of thousands one cannot be held against every other.
class Blamed {
 public:
  // The next finding.
  void add(std::vector<uint32_t> culprits) {
    const auto finding = static_cast<uint32_t>(culprits_.size());
    for (const uint32_t p : culprits) {
      std::vector<uint32_t>& known = by_process_[p];
      if (known.empty() || known.back() != finding) known.push_back(finding);
    }
    culprits_.push_back(std::move(culprits));
  }
  // The first that blames all of these, and perhaps others; kNone where none does. Both sorted.
  uint32_t first_of(const std::vector<uint32_t>& culprits) const {
    const auto found = culprits.empty() ? by_process_.end() : by_process_.find(culprits.front());
    if (found == by_process_.end()) return kNone;
    for (const uint32_t finding : found->second) {
      const std::vector<uint32_t>& blamed = culprits_[finding];
      if (std::includes(blamed.begin(), blamed.end(), culprits.begin(), culprits.end())) {
        return finding;
      }
    }
    return kNone;
  }

 private:
  std::unordered_map<uint32_t, std::vector<uint32_t>> by_process_;
  std::vector<std::vector<uint32_t>> culprits_;  // by finding
};

// Hangs first, then by time. A later finding about the same ranks is part of the first one's story.
std::vector<Finding> order(std::vector<Draft>& drafts) {
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) {
    if (a.finding.severity != b.finding.severity) return a.finding.severity > b.finding.severity;
    if (is_open(a) != is_open(b)) return is_open(a);
    return a.since_ns < b.since_ns;
  });
  std::vector<Finding> findings;
  Blamed blamed;
  for (Draft& draft : drafts) {
    std::vector<uint32_t> culprits = culprits_of(draft.finding);
    const uint32_t lead = is_defect(draft) ? blamed.first_of(culprits) : kNone;
    if (lead != kNone) {
      findings[lead].consequences.push_back(std::move(draft.finding));
      continue;
    }
    blamed.add(std::move(culprits));
    findings.push_back(std::move(draft.finding));
  }
  return findings;
}

// Some ranks have made the call at which graphs differ, and some have not.
bool is_lacking(const Case& c, const Draft& draft) {
  if (draft.group == kNone) return false;  // it is about GPUs
  const Group& group = c.group(draft.group);
  return group.shortest <= draft.seq && draft.seq < group.longest;
}

// Whether those who are not blamed captured what they have at this position.
bool is_captured_by_others(const Case& c, const Draft& draft) {
  const std::vector<uint32_t> culprits = culprits_of(draft.finding);
  const std::vector<Member>& members = c.group(draft.group).members;
  return std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return std::binary_search(culprits.begin(), culprits.end(), member.process) ||
           (member.lane.has(draft.seq) && c.index.op_at(member, draft.seq).graph != 0);
  });
}

// The process's GPU has begun a replay and is not through with it: who makes no call meanwhile is
// not silent.
bool waits_in_replay(const Case& c, uint32_t p) {
  const std::vector<trace::Op>& ops = c.process(p).ops;
  return std::any_of(ops.begin(), ops.end(),
                     [&](const trace::Op& op) { return is_standing_replay(c, op); });
}

// What it called there in place of the others' captured call it did not capture.
bool has_none_captured(const Case& c, const Draft& draft) {
  const std::vector<uint32_t> culprits = culprits_of(draft.finding);
  const std::vector<Member>& members = c.group(draft.group).members;
  return std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return !std::binary_search(culprits.begin(), culprits.end(), member.process) ||
           (member.lane.has(draft.seq) && c.index.op_at(member, draft.seq).graph == 0);
  });
}

// That a rank left a captured call out, or made the next one in its place, follows from its
// capturing less; that ranks do not come to the next call, from their waiting in a replay. Where
// calls differ in another way, that is what is wrong, whether they were captured or not. And who
// has replayed a graph too often left out what comes in front of that.
bool follows(const Case& c, const Draft& draft, const GraphDraft& of_graphs) {
  const Draft& graphs = of_graphs.draft;
  const std::vector<uint32_t> absent = culprits_of(draft.finding);
  const std::vector<uint32_t> diverged = culprits_of(graphs.finding);
  const bool is_of_these = graphs.group != kNone && draft.group == graphs.group &&
                           absent == diverged && is_captured_by_others(c, graphs);
  if (is_mismatch(draft.finding.verdict)) {
    return is_of_these && draft.seq == graphs.seq && has_none_captured(c, draft);
  }
  if (draft.finding.verdict != Verdict::missing_call) return false;
  const bool all_wait = std::all_of(absent.begin(), absent.end(), [&](uint32_t p) {
    return !std::binary_search(diverged.begin(), diverged.end(), p) && waits_in_replay(c, p);
  });
  if (all_wait && !absent.empty()) return true;
  return is_of_these && draft.seq >= graphs.seq && !of_graphs.is_extra;
}

// Without anything that hangs graphs may differ as they like; a call that some have captured and
// others have not is then returned. What was ended from outside may have hung unseen.
std::optional<Draft> add_graphs(const Case& c, std::vector<Draft>& drafts) {
  std::optional<GraphDraft> graphs = judge_graphs(c);
  if (!graphs) return std::nullopt;
  std::vector<Draft> others;
  std::vector<Finding> consequences;
  bool has_other_defect = false;
  for (Draft& draft : drafts) {
    if (follows(c, draft, *graphs)) {
      consequences.push_back(std::move(draft.finding));
    } else {
      has_other_defect = has_other_defect || is_defect(draft);
      others.push_back(std::move(draft));
    }
  }
  drafts = std::move(others);
  const bool explains = !consequences.empty();
  Draft& draft = graphs->draft;
  std::move(consequences.begin(), consequences.end(),
            std::back_inserter(draft.finding.consequences));
  const bool was_ended = !c.job.live && !c.job.all_ended_themselves;
  const bool has_stalled = !c.job.all_ended_themselves && c.job.is_stale(c.job.last_call_ns);
  const bool may_hang = has_stalled || (was_ended && is_lacking(c, draft));
  if (!explains && (!may_hang || has_other_defect)) {
    return is_lacking(c, draft) ? std::optional(std::move(draft)) : std::nullopt;
  }
  if (!explains && !has_stalled) {
    draft.finding.confidence = std::max(draft.finding.confidence, Confidence::likely);
  }
  drafts.push_back(std::move(draft));
  return std::nullopt;
}

// Waits of a running job that are too young for a verdict, and too old to keep silent about: the
// person who asks may be watching the hang begin.
constexpr int64_t kYoungWaitNs = 1'000'000'000;

void mention_young_waits(const trace::Run& run, const Options& options, Report& report) {
  if (options.live_threshold_ns <= kYoungWaitNs) return;
  Options impatient = options;
  impatient.live_threshold_ns = kYoungWaitNs;
  Report early = analyse(run, impatient);
  const bool found = early.findings.front().severity == Severity::hang;
  if (!found) return;
  Finding& finding = report.findings.front();
  finding.summary = fmt::format(
      "no rank has waited for {} yet, so this is no verdict; but if nothing moves, it will be {}: "
      "{}",
      span_text(options.live_threshold_ns), code_of(early.findings.front().verdict),
      early.findings.front().summary);
  finding.next = "ask again in a moment, or for shorter waits with --stalled-after SECONDS";
  report.table = std::move(early.table);
}

Report refuse(const trace::Run& run) {
  Report report;
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary = "no process of this run could be read";
  draft.finding.next = "name the directory that holds the *.ring files of the job";
  for (const trace::Issue& issue : run.issues) {
    draft.finding.evidence.push_back({.file = issue.file, .record = "", .text = issue.text});
  }
  report.status = 2;
  report.findings.push_back(std::move(draft.finding));
  return report;
}

// Uses the drafts up. `may_have_hung`: the calls are equal and do not tell.
Report report_of(Waits& waits, bool& may_have_hung) {
  const Case& the_case = waits.the_case();
  std::vector<Draft> drafts = judge_differences(the_case);
  for (Draft& draft : waits.drafts()) drafts.push_back(std::move(draft));
  const bool quiet = std::none_of(drafts.begin(), drafts.end(), is_defect);
  for (Draft& draft : judge_pairs(the_case, quiet)) drafts.push_back(std::move(draft));
  add_gpu_causes(the_case, drafts);
  const std::optional<Draft> captured = add_graphs(the_case, drafts);
  nest_consequences(the_case, drafts);
  trace_to_other_communicators(the_case, drafts);
  trace_to_wrong_peers(the_case, drafts);
  judge_errors(the_case, drafts);
  trace_to_call_sites(the_case, drafts);
  weigh_blind_spots(the_case, drafts);
  // After the errors: groups of other ranks compute nonsense, and do not make a rank fail or die.
  for (Draft& draft : judge_splits(the_case)) drafts.push_back(std::move(draft));
  const bool has_defect = std::any_of(drafts.begin(), drafts.end(), is_defect);
  const bool is_decided = has_defect || std::any_of(drafts.begin(), drafts.end(), is_open);

  Report report;
  report.comms = summarise_comms(the_case);
  for (Draft& draft : judge_records(the_case)) drafts.push_back(std::move(draft));
  const Draft* earliest = nullptr;
  for (const Draft& draft : drafts) {
    if (!is_defect(draft) || draft.group == kNone) continue;
    if (earliest == nullptr || draft.since_ns < earliest->since_ns) earliest = &draft;
  }
  if (earliest != nullptr) report.table = standing_of(the_case, *earliest);
  report.findings = order(drafts);
  may_have_hung = false;
  if (!is_decided) {
    Equal equal = judge_equal(the_case, captured);
    may_have_hung = equal.may_have_hung;
    report.findings.insert(report.findings.begin(), std::move(equal.finding));
  }
  return report;
}

Report analyse_as_recorded(const trace::Run& run, const Options& options) {
  const Index index(run);
  if (index.active().empty()) return refuse(run);
  const JobState job = judge_processes(index, options);
  const std::vector<Difference> differences = find_differences(index);
  std::vector<Difference> blocking;
  for (const Difference& difference : differences) {
    if (!was_passed(index, job, options, difference)) blocking.push_back(difference);
  }
  Waits waits(index, options, job, differences, blocking);
  bool may_have_hung = false;
  Report report = report_of(waits, may_have_hung);
  if (may_have_hung && waits.find_circle()) report = report_of(waits, may_have_hung);
  const bool in_lockstep = report.findings.front().verdict == Verdict::in_lockstep;
  if (in_lockstep && job.live) mention_young_waits(run, options, report);
  report.status = exit_status(report.findings);
  return report;
}

std::optional<Report> judge_executed(const trace::Run& run, const Options& options,
                                     const Report& recorded) {
  if (recorded.findings.front().verdict == Verdict::in_lockstep) return {};
  const std::optional<Executed> executed = as_executed(run);
  if (!executed) return {};
  Report report = analyse_as_recorded(executed->run, options);
  if (!is_better(run, recorded, *executed, report)) return {};
  report.findings.front().summary += " (each replay of a CUDA graph counted as the calls it holds)";
  return report;
}

Report analyse_ranks(const trace::Run& run, const Options& options) {
  Report report = analyse_as_recorded(run, options);
  const bool hangs = report.findings.front().severity == Severity::hang;
  const bool is_undecided = report.findings.front().verdict == Verdict::insufficient;
  if (std::optional<Report> executed = judge_executed(run, options, report)) return *executed;
  if (!hangs && !is_undecided) return report;
  if (hangs) {
    const std::optional<trace::Run> cut = without_aftermath(run);
    if (cut) report = analyse_as_recorded(*cut, options);
  }
  const std::optional<GivenUp> given_up = before_giving_up(run, options);
  if (!given_up) return report;
  Report before = analyse_as_recorded(given_up->run, options);
  return report_of_late(run, *given_up, std::move(before), report).value_or(report);
}

}  // namespace

Report analyse(const trace::Run& run, const Options& options) {
  const std::optional<Parts> parts = take_apart(run);
  if (!parts) return analyse_ranks(run, options);
  Report report = analyse_ranks(parts->run, options);
  put_together(*parts, report);
  return report;
}

}  // namespace rollcall::analysis
