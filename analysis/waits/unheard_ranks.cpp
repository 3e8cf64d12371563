#include "analysis/waits/unheard_ranks.h"

#include <algorithm>

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::Process;

}  // namespace

UnheardRanks::UnheardRanks(const Index& index, const Playback& playback)
    : index_(index), playback_(playback) {
  const auto& groups = index.groups();
  find_torn();
  const bool is_torn = std::any_of(torn_.begin(), torn_.end(),
                                   [](const std::vector<uint32_t>& m) { return !m.empty(); });
  const bool is_sure = !is_torn && !index.has_uncounted_waits();
  if (is_sure && std::none_of(groups.begin(), groups.end(),
                              [](const Group& group) { return group.has_strangers(); })) {
    return;
  }
  streams_.resize(index.run().processes.size());
  places_.resize(index.run().processes.size());
  for (const uint32_t p : index.active()) fill(p);
  find_last_calls();
  is_behind_.resize(groups.size());
  for (const uint32_t p : index.active()) {
    for (uint32_t s = 0; s < streams_[p].size(); ++s) {
      const std::vector<uint32_t>& ops = streams_[p][s].ops;
      size_t proved = ops.size();
      while (proved > 0 && !is_proof(p, ops[proved - 1])) --proved;
      raise(p, s, proved);
    }
  }
  spread();
  for (const uint32_t p : index.active()) suspect_first(p);
  spread_suspicion();
}

// The first calls of a process that may stand because of a rank that is not on file.
void UnheardRanks::suspect_first(uint32_t p) {
  for (Stream& stream : streams_[p]) stream.suspect_from = stream.ops.size();
  for (const Stream& stream : streams_[p]) {
    const auto found =
        std::find_if(stream.ops.begin() + static_cast<ptrdiff_t>(stream.proved), stream.ops.end(),
                     [&](uint32_t i) { return is_shared_with_unknown(p, i); });
    if (found != stream.ops.end()) suspect(p, *found);
  }
}

void UnheardRanks::fill(uint32_t p) {
  const Process& process = index_.run().processes[p];
  places_[p].resize(process.ops.size());
  std::unordered_map<uint64_t, uint32_t> numbers;
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    if (!is_enqueued(process.ops[i])) continue;
    const auto [slot, is_new] =
        numbers.try_emplace(stream_key(process, i), static_cast<uint32_t>(numbers.size()));
    if (is_new) streams_[p].emplace_back();
    Stream& stream = streams_[p][slot->second];
    places_[p][i] = {slot->second, static_cast<uint32_t>(stream.ops.size())};
    stream.ops.push_back(i);
  }
}

void UnheardRanks::find_torn() {
  torn_.resize(index_.groups().size());
  for (size_t g = 0; g < torn_.size(); ++g) {
    const std::vector<Member>& members = index_.groups()[g].members;
    for (uint32_t m = 0; m < members.size(); ++m) {
      if (index_.run().processes[members[m].process].torn != 0) torn_[g].push_back(m);
    }
  }
}

void UnheardRanks::find_last_calls() {
  last_op_.assign(index_.run().processes.size(), kNoRecord);
  for (const uint32_t p : index_.active()) {
    for (const Stream& stream : streams_[p]) {
      if (stream.ops.empty()) continue;
      const uint32_t last = stream.ops.back();
      if (last_op_[p] == kNoRecord || last > last_op_[p]) last_op_[p] = last;
    }
  }
}

// The roles of the communicators on which members made their next collective behind this one.
const std::set<uint64_t>& UnheardRanks::roles_behind(uint32_t g, uint64_t seq) {
  const auto [slot, is_new] = roles_behind_.try_emplace({g, seq});
  if (!is_new) return slot->second;
  for (const Member& member : index_.groups()[g].members) {
    if (!member.lane.has(seq)) continue;
    const std::vector<trace::Op>& ops = index_.run().processes[member.process].ops;
    size_t next = member.lane.at(seq) + size_t{1};
    while (next < ops.size() && !(is_collective(ops[next].kind) && ops[next].graph == 0)) ++next;
    if (next == ops.size()) continue;
    const uint32_t group = index_.seat(member.process, ops[next].comm).group;
    if (group != kNone) slot->second.insert(index_.role_of(group));
  }
  return slot->second;
}

// Has another member of the communicator called what this one has not, or, behind the call that is
// this one's last, what this one has a communicator for? It has passed the place where this one
// stands.
bool UnheardRanks::is_behind(uint32_t g, const Member& member) {
  const Lane& lane = member.lane;
  const Process& process = index_.run().processes[member.process];
  // A record that was torn when the process ended may be the one.
  if (index_.groups()[g].longest > lane.called + process.torn) return true;
  if (lane.ops.empty() || last_op_[member.process] != lane.ops.back()) return false;
  const std::set<uint64_t>& behind = roles_behind(g, lane.end() - 1);
  for (uint32_t i = 0; i < process.comms.size(); ++i) {
    const uint32_t group = index_.seat(member.process, i).group;
    if (group != kNone && behind.contains(index_.role_of(group))) return true;
  }
  return false;
}

bool UnheardRanks::is_shared_with_unknown(uint32_t p, uint32_t i) const {
  const Op& op = index_.op(p, i);
  const Seat seat = index_.seat(p, op.comm);
  if (seat.group == kNone) return false;
  const Group& group = index_.groups()[seat.group];
  if (op.kind == OpKind::Signal || op.kind == OpKind::PutSignal) return false;
  if (index_.is_uncounted_wait(p, op)) return true;
  if (group.has_strangers()) {
    if (is_collective(op.kind) || index_.find_member(seat.group, op.root_or_peer) == kNone)
      return true;
  }
  // The torn record may be that of this call, and may say that it was another one.
  if (!is_collective(op.kind)) {
    const auto [process, other] = index_.partner_of(p, op);
    return process != kNone && other == kNoRecord && index_.run().processes[process].torn != 0;
  }
  return std::any_of(torn_[seat.group].begin(), torn_[seat.group].end(), [&](uint32_t m) {
    return group.members[m].process != p && group.members[m].lane.end() <= op.seq;
  });
}

// If the process stands because a call has not finished, it stands where the program waits for its
// calls. A member that has passed that place has seen finish what it made before: all that it
// shares with this one.
bool UnheardRanks::is_proof(uint32_t p, uint32_t i) {
  const Op& op = index_.op(p, i);
  if (!is_collective(op.kind) || !playback_.is_done(p, i)) return false;
  const Seat seat = index_.seat(p, op.comm);
  if (seat.group == kNone || seat.member == kNone) return false;
  std::vector<Answer>& answers = is_behind_[seat.group];
  answers.resize(index_.groups()[seat.group].members.size());
  Answer& answer = answers[seat.member];
  if (answer == Answer::unknown) {
    const Member& member = index_.groups()[seat.group].members[seat.member];
    answer = is_behind(seat.group, member) ? Answer::yes : Answer::no;
  }
  return answer == Answer::yes;
}

void UnheardRanks::raise(uint32_t p, uint32_t s, size_t proved) {
  Stream& stream = streams_[p][s];
  if (proved <= stream.proved) return;
  raised_.push_back({p, s, stream.proved});
  stream.proved = proved;
}

// What finished on one rank had come to the front on all that take part: what stands before it on
// theirs has finished too.
void UnheardRanks::spread() {
  done_.assign(index_.groups().size(), 0);
  while (!raised_.empty()) {
    const Raised raised = raised_.back();
    raised_.pop_back();
    const size_t end = streams_[raised.process][raised.stream].proved;
    for (size_t at = raised.from; at < end; ++at) {
      const uint32_t i = streams_[raised.process][raised.stream].ops[at];
      const Op& op = index_.op(raised.process, i);
      if (is_collective(op.kind)) {
        spread_collective(index_.seat(raised.process, op.comm).group, op.seq);
      } else if (op.kind == OpKind::Recv) {
        const auto [process, send] = index_.partner_of(raised.process, op);
        if (send == kNoRecord) continue;
        const Place place = places_[process][send];
        if (place.stream != kNone) raise(process, place.stream, place.position + 1);
      }
    }
  }
}

// Once for every position: those of one communicator finish in order.
void UnheardRanks::spread_collective(uint32_t g, uint64_t seq) {
  if (g == kNone || seq < done_[g]) return;
  done_[g] = seq + 1;
  for (const Member& member : index_.groups()[g].members) {
    if (!member.lane.has(seq)) continue;
    const Place place = places_[member.process][member.lane.at(seq)];
    if (place.stream != kNone) raise(member.process, place.stream, place.position + 1);
  }
}

// And whatever is called behind it: the streams of a rank may wait for each other.
void UnheardRanks::suspect(uint32_t p, uint32_t i) {
  for (uint32_t s = 0; s < streams_[p].size(); ++s) {
    Stream& stream = streams_[p][s];
    const auto first = std::lower_bound(stream.ops.begin(), stream.ops.end(), i);
    const size_t from = std::max<size_t>(first - stream.ops.begin(), stream.proved);
    if (from >= stream.suspect_from) continue;
    suspected_.push_back({p, s, stream.suspect_from});
    stream.suspect_from = from;
  }
}

// Whoever shares a call with a rank that may not have come to it may stand in that call.
void UnheardRanks::suspect_partners(uint32_t p, uint32_t i) {
  const Op& op = index_.op(p, i);
  const Seat seat = index_.seat(p, op.comm);
  if (seat.group == kNone || seat.member == kNone) return;
  const Group& group = index_.groups()[seat.group];
  if (is_collective(op.kind)) {
    if (!asked_.emplace(seat.group, op.seq).second) return;
    for (const Member& member : group.members) {
      if (!member.lane.has(op.seq)) continue;
      suspect(member.process, member.lane.at(op.seq));
    }
    return;
  }
  // A signal waits for nobody.
  if (op.kind == OpKind::WaitSignal) return;
  // A receive waits for its send, and a wait for its signal. A send may have been buffered, but is
  // not known to have been.
  const auto [process, other] = index_.partner_of(p, op);
  if (other != kNoRecord) suspect(process, other);
}

void UnheardRanks::spread_suspicion() {
  while (!suspected_.empty()) {
    const Raised fresh = suspected_.back();
    suspected_.pop_back();
    for (size_t at = streams_[fresh.process][fresh.stream].suspect_from; at < fresh.from; ++at) {
      suspect_partners(fresh.process, streams_[fresh.process][fresh.stream].ops[at]);
    }
  }
}

bool UnheardRanks::may_wait_for_unknown(uint32_t p) const {
  if (streams_.empty()) return false;
  return std::any_of(streams_[p].begin(), streams_[p].end(),
                     [](const Stream& stream) { return stream.suspect_from < stream.ops.size(); });
}

}  // namespace rollcall::analysis
