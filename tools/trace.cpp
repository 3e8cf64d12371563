// `rollcall trace`: a run as a Perfetto trace, or a Chrome trace.
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
#include "tools/kineto_files.h"
#include "tools/merge.h"
#include "tools/output_file.h"
#include "tools/perfetto_run.h"
#include "tools/progress.h"
#include "tools/run_directory.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr const char* kFooter =
    "\nOpen the file in https://ui.perfetto.dev. Ranks are in order, each with what it does, its\n"
    "communicators, and below these calls, GPU and speed; docs/VIEWS.md has the names. A slice\n"
    "that runs to the right edge is a call that never returned.\n"
    "\nExamples:\n"
    "  rollcall trace DIR -o run.pftrace\n"
    "  rollcall trace DIR --window 2000 -o end.pftrace       the newest 2000 calls of each rank\n"
    "  rollcall trace DIR --ranks 0-7 -o node.pftrace\n"
    "  rollcall trace DIR --around 665 -o hang.pftrace       the calls around one position\n"
    "  rollcall trace DIR --steps 100-103 -o steps.pftrace\n"
    "  rollcall trace DIR --merge profiles -o run.zip         with PyTorch's own traces\n"
    "  rollcall trace DIR --merge profiles -o run.pftrace     the same for Perfetto before v58\n"
    "  rollcall trace DIR -o run.trace.json                  for chrome://tracing\n"
    "  rollcall trace DIR | gzip > run.trace.json.gz";

// More than Perfetto shows in a browser's memory, about.
constexpr uint64_t kSlicesMax = 2'000'000;

struct Arguments {
  std::vector<std::string> paths;
  std::string output = "-";
  std::string format;
  std::string ranks;
  std::string merge;
  std::string steps;
  uint64_t around = 0;
  bool around_given = false;
  uint64_t window = 0;
};

// Writes the trace piece by piece; returns the slices.
using Sink = std::function<bool(const std::string&)>;
using Writer = std::function<uint64_t(const Sink&)>;

// Pipes and standard output carry JSON unless another format is named: `rollcall trace DIR | gzip`
// is in people's scripts.
bool is_json(const Arguments& arguments) {
  if (!arguments.format.empty()) return arguments.format == "json";
  const std::string& name = arguments.output;
  return name.find(".json") != std::string::npos || name == "-" || name.starts_with("/dev/");
}

int trace_to_stdout(const Writer& writer) {
  writer(print_out);
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
std::string write_to_descriptor(const Writer& writer, int descriptor, uint64_t& slices) {
  std::string why;
  slices = writer([&](std::string_view piece) {
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
std::string write_to_file(const Writer& writer, const std::string& path, uint64_t& slices) {
  const size_t slash = path.rfind('/');
  const OpenDirectory directory(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  OutputFile file(directory, path.substr(slash + 1), Privacy::shared);
  if (file.failed()) return file.why();
  slices = writer([&](const std::string& piece) {
    file.write(piece);
    return !file.failed();
  });
  return file.put_in_place() ? "" : file.why();
}

// What was written into what, and what a browser makes of it.
void say_written(uint64_t slices, size_t shown, size_t all, const Arguments& arguments) {
  const std::string of =
      shown == all ? report::grouped(all)
                   : fmt::format("{} of {}", report::grouped(shown), report::grouped(all));
  say(fmt::format("{} slices of {} processes are in {}; open it in https://ui.perfetto.dev",
                  report::grouped(slices), of, arguments.output));
  if (shown != all) {
    say("--ranks 0-3,17 writes others, and --ranks all writes all");
  }
  if (slices > kSlicesMax) {
    say(arguments.merge.empty()
            ? "a browser will hardly open so many; --window with a smaller number writes the "
              "newest calls of each rank"
            : "a browser will hardly open so many; --ranks with fewer of them merges fewer files");
  }
}

int trace_to_file(const Writer& writer, size_t shown, size_t all, const Arguments& arguments) {
  const std::string& path = arguments.output;
  uint64_t slices = 0;
  std::string why;
  {
    const Progress progress(fmt::format("writing {}", path));
    const int descriptor = descriptor_named(path);
    if (path == "/dev/null") {
      slices = writer([](const std::string&) { return true; });
    } else if (descriptor >= 0) {
      why = write_to_descriptor(writer, descriptor, slices);
    } else {
      why = write_to_file(writer, path, slices);
    }
  }
  if (!why.empty()) {
    return unusable(
        fmt::format("{} could not be written: {}; choose another file with -o.", path, why));
  }
  say_written(slices, shown, all, arguments);
  return kExitGood;
}

int write_trace(const Writer& writer, size_t shown, size_t all, const Arguments& arguments) {
  if (descriptor_named(arguments.output) == STDOUT_FILENO) return trace_to_stdout(writer);
  return trace_to_file(writer, shown, all, arguments);
}

int trace_for_chrome(const Arguments& arguments) {
  if (!arguments.ranks.empty() || !arguments.steps.empty() || arguments.around_given) {
    return unusable(
        "--ranks, --steps and --around are for Perfetto's own format: name a file like run.pftrace "
        "with -o, or add --format perfetto.");
  }
  std::string error;
  const std::optional<trace::Run> run = read_run(arguments.paths, arguments.window, error);
  if (!run) return unusable(error);
  say_issues(*run);
  say_job_taken(*run, "trace");
  const auto shown =
      static_cast<size_t>(std::count_if(run->processes.begin(), run->processes.end(),
                                        [](const trace::Process& one) { return !one.superseded; }));
  const Writer writer = [&run](const Sink& sink) { return report::chrome_trace(*run, sink); };
  return write_trace(writer, shown, shown, arguments);
}

int trace_for_perfetto(const Arguments& arguments) {
  if (!arguments.steps.empty() && arguments.window != 0) {
    return unusable("--steps counts from the first call of the run: leave --window out.");
  }
  PerfettoChoice choice{arguments.paths, arguments.ranks, {}, arguments.steps, arguments.window};
  if (arguments.around_given) choice.around = arguments.around;
  std::string error;
  PerfettoRun run;
  if (!run.read(choice, error)) return unusable(error);
  say_issues(run.run());
  say_job_taken(run.run(), "trace");
  const Writer writer = [&run](const Sink& sink) { return run.write(sink); };
  return write_trace(writer, run.ranks_chosen().size(), run.ranks_in_all(), arguments);
}

std::string write_merged_archive(const PerfettoRun& run, const KinetoFiles& files,
                                 const std::string& path, uint64_t& slices) {
  const size_t slash = path.rfind('/');
  const OpenDirectory directory(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  OutputFile file(directory, path.substr(slash + 1), Privacy::shared);
  std::string error;
  if (!file.failed()) {
    const Progress progress(fmt::format("writing {}", path));
    slices = write_archive(run, files, file, error);
  }
  if (error.empty() && !file.put_in_place()) error = file.why();
  return error;
}

int trace_merged(const Arguments& arguments) {
  const bool is_archive = arguments.output.ends_with(".zip");
  if (arguments.format == "json" || (!is_archive && is_json(arguments))) {
    return unusable(
        "--merge writes an archive, or one trace in Perfetto's own format: name a file like "
        "run.zip, or like run.pftrace for a Perfetto before v58, with -o.");
  }
  // Records of calls that are left out would have no call.
  if (arguments.around_given || !arguments.steps.empty() || arguments.window != 0) {
    return unusable(
        "--merge joins PyTorch's records with all calls: leave --around, --steps and --window out, "
        "or choose ranks with --ranks.");
  }
  const PerfettoChoice choice{arguments.paths, arguments.ranks, {}, {}, 0};
  std::string error;
  KinetoFiles files;
  PerfettoRun run;
  if (!files.read(arguments.merge, error) || !run.read(choice, error)) return unusable(error);
  say_issues(run.run());
  say_job_taken(run.run(), "trace");
  files.assign(run.run());
  if (arguments.ranks.empty()) {
    run.write_also(files.processes());
  } else if (arguments.ranks != "all" && !files.keep_those_of(run.ranks_chosen())) {
    return unusable(fmt::format(
        "--merge: {} has no trace of the ranks that --ranks names; name others.", arguments.merge));
  }
  run.name_calls(
      [&files](uint32_t at, const trace::Process& process) { return files.names_of(at, process); });
  if (!is_archive) {
    write_in_one(run, files);
    const Writer writer = [&run](const Sink& sink) { return run.write(sink); };
    const int status =
        write_trace(writer, run.ranks_chosen().size(), run.ranks_in_all(), arguments);
    if (status != kExitGood) return status;
  } else {
    uint64_t slices = 0;
    error = write_merged_archive(run, files, arguments.output, slices);
    if (!error.empty()) {
      return unusable(fmt::format("{} could not be written: {}", arguments.output, error));
    }
    say_written(slices, run.ranks_chosen().size(), run.ranks_in_all(), arguments);
  }
  for (const std::string& sentence : files.sentences(run.run())) say(sentence);
  return kExitGood;
}

int trace_run(const Arguments& arguments) {
  if (descriptor_named(arguments.output) == STDOUT_FILENO && isatty(STDOUT_FILENO) != 0) {
    return unusable("a trace is not for a terminal; name a file with -o run.pftrace.");
  }
  if (!arguments.merge.empty()) return trace_merged(arguments);
  return is_json(arguments) ? trace_for_chrome(arguments) : trace_for_perfetto(arguments);
}

}  // namespace

void add_trace(CommandLine& line) {
  Subcommand command(line, "trace",
                     "Write a run as a trace for Perfetto, or for chrome://tracing.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("PATH", arguments->paths, "run directory, or files of one run")
      .required()
      .value_name("...");
  command.option("-o,--output", arguments->output, "file to write; - is stdout, the default")
      .value_name("FILE")
      .not_empty();
  command
      .option("--format", arguments->format,
              "by default what the file's name says: Chrome's JSON where it has .json in it, and "
              "where it is no file")
      .one_of({"perfetto", "json"});
  command
      .option(
          "--ranks", arguments->ranks,
          "ranks to write, 0-3,17 or all; by default all of 64, and of more the culprits, their "
          "peers and some of each kind, 256 at most")
      .value_name("LIST")
      .not_empty();
  command
      .option("--merge", arguments->merge,
              "traces of PyTorch's profiler, a directory of them or one, on one time line with the "
              "run: "
              "as an archive where the file's name ends in .zip, which Perfetto opens from v58 on, "
              "else "
              "as one trace")
      .value_name("DIR")
      .not_empty();
  const Option around =
      command
          .option("--around", arguments->around,
                  "only the 20 calls before and behind this seq of the communicator that the "
                  "verdict is about, and what the ranks did between them")
          .value_name("SEQ");
  command
      .option("--steps", arguments->steps,
              "only these steps, as `rollcall slow` counts them from 0, and what the ranks did in "
              "them")
      .value_name("A-B")
      .not_empty();
  command
      .option("--window", arguments->window,
              "newest calls read per process; 0, the default, reads all")
      .calls();
  command.footer(kFooter);
  command.action([arguments, around] {
    arguments->around_given = around.given();
    return trace_run(*arguments);
  });
}

}  // namespace rollcall::tools
