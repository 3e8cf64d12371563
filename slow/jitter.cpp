// RC-JITTER: some steps are slow, the others are not, and it is not one rank that makes them so:
// pauses that wander from rank to rank, stalls of all at once, transfers that take long at times.
//
// A step is slow that takes longer than the median of the steps around it, up to a lasting change,
// by 3 % and by four spreads of the steps below that. What it takes longer is somebody's own work,
// where a rank took longer than it does itself in the median of the same stretch, or a transfer's.
// It says nothing where that explains less than half, or where the slow steps are one stretch.
// Where one rank makes nearly all of them, and these alone cost enough, it is RC-STRAGGLER, now and
// then; where it makes more than chance allows, but not that many, nothing is said.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>

#include "slow/change.h"
#include "slow/evidence.h"
#include "slow/robust.h"

namespace rollcall::slow {
namespace {

constexpr double kFloor = 0.02;  // of all steps
constexpr double kSpreads = 4;
constexpr double kSlowMin = 0.03;    // of a step
constexpr size_t kStepsEnough = 50;  // a tail of one step in ten is not seen in fewer
constexpr size_t kStepsLikely = 100;
constexpr size_t kSlowStepsMin = 5;
constexpr double kExplainedMin = 0.5;
// One rank has more of the slow steps than by chance, or nearly all of them.
constexpr double kSignificance = 1e-3;
constexpr double kOneShare = 0.3;
constexpr double kOneShareOfAny = 0.8;
// It is named where that cannot be chance, with so many slow steps.
constexpr size_t kOneStepsMin = 6;
constexpr double kOneSignificance = 1e-4;
// In each part of the steps there must be one.
constexpr size_t kParts = 3;
// A period: so many distances between slow steps, of which so many are like the median.
constexpr size_t kDistancesMin = 5;
constexpr double kLikeShare = 0.8;

enum class Cause : uint8_t { host, gpu, transfer, unknown };

struct SlowStep {
  size_t i = 0;  // of the usable steps
  double excess_ns = 0;
  Cause cause = Cause::unknown;
  uint32_t gpu = kNone;     // which took longest by itself
  bool is_of_many = false;  // at least half of all ranks took longer
};

// The median, where four of five are like it, to 5 %; else 0.
uint32_t shared_by_most(const std::vector<double>& periods) {
  const double middle = median(periods);
  const auto alike = std::count_if(periods.begin(), periods.end(), [middle](double period) {
    return period >= 0.95 * middle && period <= 1.05 * middle;
  });
  const double share = static_cast<double>(alike) / static_cast<double>(periods.size());
  return share >= kLikeShare ? static_cast<uint32_t>(middle) : 0;
}

// The distance that the steps keep, where they keep one; 0: they keep none. Neighbours count once.
uint32_t period_of(const std::vector<uint32_t>& steps) {
  std::vector<double> distances;
  uint32_t begun = 0;
  for (size_t k = 1; k < steps.size(); ++k) {
    if (steps[k] == steps[k - 1] + 1) continue;
    distances.push_back(steps[k] - steps[begun]);
    begun = static_cast<uint32_t>(k);
  }
  if (distances.size() < kDistancesMin) return 0;
  return shared_by_most(distances);
}

class Rule {
 public:
  Rule(Evidence& evidence, std::vector<std::string>& why_not)
      : evidence_(evidence), why_not_(why_not) {}

  std::optional<Finding> ask() {
    if (evidence_.timeline().gpus.size() < 2) return std::nullopt;
    pick_slow_steps();
    lost_ns_ = excess_of(slow_);
    share_ = share_of_time(lost_ns_);
    if (share_ < kFloor || !is_enough()) return std::nullopt;
    if (!is_scattered()) {
      why_not_.push_back(
          fmt::format("{}, and stand together: compare the others with --steps", told()));
      return std::nullopt;
    }
    explain();
    if (!is_explained()) return std::nullopt;
    const auto [gpu, steps] = most_frequent();
    if (!is_one_ranks(gpu, steps)) return judge();
    if (is_proven(steps)) return judge(gpu);
    why_not_.push_back(fmt::format(
        "{}; rank {} made {} of them by itself: whether it is always that one a longer record "
        "would tell",
        told(), evidence_.timeline().gpus[gpu].rank, steps));
    return std::nullopt;
  }

 private:
  // "7 of 115 steps are slow and cost 3.1 % of the time of all"
  std::string told() const {
    return fmt::format("{} of {} steps {} {:.1f} % of the time of all", slow_.size(),
                       evidence_.compared(),
                       slow_.size() == 1 ? "is slow and costs" : "are slow and cost", 100 * share_);
  }

  static double excess_of(const std::vector<SlowStep>& steps) {
    double sum_ns = 0;
    for (const SlowStep& step : steps) sum_ns += step.excess_ns;
    return sum_ns;
  }

  double share_of_time(double span_ns) const {
    const std::vector<double>& spans = evidence_.step_ns();
    return span_ns / std::accumulate(spans.begin(), spans.end(), 0.0);
  }

  void pick_slow_steps() {
    const std::vector<double>& spans = evidence_.step_ns();
    stretches_ = {0};
    for (const Change& change : find_changes(spans)) stretches_.push_back(change.at);
    stretches_.push_back(spans.size());
    const std::vector<double> levels = levels_of(spans);
    std::vector<double> below;
    for (size_t i = 0; i < spans.size(); ++i) {
      if (spans[i] <= levels[i]) below.push_back(levels[i] - spans[i]);
    }
    const double width = kNormalMad * median(std::move(below));
    for (size_t i = 0; i < spans.size(); ++i) {
      const double excess_ns = spans[i] - levels[i];
      if (excess_ns < std::max(kSpreads * width, kSlowMin * levels[i])) continue;
      SlowStep step;
      step.i = i;
      step.excess_ns = excess_ns;
      slow_.push_back(step);
    }
  }

  // Of each value the median of the stretch of steps that it is in: what changes for long is no
  // jitter.
  std::vector<double> levels_of(const std::vector<double>& values) const {
    std::vector<double> levels;
    for (size_t k = 1; k < stretches_.size(); ++k) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(stretches_[k - 1]);
      const auto end = values.begin() + static_cast<ptrdiff_t>(stretches_[k]);
      levels.resize(stretches_[k], median({begin, end}));
    }
    return levels;
  }

  bool is_enough() {
    if (evidence_.compared() >= kStepsEnough && slow_.size() >= kSlowStepsMin) return true;
    why_not_.push_back(
        fmt::format("{}: whether that comes again, {} steps with {} slow ones would tell", told(),
                    kStepsLikely, kSlowStepsMin));
    return false;
  }

  bool is_scattered() const {
    for (size_t part = 0; part < kParts; ++part) {
      const size_t begin = evidence_.compared() * part / kParts;
      const size_t end = evidence_.compared() * (part + 1) / kParts;
      const auto here = std::count_if(slow_.begin(), slow_.end(), [&](const SlowStep& step) {
        return step.i >= begin && step.i < end;
      });
      if (here == 0) return false;
    }
    return true;
  }

  void explain() {
    std::vector<std::vector<double>> usual_ns;
    std::vector<std::vector<double>> usual_before_ns;
    for (uint32_t g = 0; g < evidence_.timeline().gpus.size(); ++g) {
      const bool has_role = evidence_.timeline().gpus[g].role != kNone;
      usual_ns.push_back(has_role ? levels_of(evidence_.own_ns(g)) : std::vector<double>());
      usual_before_ns.push_back(has_role ? levels_of(evidence_.before_call_ns(g))
                                         : std::vector<double>());
    }
    std::vector<double> transfers_ns;
    for (size_t i = 0; i < evidence_.compared(); ++i) {
      Charges charges;
      evidence_.replay().charge(evidence_.steps().usable[i], evidence_.ends(), charges);
      const auto& list = charges.transfer_ns;
      transfers_ns.push_back(static_cast<double>(std::accumulate(list.begin(), list.end(), 0LL)));
    }
    const std::vector<double> usual_transfers_ns = levels_of(transfers_ns);
    for (SlowStep& step : slow_) {
      explain(step, usual_ns, usual_before_ns);
      if (step.cause == Cause::unknown &&
          transfers_ns[step.i] - usual_transfers_ns[step.i] >= kExplainedMin * step.excess_ns) {
        step.cause = Cause::transfer;
      }
    }
  }

  // By what a rank took longer than it does itself in the median of the stretch.
  void explain(SlowStep& step, const std::vector<std::vector<double>>& usual_ns,
               const std::vector<std::vector<double>>& usual_before_ns) const {
    std::vector<double> excess;
    for (uint32_t g = 0; g < usual_ns.size(); ++g) {
      const bool has_role = evidence_.timeline().gpus[g].role != kNone;
      excess.push_back(has_role ? evidence_.own_ns(g)[step.i] - usual_ns[g][step.i] : 0);
    }
    const auto most = std::max_element(excess.begin(), excess.end());
    if (*most < kExplainedMin * step.excess_ns) return;
    step.gpu = static_cast<uint32_t>(most - excess.begin());
    const double before_ns =
        evidence_.before_call_ns(step.gpu)[step.i] - usual_before_ns[step.gpu][step.i];
    step.cause = before_ns >= 0.5 * *most ? Cause::host : Cause::gpu;
    const auto many = std::count_if(excess.begin(), excess.end(),
                                    [most](double own_ns) { return own_ns >= 0.5 * *most; });
    step.is_of_many = 2 * static_cast<size_t>(many) >= excess.size() && many > 1;
  }

  bool is_explained() {
    double unknown_ns = 0;
    for (const SlowStep& step : slow_) {
      if (step.cause == Cause::unknown) unknown_ns += step.excess_ns;
    }
    if (unknown_ns < (1 - kExplainedMin) * lost_ns_) return true;
    why_not_.push_back(told() +
                       ", but neither the work of a rank nor a transfer explains half of that");
    return false;
  }

  // (rank, slow steps that it made): the one with most. Where many stall at once it is nobody's.
  std::pair<uint32_t, size_t> most_frequent() const {
    std::map<uint32_t, size_t> count;
    for (const SlowStep& step : slow_) {
      if (step.gpu != kNone && !step.is_of_many) ++count[step.gpu];
    }
    std::pair<uint32_t, size_t> most{kNone, 0};
    for (const auto& [gpu, steps] : count) {
      if (steps > most.second) most = {gpu, steps};
    }
    return most;
  }

  double share_of(size_t steps) const {
    return static_cast<double>(steps) / static_cast<double>(slow_.size());
  }
  // That one of the ranks has so many of the slow steps, were they dealt out evenly.
  double chance_of(size_t steps) const {
    const auto ranks = static_cast<double>(evidence_.timeline().gpus.size());
    return ranks * binomial_tail(steps, slow_.size(), 1 / ranks);
  }

  bool is_one_ranks(uint32_t gpu, size_t steps) const {
    if (gpu == kNone) return false;
    const bool is_often = share_of(steps) >= kOneShare && chance_of(steps) < kSignificance;
    return is_often || share_of(steps) >= kOneShareOfAny;
  }

  bool is_proven(size_t steps) const {
    return steps >= kOneStepsMin && share_of(steps) >= kOneShareOfAny &&
           chance_of(steps) < kOneSignificance;
  }

  static double median_excess_ns(const std::vector<SlowStep>& steps) {
    std::vector<double> excess;
    for (const SlowStep& step : steps) excess.push_back(step.excess_ns);
    return median(std::move(excess));
  }

  // The slow steps that this rank made by itself.
  std::vector<SlowStep> steps_of(uint32_t gpu) const {
    std::vector<SlowStep> own;
    std::copy_if(slow_.begin(), slow_.end(), std::back_inserter(own),
                 [gpu](const SlowStep& step) { return step.gpu == gpu && !step.is_of_many; });
    return own;
  }

  // By what, and how often: of all slow steps, or of those of one rank.
  Jitter describe(const std::vector<SlowStep>& steps) const {
    Jitter jitter;
    jitter.slow_steps = static_cast<uint32_t>(slow_.size());
    std::map<uint32_t, size_t> made;
    for (const SlowStep& step : slow_) {
      if (step.is_of_many) ++jitter.of_many;
      if (step.gpu == kNone || step.is_of_many) continue;
      ++made[step.gpu];
      ++jitter.of_one;
    }
    jitter.gpus = static_cast<uint32_t>(made.size());
    std::tie(jitter.most, jitter.most_steps) = most_frequent();
    tell_cause(steps, jitter);
    tell_period(steps, jitter);
    return jitter;
  }

  static void tell_cause(const std::vector<SlowStep>& steps, Jitter& jitter) {
    std::map<Cause, double> by_cause;
    for (const SlowStep& step : steps) by_cause[step.cause] += step.excess_ns;
    by_cause.erase(Cause::unknown);
    const auto main = std::max_element(by_cause.begin(), by_cause.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    constexpr JitterCause kTold[] = {JitterCause::host, JitterCause::gpu, JitterCause::transfer};
    jitter.cause = kTold[static_cast<size_t>(main->first)];
    jitter.cause_share = main->second / excess_of(steps);
  }

  // Noise now and then, beside what comes regularly, has no period.
  void tell_period(const std::vector<SlowStep>& steps, Jitter& jitter) const {
    std::vector<uint32_t> all;
    std::map<uint32_t, std::vector<uint32_t>> by_gpu;
    const double least_ns = 0.5 * median_excess_ns(steps);
    for (const SlowStep& step : steps) {
      if (step.excess_ns < least_ns) continue;
      all.push_back(evidence_.steps().usable[step.i]);
      if (step.gpu != kNone && !step.is_of_many) by_gpu[step.gpu].push_back(all.back());
    }
    jitter.period = period_of(all);
    if (jitter.period == 0) jitter.period_of_rank = common_period(by_gpu);
  }

  // Of the ranks that made enough slow steps, four of five must keep nearly the same.
  static uint32_t common_period(const std::map<uint32_t, std::vector<uint32_t>>& by_gpu) {
    std::vector<double> periods;
    for (const auto& [gpu, steps] : by_gpu) {
      if (steps.size() > kDistancesMin) periods.push_back(period_of(steps));
    }
    return periods.size() < 2 ? 0 : shared_by_most(periods);
  }

  // Many ranks, in turn or at once.
  Finding judge() const {
    Finding finding;
    finding.verdict = analysis::Verdict::jitter;
    finding.recovered = share_;
    finding.recovered_ns = lost_ns_ / static_cast<double>(evidence_.compared());
    finding.floor = kFloor;
    finding.first_step = evidence_.steps().usable.front();
    finding.last_step = evidence_.steps().usable.back();
    finding.compared = static_cast<uint32_t>(evidence_.compared());
    finding.jitter = describe(slow_);
    finding.confidence = evidence_.compared() < kStepsLikely ? analysis::Confidence::open
                                                             : analysis::Confidence::likely;
    return finding;
  }

  // It is one rank that makes the steps slow, now and then. What the others cost is not its doing.
  std::optional<Finding> judge(uint32_t gpu) const {
    const std::vector<SlowStep> own = steps_of(gpu);
    Finding finding = judge();
    finding.verdict = analysis::Verdict::straggler;
    finding.gpus = {gpu};
    finding.positive = static_cast<double>(own.size()) / static_cast<double>(evidence_.compared());
    finding.recovered = share_of_time(excess_of(own));
    finding.recovered_ns = excess_of(own) / static_cast<double>(evidence_.compared());
    finding.excess_ns = median_excess_ns(own);
    finding.jitter = describe(own);
    finding.is_host_bound = finding.jitter.cause == JitterCause::host;
    if (finding.recovered >= kFloor) return finding;
    why_not_.push_back(fmt::format(
        "{}; rank {} made {} of them by itself, and these cost {:.1f} %, which is less than "
        "{:.1f} %",
        told(), evidence_.timeline().gpus[gpu].rank, own.size(), 100 * finding.recovered,
        100 * kFloor));
    return std::nullopt;
  }

  Evidence& evidence_;
  std::vector<std::string>& why_not_;
  std::vector<size_t> stretches_;  // their begins, and the end of the last one
  std::vector<SlowStep> slow_;
  double lost_ns_ = 0;
  double share_ = 0;
};

}  // namespace

std::optional<Finding> find_jitter(Evidence& evidence, std::vector<std::string>& why_not) {
  return Rule(evidence, why_not).ask();
}

}  // namespace rollcall::slow
