#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analysis/explain/explain.h"
#include "analysis/words/label.h"

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
uint32_t worst_witness(const Facts& facts) {
  uint32_t worst = kNone;
  for (const uint32_t p : facts.index.active()) {
    const trace::Knowledge& knowledge = facts.process(p).knowledge;
    if (knowledge.creations) continue;
    if (worst == kNone || !knowledge.calls_in_order) worst = p;
  }
  return worst;
}

// Most of a communicator's ranks absent: it is likelier that they are somewhere unseen than that
// they forgot a call that a few made.
bool blames_majority(const Facts& facts, const Draft& draft) {
  if (draft.group == kNone) return false;
  return 2 * draft.finding.culprits.size() > facts.group(draft.group).members.size();
}

void weaken(Finding& finding, Confidence at_most, std::string_view why) {
  finding.confidence = std::max(finding.confidence, at_most);
  finding.summary += "; ";
  finding.summary += why;
}

uint64_t damage_of(const Facts& facts, uint32_t p) {
  return facts.process(p).damaged + facts.index.misplaced(p);
}

// The blamed one whose file is damaged; in a circle, where nobody alone is to blame, anyone. kNone:
// nobody.
uint32_t damaged_witness(const Facts& facts, const Finding& finding) {
  const bool is_circle =
      finding.verdict == Verdict::deadlock_comms || finding.verdict == Verdict::deadlock_p2p;
  for (const Culprit& culprit : finding.culprits) {
    if (culprit.process != kNone && damage_of(facts, culprit.process) != 0) return culprit.process;
  }
  if (!is_circle) return kNone;
  const std::vector<uint32_t>& active = facts.index.active();
  const auto found = std::find_if(active.begin(), active.end(),
                                  [&](uint32_t p) { return damage_of(facts, p) != 0; });
  return found == active.end() ? kNone : *found;
}

// What was written over may be all that is wrong.
void weigh_damage(const Facts& facts, Finding& finding) {
  const uint32_t p = damaged_witness(facts, finding);
  if (p == kNone) return;
  const std::string who = rank_text(facts.process(p));
  weaken(finding, Confidence::open,
         fmt::format("but the file of {} is damaged ({} of its records hold what no recorder "
                     "writes), and this may be no more than that",
                     who, damage_of(facts, p)));
  finding.next = fmt::format("copy the file of {} again if it was copied, and ask again; else: {}",
                             who, finding.next);
}

}  // namespace

void weigh_blind_spots(const Facts& facts, std::vector<Draft>& drafts) {
  for (Draft& draft : drafts) {
    if (is_defect(draft.finding)) weigh_damage(facts, draft.finding);
  }
  const uint32_t witness = worst_witness(facts);
  if (witness == kNone) return;
  const bool in_order = facts.process(witness).knowledge.calls_in_order;
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
      weaken(finding, blames_majority(facts, draft) ? Confidence::open : Confidence::likely,
             "the profiler plugin, which recorded this alone, hears of no abort and of no "
             "communicator being made: who seems silent may be in one of these");
    } else {
      weaken(finding, Confidence::likely,
             "the profiler plugin, which recorded this alone, hears of launches and not of calls "
             "up to NCCL 2.27: in NCCL's order, and of what never launched not at all");
    }
    Evidence evidence = process_evidence(facts, witness);
    evidence.text = "recorded by the profiler plugin alone";
    finding.evidence.push_back(std::move(evidence));
  }
}

}  // namespace rollcall::analysis
