// `rollcall stats`: what the operations of a run cost, by communicator, operation and size.
#include "report/stats.h"

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
  uint64_t window = 0;
  bool json = false;
};

int stats(const Arguments& arguments) {
  std::string error;
  const std::optional<trace::Run> run = read_run(arguments.paths, arguments.window, error);
  if (!run) return unusable(error);
  say_issues(*run);
  say_job_taken(*run, "stats");
  const std::vector<statistics::OperationRow> rows = statistics::operation_table(*run);
  print_out(arguments.json ? report::stats_json(*run, rows) : report::stats_text(*run, rows));
  return finish_output(kExitGood);
}

}  // namespace

void add_stats(CommandLine& line) {
  Subcommand command(
      line, "stats",
      "Count and time the operations by communicator, kind and size, with bandwidths.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("PATH", arguments->paths, "run directory, or files of one run")
      .required()
      .value_name("...");
  command
      .option("--window", arguments->window,
              "newest calls read per process; 0, the default, reads all")
      .calls();
  command.flag("--json", arguments->json, "for programs: schema rollcall.stats/1");
  command.footer(
      "\nTimes need GPU timing in the recorded job, which is on by default. Where the profiler\n"
      "plugin told of them (ROLLCALL_PLUGIN_EVENTS), kernel phases and network links follow: what\n"
      "the steps of a link waited for, and how it compares with its communicator's others.\n"
      "\nExamples:\n"
      "  rollcall stats DIR\n"
      "  rollcall stats DIR --json | jq '.operations[] | select(.op==\"AllReduce\")'\n"
      "  rollcall stats DIR --json | jq '.links | map(select(.network_to_median > 2))'");
  command.action([arguments] { return stats(*arguments); });
}

}  // namespace rollcall::tools
