// What a run is asked for, and what it needs to know before it starts.
//
// Threads: plain functions.
#pragma once

#include <string>

#include "tools/job.h"

namespace rollcall::tools {

// A tenth of the time after which PyTorch's watchdog ends a job.
inline constexpr double kWatchDefaultS = 60;
inline constexpr unsigned kEmulatedGpusMax = 64;

// What --on-hang takes; each does what those in front of it do, too.
inline constexpr const char* kLog = "log";
inline constexpr const char* kNotify = "notify";
inline constexpr const char* kEnd = "end";

struct RunArguments {
  std::string directory;
  unsigned ranks = 0;   // 0: the command starts its ranks itself
  std::string emulate;  // as given; "" when absent or without a number
  bool emulate_given = false;
  unsigned nodes = 1;
  double watch_s = kWatchDefaultS;
  bool watch_given = false;
  std::string on_verdict;
  double timeout_s = 0;
  bool kill_on_hang = false;
  std::string on_hang;  // "": not given
  std::string exclude_file;
  bool exit_by_class = false;
  bool quiet = false;

  bool ends_on_hang() const { return kill_on_hang || on_hang == kEnd; }
  const char* ending_option() const { return kill_on_hang ? "--kill-on-hang" : "--on-hang end"; }
  // With `log` the command is left out.
  std::string command() const { return on_hang == kLog ? "" : on_verdict; }
};

// What one run needs to know; filled by prepare_run().
struct Plan {
  std::string directory;  // empty: nothing is recorded,
  std::string obstacle;   // for this reason
  std::string run_id;
  bool is_shared = false;  // the directory and the id, with other commands of the job
  Settings settings;       // for every process
};

// False: the job cannot be started as it was asked for. What only keeps it from being recorded does
// not: the job comes first.
bool prepare_run(const RunArguments& arguments, const std::string& program, Plan& plan,
                 std::string& error);

// Where the ranks that are started record: in an attempt of a launcher around this command, a
// directory in the plan's.
std::string own_directory(const Plan& plan);

// The sentence for a run without a file: what is known to be the case, else what is likely.
std::string why_nothing_recorded(const Plan& plan, const std::string& program);

std::string environment_or(const char* name, const std::string& otherwise);

}  // namespace rollcall::tools
