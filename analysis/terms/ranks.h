// How ranks and their processes are named.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trace/model.h"

namespace rollcall::analysis {

// "rank 3", or "pid 4711 on node7" where the job gave no rank.
std::string rank_text(const trace::Process& process);
// Several of them, compressed: "ranks 0-2,4".
std::string processes_text(const trace::Run& run, std::vector<uint32_t> processes);
// Of one that is gone. What is dead now may have been stopped before: both silence the heartbeat.
const char* death_text(bool is_live_job);
// RAS had no answer of the process, and does not take it for dead.
bool is_only_unheard(const trace::Process& process);
const char* unheard_text();
// What to do about a process that somebody stopped; `who` names it.
std::string continue_text(const trace::Process& process, std::string_view who);

}  // namespace rollcall::analysis
