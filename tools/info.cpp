// `rollcall info`: what was recorded, by whom, and how completely.
#include "report/info.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/run_directory.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

struct Arguments {
  std::vector<std::string> paths;
  bool json = false;
};

int info(const Arguments& arguments) {
  std::string error;
  const std::optional<trace::Run> run = read_run(arguments.paths, 0, error);
  if (!run) return unusable(error);
  say_job_taken(*run, "info");
  const std::vector<report::FileSizes> sizes = report::file_sizes(*run);
  print_out(arguments.json ? report::info_json(*run, sizes) : report::info_text(*run, sizes));
  return finish_output(kExitGood);
}

}  // namespace

void add_info(CommandLine& line) {
  Subcommand command(line, "info",
                     "Show what a run holds: processes, ranks, versions, records, losses, sizes.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("PATH", arguments->paths, "run directory, or files of one run")
      .required()
      .value_name("...");
  command.flag("--json", arguments->json, "for programs: schema rollcall.info/1");
  command.footer(
      "\nExamples:\n"
      "  rollcall info DIR\n"
      "  rollcall info DIR --json | jq '.processes[] | select(.lost > 0)'");
  command.action([arguments] { return info(*arguments); });
}

}  // namespace rollcall::tools
