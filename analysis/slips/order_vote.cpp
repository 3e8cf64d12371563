#include "analysis/slips/order_vote.h"

#include <algorithm>

namespace rollcall::analysis {
namespace {

using trace::Comm;

// Where in its calls a process made this one, or its counterpart in a communicator of its own that
// has the same role; kNoRecord where it did not.
uint32_t made_at(const Facts& facts, uint32_t p, const Node& call) {
  const uint64_t role = facts.index.role_of(call.group);
  uint32_t at = kNoRecord;
  for (uint32_t i = 0; i < facts.process(p).comms.size(); ++i) {
    const Seat seat = facts.index.seat(p, i);
    if (seat.member == kNone || facts.index.role_of(seat.group) != role) continue;
    const Lane& lane = facts.group(seat.group).members[seat.member].lane;
    const uint32_t here = lane.has(call.seq) ? lane.at(call.seq) : kNoRecord;
    if (seat.group == call.group) return here;
    if (here != kNoRecord) at = here;
  }
  return at;
}

uint32_t place_in(const Facts& facts, uint32_t p, uint32_t g) {
  for (uint32_t i = 0; i < facts.process(p).comms.size(); ++i) {
    if (facts.index.seat(p, i).group == g) return i;
  }
  return kNone;
}

// All members have this group at one place among their communicators: only then does the place say
// which part it plays. In a ring of pairs each pair is one's first and the other's second.
using CommonPlaces = std::unordered_map<uint32_t, bool>;  // by group
bool has_common_place(const Facts& facts, uint32_t g) {
  const auto [known, is_new] = facts.memo.notes<CommonPlaces>().try_emplace(g, true);
  if (!is_new) return known->second;
  const std::vector<Member>& members = facts.group(g).members;
  const uint32_t place = members.empty() ? kNone : place_in(facts, members.front().process, g);
  const bool is_common = std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return place_in(facts, member.process, g) == place;
  });
  known->second = is_common;
  return is_common;
}

// The counterpart of a call for a process, by the place of its communicator.
struct Placed {
  uint32_t at = kNoRecord;  // in its calls
  bool is_absent = false;   // it has not made the call
};
Placed made_at_place(const Facts& facts, uint32_t p, uint32_t place, const Node& call) {
  const uint32_t own = place_in(facts, p, call.group);
  const Seat seat = facts.index.seat(p, own != kNone ? own : place);
  if (seat.group == kNone || seat.member == kNone) return {};
  if (!has_common_place(facts, seat.group)) return {};
  const Lane& lane = facts.group(seat.group).members[seat.member].lane;
  return {lane.has(call.seq) ? lane.at(call.seq) : kNoRecord, lane.called <= call.seq};
}

// A process that is in both communicators.
uint32_t reference_for(const Facts& facts, const Node& x, const Node& y) {
  for (const Member& member : facts.group(x.group).members) {
    if (place_in(facts, member.process, y.group) != kNone) return member.process;
  }
  return kNone;
}

// Only members can have made a call of a group that shares its part with no other.
std::vector<uint32_t> voters_on(const Facts& facts, const Node& x, const Node& y) {
  const Group* smallest = nullptr;
  for (const Group* group : {&facts.group(x.group), &facts.group(y.group)}) {
    const bool is_smaller = !smallest || group->members.size() < smallest->members.size();
    if (group->parent == kNone && is_smaller) smallest = group;
  }
  if (!smallest) return facts.index.active();
  std::vector<uint32_t> voters;
  for (const Member& member : smallest->members) voters.push_back(member.process);
  std::sort(voters.begin(), voters.end());
  voters.erase(std::unique(voters.begin(), voters.end()), voters.end());
  return voters;
}

}  // namespace

bool has_same_comms(const Facts& facts, uint32_t p, uint32_t q) {
  const std::vector<Comm>& here = facts.process(p).comms;
  const std::vector<Comm>& there = facts.process(q).comms;
  return here.size() == there.size() &&
         std::equal(here.begin(), here.end(), there.begin(),
                    [](const Comm& a, const Comm& b) { return a.nranks == b.nranks; });
}

Votes vote_on_order(const Facts& facts, const Node& x, const Node& y) {
  Votes votes;
  for (const uint32_t p : voters_on(facts, x, y)) {
    const uint32_t at_x = made_at(facts, p, x);
    const uint32_t at_y = made_at(facts, p, y);
    if (at_x == kNoRecord || at_y == kNoRecord || at_x == at_y) continue;
    (at_x < at_y ? votes.forward : votes.backward).push_back(p);
  }
  return votes;
}

Votes vote_by_place(const Facts& facts, const Node& x, const Node& y, bool counts_absent) {
  Votes votes;
  const uint32_t reference = reference_for(facts, x, y);
  if (reference == kNone) return votes;
  const uint32_t place_x = place_in(facts, reference, x.group);
  const uint32_t place_y = place_in(facts, reference, y.group);
  if (place_x == kNone || place_y == kNone || place_x == place_y) return votes;
  for (const uint32_t p : facts.index.active()) {
    if (!has_same_comms(facts, reference, p)) continue;
    const Placed at_x = made_at_place(facts, p, place_x, x);
    const Placed at_y = made_at_place(facts, p, place_y, y);
    const auto is_known = [&](const Placed& one) {
      return one.at != kNoRecord || (counts_absent && one.is_absent);
    };
    if (!is_known(at_x) || !is_known(at_y) || at_x.at == at_y.at) continue;
    (at_x.at < at_y.at ? votes.forward : votes.backward).push_back(p);
  }
  return votes;
}

// A process has one communicator of a role at most, so who votes how depends on nothing else.
const Votes& OrderVotes::on_order(const Node& x, const Node& y) {
  const Calls calls{facts_.index.role_of(x.group), x.seq, facts_.index.role_of(y.group), y.seq};
  const auto [known, is_new] = on_order_.try_emplace(calls);
  if (is_new) known->second = vote_on_order(facts_, x, y);
  return known->second;
}

// The place that a group has among the communicators of all of its members; kNone where it differs.
uint32_t OrderVotes::common_place(uint32_t g) {
  const auto [known, is_new] = places_.try_emplace(g, kNone);
  const std::vector<Member>& members = facts_.group(g).members;
  if (!is_new || members.empty()) return known->second;
  const uint32_t place = place_in(facts_, members.front().process, g);
  const bool is_common = std::all_of(members.begin(), members.end(), [&](const Member& member) {
    return place_in(facts_, member.process, g) == place;
  });
  if (is_common) known->second = place;
  return known->second;
}

// Who is asked follows from the sizes of the communicators of one that is in both groups, and what
// it is asked for from their places, if these are the same for all members.
const Votes& OrderVotes::by_place(const Node& x, const Node& y) {
  const uint32_t reference = reference_for(facts_, x, y);
  const uint32_t place_x = common_place(x.group);
  const uint32_t place_y = common_place(y.group);
  if (reference == kNone || place_x == kNone || place_y == kNone) {
    single_ = vote_by_place(facts_, x, y, false);
    return single_;
  }
  Shape shape;
  for (const Comm& comm : facts_.process(reference).comms) shape.push_back(comm.nranks);
  const auto [known, is_new] = by_place_.try_emplace({shape, {place_x, x.seq, place_y, y.seq}});
  if (is_new) known->second = vote_by_place(facts_, x, y, false);
  return known->second;
}

}  // namespace rollcall::analysis
