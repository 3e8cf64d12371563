// All ranks made the same calls, and nothing moves: what did the GPUs do with the calls?
//
// Looked at is the front of each stream: its oldest operation that is awaited and not finished. A
// stream whose front has not started is blocked by something in front of it that is not NCCL's; a
// front that has started runs, or waits in its kernel for a peer. A rank that has both may be
// blocked as a consequence (its stream waits for the other one), so the cause is sought among the
// ranks whose every front is blocked. An operation that every member has started and not every
// member has finished is stuck on the GPU itself. Where every GPU runs something and is blocked in
// something, they have come to the calls of several communicators in different orders, and each
// kernel waits for a peer whose GPU runs another one: streams promise no kernel that it runs beside
// those of other streams.
//
// "Started" is the word of an event in front of the kernel: the stream has come to it. Whether the
// kernel found room on the GPU beside those that run there nobody tells. So where GPUs came to
// calls that they have all started in different orders, that may be a circle, too.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "analysis/captured.h"
#include "analysis/judge.h"
#include "analysis/label.h"

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::Process;

constexpr size_t kEvidenceMax = 8;

bool enqueues(const Op& op) { return !is_mark(op.kind) || op.kind == OpKind::GraphLaunch; }

// Aborting a communicator ends its kernels, and the events behind them come true: what the GPU did
// from then on says nothing about how far it had come by itself.
class GpuFacts {
 public:
  explicit GpuFacts(const Case& c) : c_(c) {
    aborted_ns_.resize(c.index.run().processes.size());
    for (const uint32_t p : c.index.active()) {
      for (const trace::Event& event : c.process(p).events) {
        if (event.kind == EventKind::CommAbort) note_abort(p, event);
      }
    }
  }

  bool is_timed(uint32_t p, uint32_t i) const {
    return op(p, i).awaits_gpu || op(p, i).finished_ns != 0;
  }
  bool has_finished(uint32_t p, uint32_t i) const {
    return counts(p, i, op(p, i).finished_ns) || wrote(p, i, GpuMark::finished);
  }
  bool has_started(uint32_t p, uint32_t i) const {
    return counts(p, i, op(p, i).started_ns) || wrote(p, i, GpuMark::started) || has_finished(p, i);
  }
  bool is_awaited(uint32_t p, uint32_t i) const { return is_timed(p, i) && !has_finished(p, i); }

 private:
  const Op& op(uint32_t p, uint32_t i) const { return c_.index.op(p, i); }

  void note_abort(uint32_t p, const trace::Event& event) {
    std::vector<int64_t>& times = aborted_ns_[p];
    if (event.comm >= c_.process(p).comms.size()) return;
    times.resize(c_.process(p).comms.size(), INT64_MAX);
    times[event.comm] = std::min(times[event.comm], event.called_ns);
  }

  // What the GPU wrote has no time, and says nothing once its communicator was aborted.
  bool wrote(uint32_t p, uint32_t i, GpuMark mark) const {
    return op(p, i).mark == mark && counts(p, i, INT64_MAX - 1);
  }

  bool counts(uint32_t p, uint32_t i, int64_t time_ns) const {
    const uint32_t comm = op(p, i).comm;
    const std::vector<int64_t>& times = aborted_ns_[p];
    return time_ns != 0 && (comm >= times.size() || time_ns < times[comm]);
  }

  const Case& c_;
  std::vector<std::vector<int64_t>> aborted_ns_;  // by process and communicator
};

struct Front {
  uint32_t process = kNone;
  uint32_t op = kNoRecord;
  uint32_t finished = kNoRecord;  // the last finished operation on its stream
  bool started = false;
};

struct GpuState {
  std::vector<Front> fronts;
  std::vector<uint32_t> dark;  // processes with operations behind which the GPU was not watched
  bool is_watched = false;     // some process timed its operations
  bool is_inside = false;      // a host thread is inside NCCL
};

struct StreamState {
  uint64_t stream = 0;
  uint32_t front = kNoRecord;
  uint32_t finished = kNoRecord;
  bool is_dark = false;  // its newest operation is not timed
};

StreamState& state_of(std::vector<StreamState>& streams, uint64_t stream) {
  const auto found = std::find_if(streams.begin(), streams.end(),
                                  [&](const StreamState& s) { return s.stream == stream; });
  if (found != streams.end()) return *found;
  streams.push_back({.stream = stream});
  return streams.back();
}

void look_at(const Case& c, const GpuFacts& facts, uint32_t p, GpuState& state) {
  const Process& process = c.process(p);
  std::vector<StreamState> streams;
  // Captured operations run when their graph is launched, and that is an operation of its own, if
  // the launches are seen at all.
  const bool sees_launches = process.meta.find("graph_launches") != process.meta.end();
  bool has_unseen_graphs = false;
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    if (!enqueues(op)) continue;
    if (op.graph != 0 && op.kind != OpKind::GraphLaunch) {
      has_unseen_graphs = has_unseen_graphs || !sees_launches;
      continue;
    }
    StreamState& stream = state_of(streams, op.stream);
    stream.is_dark = !facts.is_timed(p, i);
    state.is_watched = state.is_watched || facts.is_timed(p, i);
    if (facts.has_finished(p, i)) stream.finished = i;
    if (facts.is_awaited(p, i) && stream.front == kNoRecord) stream.front = i;
  }
  bool is_dark = has_unseen_graphs;
  for (const StreamState& stream : streams) {
    is_dark = is_dark || stream.is_dark;
    if (stream.front == kNoRecord) continue;
    const bool started = facts.has_started(p, stream.front);
    state.fronts.push_back({p, stream.front, stream.finished, started});
  }
  if (is_dark) state.dark.push_back(p);
  const ProcessState& host = c.job.processes[p];
  state.is_inside =
      state.is_inside || host.inside_op != kNoRecord || host.inside_event != kNoRecord;
}

GpuState look_at_gpus(const Case& c, const GpuFacts& facts) {
  GpuState state;
  for (const uint32_t p : c.index.active()) look_at(c, facts, p, state);
  return state;
}

// The replay of the same number of the same graph on the other ranks: graphs are the same where
// they hold the same position of a communicator.
std::vector<Blocked> peers_of_replay(const Case& c, uint32_t p, const Op& launch, uint32_t i) {
  std::vector<Blocked> peers{{p, i}};
  const uint32_t first = first_captured(c.process(p), launch.graph);
  if (first == kNoRecord || !is_collective(c.index.op(p, first).kind)) return peers;
  const Op& op = c.index.op(p, first);
  const Seat seat = c.index.seat(p, op.comm);
  if (seat.group == kNone || seat.member == kNone) return peers;
  for (const Member& member : c.group(seat.group).members) {
    if (member.process == p || !member.lane.has(op.seq)) continue;
    const uint32_t graph = c.index.op_at(member, op.seq).graph;
    const std::vector<Op>& theirs = c.process(member.process).ops;
    const auto found = std::find_if(theirs.begin(), theirs.end(), [&](const Op& other) {
      return other.kind == OpKind::GraphLaunch && other.graph == graph && other.seq == launch.seq;
    });
    if (found == theirs.end()) continue;
    peers.push_back({member.process, static_cast<uint32_t>(found - theirs.begin())});
  }
  return peers;
}

// The records of one operation on all its ranks, as far as they are on file.
std::vector<Blocked> peers_of(const Case& c, uint32_t p, const Op& op, uint32_t i) {
  if (op.kind == OpKind::GraphLaunch) return peers_of_replay(c, p, op, i);
  std::vector<Blocked> peers{{p, i}};
  const Seat seat = c.index.seat(p, op.comm);
  if (seat.group == kNone || seat.member == kNone) return peers;
  const Group& group = c.group(seat.group);
  if (is_collective(op.kind)) {
    for (const Member& member : group.members) {
      if (member.process == p || !member.lane.has(op.seq)) continue;
      peers.push_back({member.process, member.lane.ops[op.seq - member.lane.first]});
    }
    return peers;
  }
  const Blocked partner = c.index.partner_of(p, op);
  if (partner.op != kNoRecord) peers.push_back(partner);
  return peers;
}

std::string comm_text(const Case& c, uint32_t p, const Op& op) {
  const Seat seat = c.index.seat(p, op.comm);
  return seat.group == kNone ? "a communicator of its own" : c.group(seat.group).name;
}

std::string place_text(const Case& c, uint32_t p, const Op& op) {
  if (op.kind == OpKind::GraphLaunch) {
    const uint32_t first = first_captured(c.process(p), op.graph);
    std::string replay = fmt::format("replay {} of a CUDA graph", op.seq + 1);
    if (first == kNoRecord) return replay;
    return fmt::format("{} that begins with {}", replay, place_text(c, p, c.index.op(p, first)));
  }
  return fmt::format("{}, {} {} of {}", call_text(op), is_collective(op.kind) ? "seq" : "p2p seq",
                     op.seq, comm_text(c, p, op));
}

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

void add_evidence(const Case& c, const Blocked& where, const std::string& text, Finding& finding) {
  if (finding.evidence.size() < kEvidenceMax) {
    finding.evidence.push_back(op_evidence(c, where.process, where.op, text));
  }
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

std::vector<std::span<const Front>> by_process(const GpuState& state) {
  std::vector<std::span<const Front>> parts;
  const std::span<const Front> all = state.fronts;
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end].process == all[begin].process) ++end;
    parts.push_back(all.subspan(begin, end - begin));
  }
  return parts;
}

// Of each process none of whose streams runs anything the front with the oldest call.
std::vector<Front> silent_fronts(const Case& c, const GpuState& state) {
  const auto called_ns = [&](const Front& f) { return c.index.op(f.process, f.op).called_ns; };
  std::vector<Front> silent;
  for (const std::span<const Front> fronts : by_process(state)) {
    if (std::any_of(fronts.begin(), fronts.end(), [](const Front& f) { return f.started; }))
      continue;
    silent.push_back(*std::min_element(
        fronts.begin(), fronts.end(),
        [&](const Front& a, const Front& b) { return called_ns(a) < called_ns(b); }));
  }
  return silent;
}

// The earliest blocked front of a rank on which nothing else runs leads.
std::optional<Draft> judge_blocked(const Case& c, const GpuFacts& facts, const GpuState& state) {
  const std::vector<Front> blocked = silent_fronts(c, state);
  if (blocked.empty()) return std::nullopt;
  Draft draft = make_draft(Verdict::stream_blocked,
                           state.dark.empty() ? Confidence::certain : Confidence::likely);
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
  for (const Blocked& peer :
       peers_of(c, first.process, c.index.op(first.process, first.op), first.op)) {
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
  finding.summary = fmt::format(
      "{} called {} {} ago and NCCL returned, but the stream has not reached it: something that is "
      "not NCCL's stands in front of it ({})",
      processes_text(c.index.run(), ranks), place_text(c, first.process, op),
      span_text(c.job.end_ns - op.called_ns), before);
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

// By the time of the call where only the GPU's own word is known.
int64_t started_at(const Op& op) { return op.started_ns != 0 ? op.started_ns : op.called_ns; }

// A call that stands in front of a stream whose GPU has come to it.
struct GpuCall {
  Front front;                    // the first to come to it
  std::vector<Blocked> ranks;     // as far as they are on file
  std::vector<uint32_t> running;  // processes that have begun it and are not through
  std::vector<uint32_t> behind;   // processes that have not come to it: they run something else
  bool has_begun = true;          // on all ranks
};

GpuCall call_of(const Case& c, const GpuFacts& facts, const Front& front) {
  GpuCall call;
  call.front = front;
  call.ranks = peers_of(c, front.process, c.index.op(front.process, front.op), front.op);
  for (const auto& [p, i] : call.ranks) {
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

Running find_running(const Case& c, const GpuFacts& facts, const GpuState& state) {
  Running running;
  for (const Front& front : state.fronts) {
    if (!front.started || running.of.count({front.process, front.op}) != 0) continue;
    for (const auto& [p, i] : running.calls.emplace_back(call_of(c, facts, front)).ranks) {
      running.of.emplace(std::pair(p, i), running.calls.size() - 1);
    }
  }
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
  for (const auto& [p, i] : first.ranks) op_of[p] = i;
  for (const auto& [p, i] : second.ranks) {
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
    if (!call.has_begun || !counts) continue;
    if (first == nullptr || since(call) < since(*first)) first = &call;
  }
  return first;
}

std::optional<Draft> judge_running(const Case& c, const GpuFacts& facts, const GpuState& state,
                                   const Running& running) {
  Circle rivals = find_rivals(c, state, running);
  const GpuCall* call = first_begun(c, running, rivals);
  if (call == nullptr) call = first_begun(c, running, rivals = {});
  if (call == nullptr) return std::nullopt;
  const Op& op = c.index.op(call->front.process, call->front.op);
  Draft draft = make_draft(Verdict::stuck_on_gpu,
                           state.dark.empty() ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  std::vector<uint32_t> unfinished;
  std::vector<uint32_t> finished;
  for (const Blocked& rank : call->ranks) {
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
      processes_text(c.index.run(), unfinished), place_text(c, call->front.process, op),
      unfinished.size() == 1 ? "has" : "have", span_text(c.job.end_ns - started_at(op)), others);
  finding.next =
      "links, NICs, a peer's GPU (Xid, NVLink and IB error counters), NCCL_DEBUG=WARN output of "
      "the "
      "named ranks";
  if (!rivals.empty()) {
    tell_of_rivals(c, running, rivals, finding);
  } else {
    finding.next = "every rank's stream has come to the kernel, so the transport is the suspect: " +
                   finding.next;
  }
  draft.since_ns = started_at(op);
  set_victims(c, c.index.active(), finding);
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

std::optional<Draft> judge_outside(const Case& c, const GpuState& state) {
  if (!state.fronts.empty() || !state.dark.empty() || state.is_inside) return std::nullopt;
  Draft draft = make_draft(Verdict::stuck_outside, Confidence::likely);
  Finding& finding = draft.finding;
  finding.summary = fmt::format(
      "all {} made the same calls and their GPUs finished every one of them; the job has "
      "not called NCCL for {} and waits elsewhere",
      everyone_text(c.index), span_text(c.job.end_ns - c.job.last_call_ns));
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

}  // namespace

std::optional<Draft> judge_gpu(const Case& c) {
  const GpuFacts facts(c);
  const GpuState state = look_at_gpus(c, facts);
  if (!state.is_watched) return std::nullopt;
  if (auto blocked = judge_blocked(c, facts, state)) return blocked;
  const Running running = find_running(c, facts, state);
  if (auto stuck = judge_running(c, facts, state, running)) return stuck;
  if (auto crossed = judge_crossed(c, facts, state, running)) return crossed;
  return judge_outside(c, state);
}

}  // namespace rollcall::analysis
