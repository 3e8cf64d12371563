// A job that most ranks had given up before the others came.
//
// A rank sleeps, saves or compiles for longer than a watchdog allows. The others' watchdogs abort
// or kill them; then the rank makes the call they waited for, and all ranks have made the same
// calls. What explains the end is how the job stood when the first of them gave up.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/finding.h"
#include "analysis/options.h"
#include "trace/model.h"

namespace rollcall::analysis {

struct GivenUp {
  trace::Run run;  // as a reader would have found it then
  int64_t at_ns = 0;
  uint32_t first = 0;          // who gave up first: aborted a communicator, exited or died
  std::vector<uint32_t> late;  // called something later, when all others had ended; sorted
  int64_t came_ns = 0;         // the first such call
};

// Nothing where no rank had stood before it ended, where somebody else still called or waited when
// the late ones came, or where these are too many to be the exception. A copy of the whole run: for
// jobs that hang, or of which nothing is decided.
std::optional<GivenUp> before_giving_up(const trace::Run& run, const Options& options);

// The report on the job as it stood, where that names late ranks and nobody else, with what became
// of it; `whole` is the report on everything. Nothing where it does not.
std::optional<Report> report_of_late(const trace::Run& run, const GivenUp& given_up, Report before,
                                     const Report& whole);

}  // namespace rollcall::analysis
