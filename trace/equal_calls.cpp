#include "trace/equal_calls.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "trace/packed_calls.h"

namespace rollcall::trace {
namespace {

constexpr unsigned kBlockShift = 6;  // 64 positions
constexpr uint64_t kTailMin = 64;
// Of a process's calls around a block, and of those of a block, which may lie far apart.
constexpr uint64_t kTicketsAround = 128;
constexpr uint64_t kBlockTicketsMax = 4096;
// Of one communicator.
constexpr size_t kPlacesMax = 256;
// The number comes from a file: what is allocated by it is bounded.
constexpr uint64_t kSkippedMax = 1u << 22;

constexpr uint64_t mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9fb21c651e98df25;
  return state ^ state >> 32;
}

// What must agree between the ranks of a collective, or between both ends of a transfer.
uint64_t digest_of(const CallShape& shape, const PackedCall& call) {
  uint64_t small = uint64_t{shape.datatype};
  if (is_collective(shape.kind)) {
    small |= static_cast<uint64_t>(shape.kind) << 8 | uint64_t{shape.reduction} << 16 |
             uint64_t{static_cast<uint32_t>(shape.root_or_peer)} << 32;
  }
  return mix(mix(small, call.count), call.position);
}

// The tracks of a process by those of its packed calls.
class TrackFinder {
 public:
  TrackFinder(const Process& process, CallMarks& marks) : process_(process), marks_(marks) {
    // Also those of which the process called nothing: others may have.
    for (uint32_t c = 0; c < process.comms.size(); ++c) {
      if (process.comms[c].key.is_null()) continue;
      by_number_.emplace(c, marks_.tracks.size());
      CallTrack& track = marks_.tracks.emplace_back();
      track.key = process.comms[c].key;
      track.comm = c;
    }
    const std::vector<CallShape>& shapes = process.packed->shapes();
    for (const CallShape& shape : shapes) of_shape_.push_back(find(shape));
  }
  // Null: compared with nobody's.
  CallTrack* at(uint32_t shape) {
    return of_shape_[shape] == kNone ? nullptr : &marks_.tracks[of_shape_[shape]];
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  size_t find(const CallShape& shape) {
    const Comm& comm = process_.comms[shape.comm];
    const bool is_transfer = is_p2p(shape.kind);
    if (comm.key.is_null() || (!is_transfer && !is_collective(shape.kind))) return kNone;
    if (is_transfer && (comm.rank < 0 || shape.root_or_peer < 0)) return kNone;
    const auto [known, is_new] = by_number_.try_emplace(shape.track, marks_.tracks.size());
    if (!is_new) return known->second;
    CallTrack& track = marks_.tracks.emplace_back();
    const bool is_send = shape.kind == OpKind::Send;
    track.key = comm.key;
    track.comm = shape.comm;
    track.source = is_send ? comm.rank : shape.root_or_peer;
    track.target = is_send ? shape.root_or_peer : comm.rank;
    return known->second;
  }

  const Process& process_;
  CallMarks& marks_;
  std::vector<size_t> of_shape_;
  std::map<uint32_t, size_t> by_number_;
};

// A track of one process.
struct Member {
  size_t process = 0;
  const CallTrack* track = nullptr;
};

// Whether all have a block of that number, the same one. Moves on those that have it.
bool take_block(uint64_t number, std::span<const Member> members, std::vector<size_t>& at) {
  bool is_equal = true;
  const CallBlock* first = nullptr;
  for (size_t m = 0; m < members.size(); ++m) {
    const std::vector<CallBlock>& blocks = members[m].track->blocks;
    const bool has_it = at[m] < blocks.size() && blocks[at[m]].number == number;
    if (!has_it) {
      is_equal = false;
      continue;
    }
    const CallBlock& block = blocks[at[m]++];
    if (first == nullptr) first = &block;
    is_equal = is_equal && block.digest == first->digest && block.calls == first->calls;
  }
  return is_equal;
}

// Numbers of the blocks with which members begin to differ.
std::vector<uint64_t> places_of_difference(std::span<const Member> members) {
  std::vector<uint64_t> places;
  std::vector<size_t> at(members.size(), 0);
  // What nobody receives, as far as is on file.
  const bool is_one_sided = members.size() == 1 && members[0].track->source >= 0;
  if (is_one_sided && !members[0].track->blocks.empty()) {
    places.push_back(members[0].track->blocks.front().number);
    return places;
  }
  for (bool was_equal = true; places.size() < kPlacesMax;) {
    uint64_t number = UINT64_MAX;
    for (size_t m = 0; m < members.size(); ++m) {
      const std::vector<CallBlock>& blocks = members[m].track->blocks;
      if (at[m] < blocks.size()) number = std::min(number, blocks[at[m]].number);
    }
    if (number == UINT64_MAX) break;
    const bool is_equal = take_block(number, members, at);
    if (was_equal && !is_equal) places.push_back(number);
    was_equal = is_equal;
  }
  return places;
}

// The tickets of the block of that number, and of the one in front of it.
TicketRange range_around(const CallTrack& track, uint64_t number) {
  const auto behind =
      std::upper_bound(track.blocks.begin(), track.blocks.end(), number,
                       [](uint64_t value, const CallBlock& block) { return value < block.number; });
  if (behind == track.blocks.begin()) return {.begin = 0, .end = 0};
  const CallBlock& block = *(behind - 1);
  const uint64_t last = block.first_ticket + kBlockTicketsMax;
  const uint64_t end = behind == track.blocks.end() ? last : std::min(behind->first_ticket, last);
  const CallBlock& before = behind - 1 == track.blocks.begin() ? block : *(behind - 2);
  const uint64_t reach = block.first_ticket - std::min(block.first_ticket, kBlockTicketsMax);
  const uint64_t begin = std::max(before.first_ticket, reach);
  return {.begin = begin - std::min(begin, kTicketsAround), .end = end + kTicketsAround};
}

// Afterwards rising and disjoint.
void merge(std::vector<TicketRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const TicketRange& a, const TicketRange& b) { return a.begin < b.begin; });
  std::vector<TicketRange> merged;
  for (const TicketRange& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  ranges = std::move(merged);
}

// Processes together hold the calls of a communicator, or of a channel.
using TrackKey = std::tuple<uint64_t, uint64_t, int32_t, int32_t>;

class Planner {
 public:
  explicit Planner(std::span<const CallMarks> marks) : marks_(marks), wanted_(marks.size()) {
    for (size_t p = 0; p < marks.size(); ++p) {
      for (const CallTrack& track : marks[p].tracks) {
        const TrackKey key{track.key.high, track.key.low, track.source, track.target};
        members_[key].push_back({p, &track});
      }
    }
  }

  std::vector<WantedCalls> plan(uint64_t calls_max) {
    for (const auto& [key, members] : members_) {
      std::vector<uint64_t> places = places_of_difference(members);
      if (places.empty()) {
        tell_equal(members);
      } else {
        differences_.push_back({&members, std::move(places)});
      }
    }
    want_differences(calls_max / 2);
    const uint64_t tail = std::max(kTailMin, calls_max / 2 / std::max<size_t>(marks_.size(), 1));
    for (size_t p = 0; p < marks_.size(); ++p) {
      const uint64_t next = marks_[p].calls + 1;
      wanted_[p].ranges.push_back({.begin = next > tail ? next - tail : 1, .end = UINT64_MAX});
      merge(wanted_[p].ranges);
    }
    return std::move(wanted_);
  }

 private:
  struct Difference {
    const std::vector<Member>* members = nullptr;
    std::vector<uint64_t> places;
  };

  // The first place of each communicator before the second of any.
  void want_differences(uint64_t calls_max) {
    uint64_t spent = 0;
    for (size_t nth = 0; nth < kPlacesMax; ++nth) {
      for (const Difference& difference : differences_) {
        if (nth >= difference.places.size()) continue;
        for (const Member& member : *difference.members) {
          const TicketRange range = range_around(*member.track, difference.places[nth]);
          if (range.end == 0) continue;
          spent += range.end - range.begin;
          wanted_[member.process].ranges.push_back(range);
        }
        if (spent >= calls_max) return;
      }
    }
  }

  void tell_equal(const std::vector<Member>& members) {
    uint64_t digest = 0;
    for (const CallBlock& block : members.front().track->blocks) digest = mix(digest, block.digest);
    for (const Member& member : members) {
      if (member.track->source >= 0) continue;
      std::vector<PrefixDigest>& digests = wanted_[member.process].digests;
      if (digests.size() <= member.track->comm) digests.resize(member.track->comm + 1);
      digests[member.track->comm] = {1, digest};
    }
  }

  std::span<const CallMarks> marks_;
  std::map<TrackKey, std::vector<Member>> members_;
  std::vector<Difference> differences_;
  std::vector<WantedCalls> wanted_;
};

Op op_of(const CallShape& shape, const PackedCall& call, uint64_t ticket) {
  Op op;
  op.ticket = ticket;
  op.seq = call.position;
  op.count = call.count;
  op.stream = shape.stream;
  op.root_or_peer = shape.root_or_peer;
  op.comm = shape.comm;
  op.thread = shape.thread;
  op.kind = shape.kind;
  op.datatype = shape.datatype;
  op.reduction = shape.reduction;
  op.state = OpState::called;
  return op;
}

uint64_t count_in(const std::vector<TicketRange>& ranges, uint64_t calls) {
  uint64_t count = 0;
  for (const TicketRange& range : ranges) {
    count +=
        std::min(range.end, calls + 1) - std::min(std::max<uint64_t>(range.begin, 1), calls + 1);
  }
  return count;
}

}  // namespace

CallMarks mark_calls(const Process& process) {
  CallMarks marks;
  if (process.packed == nullptr) return marks;
  marks.calls = process.packed->size();
  TrackFinder tracks(process, marks);
  PackedCall call;
  uint64_t ticket = 0;
  for (PackedCalls::Reader reader(*process.packed); reader.next(call);) {
    ++ticket;
    CallTrack* const track = tracks.at(call.shape);
    if (track == nullptr) continue;
    const uint64_t number = call.position >> kBlockShift;
    if (track->blocks.empty() || track->blocks.back().number != number) {
      track->blocks.push_back({.number = number, .calls = 0, .digest = 0, .first_ticket = ticket});
    }
    CallBlock& block = track->blocks.back();
    ++block.calls;
    block.digest = mix(block.digest, digest_of(process.packed->shapes()[call.shape], call));
  }
  return marks;
}

std::vector<WantedCalls> plan_calls(std::span<const CallMarks> marks, uint64_t calls_max) {
  return Planner(marks).plan(calls_max);
}

uint64_t calls_left_out(const WantedCalls& wanted, const CallMarks& marks) {
  return marks.calls - count_in(wanted.ranges, marks.calls);
}

void unpack_calls(const WantedCalls& wanted, Process& process) {
  if (process.packed == nullptr) return;
  const std::shared_ptr<const PackedCalls> packed = std::move(process.packed);
  process.ops.reserve(count_in(wanted.ranges, packed->size()));
  auto range = wanted.ranges.begin();
  PackedCall call;
  uint64_t ticket = 0;
  for (PackedCalls::Reader reader(*packed); reader.next(call);) {
    ++ticket;
    while (range != wanted.ranges.end() && ticket >= range->end) ++range;
    if (range == wanted.ranges.end()) break;
    if (ticket < range->begin) continue;
    process.ops.push_back(op_of(packed->shapes()[call.shape], call, ticket));
  }
  const uint64_t left_out = packed->size() - process.ops.size();
  process.skipped = std::min(left_out, kSkippedMax);
  if (left_out == 0) return;
  process.first_complete_ticket = wanted.ranges.back().begin;
  for (size_t c = 0; c < std::min(wanted.digests.size(), process.comms.size()); ++c) {
    Comm& comm = process.comms[c];
    if (wanted.digests[c].seq != 0) comm.digests = {{comm.collectives, wanted.digests[c].digest}};
  }
}

void unpack_all_calls(Process& process) {
  unpack_calls({.ranges = {{.begin = 1, .end = UINT64_MAX}}, .digests = {}}, process);
}

uint64_t packed_calls(std::span<const Process> processes) {
  uint64_t calls = 0;
  for (const Process& process : processes) {
    if (process.packed != nullptr) calls += process.packed->size();
  }
  return calls;
}

}  // namespace rollcall::trace
