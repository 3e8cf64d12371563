#include <algorithm>
#include <string_view>

#include "analysis/judge.h"

namespace rollcall::analysis {
namespace {

// What a verdict rests on beside the calls that it quotes.
bool rests_on_silence(Verdict verdict) {
  return verdict == Verdict::missing_call || verdict == Verdict::p2p_unmatched ||
         verdict == Verdict::init_incomplete;
}
bool rests_on_order(Verdict verdict) {
  return verdict == Verdict::order_mismatch || verdict == Verdict::op_mismatch ||
         verdict == Verdict::group_mismatch || verdict == Verdict::deadlock_comms ||
         verdict == Verdict::deadlock_p2p;
}

// The one of the processes that sees least; kNone where all see what a preloaded recorder sees.
uint32_t worst_witness(const Case& c) {
  uint32_t worst = kNone;
  for (const uint32_t p : c.index.active()) {
    const trace::Knowledge& knowledge = c.process(p).knowledge;
    if (knowledge.creations) continue;
    if (worst == kNone || !knowledge.calls_in_order) worst = p;
  }
  return worst;
}

// Most of a communicator's ranks absent: it is likelier that they are somewhere unseen than that
// they forgot a call that a few made.
bool blames_majority(const Case& c, const Draft& draft) {
  if (draft.group == kNone) return false;
  return 2 * draft.finding.culprits.size() > c.group(draft.group).members.size();
}

void weaken(Finding& finding, Confidence at_most, std::string_view why) {
  finding.confidence = std::max(finding.confidence, at_most);
  finding.summary += "; ";
  finding.summary += why;
}

}  // namespace

void weigh_blind_spots(const Case& c, std::vector<Draft>& drafts) {
  const uint32_t witness = worst_witness(c);
  if (witness == kNone) return;
  const bool in_order = c.process(witness).knowledge.calls_in_order;
  for (Draft& draft : drafts) {
    Finding& finding = draft.finding;
    const bool is_silence = rests_on_silence(finding.verdict);
    const bool is_graph = finding.verdict == Verdict::graph_diverged;
    if (!is_silence && !is_graph && (in_order || !rests_on_order(finding.verdict))) continue;
    if (is_graph) {
      weaken(finding, Confidence::likely,
             "the profiler plugin, which recorded this alone, hears of no launch of a graph: "
             "whether one waits for the difference is not on file");
    } else if (in_order) {
      weaken(finding, blames_majority(c, draft) ? Confidence::open : Confidence::likely,
             "the profiler plugin, which recorded this alone, hears of no abort and of no "
             "communicator being made: who seems silent may be in one of these");
    } else {
      weaken(finding, Confidence::likely,
             "the profiler plugin, which recorded this alone, hears of launches and not of calls "
             "up to NCCL 2.27: in NCCL's order, and of what never launched not at all");
    }
    Evidence evidence = process_evidence(c, witness);
    evidence.text = "recorded by the profiler plugin alone";
    finding.evidence.push_back(std::move(evidence));
  }
}

}  // namespace rollcall::analysis
