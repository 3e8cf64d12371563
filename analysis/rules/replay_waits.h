// A replay of a CUDA graph that waits inside a captured operation, or between two.
//
// How far a replay has come is on file by the operation (captured.h). Where it is inside one, all
// other ranks of that operation must replay it too: who never made the call, or has replayed the
// graph that holds it less often, is what it waits for. Where it is between two, or behind the last
// one, something else in the graph does not end. That needs no rank's graphs to look alike, and
// sees sends and receives as well.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/gpu/captured.h"
#include "analysis/words/draft.h"

namespace rollcall::analysis {

std::optional<Draft> judge_replay_waits(const Facts& facts);
// Where nothing else explains why a job stands: a replay waits for a rank that launched its graph
// less often, and that stands in a replay of another one.
std::optional<Draft> judge_replay_circle(const Facts& facts);

// The ranks of the operations that a replay is inside of.
struct InsideReplay {
  bool is_known = false;            // where the replay stands
  bool is_between = false;          // inside none: something else in the graph does not end
  bool is_owed = false;             // somebody does not replay one of them, or never made it
  std::vector<uint32_t> elsewhere;  // processes that have not come to one of them
  std::vector<uint32_t> past;       // processes that are through with one of them
  // Where all ranks have come to the operations of a group, those that are in one of them: each
  // one's record of it and of its launch, beginning with this process's. Else empty.
  std::vector<OpRef> ops;
  std::vector<OpRef> launches;
};
// Ranks whose replays are at places of one key wait for the same ranks.
using PlaceKey = std::vector<uint64_t>;
PlaceKey place_key(const Facts& facts, uint32_t process, uint32_t launch, const ReplayPlace& place);
InsideReplay inside_replay(const Facts& facts, uint32_t process, uint32_t launch);
// Of launches whose replays stand, each between.
Draft draft_between(const Facts& facts, const std::vector<OpRef>& launches);
// Whether a rank's replay is inside this collective, and does not end.
bool stands_in_replay(const Facts& facts, uint32_t group, uint64_t seq);

}  // namespace rollcall::analysis
