// Random training jobs for the virtual cluster with time, each of a family: what is wrong with it,
// or what only looks as if something were. The truth is told by carrying the job out a second time,
// with the same noise and without the fault.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/slow/timed_cluster.h"

namespace rollcall::timed {

// X(name, verdict that is due, whether ranks are to be named): what a job of the family has.
// clang-format off
#define ROLLCALL_TIMED_FAMILIES(X)                \
  X(clean, "", false)                             \
  X(clean_clocks, "", false)                      \
  X(clean_noisy, "", false)                       \
  X(clean_pair, "", false)                        \
  X(clean_overlapped, "", false)                  \
  X(all_slow, "", false)                          \
  X(busy_links, "", false)                        \
  X(stage_imbalance, "RC-IMBALANCE", false)       \
  X(uneven_input, "RC-IMBALANCE", false)          \
  X(rotating_pauses, "RC-JITTER", false)          \
  X(data_stalls, "RC-JITTER", false)              \
  X(periodic_pauses, "RC-JITTER", false)          \
  X(one_pauses, "RC-STRAGGLER", true)             \
  X(gpu_slow, "RC-STRAGGLER", true)               \
  X(gpu_slow_overlapped, "RC-STRAGGLER", true)    \
  X(gpu_slow_late, "RC-STRAGGLER", true)          \
  X(gpu_slow_in_imbalance, "RC-STRAGGLER", true)  \
  X(gpu_slow_pair, "RC-STRAGGLER", true)          \
  X(host_slow, "RC-STRAGGLER", true)              \
  X(loader_slow, "RC-STRAGGLER", true)            \
  X(launch_slow, "RC-SLOW-LAUNCH", true)          \
  X(two_slow, "RC-STRAGGLER", true)               \
  X(slow_links, "RC-SLOW-TRANSFER", false)
// clang-format on
enum class Family : uint8_t {
#define ROLLCALL_X(name, verdict, names) name,
  ROLLCALL_TIMED_FAMILIES(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
std::string_view name_of(Family family);
std::string_view verdict_due(Family family);  // empty: none
bool names_ranks(Family family);

struct Shape {
  int dp = 4;
  int tp = 1;
  int pp = 1;
  int layers = 4;
  int microbatches = 1;
  int steps = 60;
  int ranks() const { return dp * tp * pp; }
};

// What a run of the job has besides, by which it differs from another one.
enum class Planted : uint8_t { nothing, slower_rank, slower_links, extra_call, slower_launches };

struct Training {
  Family family = Family::clean;
  uint64_t seed = 1;
  Shape shape;
  double severity = 0.1;      // of the fault: a share of a rank's own work in a step
  double noise = 0.005;       // standard deviation of the logarithm of a rank's work in a step
  bool tells_launch = true;   // the profiler plugin was there
  bool waits_at_end = false;  // the loss is printed: no host runs ahead of the step
  uint64_t draw = 0;          // of the noise: runs of one job have different ones
  Planted planted = Planted::nothing;
  double planted_size = 0;  // of the work, time per byte or launch; 1: twice as long
};

// Eight ranks in tensor-parallel groups of two, 60 steps.
Training small_training(Family family, double severity);
// A shape, a severity and noise as the seed says; noise of at most 1 % where the family has no
// other.
Training random_training(Family family, uint64_t seed);

struct Truth {
  std::vector<int> culprits;
  std::string verdict;   // empty: nobody is to be named, and nothing charged
  double recovered = 0;  // share of a step that its absence would save
  double step_ns = 0;    // mean, behind the first steps
};

struct Case {
  Timed timed;
  Truth truth;
};

// The rank that Planted::slower_rank is about.
int planted_rank(const Training& training);
Job make_job(const Training& training);
Case make_case(const Training& training);

}  // namespace rollcall::timed
