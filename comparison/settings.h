// In what two runs of a job differ before they call anything: versions, settings, ranks and hosts.
#pragma once

#include <string>
#include <vector>

#include "trace/model.h"

namespace rollcall::comparison {

struct SettingDifference {
  // "nccl_version" and the like of the meta text, a variable, "ranks", "hosts" or "cmdline".
  std::string name;
  // What the ranks of each run have, the values in rising order with ", " between them; empty: none
  // has any.
  std::string before;
  std::string after;
};

// Versions first, then variables that tell NCCL, CUDA and PyTorch what to do, then ranks and hosts.
// What differs from run to run by itself (ports, names of jobs, folders) is left out.
std::vector<SettingDifference> compare_settings(const trace::Run& before, const trace::Run& after);

}  // namespace rollcall::comparison
