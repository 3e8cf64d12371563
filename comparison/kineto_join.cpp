#include "comparison/kineto_join.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "trace/import/torch_names.h"
#include "trace/saturated.h"

namespace rollcall::comparison {
namespace {

using trace::saturated_difference;
using trace::saturated_sum;

// Clocks of one host, read by two programs, differ by less; in so much a job makes few calls.
constexpr int64_t kClocksApartNs = 1'000'000;
constexpr int64_t kJitterNs = 20'000;
// Records of a lane that are asked for the constant, and how many constants are tried of it.
constexpr size_t kAsked = 64;
constexpr size_t kTriedMax = 64;

// Whose numbers have one constant: a group's collectives, or its transfers to or from one rank.
struct Lane {
  std::string group;
  std::optional<OpKind> transfer;
  int64_t peer = -1;
  // NOLINTNEXTLINE(modernize-use-nullptr): the check takes the generated comparison for one
  auto operator<=>(const Lane&) const = default;
};

struct Numbered {
  uint32_t record;
  int64_t number;
};

// Where the lane's calls are: numbers of these plus `ahead` are those of the records.
struct Place {
  uint32_t comm = 0;
  int64_t ahead = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): the check takes the generated comparison for one
  auto operator<=>(const Place&) const = default;
};

struct Bounds {
  int64_t low_ns = INT64_MIN;
  int64_t high_ns = INT64_MAX;
  // Both clocks are computed, and a little off from call to call.
  bool is_possible() const { return !is_bound() || low_ns <= saturated_sum(high_ns, kJitterNs); }
  bool is_bound() const { return low_ns != INT64_MIN && high_ns != INT64_MAX; }
  // What has to be added at least.
  int64_t offset_ns() const {
    if (!is_bound() || (low_ns <= 0 && high_ns >= 0)) return 0;
    return std::midpoint(low_ns, high_ns);
  }
};

class Joiner {
 public:
  Joiner(const trace::KinetoTrace& kineto, const trace::Process& process)
      : kineto_(kineto), process_(process) {}

  KinetoJoin join() {
    index_calls();
    sort_into_lanes();
    // What many records say of the clock, few have to agree with.
    std::vector<std::vector<Numbered>> lanes;
    for (auto& [lane, records] : lanes_) lanes.push_back(std::move(records));
    std::stable_sort(lanes.begin(), lanes.end(),
                     [](const auto& one, const auto& other) { return one.size() > other.size(); });
    for (const std::vector<Numbered>& records : lanes) join_lane(records);
    set_offset();
    for (uint32_t at = 0; at < kineto_.calls.size(); ++at) {
      if (stands_for_calls(kineto_.calls[at]) && joined_.count(at) == 0) join_by_time(at);
    }
    std::stable_sort(
        result_.calls.begin(), result_.calls.end(),
        [](const JoinedCall& one, const JoinedCall& other) { return one.record < other.record; });
    return std::move(result_);
  }

 private:
  static bool stands_for_calls(const trace::KinetoRecord& record) {
    return record.collective != "wait";
  }
  int64_t begin_ns(const trace::KinetoRecord& record) const {
    return moved(kineto_.at_ns(record.ts_us));
  }
  int64_t end_ns(const trace::KinetoRecord& record) const {
    return moved(kineto_.at_ns(record.ts_us + record.duration_us));
  }
  // 0: not known, or no clock shows it.
  int64_t moved(int64_t time_ns) const {
    if (time_ns == 0) return 0;
    const int64_t moved_ns = saturated_sum(time_ns, process_.clock_moved_ns);
    return moved_ns < 0 || moved_ns > trace::kTimeMaxNs ? 0 : moved_ns;
  }

  void index_calls() {
    for (uint32_t at = 0; at < process_.ops.size(); ++at) {
      const trace::Op& op = process_.ops[at];
      if (is_mark(op.kind) || op.comm >= process_.comms.size() || op.called_ns <= 0) continue;
      by_time_.emplace_back(op.called_ns, at);
      if ((op.flags & kOpSeqUnknown) != 0) continue;
      numbered_.emplace(number_of(op, static_cast<int64_t>(op.seq)), at);
    }
    std::sort(by_time_.begin(), by_time_.end());
  }

  using CallNumber = std::tuple<uint32_t, OpKind, int32_t, int64_t>;
  static CallNumber number_of(const trace::Op& op, int64_t seq) {
    // Collectives of all kinds are numbered together.
    if (!is_p2p(op.kind)) return {op.comm, OpKind::AllReduce, -1, seq};
    return {op.comm, op.kind, op.root_or_peer, seq};
  }

  void sort_into_lanes() {
    std::map<Lane, int64_t> counted;
    for (uint32_t at = 0; at < kineto_.calls.size(); ++at) {
      const trace::KinetoRecord& record = kineto_.calls[at];
      if (!stands_for_calls(record)) continue;
      ++result_.records;
      const std::optional<OpKind> kind = trace::torch_kind_of(record.collective);
      if (!kind) continue;  // several calls
      Lane lane{record.group + record.ranks, std::nullopt, -1};
      if (is_p2p(*kind)) {
        lane.transfer = kind;
        lane.peer = record.rank;
      }
      const bool has_number = record.seq >= 0 && !is_p2p(*kind);
      const int64_t position = counted[lane]++;
      lanes_[lane].push_back({at, has_number ? record.seq : position});
    }
  }

  bool is_alike(const trace::KinetoRecord& record, const trace::Op& op) const {
    const std::optional<OpKind> kind = trace::torch_kind_of(record.collective);
    if (!kind || *kind != op.kind) return false;
    const uint64_t count = trace::count_of(*kind, record);
    const uint8_t datatype = trace::torch_datatype_of(record.dtype);
    if (count == trace::kCountUnknown || op.count == trace::kCountUnknown) return true;
    if (datatype != kUnknown8 && op.datatype != kUnknown8 && datatype != op.datatype) return false;
    return count == op.count;
  }

  // The calls that the record's thread made in [begin, end].
  std::vector<uint32_t> calls_between(const trace::KinetoRecord& record, int64_t begin,
                                      int64_t end) const {
    std::vector<uint32_t> calls;
    auto at =
        std::lower_bound(by_time_.begin(), by_time_.end(), std::pair<int64_t, uint32_t>(begin, 0));
    for (; at != by_time_.end() && at->first <= end; ++at) {
      const trace::Op& op = process_.ops[at->second];
      const bool is_other_thread = op.thread < process_.threads.size() && record.tid > 0 &&
                                   process_.threads[op.thread].tid != record.tid;
      if (!is_other_thread) calls.push_back(at->second);
    }
    return calls;
  }

  const trace::Op* call_at(const trace::KinetoRecord& record, const Place& place,
                           int64_t number) const {
    trace::Op key;
    key.comm = place.comm;
    key.kind = trace::torch_kind_of(record.collective).value_or(OpKind::AllReduce);
    key.root_or_peer = static_cast<int32_t>(record.rank);
    const auto found = numbered_.find(number_of(key, saturated_difference(number, place.ahead)));
    return found == numbered_.end() ? nullptr : &process_.ops[found->second];
  }

  std::set<Place> places_of(const std::vector<Numbered>& records) const {
    std::set<Place> places;
    const size_t step = std::max<size_t>(records.size() / kAsked, 1);
    for (size_t at = 0; at < records.size(); at += step) {
      const trace::KinetoRecord& record = kineto_.calls[records[at].record];
      for (const uint32_t call : calls_between(record, begin_ns(record) - kClocksApartNs,
                                               end_ns(record) + kClocksApartNs)) {
        const trace::Op& op = process_.ops[call];
        if ((op.flags & kOpSeqUnknown) != 0 || !is_alike(record, op)) continue;
        places.insert(
            {op.comm, saturated_difference(records[at].number, static_cast<int64_t>(op.seq))});
        if (places.size() >= kTriedMax) return places;
      }
    }
    return places;
  }

  // Of a record and its call: what has to be added to Kineto's clock, at least and at most.
  void bound(const trace::KinetoRecord& record, const trace::Op& op, Bounds& bounds) const {
    const int64_t begin = begin_ns(record);
    const int64_t end = end_ns(record);
    if (begin == 0 || end == 0) return;
    bounds.high_ns = std::min(bounds.high_ns, op.called_ns - begin);
    if (op.returned_ns > 0) bounds.low_ns = std::max(bounds.low_ns, op.returned_ns - end);
  }

  // A constant that is wrong joins neighbours, which no one offset of a clock explains.
  void join_lane(const std::vector<Numbered>& records) {
    std::optional<Place> best;
    std::pair<uint64_t, int64_t> best_worth;
    for (const Place& place : places_of(records)) {
      Bounds bounds = bounds_;
      uint64_t joined = 0;
      for (const Numbered& numbered : records) {
        const trace::KinetoRecord& record = kineto_.calls[numbered.record];
        const trace::Op* op = call_at(record, place, numbered.number);
        if (op == nullptr || !is_alike(record, *op)) continue;
        ++joined;
        bound(record, *op, bounds);
      }
      const std::pair worth(joined, -std::abs(bounds.offset_ns()));
      if (!bounds.is_possible() || (best && worth <= best_worth)) continue;
      best = place;
      best_worth = worth;
    }
    if (best) take(records, *best);
  }

  void take(const std::vector<Numbered>& records, const Place& place) {
    for (const Numbered& numbered : records) {
      const trace::KinetoRecord& record = kineto_.calls[numbered.record];
      const trace::Op* op = call_at(record, place, numbered.number);
      if (op == nullptr || !is_alike(record, *op) || !taken_.insert(op->ticket).second) continue;
      joined_.insert(numbered.record);
      result_.calls.push_back({numbered.record, op->ticket, true});
      bound(record, *op, bounds_);
    }
  }

  void set_offset() {
    if (!bounds_.is_bound()) return;
    result_.offset_ns = bounds_.offset_ns();
    result_.bound_ns = std::max(std::abs(bounds_.low_ns - result_.offset_ns),
                                std::abs(bounds_.high_ns - result_.offset_ns));
  }

  void join_by_time(uint32_t at) {
    const trace::KinetoRecord& record = kineto_.calls[at];
    const int64_t begin = saturated_sum(begin_ns(record), result_.offset_ns);
    const int64_t end = saturated_sum(end_ns(record), result_.offset_ns);
    bool is_joined = false;
    for (const uint32_t call : calls_between(record, begin, end)) {
      const uint64_t ticket = process_.ops[call].ticket;
      if (!taken_.insert(ticket).second) continue;
      result_.calls.push_back({at, ticket, false});
      is_joined = true;
    }
    if (!is_joined) ++result_.left_out[reason(begin)];
  }

  const char* reason(int64_t begin) const {
    if (by_time_.empty()) return "of a process without calls on file";
    if (begin < by_time_.front().first) return "older than the calls on file";
    if (begin > by_time_.back().first) return "newer than the calls on file";
    return "without a call on file";
  }

  const trace::KinetoTrace& kineto_;
  const trace::Process& process_;
  std::vector<std::pair<int64_t, uint32_t>> by_time_;
  std::map<CallNumber, uint32_t> numbered_;
  std::map<Lane, std::vector<Numbered>> lanes_;
  std::set<uint64_t> taken_;   // tickets
  std::set<uint32_t> joined_;  // records
  Bounds bounds_;
  KinetoJoin result_;
};

}  // namespace

KinetoJoin join_kineto(const trace::KinetoTrace& kineto, const trace::Process& process) {
  return Joiner(kineto, process).join();
}

}  // namespace rollcall::comparison
