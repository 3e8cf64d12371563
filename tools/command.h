// The command line of `rollcall`: its subcommands, their options, its exit statuses.
//
// Declared without the library that reads it. Only command.cpp and help.cpp see CLI11, whose header
// costs ten seconds of compiling in each file that includes it.
//
// Threads: the main thread alone.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tools/command_table.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rollcall::tools {

// Exit statuses of the command. 0, 1, 3 and 4 belong to `diff` (docs/VERDICTS.md).
inline constexpr int kExitGood = 0;
inline constexpr int kExitHang = 1;  // or wrong results
inline constexpr int kExitUnusable = 2;
inline constexpr int kExitUndecided = 3;
inline constexpr int kExitRisk = 4;
inline constexpr int kExitBusy = 5;  // another command does it, at this moment

// What a subcommand does once the arguments are read; returns the exit status.
using Action = std::function<int()>;

class CommandLine {
 public:
  CommandLine(const char* description, const char* footer);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Reads `words`, the arguments behind the program's name, and runs the subcommand they name, or
  // prints help, the version, or what is wrong with them. Returns the exit status.
  int run(std::vector<std::string> words);

  // What follows "--": a job to start. `job_given`: there was a "--".
  const std::vector<std::string>& job() const { return job_; }
  bool job_given() const { return job_given_; }

  // What it can take, as far as it has been declared.
  CommandTable table() const;

 private:
  friend class Subcommand;
  int read(std::vector<std::string> words);

  std::unique_ptr<CLI::App> app_;
  Action action_;
  std::vector<std::string> job_;
  bool job_given_ = false;
};

// One declared option: a handle, valid as long as the command line.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& required();
  // How the help names the value: "DIR".
  Option& value_name(const char* name);
  // "--name" alone is accepted too.
  Option& value_is_optional();
  Option& one_of(std::initializer_list<const char*> words);
  // Refuses other values; both ends are allowed.
  Option& between(uint64_t low, uint64_t high);
  Option& seconds_between(double low, double high);
  // A file or directory: not the empty word that a script's unset variable leaves.
  Option& not_empty();
  // A number of calls, 0 for all of them.
  Option& calls();
  Option& excludes(const Option& other);
  Option& needs(const Option& other);
  // Whether it was on the command line; for the subcommand's action.
  bool given() const;

 private:
  CLI::Option* option_;
};

// Declares one subcommand. The variables that are bound to options must outlive the command line's
// run; what they hold before is the default.
class Subcommand {
 public:
  Subcommand(CommandLine& line, const char* name, const char* description);
  Option flag(const char* names, bool& value, const char* help);
  // A name without dashes is a positional argument.
  Option option(const char* names, std::string& value, const char* help);
  // One or more.
  Option option(const char* names, std::vector<std::string>& values, const char* help);
  Option option(const char* names, double& value, const char* help);
  Option option(const char* names, int32_t& value, const char* help);
  Option option(const char* names, int64_t& value, const char* help);
  Option option(const char* names, uint32_t& value, const char* help);
  Option option(const char* names, uint64_t& value, const char* help);
  // Two numbers with a comma between them.
  Option pair(const char* names, std::vector<int32_t>& values, const char* help);
  void footer(const char* text);
  // Leaves it out of the list in `rollcall --help`: a tool for tests, not for whoever has a hang.
  void unlisted();
  void action(Action action);

 private:
  CommandLine& line_;
  CLI::App* app_;
};

void add_completion(CommandLine& line);
void add_config(CommandLine& line);
void add_ctl(CommandLine& line);
void add_diff(CommandLine& line);
void add_doctor(CommandLine& line);
void add_dump(CommandLine& line);
void add_export(CommandLine& line);
void add_info(CommandLine& line);
void add_manual(CommandLine& line);
void add_pack(CommandLine& line);
void add_report(CommandLine& line);
void add_run(CommandLine& line);
void add_slow(CommandLine& line);
void add_stacks(CommandLine& line);
void add_stats(CommandLine& line);
void add_synth(CommandLine& line);
void add_top(CommandLine& line);
void add_trace(CommandLine& line);
void add_verdicts(CommandLine& line);
void add_watch(CommandLine& line);

// "rollcall: <sentence>" on stderr; returns kExitUnusable.
int unusable(const std::string& sentence);

}  // namespace rollcall::tools
