// Which operations can have finished?
//
// The recorded calls are played through the rules of the GPU: a stream executes in order; the
// operations of one group on one stream start together; a collective finishes when it has come to
// the front on every member; a send and its receive finish together, a small send at once, because
// NCCL buffers it; a signal at once, a wait for signals when the last of them was sent. What is
// left at the front of a stream is what the rank waits for. No time is used, and nothing is assumed
// of calls that are not on file but for one thing: a record that is older than what the file still
// holds is taken for finished.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/alignment/sequence.h"
#include "analysis/options.h"
#include "analysis/record/index.h"

namespace rollcall::analysis {

// How the streams of one process go on beside each other. A program may make one wait for another
// by events, which are on no file: PyTorch gives each communicator a stream, and lets it wait for
// the one that computes, which waits for the communicators before.
enum class StreamOrder : uint8_t {
  free,     // each as fast as it can
  chained,  // in the order of the calls; what is on file as finished has finished
};

class Playback {
 public:
  // `mismatches`: positions that the ranks disagree about and that therefore never finish.
  Playback(const Index& index, const Options& options, const std::vector<Difference>& mismatches,
           StreamOrder stream_order = StreamOrder::free);

  bool is_done(uint32_t process, uint32_t op) const { return slots_[process][op].is_done; }
  // Operations at the front of the streams of a process, in call order; all of them are not done.
  const std::vector<uint32_t>& waiting(uint32_t process) const { return waiting_[process]; }
  // True when the operation has come to the front of its stream, whether it is done since or not.
  bool is_at_front(uint32_t process, uint32_t op) const { return slots_[process][op].is_active; }
  // The stream, by its number in the process, on which it stands behind others; kNone when it is at
  // the front.
  uint32_t stream_behind(uint32_t process, uint32_t op) const;
  // The operations that stand in front of it on its stream; empty when it is at the front.
  std::vector<uint32_t> in_front_of(uint32_t process, uint32_t op) const;
  // Of a wait for signals the first that was not sent: without an op where it was never called, and
  // without a process where nothing is owed.
  OpRef owed_signal(uint32_t process, uint32_t op) const;

  struct PairFinding {
    uint32_t channel = kNone;
    uint64_t seq = 0;
  };
  // Matched sends and receives that name other counts or datatypes, by channel and position.
  const std::vector<PairFinding>& mismatched_pairs() const { return mismatched_pairs_; }

 private:
  struct Stream {
    std::vector<uint32_t> queue;
    size_t begin = 0;  // the window that is at the front
    size_t end = 0;
    size_t left = 0;  // of the window, not done
  };
  // What is played of an operation: small, because all ranks' are gone through position by
  // position.
  struct Slot {
    uint32_t stream = kNone;   // of the process
    uint32_t counter = kNone;  // of a collective, in `missing_`
    uint32_t group = 0;
    bool is_active = false;  // has come to the front of its stream
    bool is_done = false;
  };
  // Counters of a communicator's positions [base, base + count), which members have on file. Where
  // some have only old records and others only new ones, there are none for those between.
  struct Pending {
    uint64_t base = 0;
    uint64_t count = 0;
    size_t first = 0;  // in `missing_`
  };
  static constexpr uint32_t kNever = 0xffffffff;

  bool is_on_file_as_finished(const trace::Op& op) const;
  Slot make_slot(uint32_t process, uint32_t op) const;
  void fill_streams();
  void count_members(const std::vector<Difference>& mismatches);
  void make_counters(uint32_t group);
  void count_member(uint32_t process, std::span<const uint32_t> ops, uint32_t* counters) const;
  uint32_t counter_of(uint32_t group, uint64_t seq) const;
  void activate_front(uint32_t process, uint32_t stream);
  void activate(uint32_t process, uint32_t op);
  void activate_p2p(uint32_t process, uint32_t op);
  void activate_signal(uint32_t process, uint32_t op);
  void activate_wait(uint32_t process, uint32_t op);
  void finish(uint32_t process, uint32_t op);
  void finish_collective(uint32_t group, uint64_t seq);
  bool partner_is_forgotten(uint32_t process, const trace::Op& op, const Channel& channel) const;
  void settle();

  const Index& index_;
  const Options& options_;
  const StreamOrder stream_order_;
  std::vector<std::vector<Slot>> slots_;  // by process and op
  std::vector<std::vector<Stream>> streams_;
  std::vector<std::vector<Pending>> pending_;  // by group, rising
  std::vector<uint32_t> missing_;              // members still to come; kNever: cannot finish
  std::vector<std::pair<uint32_t, uint32_t>> ready_;  // (process, stream) whose window is done
  std::vector<std::vector<uint32_t>> waiting_;
  std::vector<PairFinding> mismatched_pairs_;
};

}  // namespace rollcall::analysis
