// What the log of a job says of its ranks in words: PyTorch's watchdog, NCCL's warnings, the
// launcher, the kernel. Facts, each with the line that it stands in; analysis/testimony judges
// them.
//
// Numbers that a line does not tell are kUntold. A rank is the job's; PyTorch's "[Rank 1]" is a
// rank of the group and stands apart from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rollcall::trace {

inline constexpr int64_t kUntold = INT64_MIN;

enum class SayingKind : uint8_t {
  gave_up,            // a rank waited for a call until its time was over
  position,           // how far the rank that gave up had come in its group
  other_position,     // how far a rank had come that did not give up
  alive,              // a rank heard that another gave up
  host_stuck,         // PyTorch's own watchdog found a host thread that does not move
  async_error,        // NCCL reported an error behind a call
  blocking_wait,      // a rank gave up in work.wait()
  script_line,        // a line of the script that made the call
  mismatch,           // two ranks and their calls, compared by PyTorch
  parameters_differ,  // models of different sizes
  missing_ranks,      // Horovod names who did not submit
  not_joined,         // PyTorch names a rank that did not come to a call
  not_met,            // processes that waited for others at the start, and how many had come
  recovered,          // what was said to be stuck goes on; kept by what it takes back only
  exception,          // Python, or PyTorch's watchdog, ended the rank with an error of its own
  raised,             // somebody raised an error, and may have got over it
  outside,            // something else than NCCL waits
  warning,            // NCCL WARN
  result,             // an NCCL result on its way up
  init_started,       // ncclCommInitRank was called
  init_completed,     // and returned
  died,               // a process ended, as its launcher or shell says
  rank_ended,         // of which rank the exit status in the next lines is; kept with that only
  announced,          // whom the next lines are about; kept with these only
  placed,             // which rank of a communicator a process is; kept with its end only
  chained,            // the next error of a rank is about the one before; kept by that only
  rest_ended,         // the launcher ends what still runs; kept by what it excuses only
  restarted,          // the launcher starts the processes again; kept as an attempt only
  machine             // the kernel or the driver: Xid, out of memory
};

struct Saying {
  SayingKind kind = SayingKind::alive;
  uint64_t line = 0;         // of the file, from 1
  uint32_t attempt = 0;      // index into JobLog::attempts
  int64_t day_ms = kUntold;  // time of day as printed, milliseconds
  int32_t rank = -1;
  int32_t local_rank = -1;  // on its host
  int32_t group_rank = -1;
  int32_t other_rank = -1;
  std::string writer;           // "host:pid" where the line names no rank
  std::string group;            // what names it on all ranks; empty where it is not named
  std::string group_text;       // for people
  bool is_group_local = false;  // `group` is a number of this process
  std::string op;               // "ALLREDUCE", as printed
  std::string other_op;
  int64_t seq = kUntold;
  int64_t enqueued = kUntold;   // number of the last call that was made
  int64_t completed = kUntold;  // and of the last that ended
  int64_t elements_in = kUntold;
  int64_t elements_out = kUntold;
  int64_t ran_ms = kUntold;
  int64_t limit_ms = kUntold;   // after which a wait is given up
  int64_t code = kUntold;       // exit status, NCCL result, Xid
  bool is_first_death = false;  // its launcher names it as the first that failed
  std::string text;             // the warning, the shapes, the path
  std::string quote;            // the line, cut to what is worth showing
};

// It waits still, and has not given up.
inline bool is_waiting(const Saying& saying) {
  return saying.kind == SayingKind::not_met && saying.elements_in != kUntold &&
         saying.seq != kUntold && saying.ran_ms != kUntold;
}

// A launcher may start the job again after a failure. Numbers count from 0, as torchrun does.
struct Attempt {
  uint64_t line = 1;  // that begins it
  int64_t number = 0;
  std::string sign;  // how it is known that it began there; empty for the first
};

struct JobLog {
  std::string file;
  uint64_t lines = 0;
  uint64_t last_line = 0;       // the last that is not empty; 0: not known
  uint64_t last_wait_line = 0;  // the last that tells of a wait or a time-out; 0: none does
  int32_t world_size = -1;
  std::vector<Saying> sayings;
  std::vector<Attempt> attempts;  // in their order; empty is one
  bool are_attempts_told = true;  // by numbers of the launcher, which other logs share
  uint64_t left_out_from = 0;     // the first line whose sayings were not kept; 0: all were
  bool leaves_out_alike = false;  // Ray printed one line for several that are alike
};

}  // namespace rollcall::trace
