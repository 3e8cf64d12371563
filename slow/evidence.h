// What the rules of `slow` look at: the run, its steps, and what they took.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slow/answer.h"
#include "slow/own_time.h"
#include "slow/replay.h"
#include "slow/steps.h"
#include "slow/timeline.h"

namespace rollcall::slow {

// Fewer steps prove nothing; with as many as `kStepsCertain` a finding may be certain.
inline constexpr size_t kStepsMin = 20;
inline constexpr size_t kStepsCertain = 50;
// Floors of what is said, in shares of a step; docs/SLOW.md has how they were found.
inline constexpr double kFloorMin = 0.01;
inline constexpr double kFloorErrors = 3;  // standard errors

class Evidence {
 public:
  Evidence(Timeline& timeline, const Steps& steps);

  const Timeline& timeline() const { return timeline_; }
  const Steps& steps() const { return steps_; }
  const OwnTimes& own_times() const { return own_times_; }
  Replay& replay() { return replay_; }
  const Replay& replay() const { return replay_; }

  size_t compared() const { return steps_.usable.size(); }
  // Of the i-th usable step, as recorded: the median over the GPUs.
  const std::vector<double>& step_ns() const { return step_ns_; }
  double median_step_ns() const { return median_step_ns_; }
  // The ends of all steps on the axis of the replay.
  const std::vector<int64_t>& ends() const { return ends_; }
  // Where the time of the usable steps went, in all of them together.
  const Charges& charges() const { return charges_; }
  // The share of their time by which the record and the charges differ.
  double unexplained() const;
  // Own time of a GPU in the i-th usable step.
  double own_ns(uint32_t gpu, size_t i) const { return own_ns_[gpu][i]; }
  const std::vector<double>& own_ns(uint32_t gpu) const { return own_ns_[gpu]; }
  // As much of it as had passed when the process made the calls.
  const std::vector<double>& before_call_ns(uint32_t gpu) const { return before_call_ns_[gpu]; }
  // By how much it took longer than the median of its peers but for those of `others`, in each
  // usable step. Empty without such peers.
  std::vector<double> excess_ns(uint32_t gpu, const std::vector<uint32_t>& others) const;
  // What a run with these own times and transfers would have saved of each usable step.
  std::vector<double> saved_ns(const std::vector<int64_t>& own_ns,
                               const std::vector<int64_t>& transfer_ns);

 private:
  void add_up_own_times();
  void measure_steps();
  void charge_steps();

  Timeline& timeline_;
  const Steps& steps_;
  OwnTimes own_times_;
  Replay replay_;
  std::vector<int64_t> ends_;
  Charges charges_;
  std::vector<std::vector<double>> own_ns_;  // by GPU and usable step
  std::vector<std::vector<double>> before_call_ns_;
  std::vector<double> step_ns_;
  double median_step_ns_ = 0;
};

// The rules, in the order in which they are asked. Where one says nothing it may leave why in
// `why_not`.
std::optional<Finding> find_slow_transfer(Evidence& evidence, std::vector<std::string>& why_not);
std::optional<Finding> find_straggler(Evidence& evidence, std::vector<std::string>& why_not);
std::optional<Finding> find_imbalance(Evidence& evidence, std::vector<std::string>& why_not);
std::optional<Finding> find_jitter(Evidence& evidence, std::vector<std::string>& why_not);

// Changes of the step time first, then of its places, the largest first. No verdict.
std::vector<Shift> find_shifts(const Evidence& evidence);

// The smallest share of a step that may be said to have been saved, by what was saved of each.
double floor_of(const std::vector<double>& saved_ns, double step_ns);

}  // namespace rollcall::slow
