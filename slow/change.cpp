#include "slow/change.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "slow/robust.h"

namespace rollcall::slow {
namespace {

constexpr double kPrice = 3;   // times the variance and the logarithm of the length
constexpr double kCutOff = 3;  // spreads from the median of the neighbours
constexpr size_t kNeighbours = 9;
// Where nothing changes nothing is pruned, and the work grows with the square of the places tried.
constexpr size_t kPlacesMax = 4000;
constexpr double kErrors = 3;    // standard errors of the difference
constexpr double kLeastZ = 3.3;  // of the ranks: 1 in 1,000, at both sides
// For a level of 1 in 1,000 and nine of ten: 2 (3.29 + 1.28)^2, and medians vary by pi/2 more.
constexpr double kPower = 72;
constexpr double kMedianError = 1.2533;  // of the median, to that of the mean
constexpr double kSpreadMin = 1e-6;

std::vector<double> logarithms(const std::vector<double>& values) {
  double least = std::numeric_limits<double>::infinity();
  for (const double value : values) {
    if (value > 0) least = std::min(least, value);
  }
  std::vector<double> logs;
  logs.reserve(values.size());
  for (const double value : values) {
    logs.push_back(std::isfinite(least) ? std::log(std::max(value, least)) : 0);
  }
  return logs;
}

// Of the noise alone: changes are in a few differences only.
double noise_of(const std::vector<double>& logs) {
  std::vector<double> differences;
  for (size_t i = 1; i < logs.size(); ++i) differences.push_back(logs[i] - logs[i - 1]);
  return std::max(spread(differences) / std::sqrt(2.0), kSpreadMin);
}

// Outliers cut off: each value as near to the median of those around it as noise puts it.
std::vector<double> tamed(const std::vector<double>& logs, double noise) {
  std::vector<double> result;
  result.reserve(logs.size());
  for (size_t i = 0; i < logs.size(); ++i) {
    const size_t begin = std::min(i - std::min(i, kNeighbours / 2),
                                  logs.size() - std::min(logs.size(), kNeighbours));
    const size_t end = std::min(begin + kNeighbours, logs.size());
    const double middle = median(
        {logs.begin() + static_cast<ptrdiff_t>(begin), logs.begin() + static_cast<ptrdiff_t>(end)});
    result.push_back(std::clamp(logs[i], middle - kCutOff * noise, middle + kCutOff * noise));
  }
  return result;
}

class Cutter {
 public:
  explicit Cutter(const std::vector<double>& values) {
    sums_.push_back(0);
    squares_.push_back(0);
    for (const double value : values) {
      sums_.push_back(sums_.back() + value);
      squares_.push_back(squares_.back() + value * value);
    }
  }

  // The begins of the stretches behind the first. Of a long series only places `apart` are tried,
  // and each cut is moved then to the best one around it.
  std::vector<size_t> cut(double price) const {
    const size_t n = sums_.size() - 1;
    const size_t apart = (n + kPlacesMax - 1) / kPlacesMax;
    std::vector<size_t> cuts = cut_at(places(n, apart), price);
    if (apart == 1) return cuts;
    for (size_t k = 0; k < cuts.size(); ++k) {
      const size_t begin = k == 0 ? 0 : cuts[k - 1];
      const size_t end = k + 1 == cuts.size() ? n : cuts[k + 1];
      cuts[k] = best_around(begin, cuts[k], end, apart);
    }
    return cuts;
  }

 private:
  // Rising; the last one is `n`.
  static std::vector<size_t> places(size_t n, size_t apart) {
    std::vector<size_t> result;
    for (size_t at = std::max(apart, kStretchMin); at < n; at += apart) result.push_back(at);
    result.push_back(n);
    return result;
  }

  std::vector<size_t> cut_at(const std::vector<size_t>& places, double price) const {
    const size_t n = places.back();
    std::vector<double> best(n + 1, std::numeric_limits<double>::infinity());
    std::vector<size_t> last(n + 1, 0);
    best[0] = -price;
    std::vector<size_t> open = {0};
    size_t opened = 0;  // of `places`
    for (const size_t end : places) {
      for (; places[opened] + kStretchMin <= end; ++opened) open.push_back(places[opened]);
      for (const size_t begin : open) {
        const double sum = best[begin] + squares_of(begin, end) + price;
        if (sum >= best[end]) continue;
        best[end] = sum;
        last[end] = begin;
      }
      // Whoever is worse by now without the price of another cut stays so.
      std::erase_if(open,
                    [&](size_t begin) { return best[begin] + squares_of(begin, end) > best[end]; });
    }
    std::vector<size_t> cuts;
    for (size_t end = n; last[end] != 0; end = last[end]) cuts.push_back(last[end]);
    std::reverse(cuts.begin(), cuts.end());
    return cuts;
  }

  size_t best_around(size_t begin, size_t at, size_t end, size_t apart) const {
    const size_t first = std::max(at - std::min(at, apart - 1), begin + kStretchMin);
    const size_t behind = std::min(at + apart, end + 1 - std::min(end, kStretchMin));
    size_t best = at;
    double least = squares_of(begin, at) + squares_of(at, end);
    for (size_t place = first; place < behind; ++place) {
      const double sum = squares_of(begin, place) + squares_of(place, end);
      if (sum >= least) continue;
      least = sum;
      best = place;
    }
    return best;
  }

  double squares_of(size_t begin, size_t end) const {
    const double sum = sums_[end] - sums_[begin];
    return squares_[end] - squares_[begin] - sum * sum / static_cast<double>(end - begin);
  }

  std::vector<double> sums_;
  std::vector<double> squares_;
};

// Normal deviate of the rank sum; ties count half.
double rank_z(const std::vector<double>& before, const std::vector<double>& after) {
  std::vector<double> sorted = before;
  std::sort(sorted.begin(), sorted.end());
  double wins = 0;
  for (const double value : after) {
    const auto below = std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
    const auto equal = std::upper_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
    wins += 0.5 * static_cast<double>(below + equal);
  }
  const auto n = static_cast<double>(before.size());
  const auto m = static_cast<double>(after.size());
  return (wins - n * m / 2) / std::sqrt(n * m * (n + m + 1) / 12);
}

std::vector<double> part_of(const std::vector<double>& values, size_t begin, size_t end) {
  return {values.begin() + static_cast<ptrdiff_t>(begin),
          values.begin() + static_cast<ptrdiff_t>(end)};
}

struct Judged {
  Change change;
  double strength = 0;  // below 1: it does not stand
};

Judged judge(const std::vector<double>& values, size_t begin, size_t at, size_t end) {
  const std::vector<double> before = part_of(values, begin, at);
  const std::vector<double> after = part_of(values, at, end);
  Judged judged{.change = {.at = at, .before = median(before), .after = median(after)}};
  const double difference = std::fabs(judged.change.after - judged.change.before);
  const double error = std::hypot(median_error(before), median_error(after));
  const double least = std::max(kErrors * error, kChangeMin * judged.change.before);
  const double by_size = least > 0 ? difference / least : 0;
  judged.strength = std::min(by_size, std::fabs(rank_z(before, after)) / kLeastZ);
  return judged;
}

}  // namespace

std::vector<Change> find_changes(const std::vector<double>& values) {
  if (values.size() < 2 * kStretchMin) return {};
  const std::vector<double> logs = logarithms(values);
  const double noise = noise_of(logs);
  const auto n = static_cast<double>(values.size());
  std::vector<size_t> cuts = Cutter(tamed(logs, noise)).cut(kPrice * noise * noise * std::log(n));
  std::vector<Judged> judged(cuts.size());
  const auto judge_again = [&](size_t k) {
    const size_t begin = k == 0 ? 0 : cuts[k - 1];
    const size_t end = k + 1 == cuts.size() ? values.size() : cuts[k + 1];
    judged[k] = judge(values, begin, cuts[k], end);
  };
  for (size_t k = 0; k < cuts.size(); ++k) judge_again(k);
  while (!cuts.empty()) {
    const auto weakest = std::min_element(
        judged.begin(), judged.end(),
        [](const Judged& one, const Judged& other) { return one.strength < other.strength; });
    if (weakest->strength >= 1) break;
    const auto k = static_cast<size_t>(weakest - judged.begin());
    judged.erase(weakest);
    cuts.erase(cuts.begin() + static_cast<ptrdiff_t>(k));
    if (k > 0) judge_again(k - 1);
    if (k < cuts.size()) judge_again(k);
  }
  std::vector<Change> changes;
  for (const Judged& one : judged) changes.push_back(one.change);
  return changes;
}

double smallest_change(const std::vector<double>& values) {
  if (values.size() < 2 * kStretchMin) return std::numeric_limits<double>::infinity();
  const double noise = noise_of(logarithms(values));
  const auto side = static_cast<double>(values.size()) / 2;
  const double error = kMedianError * noise * std::sqrt(2 / side);
  return std::expm1(std::max(noise * std::sqrt(kPower / side), kChangeMin + 2 * error));
}

}  // namespace rollcall::slow
