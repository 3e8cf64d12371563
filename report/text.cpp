#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "analysis/record/index.h"
#include "analysis/words/lead.h"
#include "report/context.h"
#include "report/lines.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using analysis::Culprit;
using analysis::Finding;
using analysis::RankRow;

constexpr size_t kCulpritsShown = 6;
constexpr size_t kEvidenceShown = 6;
constexpr size_t kRowsShown = 24;
constexpr size_t kIssuesShown = 8;
constexpr size_t kCellMax = 60;

struct Ink {
  bool on;
  std::string paint(std::string_view code, std::string_view text) const {
    return on ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  }
  std::string bold(std::string_view text) const { return paint("1", text); }
  std::string faint(std::string_view text) const { return paint("2", text); }
  std::string by_severity(analysis::Severity severity, std::string_view text) const {
    switch (severity) {
      case analysis::Severity::hang:
      case analysis::Severity::corruption:
        return paint("1;31", text);
      case analysis::Severity::slow:
      case analysis::Severity::risk:
        return paint("1;33", text);
      case analysis::Severity::info:
        return paint("1;32", text);
    }
    return std::string(text);
  }
};

// "label   line", the label on the first line only.
void append_labelled(std::string& out, const Ink& ink, std::string_view label,
                     const std::vector<std::string>& lines, size_t shown) {
  for (size_t at = 0; at < lines.size() && at < shown; ++at) {
    const std::string head = fmt::format("{:<10}", at == 0 ? label : "");
    out += fmt::format("{}{}\n", ink.faint(head), lines[at]);
  }
  if (lines.size() > shown) {
    out += fmt::format("{:<10}and {} more (--all shows them)\n", "", lines.size() - shown);
  }
}

// The first sentence and the code.
void append_head(std::string& out, const Ink& ink, const Finding& finding) {
  out += fmt::format("{}\n{}\n", ink.bold(printable(analysis::lead_of(finding).sentence)),
                     ink.by_severity(finding.severity, code_line(finding)));
}

void append_details(std::string& out, const Ink& ink, const Finding& finding,
                    const TextOptions& options) {
  std::vector<std::string> rest = analysis::lead_of(finding).rest;
  for (std::string& clause : rest) clause = printable(clause);
  append_labelled(out, ink, "detail", rest, SIZE_MAX);
  std::vector<std::string> culprits;
  for (const Culprit& culprit : finding.culprits) culprits.push_back(culprit_line(culprit));
  append_labelled(out, ink, "culprit", culprits, options.all ? SIZE_MAX : kCulpritsShown);
  if (!finding.victims.empty()) {
    append_labelled(out, ink, word_for_victims(finding),
                    {fmt::format("{} ({})", ranks_in_words(finding.victims, options.all ? 1000 : 8),
                                 finding.victims.size())},
                    1);
  }
  std::vector<std::string> evidence;
  for (const analysis::Evidence& item : finding.evidence) evidence.push_back(evidence_line(item));
  append_labelled(out, ink, "evidence", evidence, options.all ? SIZE_MAX : kEvidenceShown);
}

std::string cut(std::string text) {
  text = printable(text);
  if (text.size() <= kCellMax) return text;
  text.resize(kCellMax - 3);
  // Not in the middle of a character.
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0) text.pop_back();
  return text + "...";
}

// Equal rows of several ranks are one row.
void append_table(std::string& out, const Ink& ink, const std::vector<RankRow>& table,
                  const std::vector<int32_t>& labels, bool all) {
  if (table.empty()) return;
  const std::vector<GroupedRow> rows = grouped_rows(table, labels);
  std::vector<std::vector<std::string>> lines{{std::begin(kRankColumns), std::end(kRankColumns)}};
  for (const GroupedRow& row : rows) {
    lines.push_back({cut(rank_list(row.ranks)), cut(row.comm_name), cut(row.last_common),
                     cut(row.here), cut(row.state)});
    if (!all && lines.size() > kRowsShown) break;
  }
  std::vector<size_t> widths(lines[0].size(), 0);
  for (const auto& line : lines) {
    for (size_t at = 0; at < line.size(); ++at) widths[at] = std::max(widths[at], line[at].size());
  }
  out += '\n';
  for (size_t number = 0; number < lines.size(); ++number) {
    std::string text;
    for (size_t at = 0; at < lines[number].size(); ++at) {
      text += at + 1 == lines[number].size()
                  ? lines[number][at]
                  : fmt::format("{:<{}}  ", lines[number][at], widths[at]);
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out += (number == 0 ? ink.faint(text) : text) + '\n';
  }
  if (rows.size() + 1 > lines.size()) {
    out += fmt::format("... and {} more rows (--all shows them)\n", rows.size() + 1 - lines.size());
  }
}

void append_comms(std::string& out, const std::vector<analysis::CommSummary>& comms) {
  if (comms.empty()) return;
  out += "\nCommunicators\n";
  for (const analysis::CommSummary& comm : comms) {
    out += fmt::format("  {}  {}  {}\n", key_hex(comm.key).substr(0, 8), printable(comm.name),
                       comm_line(comm, SIZE_MAX));
  }
}

void append_issues(std::string& out, const trace::Run& run, bool all) {
  if (run.issues.empty()) return;
  out += "\nAbout the files\n";
  const std::vector<SharedIssue> issues = shared_issues(run, all);
  const size_t shown = all ? issues.size() : std::min(issues.size(), kIssuesShown);
  for (size_t at = 0; at < shown; ++at) out += fmt::format("  {}\n", issue_line(issues[at]));
  if (issues.size() > shown) {
    out += fmt::format("  and {} more (--all shows them)\n", issues.size() - shown);
  }
}

void append_incidents(std::string& out, const std::vector<std::string>& incidents) {
  if (incidents.empty()) return;
  out += "\nVerdicts while it ran\n";
  for (const std::string& one : incidents) out += fmt::format("  {}\n", printable(one));
}

void append_what_follows(std::string& out, const Finding& finding, int indent);

void append_short(std::string& out, const Finding& finding, int indent) {
  out += fmt::format("{:{}}{}: {}\n", "", indent, analysis::code_of(finding.verdict),
                     printable(finding.summary));
  append_what_follows(out, finding, indent + 2);
}

// Without codes: a call that waits, or a rank that aborts because another one died, is no defect.
void append_what_follows(std::string& out, const Finding& finding, int indent) {
  for (const analysis::Wait& wait : finding.waits) {
    out += fmt::format("{:{}}{}\n", "", indent, printable(wait.text));
  }
  if (finding.waits_left_out != 0) {
    out += fmt::format("{:{}}{}\n", "", indent, waits_left_out_line(finding.waits_left_out));
  }
  for (const Finding& next : finding.consequences) {
    out += fmt::format("{:{}}{}\n", "", indent, printable(next.summary));
    append_what_follows(out, next, indent + 2);
  }
}

void append_others(std::string& out, const Ink& ink, const analysis::Report& report,
                   const TextOptions& options) {
  if (report.findings.size() < 2) return;
  if (!options.all) {
    out += "\nAlso found\n";
    for (size_t at = 1; at < report.findings.size(); ++at)
      append_short(out, report.findings[at], 2);
    return;
  }
  for (size_t at = 1; at < report.findings.size(); ++at) {
    const Finding& finding = report.findings[at];
    out += '\n';
    append_head(out, ink, finding);
    append_details(out, ink, finding, options);
    append_what_follows(out, finding, 2);
    if (!finding.next.empty()) out += fmt::format("{:<10}{}\n", "next", printable(finding.next));
  }
}

}  // namespace

std::string diff_text(const trace::Run& run, const analysis::Report& report,
                      const TextOptions& options) {
  const Ink ink{options.colour};
  const std::vector<int32_t> labels = process_labels(run);
  std::string out;
  if (report.findings.empty()) {
    out += fmt::format("{}\n", kNothingToCompare);
  } else {
    const Finding& leading = report.findings.front();
    append_head(out, ink, leading);
    const bool has_details = !leading.culprits.empty() || !leading.evidence.empty() ||
                             !analysis::lead_of(leading).rest.empty();
    if (has_details) out += '\n';
    if (!report.numbering.empty() && !leading.culprits.empty()) {
      out += fmt::format("ranks     {}\n", printable(report.numbering));
    }
    append_details(out, ink, leading, options);
  }
  append_table(out, ink, report.table, labels, options.all);
  if (options.context > 0) out += '\n' + context_text(run, report, options.context);
  if (!report.findings.empty()) {
    const Finding& leading = report.findings.front();
    if (!leading.waits.empty() || !leading.consequences.empty()) {
      out += "\nWhat follows from it\n";
      append_what_follows(out, leading, 2);
    }
    append_others(out, ink, report, options);
    if (has_stale_values(run) && leading.verdict != analysis::Verdict::in_lockstep) {
      out += fmt::format("\n{}\n", kDryRun);
    }
    if (!leading.next.empty()) out += fmt::format("\nNext: {}\n", printable(leading.next));
  }
  append_incidents(out, options.incidents);
  if (options.all) append_comms(out, report.comms);
  append_issues(out, run, options.all);
  if (!options.rerun_hint.empty()) out += fmt::format("\n{}\n", options.rerun_hint);
  return out;
}

std::string diff_sentence(const analysis::Report& report) {
  if (report.findings.empty()) return std::string(kNothingToCompare);
  const Finding& leading = report.findings.front();
  return fmt::format("{}: {}", analysis::code_of(leading.verdict),
                     printable(analysis::lead_of(leading).sentence));
}

}  // namespace rollcall::report
