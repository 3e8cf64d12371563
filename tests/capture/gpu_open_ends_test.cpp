// Marks behind calls that NCCL launches later: who records them, and that none goes onto a stream
// that is gone.
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/capture/gpu_world.h"
#include "tests/catch.h"

namespace rollcall {
namespace gpu_open_ends_test {

using test::FakeGpu;
using test::World;

FakeGpu& gpu() { return FakeGpu::get(); }

// They have no times, and nothing else is counted or awaited.
void check_given_up(const World& world, std::initializer_list<uint64_t> tickets) {
  for (const uint64_t ticket : tickets) {
    CHECK(world.phase(ticket) == Phase::settled);
    CHECK(world.is_unknown(ticket));
  }
  CHECK(world.timer->is_idle());
  CHECK(world.stats.gpu_untimed == tickets.size());
}

TEST_CASE("whoever is told first that NCCL has launched records the end, and only that thread") {
  for (const uint32_t group : {0u, 5u}) {
    World world;
    gpu::Thread watchdog;
    const gpu::Stream stream = gpu().make_stream(1, true);
    const uint64_t ticket = world.launch_later(stream, group);
    const uint64_t records = gpu().records;
    world.ask(watchdog, ticket);
    CHECK(gpu().records == records + 1);
    CHECK(world.record(ticket).launched_ticks != 0);
    gpu().streams.erase(reinterpret_cast<uintptr_t>(stream));  // it was told: it may do that
    world.ask(ticket);
    world.launch(gpu().make_stream(1, true));
    CHECK(gpu().records == records + 3);  // the two of the call that followed
    world.poll();
    CHECK(world.record(ticket).finished_ticks != 0);
    CHECK(world.phase(ticket) == Phase::settled);
    CHECK(world.timer->is_idle());
    CHECK(world.stats.gpu_untimed == 0);
  }
}

TEST_CASE("a thread that ended before it asked leaves the end to who is told") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1, true);
  std::vector<uint64_t> tickets;
  for (uint32_t i = 0; i < 2 * kGpuOpenEndsMax; ++i) {
    gpu::Thread thread;
    tickets.push_back(world.launch(thread, stream, 0, gpu::Launch::in_progress));
    world.ask(tickets.back());
  }
  world.poll();
  for (const uint64_t ticket : tickets) CHECK(world.record(ticket).finished_ticks != 0);
  CHECK(world.timer->is_idle());
  CHECK(world.stats.gpu_untimed == 0);
}

TEST_CASE("one end more than there are places has no times, and holds up no other") {
  for (const uint32_t group : {0u, 5u}) {
    World world;
    std::vector<gpu::Thread> threads(kGpuOpenEndsMax);
    std::vector<uint64_t> tickets;
    for (gpu::Thread& thread : threads) {
      const gpu::Stream stream = gpu().make_stream(1, true);
      tickets.push_back(world.launch(thread, stream, 0, gpu::Launch::in_progress));
    }
    const gpu::Stream stream = gpu().make_stream(1, true);
    const uint64_t beyond = world.launch_later(stream, group);
    CHECK(world.phase(beyond) == Phase::settled);
    CHECK(world.is_unknown(beyond));
    CHECK(world.stats.gpu_untimed == 1);
    for (uint32_t i = 0; i < kGpuOpenEndsMax; ++i) world.ask(threads[i], tickets[i]);
    const uint64_t next = world.launch_later(stream, group == 0 ? 0 : 6);
    world.ask(next);
    world.poll();
    for (const uint64_t ticket : tickets) CHECK(world.record(ticket).finished_ticks != 0);
    CHECK(world.record(next).finished_ticks != 0);
    CHECK(world.timer->is_idle());
    CHECK(world.stats.gpu_untimed == 1);
  }
}

// The watchdog's answer may be about the call before, or about this one: then the stream may be
// destroyed before the launching thread knows that its call is in progress.
TEST_CASE("an answer that came while the call was under way leaves it without an end") {
  for (const bool is_published : {false, true}) {
    World world;
    gpu::Thread watchdog;
    const gpu::Stream stream = gpu().make_stream(1, true);
    const auto [record, ticket] = world.begin(world.main_thread, stream, 0);
    if (!is_published) world.ask(watchdog, ticket);
    REQUIRE(world.timer->close(world.main_thread, record, ticket, gpu::Launch::in_progress));
    ring::publish_slot(record, ticket, Phase::gpu_pending);
    if (is_published) world.ask(watchdog, ticket);
    gpu().streams.erase(reinterpret_cast<uintptr_t>(stream));
    world.timer->opened(world.main_thread);
    world.ask(ticket);
    check_given_up(world, {ticket});
  }
}

TEST_CASE("an answer that came while a group was under way leaves all of it without an end") {
  World world;
  gpu::Thread watchdog;
  const gpu::Stream one = gpu().make_stream(1, true);
  const gpu::Stream other = gpu().make_stream(1, true);
  const uint64_t a = world.launch(one, 5);
  const uint64_t b = world.launch(other, 5);
  world.timer->begin_group_end(world.main_thread, 5);
  world.ask(watchdog, a);
  gpu().streams.clear();
  world.timer->finish_group_end(world.main_thread, gpu::Launch::in_progress);
  world.ask(b);
  check_given_up(world, {a, b});
}

TEST_CASE("an answer that came before a group ended is not about it") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1, true);
  const uint64_t a = world.launch(stream, 5);
  world.ask(a);
  world.end_group(5, gpu::Launch::in_progress);
  world.ask(a);
  world.poll();
  CHECK(world.record(a).finished_ticks != 0);
  CHECK(world.timer->is_idle());
  CHECK(world.stats.gpu_untimed == 0);
}

TEST_CASE("of a group that is on a default stream, too, another thread finishes the rest") {
  World world;
  gpu::Thread watchdog;
  gpu().streams[0] = {1, true, 0, {}};
  const gpu::Stream stream = gpu().make_stream(1, true);
  const uint64_t a = world.launch(nullptr, 5);
  const uint64_t b = world.launch(stream, 5);
  world.end_group(5, gpu::Launch::in_progress);
  const uint64_t records = gpu().records;
  test::fake_driver::current_context = 2;  // the watchdog's
  world.ask(watchdog, b);
  CHECK(test::fake_driver::current_context == 2);
  test::fake_driver::current_context = 1;
  CHECK(gpu().records == records + 1);
  gpu().streams.erase(reinterpret_cast<uintptr_t>(stream));
  world.ask(b);
  CHECK(gpu().records == records + 1);
  world.poll();
  CHECK(world.is_unknown(a));
  CHECK(world.record(b).finished_ticks != 0);
  CHECK(world.timer->is_idle());
  CHECK(world.stats.gpu_untimed == 1);
}

TEST_CASE("an answer that was asked for about one call may be about the next one") {
  World world;
  gpu::Thread watchdog;
  const gpu::Stream stream = gpu().make_stream(1, true);
  const uint64_t first = world.launch(stream, 0, gpu::Launch::in_progress);
  const auto asked = world.timer->open_end_of(first);
  world.ask(first);
  const auto [record, second] = world.begin(world.main_thread, stream, 0);
  REQUIRE(world.timer->close(world.main_thread, record, second, gpu::Launch::in_progress));
  ring::publish_slot(record, second, Phase::gpu_pending);
  world.timer->settle(watchdog, asked, 0, second, true);
  gpu().streams.clear();
  world.timer->opened(world.main_thread);
  world.ask(second);
  world.poll();
  CHECK(world.record(first).finished_ticks != 0);
  CHECK(world.is_unknown(second));
  CHECK(world.timer->is_idle());
  CHECK(world.stats.gpu_untimed == 1);
}

TEST_CASE("threads whose calls come back early are sampled as others are") {
  const auto timed_of = [](gpu::Launch outcome) {
    World world(1);
    gpu().cost_ticks = 20'000;
    const gpu::Stream stream = gpu().make_stream(1, true);
    for (int i = 0; i < 2'000; ++i) {
      const uint64_t ticket = world.launch(stream, 0, outcome);
      world.ask(ticket);
      world.poll();
    }
    return 2'000 - world.sampled_out();
  };
  CHECK(timed_of(gpu::Launch::done) < 1'000);
  CHECK(timed_of(gpu::Launch::in_progress) < 1'000);
}

TEST_CASE("an answer that came in front of the call is not about it") {
  World world;
  gpu::Thread watchdog;
  const gpu::Stream stream = gpu().make_stream(1, true);
  const uint64_t before = world.launch(stream);
  world.ask(watchdog, before);
  const uint64_t ticket = world.launch(stream, 0, gpu::Launch::in_progress);
  world.ask(ticket);
  world.poll();
  CHECK(world.record(ticket).finished_ticks != 0);
  CHECK(world.stats.gpu_untimed == 0);
}

TEST_CASE(
    "an end on a default stream has its times, whatever others heard while it was under way") {
  for (const uint32_t group : {0u, 5u}) {
    World world;
    gpu::Thread watchdog;
    gpu().streams[0] = {1, true, 0, {}};
    uint64_t ticket = 0;
    if (group == 0) {
      const auto [record, called] = world.begin(world.main_thread, nullptr, 0);
      ticket = called;
      world.ask(watchdog, ticket);
      REQUIRE(world.timer->close(world.main_thread, record, ticket, gpu::Launch::in_progress));
      ring::publish_slot(record, ticket, Phase::gpu_pending);
      world.timer->opened(world.main_thread);
    } else {
      ticket = world.launch(nullptr, group);
      world.timer->begin_group_end(world.main_thread, group);
      world.ask(watchdog, ticket);
      world.timer->finish_group_end(world.main_thread, gpu::Launch::in_progress);
    }
    world.ask(ticket);
    world.poll();
    CHECK(world.record(ticket).finished_ticks != 0);
    CHECK(world.stats.gpu_untimed == 0);
  }
}

TEST_CASE("the end of a call whose communicator is ended by another thread is given up") {
  for (const uint32_t group : {0u, 5u}) {
    for (const bool is_default : {false, true}) {
      World world;
      gpu::Thread other;
      gpu().streams[0] = {1, true, 0, {}};
      const gpu::Stream stream = is_default ? nullptr : gpu().make_stream(1, true);
      const uint64_t ticket = world.launch_later(stream, group);
      const uint64_t records = gpu().records;
      world.timer->settle(other, {}, 0, ticket, false);
      gpu().streams.clear();
      world.ask(ticket);
      CHECK(gpu().records == records);
      check_given_up(world, {ticket});
    }
  }
}

TEST_CASE("an end on a default stream waits for its own thread, who has that stream") {
  for (const uint32_t group : {0u, 5u}) {
    World world;
    gpu::Thread watchdog;
    gpu().streams[0] = {1, true, 0, {}};
    const uint64_t ticket = world.launch_later(nullptr, group);
    const uint64_t records = gpu().records;
    world.ask(watchdog, ticket);
    CHECK(gpu().records == records);
    world.ask(ticket);
    CHECK(gpu().records == records + 1);
    world.poll();
    CHECK(world.record(ticket).finished_ticks != 0);
    CHECK(world.timer->is_idle());
    CHECK(world.stats.gpu_untimed == 0);
  }
}

// The driver of the test ends the process where a mark goes onto a stream that is gone.
TEST_CASE("no end goes onto a stream that is destroyed by whoever is told") {
  World world(100, 200);
  clear_fake_clock();
  constexpr int kRounds = 5'000;
  constexpr int kWatchdogs = 2;
  struct Call {
    uint64_t ticket = 0;
    gpu::Stream stream = nullptr;
  };
  std::vector<Call> calls(kRounds + 1);
  std::atomic<const Call*> newest{calls.data()};
  std::atomic<uint64_t> through{0};  // NCCL's state of the communicator
  std::atomic<bool> is_over{false};
  const auto ask_once = [&](gpu::Thread& thread) {
    const Call& call = *newest;
    const auto asked = world.timer->open_end_of(call.ticket);
    if (call.ticket == 0 || through < call.ticket) return;
    world.timer->settle(thread, asked, 0, newest.load()->ticket, true);
    const std::lock_guard<std::mutex> guard(gpu().mutex);
    gpu().streams.erase(reinterpret_cast<uintptr_t>(call.stream));
  };
  std::vector<std::thread> watchdogs;
  for (int i = 0; i < kWatchdogs; ++i) {
    watchdogs.emplace_back([&] {
      gpu::Thread mine;
      while (!is_over) ask_once(mine);
    });
  }
  for (int i = 1; i <= kRounds; ++i) {
    const gpu::Stream stream = gpu().make_stream(1, true);
    const auto [record, ticket] = world.begin(world.main_thread, stream, 0);
    calls[static_cast<size_t>(i)] = {ticket, stream};
    newest = &calls[static_cast<size_t>(i)];
    if (i % 3 == 0) through = ticket;  // before the call is back
    const bool awaits =
        world.timer->close(world.main_thread, record, ticket, gpu::Launch::in_progress);
    ring::publish_slot(record, ticket, awaits ? Phase::gpu_pending : Phase::settled);
    if (awaits) world.timer->opened(world.main_thread);
    through = ticket;
    if (i % 2 == 0) std::this_thread::yield();
    ask_once(world.main_thread);
    world.poll();
  }
  is_over = true;
  for (std::thread& watchdog : watchdogs) watchdog.join();
  world.launch(gpu().make_stream(1, true));
  world.poll();
  CHECK(world.timer->is_idle());
  uint64_t timed = 0;
  for (const OpRecord& record : world.records) {
    if (record.publish == 0) continue;
    CHECK(phase_number_of(record.publish) == static_cast<uint8_t>(Phase::settled));
    CHECK((record.finished_ticks != 0) != ((record.flags & kOpGpuTimesUnknown) != 0));
    timed += record.finished_ticks != 0 ? 1 : 0;
  }
  CHECK(timed > 0);
}

}  // namespace gpu_open_ends_test
}  // namespace rollcall
