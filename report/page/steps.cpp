#include "report/page/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "report/page/document.h"
#include "report/page/markup.h"
#include "report/slow.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

// A terminal's lines, joined to sentences.
std::vector<std::string> sentences_of(std::string_view text) {
  std::vector<std::string> sentences;
  bool is_open = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) continue;
    if (is_open) {
      sentences.back() += fmt::format(" {}", line);
    } else {
      sentences.emplace_back(line);
    }
    is_open = !line.ends_with('.');
  }
  return sentences;
}

bool is_cut(const trace::Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(), [](const trace::Process& process) {
    return process.first_complete_ticket > 1;
  });
}

}  // namespace

std::string steps_html(const trace::Run& run, const slow::Answer& answer) {
  if (!answer.is_compared) return "";
  const std::vector<std::string> said = sentences_of(slow_verdict(run, answer));
  std::string html = fmt::format("<h3>{}</h3>\n<ul>\n{}</ul>\n", escaped(said.front()),
                                 list_items(said, 1, said.size()));
  if (is_cut(run)) {
    html += paragraph("Of the newest calls of each rank; older ones were not looked at.", "quiet");
  }
  HtmlTable charges({"where the time of the steps went", "share"}, kPageRowsMax);
  for (const SlowCharge& charge : slow_charges(answer)) charges.add({charge.what, charge.share});
  HtmlTable ranks({kSlowRankColumns.begin(), kSlowRankColumns.end()}, kPageRowsMax);
  for (const SlowRankCells& row : slow_ranks(run, answer, {})) {
    ranks.add({row.begin(), row.end()});
  }
  const std::vector<std::string> changes = slow_over_time(answer);
  html += charges.html() + ranks.html() + paragraph(kSlowAccusesNobody, "quiet");
  html +=
      fmt::format("<h3>Over time</h3>\n<ul>\n{}</ul>\n", list_items(changes, 0, changes.size()));
  return html + paragraph(slow_step(answer), "quiet");
}

}  // namespace rollcall::report
