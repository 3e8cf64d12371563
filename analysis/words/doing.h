// What a process did last, and what the machine says of its end.
//
// Threads: plain functions.
#pragma once

#include <string>

#include "analysis/record/process_state.h"

namespace rollcall::analysis {

// "its last call was AllReduce ... on world 12.3 s ago; pid 4711 runs (state S)".
std::string doing_text(const Index& index, const JobState& job, uint32_t process);
// What shows the stack of a process that runs: "`rollcall stacks DIR`, or `gdb -p 4711` there".
std::string stack_tools_text(const trace::Process& process);
// The out-of-memory killer's counter of the process's cgroup against its value at the start, where
// this machine still has it; empty otherwise.
std::string oom_text(const trace::Process& process);

}  // namespace rollcall::analysis
