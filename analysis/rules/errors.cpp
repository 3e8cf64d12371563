// Errors, aborts and deaths, in the order of time: what came first leads, what came after follows.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "analysis/rules/rules.h"
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

bool is_cuda_failure(const Event& event) {
  return event.kind == EventKind::CallFailed && event.result == kResultUnhandledCudaError;
}

// The first event of a kind in every process, oldest first.
template <typename Wanted>
std::vector<Sighting> first_reports(const Facts& facts, Wanted wanted) {
  std::vector<Sighting> reports;
  for (const uint32_t p : facts.index.active()) {
    const Process& process = facts.process(p);
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

uint32_t group_of(const Facts& facts, const Sighting& report) {
  const Event& event = facts.process(report.process).events[report.event];
  return event.comm == kCommUnknown ? kNone : facts.index.seat(report.process, event.comm).group;
}

void quote(const Facts& facts, const Sighting& report, Finding& finding) {
  const Process& process = facts.process(report.process);
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
bool is_in_making(const Facts& facts, const Sighting& report) {
  const Process& process = facts.process(report.process);
  return process.comms[process.events[report.event].comm].state == CommState::failed;
}

// Every rank of a communicator got the same error when it was made: nobody where not.
std::vector<Sighting> who_was_refused(const Facts& facts, const std::vector<Sighting>& errors) {
  const Sighting& first = errors.front();
  const Event& event = facts.process(first.process).events[first.event];
  const uint32_t g = group_of(facts, first);
  if (event.kind != EventKind::CallFailed || g == kNone || !is_in_making(facts, first)) return {};
  std::vector<Sighting> refused;
  for (const Sighting& report : errors) {
    const bool is_together =
        report.at_ns - first.at_ns < facts.options.ended_threshold_ns + facts.job.clock_doubt_ns;
    const bool is_same = is_together && group_of(facts, report) == g &&
                         is_in_making(facts, report) &&
                         are_alike(facts.process(report.process).events[report.event], event);
    if (is_same) refused.push_back(report);
  }
  const auto nranks = static_cast<size_t>(std::max(facts.group(g).nranks, 2));
  return refused.size() == nranks ? refused : std::vector<Sighting>{};
}

// The collective that NCCL refused because of its arguments; null for another error, and where the
// record of the call is gone.
const Op* refused_collective(const Facts& facts, const Sighting& report) {
  const Process& process = facts.process(report.process);
  const Event& event = process.events[report.event];
  if (!is_of_arguments(event)) return nullptr;
  const auto ticket = static_cast<uint64_t>(event.arguments[1]);
  const auto found = std::find_if(process.ops.rbegin(), process.ops.rend(),
                                  [&](const Op& op) { return op.ticket == ticket; });
  const bool is_it = found != process.ops.rend() && is_collective(found->kind);
  return is_it && group_of(facts, report) != kNone ? &*found : nullptr;
}

// Most ranks of a communicator were refused one collective with the same arguments, and NCCL let no
// rank pass: nobody where not. Not all need to have come to it: what starts the ranks ends them all
// when the first has failed.
std::vector<Sighting> who_was_refused_alike(const Facts& facts,
                                            const std::vector<Sighting>& errors) {
  const Op* call = refused_collective(facts, errors.front());
  if (call == nullptr) return {};
  std::map<uint32_t, std::vector<Sighting>> by_group;
  for (const Sighting& report : errors) {
    const Op* other = refused_collective(facts, report);
    const bool is_same = other != nullptr && other->result == call->result &&
                         other->seq == call->seq &&
                         agree(signature_of(*other), signature_of(*call));
    if (is_same) by_group[group_of(facts, report)].push_back(report);
  }
  std::vector<Sighting> refused;
  bool is_first_in = false;
  for (const auto& [g, reports] : by_group) {
    const Group& group = facts.group(g);
    const auto called = static_cast<size_t>(
        std::count_if(group.members.begin(), group.members.end(),
                      [&](const Member& member) { return member.lane.called > call->seq; }));
    const auto nranks = static_cast<size_t>(std::max(group.nranks, 2));
    if (called != reports.size() || called * 2 <= nranks) continue;
    is_first_in = is_first_in || g == group_of(facts, errors.front());
    refused.insert(refused.end(), reports.begin(), reports.end());
  }
  return is_first_in ? refused : std::vector<Sighting>{};
}

// Of errors that are alike the one of which NCCL said most.
const Event& longest_told(const Facts& facts, const std::vector<Sighting>& errors) {
  const auto event_of = [&](const Sighting& report) -> const Event& {
    return facts.process(report.process).events[report.event];
  };
  return event_of(
      *std::max_element(errors.begin(), errors.end(), [&](const Sighting& a, const Sighting& b) {
        return event_of(a).text.size() < event_of(b).text.size();
      }));
}

Draft draft_refused_call(const Facts& facts, const std::vector<Sighting>& refused) {
  Draft draft = make_draft(Verdict::async_error, Confidence::certain);
  Finding& finding = draft.finding;
  const Event& event = longest_told(facts, refused);
  const Op& call = *refused_collective(facts, refused.front());
  std::set<uint32_t> groups;
  draft.since_ns = refused.front().at_ns;
  for (const Sighting& report : refused) {
    groups.insert(group_of(facts, report));
    draft.since_ns = std::min(draft.since_ns, report.at_ns);
    if (finding.evidence.size() < 4) quote(facts, report, finding);
  }
  const std::string where = groups.size() == 1 ? facts.group(*groups.begin()).name
                                               : fmt::format("{} communicators", groups.size());
  finding.summary = fmt::format("NCCL refused {}, seq {} of {}, on {} alike: {} ({}{})",
                                call_text(facts.index, refused.front().process, call), call.seq,
                                where, processes_text(facts.index.run(), processes_of(refused)),
                                name_of_result(result_of(event)), result_of(event),
                                event.text.empty() ? "" : ": " + event.text);
  finding.next =
      "look at the arguments of that call in the program: the log of any rank with "
      "NCCL_DEBUG=WARN has what is wrong with them";
  set_victims(facts, processes_of(refused), finding);
  return draft;
}

Draft draft_refusal(const Facts& facts, const std::vector<Sighting>& refused) {
  Draft draft = make_draft(Verdict::async_error, Confidence::certain);
  Finding& finding = draft.finding;
  for (const Sighting& report : refused) {
    if (finding.evidence.size() < 4) quote(facts, report, finding);
  }
  const Event& longest = longest_told(facts, refused);
  finding.summary = fmt::format("NCCL {} to make {} on all {} ranks: {} ({}{})",
                                is_of_arguments(longest) ? "refused" : "failed",
                                facts.group(group_of(facts, refused.front())).name, refused.size(),
                                name_of_result(result_of(longest)), result_of(longest),
                                longest.text.empty() ? "" : ": " + longest.text);
  finding.next = "read what NCCL says; the log of any of them with NCCL_DEBUG=WARN has all of it";
  set_victims(facts, processes_of(refused), finding);
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

Draft draft_error(const Facts& facts, const std::vector<Sighting>& errors) {
  const Sighting& first = errors.front();
  const Process& process = facts.process(first.process);
  const Event& event = process.events[first.event];
  const int result = result_of(event);
  const bool is_cuda = is_cuda_failure(event);
  Draft draft =
      make_draft(is_cuda ? Verdict::cuda_error : Verdict::async_error, Confidence::certain);
  Finding& finding = draft.finding;
  Culprit culprit = culprit_of(facts, first.process, group_of(facts, first));
  if (event.kind == EventKind::CallFailed && event.arguments[0] >= 0 &&
      static_cast<size_t>(event.arguments[0]) < kOpKinds) {
    culprit.op = std::string(rollcall::name_of(static_cast<OpKind>(event.arguments[0])));
  }
  finding.culprits.push_back(culprit);
  finding.summary = fmt::format("{} was the first to get {} ({}{}) from NCCL; {} got errors in all",
                                rank_text(process), name_of_result(result), result,
                                event.text.empty() ? "" : ": " + event.text,
                                processes_text(facts.index.run(), processes_of(errors)));
  finding.next = next_text(process, event, is_cuda);
  for (size_t i = 0; i < errors.size() && i < 4; ++i) quote(facts, errors[i], finding);
  set_victims(facts, processes_of(errors), finding);
  draft.since_ns = first.at_ns;
  return draft;
}

// Of errors that all ranks got alike no rank is to blame.
Draft draft_first_error(const Facts& facts, const std::vector<Sighting>& errors) {
  if (const std::vector<Sighting> refused = who_was_refused(facts, errors); !refused.empty()) {
    return draft_refusal(facts, refused);
  }
  const std::vector<Sighting> alike = who_was_refused_alike(facts, errors);
  return alike.empty() ? draft_error(facts, errors) : draft_refused_call(facts, alike);
}

Draft draft_aborts(const Facts& facts, const std::vector<Sighting>& aborts) {
  const Sighting& first = aborts.front();
  Draft draft = make_draft(Verdict::abort_cascade, Confidence::certain);
  Finding& finding = draft.finding;
  finding.culprits.push_back(culprit_of(facts, first.process, group_of(facts, first)));
  finding.summary = fmt::format("{} was the first to abort; {} aborted in all",
                                rank_text(facts.process(first.process)),
                                processes_text(facts.index.run(), processes_of(aborts)));
  finding.next = fmt::format("look in the log of {} for why it aborted",
                             rank_text(facts.process(first.process)));
  for (size_t i = 0; i < aborts.size() && i < 8; ++i) quote(facts, aborts[i], finding);
  set_victims(facts, processes_of(aborts), finding);
  draft.since_ns = first.at_ns;
  return draft;
}

bool is_hang(const Draft& draft) { return draft.finding.severity == Severity::hang; }

bool is_hang_or_open(const Draft& draft) {
  return is_hang(draft) || draft.finding.verdict == Verdict::insufficient;
}

// Some call can never have finished.
bool has_cut_off_calls(const Facts& facts) {
  return std::any_of(facts.index.active().begin(), facts.index.active().end(),
                     [&](uint32_t p) { return !facts.playback.waiting(p).empty(); });
}

// Whom it blames had errors, and called nothing more before they died: that is what they died of.
// So it is of who aborts where CUDA had failed before; other errors are how NCCL tells of aborts.
bool is_of_errors(const Facts& facts, const Draft& draft, const std::vector<Sighting>& errors) {
  const std::vector<Culprit>& culprits = draft.finding.culprits;
  const bool is_abort = draft.finding.verdict == Verdict::abort_cascade;
  return (is_abort || draft.finding.verdict == Verdict::rank_dead) && !culprits.empty() &&
         std::all_of(culprits.begin(), culprits.end(), [&](const Culprit& culprit) {
           const auto error = std::find_if(
               errors.begin(), errors.end(),
               [&](const Sighting& report) { return report.process == culprit.process; });
           if (error == errors.end()) return false;
           const Event& event = facts.process(error->process).events[error->event];
           if (is_abort && !is_cuda_failure(event)) return false;
           const uint32_t last = facts.job.processes[culprit.process].last_op;
           return last == kNoRecord ||
                  facts.process(culprit.process).ops[last].called_ns <= error->at_ns;
         });
}

// Of a process that is gone without an exit record, and whose calls tell nothing.
Draft draft_silent_death(const Facts& facts, uint32_t p) {
  const ProcessState& state = facts.job.processes[p];
  const Process& process = facts.process(p);
  const Op* const last = state.last_op == kNoRecord ? nullptr : &process.ops[state.last_op];
  Draft draft =
      make_draft(Verdict::rank_dead, facts.job.live ? Confidence::certain : Confidence::likely);
  Culprit culprit =
      culprit_of(facts, p, last == nullptr ? kNone : facts.index.seat(p, last->comm).group);
  if (last != nullptr && is_collective(last->kind)) {
    culprit.seq = last->seq;
    culprit.op = std::string(rollcall::name_of(last->kind));
  }
  draft.finding.culprits.push_back(culprit);
  const std::string oom = oom_text(process);
  const bool is_told = facts.job.is_foreign && !process.liveness_evidence.empty();
  draft.finding.summary =
      is_told ? fmt::format("{} is gone: {}; what it called last is not on file",
                            rank_text(process), process.liveness_evidence)
              : fmt::format("{} died {} before {} without leaving an exit record; {}{}",
                            rank_text(process), span_text(facts.job.end_ns - state.last_sign_ns),
                            facts.job.live ? "now" : "the others",
                            doing_text(facts.index, facts.job, p), oom.empty() ? "" : "; " + oom);
  draft.finding.next =
      fmt::format("look at the log and exit status of pid {} on {}, and at `dmesg` there",
                  process.pid, process.host);
  if (is_told && is_only_unheard(process)) {
    draft.finding.confidence = Confidence::open;
    draft.finding.summary = fmt::format("{} {}", rank_text(process), unheard_text());
    draft.finding.next = fmt::format("look whether pid {} on {} still runs, and ask ncclras again",
                                     process.pid, process.host);
  }
  draft.finding.evidence.push_back(process_evidence(facts, p));
  draft.since_ns = state.last_sign_ns;
  return draft;
}

// Processes that died while the others waited in calls that they had made as well.
void add_silent_deaths(const Facts& facts, std::vector<Draft>& drafts) {
  if (facts.job.all_ended_themselves) return;
  const auto has_ended = [&](uint32_t p) {
    return facts.job.processes[p].ended_itself && !facts.job.processes[p].gone;
  };
  const std::vector<uint32_t>& active = facts.index.active();
  const auto ended = std::count_if(active.begin(), active.end(), has_ended);
  // The one that is left is the one itself.
  const bool all_but_one_ended = static_cast<size_t>(ended) + 1 == active.size();
  if (all_but_one_ended && !facts.job.live) return;
  for (const uint32_t p : active) {
    const ProcessState& state = facts.job.processes[p];
    if (state.gone && !state.ended_itself) drafts.push_back(draft_silent_death(facts, p));
  }
}

// The rank stopped in the middle of what it always does: another one made the same calls, and then
// one more of those that this one had made before.
bool stopped_short(const Facts& facts, uint32_t p) {
  if (facts.unheard.may_wait_for_unknown(p)) return false;
  constexpr size_t kTailMax = 256;
  const size_t end = facts.process(p).ops.size();
  const size_t begin = end - std::min(end, kTailMax);
  const std::vector<Signature> mine = tokens(facts, p, begin, end);
  return std::any_of(facts.index.active().begin(), facts.index.active().end(), [&](uint32_t q) {
    const std::vector<Signature> theirs = tokens(facts, q, begin, end);
    const std::vector<Signature> next = tokens(facts, q, end, end + 1);
    if (next.empty() || mine.size() != theirs.size()) return false;
    return std::equal(mine.begin(), mine.end(), theirs.begin(), agree) &&
           std::any_of(mine.begin(), mine.end(),
                       [&](const Signature& call) { return agree(call, next.front()); });
  });
}

// Without an error, aborts end a job in order, or end a hang that has its own finding; or they came
// before anybody had waited long enough to speak of a hang.
void judge_aborts(const Facts& facts, const std::vector<Sighting>& aborts,
                  std::vector<Draft>& drafts) {
  if (aborts.empty()) return;
  // Where who aborted first may have followed a rank without a file, that is said already.
  if (std::none_of(drafts.begin(), drafts.end(), is_hang_or_open) &&
      (has_cut_off_calls(facts) || stopped_short(facts, aborts.front().process))) {
    drafts.push_back(draft_aborts(facts, aborts));
    return;
  }
  for (Draft& draft : drafts) {
    if (draft.finding.verdict != Verdict::abort_cascade) continue;
    draft.finding.consequences.push_back(draft_aborts(facts, aborts).finding);
  }
}

// The first error and the aborts, the earlier of the two above the other.
Draft draft_errors(const Facts& facts, const std::vector<Sighting>& errors,
                   const std::vector<Sighting>& aborts) {
  Draft error = draft_first_error(facts, errors);
  if (aborts.empty()) return error;
  Draft cascade = draft_aborts(facts, aborts);
  const bool abort_leads = aborts.front().at_ns <= errors.front().at_ns;
  Draft& first = abort_leads ? cascade : error;
  Draft& second = abort_leads ? error : cascade;
  first.finding.consequences.push_back(std::move(second.finding));
  return std::move(first);
}

// What an error may have followed from, however late it was noticed.
bool explains_errors(Verdict verdict) {
  return verdict == Verdict::rank_dead || verdict == Verdict::abort_cascade ||
         verdict == Verdict::cuda_error;
}

// The earliest hang that the errors may have followed from; null: none.
Draft* cause_of_errors(const Facts& facts, const std::vector<Sighting>& errors, const Draft& lead,
                       std::vector<Draft>& drafts) {
  Draft* cause = nullptr;
  for (Draft& draft : drafts) {
    if (!is_hang(draft) || is_of_errors(facts, draft, errors)) continue;
    const bool is_cause = explains_errors(draft.finding.verdict) || draft.since_ns < lead.since_ns;
    if (is_cause && (!cause || draft.since_ns < cause->since_ns)) cause = &draft;
  }
  return cause;
}

// An error long after a wait began is how NCCL or a watchdog noticed it; one that comes first, or
// at once, is what the wait follows from.
bool is_noticed_late(const Facts& facts, const Draft& cause, const Draft& lead) {
  const Verdict verdict = cause.finding.verdict;
  return lead.since_ns - cause.since_ns >= facts.options.ended_threshold_ns / 4 ||
         explains_errors(verdict) || verdict == Verdict::rank_stopped ||
         verdict == Verdict::async_error;
}

}  // namespace

void judge_errors(const Facts& facts, std::vector<Draft>& drafts) {
  const std::vector<Sighting> errors = first_reports(facts, is_error);
  const std::vector<Sighting> aborts = first_reports(facts, std::mem_fn(&Event::is_abort));
  if (std::none_of(drafts.begin(), drafts.end(), is_hang)) add_silent_deaths(facts, drafts);
  if (errors.empty()) return judge_aborts(facts, aborts, drafts);
  Draft lead = draft_errors(facts, errors, aborts);
  Draft* const cause = cause_of_errors(facts, errors, lead, drafts);
  if (cause != nullptr && is_noticed_late(facts, *cause, lead)) {
    cause->finding.consequences.push_back(std::move(lead.finding));
    return;
  }
  const auto hangs = std::stable_partition(drafts.begin(), drafts.end(),
                                           [](const Draft& draft) { return !is_hang(draft); });
  for (auto hang = hangs; hang != drafts.end(); ++hang) {
    lead.finding.consequences.push_back(std::move(hang->finding));
  }
  drafts.erase(hangs, drafts.end());
  drafts.push_back(std::move(lead));
}

}  // namespace rollcall::analysis
