#include "analysis/explain/launch_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "analysis/slips/launch_order.h"
#include "analysis/words/draft.h"
#include "analysis/words/label.h"
#include "analysis/words/replays.h"

namespace rollcall::analysis {
namespace {

// What a replay left out, or made in place of another, may show as.
bool may_follow(const Finding& finding) {
  switch (finding.verdict) {
    case Verdict::p2p_unmatched:
    case Verdict::p2p_mismatch:
    case Verdict::deadlock_comms:
    case Verdict::deadlock_p2p:
    case Verdict::graph_diverged:
      return true;
    default:
      return is_about_calls(finding.verdict);
  }
}

Misstep misstep_of_launch(Slip slip) {
  switch (slip) {
    case Slip::missing:
      return Misstep::left_out;
    case Slip::extra:
      return Misstep::made_more;
    case Slip::order:
      return Misstep::reordered;
    default:
      return Misstep::other_operation;
  }
}

// In short, and then in full.
std::string launch_text(const Facts& facts, const LaunchSlip& slip) {
  const std::string who = rank_text(facts.process(slip.called.process));
  const std::string others = processes_text(facts.index.run(), processes_of(slip.expected));
  const auto text_of = [&](const OpRef& where) {
    return place_text(facts, where.process, facts.index.op(where.process, where.op));
  };
  const std::string called = text_of(slip.called);
  const std::string expected = text_of(slip.expected.front());
  switch (slip.slip) {
    case Slip::missing:
      return fmt::format(
          "{} left out the launch of a CUDA graph that {} made; they launched {}, and it went on "
          "to {}",
          who, others, expected, called);
    case Slip::extra:
      return fmt::format(
          "{} launched a CUDA graph where {} launched none; it launched {}, and they went on to {}",
          who, others, called, expected);
    case Slip::order:
      return fmt::format(
          "{} launched CUDA graphs in another order than {}; it launched {}, and they first {}",
          who, others, called, expected);
    default:
      return fmt::format("{} launched another CUDA graph than {}; it launched {}, and they {}", who,
                         others, called, expected);
  }
}

Finding finding_of(const Facts& facts, const LaunchSlip& slip) {
  Draft draft =
      make_draft(Verdict::graph_diverged, Confidence::likely, misstep_of_launch(slip.slip));
  Finding& finding = draft.finding;
  finding.culprits.push_back(culprit_of(facts, slip.called.process, kNone));
  finding.summary = launch_text(facts, slip);
  finding.next =
      "look at what decides on that rank which graph is launched: a branch, the size of a batch";
  add_evidence(facts, slip.called, "in its place", finding);
  add_evidence(facts, slip.expected.front(), "as on all others", finding);
  return std::move(finding);
}

}  // namespace

void trace_to_launches(const Facts& facts, Finding& lead) {
  if (!may_follow(lead)) return;
  const std::optional<LaunchSlip> slip = find_launch_slip(facts);
  if (!slip || culprits_of(lead) == std::vector<uint32_t>{slip->called.process}) return;
  Finding showed = std::exchange(lead, finding_of(facts, *slip));
  lead.severity = showed.severity;
  take_what_follows(showed, lead);
  lead.victims = showed.victims;
  set_victims(facts, culprits_of(showed), lead);
  for (const Culprit& culprit : lead.culprits) std::erase(lead.victims, culprit.rank);
  lead.consequences.insert(lead.consequences.begin(), std::move(showed));
}

}  // namespace rollcall::analysis
