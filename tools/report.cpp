// `rollcall report`: a run as one HTML page.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/analysis.h"
#include "report/page/page.h"
#include "report/text.h"
#include "tools/command.h"
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
    "\nExit status: 0 the page is written, whatever its verdict; 2 the arguments or files are\n"
    "unusable. `rollcall diff` has the status for scripts.\n"
    "\nExamples:\n"
    "  rollcall report rollcall-runs/20261121-021404-train -o report.html\n"
    "  rollcall report job.log -o report.html             a log that a job left\n"
    "  rollcall report dumps/ logs/*.log.gz -o report.html\n"
    "  rollcall report DIR > report.html";

struct Arguments {
  std::vector<std::string> paths;
  std::string output = "-";
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

int report_run(const Arguments& arguments) {
  const bool to_stdout = arguments.output == "-" || arguments.output == "/dev/stdout";
  if (to_stdout && isatty(STDOUT_FILENO) != 0) {
    return unusable("a page is not for a terminal; name a file with -o report.html.");
  }
  std::string error;
  std::optional<trace::Run> run =
      read_run(arguments.paths, arguments.run.window, error, arguments.run.records_max());
  if (!run) return unusable(error);
  const analysis::Report report = judge_run(analysis_options(arguments.run), *run);
  std::string page;
  {
    const Progress progress("making the page");
    page = report::page_html(*run, report);
  }
  if (to_stdout) {
    print_out(page);
    return finish_output(kExitGood);
  }
  const int status = write_page(page, arguments.output);
  if (status == kExitGood) {
    say(report::diff_sentence(report));
    say(fmt::format("the page is in {}; open it in a browser", arguments.output));
  }
  return status;
}

}  // namespace

void add_report(CommandLine& line) {
  Subcommand command(line, "report",
                     "Write a run as one HTML page: the verdict, its evidence, and where every "
                     "rank is.");
  const auto arguments = std::make_shared<Arguments>();
  command
      .option("PATH", arguments->paths,
              "run directory, or files of one run that a job left: rings, logs, dumps, traces, "
              "\"-\" for standard input")
      .required()
      .value_name("...");
  command.option("-o,--output", arguments->output, "file to write; - is stdout, the default")
      .value_name("FILE")
      .not_empty();
  const Option window = add_judged_run_options(command, arguments->run);
  command.footer(kFooter);
  command.action([arguments, window] {
    arguments->run.window_given = window.given();
    return report_run(*arguments);
  });
}

}  // namespace rollcall::tools
