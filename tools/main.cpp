// The command: reads the arguments, runs one subcommand, turns whatever goes wrong into a sentence.
#include <algorithm>
#include <csignal>
#include <exception>
#include <new>

#include "tools/command.h"
#include "tools/inherited.h"

namespace rollcall::tools {
namespace {

constexpr const char* kDescription =
    "rollcall: which rank of a distributed GPU job broke step, at which NCCL call, and why.\n\n"
    "  rollcall run -n 4 -- ./my_job        record a job of 4 local ranks\n"
    "  rollcall run -- torchrun train.py    record whatever starts the ranks itself\n"
    "  rollcall diff rollcall-runs/<run>    name the rank that broke step\n";
constexpr const char* kFooter =
    "\n`rollcall COMMAND --help` explains a command and gives examples.";

int run_command(std::vector<std::string> words) {
  CommandLine line(kDescription, kFooter);
  add_run(line);
  add_diff(line);
  add_report(line);
  add_top(line);
  add_watch(line);
  add_doctor(line);
  add_info(line);
  add_slow(line);
  add_stacks(line);
  add_stats(line);
  add_trace(line);
  add_dump(line);
  add_export(line);
  add_ctl(line);
  add_pack(line);
  add_synth(line);
  add_config(line);
  add_verdicts(line);
  add_manual(line);
  add_completion(line);
  return line.run(std::move(words));
}

}  // namespace
}  // namespace rollcall::tools

int main(int argc, char** argv) {
  using rollcall::tools::unusable;
  rollcall::tools::fill_closed_descriptors();
  rollcall::tools::note_inherited_signals();
  // A closed pipe (`rollcall dump ... | head`) is reported by write(), where it can be understood.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return rollcall::tools::run_command({argv + std::min(argc, 1), argv + argc});
  } catch (const std::bad_alloc&) {
    return unusable(
        "there is not enough memory for this run; --window with a smaller number reads less of "
        "it.");
  } catch (const std::exception&) {
    return unusable(
        "this run could not be reported, which is a fault of rollcall; please report it together "
        "with the run directory.");
  }
}
