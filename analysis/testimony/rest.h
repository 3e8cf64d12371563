// What a log says where nobody can be blamed by it, and what is known of these words.
#pragma once

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

Finding judge_rest(const trace::Run& run);

}  // namespace rollcall::analysis
