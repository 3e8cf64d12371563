// What the profiler plugin and the GPU timing add to a record, and when the record is settled.
#include "core/capture/op_detail.h"

#include <thread>

#include "core/capture/live.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"

namespace rollcall {
namespace op_detail_test {

using capture::OpToken;
using test::all_reduce;
using test::ended_well;
using test::in_own_process;
using test::TemporaryDirectory;

char comm;

test::RingContents record_and_read(const TemporaryDirectory& directory,
                                   const std::function<void()>& body) {
  REQUIRE(ended_well(in_own_process(directory.path(), body)));
  return test::read_ring(directory.files(".ring")[0]);
}

uint8_t phase_of(const OpRecord& record) { return phase_number_of(record.publish); }

TEST_CASE("a held record is settled by the last of its call and its holders") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    test::open_test_comm(&comm);
    const OpToken before = capture::begin_op(all_reduce(&comm, 1));
    if (!capture::hold_op(before)) abort();
    capture::release_op(before);  // 1: the call is the last
    capture::end_op(before, 0);
    const OpToken after = capture::begin_op(all_reduce(&comm, 2));
    if (!capture::hold_op(after) || !capture::hold_op(after)) abort();
    capture::end_op(after, 0);
    capture::release_op(after);
    if (!capture::enrich_op(after, {.launched_ticks = 7})) abort();
    capture::release_op(after);  // 2: a holder is the last
    if (capture::hold_op(after) || capture::enrich_op(after, {.finished_ticks = 9})) abort();
    const OpToken never = capture::begin_op(all_reduce(&comm, 3));
    if (!capture::hold_op(never)) abort();
    capture::end_op(never, 0);  // 3: nobody releases it
  });
  CHECK(phase_of(ring.ops.at(1)) == static_cast<uint8_t>(Phase::settled));
  CHECK(phase_of(ring.ops.at(2)) == static_cast<uint8_t>(Phase::settled));
  CHECK(ring.ops.at(2).launched_ticks == 7);
  CHECK(ring.ops.at(2).finished_ticks == 0);
  CHECK(phase_of(ring.ops.at(3)) == static_cast<uint8_t>(Phase::gpu_pending));
}

TEST_CASE("a call is held from inside itself, as often as is asked") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    test::open_test_comm(&comm);
    if (capture::hold_current_op()) abort();  // the thread is in none
    const OpToken once = capture::begin_op(all_reduce(&comm, 1));
    if (!capture::hold_current_op()) abort();
    capture::end_op(once, 0);
    if (capture::hold_current_op()) abort();  // it is over
    capture::release_op(once);                // 1: the holder is the last
    const OpToken twice = capture::begin_op(all_reduce(&comm, 2));
    if (!capture::hold_current_op() || !capture::hold_current_op()) abort();
    capture::end_op(twice, 0);
    capture::release_op(twice);  // 2: one holder is left
    const OpToken inside = capture::begin_op(all_reduce(&comm, 3));
    if (!capture::hold_current_op()) abort();
    capture::release_op(inside);  // 3: the call is left, and has not returned
    if (!capture::enrich_op(inside, {.launched_ticks = 7})) abort();
    capture::end_op(inside, 0);
  });
  CHECK(phase_of(ring.ops.at(1)) == static_cast<uint8_t>(Phase::settled));
  CHECK(phase_of(ring.ops.at(2)) == static_cast<uint8_t>(Phase::gpu_pending));
  CHECK(phase_of(ring.ops.at(3)) == static_cast<uint8_t>(Phase::settled));
  CHECK(ring.ops.at(3).launched_ticks == 7);
}

TEST_CASE("what is added to a record is in it once, and nothing else changes") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    test::open_test_comm(&comm);
    const OpToken token = capture::begin_op(all_reduce(&comm, 64));
    capture::enrich_op(token, {.launched_ticks = 5, .method = method_of(2, 3), .channels = 24});
    capture::enrich_op(token, {.launched_ticks = 6, .started_ticks = 8});
    capture::end_op(token, 0);
  });
  const OpRecord& op = ring.ops.at(1);
  CHECK(op.launched_ticks == 5);
  CHECK(op.started_ticks == 8);
  CHECK(op.finished_ticks == 0);
  CHECK(kAlgorithms[algorithm_of(op.method)] == "RING");
  CHECK(kProtocols[protocol_of(op.method)] == "SIMPLE");
  CHECK(op.channels == 24);
  CHECK(op.count == 64);
  CHECK(op.result == 0);
}

TEST_CASE("of a call that is under way it can be said that it is captured") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    test::open_test_comm(&comm);
    const OpToken captured = capture::begin_op(all_reduce(&comm, 1));
    capture::note_captured(captured);
    capture::end_op(captured, 0);
    const OpToken settled = capture::begin_op(all_reduce(&comm, 2));
    capture::end_op(settled, 0);
    capture::note_captured(settled);
    capture::note_captured({});
  });
  CHECK(ring.ops.at(1).graph == 1);
  CHECK(ring.ops.at(2).graph == 0);
}

TEST_CASE("a peer that is learned later gives the operation its position") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    test::open_test_comm(&comm);
    capture::OpCall send = all_reduce(&comm, 1);
    send.kind = OpKind::Send;
    send.flags = kOpFromPlugin;
    send.root_or_peer = -1;
    for (const int32_t peer : {3, 3, 1, -1}) {
      const OpToken token = capture::begin_op(send);
      capture::enrich_op(token, {.peer = peer});
      capture::enrich_op(token, {.peer = 2});  // only the first is believed
      capture::end_op(token, 0);
    }
  });
  const int32_t peers[] = {3, 3, 1, 2};
  const uint64_t seqs[] = {0, 1, 0, 0};
  for (uint64_t ticket = 1; ticket <= 4; ++ticket) {
    INFO("ticket " << ticket);
    CHECK(ring.ops.at(ticket).root_or_peer == peers[ticket - 1]);
    CHECK(ring.ops.at(ticket).seq == seqs[ticket - 1]);
    CHECK((ring.ops.at(ticket).flags & kOpSeqUnknown) == 0);
  }
  CHECK(ring.stats.seq_unknown == 0);
}

TEST_CASE("the current call is the one the thread is in, also where it was not recorded") {
  const TemporaryDirectory directory;
  record_and_read(directory, [] {
    test::open_test_comm(&comm);
    if (capture::current_call().inside) abort();
    const OpToken token = capture::begin_op(all_reduce(&comm, 1));
    if (capture::current_call().token.ticket != token.ticket) abort();
    std::thread([] {
      if (capture::current_call().inside) abort();
    }).join();
    capture::OpCall from_plugin = all_reduce(&comm, 2);
    from_plugin.flags = kOpFromPlugin;
    capture::end_op(capture::begin_op(from_plugin), 0);
    if (capture::current_call().token.ticket != token.ticket) abort();
    capture::end_op(token, 0);
    if (capture::current_call().inside) abort();
    store_relaxed(capture::live.header->capture_switch, uint32_t{1});  // paused
    const OpToken none = capture::begin_op(all_reduce(&comm, 3));
    if (!capture::current_call().inside || capture::current_call().token.record) abort();
    capture::end_op(none, 0);
    if (capture::current_call().inside) abort();
  });
}

TEST_CASE("operations of a group that ends are found by what was called, each once") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    capture::hold_groups();
    const uint32_t index = test::open_test_comm(&comm);
    const auto in_group = [](uint64_t count) {
      capture::OpCall call = all_reduce(&comm, count);
      call.group = capture::current_group();
      capture::end_op(capture::begin_op(call), 0);
    };
    capture::group_enter();
    in_group(10);  // 1
    in_group(20);  // 2
    in_group(10);  // 3
    const uint32_t group = capture::group_leave(nullptr);
    const OpToken end = capture::begin_op({.kind = OpKind::GroupEnd, .group = group});  // 4
    const auto found = [&](uint64_t count, uint32_t comm_index) {
      const OpToken token = capture::find_in_ended_group({.kind = OpKind::AllReduce,
                                                          .count = count,
                                                          .element_bytes = 4,
                                                          .comm_index = comm_index});
      capture::enrich_op(token, {.launched_ticks = 1});
      return token.ticket;
    };
    // NCCL may launch in another order than the calls came.
    if (found(20, index) != 2) abort();
    if (found(10, index) != 3) abort();
    if (found(10, kCommUnknown) != 1) abort();
    if (found(10, index) != 0 || found(30, index) != 0 || found(20, index + 1) != 0) abort();
    capture::end_op(end, 0);
  });
  REQUIRE(ring.ops.size() == 4);
  CHECK(ring.in_flight == 0);
}

// Calls, as many as given, in a group.
uint32_t call_in_group(uint64_t calls) {
  capture::group_enter();
  for (uint64_t i = 0; i < calls; ++i) {
    capture::OpCall call = all_reduce(&comm, i + 1);
    call.group = capture::current_group();
    capture::end_op(capture::begin_op(call), 0);
  }
  return capture::group_leave(nullptr);
}

TEST_CASE("operations whose group ends while recording is paused are held no longer") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    capture::hold_groups();
    test::open_test_comm(&comm);
    const uint32_t group = call_in_group(3);
    store_relaxed(capture::live.header->capture_switch, uint32_t{1});  // paused
    capture::end_op(capture::begin_op({.kind = OpKind::GroupEnd, .group = group}), 0);
  });
  CHECK(ring.ops.size() == 3);
  CHECK(ring.stats.dropped_paused == 1);
  CHECK(ring.in_flight == 0);
}

TEST_CASE("a group that fills the ring leaves it free, though its end finds no room") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    capture::hold_groups();
    test::open_test_comm(&comm);
    const uint32_t group = call_in_group(capture::live.ops.mask + 1);
    capture::end_op(capture::begin_op({.kind = OpKind::GroupEnd, .group = group}), 0);
    capture::end_op(capture::begin_op(all_reduce(&comm, 7)), 0);
  });
  CHECK(ring.stats.dropped_pinned == 1);
  CHECK(ring.in_flight == 0);
}

TEST_CASE("an operation of a datatype that has no name is found by its count") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    constexpr uint8_t kUint8 = 1;
    capture::hold_groups();
    test::open_test_comm(&comm);
    const auto in_group = [](uint64_t count, uint8_t datatype) {
      capture::OpCall call = all_reduce(&comm, count);
      call.datatype = datatype;
      call.group = capture::current_group();
      capture::end_op(capture::begin_op(call), 0);
    };
    capture::group_enter();
    in_group(0, 7);         // 1: nothing is launched for it
    in_group(64, 7);        // 2: has a name
    in_group(64, kUint8);   // 3
    in_group(256, kUint8);  // 4
    const uint32_t group = capture::group_leave(nullptr);
    const OpToken end = capture::begin_op({.kind = OpKind::GroupEnd, .group = group});  // 5
    const auto found = [](uint64_t count) {
      const OpToken token = capture::find_in_ended_group(
          {.kind = OpKind::AllReduce, .count = count, .element_bytes = 0});
      capture::enrich_op(token, {.launched_ticks = 1});
      return token.ticket;
    };
    if (found(256) != 4 || found(64) != 3 || found(64) != 0) abort();
    capture::end_op(end, 0);
  });
  REQUIRE(ring.ops.size() == 5);
  CHECK(ring.in_flight == 0);
}

// On one communicator: two AllReduces, a Send and a Recv with rank 2, a PutSignal to it, and a wait
// for two signals of it.
void call_each_kind(uint32_t group) {
  const auto call = [&](OpKind kind, uint64_t count, int32_t peer) {
    capture::OpCall op = all_reduce(&comm, count);
    op.kind = kind;
    op.root_or_peer = peer;
    op.group = group;
    capture::end_op(capture::begin_op(op), 0);
  };
  call(OpKind::AllReduce, 10, -1);
  call(OpKind::AllReduce, 20, -1);
  call(OpKind::Send, 30, 2);
  call(OpKind::Recv, 30, 2);
  call(OpKind::PutSignal, 40, 2);
  call(OpKind::WaitSignal, 2, 2);
}

void simulate_each_kind() {
  call_each_kind(capture::group_enter());
  capture::group_simulated(capture::group_leave(nullptr));
}

TEST_CASE("calls behind a simulated group have the positions that its operations had") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    test::open_test_comm(&comm);
    call_each_kind(0);     // 1 to 6
    simulate_each_kind();  // 7 to 12
    simulate_each_kind();  // 13 to 18
    call_each_kind(0);     // 19 to 24
  });
  REQUIRE(ring.ops.size() == 24);
  for (uint64_t ticket = 1; ticket <= 24; ++ticket) {
    const OpRecord& op = ring.ops.at(ticket);
    INFO(ticket);
    const bool is_simulated = ticket > 6 && ticket <= 18;
    CHECK(((op.flags & kOpSimulated) != 0) == is_simulated);
    CHECK((op.group != 0) == is_simulated);
    CHECK(phase_of(op) == static_cast<uint8_t>(Phase::settled));
    const uint64_t first = (ticket - 1) % 6 + 1;
    const uint64_t seq_step = op.kind == OpKind::AllReduce || op.kind == OpKind::WaitSignal ? 2 : 1;
    const uint64_t expected = ring.ops.at(first).seq + (ticket > 6 ? seq_step : 0);
    CHECK(op.seq == expected);
  }
  CHECK(ring.comms[0].collectives == 4);
  CHECK(ring.comms[0].sends == 2);
  CHECK(ring.comms[0].recvs == 2);
}

TEST_CASE("operations of a simulated group are nobody's, also where groups are held") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    capture::hold_groups();
    test::open_test_comm(&comm);
    simulate_each_kind();
    const capture::OpToken open = capture::begin_op(all_reduce(&comm, 1));  // not of the group
    capture::group_simulated(capture::current_group());
    capture::end_op(open, 0);
  });
  CHECK(ring.in_flight == 0);
  CHECK(ring.ops.at(7).seq == 0);
  CHECK((ring.ops.at(7).flags & kOpSimulated) == 0);
}

TEST_CASE("a position that others have called behind stays spent") {
  const TemporaryDirectory directory;
  const auto ring = record_and_read(directory, [] {
    test::open_test_comm(&comm);
    capture::OpCall call = all_reduce(&comm, 1);
    call.group = capture::group_enter();
    capture::end_op(capture::begin_op(call), 0);
    std::thread([] { capture::end_op(capture::begin_op(all_reduce(&comm, 2)), 0); }).join();
    capture::group_simulated(capture::group_leave(nullptr));
    capture::end_op(capture::begin_op(all_reduce(&comm, 3)), 0);
  });
  CHECK((ring.ops.at(1).flags & kOpSimulated) != 0);
  CHECK(ring.ops.at(2).seq == 1);
  CHECK((ring.ops.at(2).flags & kOpSimulated) == 0);
  CHECK(ring.ops.at(3).seq == 2);
}

}  // namespace op_detail_test
}  // namespace rollcall
