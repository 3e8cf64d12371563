#include "report/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "analysis/views/by_gpu.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

struct Position {
  CommKey comm;
  std::string comm_name;
  uint64_t seq = 0;
};

std::optional<Position> position_of(const analysis::Report& report) {
  if (report.findings.empty()) return std::nullopt;
  for (const analysis::Culprit& culprit : report.findings.front().culprits) {
    if (culprit.comm && culprit.seq)
      return Position{*culprit.comm, culprit.comm_name, *culprit.seq};
  }
  for (const analysis::CommSummary& comm : report.comms) {
    if (comm.first_difference_seq) return Position{comm.key, comm.name, *comm.first_difference_seq};
  }
  return std::nullopt;
}

// What one rank called from seq `first` to `last`: a line per position.
std::vector<std::string> calls_of(const trace::Process& process, uint32_t comm, uint64_t first,
                                  uint64_t last) {
  std::vector<std::string> lines(last - first + 1);
  for (const trace::Op& op : process.ops) {
    if (op.comm != comm || !is_collective(op.kind) || op.seq < first || op.seq > last) continue;
    std::string line = call_in_words(op);
    if (op.state == trace::OpState::called) line += "  (inside)";
    if (op.state == trace::OpState::failed)
      line += fmt::format("  ({})", name_of_result(op.result));
    lines[op.seq - first] = std::move(line);
  }
  // An empty line is a call that was never made, or one whose record is gone.
  const uint64_t called = process.comms[comm].collectives;
  for (size_t at = 0; at < lines.size(); ++at) {
    if (!lines[at].empty()) continue;
    lines[at] = first + at < called ? "(no longer on file)" : "-";
  }
  return lines;
}

}  // namespace

std::string context_text(const trace::Run& whole, const analysis::Report& report, uint32_t calls) {
  // Ranks as the findings number them.
  const std::optional<analysis::Parts> parts =
      report.numbering.empty() ? std::nullopt : analysis::take_apart(whole);
  const trace::Run& run = parts ? parts->run : whole;
  const std::optional<Position> position = position_of(report);
  if (!position) return "The leading finding has no position in a sequence of calls to show.\n";
  const uint64_t first = position->seq >= calls ? position->seq - calls : 0;
  const uint64_t last =
      position->seq > UINT64_MAX - calls ? UINT64_MAX - 1 : position->seq + uint64_t{calls};

  const std::vector<int32_t> labels = process_labels(run);
  std::map<std::vector<std::string>, std::vector<int32_t>> groups;
  for (size_t at = 0; at < run.processes.size(); ++at) {
    const trace::Process& process = run.processes[at];
    for (uint32_t comm = 0; comm < process.comms.size(); ++comm) {
      if (!(process.comms[comm].key == position->comm)) continue;
      groups[calls_of(process, comm, first, last)].push_back(labels[at]);
    }
  }
  // The largest group first: it is what the others are compared with.
  std::vector<std::pair<std::vector<std::string>, std::vector<int32_t>>> sorted(groups.begin(),
                                                                                groups.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& one, const auto& other) {
    return one.second.size() > other.second.size();
  });

  std::string text;
  for (const auto& [lines, ranks] : sorted) {
    text += fmt::format("{} on {}\n", ranks_in_words(ranks), printable(position->comm_name));
    for (size_t at = 0; at < lines.size(); ++at) {
      const uint64_t seq = first + at;
      text += fmt::format("  {} seq {:<8} {}\n", seq == position->seq ? '>' : ' ', seq, lines[at]);
    }
  }
  if (text.empty()) text = "No rank of that communicator is on file.\n";
  return text;
}

}  // namespace rollcall::report
