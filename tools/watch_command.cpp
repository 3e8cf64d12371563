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
// What a watch still waits for is said again after the first of these, then ever more rarely.
constexpr int64_t kAgainNs = 60'000'000'000;
constexpr int64_t kAgainMaxNs = 3'600'000'000'000;

struct Arguments {
  std::string directory;
  bool probe = false;
  bool exit_by_class = false;
  double patience_s = kPatienceDefaultS;
  double start_within_s = -1;  // below 0: there is no bound

  int64_t patience_ns() const { return static_cast<int64_t>(patience_s * 1e9); }
  bool has_bound() const { return start_within_s >= 0; }
  int64_t start_within_ns() const { return static_cast<int64_t>(start_within_s * 1e9); }
};

bool has_begun(Pulse pulse) { return pulse != Pulse::absent && pulse != Pulse::unrecorded; }

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

// Tells on stderr for what a watch waits: at its start, at each change, and of a job that has not
// begun now and then, for that may be one that never will.
class Waiting {
 public:
  explicit Waiting(const Arguments& arguments) : arguments_(arguments) {}

  void note(const PulseLook& look, int64_t now_ns) {
    const bool is_news = !has_told_ || told_ != look.pulse;
    if (is_news) again_ns_ = kAgainNs;
    if (!is_news && (has_begun(look.pulse) || now_ns - told_at_ns_ < again_ns_)) return;
    if (!is_news) again_ns_ = std::min(2 * again_ns_, kAgainMaxNs);
    has_told_ = true;
    told_ = look.pulse;
    told_at_ns_ = now_ns;
    say(sentence(look));
  }

 private:
  std::string sentence(const PulseLook& look) const {
    const std::string directory = report::printable(arguments_.directory);
    const std::string bound =
        arguments_.has_bound()
            ? fmt::format(" for {} at most", report::duration(arguments_.start_within_ns()))
            : " for as long as that takes (--start-within bounds it)";
    switch (look.pulse) {
      case Pulse::absent:
        return fmt::format("{} is not there yet; waiting for the job{}", directory, bound);
      case Pulse::unrecorded:
        return fmt::format("nothing is recorded in {} yet; waiting for the job's first NCCL call{}",
                           directory, bound);
      case Pulse::over:
        return fmt::format("no process of the job in {} is left; waiting {} for a restart",
                           directory, report::duration(arguments_.patience_ns()));
      case Pulse::undecided:
        return in_words(look, arguments_);
      default:
        return fmt::format("the job in {} runs; waiting until it hangs or is over", directory);
    }
  }

  const Arguments& arguments_;
  bool has_told_ = false;
  Pulse told_ = Pulse::absent;
  int64_t told_at_ns_ = 0;
  int64_t again_ns_ = kAgainNs;
};

int tell_of_no_start(const Arguments& arguments) {
  print_out(fmt::format(
      "nothing was recorded in {} within {}: no process of the job has called "
      "NCCL, or it is not recorded; `rollcall doctor` looks for what is in the "
      "way\n",
      report::printable(arguments.directory), report::duration(arguments.start_within_ns())));
  return finish_output(kExitUndecided);
}

int watch(const Arguments& arguments) {
  const auto start_ns = static_cast<int64_t>(monotonic_now_ns());
  Waiting waiting(arguments);
  bool has_begun_ever = false;
  bool has_lived = false;
  int64_t over_since_ns = INT64_MAX;
  while (true) {
    const auto begin_ns = static_cast<int64_t>(monotonic_now_ns());
    const PulseLook look = look_at_pulse(arguments.directory, arguments.patience_ns(), kAnswerNs);
    if (look.pulse == Pulse::absent && has_begun_ever) {
      return unusable(
          fmt::format("{} is gone: somebody has removed or renamed it", arguments.directory));
    }
    if (look.pulse == Pulse::absent && !arguments.has_bound()) {
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
    const auto now_ns = static_cast<int64_t>(monotonic_now_ns());
    has_begun_ever = has_begun_ever || has_begun(look.pulse);
    const int64_t left_ns = arguments.has_bound() && !has_begun_ever
                                ? arguments.start_within_ns() - (now_ns - start_ns)
                                : INT64_MAX;
    if (left_ns <= 0) return tell_of_no_start(arguments);
    waiting.note(look, now_ns);
    const int64_t pause_ns =
        std::min(std::clamp((now_ns - begin_ns) * kLookPart, kLookNs, kPauseMaxNs), left_ns);
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
  const Option probe_flag =
      command.flag("--probe", arguments->probe,
                   "look once: exit status 1 where the job is known to hang, else 0, also where "
                   "DIR is empty or not there");
  command
      .option("--patience", arguments->patience_s,
              "how long a communicator in which a rank waits may stand still (default 60)")
      .seconds_between(0.1, 1e6);
  command
      .option("--start-within", arguments->start_within_s,
              "wait so long at most for the first NCCL call, also where DIR is not there yet; "
              "without it there is no bound, and DIR must be there")
      .seconds_between(0, 1e6)
      .excludes(probe_flag);
  command.flag("--exit-by-class", arguments->exit_by_class, kExitByClassHelp);
  command.footer(
      "\nIt hangs where `rollcall run` has left a verdict in DIR that says so and still stands,\n"
      "or where a communicator has stood still for the patience and the analysis says so.\n"
      "It is over when none of its processes has been left for the patience. A job that has never\n"
      "called NCCL is waited for: stderr says so at once, and now and then.\n"
      "Exit status: 0 over (--probe: over, or not known to hang), 1 it hangs, 2 the arguments are\n"
      "unusable, 3 nothing was recorded within the time of --start-within.\n"
      "\nExamples:\n"
      "  rollcall watch DIR; [ $? -ne 1 ] || scancel $JOB    end what hangs\n"
      "  rollcall watch DIR --start-within 600               and do not wait for one that never "
      "starts\n"
      "  rollcall watch --probe /runs/run1    a liveness probe (docs/RECIPES.md)");
  command.action([arguments] { return arguments->probe ? probe(*arguments) : watch(*arguments); });
}

}  // namespace rollcall::tools
