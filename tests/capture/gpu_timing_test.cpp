// The recorder and a driver: one that is not there, lacks a function, or does not answer.
#include <cstring>
#include <map>

#include "core/base/clock.h"
#include "core/capture/live.h"
#include "core/gpu/common_sample.h"
#include "tests/capture/fake_gpu.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"
#include "tests/file_bytes.h"

namespace rollcall {
namespace gpu_timing_test {

using test::all_reduce;
using test::ended_well;
using test::FakeGpu;
using test::in_own_process;
using test::RingContents;
using test::TemporaryDirectory;

char comm;
const char* missing = nullptr;  // a function that the driver does not have
std::atomic<bool> driver_hangs{false};
std::atomic<unsigned> hanging{0};  // calls that the driver has not answered

int query_event(gpu::Event event) {
  ++hanging;
  while (driver_hangs.load()) poll(nullptr, 0, 1);
  --hanging;
  return test::fake_driver::event_query(event);
}

constexpr uint64_t kSlowRecordNs = 10'000;
bool driver_is_slow = false;

int record_slowly(gpu::Event event, gpu::Stream stream) {
  const uint64_t end_ns = monotonic_now_ns() + kSlowRecordNs;
  while (monotonic_now_ns() < end_ns) continue;
  return test::fake_driver::event_record(event, stream);
}

// `dlsym` in the driver.
void* find_function(const char* wanted) {
  if (driver_is_slow && strcmp(wanted, "cuEventRecord") == 0) {
    return reinterpret_cast<void*>(record_slowly);
  }
  if (missing != nullptr && strcmp(wanted, missing) == 0) return nullptr;
  if (strcmp(wanted, "cuEventQuery") == 0) return reinterpret_cast<void*>(query_event);
  return test::find_in_fake_driver(wanted);
}
void* find_nothing(const char*) { return nullptr; }

void record(int calls, gpu::Stream stream = nullptr) {
  for (int n = 0; n < calls; ++n) {
    capture::OpCall call = all_reduce(&comm, static_cast<uint64_t>(n));
    call.stream = stream;
    capture::end_op(capture::begin_op(call), 0);
  }
}

// In a child: the recorder with this driver, and a stream of it that does nothing by itself.
gpu::Stream begin_with(gpu::SymbolLookup lookup) {
  setenv("ROLLCALL_GPU_TIMING", "events", 1);
  FakeGpu::reset();
  // Behind the recorder's own handler, which comes first: the driver stays, and so does a thread
  // that hangs in it.
  atexit([] { _exit(0); });
  capture::set_gpu_symbols(lookup);
  alarm(60);  // what hangs for good is ended
  return FakeGpu::get().make_stream(1);
}

bool has_line(const RingContents& ring, const std::string& line) {
  return ("\n" + ring.meta).find("\n" + line + "\n") != std::string::npos;
}

void expect_host_times_only(const RingContents& ring, size_t calls) {
  CHECK(ring.ops.size() == calls);
  for (const auto& [ticket, op] : ring.ops) {
    CHECK(op.returned_ticks >= op.called_ticks);
    CHECK(op.started_ticks == 0);
    CHECK(op.finished_ticks == 0);
    CHECK(static_cast<Phase>(phase_number_of(op.publish)) == Phase::settled);
  }
}

RingContents record_with(gpu::SymbolLookup lookup, int calls) {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [&] {
    const gpu::Stream stream = begin_with(lookup);
    test::open_test_comm(&comm);
    record(calls, stream);
    capture::flush_at_exit();
  })));
  return test::read_ring(directory.files(".ring").at(0));
}

TEST_CASE("without a CUDA driver calls have host times only, and the meta says why") {
  for (const int calls : {3, 200}) {  // it is looked for 64 times
    const RingContents ring = record_with(find_nothing, calls);
    expect_host_times_only(ring, static_cast<size_t>(calls));
    CHECK(has_line(ring, "gpu_timing=off (no CUDA driver)"));
    CHECK(ring.stats.gpu_untimed == 0);
  }
}

TEST_CASE("of a driver without a needed function the meta names the function") {
  missing = "cuEventElapsedTime";
  const RingContents ring = record_with(find_function, 100);
  missing = nullptr;
  expect_host_times_only(ring, 100);
  CHECK(has_line(ring, "gpu_timing=off (the CUDA driver has no cuEventElapsedTime)"));
}

// As both sides of a transfer, and all ranks of a collective, know it: the test's own account.
uint64_t hash_of(const OpRecord& op, const CommEntry& entry) {
  gpu::CallPlace place{.seq = op.seq};
  if (op.kind == OpKind::Send) place = {op.seq, entry.rank, op.root_or_peer};
  if (op.kind == OpKind::Recv) place = {op.seq, op.root_or_peer, entry.rank};
  return gpu::sample_hash(entry.key, place);
}

TEST_CASE("which calls a thread beyond its budget has timed is told by their places alone") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [&] {
    setenv("ROLLCALL_OVERHEAD_BUDGET", "20", 1);
    driver_is_slow = true;
    begin_with(find_function);
    const gpu::Stream stream = FakeGpu::get().make_stream(1, true);
    test::open_test_comm(&comm);
    constexpr OpKind kKinds[] = {OpKind::AllReduce, OpKind::Send, OpKind::Recv};
    for (uint64_t n = 0; n < 6'000; ++n) {
      capture::OpCall call = all_reduce(&comm, n);
      call.kind = kKinds[n % 3];
      if (call.kind != OpKind::AllReduce) call.root_or_peer = 1;
      call.stream = stream;
      capture::end_op(capture::begin_op(call), 0);
    }
    capture::flush_at_exit();
  })));
  const RingContents ring = test::read_ring(directory.files(".ring").at(0));
  std::map<OpKind, unsigned> timed;
  uint64_t number = 0;
  for (const auto& [ticket, op] : ring.ops) {
    constexpr uint64_t kUntilSampling = 256;  // the first marks show what the thread can afford
    const bool is_timed = (op.flags & kOpGpuTimesUnknown) == 0;
    if (++number <= kUntilSampling || !is_timed) continue;
    CHECK(gpu::is_in_sample(hash_of(op, ring.comms.at(0)), 1));
    ++timed[op.kind];
  }
  CHECK(ring.ops.size() == 6'000);
  CHECK(ring.stats.gpu_sampled_out > 3'000);
  for (const OpKind kind : {OpKind::AllReduce, OpKind::Send, OpKind::Recv}) CHECK(timed[kind] > 0);
}

TEST_CASE("without a thread to poll with calls have host times only, and the meta says why") {
  const TemporaryDirectory directory;
  const int status = in_own_process(directory.path(), [&] {
    const gpu::Stream stream = begin_with(find_function);
    test::open_test_comm(&comm);  // the flusher has its thread
    if (!test::forbid_threads(directory.path())) _exit(77);
    record(3, stream);
    capture::flush_at_exit();
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    WARN("skipped: needs a user that is not root, or a root that may change its user");
    return;
  }
  REQUIRE(ended_well(status));
  const RingContents ring = test::read_ring(directory.files(".ring").at(0));
  expect_host_times_only(ring, 3);
  CHECK(has_line(ring, "gpu_timing=off (no memory or thread)"));
}

// NCCL_COMM_BLOCKING makes communicators that have no config come back early, too.
TEST_CASE("calls that come back early are timed on every communicator that may not block") {
  struct Kind {
    CommOrigin origin;
    bool non_blocking;
    bool may_come_back_early;
  };
  for (const Kind kind :
       {Kind{CommOrigin::init, true, true}, Kind{CommOrigin::init, false, false},
        Kind{CommOrigin::init_all, false, true}, Kind{CommOrigin::unknown, false, true}}) {
    const TemporaryDirectory directory;
    REQUIRE(ended_well(in_own_process(directory.path(), [&] {
      setenv("ROLLCALL_OVERHEAD_BUDGET", "100", 1);
      const gpu::Stream stream = begin_with(find_function);
      capture::CommOpening opening;
      opening.origin = kind.origin;
      opening.key = {0xabc, 1};
      opening.nranks = 8;
      opening.rank = 0;
      opening.non_blocking = kind.non_blocking;
      const uint32_t index = capture::open_comm(opening);
      capture::bind_comm(index, &comm);
      capture::OpCall call = all_reduce(&comm, 8);
      call.stream = stream;
      capture::end_op(capture::begin_op(call), 7);  // ncclInProgress
      capture::calls_settled(capture::before_asking(index), index, true);
      capture::flush_at_exit();
    })));
    const RingContents ring = test::read_ring(directory.files(".ring").at(0));
    REQUIRE(ring.ops.size() == 1);
    CHECK((ring.ops.rbegin()->second.launched_ticks != 0) == kind.may_come_back_early);
  }
}

TEST_CASE("of a driver that is there the meta says nothing but how it times") {
  CHECK(has_line(record_with(find_function, 1), "gpu_timing=events"));
  CHECK(record_with(find_function, 0).meta.find("gpu_timing") == std::string::npos);
}

TEST_CASE("the first call that the driver refused is in the meta, with its answer") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    const gpu::Stream stream = begin_with(find_function);
    FakeGpu::get().sticky_error = 700;
    record(1, stream);
    exit(0);  // the poller's last round writes it
  })));
  const RingContents ring = test::read_ring(directory.files(".ring").at(0));
  CHECK(has_line(ring, "gpu_fault=cuEventRecord answered 700"));
  CHECK(ring.stats.gpu_untimed == 1);
}

// What a process says on stderr that has captured one operation into `marked`, when the driver
// makes no executable of these graphs.
std::string said_of_refused(void* marked, std::initializer_list<void*> refused) {
  const TemporaryDirectory directory;
  const std::string said = directory.path() + "/stderr";
  REQUIRE(ended_well(in_own_process(directory.path(), [&] {
    setenv("ROLLCALL_VERBOSE", "1", 1);
    const int file = open(said.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHILD_REQUIRE(dup2(file, STDERR_FILENO) == STDERR_FILENO);
    const gpu::Stream stream = begin_with(find_function);
    FakeGpu::get().at(stream).capture = 7;
    FakeGpu::get().graph = marked;
    record(1, stream);
    for (void* graph : refused) capture::graph_refused(graph, 1);
  })));
  return test::file_bytes(said);
}

TEST_CASE("a graph that holds marks and is refused is told of once, and one without is not") {
  void* const marked = reinterpret_cast<void*>(uintptr_t{0x70});
  void* const other = reinterpret_cast<void*>(uintptr_t{0x71});
  CHECK(said_of_refused(marked, {other}).empty());
  const std::string text = said_of_refused(marked, {marked, marked});
  INFO(text);
  const size_t at = text.find("no executable of a graph that holds Rollcall's marks (error 1)");
  REQUIRE(at != std::string::npos);
  CHECK(text.find("ROLLCALL_GRAPH_MARKS=0") != std::string::npos);
  CHECK(text.find("no executable", at + 1) == std::string::npos);
}

TEST_CASE("captures that have numbers keep them, whatever else is said of a call") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    const gpu::Stream stream = begin_with(find_function);
    test::open_test_comm(&comm);
    for (const uint64_t identity : {12, 0}) {
      FakeGpu::get().at(stream).capture = identity;
      capture::OpCall call = all_reduce(&comm, 1);
      call.stream = stream;
      const capture::OpToken token = capture::begin_op(call);
      capture::note_captured(token);
      capture::end_op(token, 0);
    }
    capture::flush_at_exit();
  })));
  const RingContents ring = test::read_ring(directory.files(".ring").at(0));
  CHECK(ring.ops.at(1).graph == 12);
  CHECK(ring.ops.at(2).graph == 0);
}

TEST_CASE("while the driver is stuck the flusher goes on, and operations stay without GPU times") {
  const TemporaryDirectory directory;
  REQUIRE(ended_well(in_own_process(directory.path(), [] {
    setenv("ROLLCALL_RING_SLOTS", "1024", 1);
    const gpu::Stream stream = begin_with(find_function);
    driver_hangs = true;
    record(3, stream);
    CHILD_REQUIRE(test::wait_for([] { return hanging.load() == 1; }));
    for (int beats = 0; beats < 3; ++beats) {
      const uint64_t heartbeat = load_acquire(capture::live.header->heartbeat_ticks);
      CHILD_REQUIRE(test::wait_for(
          [&] { return load_acquire(capture::live.header->heartbeat_ticks) != heartbeat; }));
    }
    FakeGpu::get().reach_all(stream, 1);  // nobody can be told of it
    CHILD_REQUIRE(hanging.load() == 1);
  })));
  const RingContents ring = test::read_ring(directory.files(".ring").at(0));
  CHECK(ring.ops.size() == 3);
  CHECK(ring.in_flight == 3);
  CHECK(ring.stats.gpu_untimed == 0);
  for (const auto& [ticket, op] : ring.ops) {
    CHECK(op.returned_ticks >= op.called_ticks);
    CHECK(op.finished_ticks == 0);
    CHECK(static_cast<Phase>(phase_number_of(op.publish)) == Phase::gpu_pending);
  }
}

// The wait status of a process that calls exit() with two operations in flight, and its record.
struct Exit {
  int status = 0;
  double seconds = 0;
  RingContents ring;
};
Exit exit_with(const std::function<void(gpu::Stream)>& before) {
  const TemporaryDirectory directory;
  Exit outcome;
  int times[2];
  REQUIRE(pipe(times) == 0);
  outcome.status = in_own_process(directory.path(), [&] {
    const gpu::Stream stream = begin_with(find_function);
    record(2, stream);
    before(stream);
    const uint64_t now_ns = monotonic_now_ns();
    CHILD_REQUIRE(write(times[1], &now_ns, sizeof(now_ns)) == sizeof(now_ns));
    exit(0);
  });
  uint64_t began_ns = 0;
  REQUIRE(read(times[0], &began_ns, sizeof(began_ns)) == sizeof(began_ns));
  outcome.seconds = static_cast<double>(monotonic_now_ns() - began_ns) / 1e9;
  close(times[0]);
  close(times[1]);
  outcome.ring = test::read_ring(directory.files(".ring").at(0));
  return outcome;
}

void expect_awaited(const Exit& outcome) {
  CHECK(ended_well(outcome.status));
  CHECK(outcome.ring.ops.size() == 2);
  CHECK(outcome.ring.in_flight == 2);
  CHECK(outcome.ring.stats.gpu_untimed == 0);
  for (const auto& [ticket, op] : outcome.ring.ops) CHECK(op.finished_ticks == 0);
}

TEST_CASE("at the exit operations in flight stay awaited, and what is through is looked at") {
  const Exit pending = exit_with([](gpu::Stream) {});
  expect_awaited(pending);
  CHECK(pending.seconds < 2);
  const Exit done = exit_with([](gpu::Stream stream) {
    FakeGpu::get().reach_all(stream, FakeGpu::get().gpu_ns_at(monotonic_now_ns()));
  });
  CHECK(ended_well(done.status));
  CHECK(done.ring.in_flight == 0);
  for (const auto& [ticket, op] : done.ring.ops) CHECK(op.finished_ticks != 0);
}

TEST_CASE("a driver that does not answer delays the exit by two seconds, whenever it got stuck") {
  const Exit before = exit_with([](gpu::Stream) {
    driver_hangs = true;
    CHILD_REQUIRE(test::wait_for([] { return hanging.load() == 1; }));
  });
  expect_awaited(before);
  CHECK(before.seconds >= 2);
  CHECK(before.seconds < 20);
  // At the last look, when nobody had asked it for a while.
  const Exit at_exit = exit_with([](gpu::Stream) {
    CHILD_REQUIRE(test::wait_for([] { return hanging.load() == 0; }));
    driver_hangs = true;
  });
  expect_awaited(at_exit);
  CHECK(at_exit.seconds >= 2);
  CHECK(at_exit.seconds < 20);
}

}  // namespace gpu_timing_test
}  // namespace rollcall
