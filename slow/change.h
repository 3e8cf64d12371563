// Where the level of a series changes: step times, or what a place of the step takes, over the
// steps of a run. The same series has the same answer: nothing is drawn at random.
//
// The series is cut into stretches with least squares and a price for each cut (PELT: Killick,
// Fearnhead and Eckley, 2012), on logarithms from which outliers are cut off. A cut stays where the
// medians of the stretches at its sides differ by 2 % and by three standard errors, and where ranks
// (Mann and Whitney) say that this is no chance; the weakest one goes first.
#pragma once

#include <cstddef>
#include <vector>

namespace rollcall::slow {

struct Change {
  size_t at = 0;  // the first value of the new level
  double before = 0;
  double after = 0;  // medians of the stretches at both sides
};

inline constexpr size_t kStretchMin = 10;
inline constexpr double kChangeMin = 0.02;

// Rising. Values that are not positive count as the smallest positive one; fewer than two stretches
// have no change. Of a series beyond 4,000 values so many places are tried, evenly apart, and those
// around a cut: the work stays in proportion to the length.
std::vector<Change> find_changes(const std::vector<double>& values);

// The smallest change, as a share, that would have been found in this series had it come in the
// middle and lasted, nine times of ten. Infinity where nothing would.
double smallest_change(const std::vector<double>& values);

}  // namespace rollcall::slow
