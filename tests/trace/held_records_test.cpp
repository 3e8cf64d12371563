// What is held of segments while they are read, and what of them enters the model.
#include "trace/held_records.h"

#include "tests/catch.h"
#include "tests/trace/files.h"
#include "trace/loader.h"

namespace held_records_test {

using namespace rollcall;
using namespace rollcall::trace;
using namespace rollcall::test;

TEST_CASE("of one ticket the first record is held, in whatever order they come") {
  HeldRecords held;
  for (const uint64_t ticket : {3, 5, 4, 3, 5, 1, 4}) {
    OpRecord op = make_op(ticket);
    op.count = ticket == 4 ? 44 : 10;
    held.add(op);
  }
  OpRecord later = make_op(4);
  later.count = 99;
  held.add(later);
  const std::vector<OpRecord> records = held.take();
  REQUIRE(records.size() == 4);
  CHECK(ticket_of(records[0].publish) == 1);
  CHECK(ticket_of(records[3].publish) == 5);
  CHECK(records[2].count == 44);
  CHECK(held.left_out() == 0);
}

TEST_CASE("of more records than there is room for the newest are held, and the others counted") {
  HeldRecords held;
  held.limit(100);
  for (uint64_t ticket = 1; ticket <= 200'000; ++ticket) held.add(make_op(ticket));
  const std::vector<OpRecord> records = held.take();
  REQUIRE(records.size() == 100);
  CHECK(ticket_of(records.front().publish) == 199'901);
  CHECK(held.left_out() == 199'900);
}

Run load_with_segment_op(const Directory& directory, const OpRecord& op) {
  RingBytes ring;
  ring.add(make_op(9));
  SegmentBytes segment(ring.header);
  segment.add_ops({make_op(1), op});
  directory.write("node0.4711.4d.ring", ring.bytes);
  directory.write("node0.4711.4d.000000.segment", segment.bytes());
  return load_run(directory.path(), {.threads = 1, .probe_processes = false});
}

TEST_CASE("a segment's record that no recorder writes is counted, and does not enter the model") {
  const Directory directory;
  OpRecord op = make_op(2);
  SECTION("its thread is beyond the table") { op.thread_index = 77; }
  SECTION("its communicator is beyond the table") { op.comm_index = 77; }
  SECTION("its root is no rank that a communicator can have") { op.root_or_peer = kRanksMax; }
  const Run run = load_with_segment_op(directory, op);
  REQUIRE(run.processes.size() == 1);
  CHECK(run.processes[0].ops.size() == 2);
  CHECK(run.processes[0].damaged == 1);
  REQUIRE(run.issues.size() == 1);
  CHECK(run.issues[0].lost == 1);
}

TEST_CASE("numbers of vocabularies that this version does not know are read from either file") {
  const Directory directory;
  OpRecord op = make_op(2);
  op.method = method_of(12, 13);
  op.reduction = 99;
  op.datatype = 99;
  const Run run = load_with_segment_op(directory, op);
  REQUIRE(run.processes.size() == 1);
  REQUIRE(run.processes[0].ops.size() == 3);
  CHECK(run.processes[0].ops[1].method == method_of(12, 13));
  CHECK(run.processes[0].ops[1].reduction == 99);
  CHECK(run.processes[0].damaged == 0);
  CHECK(run.issues.empty());
}

}  // namespace held_records_test
