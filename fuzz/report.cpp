// Everything that is printed of damaged rings (fuzz/changed_run.h): text, JSON, records,
// statistics, traces, tables, pages. The model is what the loader lets through, so what a table is
// indexed with here was judged there.
#include "analysis/analysis.h"
#include "comparison/compare.h"
#include "comparison/settings.h"
#include "fuzz/changed_run.h"
#include "report/chrome.h"
#include "report/compare.h"
#include "report/dump.h"
#include "report/incident.h"
#include "report/info.h"
#include "report/json.h"
#include "report/links.h"
#include "report/page/page.h"
#include "report/page/two_runs.h"
#include "report/parquet/call_table.h"
#include "report/perfetto/choice.h"
#include "report/perfetto/perfetto.h"
#include "report/slow.h"
#include "report/slow_two_runs.h"
#include "report/stats.h"
#include "report/terms.h"
#include "report/text.h"
#include "slow/answer.h"
#include "slow/two_runs.h"
#include "statistics/link_table.h"
#include "statistics/operation_table.h"

namespace {

using namespace rollcall;

bool swallow(const std::string& text) { return !text.empty(); }

void print_calls(const trace::Run& run, const analysis::Report& verdict) {
  report::chrome_trace(run, swallow);
  report::PerfettoOptions options;
  report::add_verdict(run, verdict, options);
  report::perfetto_trace(run, options, swallow);
  report::CallTable table(swallow);
  const std::vector<int32_t> ranks = report::process_labels(run);
  for (size_t at = 0; at < run.processes.size(); ++at) {
    report::dump_process(run.processes[at], swallow);
    table.add(run.processes[at], ranks[at]);
  }
  table.finish({});
}

void print_pages(const trace::Run& run, const analysis::Report& verdict,
                 const comparison::Comparison& calls) {
  report::page_html(run, verdict);
  const report::TwoRunsReport settings_and_steps{.before = "a",
                                                 .after = "b",
                                                 .settings = comparison::compare_settings(run, run),
                                                 .answer = slow::compare(run, run)};
  const report::TwoRunsSource source{{run, verdict}, {run, verdict}, calls, settings_and_steps};
  report::two_runs_headline(source);
  report::two_runs_page_html(source);
}

void print_all(const trace::Run& run) {
  const analysis::Report verdict = analysis::analyse(run);
  report::TextOptions options;
  options.all = true;
  options.colour = true;
  options.context = 3;
  report::diff_text(run, verdict, options);
  report::diff_json(run, verdict);
  report::diff_sentence(verdict);
  report::incident_json(run, verdict, 1);
  const std::vector<report::FileSizes> sizes(run.processes.size());
  report::info_text(run, sizes);
  report::info_json(run, sizes);
  const std::vector<statistics::OperationRow> rows = statistics::operation_table(run);
  report::stats_text(run, rows);
  report::stats_json(run, rows);
  report::links_text(statistics::link_table(run));
  const slow::Answer answer = slow::answer(run);
  report::slow_text(run, answer, {});
  report::slow_json(run, answer, {});
  print_calls(run, verdict);
  const comparison::Comparison comparison = comparison::compare_runs(run, run);
  report::compare_text(comparison, {"a", "b"}, true);
  report::compare_json(comparison, {"a", "b"});
  print_pages(run, verdict, comparison);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto run = fuzz::changed_run(data, size);
  if (run) print_all(*run);
  return 0;
}
