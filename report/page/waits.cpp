#include "report/page/waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "report/lines.h"
#include "report/page/document.h"
#include "report/page/markup.h"
#include "report/terms.h"
#include "trace/saturated.h"

namespace rollcall::report {
namespace {

using analysis::Finding;
using analysis::kNone;

std::string percent(int64_t part, int64_t whole) {
  if (whole <= 0) return "-";
  return fmt::format("{:.0f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// A wait and its name.
struct NamedWait {
  analysis::Wait wait;
  std::string_view state;  // empty: none fits
};

// Who of the ranks that a finding affects waits in the very call that it is about; nothing where
// that is no collective, or none of them does. A culprit that has made a call at that position is
// not waited for as one that comes late, unless its stream is what has not come to it.
std::optional<NamedWait> own_wait(const analysis::Index& index, const Finding& finding) {
  if (finding.culprits.empty() || finding.severity != analysis::Severity::hang) return std::nullopt;
  const analysis::Culprit& first = finding.culprits.front();
  if (!first.comm || !first.seq) return std::nullopt;
  const uint32_t group = index.find_group(*first.comm);
  if (group == kNone) return std::nullopt;
  analysis::Wait wait;
  for (const analysis::Culprit& culprit : finding.culprits) {
    if (culprit.rank >= 0) wait.for_ranks.push_back(culprit.rank);
  }
  std::sort(wait.for_ranks.begin(), wait.for_ranks.end());
  std::optional<OpKind> kind;
  bool is_late = true;
  for (const analysis::Member& member : index.groups()[group].members) {
    if (!member.lane.has(*first.seq)) continue;
    const trace::Op& op = index.op_at(member, *first.seq);
    const int32_t rank = index.run().processes[member.process].job_rank;
    if (has_rank(wait.for_ranks, rank)) {
      is_late = is_late && finding.verdict == analysis::Verdict::stream_blocked;
      continue;
    }
    const bool is_through =
        op.finished_ns != 0 || op.mark == GpuMark::finished || op.state == trace::OpState::failed;
    if (is_through || !has_rank(finding.victims, rank) || kind.value_or(op.kind) != op.kind) {
      continue;
    }
    kind = op.kind;
    wait.ranks.push_back(rank);
  }
  if (!kind) return std::nullopt;
  std::sort(wait.ranks.begin(), wait.ranks.end());
  wait.call = fmt::format("{}, seq {} of {}", name_of(*kind), *first.seq, first.comm_name);
  wait.comm = first.comm;
  wait.seq = first.seq;
  const std::string_view state = is_late ? wait_state_of(index, wait) : std::string_view();
  return NamedWait{std::move(wait), state};
}

// Whose calls wait, for whom, in what: of the leading finding.
std::string lasting_waits_html(const analysis::Index& index, const Finding& leading) {
  HtmlTable table({"waiting", "for", "call", "wait state"}, kPageRowsMax);
  const auto add = [&](const analysis::Wait& wait, std::string_view state) {
    table.add({ranks_in_words(wait.ranks),
               wait.for_ranks.empty() ? std::string("-") : ranks_in_words(wait.for_ranks),
               wait.call, std::string(state.empty() ? "-" : state)});
  };
  if (const std::optional<NamedWait> own = own_wait(index, leading)) add(own->wait, own->state);
  for (const analysis::Wait& wait : leading.waits) add(wait, wait_state_of(index, wait));
  const std::string follows = follows_html(leading);
  std::string html;
  if (!table.empty()) html += "<h3>Waits at the end of the record</h3>\n" + table.html();
  if (!follows.empty()) html += "<h3>What follows from the verdict</h3>\n" + follows;
  return html;
}

// Of the rows from `begin` to `end` together.
struct Sum {
  uint64_t calls = 0;
  int64_t waited_ns = 0;
  int64_t longest_ns = 0;
  int64_t duration_ns = 0;
};

Sum sum_of(const std::vector<WaitRow>& rows, size_t begin, size_t end) {
  Sum sum;
  for (size_t at = begin; at < end; ++at) {
    sum.calls += rows[at].calls;
    sum.waited_ns = trace::saturated_sum(sum.waited_ns, rows[at].waited_ns);
    sum.duration_ns = trace::saturated_sum(sum.duration_ns, rows[at].duration_ns);
    sum.longest_ns = std::max(sum.longest_ns, rows[at].longest_ns);
  }
  return sum;
}

// Rows behind `begin` that are alike in what the predicate compares.
template <typename Alike>
size_t end_of(const std::vector<WaitRow>& rows, size_t begin, Alike alike) {
  size_t end = begin;
  while (end < rows.size() && alike(rows[begin], rows[end])) ++end;
  return end;
}

class WaitTree {
 public:
  WaitTree(const analysis::Index& index, const std::vector<WaitRow>& rows)
      : index_(index),
        rows_(rows),
        labels_(process_labels(index.run())),
        all_(sum_of(rows, 0, rows.size())),
        table_({"communicator, wait state, line of the script", "waited", "of all waits", "calls",
                "of their time", "longest", "mostly for"},
               kPageRowsMax) {}

  std::string html() {
    for (size_t at = 0; at < rows_.size();) at = add_group(at);
    const std::string head = fmt::format(
        "<h3>Waits in calls that are through</h3>\n<p class=\"quiet\">The GPUs spent {} in these "
        "calls, and {} of that waiting: by so much a call took longer than that of the rank that "
        "it waited for. Names are those of Scalasca and Cube. A rank that is waited for may itself "
        "have waited elsewhere.</p>\n",
        duration(all_.duration_ns), duration(all_.waited_ns));
    return head + table_.html();
  }

 private:
  size_t add_group(size_t begin) {
    const size_t end =
        end_of(rows_, begin, [](const WaitRow& a, const WaitRow& b) { return a.group == b.group; });
    const analysis::Group& group = index_.groups()[rows_[begin].group];
    add(group.name, sum_of(rows_, begin, end), "-", "branch");
    for (size_t at = begin; at < end;) at = add_kind(at);
    return end;
  }

  size_t add_kind(size_t begin) {
    const size_t end = end_of(rows_, begin, [](const WaitRow& a, const WaitRow& b) {
      return a.group == b.group && a.state == b.state && a.kind == b.kind;
    });
    const WaitRow& first = rows_[begin];
    const bool has_lines = end - begin > 1 || !first.line.empty();
    add(fmt::format("{}, {}", words_of(first.state), name_of(first.kind)),
        sum_of(rows_, begin, end), has_lines ? "-" : whom(first), "twig");
    for (size_t at = begin; has_lines && at < end; ++at) {
      const std::string& line = rows_[at].line;
      add(line.empty() ? "line not recorded" : line, sum_of(rows_, at, at + 1), whom(rows_[at]),
          "leaf");
    }
    return end;
  }

  std::string whom(const WaitRow& row) const {
    if (row.awaited == kNone) return "-";
    return fmt::format("rank {} ({})", labels_[row.awaited],
                       percent(row.awaited_ns, row.waited_ns));
  }

  void add(const std::string& what, const Sum& sum, const std::string& for_whom,
           const char* row_class) {
    table_.add(
        {what, duration(sum.waited_ns), percent(sum.waited_ns, all_.waited_ns), grouped(sum.calls),
         percent(sum.waited_ns, sum.duration_ns), duration(sum.longest_ns), for_whom},
        row_class);
  }

  const analysis::Index& index_;
  const std::vector<WaitRow>& rows_;
  const std::vector<int32_t> labels_;
  const Sum all_;
  HtmlTable table_;
};

}  // namespace

std::string follows_html(const Finding& finding) {
  std::string html;
  for (const analysis::Wait& wait : finding.waits) {
    html += fmt::format("<li>{}</li>\n", escaped(wait.text));
  }
  if (finding.waits_left_out != 0) {
    html += fmt::format("<li>{}</li>\n", waits_left_out_line(finding.waits_left_out));
  }
  for (const Finding& next : finding.consequences) {
    html += fmt::format("<li>{}{}</li>\n", escaped(next.summary), follows_html(next));
  }
  return html.empty() ? html : fmt::format("<ul>\n{}</ul>\n", html);
}

std::string waits_html(const analysis::Index& index, const analysis::Report& report,
                       const std::vector<WaitRow>& rows) {
  std::string html;
  if (!report.findings.empty()) html = lasting_waits_html(index, report.findings.front());
  return rows.empty() ? html : html + WaitTree(index, rows).html();
}

}  // namespace rollcall::report
