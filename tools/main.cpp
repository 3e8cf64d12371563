// The command: reads the arguments, runs one subcommand, turns whatever goes wrong into a sentence.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>

#include "tools/command.h"
#include "tools/help.h"

namespace rollcall::tools {
namespace {

constexpr const char* kDescription =
    "rollcall: which rank of a distributed GPU job broke step, at which NCCL call, and why.\n\n"
    "  rollcall run -n 4 -- ./my_job        record a job of 4 local ranks\n"
    "  rollcall run -- torchrun train.py    record whatever starts the ranks itself\n"
    "  rollcall diff rollcall-runs/<run>    name the rank that broke step\n";
constexpr const char* kFooter =
    "\n`rollcall COMMAND --help` explains a command and gives examples.";

int read_arguments(CLI::App& app, std::vector<std::string> words) {
  // CLI11 takes the words in reverse.
  std::reverse(words.begin(), words.end());
  try {
    app.parse(std::vector<std::string>(words));
    return -1;
  } catch (const CLI::CallForHelp&) {
    // The help of the subcommand that was named, not the whole command's.
    const auto chosen = app.get_subcommands();
    fmt::print("{}", chosen.empty() ? app.help() : chosen.front()->help());
    return kExitGood;
  } catch (const CLI::CallForVersion&) {
    fmt::print("rollcall {}\n", ROLLCALL_VERSION);
    return kExitGood;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    if (chosen.empty() && !words.empty() && words.back()[0] != '-') {
      return unusable(fmt::format(
          "there is no command \"{}\"; `rollcall --help` lists the commands.", words.back()));
    }
    const std::string name = chosen.empty() ? "" : chosen.front()->get_name() + " ";
    return unusable(
        fmt::format("{}. `rollcall {}--help` shows what can be given.", error.what(), name));
  }
}

int run_command(std::vector<std::string> words) {
  CommandLine line;
  // What follows "--" is the job's and none of our business.
  const auto mark = std::find(words.begin(), words.end(), "--");
  if (mark != words.end()) {
    line.job.assign(mark + 1, words.end());
    line.job_given = true;
    words.erase(mark, words.end());
  }

  CLI::App app{kDescription, "rollcall"};
  // Before the subcommands: they inherit it.
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "this text");
  app.footer(kFooter);
  app.set_version_flag("--version", ROLLCALL_VERSION, "print the version");
  app.require_subcommand(0, 1);
  add_run(app, line);
  add_diff(app, line);
  add_info(app, line);
  add_stats(app, line);
  add_trace(app, line);
  add_dump(app, line);
  add_ctl(app, line);
  add_pack(app, line);
  add_synth(app, line);
  add_config(app, line);
  add_verdicts(app, line);

  if (const int status = read_arguments(app, std::move(words)); status >= 0) return status;
  if (!line.action) {
    fmt::print("{}", app.help());
    return kExitUnusable;
  }
  const auto chosen = app.get_subcommands();
  if (line.job_given && chosen.front()->get_name() != "run") {
    return unusable(fmt::format("`rollcall {}` takes no command behind \"--\"; remove it.",
                                chosen.front()->get_name()));
  }
  return line.action();
}

}  // namespace

int unusable(const std::string& sentence) {
  std::fflush(stdout);
  fmt::print(stderr, "rollcall: {}\n", sentence);
  return kExitUnusable;
}

}  // namespace rollcall::tools

int main(int argc, char** argv) {
  using rollcall::tools::unusable;
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
