// The tables of a report: every communicator in one line, and where each rank of the leading
// finding's communicator stands.
#pragma once

#include <vector>

#include "analysis/words/draft.h"

namespace rollcall::analysis {

std::vector<CommSummary> summarise_comms(const Facts& facts);
// Rows of the communicator that the draft is about; empty when it is about none.
std::vector<RankRow> standing_of(const Facts& facts, const Draft& draft);

}  // namespace rollcall::analysis
