// Statistics that a few outliers do not move, and the tests that the verdicts rest on.
//
// Threads: plain functions. Empty input is the caller's error, unless said otherwise.
#pragma once

#include <cstddef>
#include <vector>

namespace rollcall::slow {

// The middle value, or the mean of the two; 0 of nothing.
double median(std::vector<double> values);
// Of a normal distribution: its standard deviation, in median distances from its middle.
inline constexpr double kNormalMad = 1.4826;
// The value at rank ceil(share * n), nearest rank; 0 of nothing.
double quantile(std::vector<double> values, double share);
// 1.4826 times the median distance from the median: the standard deviation, were they normal.
double spread(const std::vector<double>& values);
// Standard error of the median, from the spread: 1.2533 * spread / sqrt(n).
double median_error(const std::vector<double>& values);
// Of the medians of a sorted list without its i-th value.
double median_without(const std::vector<double>& sorted, size_t i);

// The chance of `positive` or more heads in `all` throws of a fair coin.
double sign_test(size_t positive, size_t all);
// The same of a coin that shows heads with this chance, between 0 and 1.
double binomial_tail(size_t positive, size_t all, double chance);

// How far a value lies from the others, in their spreads; 0 where these are all alike.
double robust_z(double value, const std::vector<double>& others);

}  // namespace rollcall::slow
