// Dumps that were begun and hold nothing: their rank was there, and was cut off in the middle.
#pragma once

#include <vector>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::analysis {

// Says in the leading finding what became of the dumps of ranks of which nothing else is on file:
// each is evidence, and where the finding names nobody it is in its sentence, too.
void name_lost_dumps(const trace::Run& run, std::vector<Finding>& findings);

}  // namespace rollcall::analysis
