#include "slow/exposed.h"

#include <fmt/format.h>

#include <algorithm>

namespace rollcall::slow {
namespace {

// The unit of a step that ends last; kNone where one is missing, or ended before any clock began:
// a damaged file may hold any times, and what is subtracted must fit.
uint32_t last_unit(const Timeline& timeline, const Steps& steps, uint32_t gpu, uint32_t step) {
  uint32_t last = kNone;
  for (uint32_t slot = 0; slot < steps.roles[timeline.gpus[gpu].role].length; ++slot) {
    const uint32_t unit = steps.unit_at(timeline, gpu, step, slot);
    if (unit == kNone || timeline.units[unit].finished_ns <= 0) return kNone;
    const bool is_later =
        last == kNone || timeline.units[unit].finished_ns > timeline.units[last].finished_ns;
    if (is_later) last = unit;
  }
  return last;
}

const trace::BusyTime* busy_at(const trace::Process& process, const Unit& unit) {
  const uint64_t ticket = process.ops[unit.op].ticket;
  const auto found = std::lower_bound(
      process.busy.begin(), process.busy.end(), ticket,
      [](const trace::BusyTime& busy, uint64_t wanted) { return busy.ticket < wanted; });
  if (found == process.busy.end() || found->ticket != ticket) return nullptr;
  return &*found;
}

void add(const BusySums& one, BusySums& sum) {
  sum.step_ns += one.step_ns;
  sum.compute_ns += one.compute_ns;
  sum.communication_ns += one.communication_ns;
  sum.either_ns += one.either_ns;
}

void divide(BusySums& sum, size_t count) {
  const auto parts = static_cast<double>(count);
  sum.step_ns /= parts;
  sum.compute_ns /= parts;
  sum.communication_ns /= parts;
  sum.either_ns /= parts;
}

bool is_possible(const BusySums& sums) {
  return sums.step_ns > 0 && sums.compute_ns >= 0 && sums.communication_ns >= 0 &&
         sums.either_ns <= sums.step_ns && sums.compute_ns <= sums.either_ns &&
         sums.either_ns <= sums.compute_ns + sums.communication_ns &&
         sums.communication_ns <= sums.either_ns;
}

class Measurer {
 public:
  Measurer(const trace::Run& run, const Timeline& timeline, const Steps& steps)
      : run_(run), timeline_(timeline), steps_(steps) {}

  Exposed measure() {
    exposed_.gpus.resize(timeline_.gpus.size());
    BusySums sum;
    for (uint32_t gpu = 0; gpu < timeline_.gpus.size(); ++gpu) {
      exposed_.gpus[gpu] = mean_of(gpu);
      if (!exposed_.gpus[gpu]) continue;
      ++exposed_.measured;
      add(*exposed_.gpus[gpu], sum);
    }
    if (exposed_.is_measured()) {
      divide(sum, exposed_.measured);
      exposed_.mean = sum;
    } else {
      exposed_.at_most = bound();
    }
    return std::move(exposed_);
  }

 private:
  const trace::Process& process_of(uint32_t gpu) const {
    return run_.processes[timeline_.gpus[gpu].process];
  }

  std::optional<BusySums> mean_of(uint32_t gpu) {
    if (timeline_.gpus[gpu].role == kNone || steps_.usable.empty()) {
      return nothing("the calls of a rank do not repeat themselves");
    }
    const trace::Process& process = process_of(gpu);
    if (process.gpu >= 0) return nothing("one process drives several GPUs");
    if (process.busy.empty()) return nothing(why_not(process));
    BusySums sum;
    for (const uint32_t step : steps_.usable) {
      const std::optional<BusySums> one = busy_sums(process, timeline_, steps_, gpu, step);
      if (!one) return nothing("the times of kernels and of calls contradict each other");
      add(*one, sum);
    }
    divide(sum, steps_.usable.size());
    return sum;
  }

  std::optional<BusySums> nothing(std::string reason) {
    if (exposed_.why_not.empty()) exposed_.why_not = std::move(reason);
    return std::nullopt;
  }

  static std::string why_not(const trace::Process& process) {
    if (!process.busy_why_not.empty()) return process.busy_why_not;
    if (process.is_foreign()) return "the file does not have the kernels of the GPU";
    return "Rollcall times NCCL's operations and no other kernels, which traces of the PyTorch "
           "profiler have";
  }

  // Of the time of the steps, that in which operations were on their way, in the mean of the GPUs.
  std::optional<double> bound() const {
    if (timeline_.replays != 0 || steps_.usable.empty()) return std::nullopt;
    double shares = 0;
    uint32_t count = 0;
    for (uint32_t gpu = 0; gpu < timeline_.gpus.size(); ++gpu) {
      if (timeline_.gpus[gpu].role == kNone) continue;
      const std::optional<double> share = bound(gpu);
      if (!share) return std::nullopt;
      shares += *share;
      ++count;
    }
    if (count == 0) return std::nullopt;
    return shares / count;
  }

  std::optional<double> bound(uint32_t gpu) const {
    const std::optional<Spans> spans = spans_of(gpu);
    if (!spans) return std::nullopt;
    double busy_ns = 0;
    double steps_ns = 0;
    for (const uint32_t step : steps_.usable) {
      const uint32_t before = last_unit(timeline_, steps_, gpu, step - 1);
      const uint32_t last = last_unit(timeline_, steps_, gpu, step);
      if (before == kNone || last == kNone) return std::nullopt;
      const int64_t begin_ns = timeline_.units[before].finished_ns;
      const int64_t end_ns = timeline_.units[last].finished_ns;
      if (end_ns <= begin_ns) return std::nullopt;
      busy_ns += static_cast<double>(length_between(*spans, begin_ns, end_ns));
      steps_ns += static_cast<double>(end_ns - begin_ns);
    }
    return busy_ns / steps_ns;
  }

  using Spans = std::vector<std::pair<int64_t, int64_t>>;

  // In which any operation was on its way, whichever step it is of: rising, apart. nullopt: of one
  // that is not known.
  std::optional<Spans> spans_of(uint32_t gpu) const {
    Spans spans;
    for (uint32_t u = timeline_.gpus[gpu].begin; u < timeline_.gpus[gpu].end; ++u) {
      const Unit& unit = timeline_.units[u];
      if (unit.finished_ns <= 0) return std::nullopt;
      spans.emplace_back(unit.arrived_ns - unit.doubt_ns, unit.finished_ns);
    }
    std::sort(spans.begin(), spans.end());
    size_t kept = 0;
    for (const auto& span : spans) {
      if (kept != 0 && span.first <= spans[kept - 1].second) {
        spans[kept - 1].second = std::max(spans[kept - 1].second, span.second);
      } else {
        spans[kept++] = span;
      }
    }
    spans.resize(kept);
    return spans;
  }

  static int64_t length_between(const Spans& spans, int64_t begin_ns, int64_t end_ns) {
    auto span = std::lower_bound(
        spans.begin(), spans.end(), begin_ns,
        [](const auto& one, int64_t wanted_ns) { return one.second <= wanted_ns; });
    int64_t length_ns = 0;
    for (; span != spans.end() && span->first < end_ns; ++span) {
      length_ns += std::min(span->second, end_ns) - std::max(span->first, begin_ns);
    }
    return length_ns;
  }

  const trace::Run& run_;
  const Timeline& timeline_;
  const Steps& steps_;
  Exposed exposed_;
};

}  // namespace

std::optional<double> BusySums::overlap_share() const {
  if (communication_ns <= 0) return std::nullopt;
  return overlap_ns() / communication_ns;
}

std::optional<BusySums> busy_sums(const trace::Process& process, const Timeline& timeline,
                                  const Steps& steps, uint32_t gpu, uint32_t step) {
  if (step == 0 || timeline.gpus[gpu].role == kNone) return std::nullopt;
  const uint32_t before = last_unit(timeline, steps, gpu, step - 1);
  const uint32_t last = last_unit(timeline, steps, gpu, step);
  if (before == kNone || last == kNone) return std::nullopt;
  const trace::BusyTime* from = busy_at(process, timeline.units[before]);
  const trace::BusyTime* to = busy_at(process, timeline.units[last]);
  if (from == nullptr || to == nullptr) return std::nullopt;
  const int64_t step_ns = timeline.units[last].finished_ns - timeline.units[before].finished_ns;
  const BusySums sums{
      .step_ns = static_cast<double>(step_ns),
      .compute_ns = static_cast<double>(to->compute_ns - from->compute_ns),
      .communication_ns = static_cast<double>(to->communication_ns - from->communication_ns),
      .either_ns = static_cast<double>(to->either_ns - from->either_ns)};
  if (!is_possible(sums)) return std::nullopt;
  return sums;
}

Exposed measure_exposed(const trace::Run& run, const Timeline& timeline, const Steps& steps) {
  return Measurer(run, timeline, steps).measure();
}

}  // namespace rollcall::slow
