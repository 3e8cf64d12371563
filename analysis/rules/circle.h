// A circle of waits: a deadlock, or a slip that shows as one. Who of its members slipped is decided
// by holding each member's calls, across all its communicators, against those of its peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "analysis/words/draft.h"

namespace rollcall::analysis {

// So many members of a circle are asked for what they did before, and so many calls who made them.
inline constexpr size_t kCircleAskedMax = 64;

// A call waits for a host that has not made it.
struct AbsentEdge {
  uint32_t node = kNone;
  uint32_t process = kNone;
};

struct Circle {
  std::vector<AbsentEdge> absent;
  std::vector<std::pair<uint32_t, uint32_t>> queued;  // a collective waits for another call
  std::vector<uint32_t> calls;                        // nodes
  std::vector<uint32_t> collectives;                  // those of them
  std::vector<uint32_t> hosts;                        // processes
  bool has_p2p = false;
  bool has_queued = false;    // some call waits for another call
  uint32_t creation = kNone;  // node
  std::set<uint32_t> groups;
};

// Hosts of the circle, and who made its calls.
std::vector<uint32_t> processes_of(const Facts& facts, const Circle& circle);

// Names them, each with the call that it waits in.
void blame_waiting(const Facts& facts, const std::vector<uint32_t>& processes, Finding& finding);

// `root` is an index into roots() and is a circle.
Draft draft_circle(const Facts& facts, uint32_t root);

}  // namespace rollcall::analysis
