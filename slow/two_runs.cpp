#include "slow/two_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "slow/levels.h"
#include "slow/robust.h"

namespace rollcall::slow {
namespace {

// Standard errors by which a part must differ: many are looked at.
constexpr double kErrors = 4.5;
// And the step time, which is one: 1 in 1,000.
constexpr double kStepErrors = 3.3;
constexpr double kNineOfTen = 1.28;
// Of the rank that differs most, so much must another one differ by to be named with it.
constexpr double kNextShare = 0.2;
// Where calls take so much of what a host has lost, its launches are slow, and not the program.
constexpr double kCallsShare = 0.2;
constexpr size_t kPlacesMax = 3;
constexpr size_t kDifferencesMax = 16;

// The median, and of two middle ones that which is nearer to 0: what most of them have in common.
double common_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double low = values[(values.size() - 1) / 2];
  const double high = values[values.size() / 2];
  if (low > 0) return low;
  return high < 0 ? high : 0;
}

// By how much work differs: by its own time, and also by the time since the unit in front of it.
// The two runs may have learned different bases for one place.
double agreed(double own_ns, double since_ns) {
  return own_ns > 0 ? std::min(own_ns, std::max(since_ns, 0.0))
                    : std::max(own_ns, std::min(since_ns, 0.0));
}

// A damaged file may hold any times; the sums of these do not fit.
int64_t whole_ns(double span_ns) {
  constexpr double kLongestNs = 1e18;
  return static_cast<int64_t>(std::clamp(span_ns, -kLongestNs, kLongestNs));
}

// A GPU in both runs, and by how much each of its places differs.
struct Pair {
  uint32_t old_gpu = kNone;
  uint32_t new_gpu = kNone;
  std::vector<double> own_ns;  // by slot of the new run
  std::vector<double> transfer_ns;
  double excess_ns = 0;  // of own work, to the common change of its role
  double error_ns = 0;
};

struct RolePair {
  uint32_t old_role = kNone;
  uint32_t new_role = kNone;
  SlotMatch match;
  std::vector<std::pair<uint32_t, uint32_t>> slots;  // old, new
  std::vector<Pair> pairs;
  std::vector<double> common_own_ns;  // by slot of the new run
  std::vector<double> common_transfer_ns;
  std::vector<double> transfer_error_ns;
};

// Work in front of a call that the other run does not have is work in front of the next one that
// both have, on its stream.
void hand_on(Side& side, uint32_t role, uint32_t gpu, const std::vector<uint32_t>& alone) {
  std::vector<bool> is_alone(side.steps().roles[role].length, false);
  for (const uint32_t place : alone) is_alone[side.slot_of_place(role, place)] = true;
  const size_t length = is_alone.size();
  std::vector<SlotLevel>& levels = side.levels(gpu);
  // Backwards twice, for the next one of the last call is in the next step.
  std::map<decltype(SlotLevel::stream), size_t> next_common;
  for (size_t i = 2 * length; i-- > 0;) {
    const size_t slot = i % length;
    const SlotLevel& level = levels[slot];
    if (!is_alone[slot]) {
      next_common[level.stream] = slot;
    } else if (i < length) {
      const auto next = next_common.find(level.stream);
      if (next == next_common.end()) continue;
      levels[next->second].own_ns += level.own_ns;
      levels[next->second].since_ns += level.since_ns;
    }
  }
}

class Comparer {
 public:
  Comparer(const trace::Run& before, const trace::Run& after) : before_(before), after_(after) {}

  TwoRuns compare() {
    if (!describe(before_, "the old run", answer_.before) ||
        !describe(after_, "the new run", answer_.after)) {
      return std::move(answer_);
    }
    answer_.is_compared = true;
    compare_steps();
    if (!pair_roles()) return std::move(answer_);
    answer_.has_parts = true;
    for (RolePair& role : roles_) measure(role);
    charge_common_work();
    charge_single_work();
    charge_transfers(false);
    charge_transfers(true);
    charge_added();
    charge_removed();
    std::stable_sort(answer_.differences.begin(), answer_.differences.end(),
                     [](const Difference& a, const Difference& b) {
                       return std::fabs(a.share) > std::fabs(b.share);
                     });
    if (answer_.differences.size() > kDifferencesMax) answer_.differences.resize(kDifferencesMax);
    return std::move(answer_);
  }

 private:
  bool describe(const Side& side, const char* name, RunSteps& steps) {
    steps.found = side.steps().count;
    steps.compared = static_cast<uint32_t>(side.steps().usable.size());
    if (!side.why_not().empty()) {
      answer_.why_not.push_back(fmt::format("of {}: {}", name, side.why_not()));
      return false;
    }
    const std::vector<double>& spans = side.evidence().step_ns();
    steps.gpus = side.timeline().job_gpus;
    steps.calls = side.steps().roles.front().length;
    steps.step_ns = side.evidence().median_step_ns();
    steps.error_ns = level_error(spans);
    steps.variation = (quantile(spans, 0.95) - quantile(spans, 0.05)) / 2 / steps.step_ns;
    return true;
  }

  void compare_steps() {
    const double step_ns = answer_.before.step_ns;
    const double error = std::hypot(answer_.before.error_ns, answer_.after.error_ns) / step_ns;
    answer_.floor = std::max(kFloorMin, kStepErrors * error);
    answer_.smallest = answer_.floor + kNineOfTen * error;
    answer_.steps_differ = std::fabs(answer_.after.step_ns / step_ns - 1) >= answer_.floor;
  }

  // False: the parts of the steps are not of the same ranks, or not the same parts.
  bool pair_roles() {
    const auto has_same_key = [](const auto& a, const auto& b) { return a.first == b.first; };
    answer_.is_other_size = before_.gpus().size() != after_.gpus().size() ||
                            !std::equal(before_.gpus().begin(), before_.gpus().end(),
                                        after_.gpus().begin(), has_same_key);
    if (answer_.is_other_size) {
      answer_.why_not.push_back(
          fmt::format("the runs are of other ranks, {} and {} of them: the parts of their steps "
                      "are not of one size, and only the step times were compared",
                      before_.gpus().size(), after_.gpus().size()));
      return false;
    }
    for (const auto& [key, new_gpu] : after_.gpus()) {
      const uint32_t old_gpu = before_.gpus().at(key);
      const uint32_t new_role = after_.timeline().gpus[new_gpu].role;
      const uint32_t old_role = before_.timeline().gpus[old_gpu].role;
      const auto known = std::find_if(roles_.begin(), roles_.end(), [&](const RolePair& one) {
        return one.new_role == new_role && one.old_role == old_role;
      });
      RolePair& role = known != roles_.end() ? *known : roles_.emplace_back();
      role.old_role = old_role;
      role.new_role = new_role;
      Pair& pair = role.pairs.emplace_back();
      pair.old_gpu = old_gpu;
      pair.new_gpu = new_gpu;
    }
    return pair_slots();
  }

  bool pair_slots() {
    for (RolePair& role : roles_) {
      role.match = match_slots(before_.looks_of(role.old_role), after_.looks_of(role.new_role));
      answer_.sizes_differ = answer_.sizes_differ || role.match.sizes_differ;
      if (role.match.is_alike()) continue;
      answer_.why_not.push_back(fmt::format(
          "a step of rank {} has {} calls or groups in the old run and {} in the new one, and "
          "fewer "
          "than half of them are alike: only the step times were compared",
          after_.timeline().gpus[role.pairs.front().new_gpu].rank,
          before_.steps().roles[role.old_role].length, after_.steps().roles[role.new_role].length));
      return false;
    }
    for (const RolePair& role : roles_) {
      for (const Pair& pair : role.pairs) {
        hand_on(before_, role.old_role, pair.old_gpu, role.match.removed);
        hand_on(after_, role.new_role, pair.new_gpu, role.match.added);
      }
    }
    return true;
  }

  void measure(RolePair& role) {
    for (const auto& [old_place, new_place] : role.match.pairs) {
      role.slots.emplace_back(before_.slot_of_place(role.old_role, old_place),
                              after_.slot_of_place(role.new_role, new_place));
    }
    const size_t length = after_.steps().roles[role.new_role].length;
    role.common_own_ns.assign(length, 0);
    role.common_transfer_ns.assign(length, 0);
    role.transfer_error_ns.assign(length, 0);
    for (Pair& pair : role.pairs) measure(role, pair, length);
    for (const auto& [old_slot, new_slot] : role.slots) {
      std::vector<double> own;
      std::vector<double> transfer;
      for (const Pair& pair : role.pairs) {
        own.push_back(pair.own_ns[new_slot]);
        transfer.push_back(pair.transfer_ns[new_slot]);
      }
      role.common_own_ns[new_slot] = common_of(std::move(own));
      role.common_transfer_ns[new_slot] = common_of(std::move(transfer));
    }
    for (Pair& pair : role.pairs) {
      for (const auto& [old_slot, new_slot] : role.slots) {
        pair.excess_ns += pair.own_ns[new_slot] - role.common_own_ns[new_slot];
      }
    }
  }

  void measure(RolePair& role, Pair& pair, size_t length) {
    pair.own_ns.assign(length, 0);
    pair.transfer_ns.assign(length, 0);
    pair.error_ns = std::hypot(level_error(before_.evidence().own_ns(pair.old_gpu)),
                               level_error(after_.evidence().own_ns(pair.new_gpu)));
    for (const auto& [old_slot, new_slot] : role.slots) {
      const SlotLevel& was = before_.levels(pair.old_gpu)[old_slot];
      const SlotLevel& is = after_.levels(pair.new_gpu)[new_slot];
      pair.own_ns[new_slot] = agreed(is.own_ns - was.own_ns, is.since_ns - was.since_ns);
      if (!is.has_transfer || !was.has_transfer) continue;
      pair.transfer_ns[new_slot] = is.transfer_ns - was.transfer_ns;
      role.transfer_error_ns[new_slot] =
          std::max(role.transfer_error_ns[new_slot],
                   std::hypot(is.transfer_error_ns, was.transfer_error_ns));
    }
  }

  // --- own work
  // -----------------------------------------------------------------------------------

  // What each step has of it in the median of the ranks of a role.
  static std::vector<double> role_series(const Side& side, uint32_t role) {
    std::vector<double> series;
    for (size_t i = 0; i < side.evidence().compared(); ++i) {
      std::vector<double> works;
      for (const uint32_t gpu : side.steps().roles[role].gpus) {
        works.push_back(side.evidence().own_ns(gpu, i));
      }
      series.push_back(median(std::move(works)));
    }
    return series;
  }

  // What all ranks of a role have in common: the longer and the shorter work, each in one.
  void charge_common_work() {
    for (const double sign : {1.0, -1.0}) {
      std::vector<const RolePair*> chosen;
      double error_ns = 0;
      for (const RolePair& role : roles_) {
        double sum_ns = 0;
        for (const double one_ns : role.common_own_ns) sum_ns += one_ns;
        const double own_error_ns = std::hypot(level_error(role_series(before_, role.old_role)),
                                               level_error(role_series(after_, role.new_role)));
        if (sign * sum_ns < kErrors * own_error_ns) continue;
        chosen.push_back(&role);
        error_ns = std::max(error_ns, own_error_ns);
      }
      if (chosen.empty()) continue;
      std::vector<int64_t> own_ns = after_.evidence().own_times().all();
      Difference difference;
      std::vector<const Pair*> pairs;
      for (const RolePair* role : chosen) {
        for (const Pair& pair : role->pairs) {
          pairs.push_back(&pair);
          take_off(pair, role->common_own_ns, own_ns);
        }
        add_places(*role, role->pairs.front(), role->common_own_ns, difference);
      }
      finish_work(difference, pairs, own_ns, error_ns);
    }
  }

  // What ranks take longer, or shorter, than their role does.
  void charge_single_work() {
    for (const double sign : {1.0, -1.0}) {
      double most_ns = 0;
      for (const RolePair& role : roles_) {
        for (const Pair& pair : role.pairs) most_ns = std::max(most_ns, sign * pair.excess_ns);
      }
      const double least_ns =
          std::max(kNextShare * most_ns, kFloorMin / 2 * answer_.before.step_ns);
      std::vector<int64_t> own_ns = after_.evidence().own_times().all();
      Difference difference;
      std::vector<const Pair*> pairs;
      double error_ns = 0;
      for (const RolePair& role : roles_) {
        for (const Pair& pair : role.pairs) {
          const double excess_ns = sign * pair.excess_ns;
          if (excess_ns < least_ns || excess_ns < kErrors * pair.error_ns) continue;
          std::vector<double> changes = pair.own_ns;
          for (size_t slot = 0; slot < changes.size(); ++slot) {
            changes[slot] -= role.common_own_ns[slot];
          }
          pairs.push_back(&pair);
          error_ns = std::max(error_ns, pair.error_ns);
          take_off(pair, changes, own_ns);
          add_places(role, pair, changes, difference);
        }
      }
      if (!pairs.empty()) finish_work(difference, pairs, own_ns, error_ns);
    }
  }

  // The own times of a GPU in the new run without these changes, by slot.
  void take_off(const Pair& pair, const std::vector<double>& changes,
                std::vector<int64_t>& own_ns) const {
    for (uint32_t step = 0; step < after_.steps().count; ++step) {
      for (uint32_t slot = 0; slot < changes.size(); ++slot) {
        const uint32_t unit = after_.steps().unit_at(after_.timeline(), pair.new_gpu, step, slot);
        if (unit == kNone || changes[slot] == 0) continue;
        own_ns[unit] = std::max<int64_t>(own_ns[unit] - whole_ns(changes[slot]), 0);
      }
    }
  }

  void add_places(const RolePair& role, const Pair& pair, const std::vector<double>& changes,
                  Difference& difference) const {
    for (const auto& [old_slot, new_slot] : role.slots) {
      if (changes[new_slot] == 0) continue;
      const double after_ns = after_.levels(pair.new_gpu)[new_slot].own_ns;
      difference.places.push_back(
          place_at(role, pair, new_slot, after_ns - changes[new_slot], after_ns));
    }
  }

  PlaceChange place_at(const RolePair& role, const Pair& pair, uint32_t new_slot, double before_ns,
                       double after_ns) const {
    PlaceChange change;
    change.call = after_.place_of_slot(role.new_role, new_slot) + 1;
    change.before_ns = before_ns;
    change.after_ns = after_ns;
    change.place = named(after_, pair.new_gpu, new_slot);
    change.place.lost_ns = after_ns - before_ns;
    return change;
  }

  static Place named(const Side& side, uint32_t gpu, uint32_t slot) {
    Place place;
    place.unit = side.unit_in_middle(gpu, slot);
    const Unit& unit = side.timeline().units[place.unit];
    const trace::Process& process = side.run().processes[side.timeline().gpus[gpu].process];
    place.op = process.ops[unit.op];
    if (place.op.comm < process.comms.size()) place.comm = process.comms[place.op.comm].name;
    return place;
  }

  void finish_work(Difference& difference, const std::vector<const Pair*>& pairs,
                   const std::vector<int64_t>& own_ns, double error_ns) {
    difference.part = part_of(pairs, difference);
    for (const Pair* pair : pairs) {
      difference.ranks.push_back(after_.timeline().gpus[pair->new_gpu].rank);
    }
    finish(difference, after_.evidence().saved_ns(own_ns, recorded_transfers(after_)), error_ns);
  }

  static const std::vector<int64_t>& recorded_transfers(Side& side) {
    return side.evidence().replay().recorded_transfers();
  }

  Part part_of(const std::vector<const Pair*>& pairs, Difference& difference) const {
    OwnParts change;
    for (const Pair* pair : pairs) {
      const OwnParts was = before_.parts_of(pair->old_gpu);
      const OwnParts is = after_.parts_of(pair->new_gpu);
      change.host_ns += is.host_ns - was.host_ns;
      change.launch_ns += is.launch_ns - was.launch_ns;
      change.gpu_ns += is.gpu_ns - was.gpu_ns;
      change.calls_ns += is.calls_ns - was.calls_ns;
      difference.calls_before_ns += was.calls_ns / static_cast<double>(pairs.size());
      difference.calls_after_ns += is.calls_ns / static_cast<double>(pairs.size());
    }
    const double of_host_ns = change.host_ns + change.launch_ns;
    if (std::fabs(of_host_ns) < std::fabs(change.gpu_ns)) return Part::gpu;
    return change.calls_ns / of_host_ns >= kCallsShare ? Part::launch : Part::host;
  }

  // --- transfers
  // ----------------------------------------------------------------------------------

  // Of all communicators of a place alike; or, with `single`, of one more than of its siblings.
  void charge_transfers(bool single) {
    for (const double sign : {1.0, -1.0}) {
      // By GPU of the new run and slot: what is taken off a transfer that begins with it.
      std::vector<std::vector<double>> changes(after_.timeline().gpus.size());
      Difference difference;
      difference.part = Part::transfer;
      double variance = 0;
      for (const RolePair& role : roles_) {
        for (const Pair& pair : role.pairs) {
          changes[pair.new_gpu].assign(role.common_own_ns.size(), 0);
        }
        for (const auto& [old_slot, new_slot] : role.slots) {
          variance += choose_transfers(role, new_slot, sign, single, changes, difference);
        }
      }
      if (difference.places.empty()) continue;
      finish(difference, saved_by_transfers(changes), std::sqrt(variance));
    }
  }

  // The square of its error; 0: none was chosen.
  double choose_transfers(const RolePair& role, uint32_t slot, double sign, bool single,
                          std::vector<std::vector<double>>& changes, Difference& difference) const {
    const double error_ns = role.transfer_error_ns[slot];
    const double common_ns = role.common_transfer_ns[slot];
    const Pair* first = nullptr;
    for (const Pair& pair : role.pairs) {
      const double change_ns = single ? pair.transfer_ns[slot] - common_ns : common_ns;
      if (change_ns == 0 || sign * change_ns < kErrors * error_ns) continue;
      changes[pair.new_gpu][slot] = change_ns;
      difference.ranks.push_back(after_.timeline().gpus[pair.new_gpu].rank);
      if (first == nullptr) first = &pair;
    }
    if (first == nullptr) return 0;
    const double after_ns = after_.levels(first->new_gpu)[slot].transfer_ns;
    difference.places.push_back(
        place_at(role, *first, slot, after_ns - changes[first->new_gpu][slot], after_ns));
    return error_ns * error_ns;
  }

  std::vector<double> saved_by_transfers(const std::vector<std::vector<double>>& changes) {
    std::vector<int64_t> transfer_ns = recorded_transfers(after_);
    const Timeline& timeline = after_.timeline();
    for (size_t m = 0; m < timeline.meetings.size(); ++m) {
      const Unit& unit = timeline.units[timeline.seats[timeline.meetings[m].begin]];
      if (unit.slot == kNone || changes[unit.gpu].empty()) continue;
      const int64_t change_ns = whole_ns(changes[unit.gpu][unit.slot]);
      transfer_ns[m] = std::max<int64_t>(transfer_ns[m] - change_ns, 0);
    }
    return after_.evidence().saved_ns(after_.evidence().own_times().all(), transfer_ns);
  }

  // --- calls that one run has alone
  // -----------------------------------------------------------------

  void charge_added() {
    Difference difference;
    difference.part = Part::added;
    std::vector<std::vector<bool>> alone(after_.timeline().gpus.size());
    for (const RolePair& role : roles_) {
      for (const Pair& pair : role.pairs) {
        list_alone(after_, pair.new_gpu, role.new_role, &pair == &role.pairs.front(),
                   role.match.added, alone, difference);
      }
    }
    if (!difference.places.empty()) finish_alone(after_, alone, 1, difference);
  }

  void charge_removed() {
    Difference difference;
    difference.part = Part::removed;
    std::vector<std::vector<bool>> alone(before_.timeline().gpus.size());
    for (const RolePair& role : roles_) {
      for (const Pair& pair : role.pairs) {
        list_alone(before_, pair.old_gpu, role.old_role, &pair == &role.pairs.front(),
                   role.match.removed, alone, difference);
      }
    }
    if (!difference.places.empty()) finish_alone(before_, alone, -1, difference);
  }

  // Appends to the difference what the first of the ranks does at these places.
  void list_alone(const Side& side, uint32_t gpu, uint32_t role, bool is_first,
                  const std::vector<uint32_t>& places, std::vector<std::vector<bool>>& alone,
                  Difference& difference) const {
    alone[gpu].assign(side.steps().roles[role].length, false);
    if (places.empty()) return;
    const int32_t rank = side.timeline().gpus[gpu].rank;
    difference.ranks.push_back(rank);
    for (const uint32_t place : places) {
      const uint32_t slot = side.slot_of_place(role, place);
      alone[gpu][slot] = true;
      if (!is_first) continue;
      const double span_ns = side.levels(gpu)[slot].transfer_ns;
      PlaceChange change;
      change.call = place + 1;
      (difference.part == Part::added ? change.after_ns : change.before_ns) = span_ns;
      change.place = named(side, gpu, slot);
      change.place.lost_ns = change.after_ns - change.before_ns;
      difference.places.push_back(change);
    }
  }

  // Their transfers take no time in a run without them; what was done in front of them still does.
  void finish_alone(Side& side, const std::vector<std::vector<bool>>& alone, double sign,
                    Difference& difference) {
    std::vector<int64_t> transfer_ns = recorded_transfers(side);
    const Timeline& timeline = side.timeline();
    for (size_t m = 0; m < timeline.meetings.size(); ++m) {
      const Unit& unit = timeline.units[timeline.seats[timeline.meetings[m].begin]];
      if (unit.slot != kNone && !alone[unit.gpu].empty() && alone[unit.gpu][unit.slot]) {
        transfer_ns[m] = 0;
      }
    }
    std::vector<double> saved =
        side.evidence().saved_ns(side.evidence().own_times().all(), transfer_ns);
    for (double& one_ns : saved) one_ns *= sign;
    finish(difference, saved, level_error(saved));
  }

  // --- all
  // ----------------------------------------------------------------------------------------

  // Keeps it where it costs enough, in the direction in which its parts have changed.
  void finish(Difference& difference, const std::vector<double>& saved, double error_ns) {
    difference.saved_ns = median(saved);
    difference.share = difference.saved_ns / answer_.before.step_ns;
    difference.floor = std::max(kFloorMin, kErrors * error_ns / answer_.before.step_ns);
    if (std::fabs(difference.share) < difference.floor) return;
    double changes_ns = 0;
    for (const PlaceChange& change : difference.places) changes_ns += change.place.lost_ns;
    if (changes_ns * difference.saved_ns <= 0) return;
    std::stable_sort(difference.places.begin(), difference.places.end(),
                     [](const PlaceChange& a, const PlaceChange& b) {
                       return std::fabs(a.place.lost_ns) > std::fabs(b.place.lost_ns);
                     });
    if (difference.places.size() > kPlacesMax) difference.places.resize(kPlacesMax);
    std::sort(difference.ranks.begin(), difference.ranks.end());
    const auto last = std::unique(difference.ranks.begin(), difference.ranks.end());
    difference.ranks.erase(last, difference.ranks.end());
    difference.is_of_all = difference.ranks.size() == after_.gpus().size();
    answer_.differences.push_back(std::move(difference));
  }

  Side before_;
  Side after_;
  std::vector<RolePair> roles_;
  TwoRuns answer_;
};

}  // namespace

TwoRuns compare(const trace::Run& before, const trace::Run& after) {
  return Comparer(before, after).compare();
}

}  // namespace rollcall::slow
