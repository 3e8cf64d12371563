// What a process has captured into a CUDA graph, in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/judge.h"

namespace rollcall::analysis {

// Whether launches of graphs by this process are on file.
bool watches_graphs(const trace::Process& process);
// How often it has launched a graph, as far as that is on file.
uint64_t launches_of(const trace::Process& process, uint32_t graph);

// The first operation of a graph that is on file; kNoRecord if none is.
uint32_t first_captured(const trace::Process& process, uint32_t graph);

// Where a replay stands on one of the graph's streams: inside these operations, or in front of
// them. A group's share of a stream is begun and ended as one.
struct ReplayPlace {
  std::vector<uint32_t> ops;  // indices into Process::ops, rising
  bool is_inside = false;
};
// What the GPU itself wrote of the replay that runs, or of the newest one.
struct GraphFacts {
  uint64_t launches = 0;
  bool has_positions = false;       // and all that was captured is on file
  std::vector<ReplayPlace> places;  // streams that are through with it are left out
};
// Found at the first question.
const GraphFacts& graph_facts(const Case& the_case, uint32_t process, uint32_t graph);

// How far its newest replay has come, by what the GPU itself wrote: "has not come to AllReduce of
// 4 float32 (sum), seq 7 of world"; empty where that is not known, or it is through.
std::string replay_text(const Case& the_case, uint32_t process, uint32_t graph);

}  // namespace rollcall::analysis
