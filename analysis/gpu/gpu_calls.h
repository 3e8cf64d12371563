// The calls that GPUs have begun, and how the GPUs wait for each other in them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "analysis/gpu/fronts.h"

namespace rollcall::analysis {

// A call that stands in front of a stream whose GPU has come to it.
struct GpuCall {
  Front front;  // the first to come to it
  Peers peers;
  std::vector<uint32_t> running;  // processes that have begun it and are not through
  std::vector<uint32_t> behind;   // processes that have not come to it: they run something else
  int64_t last_begun_ns = 0;      // when the last GPU that has begun it did so
  bool has_begun = true;          // on all ranks that are on file
  bool has_ended = false;         // on some rank
  bool is_disputed = false;       // the ranks called different things there
  // On each rank that is not through it is of a group's share in which another call is not on all
  // GPUs, or has ended on none while this one has: only the whole share ends.
  bool is_held = true;

  // Looked at while the job runs, the last GPU came to it so short a time ago that it may go on.
  bool is_young(const Facts& facts) const {
    return facts.job.live && is_everywhere() && !is_held && !facts.job.is_stale(last_begun_ns);
  }
  bool is_everywhere() const {
    return has_begun && !is_disputed && !peers.is_owed && !peers.has_strangers && !peers.is_unknown;
  }
};

// Calls: each waits for the next one, the last for the first.
using CallCircle = std::vector<size_t>;

// What the GPUs did, looked at once. Its parts are found when they are asked for.
class GpuView {
 public:
  explicit GpuView(const Facts& of_job)
      : facts(of_job), record(of_job), state(look_at_gpus(of_job, record)) {}
  GpuView(const GpuView&) = delete;
  GpuView& operator=(const GpuView&) = delete;

  const Facts& facts;
  const GpuRecord record;
  const GpuState state;

  // One of each that some GPU has begun, in the order of the fronts.
  const std::vector<GpuCall>& calls() const;
  // Which of them a record is of; nothing where it is of none.
  std::optional<size_t> call_at(uint32_t process, uint32_t op) const;
  // GPUs that have come to two calls may have no room for the second kernel before the first is
  // over. Where all GPUs came to them in one order that is no circle.
  const CallCircle& rivals() const;
  // Of calls that some GPUs have not come to, because they run others of these.
  const CallCircle& crossed() const;

 private:
  // Of each call the processes that have not come to it, of each process the calls that it runs:
  // nodes are the calls, and behind them the processes.
  using Waits = std::vector<std::vector<size_t>>;

  void find_calls() const;
  void hold_share(std::span<const Front> share) const;
  Waits waits_of(bool (*counts)(const GpuCall&)) const;
  CallCircle find_rivals() const;
  CallCircle find_circle(Waits&& waits) const;

  mutable bool has_calls_ = false;
  mutable std::vector<GpuCall> calls_;
  mutable std::map<std::pair<uint32_t, uint32_t>, size_t> of_;  // by process and record
  mutable std::optional<CallCircle> rivals_;
  mutable std::optional<CallCircle> crossed_;
};

}  // namespace rollcall::analysis
