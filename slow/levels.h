// A run as it is held against another one: what each place of a step takes on each GPU, in the
// median of the steps, and how well that is known.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/views/by_gpu.h"
#include "slow/evidence.h"
#include "slow/slot_match.h"

namespace rollcall::slow {

// Standard error of the median of a series over steps. The larger one of two: as if the steps had
// nothing to do with each other, and by the medians of blocks of steps, for what comes and goes
// over several steps.
double level_error(const std::vector<double>& values);

struct SlotLevel {
  double own_ns = 0;
  double since_ns = 0;  // from the unit in front of it on its stream
  double transfer_ns = 0;
  double transfer_error_ns = 0;
  bool has_transfer = false;
  uint16_t stream = 0;
};

// Of a GPU in a step, in the median: its own work by what it was spent on, and its calls of NCCL.
struct OwnParts {
  double host_ns = 0;    // before its process made the call
  double launch_ns = 0;  // in the call, with the GPU waiting for it
  double gpu_ns = 0;
  double calls_ns = 0;  // that NCCL's calls took its host, whoever waited for them
};

class Side {
 public:
  explicit Side(const trace::Run& run);
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  // As a sentence; empty: it can be compared.
  const std::string& why_not() const { return why_not_; }
  const trace::Run& run() const { return parts_ ? parts_->run : run_; }
  const Timeline& timeline() const { return timeline_; }
  const Steps& steps() const { return steps_; }
  Evidence& evidence() { return *evidence_; }
  const Evidence& evidence() const { return *evidence_; }

  // By rank, and by number among the GPUs of one process.
  using GpuKey = std::pair<int32_t, uint32_t>;
  const std::map<GpuKey, uint32_t>& gpus() const { return gpus_; }
  // By slot. Only for GPUs with a role.
  const std::vector<SlotLevel>& levels(uint32_t gpu) const { return levels_[gpu]; }
  std::vector<SlotLevel>& levels(uint32_t gpu) { return levels_[gpu]; }
  OwnParts parts_of(uint32_t gpu) const;
  // The calls of a step in the order in which the first GPU of the role makes them: place i is the
  // slot (first_slot + i) modulo the length.
  std::vector<CallLook> looks_of(uint32_t role) const;
  uint32_t slot_of_place(uint32_t role, uint32_t place) const;
  uint32_t place_of_slot(uint32_t role, uint32_t slot) const;
  // Of a GPU in the middle one of the compared steps.
  uint32_t unit_in_middle(uint32_t gpu, uint32_t slot) const;

 private:
  void measure(uint32_t gpu);
  void number_gpus();

  const trace::Run& run_;
  std::optional<analysis::Parts> parts_;
  Timeline timeline_;
  Steps steps_;
  std::optional<Evidence> evidence_;
  std::string why_not_;
  std::map<GpuKey, uint32_t> gpus_;
  std::vector<std::vector<SlotLevel>> levels_;
};

}  // namespace rollcall::slow
