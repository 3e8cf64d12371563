#include "comparison/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analysis/record/index.h"

namespace rollcall::comparison {

using analysis::Group;
using analysis::Index;
using analysis::kNone;
using analysis::Seat;

namespace {

using trace::Op;
using trace::Process;

// Longest loop body that folding looks for: a step of a deep model has some hundreds of calls.
constexpr size_t kBodyMax = 512;

// Splits of splits: a damaged file may make a communicator its own ancestor.
constexpr int kLineageMax = 16;

// The name of a communicator without its ranks: what it is for, in another run or on another rank.
std::string lineage_of(const Index& index, uint32_t g, int depth = 0) {
  const Group& group = index.groups()[g];
  if (group.parent == kNone || depth == kLineageMax) {
    if (group.parent_key.is_null()) return group.name;
    return fmt::format("{} {} of a communicator", rollcall::name_of(group.origin),
                       group.child_number);
  }
  // A user's name does not begin with the origin; what we named does, and carries ranks.
  const std::string origin(rollcall::name_of(group.origin));
  if (!group.name.starts_with(origin + " ")) return group.name;
  return fmt::format("{} {} of {}", origin, group.child_number,
                     lineage_of(index, group.parent, depth + 1));
}

// How far the peer is, the shorter way round.
int32_t offset_of(int32_t peer, int32_t mine, int32_t nranks) {
  if (peer < 0 || mine < 0 || nranks <= 0) return peer;
  const int32_t forward = ((peer - mine) % nranks + nranks) % nranks;
  return forward * 2 > nranks ? forward - nranks : forward;
}

// One process's calls by number.
std::vector<uint32_t> calls_of(const Index& index, uint32_t p, CallTable& table) {
  const Process& process = index.run().processes[p];
  std::vector<uint32_t> names(process.comms.size(), kNone);
  std::vector<uint32_t> calls;
  calls.reserve(process.ops.size());
  for (const Op& op : process.ops) {
    if (is_mark(op.kind)) continue;
    const Seat seat = index.seat(p, op.comm);
    const bool is_seated = seat.group != kNone && op.comm < names.size();
    if (is_seated && names[op.comm] == kNone) {
      names[op.comm] = table.comm_number_of(lineage_of(index, seat.group));
    }
    const OpTraits& traits = traits_of(op.kind);
    CallShape shape;
    shape.kind = op.kind;
    shape.datatype = op.datatype;
    shape.count = op.count;
    shape.comm = is_seated ? names[op.comm] : table.comm_number_of("an unknown communicator");
    if (traits.reduces) shape.reduction = op.reduction;
    if (traits.rooted) shape.root_or_offset = op.root_or_peer;
    if (is_p2p(op.kind)) {
      const trace::Comm* comm = is_seated ? &process.comms[op.comm] : nullptr;
      shape.root_or_offset =
          comm ? offset_of(op.root_or_peer, comm->rank, comm->nranks) : op.root_or_peer;
    }
    calls.push_back(table.number_of(shape));
  }
  return calls;
}

void append(std::vector<Edit>& edits, Edit::Kind kind, size_t a, size_t b, size_t length) {
  if (length == 0) return;
  if (!edits.empty() && edits.back().kind == kind) {
    edits.back().length += length;
    return;
  }
  edits.push_back({kind, a, b, length});
}

// The furthest points of each round, from which the way is found backwards.
class Rounds {
 public:
  Rounds(std::span<const uint32_t> a, std::span<const uint32_t> b) : a_(a), b_(b) {}

  // False: more than `edits_max` edits.
  bool search(size_t edits_max) {
    const auto goal = static_cast<int64_t>(a_.size()) - static_cast<int64_t>(b_.size());
    std::vector<int64_t> furthest(2 * edits_max + 3, 0);
    const auto middle = static_cast<int64_t>(edits_max) + 1;
    for (int64_t d = 0; d <= static_cast<int64_t>(edits_max); ++d) {
      for (int64_t k = -d; k <= d; k += 2) {
        int64_t x = comes_down(furthest, middle, k, d) ? furthest[middle + k + 1]
                                                       : furthest[middle + k - 1] + 1;
        if (d == 0) x = 0;
        while (is_match(x, x - k)) ++x;
        furthest[middle + k] = x;
        const bool is_done = k == goal && x >= static_cast<int64_t>(a_.size());
        if (is_done) {
          keep(furthest, middle, d);
          return true;
        }
      }
      keep(furthest, middle, d);
    }
    return false;
  }

  // The path as steps from the end to the beginning.
  std::vector<Edit> path() const {
    std::vector<Edit> backwards;
    auto x = static_cast<int64_t>(a_.size());
    auto y = static_cast<int64_t>(b_.size());
    for (auto d = static_cast<int64_t>(rounds_.size()) - 1; d > 0; --d) {
      const std::vector<int64_t>& before = rounds_[static_cast<size_t>(d) - 1];
      const auto at = [&](int64_t k) {
        const bool known = k >= -(d - 1) && k <= d - 1 && (k + d - 1) % 2 == 0;
        return known ? before[static_cast<size_t>((k + d - 1) / 2)] : int64_t{-1};
      };
      const int64_t k = x - y;
      const bool down = k == -d || (k != d && at(k - 1) < at(k + 1));
      const int64_t from_k = down ? k + 1 : k - 1;
      const int64_t from_x = at(from_k);
      const int64_t from_y = from_x - from_k;
      const int64_t start_x = down ? from_x : from_x + 1;
      push(backwards, Edit::same, start_x, start_x - k, x - start_x);
      push(backwards, down ? Edit::added : Edit::removed, from_x, from_y, 1);
      x = from_x;
      y = from_y;
    }
    push(backwards, Edit::same, 0, 0, x);
    std::reverse(backwards.begin(), backwards.end());
    return backwards;
  }

 private:
  static bool comes_down(const std::vector<int64_t>& furthest, int64_t middle, int64_t k,
                         int64_t d) {
    return k == -d || (k != d && furthest[middle + k - 1] < furthest[middle + k + 1]);
  }
  static void push(std::vector<Edit>& edits, Edit::Kind kind, int64_t a, int64_t b,
                   int64_t length) {
    if (length > 0) {
      edits.push_back(
          {kind, static_cast<size_t>(a), static_cast<size_t>(b), static_cast<size_t>(length)});
    }
  }
  bool is_match(int64_t x, int64_t y) const {
    return x >= 0 && y >= 0 && x < static_cast<int64_t>(a_.size()) &&
           y < static_cast<int64_t>(b_.size()) && a_[x] == b_[y];
  }
  void keep(const std::vector<int64_t>& furthest, int64_t middle, int64_t d) {
    std::vector<int64_t>& round = rounds_.emplace_back();
    for (int64_t k = -d; k <= d; k += 2) round.push_back(furthest[middle + k]);
  }

  std::span<const uint32_t> a_;
  std::span<const uint32_t> b_;
  std::vector<std::vector<int64_t>> rounds_;
};

void compare(Compared& compared) {
  compared.edits = shortest_edits(compared.a, compared.b, kEditsMax, compared.is_shortest);
}

// Ranks that differ in the same calls at the same places are one group.
void add_group(Comparison& comparison, int32_t rank, Compared fresh) {
  for (Compared& group : comparison.groups) {
    if (group.a != fresh.a || group.b != fresh.b) continue;
    group.ranks.push_back(rank);
    return;
  }
  fresh.ranks.push_back(rank);
  compare(fresh);
  comparison.groups.push_back(std::move(fresh));
}

// Process by job rank; the first where several have one.
std::map<int32_t, uint32_t> ranks_of(const Index& index) {
  std::map<int32_t, uint32_t> ranks;
  for (const uint32_t p : index.active()) {
    const int32_t rank = index.run().processes[p].job_rank;
    if (rank >= 0) ranks.emplace(rank, p);
  }
  return ranks;
}

bool is_cut(const Process& process) {
  return process.first_complete_ticket > 1 || !process.knowledge.head;
}

size_t first_difference(const Compared& group) {
  for (const Edit& edit : group.edits) {
    if (edit.kind != Edit::same) return edit.begin_a;
  }
  return SIZE_MAX;
}

void sort_groups(Comparison& comparison) {
  std::stable_sort(comparison.groups.begin(), comparison.groups.end(),
                   [](const Compared& one, const Compared& other) {
                     if (one.is_equal() != other.is_equal()) return one.is_equal();
                     return first_difference(one) < first_difference(other);
                   });
}

}  // namespace

uint32_t CallTable::number_of(const CallShape& shape) {
  const Key key{shape.kind,           shape.datatype, shape.reduction,
                shape.root_or_offset, shape.count,    shape.comm};
  const auto [slot, is_new] = numbers_.try_emplace(key, static_cast<uint32_t>(shapes_.size()));
  if (is_new) shapes_.push_back(shape);
  return slot->second;
}

uint32_t CallTable::comm_number_of(const std::string& name) {
  const auto [slot, is_new] =
      comm_numbers_.try_emplace(name, static_cast<uint32_t>(comm_names_.size()));
  if (is_new) comm_names_.push_back(name);
  return slot->second;
}

std::vector<Edit> shortest_edits(std::span<const uint32_t> a, std::span<const uint32_t> b,
                                 size_t edits_max, bool& is_shortest) {
  size_t begin = 0;
  while (begin < a.size() && begin < b.size() && a[begin] == b[begin]) ++begin;
  size_t end = 0;
  while (end + begin < a.size() && end + begin < b.size() &&
         a[a.size() - 1 - end] == b[b.size() - 1 - end]) {
    ++end;
  }
  const auto middle_a = a.subspan(begin, a.size() - begin - end);
  const auto middle_b = b.subspan(begin, b.size() - begin - end);
  std::vector<Edit> edits;
  append(edits, Edit::same, 0, 0, begin);
  is_shortest = true;
  Rounds rounds(middle_a, middle_b);
  if (middle_a.empty() || middle_b.empty()) {
    append(edits, Edit::removed, begin, begin, middle_a.size());
    append(edits, Edit::added, begin, begin, middle_b.size());
  } else if (rounds.search(std::min(edits_max, middle_a.size() + middle_b.size()))) {
    for (const Edit& edit : rounds.path()) {
      append(edits, edit.kind, begin + edit.begin_a, begin + edit.begin_b, edit.length);
    }
  } else {
    is_shortest = false;
    append(edits, Edit::removed, begin, begin, middle_a.size());
    append(edits, Edit::added, a.size() - end, begin, middle_b.size());
  }
  append(edits, Edit::same, a.size() - end, b.size() - end, end);
  return edits;
}

std::vector<Fold> fold(std::span<const uint32_t> calls) {
  std::vector<Fold> folds;
  for (size_t at = 0; at < calls.size();) {
    // The body that covers most; of those the shortest.
    size_t body = 1;
    size_t times = 1;
    const size_t longest = std::min(kBodyMax, (calls.size() - at) / 2);
    for (size_t length = 1; length <= longest; ++length) {
      if (calls[at] != calls[at + length]) continue;
      size_t covered = length;
      while (at + covered < calls.size() && calls[at + covered] == calls[at + covered - length]) {
        ++covered;
      }
      const size_t repeats = covered / length;
      if (repeats > 1 && repeats * length > body * times) {
        body = length;
        times = repeats;
      }
    }
    Fold& next = folds.emplace_back();
    next.times = times;
    if (body == 1) {
      next.call = calls[at];
    } else {
      next.body = fold(calls.subspan(at, body));
    }
    at += body * times;
  }
  return folds;
}

std::vector<uint32_t> unfold(std::span<const Fold> folds) {
  std::vector<uint32_t> calls;
  for (const Fold& one : folds) {
    const std::vector<uint32_t> body =
        one.body.empty() ? std::vector<uint32_t>{one.call} : unfold(one.body);
    for (uint64_t i = 0; i < one.times; ++i) calls.insert(calls.end(), body.begin(), body.end());
  }
  return calls;
}

bool Comparison::is_equal() const {
  return only_a.empty() && only_b.empty() &&
         std::all_of(groups.begin(), groups.end(),
                     [](const Compared& group) { return group.is_equal(); });
}

Comparison compare_runs(const trace::Run& a, const trace::Run& b) {
  Comparison comparison;
  const Index index_a(a);
  const Index index_b(b);
  const std::map<int32_t, uint32_t> ranks_a = ranks_of(index_a);
  const std::map<int32_t, uint32_t> ranks_b = ranks_of(index_b);
  for (const auto& [rank, p] : ranks_a) {
    const auto other = ranks_b.find(rank);
    if (other == ranks_b.end()) {
      comparison.only_a.push_back(rank);
      continue;
    }
    if (is_cut(a.processes[p]) || is_cut(b.processes[other->second])) {
      comparison.cut.push_back(rank);
    }
    Compared fresh;
    fresh.a = calls_of(index_a, p, comparison.table);
    fresh.b = calls_of(index_b, other->second, comparison.table);
    add_group(comparison, rank, std::move(fresh));
  }
  for (const auto& [rank, p] : ranks_b) {
    if (!ranks_a.contains(rank)) comparison.only_b.push_back(rank);
  }
  sort_groups(comparison);
  return comparison;
}

Comparison compare_ranks(const trace::Run& run, int32_t first, int32_t second) {
  Comparison comparison;
  const Index index(run);
  const std::map<int32_t, uint32_t> ranks = ranks_of(index);
  const auto one = ranks.find(first);
  const auto other = ranks.find(second);
  if (one == ranks.end()) comparison.only_a.push_back(first);
  if (other == ranks.end()) comparison.only_b.push_back(second);
  if (one == ranks.end() || other == ranks.end()) return comparison;
  for (const auto& [rank, p] : {*one, *other}) {
    if (is_cut(run.processes[p])) comparison.cut.push_back(rank);
  }
  Compared fresh;
  fresh.a = calls_of(index, one->second, comparison.table);
  fresh.b = calls_of(index, other->second, comparison.table);
  add_group(comparison, first, std::move(fresh));
  return comparison;
}

}  // namespace rollcall::comparison
