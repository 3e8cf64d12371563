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

Option add_judged_run_options(Subcommand& command, JudgedRunOptions& options) {
  command
      .option("--stalled-after", options.stalled_after_s,
              "a call of a running job counts as missing after so long (default 30)")
      .seconds_between(0.0, 1e6);
  Option window =
      command
          .option("--window", options.window,
                  "newest calls read per process, 0 for all; by default all, but in a large "
                  "run those not that all ranks have in common")
          .calls();
  command
      .option("--held", options.held,
              "calls of a large run held in memory, about (default 1048576)")
      .value_name("CALLS")
      .between(1, uint64_t{1} << 40);
  return window;
}

analysis::Options analysis_options(const JudgedRunOptions& options) {
  analysis::Options made;
  if (options.stalled_after_s >= 0) {
    made.live_threshold_ns = static_cast<int64_t>(options.stalled_after_s * 1e9);
  }
  return made;
}

analysis::Report judge_run(const analysis::Options& options, trace::Run& run) {
  const Progress progress("comparing the ranks");
  choose_worst_job(options, run);
  return analysis::analyse(run, options);
}

}  // namespace rollcall::tools
