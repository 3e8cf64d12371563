#include "slow/own_time.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "slow/robust.h"

namespace rollcall::slow {
namespace {

constexpr size_t kSampled = 256;      // units of one slot that are looked at
constexpr size_t kSampledOfGpu = 24;  // of these, of one GPU
constexpr size_t kLookBack = 6;
constexpr size_t kWaitsMax = 4;
// The resolution of CUDA's events, twice.
constexpr int64_t kResolutionNs = 1'000;
// Behind the end of what a stream waited for it arrives within so much: events, a launch.
constexpr int64_t kPinnedNs = 20'000;
// In so many of the steps it arrives just behind a unit that it waits for.
constexpr double kPinnedShare = 0.1;
// Work that shows less often tells nothing of where it began.
constexpr size_t kShowingMin = 8;
// The other kind of base, an arrival or an end, must be steadier by this than the one expected.
constexpr double kAsSteady = 1.2;
constexpr double kAsSteadyNs = 2'000;

}  // namespace

OwnTimes::OwnTimes(const Timeline& timeline, const Steps& steps)
    : timeline_(timeline), steps_(steps) {
  link_streams();
  slots_.resize(steps.roles.size());
  for (uint32_t role = 0; role < steps.roles.size(); ++role) learn(role);
  measure();
}

// Only timed units count: what is not timed has no end.
void OwnTimes::link_streams() {
  before_.assign(timeline_.units.size(), kNone);
  for (const Gpu& gpu : timeline_.gpus) {
    std::map<uint16_t, uint32_t> last;
    for (uint32_t u = gpu.begin; u < gpu.end; ++u) {
      if (!timeline_.units[u].is_timed()) continue;
      const auto [place, is_first] = last.try_emplace(timeline_.units[u].stream, u);
      if (is_first) continue;
      before_[u] = place->second;
      place->second = u;
    }
  }
}

OwnTimes::Sample OwnTimes::sample_of(uint32_t role) const {
  Sample sample;
  const std::vector<uint32_t>& gpus = steps_.roles[role].gpus;
  const size_t each = std::clamp<size_t>(kSampled / gpus.size(), 2, kSampledOfGpu);
  const size_t stride = std::max<size_t>(steps_.usable.size() / each, 1);
  for (const uint32_t gpu : gpus) {
    for (size_t s = 0; s < steps_.usable.size(); s += stride) {
      sample.emplace_back(gpu, steps_.usable[s]);
    }
  }
  return sample;
}

void OwnTimes::sort_by_end(const Sample& sample) {
  by_end_.assign(timeline_.gpus.size(), {});
  for (const auto& [g, step] : sample) {
    std::vector<uint32_t>& list = by_end_[g];
    if (!list.empty()) continue;
    for (uint32_t u = timeline_.gpus[g].begin; u < timeline_.gpus[g].end; ++u) {
      if (timeline_.units[u].is_timed()) list.push_back(u);
    }
    std::sort(list.begin(), list.end(), [this](uint32_t a, uint32_t b) {
      return timeline_.units[a].finished_ns < timeline_.units[b].finished_ns;
    });
  }
}

void OwnTimes::learn(uint32_t role) {
  const Sample sample = sample_of(role);
  sort_by_end(sample);
  for (uint32_t slot = 0; slot < steps_.roles[role].length; ++slot) {
    slots_[role].push_back(learn(slot, sample));
  }
  by_end_.clear();
}

// Ends before the arrivals that are looked at, the most frequent first; behind them the arrivals of
// the two calls in front.
std::vector<Relative> OwnTimes::candidates(uint32_t slot, const Sample& sample) const {
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> ends;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> arrivals;
  for (const auto& [gpu, step] : sample) {
    const uint32_t unit = steps_.unit_at(timeline_, gpu, step, slot);
    const std::vector<uint32_t>& list = by_end_[gpu];
    const auto vote = [&, step = step](uint32_t before, auto& votes) {
      const Unit& other = timeline_.units[before];
      if (before == unit || other.step == kNone || other.step > step) return;
      if (step - other.step <= 1) ++votes[{other.slot, step - other.step}];
    };
    auto place = std::upper_bound(
        list.begin(), list.end(), timeline_.units[unit].arrived_ns,
        [this](int64_t at_ns, uint32_t u) { return at_ns < timeline_.units[u].finished_ns; });
    for (size_t i = 0; i < kLookBack && place != list.begin(); ++i) vote(*--place, ends);
    for (uint32_t i = 1; i <= 2 && unit >= timeline_.gpus[gpu].begin + i; ++i) {
      vote(unit - i, arrivals);
    }
  }
  std::vector<Relative> found;
  const auto add = [&found](const auto& votes, bool from_arrival) {
    std::vector<std::pair<uint32_t, Relative>> ranked;
    for (const auto& [what, count] : votes) {
      ranked.push_back({count, {what.first, what.second, from_arrival}});
    }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [count, relative] : ranked) found.push_back(relative);
  };
  add(ends, false);
  add(arrivals, true);
  return found;
}

uint32_t OwnTimes::resolve(const Relative& relative, uint32_t unit) const {
  const Unit& own = timeline_.units[unit];
  if (relative.slot == kNone) return before_[unit];
  if (own.step < relative.steps_before) return kNone;
  const uint32_t found =
      steps_.unit_at(timeline_, own.gpu, own.step - relative.steps_before, relative.slot);
  return found == kNone || !timeline_.units[found].is_timed() ? kNone : found;
}

// INT64_MIN where it is not on file.
int64_t OwnTimes::time_of(const Relative& relative, uint32_t unit) const {
  const uint32_t found = resolve(relative, unit);
  if (found == kNone) return INT64_MIN;
  return relative.from_arrival ? timeline_.units[found].arrived_ns
                               : timeline_.units[found].finished_ns;
}

bool OwnTimes::is_refuted(const Relative& candidate, uint32_t slot, const Sample& sample) const {
  for (const auto& [gpu, step] : sample) {
    const uint32_t unit = steps_.unit_at(timeline_, gpu, step, slot);
    if (time_of(candidate, unit) > timeline_.units[unit].arrived_ns + kResolutionNs) return true;
  }
  return false;
}

bool OwnTimes::is_waited_for(const Relative& candidate, uint32_t slot, const Sample& sample) const {
  size_t pinned = 0;
  for (const auto& [gpu, step] : sample) {
    const uint32_t unit = steps_.unit_at(timeline_, gpu, step, slot);
    const int64_t end_ns = time_of(candidate, unit);
    if (end_ns != INT64_MIN && timeline_.units[unit].arrived_ns - end_ns < kPinnedNs) ++pinned;
  }
  return static_cast<double>(pinned) >= kPinnedShare * static_cast<double>(sample.size());
}

// How much the distance from the base varies on each GPU; a GPU may be slow, and another fast.
double OwnTimes::unsteadiness(const Relative& base, uint32_t slot, const Sample& showing) const {
  std::vector<double> deviations;
  for (size_t begin = 0; begin < showing.size();) {
    std::vector<double> distances;
    size_t end = begin;
    for (; end < showing.size() && showing[end].first == showing[begin].first; ++end) {
      const uint32_t unit =
          steps_.unit_at(timeline_, showing[end].first, showing[end].second, slot);
      const int64_t time_ns = time_of(base, unit);
      if (time_ns == INT64_MIN) return HUGE_VAL;
      distances.push_back(static_cast<double>(timeline_.units[unit].arrived_ns - time_ns));
    }
    begin = end;
    if (distances.size() < 2) continue;
    const double middle = median(distances);
    for (const double distance : distances) deviations.push_back(std::fabs(distance - middle));
  }
  return deviations.size() < kShowingMin ? HUGE_VAL : median(std::move(deviations));
}

// What comes last before the arrivals.
Relative OwnTimes::nearest(const std::vector<Relative>& candidates, uint32_t slot,
                           const Sample& sample) const {
  const auto distance = [&](const Relative& candidate) {
    std::vector<double> distances;
    for (const auto& [gpu, step] : sample) {
      const uint32_t unit = steps_.unit_at(timeline_, gpu, step, slot);
      const int64_t time_ns = time_of(candidate, unit);
      if (time_ns == INT64_MIN) continue;
      distances.push_back(static_cast<double>(timeline_.units[unit].arrived_ns - time_ns));
    }
    return distances.empty() ? HUGE_VAL : median(std::move(distances));
  };
  Relative best;
  double least_ns = HUGE_VAL;
  for (const Relative& candidate : candidates) {
    const double own_ns = distance(candidate);
    if (own_ns >= least_ns) continue;
    least_ns = own_ns;
    best = candidate;
  }
  return best;
}

Slot OwnTimes::learn(uint32_t slot, const Sample& sample) const {
  Slot learnt;
  std::vector<Relative> possible;
  for (const Relative& candidate : candidates(slot, sample)) {
    if (!is_refuted(candidate, slot, sample)) possible.push_back(candidate);
  }
  for (const Relative& candidate : possible) {
    if (candidate.from_arrival || learnt.waits_for.size() == kWaitsMax) continue;
    if (is_waited_for(candidate, slot, sample)) learnt.waits_for.push_back(candidate);
  }
  Sample showing;
  for (const auto& [gpu, step] : sample) {
    const uint32_t unit = steps_.unit_at(timeline_, gpu, step, slot);
    int64_t free_ns = time_of(Relative{}, unit);
    for (const Relative& wait : learnt.waits_for) free_ns = std::max(free_ns, time_of(wait, unit));
    if (free_ns != INT64_MIN && timeline_.units[unit].arrived_ns - free_ns >= kPinnedNs) {
      showing.emplace_back(gpu, step);
    }
  }
  if (showing.size() < kShowingMin) {
    std::vector<Relative> ends = learnt.waits_for;
    ends.push_back(learnt.base);
    learnt.base = nearest(ends, slot, sample);
    return learnt;
  }
  // Where the work hardly ever shows it goes on beside the operations.
  const bool is_beside = showing.size() * 2 < sample.size();
  const auto cost = [&](const Relative& base) {
    const double own_ns = unsteadiness(base, slot, showing);
    return base.from_arrival == is_beside ? own_ns : own_ns * kAsSteady + kAsSteadyNs;
  };
  possible.push_back(learnt.base);
  double least_ns = HUGE_VAL;
  bool from_arrival = false;
  for (const Relative& candidate : possible) {
    const double own_ns = cost(candidate);
    if (own_ns >= least_ns) continue;
    least_ns = own_ns;
    from_arrival = candidate.from_arrival;
  }
  // Of those that are about as steady the nearest: it was the last to end.
  std::vector<Relative> steady;
  for (const Relative& candidate : possible) {
    const bool is_kind = candidate.from_arrival == from_arrival;
    if (is_kind && cost(candidate) <= least_ns * kAsSteady + kAsSteadyNs) {
      steady.push_back(candidate);
    }
  }
  if (!steady.empty()) learnt.base = nearest(steady, slot, showing);
  return learnt;
}

const Slot* OwnTimes::slot_of(uint32_t unit) const {
  const Unit& own = timeline_.units[unit];
  if (own.step == kNone || own.step >= steps_.count) return nullptr;
  return &slots_[timeline_.gpus[own.gpu].role][own.slot];
}

uint32_t OwnTimes::base_of(uint32_t unit) const {
  const Slot* slot = slot_of(unit);
  const uint32_t base = slot == nullptr ? kNone : resolve(slot->base, unit);
  return base == kNone ? before_[unit] : base;
}

int64_t OwnTimes::since_before_ns(uint32_t unit) const {
  const uint32_t before = before_[unit];
  if (before == kNone) return own_ns_[unit];
  const int64_t span_ns = timeline_.units[unit].arrived_ns - timeline_.units[before].finished_ns;
  return std::max<int64_t>(span_ns, 0);
}

bool OwnTimes::is_from_arrival(uint32_t unit) const {
  const Slot* slot = slot_of(unit);
  return slot != nullptr && slot->base.from_arrival && resolve(slot->base, unit) != kNone;
}

void OwnTimes::waits_of(uint32_t unit, std::vector<uint32_t>& units) const {
  units.clear();
  if (before_[unit] != kNone) units.push_back(before_[unit]);
  const Slot* slot = slot_of(unit);
  if (slot == nullptr) return;
  for (const Relative& wait : slot->waits_for) {
    const uint32_t before = resolve(wait, unit);
    // One that ended later was a coincidence after all, in the steps that were looked at.
    if (before == kNone || timeline_.units[before].finished_ns > timeline_.units[unit].arrived_ns) {
      continue;
    }
    units.push_back(before);
  }
}

// When everything that it waited for had ended; INT64_MIN where nothing is on file.
int64_t OwnTimes::released_ns(uint32_t unit) const {
  std::vector<uint32_t> units;
  waits_of(unit, units);
  int64_t latest_ns = INT64_MIN;
  for (const uint32_t before : units) {
    latest_ns = std::max(latest_ns, timeline_.units[before].finished_ns);
  }
  return latest_ns;
}

void OwnTimes::measure() {
  own_ns_.assign(timeline_.units.size(), 0);
  std::vector<uint32_t> hidden;
  std::vector<std::vector<std::vector<double>>> showing(steps_.roles.size());
  for (size_t r = 0; r < showing.size(); ++r) showing[r].resize(steps_.roles[r].length);
  for (uint32_t u = 0; u < timeline_.units.size(); ++u) {
    const uint32_t base = base_of(u);
    if (!timeline_.units[u].is_timed() || base == kNone) continue;
    const Unit& unit = timeline_.units[u];
    const Unit& other = timeline_.units[base];
    const int64_t began_ns = is_from_arrival(u) ? other.arrived_ns : other.finished_ns;
    own_ns_[u] = std::max<int64_t>(unit.arrived_ns - began_ns, 0);
    const Slot* slot = slot_of(u);
    if (slot == nullptr) continue;
    const int64_t free_ns = released_ns(u);
    if (free_ns != INT64_MIN && unit.arrived_ns - free_ns < kPinnedNs) {
      hidden.push_back(u);
    } else {
      showing[timeline_.gpus[unit.gpu].role][unit.slot].push_back(static_cast<double>(own_ns_[u]));
    }
  }
  std::vector<std::vector<int64_t>> usual(showing.size());
  for (size_t r = 0; r < showing.size(); ++r) {
    for (std::vector<double>& values : showing[r]) {
      const bool is_known = values.size() >= kShowingMin;
      usual[r].push_back(is_known ? static_cast<int64_t>(median(std::move(values))) : 0);
    }
  }
  for (const uint32_t u : hidden) {
    const Unit& unit = timeline_.units[u];
    own_ns_[u] = std::min(own_ns_[u], usual[timeline_.gpus[unit.gpu].role][unit.slot]);
  }
}

}  // namespace rollcall::slow
