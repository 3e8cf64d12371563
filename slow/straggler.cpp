// RC-STRAGGLER: a rank, or the few of one host, that take longer than their peers by themselves, in
// nearly every step, and whom the steps wait for. RC-SLOW-LAUNCH: the same, where the rank's host
// is slow as a whole and cannot feed its GPU.
//
// It says nothing where the steps would not be shorter with them as fast as their peers (whoever is
// late and waited for by nobody costs nothing), where more than a few are slow (the load is uneven,
// nobody is broken), or where it came and went.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "slow/evidence.h"
#include "slow/robust.h"

namespace rollcall::slow {
namespace {

// Longer in so many of its steps, by a test at this level for all ranks together.
constexpr double kPositiveMin = 0.8;
constexpr double kSignificance = 1e-3;
// Whoever is slower than a rank by this factor less is no peer of it, but slow too.
constexpr double kNextShare = 0.2;
// Of one host any number may be slow; of several hosts so many.
constexpr size_t kCulpritsMax = 2;
// In each part of the steps it must be slow by half of what it is in all.
constexpr size_t kParts = 3;
constexpr double kPartShare = 0.5;
constexpr size_t kPlacesMax = 3;
// Calls of NCCL that take a host so many times what they take its peers', at so many of its slots:
// it is slow as a whole. They must be this share of what the rank takes longer: behind a long sleep
// the caches are cold, and calls take some microseconds longer.
constexpr double kSlowCall = 3;
constexpr double kSlowCallShare = 0.8;
constexpr double kSlowCallCost = 0.01;
// Where nobody is slow in all steps, these parts of them are looked at: who became slow on the way,
// or has recovered.
struct Part {
  double begin;
  double end;
};
constexpr Part kWindows[] = {{0, 1}, {0.5, 1}, {0.75, 1}, {0, 0.5}};

struct Candidate {
  uint32_t gpu = kNone;
  double excess_ns = 0;  // median
  double positive = 0;
};

// What a rank took longer than its peers in front of a unit: by its own work, and also from the
// unit in front on the stream. Where the base of the work was a coincidence, the ranks that waited
// for a slow one seem to take longer from there on; but not by both.
double excess_of(double own_ns, double usual_own_ns, double since_ns, double usual_since_ns) {
  const double excess_ns = own_ns - usual_own_ns;
  return excess_ns <= 0 ? excess_ns : std::min(excess_ns, std::max(since_ns - usual_since_ns, 0.0));
}

struct Values {
  std::vector<std::pair<double, size_t>> by_value;  // with the place in the role
  std::vector<double> sorted;

  void sort() {
    std::sort(by_value.begin(), by_value.end());
    for (const auto& [value, place] : by_value) sorted.push_back(value);
  }
  // (own value, median of the others), by the place in the role.
  std::vector<std::pair<double, double>> among_others() const {
    std::vector<std::pair<double, double>> pairs(sorted.size());
    for (size_t k = 0; k < sorted.size(); ++k) {
      pairs[by_value[k].second] = {sorted[k], median_without(sorted, k)};
    }
    return pairs;
  }
};

// Of one slot in one step, added to the excesses of the GPUs of the role.
void add_excesses(const Evidence& evidence, const Role& role, uint32_t slot, size_t i,
                  std::vector<std::vector<double>>& excess) {
  Values own;
  Values since;
  for (size_t place = 0; place < role.gpus.size(); ++place) {
    const uint32_t unit = evidence.steps().unit_at(evidence.timeline(), role.gpus[place],
                                                   evidence.steps().usable[i], slot);
    own.by_value.emplace_back(evidence.own_times().own_ns(unit), place);
    since.by_value.emplace_back(evidence.own_times().since_before_ns(unit), place);
  }
  own.sort();
  since.sort();
  const auto owns = own.among_others();
  const auto sinces = since.among_others();
  for (size_t place = 0; place < role.gpus.size(); ++place) {
    excess[role.gpus[place]][i] +=
        excess_of(owns[place].first, owns[place].second, sinces[place].first, sinces[place].second);
  }
}

// By how much each GPU took longer than the median of its peers, in each step.
std::vector<std::vector<double>> all_excesses(const Evidence& evidence) {
  std::vector<std::vector<double>> excess(evidence.timeline().gpus.size());
  for (const Role& role : evidence.steps().roles) {
    if (role.gpus.size() < 2) continue;
    for (const uint32_t gpu : role.gpus) excess[gpu].assign(evidence.compared(), 0);
    for (size_t i = 0; i < evidence.compared(); ++i) {
      for (uint32_t slot = 0; slot < role.length; ++slot) {
        add_excesses(evidence, role, slot, i, excess);
      }
    }
  }
  return excess;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

size_t count_positive(const std::vector<double>& values) {
  return static_cast<size_t>(
      std::count_if(values.begin(), values.end(), [](double value) { return value > 0; }));
}

// Of one of the usable steps to another one.
struct Window {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
  std::vector<double> of(const std::vector<double>& values) const {
    return {values.begin() + static_cast<ptrdiff_t>(begin),
            values.begin() + static_cast<ptrdiff_t>(end)};
  }
};

// The slowest first.
std::vector<Candidate> candidates_of(const std::vector<std::vector<double>>& excess,
                                     const Window& window) {
  std::vector<Candidate> list;
  for (uint32_t g = 0; g < excess.size(); ++g) {
    if (excess[g].empty()) continue;
    const std::vector<double> values = window.of(excess[g]);
    const auto size = static_cast<double>(values.size());
    list.push_back({.gpu = g,
                    .excess_ns = median(values),
                    .positive = static_cast<double>(count_positive(values)) / size});
  }
  std::stable_sort(list.begin(), list.end(), [](const Candidate& a, const Candidate& b) {
    return a.excess_ns > b.excess_ns;
  });
  return list;
}

// Own times with those of the culprits replaced by their peers' medians, slot by slot.
std::vector<int64_t> as_fast_as_peers(const Evidence& evidence,
                                      const std::vector<uint32_t>& culprits) {
  const Timeline& timeline = evidence.timeline();
  const Steps& steps = evidence.steps();
  std::vector<int64_t> own_ns = evidence.own_times().all();
  for (const uint32_t culprit : culprits) {
    const Role& role = steps.roles[timeline.gpus[culprit].role];
    for (uint32_t step = 0; step < steps.count; ++step) {
      for (uint32_t slot = 0; slot < role.length; ++slot) {
        const uint32_t unit = steps.unit_at(timeline, culprit, step, slot);
        if (unit == kNone) continue;
        std::vector<double> theirs;
        std::vector<double> since;
        for (const uint32_t peer : role.gpus) {
          if (std::find(culprits.begin(), culprits.end(), peer) != culprits.end()) continue;
          const uint32_t other = steps.unit_at(timeline, peer, step, slot);
          if (other == kNone || !timeline.units[other].is_timed()) continue;
          theirs.push_back(static_cast<double>(evidence.own_times().own_ns(other)));
          since.push_back(static_cast<double>(evidence.own_times().since_before_ns(other)));
        }
        if (theirs.empty()) continue;
        const double excess_ns =
            excess_of(static_cast<double>(own_ns[unit]), median(std::move(theirs)),
                      static_cast<double>(evidence.own_times().since_before_ns(unit)),
                      median(std::move(since)));
        own_ns[unit] -= static_cast<int64_t>(excess_ns);
      }
    }
  }
  return own_ns;
}

// The units of the culprit at which it loses most against its peers, in the middle of the steps.
std::vector<Place> places_of(const Evidence& evidence, uint32_t culprit) {
  const Timeline& timeline = evidence.timeline();
  const Steps& steps = evidence.steps();
  const Role& role = steps.roles[timeline.gpus[culprit].role];
  std::vector<std::pair<double, uint32_t>> lost;  // (nanoseconds, slot)
  for (uint32_t slot = 0; slot < role.length; ++slot) {
    std::vector<double> excess;
    for (const uint32_t step : steps.usable) {
      std::vector<double> theirs;
      for (const uint32_t peer : role.gpus) {
        if (peer == culprit) continue;
        const uint32_t other = steps.unit_at(timeline, peer, step, slot);
        theirs.push_back(static_cast<double>(evidence.own_times().own_ns(other)));
      }
      const uint32_t own = steps.unit_at(timeline, culprit, step, slot);
      excess.push_back(static_cast<double>(evidence.own_times().own_ns(own)) -
                       median(std::move(theirs)));
    }
    lost.emplace_back(-median(std::move(excess)), slot);
  }
  std::sort(lost.begin(), lost.end());
  std::vector<Place> places;
  const uint32_t step = steps.usable[steps.usable.size() / 2];
  const double most_ns = lost.front().first;
  for (const auto& [minus_ns, slot] : lost) {
    if (places.size() == kPlacesMax || minus_ns > most_ns / 4) break;
    Place place;
    place.lost_ns = -minus_ns;
    place.unit = steps.unit_at(timeline, culprit, step, slot);
    places.push_back(place);
  }
  return places;
}

class Rule {
 public:
  Rule(Evidence& evidence, const std::vector<std::vector<double>>& excess, Window window,
       std::vector<std::string>& why_not)
      : evidence_(evidence), excess_(excess), window_(window), why_not_(why_not) {}

  std::optional<Finding> ask() {
    const std::vector<Candidate> list = candidates_of(excess_, window_);
    if (list.empty()) {
      why_not_.push_back(
          "no two ranks call the same in a step, so that none has a peer to be compared with");
      return std::nullopt;
    }
    if (!is_slow(list.front())) return std::nullopt;
    culprits_ = {list.front().gpu};
    for (size_t i = 1; i < list.size(); ++i) {
      if (list[i].excess_ns < kNextShare * list.front().excess_ns) break;
      if (is_slow(list[i])) culprits_.push_back(list[i].gpu);
    }
    std::sort(culprits_.begin(), culprits_.end());
    if (!are_few()) return std::nullopt;
    return judge(list.front());
  }

 private:
  bool is_slow(const Candidate& candidate) const {
    const double share = candidate.excess_ns / evidence_.median_step_ns();
    if (share < kFloorMin / 2 || candidate.positive < kPositiveMin) return false;
    const std::vector<double> values = window_.of(excess_[candidate.gpu]);
    const double chance = sign_test(count_positive(values), values.size());
    return chance * static_cast<double>(excess_.size()) < kSignificance;
  }

  std::string name_of(uint32_t gpu) const {
    return fmt::format("rank {}", evidence_.timeline().gpus[gpu].rank);
  }

  bool are_few() {
    const Role& role = evidence_.steps().roles[evidence_.timeline().gpus[culprits_.front()].role];
    const bool is_pair = role.gpus.size() == 2 && culprits_.size() == 1;
    if (is_pair) return true;
    if (culprits_.size() <= kCulpritsMax && 2 * culprits_.size() < role.gpus.size() + 1)
      return true;
    why_not_.push_back(fmt::format(
        "{} ranks of {} need longer than the median of their peers, {} among them: no few stand "
        "out",
        culprits_.size(), role.gpus.size(), name_of(culprits_.front())));
    return false;
  }

  std::optional<Finding> judge(const Candidate& first) {
    const double step_ns = evidence_.median_step_ns();
    const std::vector<double> saved = window_.of(evidence_.saved_ns(
        as_fast_as_peers(evidence_, culprits_), evidence_.replay().recorded_transfers()));
    Finding finding;
    finding.verdict = analysis::Verdict::straggler;
    finding.gpus = culprits_;
    finding.recovered_ns = median(saved);
    finding.recovered = finding.recovered_ns / step_ns;
    finding.floor = floor_of(saved, step_ns);
    finding.positive = first.positive;
    finding.excess_ns = first.excess_ns;
    finding.first_step = evidence_.steps().usable[window_.begin];
    finding.last_step = evidence_.steps().usable[window_.end - 1];
    finding.compared = static_cast<uint32_t>(window_.size());
    if (finding.recovered < finding.floor) {
      why_not_.push_back(fmt::format(
          "{} needs {:.1f} % of a step longer than its peers, but the steps would be shorter by "
          "{:.1f} % only without that, which is less than {:.1f} %",
          name_of(first.gpu), 100 * first.excess_ns / step_ns, 100 * finding.recovered,
          100 * finding.floor));
      return std::nullopt;
    }
    if (!lasts(saved, finding.recovered_ns) || !is_beyond_doubt(first, finding)) {
      return std::nullopt;
    }
    finding.is_host_bound = is_host_bound(first.gpu);
    tell_launch(finding);
    finding.places = places_of(evidence_, first.gpu);
    weigh(finding);
    return finding;
  }

  bool lasts(const std::vector<double>& saved, double all_ns) {
    for (size_t part = 0; part < kParts; ++part) {
      const auto begin = saved.begin() + static_cast<ptrdiff_t>(saved.size() * part / kParts);
      const auto end = saved.begin() + static_cast<ptrdiff_t>(saved.size() * (part + 1) / kParts);
      if (median({begin, end}) >= kPartShare * all_ns) continue;
      why_not_.push_back(
          fmt::format("{} is slow in some of the steps only: compare others with --steps",
                      name_of(culprits_.front())));
      return false;
    }
    return true;
  }

  // The launch of NCCL may hide in its own time where nobody told when it happened.
  bool is_beyond_doubt(const Candidate& first, const Finding& finding) {
    std::vector<double> doubts;
    const Steps& steps = evidence_.steps();
    const uint32_t role = evidence_.timeline().gpus[first.gpu].role;
    for (const uint32_t step : steps.usable) {
      double sum_ns = 0;
      for (uint32_t slot = 0; slot < steps.roles[role].length; ++slot) {
        const uint32_t unit = steps.unit_at(evidence_.timeline(), first.gpu, step, slot);
        sum_ns += evidence_.timeline().units[unit].doubt_ns;
      }
      doubts.push_back(sum_ns);
    }
    if (median(std::move(doubts)) < finding.recovered_ns) return true;
    why_not_.push_back(fmt::format(
        "whether {} arrives late, or NCCL is launched late on it, is not on file: the profiler "
        "plugin tells (ROLLCALL_PLUGIN)",
        name_of(first.gpu)));
    return false;
  }

  // Most of what it takes longer than its peers has passed when its process makes the call.
  bool is_host_bound(uint32_t gpu) const {
    const Role& role = evidence_.steps().roles[evidence_.timeline().gpus[gpu].role];
    std::vector<double> all_ns;
    std::vector<double> before_call_ns;
    for (const uint32_t peer : role.gpus) {
      if (peer == gpu) continue;
      all_ns.push_back(sum(evidence_.own_ns(peer)));
      before_call_ns.push_back(sum(evidence_.before_call_ns(peer)));
    }
    return sum(evidence_.before_call_ns(gpu)) - median(std::move(before_call_ns)) >=
           0.5 * (sum(evidence_.own_ns(gpu)) - median(std::move(all_ns)));
  }

  // (what its calls of NCCL take its host, what they take its peers'), in the median, at a slot.
  std::pair<double, double> call_ns(uint32_t gpu, const Role& role, uint32_t slot) const {
    double own_ns = 0;
    std::vector<double> theirs;
    for (const uint32_t peer : role.gpus) {
      std::vector<double> spans;
      for (const uint32_t step : evidence_.steps().usable) {
        const uint32_t unit = evidence_.steps().unit_at(evidence_.timeline(), peer, step, slot);
        spans.push_back(evidence_.timeline().units[unit].call_ns);
      }
      const double middle = median(std::move(spans));
      if (peer == gpu) {
        own_ns = middle;
      } else if (std::find(culprits_.begin(), culprits_.end(), peer) == culprits_.end()) {
        theirs.push_back(middle);
      }
    }
    return {own_ns, median(std::move(theirs))};
  }

  // A stall of the process in one place leaves the calls of NCCL as fast as they were, or makes
  // them slower by next to nothing of what it takes itself; a host that is slow as a whole makes
  // them slow, too, nearly all of them, and they are a part of what it loses.
  void tell_launch(Finding& finding) const {
    if (!finding.is_host_bound) return;
    double least = 0;
    bool is_part = true;
    for (const uint32_t gpu : culprits_) {
      const Role& role = evidence_.steps().roles[evidence_.timeline().gpus[gpu].role];
      std::vector<double> ratios;
      double longer_ns = 0;
      for (uint32_t slot = 0; slot < role.length; ++slot) {
        const auto [call_ns, usual_ns] = this->call_ns(gpu, role, slot);
        ratios.push_back(usual_ns > 0 ? call_ns / usual_ns : 0);
        longer_ns += call_ns - usual_ns;
      }
      if (longer_ns < kSlowCallCost * finding.excess_ns) is_part = false;
      const double ratio = quantile(std::move(ratios), 1 - kSlowCallShare);
      if (gpu == culprits_.front() || ratio < least) least = ratio;
    }
    finding.call_ratio = least;
    if (is_part && least >= kSlowCall) finding.verdict = analysis::Verdict::slow_launch;
  }

  void weigh(Finding& finding) const {
    const Role& role = evidence_.steps().roles[evidence_.timeline().gpus[culprits_.front()].role];
    if (window_.size() < kStepsCertain) {
      finding.doubts.push_back(fmt::format("only {} steps were compared", window_.size()));
    }
    const size_t peers = role.gpus.size() - culprits_.size();
    if (peers < 4) {
      finding.doubts.push_back(peers == 1 ? "it has one peer only: which of the two is unusual, "
                                            "nobody can say"
                                          : fmt::format("it has {} peers only", peers));
    }
    if (evidence_.timeline().unrecorded != 0) {
      finding.doubts.push_back(
          fmt::format("{} ranks left no record", evidence_.timeline().unrecorded));
    }
    finding.confidence =
        finding.doubts.empty() ? analysis::Confidence::certain : analysis::Confidence::likely;
  }

  Evidence& evidence_;
  const std::vector<std::vector<double>>& excess_;  // by GPU and usable step
  const Window window_;
  std::vector<std::string>& why_not_;
  std::vector<uint32_t> culprits_;
};

}  // namespace

std::optional<Finding> find_straggler(Evidence& evidence, std::vector<std::string>& why_not) {
  const std::vector<std::vector<double>> excess = all_excesses(evidence);
  const auto steps = static_cast<double>(evidence.compared());
  for (const Part& part : kWindows) {
    const Window window{.begin = static_cast<size_t>(part.begin * steps),
                        .end = static_cast<size_t>(part.end * steps)};
    if (window.size() < kStepsMin) continue;
    std::vector<std::string> reasons;
    std::optional<Finding> finding = Rule(evidence, excess, window, reasons).ask();
    if (finding) return finding;
    if (window.size() == evidence.compared()) why_not = std::move(reasons);
  }
  return std::nullopt;
}

}  // namespace rollcall::slow
