#include "analysis/slips/step_counts.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analysis/slips/own_past.h"

namespace rollcall::analysis {
namespace {

using trace::Process;

struct Side {
  uint32_t process = kNone;
  std::vector<uint32_t> by_step;  // number of transfers
};

// Of all pairs in all steps: a job of thousands of ranks for a day is not counted.
constexpr size_t kCountsMax = size_t{1} << 24;

struct Counts {
  uint32_t channel = kNone;
  Side sender;
  Side receiver;
};

struct StepCounts {
  bool is_known = false;
  uint32_t group = kNone;           // of all; kNone: there is none whose calls are all on file
  std::vector<uint32_t> member_of;  // of that group, by process
  size_t steps = 0;
  std::vector<Counts> channels;
};

bool is_all_on_file(const Facts& facts, uint32_t p) {
  const Process& process = facts.process(p);
  return process.knowledge.head && process.knowledge.calls_in_order &&
         process.knowledge.tells_absence() && process.first_complete_ticket <= 1 &&
         process.torn == 0 && facts.index.misplaced(p) == 0 &&
         facts.job.processes[p].uncounted == 0;
}

// `active` is rising.
bool has_all(const Group& group, const std::vector<uint32_t>& active) {
  if (group.members.size() != active.size()) return false;
  std::vector<uint32_t> processes = group.processes();
  std::sort(processes.begin(), processes.end());
  return processes == active;
}

// The communicator of all, where the n-th record of each is its n-th call.
uint32_t group_of_all(const Facts& facts) {
  const std::vector<uint32_t>& active = facts.index.active();
  for (const uint32_t p : active) {
    if (!is_all_on_file(facts, p)) return kNone;
  }
  for (uint32_t g = 0; g < facts.index.groups().size(); ++g) {
    const Group& group = facts.group(g);
    if (!group.is_whole() || group.longest == 0 || !has_all(group, active)) continue;
    const bool is_counted =
        std::all_of(group.members.begin(), group.members.end(), [](const Member& member) {
          return member.lane.stretches.empty() && member.lane.first == 0 &&
                 member.lane.ops.size() == member.lane.called &&
                 std::count(member.lane.ops.begin(), member.lane.ops.end(), kNoRecord) == 0;
        });
    if (is_counted) return g;
  }
  return kNone;
}

std::vector<uint32_t> members_by_process(const Facts& facts, const Group& group) {
  std::vector<uint32_t> members(facts.index.run().processes.size(), kNone);
  for (uint32_t m = 0; m < group.members.size(); ++m) members[group.members[m].process] = m;
  return members;
}

const Lane& lane_of(const Facts& facts, const StepCounts& counts, uint32_t p) {
  return facts.group(counts.group).members[counts.member_of[p]].lane;
}

// False where a record is missing, or is of a graph.
bool count_side(const Facts& facts, const StepCounts& counts,
                const std::vector<uint32_t>& transfers, Side& side) {
  const std::vector<uint32_t>& calls = lane_of(facts, counts, side.process).ops;
  side.by_step.resize(counts.steps);
  for (const uint32_t i : transfers) {
    if (i == kNoRecord || facts.index.op(side.process, i).graph != 0) return false;
    const auto step = std::upper_bound(calls.begin(), calls.end(), i) - calls.begin();
    ++side.by_step[static_cast<size_t>(step)];
  }
  return true;
}

const StepCounts& step_counts(const Facts& facts) {
  StepCounts& counts = facts.memo.notes<StepCounts>();
  if (counts.is_known) return counts;
  counts.is_known = true;
  counts.group = group_of_all(facts);
  if (counts.group == kNone || facts.index.active().size() == 2) return counts;
  counts.member_of = members_by_process(facts, facts.group(counts.group));
  counts.steps = facts.group(counts.group).longest + 1;
  for (uint32_t i = 0; i < facts.index.channels().size(); ++i) {
    const Channel& channel = facts.index.channels()[i];
    const Group& group = facts.group(channel.group);
    // Not one of a split: what its ranks do is held against what other parts of the split do.
    const bool is_pair = group.origin == CommOrigin::init && group.nranks == 2 &&
                         group.is_whole() && !channel.carries_signals && channel.first_send == 0 &&
                         channel.first_recv == 0;
    if (!is_pair) continue;
    if ((counts.channels.size() + 1) * counts.steps > kCountsMax) {
      counts.channels.clear();
      return counts;
    }
    Counts own{.channel = i, .sender = {}, .receiver = {}};
    own.sender.process = process_at(facts, channel.group, channel.source);
    own.receiver.process = process_at(facts, channel.group, channel.target);
    if (own.sender.process == kNone || own.receiver.process == kNone) continue;
    const bool is_counted = count_side(facts, counts, channel.sends, own.sender) &&
                            count_side(facts, counts, channel.recvs, own.receiver);
    if (is_counted) counts.channels.push_back(std::move(own));
  }
  return counts;
}

// Of as many steps as there are: nothing where all in all both made as many.
std::optional<UnevenStep> first_uneven(const StepCounts& counts, const Counts& own, Lag lag) {
  uint64_t sends = 0;
  uint64_t recvs = 0;
  bool was_even = false;  // after they had made some
  std::optional<UnevenStep> found;
  for (size_t step = 0; step < counts.steps; ++step) {
    if (sends == recvs) found.reset();
    was_even = was_even || (sends == recvs && sends != 0);
    sends += own.sender.by_step[step];
    recvs += own.receiver.by_step[step];
    if (sends == recvs || found) continue;
    found = UnevenStep{.channel = own.channel,
                       .group = counts.group,
                       .step = step,
                       .sends = own.sender.by_step[step],
                       .recvs = own.receiver.by_step[step],
                       .seq = std::min(sends, recvs)};
  }
  if (sends == recvs) return std::nullopt;
  const bool is_new = found->step + 2 >= counts.steps;
  return lag == Lag::none || was_even || is_new ? found : std::nullopt;
}

// How many ranks made as many on one of their other ways as the sender did, or the receiver.
struct CountVotes {
  size_t like_sender = 0;
  size_t like_receiver = 0;
};

// The most that each rank made on one way in a step, with any one channel left out.
class LargestCounts {
 public:
  LargestCounts(const StepCounts& counts, uint64_t step) : by_process_(counts.member_of.size()) {
    for (const Counts& own : counts.channels) {
      for (const Side* side : {&own.sender, &own.receiver})
        add(by_process_[side->process], {side->by_step[step], own.channel});
    }
    for (const Largest& own : by_process_) ++ranks_that_made_[own.first.made];
  }

  CountVotes votes_on(const Counts& own, const UnevenStep& uneven) const {
    return {.like_sender = ranks_without(own, uneven.sends),
            .like_receiver = ranks_without(own, uneven.recvs)};
  }

 private:
  struct Count {
    uint64_t made = 0;
    uint32_t channel = kNone;
  };
  struct Largest {
    Count first;
    Count second;
  };

  static void add(Largest& largest, const Count& count) {
    if (count.made > largest.first.made) {
      largest.second = std::exchange(largest.first, count);
    } else if (count.made > largest.second.made) {
      largest.second = count;
    }
  }

  size_t ranks_without(const Counts& own, uint64_t made) const {
    if (made == 0) return 0;  // who exchanged nothing else says nothing
    const auto found = ranks_that_made_.find(made);
    size_t ranks = found == ranks_that_made_.end() ? 0 : found->second;
    for (const Side* side : {&own.sender, &own.receiver}) {
      const Largest& largest = by_process_[side->process];
      if (largest.first.channel != own.channel) continue;
      ranks -= largest.first.made == made;
      ranks += largest.second.made == made;
    }
    return ranks;
  }

  std::vector<Largest> by_process_;
  std::map<uint64_t, size_t> ranks_that_made_;
};

void ask_other_ranks(const LargestCounts& largest, const Counts& own, UnevenStep& uneven) {
  const CountVotes votes = largest.votes_on(own, uneven);
  if (votes.like_sender == votes.like_receiver) return;
  uneven.odd = votes.like_sender > votes.like_receiver ? own.receiver.process : own.sender.process;
  uneven.witness = CountWitness::other_ranks;
}

// Both made one of the two numbers in a step before, and the other one in none.
void ask_steps_before(const Counts& own, UnevenStep& uneven) {
  bool has_sends = false;
  bool has_recvs = false;
  for (size_t step = 0; step < uneven.step; ++step) {
    if (own.sender.by_step[step] != own.receiver.by_step[step]) continue;
    if (own.sender.by_step[step] == 0) continue;
    has_sends = has_sends || own.sender.by_step[step] == uneven.sends;
    has_recvs = has_recvs || own.sender.by_step[step] == uneven.recvs;
  }
  if (has_sends == has_recvs) return;
  uneven.odd = has_sends ? own.receiver.process : own.sender.process;
  uneven.witness = CountWitness::steps_before;
}

void ask_witnesses(const LargestCounts& largest, const Counts& own, UnevenStep& uneven) {
  ask_other_ranks(largest, own, uneven);
  if (uneven.odd == kNone) ask_steps_before(own, uneven);
}

// The side with fewer transfers has called what comes behind the step.
bool has_gone_on(const Facts& facts, const StepCounts& counts, const Counts& own,
                 const UnevenStep& uneven) {
  const uint32_t p = uneven.sends < uneven.recvs ? own.sender.process : own.receiver.process;
  return lane_of(facts, counts, p).called > uneven.step;
}

// What its own steps before tell of the side with fewer transfers, which may come to them yet: who
// waits for others is in the middle of its step.
bool has_left_out(const Facts& facts, uint32_t p) {
  const std::optional<HabitBreak> habit = habit_break(facts, p);
  return habit && habit->alignment.slip == Slip::missing && habit->alignment.contradicted == 0;
}

// Of a step that the side with fewer transfers is still in. Who waits made no more than it should
// but where all others made fewer; who made fewer may come to the rest yet, unless its own steps
// before tell.
void ask_in_step(const Facts& facts, const StepCounts& counts, const Counts& own,
                 UnevenStep& uneven) {
  const bool sent_fewer = uneven.sends < uneven.recvs;
  const uint32_t fewer = sent_fewer ? own.sender.process : own.receiver.process;
  const uint32_t more = sent_fewer ? own.receiver.process : own.sender.process;
  const CountVotes votes = LargestCounts(counts, uneven.step).votes_on(own, uneven);
  const size_t like_fewer = sent_fewer ? votes.like_sender : votes.like_receiver;
  const size_t like_more = sent_fewer ? votes.like_receiver : votes.like_sender;
  if (like_fewer > 0 && like_more == 0) {
    uneven.odd = more;
    uneven.witness = CountWitness::other_ranks;
  } else if (has_left_out(facts, fewer) && !has_left_out(facts, more)) {
    uneven.odd = fewer;
    uneven.witness = CountWitness::steps_before;
  }
}

// Who disagrees with several, which agree with each other.
uint32_t one_of_several(const Facts& facts, const std::vector<UnevenStep>& all) {
  std::map<uint32_t, std::set<uint32_t>> peers;
  for (const UnevenStep& one : all) {
    const Channel& channel = facts.index.channels()[one.channel];
    const uint32_t sender = process_at(facts, channel.group, channel.source);
    const uint32_t receiver = process_at(facts, channel.group, channel.target);
    peers[sender].insert(receiver);
    peers[receiver].insert(sender);
  }
  uint32_t found = kNone;
  for (const auto& [p, theirs] : peers) {
    if (theirs.size() < 2) continue;
    if (found != kNone || theirs.size() + 1 != peers.size()) return kNone;
    found = p;
  }
  return found;
}

}  // namespace

std::optional<UnevenStep> first_uneven_step(const Facts& facts, Lag lag) {
  const StepCounts& counts = step_counts(facts);
  std::vector<UnevenStep> all;
  std::vector<const Counts*> channels;  // of `all`
  for (const Counts& own : counts.channels) {
    const std::optional<UnevenStep> uneven = first_uneven(counts, own, lag);
    if (!uneven || !has_gone_on(facts, counts, own, *uneven)) continue;
    if (!all.empty() && uneven->step > all.front().step) continue;
    if (!all.empty() && uneven->step < all.front().step) {
      all.clear();
      channels.clear();
    }
    all.push_back(*uneven);
    channels.push_back(&own);
  }
  if (all.empty()) return std::nullopt;
  UnevenStep first = all.front();
  ask_witnesses(LargestCounts(counts, first.step), *channels.front(), first);
  if (const uint32_t odd = one_of_several(facts, all); odd != kNone) {
    first.odd = odd;
    first.witness = CountWitness::one_of_several;
  }
  return first;
}

std::optional<UnevenStep> uneven_step_of(const Facts& facts, uint32_t channel) {
  const StepCounts& counts = step_counts(facts);
  const auto own = std::find_if(counts.channels.begin(), counts.channels.end(),
                                [&](const Counts& one) { return one.channel == channel; });
  if (own == counts.channels.end()) return std::nullopt;
  std::optional<UnevenStep> uneven = first_uneven(counts, *own, Lag::possible);
  if (!uneven) return uneven;
  if (has_gone_on(facts, counts, *own, *uneven)) {
    ask_witnesses(LargestCounts(counts, uneven->step), *own, *uneven);
    return uneven;
  }
  ask_in_step(facts, counts, *own, *uneven);
  if (uneven->witness == CountWitness::other_ranks) return uneven;
  // Of the other direction more may be known: who waits in the one has not come to the other.
  for (const Counts& other : counts.channels) {
    const std::vector<Channel>& channels = facts.index.channels();
    const bool is_back =
        other.channel != channel && channels[other.channel].group == channels[channel].group;
    std::optional<UnevenStep> back =
        is_back ? first_uneven(counts, other, Lag::possible) : std::nullopt;
    if (!back) continue;
    ask_in_step(facts, counts, other, *back);
    if (back->witness == CountWitness::other_ranks) return back;
    // Each of the two lacks what the other one waits for.
    uneven->odd = kNone;
    uneven->witness = CountWitness::none;
  }
  return uneven;
}

}  // namespace rollcall::analysis
