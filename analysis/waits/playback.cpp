#include "analysis/waits/playback.h"

#include <algorithm>
#include <optional>

#include "analysis/terms/calls.h"

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::OpState;
using trace::Process;

bool pair_agrees(const Op& send, const Op& recv) {
  const bool counted = send.count != trace::kCountUnknown && recv.count != trace::kCountUnknown;
  if (counted && send.count != recv.count) return false;
  if (send.datatype == kUnknown8 || recv.datatype == kUnknown8) return true;
  return send.datatype == recv.datatype;
}

}  // namespace

Playback::Playback(const Index& index, const Options& options,
                   const std::vector<Difference>& mismatches, StreamOrder stream_order)
    : index_(index), options_(options), stream_order_(stream_order) {
  const size_t processes = index.run().processes.size();
  slots_.resize(processes);
  streams_.resize(processes);
  waiting_.resize(processes);
  count_members(mismatches);
  fill_streams();
  for (const uint32_t p : index.active()) {
    for (uint32_t s = 0; s < streams_[p].size(); ++s) activate_front(p, s);
  }
  settle();
  for (const uint32_t p : index.active()) {
    const size_t count = index.run().processes[p].ops.size();
    for (uint32_t i = 0; i < count; ++i) {
      if (slots_[p][i].is_active && !slots_[p][i].is_done) waiting_[p].push_back(i);
    }
  }
}

// Where streams are taken as free the states are not looked at: most recorders have none.
bool Playback::is_on_file_as_finished(const Op& op) const {
  return stream_order_ == StreamOrder::chained && op.state == OpState::finished;
}

Playback::Slot Playback::make_slot(uint32_t p, uint32_t i) const {
  const Op& op = index_.op(p, i);
  Slot slot;
  slot.group = op.group;
  const Seat seat = index_.seat(p, op.comm);
  // What cannot be matched cannot be waited for; captured calls do not execute when called.
  const bool is_known = seat.member != kNone && index_.groups()[seat.group].may_be_matched;
  slot.is_done =
      !is_enqueued(op) || !is_known || index_.is_held(p, i) || is_on_file_as_finished(op);
  if (slot.is_done || !is_collective(op.kind)) return slot;
  // A position that is another call's, or that no call can have (a damaged or hostile file): it has
  // no counter of its own, and nobody waits for it.
  const Lane& lane = index_.groups()[seat.group].members[seat.member].lane;
  if (!lane.has(op.seq) || lane.at(op.seq) != i) {
    slot.is_done = true;
    return slot;
  }
  slot.counter = counter_of(seat.group, op.seq);
  return slot;
}

void Playback::fill_streams() {
  std::unordered_map<uint64_t, uint32_t> numbers;
  for (const uint32_t p : index_.active()) {
    const Process& process = index_.run().processes[p];
    slots_[p].reserve(process.ops.size());
    numbers.clear();
    for (uint32_t i = 0; i < process.ops.size(); ++i) {
      Slot& slot = slots_[p].emplace_back(make_slot(p, i));
      if (slot.is_done) continue;
      const bool is_chained = stream_order_ == StreamOrder::chained;
      const uint64_t key = is_chained ? chained_key(process, i) : stream_key(process, i);
      slot.stream = numbers.try_emplace(key, static_cast<uint32_t>(numbers.size())).first->second;
      if (slot.stream == streams_[p].size()) streams_[p].emplace_back();
      streams_[p][slot.stream].queue.push_back(i);
    }
  }
}

// The positions that some member has on file, as few stretches.
void Playback::make_counters(uint32_t g) {
  std::vector<std::pair<uint64_t, uint64_t>> stretches;
  for (const Member& member : index_.groups()[g].members) {
    member.lane.for_each_stretch([&](uint64_t first, std::span<const uint32_t> ops) {
      stretches.emplace_back(first, first + ops.size());
    });
  }
  std::sort(stretches.begin(), stretches.end());
  std::vector<Pending>& pending = pending_[g];
  for (const auto& [begin, end] : stretches) {
    if (pending.empty() || begin > pending.back().base + pending.back().count) {
      pending.push_back({begin, 0, 0});
    }
    pending.back().count = std::max(pending.back().count, end - pending.back().base);
  }
  for (Pending& stretch : pending) {
    stretch.first = missing_.size();
    missing_.resize(missing_.size() + stretch.count, 0);
  }
}

// kNone where no member has that position on file.
uint32_t Playback::counter_of(uint32_t g, uint64_t seq) const {
  const std::vector<Pending>& stretches = pending_[g];
  auto found = std::upper_bound(stretches.begin(), stretches.end(), seq,
                                [](uint64_t a, const Pending& b) { return a < b.base; });
  if (found == stretches.begin() || seq - (--found)->base >= found->count) return kNone;
  return static_cast<uint32_t>(found->first + (seq - found->base));
}

// By position: each of these is one of the members' records still to come.
void Playback::count_member(uint32_t p, std::span<const uint32_t> ops, uint32_t* counters) const {
  for (size_t i = 0; i < ops.size(); ++i) {
    uint32_t& missing = counters[i];
    if (ops[i] == kNoRecord || missing == kNever) continue;
    const Op& op = index_.op(p, ops[i]);
    // Nobody waits for it there any more.
    if (is_on_file_as_finished(op)) continue;
    const bool is_missing = op.state == OpState::failed || index_.is_held(p, ops[i]);
    missing = is_missing ? kNever : missing + 1;
  }
}

// A collective can finish when every member whose record is on file has come to it, and none is
// known not to have called it.
void Playback::count_members(const std::vector<Difference>& mismatches) {
  pending_.resize(index_.groups().size());
  for (uint32_t g = 0; g < index_.groups().size(); ++g) {
    const Group& group = index_.groups()[g];
    make_counters(g);
    for (const Member& member : group.members) {
      member.lane.for_each_stretch([&](uint64_t first, std::span<const uint32_t> ops) {
        count_member(member.process, ops, &missing_[counter_of(g, first)]);
      });
    }
    for (const Pending& pending : pending_[g]) {
      const uint64_t never = std::max(pending.base, group.shortest) - pending.base;
      for (uint64_t i = never; i < pending.count; ++i) missing_[pending.first + i] = kNever;
    }
  }
  for (const Difference& mismatch : mismatches) {
    const uint32_t counter = counter_of(mismatch.group, mismatch.seq);
    if (counter != kNone) missing_[counter] = kNever;
  }
}

// The window at the front: one operation, or all of its group that follow each other on the stream.
void Playback::activate_front(uint32_t p, uint32_t s) {
  Stream& stream = streams_[p][s];
  stream.begin = stream.end;
  if (stream.begin == stream.queue.size()) return;
  const std::vector<Slot>& slots = slots_[p];
  const uint32_t group = slots[stream.queue[stream.begin]].group;
  stream.end = stream.begin + 1;
  while (group != 0 && stream.end < stream.queue.size() &&
         slots[stream.queue[stream.end]].group == group) {
    ++stream.end;
  }
  stream.left = stream.end - stream.begin;
  const size_t begin = stream.begin;
  const size_t end = stream.end;
  for (size_t i = begin; i < end; ++i) activate(p, streams_[p][s].queue[i]);
}

void Playback::activate(uint32_t p, uint32_t i) {
  Slot& slot = slots_[p][i];
  slot.is_active = true;
  if (slot.counter != kNone) {
    uint32_t& missing = missing_[slot.counter];
    if (missing == kNever || --missing != 0) return;
    const Op& op = index_.op(p, i);
    finish_collective(index_.seat(p, op.comm).group, op.seq);
    return;
  }
  const Op& op = index_.op(p, i);
  if (is_p2p(op.kind)) activate_p2p(p, i);
  if (op.kind == OpKind::WaitSignal) activate_wait(p, i);
  if (op.kind == OpKind::Signal || op.kind == OpKind::PutSignal) activate_signal(p, i);
}

// True when the partner's record may have been there and is gone: the partner's file no longer
// reaches back to the time of this call, or shows later traffic of the same channel.
bool Playback::partner_is_forgotten(uint32_t p, const Op& op, const Channel& channel) const {
  const uint64_t seq = op.kind == OpKind::WaitSignal ? last_awaited(op).value_or(op.seq) : op.seq;
  const Seat seat = index_.seat(p, op.comm);
  const uint32_t m = index_.find_member(seat.group, op.root_or_peer);
  if (m == kNone) return true;  // no file: unknown is not "never"
  const bool is_send = is_source(op.kind);
  const std::vector<uint32_t>& theirs = is_send ? channel.recvs : channel.sends;
  const uint64_t first = is_send ? channel.first_recv : channel.first_send;
  if (!theirs.empty() && seq < first + theirs.size()) return true;
  const Process& partner = index_.run().processes[index_.groups()[seat.group].members[m].process];
  if (!partner.knowledge.head || !partner.knowledge.tells_absence()) return true;
  // A record that was torn when the process ended may be the one.
  const uint64_t end = theirs.empty() ? 0 : first + theirs.size();
  if (seq - end < partner.torn) return true;
  if (partner.first_complete_ticket <= 1 || !theirs.empty()) return false;
  // What was captured is on file from long before.
  const auto oldest = std::find_if(partner.ops.begin(), partner.ops.end(), [&](const Op& other) {
    return other.ticket >= partner.first_complete_ticket;
  });
  return oldest != partner.ops.end() && op.called_ns < oldest->called_ns;
}

void Playback::activate_p2p(uint32_t p, uint32_t i) {
  const Op& op = index_.op(p, i);
  const bool is_send = op.kind == OpKind::Send;
  const auto [q, other] = index_.partner_of(p, op);
  if (other == kNoRecord) {
    const uint32_t c = index_.channel_of(p, op);
    if (c == kNone) return finish(p, i);  // a rank that no communicator has
    if (op.state == OpState::failed) return;
    if (partner_is_forgotten(p, op, index_.channels()[c])) return finish(p, i);
    if (is_send && bytes_of(op) <= options_.eager_bytes && op.group == 0) return finish(p, i);
    return;
  }
  if (op.state == OpState::failed) return;
  const Op& partner = index_.op(q, other);
  const bool agrees = pair_agrees(is_send ? op : partner, is_send ? partner : op);
  if (!agrees) {
    if (!slots_[q][other].is_active) {
      mismatched_pairs_.push_back({index_.channel_of(p, op), op.seq});
    }
    return;
  }
  if (partner.state == OpState::failed) return;
  const bool has_come = slots_[q][other].is_active || is_on_file_as_finished(partner);
  if (has_come && !index_.is_held(q, other)) {
    finish(p, i);
    if (!slots_[q][other].is_done) finish(q, other);
  } else if (is_send && bytes_of(op) <= options_.eager_bytes && op.group == 0) {
    finish(p, i);
  }
}

// A signal waits for nobody. It may be the one that a wait of the other rank is missing.
void Playback::activate_signal(uint32_t p, uint32_t i) {
  finish(p, i);
  const Op& op = index_.op(p, i);
  const auto [q, wait] = index_.partner_of(p, op);
  if (op.state == OpState::failed || wait == kNoRecord) return;
  if (!slots_[q][wait].is_active || slots_[q][wait].is_done) return;
  activate_wait(q, wait);
}

void Playback::activate_wait(uint32_t p, uint32_t i) {
  if (owed_signal(p, i).process == kNone) finish(p, i);
}

// Signals are sent on several streams: the last one may be through before the others.
OpRef Playback::owed_signal(uint32_t p, uint32_t i) const {
  const Op& op = index_.op(p, i);
  const uint32_t c = index_.channel_of(p, op);
  const std::optional<uint64_t> last = last_awaited(op);
  if (c == kNone || !last || !index_.channels()[c].is_counted) return {};
  const Channel& channel = index_.channels()[c];
  const auto [q, newest] = index_.partner_of(p, op);
  if (newest == kNoRecord && partner_is_forgotten(p, op, channel)) return {};
  const uint64_t end = channel.first_send + channel.sends.size();
  for (uint64_t seq = std::max(op.seq, channel.first_send); seq <= *last && seq < end; ++seq) {
    const uint32_t signal = channel.send_at(seq);
    if (signal == kNoRecord) continue;
    const bool is_sent = slots_[q][signal].is_done && !index_.is_held(q, signal) &&
                         index_.op(q, signal).state != OpState::failed;
    if (!is_sent) return {q, signal};
  }
  return newest == kNoRecord ? OpRef{q, kNoRecord} : OpRef{};
}

void Playback::finish(uint32_t p, uint32_t i) {
  slots_[p][i].is_done = true;
  const uint32_t s = slots_[p][i].stream;
  if (s == kNone) return;
  if (--streams_[p][s].left == 0) ready_.emplace_back(p, s);
}

void Playback::finish_collective(uint32_t g, uint64_t seq) {
  for (const Member& member : index_.groups()[g].members) {
    if (member.lane.has(seq)) finish(member.process, member.lane.at(seq));
  }
}

void Playback::settle() {
  while (!ready_.empty()) {
    const auto [p, s] = ready_.back();
    ready_.pop_back();
    activate_front(p, s);
  }
}

uint32_t Playback::stream_behind(uint32_t p, uint32_t i) const {
  return slots_[p][i].is_active ? kNone : slots_[p][i].stream;
}

std::vector<uint32_t> Playback::in_front_of(uint32_t p, uint32_t i) const {
  std::vector<uint32_t> blockers;
  const uint32_t s = stream_behind(p, i);
  if (s == kNone) return blockers;
  const Stream& stream = streams_[p][s];
  for (size_t at = stream.begin; at < stream.end; ++at) {
    if (!slots_[p][stream.queue[at]].is_done) blockers.push_back(stream.queue[at]);
  }
  return blockers;
}

}  // namespace rollcall::analysis
