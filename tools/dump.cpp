// `rollcall dump`: everything on file as JSON lines.
#include "report/dump.h"

#include <fmt/format.h>

#include <memory>

#include "report/terms.h"
#include "tools/command.h"
#include "tools/run_directory.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr const char* kFooter =
    "\nOne object per line, schema rollcall.dump/1; \"type\" is run, comm, graph, channel,\n"
    "op, event or stats.\n"
    "Unknown is null. Times are nanoseconds since the epoch on that host's clock.\n"
    "\nExamples:\n"
    "  rollcall dump DIR | jq -c 'select(.type==\"op\" and .seq==12)'\n"
    "  rollcall dump DIR/node0.4711.1f.ring > rank3.jsonl";

struct Arguments {
  std::string path;
  uint64_t window = 0;
};

int dump(const Arguments& arguments) {
  std::string error;
  const std::optional<trace::Run> run = read_run(arguments.path, arguments.window, error);
  if (!run) return unusable(error);
  for (const trace::Process& process : run->processes) {
    bool open = true;
    report::dump_process(process, [&](const std::string& lines) {
      open = print_out(lines);
      return open;
    });
    if (!open) break;
  }
  say_issues(*run);
  return finish_output(kExitGood);
}

}  // namespace

void add_dump(CommandLine& line) {
  Subcommand command(line, "dump",
                     "Print every call, communicator and event on file as JSON lines.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("PATH", arguments->path, "run directory, or one ring file").required();
  command
      .option("--window", arguments->window,
              "newest calls read per process; 0, the default, reads all")
      .calls();
  command.footer(kFooter);
  command.action([arguments] { return dump(*arguments); });
}

}  // namespace rollcall::tools
