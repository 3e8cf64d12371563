#include "analysis/facts.h"

#include <algorithm>

namespace rollcall::analysis {

using trace::Comm;
using trace::Event;
using trace::Process;

int result_of(const trace::Event& event) {
  return event.kind == EventKind::AsyncError ? static_cast<int>(event.arguments[1]) : event.result;
}

bool is_teardown(EventKind kind) {
  return kind == EventKind::CommDestroy || kind == EventKind::CommFinalize ||
         kind == EventKind::CommAbort;
}

const Comm* comm_of(const Facts& facts, uint32_t p, uint32_t g) {
  const Process& process = facts.process(p);
  for (uint32_t i = 0; i < process.comms.size(); ++i) {
    if (facts.index.seat(p, i).group == g) return &process.comms[i];
  }
  return nullptr;
}

const Event* end_before_wait(const Facts& facts, uint32_t p, uint32_t g) {
  const Process& process = facts.process(p);
  const Comm* comm = comm_of(facts, p, g);
  if (comm == nullptr || comm->ended_ns == 0) return nullptr;
  // Who aborts behind others follows them.
  const bool is_own_end =
      comm->state != CommState::aborted || comm->ended_ns <= facts.job.first_abort_ns;
  const std::vector<uint32_t>& waiting = facts.playback.waiting(p);
  const auto waits = std::find_if(waiting.begin(), waiting.end(), [&](uint32_t i) {
    return process.comms[facts.index.op(p, i).comm].ended_ns == 0;
  });
  const bool is_before =
      waits != waiting.end() && facts.index.op(p, *waits).called_ns > comm->ended_ns;
  if (!is_own_end || !is_before) return nullptr;
  const auto end =
      std::find_if(process.events.begin(), process.events.end(), [&](const Event& event) {
        return is_teardown(event.kind) && event.comm != kCommUnknown &&
               &process.comms[event.comm] == comm;
      });
  return end == process.events.end() ? nullptr : &*end;
}

uint32_t process_at(const Facts& facts, uint32_t g, int32_t rank) {
  const uint32_t m = facts.index.find_member(g, rank);
  return m == kNone ? kNone : facts.group(g).members[m].process;
}

std::vector<int32_t> ranks_without_member(const Group& group) {
  std::vector<bool> has_member(static_cast<size_t>(std::max(group.nranks, 0)));
  for (const Member& member : group.members) {
    if (member.rank >= 0 && member.rank < group.nranks) {
      has_member[static_cast<size_t>(member.rank)] = true;
    }
  }
  std::vector<int32_t> absent;
  for (int32_t rank = 0; rank < group.nranks; ++rank) {
    if (!has_member[static_cast<size_t>(rank)]) absent.push_back(rank);
  }
  return absent;
}

std::unordered_map<uint32_t, const Lane*> lanes_of(const Facts& facts, uint32_t p) {
  std::unordered_map<uint32_t, const Lane*> lanes;
  for (uint32_t comm = 0; comm < facts.process(p).comms.size(); ++comm) {
    const Seat seat = facts.index.seat(p, comm);
    if (seat.member != kNone)
      lanes[seat.group] = &facts.group(seat.group).members[seat.member].lane;
  }
  return lanes;
}

// Of a rank that waits in it where there is one: of that rank a finding speaks.
OpRef example_of(const Facts& facts, uint32_t n) {
  const Node& node = facts.graph.nodes()[n];
  if (node.kind == NodeKind::p2p) return {node.process, node.op};
  if (node.kind != NodeKind::collective) return {};
  OpRef example;
  for (const Member& member : facts.group(node.group).members) {
    if (!member.lane.has(node.seq)) continue;
    const OpRef call = {member.process, member.lane.at(node.seq)};
    // Sorted: they were found in the order of the processes.
    if (std::binary_search(node.callers.begin(), node.callers.end(), member.process)) return call;
    if (example.process == kNone) example = call;
  }
  return example;
}

EventKind creating_call(const Facts& facts, const Node& node) {
  if (facts.graph.creations()[node.creation].is_split) return EventKind::CommSplit;
  switch (facts.group(node.group).origin) {
    case CommOrigin::shrink:
      return EventKind::CommShrink;
    case CommOrigin::grow:
      return EventKind::CommGrow;
    default:
      return EventKind::CommInitRank;
  }
}

}  // namespace rollcall::analysis
