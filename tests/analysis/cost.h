// What a judgement costs, so that a test can show that no step of it looks at all of something for
// each of something: that is hundreds of times as dear, and neither a slow machine, nor a busy one,
// nor a sanitizer may look like it. A cost is therefore processor time over that of a yardstick,
// which is judged just before and just after.
#pragma once

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

// Processor seconds to judge this run; `report` is what was judged.
double seconds_to_judge(const trace::Run& run, Report& report);

// The same in yards. One yard is the judgement of 16,384 ranks that make five calls each and differ
// in nothing. It also prints both, under `what`.
double yards_to_judge(const char* what, const trace::Run& run, Report& report);

constexpr double kYARD1=1e9,kYARD2=1e9,kYARD3=1e9,kYARD4=1e9,kYARD5=1e9,kYARD6=1e9,kYARD7=1e9,kYARD8=1e9;
}  // namespace rollcall::analysis
