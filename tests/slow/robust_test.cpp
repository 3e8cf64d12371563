#include "slow/robust.h"

#include "tests/catch.h"
#include "tests/slow/baselines.h"

namespace rollcall::slow {
namespace robust_test {

using Catch::Matchers::WithinAbs;

TEST_CASE("the median of an even number of values is the mean of the two in the middle") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 3, 2}) == 2.5);
  CHECK(median({}) == 0);
}

TEST_CASE("a quantile is one of the values, by the nearest rank") {
  CHECK(quantile({10, 20, 30, 40, 50}, 0.3) == 20);
  CHECK(quantile({10, 20, 30, 40, 50}, 1.0) == 50);
  CHECK(quantile({10, 20, 30, 40, 50}, 0.0) == 10);
}

TEST_CASE("the spread of 1, 1, 2, 2, 4, 6, 9 is 1.4826, for their median distance from 2 is 1") {
  CHECK_THAT(spread({1, 1, 2, 2, 4, 6, 9}), WithinAbs(1.4826, 1e-9));
  CHECK_THAT(median_error({1, 1, 2, 2, 4, 6, 9}), WithinAbs(1.2533 * 1.4826 / 2.6457513, 1e-6));
}

TEST_CASE("the median without one value is that of the others") {
  const std::vector<double> sorted = {1, 2, 4, 8};
  CHECK(median_without(sorted, 0) == 4);
  CHECK(median_without(sorted, 1) == 4);
  CHECK(median_without(sorted, 2) == 2);
  CHECK(median_without(sorted, 3) == 2);
  CHECK(median_without({1, 3}, 0) == 3);
}

TEST_CASE("nine heads of ten have a chance of 11 in 1024") {
  CHECK_THAT(sign_test(9, 10), WithinAbs(11.0 / 1024, 1e-12));
  CHECK_THAT(sign_test(10, 10), WithinAbs(1.0 / 1024, 1e-12));
  CHECK(sign_test(0, 10) == 1);
}

TEST_CASE("a value lies so many spreads from the others") {
  CHECK_THAT(robust_z(8.4826, {1, 1, 2, 2, 4, 6, 9}), WithinAbs(6.4826 / 1.4826, 1e-9));
  CHECK(robust_z(5, {2, 2, 2}) == 0);
}

TEST_CASE("Dixon's ratio of the smallest of five values is its gap in their range") {
  CHECK_THAT(timed::dixon_ratio({1, 5, 6, 7, 9}), WithinAbs(0.5, 1e-12));
  CHECK_THAT(timed::dixon_critical(5), WithinAbs(0.821, 1e-12));
  CHECK_THAT(timed::dixon_critical(100), WithinAbs(0.483, 1e-12));
}

}  // namespace robust_test
}  // namespace rollcall::slow
