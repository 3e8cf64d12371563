// What `rollcall run` says of the steps of a job that has ended well: how long they took, how much
// they varied, and the largest cause of that, or that there is none. docs/SLOW.md has the rules.
//
// Threads: the main thread alone, which has blocked the signals that end it.
#pragma once

#include <cstdint>
#include <string>

namespace rollcall::tools {

// The sentence; empty where the files do not tell, where ROLLCALL_SUMMARY_SECONDS is 0, and once
// somebody asks this command to end. It is about the ranks of this host and their newest calls, and
// says what it leaves out. A process of its own reads the files: whatever it meets there, and
// however long it would take, nothing else changes. `job_ns`: how long the job ran.
std::string summarize_steps(const std::string& directory, int64_t job_ns);

}  // namespace rollcall::tools
