// How sure a draft is, given what its recorder could not see. A reason more is one more weigh_...()
// here, with weaken(); if it needs what logs say (Run::logs), it belongs in lost_lines.cpp, which
// looks at the report. What other recorders leave out is weighed where silence is judged
// (rules/silence.cpp, weigh_states). docs/VERDICTS.md lists all of them under "How sure".
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analysis/explain/explain.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

// What a verdict rests on beside the calls that it quotes: that somebody called nothing more.
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

bool is_log(const Facts& facts, uint32_t p) {
  return p != kNone && facts.process(p).recorder == "nccl_log";
}

// Recorded only from some moment on, with communicators that were made before it.
bool is_excerpt(const Facts& facts, uint32_t p) {
  return is_log(facts, p) || (p != kNone && facts.process(p).recorder == "nsys");
}

// Nothing of the communicator is on file behind the call that the culprit lacks: the log may end
// there, and not the job.
bool is_at_end_of_log(const Facts& facts, const Draft& draft) {
  return std::any_of(
      draft.finding.culprits.begin(), draft.finding.culprits.end(), [&](const Culprit& culprit) {
        if (!is_log(facts, culprit.process) || !culprit.comm) return false;
        const uint32_t g = facts.index.find_group(*culprit.comm);
        if (g == kNone) return false;
        const Group& group = facts.group(g);
        const auto mine =
            std::find_if(group.members.begin(), group.members.end(),
                         [&](const Member& member) { return member.process == culprit.process; });
        if (mine == group.members.end()) return false;
        if (culprit.seq) return mine->lane.called <= *culprit.seq;
        // Of a transfer: neither side has made a collective behind it.
        const trace::Process& process = facts.process(culprit.process);
        const auto last = std::find_if(process.ops.rbegin(), process.ops.rend(),
                                       [&](const trace::Op& op) { return op.comm == mine->comm; });
        return last == process.ops.rend() || is_p2p(last->kind) || group.shortest != group.longest;
      });
}

// What a log cannot tell: whether its end, or its beginning, is whole; whose a communicator is that
// no Init line names; and what ranks did that wrote elsewhere.
void weigh_log(const Facts& facts, Draft& draft) {
  Finding& finding = draft.finding;
  const bool is_of_creation =
      finding.verdict == Verdict::init_incomplete || finding.verdict == Verdict::split_mismatch;
  const bool is_guess =
      draft.group != kNone &&
      std::all_of(facts.group(draft.group).members.begin(), facts.group(draft.group).members.end(),
                  [&](const Member& member) {
                    return is_excerpt(facts, member.process) && member.rank < 0;
                  });
  if (is_of_creation) {
    std::erase_if(finding.culprits,
                  [](const Culprit& culprit) { return culprit.process == kNone; });
    weaken(finding, Confidence::open,
           "but ranks that are not in the log may write elsewhere, and a log may end before a "
           "communicator is complete");
  } else if (is_guess) {
    weaken(finding, Confidence::open,
           "but no line or range tells of this communicator's creation: which processes share it, "
           "and where its calls begin, is a guess");
  } else if (rests_on_silence(finding.verdict) && is_at_end_of_log(facts, draft)) {
    weaken(finding, Confidence::open,
           "but nothing tells whether the log is whole: its end may be missing, and no more than "
           "that");
  }
}

}  // namespace

void weigh_blind_spots(const Facts& facts, std::vector<Draft>& drafts) {
  const std::vector<uint32_t>& active = facts.index.active();
  const bool has_excerpt =
      std::any_of(active.begin(), active.end(), [&](uint32_t p) { return is_excerpt(facts, p); });
  for (Draft& draft : drafts) {
    if (!is_defect(draft.finding)) continue;
    weigh_damage(facts, draft.finding);
    if (has_excerpt) weigh_log(facts, draft);
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
