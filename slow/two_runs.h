// What `rollcall slow OLD NEW` answers: by how much the steps of one run take longer than those of
// another one of the same job, and which parts of a step that is due to.
//
// A part is charged with what the steps of the new run would save with it as fast as it was in the
// old one, by the replay. Nothing is said of a part that does not differ by several standard errors
// of both runs, or that costs less than a share of a step: what varies within a run varies from one
// run to the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slow/answer.h"

namespace rollcall::slow {

enum class Part : uint8_t {
  host,      // own work: what processes do before they call NCCL
  gpu,       // own work: what GPUs do besides NCCL
  launch,    // own work: calls of NCCL, with the GPU waiting for its host
  transfer,  // when everybody had come
  added,     // calls that the old step has not
  removed    // calls that the new step has not
};

// A call of a step at which a part differs.
struct PlaceChange {
  Place place;        // the call in the run that has it: the new one, or the old one
  uint32_t call = 0;  // its number in the step of that run, from 1
  double before_ns = 0;
  double after_ns = 0;
};

struct Difference {
  Part part = Part::gpu;
  std::vector<int32_t> ranks;  // whose own work it is, or who makes the calls; rising
  bool is_of_all = false;      // these are all ranks
  double saved_ns = 0;         // the steps are longer by so much because of it; median
  double share = 0;            // of a step of the old run
  double floor = 0;            // less than this share would not have been said
  double calls_before_ns = 0;  // of Part::launch: what NCCL's calls of a step take a host
  double calls_after_ns = 0;
  std::vector<PlaceChange> places;  // those that differ most, at the most three
};

struct RunSteps {
  uint32_t found = 0;
  uint32_t compared = 0;
  uint32_t calls = 0;  // of a step of the first rank
  uint32_t gpus = 0;   // 0: not known, for ranks left no file
  double step_ns = 0;  // median
  double error_ns = 0;
  double variation = 0;
};

struct TwoRuns {
  RunSteps before;
  RunSteps after;
  bool is_compared = false;  // false: not even the steps; `why_not` says why
  bool is_other_size = false;
  bool has_parts = false;     // false: the parts of the steps were not; `why_not` says why
  bool sizes_differ = false;  // calls of other sizes were held against each other
  bool steps_differ = false;  // by more than both runs vary
  double floor = 0;           // a smaller share of a step is no difference of step times
  double smallest = 0;        // the smallest change that these runs would have shown, 9 times of 10
  std::vector<Difference> differences;  // the most expensive first
  std::vector<std::string> why_not;     // a sentence each, without a stop
};

// Deterministic. Linear in the records of both, but for sorting, and for the alignment of two steps
// that are not the same.
TwoRuns compare(const trace::Run& before, const trace::Run& after);

}  // namespace rollcall::slow
