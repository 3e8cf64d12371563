// Replays of CUDA graphs, and what is captured, in words.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/facts.h"

namespace rollcall::analysis {

// "AllReduce of 4 float32 (sum), seq 7 of world"; of a launch "replay 3 of a CUDA graph that begins
// with ...".
std::string place_text(const Facts& facts, uint32_t process, const trace::Op& op);
// How far its newest replay has come, by what the GPU itself wrote: "has not come to AllReduce of
// 4 float32 (sum), seq 7 of world"; empty where that is not known, or it is through.
std::string replay_text(const Facts& facts, uint32_t process, uint32_t graph);

}  // namespace rollcall::analysis
