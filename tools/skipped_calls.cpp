#include "tools/skipped_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "trace/clocks.h"
#include "trace/loader.h"

namespace rollcall::tools {

// The file once more, all of it, as the run's reader made it of the first reading: with the clock
// that it was moved to, and communicators under the names that they were found to share.
std::optional<trace::Process> read_skipped(const trace::Process& known, int64_t read_at_ns) {
  if (known.skipped == 0 || known.is_foreign()) return std::nullopt;
  trace::Run alone;
  alone.read_at_ns = read_at_ns;
  trace::LoadOptions options;
  options.probe_processes = false;
  alone.processes.push_back(trace::load_file(known.file, options, alone.issues));
  trace::Process& process = alone.processes.front();
  if (process.host != known.host || process.pid != known.pid ||
      process.comms.size() < known.comms.size()) {
    return std::nullopt;
  }
  trace::forget_times_to_come(alone);
  if (known.started_ns != 0 && process.started_ns != 0 && process.started_ns != known.started_ns) {
    trace::shift_times(process, known.started_ns - process.started_ns);
  }
  std::copy(known.comms.begin(), known.comms.end(), process.comms.begin());
  process.liveness = known.liveness;
  process.job_rank = known.job_rank;
  process.clock_doubt_ns = known.clock_doubt_ns;
  process.clock_moved_ns = known.clock_moved_ns;
  process.clock_bound_ns = known.clock_bound_ns;
  return std::move(process);
}

void forget_skipping(trace::Run& run) {
  std::erase_if(run.issues, [](const trace::Issue& issue) {
    return issue.text.find(trace::kLeftOnDisk) != std::string::npos;
  });
}

}  // namespace rollcall::tools
