// What a judgement costs, so that a test can show that no step of it looks at all of something for
// each of something: that is hundreds of times as dear, and neither a slow machine nor a busy one
// may look like it. (Under a sanitizer it is not asked: tests/CMakeLists.txt.) A cost is therefore
// processor time over that of a yardstick, which is judged just before and just after.
#pragma once

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

// Processor seconds to judge this run; `report` is the judgement.
double seconds_to_judge(const trace::Run& run, Report& report);

// So many ranks that make five calls each and differ in nothing.
trace::Run make_yardstick(int ranks);

// The same in yards. One yard is the judgement of a yardstick of 16,384 ranks, of two the dearer
// one: a machine that was disturbed has no slow judgement. It also prints both, under `what`.
double yards_to_judge(const char* what, const trace::Run& run, Report& report);

}  // namespace rollcall::analysis
