#include "analysis/explain/wrong_peer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

constexpr size_t kDraftsMax = 64;

// Whether the process waits in this transfer of a group, and `peer` has no other side for it.
bool lacks_other_side(const Facts& facts, const OpRef& transfer, uint32_t group, uint32_t peer) {
  const Op& op = facts.index.op(transfer.process, transfer.op);
  if (!is_p2p(op.kind) || facts.index.seat(transfer.process, op.comm).group != group) return false;
  if (facts.graph.find_p2p(transfer.process, transfer.op) == kNone) return false;
  const OpRef partner = facts.index.partner_of(transfer.process, op);
  return partner.process == peer && partner.op == kNoRecord;
}

// The transfer whose other side the draft says is missing: of the peer that it blames.
OpRef transfer_without_peer(const Facts& facts, const Draft& draft) {
  const std::vector<Culprit>& culprits = draft.finding.culprits;
  if (culprits.size() != 1) return {};
  const Culprit& blamed = culprits.front();
  if (blamed.process == kNone || !blamed.comm || !blamed.p2p_seq) return {};
  const uint32_t group = facts.index.find_group(*blamed.comm);
  const uint32_t caller = group == kNone ? kNone : process_at(facts, group, blamed.peer);
  if (caller == kNone) return {};
  for (const uint32_t i : facts.playback.waiting(caller)) {
    const Op& op = facts.index.op(caller, i);
    if (op.seq != *blamed.p2p_seq || op.group == 0) continue;
    if (!lacks_other_side(facts, {caller, i}, group, blamed.process)) continue;
    if (rollcall::name_of(other_side_of(op.kind)) == blamed.op) return {caller, i};
  }
  return {};
}

// The two have exchanged nothing this way.
bool are_strangers(const Facts& facts, const OpRef& transfer) {
  const Op& op = facts.index.op(transfer.process, transfer.op);
  const uint32_t i = facts.index.channel_of(transfer.process, op);
  if (i == kNone) return false;
  const Channel& channel = facts.index.channels()[i];
  const bool is_send = op.kind == OpKind::Send;
  return op.seq == 0 && (is_send ? channel.recvs : channel.sends).empty();
}

// What a third rank does with this one is the other half, and this one has nothing for it.
OpRef other_half(const Facts& facts, const OpRef& transfer) {
  const Op& op = facts.index.op(transfer.process, transfer.op);
  const uint32_t group = facts.index.seat(transfer.process, op.comm).group;
  OpRef found;
  for (const Member& third : facts.group(group).members) {
    for (const uint32_t i : facts.playback.waiting(third.process)) {
      const Op& theirs = facts.index.op(third.process, i);
      const bool is_half = theirs.kind == other_side_of(op.kind) && theirs.count == op.count &&
                           theirs.datatype == op.datatype &&
                           lacks_other_side(facts, {third.process, i}, group, transfer.process);
      if (!is_half) continue;
      if (found.process != kNone) return {};  // which of them is not known
      found = {third.process, i};
    }
  }
  return found;
}

Draft draft_wrong_peer(const Facts& facts, const Draft& showed, const OpRef& transfer,
                       const OpRef& half) {
  const Op& op = facts.index.op(transfer.process, transfer.op);
  Draft draft = make_draft(Verdict::p2p_unmatched, Confidence::likely, Misstep::other_peer);
  draft.since_ns = showed.since_ns;
  draft.root = showed.root;
  draft.node = showed.node;
  Finding& finding = draft.finding;
  const uint32_t group = facts.index.seat(transfer.process, op.comm).group;
  Culprit culprit = culprit_of(facts, transfer.process, group);
  culprit.op = std::string(rollcall::name_of(op.kind));
  culprit.p2p_seq = op.seq;
  culprit.peer = op.root_or_peer;
  finding.culprits.push_back(std::move(culprit));
  add_evidence(facts, transfer, "waits", finding);
  add_evidence(facts, half, "waits", finding);
  const std::string peer =
      processes_text(facts.index.run(), {showed.finding.culprits.front().process});
  const std::string third = processes_text(facts.index.run(), {half.process});
  const std::string what = fmt::format("{} {}", op.count, name_of_datatype(op.datatype));
  const std::string since =
      span_text(facts.job.end_ns - facts.index.op(half.process, half.op).called_ns);
  const std::string who = rank_text(facts.process(transfer.process));
  finding.summary =
      op.kind == OpKind::Send
          ? fmt::format(
                "{} sends {} to {}, which expects nothing from it, while {} has been waiting "
                "for as much from it for {}",
                who, what, peer, third, since)
          : fmt::format(
                "{} awaits {} from {}, which sends it nothing, while {} has been in a send of "
                "as much to it for {}",
                who, what, peer, third, since);
  finding.next = "look at how that rank computes the peer of this transfer";
  set_victims(facts, facts.index.active(), finding);
  return draft;
}

}  // namespace

void trace_to_wrong_peers(const Facts& facts, std::vector<Draft>& drafts) {
  size_t asked = 0;
  for (Draft& draft : drafts) {
    if (draft.finding.confidence == Confidence::certain) continue;
    if (draft.finding.verdict != Verdict::p2p_unmatched || ++asked > kDraftsMax) continue;
    const OpRef transfer = transfer_without_peer(facts, draft);
    if (transfer.process == kNone || !are_strangers(facts, transfer)) continue;
    const OpRef half = other_half(facts, transfer);
    if (half.process == kNone) continue;
    draft = draft_wrong_peer(facts, draft, transfer, half);
  }
}

}  // namespace rollcall::analysis
