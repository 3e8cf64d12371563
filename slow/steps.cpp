#include "slow/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "slow/period.h"

namespace rollcall::slow {
namespace {

class Finder {
 public:
  explicit Finder(Timeline& timeline) : timeline_(timeline) {}

  Steps find(uint32_t first, uint32_t last) {
    if (!find_periods(false)) {
      steps_.sizes_vary = find_periods(true);
      if (!steps_.sizes_vary) return nothing();
    }
    make_roles();
    number_reference();
    while (number_neighbours()) {
    }
    fill_places();
    judge_steps(first, last);
    return std::move(steps_);
  }

 private:
  std::vector<uint32_t> symbols_of(const Gpu& gpu, bool sizeless) const {
    std::vector<uint32_t> symbols;
    symbols.reserve(gpu.end - gpu.begin);
    for (uint32_t u = gpu.begin; u < gpu.end; ++u) {
      const Unit& unit = timeline_.units[u];
      symbols.push_back(sizeless ? unit.sizeless : unit.symbol);
    }
    return symbols;
  }

  // True: nine GPUs of ten have one.
  bool find_periods(bool sizeless) {
    periods_.clear();
    templates_.clear();
    size_t found = 0;
    for (const Gpu& gpu : timeline_.gpus) {
      const std::vector<uint32_t> symbols = symbols_of(gpu, sizeless);
      periods_.push_back(find_period(symbols));
      const Period& period = periods_.back();
      templates_.emplace_back();
      if (period.length == 0) continue;
      ++found;
      const auto begin = symbols.begin() + period.begins.front();
      templates_.back().assign(begin, begin + period.length);
    }
    return found > 0 && found * 10 >= timeline_.gpus.size() * 9;
  }

  Steps nothing() {
    size_t calls = 0;
    for (const Gpu& gpu : timeline_.gpus) calls = std::max<size_t>(calls, gpu.end - gpu.begin);
    steps_.why_not = fmt::format(
        "no sequence of calls repeats itself at least three times over nine tenths of the record "
        "(the longest one has {} calls)",
        calls);
    return std::move(steps_);
  }

  void make_roles() {
    std::map<std::vector<uint32_t>, uint32_t> role_of;
    rotation_.assign(timeline_.gpus.size(), 0);
    for (uint32_t g = 0; g < timeline_.gpus.size(); ++g) {
      std::vector<uint32_t> canonical = templates_[g];
      if (canonical.empty()) {
        ++steps_.without_period;
        continue;
      }
      rotation_[g] = least_rotation(canonical);
      std::rotate(canonical.begin(), canonical.begin() + rotation_[g], canonical.end());
      const auto length = static_cast<uint32_t>(canonical.size());
      const auto [known, is_new] =
          role_of.emplace(std::move(canonical), static_cast<uint32_t>(steps_.roles.size()));
      if (is_new) {
        steps_.roles.push_back({.length = length, .first_slot = 0, .gpus = {}});
        steps_.roles.back().first_slot = (length - rotation_[g]) % length;
      }
      timeline_.gpus[g].role = known->second;
      steps_.roles[known->second].gpus.push_back(g);
      place_in_slots(g);
    }
  }

  void place_in_slots(uint32_t g) {
    const Gpu& gpu = timeline_.gpus[g];
    const uint32_t length = periods_[g].length;
    for (const uint32_t begin : periods_[g].begins) {
      for (uint32_t i = 0; i < length; ++i) {
        timeline_.units[gpu.begin + begin + i].slot = (i + length - rotation_[g]) % length;
      }
    }
  }

  void number_reference() {
    is_numbered_.assign(timeline_.gpus.size(), false);
    uint32_t reference = 0;
    for (uint32_t g = 1; g < timeline_.gpus.size(); ++g) {
      if (periods_[g].begins.size() > periods_[reference].begins.size()) reference = g;
    }
    const Period& period = periods_[reference];
    for (uint32_t tile = 0; tile < period.begins.size(); ++tile) {
      const uint32_t begin = timeline_.gpus[reference].begin + period.begins[tile];
      for (uint32_t i = 0; i < period.length; ++i) timeline_.units[begin + i].step = tile;
    }
    is_numbered_[reference] = true;
    steps_.inner = period.inner;
    steps_.count = static_cast<uint32_t>(period.begins.size());
  }

  // Hands the numbers on to GPUs that meet one which has them. False: there are none.
  bool number_neighbours() {
    std::vector<uint32_t> proposal(timeline_.units.size(), kNone);
    for (const Meeting& meeting : timeline_.meetings) {
      uint32_t step = kNone;
      for (const uint32_t u : timeline_.units_of(meeting)) {
        if (timeline_.units[u].step != kNone) step = timeline_.units[u].step;
      }
      if (step == kNone) continue;
      for (const uint32_t u : timeline_.units_of(meeting)) proposal[u] = step;
    }
    bool has_found = false;
    for (uint32_t g = 0; g < timeline_.gpus.size(); ++g) {
      if (!is_numbered_[g] && number(g, proposal)) has_found = is_numbered_[g] = true;
    }
    return has_found;
  }

  // A unit that meets nobody who has a number belongs to the step of the one in front of it, or, at
  // the beginning of a repeat, of the one behind it.
  bool number(uint32_t g, const std::vector<uint32_t>& proposal) {
    bool has_found = false;
    for (const uint32_t begin : periods_[g].begins) {
      const uint32_t first = timeline_.gpus[g].begin + begin;
      uint32_t step = kNone;
      for (uint32_t u = first; step == kNone && u < first + periods_[g].length; ++u) {
        step = proposal[u];
      }
      if (step == kNone) continue;
      has_found = true;
      for (uint32_t u = first; u < first + periods_[g].length; ++u) {
        if (proposal[u] != kNone) step = proposal[u];
        timeline_.units[u].step = step;
      }
    }
    return has_found;
  }

  void fill_places() {
    size_t size = 0;
    for (const Gpu& gpu : timeline_.gpus) {
      steps_.first_place.push_back(size);
      if (gpu.role != kNone) size += size_t{steps_.roles[gpu.role].length} * steps_.count;
    }
    steps_.places.assign(size, kNone);
    for (uint32_t u = 0; u < timeline_.units.size(); ++u) {
      const Unit& unit = timeline_.units[u];
      if (unit.step == kNone || unit.step >= steps_.count) continue;
      const uint32_t length = steps_.roles[timeline_.gpus[unit.gpu].role].length;
      steps_.places[steps_.first_place[unit.gpu] + size_t{unit.step} * length + unit.slot] = u;
    }
  }

  void judge_steps(uint32_t first, uint32_t last) {
    std::vector<bool> is_whole(steps_.count, true);
    std::vector<bool> is_special(steps_.count, false);
    for (uint32_t g = 0; g < timeline_.gpus.size(); ++g) {
      if (timeline_.gpus[g].role == kNone) continue;
      for (uint32_t step = 0; step < steps_.count; ++step) {
        if (!is_complete(g, step)) is_whole[step] = false;
      }
      mark_special(timeline_.gpus[g], is_special);
    }
    for (uint32_t step = 0; step < steps_.count; ++step) {
      if (is_special[step]) ++steps_.special;
      if (step < std::max(first, kWarmUpSteps) || step > last) continue;
      // Its length is the time from the end of the step before.
      if (is_whole[step] && is_whole[step - 1] && !is_special[step]) steps_.usable.push_back(step);
    }
    if (steps_.usable.empty()) explain();
  }

  bool is_complete(uint32_t g, uint32_t step) const {
    const uint32_t length = steps_.roles[timeline_.gpus[g].role].length;
    for (uint32_t slot = 0; slot < length; ++slot) {
      const uint32_t unit = steps_.unit_at(timeline_, g, step, slot);
      if (unit == kNone || !timeline_.units[unit].is_timed()) return false;
    }
    return true;
  }

  // The step of the first regular unit behind an irregular one is special.
  void mark_special(const Gpu& gpu, std::vector<bool>& is_special) const {
    bool has_begun = false;
    bool is_irregular = false;
    for (uint32_t u = gpu.begin; u < gpu.end; ++u) {
      const uint32_t step = timeline_.units[u].step;
      if (step == kNone) {
        is_irregular = has_begun;
        continue;
      }
      has_begun = true;
      if (is_irregular && step < is_special.size()) is_special[step] = true;
      is_irregular = false;
    }
  }

  void explain() {
    if (timeline_.untimed == 0) {
      steps_.why_not =
          fmt::format("of {} steps none is on file whole, on all GPUs, behind the first {}",
                      steps_.count, kWarmUpSteps);
    } else if (timeline_.is_foreign) {
      explain_foreign();
    } else if (timeline_.units.size() == timeline_.untimed) {
      steps_.why_not =
          "no call has a GPU time: the run was recorded with ROLLCALL_GPU_TIMING=off, or by the "
          "profiler plugin alone";
    } else {
      steps_.why_not = fmt::format(
          "{} of {} calls have no GPU time, and no step is timed on all GPUs: record again with "
          "ROLLCALL_OVERHEAD_BUDGET=100, which times every call",
          timeline_.untimed, timeline_.units.size());
    }
  }

  void explain_foreign() {
    if (timeline_.units.size() == timeline_.untimed) {
      steps_.why_not =
          "no call has a kernel in the files: profile with ProfilerActivity.CUDA, or `nsys profile "
          "-t cuda,nvtx`";
      return;
    }
    steps_.why_not = fmt::format(
        "{} of {} calls have no kernel in the files, and no step has them all on all GPUs; record "
        "with `rollcall run`",
        timeline_.untimed, timeline_.units.size());
  }

  Timeline& timeline_;
  Steps steps_;
  std::vector<Period> periods_;                   // by GPU
  std::vector<std::vector<uint32_t>> templates_;  // by GPU
  std::vector<uint32_t> rotation_;                // by GPU
  std::vector<bool> is_numbered_;                 // by GPU
};

}  // namespace

uint32_t Steps::unit_at(const Timeline& timeline, uint32_t gpu, uint32_t step,
                        uint32_t slot) const {
  const uint32_t role = timeline.gpus[gpu].role;
  if (role == kNone || step >= count || slot >= roles[role].length) return kNone;
  return places[first_place[gpu] + size_t{step} * roles[role].length + slot];
}

Steps find_steps(Timeline& timeline, uint32_t first, uint32_t last) {
  if (timeline.units.empty()) {
    Steps steps;
    steps.why_not = "the ranks called no operation";
    return steps;
  }
  return Finder(timeline).find(first, last);
}

}  // namespace rollcall::slow
