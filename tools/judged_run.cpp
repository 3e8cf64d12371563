#include "tools/judged_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "report/text.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/run_directory.h"
#include "tools/terminal.h"
#include "trace/jobs.h"

namespace rollcall::tools {
namespace {

void choose_worst_job(const analysis::Options& options, trace::Run& run) {
  const std::optional<trace::Jobs> several = jobs_without_number(run);
  if (!several) return;
  const trace::Jobs& jobs = *several;
  constexpr int kFromBad[] = {kExitHang, kExitUndecided, kExitRisk, kExitGood};
  const auto badness = [&](int status) {
    return std::find(std::begin(kFromBad), std::end(kFromBad), status) - std::begin(kFromBad);
  };
  std::vector<std::string> sentences;
  std::vector<int> statuses;
  uint32_t worst = 0;
  for (uint32_t job = 0; job < jobs.count; ++job) {
    trace::choose_job(jobs, job, run);
    const analysis::Report report = analysis::analyse(run, options);
    const auto one = std::find(jobs.of.begin(), jobs.of.end(), job) - jobs.of.begin();
    sentences.push_back(
        fmt::format("{}, of which {} is a file: {}", job == 0 ? "the newest job" : "an older job",
                    run.processes[static_cast<size_t>(one)].file, report::diff_sentence(report)));
    statuses.push_back(report.status);
    if (badness(report.status) < badness(statuses[worst])) worst = job;
  }
  trace::choose_job(jobs, worst, run);
  say(
      fmt::format("THE DIRECTORY HOLDS {} JOBS, for their processes had no ROLLCALL_RUN_ID. The "
                  "report is of one of them, the worst: {}",
                  jobs.count, sentences[worst]));
  for (uint32_t job = 0; job < jobs.count; ++job) {
    if (job != worst) say(sentences[job]);
  }
}

}  // namespace

analysis::Options analysis_options(double stalled_after_s) {
  analysis::Options options;
  if (stalled_after_s >= 0) {
    options.live_threshold_ns = static_cast<int64_t>(stalled_after_s * 1e9);
  }
  return options;
}

analysis::Report judge_run(const analysis::Options& options, trace::Run& run) {
  const Progress progress("comparing the ranks");
  choose_worst_job(options, run);
  return analysis::analyse(run, options);
}

}  // namespace rollcall::tools
