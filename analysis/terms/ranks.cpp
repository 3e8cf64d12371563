#include "analysis/terms/ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/terms/numbers.h"

namespace rollcall::analysis {

using trace::Process;

std::string rank_text(const Process& process) {
  if (process.job_rank >= 0) return fmt::format("rank {}", process.job_rank);
  if (process.pid != 0) return fmt::format("pid {} on {}", process.pid, process.host);
  return "the process of " + process.file.substr(process.file.find_last_of('/') + 1);
}

const char* death_text(bool is_live_job) {
  return is_live_job ? "is dead" : "died (or was stopped)";
}

bool is_only_unheard(const Process& process) {
  return process.recorder.starts_with("ncclras") &&
         process.liveness_evidence == "it does not answer RAS";
}

const char* unheard_text() { return "does not answer RAS: it may be dead, stopped, or slow"; }

std::string continue_text(const Process& process, std::string_view who) {
  return fmt::format("find out who stopped {}; `kill -CONT {}` continues it", who, process.pid);
}

std::string processes_text(const trace::Run& run, std::vector<uint32_t> processes) {
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  std::vector<int32_t> ranks;
  std::vector<std::string> others;
  for (const uint32_t p : processes) {
    const Process& process = run.processes[p];
    if (process.job_rank >= 0) {
      ranks.push_back(process.job_rank);
    } else {
      others.push_back(rank_text(process));
    }
  }
  std::string text;
  if (!ranks.empty()) {
    text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", number_list(ranks));
  }
  constexpr size_t kNamedMax = 4;
  for (size_t i = 0; i < others.size() && i < kNamedMax; ++i) {
    text += (text.empty() ? "" : ", ") + others[i];
  }
  if (others.size() > kNamedMax) text += fmt::format(" and {} more", others.size() - kNamedMax);
  return text.empty() ? "nobody" : text;
}

}  // namespace rollcall::analysis
