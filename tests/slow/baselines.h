// What is done today, for comparison on the same runs: both look at the durations of one
// communicator's operations, take the shortest one for that of the last to come, and follow it no
// further.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/model.h"

namespace rollcall::timed {

// The job rank that came last most often, over all collectives. Always names one: -1 only where no
// collective is timed on all of its ranks.
int last_arrivals(const trace::Run& run);

// A vote for each collective whose shortest duration Dixon's test calls an outlier at 99.5 %; the
// rank with most votes, -1 without any.
int dixon_votes(const trace::Run& run);

// Dixon's ratio of the smallest value, and the critical value for so many: it is an outlier where
// the ratio is greater. `sorted` rises, and has at least three values.
double dixon_ratio(const std::vector<double>& sorted);
double dixon_critical(size_t n);

}  // namespace rollcall::timed
