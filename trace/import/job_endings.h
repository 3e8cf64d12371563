// How processes ended, where a launcher does not tell it in one line: the rank in one, the exit
// status in another, and the status of srun in words.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/import/log_pattern.h"
#include "trace/testimony.h"

namespace rollcall::trace {

// The writer of an end that may be that of any of several processes.
inline constexpr std::string_view kOneOfSeveral = "one of several processes";

// Behind the number that mp.spawn() gives a process: each host counts its own.
inline constexpr std::string_view kOfSpawn = "of mp.spawn()";

// torchrun lists all processes that failed and, behind "Root Cause (first observed failure)", the
// one that it found first. Most others failed because of it. It looks at them one after the other,
// though: who ended with the same status in the same second may as well have been first.
class EndedRank {
 public:
  // A line that names a rank, or that says that the first failure follows, or, at `day_ms`, when
  // that was.
  void read(const LogValues& values, uint64_t line, int64_t day_ms);
  // Fills in the rank of an exit status that stands a few lines behind it, and the time of its end
  // where a line between tells it; false where no rank does.
  bool give_to(Saying& saying);
  // Behind the one that was found first, which is the last of `sayings`, those that were listed in
  // front of it and may have been first as well.
  void add_alike(std::vector<Saying>& sayings);

 private:
  static constexpr uint64_t kReach = 8;  // lines
  static constexpr size_t kListedMax = 1 << 14;
  std::vector<Saying> listed_;
  bool is_listed_ = false;  // `rank_` is one of the list
  int32_t rank_ = -1;
  int32_t local_rank_ = -1;
  uint64_t rank_line_ = 0;
  uint64_t heading_line_ = 0;
  int64_t day_ms_ = kUntold;
};

// "Out Of Memory", "Exited with exit code 3": as a shell would tell it, a signal negative. kUntold:
// not known.
int64_t status_from_words(std::string_view words);

// "SIGKILL": 9. kUntold: no signal.
int64_t signal_named(std::string_view name);

// Whether a shell's line names a program that starts or is a rank.
bool names_job_command(std::string_view words);

// That of a container's command that a signal ended, and neither Ctrl-C nor a closed pipe.
bool is_violent_status(int64_t code);

// "run.sh: line 12:  4711 Killed": as a shell tells of what it ran.
bool is_told_by_shell(std::string_view line);

// "-- Process 1 terminated with the following error:".
bool is_in_front_of_traceback(std::string_view line);

// An error by which a rank tells of another's end for sure. Others of the network may be about any
// server.
bool tells_of_another_end(const Saying& saying);

// mpiexec ends all others after the first, and tells of each. Of several that stand in one attempt
// those that it may have ended are dropped, or, where nothing else is among them, told as one that
// names no rank.
void settle_ends_of_mpiexec(std::vector<Saying>& sayings);

// "*** STEP 8.0 ON n0 CANCELLED AT ...", without a reason: Slurm prints the same where a person
// ends a step as where a task of it failed.
bool is_end_of_step(const Saying& saying);

// Whether a task of which Slurm tells behind that may be why: it exited by itself, and none is
// known to have ended before.
bool may_have_ended_step(const Saying& task, const std::vector<Saying>& former);

// "torch.OutOfMemoryError", and no "Error" or "ERROR" that anybody may print.
bool is_exception_name(std::string_view name);

}  // namespace rollcall::trace
