// Everything that is printed of damaged rings (fuzz/changed_run.h): text, JSON, records,
// statistics, traces. The model is what the loader lets through, so what a table is indexed with
// here was judged there.
#include "analysis/analysis.h"
#include "comparison/compare.h"
#include "fuzz/changed_run.h"
#include "report/chrome.h"
#include "report/compare.h"
#include "report/dump.h"
#include "report/info.h"
#include "report/json.h"
#include "report/links.h"
#include "report/slow.h"
#include "report/stats.h"
#include "report/text.h"
#include "slow/answer.h"
#include "statistics/link_table.h"
#include "statistics/operation_table.h"

namespace {

using namespace rollcall;

void print_all(const trace::Run& run) {
  const analysis::Report verdict = analysis::analyse(run);
  report::TextOptions options;
  options.all = true;
  options.colour = true;
  options.context = 3;
  report::diff_text(run, verdict, options);
  report::diff_json(run, verdict);
  report::diff_sentence(verdict);
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
  const auto swallow = [](const std::string& text) { return !text.empty(); };
  report::chrome_trace(run, swallow);
  for (const trace::Process& process : run.processes) report::dump_process(process, swallow);
  const comparison::Comparison comparison = comparison::compare_runs(run, run);
  report::compare_text(comparison, {"a", "b"}, true);
  report::compare_json(comparison, {"a", "b"});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto run = fuzz::changed_run(data, size);
  if (run) print_all(*run);
  return 0;
}
