#include "analysis/explain/lost_dumps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analysis/terms/numbers.h"
#include "trace/import/torch_names.h"

namespace rollcall::analysis {
namespace {

// By rank: what is wrong with its dump.
std::map<int32_t, const trace::Issue*> lost_dumps(const trace::Run& run) {
  std::set<int32_t> present;
  bool has_dumps = false;
  for (const trace::Process& process : run.processes) {
    has_dumps = has_dumps || process.recorder == "flight_recorder";
    if (!process.comms.empty()) present.insert(process.job_rank);
  }
  std::map<int32_t, const trace::Issue*> lost;
  if (!has_dumps) return lost;
  for (const trace::Issue& issue : run.issues) {
    const int32_t rank = issue.file == run.directory ? -1 : trace::rank_in_file_name(issue.file);
    const bool is_of_empty =
        issue.unusable ||
        std::any_of(run.processes.begin(), run.processes.end(), [&](const auto& process) {
          return process.file == issue.file && process.comms.empty();
        });
    if (rank >= 0 && is_of_empty && present.count(rank) == 0) lost.try_emplace(rank, &issue);
  }
  return lost;
}

// Not one that is packed, or refused.
bool is_cut(const trace::Issue& issue) {
  return !issue.unusable || issue.text.starts_with("is empty") ||
         issue.text.find("cut off") != std::string::npos;
}

}  // namespace

void name_lost_dumps(const trace::Run& run, std::vector<Finding>& findings) {
  const std::map<int32_t, const trace::Issue*> lost = lost_dumps(run);
  if (lost.empty() || findings.empty()) return;
  Finding& lead = findings.front();
  std::vector<int32_t> cut;
  for (const auto& [rank, issue] : lost) {
    if (lead.evidence.size() < kEvidenceMax) {
      lead.evidence.push_back({.file = issue->file,
                               .record = {},
                               .text = fmt::format("the dump of rank {} {}", rank, issue->text)});
    }
    if (is_cut(*issue)) cut.push_back(rank);
  }
  if (!lead.culprits.empty() || cut.empty()) return;
  lead.summary +=
      cut.size() == 1
          ? fmt::format(
                "; the dump of rank {} was cut off while it was written, or the rank was killed",
                cut.front())
          : fmt::format(
                "; the dumps of ranks {} were cut off while they were written, or the "
                "ranks were killed",
                number_list(cut));
}

}  // namespace rollcall::analysis
