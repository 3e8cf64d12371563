// How a verdict comes about: from a run to its report, in the order in which things are asked.
//
//   analyse          the calls, what logs say in words, and how the job ended
//   judge_calls      each GPU is a rank
//   judge_run        what is, or, while nothing is the matter, what begins
//   judge_and_trace  what one view says, and whether launches of CUDA graphs tell who began it
//   choose_view      of what was called, executed, or called before the job was given up
//   judge_view       the facts of one view, with the order of streams that explains them best
//   judge_facts      every rule, then what follows from what
//
// A rule says what is the matter (rules/), an explanation what follows from it (explain/), and a
// view (views/) makes another run of the run. The sentence of a finding, what to do next and its
// evidence stand in the rule or explanation that makes it, beside make_draft(); words/ holds what
// such sentences share.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/analysis.h"
#include "analysis/explain/call_sites.h"
#include "analysis/explain/explain.h"
#include "analysis/explain/job_end.h"
#include "analysis/explain/launch_order.h"
#include "analysis/explain/lost_dumps.h"
#include "analysis/explain/lost_lines.h"
#include "analysis/explain/parted_lines.h"
#include "analysis/explain/uneven_steps.h"
#include "analysis/explain/wrong_peer.h"
#include "analysis/rules/rules.h"
#include "analysis/rules/stray_call.h"
#include "analysis/testimony/testimony.h"
#include "analysis/views/as_executed.h"
#include "analysis/views/before_giving_up.h"
#include "analysis/views/by_gpu.h"
#include "analysis/views/stream_order.h"
#include "analysis/views/without_aftermath.h"
#include "analysis/waits/passed.h"
#include "analysis/words/coordinates.h"
#include "analysis/words/label.h"
#include "analysis/words/tables.h"

namespace rollcall::analysis {
namespace {

Report judge_run(const trace::Run& run, const Options& options);
Report judge_calls(const trace::Run& run, const Options& options);
Report hear_logs(const trace::Run& run, Report&& report);
Report judge_and_trace(const trace::Run& run, const Options& options);
Report choose_view(const trace::Run& run, const Options& options);
std::optional<Report> judge_executed(const trace::Run& run, const Options& options,
                                     const Report& recorded);
Report judge_view(const trace::Run& run, const Options& options);
Report judge_facts(StreamOrderChoice& choice, bool& may_have_hung);

constexpr int kUnreadable = 2;  // the exit status where no process could be read

bool has_launches(const trace::Run& run);
bool is_blaming(const Draft& draft);
void append(std::vector<Draft>& drafts, std::vector<Draft>&& more);
std::vector<RankRow> table_of_first(const Facts& facts, const std::vector<Draft>& drafts);
Report refuse(const trace::Run& run);
int exit_status(const std::vector<Finding>& findings);

}  // namespace

Report analyse(const trace::Run& run, const Options& options) {
  Report report = judge_calls(run, options);
  doubt_lost_lines(run, report.findings);
  name_lost_dumps(run, report.findings);
  report = hear_logs(run, std::move(report));
  if (tell_job_end(run, report.findings)) report.status = exit_status(report.findings);
  name_coordinates(run, report.findings);
  return report;
}

namespace {

Report judge_calls(const trace::Run& run, const Options& options) {
  const std::optional<Parts> parts = take_apart(run);
  if (!parts) return judge_run(run, options);
  Report report = judge_run(parts->run, options);
  put_together(*parts, report);
  return report;
}

// What words tell beside calls that are equal on all ranks: "; as far as the calls on file go, all
// 2 processes made the same calls". Who prints nothing is no more to blame for that then.
void weigh_calls(const std::vector<Finding>& recorded, size_t processes, Finding& said) {
  if (recorded.empty() || recorded.front().verdict != Verdict::in_lockstep) return;
  const bool is_of_silence =
      said.verdict == Verdict::missing_call && said.confidence == Confidence::open;
  if (is_of_silence) {
    said.verdict = Verdict::insufficient;
    said.severity = severity_of(said.verdict);
    said.misstep.reset();
    said.culprits.clear();
  }
  // Of one process alone that says nothing.
  if (processes < 2) return;
  const std::string& summary = recorded.front().summary;
  std::string same = summary.substr(0, summary.find(';'));
  constexpr std::string_view kHedge = " as far as these are on file";
  if (same.ends_with(kHedge)) same.resize(same.size() - kHedge.size());
  said.summary += "; as far as the calls on file go, " + same;
}

// Nothing is in lockstep whose log says otherwise. Of what calls and words say the surer leads, and
// of equals what the calls say, which name the position.
Report hear_logs(const trace::Run& run, Report&& report) {
  std::vector<Finding> said = judge_testimony(run);
  if (said.empty()) return std::move(report);
  const bool has_calls = report.status != kUnreadable;
  std::vector<Finding> recorded = std::move(report.findings);
  weigh_calls(recorded, run.processes.size(), said.front());
  std::erase_if(recorded, [&](const Finding& finding) {
    const bool is_refusal = !has_calls && finding.verdict == Verdict::insufficient;
    return finding.verdict == Verdict::in_lockstep || is_refusal;
  });
  const bool calls_lead =
      !recorded.empty() && is_defect(recorded.front()) &&
      (!is_defect(said.front()) || recorded.front().confidence <= said.front().confidence);
  std::vector<Finding>& first = calls_lead ? recorded : said;
  std::vector<Finding>& second = calls_lead ? said : recorded;
  std::move(second.begin(), second.end(), std::back_inserter(first));
  report.findings = std::move(first);
  report.status = exit_status(report.findings);
  return std::move(report);
}

Report judge_run(const trace::Run& run, const Options& options) {
  Report report = judge_and_trace(run, options);
  const bool may_begin = run.live && options.live_threshold_ns > options.young_wait_ns;
  if (!may_begin || report.findings.front().verdict != Verdict::in_lockstep) return report;
  Options impatient = options;
  impatient.live_threshold_ns = options.young_wait_ns;
  Report early = judge_and_trace(run, impatient);
  std::optional<Finding> waiting = judge_waiting(early.findings.front(), options);
  if (!waiting) return report;
  report.findings.front() = std::move(*waiting);
  report.table = std::move(early.table);
  report.status = exit_status(report.findings);
  return report;
}

// Launches of graphs stand in no view beside what they ran: they are looked at once more of the run
// as it is on file.
Report judge_and_trace(const trace::Run& run, const Options& options) {
  Report report = choose_view(run, options);
  if (!is_defect(report.findings.front()) || !has_launches(run)) return report;
  const Index index(run);
  if (index.active().empty()) return report;
  const JobState job = judge_processes(index, options);
  const std::vector<Difference> differences = find_differences(index);
  const GatheredFacts recorded(index, options, job, differences,
                               blocking_ones(index, job, options, differences), StreamOrder::free);
  trace_to_launches(recorded.facts(), report.findings.front());
  return report;
}

Report choose_view(const trace::Run& run, const Options& options) {
  Report report = judge_view(run, options);
  const bool hangs = report.findings.front().severity == Severity::hang;
  const bool is_undecided = report.findings.front().verdict == Verdict::insufficient;
  if (std::optional<Report> executed = judge_executed(run, options, report)) return *executed;
  if (!hangs && !is_undecided) return report;
  if (hangs) {
    const std::optional<trace::Run> cut = without_aftermath(run);
    if (cut) report = judge_view(*cut, options);
  }
  const std::optional<GivenUp> given_up = before_giving_up(run, options);
  if (!given_up) return report;
  Report before = judge_view(given_up->run, options);
  return report_of_late(run, *given_up, std::move(before), report).value_or(report);
}

std::optional<Report> judge_executed(const trace::Run& run, const Options& options,
                                     const Report& recorded) {
  if (recorded.findings.front().verdict == Verdict::in_lockstep) return {};
  const std::optional<Executed> executed = as_executed(run);
  if (!executed) return {};
  Report report = judge_view(executed->run, options);
  if (!is_better(run, recorded, *executed, report)) return {};
  report.findings.front().summary += " (each replay of a CUDA graph counted as the calls it holds)";
  return report;
}

Report judge_view(const trace::Run& run, const Options& options) {
  const Index index(run);
  if (index.active().empty()) return refuse(run);
  const JobState job = judge_processes(index, options);
  const std::vector<Difference> differences = find_differences(index);
  const std::vector<Difference> blocking = blocking_ones(index, job, options, differences);
  StreamOrderChoice choice(index, options, job, differences, blocking);
  bool may_have_hung = false;
  Report report = judge_facts(choice, may_have_hung);
  if (may_have_hung && choice.find_circle()) report = judge_facts(choice, may_have_hung);
  report.status = exit_status(report.findings);
  return report;
}

// Uses the drafts up. `may_have_hung`: the calls are equal and do not tell.
Report judge_facts(StreamOrderChoice& choice, bool& may_have_hung) {
  const Facts& facts = choice.facts();
  // What is the matter: calls that differ, roots of the waits, transfers, GPUs, graphs.
  std::vector<Draft> drafts = judge_differences(facts);
  // Of judge_waits (rules/silence.cpp, rules/circle.cpp), which the choice has asked of each order
  // of streams.
  append(drafts, std::move(choice.drafts()));
  const bool is_quiet = std::none_of(drafts.begin(), drafts.end(), is_blaming);
  append(drafts, judge_pairs(facts, is_quiet));
  add_gpu_causes(facts, drafts);
  const std::optional<Draft> captured = add_graphs(facts, drafts);
  // What follows from what, and where it began.
  list_waits(facts, drafts);
  trace_to_other_communicators(facts, drafts);
  trace_to_wrong_peers(facts, drafts);
  trace_to_uneven_steps(facts, drafts);
  judge_errors(facts, drafts);
  trace_to_call_sites(facts, drafts);
  name_parted_lines(facts, drafts);
  weigh_blind_spots(facts, drafts);
  // After the errors: groups of other ranks compute nonsense, and do not make a rank fail or die.
  append(drafts, judge_splits(facts));
  const bool is_decided = std::any_of(drafts.begin(), drafts.end(), is_blaming) ||
                          std::any_of(drafts.begin(), drafts.end(), is_undecided);
  // What is worth saying of any run.
  append(drafts, judge_records(facts));

  Report report;
  report.comms = summarise_comms(facts);
  report.table = table_of_first(facts, drafts);
  report.findings = order(drafts);
  may_have_hung = false;
  if (is_decided) return report;
  Equal equal = judge_equal(facts, captured);
  may_have_hung = equal.may_have_hung;
  report.findings.insert(report.findings.begin(), std::move(equal.finding));
  return report;
}

bool has_launches(const trace::Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(), [](const trace::Process& process) {
    return std::any_of(process.ops.begin(), process.ops.end(),
                       [](const trace::Op& op) { return op.kind == OpKind::GraphLaunch; });
  });
}

bool is_blaming(const Draft& draft) { return is_defect(draft.finding); }

void append(std::vector<Draft>& drafts, std::vector<Draft>&& more) {
  std::move(more.begin(), more.end(), std::back_inserter(drafts));
}

// Of the defect that began first, where it is at a position.
std::vector<RankRow> table_of_first(const Facts& facts, const std::vector<Draft>& drafts) {
  const Draft* earliest = nullptr;
  for (const Draft& draft : drafts) {
    if (!is_blaming(draft) || draft.group == kNone) continue;
    if (earliest == nullptr || draft.since_ns < earliest->since_ns) earliest = &draft;
  }
  if (earliest == nullptr) return {};
  return standing_of(facts, *earliest);
}

Report refuse(const trace::Run& run) {
  Report report;
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary = "no process of this run could be read";
  draft.finding.next = "name the directory that holds the *.ring files of the job";
  for (const trace::Issue& issue : run.issues) {
    draft.finding.evidence.push_back({.file = issue.file, .record = "", .text = issue.text});
  }
  report.status = kUnreadable;
  report.findings.push_back(std::move(draft.finding));
  return report;
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
  const bool is_undecided = lead == Verdict::insufficient || lead == Verdict::waiting ||
                            (lead == Verdict::in_lockstep && has_gap);
  return is_undecided ? 3 : status;
}

}  // namespace
}  // namespace rollcall::analysis
