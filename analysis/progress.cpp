#include "analysis/progress.h"

#include <algorithm>

#include "analysis/label.h"

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::OpState;
using trace::Process;

bool enqueues(const Op& op) { return is_collective(op.kind) || is_p2p(op.kind); }

bool pair_agrees(const Op& send, const Op& recv) {
  const bool counted = send.count != trace::kCountUnknown && recv.count != trace::kCountUnknown;
  if (counted && send.count != recv.count) return false;
  if (send.datatype == kUnknown8 || recv.datatype == kUnknown8) return true;
  return send.datatype == recv.datatype;
}

}  // namespace

Progress::Progress(const Index& index, const Options& options,
                   const std::vector<Difference>& mismatches)
    : index_(index), options_(options) {
  const size_t processes = index.run().processes.size();
  done_.resize(processes);
  active_.resize(processes);
  stream_of_.resize(processes);
  place_of_.resize(processes);
  streams_.resize(processes);
  waiting_.resize(processes);
  fill_streams();
  count_members(mismatches);
  for (const uint32_t p : index.active()) {
    for (uint32_t s = 0; s < streams_[p].size(); ++s) activate_front(p, s);
  }
  settle();
  for (const uint32_t p : index.active()) {
    const size_t count = index.run().processes[p].ops.size();
    for (uint32_t i = 0; i < count; ++i) {
      if (active_[p][i] == kActive && !done_[p][i]) waiting_[p].push_back(i);
    }
  }
}

void Progress::fill_streams() {
  std::unordered_map<uint64_t, uint32_t> numbers;
  for (const uint32_t p : index_.active()) {
    const Process& process = index_.run().processes[p];
    done_[p].assign(process.ops.size(), 0);
    active_[p].assign(process.ops.size(), kQueued);
    stream_of_[p].assign(process.ops.size(), kNone);
    place_of_[p].assign(process.ops.size(), 0);
    numbers.clear();
    for (uint32_t i = 0; i < process.ops.size(); ++i) {
      const Op& op = process.ops[i];
      const Seat seat = index_.seat(p, op.comm);
      const bool is_known = seat.member != kNone && index_.groups()[seat.group].may_be_matched;
      // What cannot be matched cannot be waited for; captured calls do not execute when called.
      if (!enqueues(op) || !is_known || op.graph != 0) {
        done_[p][i] = 1;
        continue;
      }
      // Who does not know the groups does not know the order on a stream either: only the
      // collectives of one communicator are then held to their order.
      const uint64_t apart = is_p2p(op.kind) ? process.comms.size() + i : op.comm;
      const uint64_t key = process.knowledge.groups ? op.stream : apart;
      const auto number =
          numbers.try_emplace(key, static_cast<uint32_t>(numbers.size())).first->second;
      if (number == streams_[p].size()) streams_[p].emplace_back();
      Stream& stream = streams_[p][number];
      stream_of_[p][i] = number;
      place_of_[p][i] = static_cast<uint32_t>(stream.queue.size());
      stream.queue.push_back(i);
    }
  }
}

// A collective can finish when every member whose record is on file has come to it, and none is
// known not to have called it.
void Progress::count_members(const std::vector<Difference>& mismatches) {
  pending_.resize(index_.groups().size());
  for (uint32_t g = 0; g < index_.groups().size(); ++g) {
    const Group& group = index_.groups()[g];
    Pending& pending = pending_[g];
    uint64_t base = ~uint64_t{0};
    uint64_t end = 0;
    for (const Member& member : group.members) {
      if (member.lane.ops.empty()) continue;
      base = std::min(base, member.lane.first);
      end = std::max(end, member.lane.end());
    }
    if (end == 0) continue;
    pending.base = base;
    pending.missing.assign(end - base, 0);
    for (const Member& member : group.members) {
      for (uint64_t i = 0; i < member.lane.ops.size(); ++i) {
        uint32_t& missing = pending.missing[member.lane.first + i - base];
        if (member.lane.ops[i] == kNoRecord || missing == kNever) continue;
        const Op& op = index_.op(member.process, member.lane.ops[i]);
        missing = op.state == OpState::failed ? kNever : missing + 1;
      }
    }
    for (uint64_t seq = std::max(base, group.shortest); seq < end; ++seq) {
      pending.missing[seq - base] = kNever;
    }
  }
  for (const Difference& mismatch : mismatches) {
    Pending& pending = pending_[mismatch.group];
    if (mismatch.seq - pending.base < pending.missing.size()) {
      pending.missing[mismatch.seq - pending.base] = kNever;
    }
  }
}

// The window at the front: one operation, or all of its group that follow each other on the stream.
void Progress::activate_front(uint32_t p, uint32_t s) {
  Stream& stream = streams_[p][s];
  stream.begin = stream.end;
  if (stream.begin == stream.queue.size()) return;
  const std::vector<Op>& ops = index_.run().processes[p].ops;
  const uint32_t group = ops[stream.queue[stream.begin]].group;
  stream.end = stream.begin + 1;
  while (group != 0 && stream.end < stream.queue.size() &&
         ops[stream.queue[stream.end]].group == group) {
    ++stream.end;
  }
  stream.left = stream.end - stream.begin;
  const size_t begin = stream.begin;
  const size_t end = stream.end;
  for (size_t i = begin; i < end; ++i) activate(p, streams_[p][s].queue[i]);
}

void Progress::activate(uint32_t p, uint32_t i) {
  active_[p][i] = kActive;
  const Op& op = index_.op(p, i);
  if (is_p2p(op.kind)) {
    activate_p2p(p, i);
    return;
  }
  const Seat seat = index_.seat(p, op.comm);
  Pending& pending = pending_[seat.group];
  // A duplicate of a position (a hostile file) has no counter of its own.
  const Lane& lane = index_.groups()[seat.group].members[seat.member].lane;
  if (!lane.has(op.seq) || lane.ops[op.seq - lane.first] != i) return;
  uint32_t& missing = pending.missing[op.seq - pending.base];
  if (missing == kNever) return;
  if (--missing == 0) finish_collective(seat.group, op.seq);
}

// True when the partner's record may have been there and is gone: the partner's file no longer
// reaches back to the time of this call, or shows later traffic of the same channel.
bool Progress::partner_is_forgotten(uint32_t p, const Op& op, const Channel& channel) const {
  const Seat seat = index_.seat(p, op.comm);
  const uint32_t m = index_.find_member(seat.group, op.root_or_peer);
  if (m == kNone) return true;  // no file: unknown is not "never"
  const bool is_send = op.kind == OpKind::Send;
  const std::vector<uint32_t>& theirs = is_send ? channel.recvs : channel.sends;
  const uint64_t first = is_send ? channel.first_recv : channel.first_send;
  if (!theirs.empty() && op.seq < first + theirs.size()) return true;
  const Process& partner = index_.run().processes[index_.groups()[seat.group].members[m].process];
  if (!partner.knowledge.head || !partner.knowledge.tells_absence()) return true;
  // A record that was torn when the process ended may be the one.
  const uint64_t end = theirs.empty() ? 0 : first + theirs.size();
  if (op.seq - end < partner.torn) return true;
  if (partner.first_complete_ticket <= 1 || !theirs.empty()) return false;
  return !partner.ops.empty() && op.called_ns < partner.ops.front().called_ns;
}

void Progress::activate_p2p(uint32_t p, uint32_t i) {
  const Op& op = index_.op(p, i);
  const Seat seat = index_.seat(p, op.comm);
  const int32_t mine = index_.groups()[seat.group].members[seat.member].rank;
  const bool is_send = op.kind == OpKind::Send;
  const uint32_t c = is_send ? index_.find_channel(seat.group, mine, op.root_or_peer)
                             : index_.find_channel(seat.group, op.root_or_peer, mine);
  if (c == kNone) return finish(p, i);  // a rank that no communicator has
  const Channel& channel = index_.channels()[c];
  const uint32_t other = is_send ? channel.recv_at(op.seq) : channel.send_at(op.seq);
  if (op.state == OpState::failed) return;
  if (other == kNoRecord) {
    if (partner_is_forgotten(p, op, channel)) return finish(p, i);
    if (is_send && bytes_of(op) <= options_.eager_bytes && op.group == 0) return finish(p, i);
    return;
  }
  const uint32_t m = index_.find_member(seat.group, op.root_or_peer);
  const uint32_t q = index_.groups()[seat.group].members[m].process;
  const Op& partner = index_.op(q, other);
  const bool agrees = pair_agrees(is_send ? op : partner, is_send ? partner : op);
  if (!agrees) {
    if (active_[q][other] != kActive) mismatched_pairs_.push_back({c, op.seq});
    return;
  }
  if (partner.state == OpState::failed) return;
  if (active_[q][other] == kActive) {
    finish(p, i);
    if (!done_[q][other]) finish(q, other);
  } else if (is_send && bytes_of(op) <= options_.eager_bytes && op.group == 0) {
    finish(p, i);
  }
}

void Progress::finish(uint32_t p, uint32_t i) {
  done_[p][i] = 1;
  const uint32_t s = stream_of_[p][i];
  if (s == kNone) return;
  if (--streams_[p][s].left == 0) ready_.emplace_back(p, s);
}

void Progress::finish_collective(uint32_t g, uint64_t seq) {
  for (const Member& member : index_.groups()[g].members) {
    if (member.lane.has(seq)) finish(member.process, member.lane.ops[seq - member.lane.first]);
  }
}

void Progress::settle() {
  while (!ready_.empty()) {
    const auto [p, s] = ready_.back();
    ready_.pop_back();
    activate_front(p, s);
  }
}

std::vector<uint32_t> Progress::in_front_of(uint32_t p, uint32_t i) const {
  std::vector<uint32_t> blockers;
  const uint32_t s = stream_of_[p][i];
  if (s == kNone || active_[p][i] == kActive) return blockers;
  const Stream& stream = streams_[p][s];
  for (size_t at = stream.begin; at < stream.end; ++at) {
    if (!done_[p][stream.queue[at]]) blockers.push_back(stream.queue[at]);
  }
  return blockers;
}

uint64_t Progress::first_unfinished(uint32_t g) const {
  const Group& group = index_.groups()[g];
  const Pending& pending = pending_[g];
  for (uint64_t i = 0; i < pending.missing.size(); ++i) {
    if (pending.missing[i] != 0) return pending.base + i;
  }
  return group.longest;
}

}  // namespace rollcall::analysis
