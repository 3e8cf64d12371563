// Differences between sequences, and pairs of sends and receives, become findings.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/habit.h"
#include "analysis/judge.h"
#include "analysis/label.h"
#include "analysis/stray_call.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

Verdict verdict_of(Slip slip) {
  switch (slip) {
    case Slip::op:
      return Verdict::op_mismatch;
    case Slip::count:
      return Verdict::count_mismatch;
    case Slip::dtype:
      return Verdict::dtype_mismatch;
    case Slip::redop:
      return Verdict::redop_mismatch;
    case Slip::root:
      return Verdict::root_mismatch;
    case Slip::order:
      return Verdict::order_mismatch;
    default:
      return Verdict::missing_call;
  }
}

std::vector<uint32_t> processes_of(const Group& group, const std::vector<uint32_t>& members) {
  std::vector<uint32_t> processes;
  for (const uint32_t m : members) processes.push_back(group.members[m].process);
  return processes;
}

const Op& call_of(const Case& c, const Group& group, uint32_t m, uint64_t seq) {
  return c.index.op_at(group.members[m], seq);
}

// An extra call is what it shows as: the difference at its position.
Verdict verdict_of(const Case& c, const Difference& d) {
  if (d.slip != Slip::extra) return verdict_of(d.slip);
  const Group& group = c.group(d.group);
  const Op& mine = call_of(c, group, d.deviators.front(), d.seq);
  const Op& theirs = call_of(c, group, d.reference, d.seq);
  if (mine.kind != theirs.kind) return Verdict::op_mismatch;
  if (mine.datatype != theirs.datatype) return Verdict::dtype_mismatch;
  if (mine.count != theirs.count) return Verdict::count_mismatch;
  return mine.reduction != theirs.reduction ? Verdict::redop_mismatch : Verdict::root_mismatch;
}

std::string slip_text(const Case& c, const Difference& d, const std::string& who) {
  const Group& group = c.group(d.group);
  const Op& mine = call_of(c, group, d.deviators.front(), d.seq);
  const Op& theirs = call_of(c, group, d.reference, d.seq);
  const std::string at = fmt::format("at seq {} of {}", d.seq, group.name);
  const std::string others = processes_text(c.index.run(), processes_of(group, d.camps[0].members));
  switch (d.slip) {
    case Slip::missing:
      return fmt::format(
          "{} left out {} {}, which {} called; what it calls from there on is what they call next",
          who,
          d.length == 1 ? call_text(theirs)
                        : fmt::format("{} calls, the first {},", d.length, call_text(theirs)),
          at, others);
    case Slip::extra:
      return fmt::format(
          "{} called {} {}, which {} never did; behind it the calls agree again with "
          "theirs, which begin with {}",
          who, call_text(mine), at, others, call_text(theirs));
    case Slip::order:
      return fmt::format("{} made {} calls from seq {} of {} on in another order than {}: {}", who,
                         d.length, d.seq, group.name, others, d.edits);
    default:
      break;
  }
  std::string text = fmt::format("{} called {} {} where {} called {}", who, call_text(mine), at,
                                 others, call_text(theirs));
  const uint64_t my_bytes = bytes_of(mine);
  const uint64_t their_bytes = bytes_of(theirs);
  const bool sizes =
      (d.slip == Slip::count || d.slip == Slip::dtype) && my_bytes != 0 && their_bytes != 0;
  if (sizes && my_bytes == their_bytes) {
    text += fmt::format(" ({} bytes on both sides)", my_bytes);
  } else if (sizes) {
    text += fmt::format(" ({} against {} bytes)", my_bytes, their_bytes);
  }
  if (d.repeats != 0) text += fmt::format(", and so at {} later positions", d.repeats);
  return text;
}

uint32_t node_of(const Case& c, uint32_t group, uint64_t seq) {
  for (uint32_t n = 0; n < c.graph.nodes().size(); ++n) {
    const Node& node = c.graph.nodes()[n];
    if (node.kind == NodeKind::collective && node.group == group && node.seq == seq) return n;
  }
  return kNone;
}

Draft draft_difference(const Case& c, const Difference& d) {
  const Group& group = c.group(d.group);
  const bool is_sure = !d.undecided && !d.predicted && d.slip != Slip::missing;
  Draft draft = make_draft(verdict_of(c, d), is_sure ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  std::vector<uint32_t> blamed = d.deviators;
  if (d.undecided) {
    blamed.insert(blamed.end(), d.camps[0].members.begin(), d.camps[0].members.end());
  }
  for (const uint32_t m : blamed) {
    Culprit culprit = culprit_of(c, group.members[m].process, d.group);
    culprit.seq = d.seq;
    const uint32_t quoted = d.slip == Slip::missing ? d.reference : m;
    culprit.op = std::string(rollcall::name_of(call_of(c, group, quoted, d.seq).kind));
    finding.culprits.push_back(std::move(culprit));
  }
  for (const Camp& camp : d.camps) {
    const Member& member = group.members[camp.members.front()];
    finding.evidence.push_back(
        op_evidence(c, member.process, member.lane.ops[d.seq - member.lane.first],
                    fmt::format("seq {} of {}, so {}", d.seq, group.name,
                                processes_text(c.index.run(), processes_of(group, camp.members)))));
  }
  const std::string who = processes_text(c.index.run(), processes_of(group, d.deviators));
  finding.summary = slip_text(c, d, who);
  if (d.undecided) finding.summary += "; nothing on file tells which side is right";
  if (d.predicted) finding.summary += " (as in the steps before)";
  finding.next = d.slip == Slip::missing || d.slip == Slip::extra || d.slip == Slip::order
                     ? "look at the branch that decides about this call on that rank"
                     : "compare the call sites: what the ranks computed this call from differs";
  std::vector<uint32_t> victims;
  for (const Member& member : group.members) victims.push_back(member.process);
  draft.since_ns = d.since_ns;
  draft.group = d.group;
  draft.seq = d.seq;
  if (const uint32_t n = node_of(c, d.group, d.seq); n != kNone) {
    draft.root = c.graph.root_of(n);
    const Root& root = c.graph.roots()[draft.root];
    victims.insert(victims.end(), root.victims.begin(), root.victims.end());
    if (c.job.is_stale(d.since_ns) && !c.job.all_ended_themselves)
      finding.severity = Severity::hang;
  }
  set_victims(c, victims, finding);
  return draft;
}

// What the two sides of a transfer must agree in.
Signature shape_of(const Op& op) { return {.count = op.count, .datatype = op.datatype}; }

std::string shape_text(const Op& op) {
  return fmt::format("{} {}", op.count, datatype_text(op.datatype));
}

// What most transfers of this channel are, as the sender and the receiver name it.
Signature usual_shape(const Case& c, const Channel& channel, uint32_t sender, uint32_t receiver,
                      uint64_t except) {
  std::map<std::pair<uint64_t, uint8_t>, size_t> times;
  const auto add = [&](uint32_t p, const std::vector<uint32_t>& ops, uint64_t first) {
    for (uint64_t i = 0; i < ops.size(); ++i) {
      if (first + i == except || ops[i] == kNoRecord) continue;
      const Op& op = c.index.op(p, ops[i]);
      ++times[{op.count, op.datatype}];
    }
  };
  add(sender, channel.sends, channel.first_send);
  add(receiver, channel.recvs, channel.first_recv);
  const auto most = std::max_element(
      times.begin(), times.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
  if (most == times.end()) return {.count = ~uint64_t{0}};
  return {.count = most->first.first, .datatype = most->first.second};
}

Culprit pair_culprit(const Case& c, uint32_t p, const Channel& channel, uint64_t seq, bool sender) {
  Culprit culprit = culprit_of(c, p, channel.group);
  culprit.p2p_seq = seq;
  culprit.peer = sender ? channel.target : channel.source;
  culprit.op = sender ? "Send" : "Recv";
  return culprit;
}

std::vector<Signature> sizes_of(const Case& c, uint32_t p, const std::vector<uint32_t>& ops,
                                uint64_t first, uint64_t begin, uint64_t end) {
  std::vector<Signature> sizes;
  for (uint64_t seq = std::max(first, begin); seq < std::min(first + ops.size(), end); ++seq) {
    if (ops[seq - first] == kNoRecord) break;
    Signature size = signature_of(c.index.op(p, ops[seq - first]));
    size.kind = OpKind::Send;
    sizes.push_back(size);
  }
  return sizes;
}

// What the transfers of this side before lead one to expect at this position.
std::optional<Signature> expected_shape(const Case& c, uint32_t p, const std::vector<uint32_t>& ops,
                                        uint64_t first, uint64_t seq) {
  constexpr uint64_t kHistory = 2048;
  std::vector<Signature> history;
  for (uint64_t at = std::max(first, seq > kHistory ? seq - kHistory : 0);
       at < std::min(first + ops.size(), seq); ++at) {
    // What lies before a hole leads up to the hole.
    const uint32_t op = ops[at - first];
    if (op == kNoRecord) history.clear();
    if (op != kNoRecord) history.push_back(signature_of(c.index.op(p, op)));
  }
  const std::optional<Signature> next = expected_next(history);
  if (!next) return std::nullopt;
  return Signature{.count = next->count, .datatype = next->datatype};
}

// Which of the two did otherwise than before; of channels without a pattern, than most transfers.
struct OddSide {
  bool is_sender = false;
  bool is_receiver = false;
  bool is_by_order = false;
};
OddSide odd_side_of(const Case& c, const Channel& channel, uint32_t sender, uint32_t receiver,
                    uint64_t seq) {
  const Signature sent = shape_of(c.index.op(sender, channel.send_at(seq)));
  const Signature expected = shape_of(c.index.op(receiver, channel.recv_at(seq)));
  const std::optional<Signature> usually_sent =
      expected_shape(c, sender, channel.sends, channel.first_send, seq);
  const std::optional<Signature> usually_expected =
      expected_shape(c, receiver, channel.recvs, channel.first_recv, seq);
  if (usually_sent && usually_expected) {
    const bool sends_as_usual = agree(sent, *usually_sent);
    const bool expects_as_usual = agree(expected, *usually_expected);
    if (sends_as_usual != expects_as_usual) return {!sends_as_usual, !expects_as_usual, true};
  }
  const Signature usual = usual_shape(c, channel, sender, receiver, seq);
  const bool sends_usual = agree(sent, usual);
  const bool expects_usual = agree(expected, usual);
  return {expects_usual && !sends_usual, sends_usual && !expects_usual, false};
}

// One side may have left out a transfer, so that every later one meets the wrong partner.
Slip slip_of_pair(const Case& c, const Channel& channel, uint32_t sender, uint32_t receiver,
                  uint64_t seq) {
  constexpr uint64_t kTail = 64;
  const std::vector<Signature> sent =
      sizes_of(c, sender, channel.sends, channel.first_send, seq, seq + kTail);
  std::vector<Signature> expected =
      sizes_of(c, receiver, channel.recvs, channel.first_recv, seq, seq + kTail);
  if (sent.empty() || expected.empty()) return Slip::count;
  const size_t seen = expected.size();
  std::vector<Signature> history = sizes_of(c, receiver, channel.recvs, channel.first_recv, 0, seq);
  history.insert(history.end(), expected.begin(), expected.end());
  while (expected.size() < sent.size() + 4) {
    const std::optional<Signature> next = expected_next(history);
    if (!next) break;
    expected.push_back(*next);
    history.push_back(*next);
  }
  return align(sent, expected, seen).slip;
}

// One of the process's transfers up to `seq` stands where its steps before have another call: the
// sizes may not show at once that it is one too many.
bool has_made_more(const Case& c, uint32_t p, const std::vector<uint32_t>& ops, uint64_t first,
                   uint64_t seq) {
  constexpr uint64_t kNear = 4;
  for (uint64_t at = std::max(first, seq - std::min(seq, kNear)); at <= seq; ++at) {
    if (at - first >= ops.size()) break;
    const uint32_t op = ops[at - first];
    if (op != kNoRecord && is_out_of_place(c, p, op)) return true;
  }
  return false;
}

Draft draft_made_more(const Case& c, const Channel& channel, uint64_t seq, bool is_send) {
  const uint32_t sender = process_at(c, channel.group, channel.source);
  const uint32_t receiver = process_at(c, channel.group, channel.target);
  const Op& op = is_send ? c.index.op(sender, channel.send_at(seq))
                         : c.index.op(receiver, channel.recv_at(seq));
  Draft draft = make_draft(Verdict::p2p_unmatched, Confidence::likely);
  const uint32_t culprit = is_send ? sender : receiver;
  draft.finding.culprits.push_back(pair_culprit(c, culprit, channel, seq, is_send));
  draft.finding.summary = fmt::format(
      "{} made one {} more than {} expects, before p2p seq {} of {}, and than its own steps "
      "before: "
      "its later ones agree with the other side's, one position on",
      rank_text(c.process(culprit)), is_send ? "send" : "receive",
      rank_text(c.process(is_send ? receiver : sender)), seq, c.group(channel.group).name);
  draft.finding.next = "look at the branch that decides about this transfer on that rank";
  draft.since_ns = op.called_ns;
  return draft;
}

Draft draft_shifted_pair(const Case& c, const Channel& channel, uint64_t seq, bool send_missing) {
  const uint32_t sender = process_at(c, channel.group, channel.source);
  const uint32_t receiver = process_at(c, channel.group, channel.target);
  // The other side has left one out only where its own steps before say so.
  const std::optional<HabitBreak> habit = habit_break(c, send_missing ? sender : receiver);
  const bool left_out =
      habit && habit->alignment.slip == Slip::missing && habit->alignment.contradicted == 0;
  const bool is_more =
      !left_out &&
      (send_missing ? has_made_more(c, receiver, channel.recvs, channel.first_recv, seq)
                    : has_made_more(c, sender, channel.sends, channel.first_send, seq));
  if (is_more) return draft_made_more(c, channel, seq, !send_missing);
  const uint32_t culprit = send_missing ? sender : receiver;
  const Op& other = send_missing ? c.index.op(receiver, channel.recv_at(seq))
                                 : c.index.op(sender, channel.send_at(seq));
  Draft draft = make_draft(Verdict::p2p_unmatched, Confidence::likely);
  draft.finding.culprits.push_back(pair_culprit(c, culprit, channel, seq, send_missing));
  draft.finding.summary = fmt::format(
      "{} left out the {} that belongs to the {} of {} {} (p2p seq {} of {}): its later ones agree "
      "with the other side's, one position on",
      rank_text(c.process(culprit)), send_missing ? "send" : "receive",
      send_missing ? "receive" : "send", other.count, datatype_text(other.datatype), seq,
      c.group(channel.group).name);
  draft.finding.next = "look at the branch that decides about this transfer on that rank";
  draft.since_ns = other.called_ns;
  return draft;
}

Draft draft_mismatched(const Case& c, const Progress::PairFinding& pair) {
  const Channel& channel = c.index.channels()[pair.channel];
  const uint32_t sender = process_at(c, channel.group, channel.source);
  const uint32_t receiver = process_at(c, channel.group, channel.target);
  const uint32_t send_index = channel.send_at(pair.seq);
  const uint32_t recv_index = channel.recv_at(pair.seq);
  const Op& send = c.index.op(sender, send_index);
  const Op& recv = c.index.op(receiver, recv_index);
  const Slip slip = slip_of_pair(c, channel, sender, receiver, pair.seq);
  const bool is_shift = slip == Slip::missing || slip == Slip::extra;
  Draft draft = is_shift ? draft_shifted_pair(c, channel, pair.seq, slip == Slip::missing)
                         : make_draft(Verdict::p2p_mismatch, Confidence::certain);
  Finding& finding = draft.finding;
  const auto [only_sender, only_receiver, is_by_order] =
      odd_side_of(c, channel, sender, receiver, pair.seq);
  if (!is_shift) {
    if (!only_receiver)
      finding.culprits.push_back(pair_culprit(c, sender, channel, pair.seq, true));
    if (!only_sender)
      finding.culprits.push_back(pair_culprit(c, receiver, channel, pair.seq, false));
    finding.summary =
        fmt::format("{} sent {} to {}, which expects {} (p2p seq {} of {})",
                    rank_text(c.process(sender)), shape_text(send), rank_text(c.process(receiver)),
                    shape_text(recv), pair.seq, c.group(channel.group).name);
    if (only_sender || only_receiver) {
      finding.summary += is_by_order
                             ? fmt::format("; the transfers before lead one to expect {} here",
                                           shape_text(only_sender ? recv : send))
                             : fmt::format("; the other transfers between them agree with the {}",
                                           only_sender ? "receiver" : "sender");
    }
    finding.next = "compare how the two ranks compute the size and the type of this transfer";
  }
  finding.evidence.push_back(op_evidence(c, sender, send_index, ""));
  finding.evidence.push_back(op_evidence(c, receiver, recv_index, ""));
  draft.since_ns = std::min(send.called_ns, recv.called_ns);
  std::vector<uint32_t> victims{sender, receiver};
  for (uint32_t n = 0; n < c.graph.nodes().size(); ++n) {
    const Node& node = c.graph.nodes()[n];
    const bool is_it =
        node.kind == NodeKind::p2p && ((node.process == sender && node.op == send_index) ||
                                       (node.process == receiver && node.op == recv_index));
    if (!is_it || !node.is_disputed) continue;
    draft.root = c.graph.root_of(n);
    const Root& root = c.graph.roots()[draft.root];
    victims.insert(victims.end(), root.victims.begin(), root.victims.end());
    if (c.job.is_stale(draft.since_ns) && !c.job.all_ended_themselves) {
      finding.severity = Severity::hang;
    }
  }
  set_victims(c, victims, finding);
  return draft;
}

// A channel with more sends than receives.
struct Surplus {
  const Channel& channel;
  uint32_t sender;
  uint32_t receiver;
  const Op& send;  // the first without a receive
  uint64_t sent;
  uint64_t received;
};

Draft draft_surplus(const Case& c, const Surplus& s) {
  Draft draft = make_draft(Verdict::p2p_unmatched, Confidence::certain);
  draft.finding.culprits.push_back(pair_culprit(c, s.sender, s.channel, s.received, true));
  draft.finding.summary = fmt::format(
      "{} sent {} {} to {} that were never received: {} sends against {} receives between them on "
      "{}",
      rank_text(c.process(s.sender)), s.send.count, datatype_text(s.send.datatype),
      rank_text(c.process(s.receiver)), s.sent, s.received, c.group(s.channel.group).name);
  draft.finding.next = "find the send without a receive at the named call, or the receive left out";
  return draft;
}

// It called nothing since: the receive is owed, not passed by.
Draft draft_owed_receive(const Case& c, const Surplus& s) {
  Draft draft = make_draft(Verdict::missing_call, Confidence::likely);
  draft.finding.culprits.push_back(pair_culprit(c, s.receiver, s.channel, s.received, false));
  draft.finding.summary =
      fmt::format("{} has not received what {} sent it on {}, and called nothing since; {}",
                  rank_text(c.process(s.receiver)), rank_text(c.process(s.sender)),
                  c.group(s.channel.group).name, doing_text(c.index, c.job, s.receiver));
  draft.finding.next = "look at the stack or the log of that rank";
  return draft;
}

// The others have not ended: it left too early, rather than that the sender sent too much.
Draft draft_left_early(const Case& c, const Surplus& s) {
  Draft draft = make_draft(Verdict::rank_dead, Confidence::likely);
  draft.finding.culprits.push_back(pair_culprit(c, s.receiver, s.channel, s.received, false));
  draft.finding.summary = fmt::format(
      "{} ended by itself and never received {} {} that {} sent it on {}: {} sends against {} "
      "receives between them",
      rank_text(c.process(s.receiver)), s.send.count, datatype_text(s.send.datatype),
      rank_text(c.process(s.sender)), c.group(s.channel.group).name, s.sent, s.received);
  draft.finding.next = "look at the log of that rank: why it ended before the others";
  return draft;
}

Draft draft_unknown_receive(const Case& c, const Surplus& s) {
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary = fmt::format(
      "{} has not received what {} sent it on {}, but may itself wait for a rank whose records "
      "are not all on file",
      rank_text(c.process(s.receiver)), rank_text(c.process(s.sender)),
      c.group(s.channel.group).name);
  draft.finding.next = "copy the missing file into the directory, if there is one: it decides";
  return draft;
}

Draft draft_of_surplus(const Case& c, const Surplus& s) {
  const ProcessState& state = c.job.processes[s.receiver];
  if (c.job.all_ended_themselves) return draft_surplus(c, s);
  const bool may_wait = c.doubt.may_wait_for_unknown(s.receiver) || c.process(s.receiver).torn != 0;
  if (may_wait) return draft_unknown_receive(c, s);
  if (state.ended_itself) return draft_left_early(c, s);
  return state.last_call_ns < s.send.called_ns ? draft_owed_receive(c, s) : draft_surplus(c, s);
}

// A small send that NCCL buffered hangs nobody and is found by counting.
void draft_unreceived(const Case& c, uint32_t channel_index, std::vector<Draft>& drafts) {
  const Channel& channel = c.index.channels()[channel_index];
  const uint32_t sender = process_at(c, channel.group, channel.source);
  const uint32_t receiver = process_at(c, channel.group, channel.target);
  // Whoever gets a signal need not wait for it.
  if (channel.carries_signals) return;
  if (sender == kNone || receiver == kNone || channel.sends.empty()) return;
  // What an abort cut off is not for the sender to answer for.
  const uint32_t m = c.index.find_member(channel.group, channel.target);
  const Member& target = c.group(channel.group).members[m];
  const CommState state = c.process(receiver).comms[target.comm].state;
  if (state == CommState::aborted || state == CommState::revoked) return;
  const uint64_t received = channel.recvs.empty() ? 0 : channel.first_recv + channel.recvs.size();
  const uint64_t sent = channel.first_send + channel.sends.size();
  // A record that was torn when the process ended may be the one.
  if (sent <= received + c.process(receiver).torn || channel.first_send > received) return;
  if (c.process(receiver).first_complete_ticket > 1 && channel.recvs.empty()) return;
  // Who waits behind a transfer that the two sides disagree about will receive the rest after it.
  const bool waits = !c.progress.waiting(receiver).empty();
  if (!c.progress.mismatched_pairs().empty() && waits) return;
  const trace::Knowledge& knowledge = c.process(receiver).knowledge;
  if (!knowledge.head || !knowledge.tells_absence()) return;
  const uint32_t i = channel.send_at(received);
  if (i == kNoRecord || c.index.op(sender, i).graph != 0) return;
  const Op& send = c.index.op(sender, i);
  if (!c.job.all_ended_themselves && !c.job.is_stale(send.called_ns)) return;
  // It waits in another call, and will receive when that is through.
  const bool has_called_since = c.job.processes[receiver].last_call_ns >= send.called_ns;
  if (waits && !c.job.all_ended_themselves && !has_called_since) return;
  Draft draft = draft_of_surplus(c, {channel, sender, receiver, send, sent, received});
  draft.finding.evidence.push_back(op_evidence(c, sender, i, fmt::format("p2p seq {}", received)));
  draft.finding.evidence.push_back(process_evidence(c, receiver));
  draft.since_ns = send.called_ns;
  set_victims(c, {receiver}, draft.finding);
  drafts.push_back(std::move(draft));
}

}  // namespace

std::vector<Draft> judge_differences(const Case& c) {
  std::vector<Draft> drafts;
  for (const Difference& d : c.differences) drafts.push_back(draft_difference(c, d));
  return drafts;
}

std::vector<Draft> judge_pairs(const Case& c, bool quiet) {
  std::vector<Draft> drafts;
  // Behind the first of a channel others may differ because of it.
  std::map<uint32_t, uint64_t> first;
  for (const Progress::PairFinding& pair : c.progress.mismatched_pairs()) {
    const auto [found, is_new] = first.try_emplace(pair.channel, pair.seq);
    if (!is_new) found->second = std::min(found->second, pair.seq);
  }
  for (const auto& [channel, seq] : first) drafts.push_back(draft_mismatched(c, {channel, seq}));
  std::vector<Draft> unreceived;
  for (uint32_t i = 0; quiet && i < c.index.channels().size(); ++i) {
    draft_unreceived(c, i, unreceived);
  }
  // Of those that a missing file leaves open one is enough, and none where another is certain.
  const auto is_open = [](const Draft& d) { return d.finding.verdict == Verdict::insufficient; };
  const bool all_open = std::all_of(unreceived.begin(), unreceived.end(), is_open);
  if (!all_open) std::erase_if(unreceived, is_open);
  if (all_open && unreceived.size() > 1) unreceived.resize(1);
  std::move(unreceived.begin(), unreceived.end(), std::back_inserter(drafts));
  return drafts;
}

}  // namespace rollcall::analysis
