// Captured operations that lie apart from the history: which of them are read, beside what.
#include <algorithm>

#include "tests/catch.h"
#include "tests/trace/files.h"
#include "trace/loader.h"

namespace rollcall::trace {
namespace captured_test {

using test::Directory;
using test::make_op;
using test::RingBytes;
using test::SegmentBytes;

constexpr char kRing[] = "node0.4711.4d.ring";
constexpr char kSegment[] = "node0.4711.4d.000000.segment";
constexpr char kCaptured[] = "node0.4711.4d.000000.captured";

OpRecord captured(uint64_t ticket, uint32_t graph) {
  OpRecord op = make_op(ticket);
  op.graph = graph;
  return op;
}

OpRecord launch(uint64_t ticket, uint32_t graph, Phase phase = Phase::settled) {
  OpRecord op = make_op(ticket, phase);
  op.kind = OpKind::GraphLaunch;
  op.comm_index = kCommUnknown;
  op.graph = graph;
  return op;
}

// Graphs 1 to 3 of four operations each, tickets 1 to 12.
std::vector<OpRecord> three_graphs() {
  std::vector<OpRecord> ops;
  for (uint64_t ticket = 1; ticket <= 12; ++ticket) {
    ops.push_back(captured(ticket, static_cast<uint32_t>((ticket - 1) / 4 + 1)));
  }
  return ops;
}

void put_graphs(RingBytes& ring) {
  for (uint32_t graph = 1; graph <= 3; ++graph) {
    GraphEntry entry{};
    entry.state = 1;
    entry.graph = graph;
    entry.operations = 4;
    ring.put_graph(graph - 1, entry);
  }
}

// The ring has gone round long ago: tickets 1001 to 1064, of which 1010 is a launch of graph 2 and
// 1060 one of graph 1.
RingBytes long_running() {
  RingBytes ring;
  put_graphs(ring);
  for (uint64_t ticket = 1001; ticket <= 1064; ++ticket) ring.add(make_op(ticket));
  ring.add(launch(1010, 2));
  ring.add(launch(1060, 1));
  return ring;
}

void write_captured(const Directory& directory, const RingBytes& ring,
                    const std::vector<OpRecord>& ops) {
  SegmentBytes segment(ring.header);
  segment.add_ops(ops);
  directory.write(kCaptured, segment.bytes());
}

Process load(const Directory& directory, LoadOptions options = {}) {
  options.probe_processes = false;
  options.threads = 1;
  Run run = load_run(directory.path(), options);
  for (const Issue& issue : run.issues) CHECK_FALSE(issue.unusable);
  REQUIRE(run.processes.size() == 1);
  return run.processes[0];
}

std::vector<uint64_t> captured_tickets(const Process& process) {
  std::vector<uint64_t> tickets;
  for (const Op& op : process.ops) {
    if (op.graph != 0 && op.kind != OpKind::GraphLaunch) tickets.push_back(op.ticket);
  }
  return tickets;
}

TEST_CASE("what was captured is read where nothing else of its time is on file") {
  const Directory directory;
  const RingBytes ring = long_running();
  directory.write(kRing, ring.bytes);
  write_captured(directory, ring, three_graphs());
  const Process process = load(directory);
  CHECK(captured_tickets(process) == std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(process.ops.size() == 12 + 64);
  CHECK(process.ops.front().from_segment == 1);
  CHECK(process.lost == 1000 - 12);
  CHECK(process.first_complete_ticket == 1001);
}

TEST_CASE("what is in the history and apart from it is one call") {
  const Directory directory;
  RingBytes ring;
  put_graphs(ring);
  for (const OpRecord& op : three_graphs()) ring.add(op);
  for (uint64_t ticket = 13; ticket <= 70; ++ticket) ring.add(make_op(ticket));
  directory.write(kRing, ring.bytes);
  SegmentBytes segment(ring.header);
  segment.add_ops(three_graphs());
  directory.write(kSegment, segment.bytes());
  write_captured(directory, ring, three_graphs());
  const Process process = load(directory);
  CHECK(process.ops.size() == 70);
  CHECK(captured_tickets(process).size() == 12);
  CHECK(process.lost == 0);
  CHECK(process.first_complete_ticket == 1);
}

TEST_CASE("a window holds, beside the newest calls, what the graphs hold that they launch") {
  const Directory directory;
  const RingBytes ring = long_running();
  directory.write(kRing, ring.bytes);
  write_captured(directory, ring, three_graphs());
  SECTION("of the newest launch in any case") {
    const Process process = load(directory, {.window = 1});
    CHECK(captured_tickets(process) == std::vector<uint64_t>{1, 2, 3, 4});
    CHECK(process.ops.size() == 4 + 1);
    CHECK(process.first_complete_ticket == 1064);
  }
  SECTION("of others as long as there is room, the newest launches first") {
    CHECK(captured_tickets(load(directory, {.window = 5})) ==
          std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8});
    CHECK(captured_tickets(load(directory, {.window = 9})).size() == 12);
  }
}

TEST_CASE("a replay that goes on is held with what its graph holds, however old it is") {
  const Directory directory;
  RingBytes ring = long_running();
  ring.add(launch(1002, 3, Phase::gpu_pending));
  directory.write(kRing, ring.bytes);
  write_captured(directory, ring, three_graphs());
  const Process process = load(directory, {.window = 2});
  CHECK(captured_tickets(process) == std::vector<uint64_t>{1, 2, 3, 4, 9, 10, 11, 12});
  CHECK(process.ops.size() == 8 + 1 + 2);
}

TEST_CASE("what a large run leaves on disk is not what its graphs hold") {
  const Directory directory;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    test::RankFiles files = test::make_rank(rank, 2000);
    directory.write(files.captured_name, test::capture_first_calls(1990, files));
    directory.write(files.ring_name, files.ring);
    directory.write(files.segment_name, files.segment);
  }
  LoadOptions options;
  options.probe_processes = false;
  options.records_max = 200;
  const Run run = load_run(directory.path(), options);
  REQUIRE(run.processes.size() == 2);
  for (const Process& process : run.processes) {
    CHECK(captured_tickets(process) == std::vector<uint64_t>{1, 2, 3, 4});
    CHECK(process.skipped == 2000 - process.ops.size());
    CHECK(process.lost == 0);
    CHECK(process.ops.size() < 300);
  }
}

TEST_CASE("captured operations of a ring that is missing are said to be of no use") {
  const Directory directory;
  const RingBytes ring = long_running();
  directory.write("node0.1.1.ring", RingBytes(1).bytes);
  write_captured(directory, ring, three_graphs());
  const Run run = load_run(directory.path(), {.probe_processes = false});
  REQUIRE(run.issues.size() == 1);
  CHECK(run.issues[0].file.ends_with(".captured"));
  CHECK(run.issues[0].text.find("4d.ring is missing") != std::string::npos);
}

}  // namespace captured_test
}  // namespace rollcall::trace
