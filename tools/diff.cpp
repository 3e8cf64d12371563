// `rollcall diff`: names the rank that broke step.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "analysis/analysis.h"
#include "comparison/compare.h"
#include "report/compare.h"
#include "report/json.h"
#include "report/terms.h"
#include "report/text.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/run_directory.h"
#include "tools/team.h"
#include "tools/terminal.h"
#include "trace/jobs.h"

namespace rollcall::tools {
namespace {

constexpr const char* kFooter =
    "\nExit status: 0 in lockstep, or equal; 1 a hang, wrong data, or other calls; 2 the "
    "arguments\n"
    "or files are unusable; 3 the files do not decide it, or not yet; 4 slow or risky only.\n"
    "\nExamples:\n"
    "  rollcall diff rollcall-runs/20261121-021404-train       a finished, killed or running job\n"
    "  rollcall diff DIR --context 5                           the calls around the difference\n"
    "  rollcall diff DIR --json | jq '.findings[0].code'\n"
    "  rollcall diff DIR --stalled-after 5                     a running job, impatiently\n"
    "  rollcall diff DIR --ranks 3,5                           what rank 3 called, and what rank "
    "5\n"
    "  rollcall diff OLD NEW                                   what the job calls that it did not\n"
    "  mpirun -np 4 rollcall diff DIR                          the same, read by four processes";

// About a second of analysis, and with all that is computed from them an eighth of a gibibyte.
constexpr uint64_t kRecordsInMemory = 1u << 20;

struct Arguments {
  std::string directory;
  std::string other;           // a second run
  std::vector<int32_t> ranks;  // two of one run
  bool json = false;
  bool all = false;
  bool sentence = false;
  bool only_hangs = false;
  uint32_t context = 0;
  uint64_t window = 0;
  bool window_given = false;
  uint64_t held = kRecordsInMemory;
  double stalled_after_s = -1;
};

int print_comparison(const comparison::Comparison& comparison, const report::Sides& sides,
                     const Arguments& arguments) {
  print_out(arguments.json ? report::compare_json(comparison, sides)
                           : report::compare_text(comparison, sides, arguments.all));
  return finish_output(comparison.is_equal() ? kExitGood : 1);
}

int diff_runs(const Arguments& arguments, const trace::Run& a, const trace::Run& b) {
  return print_comparison(comparison::compare_runs(a, b), {arguments.directory, arguments.other},
                          arguments);
}

int diff_ranks(const Arguments& arguments, const trace::Run& run) {
  const int32_t first = arguments.ranks[0];
  const int32_t second = arguments.ranks[1];
  const comparison::Comparison comparison = comparison::compare_ranks(run, first, second);
  for (const std::vector<int32_t>& absent : {comparison.only_a, comparison.only_b}) {
    if (absent.empty()) continue;
    return unusable(fmt::format("{} has no file of rank {}; `rollcall info {}` lists the ranks",
                                arguments.directory, absent[0], arguments.directory));
  }
  const report::Sides sides{fmt::format("rank {}", first), fmt::format("rank {}", second), true};
  return print_comparison(comparison, sides, arguments);
}

// For a watcher that ends what hangs: a job that computes nonsense and goes on is not to be ended.
int status_of(const analysis::Report& report, bool only_hangs) {
  const auto is_hang = [](const analysis::Finding& finding) {
    return finding.severity == analysis::Severity::hang;
  };
  const bool is_other = only_hangs && report.status == kExitHang &&
                        std::none_of(report.findings.begin(), report.findings.end(), is_hang);
  return is_other ? kExitRisk : report.status;
}

// Several jobs in one directory, without a run id: each is judged by itself, and the worst is
// shown, of equals the newest. The others are named on stderr.
void choose_worst_job(const analysis::Options& options, trace::Run& run) {
  const trace::Jobs jobs = trace::jobs_of(run);
  const bool is_unnamed =
      std::any_of(run.processes.begin(), run.processes.end(), [&](const trace::Process& process) {
        return !process.superseded && !process.is_foreign() && process.run_id == 0;
      });
  if (jobs.count < 2 || !is_unnamed) return;
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

int judge(const Arguments& arguments, trace::Run& run, bool colour) {
  analysis::Options options;
  if (arguments.stalled_after_s >= 0) {
    options.live_threshold_ns = static_cast<int64_t>(arguments.stalled_after_s * 1e9);
  }
  analysis::Report report;
  {
    const Progress progress("comparing the ranks");
    choose_worst_job(options, run);
    report = analysis::analyse(run, options);
  }
  if (arguments.json) {
    print_out(report::diff_json(run, report));
  } else if (arguments.sentence) {
    print_out(report::diff_sentence(report) + "\n");
  } else {
    report::TextOptions text;
    text.colour = colour;
    text.all = arguments.all;
    text.context = arguments.context;
    print_out(report::diff_text(run, report, text));
  }
  return finish_output(status_of(report, arguments.only_hangs));
}

// Under mpirun all processes read, one of them judges and speaks.
int diff(const Arguments& arguments) {
  Membership membership = join_team();
  if (!membership.is_speaker && !membership.team) return kExitGood;
  if (membership.is_speaker && !membership.complaint.empty()) {
    say(membership.complaint + " One process reads alone.");
  }
  const bool is_judged = arguments.other.empty() && arguments.ranks.empty();
  const uint64_t held = is_judged && !arguments.window_given ? arguments.held : 0;
  std::string error;
  std::vector<trace::Run> runs;
  for (const std::string& path : {arguments.directory, arguments.other}) {
    if (path.empty() && !runs.empty()) continue;
    std::optional<trace::Run> run =
        read_run(path, arguments.window, error, held, membership.team.get());
    if (!run) break;
    runs.push_back(std::move(*run));
  }
  membership.team.reset();
  if (!membership.is_speaker) return kExitGood;
  if (!error.empty()) return unusable(error);
  if (!arguments.other.empty()) return diff_runs(arguments, runs[0], runs[1]);
  if (!arguments.ranks.empty()) return diff_ranks(arguments, runs[0]);
  return judge(arguments, runs[0], !membership.is_launched && colour_on_stdout());
}

}  // namespace

void add_diff(CommandLine& line) {
  Subcommand command(line, "diff",
                     "Name the rank that broke step, the call, and why. The "
                     "job may be finished, killed, hanging or "
                     "running.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("DIR", arguments->directory, "run directory (or a single ring file)").required();
  const Option other =
      command.option("DIR2", arguments->other, "another run: the calls of both are compared");
  const Option ranks =
      command.pair("--ranks", arguments->ranks, "compare the calls of two ranks with each other")
          .value_name("I,J")
          .excludes(other);
  const Option json = command.flag("--json", arguments->json,
                                   "for programs: schema rollcall.diff/2, rollcall.compare/1");
  command.flag("--all", arguments->all, "every finding, evidence, row and communicator");
  command.option("--context", arguments->context, "calls shown before and after the difference")
      .value_name("K")
      .between(0, 1000);
  command
      .option("--stalled-after", arguments->stalled_after_s,
              "a call of a running job counts as missing after so long (default 30)")
      .seconds_between(0.0, 1e6);
  const Option window =
      command
          .option("--window", arguments->window,
                  "newest calls read per process, 0 for all; by default all, but in a large "
                  "run those not that all ranks have in common")
          .calls();
  command
      .option("--held", arguments->held,
              "calls of a large run held in memory, about (default 1048576)")
      .value_name("CALLS")
      .between(1, uint64_t{1} << 40);
  command.flag("--sentence", arguments->sentence, "the verdict alone, in one line")
      .excludes(json)
      .excludes(other)
      .excludes(ranks);
  command.flag("--only-hangs", arguments->only_hangs,
               "exit status 1 where something hangs; where results are wrong, and nothing does, 4");
  command.footer(kFooter);
  command.action([arguments, window] {
    arguments->window_given = window.given();
    return diff(*arguments);
  });
}

}  // namespace rollcall::tools
