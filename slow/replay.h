// The run again, on one time axis: every unit arrives when what it depended on has ended and its
// own time has passed, and ends when the last one that it waits for has arrived and the transfer
// has passed. With the recorded own times and transfers this gives the recorded steps; with others
// it tells what the steps would have been.
//
// The axis is made of durations alone, so that no clock of one host is held against another's.
#pragma once

#include <cstdint>
#include <vector>

#include "slow/own_time.h"
#include "slow/steps.h"
#include "slow/timeline.h"

namespace rollcall::slow {

// Where the time of a step went. Each nanosecond from the end of the step before to its end is
// charged once, to what the end of the step then waited for.
struct Charges {
  std::vector<int64_t> own_ns;       // by GPU; its GPU was busy with something else than NCCL
  std::vector<int64_t> launch_ns;    // by GPU; its GPU waited for its host
  std::vector<int64_t> transfer_ns;  // by communicator
  int64_t unrecorded_ns = 0;         // ranks without a record took part
  int64_t total_ns() const;
};

class Replay {
 public:
  Replay(const Timeline& timeline, const Steps& steps, const OwnTimes& own_times);

  // False: what is on file contradicts itself: units wait for each other in a circle.
  bool is_consistent() const { return is_consistent_; }

  // The ends of the steps, by step, of a run with these own times and transfers, by unit and
  // meeting.
  std::vector<int64_t> step_ends(const std::vector<int64_t>& own_ns,
                                 const std::vector<int64_t>& transfer_ns);
  std::vector<int64_t> recorded_step_ends();
  // As recorded; walks back from the end of the step.
  void charge(uint32_t step, const std::vector<int64_t>& ends, Charges& charges) const;

  const std::vector<int64_t>& recorded_transfers() const { return transfer_ns_; }

 private:
  // How a unit's end follows from a meeting of its.
  enum class Need : uint8_t { nobody, first, everybody };
  Need need_of(uint32_t unit, const Meeting& meeting) const;
  void put_in_order();
  void arrive(uint32_t unit, const std::vector<int64_t>& own_ns);
  void finish(uint32_t unit, const std::vector<int64_t>& transfer_ns);
  int64_t base_ns(uint32_t unit) const;
  uint32_t charge_transfer(uint32_t unit, int64_t until_ns, Charges& charges) const;
  bool charge_own(uint32_t& unit, int64_t until_ns, Charges& charges) const;

  const Timeline& timeline_;
  const Steps& steps_;
  const OwnTimes& own_times_;
  std::vector<int64_t> transfer_ns_;  // by meeting, as recorded
  std::vector<uint32_t> order_;       // units twice: arrival, and end (kEnd)
  std::vector<uint32_t> first_wait_;  // by unit: what it waits for, in `waits_`
  std::vector<uint32_t> waits_;
  std::vector<uint32_t> bases_;      // by unit; with kEnd: its end counts, not its arrival
  std::vector<int64_t> arrived_ns_;  // by unit, of the last replay
  std::vector<int64_t> finished_ns_;
  std::vector<uint32_t> last_to_come_;  // by meeting
  bool is_consistent_ = true;
};

}  // namespace rollcall::slow
