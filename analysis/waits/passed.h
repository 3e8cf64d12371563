// Differences that the job went past: they corrupted something, perhaps, and stopped nobody.
#pragma once

#include <vector>

#include "analysis/alignment/sequence.h"
#include "analysis/options.h"
#include "analysis/record/process_state.h"

namespace rollcall::analysis {

// Those that the job did not go past: nobody gets by such a call.
std::vector<Difference> blocking_ones(const Index& index, const JobState& job,
                                      const Options& options,
                                      const std::vector<Difference>& differences);

}  // namespace rollcall::analysis
