// `rollcall stacks`: where every thread of every rank of a running job stands, merged.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "tools/command.h"
#include "tools/run_directory.h"
#include "tools/stack_request.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

struct Arguments {
  std::string directory;
  bool json = false;
  double timeout_s = 5;
};

int stacks(const Arguments& arguments) {
  std::error_code failure;
  if (!std::filesystem::is_directory(arguments.directory, failure)) {
    return unusable(fmt::format("{} is no directory; give the one that `rollcall run` printed",
                                arguments.directory));
  }
  report::MergedStacks merged;
  merge_stacks(
      ask_all_for_stacks(arguments.directory, static_cast<int64_t>(arguments.timeout_s * 1e9)),
      merged);
  if (merged.is_empty()) {
    return unusable(
        fmt::format("{} holds no recording; give the directory that `rollcall run` "
                    "printed.",
                    arguments.directory));
  }
  print_out(arguments.json ? merged.json() : merged.text());
  return finish_output(kExitGood);
}

}  // namespace

void add_stacks(CommandLine& line) {
  Subcommand command(line, "stacks",
                     "Show where the threads of all ranks of a running job stand, merged.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("DIR", arguments->directory, "run directory").required();
  command.flag("--json", arguments->json, "for programs: schema rollcall.stacks/1");
  command
      .option("--timeout", arguments->timeout_s,
              "who has not answered after so long is looked at from outside (default 5)")
      .seconds_between(0, 600);
  command.footer(
      "\nThe recorder in each process reads the frames of all threads of Python (CPython 3.9 to\n"
      "3.14) without the GIL, and what the kernel says of every thread, into <stem>.stacks in the\n"
      "run directory. No rights are needed, and nothing is attached to. A process that is "
      "stopped,\n"
      "or cannot answer, is looked at in /proc. Frames stand below what called them; behind a\n"
      "branch are the ranks that are there, and those that are not.\n"
      "\nExamples:\n"
      "  rollcall stacks DIR\n"
      "  rollcall stacks DIR --json | jq '.frames[].frame'");
  command.action([arguments] { return stacks(*arguments); });
}

}  // namespace rollcall::tools
