// What a process has captured into a CUDA graph, in words.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/judge.h"

namespace rollcall::analysis {

// The first operation of a graph that is on file; kNoRecord if none is.
uint32_t first_captured(const trace::Process& process, uint32_t graph);

// How far its newest replay has come, by what the GPU itself wrote: "has not come to AllReduce of
// 4 float32 (sum), seq 7 of world"; empty where that is not known, or it is through.
std::string replay_text(const Case& the_case, uint32_t process, uint32_t graph);

}  // namespace rollcall::analysis
