// The attempts of a job whose log holds several: torchrun and its like start all processes again
// after a failure, and write on into the same log.
//
// What separates two attempts, the surest first
//   * a launcher's line that says so ("2/3 attempts left; will restart worker group").
//   * a rank that gave up, and gives up another call which it began after that: a process that gave
//     up makes no more calls.
//   * where lines have no times: a rank that gave up, and gives up an earlier call of the same
//     group.
//   * after something failed: Init START of a rank of the largest communicator, by another process.
//
// Hosts write at the same time: a line behind such a mark may still be of the attempt before. The
// time at which its call began tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trace/testimony.h"

namespace rollcall::trace {

// A line that may begin an attempt.
struct AttemptMark {
  size_t at = 0;  // so many sayings stand in front of it
  uint64_t line = 0;
  int64_t day_ms = kUntold;
  // Of a launcher: the number of the attempt that begins, where it tells one.
  bool is_launcher = false;
  int64_t number = kUntold;
  // Of NCCL's Init lines.
  int32_t rank = -1;
  int32_t nranks = -1;
  std::string writer;
};

// Fills JobLog::attempts, and Saying::attempt of all that is in the log.
void separate_attempts(const std::vector<AttemptMark>& marks, JobLog& log);

// "logs/attempt_2/0/stderr.log", as torchrun writes with --log-dir: 2. kUntold: of none.
int64_t attempt_in_path(const std::string& path);

// From one time of day to a later line's, milliseconds; 0 for lines that are slightly out of order.
// kUntold where a time is not told.
int64_t day_span_ms(int64_t from_ms, int64_t to_ms);

}  // namespace rollcall::trace
