// Who is a member of which communicator, and which record is whose n-th call: everything later
// steps look up, built in one pass over the records.
//
// Positions are exact and need no times. A record that is not on file is `kNoRecord`, which is
// something else than a call that was never made: `Lane::called` counts the calls, also those
// whose records are gone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/model.h"

namespace rollcall::analysis {

inline constexpr uint32_t kNone = 0xffffffff;
inline constexpr uint32_t kNoRecord = 0xffffffff;

// The collectives of one member of a communicator. Of a job that has run for long what it captured
// at its start and what it called last are on file, and millions of positions between them are not:
// so positions lie in stretches, each without a large gap.
struct Lane {
  struct Stretch {
    uint64_t first = 0;  // seq
    size_t begin = 0;    // its element of `ops`
  };

  uint64_t first = 0;  // seq of the first element of `ops`
  uint64_t called = 0;
  std::vector<uint32_t> ops;       // indices into Process::ops, by seq, stretch by stretch
  std::vector<Stretch> stretches;  // behind the first one; by seq

  // kNoRecord where none is on file.
  uint32_t at(uint64_t seq) const {
    const auto behind =
        std::upper_bound(stretches.begin(), stretches.end(), seq,
                         [](uint64_t a, const Stretch& stretch) { return a < stretch.first; });
    const Stretch mine = behind == stretches.begin() ? Stretch{first, 0} : *std::prev(behind);
    const size_t end = behind == stretches.end() ? ops.size() : behind->begin;
    return seq >= mine.first && seq - mine.first < end - mine.begin
               ? ops[mine.begin + (seq - mine.first)]
               : kNoRecord;
  }
  bool has(uint64_t seq) const { return at(seq) != kNoRecord; }
  uint64_t end() const {
    if (stretches.empty()) return first + ops.size();
    return stretches.back().first + (ops.size() - stretches.back().begin);
  }
  // The first position of a stretch that is not before this one; end() if there is none.
  uint64_t next(uint64_t seq) const;
  // Of each stretch the first position and its elements of `ops`.
  template <typename Visit>
  void for_each_stretch(Visit visit) const {
    Stretch mine{first, 0};
    for (size_t i = 0; i <= stretches.size(); ++i) {
      const size_t end = i == stretches.size() ? ops.size() : stretches[i].begin;
      if (mine.begin != end)
        visit(mine.first, std::span(ops).subspan(mine.begin, end - mine.begin));
      if (i < stretches.size()) mine = stretches[i];
    }
  }
};

struct Member {
  int32_t rank = -1;
  uint32_t process = kNone;
  uint32_t comm = kNone;  // index into Process::comms
  Lane lane;
};

// A communicator across the processes that know it.
struct Group {
  CommKey key{};
  std::string name;
  CommOrigin origin = CommOrigin::unknown;
  int32_t nranks = -1;
  uint32_t parent = kNone;  // index into Index::groups
  CommKey parent_key{};
  uint32_t child_number = 0;
  std::vector<Member> members;  // by rank; a rank without a file is not in here
  bool may_be_matched = true;   // false: the key is unknown
  uint64_t shortest = 0;        // smallest Lane::called
  uint64_t longest = 0;         // largest Lane::called

  // Of these members, indices into `members`, or of all; in their order.
  std::vector<uint32_t> processes(const std::vector<uint32_t>& chosen) const;
  std::vector<uint32_t> processes() const;
  bool is_whole() const { return nranks >= 0 && members.size() == static_cast<size_t>(nranks); }
  // A rank of it left no file.
  bool has_strangers() const { return may_be_matched && nranks >= 0 && !is_whole(); }
};

// Of things that have one each, in their order.
template <typename Things>
std::vector<uint32_t> processes_of(const Things& things) {
  std::vector<uint32_t> processes;
  processes.reserve(things.size());
  for (const auto& thing : things) processes.push_back(thing.process);
  return processes;
}

inline bool contains(const std::vector<uint32_t>& processes, uint32_t process) {
  return std::find(processes.begin(), processes.end(), process) != processes.end();
}

// One direction between two ranks of a communicator: sends and receives, or signals and the waits
// for them.
struct Channel {
  uint32_t group = kNone;
  int32_t source = -1;
  int32_t target = -1;
  bool carries_signals = false;
  // False: signals of this channel are sent by replays of a graph, or awaited together with those
  // of other ranks. Their numbers say nothing then.
  bool is_counted = true;
  uint64_t first_send = 0;
  uint64_t first_recv = 0;
  std::vector<uint32_t> sends;  // indices into the sender's ops, by p2p seq; kNoRecord where absent
  std::vector<uint32_t> recvs;
  struct Wait {
    uint64_t last;  // signal that it waits for
    uint32_t op;
  };
  std::vector<Wait> waits;  // of the receiver, by `last`

  uint32_t send_at(uint64_t seq) const { return at(sends, first_send, seq); }
  uint32_t recv_at(uint64_t seq) const { return at(recvs, first_recv, seq); }
  // The first wait that needs this signal.
  uint32_t wait_at(uint64_t seq) const;

 private:
  static uint32_t at(const std::vector<uint32_t>& ops, uint64_t first, uint64_t seq) {
    return seq >= first && seq - first < ops.size() ? ops[seq - first] : kNoRecord;
  }
};

struct ChannelKey {
  uint32_t group;
  int32_t source;
  int32_t target;
  bool carries_signals = false;
  friend bool operator==(const ChannelKey&, const ChannelKey&) = default;
};
struct ChannelHash {
  size_t operator()(const ChannelKey& key) const;
};

// A record, by its process and its position there.
struct OpRef {
  uint32_t process = kNone;
  uint32_t op = kNoRecord;
};

// Whether a call takes its turn on a stream when it is called: not where it is captured.
inline bool is_enqueued(const trace::Op& op) {
  return op.graph == 0 && (is_collective(op.kind) || is_p2p(op.kind) || is_rma(op.kind));
}

// The stream of an operation: those of a process with one key take their turns. Who does not know
// the groups does not know the order of sends and receives either; and another recorder's file not
// that of collectives, but for those of one communicator.
uint64_t stream_key(const trace::Process& process, uint32_t op);
// The same if the streams of a process wait for each other in the order of its calls. Of PyTorch's
// Flight Recorder, which tells the order and does not tell all groups, only collectives are in it.
uint64_t chained_key(const trace::Process& process, uint32_t op);

// The last of the signals that a call waits for, by its number; nothing where none or nonsense is
// on file.
std::optional<uint64_t> last_awaited(const trace::Op& wait);

// Whether the call passes something on, rather than taking it.
inline bool is_source(OpKind kind) { return kind != OpKind::Recv && kind != OpKind::WaitSignal; }

// A communicator seen from one process.
struct Seat {
  uint32_t group = kNone;
  uint32_t member = kNone;  // index into Group::members
};

class Index {
 public:
  explicit Index(const trace::Run& run);

  const trace::Run& run() const { return run_; }
  const std::vector<Group>& groups() const { return groups_; }
  const std::vector<Channel>& channels() const { return channels_; }
  // kNone members where the process's communicator is not analysed.
  Seat seat(uint32_t process, uint32_t comm) const;
  // The channel of sends and receives; kNone when there is no such channel.
  uint32_t find_channel(uint32_t group, int32_t source, int32_t target) const;
  // The channel of a send, receive, signal or wait for signals, by its record; kNone when its
  // communicator is not analysed or has no such peer.
  uint32_t channel_of(uint32_t process, const trace::Op& op) const;
  // The other side of a send or receive; for a wait the last signal that it waits for. Without a
  // process where the peer left no file, without an op where its record is not on file.
  OpRef partner_of(uint32_t process, const trace::Op& op) const;
  // kNone when the rank left no file.
  uint32_t find_member(uint32_t group, int32_t rank) const;
  uint32_t find_group(const CommKey& key) const;
  // The part a communicator plays in its processes: groups of one split share it.
  uint64_t role_of(uint32_t group) const;
  const trace::Op& op(uint32_t process, uint32_t index) const {
    return run_.processes[process].ops[index];
  }
  // NCCL is not through with the call: it may not have handed it to the GPU.
  bool is_held(uint32_t process, uint32_t index) const {
    return op(process, index).state == trace::OpState::called &&
           run_.processes[process].knowledge.returns;
  }
  const trace::Op& op_at(const Member& member, uint64_t seq) const {
    return op(member.process, member.lane.at(seq));
  }
  // A wait for signals of which the numbers say nothing, or whose senders are not on file: nobody
  // can tell whether it is through.
  bool is_uncounted_wait(uint32_t process, const trace::Op& op) const;
  bool has_uncounted_waits() const { return has_uncounted_waits_; }
  // Records of a process whose position is so far from its others' that the file must be damaged.
  // They are in no lane and no channel.
  uint64_t misplaced(uint32_t process) const { return misplaced_[process]; }
  // Processes that are analysed: not superseded.
  const std::vector<uint32_t>& active() const { return active_; }

 private:
  struct KeyHash {
    size_t operator()(const CommKey& key) const {
      return key.low ^ (key.high * 0x9e3779b97f4a7c15);
    }
  };
  void seat_members();
  void seat_comm(uint32_t process, uint32_t comm);
  void sort_members();
  void fill_lanes();
  void place_records();
  void sort_waits();
  void add_transfer(uint32_t process, uint32_t index, const Seat& seat);
  void name_groups();

  const trace::Run& run_;
  std::vector<uint32_t> active_;
  std::vector<Group> groups_;
  std::vector<Channel> channels_;
  std::vector<std::vector<Seat>> seats_;
  std::unordered_map<CommKey, uint32_t, KeyHash> by_key_;
  std::unordered_map<ChannelKey, uint32_t, ChannelHash> by_channel_;
  std::vector<uint64_t> misplaced_;                        // by process
  std::vector<std::pair<uint32_t, int32_t>> mixed_waits_;  // (group, rank): for several at once
  bool has_uncounted_waits_ = false;
};

}  // namespace rollcall::analysis
