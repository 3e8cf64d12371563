// `rollcall watch`: whether a job hangs that was started somewhere else, told by its exit status.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "core/base/clock.h"
#include "report/terms.h"
#include "tools/class_status.h"
#include "tools/command.h"
#include "tools/pulse.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

// As `rollcall run` watches.
constexpr double kPatienceDefaultS = 60;
// Less than a probe's own limit: who is killed for taking long has failed.
constexpr int64_t kAnswerOfProbeNs = 5'000'000'000;
constexpr int64_t kAnswerNs = 60'000'000'000;
constexpr int64_t kLookNs = 1'000'000'000;
// A look takes at most this part of the time, however many ranks there are.
constexpr int64_t kLookPart = 20;
constexpr int64_t kPauseMaxNs = 60'000'000'000;

struct Arguments {
  std::string directory;
  bool probe = false;
  bool exit_by_class = false;
  double patience_s = kPatienceDefaultS;

  int64_t patience_ns() const { return static_cast<int64_t>(patience_s * 1e9); }
};

std::string in_words(const PulseLook& look, const Arguments& arguments) {
  const std::string directory = report::printable(arguments.directory);
  switch (look.pulse) {
    case Pulse::absent:
      return fmt::format("{} is no directory, or is not there yet", directory);
    case Pulse::unrecorded:
      return fmt::format("nothing is recorded in {} yet", directory);
    case Pulse::over:
      return fmt::format("the job in {} is over: none of its processes is left", directory);
    case Pulse::undecided:
      return fmt::format(
          "a communicator has not advanced for {}, and it is not known that a rank holds the "
          "others up; `rollcall diff` tells what is known",
          report::duration(arguments.patience_ns()));
    case Pulse::lives:
      return fmt::format("no hang is known of {} {}", look.ranks,
                         look.ranks == 1 ? "rank" : "ranks");
    case Pulse::hangs:
      return look.verdict;
  }
  return {};
}

int status_of(const PulseLook& look, const Arguments& arguments) {
  if (look.pulse != Pulse::hangs) return kExitGood;
  return arguments.exit_by_class ? look.status : kExitHang;
}

int probe(const Arguments& arguments) {
  const PulseLook look =
      look_at_pulse(arguments.directory, arguments.patience_ns(), kAnswerOfProbeNs);
  print_out(in_words(look, arguments) + "\n");
  return finish_output(status_of(look, arguments));
}

int watch(const Arguments& arguments) {
  bool has_lived = false;
  int64_t over_since_ns = INT64_MAX;
  while (true) {
    const auto begin_ns = static_cast<int64_t>(monotonic_now_ns());
    const PulseLook look = look_at_pulse(arguments.directory, arguments.patience_ns(), kAnswerNs);
    if (look.pulse == Pulse::absent) {
      return unusable(fmt::format("{} is no directory; give the one that `rollcall run` printed",
                                  arguments.directory));
    }
    has_lived = has_lived || look.pulse == Pulse::lives || look.pulse == Pulse::undecided;
    const bool is_over = look.pulse == Pulse::over;
    over_since_ns = is_over ? std::min(over_since_ns, begin_ns) : INT64_MAX;
    // Between two attempts none of a job's processes is there.
    const bool is_over_for_good =
        is_over && (!has_lived || begin_ns - over_since_ns >= arguments.patience_ns());
    if (look.pulse == Pulse::hangs || is_over_for_good) {
      print_out(in_words(look, arguments) + "\n");
      return finish_output(status_of(look, arguments));
    }
    const int64_t took_ns = static_cast<int64_t>(monotonic_now_ns()) - begin_ns;
    const int64_t pause_ns = std::clamp(took_ns * kLookPart, kLookNs, kPauseMaxNs);
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause_ns));
  }
}

}  // namespace

void add_watch(CommandLine& line) {
  Subcommand command(line, "watch",
                     "Wait until a job hangs or is over, wherever it was started; or look "
                     "once, for a liveness probe.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("DIR", arguments->directory, "run directory").required();
  command.flag("--probe", arguments->probe,
               "look once: exit status 1 where the job is known to hang, else 0, also where DIR is "
               "empty or not there");
  command
      .option("--patience", arguments->patience_s,
              "how long a communicator in which a rank waits may stand still (default 60)")
      .seconds_between(0.1, 1e6);
  command.flag("--exit-by-class", arguments->exit_by_class, kExitByClassHelp);
  command.footer(
      "\nIt hangs where `rollcall run` has left a verdict in DIR that says so and still stands,\n"
      "or where a communicator has stood still for the patience and the analysis says so.\n"
      "It is over when none of its processes has been left for the patience.\n"
      "Exit status: 0 over (--probe: over, or not known to hang), 1 it hangs, 2 the arguments are\n"
      "unusable.\n"
      "\nExamples:\n"
      "  rollcall watch DIR; [ $? -ne 1 ] || scancel $JOB    end what hangs\n"
      "  rollcall watch --probe /runs/run1    a liveness probe (docs/RECIPES.md)");
  command.action([arguments] { return arguments->probe ? probe(*arguments) : watch(*arguments); });
}

}  // namespace rollcall::tools
