// All ranks made the same calls, and nothing moves: what did the GPUs do with the calls? And of
// ranks that called nothing more than others did: do their hosts wait for their GPUs, and these for
// whom?
//
// Looked at is the front of each stream (gpu_state.h). A stream whose front has not started is
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
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "analysis/captured.h"
#include "analysis/gpu_state.h"
#include "analysis/judge.h"
#include "analysis/label.h"
#include "analysis/replay_waits.h"

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::Process;

// Without arguments: of a call among several.
std::string short_place_text(const Case& c, uint32_t p, const Op& op) {
  if (op.kind == OpKind::GraphLaunch) return place_text(c, p, op);
  return fmt::format("{} {} of {}", rollcall::name_of(op.kind), op.seq, comm_text(c, p, op));
}

void add_culprit(const Case& c, uint32_t p, const Op& op, Finding& finding) {
  if (op.kind == OpKind::GraphLaunch) {
    const uint32_t first = first_captured(c.process(p), op.graph);
    if (first != kNoRecord) return add_culprit(c, p, c.index.op(p, first), finding);
    finding.culprits.push_back(culprit_of(c, p, kNone));
    return;
  }
  Culprit culprit = culprit_of(c, p, c.index.seat(p, op.comm).group);
  (is_collective(op.kind) ? culprit.seq : culprit.p2p_seq) = op.seq;
  if (!is_collective(op.kind)) culprit.peer = op.root_or_peer;
  culprit.op = std::string(rollcall::name_of(op.kind));
  finding.culprits.push_back(std::move(culprit));
}

std::string state_text(const Case& c, const GpuFacts& facts, uint32_t p, uint32_t i) {
  if (facts.has_finished(p, i)) return "finished on the GPU";
  if (facts.has_started(p, i)) {
    const Op& op = c.index.op(p, i);
    std::string text = op.started_ns == 0 ? "on the GPU"
                                          : fmt::format("on the GPU since {}",
                                                        span_text(c.job.end_ns - op.started_ns));
    const std::string replay =
        op.kind == OpKind::GraphLaunch ? replay_text(c, p, op.graph) : std::string();
    return replay.empty() ? text : fmt::format("{}, {}", text, replay);
  }
  return facts.is_timed(p, i) ? "not reached by its stream" : "not watched on the GPU";
}

bool shares_one_queue(const Process& process) {
  const auto found = process.meta.find("env.CUDA_DEVICE_MAX_CONNECTIONS");
  return found != process.meta.end() && found->second == "1";
}

// The one with the oldest call.
Front oldest_of(const Case& c, std::span<const Front> fronts) {
  const auto called_ns = [&](const Front& f) { return c.index.op(f.process, f.op).called_ns; };
  return *std::min_element(fronts.begin(), fronts.end(), [&](const Front& a, const Front& b) {
    return called_ns(a) < called_ns(b);
  });
}

// Neither called nor at the front of its stream for less than that.
bool waits_long(const Case& c, const Front& front) {
  const int64_t before_ns =
      front.finished == kNoRecord ? 0 : c.index.op(front.process, front.finished).finished_ns;
  const int64_t called_ns = c.index.op(front.process, front.op).called_ns;
  return c.job.is_stale(std::max(called_ns, before_ns));
}

std::vector<Front> silent_fronts(const Case& c, const GpuState& state) {
  std::vector<Front> silent;
  for (const std::span<const Front> fronts : by_process(state)) {
    if (runs_any(fronts)) continue;
    const Front oldest = oldest_of(c, fronts);
    if (waits_long(c, oldest)) silent.push_back(oldest);
  }
  return silent;
}

// Of ranks on which nothing else runs, the first leads.
Draft draft_blocked(const Case& c, const GpuFacts& facts, const GpuState& state,
                    const std::vector<Front>& blocked) {
  const bool is_sure =
      state.dark.empty() && std::none_of(blocked.begin(), blocked.end(),
                                         [](const Front& f) { return f.is_behind_untimed; });
  Draft draft =
      make_draft(Verdict::stream_blocked, is_sure ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  std::vector<uint32_t> ranks;
  const Front& first = blocked.front();
  for (const Front& front : blocked) {
    const Op& op = c.index.op(front.process, front.op);
    ranks.push_back(front.process);
    add_culprit(c, front.process, op, finding);
    add_evidence(c, {front.process, front.op}, state_text(c, facts, front.process, front.op),
                 finding);
  }
  for (const Blocked& peer : peers_of(c, first.process, first.op).ranks) {
    if (finding.evidence.size() == kEvidenceMax) break;
    if (std::binary_search(ranks.begin(), ranks.end(), peer.process)) continue;
    add_evidence(c, peer, state_text(c, facts, peer.process, peer.op), finding);
  }
  const Op& op = c.index.op(first.process, first.op);
  const std::string before =
      first.finished == kNoRecord
          ? "nothing on that stream was seen to finish before"
          : fmt::format("the last to finish on that stream was {}",
                        place_text(c, first.process, c.index.op(first.process, first.finished)));
  const bool is_launch = op.kind == OpKind::GraphLaunch;
  finding.summary = fmt::format(
      "{} {} {} {} ago{}, but the stream has not reached it: something that is not NCCL's stands "
      "in "
      "front of it ({})",
      processes_text(c.index.run(), ranks), is_launch ? "launched" : "called",
      place_text(c, first.process, op), span_text(c.job.end_ns - op.called_ns),
      is_launch ? "" : " and NCCL returned", before);
  finding.next =
      "look at what that rank put on the stream behind the last finished operation: a kernel, "
      "copy, host function or event wait that does not end";
  if (shares_one_queue(c.process(first.process))) {
    finding.next += "; with CUDA_DEVICE_MAX_CONNECTIONS=1 that may be on any stream of the GPU";
  }
  draft.since_ns = op.called_ns;
  set_victims(c, c.index.active(), finding);
  return draft;
}

// A call that stands in front of a stream whose GPU has come to it.
struct GpuCall {
  Front front;  // the first to come to it
  Peers peers;
  std::vector<uint32_t> running;  // processes that have begun it and are not through
  std::vector<uint32_t> behind;   // processes that have not come to it: they run something else
  bool has_begun = true;          // on all ranks that are on file
  // On some rank it is of a group's share in which another call is not on all GPUs: only the whole
  // share ends.
  bool is_held = false;
  bool is_disputed = false;  // the ranks called different things there

  bool is_everywhere() const {
    return has_begun && !is_disputed && !peers.is_owed && !peers.has_strangers;
  }
};

// Behind a difference others are due to it.
bool is_disputed(const Case& c, uint32_t p, const Op& op) {
  if (op.kind == OpKind::GraphLaunch) return false;
  const uint32_t group = c.index.seat(p, op.comm).group;
  if (is_collective(op.kind)) {
    return std::any_of(c.differences.begin(), c.differences.end(),
                       [&](const Difference& d) { return d.group == group && d.seq <= op.seq; });
  }
  const uint32_t channel = c.index.channel_of(p, op);
  const std::vector<Progress::PairFinding>& pairs = c.progress.mismatched_pairs();
  return std::any_of(pairs.begin(), pairs.end(), [&](const Progress::PairFinding& pair) {
    return pair.channel == channel && pair.seq <= op.seq;
  });
}

GpuCall call_of(const Case& c, const GpuFacts& facts, const Front& front) {
  GpuCall call;
  call.front = front;
  call.peers = peers_of(c, front.process, front.op);
  call.is_disputed = is_disputed(c, front.process, c.index.op(front.process, front.op));
  for (const auto& [p, i] : call.peers.ranks) {
    const bool has_started = facts.has_started(p, i);
    call.has_begun = call.has_begun && has_started;
    if (!facts.is_awaited(p, i)) continue;
    (has_started ? call.running : call.behind).push_back(p);
    const Op& first = c.index.op(call.front.process, call.front.op);
    if (!has_started || started_at(c.index.op(p, i)) >= started_at(first)) continue;
    call.front.process = p;
    call.front.op = i;
  }
  return call;
}

struct Running {
  std::vector<GpuCall> calls;                          // one of each, in the order of the fronts
  std::map<std::pair<uint32_t, uint32_t>, size_t> of;  // by process and record
};

std::vector<std::span<const Front>> by_stream(const GpuState& state) {
  std::vector<std::span<const Front>> shares;
  for (const std::span<const Front> fronts : by_process(state)) {
    for (size_t begin = 0, end = 0; begin < fronts.size(); begin = end) {
      while (end < fronts.size() && fronts[end].stream == fronts[begin].stream) ++end;
      shares.push_back(fronts.subspan(begin, end - begin));
    }
  }
  return shares;
}

void hold_share(std::span<const Front> share, Running& running) {
  const auto call_at = [&](const Front& front) -> GpuCall* {
    const auto found = running.of.find({front.process, front.op});
    return found == running.of.end() ? nullptr : &running.calls[found->second];
  };
  const auto elsewhere = std::count_if(share.begin(), share.end(), [&](const Front& front) {
    const GpuCall* call = call_at(front);
    return call != nullptr && !call->is_everywhere();
  });
  for (const Front& front : share) {
    GpuCall* call = call_at(front);
    if (call == nullptr) continue;
    call->is_held = call->is_held || elsewhere > (call->is_everywhere() ? 0 : 1);
  }
}

Running find_running(const Case& c, const GpuFacts& facts, const GpuState& state) {
  Running running;
  for (const Front& front : state.fronts) {
    if (!front.started || running.of.count({front.process, front.op}) != 0) continue;
    for (const auto& [p, i] : running.calls.emplace_back(call_of(c, facts, front)).peers.ranks) {
      running.of.emplace(std::pair(p, i), running.calls.size() - 1);
    }
  }
  for (const std::span<const Front> share : by_stream(state)) hold_share(share, running);
  return running;
}

using Waits = std::vector<std::vector<size_t>>;  // of each call: calls
using Circle = std::vector<size_t>;  // each waits for the next one, the last for the first

// Depth first through what each waits for; empty where there is no circle.
class CircleSearch {
 public:
  explicit CircleSearch(Waits waits) : waits_(std::move(waits)), marks_(waits_.size()) {}

  Circle find() {
    for (size_t i = 0; i < waits_.size(); ++i) {
      if (marks_[i] != Mark::fresh) continue;
      if (const size_t at = close_from(i); at != kOpen) {
        return Circle(path_.begin() + static_cast<ptrdiff_t>(at), path_.end());
      }
    }
    return {};
  }

 private:
  enum class Mark : uint8_t { fresh, on_path, done };
  static constexpr size_t kOpen = SIZE_MAX;

  void step_to(size_t i) {
    std::sort(waits_[i].rbegin(), waits_[i].rend());  // taken from the end: the first comes first
    marks_[i] = Mark::on_path;
    path_.push_back(i);
  }

  // Where on the path the circle begins.
  size_t close_from(size_t start) {
    for (step_to(start); !path_.empty();) {
      std::vector<size_t>& waits = waits_[path_.back()];
      if (waits.empty()) {
        marks_[path_.back()] = Mark::done;
        path_.pop_back();
        continue;
      }
      const size_t next = waits.back();
      waits.pop_back();
      if (marks_[next] == Mark::fresh)
        step_to(next);
      else if (marks_[next] == Mark::on_path) {
        return static_cast<size_t>(std::find(path_.begin(), path_.end(), next) - path_.begin());
      }
    }
    return kOpen;
  }

  Waits waits_;
  std::vector<Mark> marks_;
  std::vector<size_t> path_;
};

// What keeps the GPUs busy that have not come to a call.
Waits waits_of(const std::vector<GpuCall>& calls, bool (*counts)(const GpuCall&)) {
  std::unordered_map<uint32_t, std::vector<size_t>> runs;  // by process
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!counts(calls[i])) continue;
    for (const uint32_t p : calls[i].running) runs[p].push_back(i);
  }
  Waits waits(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    for (const uint32_t p : calls[i].behind) {
      const auto busy = runs.find(p);
      if (busy == runs.end()) continue;
      waits[i].insert(waits[i].end(), busy->second.begin(), busy->second.end());
    }
  }
  return waits;
}

// A GPU that has come to two calls may have no room for the second kernel before the first is over.
// Where all GPUs came to them in one order that is no circle.
Circle find_rivals(const Case& c, const GpuState& state, const Running& running) {
  Waits waits = waits_of(running.calls, [](const GpuCall&) { return true; });
  for (const std::span<const Front> fronts : by_process(state)) {
    std::vector<std::pair<int64_t, size_t>> order;
    for (const Front& front : fronts) {
      const auto found = running.of.find({front.process, front.op});
      const int64_t started_ns = c.index.op(front.process, front.op).started_ns;
      if (found != running.of.end() && started_ns != 0) {
        order.emplace_back(started_ns, found->second);
      }
    }
    std::sort(order.begin(), order.end());
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i - 1].first < order[i].first)
        waits[order[i].second].push_back(order[i - 1].second);
    }
  }
  return CircleSearch(std::move(waits)).find();
}

// "on rank 1 AllReduce 5 of tp came before Reduce 4 of world", for a process on which it is so.
std::string rival_text(const Case& c, const GpuCall& first, const GpuCall& second) {
  std::map<uint32_t, uint32_t> op_of;
  for (const auto& [p, i] : first.peers.ranks) op_of[p] = i;
  for (const auto& [p, i] : second.peers.ranks) {
    const auto found = op_of.find(p);
    if (found == op_of.end()) continue;
    const Op& earlier = c.index.op(p, found->second);
    const Op& later = c.index.op(p, i);
    const bool came_before =
        later.started_ns == 0 ? later.awaits_gpu : earlier.started_ns < later.started_ns;
    if (earlier.started_ns == 0 || !came_before) continue;
    return fmt::format("on {} {} came before {}", processes_text(c.index.run(), {p}),
                       short_place_text(c, p, earlier), short_place_text(c, p, later));
  }
  return "";
}

void tell_of_rivals(const Case& c, const Running& running, const Circle& circle, Finding& finding) {
  constexpr size_t kToldMax = 4;
  std::vector<std::string> parts;
  for (size_t i = 0; i < circle.size() && parts.size() < kToldMax; ++i) {
    const size_t next = circle[(i + 1) % circle.size()];
    parts.push_back(rival_text(c, running.calls[next], running.calls[circle[i]]));
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

// Of a replay that all ranks have begun: they are not inside the same call of it.
bool is_elsewhere(const Case& c, const GpuCall& call) {
  if (c.index.op(call.front.process, call.front.op).kind != OpKind::GraphLaunch) return false;
  const InsideReplay inside = inside_replay(c, call.front.process, call.front.op);
  return inside.is_known && !inside.is_inside_on_all;
}

// The call that leads: of those that all ranks have begun the one that was begun first; of a
// circle, if there is one.
const GpuCall* first_begun(const Case& c, const Running& running, const Circle& circle) {
  const GpuCall* first = nullptr;
  const auto since = [&](const GpuCall& call) {
    return started_at(c.index.op(call.front.process, call.front.op));
  };
  for (size_t i = 0; i < running.calls.size(); ++i) {
    const GpuCall& call = running.calls[i];
    const bool counts =
        circle.empty() || std::find(circle.begin(), circle.end(), i) != circle.end();
    if (!call.is_everywhere() || call.is_held || !counts || is_elsewhere(c, call)) continue;
    if (!c.job.is_stale(since(call))) continue;
    if (first == nullptr || since(call) < since(*first)) first = &call;
  }
  return first;
}

// `call`: all ranks have begun it.
Draft draft_stuck(const Case& c, const GpuFacts& facts, const GpuState& state,
                  const GpuCall& call) {
  const Op& op = c.index.op(call.front.process, call.front.op);
  Draft draft = make_draft(Verdict::stuck_on_gpu,
                           state.dark.empty() ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  std::vector<uint32_t> unfinished;
  std::vector<uint32_t> finished;
  for (const Blocked& rank : call.peers.ranks) {
    const Op& theirs = c.index.op(rank.process, rank.op);
    const bool is_through = facts.has_finished(rank.process, rank.op);
    (is_through ? finished : unfinished).push_back(rank.process);
    add_evidence(c, rank, state_text(c, facts, rank.process, rank.op), finding);
    if (!is_through) add_culprit(c, rank.process, theirs, finding);
  }
  const std::string others =
      finished.empty() ? "no rank has finished it"
                       : fmt::format("{} finished it", processes_text(c.index.run(), finished));
  finding.summary = fmt::format(
      "{} started {} on the GPU and {} not finished it for {}; {}",
      processes_text(c.index.run(), unfinished), place_text(c, call.front.process, op),
      unfinished.size() == 1 ? "has" : "have", span_text(c.job.end_ns - started_at(op)), others);
  finding.next =
      "links, NICs, a peer's GPU (Xid, NVLink and IB error counters), NCCL_DEBUG=WARN output of "
      "the "
      "named ranks";
  draft.since_ns = started_at(op);
  set_victims(c, c.index.active(), finding);
  return draft;
}

void suspect_transport(Finding& finding) {
  finding.next = "every rank's stream has come to the kernel, so the transport is the suspect: " +
                 finding.next;
}

std::optional<Draft> judge_running(const Case& c, const GpuFacts& facts, const GpuState& state,
                                   const Running& running) {
  Circle rivals = find_rivals(c, state, running);
  const GpuCall* call = first_begun(c, running, rivals);
  if (call == nullptr) call = first_begun(c, running, rivals = {});
  if (call == nullptr) return std::nullopt;
  Draft draft = draft_stuck(c, facts, state, *call);
  if (rivals.empty()) {
    suspect_transport(draft.finding);
  } else {
    tell_of_rivals(c, running, rivals, draft.finding);
  }
  return draft;
}

// Of calls that some GPUs have not come to.
std::vector<GpuCall> find_gpu_circle(const std::vector<GpuCall>& calls) {
  Waits waits = waits_of(calls, [](const GpuCall& call) { return !call.behind.empty(); });
  std::vector<GpuCall> circle;
  for (const size_t i : CircleSearch(std::move(waits)).find()) circle.push_back(calls[i]);
  return circle;
}

// Of the GPUs that run one of these calls those whose host had called another of them before.
std::vector<uint32_t> out_of_call_order(const Case& c, const GpuState& state,
                                        const std::vector<uint32_t>& hosts) {
  std::vector<uint32_t> found;
  for (const std::span<const Front> fronts : by_process(state)) {
    const uint32_t p = fronts.front().process;
    if (!std::binary_search(hosts.begin(), hosts.end(), p)) continue;
    int64_t begun_ns = INT64_MAX;
    int64_t waiting_ns = INT64_MAX;
    for (const Front& front : fronts) {
      int64_t& earliest = front.started ? begun_ns : waiting_ns;
      earliest = std::min(earliest, c.index.op(p, front.op).called_ns);
    }
    if (waiting_ns < begun_ns) found.push_back(p);
  }
  return found;
}

std::optional<Draft> judge_crossed(const Case& c, const GpuFacts& facts, const GpuState& state,
                                   const Running& running) {
  const std::vector<GpuCall> circle = find_gpu_circle(running.calls);
  if (circle.empty()) return std::nullopt;
  const bool pairs = std::all_of(circle.begin(), circle.end(), [&](const GpuCall& call) {
    return is_p2p(c.index.op(call.front.process, call.front.op).kind);
  });
  Draft draft = make_draft(pairs ? Verdict::deadlock_p2p : Verdict::deadlock_comms,
                           state.dark.empty() ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  std::vector<uint32_t> hosts;
  std::unordered_map<uint32_t, const Op*> runs;
  std::vector<std::string> parts;
  draft.since_ns = INT64_MAX;
  for (const GpuCall& call : circle) {
    const Front& front = call.front;
    const Op& op = c.index.op(front.process, front.op);
    hosts.insert(hosts.end(), call.running.begin(), call.running.end());
    for (const uint32_t p : call.running) runs.emplace(p, &op);
    draft.since_ns = std::min(draft.since_ns, op.called_ns);
    parts.push_back(fmt::format(
        "{} {} {}, which the {} of {} not come to", processes_text(c.index.run(), call.running),
        call.running.size() == 1 ? "runs" : "run", place_text(c, front.process, op),
        call.behind.size() == 1 ? "GPU" : "GPUs",
        fmt::format("{} {}", processes_text(c.index.run(), call.behind),
                    call.behind.size() == 1 ? "has" : "have")));
    add_evidence(c, {front.process, front.op}, state_text(c, facts, front.process, front.op),
                 finding);
  }
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  // Where each GPU keeps to its host's order the hosts' differ, and their calls tell more
  // (reading.h).
  const std::vector<uint32_t> odd = out_of_call_order(c, state, hosts);
  if (odd.empty()) return std::nullopt;
  draft.is_decided = odd.size() < hosts.size();
  for (const uint32_t p : draft.is_decided ? odd : hosts) add_culprit(c, p, *runs.at(p), finding);
  finding.summary = fmt::format(
      "the GPUs of {} wait for each other: {}{}", processes_text(c.index.run(), hosts),
      fmt::join(parts, "; "),
      draft.is_decided ? fmt::format("; on {} that is not the order of the host's calls",
                                     processes_text(c.index.run(), odd))
                       : "");
  finding.next =
      "nothing makes kernels of several streams run beside each other: let each of these calls "
      "wait for the one before it (an event, or one stream for both), in one order on all ranks";
  if (shares_one_queue(c.process(finding.culprits.front().process))) {
    finding.next += "; with CUDA_DEVICE_MAX_CONNECTIONS=1 all streams of a GPU share one queue";
  }
  set_victims(c, c.index.active(), finding);
  return draft;
}

// A rank left no file, or not of its newest call.
bool lacks_records(const Case& c) {
  const std::vector<Group>& groups = c.index.groups();
  const std::vector<uint32_t>& active = c.index.active();
  return std::any_of(groups.begin(), groups.end(),
                     [](const Group& group) { return group.has_strangers(); }) ||
         std::any_of(active.begin(), active.end(),
                     [&](uint32_t p) { return c.process(p).torn != 0; });
}

std::optional<Draft> judge_outside(const Case& c, const GpuState& state) {
  if (!state.fronts.empty() || !state.dark.empty() || state.is_inside) return std::nullopt;
  if (lacks_records(c)) return std::nullopt;
  Draft draft = make_draft(Verdict::stuck_outside, Confidence::likely);
  Finding& finding = draft.finding;
  finding.summary = fmt::format(
      "all {} made the same calls and their GPUs finished every one of them; the job has "
      "not called NCCL for {} and waits elsewhere",
      everyone_text(c.index), span_text(c.job.end_ns - c.job.last_call_ns));
  std::vector<uint32_t> ended;
  std::vector<uint32_t> staying;
  for (const uint32_t p : c.index.active()) {
    (c.job.processes[p].ended_itself ? ended : staying).push_back(p);
  }
  if (!ended.empty()) {
    for (const uint32_t p : staying) finding.culprits.push_back(culprit_of(c, p, kNone));
    finding.summary += fmt::format(
        "; {} ended by {}, {} did not", processes_text(c.index.run(), ended),
        ended.size() == 1 ? "itself" : "themselves", processes_text(c.index.run(), staying));
  }
  finding.next =
      "look at the stacks of the ranks: data loading, a checkpoint, a store or file barrier, a "
      "lock; NCCL is not what they wait for";
  for (const uint32_t p : c.index.active()) {
    if (finding.evidence.size() == kEvidenceMax) break;
    finding.evidence.push_back(process_evidence(c, p));
  }
  draft.since_ns = c.job.last_call_ns;
  // A running job that is busy with something else, a checkpoint say, looks like this too: nobody
  // should end it for that.
  if (c.job.live) finding.severity = Severity::risk;
  return draft;
}

// Why processes are silent, by what their GPUs wait for: from a call that a GPU runs to the ranks
// whose GPUs have not come to it, until there is one whose stream does not come to its oldest call,
// or all have come to one. No stream waits for what was called later.
class Causes {
 public:
  Causes(const Case& c, const GpuState& state, const Running& running)
      : c_(c), running_(running), explained_(running_.calls.size()) {
    for (const std::span<const Front> fronts : by_process(state)) {
      fronts_[fronts.front().process] = fronts;
    }
  }

  // Whether it is silent because its GPU is not through. False, too, where the GPU waits for a
  // host.
  bool explain(uint32_t p) {
    const auto found = fronts_.find(p);
    if (found == fronts_.end() || !is_watched_to_end(c_, p)) return false;
    const Front oldest = oldest_of(c_, found->second);
    if (!oldest.started) return is_blocked(oldest);
    bool is_explained = false;
    for (const Front& front : found->second) {
      if (front.started) is_explained = explain_call(front) || is_explained;
    }
    return is_explained;
  }
  // By process.
  std::vector<Front> blocked() const {
    std::vector<Front> fronts;
    for (const auto& [p, front] : blocked_) fronts.push_back(front);
    return fronts;
  }
  const std::vector<const GpuCall*>& stuck() const { return stuck_; }
  bool is_through(uint32_t p) const { return fronts_.count(p) == 0; }

 private:
  // Who waits for whom goes through as many calls as this, at most: a deeper stack is not worth it.
  static constexpr int kDepthMax = 512;

  // What another rank did not make is not what this one's silence is due to.
  bool is_blocked(const Front& front) {
    const auto [known, is_new] = is_blocked_.try_emplace(front.process, false);
    if (!is_new) return known->second;
    known->second = !front.is_behind_untimed && waits_long(c_, front) &&
                    peers_of(c_, front.process, front.op).is_made();
    if (known->second) blocked_.emplace(front.process, front);
    return known->second;
  }

  // Each call is followed once; one that leads back to itself explains nothing.
  bool explain_call(const Front& front) {
    const size_t index = running_.of.at({front.process, front.op});
    if (!explained_[index] && depth_ < kDepthMax) {
      explained_[index] = false;
      ++depth_;
      explained_[index] = follow(running_.calls[index]);
      --depth_;
    }
    return explained_[index].value_or(false);
  }

  bool follow(const GpuCall& call) {
    const Op& op = c_.index.op(call.front.process, call.front.op);
    const bool counts = call.peers.is_made() && !call.is_disputed &&
                        c_.job.is_stale(started_at(op)) &&
                        std::all_of(call.running.begin(), call.running.end(),
                                    [&](uint32_t p) { return is_watched_to_end(c_, p); });
    if (!counts) return false;
    std::vector<uint32_t> behind = call.behind;
    bool is_stuck = call.is_everywhere() && !call.is_held;
    if (op.kind == OpKind::GraphLaunch && call.has_begun) {
      InsideReplay inside = inside_replay(c_, call.front.process, call.front.op);
      if (inside.is_owed) return false;
      is_stuck = !inside.is_known || inside.is_inside_on_all;
      if (!is_stuck) behind = std::move(inside.elsewhere);
    }
    if (is_stuck) stuck_.push_back(&call);
    bool is_explained = is_stuck;
    for (const uint32_t p : behind) is_explained = explain(p) || is_explained;
    return is_explained;
  }

  const Case& c_;
  const Running& running_;
  std::unordered_map<uint32_t, std::span<const Front>> fronts_;
  std::vector<std::optional<bool>> explained_;  // by call
  std::unordered_map<uint32_t, bool> is_blocked_;
  std::map<uint32_t, Front> blocked_;
  std::vector<const GpuCall*> stuck_;
  int depth_ = 0;
};

// Of processes that were explained.
Draft draft_cause(const Case& c, const GpuFacts& facts, const GpuState& state,
                  const Running& running, const Causes& causes) {
  const std::vector<Front> blocked = causes.blocked();
  if (!blocked.empty()) {
    // What was called later runs in front of it, and is what the others do not come to.
    std::optional<Draft> crossed = judge_crossed(c, facts, state, running);
    const std::vector<uint32_t> crossing =
        crossed ? culprits_of(crossed->finding) : std::vector<uint32_t>();
    const bool is_crossed = std::any_of(blocked.begin(), blocked.end(), [&](const Front& front) {
      return std::binary_search(crossing.begin(), crossing.end(), front.process);
    });
    return is_crossed ? std::move(*crossed) : draft_blocked(c, facts, state, blocked);
  }
  const GpuCall& stuck = *causes.stuck().front();
  Draft draft = draft_stuck(c, facts, state, stuck);
  const Circle rivals = find_rivals(c, state, running);
  const bool is_rival = std::any_of(rivals.begin(), rivals.end(),
                                    [&](size_t i) { return &running.calls[i] == &stuck; });
  if (is_rival) {
    tell_of_rivals(c, running, rivals, draft.finding);
  } else {
    suspect_transport(draft.finding);
  }
  return draft;
}

// Ranks have not made a call that others wait in, and may or may not wait themselves as far as the
// calls tell.
bool is_silence(const Draft& draft) {
  const Verdict verdict = draft.finding.verdict;
  return !draft.finding.culprits.empty() &&
         (verdict == Verdict::missing_call || verdict == Verdict::p2p_unmatched ||
          verdict == Verdict::insufficient);
}

// Each of the silent ranks.
template <typename Holds>
bool all_of_culprits(const Draft& draft, Holds holds) {
  const std::vector<Culprit>& culprits = draft.finding.culprits;
  return std::all_of(culprits.begin(), culprits.end(), [&](const Culprit& culprit) {
    return culprit.process != kNone && holds(culprit.process);
  });
}

}  // namespace

std::optional<Draft> judge_gpu_cause(const Case& c, const std::vector<uint32_t>& silent) {
  const GpuFacts facts(c);
  const GpuState state = look_at_gpus(c, facts);
  if (silent.empty() || !state.is_watched) return std::nullopt;
  const Running running = find_running(c, facts, state);
  Causes causes(c, state, running);
  for (const uint32_t p : silent) {
    if (!causes.explain(p)) return std::nullopt;
  }
  return draft_cause(c, facts, state, running, causes);
}

void add_gpu_causes(const Case& c, std::vector<Draft>& drafts) {
  if (std::none_of(drafts.begin(), drafts.end(), is_silence)) return;
  const GpuFacts facts(c);
  const GpuState state = look_at_gpus(c, facts);
  if (!state.is_watched) return;
  const Running running = find_running(c, facts, state);
  std::vector<Draft> others;
  std::map<std::vector<uint32_t>, Draft> found;  // by whom they blame
  for (Draft& draft : drafts) {
    if (!is_silence(draft)) {
      others.push_back(std::move(draft));
      continue;
    }
    Causes causes(c, state, running);
    if (all_of_culprits(draft, [&](uint32_t p) { return causes.explain(p); })) {
      Draft cause = draft_cause(c, facts, state, running, causes);
      std::vector<uint32_t> blamed = culprits_of(cause.finding);
      Draft& known = found.try_emplace(std::move(blamed), std::move(cause)).first->second;
      known.finding.consequences.push_back(std::move(draft.finding));
      continue;
    }
    const auto is_through = [&](uint32_t p) {
      return causes.is_through(p) && !std::binary_search(state.dark.begin(), state.dark.end(), p);
    };
    if (draft.finding.verdict == Verdict::missing_call && all_of_culprits(draft, is_through)) {
      draft.finding.next +=
          "; what it called before is through on its GPU: if it waits, then for something else";
    }
    others.push_back(std::move(draft));
  }
  drafts = std::move(others);
  for (auto& [blamed, cause] : found) drafts.push_back(std::move(cause));
}

std::optional<Draft> judge_gpu(const Case& c) {
  const GpuFacts facts(c);
  const GpuState state = look_at_gpus(c, facts);
  if (!state.is_watched) return std::nullopt;
  const std::vector<Front> blocked = silent_fronts(c, state);
  if (!blocked.empty()) return draft_blocked(c, facts, state, blocked);
  const Running running = find_running(c, facts, state);
  if (auto stuck = judge_running(c, facts, state, running)) return stuck;
  if (auto crossed = judge_crossed(c, facts, state, running)) return crossed;
  return judge_outside(c, state);
}

}  // namespace rollcall::analysis
