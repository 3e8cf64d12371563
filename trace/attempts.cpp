#include "trace/attempts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/text.h"
#include "trace/jobs.h"

namespace rollcall::trace {
namespace {

struct RunSpan {
  uint64_t processes = 0;
  int64_t newest_start_ns = 0;
  const Process* example = nullptr;
};

// Two recorders of one job name its communicators and positions differently: only one of them is
// compared. Ours where it was there; else the one that saw calls of most ranks, and of those
// the one that knows most of a call.
constexpr const char* kRecorders[] = {"rollcall", "flight_recorder", "nccl_log", "kineto",
                                      "nsys",     "inspector",       "ncclras",  "ncclras_text"};

void keep_one_recorder(Run& run) {
  std::map<std::string, std::set<int32_t>> ranks;
  for (const Process& process : run.processes) {
    std::set<int32_t>& seen = ranks[process.recorder];
    if (!process.ops.empty()) seen.insert(process.job_rank);
  }
  std::map<std::string, uint64_t> with_calls;
  for (const auto& [recorder, seen] : ranks) with_calls[recorder] = seen.size();
  if (with_calls.size() < 2) return;
  std::string kept = "rollcall";
  if (!with_calls.contains(kept)) {
    uint64_t most = 0;
    for (const char* recorder : kRecorders) {
      const auto found = with_calls.find(recorder);
      if (found == with_calls.end() || (most != 0 && found->second <= most)) continue;
      kept = recorder;
      most = found->second;
    }
  }
  for (Process& process : run.processes) {
    if (process.recorder == kept || process.superseded) continue;
    if (std::exchange(with_calls[process.recorder], UINT64_MAX) != UINT64_MAX) {
      run.issues.push_back({.file = process.file,
                            .text = fmt::format("files of the recorders {} and {} lie together; "
                                                "those of {} were read but not compared; move them "
                                                "to a directory of their own to see them",
                                                kept, process.recorder, process.recorder)});
    }
    process.superseded = true;
  }
}

std::string folder_of(const Process& process) {
  return process.file.substr(0, process.file.rfind('/'));
}

void keep_newest_run(Run& run) {
  std::map<uint64_t, RunSpan> spans;
  for (const Process& process : run.processes) {
    if (process.is_foreign()) continue;
    RunSpan& span = spans[process.run_id];
    ++span.processes;
    span.newest_start_ns = std::max(span.newest_start_ns, process.started_ns);
    span.example = &process;
  }
  if (spans.size() < 2) return;
  const auto newest =
      std::max_element(spans.begin(), spans.end(), [](const auto& a, const auto& b) {
        return a.second.newest_start_ns < b.second.newest_start_ns;
      });
  const uint64_t kept = newest->first;
  const std::string folder_of_kept = folder_of(*newest->second.example);
  for (const auto& [id, span] : spans) {
    if (id == kept) continue;
    const std::string folder = folder_of(*span.example);
    if (folder != folder_of_kept) {
      // A directory of runs was named, such as rollcall-runs.
      run.issues.push_back(
          {.file = span.example->file,
           .text = fmt::format("{} processes belong to another run, in {}: not compared with the "
                               "newest, in {}; {}",
                               span.processes, folder, folder_of_kept,
                               folder_of_kept.starts_with(folder + '/')
                                   ? "to compare them, move the newer away"
                                   : "name the directory of the run that is meant")});
      continue;
    }
    run.issues.push_back(
        {.file = span.example->file,
         .text =
             fmt::format("files of two runs are mixed: {} processes belong to run {:016x}, which "
                         "is older than run {:016x}; they were read but not compared; move "
                         "them to a directory of their own",
                         span.processes, id, kept)});
  }
  for (Process& process : run.processes) {
    if (!process.is_foreign()) process.superseded = process.run_id != kept;
  }
}

// Without a run id: processes of several jobs are never compared with each other.
void keep_newest_job(Run& run) {
  const bool has_unnamed =
      std::any_of(run.processes.begin(), run.processes.end(), [](const Process& process) {
        return !process.superseded && !process.is_foreign() && process.run_id == 0;
      });
  if (!has_unnamed) return;
  const Jobs jobs = jobs_of(run);
  uint64_t others = 0;
  uint64_t older = 0;
  const Process* example = nullptr;
  for (size_t p = 0; p < run.processes.size(); ++p) {
    Process& process = run.processes[p];
    if (process.superseded || process.is_foreign() || jobs.of[p] == 0) continue;
    process.superseded = true;
    example = &process;
    ++(jobs.of[p] == kNoJob ? older : others);
  }
  if (older != 0) {
    run.issues.push_back({.file = example->file,
                          .text = fmt::format("{} processes are of an earlier attempt of the job; "
                                              "they were read but not compared",
                                              older)});
  }
  if (others != 0) {
    run.issues.push_back(
        {.file = example->file,
         .text = fmt::format("the directory holds {} jobs without a ROLLCALL_RUN_ID, and {} "
                             "processes are not of the newest; give each job a directory or a "
                             "run id of its own",
                             jobs.count, others)});
  }
}

int64_t last_sign_ns(const Process& process) {
  return std::max({process.started_ns, process.heartbeat_ns, process.exited_ns});
}

// The number of "…/attempt-7"; nothing where the directory is called otherwise.
std::optional<uint64_t> attempt_of(std::string_view folder) {
  constexpr std::string_view kAttempt = "attempt-";
  const std::string_view name = folder.substr(folder.rfind('/') + 1);
  uint64_t number = 0;
  if (!name.starts_with(kAttempt)) return std::nullopt;
  if (!parse_decimal(name.substr(kAttempt.size()), number)) return std::nullopt;
  return number;
}

// A launcher ends all its ranks on a host before it starts them again there. What lies in the
// directory of an earlier attempt is no part of the newer one, also of a rank that has not come to
// NCCL in that. Each launcher counts by itself: what still gave a sign of life after the newest
// attempt had begun is of another one, on this host or not.
void keep_newest_attempt_of_each_host(Run& run) {
  struct Newest {
    uint64_t number = 0;
    const Process* example = nullptr;
    int64_t began_ns = INT64_MAX;  // its first process
  };
  std::map<std::pair<std::string, std::string>, Newest> newest;
  const auto newest_of = [&](const Process& process, std::optional<uint64_t>& number) -> Newest* {
    if (process.superseded || process.is_foreign()) return nullptr;
    const std::string folder = folder_of(process);
    number = attempt_of(folder);
    if (!number) return nullptr;
    return &newest[{folder.substr(0, folder.rfind('/')), process.host}];
  };
  std::optional<uint64_t> number;
  for (const Process& process : run.processes) {
    Newest* one = newest_of(process, number);
    if (!one) continue;
    if (!one->example || *number > one->number) {
      *one = {.number = *number, .example = &process, .began_ns = INT64_MAX};
    }
    if (*number == one->number) one->began_ns = std::min(one->began_ns, process.started_ns);
  }
  uint64_t older = 0;
  const Process* example = nullptr;
  const Process* kept = nullptr;
  for (Process& process : run.processes) {
    const Newest* one = newest_of(process, number);
    if (!one || *number == one->number || last_sign_ns(process) >= one->began_ns) continue;
    process.superseded = true;
    example = &process;
    kept = one->example;
    ++older;
  }
  if (older == 0) return;
  run.issues.push_back(
      {.file = example->file,
       .text = fmt::format("{} processes are of an earlier attempt than those in {}; they were "
                           "read but not compared; to compare them, name their directory {}",
                           older, folder_of(*kept), folder_of(*example))});
}

// Of attempts the older one has ended, also where both were handed one unique id. Who is still
// there and joins the same communicator was started under the same rank by mistake.
bool are_beside(const Process& a, const Process& b) {
  const Process& older = a.started_ns < b.started_ns ? a : b;
  const Process& newer = &older == &a ? b : a;
  if (last_sign_ns(older) < newer.started_ns) return false;
  return std::any_of(older.comms.begin(), older.comms.end(), [&](const Comm& comm) {
    return !comm.key.is_null() &&
           std::any_of(newer.comms.begin(), newer.comms.end(),
                       [&](const Comm& other) { return other.key == comm.key; });
  });
}

void keep_newest_attempt(Run& run) {
  std::unordered_map<int32_t, Process*> newest;
  uint64_t older = 0;
  const Process* example = nullptr;
  const Process* winner = nullptr;
  for (Process& process : run.processes) {
    // A log has neither times nor a job rank of its own to tell attempts by.
    const bool is_log = process.recorder == "nccl_log";
    if (process.superseded || process.job_rank < 0 || is_log) continue;
    Process*& slot = newest[process.job_rank];
    if (!slot) {
      slot = &process;
      continue;
    }
    // A forked child inherits RANK; it is a process of the job, not a second attempt.
    const bool is_child = process.parent_pid == slot->pid || slot->parent_pid == process.pid;
    if (is_child && process.host == slot->host) continue;
    if (are_beside(process, *slot)) continue;
    Process* loser = process.started_ns < slot->started_ns ? &process : slot;
    if (loser == slot) slot = &process;
    loser->superseded = true;
    example = loser;
    winner = slot;
    ++older;
  }
  if (older == 0) return;
  run.issues.push_back(
      {.file = example->file,
       .text =
           fmt::format("{} processes carry the job rank of a newer one (job rank {} for "
                       "example): an earlier attempt or another run in the same directory; they "
                       "were read but not compared; to compare them, {}",
                       older, example->job_rank,
                       folder_of(*example) == folder_of(*winner)
                           ? "move their files into a directory of their own"
                           : fmt::format("name their directory {}", folder_of(*example)))});
}

}  // namespace

void mark_superseded(Run& run) {
  keep_one_recorder(run);
  keep_newest_run(run);
  keep_newest_job(run);
  keep_newest_attempt_of_each_host(run);
  keep_newest_attempt(run);
}

}  // namespace rollcall::trace
