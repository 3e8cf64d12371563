#include "analysis/record/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "analysis/terms/numbers.h"
#include "analysis/terms/ranks.h"

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Op;
using trace::Process;

// Numbers that no counter reaches: a damaged or hostile file.
constexpr uint64_t kSeqMax = uint64_t{1} << 62;

// A gap of so many positions costs less as two stretches.
constexpr uint64_t kGapMax = 8;
// Positions without a record that channels may have between their records, of all processes.
constexpr uint64_t kHolesMax = uint64_t{1} << 22;

// Each position without a record was a call of its own, left on disk, lost or not recorded.
uint64_t absent_calls(const Process& process) {
  uint64_t calls = 0;
  const auto add = [&](uint64_t more) { calls += std::min(more, kSeqMax / 64); };
  add(process.lost);
  add(process.skipped);
  for (const char* name : {"dropped_paused", "dropped_pinned", "dropped_off"}) {
    const auto found = process.statistics.find(name);
    if (found != process.statistics.end()) add(found->second);
  }
  return calls;
}

// Further apart than this no records of a counter lie.
uint64_t reach_of(const Process& process) {
  return 4 * (process.ops.size() + absent_calls(process)) + 64;
}

// The number of a record among its newest, which a damaged or hostile one does not choose. What was
// captured may lie far before the newest, and counts where there is nothing else.
uint64_t middle_of_newest(const Process& process, const std::vector<uint32_t>& ops) {
  constexpr size_t kNewest = 64;
  std::vector<uint64_t> numbers;
  for (const bool is_captured : {false, true}) {
    for (size_t i = ops.size(); i-- > 0 && numbers.size() < kNewest;) {
      const Op& op = process.ops[ops[i]];
      if ((op.graph != 0) == is_captured) numbers.push_back(std::min(op.seq, kSeqMax));
    }
    if (!numbers.empty()) break;
  }
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

// Takes out records whose numbers lie further than `reach` from the middle one of the newest: a
// damaged or hostile record may claim any.
uint64_t leave_out_far(const Process& process, uint64_t reach, std::vector<uint32_t>& ops) {
  if (ops.empty()) return 0;
  const uint64_t middle = middle_of_newest(process, ops);
  const uint64_t lowest = middle - std::min(middle, reach);
  const uint64_t highest = std::min(middle + reach, kSeqMax - 1);
  return std::erase_if(
      ops, [&](uint32_t i) { return process.ops[i].seq < lowest || process.ops[i].seq > highest; });
}

// `ops` in the order of the file; afterwards by position. How many were left out.
uint64_t lay_out(const Process& process, Lane& lane) {
  if (lane.ops.empty()) return 0;
  const uint64_t left_out = leave_out_far(process, reach_of(process), lane.ops);
  const auto seq_of = [&](uint32_t i) { return process.ops[i].seq; };
  const auto before = [&](uint32_t a, uint32_t b) { return seq_of(a) < seq_of(b); };
  if (!std::is_sorted(lane.ops.begin(), lane.ops.end(), before)) {
    std::stable_sort(lane.ops.begin(), lane.ops.end(), before);
  }
  std::vector<uint32_t> placed;
  placed.reserve(lane.ops.size());
  uint64_t next = lane.first = lane.ops.empty() ? 0 : seq_of(lane.ops.front());
  for (const uint32_t i : lane.ops) {
    const uint64_t seq = seq_of(i);
    if (seq + 1 == next) {  // two claim one position: the later record counts
      placed.back() = i;
      continue;
    }
    if (seq - next > kGapMax) {
      lane.stretches.push_back({seq, placed.size()});
    } else {
      placed.resize(placed.size() + (seq - next), kNoRecord);
    }
    placed.push_back(i);
    next = seq + 1;
  }
  lane.ops = std::move(placed);
  return left_out;
}

// Of one direction of a channel: its numbers without stretches, so that memory depends on what
// `holes` allows, of which it takes off what it used. What was captured before a larger gap is left
// out, and is not damaged.
uint64_t lay_out(const Process& process, std::vector<uint32_t>& ops, uint64_t& first,
                 uint64_t& holes) {
  if (ops.empty()) return 0;
  uint64_t left_out = leave_out_far(process, reach_of(process), ops);
  const uint64_t damaged = left_out;
  left_out += leave_out_far(process, holes + ops.size(), ops);
  if (ops.empty()) return damaged;
  first = kSeqMax;
  uint64_t last = 0;
  for (const uint32_t i : ops) {
    first = std::min(first, process.ops[i].seq);
    last = std::max(last, process.ops[i].seq);
  }
  std::vector<uint32_t> placed(last - first + 1, kNoRecord);
  for (const uint32_t i : ops) placed[process.ops[i].seq - first] = i;
  holes -= std::min<uint64_t>(holes, placed.size() - std::min(placed.size(), ops.size()));
  ops = std::move(placed);
  return process.lost + process.skipped == 0 ? left_out : damaged;
}

bool is_seated(const Comm& comm) {
  switch (comm.state) {
    case CommState::empty:
    case CommState::none:
      return false;
    default:
      return true;
  }
}

// PyTorch numbers its process groups, or names them by a digest, as those of a DeviceMesh: neither
// is a name in a sentence. The first digits are enough to find the group in a log.
std::string readable_name(const Index& index, const Group& group, const std::string& given) {
  constexpr size_t kDigestMin = 32;
  constexpr size_t kDigestShown = 8;
  if (given.empty() || given.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return given;
  }
  if (given.size() >= kDigestMin) {
    return fmt::format("group {} of {}", given.substr(0, kDigestShown),
                       processes_text(index.run(), group.processes()));
  }
  const bool is_number = given.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? "group " + given : given;
}

}  // namespace

std::vector<uint32_t> Group::processes(const std::vector<uint32_t>& chosen) const {
  std::vector<uint32_t> processes;
  processes.reserve(chosen.size());
  for (const uint32_t m : chosen) processes.push_back(members[m].process);
  return processes;
}

std::vector<uint32_t> Group::processes() const { return processes_of(members); }

uint64_t Lane::next(uint64_t seq) const {
  if (seq >= end()) return end();
  if (stretches.empty()) return std::max(seq, first);
  if (seq < first) return first;
  const auto behind =
      std::upper_bound(stretches.begin(), stretches.end(), seq,
                       [](uint64_t a, const Stretch& stretch) { return a < stretch.first; });
  if (behind == stretches.end()) return seq;
  const Stretch mine = behind == stretches.begin() ? Stretch{first, 0} : *std::prev(behind);
  return seq - mine.first < behind->begin - mine.begin ? seq : behind->first;
}

size_t ChannelHash::operator()(const ChannelKey& key) const {
  uint64_t hash = key.group;
  hash = (hash ^ static_cast<uint32_t>(key.source)) * 0x9e3779b97f4a7c15;
  hash ^= hash >> 29;
  const uint64_t target = static_cast<uint32_t>(key.target) * uint64_t{2};
  hash = (hash ^ (target + (key.carries_signals ? 1 : 0))) * 0xbf58476d1ce4e5b9;
  return hash ^ (hash >> 32);
}

std::optional<uint64_t> last_awaited(const Op& wait) {
  if (wait.count == 0 || wait.count > ~uint64_t{0} - wait.seq) return std::nullopt;
  return wait.seq + wait.count - 1;
}

uint32_t Channel::wait_at(uint64_t seq) const {
  const auto found = std::lower_bound(waits.begin(), waits.end(), seq,
                                      [](const Wait& a, uint64_t b) { return a.last < b; });
  return found == waits.end() ? kNoRecord : found->op;
}

Index::Index(const trace::Run& run) : run_(run) {
  for (uint32_t p = 0; p < run.processes.size(); ++p) {
    if (!run.processes[p].superseded) active_.push_back(p);
  }
  seat_members();
  sort_members();
  fill_lanes();
  name_groups();
}

Seat Index::seat(uint32_t process, uint32_t comm) const {
  if (comm >= seats_[process].size()) return {};
  return seats_[process][comm];
}

uint32_t Index::find_channel(uint32_t group, int32_t source, int32_t target) const {
  const auto found = by_channel_.find({group, source, target});
  return found == by_channel_.end() ? kNone : found->second;
}

uint32_t Index::channel_of(uint32_t p, const Op& op) const {
  const Seat where = seat(p, op.comm);
  if (where.group == kNone || where.member == kNone) return kNone;
  const int32_t mine = groups_[where.group].members[where.member].rank;
  const bool gives = is_source(op.kind);
  const auto found = by_channel_.find({where.group, gives ? mine : op.root_or_peer,
                                       gives ? op.root_or_peer : mine, is_rma(op.kind)});
  return found == by_channel_.end() ? kNone : found->second;
}

OpRef Index::partner_of(uint32_t p, const Op& op) const {
  const uint32_t c = channel_of(p, op);
  if (c == kNone) return {};
  const Channel& channel = channels_[c];
  const uint32_t m = find_member(channel.group, op.root_or_peer);
  if (m == kNone) return {};
  const uint32_t other = groups_[channel.group].members[m].process;
  if (op.kind == OpKind::WaitSignal) {
    const std::optional<uint64_t> last = last_awaited(op);
    return {other, last ? channel.send_at(*last) : kNoRecord};
  }
  if (is_rma(op.kind)) return {other, channel.wait_at(op.seq)};
  return {other, is_source(op.kind) ? channel.recv_at(op.seq) : channel.send_at(op.seq)};
}

uint64_t stream_key(const Process& process, uint32_t i) {
  const Op& op = process.ops[i];
  if (process.knowledge.groups) return op.stream;
  // Apart from what an address can be.
  constexpr uint64_t kNumbered = uint64_t{1} << 63;
  if (!is_collective(op.kind)) return kNumbered | (process.comms.size() + i);
  return process.is_foreign() ? kNumbered | op.comm : op.stream;
}

uint64_t chained_key(const Process& process, uint32_t i) {
  // Apart from the streams' own.
  constexpr uint64_t kChain = ~uint64_t{0};
  const bool is_in_order =
      process.recorder == "flight_recorder" && is_collective(process.ops[i].kind);
  return process.knowledge.groups || is_in_order ? kChain : stream_key(process, i);
}

uint64_t Index::role_of(uint32_t g) const {
  const Group& group = groups_[g];
  if (group.parent == kNone) return g;
  return (uint64_t{group.parent} + 1) << 32 | group.child_number;
}

uint32_t Index::find_group(const CommKey& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? kNone : found->second;
}

uint32_t Index::find_member(uint32_t group, int32_t rank) const {
  const std::vector<Member>& members = groups_[group].members;
  // Almost always every rank has a file, and a member stands at its rank.
  if (rank >= 0 && static_cast<size_t>(rank) < members.size() && members[rank].rank == rank) {
    return static_cast<uint32_t>(rank);
  }
  const auto found =
      std::lower_bound(members.begin(), members.end(), rank,
                       [](const Member& member, int32_t value) { return member.rank < value; });
  if (found == members.end() || found->rank != rank) return kNone;
  return static_cast<uint32_t>(found - members.begin());
}

void Index::seat_members() {
  seats_.resize(run_.processes.size());
  for (const uint32_t p : active_) {
    const Process& process = run_.processes[p];
    seats_[p].resize(process.comms.size());
    for (uint32_t c = 0; c < process.comms.size(); ++c) {
      if (is_seated(process.comms[c])) seat_comm(p, c);
    }
  }
}

void Index::seat_comm(uint32_t p, uint32_t c) {
  const Comm& comm = run_.processes[p].comms[c];
  uint32_t g = static_cast<uint32_t>(groups_.size());
  if (!comm.key.is_null()) g = by_key_.try_emplace(comm.key, g).first->second;
  if (g == groups_.size()) {
    Group& fresh = groups_.emplace_back();
    fresh.key = comm.key;
    fresh.origin = comm.origin;
    fresh.parent_key = comm.parent_key;
    fresh.child_number = comm.child_number;
    fresh.may_be_matched = !comm.key.is_null();
  }
  Group& group = groups_[g];
  group.nranks = std::max(group.nranks, comm.nranks);
  Member member;
  member.rank = comm.rank;
  member.process = p;
  member.comm = c;
  group.members.push_back(std::move(member));
  seats_[p][c].group = g;
}

// By rank. Of two claims to one rank the newer creation counts (a process may retry).
void Index::sort_members() {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    std::vector<Member>& members = groups_[g].members;
    const auto created = [&](const Member& member) {
      return run_.processes[member.process].comms[member.comm].created_ns;
    };
    std::stable_sort(members.begin(), members.end(), [&](const Member& a, const Member& b) {
      return a.rank != b.rank ? a.rank < b.rank : created(a) < created(b);
    });
    std::vector<Member> kept;
    kept.reserve(members.size());
    for (Member& member : members) {
      if (!kept.empty() && member.rank >= 0 && kept.back().rank == member.rank) {
        kept.back() = std::move(member);
      } else {
        kept.push_back(std::move(member));
      }
    }
    members = std::move(kept);
    for (uint32_t m = 0; m < members.size(); ++m) {
      seats_[members[m].process][members[m].comm].member = m;
    }
    groups_[g].parent = groups_[g].parent_key.is_null() ? kNone : find_group(groups_[g].parent_key);
  }
}

void Index::add_transfer(uint32_t p, uint32_t i, const Seat& seat) {
  const Op& op = run_.processes[p].ops[i];
  const int32_t mine = groups_[seat.group].members[seat.member].rank;
  const bool waits = op.kind == OpKind::WaitSignal;
  if (mine < 0) return;
  if (waits && op.root_or_peer < 0) mixed_waits_.emplace_back(seat.group, mine);
  if (op.root_or_peer < 0 || (waits && !last_awaited(op))) return;
  const bool gives = is_source(op.kind);
  const ChannelKey key{seat.group, gives ? mine : op.root_or_peer, gives ? op.root_or_peer : mine,
                       is_rma(op.kind)};
  const auto [slot, is_new] = by_channel_.try_emplace(key, static_cast<uint32_t>(channels_.size()));
  if (is_new) {
    Channel& fresh = channels_.emplace_back();
    fresh.group = key.group;
    fresh.source = key.source;
    fresh.target = key.target;
    fresh.carries_signals = key.carries_signals;
  }
  Channel& channel = channels_[slot->second];
  if (is_rma(op.kind) && op.graph != 0) {
    channel.is_counted = false;  // each replay does it again
  } else if (gives) {
    channel.sends.push_back(i);
  } else if (waits) {
    channel.waits.push_back({*last_awaited(op), i});
  } else {
    channel.recvs.push_back(i);
  }
}

void Index::sort_waits() {
  std::sort(mixed_waits_.begin(), mixed_waits_.end());
  for (Channel& channel : channels_) {
    if (!channel.carries_signals) continue;
    std::stable_sort(
        channel.waits.begin(), channel.waits.end(),
        [](const Channel::Wait& a, const Channel::Wait& b) { return a.last < b.last; });
    if (std::binary_search(mixed_waits_.begin(), mixed_waits_.end(),
                           std::pair(channel.group, channel.target))) {
      channel.is_counted = false;
    }
    has_uncounted_waits_ = has_uncounted_waits_ || !channel.is_counted;
  }
  has_uncounted_waits_ = has_uncounted_waits_ || !mixed_waits_.empty();
}

bool Index::is_uncounted_wait(uint32_t p, const Op& op) const {
  if (op.kind != OpKind::WaitSignal || op.graph != 0) return false;
  const uint32_t c = op.root_or_peer < 0 ? kNone : channel_of(p, op);
  return c == kNone || !channels_[c].is_counted;
}

// By position: they were added in the order of the files.
void Index::place_records() {
  misplaced_.resize(run_.processes.size());
  for (Group& group : groups_) {
    for (Member& member : group.members) {
      misplaced_[member.process] += lay_out(run_.processes[member.process], member.lane);
    }
  }
  const uint64_t share = kHolesMax / std::max<size_t>(active_.size(), 1);
  std::vector<uint64_t> holes;
  for (const Process& process : run_.processes) {
    holes.push_back(4 * process.ops.size() + 64 + std::min(absent_calls(process), share));
  }
  for (Channel& channel : channels_) {
    const auto place = [&](int32_t rank, std::vector<uint32_t>& ops, uint64_t& first) {
      const uint32_t m = find_member(channel.group, rank);
      if (m == kNone) return;
      const uint32_t p = groups_[channel.group].members[m].process;
      misplaced_[p] += lay_out(run_.processes[p], ops, first, holes[p]);
    };
    place(channel.source, channel.sends, channel.first_send);
    place(channel.target, channel.recvs, channel.first_recv);
  }
}

void Index::fill_lanes() {
  for (const uint32_t p : active_) {
    const Process& process = run_.processes[p];
    for (uint32_t i = 0; i < process.ops.size(); ++i) {
      const Op& op = process.ops[i];
      const Seat seat = this->seat(p, op.comm);
      if (seat.group == kNone || seat.member == kNone) continue;
      if (is_collective(op.kind)) {
        groups_[seat.group].members[seat.member].lane.ops.push_back(i);
      } else if (is_p2p(op.kind) || is_rma(op.kind)) {
        add_transfer(p, i, seat);
      }
    }
  }
  place_records();
  sort_waits();
  for (Group& group : groups_) {
    group.shortest = ~uint64_t{0};
    for (Member& member : group.members) {
      const Comm& comm = run_.processes[member.process].comms[member.comm];
      // The counter outlives the records; a file that was cut off may hold only one of the two.
      member.lane.called =
          std::max(comm.collectives, member.lane.ops.empty() ? 0 : member.lane.end());
      if (member.lane.ops.empty()) member.lane.first = member.lane.called;
      group.longest = std::max(group.longest, member.lane.called);
    }
    for (Member& member : group.members) {
      // Nothing on file, and no file that would have to hold it: it may have called everything.
      const trace::Knowledge& knowledge = run_.processes[member.process].knowledge;
      const bool is_unseen = !knowledge.head && member.lane.ops.empty();
      // A dump of PyTorch says by a number of its own how far the rank has come.
      const trace::Process& process = run_.processes[member.process];
      const bool is_told =
          process.recorder == "flight_recorder" && process.comms[member.comm].is_told_only;
      if (!is_told && (is_unseen || !knowledge.tells_absence())) {
        member.lane.called = group.longest;
      }
      group.shortest = std::min(group.shortest, member.lane.called);
    }
    if (group.members.empty()) group.shortest = 0;
  }
}

// The members of a communicator of which not all are on file, or are known.
std::string members_text(const Index& index, const Group& group) {
  const std::string those = processes_text(index.run(), group.processes());
  return group.is_whole() || group.nranks < 0
             ? fmt::format("communicator of {}", those)
             : fmt::format("a communicator of {} made by {}",
                           number_text(static_cast<uint64_t>(group.nranks), "rank", "ranks"),
                           those);
}

// Of all groups that were given this name the one with most ranks. PyTorch gives the name of its
// whole process group to the communicator of a pair as well.
class GivenNames {
 public:
  void add(const std::string& given, const Group& group) {
    int32_t& most = most_[given];
    most = std::max(most, group.nranks);
  }
  bool is_of_a_larger(const std::string& given, const Group& group, size_t processes) const {
    const auto found = most_.find(given);
    if (found == most_.end() || group.nranks < 0) return false;
    constexpr std::string_view kWholeJob = "default_pg";
    const bool is_part = static_cast<size_t>(group.nranks) < processes;
    return group.nranks < found->second || (is_part && given.starts_with(kWholeJob));
  }

 private:
  std::unordered_map<std::string, int32_t> most_;
};

// The user's name where there is one; else "world" for what spans the job, and the lineage.
void Index::name_groups() {
  size_t widest = 0;
  for (const Group& group : groups_) {
    if (group.parent_key.is_null()) widest = std::max(widest, group.members.size());
  }
  const auto given_name = [&](const Group& group) -> std::string {
    for (const Member& member : group.members) {
      const std::string& given = run_.processes[member.process].comms[member.comm].name;
      if (!given.empty()) return given;
    }
    return {};
  };
  GivenNames names;
  for (const Group& group : groups_) names.add(given_name(group), group);
  uint32_t worlds = 0;
  for (Group& group : groups_) {
    const std::string given = given_name(group);
    group.name = !given.empty() && names.is_of_a_larger(given, group, active_.size())
                     ? members_text(*this, group)
                     : readable_name(*this, group, given);
    if (!group.name.empty() || !group.parent_key.is_null()) continue;
    const bool spans = group.members.size() == widest && widest * 2 > active_.size();
    if (spans) {
      group.name = ++worlds == 1 ? "world" : fmt::format("world {}", worlds);
    } else {
      group.name = fmt::format("communicator of {}", processes_text(run_, group.processes()));
    }
  }
  // Parents come before their children in creation order of every process, so one sweep is enough.
  for (Group& group : groups_) {
    if (!group.name.empty()) continue;
    const std::string parent = group.parent == kNone || groups_[group.parent].name.empty()
                                   ? "a communicator"
                                   : groups_[group.parent].name;
    group.name = fmt::format("{} {} of {} ({})", rollcall::name_of(group.origin),
                             group.child_number, parent, processes_text(run_, group.processes()));
  }
}

}  // namespace rollcall::analysis
