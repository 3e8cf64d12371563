// What NCCL does to a plugin that trusts it: handles that are null, stale, stopped twice, of
// another process; events nobody asked for; threads; communicators without end.
#include "profiler_plugin/handles.h"

#include <sys/syscall.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "core/base/clock.h"
#include "core/capture/live.h"
#include "profiler_plugin/settings.h"
#include "tests/abi/recorded.h"

#if defined(__SANITIZE_THREAD__)
// A forked child records, with a flusher of its own: to the thread sanitizer an error by itself.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

namespace rollcall {
namespace handles_test {

using mini::Comm;
using mini::Nccl;
using test::ended_well;
using test::in_own_process;
using test::record_and_read;
using test::TemporaryDirectory;

template <unsigned kVersion>
void check_bad_handles() {
  INFO("version " << kVersion);
  const auto ring = record_and_read([] {
    Nccl<kVersion> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    const mini::Task task = nccl.call(comm, {});
    char address = 0;
    const uint64_t garbage[] = {~uint64_t{0}, 0x1234, 0xdead000000000001,
                                reinterpret_cast<uintptr_t>(&address)};
    for (const uint64_t bits : garbage) {
      void* handle = reinterpret_cast<void*>(static_cast<uintptr_t>(bits));
      nccl.plugin->stop_event(handle);
      nccl.record(handle, profiler::kKernelChStop, 5);
      nccl.start_proxy_step(comm, handle, 1);
      nccl.start_kernel(comm, handle, 1, 5);
      nccl.plugin->finalize(handle);
      mini::Comm stranger{.context = handle};
      nccl.start_operation(stranger, {}, nullptr, handle);
    }
    nccl.plugin->stop_event(nullptr);
    nccl.record(nullptr, profiler::kKernelChStop);
    nccl.plugin->stop_event(task.handle);
    nccl.plugin->stop_event(task.handle);
  });
  CHECK(ring.ops.size() == 1);
  CHECK(ring.stats.plugin_null >= 2);
  CHECK(ring.stats.plugin_stale >= 12);
  CHECK(ring.stats.plugin_stopped_twice == 2);
  CHECK(ring.stats.checks_failed == 0);
}

TEST_CASE("handles that are null, garbage or stopped twice are harmless and counted") {
  check_bad_handles<1>();
  check_bad_handles<2>();
  check_bad_handles<3>();
  check_bad_handles<4>();
  check_bad_handles<5>();
  check_bad_handles<6>();
  check_bad_handles<7>();
}

TEST_CASE("a handle whose place was given to another event touches nothing of it") {
  const auto ring = record_and_read([] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "kernelch,proxy", 1);
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    const mini::Task old = nccl.call(comm, {});
    void* old_kernel = nccl.start_kernel(comm, old.handle, 0, 5);
    for (uint64_t i = 0; i < profiler::kOpPlaces; ++i) nccl.call(comm, {});
    nccl.record(old_kernel, profiler::kKernelChStop, 6);
    nccl.stop(old_kernel);
    CHILD_REQUIRE(nccl.start_kernel(comm, old.handle, 0, 5) == nullptr);
    CHILD_REQUIRE(nccl.start_operation(comm, {}, old.api, nullptr) == nullptr);
  });
  CHECK(ring.stats.plugin_stale >= 4);
  // Records that wait for kernel times in vain are let go, not pinned for ever.
  CHECK(ring.stats.plugin_recycled >= 1);
  CHECK(ring.in_flight <= profiler::kOpPlaces);
}

// A call, in a group of its own or of the user's (`depth` 2), is under way while another thread
// makes many.
template <class Later>
test::RingContents after_many_others(int depth, Later later) {
  return record_and_read([&] {
    setenv("ROLLCALL_RING_SLOTS", "32768", 1);
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    void* group = nccl.start_group_api(comm, depth);
    nccl.record(group, profiler::kGroupStartApiStop);
    void* call = nccl.start_call(comm, {}, group);
    nccl.record(group, profiler::kGroupEndApiStart);
    std::thread([&] {
      for (uint64_t i = 0; i < profiler::kOpPlaces + 100; ++i) nccl.call(comm, {});
    }).join();
    later(nccl, call, group);
  });
}

TEST_CASE("a thread that calls seldom takes no place that others have come to again") {
  using profiler::handles_detail::next_turn_of_place;
  using profiler::handles_detail::TurnsOf;
  for (const TurnsOf whose : {TurnsOf::ops, TurnsOf::proxies}) {
    profiler::Turns seldom;
    profiler::Turns busy;
    const uint64_t first = next_turn_of_place(seldom, whose);
    for (int i = 0; i < 100; ++i) next_turn_of_place(busy, whose);
    CHECK(next_turn_of_place(seldom, whose) == first + 1);  // it goes on with its block
    uint64_t newest = 0;
    for (uint64_t i = 0; i < profiler::kProxyPlaces; ++i) newest = next_turn_of_place(busy, whose);
    CHECK(next_turn_of_place(seldom, whose) > newest);
  }
}

TEST_CASE("a call that has not returned stays so, however many others come after it") {
  for (const int depth : {1, 2}) {
    const auto ring = after_many_others(depth, [](Nccl<6>&, void*, void*) {});
    CHECK(ring.in_flight == static_cast<uint64_t>(depth));  // it, and the end of the user's group
    CHECK(ring.stats.plugin_recycled == 0);
    CHECK(ring.stats.plugin_full == 0);
  }
}

TEST_CASE("a call that returns after many others is on record as returned") {
  for (const int depth : {1, 2}) {
    const auto ring = after_many_others(depth, [](Nccl<6>& nccl, void* call, void* group) {
      nccl.stop(call);
      nccl.stop(group);
    });
    CHECK(ring.in_flight == 0);
    CHECK(ring.stats.plugin_stale == 0);
  }
}

TEST_CASE("a group that was left without an end has ended when its thread begins the next one") {
  const auto ring = record_and_read([] {
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    void* left = nccl.start_group_api(comm, 2);
    nccl.start_call(comm, {}, left);
    nccl.record(left, profiler::kGroupEndApiStart);
    nccl.start_group_api(comm, 1);
    nccl.stop(left);
    nccl.start_call(comm, {}, left);
  });
  CHECK(ring.ops.size() == 3);
  CHECK(ring.in_flight == 1);           // the last one, which is in no group
  CHECK(ring.stats.plugin_stale == 2);  // its stop, and its name as a parent
}

TEST_CASE("a group is none to another thread") {
  const auto ring = record_and_read([] {
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    void* group = nccl.start_group_api(comm, 1);
    void* call = nccl.start_call(comm, {}, group);
    nccl.stop(call);
    std::thread([&] { nccl.stop(group); }).join();
    nccl.stop(group);
    nccl.stop(group);
  });
  CHECK(ring.in_flight == 0);
  CHECK(ring.stats.plugin_stale == 1);
  CHECK(ring.stats.plugin_stopped_twice == 1);
}

TEST_CASE("where no place is left among calls that have not returned, the next one has none") {
  const auto ring = record_and_read([] {
    setenv("ROLLCALL_RING_SLOTS", "32768", 1);
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    uint64_t refused = 0;
    for (uint64_t i = 0; i < profiler::kOpPlaces + 100; ++i) {
      const void* handle = nccl.start_call(comm, {}, nullptr);
      refused += profiler::handle_kind(handle) == profiler::HandleKind::dropped_call;
    }
    CHILD_REQUIRE(refused == 100);
  });
  CHECK(ring.stats.plugin_full == 100);
  CHECK(ring.stats.dropped_pinned == 100);
  CHECK(ring.in_flight == profiler::kOpPlaces);
}

TEST_CASE("a call without a place keeps its position among the others") {
  for (const uint32_t type : {profiler::kCollApi, profiler::kColl}) {
    const auto ring = record_and_read([type] {
      setenv("ROLLCALL_RING_SLOTS", "32768", 1);
      Nccl<6> nccl;
      const Comm comm = nccl.init(1, 0, 2);
      const auto start = [&] {
        return type == profiler::kColl ? nccl.start_operation(comm, {}, nullptr, nullptr)
                                       : nccl.start_call(comm, {}, nullptr);
      };
      std::vector<void*> handles;
      for (uint64_t i = 0; i < profiler::kOpPlaces; ++i) handles.push_back(start());
      // Its operation, its copies and its end are heard of too, and are no calls of their own.
      void* dropped = start();
      CHILD_REQUIRE((dropped == nullptr) == (type == profiler::kColl));
      if (dropped != nullptr) {
        CHILD_REQUIRE(nccl.start_operation(comm, {}, dropped, nullptr) == nullptr);
        nccl.record(dropped, 0);
        nccl.stop(dropped);
      }
      for (void* handle : handles) nccl.stop(handle);
      nccl.stop(start());
    });
    CHECK(ring.stats.dropped_pinned == 1);
    CHECK(ring.stats.plugin_stale == 0);
    CHECK(ring.ops.size() == profiler::kOpPlaces + 1);
    CHECK(ring.ops.rbegin()->second.seq == profiler::kOpPlaces + 1);
    CHECK(ring.comms.at(0).collectives == profiler::kOpPlaces + 2);
  }
}

TEST_CASE("a proxy operation of another process is not touched") {
  const auto ring = record_and_read([] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "proxy", 1);
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    // Context and parent are addresses of that process.
    const Comm foreign{.context = reinterpret_cast<void*>(uintptr_t{0x7fff12345678})};
    void* parent = reinterpret_cast<void*>(uintptr_t{0x7fff87654321});
    void* op = nccl.start_proxy_op(foreign, parent, 0, 1, true, getpid() + 1);
    CHILD_REQUIRE(op == nullptr);
    CHILD_REQUIRE(nccl.start_proxy_step(foreign, op, 0) == nullptr);
    nccl.call(comm, {});
  });
  CHECK(ring.stats.plugin_foreign == 1);
  CHECK(ring.ops.size() == 1);
}

TEST_CASE("every start writes the handle, also for types that nobody knows") {
  const auto ring = record_and_read([] {
    Nccl<7> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    for (const uint64_t type :
         {uint64_t{0}, uint64_t{profiler::kProxyCtrl}, uint64_t{profiler::kKernelPhase},
          uint64_t{1} << 16, uint64_t{1} << 40, ~uint64_t{0}}) {
      auto descriptor = Nccl<7>::blank(0);
      descriptor.type = type;
      CHILD_REQUIRE(nccl.start(comm, descriptor) == nullptr);
    }
    CHILD_REQUIRE(nccl.plugin->start_event(comm.context, nullptr, nullptr) == 0);
  });
  CHECK(ring.stats.plugin_unwanted == 6);
}

TEST_CASE("communicators come and go from several threads, with more of them than there is room") {
  const auto ring = record_and_read([] {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([thread] {
        Nccl<6> nccl;
        for (uint64_t i = 0; i < 600; ++i) {
          const Comm comm = nccl.init(i, thread, 4);
          CHILD_REQUIRE(comm.context != nullptr);
          nccl.call(comm, {});
          nccl.finalize(comm);
          nccl.finalize(comm);  // once too often
          nccl.call(comm, {});  // and used afterwards
        }
        nccl.init(1, thread, 4);  // never finalized
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  CHECK(ring.comms.size() == kCommsMax);
  CHECK(ring.stats.comm_table_full >= 4 * 601 - kCommsMax);
  CHECK(ring.in_flight == 0);
}

// One communicator's events on the threads on which NCCL brings them.
TEST_CASE("calls, network threads and the profiler thread bring events at the same time") {
  const auto ring = record_and_read([] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "all,phases", 1);
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    Nccl<7> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    constexpr uint64_t kCalls = 3000;
    std::atomic<void*> handles[kCalls] = {};
    const auto network = [&](bool is_send) {
      for (auto& slot : handles) {
        while (slot.load() == nullptr) std::this_thread::yield();
        void* op = nccl.start_proxy_op(comm, slot.load(), 0, 1, is_send);
        void* step = nccl.start_proxy_step(comm, op, 0);
        nccl.record(step, is_send ? profiler::kProxyStepSendWait : profiler::kProxyStepRecvWait, 8);
        nccl.stop(step);
        nccl.stop(op);
      }
    };
    const auto kernels = [&] {
      for (auto& slot : handles) {
        while (slot.load() == nullptr) std::this_thread::yield();
        const uint64_t now_ns = monotonic_now_ns();
        for (const uint8_t channel : {0, 1}) {
          void* kernel = nccl.start_kernel(comm, slot.load(), channel, now_ns);
          void* phase = nccl.start_phase(comm, kernel, channel, 1, now_ns);
          nccl.record(phase, profiler::kKernelPhaseStop, now_ns + 4);
          nccl.stop(phase);
          nccl.record(kernel, profiler::kKernelChStop, now_ns + 5);
          nccl.stop(kernel);
        }
      }
    };
    std::thread threads[] = {std::thread(network, true), std::thread(network, false),
                             std::thread(kernels)};
    for (auto& slot : handles) slot.store(nccl.call(comm, {}).handle);
    for (std::thread& thread : threads) thread.join();
  });
  CHECK(ring.in_flight == 0);
  CHECK(ring.comms[0].collectives == 3000);
  // Where the launches are 64 kernels ahead of the reports, times are not used.
  CHECK(ring.comms[0].phased_operations >= 1);
  CHECK(ring.comms[0].phase_ns[1] == ring.comms[0].phased_operations * 4);
  CHECK(ring.stats.checks_failed == 0);
}

// Looks often before it lets others run, so that two threads meet within nanoseconds of each other.
template <class Condition>
void spin_until(Condition condition) {
  for (unsigned looks = 1; !condition(); ++looks) {
    if (looks % 4096 == 0) std::this_thread::yield();
  }
}

// As with a non-blocking communicator, or NCCL's callback on a stream.
TEST_CASE("an operation that another thread brings while its group ends is settled") {
  const auto ring = record_and_read([] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "kernelch", 1);
    setenv("ROLLCALL_RING_SLOTS", "32768", 1);
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    constexpr uint64_t kCalls = 20'000;
    std::atomic<void*> next{nullptr};
    std::atomic<uint64_t> launched{0};
    std::thread launcher([&] {
      for (uint64_t i = 1; i <= kCalls; ++i) {
        void* call = nullptr;
        spin_until([&] { return (call = next.exchange(nullptr)) != nullptr; });
        void* operation = nccl.start_operation(comm, {}, call, nullptr, 1);
        nccl.stop(operation);
        void* kernel = nccl.start_kernel(comm, operation, 0, 10 * i);
        nccl.record(kernel, profiler::kKernelChStop, 10 * i + 5);
        nccl.stop(kernel);
        launched.store(i);
      }
    });
    for (uint64_t i = 1; i <= kCalls; ++i) {
      void* group = nccl.start_group_api(comm, 1);
      void* call = nccl.start_call(comm, {}, group);
      CHILD_REQUIRE(call != nullptr);
      nccl.stop(call);
      next.store(call);
      // So that the two meet at different places.
      for (uint64_t turn = 0; turn < i % 128; ++turn) asm volatile("" ::: "memory");
      nccl.stop(group);
      spin_until([&] { return launched.load() == i; });
    }
    launcher.join();
    nccl.finalize(comm);
  });
  CHECK(ring.in_flight == 0);
  CHECK(ring.stats.plugin_full == 0);
  CHECK(ring.stats.plugin_recycled == 0);
}

TEST_CASE("an operation of a forked child is not written into the parent's file") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    void* group = nccl.start_group_api(comm, 1);
    void* call = nccl.start_call(comm, {}, group);
    const int status = in_own_process(getenv("ROLLCALL_DIR"), [&] {
      nccl.stop(call);
      nccl.stop(group);
      Nccl<6> own;
      own.call(own.init(2, 0, 2), {});
    });
    CHILD_REQUIRE(ended_well(status));
  })));
  REQUIRE(directory.files(".ring").size() == 2);
  for (const std::string& path : directory.files(".ring")) {
    const auto ring = test::read_ring(path);
    CHECK(ring.ops.size() == 1);
    CHECK(ring.comms.size() == 1);
  }
}

// The system call that a thread of this process is in; -1 where it is in none.
long call_of(const std::atomic<long>& thread) {
  long call = -1;
  std::ifstream("/proc/self/task/" + std::to_string(thread.load()) + "/syscall") >> call;
  return call;
}

// Threads that hang, and hence are never joined.
TEST_CASE("a child that is forked while others are in the plugin's init comes through its own") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    int loading[2];
    CHILD_REQUIRE(pipe(loading) == 0);
    setenv("ROLLCALL_PLUGIN_CHAIN", ROLLCALL_COUNTING_PLUGIN, 1);
    setenv("COUNTING_PLUGIN_HANGS", std::to_string(loading[1]).c_str(), 1);
    std::thread([] { Nccl<6>().init(1, 0, 2); }).detach();
    char byte = 1;
    CHILD_REQUIRE(read(loading[0], &byte, 1) == 1);
    const capture::ColdLock held;
    static std::atomic<long> opening{0};
    std::thread([] {
      opening = syscall(SYS_gettid);
      Nccl<6>().init(2, 0, 2);
    }).detach();
    CHILD_REQUIRE(test::wait_for([] { return call_of(opening) == SYS_futex; }));
    const int status = in_own_process(getenv("ROLLCALL_DIR"), [] {
      alarm(60);  // it hangs
      Nccl<6> nccl;
      nccl.call(nccl.init(3, 0, 2), {});
      CHILD_REQUIRE(capture::enabled());
    });
    CHILD_REQUIRE(ended_well(status));
    _exit(0);
  })));
  CHECK(directory.files(".ring").size() == 2);
}

TEST_CASE("the sets of events are what their names say; what is not understood is left out") {
  uint32_t mask = 0;
  CHECK(profiler::parse_events("default", mask));
  CHECK(mask == profiler::default_events());
  CHECK((mask & profiler::kKernelCh) == 0);
  CHECK(profiler::parse_events("KernelCh,proxy", mask));
  CHECK(mask == (profiler::default_events() | profiler::kKernelCh | profiler::kProxyOp |
                 profiler::kProxyStep));
  CHECK(profiler::parse_events("all", mask));
  CHECK((mask & profiler::kKernelPhase) == 0);
  CHECK(profiler::parse_events("phases", mask));
  CHECK(mask == (profiler::default_events() | profiler::kKernelCh | profiler::kKernelPhase));
  CHECK(profiler::parse_events("group,coll", mask));
  CHECK(mask == 3);
  CHECK(profiler::parse_events("0x47", mask));
  CHECK(mask == 0x47);
  CHECK(profiler::parse_events("2048", mask));
  CHECK(mask == profiler::kKernelLaunch);
  CHECK_FALSE(profiler::parse_events("coll,everything", mask));
  CHECK(mask == profiler::kColl);
  CHECK_FALSE(profiler::parse_events("65536", mask));
  CHECK_FALSE(profiler::parse_events("-1", mask));
}

TEST_CASE("where recording is switched off NCCL is asked for nothing") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_ENABLE", "0", 1);
    Nccl<7> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    CHILD_REQUIRE(nccl.mask == 0);
    CHILD_REQUIRE(comm.context != nullptr);
    nccl.mask = static_cast<int>(profiler::kAllEvents);  // and somebody else turns it on
    nccl.call(comm, {});
    nccl.finalize(comm);
  })));
  CHECK(directory.files(".ring").empty());
}

// --- at random ----------------------------------------------------------------------------------

template <unsigned kVersion>
void drive_at_random(uint64_t seed) {
  std::mt19937_64 random(seed);
  Nccl<kVersion> nccl;
  std::vector<void*> handles = {nullptr};
  std::vector<Comm> comms;
  const auto any = [&](auto& from) { return from[random() % from.size()]; };
  const char* const funcs[] = {"AllReduce", "Send", "Recv", "AlltoAll", "Invalid", "Broadcast"};
  for (int i = 0; i < 400; ++i) {
    if (comms.empty() || random() % 40 == 0) comms.push_back(nccl.init(random() % 4, 0, 4));
    const Comm comm = any(comms);
    void* parent = random() % 8 == 0 ? reinterpret_cast<void*>(random()) : any(handles);
    const mini::Op op{.func = funcs[random() % 6],
                      .count = random(),
                      .peer = static_cast<int>(random() % 6) - 1,
                      .user_tag = random() % 3};
    const auto channel = static_cast<uint8_t>(random());
    switch (random() % (kVersion >= 7 ? 11 : 10)) {
      case 0:
        handles.push_back(nccl.start_group_api(comm, static_cast<int>(random() % 3)));
        break;
      case 1:
        handles.push_back(nccl.start_call(comm, op, parent));
        break;
      case 2:
        handles.push_back(nccl.start_operation(comm, op, parent, any(handles), channel));
        break;
      case 3:
        handles.push_back(nccl.start_kernel(comm, parent, channel, random() % 1000));
        break;
      case 4:
        handles.push_back(nccl.start_proxy_op(comm, parent, channel, static_cast<int>(random() % 9),
                                              random() % 2 == 0, random() % 5 == 0 ? 1 : getpid()));
        break;
      case 5:
        handles.push_back(nccl.start_proxy_step(comm, parent, static_cast<int>(random())));
        break;
      case 6:
      case 7:
        nccl.plugin->stop_event(parent);
        break;
      case 8:
        nccl.record(parent, static_cast<int>(random() % 35), random(), random() % 2 == 0);
        break;
      case 10:
        if constexpr (kVersion >= 7) {
          handles.push_back(nccl.start_phase(comm, parent, channel,
                                             static_cast<uint8_t>(random() % 5), random() % 1000));
        }
        break;
      default:
        if (random() % 10 == 0) nccl.finalize(comm);
        nccl.call(comm, op);
    }
    if (handles.size() > 64) handles.erase(handles.begin(), handles.begin() + 32);
  }
}

TEST_CASE("random events, legal and not, of all versions leave a file that can be read") {
  const auto ring = record_and_read([] {
    setenv("ROLLCALL_PLUGIN_EVENTS", "all,phases", 1);
    setenv("ROLLCALL_RING_SLOTS", "16384", 1);
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      drive_at_random<1>(seed);
      drive_at_random<2>(seed);
      drive_at_random<3>(seed);
      drive_at_random<4>(seed);
      drive_at_random<5>(seed);
      drive_at_random<6>(seed);
      drive_at_random<7>(seed);
    }
  });
  CHECK(ring.hostile == 0);
  CHECK(ring.torn == 0);
  CHECK(ring.stats.checks_failed == 0);
  CHECK(ring.ops.size() > 1000);
}

}  // namespace handles_test
}  // namespace rollcall
