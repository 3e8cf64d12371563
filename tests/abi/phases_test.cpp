// KernelPhase events (version 7): how long an operation's kernel waited, worked and waited.
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "profiler_plugin/handles.h"
#include "tests/abi/recorded.h"

namespace rollcall {
namespace phases_test {

using mini::Comm;
using mini::Nccl;
using test::record_and_read;

struct Phase {
  uint8_t number;
  uint64_t start_ns;
  uint64_t stop_ns;
};

// The times of its GPU are made up, so that the host's clock has to be, too: slower than they go,
// or kernels would seem to have started before they were launched.
class Host {
 public:
  Nccl<7> nccl;
  Comm comm;
  Host() {
    setenv("ROLLCALL_PLUGIN_EVENTS", "phases", 1);
    set_fake_clock(10'000'000'000, 10);
    comm = nccl.init(1, 0, 2);
    CHILD_REQUIRE((nccl.mask & static_cast<int>(profiler::kKernelCh)) != 0);
  }
  void phase(void* kernel, uint8_t channel, const Phase& phase) {
    void* handle = nccl.start_phase(comm, kernel, channel, phase.number, phase.start_ns);
    nccl.record(handle, profiler::kKernelPhaseStop, phase.stop_ns);
    nccl.stop(handle);
  }
  void stop(void* kernel, uint64_t stop_ns) {
    nccl.record(kernel, profiler::kKernelChStop, stop_ns);
    nccl.stop(kernel);
  }
  // An operation's two channels.
  std::pair<void*, void*> start(uint64_t start_ns) {
    const mini::Task task = nccl.call(comm, {});
    void* first = nccl.start_kernel(comm, task.handle, 0, start_ns);
    return {first, nccl.start_kernel(comm, task.handle, 1, start_ns)};
  }
  // Both from start_ns to stop_ns.
  void* run(uint64_t start_ns, uint64_t stop_ns, const std::vector<Phase>& on_first,
            const std::vector<Phase>& on_second) {
    const auto [first, second] = start(start_ns);
    for (const Phase& each : on_first) phase(first, 0, each);
    stop(first, stop_ns);
    for (const Phase& each : on_second) phase(second, 1, each);
    stop(second, stop_ns);
    return second;
  }
};

void check_ns(const test::RingContents& ring, uint64_t ticket, uint64_t initial_ns,
              uint64_t compute_ns, uint64_t final_ns) {
  INFO("ticket " << ticket);
  REQUIRE(ring.phases.count(ticket) == 1);
  const KernelPhasesEntry& entry = ring.phases.at(ticket);
  CHECK(entry.ns[0] == initial_ns);
  CHECK(entry.ns[1] == compute_ns);
  CHECK(entry.ns[2] == final_ns);
}

TEST_CASE("kernel phases are kept with their operation, as the mean of its channels") {
  const auto ring = record_and_read([] {
    Host host;
    std::thread([&] {
      host.run(1'000, 9'000, {{0, 1'000, 3'000}, {1, 3'000, 8'000}, {2, 8'000, 9'000}},
               {{0, 1'000, 2'000}, {1, 2'000, 9'000}});
      host.run(10'000, 10'600, {{1, 10'000, 10'600}}, {{1, 10'000, 10'400}});
      host.run(20'000, 20'600, {}, {});
    }).join();
  });
  check_ns(ring, 1, 1'500, 6'000, 500);
  check_ns(ring, 2, 0, 500, 0);
  CHECK(ring.phases.count(3) == 0);
  REQUIRE(ring.comms.size() == 1);
  CHECK(ring.comms[0].phased_operations == 2);
  CHECK(ring.comms[0].phase_ns[0] == 1'500);
  CHECK(ring.comms[0].phase_ns[1] == 6'500);
  CHECK(ring.comms[0].phase_ns[2] == 500);
  CHECK(ring.ops.at(1).finished_ticks > ring.ops.at(1).started_ticks);
  CHECK(ring.stats.plugin_stale == 0);
  CHECK(ring.stats.plugin_null == 0);
  CHECK(ring.stats.plugin_unwanted == 0);
  CHECK(ring.stats.plugin_kernel_lost == 0);
}

TEST_CASE("a phase without an end, or without a time, adds nothing and harms nothing") {
  const auto ring = record_and_read([] {
    Host host;
    const auto [first, second] = host.start(1'000);
    host.nccl.stop(host.nccl.start_phase(host.comm, first, 0, 0, 1'000));  // no state 31
    host.nccl.start_phase(host.comm, first, 0, 1, 1'100);                  // nothing at all
    host.phase(first, 0, {2, 5'000, 5'000});                               // no time
    host.stop(first, 5'000);
    host.phase(second, 1, {1, 1'000, 5'000});
    host.stop(second, 5'000);
  });
  check_ns(ring, 1, 0, 2'000, 0);
  CHECK(ring.ops.at(1).finished_ticks != 0);
  CHECK(ring.stats.plugin_kernel_lost == 0);
}

TEST_CASE("phases of a KernelCh that has no handle, of a stale or a foreign one are nobody's") {
  const auto ring = record_and_read([] {
    Host host;
    host.phase(nullptr, 0, {0, 1, 2});  // as NCCL does where a plugin wanted no KernelCh
    host.phase(reinterpret_cast<void*>(uintptr_t{0x7fff12345678}), 0, {0, 1, 2});
    // What this plugin gave out in another process.
    host.phase(profiler::pack({.kind = profiler::HandleKind::kernel_ch, .turn = 12'345}), 0,
               {0, 1, 2});
    void* over = host.run(1'000, 2'000, {}, {});
    host.phase(over, 1, {0, 1'000, 1'500});  // its KernelCh has stopped
    const mini::Task old = host.nccl.call(host.comm, {});
    void* kernel = host.nccl.start_kernel(host.comm, old.handle, 0, 3'000);
    void* phase = host.nccl.start_phase(host.comm, kernel, 0, 0, 3'000);
    CHILD_REQUIRE(phase != nullptr);
    for (uint64_t i = 0; i < profiler::kOpPlaces; ++i) host.nccl.call(host.comm, {});
    host.nccl.record(phase, profiler::kKernelPhaseStop, 3'500);
    host.nccl.stop(phase);
    CHILD_REQUIRE(host.nccl.start_phase(host.comm, kernel, 0, 1, 3'500) == nullptr);
  });
  CHECK(ring.phases.empty());
  CHECK(ring.comms[0].phased_operations == 0);
  // Foreign number, late, and of the recycled place: end, stop and start.
  CHECK(ring.stats.plugin_stale == 5);
  CHECK(ring.stats.checks_failed == 0);
}

TEST_CASE("phase events that come twice count once, unknown phases not at all") {
  const auto ring = record_and_read([] {
    Host host;
    const auto [first, second] = host.start(1'000);
    void* phase = host.nccl.start_phase(host.comm, first, 0, 0, 1'000);
    for (int i = 0; i < 2; ++i) host.nccl.record(phase, profiler::kKernelPhaseStop, 3'000);
    for (int i = 0; i < 2; ++i) host.nccl.stop(phase);
    CHILD_REQUIRE(host.nccl.start_phase(host.comm, first, 0, 3, 3'000) == nullptr);
    host.stop(first, 5'000);
    host.stop(second, 5'000);
  });
  check_ns(ring, 1, 1'000, 0, 0);
  CHECK(ring.stats.plugin_stale == 1);
  CHECK(ring.stats.plugin_stopped_twice == 1);
  CHECK(ring.stats.plugin_unwanted == 1);
}

TEST_CASE("phases that contradict their kernel's times are counted and not used") {
  const auto ring = record_and_read([] {
    Host host;
    host.run(1'000, 2'000, {{0, 900, 1'100}}, {{1, 1'100, 2'000}});      // before it began
    host.run(3'000, 4'000, {{0, 3'500, 3'400}}, {{1, 3'100, 4'000}});    // ends before it begins
    host.run(5'000, 6'000, {{1, 5'000, 60'000}}, {{1, 5'000, 60'000}});  // longer than the kernel
    host.run(70'000, 71'000, {{1, 70'000, 71'000}}, {{1, 70'000, 71'000}});
  });
  CHECK(ring.phases.size() == 1);
  check_ns(ring, 4, 0, 1'000, 0);
  CHECK(ring.comms[0].phased_operations == 1);
  CHECK(ring.stats.plugin_kernel_lost == 3);
}

TEST_CASE("the newest operations have their phases one by one, the communicator has all") {
  constexpr uint64_t kOperations = kKernelPhaseSlots + 10;
  const auto ring = record_and_read([] {
    Host host;
    for (uint64_t i = 0; i < kOperations; ++i) {
      const uint64_t start_ns = 1'000 * (i + 1);
      host.run(start_ns, start_ns + 500, {{1, start_ns, start_ns + i % 500}},
               {{1, start_ns, start_ns + i % 500}});
    }
  });
  CHECK(ring.comms[0].phased_operations == kOperations);
  CHECK(ring.phases.size() == kKernelPhaseSlots);
  CHECK(ring.phases.count(1) == 0);
  check_ns(ring, kOperations, 0, (kOperations - 1) % 500, 0);
}

}  // namespace phases_test
}  // namespace rollcall
