#include "report/lines.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "analysis/record/index.h"
#include "report/terms.h"

namespace rollcall::report {

namespace {

// " (dp 3, tp 1)"; empty where nothing is known.
std::string coordinates_text(const std::vector<analysis::Coordinate>& coordinates) {
  if (coordinates.empty()) return "";
  std::string text;
  for (const analysis::Coordinate& at : coordinates) {
    text += fmt::format("{}{} {}", text.empty() ? " (" : ", ", printable(at.dimension), at.index);
  }
  return text + ")";
}

}  // namespace

std::string culprit_line(const analysis::Culprit& culprit) {
  std::string text = culprit.rank >= 0 ? fmt::format("rank {}", culprit.rank)
                     : culprit.process == analysis::kNone
                         ? std::string("a process without a file")
                         : fmt::format("process {}", culprit.process);
  if (culprit.gpu >= 0) text += fmt::format(" (GPU {})", culprit.gpu);
  text += coordinates_text(culprit.coordinates);
  if (!culprit.host.empty()) text += " on " + printable(culprit.host);
  if (culprit.pid != 0) text += fmt::format(", pid {}", culprit.pid);
  std::string place;
  if (culprit.comm) {
    place = culprit.comm_name.empty() ? key_hex(*culprit.comm) : printable(culprit.comm_name);
    if (culprit.comm_rank >= 0) place += fmt::format(" rank {}", culprit.comm_rank);
  }
  if (culprit.seq) place += fmt::format(" seq {}", *culprit.seq);
  if (culprit.p2p_seq) place += fmt::format(" p2p seq {}", *culprit.p2p_seq);
  if (culprit.peer >= 0) place += fmt::format(" peer {}", culprit.peer);
  if (!culprit.op.empty()) place += " " + culprit.op;
  while (!place.empty() && place.front() == ' ') place.erase(0, 1);
  return place.empty() ? text : text + ": " + place;
}

std::string evidence_line(const analysis::Evidence& evidence) {
  std::string text = printable(evidence.text);
  if (evidence.file.empty()) return text;
  text += fmt::format("  [{}{}{}]", printable(file_name(evidence.file)),
                      evidence.record.empty() ? "" : ", ", evidence.record);
  return text;
}

std::string code_line(const analysis::Finding& finding) {
  return fmt::format("{}, {}, {}", analysis::code_of(finding.verdict),
                     analysis::name_of(finding.severity), analysis::name_of(finding.confidence));
}

std::string_view word_for_victims(const analysis::Finding& finding) {
  return finding.severity == analysis::Severity::hang ? "waiting" : "affected";
}

std::string waits_left_out_line(uint32_t count) {
  return fmt::format("{} more {}", count, count == 1 ? "call waits" : "calls wait");
}

std::string comm_line(const analysis::CommSummary& comm, size_t ranges_max) {
  std::string text =
      fmt::format("{} of {} on file: {}", comm.ranks.size(),
                  comm.nranks >= 0 ? fmt::format("{}", comm.nranks) : "an unknown number",
                  ranks_in_words(comm.ranks, ranges_max));
  if (comm.last_common_seq) text += fmt::format("; in step up to seq {}", *comm.last_common_seq);
  if (comm.first_difference_seq) {
    text += fmt::format("; first difference at seq {}", *comm.first_difference_seq);
  }
  return text;
}

std::vector<GroupedRow> grouped_rows(const std::vector<analysis::RankRow>& table,
                                     const std::vector<int32_t>& labels) {
  using Cells = std::tuple<std::string, std::string, std::string, std::string>;
  std::map<Cells, size_t> seen;
  std::vector<GroupedRow> rows;
  for (const analysis::RankRow& row : table) {
    const auto [found, is_new] =
        seen.emplace(Cells{row.comm_name, row.last_common, row.here, row.state}, rows.size());
    if (is_new) {
      rows.push_back({{}, row.comm_name, row.last_common, row.here, row.state});
      if (!row.since.empty()) rows.back().state += " " + row.since;
    }
    const int32_t label = row.rank >= 0                 ? row.rank
                          : row.process < labels.size() ? labels[row.process]
                                                        : -1;
    rows[found->second].ranks.push_back(label);
  }
  return rows;
}

std::vector<SharedIssue> shared_issues(const trace::Run& run, bool each_alone) {
  std::vector<SharedIssue> shared;
  std::map<std::string_view, size_t> by_text;
  for (const trace::Issue& issue : run.issues) {
    const bool may_share = !each_alone && !issue.file.empty();
    const auto [slot, is_new] = by_text.try_emplace(issue.text, shared.size());
    if (may_share && !is_new && !shared[slot->second].issue->file.empty()) {
      ++shared[slot->second].files;
    } else {
      shared.push_back({&issue, 1});
    }
  }
  return shared;
}

std::vector<SharedIssue> issues_to_name(const trace::Run& run) {
  constexpr size_t kNamedMax = 8;
  return shared_issues(run, run.issues.size() <= kNamedMax);
}

std::string issue_line(const SharedIssue& shared, bool has_path) {
  const std::string& path = shared.issue->file;
  std::string file = printable(has_path ? std::string_view(path) : file_name(path));
  if (shared.files > 1) file += fmt::format(" and {} more", shared.files - 1);
  const std::string text = printable(shared.issue->text);
  return file.empty() ? text : fmt::format("{}: {}", file, text);
}

}  // namespace rollcall::report
