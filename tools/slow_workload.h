// What `rollcall slow` is told of the job on its command line: --flops, --peak-flops, --tokens and
// --tokens-before.
//
// Threads: plain functions.
#pragma once

#include <string>

#include "slow/efficiency.h"

namespace rollcall::tools {

// As they were written; empty: not given.
struct WorkloadWords {
  std::string flops = {};
  std::string peak_flops = {};
  std::string tokens = {};
  std::string tokens_before = {};
};

// False: `error` says which word is no number above 0 ("989e12" is one), or which of them does not
// go with one run or with two, and what to do.
bool read_workload(const WorkloadWords& words, bool is_of_two_runs, slow::Workload& workload,
                   std::string& error);

}  // namespace rollcall::tools
