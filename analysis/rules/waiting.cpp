// RC-WAITING: what may become a hang, told before it is one.
#include <fmt/format.h>

#include "analysis/rules/rules.h"
#include "analysis/terms/numbers.h"

namespace rollcall::analysis {

std::optional<Finding> judge_waiting(const Finding& early, const Options& options) {
  if (early.severity != Severity::hang) return {};
  Finding finding = make_draft(Verdict::waiting, Confidence::open).finding;
  finding.summary =
      fmt::format("no rank has waited for {} yet; if nothing moves, the verdict will be {}: {}",
                  span_text(options.live_threshold_ns), code_of(early.verdict), early.summary);
  finding.next = "ask again in a moment, or ask about shorter waits with --stalled-after SECONDS";
  finding.victims = early.victims;
  finding.evidence = early.evidence;
  return finding;
}

}  // namespace rollcall::analysis
