// Exposed communication: the time in which a GPU communicates and does not compute, and so the time
// that a job would save at most were all communication hidden behind compute.
//
// Of a step of one GPU, three sums, each the length of a union of kernels (trace::BusyTime):
//
//   compute          kernels that are not NCCL's
//   communication    NCCL's kernels, which also wait for other ranks
//   either           at least one of both
//
//   overlap          = compute + communication - either
//   exposed          = either - compute
//   exposed share    = exposed / step
//   overlap share    = overlap / communication, as Holistic Trace Analysis has it: time spent in
//                      computation while communicating, to time spent in communication
//                      (facebookresearch/HolisticTraceAnalysis, docs/source/features,
//                      comm_comp_overlap.rst). Copies and memsets are neither, there and here.
//
// A step of a GPU is the time between the ends of its last operations of NCCL in the step before
// and in this one, on its own clock: no clocks are compared. Invariants, of each step and of means:
// 0 <= overlap <= communication, 0 <= exposed <= communication, either <= step.
//
// Where only NCCL's operations are known exposed communication is not measured, and `at_most`
// bounds it: nobody exposes more than the time in which any operation of NCCL was on its way,
// of the step or of another one. There is no bound where an operation was not timed, or where
// NCCL's may be in graphs, whose parts are not on file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slow/steps.h"
#include "slow/timeline.h"
#include "trace/model.h"

namespace rollcall::slow {

// Nanoseconds; of one step, or the mean of several.
struct BusySums {
  double step_ns = 0;
  double compute_ns = 0;
  double communication_ns = 0;
  double either_ns = 0;

  // Means are rounded one by one, so that what is 0 may come out below it.
  double overlap_ns() const { return std::max(compute_ns + communication_ns - either_ns, 0.0); }
  double exposed_ns() const { return std::max(either_ns - compute_ns, 0.0); }
  double exposed_share() const { return exposed_ns() / step_ns; }
  // nullopt: nothing was communicated.
  std::optional<double> overlap_share() const;
};

struct Exposed {
  // By GPU of the timeline: means of the usable steps. nullopt: not measured.
  std::vector<std::optional<BusySums>> gpus;
  uint32_t measured = 0;  // GPUs
  // Where some were not: why the first of them was not, as a sentence without a stop.
  std::string why_not;
  // Of the GPUs that were measured, in the mean. nullopt: of none.
  std::optional<BusySums> mean;
  // Where none was: the largest share of a step that can be exposed, in the mean of the GPUs.
  std::optional<double> at_most;

  bool is_measured() const { return measured != 0; }
};

// Of one usable step. nullopt: the ends of the two steps are not among the busy times of the
// process, or these contradict each other.
std::optional<BusySums> busy_sums(const trace::Process& process, const Timeline& timeline,
                                  const Steps& steps, uint32_t gpu, uint32_t step);

// `run` is that of which the timeline was made. Linear in the units, but for the search of a ticket
// for each step. Never fails: what is not known is absent, with a reason.
Exposed measure_exposed(const trace::Run& run, const Timeline& timeline, const Steps& steps);

}  // namespace rollcall::slow
