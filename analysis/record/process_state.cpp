#include "analysis/record/process_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

namespace rollcall::analysis {
namespace {

using trace::Event;
using trace::Liveness;
using trace::Op;
using trace::OpState;
using trace::Process;

// Between machines the clocks differ, and a heartbeat comes over a file system.
constexpr int64_t kForeignMarginNs = 5'000'000'000;
// An exit record is written by the process itself: against processes that were killed, a small
// difference is enough.
constexpr int64_t kExitMarginNs = 20'000'000;

bool is_call(EventKind kind) {
  switch (kind) {
    case EventKind::AsyncError:
    case EventKind::CallFailed:
    case EventKind::UseAfterDestroy:
    case EventKind::ProcessExit:
    case EventKind::CaptureOff:
    case EventKind::CapturePaused:
    case EventKind::CaptureResumed:
      return false;
    default:
      return true;
  }
}

// The oldest call that a thread entered and has not left. Where the thread called on the same
// communicator again it has left the one before, whatever that record says.
uint32_t open_call(const Process& process) {
  const auto is_open = [](const Op& op) { return op.state == OpState::called; };
  const auto first = std::find_if(process.ops.begin(), process.ops.end(), is_open);
  std::map<std::pair<uint32_t, uint32_t>, const Op*> newest;  // by thread and communicator
  for (auto op = first; op != process.ops.end(); ++op) newest[{op->thread, op->comm}] = &*op;
  uint32_t oldest = kNoRecord;
  for (const auto& [key, op] : newest) {
    if (!is_open(*op)) continue;
    if (oldest != kNoRecord && op->called_ns >= process.ops[oldest].called_ns) continue;
    oldest = static_cast<uint32_t>(op - process.ops.data());
  }
  return oldest;
}

void look_at_calls(const Process& process, ProcessState& state) {
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    state.last_call_ns = std::max(state.last_call_ns, op.called_ns);
    if (!is_mark(op.kind)) state.last_op = i;
  }
  state.inside_op = process.knowledge.returns ? open_call(process) : kNoRecord;
  if (state.inside_op != kNoRecord) {
    state.inside_since_ns = process.ops[state.inside_op].called_ns;
  }
  for (uint32_t i = 0; i < process.events.size(); ++i) {
    const Event& event = process.events[i];
    state.last_call_ns = std::max(state.last_call_ns, event.called_ns);
    if (!is_call(event.kind) || !event.is_inside()) continue;
    state.inside_event = i;
    state.inside_since_ns = std::max(state.inside_since_ns, event.called_ns);
  }
  for (const char* name : {"dropped_pinned", "dropped_off", "dropped_paused"}) {
    const auto found = process.statistics.find(name);
    if (found != process.statistics.end()) state.uncounted += found->second;
  }
  state.beats = process.heartbeat_ns != 0;
  state.ended_itself = process.exited_ns != 0 || process.liveness == Liveness::exited;
  state.last_sign_ns = process.exited_ns != 0 ? process.exited_ns
                                              : std::max(process.heartbeat_ns, state.last_call_ns);
}

void judge_ends(const Index& index, const Options& options, JobState& job) {
  const int64_t death_margin_ns = options.death_margin_ns + job.clock_doubt_ns;
  const int64_t exit_margin_ns = kExitMarginNs + job.clock_doubt_ns;
  // Processes that were killed mark the end of the job; exits of their own may be the cause of it.
  int64_t last_killed_ns = 0;
  int64_t last_exit_ns = 0;
  for (const uint32_t p : index.active()) {
    const ProcessState& state = job.processes[p];
    int64_t& last_ns = state.ended_itself ? last_exit_ns : last_killed_ns;
    last_ns = std::max(last_ns, state.last_sign_ns);
  }
  for (const uint32_t p : index.active()) {
    const Process& process = index.run().processes[p];
    ProcessState& state = job.processes[p];
    state.stopped = process.liveness == Liveness::stopped;
    const int64_t age_ns = job.end_ns - state.last_sign_ns;
    if (process.liveness == Liveness::running || state.stopped) continue;
    if (state.ended_itself) {
      const bool before_killed = last_killed_ns - state.last_sign_ns > exit_margin_ns;
      state.gone = job.live || before_killed || age_ns > death_margin_ns;
    } else if (process.liveness == Liveness::dead) {
      // Where the others could still end by themselves, it was not the job that was killed.
      const bool before_exits = last_exit_ns - state.last_sign_ns > exit_margin_ns;
      const bool early = age_ns > death_margin_ns || before_exits;
      state.gone = job.live || (state.beats && early);
    } else if (state.beats) {
      const int64_t margin_ns = std::max(death_margin_ns, job.live ? kForeignMarginNs : 0);
      state.gone = age_ns > margin_ns;
    }
  }
}

// True while a job is being killed as a whole: the kernel takes its time over the processes, so
// some are gone and others not yet, and who is gone a moment earlier means nothing. A rank that
// died long before still counts as gone.
bool is_being_killed(const Index& index, const Options& options, const JobState& job) {
  const std::vector<uint32_t>& active = index.active();
  return std::any_of(active.begin(), active.end(), [&](uint32_t p) {
    const ProcessState& state = job.processes[p];
    return index.run().processes[p].liveness == Liveness::dead && !state.ended_itself &&
           state.beats &&
           job.end_ns - state.last_sign_ns <= options.death_margin_ns + job.clock_doubt_ns;
  });
}

// Others have called what this one has not.
bool is_behind(const Index& index, uint32_t p) {
  return std::any_of(index.groups().begin(), index.groups().end(), [&](const Group& group) {
    return std::any_of(group.members.begin(), group.members.end(), [&](const Member& member) {
      return member.process == p && group.may_be_matched && member.lane.called < group.longest;
    });
  });
}

// A launcher that loses a rank ends the others within a tenth of a second: less than by which a
// process must usually be earlier than the others to count as dead. But it ends these at once: who
// gave its last sign of life well before all others did theirs, within little time, and is behind
// them, died first. Of one that was silent for long that is not said: it may have hung, and
// somebody have ended the job rank by rank. Its lead is noted.
void judge_first_death(const Index& index, JobState& job) {
  constexpr int64_t kFirstMarginNs = 30'000'000;  // three heartbeats
  constexpr int64_t kSilentMaxNs = 10'000'000'000;
  std::vector<std::pair<int64_t, uint32_t>> ends;
  for (const uint32_t p : index.active()) {
    const ProcessState& state = job.processes[p];
    const Liveness liveness = index.run().processes[p].liveness;
    const bool was_killed = state.beats && !state.ended_itself && !state.gone &&
                            (liveness == Liveness::dead || liveness == Liveness::unknown);
    if (!was_killed) return;
    ends.emplace_back(state.last_sign_ns, p);
  }
  if (job.live || ends.size() < 2) return;
  std::sort(ends.begin(), ends.end());
  const auto [first_ns, first] = ends[0];
  const int64_t lead_ns = ends[1].first - first_ns;
  const int64_t spread_ns = ends.back().first - ends[1].first;
  const bool is_clear = lead_ns > kFirstMarginNs + job.clock_doubt_ns && lead_ns > 2 * spread_ns;
  const bool was_silent = first_ns - job.processes[first].last_call_ns > kSilentMaxNs;
  if (!is_clear || !is_behind(index, first)) return;
  if (was_silent) {
    job.processes[first].lead_ns = lead_ns;
    return;
  }
  job.processes[first].gone = true;
  // The others have waited since then.
  job.threshold_ns = std::min(job.threshold_ns, lead_ns / 2);
}

}  // namespace

JobState judge_processes(const Index& index, const Options& options) {
  JobState job;
  job.processes.resize(index.run().processes.size());
  job.live = index.run().live;
  job.all_ended_themselves = !index.active().empty();
  job.is_foreign = !index.active().empty();
  for (const uint32_t p : index.active()) {
    ProcessState& state = job.processes[p];
    look_at_calls(index.run().processes[p], state);
    job.is_foreign = job.is_foreign && index.run().processes[p].is_foreign();
    job.clock_doubt_ns = std::max(job.clock_doubt_ns, index.run().processes[p].clock_doubt_ns);
    job.end_ns = std::max(job.end_ns, state.last_sign_ns);
    job.last_call_ns = std::max(job.last_call_ns, state.last_call_ns);
    for (const trace::Comm& comm : index.run().processes[p].comms) {
      if (comm.state != CommState::aborted) continue;
      job.first_abort_ns = std::min(job.first_abort_ns, comm.ended_ns);
    }
    job.all_ended_themselves = job.all_ended_themselves && state.ended_itself;
  }
  if (job.live) job.end_ns = std::max(job.end_ns, index.run().read_at_ns);
  if (job.live && is_being_killed(index, options, job)) job.live = false;
  job.threshold_ns = job.live ? options.live_threshold_ns : options.ended_threshold_ns;
  // Such files do not say when they were written: the file system does.
  for (const uint32_t p : index.active()) {
    const int64_t written_ns = index.run().processes[p].written_ns;
    if (written_ns != 0 && (job.written_ns == 0 || written_ns < job.written_ns)) {
      job.written_ns = written_ns;
    }
  }
  judge_ends(index, options, job);
  judge_first_death(index, job);
  return job;
}

}  // namespace rollcall::analysis
