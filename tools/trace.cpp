// `rollcall trace`: a run as a Chrome trace.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "report/chrome.h"
#include "report/terms.h"
#include "tools/command.h"
#include "tools/progress.h"
#include "tools/run_directory.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr const char* kFooter =
    "\nOpen the file in https://ui.perfetto.dev or chrome://tracing. Arrows join one collective\n"
    "across its ranks; a slice that runs to the right edge is a call that never returned.\n"
    "\nExamples:\n"
    "  rollcall trace DIR -o run.trace.json\n"
    "  rollcall trace DIR --window 2000 -o end.trace.json    the newest 2000 calls of each rank\n"
    "  rollcall trace DIR | gzip > run.trace.json.gz";

// More than Perfetto shows in a browser's memory, about.
constexpr uint64_t kSlicesMax = 2'000'000;

struct Arguments {
  std::string directory;
  std::string output = "-";
  uint64_t window = 0;
};

int trace_to_stdout(const trace::Run& run) {
  report::chrome_trace(run, print_out);
  return finish_output(kExitGood);
}

// Written beside the target and renamed: a trace that is there is whole.
int trace_to_file(const trace::Run& run, const std::string& path) {
  struct stat status {};
  const bool special = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  const std::string temporary = special ? path : fmt::format("{}.{}.part", path, getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wbe");
  int failure = file == nullptr ? errno : 0;
  uint64_t slices = 0;
  if (file != nullptr) {
    const Progress progress(fmt::format("writing {}", path));
    slices = report::chrome_trace(run, [&](const std::string& piece) {
      if (std::fwrite(piece.data(), 1, piece.size(), file) == piece.size()) return true;
      failure = errno;
      return false;
    });
    if (std::fclose(file) != 0 && failure == 0) failure = errno;
    if (failure == 0 && !special && std::rename(temporary.c_str(), path.c_str()) != 0) {
      failure = errno;
    }
    if (failure != 0 && !special) std::remove(temporary.c_str());
  }
  if (failure != 0) {
    return unusable(fmt::format("{} could not be written: {}; choose another file with -o.", path,
                                std::strerror(failure)));
  }
  const auto shown = std::count_if(run.processes.begin(), run.processes.end(),
                                   [](const trace::Process& one) { return !one.superseded; });
  say(fmt::format("{} slices of {} processes are in {}; open it in https://ui.perfetto.dev",
                  report::grouped(slices), shown, path));
  if (slices > kSlicesMax) {
    say("a browser will hardly open so many; --window with a smaller number writes the newest "
        "calls "
        "of each rank");
  }
  return kExitGood;
}

int trace_run(const Arguments& arguments) {
  std::string error;
  const std::optional<trace::Run> run = read_run(arguments.directory, arguments.window, error);
  if (!run) return unusable(error);
  say_issues(*run);
  if (arguments.output != "-") return trace_to_file(*run, arguments.output);
  if (isatty(STDOUT_FILENO) != 0) {
    return unusable("a trace is not for a terminal; name a file with -o run.trace.json.");
  }
  return trace_to_stdout(*run);
}

}  // namespace

void add_trace(CommandLine& line) {
  Subcommand command(line, "trace",
                     "Write a run as a Chrome trace, for Perfetto and chrome://tracing.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("DIR", arguments->directory, "run directory, or one ring file").required();
  command.option("-o,--output", arguments->output, "file to write; - is stdout, the default")
      .value_name("FILE")
      .not_empty();
  command
      .option("--window", arguments->window,
              "newest calls read per process; 0, the default, reads all")
      .calls();
  command.footer(kFooter);
  command.action([arguments] { return trace_run(*arguments); });
}

}  // namespace rollcall::tools
