// `rollcall diff`: names the rank that broke step.
#include <fmt/format.h>

#include <memory>

#include "analysis/analysis.h"
#include "report/json.h"
#include "report/terms.h"
#include "report/text.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/run_directory.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr const char* kFooter =
    "\nExit status: 0 in lockstep; 1 a hang or wrong data; 2 the arguments or files are unusable;\n"
    "3 the files do not decide it; 4 slow or risky only.\n"
    "\nExamples:\n"
    "  rollcall diff rollcall-runs/20261121-021404-train       a finished, killed or running job\n"
    "  rollcall diff DIR --context 5                           the calls around the difference\n"
    "  rollcall diff DIR --json | jq '.findings[0].code'\n"
    "  rollcall diff DIR --stalled-after 5                     a running job, impatiently";

struct Arguments {
  std::string directory;
  bool json = false;
  bool all = false;
  bool sentence = false;
  uint32_t context = 0;
  uint64_t window = 0;
  double stalled_after_s = -1;
};

int diff(const Arguments& arguments) {
  std::string error;
  const std::optional<trace::Run> run = read_run(arguments.directory, arguments.window, error);
  if (!run) return unusable(error);
  analysis::Options options;
  if (arguments.stalled_after_s >= 0) {
    options.live_threshold_ns = static_cast<int64_t>(arguments.stalled_after_s * 1e9);
  }
  analysis::Report report;
  {
    const Progress progress("comparing the ranks");
    report = analysis::analyse(*run, options);
  }
  if (arguments.json) {
    print_out(report::diff_json(*run, report));
  } else if (arguments.sentence) {
    print_out(report::diff_sentence(report) + "\n");
  } else {
    report::TextOptions text;
    text.colour = colour_on_stdout();
    text.all = arguments.all;
    text.context = arguments.context;
    print_out(report::diff_text(*run, report, text));
  }
  return finish_output(report.status);
}

}  // namespace

void add_diff(CLI::App& app, CommandLine& line) {
  CLI::App* command = app.add_subcommand("diff",
                                         "Name the rank that broke step, the call, and why. The "
                                         "job may be finished, killed, hanging or "
                                         "running.");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("DIR", arguments->directory, "run directory (or a single ring file)")
      ->required();
  CLI::Option* json =
      command->add_flag("--json", arguments->json, "for programs: schema rollcall.diff/1");
  command->add_flag("--all", arguments->all, "every finding, evidence, row and communicator");
  command
      ->add_option("--context", arguments->context, "calls shown before and after the difference")
      ->type_name("K")
      ->check(CLI::Range(0u, 1000u));
  command
      ->add_option("--stalled-after", arguments->stalled_after_s,
                   "a call of a running job counts as missing after so long (default 30)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6));
  command
      ->add_option("--window", arguments->window,
                   "newest calls read per process; 0, the default, reads all")
      ->type_name("CALLS");
  command->add_flag("--sentence", arguments->sentence, "the verdict alone, in one line")
      ->excludes(json);
  command->footer(kFooter);
  command->callback([arguments, &line] { line.action = [arguments] { return diff(*arguments); }; });
}

}  // namespace rollcall::tools
