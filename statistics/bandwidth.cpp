#include "statistics/bandwidth.h"

#include "analysis/terms/calls.h"

namespace rollcall::statistics {

using analysis::bytes_of;

namespace {

// Operations whose count is that of one rank's part.
bool counts_one_part(OpKind kind) {
  return kind == OpKind::ReduceScatter || kind == OpKind::AllGather || kind == OpKind::AlltoAll ||
         kind == OpKind::Gather || kind == OpKind::Scatter;
}

}  // namespace

uint64_t operation_bytes(const trace::Op& op, int32_t nranks) {
  const uint64_t bytes = bytes_of(op);
  if (!counts_one_part(op.kind)) return bytes;
  return nranks > 0 ? bytes * static_cast<uint64_t>(nranks) : 0;
}

std::optional<double> bus_factor(OpKind kind, int32_t nranks) {
  if (kind == OpKind::Broadcast || kind == OpKind::Reduce || is_p2p(kind)) return 1.0;
  if (nranks <= 0) return std::nullopt;
  const double share = static_cast<double>(nranks - 1) / nranks;
  if (kind == OpKind::AllReduce) return 2 * share;
  if (counts_one_part(kind)) return share;
  return std::nullopt;
}

std::optional<Bandwidth> bandwidth_of(const trace::Op& op, int32_t nranks, int64_t time_ns) {
  const uint64_t bytes = operation_bytes(op, nranks);
  const std::optional<double> factor = bus_factor(op.kind, nranks);
  if (bytes == 0 || time_ns <= 0 || !factor) return std::nullopt;
  const double algorithm = static_cast<double>(bytes) / static_cast<double>(time_ns);
  return Bandwidth{.algorithm_gbps = algorithm, .bus_gbps = algorithm * *factor};
}

}  // namespace rollcall::statistics
