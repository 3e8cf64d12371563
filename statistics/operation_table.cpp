#include "statistics/operation_table.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "analysis/record/index.h"
#include "analysis/views/by_gpu.h"

namespace rollcall::statistics {

using analysis::Group;
using analysis::Index;
using analysis::kNone;
using analysis::Seat;

namespace {

using trace::Op;
using trace::Process;

// Group of the index, operation, bucket: the exponent of the size, 0 for no bytes.
using Key = std::tuple<uint32_t, OpKind, uint32_t>;

struct Bucket {
  uint64_t bytes_from = ~uint64_t{0};
  uint64_t bytes_to = 0;
  uint64_t calls = 0;
  uint64_t with_launch = 0;
  std::vector<int64_t> times_ns;
  // The shortest time of each collective, by seq; transfers have one time each.
  std::map<uint64_t, std::pair<int64_t, const Op*>> fastest;
  std::vector<std::pair<int64_t, const Op*>> transfers;
};

struct CallGroup {
  uint32_t operations = 0;
  int64_t end_returned_ns = 0;  // of its end, which launches them
};

std::map<uint32_t, CallGroup> groups_of(const Process& process) {
  std::map<uint32_t, CallGroup> groups;
  for (const Op& op : process.ops) {
    if (op.group == 0) continue;
    if (op.kind == OpKind::GroupEnd) groups[op.group].end_returned_ns = op.returned_ns;
    if (!is_mark(op.kind)) ++groups[op.group].operations;
  }
  return groups;
}

// `launching_until_ns`: the return of the call that launches it; 0 where that is not known.
void add_time(const Op& op, bool is_alone, int64_t launching_until_ns, Bucket& bucket) {
  if (op.started_ns == 0 || op.finished_ns == 0) return;
  // Of a call that came back before it launched only the end of the launch is known.
  const bool knows_launch = op.launched_ns != 0 && op.result != kResultInProgress;
  const int64_t launched_ns = knows_launch ? std::min(op.launched_ns, op.finished_ns) : 0;
  const int64_t time_ns = op.finished_ns - std::max(op.started_ns, launched_ns);
  if (time_ns < 0) return;
  bucket.times_ns.push_back(time_ns);
  if (!knows_launch && op.started_ns < launching_until_ns) ++bucket.with_launch;
  if (!is_alone) return;
  if (is_p2p(op.kind)) {
    bucket.transfers.emplace_back(time_ns, &op);
    return;
  }
  const auto [place, is_new] = bucket.fastest.try_emplace(op.seq, time_ns, &op);
  if (!is_new && time_ns < place->second.first) place->second = {time_ns, &op};
}

// The nearest-rank percentile; the values get sorted.
template <class Value>
Value percentile(std::vector<Value>& values, unsigned percent) {
  std::sort(values.begin(), values.end());
  const size_t place = (values.size() * percent + 99) / 100;
  return values[std::max<size_t>(place, 1) - 1];
}

std::optional<Bandwidth> median_bandwidth(const Bucket& bucket, OpKind kind, int32_t nranks) {
  std::vector<double> speeds;
  const auto add = [&](const std::pair<int64_t, const Op*>& one) {
    if (const auto speed = bandwidth_of(*one.second, nranks, one.first)) {
      speeds.push_back(speed->algorithm_gbps);
    }
  };
  for (const auto& [seq, one] : bucket.fastest) add(one);
  for (const auto& one : bucket.transfers) add(one);
  const std::optional<double> factor = bus_factor(kind, nranks);
  if (speeds.empty() || !factor) return std::nullopt;
  const double median = percentile(speeds, 50);
  return Bandwidth{.algorithm_gbps = median, .bus_gbps = median * *factor};
}

OperationRow row_of(const Group& group, const Key& key, Bucket& bucket) {
  OperationRow row;
  row.comm = group.key;
  row.comm_name = group.name;
  row.nranks = group.nranks;
  row.kind = std::get<1>(key);
  row.bytes_from = bucket.bytes_from;
  row.bytes_to = bucket.bytes_to;
  row.calls = bucket.calls;
  row.timed = bucket.times_ns.size();
  row.with_launch = bucket.with_launch;
  if (row.timed == 0) return row;
  row.median_ns = percentile(bucket.times_ns, 50);
  row.p99_ns = percentile(bucket.times_ns, 99);
  row.median_bandwidth = median_bandwidth(bucket, row.kind, row.nranks);
  return row;
}

std::vector<OperationRow> table_of(const trace::Run& run) {
  const Index index(run);
  std::map<Key, Bucket> buckets;
  for (const uint32_t p : index.active()) {
    const Process& process = run.processes[p];
    const std::map<uint32_t, CallGroup> groups = groups_of(process);
    for (const Op& op : process.ops) {
      const Seat seat = index.seat(p, op.comm);
      if (is_mark(op.kind) || seat.group == kNone) continue;
      const uint64_t bytes = operation_bytes(op, index.groups()[seat.group].nranks);
      Bucket& bucket = buckets[{seat.group, op.kind, std::bit_width(bytes)}];
      bucket.bytes_from = std::min(bucket.bytes_from, bytes);
      bucket.bytes_to = std::max(bucket.bytes_to, bytes);
      ++bucket.calls;
      const CallGroup own{.operations = 1, .end_returned_ns = op.returned_ns};
      const CallGroup& launch = op.group == 0 ? own : groups.at(op.group);
      add_time(op, launch.operations == 1, launch.end_returned_ns, bucket);
    }
  }
  std::vector<OperationRow> rows;
  for (auto& [key, bucket] : buckets) {
    rows.push_back(row_of(index.groups()[std::get<0>(key)], key, bucket));
  }
  return rows;
}

}  // namespace

std::vector<OperationRow> operation_table(const trace::Run& run) {
  // Calls for several GPUs in one group do not share a time: each GPU has its own streams.
  const std::optional<analysis::Parts> parts = analysis::take_apart(run);
  return table_of(parts ? parts->run : run);
}

}  // namespace rollcall::statistics
