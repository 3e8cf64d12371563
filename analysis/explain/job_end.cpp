#include "analysis/explain/job_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "analysis/record/index.h"

namespace rollcall::analysis {
namespace {

// Of the run that is judged: a directory may hold older ones.
bool is_of_run(const trace::Run& run, const trace::JobEnd& end) {
  return std::any_of(run.processes.begin(), run.processes.end(), [&](const auto& process) {
    return !process.superseded && !process.is_foreign() && process.run_id == end.run_id;
  });
}

// The first to fail by itself; null where nobody did.
const trace::JobEnd* first_failure(const trace::Run& run) {
  const trace::JobEnd* first = nullptr;
  for (const trace::JobEnd& end : run.ends) {
    if (end.reason != trace::EndReason::job || !is_of_run(run, end)) continue;
    if (first == nullptr || end.ended_ns < first->ended_ns) first = &end;
  }
  return first;
}

std::string how_text(const trace::JobEnd& end) {
  if (!end.by_signal) return fmt::format("ended with exit status {}", end.number);
  return fmt::format("was killed by signal {} ({})", end.number, strsignal(end.number));
}

std::string who_text(const trace::JobEnd& end) {
  if (end.rank >= 0) return fmt::format("rank {} (pid {} on {})", end.rank, end.pid, end.host);
  return "the job";
}

std::string next_text(const trace::JobEnd& end) {
  const std::string log =
      end.rank >= 0 ? fmt::format("the log of rank {}", end.rank) : std::string("the job's log");
  if (end.by_signal && end.number == SIGKILL) {
    return fmt::format(
        "look who sends SIGKILL on {}: the OOM killer (`dmesg`), a scheduler, a person; and in {}",
        end.host, log);
  }
  return fmt::format(
      "look in {} for its first error; `rollcall diff` reads a log beside the "
      "directory",
      log);
}

uint32_t process_of(const trace::Run& run, const trace::JobEnd& end) {
  // The rank may be a script that starts the program.
  const auto found =
      std::find_if(run.processes.begin(), run.processes.end(), [&](const trace::Process& process) {
        return !process.superseded && process.run_id == end.run_id &&
               process.job_rank == end.rank && process.host == end.host;
      });
  return found == run.processes.end() ? kNone
                                      : static_cast<uint32_t>(found - run.processes.begin());
}

}  // namespace

bool tell_job_end(const trace::Run& run, std::vector<Finding>& findings) {
  const trace::JobEnd* end = first_failure(run);
  if (end == nullptr || findings.empty()) return false;
  Finding& lead = findings.front();
  lead.evidence.push_back({.file = end->file,
                           .record = "",
                           .text = fmt::format("{} {}", who_text(*end), how_text(*end))});
  if (lead.verdict != Verdict::in_lockstep) return false;
  lead.verdict = Verdict::insufficient;
  lead.severity = severity_of(Verdict::insufficient);
  lead.confidence = Confidence::open;
  lead.summary = fmt::format("{} {}{}, and the calls on file do not tell why: {}", who_text(*end),
                             how_text(*end), end->rank >= 0 ? ", before any other rank failed" : "",
                             lead.summary);
  lead.next = next_text(*end);
  if (end->rank < 0) return true;
  Culprit culprit;
  culprit.rank = end->rank;
  culprit.process = process_of(run, *end);
  culprit.host = end->host;
  culprit.pid = end->pid;
  lead.culprits.push_back(std::move(culprit));
  return true;
}

}  // namespace rollcall::analysis
