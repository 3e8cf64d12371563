#include "analysis/rules/gpu_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "analysis/gpu/captured.h"
#include "analysis/words/label.h"
#include "analysis/words/replays.h"

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::Process;

// Without arguments: of a call among several.
std::string short_place_text(const Facts& facts, uint32_t p, const Op& op) {
  if (op.kind == OpKind::GraphLaunch) return place_text(facts, p, op);
  return fmt::format("{} {} of {}", rollcall::name_of(op.kind), op.seq,
                     comm_text(facts.index, p, op));
}

void add_culprit(const Facts& facts, uint32_t p, const Op& op, Finding& finding) {
  if (op.kind == OpKind::GraphLaunch) {
    const uint32_t first = first_captured(facts.process(p), op.graph);
    if (first != kNoRecord) return add_culprit(facts, p, facts.index.op(p, first), finding);
    finding.culprits.push_back(culprit_of(facts, p, kNone));
    return;
  }
  Culprit culprit = culprit_of(facts, p, facts.index.seat(p, op.comm).group);
  (is_collective(op.kind) ? culprit.seq : culprit.p2p_seq) = op.seq;
  if (!is_collective(op.kind)) culprit.peer = op.root_or_peer;
  culprit.op = std::string(rollcall::name_of(op.kind));
  finding.culprits.push_back(std::move(culprit));
}

std::string state_text(const Facts& facts, const GpuRecord& record, uint32_t p, uint32_t i) {
  if (record.has_finished(p, i)) return "finished on the GPU";
  if (record.has_started(p, i)) {
    const Op& op = facts.index.op(p, i);
    std::string text =
        op.started_ns == 0
            ? "on the GPU"
            : fmt::format("on the GPU since {}", span_text(facts.job.end_ns - op.started_ns));
    const std::string replay =
        op.kind == OpKind::GraphLaunch ? replay_text(facts, p, op.graph) : std::string();
    return replay.empty() ? text : fmt::format("{}, {}", text, replay);
  }
  return record.is_timed(p, i) ? "not reached by its stream" : "not watched on the GPU";
}

bool shares_one_queue(const Process& process) {
  const auto found = process.meta.find("env.CUDA_DEVICE_MAX_CONNECTIONS");
  return found != process.meta.end() && found->second == "1";
}

// "on rank 1 AllReduce 5 of tp came before Reduce 4 of world", for a process on which it is so.
std::string rival_text(const Facts& facts, const GpuCall& first, const GpuCall& second) {
  std::map<uint32_t, uint32_t> op_of;
  for (const auto& [p, i] : first.peers.ranks) op_of[p] = i;
  for (const auto& [p, i] : second.peers.ranks) {
    const auto found = op_of.find(p);
    if (found == op_of.end()) continue;
    const Op& earlier = facts.index.op(p, found->second);
    const Op& later = facts.index.op(p, i);
    const bool came_before =
        later.started_ns == 0 ? later.awaits_gpu : earlier.started_ns < later.started_ns;
    if (earlier.started_ns == 0 || !came_before) continue;
    return fmt::format("on {} {} came before {}", processes_text(facts.index.run(), {p}),
                       short_place_text(facts, p, earlier), short_place_text(facts, p, later));
  }
  return "";
}

void tell_of_rivals(const Facts& facts, const std::vector<GpuCall>& calls, const CallCircle& circle,
                    Finding& finding) {
  constexpr size_t kToldMax = 4;
  std::vector<std::string> parts;
  for (size_t i = 0; i < circle.size() && parts.size() < kToldMax; ++i) {
    const size_t next = circle[(i + 1) % circle.size()];
    parts.push_back(rival_text(facts, calls[next], calls[circle[i]]));
  }
  finding.confidence = Confidence::likely;
  finding.summary += fmt::format("; but GPUs came to {} calls in different orders: {}",
                                 circle.size(), fmt::join(parts, "; "));
  finding.next =
      "kernels of several streams need not run beside each other: where a GPU has no room for "
      "both, "
      "these wait for each other; let one call wait for the other (an event, or one stream for "
      "both), in one order on all ranks. If that is not it, the transport is: " +
      finding.next;
}

void suspect_transport(Finding& finding) {
  finding.next = "every rank's stream has come to the kernel, so the transport is the suspect: " +
                 finding.next;
}

// Of the GPUs that run one of these calls those whose host had called another of them before.
std::vector<uint32_t> out_of_call_order(const Facts& facts, const GpuState& state,
                                        const std::vector<uint32_t>& hosts) {
  std::vector<uint32_t> found;
  for (const std::span<const Front> fronts : by_process(state)) {
    const uint32_t p = fronts.front().process;
    if (!std::binary_search(hosts.begin(), hosts.end(), p)) continue;
    int64_t begun_ns = INT64_MAX;
    int64_t waiting_ns = INT64_MAX;
    for (const Front& front : fronts) {
      int64_t& earliest = front.started ? begun_ns : waiting_ns;
      earliest = std::min(earliest, facts.index.op(p, front.op).called_ns);
    }
    if (waiting_ns < begun_ns) found.push_back(p);
  }
  return found;
}

// A call, or a replay of which nobody knows how far it has come.
std::string tell_stuck(const GpuView& gpu, const GpuCall& call, Finding& finding) {
  const Facts& facts = gpu.facts;
  const Op& op = facts.index.op(call.front.process, call.front.op);
  std::vector<uint32_t> unfinished;
  std::vector<uint32_t> finished;
  for (const OpRef& rank : call.peers.ranks) {
    const bool is_through = gpu.record.has_finished(rank.process, rank.op);
    (is_through ? finished : unfinished).push_back(rank.process);
    add_evidence(facts, rank, state_text(facts, gpu.record, rank.process, rank.op), finding);
    if (!is_through)
      add_culprit(facts, rank.process, facts.index.op(rank.process, rank.op), finding);
  }
  return fmt::format(
      "{} started {} on the GPU and {} not finished it for {}; {}",
      processes_text(facts.index.run(), unfinished), place_text(facts, call.front.process, op),
      unfinished.size() == 1 ? "has" : "have", span_text(facts.job.end_ns - started_at(op)),
      finished.empty()
          ? "no rank has finished it"
          : fmt::format("{} finished it", processes_text(facts.index.run(), finished)));
}

// The operation of a replay that all of its ranks are in.
std::string tell_stuck_inside(const GpuView& gpu, const GpuCall& call, const InsideReplay& inside,
                              Finding& finding) {
  const Facts& facts = gpu.facts;
  const Op& launch = facts.index.op(call.front.process, call.front.op);
  std::vector<uint32_t> processes;
  for (const OpRef& rank : inside.ops) {
    processes.push_back(rank.process);
    add_culprit(facts, rank.process, facts.index.op(rank.process, rank.op), finding);
  }
  for (const OpRef& rank : inside.launches) {
    if (rank.op == kNoRecord) continue;
    add_evidence(facts, rank, state_text(facts, gpu.record, rank.process, rank.op), finding);
  }
  std::vector<uint32_t> past = inside.past;
  std::sort(past.begin(), past.end());
  past.erase(std::unique(past.begin(), past.end()), past.end());
  const auto [p, i] = inside.ops.front();
  return fmt::format(
      "{} {} inside {}, in a replay of a CUDA graph that began {} ago, and {}",
      processes_text(facts.index.run(), processes), processes.size() == 1 ? "is" : "are",
      place_text(facts, p, facts.index.op(p, i)), span_text(facts.job.end_ns - started_at(launch)),
      past.empty() ? "no rank has finished it"
                   : fmt::format("{} finished it", processes_text(facts.index.run(), past)));
}

}  // namespace

Front oldest_of(const Facts& facts, std::span<const Front> fronts) {
  const auto called_ns = [&](const Front& f) { return facts.index.op(f.process, f.op).called_ns; };
  return *std::min_element(fronts.begin(), fronts.end(), [&](const Front& a, const Front& b) {
    return called_ns(a) < called_ns(b);
  });
}

bool waits_long(const Facts& facts, const Front& front) {
  const int64_t before_ns =
      front.finished == kNoRecord ? 0 : facts.index.op(front.process, front.finished).finished_ns;
  const int64_t called_ns = facts.index.op(front.process, front.op).called_ns;
  return facts.job.is_stale(std::max(called_ns, before_ns));
}

InsideReplay place_of_replay(const Facts& facts, const GpuCall& call) {
  InsideReplay first = inside_replay(facts, call.front.process, call.front.op);
  if (!first.is_known || !first.ops.empty()) return first;
  std::set<PlaceKey> asked;
  for (const auto& [p, i] : call.peers.ranks) {
    if (is_through(facts.index.op(p, i))) continue;
    for (const ReplayPlace& place : newest_replay(facts, p, facts.index.op(p, i).graph).places) {
      if (!place.is_inside || !asked.insert(place_key(facts, p, i, place)).second) continue;
      InsideReplay inside = inside_replay(facts, p, i);
      if (!inside.ops.empty()) return inside;
    }
  }
  return first;
}

Draft draft_blocked(const GpuView& gpu, const std::vector<Front>& blocked) {
  const Facts& facts = gpu.facts;
  const bool is_sure =
      gpu.state.dark.empty() && std::none_of(blocked.begin(), blocked.end(),
                                             [](const Front& f) { return f.is_behind_untimed; });
  Draft draft =
      make_draft(Verdict::stream_blocked, is_sure ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  std::vector<uint32_t> ranks;
  const Front& first = blocked.front();
  for (const Front& front : blocked) {
    const Op& op = facts.index.op(front.process, front.op);
    ranks.push_back(front.process);
    add_culprit(facts, front.process, op, finding);
    add_evidence(facts, {front.process, front.op},
                 state_text(facts, gpu.record, front.process, front.op), finding);
  }
  for (const OpRef& peer : peers_of(facts, first.process, first.op).ranks) {
    if (finding.evidence.size() == kEvidenceMax) break;
    if (std::binary_search(ranks.begin(), ranks.end(), peer.process)) continue;
    add_evidence(facts, peer, state_text(facts, gpu.record, peer.process, peer.op), finding);
  }
  const Op& op = facts.index.op(first.process, first.op);
  const std::string before =
      first.finished == kNoRecord
          ? "nothing on that stream was seen to finish before"
          : fmt::format(
                "the last to finish on that stream was {}",
                place_text(facts, first.process, facts.index.op(first.process, first.finished)));
  const bool is_launch = op.kind == OpKind::GraphLaunch;
  finding.summary = fmt::format(
      "{} {} {} {} ago{}, but the stream has not reached it: something that is not NCCL's stands "
      "in "
      "front of it ({})",
      processes_text(facts.index.run(), ranks), is_launch ? "launched" : "called",
      place_text(facts, first.process, op), span_text(facts.job.end_ns - op.called_ns),
      is_launch ? "" : " and NCCL returned", before);
  finding.next =
      "look at what that rank put on the stream behind the last finished operation: a kernel, "
      "copy, host function or event wait that does not end";
  if (shares_one_queue(facts.process(first.process))) {
    finding.next += "; with CUDA_DEVICE_MAX_CONNECTIONS=1 that may be on any stream of the GPU";
  }
  draft.since_ns = op.called_ns;
  set_victims(facts, facts.index.active(), finding);
  return draft;
}

Draft draft_stuck(const GpuView& gpu, const GpuCall& call, const CallCircle& rivals) {
  const Facts& facts = gpu.facts;
  const Op& op = facts.index.op(call.front.process, call.front.op);
  Draft draft = make_draft(Verdict::stuck_on_gpu,
                           gpu.state.dark.empty() ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  const InsideReplay inside =
      op.kind == OpKind::GraphLaunch ? place_of_replay(facts, call) : InsideReplay{};
  finding.summary = inside.ops.empty() ? tell_stuck(gpu, call, finding)
                                       : tell_stuck_inside(gpu, call, inside, finding);
  finding.next =
      "links, NICs, a peer's GPU (Xid, NVLink and IB error counters), NCCL_DEBUG=WARN output of "
      "the "
      "named ranks";
  draft.since_ns = started_at(op);
  if (rivals.empty()) {
    suspect_transport(finding);
  } else {
    tell_of_rivals(facts, gpu.calls(), rivals, finding);
  }
  set_victims(facts, facts.index.active(), finding);
  return draft;
}

// The records by which ranks came to it: of one inside a replay its launch, of one that makes the
// call without a graph the call.
std::vector<OpRef> ranks_in(const Facts& facts, const GpuCall& call) {
  const Op& op = facts.index.op(call.front.process, call.front.op);
  const InsideReplay inside =
      op.kind == OpKind::GraphLaunch ? place_of_replay(facts, call) : InsideReplay{};
  if (inside.ops.empty()) return call.peers.ranks;
  std::vector<OpRef> ranks;
  for (size_t i = 0; i < inside.ops.size(); ++i) {
    ranks.push_back(inside.launches[i].op != kNoRecord ? inside.launches[i] : inside.ops[i]);
  }
  return ranks;
}

Draft draft_young(const GpuView& gpu, const GpuCall& call) {
  const Facts& facts = gpu.facts;
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  Finding& finding = draft.finding;
  const std::vector<OpRef> ranks = ranks_in(facts, call);
  const auto began_ns = [&](const OpRef& rank) {
    return started_at(facts.index.op(rank.process, rank.op));
  };
  const auto earlier = [&](const OpRef& a, const OpRef& b) { return began_ns(a) < began_ns(b); };
  const auto [first, last] = std::minmax_element(ranks.begin(), ranks.end(), earlier);
  std::vector<uint32_t> late;
  for (const OpRef& rank : ranks) {
    if (began_ns(rank) != began_ns(*last)) continue;
    late.push_back(rank.process);
    add_evidence(facts, rank, state_text(facts, gpu.record, rank.process, rank.op), finding);
  }
  draft.since_ns = began_ns(*first);
  finding.summary =
      fmt::format("{} came to {} only {} ago, others have been in it for {}: it may still go on",
                  processes_text(facts.index.run(), late),
                  place_text(facts, first->process, facts.index.op(first->process, first->op)),
                  span_text(facts.job.end_ns - began_ns(*last)),
                  span_text(facts.job.end_ns - began_ns(*first)));
  finding.next =
      "ask again in a moment; what the others waited for is what ran on the stream of these ranks "
      "before";
  return draft;
}

std::optional<Draft> draft_crossed(const GpuView& gpu) {
  const Facts& facts = gpu.facts;
  if (gpu.crossed().empty()) return std::nullopt;
  std::vector<GpuCall> circle;
  for (const size_t i : gpu.crossed()) circle.push_back(gpu.calls()[i]);
  const bool pairs = std::all_of(circle.begin(), circle.end(), [&](const GpuCall& call) {
    return is_p2p(facts.index.op(call.front.process, call.front.op).kind);
  });
  Draft draft = make_draft(pairs ? Verdict::deadlock_p2p : Verdict::deadlock_comms,
                           gpu.state.dark.empty() ? Confidence::certain : Confidence::likely,
                           Misstep::reordered);
  Finding& finding = draft.finding;
  std::vector<uint32_t> hosts;
  std::unordered_map<uint32_t, const Op*> runs;
  std::vector<std::string> parts;
  draft.since_ns = INT64_MAX;
  for (const GpuCall& call : circle) {
    const Front& front = call.front;
    const Op& op = facts.index.op(front.process, front.op);
    hosts.insert(hosts.end(), call.running.begin(), call.running.end());
    for (const uint32_t p : call.running) runs.emplace(p, &op);
    draft.since_ns = std::min(draft.since_ns, op.called_ns);
    parts.push_back(fmt::format(
        "{} {} {}, which the {} of {} not come to", processes_text(facts.index.run(), call.running),
        call.running.size() == 1 ? "runs" : "run", place_text(facts, front.process, op),
        call.behind.size() == 1 ? "GPU" : "GPUs",
        fmt::format("{} {}", processes_text(facts.index.run(), call.behind),
                    call.behind.size() == 1 ? "has" : "have")));
    add_evidence(facts, {front.process, front.op},
                 state_text(facts, gpu.record, front.process, front.op), finding);
  }
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  // Where each GPU keeps to its host's order the hosts' differ, and their calls tell more.
  const std::vector<uint32_t> odd = out_of_call_order(facts, gpu.state, hosts);
  if (odd.empty()) return std::nullopt;
  draft.is_decided = odd.size() < hosts.size();
  for (const uint32_t p : draft.is_decided ? odd : hosts)
    add_culprit(facts, p, *runs.at(p), finding);
  finding.summary = fmt::format(
      "the GPUs of {} wait for each other: {}{}", processes_text(facts.index.run(), hosts),
      fmt::join(parts, "; "),
      draft.is_decided ? fmt::format("; on {} that is not the order of the host's calls",
                                     processes_text(facts.index.run(), odd))
                       : "");
  finding.next =
      "nothing makes kernels of several streams run beside each other: let each of these calls "
      "wait for the one before it (an event, or one stream for both), in one order on all ranks";
  if (shares_one_queue(facts.process(finding.culprits.front().process))) {
    finding.next += "; with CUDA_DEVICE_MAX_CONNECTIONS=1 all streams of a GPU share one queue";
  }
  set_victims(facts, facts.index.active(), finding);
  return draft;
}

}  // namespace rollcall::analysis
