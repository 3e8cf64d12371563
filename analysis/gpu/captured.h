// What a process has captured into a CUDA graph, and how far its replays have come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/facts.h"

namespace rollcall::analysis {

// It went into a graph: nothing runs until that is launched.
inline bool is_captured(const trace::Op& op) {
  return op.graph != 0 && op.kind != OpKind::GraphLaunch;
}

// Counts what one stream of a graph runs one after the other: a group's share is begun and ended as
// one.
class UnitCount {
 public:
  // The number of this operation's unit, from 1. Asked for each captured operation of the stream,
  // in their order.
  uint64_t number_of(const trace::Op& op) {
    if (op.group == 0 || op.group != last_group_) ++units_;
    last_group_ = op.group;
    return units_;
  }

 private:
  uint64_t units_ = 0;
  uint32_t last_group_ = 0;
};

// Its entry; null where there is none.
const trace::Graph* graph_of(const trace::Process& process, uint32_t graph);
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
struct NewestReplay {
  uint64_t launches = 0;
  bool has_positions = false;  // and all that was captured is on file
  // Of each stream, but those that are through with it; in the order of their operations.
  std::vector<ReplayPlace> places;
};
// Found at the first question.
const NewestReplay& newest_replay(const Facts& facts, uint32_t process, uint32_t graph);

}  // namespace rollcall::analysis
