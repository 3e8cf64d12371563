// The GPU timer against a driver whose streams move when the test says so.
#include <cstdlib>
#include <thread>

#include "core/gpu/timer.h"
#include "tests/capture/gpu_world.h"
#include "tests/catch.h"

namespace rollcall {
namespace gpu_timer_test {

using test::FakeGpu;
using test::kSlots;
using test::World;

FakeGpu& gpu() { return FakeGpu::get(); }
uint64_t now_on_gpu() { return gpu().gpu_ns_at(ticks_now()); }

TEST_CASE("an operation is pending, then started, then finished, as its stream comes to it") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t ticket = world.launch(stream);
  CHECK(world.phase(ticket) == Phase::gpu_pending);
  world.poll();
  CHECK(world.record(ticket).started_ticks == 0);

  gpu().reach(stream, now_on_gpu());
  world.poll();
  CHECK(world.record(ticket).started_ticks != 0);
  CHECK(world.record(ticket).finished_ticks == 0);
  CHECK(world.phase(ticket) == Phase::gpu_pending);

  gpu().reach(stream, now_on_gpu());
  world.poll();
  CHECK(world.record(ticket).finished_ticks > world.record(ticket).started_ticks);
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK_FALSE(world.is_unknown(ticket));
  CHECK(world.timer->is_idle());
  CHECK(world.stats.gpu_untimed == 0);
}

TEST_CASE("GPU times come out on the host's clock, however late they are looked at") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  world.launch(stream);
  gpu().reach_all(stream, now_on_gpu());
  world.poll();  // now there is a reference
  const uint64_t ticket = world.launch(stream);
  advance_fake_clock(5'000'000);
  const uint64_t start_ns = ticks_now();
  gpu().reach(stream, gpu().gpu_ns_at(start_ns));
  advance_fake_clock(3'000'000);
  gpu().reach(stream, gpu().gpu_ns_at(start_ns + 3'000'000));
  advance_fake_clock(80'000'000);
  world.poll();
  const OpRecord& record = world.record(ticket);
  const auto off_ns = static_cast<int64_t>(record.started_ticks - start_ns);
  CHECK(std::abs(off_ns) < 1'000);
  const auto length_ns = static_cast<int64_t>(record.finished_ticks - record.started_ticks);
  CHECK(std::abs(length_ns - 3'000'000) < 100);
}

TEST_CASE("without an answer to the probe a time lies between the call and the look") {
  World world;
  gpu().probes_answer = false;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t before = ticks_now();
  const uint64_t ticket = world.launch(stream);
  advance_fake_clock(1'000'000);
  gpu().reach_all(stream, now_on_gpu());
  world.poll();
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK(world.record(ticket).started_ticks > before);
  CHECK(world.record(ticket).finished_ticks <= ticks_now());
  CHECK(world.record(ticket).finished_ticks >= world.record(ticket).started_ticks);
}

TEST_CASE("a clock of the GPU that drifts is followed") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  for (int second = 0; second < 20; ++second) {
    gpu().clock_offset_ns += 20'000;  // 20 ppm
    const uint64_t ticket = world.launch(stream);
    const uint64_t start_ns = ticks_now();
    gpu().reach_all(stream, gpu().gpu_ns_at(start_ns));
    advance_fake_clock(100'000'000);
    world.poll();
    const auto off_ns = static_cast<int64_t>(world.record(ticket).started_ticks - start_ns);
    INFO("second " << second);
    CHECK(std::abs(off_ns) < 100'000);
    advance_fake_clock(900'000'000);
  }
}

TEST_CASE("a stream that is not there yet is asked once per look") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  for (int i = 0; i < 20; ++i) world.launch(stream);
  world.poll();
  const uint64_t before = gpu().queries;
  world.poll();
  CHECK(gpu().queries - before == 1);
}

TEST_CASE("an old operation among newer ones of its stream is found, wherever its pair is") {
  World world;
  const gpu::Stream stuck = gpu().make_stream(1);
  const gpu::Stream flowing = gpu().make_stream(1, true);
  for (int i = 0; i < 10; ++i) world.launch(flowing);
  const uint64_t old = world.launch(stuck);  // pair 10
  for (uint32_t i = 11; i < kGpuPairsFirst; ++i) world.launch(flowing);
  world.poll();
  // The next round of pairs, on both sides of it, waits behind it.
  for (int i = 0; i < 20; ++i) world.launch(stuck);
  gpu().reach(stuck, now_on_gpu());
  gpu().reach(stuck, now_on_gpu());
  for (int i = 0; i < 16; ++i) world.poll();
  CHECK(world.phase(old) == Phase::settled);
  CHECK(world.record(old).finished_ticks != 0);
  CHECK_FALSE(world.timer->is_idle());
}

TEST_CASE("a failed call is not awaited, and its pair is used again") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  for (uint32_t i = 0; i < 4 * kGpuPairsFirst; ++i) {
    const uint64_t ticket = world.launch(stream, 0, gpu::Launch::refused);
    CHECK(world.phase(ticket) == Phase::settled);
    CHECK(world.is_unknown(ticket));
  }
  CHECK(world.timer->is_idle());
  CHECK(world.phase(world.launch(stream)) == Phase::gpu_pending);
}

TEST_CASE("a call that is left without returning gives its pair back") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  for (uint32_t i = 0; i < 4 * kGpuPairsFirst; ++i) world.begin(world.main_thread, stream, 0);
  CHECK(world.phase(world.launch(stream)) == Phase::gpu_pending);
  CHECK(world.stats.gpu_untimed == 0);
}

TEST_CASE("the operations of a group share the marks around its end, per stream") {
  World world;
  const gpu::Stream first = gpu().make_stream(1);
  const gpu::Stream second = gpu().make_stream(1);
  const uint64_t a = world.launch(first, 7);
  const uint64_t b = world.launch(second, 7);
  const uint64_t c = world.launch(first, 7);
  CHECK(gpu().records == 0);
  world.end_group(7);
  CHECK(gpu().records == 4);
  CHECK(world.phase(a) == Phase::gpu_pending);
  gpu().reach_all(first, now_on_gpu());
  world.poll();
  CHECK(world.phase(a) == Phase::settled);
  CHECK(world.phase(c) == Phase::settled);
  CHECK(world.record(a).finished_ticks == world.record(c).finished_ticks);
  CHECK(world.phase(b) == Phase::gpu_pending);
  gpu().reach_all(second, now_on_gpu());
  world.poll();
  CHECK(world.phase(b) == Phase::settled);
  CHECK(world.timer->is_idle());
}

TEST_CASE("a group that fails leaves nothing pending") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t a = world.launch(stream, 3);
  const uint64_t b = world.launch(stream, 3);
  world.end_group(3, gpu::Launch::refused);
  for (const uint64_t ticket : {a, b}) {
    CHECK(world.phase(ticket) == Phase::settled);
    CHECK(world.is_unknown(ticket));
  }
  CHECK(world.stats.gpu_untimed == 2);
  CHECK(world.timer->is_idle());
}

TEST_CASE("a group that nobody ended is let go when the next one begins") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t lost = world.launch(stream, 1);
  const uint64_t next = world.launch(stream, 2);
  CHECK(world.phase(lost) == Phase::settled);
  CHECK(world.is_unknown(lost));
  world.end_group(2);
  gpu().reach_all(stream, now_on_gpu());
  world.poll();
  CHECK(world.phase(next) == Phase::settled);
  CHECK_FALSE(world.is_unknown(next));
}

TEST_CASE("what NCCL launches later has its end when NCCL says that it has launched") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t ticket = world.launch(stream, 0, gpu::Launch::in_progress);
  CHECK(world.phase(ticket) == Phase::gpu_pending);
  CHECK(gpu().at(stream).queue.size() == 1);  // an end event would be in front of the kernel
  gpu().reach(stream, now_on_gpu());
  world.poll();
  CHECK(world.record(ticket).started_ticks == 0);
  CHECK(world.record(ticket).launched_ticks == 0);

  world.ask(ticket + 1);  // another communicator's
  CHECK(gpu().at(stream).queue.empty());
  world.ask(ticket);
  CHECK(gpu().at(stream).queue.size() == 1);
  CHECK(world.record(ticket).launched_ticks > world.record(ticket).called_ticks);
  world.poll();
  CHECK(world.record(ticket).started_ticks != 0);
  CHECK(world.record(ticket).finished_ticks == 0);
  gpu().reach(stream, now_on_gpu());
  world.poll();
  CHECK(world.record(ticket).finished_ticks > world.record(ticket).launched_ticks);
  CHECK(world.phase(ticket) == Phase::settled);
  world.ask(ticket);  // asked once more
  CHECK(gpu().at(stream).queue.empty());
  CHECK(world.timer->is_idle());
  CHECK(world.stats.gpu_untimed == 0);
}

TEST_CASE(
    "a group that NCCL launches later has its ends when one of its communicators is through") {
  World world;
  const gpu::Stream one = gpu().make_stream(1);
  const gpu::Stream other = gpu().make_stream(1);
  const uint64_t a = world.launch(one, 5);
  const uint64_t b = world.launch(other, 5);
  world.end_group(5, gpu::Launch::in_progress);
  gpu().reach_all(one, now_on_gpu());
  gpu().reach_all(other, now_on_gpu());
  world.poll();
  CHECK(world.record(a).started_ticks == 0);
  world.ask(b);
  CHECK(world.record(a).launched_ticks != 0);
  CHECK(world.record(b).launched_ticks != 0);
  gpu().reach_all(one, now_on_gpu());
  gpu().reach_all(other, now_on_gpu());
  world.poll();
  for (const uint64_t ticket : {a, b}) {
    CHECK(world.record(ticket).finished_ticks != 0);
    CHECK(world.phase(ticket) == Phase::settled);
  }
  CHECK(world.stats.gpu_untimed == 0);
}

TEST_CASE("what is in progress when it fails, or when other calls follow unasked, has no times") {
  for (const bool is_group : {false, true}) {
    for (const bool fails : {false, true}) {
      World world;
      const gpu::Stream stream = gpu().make_stream(1, true);
      const uint32_t group = is_group ? 5 : 0;
      const uint64_t ticket = world.launch_later(stream, group);
      if (fails) world.ask(ticket, false);
      const uint64_t next = world.launch(stream);
      world.ask(ticket);
      world.poll();
      CHECK(world.phase(ticket) == Phase::settled);
      CHECK(world.is_unknown(ticket));
      CHECK(world.record(ticket).launched_ticks == 0);
      CHECK(world.record(ticket).finished_ticks == 0);
      CHECK(world.record(next).finished_ticks != 0);
      CHECK(world.stats.gpu_untimed == 1);
      CHECK(world.timer->is_idle());
    }
  }
}

TEST_CASE("what is in progress on a default stream has no times when its thread left the device") {
  for (const uint32_t group : {0u, 5u}) {
    World world;
    gpu().streams[0] = {1, false, 0, {}};
    const uint64_t ticket = world.launch_later(nullptr, group);
    const uint64_t records = gpu().records;
    test::fake_driver::current_context = 2;
    world.ask(ticket);
    CHECK(gpu().records == records);  // it would go onto the other device's stream
    CHECK(world.phase(ticket) == Phase::settled);
    CHECK(world.is_unknown(ticket));
    CHECK(world.record(ticket).launched_ticks != 0);
    CHECK(world.timer->is_idle());
  }
}

TEST_CASE("default streams of two devices in one group are not mixed up") {
  World world;
  const gpu::Stream stream = nullptr;
  gpu().streams[0] = {1, false, 0, {}};
  const uint64_t a = world.launch(stream, 5);
  test::fake_driver::current_context = 2;
  const uint64_t b = world.launch(stream, 5);
  test::fake_driver::current_context = 1;
  world.end_group(5);
  CHECK(world.phase(a) == Phase::gpu_pending);
  CHECK(world.is_unknown(b));
  CHECK(world.stats.gpu_untimed == 1);
}

TEST_CASE("a capturing stream gets no mark, and the record says into which capture it went") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  gpu().at(stream).capture = 42;
  const uint64_t ticket = world.launch(stream);
  CHECK(world.record(ticket).graph == 42);
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK_FALSE(world.is_unknown(ticket));
  CHECK(gpu().records == 0);
  gpu().at(stream).capture = 0;
  CHECK(world.record(world.launch(stream)).graph == 0);
}

TEST_CASE("polling leaves a capture elsewhere in the process alone") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t ticket = world.launch(stream);
  gpu().global_capture_elsewhere = true;
  gpu().reach_all(stream, now_on_gpu());
  world.poll();
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK(gpu().forbidden_calls == 0);
  // The driver of this test does notice a call in the wrong mode.
  test::fake_driver::event_query(reinterpret_cast<void*>(1));
  CHECK(gpu().forbidden_calls == 1);
}

TEST_CASE("the pool of events grows as it is used up, to its bound and no further") {
  World world(100, kSlots / 4);
  const gpu::Stream stream = gpu().make_stream(1);
  for (uint32_t i = 0; i < kGpuPairsMax; ++i) world.launch(stream);
  CHECK(world.stats.gpu_untimed == 0);
  CHECK(gpu().events.size() == 1 + 2 * kGpuPairsMax);
  const uint64_t untimed = world.launch(stream);
  CHECK(world.is_unknown(untimed));
  CHECK(world.phase(untimed) == Phase::settled);
  CHECK(world.stats.gpu_untimed == 1);
  CHECK(gpu().events.size() == 1 + 2 * kGpuPairsMax);
  gpu().reach_all(stream, now_on_gpu());
  world.poll();
  CHECK(world.timer->is_idle());
  CHECK(world.phase(world.launch(stream)) == Phase::gpu_pending);
}

TEST_CASE("a driver that has no more events to give leaves the pool as it is") {
  World world;
  gpu().events_left = 3 * kGpuPairsFirst;  // the first pairs, and half of the next
  const gpu::Stream stream = gpu().make_stream(1);
  for (uint32_t i = 0; i <= kGpuPairsFirst; ++i) world.launch(stream);
  CHECK(world.stats.gpu_untimed == 1);
  gpu().reach_all(stream, now_on_gpu());
  world.poll();
  CHECK(world.phase(world.launch(stream)) == Phase::gpu_pending);
}

TEST_CASE("no more operations are awaited than the bound, and every one beyond it is counted") {
  World world(100, 8);
  const gpu::Stream stream = gpu().make_stream(1);
  for (int i = 0; i < 20; ++i) world.launch(stream);
  CHECK(world.stats.gpu_untimed == 12);
  gpu().reach_all(stream, now_on_gpu());
  world.poll();
  CHECK(world.timer->is_idle());
  CHECK(world.phase(world.launch(stream)) == Phase::gpu_pending);
}

TEST_CASE("a context with an error is given up; the other one goes on") {
  World world;
  const gpu::Stream broken = gpu().make_stream(1);
  const gpu::Stream healthy = gpu().make_stream(2);
  const uint64_t a = world.launch(broken);
  world.poll();
  gpu().sticky_error = 700;
  world.poll();
  CHECK(world.phase(a) == Phase::settled);
  CHECK(world.is_unknown(a));
  gpu().sticky_error = 0;
  const uint64_t b = world.launch(healthy);
  gpu().reach_all(healthy, now_on_gpu());
  world.poll();
  CHECK(world.record(b).finished_ticks != 0);
  CHECK(world.timer->is_idle());
}

TEST_CASE("after a device reset no event of the old context is touched") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t ticket = world.launch(stream);
  world.poll();
  gpu().primary_is_active = false;
  const uint64_t before = gpu().queries;
  world.poll();
  CHECK(gpu().queries == before);
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK(world.is_unknown(ticket));
  // The same handle again is another context.
  gpu().primary_is_active = true;
  const uint64_t next = world.launch(stream);
  CHECK(world.phase(next) == Phase::gpu_pending);
}

TEST_CASE("a context that the job destroys is not touched again, and another one goes on") {
  World world;
  const gpu::Stream ending = gpu().make_stream(1);
  const gpu::Stream other = gpu().make_stream(2);
  const uint64_t a = world.launch(ending);
  const uint64_t b = world.launch(other);
  world.poll();
  REQUIRE(world.timer->events().hold_poller());
  world.timer->events().context_ends(reinterpret_cast<void*>(uintptr_t{1}));
  world.timer->events().release_poller();
  gpu().forget_context(1);  // asking for one of its events ends the test
  gpu().reach_all(other, now_on_gpu());
  world.poll();
  CHECK(world.phase(a) == Phase::settled);
  CHECK(world.is_unknown(a));
  CHECK(world.record(b).finished_ticks != 0);
  CHECK_FALSE(world.is_unknown(b));
  CHECK(world.timer->is_idle());
}

TEST_CASE("a green context is left to the job's threads, and its operations go untimed") {
  World world;
  gpu().green_context = 2;  // making it current ends the test
  const gpu::Stream green = gpu().make_stream(2);
  const gpu::Stream other = gpu().make_stream(1);
  const uint64_t untimed = world.launch(green);
  world.launch(green);
  const uint64_t timed = world.launch(other);
  gpu().reach_all(other, now_on_gpu());
  world.poll();
  CHECK(world.phase(untimed) == Phase::settled);
  CHECK(world.is_unknown(untimed));
  CHECK(world.stats.gpu_untimed == 2);
  CHECK(world.record(timed).finished_ticks != 0);
}

TEST_CASE("a primary context ends with a reset, and with its last user, not before") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  world.launch(stream);
  REQUIRE(world.timer->events().hold_poller());
  world.timer->events().primary_may_have_ended(0);  // it has another user
  world.timer->events().release_poller();
  gpu().reach_all(stream, now_on_gpu());
  world.poll();
  CHECK(world.stats.gpu_untimed == 0);

  const uint64_t last = world.launch(stream);
  REQUIRE(world.timer->events().hold_poller());
  gpu().primary_is_active = false;
  world.timer->events().primary_may_have_ended(0);
  world.timer->events().release_poller();
  gpu().primary_is_active = true;  // made anew before anybody has looked
  gpu().forget_context(1);
  world.poll();
  CHECK(world.is_unknown(last));

  const gpu::Stream fresh = gpu().make_stream(1);
  const uint64_t next = world.launch(fresh);
  REQUIRE(world.phase(next) == Phase::gpu_pending);
  world.timer->events().primary_ends(1);  // another device's
  gpu().reach_all(fresh, now_on_gpu());
  world.poll();
  CHECK_FALSE(world.is_unknown(next));
  world.timer->events().primary_ends(0);
  CHECK(world.stats.gpu_untimed == 1);
  CHECK(world.timer->is_idle());
}

TEST_CASE("a poller that does not come back from the driver holds nobody up for long") {
  World world;
  REQUIRE(world.timer->events().hold_poller());  // as a round does that hangs
  CHECK_FALSE(world.timer->events().hold_poller());
  world.timer->events().release_poller();
  CHECK(world.timer->events().hold_poller());
  world.timer->events().release_poller();
}

TEST_CASE("the first call that the driver refuses is kept by name") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  world.launch(stream);
  world.poll();  // "not ready" is no refusal
  CHECK(world.timer->fault().function() == nullptr);
  gpu().sticky_error = 700;
  world.launch(stream);
  gpu().sticky_error = 701;
  world.poll();
  REQUIRE(world.timer->fault().function() != nullptr);
  CHECK(std::string_view(world.timer->fault().function()) == "cuEventRecord");
  CHECK(world.timer->fault().result() == 700);
}

TEST_CASE("a driver without events is done without") {
  World world;
  gpu().events_left = 5;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t ticket = world.launch(stream);
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK(world.is_unknown(ticket));
  CHECK(world.stats.gpu_untimed == 1);
  gpu().events_left = 1'000;  // it is not asked again and again
  CHECK(world.is_unknown(world.launch(stream)));
  CHECK(gpu().events_left == 1'000);
}

TEST_CASE("once stopped, the timer does not touch the driver") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t pending = world.launch(stream);
  world.timer->stop();
  const uint64_t calls = gpu().queries + gpu().records;
  world.poll();
  const uint64_t ticket = world.launch(stream);
  CHECK(gpu().queries + gpu().records == calls);
  CHECK(world.is_unknown(ticket));
  CHECK(world.phase(pending) == Phase::gpu_pending);  // what was known of it stays
}

TEST_CASE("threads that launch and end groups while others poll lose no operation") {
  World world(100, 200);
  clear_fake_clock();  // a clock that several threads may read
  constexpr int kThreads = 3;
  constexpr int kRounds = 3'000;
  std::atomic<int> left{kThreads};
  std::vector<std::thread> threads;
  std::atomic<uint64_t> calls{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      test::fake_driver::current_context = 1 + static_cast<uintptr_t>(t) % 2;
      gpu::Thread mine;
      for (int i = 0; i < kRounds; ++i) {
        const gpu::Stream stream = gpu().make_stream(test::fake_driver::current_context, true);
        const auto group = static_cast<uint32_t>(t * kRounds + i + 1);
        world.launch(mine, stream);
        world.launch(mine, stream, group);
        world.launch(mine, stream, group);
        world.timer->begin_group_end(mine, group);
        world.timer->finish_group_end(mine, i % 16 != 0 ? gpu::Launch::done : gpu::Launch::refused);
        calls += 3;
      }
      --left;
    });
  }
  while (left != 0) world.poll();
  for (std::thread& thread : threads) thread.join();
  world.poll();
  CHECK(world.timer->is_idle());
  for (const OpRecord& record : world.records) {
    if (record.publish == 0) continue;
    CHECK(phase_number_of(record.publish) == static_cast<uint8_t>(Phase::settled));
    CHECK((record.finished_ticks != 0) != ((record.flags & kOpGpuTimesUnknown) != 0));
  }
}

}  // namespace gpu_timer_test
}  // namespace rollcall
