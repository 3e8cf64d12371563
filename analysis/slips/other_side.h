// Two sides of a channel that disagree about a transfer: whose transfers are not what they always
// were, and whether one of another size was meant or one is missing, or one too many, so that every
// later one meets the wrong partner.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/facts.h"

namespace rollcall::analysis {

// One end of a channel.
struct ChannelSide {
  uint32_t process = kNone;
  const std::vector<uint32_t>* ops = nullptr;  // by p2p seq, from `first` on
  uint64_t first = 0;
  bool is_sender = false;

  uint64_t end() const { return first + ops->size(); }
  uint32_t at(uint64_t seq) const {
    return seq >= first && seq < end() ? (*ops)[seq - first] : kNoRecord;
  }
};
ChannelSide sender_of(const Facts& facts, const Channel& channel);
ChannelSide receiver_of(const Facts& facts, const Channel& channel);

// How the two sides of a channel came to disagree at a position. Both have a record there.
struct PairSlip {
  Slip slip = Slip::count;  // missing, extra: every later transfer meets the wrong partner
  uint32_t length = 1;      // transfers left out, or made more
  // Who did otherwise: than its own transfers before, or else than all others between the two. Both
  // or none: not known.
  bool is_by_sender = false;
  bool is_by_receiver = false;
  bool is_by_order = false;  // its own transfers before tell
  bool is_guess = false;     // which may as well be one more of its peer, or a step of another size
  bool is_by_peers = false;  // or that it disagrees with several, which agree with all others
  // Processes with which the other side agrees, in the same exchange, about sizes that are as new.
  std::vector<uint32_t> agreed_by = {};
  // The sizes are those of two transfers of one exchange that one side called in another order.
  bool is_crossed = false;
};

PairSlip slip_of_pair(const Facts& facts, const Channel& channel, uint64_t seq);

}  // namespace rollcall::analysis
