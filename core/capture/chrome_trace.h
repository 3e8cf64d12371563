// ROLLCALL_CHROME_TRACE=1: <stem>.trace.json, written while the job runs. The JSON array form,
// which viewers accept without its closing bracket: a file that is cut off between two lines is
// valid.
//
// Threads: one at a time, as the flusher's passes.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/capture/history.h"

namespace rollcall::capture {

class ChromeTrace {
 public:
  struct Options {
    const char* directory;  // outlive the object
    const char* stem;
    uint32_t pid;
    int32_t job_rank;  // -1: none
    const CommEntry* comms;
    const ThreadEntry* threads;
    SelfStatistics* stats;
  };
  // False where the file's name would be longer than a path may be: then nothing is written.
  bool begin(const Options& options) noexcept;
  // The clock for the records that follow.
  void set_clock(const TickConversion& clock) noexcept;
  void observe(const OpRecord& op) noexcept;
  // Writes what is buffered.
  void flush() noexcept;

 private:
  int open_trace() noexcept;
  void write_head() noexcept;
  void write_microseconds(TextWriter& out, int64_t ns) const noexcept;
  void write_arguments(TextWriter& out, const OpRecord& op) const noexcept;

  Options options_{};
  TickConversion clock_{ClockKind::monotonic, {}, {}};
  bool failed_ = false;
  bool is_made_ = false;   // by us
  bool is_begun_ = false;  // something is in it
  size_t head_bytes_ = 0;
  size_t used_ = 0;
  char head_[1024];
  char buffer_[64 * 1024];
};

}  // namespace rollcall::capture
