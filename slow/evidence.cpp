#include "slow/evidence.h"

#include <algorithm>
#include <numeric>

#include "slow/robust.h"

namespace rollcall::slow {

Evidence::Evidence(Timeline& timeline, const Steps& steps)
    : timeline_(timeline),
      steps_(steps),
      own_times_(timeline, steps),
      replay_(timeline, steps, own_times_) {
  if (!replay_.is_consistent()) return;
  ends_ = replay_.recorded_step_ends();
  add_up_own_times();
  measure_steps();
  charge_steps();
}

void Evidence::add_up_own_times() {
  own_ns_.resize(timeline_.gpus.size());
  before_call_ns_.resize(timeline_.gpus.size());
  for (uint32_t g = 0; g < timeline_.gpus.size(); ++g) {
    const uint32_t role = timeline_.gpus[g].role;
    if (role == kNone) continue;
    for (const uint32_t step : steps_.usable) {
      double sum_ns = 0;
      double before_call_ns = 0;
      for (uint32_t slot = 0; slot < steps_.roles[role].length; ++slot) {
        const uint32_t unit = steps_.unit_at(timeline_, g, step, slot);
        const auto own_ns = static_cast<double>(own_times_.own_ns(unit));
        sum_ns += own_ns;
        before_call_ns += std::max(own_ns - timeline_.units[unit].lead_ns, 0.0);
      }
      own_ns_[g].push_back(sum_ns);
      before_call_ns_[g].push_back(before_call_ns);
    }
  }
}

void Evidence::measure_steps() {
  const auto end_of = [this](uint32_t g, uint32_t step) {
    int64_t end_ns = 0;
    for (uint32_t slot = 0; slot < steps_.roles[timeline_.gpus[g].role].length; ++slot) {
      const uint32_t unit = steps_.unit_at(timeline_, g, step, slot);
      if (unit != kNone) end_ns = std::max(end_ns, timeline_.units[unit].finished_ns);
    }
    return end_ns;
  };
  for (const uint32_t step : steps_.usable) {
    std::vector<double> spans;
    for (uint32_t g = 0; g < timeline_.gpus.size(); ++g) {
      if (timeline_.gpus[g].role == kNone) continue;
      spans.push_back(static_cast<double>(end_of(g, step) - end_of(g, step - 1)));
    }
    step_ns_.push_back(median(std::move(spans)));
  }
  median_step_ns_ = median(step_ns_);
}

void Evidence::charge_steps() {
  for (const uint32_t step : steps_.usable) replay_.charge(step, ends_, charges_);
}

double Evidence::unexplained() const {
  const double recorded_ns = std::accumulate(step_ns_.begin(), step_ns_.end(), 0.0);
  return recorded_ns > 0 ? 1 - static_cast<double>(charges_.total_ns()) / recorded_ns : 0;
}

std::vector<double> Evidence::excess_ns(uint32_t gpu, const std::vector<uint32_t>& others) const {
  std::vector<uint32_t> peers;
  for (const uint32_t peer : steps_.roles[timeline_.gpus[gpu].role].gpus) {
    const bool is_other = std::find(others.begin(), others.end(), peer) != others.end();
    if (peer != gpu && !is_other) peers.push_back(peer);
  }
  std::vector<double> excess;
  if (peers.empty()) return excess;
  for (size_t i = 0; i < compared(); ++i) {
    std::vector<double> theirs;
    for (const uint32_t peer : peers) theirs.push_back(own_ns_[peer][i]);
    excess.push_back(own_ns_[gpu][i] - median(std::move(theirs)));
  }
  return excess;
}

std::vector<double> Evidence::saved_ns(const std::vector<int64_t>& own_ns,
                                       const std::vector<int64_t>& transfer_ns) {
  const std::vector<int64_t> ends = replay_.step_ends(own_ns, transfer_ns);
  std::vector<double> saved;
  for (const uint32_t step : steps_.usable) {
    const int64_t was_ns = ends_[step] - ends_[step - 1];
    saved.push_back(static_cast<double>(was_ns - (ends[step] - ends[step - 1])));
  }
  return saved;
}

double floor_of(const std::vector<double>& saved_ns, double step_ns) {
  if (step_ns <= 0) return 1;
  return std::max(kFloorMin, kFloorErrors * median_error(saved_ns) / step_ns);
}

}  // namespace rollcall::slow
