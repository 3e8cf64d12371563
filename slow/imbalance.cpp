// RC-IMBALANCE: the work is dealt out unevenly, by design or by the data, and nobody is broken.
//
//   between roles    a stage of the pipeline has more to do than the others, in every step
//   between peers    ranks of one role have different amounts to do, in one step these and in the
//                    next one those: inputs of different lengths
//
// It never names a rank, and is asked when no rank is at fault by itself. It says nothing where the
// record leaves more of the steps unexplained than it would save: what several ranks take in turn
// on few processors looks like uneven work.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "slow/evidence.h"
#include "slow/robust.h"

namespace rollcall::slow {
namespace {

constexpr double kFloor = 0.02;     // of a step; less is nobody's business
constexpr double kRatioMin = 1.1;   // the heaviest role, to the mean
constexpr double kUnevenMin = 0.1;  // between peers, within a step: standard deviation to mean
// Of two peers one has always more to do than the other, and two ranks that take turns on a GPU
// differ by their slices of its time: on an H200 by 41 %, with the same work.
constexpr size_t kPeersMin = 3;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

class Rule {
 public:
  Rule(Evidence& evidence, std::vector<std::string>& why_not)
      : evidence_(evidence), why_not_(why_not) {}

  std::optional<Finding> ask() {
    std::optional<Finding> finding = between_peers();
    return finding ? finding : between_roles();
  }

 private:
  std::optional<Finding> judge(const std::vector<int64_t>& own_ns) {
    const std::vector<double> saved =
        evidence_.saved_ns(own_ns, evidence_.replay().recorded_transfers());
    Finding finding;
    finding.verdict = analysis::Verdict::imbalance;
    finding.recovered_ns = median(saved);
    finding.recovered = finding.recovered_ns / evidence_.median_step_ns();
    finding.floor = std::max(kFloor, floor_of(saved, evidence_.median_step_ns()));
    finding.first_step = evidence_.steps().usable.front();
    finding.last_step = evidence_.steps().usable.back();
    finding.compared = static_cast<uint32_t>(evidence_.compared());
    finding.confidence = evidence_.compared() < kStepsCertain ? analysis::Confidence::open
                                                              : analysis::Confidence::likely;
    if (finding.recovered < finding.floor || !is_explained(finding)) return std::nullopt;
    return finding;
  }

  bool is_explained(const Finding& finding) {
    const double unexplained = std::fabs(evidence_.unexplained());
    if (finding.recovered >= unexplained) return true;
    why_not_.push_back(fmt::format(
        "with the work dealt out evenly the steps would be shorter by {:.1f} %, but {:.1f} % of "
        "their time is unexplained",
        100 * finding.recovered, 100 * unexplained));
    return false;
  }

  // The median over the steps of how uneven the work of the peers of a role is; the largest of all
  // roles.
  double unevenness() const {
    double largest = 0;
    for (const Role& role : evidence_.steps().roles) {
      if (role.gpus.size() < kPeersMin) continue;
      std::vector<double> variations;
      for (size_t i = 0; i < evidence_.compared(); ++i) {
        std::vector<double> works;
        for (const uint32_t gpu : role.gpus) works.push_back(evidence_.own_ns(gpu, i));
        const double middle = mean(works);
        double squares = 0;
        for (const double work : works) squares += (work - middle) * (work - middle);
        if (middle <= 0) continue;
        variations.push_back(std::sqrt(squares / static_cast<double>(works.size() - 1)) / middle);
      }
      largest = std::max(largest, median(std::move(variations)));
    }
    return largest;
  }

  std::optional<Finding> between_peers() {
    const double uneven = unevenness();
    if (uneven < kUnevenMin) return std::nullopt;
    const Timeline& timeline = evidence_.timeline();
    const Steps& steps = evidence_.steps();
    std::vector<int64_t> own_ns = evidence_.own_times().all();
    for (const Role& role : steps.roles) {
      for (uint32_t step = 0; step < steps.count; ++step) {
        for (uint32_t slot = 0; slot < role.length; ++slot) {
          std::vector<uint32_t> units;
          std::vector<double> works;
          for (const uint32_t gpu : role.gpus) {
            const uint32_t unit = steps.unit_at(timeline, gpu, step, slot);
            if (unit == kNone) continue;
            units.push_back(unit);
            works.push_back(static_cast<double>(own_ns[unit]));
          }
          if (works.empty()) continue;
          const auto even_ns = static_cast<int64_t>(mean(works));
          for (const uint32_t unit : units) own_ns[unit] = even_ns;
        }
      }
    }
    std::optional<Finding> finding = judge(own_ns);
    if (finding) finding->ratio = uneven;
    return finding;
  }

  std::optional<Finding> between_roles() {
    const std::vector<Role>& roles = evidence_.steps().roles;
    if (roles.size() < 2) return std::nullopt;
    std::vector<double> works;
    for (const Role& role : roles) {
      std::vector<double> medians;
      for (const uint32_t gpu : role.gpus) medians.push_back(median(evidence_.own_ns(gpu)));
      works.push_back(median(std::move(medians)));
    }
    const auto heaviest =
        static_cast<size_t>(std::max_element(works.begin(), works.end()) - works.begin());
    const double ratio = works[heaviest] / mean(works);
    if (!(ratio >= kRatioMin)) return std::nullopt;
    std::vector<int64_t> own_ns = evidence_.own_times().all();
    const Timeline& timeline = evidence_.timeline();
    for (uint32_t u = 0; u < own_ns.size(); ++u) {
      const uint32_t role = timeline.gpus[timeline.units[u].gpu].role;
      if (role == kNone || works[role] <= 0) continue;
      own_ns[u] = static_cast<int64_t>(static_cast<double>(own_ns[u]) * mean(works) / works[role]);
    }
    std::optional<Finding> finding = judge(own_ns);
    if (!finding) return finding;
    finding->ratio = ratio;
    finding->role = static_cast<uint32_t>(heaviest);
    return finding;
  }

  Evidence& evidence_;
  std::vector<std::string>& why_not_;
};

}  // namespace

std::optional<Finding> find_imbalance(Evidence& evidence, std::vector<std::string>& why_not) {
  return Rule(evidence, why_not).ask();
}

}  // namespace rollcall::slow
