#include "trace/import/call_numbering.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "core/base/limits.h"

namespace rollcall::trace {
namespace {

constexpr auto kRanks = static_cast<int32_t>(kRanksMax);

class Numbering {
 public:
  Numbering(const LoggedCalls& calls, Process& process)
      : calls_(calls), process_(process), tracks_(process.comms.size()) {
    for (const Comm& comm : process.comms) {
      if (comm.parent != kCommUnknown) parents_.insert(comm.parent);
    }
  }

  void number() {
    PackedCall call;
    for (PackedCalls::Reader reader(calls_.packed); reader.next(call);) {
      const CallShape& shape = calls_.packed.shapes()[call.shape];
      Track& track = tracks_[shape.comm];
      track.moves = track.moves || call.position != 0;
      track.has_transfers = track.has_transfers || is_p2p(shape.kind);
    }
    auto kept = std::make_shared<PackedCalls>();
    bool are_all_placed = !calls_.packed.empty();
    uint64_t index = 0;
    for (PackedCalls::Reader reader(calls_.packed); reader.next(call); ++index) {
      const CallShape& shape = calls_.packed.shapes()[call.shape];
      are_all_placed = are_all_placed && tracks_[shape.comm].moves;
      place(index, call, shape, *kept);
    }
    const bool is_cut = std::any_of(tracks_.begin(), tracks_.end(),
                                    [](const Track& track) { return track.is_lost; });
    if (is_cut) process_.knowledge.tail = false;
    if (calls_.hole != kNoHole) process_.knowledge.small_calls = false;
    process_.knowledge.losses_show = are_all_placed;
    process_.next_ticket = kept->size() + 1;
    process_.packed = std::move(kept);
  }

 private:
  struct Track {
    bool moves = false;  // opCount says where a call belongs
    bool has_transfers = false;
    bool is_placed = false;  // some call of it is
    bool is_lost = false;    // nothing more of it can be placed
    uint64_t next = 0;       // position of the next collective
    uint64_t count = 0;      // the last opCount
    uint64_t calls = 0;      // that had it
  };

  // The sends or receives of one communicator with one peer.
  using Transfers = std::tuple<uint32_t, int32_t, bool>;
  struct Counted {
    uint32_t track = 0;
    uint64_t next = 0;
  };

  void place(uint64_t index, const PackedCall& call, const CallShape& shape, PackedCalls& kept) {
    Comm& comm = process_.comms[shape.comm];
    Track& track = tracks_[shape.comm];
    // One line that stands in the log twice.
    const bool is_doubled = track.moves && track.is_placed && call.is_marked;
    if (track.is_lost || is_doubled) return;
    if (!track.moves ? index >= calls_.hole : !follow(call.position, track, shape.comm)) {
      track.is_lost = true;
      return;
    }
    if (is_collective(shape.kind)) {
      keep(shape, shape.comm, call.count, track.next++, kept);
      comm.collectives = track.next;
    } else if (is_p2p(shape.kind)) {
      if (index >= calls_.hole || comm.is_told_only) return;
      const bool is_send = shape.kind == OpKind::Send;
      Counted& counted = transfers_of({shape.comm, shape.root_or_peer, is_send});
      keep(shape, counted.track, call.count, counted.next++, kept);
      ++(is_send ? comm.sends : comm.recvs);
    } else {
      keep(shape, shape.comm, call.count, 0, kept);
    }
  }

  Counted& transfers_of(const Transfers& transfers) {
    const auto fresh = static_cast<uint32_t>(tracks_.size() + transfers_.size());
    return transfers_.try_emplace(transfers, Counted{fresh, 0}).first->second;
  }

  static void keep(const CallShape& shape, uint32_t track, uint64_t count, uint64_t seq,
                   PackedCalls& kept) {
    CallShape numbered = shape;
    numbered.track = track;
    // What a job cannot have as a rank.
    const bool is_rank = shape.root_or_peer >= 0 && shape.root_or_peer < kRanks;
    if (!is_rank) numbered.root_or_peer = -1;
    kept.add(numbered, count, seq);
  }

  // False where the place of the call is not known. Calls of a group share a number; the one behind
  // them may be as much higher as they are. A communicator that was split may share its counter
  // with its children: what is missing between its numbers may be theirs.
  bool follow(uint64_t count, Track& track, uint32_t index) {
    Comm& comm = process_.comms[index];
    const bool is_first = !track.is_placed;
    const bool jumps =
        is_first ? count > 0 : count > track.count && count - track.count > track.calls;
    if (!is_first && count < track.count) return false;
    // NCCL itself may have made the first call of a communicator.
    const bool is_whole = is_first && is_announced(comm) && count <= 1;
    if (jumps && is_whole) {
      track.next = count;
    } else if (jumps) {
      comm.is_told_only = true;
      if (track.has_transfers) return false;
      if (comm.is_counted_only || (!is_first && is_of_family(index))) return false;
      if (!is_first) process_.knowledge.small_calls = false;
      if (is_first && !is_announced(comm)) process_.knowledge.head = false;
      track.next = count;
    } else if (count != track.count || is_first) {
      // A number that several calls have, and that rises by less than they are.
      if (count < track.next) comm.is_counted_only = true;
    }
    if (comm.is_counted_only && comm.is_told_only) return false;
    track.is_placed = true;
    track.calls = is_first || count != track.count ? 1 : track.calls + 1;
    track.count = count;
    return true;
  }

  bool is_of_family(uint32_t index) const {
    return process_.comms[index].origin == CommOrigin::split || parents_.contains(index);
  }
  static bool is_announced(const Comm& comm) { return comm.origin != CommOrigin::unknown; }

  const LoggedCalls& calls_;
  Process& process_;
  std::vector<Track> tracks_;   // by communicator
  std::set<uint32_t> parents_;  // communicators that were split
  std::map<Transfers, Counted> transfers_;
};

}  // namespace

void number_calls(LoggedCalls&& calls, Process& process) {
  Numbering(calls, process).number();
  calls = {};
}

}  // namespace rollcall::trace
