// `rollcall trace`: a run as a Chrome trace.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "report/chrome.h"
#include "report/terms.h"
#include "tools/command.h"
#include "tools/output_file.h"
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
  std::vector<std::string> paths;
  std::string output = "-";
  uint64_t window = 0;
};

int trace_to_stdout(const trace::Run& run) {
  report::chrome_trace(run, print_out);
  return finish_output(kExitGood);
}

// The number of the descriptor that the path stands for, -1: none. /dev/fd/63 is what a shell
// makes of >(gzip > run.trace.json.gz).
int descriptor_named(const std::string& path) {
  if (path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  constexpr std::string_view kBegin = "/dev/fd/";
  uint64_t number = 0;
  const bool is_one = path.starts_with(kBegin) &&
                      parse_decimal(std::string_view(path).substr(kBegin.size()), number) &&
                      number <= INT32_MAX;
  return is_one ? static_cast<int>(number) : -1;
}

// Nothing is written where nothing stays. Empty, or what went wrong.
std::string write_to_descriptor(const trace::Run& run, int descriptor, uint64_t& slices) {
  std::string why;
  slices = report::chrome_trace(run, [&](std::string_view piece) {
    while (!piece.empty()) {
      const ssize_t written = ::write(descriptor, piece.data(), piece.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        why = std::strerror(errno);
        return false;
      }
      piece.remove_prefix(static_cast<size_t>(written));
    }
    return true;
  });
  return why;
}

// Beside the target, then renamed: a trace that is there is whole.
std::string write_to_file(const trace::Run& run, const std::string& path, uint64_t& slices) {
  const size_t slash = path.rfind('/');
  const OpenDirectory directory(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  OutputFile file(directory, path.substr(slash + 1), Privacy::shared);
  if (file.failed()) return file.why();
  slices = report::chrome_trace(run, [&](const std::string& piece) {
    file.write(piece);
    return !file.failed();
  });
  return file.put_in_place() ? "" : file.why();
}

int trace_to_file(const trace::Run& run, const std::string& path) {
  uint64_t slices = 0;
  std::string why;
  {
    const Progress progress(fmt::format("writing {}", path));
    const int descriptor = descriptor_named(path);
    if (path == "/dev/null") {
      slices = report::chrome_trace(run, [](const std::string&) { return true; });
    } else if (descriptor >= 0) {
      why = write_to_descriptor(run, descriptor, slices);
    } else {
      why = write_to_file(run, path, slices);
    }
  }
  if (!why.empty()) {
    return unusable(
        fmt::format("{} could not be written: {}; choose another file with -o.", path, why));
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
  const std::optional<trace::Run> run = read_run(arguments.paths, arguments.window, error);
  if (!run) return unusable(error);
  say_issues(*run);
  say_job_taken(*run, "trace");
  if (descriptor_named(arguments.output) != STDOUT_FILENO) {
    return trace_to_file(*run, arguments.output);
  }
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
  command.option("PATH", arguments->paths, "run directory, or files of one run")
      .required()
      .value_name("...");
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
