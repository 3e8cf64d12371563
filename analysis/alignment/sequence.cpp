#include "analysis/alignment/sequence.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <tuple>

#include "analysis/alignment/expectation.h"
#include "analysis/alignment/limits.h"
#include "analysis/terms/calls.h"

namespace rollcall::analysis {
namespace {

using trace::Op;

constexpr size_t kHistoryMax = 4096;
constexpr size_t kCampsMax = 8;
constexpr size_t kOpinionsMax = 256;

// First position from `from` on where `lane` and `reference` both have a record and disagree;
// `limit` if none.
uint64_t first_disagreement(const Index& index, const Member& member, const Member& reference,
                            uint64_t from, uint64_t limit) {
  const uint64_t begin = std::max({member.lane.first, reference.lane.first, from});
  const uint64_t end = std::min({member.lane.end(), reference.lane.end(), limit});
  const Lane& lane = member.lane;
  for (uint64_t seq = lane.next(begin); seq < end; seq = lane.next(seq + 1)) {
    if (!lane.has(seq) || !reference.lane.has(seq)) continue;
    const Op& a = index.op_at(member, seq);
    const Op& b = index.op_at(reference, seq);
    if (!agree(signature_of(a), signature_of(b))) return seq;
  }
  return limit;
}

// The member with the longest record: most others can be held against it.
const Member* longest_record(const Group& group) {
  const Member* best = nullptr;
  for (const Member& member : group.members) {
    if (member.lane.ops.empty()) continue;
    if (!best || member.lane.ops.size() > best->lane.ops.size()) best = &member;
  }
  return best;
}

std::vector<Camp> camps_at(const Index& index, const Group& group, uint64_t seq) {
  std::vector<Camp> camps;
  for (uint32_t m = 0; m < group.members.size(); ++m) {
    const Member& member = group.members[m];
    if (!member.lane.has(seq)) continue;
    const Signature signature = signature_of(index.op_at(member, seq));
    const auto found = std::find_if(camps.begin(), camps.end(), [&](const Camp& camp) {
      return agree(camp.signature, signature);
    });
    // Further opinions share the last camp: who they are is known, what they called is on file.
    const bool is_new = found == camps.end() && camps.size() < kOpinionsMax;
    Camp& camp = is_new                 ? camps.emplace_back(Camp{signature, {}})
                 : found == camps.end() ? camps.back()
                                        : *found;
    camp.members.push_back(m);
  }
  std::stable_sort(camps.begin(), camps.end(), [](const Camp& a, const Camp& b) {
    return a.members.size() > b.members.size();
  });
  return camps;
}

// The smallest camps become one.
void keep_largest(std::vector<Camp>& camps) {
  if (camps.size() <= kCampsMax) return;
  std::vector<uint32_t>& rest = camps[kCampsMax - 1].members;
  for (size_t i = kCampsMax; i < camps.size(); ++i) {
    rest.insert(rest.end(), camps[i].members.begin(), camps[i].members.end());
  }
  std::sort(rest.begin(), rest.end());
  camps.resize(kCampsMax);
}

std::vector<Signature> calls_from(const Index& index, const Member& member, uint64_t begin,
                                  size_t count_max) {
  std::vector<Signature> calls;
  for (uint64_t seq = begin; calls.size() < count_max && member.lane.has(seq); ++seq) {
    calls.push_back(signature_of(index.op_at(member, seq)));
  }
  return calls;
}

std::vector<Signature> history_before(const Index& index, const ChangingSizes& sizes,
                                      const Member& member, uint64_t seq) {
  uint64_t begin = std::max(member.lane.first, seq > kHistoryMax ? seq - kHistoryMax : 0);
  for (uint64_t at = seq; at > begin; --at) {
    if (!member.lane.has(at - 1)) begin = at;
  }
  std::vector<Signature> calls;
  for (uint64_t at = begin; at < seq; ++at) {
    calls.push_back(usual_signature(sizes, member.process, index.op_at(member, at)));
  }
  return calls;
}

// What the groups of a split do at a position: they play the same part. It is collected once for
// all of them, as thousands of small ones may be tied at one position.
class Siblings {
 public:
  explicit Siblings(const Index& index) : index_(index) {
    for (uint32_t g = 0; g < index.groups().size(); ++g) splits_[key_of(g)].groups.push_back(g);
  }
  // Most of the other groups' calls at this position agree with this one.
  bool are_most(uint32_t g, uint64_t seq, const Signature& call) {
    const Group& group = index_.groups()[g];
    if (group.parent_key.is_null()) return false;
    size_t calls = 0;
    size_t agreeing = 0;
    for (const auto& [signature, count] : calls_at(splits_[key_of(g)], seq)) {
      calls += count;
      if (agree(signature, call)) agreeing += count;
    }
    for (const Member& member : group.members) {
      if (!member.lane.has(seq)) continue;
      --calls;
      agreeing -= agree(signature_of(index_.op_at(member, seq)), call);
    }
    return agreeing * 2 > calls;
  }

 private:
  using Calls = std::map<Signature, size_t>;             // how many members made each
  using Key = std::tuple<uint64_t, uint64_t, uint32_t>;  // the parent and the child's number
  struct Split {
    std::vector<uint32_t> groups;
    std::map<uint64_t, Calls> by_seq;
  };

  Key key_of(uint32_t g) const {
    const Group& group = index_.groups()[g];
    return {group.parent_key.high, group.parent_key.low, group.child_number};
  }
  const Calls& calls_at(Split& split, uint64_t seq) {
    const auto [calls, is_new] = split.by_seq.try_emplace(seq);
    if (!is_new) return calls->second;
    for (const uint32_t g : split.groups) {
      for (const Member& member : index_.groups()[g].members) {
        if (member.lane.has(seq)) ++calls->second[signature_of(index_.op_at(member, seq))];
      }
    }
    return calls->second;
  }

  const Index& index_;
  std::map<Key, Split> splits_;
};

// Puts the camp in front that `is_right` prefers, among those as large as the largest.
template <typename Votes>
bool prefer(std::vector<Camp>& camps, size_t tied, Votes votes) {
  size_t best = 0;
  size_t best_votes = 0;
  bool unique = false;
  for (size_t i = 0; i < tied; ++i) {
    const size_t got = votes(camps[i]);
    if (got > best_votes) {
      best = i;
      best_votes = got;
      unique = true;
    } else if (got == best_votes) {
      unique = false;
    }
  }
  if (!unique) return false;
  std::swap(camps[0], camps[best]);
  return true;
}

// Decides which camp is right. False: nothing tells.
bool put_majority_first(const Index& index, const ChangingSizes& sizes, Siblings& siblings,
                        uint32_t g, uint64_t seq, std::vector<Camp>& camps) {
  size_t tied = 1;
  while (tied < camps.size() && camps[tied].members.size() == camps[0].members.size()) ++tied;
  if (tied == 1) return true;
  const Group& group = index.groups()[g];
  // Most of them have to say the same: they may be as wrong as one of the two.
  if (prefer(camps, tied, [&](const Camp& camp) -> size_t {
        return siblings.are_most(g, seq, camp.signature) ? 1 : 0;
      })) {
    return true;
  }
  // Until here they called alike: whose records go back furthest knows most.
  uint32_t oldest = camps[0].members[0];
  for (size_t i = 0; i < tied; ++i) {
    for (const uint32_t m : camps[i].members) {
      if (group.members[m].lane.first < group.members[oldest].lane.first) oldest = m;
    }
  }
  const std::optional<Signature> expected =
      expected_next(history_before(index, sizes, group.members[oldest], seq));
  if (expected && prefer(camps, tied, [&](const Camp& camp) {
        return agree(*expected, camp.signature) ? 1 : 0;
      })) {
    return true;
  }
  // Lag: whoever has called less is behind.
  return prefer(camps, tied,
                [&](const Camp& camp) {
                  uint64_t least = ~uint64_t{0};
                  for (const uint32_t m : camp.members) {
                    least = std::min(least, group.members[m].lane.called);
                  }
                  return static_cast<size_t>(least - seq);
                }) &&
         false;
}

// Calls that belong behind the reference's last one, as its history foretells them. Where the call
// at the difference is not what the history leads to, the job has gone on to something new: then
// only what has always followed the same calls is a guide.
void foresee(const Index& index, const ChangingSizes& sizes, const Member& reference, uint64_t seq,
             size_t wanted, std::vector<Signature>& expected) {
  std::vector<Signature> history = history_before(index, sizes, reference, seq);
  const std::optional<Signature> usual = expected_next(history);
  const bool is_usual = usual && agree(*usual, expected.front());
  // What has come since may be foreseen once more, and then its size is as open as that of others.
  for (const uint64_t end = seq + expected.size(); seq < end; ++seq) {
    history.push_back(usual_signature(sizes, reference.process, index.op_at(reference, seq)));
  }
  while (expected.size() < wanted) {
    const std::optional<Expectation> next = expectation_of(history);
    if (!next || !(is_usual || is_unanimous(history, *next))) return;
    expected.push_back(history[next->index]);
    history.push_back(expected.back());
  }
}

bool are_of_one_site(const Index& index, const Member& a, const Member& b, uint64_t seq_a,
                     uint64_t seq_b) {
  if (!a.lane.has(seq_a) || !b.lane.has(seq_b)) return false;
  const auto text_at = [&](const Member& member, uint64_t seq) {
    return call_site_text(index.run().processes[member.process], index.op_at(member, seq));
  };
  const std::string text = text_at(a, seq_a);
  return !text.empty() && text == text_at(b, seq_b);
}

uint64_t count_repeats(const Index& index, const Member& deviator, const Member& reference,
                       uint64_t seq, Slip slip) {
  uint64_t repeats = 0;
  const uint64_t end = std::min(deviator.lane.end(), reference.lane.end());
  const Lane& lane = deviator.lane;
  for (uint64_t at = lane.next(seq + 1); at < end; at = lane.next(at + 1)) {
    if (!lane.has(at) || !reference.lane.has(at)) continue;
    const Signature a = signature_of(index.op_at(deviator, at));
    const Signature b = signature_of(index.op_at(reference, at));
    repeats += !agree(a, b) && argument_slip(a, b) == slip;
  }
  return repeats;
}

// A host that waits behind one of these calls of a member waits for all: they are of one stream,
// and none of them was captured into a graph, where it holds up nobody.
bool hold_up_alike(const Index& index, const Member& member, uint64_t seq) {
  const Op& first = index.op_at(member, seq);
  for (; member.lane.has(seq); ++seq) {
    const Op& op = index.op_at(member, seq);
    if (op.graph != 0 || op.stream != first.stream) return false;
  }
  return true;
}

// The member made a call before all others had made the one in front of it, for which it has not
// waited, then. Of other hosts the clocks tell nothing.
bool ran_ahead(const Index& index, const Group& group, const Member& member, uint64_t seq) {
  if (seq == 0) return false;
  const trace::Process& own = index.run().processes[member.process];
  return std::ranges::any_of(group.members, [&](const Member& other) {
    return other.lane.has(seq - 1) && index.run().processes[other.process].host == own.host &&
           index.op_at(other, seq - 1).called_ns > index.op_at(member, seq).called_ns;
  });
}

// How many calls more the deviator's process has made from the difference on, on any communicator:
// where all ranks have stopped at one line of the program, as many as it made more there, or
// less than none by as many as it left out. Nothing where one may have passed the line at which the
// other stands.
std::optional<int64_t> surplus_of(const Index& index, const Member& deviator,
                                  const Member& reference, uint64_t seq) {
  const auto behind = [&](const Member& member) {
    return static_cast<int64_t>(index.run().processes[member.process].ops.size() -
                                member.lane.at(seq));
  };
  const auto are_known = [&](const Member& member) {
    return index.run().processes[member.process].knowledge.calls_in_order &&
           hold_up_alike(index, member, seq);
  };
  if (!are_known(deviator) || !are_known(reference)) return std::nullopt;
  return behind(deviator) - behind(reference);
}

Difference explain(const Index& index, const ChangingSizes& sizes, uint32_t g, uint64_t seq,
                   const std::vector<Camp>& camps, const Camp& minority) {
  const Group& group = index.groups()[g];
  Difference difference;
  difference.group = g;
  difference.seq = seq;
  difference.camps = camps;
  difference.deviators = minority.members;
  const auto longest_of = [&](const std::vector<uint32_t>& members) {
    return *std::max_element(members.begin(), members.end(), [&](uint32_t a, uint32_t b) {
      return group.members[a].lane.end() < group.members[b].lane.end();
    });
  };
  difference.reference = longest_of(camps[0].members);
  const Member& reference = group.members[difference.reference];
  const Member& deviator = group.members[longest_of(minority.members)];
  const std::vector<Signature> far =
      calls_from(index, deviator, seq, kCallsBehindMax + kFarSlipMax);
  const std::vector<Signature> calls(
      far.begin(), far.begin() + static_cast<ptrdiff_t>(std::min(far.size(), kCallsBehindMax)));
  std::vector<Signature> expected =
      calls_from(index, reference, seq, kCallsBehindMax + kFarSlipMax);
  const size_t seen = expected.size();
  foresee(index, sizes, reference, seq, calls.size() + kSlipMax, expected);
  Alignment alignment =
      align(calls, expected, seen, {.surplus = surplus_of(index, deviator, reference, seq)});
  const bool is_explained =
      alignment.contradicted == 0 && alignment.matched + alignment.foreseen > alignment.unforeseen;
  if (!is_explained &&
      (alignment.contradicted == 0 || !find_reordered(calls, expected, seen, alignment))) {
    look_further(
        far, expected, seen,
        [&](uint64_t later) {
          return are_of_one_site(index, deviator, reference, seq, seq + later) &&
                 !are_of_one_site(index, deviator, reference, seq, seq);
        },
        alignment);
    look_back(history_before(index, sizes, reference, seq), calls, std::span(expected).first(seen),
              alignment);
  }
  difference.slip = alignment.slip;
  difference.length = alignment.length;
  difference.matched = alignment.matched;
  difference.contradicted = alignment.contradicted;
  difference.predicted = alignment.predicted;
  difference.later = alignment.later;
  difference.foreseen = alignment.foreseen;
  difference.unforeseen = alignment.unforeseen;
  difference.may_be_other = alignment.may_be_other;
  difference.may_be_extra = alignment.may_be_extra;
  // Who waits for nothing comes to no later step than the others.
  if (!ran_ahead(index, group, deviator, seq)) difference.may_be_missing = alignment.may_be_missing;
  if (alignment.slip == Slip::order) {
    difference.edits = edit_script(expected, calls, alignment.length, seq);
  } else if (alignment.slip != Slip::missing && alignment.slip != Slip::extra) {
    difference.repeats = count_repeats(index, deviator, reference, seq, alignment.slip);
  }
  for (const Camp& camp : camps) {
    for (const uint32_t m : camp.members) {
      const int64_t called_ns = index.op_at(group.members[m], seq).called_ns;
      if (difference.since_ns == 0 || called_ns < difference.since_ns) {
        difference.since_ns = called_ns;
      }
    }
  }
  return difference;
}

// Every camp made the calls of the largest, and each in another order: none of them slipped.
bool are_orders(const Index& index, const ChangingSizes& sizes, uint32_t g, uint64_t seq,
                const std::vector<Camp>& camps) {
  return camps.size() <= kCampsMax &&
         std::all_of(camps.begin() + 1, camps.end(), [&](const Camp& camp) {
           return explain(index, sizes, g, seq, camps, camp).slip == Slip::order;
         });
}

// More than two camps, all members on file, and no camp has most of them: whatever the largest, or
// the one that goes on as before, did is no better than the others. Nothing where one of them only
// slipped: then the rest may be right.
std::optional<Difference> scattered(const Index& index, const ChangingSizes& sizes, uint32_t g,
                                    uint64_t seq, const std::vector<Camp>& camps) {
  const std::vector<Member>& members = index.groups()[g].members;
  size_t on_file = 0;
  for (const Camp& camp : camps) on_file += camp.members.size();
  const bool has_majority = camps[0].members.size() * 2 > on_file;
  if (camps.size() < 3 || has_majority || on_file < members.size()) return std::nullopt;
  Difference all = explain(index, sizes, g, seq, camps, camps[1]);
  all.repeats = 0;
  all.predicted = false;
  if (!are_orders(index, sizes, g, seq, camps)) {
    for (size_t i = 1; i < camps.size(); ++i) {
      if (i < kCampsMax && is_shift(explain(index, sizes, g, seq, camps, camps[i]).slip)) {
        return std::nullopt;
      }
      all.slip = std::min(all.slip, argument_slip(camps[i].signature, camps[0].signature));
    }
  }
  all.deviators.resize(members.size());
  std::iota(all.deviators.begin(), all.deviators.end(), 0);
  all.is_scattered = true;
  return all;
}

// Without a majority, and without steps before that tell, the two sides explain each other. A call
// that one left out and one that the other made without need look alike: it is told as left out,
// as most are.
Difference explain_tie(const Index& index, const ChangingSizes& sizes, uint32_t g, uint64_t seq,
                       std::vector<Camp> camps) {
  Difference forward = explain(index, sizes, g, seq, camps, camps[1]);
  std::swap(camps[0], camps[1]);
  Difference backward = explain(index, sizes, g, seq, camps, camps[1]);
  if (forward.slip != Slip::missing && forward.slip != Slip::extra) {
    forward.undecided = true;
    return forward;
  }
  Difference& chosen = forward.slip == Slip::missing ? forward : backward;
  chosen.undecided = true;
  return chosen;
}

constexpr uint64_t kNever = ~uint64_t{0};

// Of a member's collectives what each thread called, in its order; the threads in no order. Empty
// where some are not on file.
using Call = std::tuple<OpKind, uint64_t, int32_t, uint8_t>;
std::vector<std::vector<Call>> calls_by_thread(const trace::Process& process, const Lane& lane) {
  std::map<uint32_t, std::vector<Call>> by_thread;
  if (lane.ops.size() != lane.called) return {};
  for (const uint32_t i : lane.ops) {
    if (i == kNoRecord) return {};
    const trace::Op& op = process.ops[i];
    by_thread[op.thread].emplace_back(op.kind, op.count, op.root_or_peer, op.datatype);
  }
  std::vector<std::vector<Call>> calls;
  for (auto& [thread, own] : by_thread) calls.push_back(std::move(own));
  std::sort(calls.begin(), calls.end());
  return calls;
}

// Up to NCCL 2.27 the plugin alone is told of a graph's operations when they are replayed, on
// another thread than of the others, and before or behind them as it happens (docs/PLUGIN.md).
// Members whose threads made the same calls have made them alike then, for all that is on file.
bool are_same_by_thread(const Index& index, const Group& group) {
  std::vector<std::vector<Call>> first;
  for (const Member& member : group.members) {
    const trace::Process& process = index.run().processes[member.process];
    if (process.knowledge.calls_in_order || process.is_foreign()) return false;
    std::vector<std::vector<Call>> calls = calls_by_thread(process, member.lane);
    if (calls.size() < 2) return false;
    if (first.empty())
      first = std::move(calls);
    else if (calls != first)
      return false;
  }
  return true;
}

// The differences of a communicator at its first position from `from` on that has some, which is
// returned; kNever where there is none.
uint64_t add_differences(const Index& index, const ChangingSizes& sizes, Siblings& siblings,
                         uint32_t g, uint64_t from, std::vector<Difference>& differences) {
  const Group& group = index.groups()[g];
  const Member* reference = longest_record(group);
  if (!group.may_be_matched || !reference) return kNever;
  uint64_t seq = kNever;
  for (const Member& member : group.members) {
    if (&member != reference) seq = first_disagreement(index, member, *reference, from, seq);
  }
  if (seq == kNever || are_same_by_thread(index, group)) return kNever;
  std::vector<Camp> camps = camps_at(index, group, seq);
  if (camps.size() < 2) return kNever;
  if (std::optional<Difference> all = scattered(index, sizes, g, seq, camps)) {
    differences.push_back(std::move(*all));
    return seq;
  }
  keep_largest(camps);
  if (!put_majority_first(index, sizes, siblings, g, seq, camps)) {
    differences.push_back(explain_tie(index, sizes, g, seq, camps));
    return seq;
  }
  for (size_t i = 1; i < camps.size(); ++i) {
    differences.push_back(explain(index, sizes, g, seq, camps, camps[i]));
  }
  return seq;
}

// Calls with other arguments that were all captured: the ranks went on, with equal positions.
bool is_passed_by(const Index& index, std::span<const Difference> found) {
  return std::all_of(found.begin(), found.end(), [&](const Difference& difference) {
    if (is_shift(difference.slip) || difference.undecided) return false;
    const std::vector<Member>& members = index.groups()[difference.group].members;
    return std::all_of(members.begin(), members.end(), [&](const Member& member) {
      return !member.lane.has(difference.seq) || index.op_at(member, difference.seq).graph != 0;
    });
  });
}

}  // namespace

std::vector<Difference> find_differences(const Index& index) {
  constexpr int kPassedMax = 8;
  std::vector<Difference> differences;
  const ChangingSizes sizes(index);
  Siblings siblings(index);
  for (uint32_t g = 0; g < index.groups().size(); ++g) {
    uint64_t from = 0;
    for (int i = 0; i < kPassedMax; ++i) {
      const size_t before = differences.size();
      const uint64_t seq = add_differences(index, sizes, siblings, g, from, differences);
      if (seq == kNever || !is_passed_by(index, std::span(differences).subspan(before))) break;
      from = seq + 1;
    }
  }
  return differences;
}

}  // namespace rollcall::analysis
