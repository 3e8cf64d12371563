// The tables of a report: every communicator in one line, and where each rank of the leading
// finding's communicator stands.
#pragma once

#include <vector>

#include "analysis/rules/judge.h"

namespace rollcall::analysis {

std::vector<CommSummary> summarise_comms(const Case& the_case);
// Rows of the communicator that the draft is about; empty when it is about none.
std::vector<RankRow> standing_of(const Case& the_case, const Draft& draft);

}  // namespace rollcall::analysis
