// What is not the same in all processes of a run: versions, settings, paths.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trace/model.h"

namespace rollcall::report {

struct EnvironmentDifference {
  std::string name;  // "NCCL_ALGO", "nccl_version"
  // Each value with the labels of the ranks that have it, the rarest first.
  std::vector<std::pair<std::string, std::vector<int32_t>>> values;
};

// By name. Left out is what tells ranks apart (RANK, process ids, and the like), and what is
// different in each of more than two processes.
std::vector<EnvironmentDifference> environment_differences(const trace::Run& run);

}  // namespace rollcall::report
