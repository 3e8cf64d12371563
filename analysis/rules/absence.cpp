#include "analysis/rules/absence.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/slips/own_past.h"

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Event;
using trace::Op;
using trace::OpState;
using trace::Process;

// Between two calls of a rank that waits for nobody lies less, as a rule.
constexpr int64_t kStandsNs = 10'000'000;

// The process failed a call because CUDA had failed before: nothing it called later came about.
bool has_cuda_error(const Process& process) {
  for (const Event& event : process.events) {
    if (event.kind == EventKind::CallFailed && event.result == kResultUnhandledCudaError)
      return true;
  }
  return std::any_of(process.ops.begin(), process.ops.end(),
                     [](const Op& op) { return op.result == kResultUnhandledCudaError; });
}

// The process made the call, and NCCL refused it.
bool is_refused(const Facts& facts, uint32_t p, const Node& waited) {
  if (waited.kind != NodeKind::collective) return false;
  for (const Member& member : facts.group(waited.group).members) {
    if (member.process != p || !member.lane.has(waited.seq)) continue;
    return facts.index.op_at(member, waited.seq).state == OpState::failed;
  }
  return false;
}

// The call of a member at a collective's position; null where no record of it is on file.
const Op* call_at(const Facts& facts, uint32_t p, const Node& waited) {
  for (const Member& member : facts.group(waited.group).members) {
    if (member.process != p || !member.lane.has(waited.seq)) continue;
    return &facts.index.op_at(member, waited.seq);
  }
  return nullptr;
}

// Is `left_out`, from the rank's own steps before, what the others wait for?
bool is_awaited(const Facts& facts, uint32_t p, const Op& left_out, const Node& waited) {
  if (facts.index.seat(p, left_out.comm).group != waited.group) return false;
  if (waited.kind == NodeKind::collective) {
    const Signature usual = usual_signature(facts.sizes, p, left_out);
    const auto agrees = [&](uint32_t caller) {
      const Op* call = call_at(facts, caller, waited);
      return call && agree(usual_signature(facts.sizes, caller, *call), usual);
    };
    return std::any_of(waited.callers.begin(), waited.callers.end(), agrees);
  }
  if (waited.kind != NodeKind::p2p || is_collective(left_out.kind)) return false;
  const Op& call = facts.index.op(waited.process, waited.op);
  const Seat seat = facts.index.seat(waited.process, call.comm);
  return is_source(left_out.kind) != is_source(call.kind) &&
         is_rma(left_out.kind) == is_rma(call.kind) &&
         left_out.root_or_peer == facts.group(seat.group).members[seat.member].rank;
}

// A send or receive that a silent rank owes is a missing call; one that a rank passed by is
// unmatched.
Absence judge_silence(const Facts& facts, uint32_t p, const Node& waited) {
  const ProcessState& state = facts.job.processes[p];
  if (waited.kind != NodeKind::p2p) return {Verdict::missing_call, Confidence::certain};
  // That the other side made one too many would look the same.
  const bool went_on = state.last_call_ns > waited.since_ns || state.ended_itself ||
                       state.last_op == kNoRecord || (facts.job.is_foreign && waited.since_ns == 0);
  // It may have passed the transfer by before the other side began to wait.
  const std::optional<HabitBreak> habit = went_on ? std::nullopt : habit_break(facts, p);
  if (habit && habit->alignment.slip == Slip::missing &&
      !is_collective(facts.index.op(p, habit->precedent).kind)) {
    return {Verdict::p2p_unmatched, Confidence::likely};
  }
  return {went_on ? Verdict::p2p_unmatched : Verdict::missing_call, Confidence::likely};
}

// Of all processes: which two were the first to begin an abort, and when. One of any two is not the
// process that is asked about.
struct FirstAborts {
  using Abort = std::pair<int64_t, uint32_t>;
  std::optional<std::vector<Abort>> known;
};

const std::vector<FirstAborts::Abort>& first_aborts(const Facts& facts) {
  std::optional<std::vector<FirstAborts::Abort>>& known = facts.memo.notes<FirstAborts>().known;
  if (known) return *known;
  known.emplace();
  for (const uint32_t p : facts.index.active()) {
    int64_t first_ns = INT64_MAX;
    for (const Event& event : facts.process(p).events) {
      if (event.kind == EventKind::CommAbort) first_ns = std::min(first_ns, event.called_ns);
    }
    if (first_ns != INT64_MAX) known->emplace_back(first_ns, p);
  }
  std::sort(known->begin(), known->end());
  if (known->size() > 2) known->resize(2);
  return *known;
}

// That a rank aborted is why others wait: nothing where it is not.
std::optional<Absence> judge_abort(const Facts& facts, uint32_t p, const Node& waited) {
  const ProcessState& state = facts.job.processes[p];
  const Comm* comm = waited.kind == NodeKind::creation ? nullptr : comm_of(facts, p, waited.group);
  const bool is_over =
      comm && (comm->state == CommState::aborted || comm->state == CommState::revoked);
  // An abort long after the others began to wait is how somebody ended the hang, not its cause.
  if (!is_over || comm->ended_ns - waited.since_ns >= facts.options.ended_threshold_ns) return {};
  const int64_t last_ns =
      state.last_op == kNoRecord ? 0 : facts.process(p).ops[state.last_op].called_ns;
  const bool stood = comm->ended_ns - last_ns > kStandsNs;
  if (!stood) return Absence{Verdict::abort_cascade, Confidence::certain};
  // Who stood still may have followed one that left no file, or one that is known to be earlier.
  if (facts.unheard.may_wait_for_unknown(p))
    return Absence{Verdict::insufficient, Confidence::open};
  const bool is_first =
      comm->ended_ns - facts.job.first_abort_ns <= kStandsNs + facts.job.clock_doubt_ns;
  if (!is_first) return {};
  return Absence{Verdict::abort_cascade, Confidence::certain};
}

// It made the call in vain, or could not make it.
std::optional<Absence> judge_failure(const Facts& facts, uint32_t p, const Node& waited) {
  if (has_cuda_error(facts.process(p))) return Absence{Verdict::cuda_error, Confidence::certain};
  if (is_refused(facts, p, waited)) return Absence{Verdict::async_error, Confidence::certain};
  return {};
}

// Nothing of a process that runs, or ended as it should.
std::optional<Absence> judge_end(const Facts& facts, uint32_t p, const Node& waited) {
  const ProcessState& state = facts.job.processes[p];
  if (state.stopped) return Absence{Verdict::rank_stopped, Confidence::certain};
  const Comm* comm = waited.kind == NodeKind::creation ? nullptr : comm_of(facts, p, waited.group);
  if (!state.gone || (state.ended_itself && is_ended(comm))) return {};
  const bool is_seen = facts.job.live || state.ended_itself;
  return Absence{Verdict::rank_dead, is_seen ? Confidence::certain : Confidence::likely};
}

Absence judge_absence_from_creation(const Facts& facts, const Node& waited) {
  const bool is_guess = facts.graph.creations()[waited.creation].is_guess;
  return {verdict_of_creation(facts, waited), is_guess ? Confidence::likely : Confidence::certain};
}

// In another call, and not in one that ends a communicator.
bool is_stuck_inside(const Facts& facts, uint32_t p) {
  const ProcessState& state = facts.job.processes[p];
  const bool inside_event = state.inside_event != kNoRecord &&
                            !is_teardown(facts.process(p).events[state.inside_event].kind);
  return (inside_event || state.inside_op != kNoRecord) &&
         facts.job.is_stale(state.inside_since_ns);
}

// Of one that may wait for a rank whose records are not on file.
Absence judge_doubtful(const Facts& facts, uint32_t p, const Node& waited) {
  // Whom it waits for now does not matter where it is on file that it passed the call by.
  const bool is_pair = waited.kind == NodeKind::p2p;
  const Verdict passed_by = is_pair ? Verdict::p2p_unmatched : Verdict::missing_call;
  if (has_passed_by(facts, p, waited)) return {passed_by, Confidence::likely};
  return {Verdict::insufficient, Confidence::open};
}

}  // namespace

Absence judge_absence(const Facts& facts, uint32_t p, const Node& waited) {
  for (const auto judge : {judge_abort, judge_failure, judge_end}) {
    if (const std::optional<Absence> absence = judge(facts, p, waited)) return *absence;
  }
  if (facts.job.processes[p].uncounted != 0) return {Verdict::insufficient, Confidence::open};
  if (waited.kind == NodeKind::creation) return judge_absence_from_creation(facts, waited);
  if (is_stuck_inside(facts, p)) return {Verdict::stuck_in_call, Confidence::certain};
  if (facts.unheard.may_wait_for_unknown(p)) return judge_doubtful(facts, p, waited);
  return judge_silence(facts, p, waited);
}

bool follows_an_abort(const Facts& facts, uint32_t p, const Node& waited) {
  const Comm* comm = waited.kind == NodeKind::creation ? nullptr : comm_of(facts, p, waited.group);
  if (comm == nullptr || comm->state != CommState::aborted) return false;
  const auto is_told = [](const trace::Event& event) {
    return (event.kind == EventKind::AsyncError || event.kind == EventKind::CallFailed) &&
           result_of(event) == kResultRemoteError;
  };
  const std::vector<trace::Event>& events = facts.process(p).events;
  const auto told = std::find_if(events.begin(), events.end(), is_told);
  if (told == events.end() || told->called_ns > comm->ended_ns) return false;
  const std::vector<FirstAborts::Abort>& aborts = first_aborts(facts);
  return std::any_of(aborts.begin(), aborts.end(), [&](const FirstAborts::Abort& abort) {
    return abort.second != p && abort.first <= told->called_ns + facts.job.clock_doubt_ns;
  });
}

bool has_passed_by(const Facts& facts, uint32_t p, const Node& waited) {
  const std::optional<HabitBreak> habit = habit_break(facts, p);
  return habit && habit->alignment.slip == Slip::missing && habit->alignment.contradicted == 0 &&
         is_awaited(facts, p, facts.index.op(p, habit->precedent), waited);
}

bool is_ended(const trace::Comm* comm) {
  return comm && (comm->state == CommState::destroyed || comm->state == CommState::finalized);
}

}  // namespace rollcall::analysis
