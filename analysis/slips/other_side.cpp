#include "analysis/slips/other_side.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "analysis/alignment/expectation.h"
#include "analysis/alignment/limits.h"
#include "analysis/slips/own_past.h"
#include "analysis/slips/usual_call.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

// What the two sides of a transfer must agree in.
Signature shape_of(const Op& op) { return {.count = op.count, .datatype = op.datatype}; }

// Whether another transfer of this channel is of this shape, as its sender or its receiver names
// it.
bool occurs_elsewhere(const Facts& facts, const Channel& channel, const Signature& shape,
                      uint64_t except) {
  for (const ChannelSide& side : {sender_of(facts, channel), receiver_of(facts, channel)}) {
    for (uint64_t seq = side.first; seq < side.end(); ++seq) {
      if (seq == except || side.at(seq) == kNoRecord) continue;
      if (agree(shape_of(facts.index.op(side.process, side.at(seq))), shape)) return true;
    }
  }
  return false;
}

// A transfer as either side names it.
Signature size_of(const Op& op) {
  Signature size = signature_of(op);
  size.kind = OpKind::Send;
  return size;
}

std::vector<Signature> sizes_of(const Facts& facts, const ChannelSide& side, uint64_t begin,
                                uint64_t end) {
  std::vector<Signature> sizes;
  for (uint64_t seq = std::max(side.first, begin); seq < std::min(side.end(), end); ++seq) {
    if (side.at(seq) == kNoRecord) break;
    sizes.push_back(size_of(facts.index.op(side.process, side.at(seq))));
  }
  return sizes;
}

// The transfers of this side before a position, without those that lie before a hole: these lead up
// to the hole.
struct PairHistory {
  std::vector<Signature> sizes;
  uint64_t first = 0;  // p2p seq of the first
};
PairHistory history_of(const Facts& facts, const ChannelSide& side, uint64_t seq) {
  PairHistory history{.sizes = {},
                      .first = std::max(side.first, seq - std::min(seq, kCallsBeforeMax))};
  for (uint64_t at = history.first; at < std::min(side.end(), seq); ++at) {
    if (side.at(at) == kNoRecord) {
      history = {.sizes = {}, .first = at + 1};
    } else {
      history.sizes.push_back(size_of(facts.index.op(side.process, side.at(at))));
    }
  }
  return history;
}

// The size of this transfer tells nothing.
bool changes(const Facts& facts, const ChannelSide& side, uint64_t seq) {
  return facts.sizes.changes(side.process, facts.index.op(side.process, side.at(seq)));
}

bool begins_group(const Facts& facts, const ChannelSide& side, uint64_t seq) {
  if (seq == 0 || side.at(seq - 1) == kNoRecord) return true;
  return facts.index.op(side.process, side.at(seq - 1)).group !=
         facts.index.op(side.process, side.at(seq)).group;
}

// This transfer and the next are of one group, and stand in it where the expected one did: the same
// sizes in another order are none left out then.
bool are_where_usual(const Facts& facts, const ChannelSide& side, uint64_t seq,
                     const PairHistory& history) {
  const bool is_whole = side.at(seq + 1) != kNoRecord && !begins_group(facts, side, seq + 1) &&
                        facts.index.op(side.process, side.at(seq)).group != 0;
  const std::optional<Expectation> usual = expectation_of(history.sizes);
  return is_whole && usual &&
         begins_group(facts, side, history.first + usual->index) == begins_group(facts, side, seq);
}

// The next size is foreseen only because the newest ones are alike, and those before are others:
// where a size is new, as many transfers may have it as a step has.
bool is_short_run(const PairHistory& history) {
  const std::vector<Signature>& sizes = history.sizes;
  const auto other = std::find_if(sizes.rbegin(), sizes.rend(), [&](const Signature& size) {
    return !agree(size, sizes.back());
  });
  const auto run = static_cast<size_t>(other - sizes.rbegin());
  const std::optional<Expectation> usual = expectation_of(sizes);
  return run * 2 < sizes.size() && usual && usual->index + 1 == sizes.size();
}

// Of all its calls, with whomever.
bool has_slipped(const Facts& facts, uint32_t p, Slip slip) {
  const std::optional<HabitBreak> habit = habit_break(facts, p);
  return habit && habit->alignment.slip == slip && habit->alignment.contradicted == 0;
}

// One side goes on as it always did, the other does not: how its transfers follow from its own.
std::optional<PairSlip> slip_by_order(const Facts& facts, const Channel& channel, uint64_t seq) {
  std::optional<PairSlip> found;
  for (const ChannelSide& side : {sender_of(facts, channel), receiver_of(facts, channel)}) {
    const PairHistory history = history_of(facts, side, seq);
    const std::vector<Signature> calls = sizes_of(facts, side, seq, seq + kCallsBehindMax);
    const std::vector<Signature> usual = expected_calls(history.sizes, calls.size() + kSlipMax);
    if (calls.empty() || usual.empty()) return std::nullopt;
    if (agree(calls.front(), usual.front())) continue;
    if (found) return std::nullopt;
    const Alignment alignment =
        align(calls, usual, usual.size(),
              {.has_left_out = has_slipped(facts, side.process, Slip::missing)});
    const bool is_order = alignment.may_be_order && (are_where_usual(facts, side, seq, history) ||
                                                     has_slipped(facts, side.process, Slip::order));
    // One transfer that happens to be of a later one's size does not carry a longer slip, unless
    // that is one of all its calls.
    const bool is_carried =
        alignment.matched >= alignment.length || has_slipped(facts, side.process, alignment.slip);
    const bool is_shift = !is_order && is_carried &&
                          (alignment.slip == Slip::missing || alignment.slip == Slip::extra);
    found = PairSlip{.slip = is_shift ? alignment.slip : Slip::count,
                     .length = is_shift ? alignment.length : 1,
                     .is_by_sender = side.is_sender,
                     .is_by_receiver = !side.is_sender,
                     .is_by_order = true,
                     .is_guess = is_short_run(history)};
  }
  return found;
}

// One of the process's transfers up to `seq` stands where its steps before have another call: the
// sizes may not show at once that it is one too many.
bool has_made_more(const Facts& facts, const ChannelSide& side, uint64_t seq) {
  constexpr uint64_t kNear = 4;
  if (changes(facts, side, seq)) {
    // The first repetition of a step may look like calls more.
    const std::optional<HabitBreak> habit = habit_break(facts, side.process);
    return habit && habit->is_settled && has_slipped(facts, side.process, Slip::extra);
  }
  for (uint64_t at = std::max(side.first, seq - std::min(seq, kNear)); at <= seq; ++at) {
    if (side.at(at) != kNoRecord && is_out_of_place(facts, side.process, side.at(at))) return true;
  }
  return false;
}

// One side may have left out a transfer, so that every later one meets the wrong partner: by what
// the other side called.
PairSlip slip_by_sizes(const Facts& facts, const Channel& channel, uint64_t seq) {
  const ChannelSide sender = sender_of(facts, channel);
  const ChannelSide receiver = receiver_of(facts, channel);
  const std::vector<Signature> sent = sizes_of(facts, sender, seq, seq + kCallsBehindMax);
  std::vector<Signature> expected = sizes_of(facts, receiver, seq, seq + kCallsBehindMax);
  PairSlip found;
  if (sent.empty() || expected.empty()) return found;
  const size_t seen = expected.size();
  if (const size_t wanted = sent.size() + kSlipMax; wanted > seen) {
    std::vector<Signature> history = sizes_of(facts, receiver, 0, seq);
    history.insert(history.end(), expected.begin(), expected.end());
    const std::vector<Signature> later = expected_calls(std::move(history), wanted - seen);
    expected.insert(expected.end(), later.begin(), later.end());
  }
  const Alignment alignment = align(sent, expected, seen);
  if (alignment.slip != Slip::missing && alignment.slip != Slip::extra) {
    if (changes(facts, sender, seq) || changes(facts, receiver, seq)) return found;
    const auto is_usual = [&](const ChannelSide& side) {
      const Signature shape = shape_of(facts.index.op(side.process, side.at(seq)));
      return occurs_elsewhere(facts, channel, shape, seq);
    };
    const bool sends_usual = is_usual(sender);
    const bool expects_usual = is_usual(receiver);
    found.is_by_sender = expects_usual && !sends_usual;
    found.is_by_receiver = sends_usual && !expects_usual;
    return found;
  }
  // Who has one less has left one out; unless the other made one more. The other side has left one
  // out only where its own steps before say so.
  const bool is_send_missing = alignment.slip == Slip::missing;
  const ChannelSide& fewer = is_send_missing ? sender : receiver;
  const ChannelSide& more = is_send_missing ? receiver : sender;
  const bool has_left_out = has_slipped(facts, fewer.process, Slip::missing);
  const bool is_more = !has_left_out && has_made_more(facts, more, seq);
  found.slip = is_more ? Slip::extra : Slip::missing;
  found.length = alignment.length;
  found.is_by_sender = is_more ? more.is_sender : fewer.is_sender;
  found.is_by_receiver = !found.is_by_sender;
  return found;
}

// Of a size that none of this side's transfers before it on the channel has; nothing where there
// are none.
std::optional<bool> is_new_size(const Facts& facts, const ChannelSide& side, uint64_t seq) {
  const PairHistory history = history_of(facts, side, seq);
  if (history.sizes.empty() || side.at(seq) == kNoRecord) return std::nullopt;
  const Signature size = size_of(facts.index.op(side.process, side.at(seq)));
  return std::none_of(history.sizes.begin(), history.sizes.end(),
                      [&](const Signature& before) { return agree(before, size); });
}

// The other ranks with which this side agrees about transfers of the same exchange that are of
// a size never seen before, as the disputed one is: that its sizes are new is no slip of its own.
std::vector<uint32_t> who_agrees(const Facts& facts, const ChannelSide& side, uint64_t seq) {
  const std::vector<Op>& ops = facts.process(side.process).ops;
  const uint32_t at = side.at(seq);
  const Op& disputed = ops[at];
  std::vector<uint32_t> agreeing;
  if (disputed.group == 0) return agreeing;
  uint32_t first = at;
  while (first > 0 && ops[first - 1].group == disputed.group) --first;
  for (uint32_t i = first; i < ops.size() && ops[i].group == disputed.group; ++i) {
    const Op& op = ops[i];
    if (op.kind != disputed.kind || op.comm != disputed.comm) continue;
    if (op.root_or_peer == disputed.root_or_peer) continue;
    const uint32_t c = facts.index.channel_of(side.process, op);
    const OpRef partner = facts.index.partner_of(side.process, op);
    if (c == kNone || partner.process == kNone || partner.op == kNoRecord) continue;
    if (partner.process == side.process) continue;
    const Channel& channel = facts.index.channels()[c];
    const ChannelSide own =
        side.is_sender ? sender_of(facts, channel) : receiver_of(facts, channel);
    if (!is_new_size(facts, own, op.seq).value_or(false)) continue;
    if (agree(shape_of(op), shape_of(facts.index.op(partner.process, partner.op))))
      agreeing.push_back(partner.process);
  }
  std::sort(agreeing.begin(), agreeing.end());
  agreeing.erase(std::unique(agreeing.begin(), agreeing.end()), agreeing.end());
  return agreeing;
}

// The other peers of an exchange are witnesses as well: where one side alone has stayed with the
// size before, and others go along with the new sizes of the other side, it is the one that stayed.
void ask_other_peers(const Facts& facts, const Channel& channel, uint64_t seq, PairSlip& slip) {
  if (slip.slip != Slip::count) return;
  const ChannelSide sender = sender_of(facts, channel);
  const ChannelSide receiver = receiver_of(facts, channel);
  // Where sizes are new in every step, one that is not is so by chance.
  if (changes(facts, sender, seq) || changes(facts, receiver, seq)) return;
  const std::optional<bool> is_sent_new = is_new_size(facts, sender, seq);
  const std::optional<bool> is_expected_new = is_new_size(facts, receiver, seq);
  if (!is_sent_new || !is_expected_new || *is_sent_new == *is_expected_new) return;
  const std::vector<uint32_t> agreeing = who_agrees(facts, *is_sent_new ? sender : receiver, seq);
  if (agreeing.empty()) return;
  slip.is_by_order = false;
  slip.is_by_sender = *is_expected_new;
  slip.is_by_receiver = *is_sent_new;
  slip.agreed_by = agreeing;
}

// Two transfers of one exchange: what one side calls first is what the other calls second.
bool are_crossed(const Facts& facts, const Channel& channel, uint64_t seq) {
  const ChannelSide sender = sender_of(facts, channel);
  const ChannelSide receiver = receiver_of(facts, channel);
  const auto shape = [&](const ChannelSide& side, uint64_t at) {
    return shape_of(facts.index.op(side.process, side.at(at)));
  };
  for (const ChannelSide& side : {sender, receiver}) {
    if (side.at(seq) == kNoRecord || side.at(seq + 1) == kNoRecord) return false;
    const uint32_t group = facts.index.op(side.process, side.at(seq)).group;
    if (group == 0 || facts.index.op(side.process, side.at(seq + 1)).group != group) return false;
  }
  return !agree(shape(sender, seq), shape(receiver, seq)) &&
         agree(shape(sender, seq), shape(receiver, seq + 1)) &&
         agree(shape(sender, seq + 1), shape(receiver, seq));
}

}  // namespace

ChannelSide sender_of(const Facts& facts, const Channel& channel) {
  return {process_at(facts, channel.group, channel.source), &channel.sends, channel.first_send,
          true};
}
ChannelSide receiver_of(const Facts& facts, const Channel& channel) {
  return {process_at(facts, channel.group, channel.target), &channel.recvs, channel.first_recv,
          false};
}

PairSlip slip_of_pair(const Facts& facts, const Channel& channel, uint64_t seq) {
  const std::optional<PairSlip> by_order = slip_by_order(facts, channel, seq);
  PairSlip slip = by_order ? *by_order : slip_by_sizes(facts, channel, seq);
  if (slip.is_guess) {
    const PairSlip by_sizes = slip_by_sizes(facts, channel, seq);
    if (by_sizes.slip != Slip::count) slip = by_sizes;
  }
  if (slip.is_by_order && slip.slip == Slip::count) {
    const ChannelSide odd =
        slip.is_by_sender ? sender_of(facts, channel) : receiver_of(facts, channel);
    // A step of a new size, in which the other side made one transfer more, leaves the same record.
    slip.is_guess = slip.is_guess || is_new_size(facts, odd, seq).value_or(true);
  }
  slip.is_crossed = slip.slip == Slip::count && are_crossed(facts, channel, seq);
  if (!slip.is_crossed) ask_other_peers(facts, channel, seq, slip);
  return slip;
}

}  // namespace rollcall::analysis
