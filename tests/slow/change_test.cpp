#include "slow/change.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/slow/timed_cluster.h"

namespace rollcall::slow {
namespace change_test {

using timed::normal;
using timed::uniform;

// 1,000 with noise of that standard deviation, and a heavy tail.
std::vector<double> series(uint64_t seed, size_t length, double noise) {
  std::vector<double> values;
  for (size_t i = 0; i < length; ++i) {
    double value = 1000 * std::exp(noise * normal(seed, 1, i, 0));
    if (uniform(seed, 2, i, 0) < 0.02) value *= 1.3;
    values.push_back(value);
  }
  return values;
}

void raise(std::vector<double>& values, size_t begin, size_t end, double share) {
  for (size_t i = begin; i < end; ++i) values[i] *= 1 + share;
}

TEST_CASE("a level that rises by a twentieth is found at its first value") {
  std::vector<double> values = series(1, 120, 0.005);
  raise(values, 70, 120, 0.05);
  const std::vector<Change> changes = find_changes(values);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].at == 70);
  CHECK(std::fabs(changes[0].after / changes[0].before - 1.05) < 0.005);
}

TEST_CASE("a stretch that is slow and ends again has two changes") {
  std::vector<double> values = series(2, 300, 0.01);
  raise(values, 100, 150, 0.2);
  const std::vector<Change> changes = find_changes(values);
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].at == 100);
  CHECK(changes[1].at == 150);
  CHECK(changes[1].after < changes[1].before);
}

TEST_CASE("in noise alone a change is found in at most one series of a hundred") {
  size_t found = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const double noise = 0.002 * std::pow(40.0, uniform(seed, 3, 0, 0));
    if (!find_changes(series(seed, 20 + seed, noise)).empty()) ++found;
  }
  CHECK(found <= 3);
}

TEST_CASE("the smallest change that is promised is found nine times of ten") {
  for (const double noise : {0.003, 0.01, 0.05}) {
    for (const size_t length : {60, 200, 1000}) {
      size_t found = 0;
      for (uint64_t seed = 0; seed < 100; ++seed) {
        std::vector<double> values = series(seed, length, noise);
        raise(values, length / 2, length, smallest_change(values));
        if (!find_changes(values).empty()) ++found;
      }
      INFO("noise " << noise << ", " << length << " values");
      CHECK(found >= 90);
    }
  }
}

TEST_CASE("in a series of 100,000 values a change is found at its first value, and no other") {
  std::vector<double> values = series(7, 100'000, 0.01);
  CHECK(find_changes(values).empty());
  raise(values, 61'237, 100'000, 0.1);
  const std::vector<Change> changes = find_changes(values);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].at == 61'237);
}

TEST_CASE("single outliers, however many, are no change") {
  std::vector<double> values = series(5, 200, 0.005);
  for (size_t i = 3; i < values.size(); i += 11) values[i] *= 3;
  CHECK(find_changes(values).empty());
}

TEST_CASE("in fewer values than two stretches nothing is found, and nothing is promised") {
  const std::vector<double> values = series(6, 2 * kStretchMin - 1, 0.01);
  CHECK(find_changes(values).empty());
  CHECK(std::isinf(smallest_change(values)));
  CHECK(find_changes({}).empty());
}

TEST_CASE("values that are all alike, or nought, have no change") {
  CHECK(find_changes(std::vector<double>(100, 5.0)).empty());
  CHECK(find_changes(std::vector<double>(100, 0.0)).empty());
}

}  // namespace change_test
}  // namespace rollcall::slow
