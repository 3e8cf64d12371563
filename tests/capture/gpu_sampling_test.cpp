// Which operations a thread has timed when it can afford no more: how many, and the same ones on
// all ranks.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/gpu/common_sample.h"
#include "core/gpu/timer.h"
#include "tests/capture/gpu_world.h"
#include "tests/catch.h"

namespace rollcall {
namespace gpu_sampling_test {

using test::FakeGpu;
using test::World;

FakeGpu& gpu() { return FakeGpu::get(); }

TEST_CASE("a thread that launches more than it can afford has its operations sampled") {
  World world(1);
  gpu().cost_ticks = 1'000;
  const gpu::Stream stream = gpu().make_stream(1, true);
  constexpr uint64_t kCalls = 20'000;
  uint64_t timed = 0;
  for (uint64_t i = 0; i < kCalls; ++i) {
    advance_fake_clock(20'000);  // two marks of 1 us in 20 us: ten times the budget
    timed += world.phase(world.launch(stream)) == Phase::gpu_pending ? 1 : 0;
    world.poll();
  }
  CHECK(timed < kCalls / 8);
  CHECK(timed > kCalls / 64);
  CHECK(world.sampled_out() + world.stats.gpu_untimed + timed == kCalls);
}

TEST_CASE("a thread far beyond its budget is within it when its first marks are made") {
  World world(1);
  gpu().cost_ticks = 1'000;
  const gpu::Stream stream = gpu().make_stream(1, true);
  constexpr uint64_t kCalls = 4'000;
  uint64_t timed = 0;
  for (uint64_t i = 0; i < kCalls; ++i) {
    advance_fake_clock(2'000);  // fifty times the budget
    timed += world.is_unknown(world.launch(stream)) ? 0 : 1;
    world.poll();
  }
  constexpr uint64_t kWindow = 64;
  CHECK(timed > kWindow);
  CHECK(timed <= 2 * kWindow + kCalls / 64);
}

TEST_CASE(
    "a mark that the processor was away in leaves out one operation in two, and not for long") {
  World world(1);
  gpu().cost_ticks = 10;
  const gpu::Stream stream = gpu().make_stream(1, true);
  constexpr uint64_t kCalls = 1'000;
  for (uint64_t i = 0; i < kCalls; ++i) {
    advance_fake_clock(100'000);
    gpu().cost_ticks = i == 16 ? 10'000'000 : 10;  // a measured one
    world.launch(stream);
    world.poll();
  }
  CHECK(world.sampled_out() == 64);
  CHECK(world.stats.gpu_untimed == 0);
}

TEST_CASE("operations of groups that are left out for the budget are counted, each once") {
  World world(1);
  gpu().cost_ticks = 1'000;
  const gpu::Stream stream = gpu().make_stream(1, true);
  constexpr uint32_t kGroups = 2'000;
  uint64_t unknown = 0;
  for (uint32_t group = 1; group <= kGroups; ++group) {
    advance_fake_clock(20'000);
    const uint64_t first = world.launch(stream, group);
    const uint64_t second = world.launch(stream, group);
    world.end_group(group, group % 16 != 0 ? gpu::Launch::done : gpu::Launch::refused);
    unknown += (world.is_unknown(first) ? 1 : 0) + (world.is_unknown(second) ? 1 : 0);
    world.poll();
  }
  CHECK(world.sampled_out() > kGroups);
  CHECK(world.sampled_out() + world.stats.gpu_untimed == unknown);
}

// Which of so many collectives a thread times that can afford one in 2^`shift` of them.
std::set<uint64_t> timed_by(World& world, gpu::Thread& thread, uint32_t shift, uint64_t collectives,
                            uint64_t others_between) {
  thread.skip_shift = shift;
  const gpu::Stream stream = gpu().make_stream(1, true);
  std::set<uint64_t> timed;
  for (uint64_t seq = 0; seq < collectives; ++seq) {
    for (uint64_t i = 0; i < others_between; ++i) {
      world.next_hash = gpu::sample_hash({7, 8}, {.seq = seq * others_between + i});
      world.launch(thread, stream);
    }
    world.next_hash = gpu::sample_hash({1, 2}, {.seq = seq});
    if (!world.is_unknown(world.launch(thread, stream))) timed.insert(seq);
    world.poll();
  }
  return timed;
}

TEST_CASE("ranks that leave operations out time the same ones, whatever else they call") {
  World world;
  constexpr uint64_t kCollectives = 4'096;
  gpu::Thread alone{};
  gpu::Thread busy{};
  const auto of_alone = timed_by(world, alone, 3, kCollectives, 0);
  CHECK(of_alone == timed_by(world, busy, 3, kCollectives, 3));
  CHECK(of_alone.size() > kCollectives / 8 * 9 / 10);
  CHECK(of_alone.size() < kCollectives / 8 * 11 / 10);
}

TEST_CASE("what a rank that can afford little times, the others time as well") {
  World world;
  constexpr uint64_t kCollectives = 4'096;
  gpu::Thread rich{};
  gpu::Thread poor{};
  const auto of_rich = timed_by(world, rich, 2, kCollectives, 0);
  const auto of_poor = timed_by(world, poor, 5, kCollectives, 0);
  CHECK(of_poor.size() > kCollectives / 32 / 2);
  CHECK(of_poor.size() < kCollectives / 32 * 2);
  CHECK(std::includes(of_rich.begin(), of_rich.end(), of_poor.begin(), of_poor.end()));
}

TEST_CASE(
    "each call of a step is timed in some steps, also where a step has a power of two of them") {
  World world;
  constexpr uint64_t kCallsOfStep = 64;
  gpu::Thread thread{};
  std::vector<unsigned> steps_with(kCallsOfStep);
  for (const uint64_t seq : timed_by(world, thread, 6, kCallsOfStep * 512, 0)) {
    ++steps_with[seq % kCallsOfStep];
  }
  const auto [fewest, most] = std::minmax_element(steps_with.begin(), steps_with.end());
  CHECK(*fewest >= 1);
  CHECK(*most <= 512 / 8);
}

TEST_CASE("the first operation of a group decides whether all of it is timed") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1, true);
  uint64_t in = 1;
  while (!gpu::is_in_sample(gpu::sample_hash({1, 2}, {.seq = in}), 4)) ++in;
  uint64_t out = in + 1;
  while (gpu::is_in_sample(gpu::sample_hash({1, 2}, {.seq = out}), 1)) ++out;
  world.main_thread.skip_shift = 4;
  uint32_t group = 0;
  for (const auto& [first, second] : {std::pair(in, out), std::pair(out, in)}) {
    ++group;
    world.next_hash = gpu::sample_hash({1, 2}, {.seq = first});
    const uint64_t ticket = world.launch(stream, group);
    world.next_hash = gpu::sample_hash({1, 2}, {.seq = second});
    const uint64_t next_ticket = world.launch(stream, group);
    world.end_group(group);
    CHECK(world.is_unknown(ticket) == (first == out));
    CHECK(world.is_unknown(next_ticket) == (first == out));
  }
  CHECK(world.sampled_out() == 2);
}

TEST_CASE("a thread within its budget has every operation timed") {
  World world(1);
  gpu().cost_ticks = 1'000;
  const gpu::Stream stream = gpu().make_stream(1, true);
  for (int i = 0; i < 1'000; ++i) {
    advance_fake_clock(1'000'000);
    world.launch(stream);
    world.poll();
  }
  CHECK(world.sampled_out() == 0);
  CHECK(world.stats.gpu_untimed == 0);
}

}  // namespace gpu_sampling_test
}  // namespace rollcall
