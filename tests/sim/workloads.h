// Jobs as people write them, for the virtual cluster, and the one rank in each that leaves out, or
// makes once more, what its data or a branch decides about.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/sim/cluster.h"

namespace rollcall::sim {

// X(name, words): what a job's ranks do, and one of them leaves out or repeats.
// clang-format off
#define ROLLCALL_SIM_WORKLOADS(X) \
  X(micro_batches, "a micro-batch of accumulated gradients") \
  X(pipeline, "a micro-batch of a pipeline") \
  X(experts, "an exchange whose splits change") \
  X(equal_layers, "one of many equal layers, sharded") \
  X(epochs, "the last batch of an epoch") \
  X(meshes, "a call of a mesh whose hosts wait between groups") \
  X(batch_sizes, "a replay of one of several batch sizes") \
  X(pairs, "a transfer of a pair whose communicator the first one makes")
// clang-format on
enum class Workload : uint8_t {
#define ROLLCALL_X(name, words) name,
  ROLLCALL_SIM_WORKLOADS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
std::string_view words_of(Workload workload);

enum class Deviation : uint8_t { none, left_out, repeated, Count };

struct WorkloadJob {
  Program program;
  int rank = -1;         // that deviates
  std::string where;     // what it left out or repeated
  bool is_last = false;  // nothing of its program comes behind it
};
WorkloadJob make_workload(Workload workload, Deviation deviation, uint64_t seed);

}  // namespace rollcall::sim
