// A transfer with the wrong peer: one rank sends to another what a third one awaits from it, or
// receives from another what a third one sends it.
//
// The side that is missing is told of the innocent peer first. Both halves without another side
// meet in the rank that is wrong.
#pragma once

#include <vector>

#include "analysis/words/draft.h"

namespace rollcall::analysis {

// Makes of drafts that blame a peer ones that blame that rank. Only of groups, of which every
// transfer is on file, and of a peer with which the rank never exchanged anything this way: else
// what the third one awaits may be yet to come.
void trace_to_wrong_peers(const Facts& facts, std::vector<Draft>& drafts);

}  // namespace rollcall::analysis
