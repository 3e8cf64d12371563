#include "report/page/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "report/lines.h"
#include "report/page/bandwidth.h"
#include "report/page/communicators.h"
#include "report/page/environment.h"
#include "report/page/evidence.h"
#include "report/page/last_calls.h"
#include "report/page/lateness.h"
#include "report/page/markup.h"
#include "report/page/roll.h"
#include "report/page/steps.h"
#include "report/page/waits.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using analysis::Finding;

// `more`: further terms.
std::string details_html(const Finding& finding, const std::string& more = {}) {
  std::vector<std::string> culprits;
  for (const analysis::Culprit& culprit : finding.culprits) {
    culprits.push_back(culprit_line(culprit));
  }
  std::vector<std::string> evidence;
  for (const analysis::Evidence& item : finding.evidence) evidence.push_back(evidence_line(item));
  std::string html = term_html("culprit", culprits);
  if (!finding.victims.empty()) {
    html += term_html(
        word_for_victims(finding),
        {fmt::format("{} ({})", ranks_in_words(finding.victims), finding.victims.size())});
  }
  html += term_html("evidence", evidence);
  if (!finding.next.empty()) html += term_html("next", {finding.next});
  html += more;
  return html.empty() ? html : fmt::format("<dl>\n{}</dl>\n", html);
}

// Verdicts that were kept while the job ran, as a term: the page is what the files say now.
std::string kept_html(const Kept& kept) {
  return term_html(kept.is_of_incident ? "this incident" : "kept while it ran", kept.verdicts);
}

std::string code_html(const Finding& finding) {
  return fmt::format("<p class=\"code {}\">{}</p>\n", analysis::name_of(finding.severity),
                     escaped(code_line(finding)));
}

std::string rank_table_html(const PageSource& source) {
  HtmlTable table({std::begin(kRankColumns), std::end(kRankColumns)}, kPageRowsMax);
  for (const GroupedRow& row :
       grouped_rows(source.report.table, process_labels(source.index.run()))) {
    table.add({rank_list(row.ranks), row.comm_name, row.last_common, row.here, row.state});
  }
  return table.empty() ? "" : table.html();
}

std::string roll_html(const PageSource& source) {
  std::string html = "<div id=\"roll-view\"></div>\n" + rank_table_html(source);
  if (source.rolls_left_out > 0) {
    html += paragraph(fmt::format("{} more communicators are in step or smaller, and have no roll "
                                  "here; `rollcall diff --all` lists them.",
                                  source.rolls_left_out),
                      "quiet");
  }
  return html;
}

std::string others_html(const PageSource& source) {
  std::string html;
  const std::vector<Finding>& findings = source.report.findings;
  for (size_t at = 1; at < findings.size() && at < kPageRowsMax; ++at) {
    html += fmt::format("<article><h3>{}</h3>\n{}{}{}</article>\n", escaped(findings[at].summary),
                        code_html(findings[at]), details_html(findings[at]),
                        follows_html(findings[at]));
  }
  return html;
}

std::string label_of(const analysis::Group& group, uint32_t member,
                     const std::vector<int32_t>& labels) {
  return fmt::format("{}", labels[group.members[member].process]);
}

std::string lateness_html(const PageSource& source) {
  const std::vector<uint32_t> shown_groups = groups_to_show(source.index, source.report);
  if (shown_groups.empty()) return "";
  const analysis::Group& group = source.index.groups()[shown_groups.front()];
  const Lateness lateness = lateness_of(source.index, shown_groups.front());
  if (lateness.calls == 0) return "";
  const std::vector<int32_t> labels = process_labels(source.index.run());
  std::string html = fmt::format("<h3>{}</h3>\n", escaped(group.name));
  html += paragraph(
      fmt::format("Of {} calls that all ranks made and whose times are on file. A rank that comes "
                  "late is waited for; times are those of the hosts' calls.",
                  grouped(lateness.calls)),
      "quiet");
  if (lateness.across_hosts) {
    html += paragraph(lateness.doubt_ns > 0
                          ? fmt::format("The ranks are on several hosts, whose clocks were moved "
                                        "and may still be off by {}.",
                                        duration(lateness.doubt_ns))
                          : std::string("The ranks are on several hosts: a lateness is as good as "
                                        "their clocks agree."),
                      "quiet");
  }
  HtmlTable ranks({"rank", "came last", "share", "others waited for it", "median behind the first"},
                  kPageRowsMax);
  for (const RankLateness& rank : lateness.ranks) {
    const double share =
        100.0 * static_cast<double>(rank.times_last) / static_cast<double>(lateness.calls);
    ranks.add({label_of(group, rank.member, labels), grouped(rank.times_last),
               fmt::format("{:.0f} %", share), duration(rank.behind_ns), duration(rank.median_ns)});
  }
  HtmlTable calls({"seq", "came last", "from the first to the last"}, kLateCallsMax);
  for (const LateCall& call : lateness.latest) {
    calls.add({fmt::format("{}", call.seq), "rank " + label_of(group, call.member, labels),
               duration(call.spread_ns)});
  }
  return html + ranks.html() + "<h3>Latest arrivals</h3>\n" + calls.html();
}

std::string environment_html(const PageSource& source) {
  const std::vector<EnvironmentDifference> differences =
      environment_differences(source.index.run());
  HtmlTable table({"what", "value", "ranks"}, kPageRowsMax);
  for (const EnvironmentDifference& difference : differences) {
    for (const auto& [value, ranks] : difference.values) {
      table.add({difference.name, value, ranks_in_words(ranks)});
    }
  }
  if (table.empty()) return "";
  return paragraph("What is not the same in all processes, but for what tells ranks apart.",
                   "quiet") +
         table.html();
}

}  // namespace

std::string facts_line(const trace::Run& run) {
  std::set<std::string_view> hosts;
  std::set<int32_t> ranks;
  int64_t started_ns = 0;
  for (const trace::Process& process : run.processes) {
    hosts.insert(process.host);
    if (process.job_rank >= 0) ranks.insert(process.job_rank);
    if (process.started_ns > 0 && (started_ns == 0 || process.started_ns < started_ns)) {
      started_ns = process.started_ns;
    }
  }
  std::string text = fmt::format("{} processes on {} {}", grouped(run.processes.size()),
                                 grouped(hosts.size()), hosts.size() == 1 ? "host" : "hosts");
  if (started_ns > 0) text += fmt::format(", started {}", utc_time(started_ns));
  if (run.live) text += ", still running";
  return text;
}

std::string verdict_html(const PageSource& source) {
  const analysis::Report& report = source.report;
  std::string html = fmt::format("<p class=\"run\">{}</p>\n<p class=\"quiet\">{}</p>\n",
                                 escaped(file_name(source.run.directory), kNameBytesMax),
                                 escaped(facts_line(source.run)));
  if (report.findings.empty()) {
    return html + fmt::format("<h1>{}</h1>\n", kNothingToCompare) +
           details_html({}, kept_html(source.kept));
  }
  const Finding& leading = report.findings.front();
  html += fmt::format("<h1>{}</h1>\n{}", escaped(leading.summary), code_html(leading));
  if (!report.numbering.empty()) html += paragraph(report.numbering, "quiet");
  html += details_html(leading, kept_html(source.kept));
  if (has_stale_values(source.run) && leading.verdict != analysis::Verdict::in_lockstep) {
    html += paragraph(kDryRun, "quiet");
  }
  return html;
}

std::vector<Section> sections_of(const PageSource& source) {
  std::vector<Section> sections{
      {"roll", "Roll", roll_html(source)},
      {"waits", "Waits", waits_html(source.index, source.report, source.waits)},
      {"also", "Also found", others_html(source)},
      {"calls", "Last calls", last_calls_html(source.index, source.report)},
      {"stacks", "Stacks", stacks_html(source.kept.stacks)},
      {"lateness", "Lateness", lateness_html(source)},
      {"steps", "Steps", steps_html(source.run, source.steps)},
      {"bandwidth", "Bandwidth", bandwidth_html(source.index, source.operations)},
      {"communicators", "Communicators", communicators_html(source.index, source.report)},
      {"environment", "Environment", environment_html(source)},
      {"evidence", "Evidence", evidence_html(source.run, source.index)}};
  // What opens first is where it shows.
  const auto calls = std::find_if(sections.begin(), sections.end(), [](const Section& section) {
    return std::string_view(section.id) == "calls";
  });
  if (is_about_transfer(source.report) && !calls->html.empty()) {
    std::rotate(sections.begin(), calls, std::next(calls));
  }
  return sections;
}

}  // namespace rollcall::report
