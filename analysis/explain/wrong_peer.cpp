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
bool lacks_other_side(const Case& c, const Blocked& transfer, uint32_t group, uint32_t peer) {
  const Op& op = c.index.op(transfer.process, transfer.op);
  if (!is_p2p(op.kind) || c.index.seat(transfer.process, op.comm).group != group) return false;
  if (c.graph.find_p2p(transfer.process, transfer.op) == kNone) return false;
  const Blocked partner = c.index.partner_of(transfer.process, op);
  return partner.process == peer && partner.op == kNoRecord;
}

// The transfer whose other side the draft says is missing: of the peer that it blames.
Blocked transfer_without_peer(const Case& c, const Draft& draft) {
  const std::vector<Culprit>& culprits = draft.finding.culprits;
  if (culprits.size() != 1) return {};
  const Culprit& blamed = culprits.front();
  if (blamed.process == kNone || !blamed.comm || !blamed.p2p_seq) return {};
  const uint32_t group = c.index.find_group(*blamed.comm);
  const uint32_t caller = group == kNone ? kNone : process_at(c, group, blamed.peer);
  if (caller == kNone) return {};
  for (const uint32_t i : c.progress.waiting(caller)) {
    const Op& op = c.index.op(caller, i);
    if (op.seq != *blamed.p2p_seq || op.group == 0) continue;
    if (!lacks_other_side(c, {caller, i}, group, blamed.process)) continue;
    if (rollcall::name_of(other_side_of(op.kind)) == blamed.op) return {caller, i};
  }
  return {};
}

// The two have exchanged nothing this way.
bool are_strangers(const Case& c, const Blocked& transfer) {
  const Op& op = c.index.op(transfer.process, transfer.op);
  const uint32_t i = c.index.channel_of(transfer.process, op);
  if (i == kNone) return false;
  const Channel& channel = c.index.channels()[i];
  const bool is_send = op.kind == OpKind::Send;
  return op.seq == 0 && (is_send ? channel.recvs : channel.sends).empty();
}

// What a third rank does with this one is the other half, and this one has nothing for it.
Blocked other_half(const Case& c, const Blocked& transfer) {
  const Op& op = c.index.op(transfer.process, transfer.op);
  const uint32_t group = c.index.seat(transfer.process, op.comm).group;
  Blocked found;
  for (const Member& third : c.group(group).members) {
    for (const uint32_t i : c.progress.waiting(third.process)) {
      const Op& theirs = c.index.op(third.process, i);
      const bool is_half = theirs.kind == other_side_of(op.kind) && theirs.count == op.count &&
                           theirs.datatype == op.datatype &&
                           lacks_other_side(c, {third.process, i}, group, transfer.process);
      if (!is_half) continue;
      if (found.process != kNone) return {};  // which of them is not known
      found = {third.process, i};
    }
  }
  return found;
}

Draft draft_wrong_peer(const Case& c, const Draft& showed, const Blocked& transfer,
                       const Blocked& half) {
  const Op& op = c.index.op(transfer.process, transfer.op);
  Draft draft = make_draft(Verdict::p2p_unmatched, Confidence::likely);
  draft.since_ns = showed.since_ns;
  draft.root = showed.root;
  draft.node = showed.node;
  Finding& finding = draft.finding;
  const uint32_t group = c.index.seat(transfer.process, op.comm).group;
  Culprit culprit = culprit_of(c, transfer.process, group);
  culprit.op = std::string(rollcall::name_of(op.kind));
  culprit.p2p_seq = op.seq;
  culprit.peer = op.root_or_peer;
  finding.culprits.push_back(std::move(culprit));
  add_evidence(c, transfer, "waits", finding);
  add_evidence(c, half, "waits", finding);
  const std::string peer = processes_text(c.index.run(), {showed.finding.culprits.front().process});
  const std::string third = processes_text(c.index.run(), {half.process});
  const std::string what = fmt::format("{} {}", op.count, name_of_datatype(op.datatype));
  const std::string since = span_text(c.job.end_ns - c.index.op(half.process, half.op).called_ns);
  const std::string who = rank_text(c.process(transfer.process));
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
  set_victims(c, c.index.active(), finding);
  return draft;
}

}  // namespace

void trace_to_wrong_peers(const Case& c, std::vector<Draft>& drafts) {
  size_t asked = 0;
  for (Draft& draft : drafts) {
    if (draft.finding.confidence == Confidence::certain) continue;
    if (draft.finding.verdict != Verdict::p2p_unmatched || ++asked > kDraftsMax) continue;
    const Blocked transfer = transfer_without_peer(c, draft);
    if (transfer.process == kNone || !are_strangers(c, transfer)) continue;
    const Blocked half = other_half(c, transfer);
    if (half.process == kNone) continue;
    draft = draft_wrong_peer(c, draft, transfer, half);
  }
}

}  // namespace rollcall::analysis
