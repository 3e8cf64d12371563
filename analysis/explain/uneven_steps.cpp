#include "analysis/explain/uneven_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "analysis/slips/step_counts.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

bool is_about_transfers(const Draft& draft) {
  const Verdict verdict = draft.finding.verdict;
  return verdict == Verdict::p2p_unmatched || verdict == Verdict::deadlock_p2p ||
         verdict == Verdict::deadlock_comms;
}

// What waits, where it is a transfer.
std::optional<UnevenStep> uneven_step_of_draft(const Facts& facts, const Draft& draft) {
  if (draft.node == kNone) return std::nullopt;
  const Node& node = facts.graph.nodes()[draft.node];
  if (node.kind != NodeKind::p2p) return std::nullopt;
  const uint32_t channel =
      facts.index.channel_of(node.process, facts.index.op(node.process, node.op));
  return channel == kNone ? std::nullopt : uneven_step_of(facts, channel);
}

struct TransferSides {
  const Channel& channel;
  uint32_t sender;
  uint32_t receiver;
};

// The last transfer of one side in the step, or before it; kNoRecord where there is none.
uint32_t last_transfer(const TransferSides& sides, const UnevenStep& uneven, bool is_sender) {
  const uint64_t more = std::max(uneven.sends, uneven.recvs) - std::min(uneven.sends, uneven.recvs);
  const bool has_more = (uneven.sends > uneven.recvs) == is_sender;
  const uint64_t made = uneven.seq + (has_more ? more : 0);
  if (made == 0) return kNoRecord;
  return is_sender ? sides.channel.send_at(made - 1) : sides.channel.recv_at(made - 1);
}

Culprit side_culprit(const Facts& facts, const TransferSides& sides, const UnevenStep& uneven,
                     bool is_sender) {
  Culprit culprit =
      culprit_of(facts, is_sender ? sides.sender : sides.receiver, sides.channel.group);
  culprit.op = std::string(rollcall::name_of(is_sender ? OpKind::Send : OpKind::Recv));
  culprit.p2p_seq = uneven.seq;
  culprit.peer = is_sender ? sides.channel.target : sides.channel.source;
  return culprit;
}

std::string made_text(const Facts& facts, const TransferSides& sides, const UnevenStep& uneven,
                      bool is_sender, bool names_peer) {
  const uint32_t p = is_sender ? sides.sender : sides.receiver;
  const uint32_t peer = is_sender ? sides.receiver : sides.sender;
  const uint64_t made = is_sender ? uneven.sends : uneven.recvs;
  std::string text = fmt::format(
      "{} made {}", rank_text(facts.process(p)),
      number_text(made, is_sender ? "send" : "receive", is_sender ? "sends" : "receives"));
  if (names_peer) {
    text += fmt::format(" {} {}", is_sender ? "to" : "from", rank_text(facts.process(peer)));
  }
  return text;
}

std::string step_text(const Facts& facts, const UnevenStep& uneven) {
  const std::string& name = facts.group(uneven.group).name;
  return uneven.step == 0 ? fmt::format("in front of the first call on {}", name)
                          : fmt::format("behind seq {} of {}", uneven.step - 1, name);
}

std::string witness_text(const Facts& facts, const UnevenStep& uneven, bool is_sender) {
  const uint64_t odd = is_sender ? uneven.sends : uneven.recvs;
  const uint64_t usual = is_sender ? uneven.recvs : uneven.sends;
  switch (uneven.witness) {
    case CountWitness::other_ranks:
      return fmt::format(
          "in the largest of their other exchanges in this step, more ranks made {} than {}", usual,
          odd);
    case CountWitness::one_of_several:
      return fmt::format("{} differs so from several ranks, and those not from each other",
                         rank_text(facts.process(uneven.odd)));
    case CountWitness::steps_before:
      return fmt::format("the two made {} in a step before", usual);
    case CountWitness::none:
      break;
  }
  return "nothing on file tells which of the two numbers is the right one";
}

Draft draft_uneven(const Facts& facts, const Draft& showed, const UnevenStep& uneven) {
  const Channel& channel = facts.index.channels()[uneven.channel];
  const TransferSides sides{channel, process_at(facts, channel.group, channel.source),
                            process_at(facts, channel.group, channel.target)};
  const bool is_decided = uneven.odd != kNone;
  const bool is_sender = is_decided ? uneven.odd == sides.sender : uneven.sends > uneven.recvs;
  const bool has_more = (uneven.sends > uneven.recvs) == is_sender;
  std::optional<Misstep> misstep;
  if (is_decided) misstep = has_more ? Misstep::made_more : Misstep::left_out;
  Draft draft = make_draft(Verdict::p2p_unmatched, Confidence::likely, misstep);
  draft.since_ns = showed.since_ns;
  draft.root = showed.root;
  draft.node = showed.node;
  draft.is_decided = is_decided;
  Finding& finding = draft.finding;
  finding.culprits.push_back(side_culprit(facts, sides, uneven, is_sender));
  if (!is_decided) finding.culprits.push_back(side_culprit(facts, sides, uneven, !is_sender));
  finding.summary =
      fmt::format("{} {}, and {}: {}", made_text(facts, sides, uneven, is_sender, true),
                  step_text(facts, uneven), made_text(facts, sides, uneven, !is_sender, false),
                  witness_text(facts, uneven, is_sender));
  finding.next = is_decided ? "look at the branch that decides about this transfer on that rank"
                            : "look at the branches that decide about this transfer on both ranks";
  for (const bool side : {is_sender, !is_sender}) {
    const uint32_t i = last_transfer(sides, uneven, side);
    if (i == kNoRecord) continue;
    finding.evidence.push_back(
        op_evidence(facts, side ? sides.sender : sides.receiver, i, "the last of them"));
  }
  finding.evidence.push_back(process_evidence(facts, is_sender ? sides.receiver : sides.sender));
  return draft;
}

}  // namespace

void trace_to_uneven_steps(const Facts& facts, std::vector<Draft>& drafts) {
  Draft* first = nullptr;
  for (Draft& draft : drafts) {
    if (!is_about_transfers(draft)) continue;
    if (first == nullptr || draft.since_ns < first->since_ns) first = &draft;
  }
  if (first == nullptr) return;
  // Of a job that came to its end, with nobody waiting, all that was sent should be received.
  const bool is_through = first->node == kNone && facts.job.all_ended_themselves;
  std::optional<UnevenStep> uneven =
      first_uneven_step(facts, is_through ? Lag::none : Lag::possible);
  if (!uneven) uneven = uneven_step_of_draft(facts, *first);
  if (!uneven) return;
  std::vector<uint32_t> others = culprits_of(first->finding);
  std::erase(others, kNone);
  if (uneven->odd != kNone && others == std::vector<uint32_t>{uneven->odd}) return;
  Finding showed = std::move(first->finding);
  *first = draft_uneven(facts, *first, *uneven);
  Finding& finding = first->finding;
  finding.severity = showed.severity;
  take_what_follows(showed, finding);
  finding.victims = showed.victims;
  set_victims(facts, others, finding);
  for (const Culprit& culprit : finding.culprits) std::erase(finding.victims, culprit.rank);
  finding.consequences.insert(finding.consequences.begin(), std::move(showed));
}

}  // namespace rollcall::analysis
