// Steps: the repeats of a period (slow/period.h), numbered alike on all GPUs.
//
// Each GPU has a period of its own calls. GPUs whose periods are rotations of each other have one
// role, and are peers: they call the same in every step, and ought to take as long. The steps of
// one GPU are numbered from 0; whoever meets it takes the number over, and so on, so that a unit's
// step is that of the units it meets, wherever a GPU's own repeats begin.
//
// A step is usable where every GPU did all of it, timed, and nothing else was done in front of it:
// special steps (an evaluation, a checkpoint) are left out of every comparison, and so are the
// first ones, in which communicators connect.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slow/timeline.h"

namespace rollcall::slow {

inline constexpr uint32_t kWarmUpSteps = 5;

struct Role {
  uint32_t length = 0;         // units of a step
  uint32_t first_slot = 0;     // that the step of the first of its GPUs begins with
  std::vector<uint32_t> gpus;  // in rising order
};

struct Steps {
  std::vector<Role> roles;
  uint32_t count = 0;            // steps that were numbered
  std::vector<uint32_t> usable;  // rising
  uint32_t special = 0;          // steps with something else in front of them
  std::vector<uint32_t> inner;   // smaller periods of the first GPU, in units
  bool sizes_vary = false;       // only without the sizes of calls is there a period
  uint32_t without_period = 0;   // GPUs
  // Why nothing can be compared, as a sentence; empty where something can.
  std::string why_not;

  // The unit of a GPU in a step at a slot; kNone where there is none.
  uint32_t unit_at(const Timeline& timeline, uint32_t gpu, uint32_t step, uint32_t slot) const;

  std::vector<uint32_t> places;     // units, by GPU, step and slot
  std::vector<size_t> first_place;  // by GPU
};

// Fills in Unit::step and Unit::slot, and Gpu::role. `first`, `last`: only steps from here to here
// are usable.
Steps find_steps(Timeline& timeline, uint32_t first = 0, uint32_t last = kNone);

}  // namespace rollcall::slow
