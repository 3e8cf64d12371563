// What a process still calls when it has aborted a communicator.
//
// A watchdog's abort frees a host that waited, and the program goes on for a moment, into the next
// call of another communicator, until the exception reaches it. Such calls are not what the job
// did: a rank that hung the others by leaving a call out seems to have made it after all.
#pragma once

#include <cstdint>
#include <optional>

#include "trace/model.h"

namespace rollcall::analysis {

// The run without such calls: those behind the first abort of a process that had called nothing for
// a second before it, and whose calls end within a second of it, on no newer communicator. Nothing
// where there are none. A copy of the whole run: for jobs that hang.
std::optional<trace::Run> without_aftermath(const trace::Run& run);

// Takes the calls behind a time out of a process, and out of what its communicators count.
void erase_calls_behind(trace::Process& process, int64_t at_ns);

}  // namespace rollcall::analysis
