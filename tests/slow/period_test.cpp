#include "slow/period.h"

#include <algorithm>

#include "tests/catch.h"

namespace rollcall::slow {
namespace period_test {

std::vector<uint32_t> repeat(const std::vector<uint32_t>& what, size_t times) {
  std::vector<uint32_t> all;
  for (size_t i = 0; i < times; ++i) all.insert(all.end(), what.begin(), what.end());
  return all;
}

std::vector<uint32_t> join(std::vector<uint32_t> one, const std::vector<uint32_t>& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

TEST_CASE("a sequence that repeats three times has a period, and one that repeats twice has none") {
  const Period period = find_period(repeat({1, 2, 3}, 3));
  CHECK(period.length == 3);
  CHECK(period.begins == std::vector<uint32_t>{0, 3, 6});
  CHECK(find_period(repeat({1, 2, 3}, 2)).length == 0);
  CHECK(find_period({}).length == 0);
}

TEST_CASE("what a job does before its steps is no part of them") {
  const Period period = find_period(join({7, 8}, repeat({1, 2, 3}, 20)));
  CHECK(period.length == 3);
  CHECK(period.begins.front() == 2);
  CHECK(period.begins.size() == 20);
}

TEST_CASE("eight layers and what follows them are one step, and the layer is a period within it") {
  const std::vector<uint32_t> step = join(repeat({1, 2}, 8), {3});
  const Period period = find_period(repeat(step, 10));
  CHECK(period.length == 17);
  CHECK(period.begins.size() == 10);
  CHECK(period.inner == std::vector<uint32_t>{2});
}

TEST_CASE("no symbol need be alone in its step") {
  CHECK(find_period(repeat({1, 1, 2, 2}, 5)).length == 4);
}

TEST_CASE("an evaluation between steps belongs to none of them") {
  std::vector<uint32_t> run = repeat({1, 2, 3, 4}, 30);
  run = join(run, repeat({9}, 5));
  run = join(run, repeat({1, 2, 3, 4}, 30));
  const Period period = find_period(run);
  CHECK(period.length == 4);
  CHECK(period.begins.size() == 60);
  CHECK(period.begins[30] == 125);
}

TEST_CASE("a period of a thousand calls is found") {
  std::vector<uint32_t> step;
  for (uint32_t i = 0; i < 1000; ++i) step.push_back(i * i * 2654435761u >> 29);
  step.push_back(99);
  CHECK(find_period(repeat(step, 4)).length == 1001);
}

TEST_CASE("a sequence without repeats has no period") {
  std::vector<uint32_t> run;
  for (uint32_t i = 0; i < 100; ++i) run.push_back(i);
  CHECK(find_period(run).length == 0);
}

TEST_CASE("two templates that are rotations of each other are equal from their least rotation on") {
  std::vector<uint32_t> one = {2, 1, 1, 3};
  std::vector<uint32_t> other = {1, 3, 2, 1};
  std::rotate(one.begin(), one.begin() + least_rotation(one), one.end());
  std::rotate(other.begin(), other.begin() + least_rotation(other), other.end());
  CHECK(one == other);
  CHECK(one == std::vector<uint32_t>{1, 1, 3, 2});
}

}  // namespace period_test
}  // namespace rollcall::slow
