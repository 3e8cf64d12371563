// Millions of operations through the pools of events, with everything that a long job does besides:
// streams that come and go, devices that are switched, groups, captures that are given up, graphs
// that are replayed.
#include <random>

#include "tests/capture/gpu_world.h"
#include "tests/catch.h"

namespace rollcall {
namespace gpu_stress_test {

using test::FakeGpu;
using test::World;

// Sanitizers and unoptimised code are ten to fifty times as slow.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr uint64_t kOperations = 10'000'000;
#else
constexpr uint64_t kOperations = 200'000;
#endif
constexpr uintptr_t kContexts = 4;

FakeGpu& gpu() { return FakeGpu::get(); }

class Stress {
 public:
  Stress() : world_(100, 1024) {
    for (uintptr_t context = 1; context <= kContexts; ++context) streams_.push_back(fresh(context));
    slow_ = gpu().make_stream(1);
  }

  void step(uint64_t number) {
    if (number % 64 == 0) change_stream();
    if (number % 500 == 0) give_up_a_capture(number);
    if (number % 700 == 0) replay(number);
    if (number % 90 == 0) return group();
    gpu::Stream stream = streams_[random_() % streams_.size()];
    if (number % 33 == 0) stream = slow_;
    test::fake_driver::current_context = random_() % kContexts + 1;
    const gpu::Launch outcome = random_() % 8 == 0 ? gpu::Launch::in_progress : gpu::Launch::done;
    tickets_.push_back(world_.launch(stream, 0, outcome));
    ask_mostly();
    settle(number);
  }

  void finish() {
    gpu().reach_all(slow_, now());
    for (int i = 0; i < 3; ++i) world_.poll();
    check_settled();
    CHECK(world_.timer->is_idle());
  }

  uint64_t launched() const { return launched_; }
  uint64_t untimed() const { return world_.stats.gpu_untimed; }
  uint64_t timed() const { return timed_; }
  const SelfStatistics& stats() const { return world_.stats; }

 private:
  static gpu::Stream fresh(uintptr_t context) { return gpu().make_stream(context, true); }
  static uint64_t now() { return gpu().gpu_ns_at(ticks_now()); }

  // The handle of a stream that is destroyed is not used again here, as it is by CUDA: what matters
  // is that its events stay good.
  void change_stream() {
    const size_t at = random_() % streams_.size();
    gpu().streams.erase(reinterpret_cast<uintptr_t>(streams_[at]));
    streams_[at] = fresh(at % kContexts + 1);
  }

  void group() {
    const auto number = static_cast<uint32_t>(++groups_);
    const size_t first = random_() % streams_.size();
    const size_t second = random_() % streams_.size();
    for (const size_t at : {first, second, first}) {
      tickets_.push_back(world_.launch(streams_[at], number));
    }
    const gpu::Launch outcomes[] = {gpu::Launch::refused, gpu::Launch::in_progress,
                                    gpu::Launch::done};
    world_.end_group(number, outcomes[std::min<uint64_t>(random_() % 8, 2)]);
    ask_mostly();
    settle(0);
  }

  // Whether what is in progress is launched by now. Left to itself it is given up at the next call.
  void ask_mostly() {
    if (random_() % 8 != 0) {
      world_.ask(tickets_.back(), random_() % 8 != 0);
    }
  }

  // As when a capture fails: its graph is never seen again, and the driver uses the handle anew.
  void give_up_a_capture(uint64_t number) {
    const gpu::Stream stream = streams_[0];
    gpu().graph = reinterpret_cast<void*>(0x10000 + number % 7 * 16);
    gpu().at(stream).capture = ++captures_;
    world_.launch(stream);
    const auto group = static_cast<uint32_t>(++groups_);
    world_.launch(stream, group);
    if (number % 1000 == 0) world_.end_group(group);
    gpu().at(stream).capture = 0;
    gpu().nodes.clear();
  }

  void replay(uint64_t number) {
    const gpu::Stream stream = streams_[0];
    void* const graph = reinterpret_cast<void*>(0x20000 + number % 5 * 16);
    void* const executable = reinterpret_cast<void*>(0x30000 + number % 11 * 16);
    gpu().graph = graph;
    gpu().at(stream).capture = ++captures_;
    world_.launch(stream);
    gpu().at(stream).capture = 0;
    gpu().nodes.clear();
    gpu::Captures& captures = world_.timer->captures();
    captures.instantiated(executable, graph);
    captures.destroyed(graph);
    CHECK(world_.timer->begin_replay(executable, stream).graph == static_cast<uint32_t>(captures_));
    if (number % 1400 == 0) captures.executable_destroyed(executable);
  }

  void settle(uint64_t number) {
    if (tickets_.size() < 256) return;
    world_.ask(tickets_.back());
    if (number % 2 == 0) gpu().reach_all(slow_, now());
    world_.poll();
    gpu().reach_all(slow_, now());
    for (int i = 0; i < 17; ++i) world_.poll();  // one of them asks every event
    check_settled();
  }

  void check_settled() {
    for (const uint64_t ticket : tickets_) {
      const OpRecord& record = world_.record(ticket);
      REQUIRE(world_.phase(ticket) == Phase::settled);
      const bool is_timed = record.started_ticks != 0 && record.finished_ticks != 0;
      REQUIRE(is_timed != world_.is_unknown(ticket));
      timed_ += is_timed ? 1 : 0;
    }
    launched_ += tickets_.size();
    tickets_.clear();
  }

  World world_;
  std::mt19937_64 random_{1};
  std::vector<gpu::Stream> streams_;
  gpu::Stream slow_ = nullptr;
  std::vector<uint64_t> tickets_;
  uint64_t groups_ = 0;
  uint64_t captures_ = 0;
  uint64_t launched_ = 0;
  uint64_t timed_ = 0;
};

TEST_CASE("millions of operations leave no event, operation or graph behind") {
  Stress stress;
  for (uint64_t i = 1; i <= kOperations; ++i) stress.step(i);
  stress.finish();
  CHECK(stress.launched() >= kOperations);
  CHECK(stress.launched() == stress.timed() + stress.untimed());
  CHECK(stress.timed() > stress.launched() / 10 * 9);
  CHECK(stress.stats().graph_table_full == 0);
  CHECK(gpu().forbidden_calls == 0);
  CHECK(gpu().events.size() < kContexts * 2 * kGpuPairsMax + 16);
}

}  // namespace gpu_stress_test
}  // namespace rollcall
