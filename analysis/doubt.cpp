#include "analysis/doubt.h"

#include <algorithm>

namespace rollcall::analysis {
namespace {

using trace::Op;
using trace::Process;

bool has_unknown_members(const Group& group) {
  return group.may_be_matched && group.nranks >= 0 && !group.is_whole();
}

}  // namespace

Doubt::Doubt(const Index& index, const Progress& progress) : index_(index), progress_(progress) {
  const auto& groups = index.groups();
  if (std::none_of(groups.begin(), groups.end(), has_unknown_members)) return;
  streams_.resize(index.run().processes.size());
  places_.resize(index.run().processes.size());
  for (const uint32_t p : index.active()) fill(p);
  for (const uint32_t p : index.active()) {
    for (uint32_t s = 0; s < streams_[p].size(); ++s) {
      const std::vector<uint32_t>& ops = streams_[p][s].ops;
      size_t proved = ops.size();
      while (proved > 0 && !is_proof(p, ops[proved - 1])) --proved;
      raise(p, s, proved);
    }
  }
  spread();
}

void Doubt::fill(uint32_t p) {
  const Process& process = index_.run().processes[p];
  places_[p].resize(process.ops.size());
  std::unordered_map<uint64_t, uint32_t> numbers;
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    if ((!is_collective(op.kind) && !is_p2p(op.kind)) || op.graph != 0) continue;
    // As the progress has it: who does not know the groups does not know the streams' order.
    const uint64_t apart = is_p2p(op.kind) ? process.comms.size() + i : op.comm;
    const uint64_t key = process.knowledge.groups ? op.stream : apart;
    const auto [slot, is_new] = numbers.try_emplace(key, static_cast<uint32_t>(numbers.size()));
    if (is_new) streams_[p].emplace_back();
    Stream& stream = streams_[p][slot->second];
    places_[p][i] = {slot->second, static_cast<uint32_t>(stream.ops.size())};
    stream.ops.push_back(i);
  }
}

bool Doubt::is_shared_with_unknown(uint32_t p, uint32_t i) const {
  const Op& op = index_.op(p, i);
  const Seat seat = index_.seat(p, op.comm);
  if (seat.group == kNone || !has_unknown_members(index_.groups()[seat.group])) return false;
  return !is_p2p(op.kind) || index_.find_member(seat.group, op.root_or_peer) == kNone;
}

// Finished, and with everybody who takes part on file.
bool Doubt::is_proof(uint32_t p, uint32_t i) const {
  if (!progress_.is_done(p, i) || is_shared_with_unknown(p, i)) return false;
  const Op& op = index_.op(p, i);
  const Seat seat = index_.seat(p, op.comm);
  if (seat.group == kNone || seat.member == kNone) return false;
  if (is_collective(op.kind)) return true;
  // A send may have been buffered; a receive cannot finish before its send was made.
  if (op.kind != OpKind::Recv) return false;
  const int32_t mine = index_.groups()[seat.group].members[seat.member].rank;
  const uint32_t channel = index_.find_channel(seat.group, op.root_or_peer, mine);
  return channel != kNone && index_.channels()[channel].send_at(op.seq) != kNoRecord;
}

void Doubt::raise(uint32_t p, uint32_t s, size_t proved) {
  Stream& stream = streams_[p][s];
  if (proved <= stream.proved) return;
  raised_.push_back({p, s, stream.proved});
  stream.proved = proved;
}

// A collective that finished on one rank was made by all of them, so what stands in front of it on
// theirs has finished too.
void Doubt::spread() {
  while (!raised_.empty()) {
    const Raised raised = raised_.back();
    raised_.pop_back();
    const size_t end = streams_[raised.process][raised.stream].proved;
    for (size_t at = raised.from; at < end; ++at) {
      const uint32_t i = streams_[raised.process][raised.stream].ops[at];
      const Op& op = index_.op(raised.process, i);
      if (!is_collective(op.kind) || !is_shared_with_unknown(raised.process, i)) continue;
      const Seat seat = index_.seat(raised.process, op.comm);
      for (const Member& member : index_.groups()[seat.group].members) {
        if (!member.lane.has(op.seq)) continue;
        const Place place = places_[member.process][member.lane.ops[op.seq - member.lane.first]];
        if (place.stream != kNone) raise(member.process, place.stream, place.position + 1);
      }
    }
  }
}

bool Doubt::may_wait_for_unknown(uint32_t p) const {
  if (streams_.empty()) return false;
  return std::any_of(streams_[p].begin(), streams_[p].end(), [&](const Stream& stream) {
    const auto behind = stream.ops.begin() + static_cast<ptrdiff_t>(stream.proved);
    return std::any_of(behind, stream.ops.end(),
                       [&](uint32_t i) { return is_shared_with_unknown(p, i); });
  });
}

}  // namespace rollcall::analysis
