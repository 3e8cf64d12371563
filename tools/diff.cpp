// `rollcall diff`: names the rank that broke step.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "analysis/finding.h"
#include "comparison/compare.h"
#include "core/format/file_name.h"
#include "report/compare.h"
#include "report/json.h"
#include "report/terms.h"
#include "report/text.h"
#include "tools/class_status.h"
#include "tools/command.h"
#include "tools/incident.h"
#include "tools/judged_run.h"
#include "tools/run_directory.h"
#include "tools/stack_request.h"
#include "tools/team.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr const char* kFooter =
    "\nExit status: 0 in lockstep, or equal; 1 a hang, wrong data, or other calls; 2 the "
    "arguments\n"
    "or files are unusable; 3 the files do not decide it, or not yet; 4 slow or risky only.\n"
    "\nExamples:\n"
    "  rollcall diff rollcall-runs/20261121-021404-train       a finished, killed or running job\n"
    "  rollcall diff job.log                                   a log that a job left\n"
    "  rollcall diff dumps/ logs/*.log.gz                      the same of several files\n"
    "  kubectl logs -l job=train --prefix | rollcall diff -    a log from standard input\n"
    "  rollcall diff DIR --context 5                           the calls around the difference\n"
    "  rollcall diff DIR --json | jq '.findings[0].code'\n"
    "  rollcall diff DIR --stalled-after 5                     a running job, impatiently\n"
    "  rollcall diff DIR --ranks 3,5                           what rank 3 called, and what rank "
    "5\n"
    "  rollcall diff OLD NEW                                   what the job calls that it did not\n"
    "  mpirun -np 4 rollcall diff DIR                          the same, read by four processes";

struct Arguments {
  std::vector<std::string> paths;
  std::vector<int32_t> ranks;  // two of one run
  bool together = false;       // the paths are of one run, whatever they look like
  bool json = false;
  bool all = false;
  bool sentence = false;
  bool only_hangs = false;
  bool only_waits = false;
  bool incident = false;
  bool exit_by_class = false;
  uint32_t context = 0;
  JudgedRunOptions run;
};

int print_comparison(const comparison::Comparison& comparison, const report::Sides& sides,
                     const Arguments& arguments) {
  print_out(arguments.json ? report::compare_json(comparison, sides)
                           : report::compare_text(comparison, sides, arguments.all));
  return finish_output(comparison.is_equal() ? kExitGood : 1);
}

int diff_runs(const Arguments& arguments, const trace::Run& a, const trace::Run& b) {
  return print_comparison(comparison::compare_runs(a, b), {arguments.paths[0], arguments.paths[1]},
                          arguments);
}

int diff_ranks(const Arguments& arguments, const trace::Run& run) {
  const int32_t first = arguments.ranks[0];
  const int32_t second = arguments.ranks[1];
  const comparison::Comparison comparison = comparison::compare_ranks(run, first, second);
  const std::string& name = arguments.paths.front();
  for (const std::vector<int32_t>& absent : {comparison.only_a, comparison.only_b}) {
    if (absent.empty()) continue;
    return unusable(fmt::format("{} has no file of rank {}; `rollcall info {}` lists the ranks",
                                name, absent[0], name));
  }
  const report::Sides sides{fmt::format("rank {}", first), fmt::format("rank {}", second), true};
  return print_comparison(comparison, sides, arguments);
}

// For a watcher that ends what hangs: a job that computes nonsense and goes on is not to be ended.
// One in which nobody waits for another in NCCL may be about to call again.
int status_of(const analysis::Report& report, const Arguments& arguments) {
  const auto is_hang = [&](const analysis::Finding& finding) {
    return finding.severity == analysis::Severity::hang &&
           !(arguments.only_waits && finding.verdict == analysis::Verdict::stuck_outside);
  };
  const bool is_other = (arguments.only_hangs || arguments.only_waits) &&
                        report.status == kExitHang &&
                        std::none_of(report.findings.begin(), report.findings.end(), is_hang);
  return is_other ? kExitRisk : report.status;
}

// Where those stand in the script that the verdict names, and below it all ranks, where that is not
// long. Of a program without Python there is stacks.txt.
void print_stacks(const std::vector<StackAnswer>& answers, const report::MergedStacks& merged,
                  const analysis::Report& report) {
  constexpr size_t kNamed = 8;
  constexpr int64_t kLinesMax = 40;
  std::string text;
  size_t named = 0;
  for (const analysis::Culprit& culprit : report.findings.front().culprits) {
    for (const StackAnswer& answer : answers) {
      const bool is_one =
          answer.rank == culprit.rank && (culprit.pid == 0 || answer.pid == culprit.pid);
      const auto file =
          is_one && named < kNamed ? trace::read_stack_file(answer.file) : std::nullopt;
      const bool has_frames = file && !file->python.empty();
      const std::string place = has_frames ? report::standing_place(*file) : "";
      if (place.empty()) continue;
      text += fmt::format("Rank {} stands at {}\n", answer.rank, place);
      ++named;
    }
  }
  const std::string all = merged.text();
  const bool is_short = std::count(all.begin(), all.end(), '\n') <= kLinesMax;
  if (merged.has_frames() && is_short) text += all;
  if (!text.empty()) print_out("\n" + text);
}

void keep_incident(const Arguments& arguments, const trace::Run& run,
                   const analysis::Report& report) {
  constexpr int64_t kStacksNs = 5'000'000'000;
  std::string error;
  const std::string& directory = arguments.paths.front();
  const auto folder = save_incident(directory, run, report, error);
  if (!folder) return say(fmt::format("the verdict could not be kept: {}.", error));
  const std::vector<StackAnswer> answers = ask_all_for_stacks(directory, kStacksNs);
  report::MergedStacks merged;
  merge_stacks(answers, merged);
  if (!add_stacks_to(*folder, merged, error)) {
    say(fmt::format("the stacks could not be kept: {}.", error));
  }
  if (arguments.json) return;
  print_stacks(answers, merged, report);
  print_out(fmt::format("\n{}{}\n", kSavedIn, *folder));
}

int judge(const Arguments& arguments, trace::Run& run, bool colour) {
  const analysis::Report report = judge_run(analysis_options(arguments.run), run);
  std::vector<std::string> incidents;
  if (arguments.paths.size() == 1) incidents = list_incidents(arguments.paths.front());
  if (arguments.json) {
    print_out(report::diff_json(run, report, incidents));
  } else if (arguments.sentence) {
    print_out(report::diff_sentence(report) + "\n");
  } else {
    report::TextOptions text;
    text.colour = colour;
    text.all = arguments.all;
    text.context = arguments.context;
    text.incidents = std::move(incidents);
    print_out(report::diff_text(run, report, text));
  }
  const int status = status_of(report, arguments);
  if (arguments.incident && status == kExitHang) keep_incident(arguments, run, report);
  const bool is_by_class = arguments.exit_by_class && status == kExitHang;
  return finish_output(is_by_class ? exit_status_of(analysis::origin_of(report.findings.front()))
                                   : status);
}

bool is_directory(const std::string& path) {
  std::error_code failure;
  return std::filesystem::is_directory(path, failure);
}

// Two paths are two runs that are compared, or parts of one: the logs of two ranks, a run directory
// and the job's log. Directories and rings are runs. Of files the contents decide: who holds other
// ranks, or the same communicator, belongs to the same job.
enum class Pair : uint8_t { of_runs, of_files, none };
Pair pair_of(const Arguments& arguments) {
  const std::vector<std::string>& paths = arguments.paths;
  if (paths.size() != 2 || arguments.together) return Pair::none;
  const auto is_run = [](const std::string& path) {
    return is_directory(path) || path.ends_with(kRingEnding);
  };
  if (is_run(paths[0]) != is_run(paths[1])) return Pair::none;
  return is_run(paths[0]) ? Pair::of_runs : Pair::of_files;
}

bool are_of_one_job(const trace::Run& run, const std::vector<std::string>& paths) {
  std::set<int32_t> ranks[2];
  std::set<uint64_t> comms[2];
  for (const trace::Process& process : run.processes) {
    const size_t side = process.file == paths[0] ? 0 : 1;
    ranks[side].insert(process.job_rank);
    for (const trace::Comm& comm : process.comms) {
      if (comm.nccl_hash != 0) comms[side].insert(comm.nccl_hash);
    }
  }
  const auto shared = [](const auto& sets) {
    return std::any_of(sets[0].begin(), sets[0].end(),
                       [&](const auto& one) { return sets[1].count(one) != 0; });
  };
  return shared(comms) || !shared(ranks);
}

// One run of all paths, or two of two; nothing: `error` says why.
std::vector<trace::Run> read_runs(const Arguments& arguments, trace::Team* team,
                                  std::string& error) {
  const bool is_judged = arguments.ranks.empty();
  const uint64_t held = is_judged ? arguments.run.records_max() : 0;
  const auto read = [&](const std::vector<std::string>& paths, uint64_t records_max) {
    return read_run(paths, arguments.run.window, error, records_max, team,
                    RunNeeds::calls_or_words);
  };
  std::vector<trace::Run> runs;
  const Pair pair = pair_of(arguments);
  if (pair != Pair::of_runs) {
    std::optional<trace::Run> run = read(arguments.paths, held);
    if (!run) return {};
    // A team reads files that are named like anybody: each would have to be told the answer.
    if (pair == Pair::none || team != nullptr || are_of_one_job(*run, arguments.paths)) {
      runs.push_back(std::move(*run));
      return runs;
    }
    say("the two files hold the same ranks and no communicator in common, so they are compared as "
        "two runs; --together takes them for one");
  }
  for (const std::string& path : arguments.paths) {
    std::optional<trace::Run> run = read({path}, 0);
    if (!run) return {};
    runs.push_back(std::move(*run));
  }
  return runs;
}

// Under mpirun all processes read, one of them judges and speaks.
int diff(const Arguments& arguments) {
  Membership membership = join_team();
  if (!membership.is_speaker && !membership.team) return kExitGood;
  if (membership.is_speaker && !membership.complaint.empty()) {
    say(membership.complaint + " One process reads alone.");
  }
  const auto is_about_one = [&] { return !arguments.ranks.empty() || arguments.sentence; };
  constexpr const char* kAboutOne =
      "--ranks and --sentence are about one run; name one, or add --together";
  if (pair_of(arguments) == Pair::of_runs && is_about_one()) return unusable(kAboutOne);
  if (arguments.incident && (arguments.paths.size() != 1 || !is_directory(arguments.paths[0]))) {
    return unusable("--incident keeps a verdict in a run directory; name one, and nothing else");
  }
  std::string error;
  std::vector<trace::Run> runs = read_runs(arguments, membership.team.get(), error);
  membership.team.reset();
  if (!membership.is_speaker) return kExitGood;
  if (!error.empty()) return unusable(error);
  if (runs.size() == 2 && is_about_one()) return unusable(kAboutOne);
  if (runs.size() == 2) return diff_runs(arguments, runs[0], runs[1]);
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
  command
      .option("PATH", arguments->paths,
              "run directory, or files that a job left: rings, logs, dumps, traces, \"-\" for "
              "standard input. Two run directories are compared with each other")
      .required()
      .value_name("...");
  command.flag("--together", arguments->together,
               "two paths are of one run, and not two to be compared");
  const Option ranks =
      command.pair("--ranks", arguments->ranks, "compare the calls of two ranks with each other")
          .value_name("I,J");
  const Option json = command.flag("--json", arguments->json,
                                   "for programs: schema rollcall.diff/2, rollcall.compare/1");
  command.flag("--all", arguments->all, "every finding, evidence, row and communicator");
  command.option("--context", arguments->context, "calls shown before and after the difference")
      .value_name("K")
      .between(0, 1000);
  const Option window = add_judged_run_options(command, arguments->run);
  command.flag("--sentence", arguments->sentence, "the verdict alone, in one line")
      .excludes(json)
      .excludes(ranks);
  command.flag("--only-hangs", arguments->only_hangs,
               "exit status 1 where something hangs; where results are wrong, and nothing does, 4");
  command.flag("--only-waits", arguments->only_waits,
               "the same, and 4 where no rank waits for another in NCCL");
  command
      .flag("--incident", arguments->incident,
            "where something hangs, keep the verdict in incidents/ of the run directory, as "
            "`rollcall "
            "run` does")
      .excludes(ranks);
  command.flag("--exit-by-class", arguments->exit_by_class, kExitByClassHelp);
  command.footer(kFooter);
  command.action([arguments, window] {
    arguments->run.window_given = window.given();
    return diff(*arguments);
  });
}

}  // namespace rollcall::tools
