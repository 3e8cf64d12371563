#include "analysis/gpu/fronts.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "analysis/gpu/captured.h"
#include "analysis/waits/playback.h"

namespace rollcall::analysis {
namespace {

// By channel: the first transfer that its two sides disagree about.
struct MismatchedPairs {
  std::optional<std::unordered_map<uint32_t, uint64_t>> first;
};

using trace::Op;
using trace::Process;

bool enqueues(const Op& op) { return !is_mark(op.kind) || op.kind == OpKind::GraphLaunch; }

struct StreamState {
  uint64_t stream = 0;
  std::vector<uint32_t> front;  // one operation, or a group's share of the stream
  bool is_front_whole = false;  // the share has ended
  uint32_t finished = kNoRecord;
  uint32_t newest = kNoRecord;
  bool is_dark = false;  // its newest operation is not timed
  bool is_behind_untimed = false;
};

// In the order of their first operations.
struct Streams {
  std::vector<StreamState> states;
  std::unordered_map<uint64_t, size_t> of;

  StreamState& at(uint64_t stream) {
    const auto [found, is_new] = of.try_emplace(stream, states.size());
    if (is_new) states.emplace_back().stream = stream;
    return states[found->second];
  }
};

void add_to_front(const Process& process, uint32_t i, bool is_awaited, StreamState& stream) {
  if (stream.front.empty()) {
    if (is_awaited) stream.front.push_back(i);
    return;
  }
  const uint32_t group = process.ops[stream.front.front()].group;
  if (group == 0 || process.ops[i].group != group) stream.is_front_whole = true;
  if (is_awaited && !stream.is_front_whole) stream.front.push_back(i);
}

void look_at(const Facts& facts, const GpuRecord& record, uint32_t p, GpuState& state) {
  const Process& process = facts.process(p);
  Streams streams;
  // Captured operations run when their graph is launched, and that is an operation of its own, if
  // the launches are seen at all.
  const bool sees_launches = watches_graphs(process);
  bool has_unseen_graphs = false;
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    if (!enqueues(op)) continue;
    if (is_captured(op)) {
      has_unseen_graphs = has_unseen_graphs || !sees_launches;
      continue;
    }
    StreamState& stream = streams.at(op.stream);
    stream.newest = i;
    stream.is_dark = !record.is_timed(p, i);
    state.is_watched = state.is_watched || record.is_timed(p, i);
    if (record.has_finished(p, i)) stream.finished = i;
    if (stream.front.empty()) {
      stream.is_behind_untimed =
          !record.has_finished(p, i) && (stream.is_behind_untimed || stream.is_dark);
    }
    add_to_front(process, i, record.is_awaited(p, i) && !op.may_wait, stream);
  }
  if (has_unseen_graphs) state.dark_ops.push_back({p, kNoRecord});
  bool is_dark = has_unseen_graphs;
  for (uint32_t s = 0; s < streams.states.size(); ++s) {
    const StreamState& stream = streams.states[s];
    is_dark = is_dark || stream.is_dark;
    if (stream.is_dark) state.dark_ops.push_back({p, stream.newest});
    for (const uint32_t i : stream.front) {
      state.fronts.push_back(
          {p, i, s, stream.finished, record.has_started(p, i), stream.is_behind_untimed});
    }
  }
  if (is_dark) state.dark.push_back(p);
  const ProcessState& host = facts.job.processes[p];
  state.is_inside =
      state.is_inside || host.inside_op != kNoRecord || host.inside_event != kNoRecord;
}

// Graphs are the same where they hold the same position of a communicator, or the two sides of a
// transfer. A rank owes the replay where it has launched its own less often, or made the call
// without a graph.
void add_replay(const Facts& facts, uint32_t p, uint32_t i, const Op& launch, Peers& peers) {
  const Process& process = facts.process(p);
  const uint32_t graph = facts.index.op(p, i).graph;
  const auto found = std::find_if(process.ops.begin(), process.ops.end(), [&](const Op& op) {
    return op.kind == OpKind::GraphLaunch && op.graph == graph && op.seq == launch.seq;
  });
  if (graph != 0 && found != process.ops.end()) {
    peers.ranks.push_back({p, static_cast<uint32_t>(found - process.ops.begin())});
    return;
  }
  peers.is_complete = false;
  const bool is_behind = graph == 0 || launches_of(process, graph) <= launch.seq;
  peers.is_owed = peers.is_owed || (is_behind && watches_graphs(process));
  peers.is_unknown = peers.is_unknown || (is_behind && !watches_graphs(process));
}

void add_peer(const Facts& facts, uint32_t p, uint32_t i, const Op* launch, Peers& peers) {
  if (launch != nullptr) return add_replay(facts, p, i, *launch, peers);
  peers.ranks.push_back({p, i});
}

// The other side of a transfer or signal.
void add_partner(const Facts& facts, uint32_t p, const Op& op, const Op* launch, Peers& peers) {
  const OpRef partner = facts.index.partner_of(p, op);
  peers.is_complete = partner.op != kNoRecord;
  if (peers.is_complete) return add_peer(facts, partner.process, partner.op, launch, peers);
  if (partner.process == kNone) {
    peers.has_strangers = !facts.group(facts.index.seat(p, op.comm).group).is_whole();
    peers.is_unknown = is_p2p(op.kind) && !peers.has_strangers;
    return;
  }
  const Process& process = facts.process(partner.process);
  peers.has_strangers = process.torn != 0;
  if (!is_p2p(op.kind)) return;
  const Channel& channel = facts.index.channels()[facts.index.channel_of(p, op)];
  const bool is_send = op.kind == OpKind::Send;
  const bool has_some = !(is_send ? channel.recvs : channel.sends).empty();
  const uint64_t first = is_send ? channel.first_recv : channel.first_send;
  const bool is_known = has_some || process.first_complete_ticket <= 1;
  peers.is_owed = is_known && op.seq >= first && process.torn == 0;
}

}  // namespace

GpuRecord::GpuRecord(const Facts& facts) : facts_(facts) {
  aborted_ns_.resize(facts.index.run().processes.size());
  for (const uint32_t p : facts.index.active()) {
    for (const trace::Event& event : facts.process(p).events) {
      if (event.kind == EventKind::CommAbort) note_abort(p, event);
    }
  }
}

void GpuRecord::note_abort(uint32_t p, const trace::Event& event) {
  std::vector<int64_t>& times = aborted_ns_[p];
  if (event.comm >= facts_.process(p).comms.size()) return;
  times.resize(facts_.process(p).comms.size(), INT64_MAX);
  times[event.comm] = std::min(times[event.comm], event.called_ns);
}

bool GpuRecord::counts(uint32_t p, uint32_t i, int64_t time_ns) const {
  const uint32_t comm = op(p, i).comm;
  const std::vector<int64_t>& times = aborted_ns_[p];
  return time_ns != 0 && (comm >= times.size() || time_ns < times[comm]);
}

bool is_standing_replay(const Facts& facts, const Op& op) {
  return op.kind == OpKind::GraphLaunch && op.awaits_gpu && has_begun(op) && !is_through(op) &&
         facts.job.is_stale(started_at(op));
}

bool is_watched_to_end(const Facts& facts, uint32_t p) {
  const ProcessState& state = facts.job.processes[p];
  return !state.stopped && !state.gone && !state.ended_itself;
}

bool is_disputed(const Facts& facts, uint32_t p, const Op& op) {
  if (op.kind == OpKind::GraphLaunch) return false;
  const uint32_t group = facts.index.seat(p, op.comm).group;
  if (is_collective(op.kind)) {
    return std::any_of(facts.differences.begin(), facts.differences.end(),
                       [&](const Difference& d) { return d.group == group && d.seq <= op.seq; });
  }
  std::optional<std::unordered_map<uint32_t, uint64_t>>& first =
      facts.memo.notes<MismatchedPairs>().first;
  if (!first) {
    first.emplace();
    for (const Playback::PairFinding& pair : facts.playback.mismatched_pairs()) {
      const auto [found, is_new] = first->try_emplace(pair.channel, pair.seq);
      if (!is_new) found->second = std::min(found->second, pair.seq);
    }
  }
  const auto found = first->find(facts.index.channel_of(p, op));
  return found != first->end() && found->second <= op.seq;
}

bool waits_for_its_gpu(const Facts& facts, uint32_t p) {
  const std::vector<Op>& ops = facts.process(p).ops;
  return std::any_of(ops.begin(), ops.end(), [&](const Op& op) {
    return op.awaits_gpu && !is_through(op) && facts.job.is_stale(op.called_ns);
  });
}

bool stands_still(const Facts& facts, uint32_t p) {
  const std::vector<Op>& ops = facts.process(p).ops;
  return std::all_of(ops.begin(), ops.end(), [&](const Op& op) {
    const int64_t moved_ns = std::max(op.started_ns, op.finished_ns);
    return moved_ns == 0 || facts.job.is_stale(moved_ns);
  });
}

GpuState look_at_gpus(const Facts& facts, const GpuRecord& record) {
  GpuState state;
  for (const uint32_t p : facts.index.active()) look_at(facts, record, p, state);
  return state;
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

std::span<const Front> fronts_of(const GpuState& state, uint32_t p) {
  const auto [begin, end] =
      std::equal_range(state.fronts.begin(), state.fronts.end(), Front{.process = p},
                       [](const Front& a, const Front& b) { return a.process < b.process; });
  return {begin, end};
}

bool runs_any(std::span<const Front> fronts) {
  return std::any_of(fronts.begin(), fronts.end(), [](const Front& f) { return f.started; });
}

Peers peers_of(const Facts& facts, uint32_t p, uint32_t i) {
  Peers peers{.ranks = {{p, i}}};
  const Op* launch =
      facts.index.op(p, i).kind == OpKind::GraphLaunch ? &facts.index.op(p, i) : nullptr;
  const uint32_t first = launch != nullptr ? first_captured(facts.process(p), launch->graph) : i;
  const Seat seat =
      first == kNoRecord ? Seat{} : facts.index.seat(p, facts.index.op(p, first).comm);
  if (seat.group == kNone || seat.member == kNone) {
    peers.is_complete = false;
    peers.is_unknown = true;
    return peers;
  }
  const Op& op = facts.index.op(p, first);
  const Group& group = facts.group(seat.group);
  if (!is_collective(op.kind)) {
    add_partner(facts, p, op, launch, peers);
    return peers;
  }
  peers.is_complete = group.is_whole();
  peers.has_strangers = !group.is_whole();
  for (const Member& member : group.members) {
    if (member.process == p) continue;
    if (member.lane.has(op.seq)) {
      add_peer(facts, member.process, member.lane.at(op.seq), launch, peers);
      continue;
    }
    peers.is_complete = false;
    const uint64_t torn = facts.process(member.process).torn;
    peers.is_owed = peers.is_owed || member.lane.called + torn <= op.seq;
    peers.has_strangers = peers.has_strangers || torn != 0;
  }
  return peers;
}

}  // namespace rollcall::analysis
