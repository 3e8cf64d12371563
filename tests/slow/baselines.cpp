#include "tests/slow/baselines.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rollcall::timed {
namespace {

// (duration, job rank) of each collective, by communicator and position.
using Collectives = std::map<std::pair<uint64_t, uint64_t>, std::vector<std::pair<double, int>>>;

Collectives collectives_of(const trace::Run& run) {
  Collectives collectives;
  for (const trace::Process& process : run.processes) {
    for (const trace::Op& op : process.ops) {
      if (!is_collective(op.kind) || op.started_ns == 0 || op.finished_ns == 0) continue;
      const auto span = static_cast<double>(op.finished_ns - op.started_ns);
      collectives[{process.comms[op.comm].key.low, op.seq}].emplace_back(span, process.job_rank);
    }
  }
  for (auto& [key, list] : collectives) std::sort(list.begin(), list.end());
  return collectives;
}

int most_of(const std::map<int, int>& votes) {
  const auto most = std::max_element(
      votes.begin(), votes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == votes.end() ? -1 : most->first;
}

}  // namespace

int last_arrivals(const trace::Run& run) {
  std::map<int, int> votes;
  for (const auto& [key, list] : collectives_of(run)) {
    if (list.size() > 1) ++votes[list.front().second];
  }
  return most_of(votes);
}

// W. J. Dixon, "Ratios involving extreme values", 1951: r10 up to 7 values, r11 up to 10, r21 up to
// 13, r22 above.
double dixon_ratio(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  const size_t next = n <= 10 ? 1 : 2;
  const size_t end = n <= 7 ? n - 1 : n <= 13 ? n - 2 : n - 3;
  const double range = sorted[end] - sorted[0];
  return range > 0 ? (sorted[next] - sorted[0]) / range : 0;
}

double dixon_critical(size_t n) {
  constexpr double kCritical[] = {.994, .926, .821, .740, .680, .725, .677, .639, .713, .675,
                                  .649, .674, .647, .624, .605, .589, .575, .562, .551, .541,
                                  .532, .524, .516, .508, .501, .495, .489, .483};  // from n = 3
  constexpr size_t kSize = sizeof(kCritical) / sizeof(kCritical[0]);
  return kCritical[std::min(n - 3, kSize - 1)];
}

int dixon_votes(const trace::Run& run) {
  std::map<int, int> votes;
  for (const auto& [key, list] : collectives_of(run)) {
    if (list.size() < 3) continue;
    std::vector<double> spans;
    for (const auto& [span, rank] : list) spans.push_back(span);
    if (dixon_ratio(spans) > dixon_critical(spans.size())) ++votes[list.front().second];
  }
  return most_of(votes);
}

}  // namespace rollcall::timed
