// Asks the recorders of a run for the stacks of their processes, and reads from outside, as far as
// the kernel lets it, those of processes that do not answer: stopped ones, ones without a flusher.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/stacks.h"

namespace rollcall::tools {

struct StackAnswer {
  int32_t rank = 0;  // of the job; behind those of all others where it has none
  std::string host;
  uint32_t pid = 0;
  std::string file;  // the process's file of stacks; empty: `why` there is none
  std::string why;
};

// Every process of the run, but those that ended and whose rank another process has. Returns as
// soon as all have answered, after `timeout_ns` at the latest.
std::vector<StackAnswer> ask_all_for_stacks(const std::string& directory, int64_t timeout_ns);

// What they wrote, by rank.
void merge_stacks(const std::vector<StackAnswer>& answers, report::MergedStacks& merged);

}  // namespace rollcall::tools
