// Activity records against the records of operations: a made-up source tells of kernels, in any
// order and not of all.
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/gpu/activity.h"
#include "tests/capture/gpu_world.h"
#include "tests/catch.h"

namespace rollcall {
namespace gpu_activity_test {

using test::FakeActivity;
using test::FakeGpu;

FakeGpu& gpu() { return FakeGpu::get(); }
FakeActivity& source() { return FakeActivity::get(); }

struct World : test::World {
  explicit World(uint32_t in_flight_max = 256) : test::World(100, in_flight_max, false, true) {}

  // A call whose kernel ran at once.
  uint64_t carried_out(gpu::Stream stream, uint32_t correlation) {
    const uint64_t ticket = launch(stream);
    source().tell_call(correlation, source().last_region(), ticks_now(), ticks_now());
    return ticket;
  }
};

TEST_CASE("an operation gets the times, the launch and the name of its kernel, and no event") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t ticket = world.launch(stream);
  CHECK(world.phase(ticket) == Phase::gpu_pending);
  CHECK(source().depth == 0);
  world.poll();
  CHECK(world.phase(ticket) == Phase::gpu_pending);
  CHECK(world.record(ticket).started_ticks == 0);

  const uint64_t launched_ns = ticks_now();
  const uint64_t region = source().last_region();
  source().tell_region(11, region);
  source().tell_launch(11, launched_ns);
  source().tell_kernel({.correlation = 11,
                        .start_ns = launched_ns + 5'000,
                        .end_ns = launched_ns + 9'000,
                        .name = "_Z6kernelv"});
  advance_fake_clock(1'000'000);
  world.poll();
  const OpRecord& record = world.record(ticket);
  CHECK(record.launched_ticks == launched_ns);
  CHECK(record.started_ticks == launched_ns + 5'000);
  CHECK(record.finished_ticks == launched_ns + 9'000);
  CHECK(record.kernel == 1);
  CHECK(source().names == std::vector<std::string>{"_Z6kernelv"});
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK_FALSE(world.is_unknown(ticket));
  CHECK(world.timer->is_idle());
  CHECK(gpu().records == 0);
  CHECK(world.stats.gpu_untimed == 0);
  CHECK(world.stats.gpu_kernels_unmatched == 0);
}

TEST_CASE("a launch is on record while its kernel runs, if it is told of so early") {
  World world;
  const uint64_t ticket = world.launch(gpu().make_stream(1));
  source().tell_region(3, source().last_region());
  source().tell_launch(3, ticks_now());
  world.poll();
  CHECK(world.record(ticket).launched_ticks != 0);
  CHECK(world.record(ticket).started_ticks == 0);
  CHECK(world.phase(ticket) == Phase::gpu_pending);
}

TEST_CASE("what the profiler plugin said of the launch stays") {
  World world;
  gpu::Thread& thread = world.main_thread;
  const gpu::Stream stream = gpu().make_stream(1);
  const auto [record, ticket] = world.begin(thread, stream, 0);
  store_release(record->launched_ticks, uint64_t{77});
  REQUIRE(world.timer->close(thread, record, ticket, gpu::Launch::done));
  ring::publish_slot(record, ticket, Phase::gpu_pending);
  world.timer->opened(thread);
  source().tell_call(5, source().last_region(), ticks_now(), ticks_now());
  world.poll();
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK(world.record(ticket).launched_ticks == 77);
}

TEST_CASE("records in any order, in one delivery or several, come to the same") {
  for (const bool is_split : {false, true}) {
    for (unsigned order = 0; order < 6; ++order) {
      World world;
      const uint64_t ticket = world.launch(gpu().make_stream(1));
      const uint64_t region = source().last_region();
      const uint64_t now = ticks_now();
      constexpr unsigned kOrders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
      for (const unsigned which : kOrders[order]) {
        if (which == 0) source().tell_region(9, region);
        if (which == 1) source().tell_launch(9, now);
        if (which == 2) source().tell_kernel({.correlation = 9, .start_ns = now, .end_ns = now});
        if (is_split) world.poll();
      }
      world.poll();
      INFO("order " << order << ", split " << is_split);
      CHECK(world.phase(ticket) == Phase::settled);
      CHECK(world.record(ticket).started_ticks == now);
      CHECK(world.stats.gpu_kernels_unmatched == 0);
    }
  }
}

TEST_CASE("a time is never before the call or behind the moment it was seen") {
  World world;
  const uint64_t ticket = world.launch(gpu().make_stream(1));
  const uint64_t called = world.record(ticket).called_ticks;
  source().tell_region(2, source().last_region());
  source().tell_launch(2, called - 500);
  source().tell_kernel(
      {.correlation = 2, .start_ns = called - 100, .end_ns = called + 1'000'000'000});
  world.poll();
  const OpRecord& record = world.record(ticket);
  CHECK(record.launched_ticks == called);
  CHECK(record.started_ticks == called);
  CHECK(record.finished_ticks > called);
  CHECK(record.finished_ticks <= ticks_now());
}

TEST_CASE("a kernel never starts before the launch that was told of earlier") {
  World world;
  const uint64_t ticket = world.launch(gpu().make_stream(1));
  const uint64_t called = world.record(ticket).called_ticks;
  advance_fake_clock(1'000'000);
  source().tell_region(2, source().last_region());
  source().tell_launch(2, called + 500);
  world.poll();
  source().tell_kernel({.correlation = 2, .start_ns = called + 100, .end_ns = called + 300});
  world.poll();
  const OpRecord& record = world.record(ticket);
  CHECK(record.launched_ticks == called + 500);
  CHECK(record.started_ticks == called + 500);
  CHECK(record.finished_ticks == called + 500);
}

TEST_CASE("a kernel without times leaves the operation without them, and counted") {
  World world;
  const uint64_t ticket = world.launch(gpu().make_stream(1));
  source().tell_region(2, source().last_region());
  source().tell_kernel({.correlation = 2});
  world.poll();
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK(world.is_unknown(ticket));
  CHECK(world.record(ticket).finished_ticks == 0);
  CHECK(world.stats.gpu_untimed == 1);
}

TEST_CASE("a source whose clock cannot be read gives no times") {
  World world;
  source().has_clock = false;
  const uint64_t ticket = world.carried_out(gpu().make_stream(1), 4);
  world.poll();
  CHECK(world.is_unknown(ticket));
  CHECK(world.record(ticket).started_ticks == 0);
}

TEST_CASE("kernels that are not of NCCL's calls, and calls that launch nothing, change nothing") {
  World world;
  const uint64_t ticket = world.launch(gpu().make_stream(1));
  const uint64_t region = source().last_region();
  for (uint32_t i = 0; i < 3 * kGpuCallsMax; ++i) {
    source().tell_kernel({.correlation = 1'000 + i, .start_ns = 5, .end_ns = 6, .name = "other"});
  }
  source().tell_region(500, region);
  source().tell_other_call(500);
  source().tell_kernel({.correlation = 500, .start_ns = 5, .end_ns = 6, .name = "other"});
  world.poll();
  CHECK(world.phase(ticket) == Phase::gpu_pending);
  CHECK(source().names.empty());
  source().tell_call(501, region, ticks_now(), ticks_now());
  world.poll();
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK(source().names == std::vector<std::string>{"kernel"});
}

TEST_CASE("a group on one stream shares its kernels, whatever their number") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t a = world.launch(stream, 7);
  const uint64_t b = world.launch(stream, 7);
  CHECK(source().regions.empty());  // the work of a group is launched at its end
  world.timer->begin_group_end(world.main_thread, 7);
  CHECK(source().depth == 1);
  world.timer->finish_group_end(world.main_thread, gpu::Launch::done);
  CHECK(source().depth == 0);
  const uint64_t region = source().last_region();
  const uint64_t now = ticks_now();
  source().tell_region(21, region);
  source().tell_launch(21, now);
  source().tell_region(22, region);
  source().tell_launch(22, now + 10);
  source().tell_kernel({.correlation = 21, .start_ns = now + 20, .end_ns = now + 30});
  advance_fake_clock(1'000);
  world.poll();
  CHECK(world.phase(a) == Phase::gpu_pending);  // one of two kernels is through
  source().tell_kernel({.correlation = 22, .start_ns = now + 40, .end_ns = now + 50});
  world.poll();
  CHECK(world.phase(a) == Phase::gpu_pending);  // there may be a third
  world.carried_out(stream, 23);
  world.poll();
  for (const uint64_t ticket : {a, b}) {
    CHECK(world.phase(ticket) == Phase::settled);
    CHECK(world.record(ticket).launched_ticks == now);
    CHECK(world.record(ticket).started_ticks == now + 20);
    CHECK(world.record(ticket).finished_ticks == now + 50);
  }
}

TEST_CASE("the runtime's call around the driver's is no launch of its own") {
  for (const uint32_t inner : {50u, 51u}) {  // of the same correlation, or of another one
    World world;
    const uint64_t ticket = world.launch(gpu().make_stream(1));
    const uint64_t region = source().last_region();
    const uint64_t now = ticks_now();
    source().tell_region(50, region);
    source().tell_launch(50, now, true);
    source().tell_region(inner, region);
    source().tell_launch(inner, now + 3);
    source().tell_kernel({.correlation = inner, .start_ns = now + 5, .end_ns = now + 6});
    advance_fake_clock(1'000);
    world.poll();
    CHECK(world.phase(ticket) == Phase::settled);
    CHECK(world.record(ticket).launched_ticks == now);
    CHECK(world.record(ticket).started_ticks == now + 5);
  }
}

TEST_CASE("of a group whose last kernel was dropped the others tell, when the stream has gone on") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t ticket = world.launch(stream, 7);
  world.end_group(7);
  const uint64_t region = source().last_region();
  const uint64_t now = ticks_now();
  source().tell_call(60, region, now, now + 4);
  source().tell_region(61, region);
  source().tell_launch(61, now + 1);
  world.poll();
  CHECK(world.phase(ticket) == Phase::gpu_pending);
  world.carried_out(stream, 62);
  world.poll();
  advance_fake_clock(2 * kGpuKernelPatienceNs);
  world.poll();
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK(world.record(ticket).finished_ticks == now + 4);
  CHECK(world.stats.gpu_untimed == 0);
}

TEST_CASE("in a group over several devices each has its own kernels") {
  World world;
  // Streams of two devices may have the same number.
  const gpu::Stream first = gpu().make_stream(1);
  const gpu::Stream second = gpu().make_stream(2);
  const uint64_t a = world.launch(world.main_thread, first, 4, gpu::Launch::done, 0);
  const uint64_t b = world.launch(world.main_thread, second, 4, gpu::Launch::done, 1);
  world.end_group(4);
  const uint64_t region = source().last_region();
  const uint64_t now = ticks_now();
  source().tell_region(31, region);
  source().tell_region(32, region);
  source().tell_kernel({.correlation = 31, .start_ns = now + 1, .end_ns = now + 2, .device = 0});
  source().tell_kernel({.correlation = 32, .start_ns = now + 3, .end_ns = now + 4, .device = 1});
  advance_fake_clock(1'000);
  world.poll();
  CHECK(world.record(a).started_ticks == now + 1);
  CHECK(world.record(b).started_ticks == now + 3);
}

TEST_CASE("a stream of a group that carried no kernel takes the times of its device's") {
  World world;
  const gpu::Stream one = gpu().make_stream(1);    // number 0
  const gpu::Stream other = gpu().make_stream(1);  // number 1
  const gpu::Stream far = gpu().make_stream(2);    // number 2
  const uint64_t a = world.launch(world.main_thread, one, 4, gpu::Launch::done, 0);
  const uint64_t b = world.launch(world.main_thread, other, 4, gpu::Launch::done, 0);
  const uint64_t c = world.launch(world.main_thread, far, 4, gpu::Launch::done, 1);
  world.end_group(4);
  const uint64_t region = source().last_region();
  const uint64_t now = ticks_now();
  source().tell_region(31, region);
  source().tell_region(32, region);
  source().tell_kernel({31, now + 1, now + 2, 0, 1, "near"});
  source().tell_kernel({32, now + 5, now + 9, 1, 2, "far"});
  advance_fake_clock(1'000);
  world.poll();
  CHECK(world.phase(b) == Phase::gpu_pending);  // it may have one of its own, which runs
  for (const gpu::Stream stream : {one, other, far}) {
    world.carried_out(stream, 40 + static_cast<uint32_t>(reinterpret_cast<uintptr_t>(stream) & 7));
  }
  world.poll();
  CHECK(world.record(a).started_ticks == now + 1);
  CHECK(world.record(b).started_ticks == now + 1);
  CHECK(world.record(c).started_ticks == now + 5);
  CHECK(world.record(a).kernel == world.record(b).kernel);
  CHECK(world.record(a).kernel != world.record(c).kernel);
}

TEST_CASE("a look while a group is launched does not take one of its kernels for all") {
  World world;
  const gpu::Stream first = gpu().make_stream(1);
  const gpu::Stream second = gpu().make_stream(2);
  const uint64_t a = world.launch(world.main_thread, first, 4, gpu::Launch::done, 0);
  const uint64_t b = world.launch(world.main_thread, second, 4, gpu::Launch::done, 1);
  world.timer->begin_group_end(world.main_thread, 4);
  const uint64_t region = source().last_region();
  const uint64_t now = ticks_now();
  source().tell_region(31, region);
  source().tell_launch(31, now);
  source().tell_kernel({.correlation = 31, .start_ns = now + 1, .end_ns = now + 2, .device = 0});
  world.poll();
  world.timer->finish_group_end(world.main_thread, gpu::Launch::done);
  world.poll();
  CHECK(world.phase(a) == Phase::gpu_pending);
  source().tell_region(32, region);
  source().tell_launch(32, now + 1);
  source().tell_kernel({.correlation = 32, .start_ns = now + 3, .end_ns = now + 4, .device = 1});
  world.poll();
  CHECK(world.record(a).started_ticks == now + 1);
  CHECK(world.record(b).started_ticks == now + 3);
  CHECK(world.phase(b) == Phase::settled);
}

TEST_CASE("a group of one operation has one kernel, also if it is looked at while it is launched") {
  World world;
  const uint64_t ticket = world.launch(gpu().make_stream(1), 4);
  world.timer->begin_group_end(world.main_thread, 4);
  const uint64_t now = ticks_now();
  source().tell_call(31, source().last_region(), now + 1, now + 2);
  world.poll();
  world.timer->finish_group_end(world.main_thread, gpu::Launch::done);
  world.poll();
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK(world.record(ticket).started_ticks == now + 1);
}

TEST_CASE("a group on one stream of which one of two kernels is told of is not taken for through") {
  for (const bool has_next : {false, true}) {
    World world;
    const gpu::Stream stream = gpu().make_stream(1);
    const uint64_t a = world.launch(stream, 4);
    const uint64_t b = world.launch(stream, 4);
    world.end_group(4);
    const uint64_t now = ticks_now();
    source().tell_call(31, source().last_region(), now + 1, now + 2);
    world.poll();
    advance_fake_clock(2 * kGpuKernelPatienceNs);
    world.poll();
    CHECK(world.phase(a) == Phase::gpu_pending);
    if (has_next) {
      world.carried_out(stream, 40);
    } else {
      advance_fake_clock(kGpuLaunchPatienceNs);
    }
    world.poll();
    for (const uint64_t ticket : {a, b}) {
      CHECK(world.phase(ticket) == Phase::settled);
      CHECK(world.is_unknown(ticket) != has_next);
      CHECK(world.record(ticket).finished_ticks == (has_next ? now + 2 : 0));
    }
    CHECK(world.timer->is_idle());
  }
}

TEST_CASE("a group over two streams of which one kernel is told of is given up, not finished") {
  World world;
  const gpu::Stream first = gpu().make_stream(1);
  const gpu::Stream second = gpu().make_stream(1);
  const uint64_t a = world.launch(first, 4);
  const uint64_t b = world.launch(second, 4);
  world.end_group(4);
  source().tell_call(31, source().last_region(), ticks_now(), ticks_now());
  world.poll();
  CHECK(world.phase(a) == Phase::gpu_pending);
  advance_fake_clock(2 * kGpuKernelPatienceNs);
  world.poll();
  for (const uint64_t ticket : {a, b}) {
    CHECK(world.phase(ticket) == Phase::settled);
    CHECK(world.is_unknown(ticket));
    CHECK(world.record(ticket).finished_ticks == 0);
  }
  CHECK(world.stats.gpu_untimed == 2);
}

TEST_CASE("a group whose second launch is told of without its kernel runs, for however long") {
  for (const bool is_last : {false, true}) {
    World world;
    const gpu::Stream stream = gpu().make_stream(1);
    const uint64_t a = world.launch(stream, 4);
    world.launch(stream, 4);
    world.end_group(4);
    source().tell_call(31, source().last_region(), ticks_now(), ticks_now());
    source().tell_region(32, source().last_region());
    source().tell_launch(32, ticks_now());
    world.poll();
    advance_fake_clock(2 * kGpuLaunchPatienceNs);
    world.timer->poll(1.0, is_last);
    CHECK(world.phase(a) == Phase::gpu_pending);
    CHECK(world.record(a).finished_ticks == 0);
  }
}

TEST_CASE("groups that follow each other on a stream settle one another, the last one at the end") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  std::vector<uint64_t> tickets;
  for (uint32_t group = 1; group <= 3; ++group) {
    tickets.push_back(world.launch(stream, group));
    world.launch(stream, group);
    world.end_group(group);
    source().tell_call(group, source().last_region(), ticks_now(), ticks_now());
    world.poll();
    CHECK(world.phase(tickets.back()) == Phase::gpu_pending);
  }
  CHECK(world.phase(tickets[0]) == Phase::settled);
  CHECK(world.phase(tickets[1]) == Phase::settled);
  world.timer->poll(1.0, true);
  CHECK(world.phase(tickets[2]) == Phase::settled);
  CHECK(world.stats.gpu_untimed == 0);
}

TEST_CASE("default streams of two devices are two streams, and one of no device is none") {
  for (const int device : {1, 0, -1}) {
    World world;
    const uint64_t without = world.launch(world.main_thread, nullptr, 0, gpu::Launch::done, device);
    world.launch(world.main_thread, nullptr, 0, gpu::Launch::done, device >= 0 ? 0 : -1);
    source().tell_call(6, source().last_region(), ticks_now(), ticks_now());
    world.poll();
    advance_fake_clock(2 * kGpuKernelPatienceNs);
    world.poll();
    INFO("device " << device);
    CHECK(world.phase(without) == (device == 0 ? Phase::settled : Phase::gpu_pending));
    CHECK(world.stats.gpu_untimed == (device == 0 ? 1 : 0));
  }
}

TEST_CASE("a launch that is told of before its region is not lost") {
  for (const bool has_runtime : {false, true}) {
    World world;
    const uint64_t ticket = world.launch(gpu().make_stream(1));
    const uint64_t launched_ns = ticks_now();
    if (has_runtime) source().tell_launch(3, launched_ns, true);
    source().tell_launch(3, launched_ns + (has_runtime ? 5 : 0));
    world.poll();
    source().tell_region(3, source().last_region());
    world.poll();
    CHECK(world.record(ticket).launched_ticks == launched_ns);
    advance_fake_clock(2 * kGpuLaunchPatienceNs);
    world.poll();
    CHECK(world.phase(ticket) == Phase::gpu_pending);  // it was launched, so it runs
  }
}

TEST_CASE("a time that is absurdly far away is no time") {
  for (const uint64_t far : {uint64_t{1}, uint64_t{1} << 63, ~uint64_t{0}}) {
    World world;
    // Not before the call, so that nothing but the distance is wrong with it.
    source().clock_offset_ns = uint64_t{1} << 62;
    const uint64_t ticket = world.launch(gpu().make_stream(1));
    source().tell_region(2, source().last_region());
    source().tell_launch(2, far - source().clock_offset_ns);
    source().tell_kernel({.correlation = 2,
                          .start_ns = far - source().clock_offset_ns,
                          .end_ns = far - source().clock_offset_ns});
    world.poll();
    CHECK(world.phase(ticket) == Phase::settled);
    CHECK(world.is_unknown(ticket));
    CHECK(world.record(ticket).launched_ticks == 0);
    CHECK(world.record(ticket).finished_ticks == 0);
  }
}

TEST_CASE("a group that failed, or was given up, awaits nothing") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t a = world.launch(stream, 9);
  world.end_group(9, gpu::Launch::refused);
  CHECK(world.is_unknown(a));
  CHECK(world.phase(a) == Phase::settled);
  const uint64_t b = world.launch(stream, 10);
  world.timer->abandon_group(world.main_thread);
  CHECK(world.is_unknown(b));
  CHECK(source().depth == 0);
  CHECK(source().underflows == 0);
  CHECK(world.timer->is_idle());
}

TEST_CASE("a call that failed, and one that was left without returning, leave their regions") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t failed = world.launch(stream, 0, gpu::Launch::refused);
  CHECK(world.phase(failed) == Phase::settled);
  CHECK(world.is_unknown(failed));
  CHECK(source().depth == 0);
  world.begin(world.main_thread, stream, 0);
  CHECK(source().depth == 1);
  const uint64_t next = world.carried_out(stream, 8);
  CHECK(source().depth == 0);
  CHECK(source().underflows == 0);
  world.poll();
  CHECK(world.phase(next) == Phase::settled);
  CHECK_FALSE(world.is_unknown(next));
}

TEST_CASE("an operation without a kernel is given up when a later one of its stream was through") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t without = world.launch(stream);
  const uint64_t elsewhere = world.launch(gpu().make_stream(1));
  const uint64_t later = world.carried_out(stream, 6);
  world.poll();
  CHECK(world.phase(later) == Phase::settled);
  CHECK(world.phase(without) == Phase::gpu_pending);  // its record may still be on its way
  advance_fake_clock(2 * kGpuKernelPatienceNs);
  world.poll();
  CHECK(world.phase(without) == Phase::settled);
  CHECK(world.is_unknown(without));
  CHECK(world.phase(elsewhere) == Phase::gpu_pending);
  CHECK(world.stats.gpu_untimed == 1);
}

TEST_CASE("the last look at the end of a process has no patience") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t without = world.launch(stream);
  const uint64_t later = world.carried_out(stream, 6);
  world.timer->poll(1.0, true);
  CHECK(world.is_unknown(without));
  CHECK_FALSE(world.is_unknown(later));
  CHECK(world.stats.gpu_untimed == 1);
}

TEST_CASE(
    "at the end of a process an operation that was not launched is given up, one that runs is "
    "not") {
  World world;
  const uint64_t never = world.launch(gpu().make_stream(1));
  const uint64_t runs = world.launch(gpu().make_stream(1));
  source().tell_region(2, source().last_region());
  source().tell_launch(2, ticks_now());
  source().tell_kernel({.correlation = 2, .start_ns = ticks_now(), .end_ns = 0});
  world.timer->poll(1.0, true);
  CHECK(source().forced == 1);  // else the launch of what runs might not be told of
  CHECK(world.phase(never) == Phase::settled);
  CHECK(world.is_unknown(never));
  CHECK(world.phase(runs) == Phase::gpu_pending);
  CHECK_FALSE(world.is_unknown(runs));
  CHECK(world.stats.gpu_untimed == 1);
}

TEST_CASE("an operation that was not even launched is given up in the end, one that runs is not") {
  World world;
  const uint64_t never = world.launch(gpu().make_stream(1));
  const uint64_t runs = world.launch(gpu().make_stream(1));
  source().tell_region(2, source().last_region());
  source().tell_launch(2, ticks_now());
  advance_fake_clock(2 * kGpuLaunchPatienceNs);
  world.poll();
  CHECK(world.is_unknown(never));
  CHECK(world.phase(runs) == Phase::gpu_pending);
  CHECK(world.stats.gpu_untimed == 1);
}

TEST_CASE("a kernel whose operation is not awaited any more is counted") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  world.launch(stream);
  const uint64_t region = source().last_region();
  source().tell_call(3, region, ticks_now(), ticks_now());
  world.poll();
  CHECK(world.stats.gpu_kernels_unmatched == 0);
  source().tell_kernel({.correlation = 3, .start_ns = ticks_now(), .end_ns = ticks_now()});
  world.poll();
  CHECK(world.stats.gpu_kernels_unmatched == 1);
}

TEST_CASE("what the source dropped is counted, each once") {
  World world;
  source().dropped = 5;
  world.poll();
  world.poll();
  source().dropped = 2;
  world.poll();
  CHECK(world.stats.gpu_records_dropped == 7);
}

TEST_CASE("the source is asked for what is complete only while something is awaited") {
  World world;
  world.poll();
  CHECK(source().questions == 0);
  world.carried_out(gpu().make_stream(1), 2);
  world.poll();
  CHECK(source().questions == 1);
  world.poll();
  CHECK(source().questions == 1);
}

TEST_CASE("more operations than are awaited at once go without times, counted") {
  World world(8);
  const gpu::Stream stream = gpu().make_stream(1);
  for (int i = 0; i < 8; ++i) CHECK(world.phase(world.launch(stream)) == Phase::gpu_pending);
  const uint64_t beyond = world.launch(stream);
  CHECK(world.phase(beyond) == Phase::settled);
  CHECK(world.is_unknown(beyond));
  CHECK(world.stats.gpu_untimed == 1);
}

TEST_CASE("regions that are all taken cost the operation its times, not its call") {
  World world(test::kSlots / 4);
  const gpu::Stream stream = gpu().make_stream(1);
  uint32_t pending = 0;
  for (uint32_t i = 0; i < kGpuRegionsMax + 10; ++i) {
    pending += world.phase(world.launch(stream)) == Phase::gpu_pending ? 1 : 0;
  }
  CHECK(pending == kGpuRegionsMax);
  CHECK(world.stats.gpu_untimed == 10);
  CHECK(source().depth == 0);
}

TEST_CASE("more kernels than there is room for have no name, and are counted") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  std::vector<std::string> names;
  for (uint32_t i = 0; i <= kGpuKernelNamesMax; ++i) names.push_back("k" + std::to_string(i));
  names.push_back(names[0]);
  std::vector<uint64_t> tickets;
  for (uint32_t i = 0; i < names.size(); ++i) {
    tickets.push_back(world.launch(stream));
    source().tell_region(i + 1, source().last_region());
    source().tell_kernel({i + 1, ticks_now(), ticks_now(), 0, 7, names[i].c_str()});
    world.poll();
  }
  CHECK(world.record(tickets[kGpuKernelNamesMax - 1]).kernel == kGpuKernelNamesMax);
  CHECK(world.record(tickets[kGpuKernelNamesMax]).kernel == 0);
  CHECK(world.record(tickets.back()).kernel == 1);
  CHECK(world.stats.gpu_kernels_unnamed == 1);
}

TEST_CASE("a long name of a kernel is cut, and is the same kernel's each time") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const std::string name(500, 'x');
  for (uint32_t i = 1; i <= 2; ++i) {
    const uint64_t ticket = world.launch(stream);
    source().tell_region(i, source().last_region());
    source().tell_kernel({i, ticks_now(), ticks_now(), 0, 7, name.c_str()});
    world.poll();
    CHECK(world.record(ticket).kernel == 1);
  }
  CHECK(source().names == std::vector<std::string>{name.substr(0, kGpuKernelNameBytes - 1)});
}

TEST_CASE("a captured operation enters no region; the launch of its graph has the graph's times") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  gpu().at(stream).capture = 12;
  const uint64_t captured = world.launch(stream);
  CHECK(source().regions.empty());
  CHECK(world.record(captured).graph == 12);
  CHECK(world.phase(captured) == Phase::settled);
  gpu().at(stream).capture = 0;
  const uint64_t replay = world.launch(stream);
  const uint64_t now = ticks_now();
  source().tell_region(40, source().last_region());
  source().tell_launch(40, now);
  source().tell_graph(40, now + 1, now + 100);
  advance_fake_clock(1'000);
  world.poll();
  CHECK(world.record(replay).started_ticks == now + 1);
  CHECK(world.record(replay).finished_ticks == now + 100);
  CHECK(world.record(replay).kernel == 0);
}

TEST_CASE("threads that launch and one that looks do not lose an operation") {
  World world(test::kSlots / 4);
  constexpr int kThreads = 4;
  constexpr int kOperations = 20'000;
  std::atomic<uint64_t> awaited{0};
  std::atomic<int> running{kThreads};
  std::atomic<uint32_t> correlation{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, stream = gpu().make_stream(1)] {
      gpu::Thread thread;
      for (int i = 0; i < kOperations; ++i) {
        const auto [record, ticket] = world.begin(thread, stream, 0);
        const uint64_t region = FakeActivity::last_region();
        const bool awaits = world.timer->close(thread, record, ticket, gpu::Launch::done);
        ring::publish_slot(record, ticket, awaits ? Phase::gpu_pending : Phase::settled);
        {
          // Sometimes the kernel is through before the thread has said that it awaits it.
          const std::lock_guard<std::mutex> guard(FakeActivity::mutex);
          const uint64_t now = ticks_now();
          if (awaits) source().tell_call(++correlation, region, now, now);
        }
        if (awaits) world.timer->opened(thread);
        awaited += awaits ? 1 : 0;
        // All regions are taken: the ring must not wrap around to the operations in them.
        while (!awaits && !world.timer->is_idle()) std::this_thread::yield();
      }
      --running;
    });
  }
  while (running != 0) world.poll();
  for (std::thread& thread : threads) thread.join();
  world.poll();
  CHECK(world.timer->is_idle());
  CHECK(awaited + world.stats.gpu_untimed == uint64_t{kThreads} * kOperations);
  CHECK(awaited > 0);
  CHECK(world.stats.gpu_kernels_unmatched == 0);
  CHECK(source().depth == 0);
}

TEST_CASE("when the timer was stopped nothing is entered, asked or left any more") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const auto [record, ticket] = world.begin(world.main_thread, stream, 0);
  CHECK(source().depth == 1);
  world.timer->stop();
  CHECK_FALSE(world.timer->close(world.main_thread, record, ticket, gpu::Launch::done));
  CHECK(source().depth == 1);
  world.poll();
  CHECK(source().questions == 0);
  const uint64_t after = world.launch(stream);
  CHECK(world.phase(after) == Phase::settled);
  CHECK(source().regions.size() == 1);
}

}  // namespace gpu_activity_test
}  // namespace rollcall
