// `rollcall report`: a run, or what tells it from an earlier one, as one HTML page.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "analysis/analysis.h"
#include "comparison/compare.h"
#include "comparison/settings.h"
#include "report/page/page.h"
#include "report/page/two_runs.h"
#include "report/slow_two_runs.h"
#include "report/terms.h"
#include "report/text.h"
#include "slow/two_runs.h"
#include "tools/command.h"
#include "tools/incident.h"
#include "tools/judged_run.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "tools/run_directory.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr const char* kFooter =
    "\nThe page needs nothing but itself: no network, no other file. It opens from disk, can be\n"
    "mailed, and prints. Its first lines are those of `rollcall diff`; below them is the roll: a\n"
    "row for each rank, or for ranks that are alike, and a column for each call.\n"
    "Of two run directories it shows what the second one has other than the first: settings, "
    "calls,\n"
    "and what the steps cost, as `rollcall diff OLD NEW` and `rollcall slow OLD NEW` say.\n"
    "Of an incident it is the page of its run, with what the incident said and its stacks.\n"
    "\nExit status: 0 the page is written, whatever its verdict; 2 the arguments or files are\n"
    "unusable. `rollcall diff` has the status for scripts.\n"
    "\nExamples:\n"
    "  rollcall report rollcall-runs/20261121-021404-train -o report.html\n"
    "  rollcall report job.log -o report.html             a log that a job left\n"
    "  rollcall report dumps/ logs/*.log.gz -o report.html\n"
    "  rollcall report RUN/incidents/20261121-021704-RC-MISSING-CALL -o report.html\n"
    "  rollcall report OLD NEW -o report.html             two runs, held against each other\n"
    "  rollcall report DIR > report.html";

struct Arguments {
  std::vector<std::string> paths;
  std::vector<std::string> incidents{};  // by path: the one that it named; empty: it named a run
  std::string output = "-";
  bool together = false;
  JudgedRunOptions run;
};

int write_page(const std::string& page, const std::string& path) {
  if (path == "/dev/null") return kExitGood;
  const size_t slash = path.rfind('/');
  const OpenDirectory directory(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  OutputFile file(directory, path.substr(slash + 1), Privacy::shared);
  if (!file.failed()) file.write(page);
  if (file.failed() || !file.put_in_place()) {
    return unusable(
        fmt::format("{} could not be written: {}; choose another file with -o.", path, file.why()));
  }
  return kExitGood;
}

bool is_stdout(const std::string& output) { return output == "-" || output == "/dev/stdout"; }

int put_out(const std::string& page, const std::string& sentence, const Arguments& arguments) {
  if (is_stdout(arguments.output)) {
    print_out(page);
    return finish_output(kExitGood);
  }
  const int status = write_page(page, arguments.output);
  if (status == kExitGood) {
    say(sentence);
    say(fmt::format("the page is in {}; open it in a browser", arguments.output));
  }
  return status;
}

// In the place of an incident stands its run: the calls are there.
void find_runs_of_incidents(Arguments& arguments) {
  arguments.incidents.assign(arguments.paths.size(), {});
  for (size_t at = 0; at < arguments.paths.size(); ++at) {
    const std::optional<std::string> run = run_of_incident(arguments.paths[at]);
    if (run) arguments.incidents[at] = std::exchange(arguments.paths[at], *run);
  }
}

report::Kept kept_of(const Arguments& arguments, size_t at, const trace::Run& run) {
  const std::string& incident = arguments.incidents[at];
  return incident.empty() ? kept_of_run(arguments.paths[at], run) : kept_of_incident(incident);
}

int report_one(const Arguments& arguments) {
  std::string error;
  std::optional<trace::Run> run =
      read_run(arguments.paths, arguments.run.window, error, arguments.run.records_max());
  if (!run) return unusable(error);
  const analysis::Report report = judge_run(analysis_options(arguments.run), *run);
  std::string page;
  {
    const Progress progress("making the page");
    const bool is_one = arguments.paths.size() == 1;
    page = report::page_html(*run, report, is_one ? kept_of(arguments, 0, *run) : report::Kept());
  }
  return put_out(page, report::diff_sentence(report), arguments);
}

int report_two(const Arguments& arguments) {
  std::string error;
  std::vector<trace::Run> runs;
  std::vector<analysis::Report> reports;
  for (const std::string& path : arguments.paths) {
    std::optional<trace::Run> run = read_run(path, arguments.run.window, error);
    if (!run) return unusable(error);
    say_job_taken(*run, "report");
    runs.push_back(std::move(*run));
    reports.push_back(analysis::analyse(runs.back(), analysis_options(arguments.run)));
  }
  const Progress progress("making the page");
  const report::TwoRunsReport settings_and_steps{
      .before = arguments.paths[0],
      .after = arguments.paths[1],
      .settings = comparison::compare_settings(runs[0], runs[1]),
      .answer = slow::compare(runs[0], runs[1])};
  const comparison::Comparison calls = comparison::compare_runs(runs[0], runs[1]);
  const report::TwoRunsSource source{{runs[0], reports[0], kept_of(arguments, 0, runs[0]).stacks},
                                     {runs[1], reports[1], kept_of(arguments, 1, runs[1]).stacks},
                                     calls,
                                     settings_and_steps};
  return put_out(report::two_runs_page_html(source), report::two_runs_headline(source), arguments);
}

int report_command(Arguments& arguments) {
  if (is_stdout(arguments.output) && isatty(STDOUT_FILENO) != 0) {
    return unusable("a page is not for a terminal; name a file with -o report.html.");
  }
  find_runs_of_incidents(arguments);
  const bool are_two = !arguments.together && are_two_directories(arguments.paths);
  if (!are_two) return report_one(arguments);
  std::error_code ignored;
  if (std::filesystem::equivalent(arguments.paths[0], arguments.paths[1], ignored)) {
    return unusable(
        fmt::format("both paths are of the run {}, which cannot be held against itself; name one "
                    "of them, or another run.",
                    report::printable(arguments.paths[0])));
  }
  return report_two(arguments);
}

}  // namespace

void add_report(CommandLine& line) {
  Subcommand command(line, "report",
                     "Write a run as one HTML page: the verdict, its evidence, and where every "
                     "rank is.");
  const auto arguments = std::make_shared<Arguments>();
  command
      .option("PATH", arguments->paths,
              "run directory, an incident in one, or files of one run that a job left: rings, "
              "logs, dumps, traces, \"-\" for standard input. Of two run directories the second "
              "one is held against the first")
      .required()
      .value_name("...");
  command.flag("--together", arguments->together, "two directories are of one run");
  command.option("-o,--output", arguments->output, "file to write; - is stdout, the default")
      .value_name("FILE")
      .not_empty();
  const Option window = add_judged_run_options(command, arguments->run);
  command.footer(kFooter);
  command.action([arguments, window] {
    arguments->run.window_given = window.given();
    return report_command(*arguments);
  });
}

}  // namespace rollcall::tools
