// What every subcommand shares: how it is registered, and its exit statuses.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace rollcall::tools {

// Exit statuses of the command. 0, 1, 3 and 4 belong to `diff` (docs/VERDICTS.md).
inline constexpr int kExitGood = 0;
inline constexpr int kExitUnusable = 2;

// Set by the subcommand that was named; main() runs it after the arguments were read.
using Action = std::function<int()>;

struct CommandLine {
  Action action;
  std::vector<std::string> job;  // what follows "--"
  bool job_given = false;        // there was a "--"
};

void add_config(CLI::App& app, CommandLine& line);
void add_ctl(CLI::App& app, CommandLine& line);
void add_diff(CLI::App& app, CommandLine& line);
void add_dump(CLI::App& app, CommandLine& line);
void add_info(CLI::App& app, CommandLine& line);
void add_pack(CLI::App& app, CommandLine& line);
void add_run(CLI::App& app, CommandLine& line);
void add_stats(CLI::App& app, CommandLine& line);
void add_synth(CLI::App& app, CommandLine& line);
void add_trace(CLI::App& app, CommandLine& line);
void add_verdicts(CLI::App& app, CommandLine& line);

// "rollcall: <sentence>" on stderr; returns kExitUnusable.
int unusable(const std::string& sentence);

}  // namespace rollcall::tools
