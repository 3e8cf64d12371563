#include "analysis/views/before_giving_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "analysis/views/without_aftermath.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Event;
using trace::Liveness;
using trace::Op;
using trace::OpState;
using trace::Process;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// A process that leaves no record of its end was there for up to so long behind its last heartbeat;
// of another machine's the heartbeat comes over a file system.
constexpr int64_t kHeartbeatNs = 1'000'000'000;
constexpr int64_t kForeignHeartbeatNs = 5'000'000'000;

int64_t first_abort_ns(const Process& process) {
  int64_t first_ns = kNever;
  for (const Event& event : process.events) {
    if (event.is_abort()) first_ns = std::min(first_ns, event.called_ns);
  }
  return first_ns;
}

int64_t last_call_ns(const Process& process, int64_t until_ns) {
  int64_t last_ns = 0;
  for (const Op& op : process.ops) {
    if (op.called_ns <= until_ns) last_ns = std::max(last_ns, op.called_ns);
  }
  return last_ns;
}

// When a process aborted, exited or was last seen; kNever while it runs.
struct End {
  int64_t at_ns = kNever;
  int64_t at_latest_ns = kNever;
};

End end_of(const Process& process) {
  const bool runs = process.liveness == Liveness::running || process.liveness == Liveness::stopped;
  int64_t end_ns = first_abort_ns(process);
  if (process.exited_ns != 0) end_ns = std::min(end_ns, process.exited_ns);
  // Without a flusher the heartbeat is the start.
  const bool beats = process.heartbeat_ns > process.started_ns;
  if (end_ns != kNever || runs || !beats) return {end_ns, end_ns};
  end_ns = std::max(process.heartbeat_ns, last_call_ns(process, kNever));
  const bool is_here = process.liveness != Liveness::unknown;
  return {end_ns, end_ns + (is_here ? kHeartbeatNs : kForeignHeartbeatNs)};
}

// The active processes, and who of them ended first although it had called nothing for a while.
struct Ends {
  std::vector<uint32_t> active;
  std::vector<End> of;  // by Run::processes
  uint32_t first = kNone;
  int64_t stood_ns = 0;  // of the first
  int64_t doubt_ns = 0;

  int64_t first_ns() const { return of[first].at_ns; }
};

Ends find_ends(const trace::Run& run, const Options& options) {
  Ends ends;
  ends.of.resize(run.processes.size());
  for (uint32_t p = 0; p < run.processes.size(); ++p) {
    const Process& process = run.processes[p];
    if (process.superseded) continue;
    ends.active.push_back(p);
    ends.doubt_ns = std::max(ends.doubt_ns, process.clock_doubt_ns);
    ends.of[p] = end_of(process);
    const int64_t end_ns = ends.of[p].at_ns;
    const int64_t last_ns = last_call_ns(process, end_ns);
    if (last_ns == 0 || end_ns == kNever) continue;
    if (end_ns - last_ns < options.ended_threshold_ns) continue;
    if (ends.first != kNone && end_ns >= ends.first_ns()) continue;
    ends.first = p;
    ends.stood_ns = end_ns - last_ns;
  }
  return ends;
}

// Who called behind the first end, not freed by an abort of its own, and when the first of them
// did.
void find_late(const trace::Run& run, const Ends& ends, GivenUp& found) {
  const int64_t behind_ns = ends.of[ends.first].at_latest_ns + ends.doubt_ns;
  found.came_ns = kNever;
  for (const uint32_t p : ends.active) {
    const int64_t abort_ns = first_abort_ns(run.processes[p]);
    int64_t came_ns = kNever;
    for (const Op& op : run.processes[p].ops) {
      if (op.called_ns <= behind_ns || op.called_ns > abort_ns) continue;
      came_ns = std::min(came_ns, op.called_ns);
    }
    if (came_ns == kNever) continue;
    found.late.push_back(p);
    found.came_ns = std::min(found.came_ns, came_ns);
  }
}

bool is_late(const GivenUp& found, uint32_t p) {
  return std::binary_search(found.late.begin(), found.late.end(), p);
}

// Everybody else had ended when the first of the late ones came, and nobody made a communicator any
// more, as an elastic job does.
bool were_all_gone(const trace::Run& run, const Ends& ends, const GivenUp& found) {
  return std::all_of(ends.active.begin(), ends.active.end(), [&](uint32_t p) {
    const Process& process = run.processes[p];
    const bool made_another =
        std::any_of(process.comms.begin(), process.comms.end(),
                    [&](const Comm& comm) { return comm.created_ns > ends.first_ns(); });
    // What the GPU wrote into the file has no time.
    const bool has_marks = std::any_of(process.ops.begin(), process.ops.end(),
                                       [](const Op& op) { return op.mark != GpuMark::none; });
    return !process.is_foreign() && !made_another && !has_marks &&
           (is_late(found, p) || ends.of[p].at_latest_ns < found.came_ns - ends.doubt_ns);
  });
}

// Few came late. Who was killed had waited for longer than a scheduler happens to meet; and of as
// many as did not come late, or more, somebody has chosen to end a long wait.
bool are_exception(const trace::Run& run, const Ends& ends, const GivenUp& found,
                   const Options& options) {
  constexpr int64_t kKilledWaitNs = 10'000'000'000;
  const bool has_aborted = first_abort_ns(run.processes[ends.first]) == ends.first_ns();
  const bool is_by_itself = has_aborted || run.processes[ends.first].exited_ns != 0;
  if (2 * found.late.size() < ends.active.size()) {
    return is_by_itself || ends.stood_ns >= kKilledWaitNs;
  }
  return has_aborted && ends.stood_ns >= options.live_threshold_ns;
}

// What the GPU of a late rank ended when everybody else was gone, be it by the rank's abort, is not
// held against it: who has stopped a process has also stopped the threads that carry its transfers.
void end_on_gpu(Op& op, int64_t at_ns) {
  const bool is_by_itself =
      op.returned_ns != 0 && op.returned_ns <= at_ns && op.finished_ns > at_ns;
  if (!is_by_itself) return;
  for (int64_t* time_ns : {&op.launched_ns, &op.started_ns, &op.finished_ns}) {
    *time_ns = std::min(*time_ns, at_ns);
  }
}

void set_back(Op& op, int64_t at_ns) {
  const bool is_later = op.returned_ns > at_ns || op.launched_ns > at_ns || op.started_ns > at_ns ||
                        op.finished_ns > at_ns;
  if (!is_later) return;
  if (op.finished_ns > at_ns) op.awaits_gpu = true;
  for (int64_t* time_ns : {&op.returned_ns, &op.launched_ns, &op.started_ns, &op.finished_ns}) {
    if (*time_ns > at_ns) *time_ns = 0;
  }
  if (op.returned_ns == 0) op.result = kResultUnknown;
  const bool was_in_progress = op.result == kResultInProgress && op.awaits_gpu;
  op.state = op.returned_ns == 0 || was_in_progress ? OpState::called : OpState::returned;
  if (op.launched_ns != 0) op.state = OpState::launched;
  if (op.started_ns != 0) op.state = OpState::started;
}

void set_back(Comm& comm, int64_t at_ns) {
  if (comm.ended_ns < at_ns) return;
  comm.ended_ns = 0;
  comm.state = CommState::ready;
}

// The process as a reader would have found it at `at_ns`.
void set_back(Process& process, int64_t at_ns, bool is_late) {
  erase_calls_behind(process, at_ns);
  for (Op& op : process.ops) {
    if (is_late) end_on_gpu(op, at_ns);
    set_back(op, at_ns);
  }
  std::erase_if(process.events, [&](const Event& event) { return event.called_ns >= at_ns; });
  for (Event& event : process.events) {
    if (event.returned_ns > at_ns) event.returned_ns = 0;
  }
  for (Comm& comm : process.comms) set_back(comm, at_ns);
  process.heartbeat_ns = std::min(process.heartbeat_ns, at_ns);
  if (process.exited_ns != 0 && process.exited_ns < at_ns) return;
  process.exited_ns = 0;
  process.liveness = Liveness::unknown;
  process.liveness_evidence.clear();
}

// The first call of those that came too late, for quoting.
std::optional<Evidence> late_evidence(const trace::Run& run, const GivenUp& given_up) {
  for (const uint32_t p : given_up.late) {
    const Process& process = run.processes[p];
    for (const Op& op : process.ops) {
      if (op.called_ns != given_up.came_ns) continue;
      return Evidence{.file = process.file,
                      .record = fmt::format("op {}", op.ticket),
                      .text = fmt::format("{}: {}, too late", rank_text(process), call_text(op))};
    }
  }
  return std::nullopt;
}

std::string_view how_it_ended(const Process& process, int64_t at_ns) {
  if (first_abort_ns(process) == at_ns) return "aborted";
  return process.exited_ns == at_ns ? "ended by itself" : "died";
}

}  // namespace

std::optional<GivenUp> before_giving_up(const trace::Run& run, const Options& options) {
  const Ends ends = find_ends(run, options);
  if (ends.first == kNone) return std::nullopt;
  GivenUp found;
  find_late(run, ends, found);
  if (found.late.empty() || is_late(found, ends.first)) return std::nullopt;
  if (!were_all_gone(run, ends, found) || !are_exception(run, ends, found, options)) {
    return std::nullopt;
  }
  found.first = ends.first;
  found.at_ns = ends.first_ns();
  found.run = run;
  found.run.live = false;
  found.run.read_at_ns = found.at_ns;
  for (const uint32_t p : ends.active) {
    set_back(found.run.processes[p], found.at_ns, is_late(found, p));
  }
  return found;
}

std::optional<Report> report_of_late(const trace::Run& run, const GivenUp& given_up, Report before,
                                     const Report& whole) {
  const auto blames_others = [&](const Finding& finding) {
    return std::any_of(finding.culprits.begin(), finding.culprits.end(),
                       [&](const Culprit& one) { return !is_late(given_up, one.process); });
  };
  Finding& lead = before.findings.front();
  if (lead.severity != Severity::hang || lead.confidence == Confidence::open) return std::nullopt;
  // One that was dead by then, for example, had the others wait whoever came late.
  for (const Finding& finding : before.findings) {
    const bool hangs = finding.severity == Severity::hang;
    if (hangs && (finding.culprits.empty() || blames_others(finding))) return std::nullopt;
  }
  const Process& first = run.processes[given_up.first];
  lead.confidence = std::max(lead.confidence, Confidence::likely);
  lead.summary += fmt::format(
      " (the end here is when {} {}); {} called again {} later, when all others had ended",
      rank_text(first), how_it_ended(first, given_up.at_ns), processes_text(run, given_up.late),
      span_text(given_up.came_ns - given_up.at_ns));
  if (std::optional<Evidence> call = late_evidence(run, given_up)) {
    lead.evidence.push_back(std::move(*call));
  }
  for (const Finding& finding : whole.findings) {
    if (finding.severity == Severity::hang) lead.consequences.push_back(finding);
  }
  return before;
}

}  // namespace rollcall::analysis
