// Errors, aborts and deaths, in the order of time: what came first leads, what came after follows.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "analysis/rules/judge.h"
#include "analysis/slips/own_past.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Event;
using trace::Op;
using trace::Process;

struct Sighting {
  uint32_t process = kNone;
  uint32_t event = kNone;
  int64_t at_ns = 0;
};

bool is_error(const Event& event) {
  if (event.kind == EventKind::AsyncError) {
    return event.arguments[1] != kResultSuccess && event.arguments[1] != kResultInProgress;
  }
  return event.kind == EventKind::CallFailed && event.result > 0 &&
         event.result != kResultInProgress;
}

// The first event of a kind in every process, oldest first.
template <typename Wanted>
std::vector<Sighting> first_reports(const Case& c, Wanted wanted) {
  std::vector<Sighting> reports;
  for (const uint32_t p : c.index.active()) {
    const Process& process = c.process(p);
    for (uint32_t i = 0; i < process.events.size(); ++i) {
      if (!wanted(process.events[i])) continue;
      reports.push_back({p, i, process.events[i].called_ns});
      break;
    }
  }
  std::stable_sort(reports.begin(), reports.end(),
                   [](const Sighting& a, const Sighting& b) { return a.at_ns < b.at_ns; });
  return reports;
}

std::vector<uint32_t> processes_of(const std::vector<Sighting>& reports) {
  std::vector<uint32_t> processes;
  for (const Sighting& report : reports) processes.push_back(report.process);
  return processes;
}

uint32_t group_of(const Case& c, const Sighting& report) {
  const Event& event = c.process(report.process).events[report.event];
  return event.comm == kCommUnknown ? kNone : c.index.seat(report.process, event.comm).group;
}

void quote(const Case& c, const Sighting& report, Finding& finding) {
  const Process& process = c.process(report.process);
  const Event& event = process.events[report.event];
  std::string text = fmt::format("{}: {}", rank_text(process), rollcall::name_of(event.kind));
  if (is_error(event)) text += fmt::format(" {}", name_of_result(result_of(event)));
  if (!event.text.empty()) text += ": " + event.text;
  finding.evidence.push_back(
      {.file = process.file, .record = fmt::format("event {}", event.ticket), .text = text});
}

// NCCL says of these results that it was given something wrong.
bool is_of_arguments(const Event& event) {
  const int result = result_of(event);
  return event.kind == EventKind::CallFailed &&
         (result == kResultInvalidArgument || result == kResultInvalidUsage);
}

// The same error. What broke on one rank reaches the others as an error of the same number, but
// with another text.
bool are_alike(const Event& one, const Event& other) {
  return one.kind == other.kind && result_of(one) == result_of(other) &&
         (is_of_arguments(one) || one.text == other.text);
}

// In the making of the communicator.
bool is_in_making(const Case& c, const Sighting& report) {
  const Process& process = c.process(report.process);
  return process.comms[process.events[report.event].comm].state == CommState::failed;
}

// Every rank of a communicator got the same error when it was made: nobody where not.
std::vector<Sighting> who_was_refused(const Case& c, const std::vector<Sighting>& errors) {
  const Sighting& first = errors.front();
  const Event& event = c.process(first.process).events[first.event];
  const uint32_t g = group_of(c, first);
  if (event.kind != EventKind::CallFailed || g == kNone || !is_in_making(c, first)) return {};
  std::vector<Sighting> refused;
  for (const Sighting& report : errors) {
    const bool is_together =
        report.at_ns - first.at_ns < c.options.ended_threshold_ns + c.job.clock_doubt_ns;
    const bool is_same = is_together && group_of(c, report) == g && is_in_making(c, report) &&
                         are_alike(c.process(report.process).events[report.event], event);
    if (is_same) refused.push_back(report);
  }
  const auto nranks = static_cast<size_t>(std::max(c.group(g).nranks, 2));
  return refused.size() == nranks ? refused : std::vector<Sighting>{};
}

// The collective that NCCL refused because of its arguments; null for another error, and where the
// record of the call is gone.
const Op* refused_collective(const Case& c, const Sighting& report) {
  const Process& process = c.process(report.process);
  const Event& event = process.events[report.event];
  if (!is_of_arguments(event)) return nullptr;
  const auto ticket = static_cast<uint64_t>(event.arguments[1]);
  const auto found = std::find_if(process.ops.rbegin(), process.ops.rend(),
                                  [&](const Op& op) { return op.ticket == ticket; });
  const bool is_it = found != process.ops.rend() && is_collective(found->kind);
  return is_it && group_of(c, report) != kNone ? &*found : nullptr;
}

// Most ranks of a communicator were refused one collective with the same arguments, and NCCL let no
// rank pass: nobody where not. Not all need to have come to it: what starts the ranks ends them all
// when the first has failed.
std::vector<Sighting> who_was_refused_alike(const Case& c, const std::vector<Sighting>& errors) {
  const Op* call = refused_collective(c, errors.front());
  if (call == nullptr) return {};
  std::map<uint32_t, std::vector<Sighting>> by_group;
  for (const Sighting& report : errors) {
    const Op* other = refused_collective(c, report);
    const bool is_same = other != nullptr && other->result == call->result &&
                         other->seq == call->seq &&
                         agree(signature_of(*other), signature_of(*call));
    if (is_same) by_group[group_of(c, report)].push_back(report);
  }
  std::vector<Sighting> refused;
  bool is_first_in = false;
  for (const auto& [g, reports] : by_group) {
    const Group& group = c.group(g);
    const auto called = static_cast<size_t>(
        std::count_if(group.members.begin(), group.members.end(),
                      [&](const Member& member) { return member.lane.called > call->seq; }));
    const auto nranks = static_cast<size_t>(std::max(group.nranks, 2));
    if (called != reports.size() || called * 2 <= nranks) continue;
    is_first_in = is_first_in || g == group_of(c, errors.front());
    refused.insert(refused.end(), reports.begin(), reports.end());
  }
  return is_first_in ? refused : std::vector<Sighting>{};
}

// Of errors that are alike the one of which NCCL said most.
const Event& longest_told(const Case& c, const std::vector<Sighting>& errors) {
  const auto event_of = [&](const Sighting& report) -> const Event& {
    return c.process(report.process).events[report.event];
  };
  return event_of(
      *std::max_element(errors.begin(), errors.end(), [&](const Sighting& a, const Sighting& b) {
        return event_of(a).text.size() < event_of(b).text.size();
      }));
}

Draft draft_refused_call(const Case& c, const std::vector<Sighting>& refused) {
  Draft draft = make_draft(Verdict::async_error, Confidence::certain);
  Finding& finding = draft.finding;
  const Event& event = longest_told(c, refused);
  const Op& call = *refused_collective(c, refused.front());
  std::set<uint32_t> groups;
  draft.since_ns = refused.front().at_ns;
  for (const Sighting& report : refused) {
    groups.insert(group_of(c, report));
    draft.since_ns = std::min(draft.since_ns, report.at_ns);
    if (finding.evidence.size() < 4) quote(c, report, finding);
  }
  const std::string where = groups.size() == 1 ? c.group(*groups.begin()).name
                                               : fmt::format("{} communicators", groups.size());
  finding.summary = fmt::format("NCCL refused {}, seq {} of {}, on {} alike: {} ({}{})",
                                call_text(c.index, refused.front().process, call), call.seq, where,
                                processes_text(c.index.run(), processes_of(refused)),
                                name_of_result(result_of(event)), result_of(event),
                                event.text.empty() ? "" : ": " + event.text);
  finding.next =
      "look at the arguments of that call in the program: the log of any rank with "
      "NCCL_DEBUG=WARN has what is wrong with them";
  set_victims(c, processes_of(refused), finding);
  return draft;
}

Draft draft_refusal(const Case& c, const std::vector<Sighting>& refused) {
  Draft draft = make_draft(Verdict::async_error, Confidence::certain);
  Finding& finding = draft.finding;
  for (const Sighting& report : refused) {
    if (finding.evidence.size() < 4) quote(c, report, finding);
  }
  const Event& longest = longest_told(c, refused);
  finding.summary = fmt::format("NCCL {} to make {} on all {} ranks: {} ({}{})",
                                is_of_arguments(longest) ? "refused" : "failed",
                                c.group(group_of(c, refused.front())).name, refused.size(),
                                name_of_result(result_of(longest)), result_of(longest),
                                longest.text.empty() ? "" : ": " + longest.text);
  finding.next = "read what NCCL says; the log of any of them with NCCL_DEBUG=WARN has all of it";
  set_victims(c, processes_of(refused), finding);
  draft.since_ns = refused.front().at_ns;
  return draft;
}

std::string next_text(const Process& process, const Event& event, bool is_cuda) {
  const std::string who = rank_text(process);
  if (is_cuda) return fmt::format("look for the first CUDA error in the log of {}", who);
  if (is_of_arguments(event)) {
    return fmt::format(
        "look at the arguments of that call on {}: its log with NCCL_DEBUG=WARN has what is wrong "
        "with them",
        who);
  }
  return fmt::format(
      "look at the log of {} with NCCL_DEBUG=WARN, and at the network and the ranks it talks to",
      who);
}

Draft draft_error(const Case& c, const std::vector<Sighting>& errors) {
  const Sighting& first = errors.front();
  const Process& process = c.process(first.process);
  const Event& event = process.events[first.event];
  const int result = result_of(event);
  const bool is_cuda = result == kResultUnhandledCudaError && event.kind == EventKind::CallFailed;
  Draft draft =
      make_draft(is_cuda ? Verdict::cuda_error : Verdict::async_error, Confidence::certain);
  Finding& finding = draft.finding;
  Culprit culprit = culprit_of(c, first.process, group_of(c, first));
  if (event.kind == EventKind::CallFailed && event.arguments[0] >= 0 &&
      static_cast<size_t>(event.arguments[0]) < kOpKinds) {
    culprit.op = std::string(rollcall::name_of(static_cast<OpKind>(event.arguments[0])));
  }
  finding.culprits.push_back(culprit);
  finding.summary = fmt::format("{} was the first to get {} ({}{}) from NCCL; {} got errors in all",
                                rank_text(process), name_of_result(result), result,
                                event.text.empty() ? "" : ": " + event.text,
                                processes_text(c.index.run(), processes_of(errors)));
  finding.next = next_text(process, event, is_cuda);
  for (size_t i = 0; i < errors.size() && i < 4; ++i) quote(c, errors[i], finding);
  set_victims(c, processes_of(errors), finding);
  draft.since_ns = first.at_ns;
  return draft;
}

// Of errors that all ranks got alike no rank is to blame.
Draft draft_first_error(const Case& c, const std::vector<Sighting>& errors) {
  if (const std::vector<Sighting> refused = who_was_refused(c, errors); !refused.empty()) {
    return draft_refusal(c, refused);
  }
  const std::vector<Sighting> alike = who_was_refused_alike(c, errors);
  return alike.empty() ? draft_error(c, errors) : draft_refused_call(c, alike);
}

Draft draft_aborts(const Case& c, const std::vector<Sighting>& aborts) {
  const Sighting& first = aborts.front();
  Draft draft = make_draft(Verdict::abort_cascade, Confidence::certain);
  Finding& finding = draft.finding;
  finding.culprits.push_back(culprit_of(c, first.process, group_of(c, first)));
  finding.summary = fmt::format("{} was the first to abort; {} aborted in all",
                                rank_text(c.process(first.process)),
                                processes_text(c.index.run(), processes_of(aborts)));
  finding.next =
      fmt::format("look in the log of {} for why it aborted", rank_text(c.process(first.process)));
  for (size_t i = 0; i < aborts.size() && i < 8; ++i) quote(c, aborts[i], finding);
  set_victims(c, processes_of(aborts), finding);
  draft.since_ns = first.at_ns;
  return draft;
}

bool is_hang(const Draft& draft) { return draft.finding.severity == Severity::hang; }

bool is_hang_or_open(const Draft& draft) {
  return is_hang(draft) || draft.finding.verdict == Verdict::insufficient;
}

// Some call can never have finished.
bool has_cut_off_calls(const Case& c) {
  return std::any_of(c.index.active().begin(), c.index.active().end(),
                     [&](uint32_t p) { return !c.progress.waiting(p).empty(); });
}

// Whom it blames had errors, and called nothing more before they died: that is what they died of.
bool is_of_errors(const Case& c, const Draft& draft, const std::vector<Sighting>& errors) {
  const std::vector<Culprit>& culprits = draft.finding.culprits;
  return draft.finding.verdict == Verdict::rank_dead && !culprits.empty() &&
         std::all_of(culprits.begin(), culprits.end(), [&](const Culprit& culprit) {
           const auto error = std::find_if(
               errors.begin(), errors.end(),
               [&](const Sighting& report) { return report.process == culprit.process; });
           if (error == errors.end()) return false;
           const uint32_t last = c.job.processes[culprit.process].last_op;
           return last == kNoRecord ||
                  c.process(culprit.process).ops[last].called_ns <= error->at_ns;
         });
}

// A process that died while the others waited in calls that it had made as well.
void add_silent_deaths(const Case& c, std::vector<Draft>& drafts) {
  const auto has_ended = [&](uint32_t p) {
    return c.job.processes[p].ended_itself && !c.job.processes[p].gone;
  };
  const std::vector<uint32_t>& active = c.index.active();
  const auto ended = std::count_if(active.begin(), active.end(), has_ended);
  const bool all_but_one_ended = static_cast<size_t>(ended) + 1 == active.size();
  for (const uint32_t p : active) {
    const ProcessState& state = c.job.processes[p];
    const Process& process = c.process(p);
    if (!state.gone || state.ended_itself || c.job.all_ended_themselves) continue;
    // It is the one itself.
    if (all_but_one_ended && !c.job.live) continue;
    uint32_t g = kNone;
    if (state.last_op != kNoRecord) g = c.index.seat(p, process.ops[state.last_op].comm).group;
    Draft draft =
        make_draft(Verdict::rank_dead, c.job.live ? Confidence::certain : Confidence::likely);
    Culprit culprit = culprit_of(c, p, g);
    if (state.last_op != kNoRecord && is_collective(process.ops[state.last_op].kind)) {
      culprit.seq = process.ops[state.last_op].seq;
      culprit.op = std::string(rollcall::name_of(process.ops[state.last_op].kind));
    }
    draft.finding.culprits.push_back(culprit);
    const std::string oom = oom_text(process);
    const bool is_told = c.job.is_foreign && !process.liveness_evidence.empty();
    draft.finding.summary =
        is_told ? fmt::format("{} is gone: {}; what it called last is not on file",
                              rank_text(process), process.liveness_evidence)
                : fmt::format("{} died {} before {} without leaving an exit record; {}{}",
                              rank_text(process), span_text(c.job.end_ns - state.last_sign_ns),
                              c.job.live ? "now" : "the others", doing_text(c.index, c.job, p),
                              oom.empty() ? "" : "; " + oom);
    draft.finding.next = fmt::format(
        "look at the log and exit status of pid {} on {}, and at "
        "`dmesg` there",
        process.pid, process.host);
    draft.finding.evidence.push_back(process_evidence(c, p));
    draft.since_ns = state.last_sign_ns;
    drafts.push_back(std::move(draft));
  }
}

// The rank stopped in the middle of what it always does: another one made the same calls, and then
// one more of those that this one had made before.
bool stopped_short(const Case& c, uint32_t p) {
  if (c.doubt.may_wait_for_unknown(p)) return false;
  constexpr size_t kTailMax = 256;
  const size_t end = c.process(p).ops.size();
  const size_t begin = end - std::min(end, kTailMax);
  const std::vector<Signature> mine = tokens(c, p, begin, end);
  return std::any_of(c.index.active().begin(), c.index.active().end(), [&](uint32_t q) {
    const std::vector<Signature> theirs = tokens(c, q, begin, end);
    const std::vector<Signature> next = tokens(c, q, end, end + 1);
    if (next.empty() || mine.size() != theirs.size()) return false;
    return std::equal(mine.begin(), mine.end(), theirs.begin(), agree) &&
           std::any_of(mine.begin(), mine.end(),
                       [&](const Signature& call) { return agree(call, next.front()); });
  });
}

}  // namespace

void judge_errors(const Case& c, std::vector<Draft>& drafts) {
  const std::vector<Sighting> errors = first_reports(c, is_error);
  const std::vector<Sighting> aborts = first_reports(c, std::mem_fn(&Event::is_abort));
  if (std::none_of(drafts.begin(), drafts.end(), is_hang)) add_silent_deaths(c, drafts);
  if (errors.empty()) {
    // Without an error, aborts end a job in order, or end a hang that has its own finding; or they
    // came before anybody had waited long enough to speak of a hang.
    // Where who aborted first may have followed a rank without a file, that is said already.
    if (!aborts.empty() && std::none_of(drafts.begin(), drafts.end(), is_hang_or_open) &&
        (has_cut_off_calls(c) || stopped_short(c, aborts.front().process))) {
      drafts.push_back(draft_aborts(c, aborts));
      return;
    }
    for (Draft& draft : drafts) {
      if (aborts.empty() || draft.finding.verdict != Verdict::abort_cascade) continue;
      draft.finding.consequences.push_back(draft_aborts(c, aborts).finding);
    }
    return;
  }
  const bool abort_leads = !aborts.empty() && aborts.front().at_ns <= errors.front().at_ns;
  Draft error = draft_first_error(c, errors);
  if (!aborts.empty() && !abort_leads) {
    error.finding.consequences.push_back(draft_aborts(c, aborts).finding);
  }
  Draft lead = std::move(error);
  if (abort_leads) {
    Draft cascade = draft_aborts(c, aborts);
    cascade.finding.consequences.push_back(std::move(lead.finding));
    lead = std::move(cascade);
  }
  Draft* cause = nullptr;
  for (Draft& draft : drafts) {
    if (!is_hang(draft) || is_of_errors(c, draft, errors)) continue;
    const Verdict verdict = draft.finding.verdict;
    const bool is_cause = verdict == Verdict::rank_dead || verdict == Verdict::abort_cascade ||
                          verdict == Verdict::cuda_error || draft.since_ns < lead.since_ns;
    if (is_cause && (!cause || draft.since_ns < cause->since_ns)) cause = &draft;
  }
  // An error long after a wait began is how NCCL or a watchdog noticed it; one that comes first, or
  // at once, is what the wait follows from.
  const bool at_once = cause && lead.since_ns - cause->since_ns < c.options.ended_threshold_ns / 4;
  const bool kept = cause && (!at_once || cause->finding.verdict == Verdict::rank_dead ||
                              cause->finding.verdict == Verdict::cuda_error ||
                              cause->finding.verdict == Verdict::rank_stopped ||
                              cause->finding.verdict == Verdict::abort_cascade ||
                              cause->finding.verdict == Verdict::async_error);
  if (kept) {
    cause->finding.consequences.push_back(std::move(lead.finding));
    return;
  }
  std::vector<Draft> others;
  for (Draft& draft : drafts) {
    if (is_hang(draft)) {
      lead.finding.consequences.push_back(std::move(draft.finding));
    } else {
      others.push_back(std::move(draft));
    }
  }
  others.push_back(std::move(lead));
  drafts = std::move(others);
}

}  // namespace rollcall::analysis
