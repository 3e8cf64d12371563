#include "slow/robust.h"

#include <algorithm>
#include <cmath>

namespace rollcall::slow {
namespace {

constexpr double kMedianError = 1.2533;  // sqrt(pi / 2)

double median_of_sorted(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  if (n == 0) return 0;
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return median_of_sorted(values);
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto n = static_cast<double>(values.size());
  const auto rank = static_cast<size_t>(std::max(std::ceil(share * n), 1.0));
  const auto place = values.begin() + static_cast<ptrdiff_t>(std::min(rank, values.size()) - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double spread(const std::vector<double>& values) {
  const double middle = median(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::fabs(value - middle));
  return kNormalMad * median(std::move(distances));
}

double median_error(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return kMedianError * spread(values) / std::sqrt(static_cast<double>(values.size()));
}

double median_without(const std::vector<double>& sorted, size_t i) {
  const size_t n = sorted.size() - 1;
  const auto at = [&](size_t place) { return sorted[place < i ? place : place + 1]; };
  if (n == 0) return 0;
  return n % 2 == 1 ? at(n / 2) : (at(n / 2 - 1) + at(n / 2)) / 2;
}

double sign_test(size_t positive, size_t all) { return binomial_tail(positive, all, 0.5); }

double binomial_tail(size_t positive, size_t all, double chance) {
  if (positive == 0 || chance >= 1) return 1;
  const auto n = static_cast<double>(all);
  double sum = 0;
  for (size_t k = positive; k <= all; ++k) {
    const auto heads = static_cast<double>(k);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(heads + 1) - std::lgamma(n - heads + 1) +
                    heads * std::log(chance) + (n - heads) * std::log1p(-chance));
  }
  return std::min(sum, 1.0);
}

double robust_z(double value, const std::vector<double>& others) {
  const double width = spread(others);
  return width > 0 ? (value - median(others)) / width : 0;
}

}  // namespace rollcall::slow
