#include "analysis/alignment/sequence.h"

#include <fmt/format.h>

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

// A step that was left out is longer: believed where nothing shorter explains as much. As many as a
// host can queue: no rank gets further ahead of one that waits.
constexpr uint32_t kFarSlipMax = 2048;
constexpr size_t kFarMatched = 4;
constexpr uint32_t kReorderMax = 16;
constexpr size_t kHistoryMax = 4096;
constexpr size_t kCampsMax = 8;
constexpr size_t kOpinionsMax = 256;

bool counts_differ(uint64_t a, uint64_t b) {
  return a != b && a != trace::kCountUnknown && b != trace::kCountUnknown;
}

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

bool is_shift(Slip slip) {
  return slip == Slip::missing || slip == Slip::extra || slip == Slip::order;
}

struct Score {
  uint32_t matched = 0;
  uint32_t foreseen = 0;  // agreements with predictions
  uint32_t contradicted = 0;
};

Score score(const std::vector<Signature>& calls, size_t from,
            const std::vector<Signature>& expected, size_t to, size_t seen) {
  Score result;
  for (; from < calls.size() && to < expected.size(); ++from, ++to) {
    const bool same = agree(calls[from], expected[to]);
    if (to >= seen) {
      result.foreseen += same;
    } else if (same) {
      ++result.matched;
    } else {
      ++result.contradicted;
    }
  }
  return result;
}

Slip argument_slip(const Signature& a, const Signature& b) {
  if (a.kind != b.kind) return Slip::op;
  const auto differ = [](uint8_t x, uint8_t y) {
    return x != y && x != kUnknown8 && y != kUnknown8;
  };
  if (differ(a.datatype, b.datatype)) return Slip::dtype;
  if (counts_differ(a.count, b.count)) return Slip::count;
  if (differ(a.reduction, b.reduction)) return Slip::redop;
  return Slip::root;
}

// The first `window` calls of both are the same, in whatever order.
bool is_reordered(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                  uint32_t window) {
  std::vector<bool> used(window, false);
  for (uint32_t i = 0; i < window; ++i) {
    uint32_t j = 0;
    while (j < window && (used[j] || !agree(calls[i], expected[j]))) ++j;
    if (j == window) return false;
    used[j] = true;
  }
  return true;
}

size_t longest_window(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                      size_t seen) {
  return std::min({calls.size(), expected.size(), seen, size_t{kReorderMax}});
}

// The same calls in another order: the smallest such window, 0 if there is none.
uint32_t reordered_window(const std::vector<Signature>& calls,
                          const std::vector<Signature>& expected, size_t seen) {
  const size_t limit = longest_window(calls, expected, seen);
  for (uint32_t window = 2; window <= limit; ++window) {
    if (is_reordered(calls, expected, window)) return window;
  }
  return 0;
}

std::string text_of(const Signature& s) {
  Op op;
  op.kind = s.kind;
  op.count = s.count;
  op.datatype = s.datatype;
  op.reduction = s.reduction;
  op.root_or_peer = s.root;
  return short_call_text(op);
}

// The shortest edit script between two short windows, by the usual table.
std::string edit_script(const std::vector<Signature>& from, const std::vector<Signature>& to,
                        uint32_t window, uint64_t seq) {
  std::vector<std::vector<uint32_t>> common(window + 1, std::vector<uint32_t>(window + 1, 0));
  for (uint32_t i = window; i-- > 0;) {
    for (uint32_t j = window; j-- > 0;) {
      common[i][j] = agree(from[i], to[j]) ? common[i + 1][j + 1] + 1
                                           : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::string script;
  const auto add = [&](char sign, uint64_t at, const Signature& call) {
    script += fmt::format("{}{}{} {}", script.empty() ? "" : "; ", sign, at, text_of(call));
  };
  uint32_t i = 0;
  uint32_t j = 0;
  while (i < window || j < window) {
    if (i < window && j < window && agree(from[i], to[j])) {
      ++i;
      ++j;
    } else if (j == window || (i < window && common[i + 1][j] >= common[i][j + 1])) {
      add('-', seq + i, from[i]);
      ++i;
    } else {
      add('+', seq + j, to[j]);
      ++j;
    }
  }
  return script;
}

// Calls that belong behind the reference's last one, as its history foretells them. Where the call
// at the difference is not what the history leads to, the job has gone on to something new: then
// only what has always followed the same calls is a guide.
void foresee(const Index& index, const ChangingSizes& sizes, const Member& reference, uint64_t seq,
             size_t wanted, std::vector<Signature>& expected) {
  std::vector<Signature> history = history_before(index, sizes, reference, seq);
  const std::optional<Signature> usual = expected_next(history);
  const bool is_usual = usual && agree(*usual, expected.front());
  history.insert(history.end(), expected.begin(), expected.end());
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

// A longer stretch in another order, where align() found nothing that all later calls agree with.
bool find_reordered(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                    size_t seen, Alignment& best) {
  const size_t limit = longest_window(calls, expected, seen);
  for (uint32_t window = 2; window <= limit; ++window) {
    const Score behind = score(calls, window, expected, window, seen);
    if (behind.contradicted != 0 || behind.matched == 0) continue;
    if (!is_reordered(calls, expected, window)) continue;
    best = {.slip = Slip::order, .length = window, .matched = behind.matched + window};
    return true;
  }
  return false;
}

// How many calls agree until one of the two ends; nothing where some do not.
std::optional<Score> agreement(std::span<const Signature> calls,
                               std::span<const Signature> expected, size_t seen) {
  Score result;
  for (size_t i = 0; i < std::min(calls.size(), expected.size()); ++i) {
    if (agree(calls[i], expected[i])) {
      ++(i < seen ? result.matched : result.foreseen);
    } else if (i < seen) {
      return std::nullopt;
    }
  }
  return result;
}

// What kind of slip align() could not see because it is too long. `is_same_site`: of the deviator's
// first call and that of the reference so many later, as one call alone may look like another.
template <typename IsSameSite>
void look_further(std::span<const Signature> calls, std::span<const Signature> expected,
                  size_t seen, IsSameSite is_same_site, Alignment& best) {
  const auto take = [&](Slip slip, uint32_t length, const Score& found) {
    best = {.slip = slip,
            .length = length,
            .matched = found.matched,
            .foreseen = found.foreseen,
            .contradicted = 0};
  };
  for (uint32_t length = kSlipMax + 1; length <= kFarSlipMax; ++length) {
    if (length < seen) {
      const std::optional<Score> missing =
          agreement(calls.first(std::min(calls.size(), kCallsBehindMax)), expected.subspan(length),
                    seen - length);
      const bool fits = missing && missing->matched > best.matched &&
                        missing->matched >= std::min(calls.size(), kFarMatched);
      if (fits && (missing->matched > 1 || is_same_site(length))) {
        return take(Slip::missing, length, *missing);
      }
      if (missing && missing->matched == 1 && best.later == 0) best.later = length;
    }
    if (length >= calls.size()) continue;
    const std::optional<Score> extra = agreement(
        calls.subspan(length), expected.first(std::min(expected.size(), kCallsBehindMax)), seen);
    if (extra && extra->matched > best.matched && extra->matched + extra->foreseen > 1) {
      return take(Slip::extra, length, *extra);
    }
  }
}

// The rest of what was left out may not be on file, where the others wait in its first call: then
// the steps before tell how much later the deviator's calls were due. One call alone may only look
// like one of those.
void look_back(std::span<const Signature> history, std::span<const Signature> calls,
               std::span<const Signature> expected, Alignment& best) {
  if (is_shift(best.slip) || best.later != 0 || calls.empty() || expected.empty()) return;
  const std::optional<Expectation> due = expectation_of(history);
  if (!due || !agree(history[due->index], expected[0])) return;
  const std::span<const Signature> before = history.subspan(due->index);
  const size_t length_max = std::min(before.size(), size_t{kFarSlipMax} + 1);
  // What the reference has called is on file, and was searched.
  for (size_t length = std::max(expected.size(), size_t{kSlipMax} + 1); length < length_max;
       ++length) {
    const std::span<const Signature> later = before.subspan(length);
    const std::optional<Score> found = agreement(calls, later, later.size());
    if (!found) continue;
    const auto count = static_cast<uint32_t>(length);
    if (found->matched < 2) {
      best.later = count;
    } else {
      best = {.slip = Slip::missing, .length = count, .foreseen = found->matched};
      best.predicted = true;
    }
    return;
  }
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
  Alignment alignment = align(calls, expected, seen);
  const bool is_explained =
      alignment.contradicted == 0 && alignment.matched + alignment.foreseen != 0;
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

}  // namespace

Signature signature_of(const Op& op) {
  const OpTraits& traits = traits_of(op.kind);
  Signature signature;
  signature.kind = op.kind;
  signature.count = op.count;
  signature.datatype = op.datatype;
  if (traits.reduces) signature.reduction = op.reduction;
  if (traits.rooted) signature.root = op.root_or_peer;
  return signature;
}

Signature usual_signature(const ChangingSizes& sizes, uint32_t process, const Op& op) {
  Signature signature = signature_of(op);
  if (sizes.changes(process, op)) signature.count = trace::kCountUnknown;
  return signature;
}

bool agree(const Signature& a, const Signature& b) {
  if (a.kind != b.kind || a.root != b.root || a.place != b.place) return false;
  if (counts_differ(a.count, b.count)) return false;
  if (a.datatype != b.datatype && a.datatype != kUnknown8 && b.datatype != kUnknown8) return false;
  return a.reduction == b.reduction || a.reduction == kUnknown8 || b.reduction == kUnknown8;
}

Alignment align(const std::vector<Signature>& calls, const std::vector<Signature>& expected,
                size_t seen, std::span<const uint32_t> group_lengths) {
  Alignment best;
  best.slip = argument_slip(calls[0], expected[0]);
  Score best_score = score(calls, 1, expected, 1, seen);
  // Agreement counts, seen or foreseen; of two slips that explain as much, the smaller one.
  const auto key = [](const Score& s, Slip kind, uint32_t calls_slipped) {
    int64_t slipped = 0;
    if (kind == Slip::missing || kind == Slip::extra) slipped = calls_slipped;
    if (kind == Slip::order) slipped = int64_t{calls_slipped} - 1;
    return std::make_tuple(-static_cast<int64_t>(s.contradicted), s.matched + s.foreseen, -slipped,
                           s.matched);
  };
  const auto offer = [&](Slip slip, uint32_t length, const Score& offered) {
    // Predictions alone carry a slip of one call, not more.
    if (offered.matched == 0 && length > 1) return;
    // Neither do as many calls that agree as disagree.
    if (offered.contradicted != 0 && offered.matched <= offered.contradicted) return;
    if (key(offered, slip, length) <= key(best_score, best.slip, best.length)) return;
    best.slip = slip;
    best.length = length;
    best_score = offered;
  };
  const auto offer_missing = [&](uint32_t length) {
    offer(Slip::missing, length, score(calls, 0, expected, length, seen));
  };
  for (uint32_t length = 1; length <= kSlipMax; ++length) {
    offer_missing(length);
    offer(Slip::extra, length, score(calls, length, expected, 0, seen));
  }
  for (const uint32_t length : group_lengths) {
    if (length > kSlipMax) offer_missing(length);
  }
  if (const uint32_t window = reordered_window(calls, expected, seen)) {
    Score reordered = score(calls, window, expected, window, seen);
    reordered.matched += window;
    offer(Slip::order, window, reordered);
    best.may_be_order =
        key(reordered, Slip::order, window) >= key(best_score, best.slip, best.length);
  }
  best.matched = best_score.matched;
  best.foreseen = best_score.foreseen;
  best.contradicted = best_score.contradicted;
  best.predicted = best_score.matched == 0 && best_score.foreseen != 0 &&
                   (best.slip == Slip::missing || best.slip == Slip::extra);
  return best;
}

namespace {

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
