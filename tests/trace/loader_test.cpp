// Whole directories: merging, mixing, and everything that is not a recording.
#include "trace/loader.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "tests/catch.h"
#include "tests/trace/files.h"
#include "trace/liveness.h"

namespace rollcall::trace {
namespace loader_test {

using test::Directory;
using test::make_channel;
using test::make_op;
using test::make_segment;
using test::RingBytes;

LoadOptions quiet() { return {.probe_processes = false}; }

bool says(const Run& run, const std::string& words) {
  return std::any_of(run.issues.begin(), run.issues.end(), [&](const Issue& issue) {
    return issue.text.find(words) != std::string::npos;
  });
}

TEST_CASE("segments and ring are merged by ticket, and the ring's word counts") {
  Directory directory;
  RingBytes ring;
  for (uint64_t t = 1; t <= 100; ++t) ring.add(make_op(t));
  OpRecord changed = make_op(60);
  changed.count = 4096;
  ring.add(changed);
  directory.write("node0.4711.4d.ring", ring.bytes);
  directory.write("node0.4711.4d.000000.segment", make_segment(ring.header, 4, 20));
  const Run run = load_run(directory.path(), quiet());
  CHECK(run.issues.empty());
  REQUIRE(run.processes.size() == 1);
  const Process& process = run.processes[0];
  REQUIRE(process.ops.size() == 100);
  CHECK(process.ops[0].from_segment == 1);
  CHECK(process.ops[59].count == 4096);
  CHECK(process.ops[59].from_segment == 0);
  CHECK(process.lost == 0);
  CHECK(process.first_complete_ticket == 1);
  CHECK(process.meta.at("exe") == "/bin/t\nest");
}

TEST_CASE("operations of a simulated group are none of the job's, and not lost either") {
  Directory directory;
  RingBytes ring;
  for (uint64_t ticket = 1; ticket <= 4; ++ticket) {
    OpRecord op = make_op(ticket);
    if (ticket == 2 || ticket == 3) op.flags |= kOpSimulated;
    if (ticket == 4) op.seq = 1;
    ring.add(op);
  }
  directory.write("node0.4711.4d.ring", ring.bytes);
  const Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 1);
  REQUIRE(run.processes[0].ops.size() == 2);
  CHECK(run.processes[0].ops[1].ticket == 4);
  CHECK(run.processes[0].lost == 0);
}

TEST_CASE("of a table of graphs all are read that were used, but for one that is being written") {
  Directory directory;
  RingBytes ring;
  ring.add(make_op(1));
  constexpr uint32_t kUsed = 300;  // more than are read at once
  constexpr uint32_t kBeingWritten = 7;
  for (uint32_t i = 0; i < kUsed; ++i) {
    GraphEntry entry{};
    entry.state = i == kBeingWritten ? 0 : 1;
    entry.graph = i + 1;
    ring.put_graph(i, entry);
  }
  directory.write("node0.4711.4d.ring", ring.bytes);
  const Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 1);
  const auto& graphs = run.processes[0].graphs;
  REQUIRE(graphs.size() == kUsed - 1);
  CHECK(graphs.front().graph == 1);
  CHECK(graphs[kBeingWritten].graph == kBeingWritten + 2);
  CHECK(graphs.back().graph == kUsed);
}

TEST_CASE("what NCCL put into a graph is not launched by that, what it handed to a stream is") {
  Directory directory;
  RingBytes ring;
  OpRecord op = make_op(1);
  op.launched_ticks = op.called_ticks;
  ring.add(op);
  op = make_op(2);
  op.launched_ticks = op.called_ticks;
  op.graph = 3;
  ring.add(op);
  op.publish = make_op(3).publish;
  op.kind = OpKind::GraphLaunch;
  ring.add(op);
  directory.write("node0.4711.4d.ring", ring.bytes);
  const Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 1);
  const std::vector<Op>& ops = run.processes[0].ops;
  REQUIRE(ops.size() == 3);
  CHECK(ops[0].state == OpState::launched);
  CHECK(ops[1].state == OpState::returned);
  CHECK(ops[1].launched_ns != 0);
  CHECK(ops[2].state == OpState::launched);
}

// Calls on a non-blocking communicator that came back before NCCL was through with them.
struct EarlyReturns {
  RingBytes ring;
  bool knows_gpu = false;

  void call(uint64_t ticket, uint32_t group = 0, OpKind kind = OpKind::AllReduce) {
    OpRecord op = make_op(ticket, knows_gpu ? Phase::gpu_pending : Phase::settled);
    op.result = kResultInProgress;
    op.group = group;
    op.kind = kind;
    if (kind == OpKind::GroupEnd) op.comm_index = kCommUnknown;
    // The calls of a group come back as if all were well; its end does not.
    if (group != 0 && kind != OpKind::GroupEnd) op.result = kResultSuccess;
    ring.add(op);
  }
  Process load() const {
    Directory directory;
    directory.write("node0.4711.4d.ring", ring.bytes);
    const Run run = load_run(directory.path(), quiet());
    REQUIRE(run.processes.size() == 1);
    return run.processes[0];
  }
};

TEST_CASE("of calls that came back early NCCL is still in the newest one, as long as it says so") {
  for (const bool is_said : {true, false}) {
    EarlyReturns file;
    file.call(1);
    file.call(2);
    if (is_said) file.ring.set_async_state(kResultInProgress);
    const Process process = file.load();
    CHECK(process.ops[0].state == OpState::returned);
    CHECK(process.ops[1].state == (is_said ? OpState::called : OpState::returned));
    CHECK(process.ops[1].returned_ns != 0);
  }
}

TEST_CASE("a call that did not come back early is through, whatever goes on behind it") {
  EarlyReturns file;
  file.ring.add(make_op(1));
  file.ring.set_async_state(kResultInProgress);
  CHECK(file.load().ops[0].state == OpState::returned);
}

TEST_CASE("of a group whose end came back early NCCL is still in every call") {
  EarlyReturns file;
  file.call(1, 4);
  file.call(2, 4, OpKind::GroupEnd);
  file.call(3, 5);
  file.call(4, 5);
  file.call(5, 5, OpKind::GroupEnd);
  file.ring.set_async_state(kResultInProgress);
  const Process process = file.load();
  CHECK(process.ops[0].state == OpState::returned);
  CHECK(process.ops[2].state == OpState::called);
  CHECK(process.ops[3].state == OpState::called);
}

TEST_CASE("where the GPU is watched a call that came back early is inside until it is launched") {
  EarlyReturns file;
  file.knows_gpu = true;
  file.ring.add_meta("gpu_timing=events");
  file.call(1);
  OpRecord launched = make_op(2, Phase::gpu_pending);
  launched.result = kResultInProgress;
  launched.launched_ticks = launched.returned_ticks + 1;
  file.ring.add(launched);
  const Process process = file.load();
  CHECK(process.ops[0].state == OpState::called);
  CHECK(process.ops[1].state == OpState::launched);
}

TEST_CASE("a communicator's end that goes on behind its last call is what NCCL is in") {
  for (const bool is_newer : {true, false}) {
    EarlyReturns file;
    file.call(2);
    EventRecord end{};
    end.publish = publish_word(1, Phase::settled);
    end.called_ticks = is_newer ? 3000 : 1000;
    end.returned_ticks = end.called_ticks + 1;
    end.kind = EventKind::CommFinalize;
    end.result = kResultInProgress;
    file.ring.add(end);
    file.ring.set_async_state(kResultInProgress);
    const Process process = file.load();
    REQUIRE(process.events.size() == 1);
    CHECK(process.events[0].is_inside() == is_newer);
    CHECK(process.ops[0].state == (is_newer ? OpState::returned : OpState::called));
  }
}

TEST_CASE("the sums of channels are in the order of their names, in nanoseconds of the host") {
  RingBytes ring;
  ring.header.clock_kind = ClockKind::tsc;  // two ticks to a nanosecond
  ring.header.first_anchor = {
      .ticks = 1000, .monotonic_ns = 500, .realtime_ns = 1'000'500, .error_ns = 0};
  ring.header.latest_anchor[1] = {
      .ticks = 3000, .monotonic_ns = 1500, .realtime_ns = 1'001'500, .error_ns = 0};
  ring.header.anchor_count = 1;
  ring.store_header();
  ChannelEntry receive = make_channel(9);
  receive.is_send = 0;
  receive.waiting = static_cast<uint8_t>(ChannelWait::none);
  receive.wait_ticks[0] = UINT64_MAX;  // no time at all, and nothing that breaks
  ring.put_channel(0, receive);
  ring.put_channel(7, make_channel(2));
  ring.put_channel(9, make_channel(1));
  Directory directory;
  directory.write("node0.4711.4d.ring", ring.bytes);
  const Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 1);
  const std::vector<NetworkChannel>& channels = run.processes[0].channels;
  REQUIRE(channels.size() == 3);
  CHECK(channels[0].channel == 1);
  CHECK(channels[1].channel == 2);
  const NetworkChannel& send = channels[0];
  CHECK(send.comm == 0);
  CHECK(send.peer == 1);
  CHECK(send.is_send);
  CHECK(send.waiting == ChannelWait::send_peer);
  CHECK(send.waiting_since_ns == 1'002'500);
  CHECK(send.operations_started == 2);
  CHECK(send.operations_done == 1);
  CHECK(send.steps == 3);
  CHECK(send.bytes == 4096);
  CHECK(send.wait_ns[static_cast<size_t>(ChannelWait::send_gpu)] == 300);
  CHECK(send.wait_ns[static_cast<size_t>(ChannelWait::send_network)] == 450);
  CHECK_FALSE(channels[2].is_send);
  CHECK(channels[2].waiting_since_ns == 0);
  CHECK(channels[2].wait_ns[0] == UINT64_MAX / 2);
}

TEST_CASE("records that are nowhere are counted, and the complete part begins behind them") {
  Directory directory;
  RingBytes ring;
  for (uint64_t t = 1; t <= 100; ++t) ring.add(make_op(t));
  directory.write("node0.4711.4d.ring", ring.bytes);
  const Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 1);
  CHECK(run.processes[0].lost == 36);
  CHECK(run.processes[0].first_complete_ticket == 37);
}

// A thread's block that ends in front of `end`.
void draw_on(RingBytes& ring, uint32_t thread, uint32_t end) {
  ring.header.ticket_block = 8;
  ring.header.thread_count = std::max(ring.header.thread_count, thread + 1);
  ring.put(ring.header.threads.offset + thread * sizeof(ThreadEntry),
           ThreadEntry{.tid = thread + 1, .open_block = end, .first_ticks = 1, .name = {}});
}

Process load_ring(const RingBytes& ring) {
  Directory directory;
  directory.write("node0.4711.4d.ring", ring.bytes);
  Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 1);
  return std::move(run.processes[0]);
}

TEST_CASE("tickets that a thread drew and did not spend are not missing, and those before are") {
  RingBytes ring;
  // Blocks of two threads: 1 to 8 and 9 to 16, of which 5 and 10 are lost, 15 and 16 not spent.
  for (uint64_t t = 1; t <= 14; ++t) {
    if (t != 5 && t != 10) ring.add(make_op(t));
  }
  draw_on(ring, 0, 9);
  draw_on(ring, 1, 17);
  ring.header.next_ticket = 17;
  ring.store_header();
  const Process process = load_ring(ring);
  CHECK(process.lost == 2);
  CHECK(process.ops.size() == 12);
  CHECK(process.statistics.at("given_up") == 2);
}

TEST_CASE("a block without a record is not taken for unspent: it may have been overwritten") {
  RingBytes ring;
  for (uint64_t t = 20; t <= 30; ++t) ring.add(make_op(t));
  draw_on(ring, 0, 9);
  ring.store_header();
  CHECK(load_ring(ring).lost == 19);
}

TEST_CASE("the end of a block is known by its low half, and none that lies ahead is believed") {
  for (const auto& [low, lost] : {std::pair{0xfffffff6u, 24u - 6u}, {8u, 24u}, {0x40u, 24u}}) {
    RingBytes ring;
    // 24 tickets around 2^32 have no record; a block ends in front of it, or none does.
    const uint64_t newest = (uint64_t{1} << 32) - 17;
    for (uint64_t t = newest - 40; t <= newest; ++t) ring.add(make_op(t));
    draw_on(ring, 0, low);
    ring.header.next_ticket = newest + 25;
    ring.store_header();
    SelfStatistics statistics{};
    statistics.stepped_over = newest - 41;
    ring.put(ring.header.stats.offset, statistics);
    INFO(low);
    CHECK(load_ring(ring).lost == lost);
  }
}

TEST_CASE("many tickets given up here and there do not hide a long loss") {
  RingBytes ring;
  for (uint64_t t = 1; t <= 60; ++t) {
    if (t > 20 && t < 30) continue;    // lost
    if (t == 40 || t == 41) continue;  // given up
    ring.add(make_op(t));
  }
  draw_on(ring, 0, 0);
  ring.store_header();
  SelfStatistics statistics{};
  statistics.given_up = 10;
  ring.put(ring.header.stats.offset, statistics);
  CHECK(load_ring(ring).lost == 1);
  CHECK(load_ring(ring).first_complete_ticket == 30);
}

TEST_CASE("where tickets were drawn in blocks, operations stand in the order they were called") {
  RingBytes ring;
  CommEntry second{};
  std::memcpy(&second, ring.bytes.data() + ring.header.comms.offset, sizeof second);
  second.key = {3, 4};
  ring.put(ring.header.comms.offset + sizeof second, second);
  ring.header.comm_count = 2;
  // Two threads, each on its communicator; ticket 2 was drawn early and spent last.
  for (uint64_t ticket = 1; ticket <= 5; ++ticket) {
    OpRecord op = make_op(ticket);
    op.comm_index = op.thread_index = ticket == 2 || ticket == 5 ? 1 : 0;
    if (ticket == 2) op.called_ticks = 3500;
    if (ticket == 5) op.called_ticks = 100;  // not before 2: a clock that went back
    ring.add(op);
  }
  const auto tickets = [&] {
    std::vector<uint64_t> order;
    for (const Op& op : load_ring(ring).ops) order.push_back(op.ticket);
    return order;
  };
  CHECK(tickets() == std::vector<uint64_t>{1, 2, 3, 4, 5});
  draw_on(ring, 1, 0);
  for (const uint32_t ticket_block : {8u, 64u, 1u << 30}) {
    ring.header.ticket_block = ticket_block;
    ring.store_header();
    CHECK(tickets() == std::vector<uint64_t>{1, 3, 2, 5, 4});
  }
}

TEST_CASE("a window keeps the newest operations, and those in flight") {
  Directory directory;
  RingBytes ring;
  ring.add(make_op(1, Phase::called));
  for (uint64_t t = 2; t <= 60; ++t) ring.add(make_op(t));
  directory.write("node0.4711.4d.ring", ring.bytes);
  LoadOptions options = quiet();
  options.window = 10;
  const Run run = load_run(directory.path(), options);
  REQUIRE(run.processes.size() == 1);
  REQUIRE(run.processes[0].ops.size() == 11);
  CHECK(run.processes[0].ops[0].ticket == 1);
  CHECK(run.processes[0].ops[1].ticket == 51);
}

// Ranks that made the same 2,000 calls.
Run load_alike(uint32_t ranks, const LoadOptions& options) {
  const Directory directory;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const test::RankFiles files = test::make_rank(rank, 2000);
    directory.write(files.ring_name, files.ring);
    directory.write(files.segment_name, files.segment);
  }
  Run run = load_run(directory.path(), options);
  REQUIRE(run.processes.size() == ranks);
  return run;
}

TEST_CASE("what lies in front of a window is not lost") {
  LoadOptions options = quiet();
  options.window = 10;
  const Run run = load_alike(1, options);
  CHECK(run.processes[0].ops.size() == 10);
  CHECK(run.processes[0].lost == 0);
  CHECK(run.processes[0].skipped == 1990);
}

TEST_CASE("the newest digests of a communicator's calls come with it, whatever else is read") {
  LoadOptions options = quiet();
  options.window = 10;
  const Run run = load_alike(1, options);
  const std::vector<PrefixDigest>& digests = run.processes[0].comms[0].digests;
  REQUIRE(digests.size() == 8);
  CHECK(digests.front().seq == 1024);
  CHECK(digests.back().seq == 1920);
}

TEST_CASE("of a large run the digest at the last call comes with what is held") {
  LoadOptions options = quiet();
  options.records_max = 200;
  const Run run = load_alike(2, options);
  CHECK(run.processes[0].skipped != 0);
  REQUIRE(run.processes[0].comms[0].digests.size() == 8);
  const PrefixDigest& end = run.processes[0].comms[0].digests.back();
  CHECK(end.seq == 2000);
  CHECK(end.digest == run.processes[1].comms[0].digests.back().digest);
}

// This process, as if it had left an exit record and then called NCCL.
RingBytes ring_behind_exit(Phase phase) {
  RingBytes ring(static_cast<uint32_t>(::getpid()), 0);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  REQUIRE(boot.copy(ring.header.boot_id, sizeof ring.header.boot_id) == boot.size());
  ProcessStat mine;
  std::string line;
  std::getline(std::ifstream("/proc/self/stat"), line);
  REQUIRE(parse_process_stat(line, mine));
  struct stat space {};
  REQUIRE(::stat("/proc/self/ns/pid", &space) == 0);
  ring.header.start_time_ticks = mine.start_time_ticks;
  ring.header.pid_namespace = space.st_ino;
  ring.header.is_unlocked = 1;
  ring.header.exit_state = static_cast<uint32_t>(ExitState::exited);
  const OpRecord op = make_op(1, phase);
  ring.header.exited_ticks = op.called_ticks - 1;
  ring.add(op);
  return ring;
}

TEST_CASE("a process that stands in a call behind its exit record has not ended") {
  for (const Phase phase : {Phase::called, Phase::settled}) {
    const Directory directory;
    directory.write("node0.4711.4d.ring", ring_behind_exit(phase).bytes);
    const Run run = load_run(directory.path());
    REQUIRE(run.processes.size() == 1);
    const bool stands = phase == Phase::called;
    CHECK(run.processes[0].liveness == (stands ? Liveness::running : Liveness::exited));
    CHECK((run.processes[0].exited_ns == 0) == stands);
  }
}

TEST_CASE("a digest behind a gap proves nothing, and takes those before it along") {
  const Directory directory;
  const RingBytes ring;
  directory.write("node0.4711.4d.ring", ring.bytes);
  test::SegmentBytes segment(ring.header);
  const auto digest = [](uint64_t seq, uint32_t gap) {
    return DigestRecord{.comm_index = 0, .gap = gap, .seq = seq, .digest = seq, .ticket = seq};
  };
  segment.add_digests({digest(128, 0), digest(256, 1)});
  directory.write("node0.4711.4d.000000.segment", segment.bytes());
  const Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 1);
  CHECK(run.processes[0].comms[0].digests.empty());
}

TEST_CASE("unusable directories are named with what to do") {
  CHECK(says(load_run("/nonexistent/rollcall"), "no such directory"));
  const Directory directory;
  CHECK(says(load_run(directory.path()), "no recording"));
}

TEST_CASE("what can be read is read beside what cannot") {
  Directory directory;
  directory.write("node0.1.1.ring", RingBytes(1, 0).bytes);
  directory.write("attempt_0/node0.2.1.ring", RingBytes(2, 1).bytes);
  directory.write("node0.3.1.ring", std::vector<std::byte>(9000, std::byte{'x'}));
  directory.write("node0.5.1.ring", {});
  directory.write("node0.6.1.000000.segment", std::vector<std::byte>(100));
  directory.write("notes.txt", std::vector<std::byte>(10));
  const Run run = load_run(directory.path(), quiet());
  CHECK(run.processes.size() == 2);
  CHECK(run.issues.size() == 3);
  CHECK(says(run, "ring file"));
}

TEST_CASE("whoever waits is told of each process that was read, up to all of them") {
  Directory directory;
  for (uint32_t pid = 1; pid <= 5; ++pid) {
    directory.write(fmt::format("node0.{}.1.ring", pid), RingBytes(pid, pid).bytes);
  }
  std::multiset<uint64_t> told;
  std::mutex mutex;
  LoadOptions options = quiet();
  options.on_progress = [&](uint64_t done, uint64_t all) {
    const std::lock_guard lock(mutex);
    CHECK(all == 5);
    told.insert(done);
  };
  load_run(directory.path(), options);
  CHECK(told == std::multiset<uint64_t>{1, 2, 3, 4, 5});
}

// Two processes, the second of which began 5 s later; each in a folder.
Run load_two(const Directory& directory, const std::string& first, const RingBytes& older,
             const std::string& second, RingBytes newer) {
  newer.header.first_anchor.realtime_ns += 5'000'000'000;
  newer.store_header();
  directory.write(first + "node0.1.1.ring", older.bytes);
  directory.write(second + "node0.2.1.ring", newer.bytes);
  return load_run(directory.path(), quiet());
}

// Of run 0xaaaa, and of 0xbbbb.
Run load_two_runs(const Directory& directory, const std::string& first, const std::string& second) {
  return load_two(directory, first, RingBytes(1, 0, 0xaaaa), second, RingBytes(2, 0, 0xbbbb));
}

TEST_CASE("files of two runs are told apart, and the newer run is kept") {
  Directory directory;
  const Run run = load_two_runs(directory, "", "");
  REQUIRE(run.processes.size() == 2);
  CHECK(says(run, "two runs"));
  for (const Process& process : run.processes) {
    CHECK(process.superseded == (process.run_id == 0xaaaa));
  }
}

TEST_CASE("of a directory of runs the newest is read, and each of the others is named") {
  Directory directory;
  const Run run = load_two_runs(directory, "first/", "second/");
  CHECK(says(run, "another run, in " + directory.path() + "/first"));
  CHECK(says(run, "the newest, in " + directory.path() + "/second"));
  CHECK_FALSE(says(run, "mixed"));
}

// Of one job rank, in one run. Ticks are nanoseconds.
Run load_two_attempts(const Directory& directory, const std::string& first,
                      const std::string& second, uint64_t last_sign_ticks = 0) {
  RingBytes older(1, 0);
  older.header.heartbeat_ticks = last_sign_ticks;
  older.store_header();
  return load_two(directory, first, older, second, RingBytes(2, 0));
}

TEST_CASE("a second process with the same job rank is a newer attempt") {
  Directory directory;
  const Run run = load_two_attempts(directory, "a/", "b/");
  REQUIRE(run.processes.size() == 2);
  CHECK(says(run, "job rank"));
  CHECK(says(run, "name their directory " + directory.path() + "/a"));
  for (const Process& process : run.processes) CHECK(process.superseded == (process.pid == 1));
}

TEST_CASE(
    "a rank that left nothing in the newest attempt on its host is not taken from an earlier") {
  for (const bool is_one_host : {true, false}) {
    Directory directory;
    for (const int rank : {0, 1}) {
      directory.write("attempt-0/node0." + std::to_string(rank + 1) + ".1.ring",
                      RingBytes(static_cast<uint32_t>(rank + 1), rank).bytes);
    }
    RingBytes newer(3, 1);
    newer.header.first_anchor.realtime_ns += 5'000'000'000;
    if (!is_one_host) std::memcpy(newer.header.host, "node1", 6);
    newer.store_header();
    directory.write("attempt-1/node0.3.1.ring", newer.bytes);
    // Of a second launcher on this host, which has not failed so often.
    RingBytes beside(4, 2);
    beside.header.first_anchor.realtime_ns += 6'000'000'000;
    beside.store_header();
    directory.write("attempt-0/node0.4.1.ring", beside.bytes);
    const Run run = load_run(directory.path(), quiet());
    REQUIRE(run.processes.size() == 4);
    for (const Process& process : run.processes) {
      // Of another host rank 0 may be in the same attempt, by another number.
      const bool is_kept = process.pid >= 3 || (process.pid == 1 && !is_one_host);
      CHECK(process.superseded == !is_kept);
    }
    CHECK(says(run, "name their directory " + directory.path() + "/attempt-0"));
  }
}

TEST_CASE("two processes of one job rank in one communicator are of one attempt, if both live") {
  for (const bool was_there : {true, false}) {
    Directory directory;
    const uint64_t last_sign_ticks = was_there ? 6'000'000'000 : 1'000'000'000;
    const Run run = load_two_attempts(directory, "", "", last_sign_ticks);
    REQUIRE(run.processes.size() == 2);
    CHECK(says(run, "job rank") == !was_there);
    for (const Process& process : run.processes) {
      CHECK(process.superseded == (process.pid == 1 && !was_there));
    }
  }
}

TEST_CASE("of an older attempt beside the newer one it is said how to compare it") {
  Directory directory;
  const Run run = load_two_attempts(directory, "", "");
  CHECK(says(run, "move their files into a directory of their own"));
  CHECK_FALSE(says(run, "name their directory"));
}

TEST_CASE("a segment of another process is left out and named") {
  Directory directory;
  RingBytes ring(1, 0);
  ring.add(make_op(1));
  directory.write("node0.1.1.ring", ring.bytes);
  directory.write("node0.1.1.000000.segment", make_segment(RingBytes(2, 1).header, 1, 10));
  const Run run = load_run(directory.path(), quiet());
  REQUIRE(run.processes.size() == 1);
  CHECK(run.processes[0].ops.size() == 1);
  CHECK(says(run, "another process"));
}

TEST_CASE("ten thousand files are read, with few descriptors open") {
  Directory directory;
  RingBytes ring(1, 0);
  ring.bytes.resize(sizeof(FileHeader) + 4096);
  for (int i = 0; i < 10'000; ++i) {
    directory.write("node0." + std::to_string(i + 1) + ".1.ring", ring.bytes);
  }
  const Run run = load_run(directory.path(), quiet());
  CHECK(run.processes.size() == 10'000);
}

}  // namespace loader_test
}  // namespace rollcall::trace
