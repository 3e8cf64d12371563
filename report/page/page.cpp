#include "report/page/page.h"

#include <optional>

#include "analysis/views/by_gpu.h"
#include "report/page/data.h"
#include "report/page/sections.h"
#include "report/page/wait_states.h"
#include "report/text.h"
#include "statistics/operation_table.h"

namespace rollcall::report {

std::string page_html(const trace::Run& whole, const analysis::Report& report, const Kept& kept) {
  // Ranks as the findings number them.
  const std::optional<analysis::Parts> parts =
      report.numbering.empty() ? std::nullopt : analysis::take_apart(whole);
  const analysis::Index index(parts ? parts->run : whole);
  const PageData data = page_data(whole, index, report);
  const std::vector<statistics::OperationRow> operations = statistics::operation_table(whole);
  const slow::Answer steps = has_gpu_times(whole) ? slow::answer(whole) : slow::Answer();
  const PageSource source{
      whole, index, report, operations, wait_rows(index), steps, kept, data.rolls_left_out};
  return document_html({.title = diff_sentence(report),
                        .header = verdict_html(source),
                        .sections = sections_of(source),
                        .data = data.json});
}

}  // namespace rollcall::report
