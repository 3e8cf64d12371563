// What the end of a process asks of a background thread, and when it is let go.
#include "core/capture/last_round.h"

#include <thread>

#include "core/base/clock.h"
#include "tests/catch.h"

namespace rollcall {
namespace last_round_test {

using capture::LastRound;

constexpr uint64_t kPatienceNs = 2'000'000'000;

TEST_CASE("the end of a process waits for the round it asks for") {
  LastRound round;
  std::thread worker([&] {
    while (!round.sleep(60'000)) {
    }
    round.served();
  });
  CHECK(round.ask());
  worker.join();
}

TEST_CASE("a worker that has ended keeps nobody waiting") {
  LastRound round;
  round.leave();
  const uint64_t began_ns = monotonic_now_ns();
  CHECK_FALSE(round.ask());
  CHECK(monotonic_now_ns() - began_ns < kPatienceNs);
}

TEST_CASE("a worker that ends instead of serving lets go who asked") {
  LastRound round;
  std::thread worker([&] {
    while (!round.sleep(60'000)) {
    }
    round.leave();
  });
  const uint64_t began_ns = monotonic_now_ns();
  round.ask();
  CHECK(monotonic_now_ns() - began_ns < kPatienceNs);
  worker.join();
}

TEST_CASE("a worker that does not answer is waited for, and not for ever") {
  LastRound round;
  const uint64_t began_ns = monotonic_now_ns();
  CHECK_FALSE(round.ask());
  CHECK(monotonic_now_ns() - began_ns >= kPatienceNs);
}

}  // namespace last_round_test
}  // namespace rollcall
