// Sends and receives become findings: pairs that disagree, and sends that nobody received.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "analysis/gpu/fronts.h"
#include "analysis/rules/rules.h"
#include "analysis/slips/other_side.h"
#include "analysis/terms/numbers.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

// Transfers that disagree, told one by one: more than a single rank can disagree about in an
// exchange of five hundred. Where half of the ranks name another size it would be a hundred
// thousand.
constexpr size_t kPairsMax = 1024;

std::string shape_text(const Op& op) {
  return fmt::format("{} {}", op.count, datatype_text(op.datatype));
}

Culprit pair_culprit(const Facts& facts, uint32_t p, const Channel& channel, uint64_t seq,
                     bool sender) {
  Culprit culprit = culprit_of(facts, p, channel.group);
  culprit.p2p_seq = seq;
  culprit.peer = sender ? channel.target : channel.source;
  culprit.op = sender ? "Send" : "Recv";
  return culprit;
}

std::string_view verb_of(const ChannelSide& side) { return side.is_sender ? "send" : "receive"; }

// "the receive that belongs to the send of 64 float32", or the first of several.
std::string left_out_text(const ChannelSide& odd, const ChannelSide& other, const Op& quoted,
                          uint32_t length) {
  const std::string belongs =
      fmt::format("belongs to the {} of {}", verb_of(other), shape_text(quoted));
  return length == 1 ? fmt::format("the {} that {}", verb_of(odd), belongs)
                     : fmt::format("{} {}s, the first of which {}", length, verb_of(odd), belongs);
}

Draft draft_shifted_pair(const Facts& facts, const Channel& channel, uint64_t seq,
                         const PairSlip& slip) {
  const ChannelSide sender = sender_of(facts, channel);
  const ChannelSide receiver = receiver_of(facts, channel);
  const ChannelSide& odd = slip.is_by_sender ? sender : receiver;
  const ChannelSide& other = slip.is_by_sender ? receiver : sender;
  const bool is_missing = slip.slip == Slip::missing;
  const ChannelSide& quoted_side = is_missing ? other : odd;
  const Op& quoted = facts.index.op(quoted_side.process, quoted_side.at(seq));
  const std::string done =
      is_missing ? "left out " + left_out_text(odd, other, quoted, slip.length)
                 : fmt::format("made {} more than {} expects{}",
                               slip.length == 1 ? fmt::format("one {}", verb_of(odd))
                                                : fmt::format("{} {}s", slip.length, verb_of(odd)),
                               rank_text(facts.process(other.process)),
                               slip.is_by_peers ? "" : ", and than its own steps before");
  Draft draft = make_draft(Verdict::p2p_unmatched, Confidence::likely,
                           is_missing ? Misstep::left_out : Misstep::made_more);
  draft.finding.culprits.push_back(pair_culprit(facts, odd.process, channel, seq, odd.is_sender));
  draft.finding.summary =
      fmt::format("{} {} (p2p seq {} of {}): its later ones agree with {}, {} on",
                  rank_text(facts.process(odd.process)), done, seq, facts.group(channel.group).name,
                  slip.is_by_order ? "its own steps before" : "the other side's",
                  slip.length == 1 ? "one position" : fmt::format("{} positions", slip.length));
  draft.finding.next = "look at the branch that decides about this transfer on that rank";
  draft.since_ns = quoted.called_ns;
  return draft;
}

// What a process names transfers that it disagrees about, and with whom.
struct TransferDispute {
  std::set<uint32_t> peers;
  std::set<std::pair<uint64_t, uint8_t>> shapes;  // count, datatype
};
using TransferDisputes = std::map<uint32_t, TransferDispute>;

// It disagrees with several, and each of them with nobody else: always in one way, and all alike,
// as two peers that each have another opinion may each be wrong. Three are not wrong at once.
bool is_odd(const TransferDisputes& disputes, uint32_t p) {
  constexpr size_t kAlone = 3;
  const TransferDispute& own = disputes.at(p);
  std::set<std::pair<uint64_t, uint8_t>> theirs;
  for (const uint32_t peer : own.peers) {
    const TransferDispute& other = disputes.at(peer);
    if (other.peers.size() != 1) return false;
    theirs.insert(other.shapes.begin(), other.shapes.end());
  }
  if (own.peers.size() >= kAlone) return true;
  return own.peers.size() > 1 && own.shapes.size() == 1 && theirs.size() == 1;
}

// Who is odd of two sides of a transfer of which nothing between the two tells.
void find_odd(const TransferDisputes& disputes, uint32_t sender, uint32_t receiver,
              PairSlip& slip) {
  if (slip.is_by_sender != slip.is_by_receiver) return;
  slip.is_by_sender = is_odd(disputes, sender);
  slip.is_by_receiver = is_odd(disputes, receiver);
  slip.is_by_peers = slip.is_by_sender || slip.is_by_receiver;
}

// One side made a transfer more, or the other left one out. Which of them it was is for their other
// peers to say: who disagrees with several, of whom none disagrees with anybody else, is it.
void turn_by_peers(const TransferDisputes& disputes, uint32_t sender, uint32_t receiver,
                   PairSlip& slip) {
  const uint32_t blamed = slip.is_by_sender ? sender : receiver;
  const uint32_t other = slip.is_by_sender ? receiver : sender;
  if (is_odd(disputes, blamed) || !is_odd(disputes, other)) return;
  slip.slip = slip.slip == Slip::missing ? Slip::extra : Slip::missing;
  std::swap(slip.is_by_sender, slip.is_by_receiver);
  slip.is_by_peers = true;
}

// When the first of the two sides called.
int64_t since_of(const Facts& facts, const Channel& channel, uint64_t seq) {
  const uint32_t sender = process_at(facts, channel.group, channel.source);
  const uint32_t receiver = process_at(facts, channel.group, channel.target);
  return std::min(facts.index.op(sender, channel.send_at(seq)).called_ns,
                  facts.index.op(receiver, channel.recv_at(seq)).called_ns);
}

// What tells which of the two sides is wrong; empty where nothing does. By sender and receiver.
std::string witness_text(const Facts& facts, std::array<uint32_t, 2> sides,
                         std::array<std::reference_wrapper<const Op>, 2> ops, const PairSlip& slip,
                         const TransferDisputes& disputes) {
  if (slip.is_by_sender == slip.is_by_receiver) return "";
  const uint32_t odd = slip.is_by_sender ? sides[0] : sides[1];
  const uint32_t other = slip.is_by_sender ? sides[1] : sides[0];
  if (!slip.agreed_by.empty()) {
    return fmt::format(
        "; about the other sizes of this exchange, which are as new, {} agrees with {}",
        rank_text(facts.process(other)), processes_text(facts.index.run(), slip.agreed_by));
  }
  if (slip.is_by_peers) {
    const std::set<uint32_t>& peers = disputes.at(odd).peers;
    return fmt::format(
        "; {} disagree about transfers with {} alone",
        processes_text(facts.index.run(), std::vector<uint32_t>(peers.begin(), peers.end())),
        rank_text(facts.process(odd)));
  }
  if (slip.is_by_order) {
    return fmt::format("; the transfers before lead one to expect {} here",
                       shape_text(slip.is_by_sender ? ops[1] : ops[0]));
  }
  return fmt::format("; other transfers between them agree with the {}, none with the {}",
                     slip.is_by_sender ? "receiver" : "sender",
                     slip.is_by_sender ? "sender" : "receiver");
}

// What the two sides tell, and the other peers of both.
PairSlip slip_among_peers(const Facts& facts, const Channel& channel, uint64_t seq,
                          const TransferDisputes& disputes) {
  const uint32_t sender = process_at(facts, channel.group, channel.source);
  const uint32_t receiver = process_at(facts, channel.group, channel.target);
  PairSlip slip = slip_of_pair(facts, channel, seq);
  if (slip.slip == Slip::count) {
    find_odd(disputes, sender, receiver, slip);
  } else {
    turn_by_peers(disputes, sender, receiver, slip);
  }
  if (!slip.agreed_by.empty() && is_odd(disputes, slip.is_by_sender ? sender : receiver)) {
    slip.agreed_by.clear();
    slip.is_by_peers = true;
  }
  return slip;
}

// In who named a wrong size. That the two disagree is certain.
Confidence confidence_in(const PairSlip& slip) {
  const bool is_guess = slip.is_guess && !slip.is_by_peers;
  return is_guess || !slip.agreed_by.empty() ? Confidence::likely : Confidence::certain;
}

Draft draft_mismatched(const Facts& facts, const Playback::PairFinding& pair,
                       const TransferDisputes& disputes) {
  const Channel& channel = facts.index.channels()[pair.channel];
  const uint32_t sender = process_at(facts, channel.group, channel.source);
  const uint32_t receiver = process_at(facts, channel.group, channel.target);
  const uint32_t send_index = channel.send_at(pair.seq);
  const uint32_t recv_index = channel.recv_at(pair.seq);
  const Op& send = facts.index.op(sender, send_index);
  const Op& recv = facts.index.op(receiver, recv_index);
  const PairSlip slip = slip_among_peers(facts, channel, pair.seq, disputes);
  const bool is_shift = slip.slip != Slip::count;
  Draft draft = is_shift ? draft_shifted_pair(facts, channel, pair.seq, slip)
                         : make_draft(Verdict::p2p_mismatch, Confidence::certain);
  Finding& finding = draft.finding;
  if (is_shift && slip.is_by_peers) {
    finding.summary += witness_text(facts, {sender, receiver}, {send, recv}, slip, disputes);
  }
  if (!is_shift) {
    if (!slip.is_by_receiver)
      finding.culprits.push_back(pair_culprit(facts, sender, channel, pair.seq, true));
    if (!slip.is_by_sender)
      finding.culprits.push_back(pair_culprit(facts, receiver, channel, pair.seq, false));
    finding.summary = fmt::format("{} sent {} to {}, which expects {} (p2p seq {} of {})",
                                  rank_text(facts.process(sender)), shape_text(send),
                                  rank_text(facts.process(receiver)), shape_text(recv), pair.seq,
                                  facts.group(channel.group).name);
    finding.confidence = confidence_in(slip);
    finding.summary += witness_text(facts, {sender, receiver}, {send, recv}, slip, disputes);
    finding.next = "compare how the two ranks compute the size and the type of this transfer";
    if (slip.is_crossed) {
      finding.misstep = Misstep::reordered;
      finding.summary +=
          "; with the next transfer of this exchange it is the other way round: the "
          "two ranks call the two in another order";
      finding.next =
          "transfers between two ranks are matched in the order of the calls: bring the sends of "
          "the one and the receives of the other into one order";
    }
  }
  finding.evidence.push_back(op_evidence(facts, sender, send_index, ""));
  finding.evidence.push_back(op_evidence(facts, receiver, recv_index, ""));
  draft.since_ns = since_of(facts, channel, pair.seq);
  std::vector<uint32_t> victims{sender, receiver};
  const uint32_t sends = facts.graph.find_p2p(sender, send_index);
  const uint32_t receives = facts.graph.find_p2p(receiver, recv_index);
  for (const uint32_t n : {std::min(sends, receives), std::max(sends, receives)}) {
    if (n == kNone || !facts.graph.nodes()[n].is_disputed) continue;
    draft.root = facts.graph.root_of(n);
    const Root& root = facts.graph.roots()[draft.root];
    victims.insert(victims.end(), root.victims.begin(), root.victims.end());
    if (facts.job.is_stale(draft.since_ns) && !facts.job.all_ended_themselves) {
      finding.severity = Severity::hang;
    }
  }
  set_victims(facts, victims, finding);
  return draft;
}

using PairPlaces = std::map<uint32_t, uint64_t>;  // p2p seq by channel

TransferDisputes disputes_of(const Facts& facts, const PairPlaces& places) {
  TransferDisputes disputes;
  for (const auto& [i, seq] : places) {
    const Channel& channel = facts.index.channels()[i];
    const uint32_t sender = process_at(facts, channel.group, channel.source);
    const uint32_t receiver = process_at(facts, channel.group, channel.target);
    const auto add = [&](uint32_t p, uint32_t peer, const Op& op) {
      disputes[p].peers.insert(peer);
      disputes[p].shapes.emplace(op.count, op.datatype);
    };
    add(sender, receiver, facts.index.op(sender, channel.send_at(seq)));
    add(receiver, sender, facts.index.op(receiver, channel.recv_at(seq)));
  }
  return disputes;
}

PairPlaces earliest_of(const Facts& facts, const PairPlaces& places) {
  if (places.size() <= kPairsMax) return places;
  std::vector<std::tuple<int64_t, uint32_t, uint64_t>> sorted;
  for (const auto& [channel, seq] : places) {
    sorted.emplace_back(since_of(facts, facts.index.channels()[channel], seq), channel, seq);
  }
  std::nth_element(sorted.begin(), sorted.begin() + kPairsMax, sorted.end());
  PairPlaces earliest;
  for (size_t i = 0; i < kPairsMax; ++i) {
    earliest.emplace(std::get<1>(sorted[i]), std::get<2>(sorted[i]));
  }
  return earliest;
}

// With the one that will lead.
void mention_untold(std::vector<Draft>& drafts, size_t untold) {
  const auto lead =
      std::min_element(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) {
        return std::make_tuple(b.finding.severity, a.since_ns) <
               std::make_tuple(a.finding.severity, b.since_ns);
      });
  lead->finding.summary +=
      fmt::format("; {} later transfers that two ranks disagree about are not listed", untold);
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

Draft draft_surplus(const Facts& facts, const Surplus& s) {
  Draft draft = make_draft(Verdict::p2p_unmatched, Confidence::certain);
  draft.finding.culprits.push_back(pair_culprit(facts, s.sender, s.channel, s.received, true));
  draft.finding.summary = fmt::format(
      "{} sent {} {} to {} that were never received: {} sends against {} receives between them on "
      "{}",
      rank_text(facts.process(s.sender)), s.send.count, datatype_text(s.send.datatype),
      rank_text(facts.process(s.receiver)), s.sent, s.received, facts.group(s.channel.group).name);
  draft.finding.next = "find the send without a receive at the named call, or the receive left out";
  return draft;
}

// It called nothing since: the receive is owed, not passed by.
Draft draft_owed_receive(const Facts& facts, const Surplus& s) {
  const ProcessState& state = facts.job.processes[s.receiver];
  const trace::Process& process = facts.process(s.receiver);
  const Verdict verdict = state.stopped ? Verdict::rank_stopped
                          : state.gone  ? Verdict::rank_dead
                                        : Verdict::missing_call;
  Draft draft = make_draft(verdict, state.stopped ? Confidence::certain : Confidence::likely);
  Finding& finding = draft.finding;
  if (verdict == Verdict::missing_call) finding.misstep = Misstep::not_reached;
  finding.culprits.push_back(pair_culprit(facts, s.receiver, s.channel, s.received, false));
  std::string how;
  finding.next = "look at the stack or the log of that rank";
  if (verdict == Verdict::rank_stopped) {
    how = fmt::format("is stopped ({}) and ", process.liveness_evidence);
    finding.next = continue_text(process, rank_text(process));
  } else if (verdict == Verdict::rank_dead) {
    how = fmt::format("{} and ", death_text(facts.job.live));
    finding.next = fmt::format("look at the log and exit status of {}, and at `dmesg` there",
                               rank_text(process));
  }
  finding.summary = fmt::format(
      "{} {}has not received what {} sent it on {}, and called nothing since; {}",
      rank_text(process), how, rank_text(facts.process(s.sender)),
      facts.group(s.channel.group).name, doing_text(facts.index, facts.job, s.receiver));
  return draft;
}

// The others have not ended: it left too early, rather than that the sender sent too much.
Draft draft_left_early(const Facts& facts, const Surplus& s) {
  Draft draft = make_draft(Verdict::rank_dead, Confidence::likely);
  draft.finding.culprits.push_back(pair_culprit(facts, s.receiver, s.channel, s.received, false));
  draft.finding.summary = fmt::format(
      "{} ended by itself and never received {} {} that {} sent it on {}: {} sends against {} "
      "receives between them",
      rank_text(facts.process(s.receiver)), s.send.count, datatype_text(s.send.datatype),
      rank_text(facts.process(s.sender)), facts.group(s.channel.group).name, s.sent, s.received);
  draft.finding.next = "look at the log of that rank: why it ended before the others";
  return draft;
}

Draft draft_unknown_receive(const Facts& facts, const Surplus& s) {
  Draft draft = make_draft(Verdict::insufficient, Confidence::open);
  draft.finding.summary = fmt::format(
      "{} has not received what {} sent it on {}, but may itself wait for a rank whose records "
      "are not all on file",
      rank_text(facts.process(s.receiver)), rank_text(facts.process(s.sender)),
      facts.group(s.channel.group).name);
  draft.finding.next = "copy the missing file into the directory, if there is one: it decides";
  return draft;
}

Draft draft_of_surplus(const Facts& facts, const Surplus& s) {
  const ProcessState& state = facts.job.processes[s.receiver];
  if (facts.job.all_ended_themselves) return draft_surplus(facts, s);
  const bool may_wait =
      facts.unheard.may_wait_for_unknown(s.receiver) || facts.process(s.receiver).torn != 0;
  if (may_wait) return draft_unknown_receive(facts, s);
  if (state.ended_itself) return draft_left_early(facts, s);
  return state.last_call_ns < s.send.called_ns ? draft_owed_receive(facts, s)
                                               : draft_surplus(facts, s);
}

bool has_aborted(const Facts& facts, const Channel& channel, int32_t rank) {
  const uint32_t m = facts.index.find_member(channel.group, rank);
  const Member& member = facts.group(channel.group).members[m];
  const CommState state = facts.process(member.process).comms[member.comm].state;
  return state == CommState::aborted || state == CommState::revoked;
}

// Nothing where as many were received, or what is on file does not tell.
std::optional<Surplus> surplus_of(const Facts& facts, const Channel& channel) {
  const uint32_t sender = process_at(facts, channel.group, channel.source);
  const uint32_t receiver = process_at(facts, channel.group, channel.target);
  // Whoever gets a signal need not wait for it.
  if (channel.carries_signals) return std::nullopt;
  if (sender == kNone || receiver == kNone || channel.sends.empty()) return std::nullopt;
  // What an abort cut off is not for the sender to answer for.
  if (has_aborted(facts, channel, channel.source) || has_aborted(facts, channel, channel.target))
    return std::nullopt;
  const uint64_t received = channel.recvs.empty() ? 0 : channel.first_recv + channel.recvs.size();
  const uint64_t sent = channel.first_send + channel.sends.size();
  // A record that was torn when the process ended may be the one.
  if (sent <= received + facts.process(receiver).torn) return std::nullopt;
  const uint32_t i = channel.send_at(received);
  if (i == kNoRecord || facts.index.op(sender, i).graph != 0) return std::nullopt;
  return Surplus{channel, sender, receiver, facts.index.op(sender, i), sent, received};
}

// A receive that is not on file was not called.
bool tells_all_receives(const Facts& facts, const Surplus& s) {
  const trace::Process& receiver = facts.process(s.receiver);
  if (receiver.first_complete_ticket > 1 && s.channel.recvs.empty()) return false;
  return receiver.knowledge.head && receiver.knowledge.tells_absence();
}

// The receiver may only not have come to it yet.
bool may_still_receive(const Facts& facts, const Surplus& s) {
  const bool waits = !facts.playback.waiting(s.receiver).empty();
  // Who waits behind a transfer that the two sides disagree about will receive the rest after it.
  if (waits && !facts.playback.mismatched_pairs().empty()) return true;
  if (facts.job.all_ended_themselves) return false;
  if (!facts.job.is_stale(s.send.called_ns)) return true;
  // It waits in another call, and will receive when that is through.
  const bool has_called_since = facts.job.processes[s.receiver].last_call_ns >= s.send.called_ns;
  if (waits && !has_called_since) return true;
  // So it is where its GPU has stood in what it called, whoever that waits for.
  return waits_for_its_gpu(facts, s.receiver);
}

// A small send that NCCL buffered hangs nobody and is found by counting.
std::optional<Draft> draft_unreceived(const Facts& facts, const Channel& channel) {
  const std::optional<Surplus> surplus = surplus_of(facts, channel);
  if (!surplus || !tells_all_receives(facts, *surplus) || may_still_receive(facts, *surplus))
    return std::nullopt;
  Draft draft = draft_of_surplus(facts, *surplus);
  draft.finding.evidence.push_back(op_evidence(facts, surplus->sender,
                                               channel.send_at(surplus->received),
                                               fmt::format("p2p seq {}", surplus->received)));
  draft.finding.evidence.push_back(process_evidence(facts, surplus->receiver));
  draft.since_ns = surplus->send.called_ns;
  set_victims(facts, {surplus->receiver}, draft.finding);
  return draft;
}

}  // namespace

std::vector<Draft> judge_pairs(const Facts& facts, bool quiet) {
  std::vector<Draft> drafts;
  // Behind the first of a channel others may differ because of it.
  PairPlaces first;
  for (const Playback::PairFinding& pair : facts.playback.mismatched_pairs()) {
    const auto [found, is_new] = first.try_emplace(pair.channel, pair.seq);
    if (!is_new) found->second = std::min(found->second, pair.seq);
  }
  const TransferDisputes disputes = disputes_of(facts, first);
  const PairPlaces told = earliest_of(facts, first);
  for (const auto& [channel, seq] : told) {
    drafts.push_back(draft_mismatched(facts, {channel, seq}, disputes));
  }
  if (told.size() < first.size()) mention_untold(drafts, first.size() - told.size());
  std::vector<Draft> unreceived;
  for (uint32_t i = 0; quiet && i < facts.index.channels().size(); ++i) {
    std::optional<Draft> draft = draft_unreceived(facts, facts.index.channels()[i]);
    if (draft) unreceived.push_back(std::move(*draft));
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
