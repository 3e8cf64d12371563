#include "trace/equal_calls.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "trace/packed_calls.h"

namespace rollcall::trace {
namespace {

constexpr unsigned kBlockShift = 6;  // 64 positions
constexpr uint64_t kCallTailMin = 64;
// Of a process's calls around a block.
constexpr uint64_t kTicketsAround = 128;
// Calls of a block lie far apart where others come between: so many of these are unpacked with it
// in any case, and up to the share of its communicator in what may be held.
constexpr uint64_t kBlockTicketsMin = 4096;
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
  return mix(mix(mix(0, small), call.count), call.position);
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

// Blocks of one number after the other, of all members.
class BlockMerge {
 public:
  enum class State : uint8_t { equal, missing, differing };  // missing: those who have it agree

  explicit BlockMerge(std::span<const Member> members) : members_(members), at_(members.size(), 0) {
    for (size_t m = 0; m < members.size(); ++m) push(m);
  }
  bool is_through() const { return next_.empty(); }
  uint64_t number() const { return next_.top().first; }
  // Of the blocks of that number; goes on to the next one.
  State take() {
    const uint64_t of = number();
    const CallBlock* first = nullptr;
    bool is_equal = true;
    size_t present = 0;
    for (; !next_.empty() && next_.top().first == of; ++present) {
      const size_t m = next_.top().second;
      next_.pop();
      const CallBlock& block = members_[m].track->blocks[at_[m]++];
      if (first == nullptr) first = &block;
      is_equal = is_equal && block.digest == first->digest && block.calls == first->calls;
      push(m);
    }
    if (!is_equal) return State::differing;
    return present == members_.size() ? State::equal : State::missing;
  }

 private:
  using Next = std::pair<uint64_t, size_t>;  // number, member

  void push(size_t m) {
    const std::vector<CallBlock>& blocks = members_[m].track->blocks;
    if (at_[m] < blocks.size()) next_.emplace(blocks[at_[m]].number, m);
  }

  std::span<const Member> members_;
  std::vector<size_t> at_;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next_;
};

// Numbers of the blocks with which members begin to differ, one of them misses what others have, or
// those who are left begin to differ; kPlacesMax + 1 where there are more.
std::vector<uint64_t> places_of_difference(std::span<const Member> members) {
  std::vector<uint64_t> places;
  // What nobody receives, as far as is on file.
  const bool is_one_sided = members.size() == 1 && members[0].track->source >= 0;
  if (is_one_sided && !members[0].track->blocks.empty()) {
    places.push_back(members[0].track->blocks.front().number);
    return places;
  }
  BlockMerge blocks(members);
  for (auto was = BlockMerge::State::equal; !blocks.is_through() && places.size() <= kPlacesMax;) {
    const uint64_t number = blocks.number();
    const BlockMerge::State state = blocks.take();
    if (state > was) places.push_back(number);
    was = state;
  }
  return places;
}

// The tickets of the block of that number, and of the one in front of it; of each as many as
// `tickets_max`, and `is_cut` where that is not all of it.
// `calls`: of the process.
TicketRange range_around(const CallTrack& track, uint64_t calls, uint64_t number,
                         uint64_t tickets_max, bool& is_cut) {
  const auto behind =
      std::upper_bound(track.blocks.begin(), track.blocks.end(), number,
                       [](uint64_t value, const CallBlock& block) { return value < block.number; });
  if (behind == track.blocks.begin()) return {.begin = 0, .end = 0};
  const CallBlock& block = *(behind - 1);
  const uint64_t last = block.first_ticket + tickets_max;
  const uint64_t whole = behind == track.blocks.end() ? calls + 1 : behind->first_ticket;
  const uint64_t end = std::min(whole, last);
  is_cut = is_cut || whole > last;
  const CallBlock& before = behind - 1 == track.blocks.begin() ? block : *(behind - 2);
  const uint64_t reach = block.first_ticket - std::min(block.first_ticket, tickets_max);
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

class CallPlanner {
 public:
  explicit CallPlanner(std::span<const CallMarks> marks) : marks_(marks), wanted_(marks.size()) {
    for (size_t p = 0; p < marks.size(); ++p) {
      for (const CallTrack& track : marks[p].tracks) add({p, &track});
    }
  }

  CallPlan plan(uint64_t calls_max) {
    for (const auto& [key, members] : members_) {
      std::vector<uint64_t> places = places_of_difference(members);
      if (places.empty()) {
        tell_equal(members);
      } else {
        differences_.push_back({&members, std::move(places)});
      }
    }
    want_differences(calls_max / 2);
    const uint64_t tail =
        std::max(kCallTailMin, calls_max / 2 / std::max<size_t>(marks_.size(), 1));
    for (size_t p = 0; p < marks_.size(); ++p) {
      const uint64_t next = marks_[p].calls + 1;
      wanted_[p].ranges.push_back({.begin = next > tail ? next - tail : 1, .end = UINT64_MAX});
      merge(wanted_[p].ranges);
    }
    return {.wanted = std::move(wanted_), .leaves_out_places = leaves_out_places_};
  }

 private:
  void add(const Member& member) {
    const CallTrack& track = *member.track;
    std::vector<Member>& members =
        members_[TrackKey{track.key.high, track.key.low, track.source, track.target}];
    // A log may tell of the same communicator twice. Its calls are in one of the two.
    if (!members.empty() && members.back().process == member.process) {
      if (members.back().track->blocks.empty()) members.back() = member;
      if (track.blocks.empty() || members.back().track == &track) return;
    }
    members.push_back(member);
  }

  struct Difference {
    const std::vector<Member>* members = nullptr;
    std::vector<uint64_t> places;
  };

  // The first place of each communicator before the second of any.
  void want_differences(uint64_t calls_max) {
    uint64_t spent = 0;
    for (size_t nth = 0; nth <= kPlacesMax; ++nth) {
      for (const Difference& difference : differences_) {
        if (nth >= difference.places.size()) continue;
        if (nth == kPlacesMax || spent >= calls_max) {
          leaves_out_places_ = true;
          return;
        }
        const std::vector<Member>& members = *difference.members;
        const uint64_t tickets_max = std::max(
            kBlockTicketsMin, (calls_max - spent) / (members.size() * differences_.size()));
        for (const Member& member : members) {
          const TicketRange range =
              range_around(*member.track, marks_[member.process].calls, difference.places[nth],
                           tickets_max, leaves_out_places_);
          if (range.end == 0) continue;
          spent += range.end - range.begin;
          wanted_[member.process].ranges.push_back(range);
        }
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
  bool leaves_out_places_ = false;
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

CallPlan plan_calls(std::span<const CallMarks> marks, uint64_t calls_max) {
  return CallPlanner(marks).plan(calls_max);
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
