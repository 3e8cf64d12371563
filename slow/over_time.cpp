// What changed its level over the steps of a run: the step time, and what each place of a step
// takes, in the median of the ranks of a role.
#include <algorithm>
#include <cmath>
#include <map>

#include "slow/change.h"
#include "slow/evidence.h"
#include "slow/robust.h"

namespace rollcall::slow {
namespace {

constexpr size_t kShiftsMax = 64;

class Finder {
 public:
  explicit Finder(const Evidence& evidence) : evidence_(evidence) {}

  std::vector<Shift> find() {
    look(evidence_.step_ns(), {.what = ShiftOf::step});
    const size_t of_steps = shifts_.size();
    collect_transfers();
    for (uint32_t r = 0; r < evidence_.steps().roles.size(); ++r) {
      for (uint32_t slot = 0; slot < evidence_.steps().roles[r].length; ++slot) look_at(r, slot);
    }
    std::stable_sort(shifts_.begin() + static_cast<ptrdiff_t>(of_steps), shifts_.end(),
                     [](const Shift& a, const Shift& b) { return size_of(a) > size_of(b); });
    if (shifts_.size() > kShiftsMax) shifts_.resize(kShiftsMax);
    return std::move(shifts_);
  }

 private:
  static double size_of(const Shift& shift) { return std::fabs(shift.after_ns - shift.before_ns); }

  void look(const std::vector<double>& values, Shift shift) {
    const double least_ns = kFloorMin * evidence_.median_step_ns();
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    if (values.empty() || *high - *low < least_ns) return;
    for (const Change& change : find_changes(values)) {
      shift.step = evidence_.steps().usable[change.at];
      shift.before_ns = change.before;
      shift.after_ns = change.after;
      if (size_of(shift) >= least_ns) shifts_.push_back(shift);
    }
  }

  // By (role, slot) and usable step.
  void collect_transfers() {
    const Timeline& timeline = evidence_.timeline();
    std::vector<size_t> place(evidence_.steps().count, SIZE_MAX);
    for (size_t i = 0; i < evidence_.compared(); ++i) place[evidence_.steps().usable[i]] = i;
    for (const Meeting& meeting : timeline.meetings) {
      if (!meeting.is_whole) continue;
      const Unit& unit = timeline.units[timeline.seats[meeting.begin]];
      if (unit.step >= place.size() || place[unit.step] == SIZE_MAX) continue;
      auto& of_steps = transfers_[{timeline.gpus[unit.gpu].role, unit.slot}];
      of_steps.resize(evidence_.compared());
      of_steps[place[unit.step]].push_back(static_cast<double>(meeting.transfer_ns));
    }
  }

  void look_at(uint32_t role, uint32_t slot) {
    const Steps& steps = evidence_.steps();
    const std::vector<uint32_t>& gpus = steps.roles[role].gpus;
    std::vector<double> own;
    for (const uint32_t step : steps.usable) {
      std::vector<double> works;
      for (const uint32_t gpu : gpus) {
        const uint32_t unit = steps.unit_at(evidence_.timeline(), gpu, step, slot);
        works.push_back(static_cast<double>(evidence_.own_times().own_ns(unit)));
      }
      own.push_back(median(std::move(works)));
    }
    Shift shift{.what = ShiftOf::own, .role = role};
    const uint32_t middle = steps.usable[steps.usable.size() / 2];
    shift.place.unit = steps.unit_at(evidence_.timeline(), gpus.front(), middle, slot);
    look(own, shift);
    const auto found = transfers_.find({role, slot});
    if (found == transfers_.end()) return;
    std::vector<double> transfer;
    for (std::vector<double>& spans : found->second) {
      if (spans.empty()) return;
      transfer.push_back(median(std::move(spans)));
    }
    shift.what = ShiftOf::transfer;
    look(transfer, shift);
  }

  const Evidence& evidence_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::vector<double>>> transfers_;
  std::vector<Shift> shifts_;
};

}  // namespace

std::vector<Shift> find_shifts(const Evidence& evidence) { return Finder(evidence).find(); }

}  // namespace rollcall::slow
