// All ranks made the same calls, and nothing moves: what did the GPUs do with the calls?
//
// Looked at is the front of each stream (gpu/fronts.h). A stream whose front has not started is
// blocked by something in front of it that is not NCCL's; a front that has started runs, or waits
// in its kernel for a peer. A rank that has both may be blocked as a consequence (its stream waits
// for the other one), so the cause is sought among the ranks whose every front is blocked. An
// operation that every member has started and not every member has finished is stuck on the GPU
// itself. Where every GPU runs something and is blocked in something, they have come to the calls
// of several communicators in different orders, and each kernel waits for a peer whose GPU runs
// another one: streams promise no kernel that it runs beside those of other streams.
//
// "Started" is the word of an event in front of the kernel: the stream has come to it. Whether the
// kernel found room on the GPU beside those that run there nobody tells. So where GPUs came to
// calls that they have all started in different orders, that may be a circle, too.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "analysis/rules/gpu_findings.h"
#include "analysis/rules/rules.h"
#include "analysis/rules/unread_replays.h"
#include "analysis/words/gaps.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

std::vector<Front> silent_fronts(const Facts& facts, const GpuState& state) {
  std::vector<Front> silent;
  for (const std::span<const Front> fronts : by_process(state)) {
    if (runs_any(fronts)) continue;
    const Front oldest = oldest_of(facts, fronts);
    if (waits_long(facts, oldest)) silent.push_back(oldest);
  }
  return silent;
}

// Of a replay that all ranks have begun: they are not inside the same call of it.
bool is_elsewhere(const Facts& facts, const GpuCall& call) {
  if (facts.index.op(call.front.process, call.front.op).kind != OpKind::GraphLaunch) return false;
  const InsideReplay inside = place_of_replay(facts, call);
  return inside.is_known && inside.ops.empty();
}

// The call that leads: of those that all ranks began long enough ago the one that was begun first;
// of a circle, if there is one.
const GpuCall* first_begun(const GpuView& gpu, const CallCircle& circle) {
  const Facts& facts = gpu.facts;
  const GpuCall* first = nullptr;
  const auto since = [&](const GpuCall& call) {
    return started_at(facts.index.op(call.front.process, call.front.op));
  };
  for (size_t i = 0; i < gpu.calls().size(); ++i) {
    const GpuCall& call = gpu.calls()[i];
    const bool counts =
        circle.empty() || std::find(circle.begin(), circle.end(), i) != circle.end();
    if (!call.is_everywhere() || call.is_held || !counts || is_elsewhere(facts, call)) continue;
    if (!facts.job.is_stale(call.last_begun_ns)) continue;
    if (first == nullptr || since(call) < since(*first)) first = &call;
  }
  return first;
}

// Of those that have waited for long the last rank came along a moment ago.
const GpuCall* first_young(const GpuView& gpu) {
  const Facts& facts = gpu.facts;
  const auto found = std::find_if(gpu.calls().begin(), gpu.calls().end(), [&](const GpuCall& call) {
    const trace::Op& first = facts.index.op(call.front.process, call.front.op);
    return call.is_young(facts) && facts.job.is_stale(started_at(first)) &&
           !is_elsewhere(facts, call);
  });
  return found == gpu.calls().end() ? nullptr : &*found;
}

std::optional<Draft> judge_running(const GpuView& gpu) {
  if (const GpuCall* call = first_begun(gpu, gpu.rivals())) {
    return draft_stuck(gpu, *call, gpu.rivals());
  }
  if (const GpuCall* call = first_begun(gpu, {})) return draft_stuck(gpu, *call, {});
  return std::nullopt;
}

// A rank left no file, or not of its newest call.
bool lacks_records(const Facts& facts) {
  const std::vector<Group>& groups = facts.index.groups();
  const std::vector<uint32_t>& active = facts.index.active();
  return std::any_of(groups.begin(), groups.end(),
                     [](const Group& group) { return group.has_strangers(); }) ||
         std::any_of(active.begin(), active.end(),
                     [&](uint32_t p) { return facts.process(p).torn != 0; });
}

// The GPU was not watched at the newest call of a stream (the budget leaves calls out), but another
// rank's is through with it, and so this one has come to it and given its part: where there is no
// root, no rank is through before all have given theirs.
bool is_through_elsewhere(const GpuView& gpu, const OpRef& call) {
  const Facts& facts = gpu.facts;
  if (call.op == kNoRecord) return false;
  const trace::Op& op = facts.index.op(call.process, call.op);
  const uint32_t g = facts.index.seat(call.process, op.comm).group;
  if (g == kNone || !is_collective(op.kind) || traits_of(op.kind).rooted) return false;
  const std::vector<Member>& members = facts.group(g).members;
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return member.lane.has(op.seq) &&
           gpu.record.has_finished(member.process, member.lane.at(op.seq));
  });
}

std::optional<Draft> judge_outside(const GpuView& gpu) {
  const Facts& facts = gpu.facts;
  const GpuState& state = gpu.state;
  if (!state.fronts.empty() || state.is_inside || lacks_records(facts)) return std::nullopt;
  const bool are_through =
      std::all_of(state.dark_ops.begin(), state.dark_ops.end(),
                  [&](const OpRef& call) { return is_through_elsewhere(gpu, call); });
  if (!are_through) return std::nullopt;
  Draft draft = make_draft(Verdict::stuck_outside, Confidence::likely);
  Finding& finding = draft.finding;
  finding.summary = fmt::format(
      "{} made the same calls and their GPUs finished every one of them; the job has "
      "not called NCCL for {} and waits elsewhere",
      all_text(facts.index), span_text(facts.job.end_ns - facts.job.last_call_ns));
  if (!state.dark_ops.empty()) {
    finding.summary +=
        "; where that was not seen, it follows from another rank's, which needed the part of all";
  }
  std::vector<uint32_t> ended;
  std::vector<uint32_t> staying;
  for (const uint32_t p : facts.index.active()) {
    (facts.job.processes[p].ended_itself ? ended : staying).push_back(p);
  }
  if (!ended.empty()) {
    for (const uint32_t p : staying) finding.culprits.push_back(culprit_of(facts, p, kNone));
    finding.summary += fmt::format(
        "; {} ended by {}, {} did not", processes_text(facts.index.run(), ended),
        ended.size() == 1 ? "itself" : "themselves", processes_text(facts.index.run(), staying));
  }
  finding.next =
      "look at the stacks of the ranks: data loading, a checkpoint, a store or file barrier, a "
      "lock; NCCL is not what they wait for";
  for (const uint32_t p : facts.index.active()) {
    if (finding.evidence.size() == kEvidenceMax) break;
    finding.evidence.push_back(process_evidence(facts, p));
  }
  draft.since_ns = facts.job.last_call_ns;
  // A running job that is busy with something else, a checkpoint say, looks like this too: nobody
  // should end it for that.
  if (facts.job.live) finding.severity = Severity::risk;
  return draft;
}

}  // namespace

std::optional<Draft> judge_gpu(const Facts& facts) {
  const GpuView gpu(facts);
  if (!gpu.state.is_watched) return std::nullopt;
  const std::vector<Front> blocked = silent_fronts(facts, gpu.state);
  if (!blocked.empty()) return draft_blocked(gpu, blocked);
  if (auto stuck = judge_running(gpu)) return stuck;
  if (auto crossed = draft_crossed(gpu)) return crossed;
  if (const GpuCall* call = first_young(gpu)) return draft_young(gpu, *call);
  const std::vector<OpRef> unread = find_unread_replays(facts);
  if (!unread.empty()) return draft_unread_replays(facts, unread);
  return judge_outside(gpu);
}

}  // namespace rollcall::analysis
