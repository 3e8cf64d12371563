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
#include <fmt/format.h>

#include <algorithm>
#include <set>

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

std::string place_text(const Case& c, uint32_t p, const Op& op) {
  if (op.kind == OpKind::GraphLaunch) {
    const uint32_t first = first_captured(c.process(p), op.graph);
    std::string replay = fmt::format("replay {} of a CUDA graph", op.seq + 1);
    if (first == kNoRecord) return replay;
    return fmt::format("{} that begins with {}", replay, place_text(c, p, c.index.op(p, first)));
  }
  const Seat seat = c.index.seat(p, op.comm);
  const std::string name =
      seat.group == kNone ? "a communicator of its own" : c.group(seat.group).name;
  return fmt::format("{}, {} {} of {}", call_text(op), is_collective(op.kind) ? "seq" : "p2p seq",
                     op.seq, name);
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

std::vector<uint32_t> all_others(const Case& c) { return c.index.active(); }

bool shares_one_queue(const Process& process) {
  const auto found = process.meta.find("env.CUDA_DEVICE_MAX_CONNECTIONS");
  return found != process.meta.end() && found->second == "1";
}

// The earliest blocked front of a rank on which nothing else runs leads.
std::optional<Draft> judge_blocked(const Case& c, const GpuFacts& facts, const GpuState& state) {
  const auto runs_something = [&](uint32_t p) {
    return std::any_of(state.fronts.begin(), state.fronts.end(),
                       [&](const Front& f) { return f.process == p && f.started; });
  };
  std::vector<Front> blocked;
  for (const Front& front : state.fronts) {
    if (front.started || runs_something(front.process)) continue;
    const auto known = std::find_if(blocked.begin(), blocked.end(),
                                    [&](const Front& f) { return f.process == front.process; });
    // Of several blocked streams of one rank the oldest call speaks.
    if (known == blocked.end())
      blocked.push_back(front);
    else if (c.index.op(front.process, front.op).called_ns <
             c.index.op(known->process, known->op).called_ns) {
      *known = front;
    }
  }
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
    const bool is_culprit = std::find(ranks.begin(), ranks.end(), peer.process) != ranks.end();
    if (is_culprit) continue;
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
  set_victims(c, all_others(c), finding);
  return draft;
}

// By the time of the call where only the GPU's own word is known.
int64_t started_at(const Op& op) { return op.started_ns != 0 ? op.started_ns : op.called_ns; }

std::optional<Draft> judge_running(const Case& c, const GpuFacts& facts, const GpuState& state) {
  const Front* lead = nullptr;
  std::vector<Blocked> ranks;
  for (const Front& front : state.fronts) {
    if (!front.started) continue;
    const Op& op = c.index.op(front.process, front.op);
    const std::vector<Blocked> peers = peers_of(c, front.process, op, front.op);
    const bool all_started = std::all_of(peers.begin(), peers.end(), [&](const Blocked& peer) {
      return facts.has_started(peer.process, peer.op);
    });
    const bool is_earlier =
        lead == nullptr || started_at(op) < started_at(c.index.op(lead->process, lead->op));
    if (!all_started || !is_earlier) continue;
    lead = &front;
    ranks = peers;
  }
  if (lead == nullptr) return std::nullopt;
  const Op& op = c.index.op(lead->process, lead->op);
  Draft draft = make_draft(Verdict::stuck_on_gpu,
                           state.dark.empty() ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  std::vector<uint32_t> unfinished;
  std::vector<uint32_t> finished;
  for (const Blocked& rank : ranks) {
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
      processes_text(c.index.run(), unfinished), place_text(c, lead->process, op),
      unfinished.size() == 1 ? "has" : "have", span_text(c.job.end_ns - started_at(op)), others);
  finding.next =
      "every rank is in the kernel, so the transport is the suspect: links, NICs, a peer's GPU "
      "(Xid, NVLink and IB error counters), NCCL_DEBUG=WARN output of the named ranks";
  draft.since_ns = started_at(op);
  set_victims(c, all_others(c), finding);
  return draft;
}

// A call that some GPUs run, and that the streams of others have not come to.
struct HalfBegun {
  Front front;                    // of one that runs it
  std::vector<uint32_t> running;  // processes
  std::vector<uint32_t> behind;   // they run something else
};

bool has(const std::vector<uint32_t>& processes, uint32_t p) {
  return std::find(processes.begin(), processes.end(), p) != processes.end();
}

std::vector<HalfBegun> find_half_begun(const Case& c, const GpuFacts& facts,
                                       const GpuState& state) {
  std::vector<HalfBegun> calls;
  std::set<std::pair<uint32_t, uint32_t>> known;  // the records of these calls
  for (const Front& front : state.fronts) {
    if (!front.started || known.count({front.process, front.op}) != 0) continue;
    HalfBegun call{front, {}, {}};
    for (const Blocked& rank :
         peers_of(c, front.process, c.index.op(front.process, front.op), front.op)) {
      known.emplace(rank.process, rank.op);
      if (!facts.is_awaited(rank.process, rank.op)) continue;
      const bool runs = facts.has_started(rank.process, rank.op);
      (runs ? call.running : call.behind).push_back(rank.process);
    }
    if (!call.behind.empty()) calls.push_back(std::move(call));
  }
  return calls;
}

// From each call to one that keeps a GPU of it busy, until one comes again; empty where none does.
std::vector<HalfBegun> find_gpu_circle(const std::vector<HalfBegun>& calls) {
  if (calls.empty()) return {};
  std::vector<size_t> path{0};
  for (;;) {
    const HalfBegun& last = calls[path.back()];
    const auto next = std::find_if(calls.begin(), calls.end(), [&](const HalfBegun& other) {
      return std::any_of(last.behind.begin(), last.behind.end(),
                         [&](uint32_t p) { return has(other.running, p); });
    });
    if (next == calls.end()) return {};
    const auto at = static_cast<size_t>(next - calls.begin());
    const auto seen = std::find(path.begin(), path.end(), at);
    if (seen != path.end()) {
      std::vector<HalfBegun> circle;
      for (auto i = seen; i != path.end(); ++i) circle.push_back(calls[*i]);
      return circle;
    }
    path.push_back(at);
  }
}

// Of the GPUs that run one of these calls those whose host had called another of them before.
std::vector<uint32_t> out_of_call_order(const Case& c, const GpuState& state,
                                        const std::vector<uint32_t>& hosts) {
  std::vector<uint32_t> found;
  for (const uint32_t p : hosts) {
    int64_t begun_ns = INT64_MAX;
    int64_t waiting_ns = INT64_MAX;
    for (const Front& front : state.fronts) {
      if (front.process != p) continue;
      int64_t& earliest = front.started ? begun_ns : waiting_ns;
      earliest = std::min(earliest, c.index.op(p, front.op).called_ns);
    }
    if (waiting_ns < begun_ns) found.push_back(p);
  }
  return found;
}

std::optional<Draft> judge_crossed(const Case& c, const GpuFacts& facts, const GpuState& state) {
  const std::vector<HalfBegun> circle = find_gpu_circle(find_half_begun(c, facts, state));
  if (circle.empty()) return std::nullopt;
  const bool pairs = std::all_of(circle.begin(), circle.end(), [&](const HalfBegun& call) {
    return is_p2p(c.index.op(call.front.process, call.front.op).kind);
  });
  Draft draft = make_draft(pairs ? Verdict::deadlock_p2p : Verdict::deadlock_comms,
                           state.dark.empty() ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  std::vector<uint32_t> hosts;
  std::vector<std::string> parts;
  draft.since_ns = INT64_MAX;
  for (const HalfBegun& call : circle) {
    const Front& front = call.front;
    const Op& op = c.index.op(front.process, front.op);
    hosts.insert(hosts.end(), call.running.begin(), call.running.end());
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
  for (const uint32_t p : draft.is_decided ? odd : hosts) {
    const auto call = std::find_if(circle.begin(), circle.end(),
                                   [&](const HalfBegun& one) { return has(one.running, p); });
    add_culprit(c, p, c.index.op(call->front.process, call->front.op), finding);
  }
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
  set_victims(c, all_others(c), finding);
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
  if (auto running = judge_running(c, facts, state)) return running;
  if (auto crossed = judge_crossed(c, facts, state)) return crossed;
  return judge_outside(c, state);
}

}  // namespace rollcall::analysis
