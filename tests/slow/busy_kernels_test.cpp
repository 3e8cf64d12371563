// The unions of kernels, held against an account of every single nanosecond.
#include "trace/import/busy_kernels.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/catch.h"
#include "tests/slow/timed_cluster.h"

namespace rollcall::trace {
namespace busy_kernels_test {

constexpr int64_t kDevice = 3;

struct Drawn {
  bool is_communication = false;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

std::vector<Drawn> draw(uint64_t seed, size_t count, int64_t length_ns) {
  std::vector<Drawn> kernels;
  for (size_t i = 0; i < count; ++i) {
    Drawn kernel;
    kernel.is_communication = timed::uniform(seed, i, 0, 0) < 0.4;
    kernel.begin_ns =
        static_cast<int64_t>(timed::uniform(seed, i, 1, 0) * static_cast<double>(length_ns));
    kernel.end_ns = kernel.begin_ns + static_cast<int64_t>(timed::uniform(seed, i, 2, 0) * 40);
    kernels.push_back(kernel);
  }
  return kernels;
}

std::vector<BusyTime> told(const std::vector<Drawn>& kernels,
                           const std::vector<BusyKernels::End>& ends) {
  BusyKernels busy;
  for (const Drawn& one : kernels) {
    busy.add(one.is_communication, kDevice, one.begin_ns, one.end_ns);
  }
  return busy.at(ends);
}

TEST_CASE("kernels of any order that overlap and touch count as long as any of them runs") {
  constexpr int64_t kLength = 20'000;
  for (const size_t count : {3, 60, 700, 20'000}) {
    const std::vector<Drawn> kernels = draw(count, count, kLength);
    std::vector<uint8_t> what(kLength + 100, 0);
    for (const Drawn& one : kernels) {
      for (int64_t t = one.begin_ns; t < one.end_ns; ++t) {
        what[static_cast<size_t>(t)] |= one.is_communication ? 1 : 2;
      }
    }
    std::vector<BusyKernels::End> ends;
    for (uint64_t ticket = 1; ticket <= 50; ++ticket) {
      ends.push_back({ticket, static_cast<int64_t>(ticket * 7919 % (kLength + 100))});
    }
    const std::vector<BusyTime> busy = told(kernels, ends);
    REQUIRE(busy.size() == ends.size());
    for (size_t i = 0; i < ends.size(); ++i) {
      const auto until = what.begin() + ends[i].end_ns;
      CHECK(busy[i].ticket == ends[i].ticket);
      CHECK(busy[i].communication_ns ==
            std::count_if(what.begin(), until, [](uint8_t w) { return (w & 1) != 0; }));
      CHECK(busy[i].compute_ns ==
            std::count_if(what.begin(), until, [](uint8_t w) { return (w & 2) != 0; }));
      CHECK(busy[i].either_ns ==
            std::count_if(what.begin(), until, [](uint8_t w) { return w != 0; }));
    }
  }
}

TEST_CASE("the order in which kernels stand in a file changes nothing") {
  std::vector<Drawn> kernels = draw(7, 9'000, 500'000);
  const std::vector<BusyKernels::End> ends = {{1, 100'000}, {2, 500'000}, {3, 250'000}};
  const std::vector<BusyTime> forwards = told(kernels, ends);
  std::reverse(kernels.begin(), kernels.end());
  const std::vector<BusyTime> backwards = told(kernels, ends);
  for (size_t i = 0; i < ends.size(); ++i) {
    CHECK(forwards[i].compute_ns == backwards[i].compute_ns);
    CHECK(forwards[i].communication_ns == backwards[i].communication_ns);
    CHECK(forwards[i].either_ns == backwards[i].either_ns);
  }
}

TEST_CASE("where kernels are missing, damaged or of another GPU, none of the sums is told") {
  const std::vector<BusyKernels::End> ends = {{1, 1'000}};
  const auto complete = [] {
    BusyKernels busy;
    busy.add(false, kDevice, 10, 20);
    busy.add(true, kDevice, 15, 40);
    return busy;
  };
  BusyKernels busy = complete();
  CHECK(busy.why_not().empty());
  CHECK(busy.at(ends).size() == 1);

  busy = BusyKernels();
  busy.add(true, kDevice, 15, 40);
  CHECK(busy.why_not() == "there are no kernels but NCCL's");
  CHECK(busy.at(ends).empty());

  busy = complete();
  busy.add(false, kDevice + 1, 50, 60);
  CHECK(busy.why_not() == "the kernels are of several GPUs");
  CHECK(busy.at(ends).empty());

  for (const auto& [begin_ns, end_ns] : {std::pair<int64_t, int64_t>{30, 29}, {-1, 5}, {-5, -1}}) {
    busy = complete();
    busy.add(false, kDevice, begin_ns, end_ns);
    CHECK(busy.why_not() == "a kernel is damaged or has no name");
    CHECK(busy.at(ends).empty());
  }
}

TEST_CASE("kernels that stand apart are kept up to a bound, and those that touch without one") {
  BusyKernels apart(1'000);
  for (int64_t i = 0; i < 3'000; ++i) apart.add(false, kDevice, 10 * i, 10 * i + 5);
  CHECK(apart.why_not() == "there are more than 500 kernels apart");
  CHECK(apart.at(std::vector<BusyKernels::End>{{1, 100}}).empty());

  BusyKernels touching(1'000);
  for (int64_t i = 100'000; i > 0; --i) touching.add(false, kDevice, 10 * i, 10 * i + 10);
  touching.add(true, kDevice, 0, 5);
  CHECK(touching.why_not().empty());
  const auto busy = touching.at(std::vector<BusyKernels::End>{{1, 2'000'000}});
  REQUIRE(busy.size() == 1);
  CHECK(busy[0].compute_ns == 1'000'000);
}

}  // namespace busy_kernels_test
}  // namespace rollcall::trace
