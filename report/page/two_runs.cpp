#include "report/page/two_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/views/by_gpu.h"
#include "report/compare.h"
#include "report/json_terms.h"
#include "report/lines.h"
#include "report/page/document.h"
#include "report/page/evidence.h"
#include "report/page/markup.h"
#include "report/page/sections.h"
#include "report/terms.h"
#include "report/text.h"

namespace rollcall::report {
namespace {

using comparison::Compared;
using slow::TwoRuns;

// Lines about calls, of all ranks together: where every rank has its own, they would be a page of
// gigabytes.
constexpr size_t kCallLinesMax = 2000;
// What programs find in the page of the calls that differ: each is some 50 bytes.
constexpr size_t kOtherCallsMax = 10'000;

constexpr std::string_view kMoreCalls = "; `rollcall diff OLD NEW --all` shows them";

struct CallCounts {
  size_t ranks = 0;  // in both runs
  size_t other = 0;  // of these with other calls
};

CallCounts count_ranks(const comparison::Comparison& calls) {
  CallCounts counts;
  for (const Compared& group : calls.groups) {
    counts.ranks += group.ranks.size();
    if (!group.is_equal()) counts.other += group.ranks.size();
  }
  return counts;
}

std::string settings_words(const TwoRunsReport& report) {
  const size_t count = report.settings.size();
  if (count == 0) return "No setting differs";
  return count == 1 ? "1 setting differs" : fmt::format("{} settings differ", grouped(count));
}

std::string calls_words(const comparison::Comparison& calls) {
  const CallCounts counts = count_ranks(calls);
  if (counts.ranks == 0) return "no rank is in both runs";
  const bool has_others = !calls.only_a.empty() || !calls.only_b.empty();
  if (counts.other == 0 && has_others) return "the ranks of both runs make the same calls";
  if (counts.other == 0) return "all ranks make the same calls";
  return fmt::format("{} of {} ranks make other calls", grouped(counts.other),
                     grouped(counts.ranks));
}

std::string steps_words(const TwoRuns& answer) {
  if (!answer.is_compared) return "the steps cannot be compared";
  if (!answer.steps_differ) return "the steps take as long as they did";
  const double change = answer.after.step_ns / answer.before.step_ns - 1;
  return fmt::format("the steps take {:.1f} % {}", 100 * std::fabs(change),
                     change > 0 ? "longer" : "less");
}

// Lines without their margin.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!line.empty()) lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string> setting_lines(const TwoRunsReport& report) {
  std::vector<std::string> lines;
  for (const comparison::SettingDifference& one : report.settings) {
    lines.push_back(fmt::format("{}: {} \u2192 {}", shown(one.name),
                                setting_value(one.name, one.before),
                                setting_value(one.name, one.after)));
  }
  if (lines.empty()) lines.emplace_back(kSameSettings);
  return lines;
}

// Who calls what the others do not, and what that says nothing of.
std::vector<std::string> call_lines(const comparison::Comparison& calls) {
  std::vector<std::string> lines;
  for (const Compared& group : calls.groups) {
    lines.push_back(fmt::format("{}: {}", ranks_in_words(group.ranks), compared_calls(group)));
  }
  // What differs stands in front.
  std::rotate(lines.begin(),
              lines.begin() + std::count_if(calls.groups.begin(), calls.groups.end(),
                                            [](const Compared& group) { return group.is_equal(); }),
              lines.end());
  if (!calls.only_a.empty()) {
    lines.push_back(fmt::format("only in the old run: {}", ranks_in_words(calls.only_a)));
  }
  if (!calls.only_b.empty()) {
    lines.push_back(fmt::format("only in the new run: {}", ranks_in_words(calls.only_b)));
  }
  if (!calls.cut.empty()) {
    lines.push_back(
        fmt::format("the oldest calls of {} are no longer on file: the beginnings may "
                    "differ by what was kept",
                    ranks_in_words(calls.cut)));
  }
  return lines;
}

std::vector<std::string> step_lines(const TwoRuns& answer) {
  std::vector<std::string> lines;
  if (answer.is_compared) lines = lines_of(steps_of_two_runs(answer));
  lines.insert(lines.end(), answer.why_not.begin(), answer.why_not.end());
  return lines;
}

// A run's verdict first: one that hung is not to be taken for one that is slow.
std::vector<std::string> run_lines(const RunOfTwo& one) {
  return {one.report.findings.empty() ? std::string(kNothingToCompare) : diff_sentence(one.report),
          fmt::format("{}: {}", file_name(one.run.directory), facts_line(one.run))};
}

std::string header_html(const TwoRunsSource& source) {
  std::string html = fmt::format("<p class=\"run\">{} \u2192 {}</p>\n<h1>{}</h1>\n<dl>\n",
                                 escaped(file_name(source.before.run.directory), kNameBytesMax),
                                 escaped(file_name(source.after.run.directory), kNameBytesMax),
                                 escaped(two_runs_headline(source)));
  html += term_html("old run", run_lines(source.before));
  html += term_html("new run", run_lines(source.after));
  html += term_html("settings", setting_lines(source.settings_and_steps));
  html += term_html("calls", call_lines(source.calls));
  html += term_html("steps", step_lines(source.settings_and_steps.answer));
  return html + "</dl>\n";
}

std::string settings_html(const TwoRunsReport& report) {
  HtmlTable table({"what", "old run", "new run"}, kPageRowsMax);
  for (const comparison::SettingDifference& one : report.settings) {
    table.add({one.name, setting_value(one.name, one.before), setting_value(one.name, one.after)});
  }
  return table.empty() ? paragraph(kSameSettings)
                       : paragraph(
                             "What differs from run to run by itself, such as ports and "
                             "folders, is left out.",
                             "quiet") +
                             table.html();
}

std::string group_html(const comparison::Comparison& calls, const Compared& group, size_t& room) {
  std::string html = fmt::format("<article><h3>{}: {}</h3>\n<ul class=\"calls\">\n",
                                 escaped(ranks_in_words(group.ranks)), compared_calls(group));
  for (const CompareLine& line : compare_lines(calls, group, false)) {
    if (room == 0) {
      html += "<li class=\"quiet\">and more lines</li>\n";
      break;
    }
    --room;
    const char* kind = line.sign == '-' ? "gone" : line.sign == '+' ? "added" : "quiet";
    const std::string_view more = line.is_cut ? kMoreCalls : std::string_view();
    html += line.sign == 0 || line.sign == ' '
                ? fmt::format("<li class=\"{}\">{}{}</li>\n", kind, escaped(line.text), more)
                : fmt::format("<li class=\"{}\"><span>{}</span> {}{}</li>\n", kind,
                              line.sign == '-' ? "\u2212" : "+", escaped(line.text), more);
  }
  return html + "</ul></article>\n";
}

std::string calls_html(const comparison::Comparison& calls) {
  std::string html;
  size_t room = kCallLinesMax;
  size_t left_out = 0;
  for (const Compared& group : calls.groups) {
    if (group.is_equal()) continue;
    if (room == 0) {
      ++left_out;
      continue;
    }
    html += group_html(calls, group, room);
  }
  if (!html.empty()) {
    html = paragraph("\u2212 only in the old run, + only in the new run.", "quiet") + html;
  }
  if (left_out != 0) {
    html += paragraph(fmt::format("And {} more {} of ranks{}.", grouped(left_out),
                                  left_out == 1 ? "kind" : "kinds", kMoreCalls),
                      "quiet");
  }
  const std::vector<std::string> lines = call_lines(calls);
  const auto count =
      static_cast<size_t>(std::count_if(calls.groups.begin(), calls.groups.end(),
                                        [](const Compared& group) { return !group.is_equal(); }));
  if (count < lines.size()) {
    html += fmt::format("<ul>\n{}</ul>\n", list_items(lines, count, count + kPageRowsMax));
  }
  return html.empty() ? paragraph("No rank is in both runs.") : html;
}

std::string steps_html(const TwoRuns& answer) {
  const std::vector<std::string> lines = step_lines(answer);
  std::string html = answer.is_compared
                         ? std::string()
                         : paragraph("The steps of the two runs cannot be compared.");
  html += fmt::format("<ul>\n{}</ul>\n", list_items(lines, 0, kPageRowsMax));
  if (!answer.has_parts) return html;
  html += "<h3>What makes the steps longer or shorter</h3>\n";
  HtmlTable table({"of an old step", "time", "what", "ranks", "where"}, kPageRowsMax);
  for (const slow::Difference& difference : answer.differences) {
    const DifferenceWords words = words_of(difference);
    std::string places;
    for (const std::string& place : words.places) {
      places += (places.empty() ? "" : "; ") + place;
    }
    table.add({words.share, words.span, words.part, words.ranks, places});
  }
  html += table.empty() ? paragraph(fmt::format("{}: {}.", kNoPart, kListedParts))
                        : paragraph(fmt::format("{}.", kListedParts), "quiet") + table.html();
  if (answer.sizes_differ) html += paragraph(kOtherSizes);
  return html;
}

// A part of each run's page, one below the other.
template <typename Html>
std::string of_both(const TwoRunsSource& source, Html html_of) {
  std::string html;
  for (const auto& [title, one] :
       {std::pair("Old run", &source.before), std::pair("New run", &source.after)}) {
    const std::string part = html_of(*one);
    if (!part.empty()) html += fmt::format("<article><h3>{}</h3>\n{}</article>\n", title, part);
  }
  return html;
}

std::string both_evidence_html(const TwoRunsSource& source) {
  return of_both(source, [](const RunOfTwo& one) {
    // Ranks as the verdict numbers them.
    const std::optional<analysis::Parts> parts =
        one.report.numbering.empty() ? std::nullopt : analysis::take_apart(one.run);
    return evidence_html(one.run, analysis::Index(parts ? parts->run : one.run));
  });
}

std::string both_stacks_html(const TwoRunsSource& source) {
  return of_both(source, [](const RunOfTwo& one) { return stacks_html(one.stacks); });
}

size_t other_calls(const comparison::Comparison& calls) {
  size_t count = 0;
  for (const Compared& group : calls.groups) {
    for (const comparison::Edit& edit : group.edits) {
      if (edit.kind != comparison::Edit::same) count += edit.length;
    }
  }
  return count;
}

std::string data_of(const TwoRunsSource& source) {
  std::string compare = "null";
  if (other_calls(source.calls) <= kOtherCallsMax) {
    const Json calls = Json::parse(compare_json(
        source.calls, {source.settings_and_steps.before, source.settings_and_steps.after}));
    compare = calls.dump(-1, ' ', true);
  }
  const Json against = Json::parse(against_json(source.settings_and_steps));
  return fmt::format(
      "{{\"schema\":\"rollcall.page/1\",\"states\":[],\"ranks\":{{\"label\":[]}},\"rolls\":[],"
      "\"rolls_left_out\":0,\"compare\":{},\"against\":{}}}",
      compare, against.dump(-1, ' ', true));
}

}  // namespace

std::string two_runs_headline(const TwoRunsSource& source) {
  return fmt::format("{}, {}, and {}.", settings_words(source.settings_and_steps),
                     calls_words(source.calls), steps_words(source.settings_and_steps.answer));
}

std::string two_runs_page_html(const TwoRunsSource& source) {
  const TwoRuns& answer = source.settings_and_steps.answer;
  struct Part {
    Section section;
    bool differs;
  };
  std::vector<Part> parts{
      {{"settings", "Settings", settings_html(source.settings_and_steps)},
       !source.settings_and_steps.settings.empty()},
      {{"calls", "Calls", calls_html(source.calls)},
       count_ranks(source.calls).other > 0 || !source.calls.only_a.empty() ||
           !source.calls.only_b.empty()},
      {{"steps", "Steps", steps_html(answer)}, answer.steps_differ || !answer.differences.empty()}};
  // What differs opens first.
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.differs && !b.differs; });
  Document document{.title = two_runs_headline(source),
                    .header = header_html(source),
                    .sections = {},
                    .data = data_of(source)};
  for (Part& part : parts) document.sections.push_back(std::move(part.section));
  document.sections.push_back({"stacks", "Stacks", both_stacks_html(source)});
  document.sections.push_back({"evidence", "Evidence", both_evidence_html(source)});
  return document_html(document);
}

}  // namespace rollcall::report
