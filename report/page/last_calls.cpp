#include "report/page/last_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "analysis/terms/calls.h"
#include "report/page/markup.h"
#include "report/page/roll.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using analysis::Culprit;
using analysis::Finding;
using analysis::kNone;

// A rank whose calls are shown, and what it is blamed for; null: nothing.
struct Shown {
  uint32_t process = kNone;
  const Culprit* culprit = nullptr;
};

std::vector<Shown> ranks_to_show(const analysis::Index& index, const analysis::Report& report) {
  std::unordered_map<int32_t, uint32_t> by_rank;
  for (const uint32_t p : index.active()) by_rank.try_emplace(index.run().processes[p].job_rank, p);
  std::vector<Shown> shown;
  const auto show = [&](uint32_t process, const Culprit* culprit) {
    const bool is_there = std::any_of(shown.begin(), shown.end(),
                                      [&](const Shown& one) { return one.process == process; });
    if (process == kNone || is_there || shown.size() == kRanksWithCalls) return;
    if (!index.run().processes[process].ops.empty()) shown.push_back({process, culprit});
  };
  const auto process_of = [&](int32_t rank) {
    const auto found = by_rank.find(rank);
    return rank < 0 || found == by_rank.end() ? kNone : found->second;
  };
  if (!report.findings.empty()) {
    const Finding& leading = report.findings.front();
    for (const Culprit& culprit : leading.culprits) {
      uint32_t process = process_of(culprit.rank);
      if (process == kNone && report.numbering.empty()) process = culprit.process;
      if (process < index.run().processes.size()) show(process, &culprit);
    }
    for (const int32_t rank : leading.victims) show(process_of(rank), nullptr);
  }
  for (const uint32_t p : index.active()) show(p, nullptr);
  return shown;
}

// The position by which a call is matched: of a collective its own, of a transfer that between the
// two ranks.
std::string position_of(const trace::Op& op) {
  if (is_collective(op.kind)) return fmt::format("seq {}", op.seq);
  if (is_p2p(op.kind)) return fmt::format("p2p seq {}", op.seq);
  return "-";
}

bool is_blamed(const trace::Process& process, const trace::Op& op, const Culprit* culprit) {
  if (culprit == nullptr || !culprit->comm || op.comm >= process.comms.size()) return false;
  if (!(process.comms[op.comm].key == *culprit->comm)) return false;
  if (is_collective(op.kind)) return culprit->seq == op.seq;
  return is_p2p(op.kind) && culprit->p2p_seq == op.seq && culprit->peer == op.root_or_peer &&
         culprit->op == name_of(op.kind);
}

std::string table_of(const analysis::Index& index, const Shown& shown) {
  const trace::Process& process = index.run().processes[shown.process];
  const bool has_lines = std::any_of(process.ops.begin(), process.ops.end(),
                                     [](const trace::Op& op) { return op.frames != 0; });
  std::vector<std::string> head{"communicator", "position", "call", "state"};
  if (has_lines) head.emplace_back("line of the script");
  HtmlTable table(head, kLastCalls);
  const size_t begin = process.ops.size() - std::min(process.ops.size(), kLastCalls);
  for (size_t at = process.ops.size(); at-- > begin;) {
    const trace::Op& op = process.ops[at];
    const bool has_comm = op.comm < process.comms.size();
    const analysis::Seat seat = has_comm ? index.seat(shown.process, op.comm) : analysis::Seat{};
    std::vector<std::string> cells{
        seat.group != kNone ? index.groups()[seat.group].name : std::string("-"), position_of(op),
        analysis::short_call_text(op), std::string(words_of(state_of(process, op)))};
    if (has_lines) cells.push_back(line_of(process, op));
    table.add(cells, is_blamed(process, op, shown.culprit) ? "blamed" : "");
  }
  return table.html();
}

}  // namespace

std::string last_calls_html(const analysis::Index& index, const analysis::Report& report) {
  const std::vector<int32_t> labels = process_labels(index.run());
  std::string html;
  for (const Shown& shown : ranks_to_show(index, report)) {
    const trace::Process& process = index.run().processes[shown.process];
    html += fmt::format(
        "<h3{}>rank {}{}</h3>\n", shown.culprit == nullptr ? "" : " class=\"culprit\"",
        labels[shown.process],
        process.host.empty() ? std::string() : " on " + escaped(process.host, kNameBytesMax));
    html += table_of(index, shown);
  }
  if (html.empty()) return html;
  return fmt::format(
             "<p class=\"quiet\">The newest calls on file of the ranks that it is about, the "
             "newest first; at most {} ranks and {} calls of each.</p>\n",
             kRanksWithCalls, kLastCalls) +
         html;
}

bool is_about_transfer(const analysis::Report& report) {
  if (report.findings.empty() || report.findings.front().culprits.empty()) return false;
  const Culprit& first = report.findings.front().culprits.front();
  return first.p2p_seq.has_value() && !first.seq.has_value();
}

}  // namespace rollcall::report
