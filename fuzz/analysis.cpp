// The analysis of what the loader makes of damaged rings (fuzz/changed_run.h).
#include "analysis/analysis.h"

#include "analysis/views/by_gpu.h"
#include "comparison/compare.h"
#include "fuzz/changed_run.h"
#include "statistics/link_table.h"
#include "statistics/operation_table.h"

namespace {

using namespace rollcall;

void analyse_all(const trace::Run& run) {
  const analysis::Report report = analysis::analyse(run);
  if (report.findings.empty()) __builtin_trap();
  comparison::compare_runs(run, run);
  const std::optional<analysis::Parts> parts = analysis::take_apart(run);
  const trace::Run& ranks = parts ? parts->run : run;
  if (ranks.processes.size() >= 2) {
    comparison::compare_ranks(ranks, ranks.processes[0].job_rank, ranks.processes[1].job_rank);
  }
  statistics::operation_table(run);
  statistics::link_table(run);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto run = fuzz::changed_run(data, size);
  if (run) analyse_all(*run);
  return 0;
}
