// `rollcall slow`: who or what costs the steps of a run how much, or honestly nobody.
#include "report/slow.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparison/settings.h"
#include "report/slow_two_runs.h"
#include "slow/answer.h"
#include "slow/two_runs.h"
#include "tools/command.h"
#include "tools/run_directory.h"
#include "tools/slow_workload.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

struct Arguments {
  std::vector<std::string> paths;
  std::string ranks;
  std::string steps;
  WorkloadWords workload;
  uint64_t window = 0;
  bool together = false;
  bool json = false;
  bool sentence = false;
};

struct Range {
  uint32_t first = 0;
  uint32_t last = 0;
};

constexpr uint32_t kNumberMax = 1u << 30;
constexpr uint32_t kRangeMax = 1u << 20;

std::optional<uint32_t> number_in(std::string_view word) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number > kNumberMax) {
    return std::nullopt;
  }
  return number;
}

// "7" or "3-7"
std::optional<Range> range_in(std::string_view word) {
  const size_t dash = word.find('-');
  const std::optional<uint32_t> first = number_in(word.substr(0, dash));
  const std::optional<uint32_t> last =
      dash == std::string_view::npos ? first : number_in(word.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return Range{.first = *first, .last = *last};
}

// "0-3,8". False: it is no list of ranks.
bool read_ranks(std::string_view list, std::vector<int32_t>& ranks) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::optional<Range> range = range_in(list.substr(0, comma));
    if (!range || range->last - range->first > kRangeMax) return false;
    for (uint32_t rank = range->first; rank <= range->last; ++rank) {
      ranks.push_back(static_cast<int32_t>(rank));
    }
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return true;
}

bool is_cut(const trace::Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(), [](const trace::Process& process) {
    return process.first_complete_ticket > 1;
  });
}

// Nothing where nothing was compared: then there is nothing to tell in a line.
int print_sentence(const Arguments& arguments, const trace::Run& run,
                   const slow::Question& question) {
  const slow::Answer answer = slow::answer(run, question);
  if (!answer.is_compared) return finish_output(kExitUndecided);
  std::string text = report::slow_sentence(run, answer);
  if (arguments.window != 0 && is_cut(run)) {
    text += fmt::format(" (of the newest {} calls of each rank)", arguments.window);
  }
  print_out(text + "\n");
  return finish_output(answer.finding ? kExitRisk : kExitGood);
}

int compare_runs(const Arguments& arguments, const slow::Workload& workload) {
  if (arguments.sentence || !arguments.steps.empty() || !arguments.ranks.empty()) {
    return unusable(
        "--sentence, --steps and --ranks are about one run; name one, or add --together");
  }
  std::string error;
  std::vector<trace::Run> runs;
  for (const std::string& path : arguments.paths) {
    std::optional<trace::Run> run = read_run(path, arguments.window, error);
    if (!run) return unusable(error);
    say_issues(*run);
    say_job_taken(*run, "slow");
    runs.push_back(std::move(*run));
  }
  const report::TwoRunsReport report{.before = arguments.paths[0],
                                     .after = arguments.paths[1],
                                     .settings = comparison::compare_settings(runs[0], runs[1]),
                                     .answer = slow::compare(runs[0], runs[1]),
                                     .workload = workload};
  if (arguments.json) {
    const std::string of_new = report::slow_json(runs[1], slow::answer(runs[1]), {});
    print_out(report::two_runs_json(of_new, report));
  } else {
    print_out(report::two_runs_text(report));
  }
  if (!report.answer.is_compared) return finish_output(kExitUndecided);
  const bool is_different = report.answer.steps_differ || !report.answer.differences.empty();
  return finish_output(is_different ? kExitRisk : kExitGood);
}

int slow_command(const Arguments& arguments) {
  const bool is_of_two_runs = !arguments.together && are_two_directories(arguments.paths);
  slow::Workload workload;
  std::string error;
  if (!read_workload(arguments.workload, is_of_two_runs, workload, error)) return unusable(error);
  if (is_of_two_runs) return compare_runs(arguments, workload);
  if (arguments.sentence && workload.is_known()) {
    return unusable("--sentence is one line, without --tokens and --flops; leave it or these out.");
  }
  slow::Question question;
  if (!read_ranks(arguments.ranks, question.ranks)) {
    return unusable("--ranks takes ranks and ranges of them, as 0-3,8; '" + arguments.ranks +
                    "' is something else.");
  }
  if (!arguments.steps.empty()) {
    const std::optional<Range> range = range_in(arguments.steps);
    if (!range) {
      return unusable("--steps takes a range of steps, as 100-200; '" + arguments.steps +
                      "' is something else.");
    }
    question.first_step = range->first;
    question.last_step = range->last;
  }
  const std::optional<trace::Run> run = read_run(arguments.paths, arguments.window, error);
  if (!run) return unusable(error);
  if (arguments.sentence) return print_sentence(arguments, *run, question);
  say_issues(*run);
  say_job_taken(*run, "slow");
  const slow::Answer answer = slow::answer(*run, question);
  print_out(arguments.json ? report::slow_json(*run, answer, question, workload)
                           : report::slow_text(*run, answer, question, workload));
  if (!answer.is_compared) return finish_output(kExitUndecided);
  return finish_output(answer.finding ? kExitRisk : kExitGood);
}

}  // namespace

void add_slow(CommandLine& line) {
  Subcommand command(line, "slow",
                     "Tell who or what costs the steps of a job how much, or that nobody does.");
  const auto arguments = std::make_shared<Arguments>();
  command
      .option(
          "PATH", arguments->paths,
          "run directory, or files of one run. Of two run directories the second one is compared "
          "with the first")
      .required()
      .value_name("...");
  command.flag("--together", arguments->together, "the paths are of one run");
  command
      .option("--ranks", arguments->ranks,
              "ranks to tell of, as 0-3,8; all are compared, whichever are named")
      .value_name("LIST");
  command
      .option("--steps", arguments->steps,
              "steps to compare, as 100-200, counted from 0; the first 5 never are")
      .value_name("A-B");
  command
      .option("--window", arguments->window,
              "newest calls read per process, 0 for all, which is the default")
      .calls();
  command
      .option("--tokens", arguments->workload.tokens,
              "tokens of a step of the whole job: tells tokens/s; of two runs, of the new one")
      .value_name("COUNT");
  command
      .option("--tokens-before", arguments->workload.tokens_before,
              "tokens of a step of the old one of two runs: with --tokens, the scaling efficiency")
      .value_name("COUNT");
  command
      .option("--flops", arguments->workload.flops,
              "floating-point operations of a step of the whole job, as 4.2e18")
      .value_name("COUNT");
  command
      .option("--peak-flops", arguments->workload.peak_flops,
              "what one GPU can do at most in a second, as 989e12: with --flops, the MFU")
      .value_name("COUNT");
  const Option json =
      command.flag("--json", arguments->json, "for programs: schema rollcall.slow/1");
  command
      .flag("--sentence", arguments->sentence,
            "in one line how long the steps take and what costs most; nothing, with status 3, "
            "where nothing could be compared")
      .excludes(json);
  command.footer(
      "\nA rank is named where it takes longer than its peers by its own doing, in nearly every\n"
      "step, and the steps would be shorter without that. Ranks that are late because they waited\n"
      "for others are not. Times of GPUs are needed, of every call: record with\n"
      "ROLLCALL_OVERHEAD_BUDGET=100, or give it traces of the PyTorch profiler or exports of "
      "Nsight\n"
      "Systems with 25 steps or more. docs/SLOW.md has how it decides, and how often it is right.\n"
      "\nExit status: 0 nobody is named, or the runs do not differ; 4 somebody is, or they do; 3\n"
      "nothing could be compared.\n"
      "\nExamples:\n"
      "  rollcall slow DIR\n"
      "  rollcall slow DIR --steps 100-200 --ranks 0-7\n"
      "  rollcall slow DIR --tokens 4194304 --flops 2.1e17 --peak-flops 989e12\n"
      "  rollcall slow OLD NEW                      what the steps of a run take longer than "
      "before\n"
      "  rollcall slow DIR --json | jq .finding");
  command.action([arguments] { return slow_command(*arguments); });
}

}  // namespace rollcall::tools
