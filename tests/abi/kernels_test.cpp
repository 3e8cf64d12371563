// KernelCh events: when the GPU began and ended an operation, and whose time it was.
#include <cstdlib>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "tests/abi/recorded.h"

namespace rollcall {
namespace kernels_test {

using mini::Comm;
using mini::Nccl;
using test::record_and_read;

template <unsigned kVersion>
void check_kernels() {
  INFO("version " << kVersion);
  const auto ring = record_and_read([] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "kernelch", 1);
    Nccl<kVersion> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    const mini::Task task = nccl.call(comm, {});
    std::thread([&] {
      void* first = nccl.start_kernel(comm, task.handle, 0, 1'000'000);
      void* second = nccl.start_kernel(comm, task.handle, 1, 1'000'500);
      nccl.record(first, profiler::kKernelChStop, 1'020'000);
      nccl.stop(first);
      nccl.record(second, profiler::kKernelChStop, 1'030'000);
      nccl.stop(second);
    }).join();
    nccl.call(comm, {});  // whose kernel is never reported
  });
  const OpRecord& op = ring.ops.at(1);
  CHECK(op.started_ticks != 0);
  CHECK(op.finished_ticks > op.started_ticks);
  CHECK(phase_number_of(op.publish) == static_cast<uint8_t>(Phase::settled));
  CHECK(ring.ops.at(2).started_ticks == 0);
  CHECK(phase_number_of(ring.ops.at(2).publish) == static_cast<uint8_t>(Phase::gpu_pending));
}

TEST_CASE("KernelCh events of other threads give an operation its times on the GPU") {
  check_kernels<4>();
  check_kernels<5>();
  check_kernels<6>();
  check_kernels<7>();
}

TEST_CASE("a time that belongs to another operation is counted and not used") {
  const auto ring = record_and_read([] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "kernelch", 1);
    set_fake_clock(10'000'000'000, 10);  // the GPU's times are made up, too
    Nccl<7> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    const auto report = [&](void* operation, uint64_t start_ns, uint64_t stop_ns) {
      for (const uint8_t channel : {0, 1}) {
        void* handle = nccl.start_kernel(comm, operation, channel, start_ns);
        nccl.record(handle, profiler::kKernelChStop, stop_ns);
        nccl.stop(handle);
      }
    };
    const mini::Task overrun = nccl.call(comm, {});  // 1
    for (int i = 0; i < 64; ++i) nccl.call(comm, {});
    report(overrun.handle, 5'000, 6'000);
    report(nccl.call(comm, {}).handle, 9'000, 9'500);  // 66
    report(nccl.call(comm, {}).handle, 8'000, 8'500);  // 67: before the one before
    report(nccl.call(comm, {}).handle, 9'900, 9'800);  // 68: ends before it begins
  });
  CHECK(ring.ops.at(1).started_ticks == 0);
  CHECK(ring.ops.at(66).started_ticks != 0);
  CHECK(ring.ops.at(67).started_ticks == 0);
  CHECK(ring.ops.at(68).started_ticks == 0);
  CHECK(ring.stats.plugin_kernel_lost >= 6);
}

TEST_CASE("the kernels of a replay are nobody's, and no time is lost by them") {
  const auto ring = record_and_read([] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "kernelch", 1);
    set_fake_clock(10'000'000'000, 10);  // the GPU's times are made up, too
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    const auto report = [&](void* operation, uint64_t start_ns) {
      for (const uint8_t channel : {0, 1}) {
        void* handle = nccl.start_kernel(comm, operation, channel, start_ns);
        nccl.record(handle, profiler::kKernelChStop, start_ns + 100);
        nccl.stop(handle);
      }
    };
    const mini::Task captured = nccl.call(comm, {});
    report(captured.handle, 5'000);
    for (int i = 0; i < 64; ++i) report(nccl.call(comm, {}).handle, 6'000);
    report(captured.handle, 7'000);
  });
  CHECK(ring.ops.at(1).started_ticks != 0);
  CHECK(ring.ops.at(65).started_ticks != 0);
  CHECK(ring.stats.plugin_kernel_lost == 0);
}

// NCCL, its clock and that of its GPU, which is some seconds behind.
template <unsigned kVersion>
class Host {
 public:
  static constexpr uint64_t kGpuBehindNs = 3'000'000'000;
  Nccl<kVersion> nccl;
  Comm comm;

  Host() {
    setenv("ROLLCALL_PLUGIN_EVENTS", "kernelch", 1);
    set_fake_clock(10'000'000'000, 10);
    comm = nccl.init(1, 0, 2);
  }
  uint64_t gpu_ns() const { return monotonic_now_ns() - kGpuBehindNs; }
  void* start(void* operation, uint8_t channel, uint64_t start_ns) {
    return nccl.start_kernel(comm, operation, channel, start_ns);
  }
  void stop(void* kernel, uint64_t stop_ns) {
    nccl.record(kernel, profiler::kKernelChStop, stop_ns);
    nccl.stop(kernel);
  }
  // On both channels of the operation; it starts at `start_ns`, and that is heard of now.
  void report(void* operation, uint64_t start_ns) {
    for (const uint8_t channel : {0, 1}) stop(start(operation, channel, start_ns), start_ns + 100);
  }
  // A call whose kernel starts at once and is heard of a little later.
  void call_and_report(const mini::Op& op = {}) {
    const mini::Task task = nccl.call(comm, op);
    const uint64_t start_ns = gpu_ns();
    advance_fake_clock(1'000);
    report(task.handle, start_ns);
  }
};

bool is_timed(const OpRecord& op) { return op.started_ticks != 0 && op.finished_ticks != 0; }

TEST_CASE("times of the GPU are put on the host's clock") {
  const auto ring = record_and_read([] {
    Host<7> host;
    host.call_and_report();
    advance_fake_clock(5'000'000);
    host.call_and_report();
  });
  // The least that a report was late, 1,000 ns and the ticks of the host's own reading, is the
  // error of all.
  for (const uint64_t ticket : {1, 2}) {
    const OpRecord& op = ring.ops.at(ticket);
    REQUIRE(is_timed(op));
    CHECK(op.finished_ticks - op.started_ticks == 100);
    CHECK(op.started_ticks >= op.launched_ticks);
    CHECK(op.started_ticks <= op.launched_ticks + 1'500);
  }
}

// Does not count what it does not tell of, while the GPU does.
template <unsigned kVersion>
test::RingContents behind_untold_broadcast() {
  return record_and_read([] {
    Host<kVersion> host;
    host.call_and_report();  // 1
    void* group = host.nccl.start_group_api(host.comm, 1);
    host.nccl.stop(host.nccl.start_call(host.comm, {.func = "Broadcast"}, group));  // 2
    host.nccl.stop(group);
    host.call_and_report();                       // 3
    host.call_and_report({.func = "AllGather"});  // 4
  });
}

TEST_CASE("behind a Broadcast that NCCL 2.31 does not tell of no time is the operation's own") {
  const auto ring = behind_untold_broadcast<7>();
  CHECK(is_timed(ring.ops.at(1)));
  CHECK_FALSE(is_timed(ring.ops.at(3)));
  CHECK_FALSE(is_timed(ring.ops.at(4)));
  CHECK(ring.stats.plugin_kernel_lost == 4);  // two channels of two operations
  CHECK(ring.in_flight == 0);
}

TEST_CASE("NCCL before 2.31 counts a Broadcast that it does not tell of") {
  const auto ring = behind_untold_broadcast<6>();
  CHECK(is_timed(ring.ops.at(3)));
  CHECK(is_timed(ring.ops.at(4)));
  CHECK(ring.stats.plugin_kernel_lost == 0);
}

TEST_CASE("a Broadcast that is told of costs the others no times, however late it is") {
  const auto ring = record_and_read([] {
    Host<7> host;
    host.call_and_report({.func = "Broadcast"});  // 1
    host.call_and_report();                       // 2
    void* group = host.nccl.start_group_api(host.comm, 1);
    void* call = host.nccl.start_call(host.comm, {.func = "Broadcast"}, group);  // 3
    host.nccl.stop(call);
    host.nccl.stop(group);
    host.call_and_report();  // 4
    // As on the thread of a non-blocking communicator.
    host.nccl.stop(host.nccl.start_operation(host.comm, {.func = "Broadcast"}, call, nullptr));
    host.call_and_report();  // 5
  });
  CHECK(is_timed(ring.ops.at(1)));
  CHECK(is_timed(ring.ops.at(2)));
  CHECK_FALSE(is_timed(ring.ops.at(4)));
  CHECK(is_timed(ring.ops.at(5)));
  CHECK(ring.stats.plugin_kernel_lost == 2);
}

TEST_CASE("an untold Broadcast of one communicator is nothing to another one") {
  const auto ring = record_and_read([] {
    Host<7> host;
    const Comm other = host.nccl.init(2, 0, 2);
    void* group = host.nccl.start_group_api(other, 1);
    host.nccl.stop(host.nccl.start_call(other, {.func = "Broadcast"}, group));
    host.nccl.stop(group);
    host.call_and_report();
  });
  CHECK(is_timed(ring.ops.at(2)));
  CHECK(ring.stats.plugin_kernel_lost == 0);
}

TEST_CASE(
    "a kernel that would have started before its launch is another one, and so are the next") {
  const auto ring = record_and_read([] {
    Host<6> host;
    host.call_and_report();                 // 1
    const uint64_t old_ns = host.gpu_ns();  // of a kernel that was not told of
    advance_fake_clock(5'000'000);
    host.report(host.nccl.call(host.comm, {}).handle, old_ns);  // 2
    host.call_and_report();                                     // 3
  });
  CHECK(is_timed(ring.ops.at(1)));
  CHECK_FALSE(is_timed(ring.ops.at(2)));
  CHECK_FALSE(is_timed(ring.ops.at(3)));
  CHECK(ring.stats.plugin_kernel_lost == 3);  // once for 2, and both channels of 3
}

TEST_CASE("what the clocks may have drifted apart is no contradiction") {
  const auto ring = record_and_read([] {
    Host<6> host;
    host.call_and_report();
    const uint64_t slightly_early_ns = host.gpu_ns() + 500'000;
    advance_fake_clock(1'000'000);
    host.report(host.nccl.call(host.comm, {}).handle, slightly_early_ns);
  });
  CHECK(is_timed(ring.ops.at(2)));
  CHECK(ring.stats.plugin_kernel_lost == 0);
}

// NCCL up to 2.30 keeps kernels of receives in a queue of their own.
TEST_CASE("receives and other operations of a channel are reported in no order to each other") {
  const auto ring = record_and_read([] {
    Host<6> host;
    const std::vector<mini::Task> tasks = host.nccl.group(
        host.comm,
        {{.func = "Send", .peer = 1}, {.func = "Recv", .peer = 1}, {.func = "Send", .peer = 1}});
    const uint64_t begin_ns = host.gpu_ns();
    advance_fake_clock(1'000);
    host.report(tasks[0].handle, begin_ns);
    host.report(tasks[2].handle, begin_ns + 500);
    host.report(tasks[1].handle, begin_ns);
  });
  CHECK(is_timed(ring.ops.at(1)));
  CHECK(is_timed(ring.ops.at(2)));
  CHECK(is_timed(ring.ops.at(3)));
  CHECK(ring.stats.plugin_kernel_lost == 0);
}

TEST_CASE("transfers have times in every version that tells how many channels they have") {
  const auto timed = []<unsigned kVersion>(std::integral_constant<unsigned, kVersion>) {
    const auto ring = record_and_read([] {
      Host<kVersion> host;
      host.call_and_report({.func = "Send", .peer = 1});
    });
    return is_timed(ring.ops.at(1));
  };
  CHECK(timed(std::integral_constant<unsigned, 4>()));
  CHECK(timed(std::integral_constant<unsigned, 5>()));
  CHECK(timed(std::integral_constant<unsigned, 7>()));
}

TEST_CASE("more channels than NCCL has are none") {
  const auto ring = record_and_read([] {
    Host<4> host;
    auto descriptor = Nccl<4>::blank(profiler::kGroup);
    void* group = host.nccl.start(host.comm, descriptor);
    void* send =
        host.nccl.start_operation(host.comm, {.func = "Send", .peer = 1}, nullptr, group, 0xa5);
    host.nccl.stop(send);
  });
  CHECK(ring.ops.size() == 1);
  CHECK(ring.in_flight == 0);
}

// One thread that has two GPUs: NCCL launches the kernels of both, then it tells of the operations.
TEST_CASE("the launch of an operation is its communicator's own") {
  const auto ring = record_and_read([] {
    Host<6> host;
    const Comm other = host.nccl.init(1, 1, 2);
    void* group = host.nccl.start_group_api(host.comm, 2);
    void* calls[] = {host.nccl.start_call(host.comm, {}, group),
                     host.nccl.start_call(other, {}, group)};
    for (void* call : calls) host.nccl.stop(call);
    host.nccl.launch_kernel(host.comm, group);
    advance_fake_clock(70'000);
    host.nccl.launch_kernel(other, group);
    host.nccl.stop(host.nccl.start_operation(host.comm, {}, calls[0], nullptr));
    host.nccl.stop(host.nccl.start_operation(other, {}, calls[1], nullptr));
    host.nccl.stop(group);
  });
  CHECK(ring.ops.at(2).launched_ticks - ring.ops.at(1).launched_ticks >= 70'000);
}

}  // namespace kernels_test
}  // namespace rollcall
