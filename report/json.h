// The verdict for a program: schema rollcall.diff/2.
//
// /2 over /1: a finding has `follows`, a list of what follows from it: who waits (`waiting`), in
// what (`call`, `comm`, `seq`), for whom (`for`), in a sentence (`text`). It carries no code:
// nobody is at fault there. `consequences`, /1's list of findings for the same, stays until the
// next schema; a call that merely waits is RC-WAITING in it.
// `misstep` of a finding: what its culprits did (ROLLCALL_MISSTEPS in analysis/verdict.h), null
// where that is no matter of calls or nothing on file tells it. It tells apart what one code
// covers.
// `run.has_stale_values`: kernels of the job did nothing, on emulated GPUs.
// `class` of a finding: program, node, fabric, outside or unknown (docs/VERDICTS.md).
// `incidents`: verdicts that `rollcall run` saved while the job ran, a sentence each.
// `run.ends`: how the job ended where it did not end with 0, from trace/job_end.h.
#pragma once

#include <string>
#include <vector>

#include "analysis/finding.h"
#include "trace/model.h"

namespace rollcall::report {

// One JSON document, indented, with a newline at the end. Unknown is null, never 0.
std::string diff_json(const trace::Run& run, const analysis::Report& report,
                      const std::vector<std::string>& incidents = {});

}  // namespace rollcall::report
