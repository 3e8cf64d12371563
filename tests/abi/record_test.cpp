// What NCCL's events leave in the file: alone, and beside the shim.
#include <thread>

#include "core/base/clock.h"
#include "core/capture/live.h"
#include "tests/abi/recorded.h"

namespace rollcall {
namespace record_test {

using mini::Comm;
using mini::Nccl;
using mini::Op;
using test::ended_well;
using test::in_own_process;
using test::record_and_read;
using test::TemporaryDirectory;

char buffer[64];

template <unsigned kVersion>
void check_collective_alone() {
  INFO("version " << kVersion);
  const auto ring = record_and_read([] {
    Nccl<kVersion> nccl;
    const Comm comm = nccl.init(0xc0ffee, 1, 4, "mini");
    nccl.call(comm, {.func = "AllReduce", .count = 4096, .send = buffer, .recv = buffer + 8});
    nccl.call(comm, {.func = "ReduceScatter", .count = 17});
    nccl.finalize(comm);
  });
  REQUIRE(ring.ops.size() == 2);
  CHECK(ring.in_flight == 0);
  const OpRecord& op = ring.ops.at(1);
  CHECK(op.kind == OpKind::AllReduce);
  CHECK(op.count == 4096);
  CHECK(op.datatype == 7);
  CHECK(op.reduction == kUnknown8);
  CHECK(op.root_or_peer == -1);
  CHECK(op.flags == kOpFromPlugin);
  CHECK(op.seq == 0);
  CHECK(ring.ops.at(2).seq == 1);
  CHECK(op.launched_ticks >= op.called_ticks);
  CHECK(op.returned_ticks >= op.launched_ticks);
  CHECK(op.result == kResultUnknown);
  CHECK(op.send_address == reinterpret_cast<uintptr_t>(buffer));
  CHECK(kAlgorithms[algorithm_of(op.method)] == "RING");
  CHECK(kProtocols[protocol_of(op.method)] == "SIMPLE");
  CHECK(op.channels == 2);
  CHECK(op.stream == (kVersion >= 5 ? 0x57u : 0u));
  REQUIRE(ring.comms.size() == 1);
  const CommEntry& comm = ring.comms[0];
  CHECK(comm.nccl_hash == 0xc0ffee);
  CHECK(comm.nranks == (kVersion >= 4 ? 4 : -1));
  CHECK(comm.rank == 1);
  CHECK(comm.state == static_cast<uint32_t>(CommState::destroyed));
  CHECK_FALSE(comm.key.is_null());
  CHECK(std::string(comm.name) == "mini");
}

TEST_CASE("alone, the plugin records what NCCL tells of a collective, in every version") {
  check_collective_alone<1>();
  check_collective_alone<2>();
  check_collective_alone<3>();
  check_collective_alone<4>();
  check_collective_alone<5>();
  check_collective_alone<6>();
  check_collective_alone<7>();
}

TEST_CASE("two ranks give a communicator the same key, and its successor another") {
  CommKey keys[2][2];
  for (const int rank : {0, 1}) {
    const auto ring = record_and_read([rank] {
      Nccl<6> nccl;
      nccl.finalize(nccl.init(0xabc, rank, 2));
      nccl.init(0xabc, rank, 2);
    });
    REQUIRE(ring.comms.size() == 2);
    keys[rank][0] = ring.comms[0].key;
    keys[rank][1] = ring.comms[1].key;
  }
  CHECK(keys[0][0] == keys[1][0]);
  CHECK(keys[0][1] == keys[1][1]);
  CHECK_FALSE(keys[0][0] == keys[0][1]);
}

TEST_CASE("a send's peer is learned when NCCL launches it, and gives it its position") {
  const auto ring = record_and_read([] {
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 8);
    nccl.group(comm, {{.func = "Send", .peer = 3}, {.func = "Recv", .peer = 3}});
    nccl.call(comm, {.func = "Send", .peer = 3});
    void* group = nccl.start_group_api(comm, 1);
    nccl.stop(nccl.start_call(comm, {.func = "Send", .peer = 5}, group));  // hangs here
  });
  REQUIRE(ring.ops.size() == 5);  // with the group's end
  CHECK(ring.ops.at(1).root_or_peer == 3);
  CHECK(ring.ops.at(1).seq == 0);
  CHECK(ring.ops.at(2).kind == OpKind::Recv);
  CHECK(ring.ops.at(2).seq == 0);
  CHECK(ring.ops.at(3).kind == OpKind::GroupEnd);
  CHECK(ring.ops.at(4).seq == 1);
  const OpRecord& hanging = ring.ops.at(5);
  CHECK(hanging.root_or_peer == -1);
  CHECK((hanging.flags & kOpSeqUnknown) != 0);
  CHECK(hanging.returned_ticks == 0);
}

TEST_CASE("a host that hangs in the end of a group is seen there, with the group's operations") {
  const auto ring = record_and_read([] {
    Nccl<7> nccl;
    const Comm comm = nccl.init(1, 0, 8);
    void* group = nccl.start_group_api(comm, 2);
    nccl.stop(nccl.start_call(comm, {}, group));
    nccl.stop(nccl.start_call(comm, {.count = 2}, group));
    nccl.record(group, profiler::kGroupEndApiStart, 0, true);
  });
  REQUIRE(ring.ops.size() == 3);
  const OpRecord& end = ring.ops.at(3);
  CHECK(end.kind == OpKind::GroupEnd);
  CHECK(end.returned_ticks == 0);
  CHECK(end.stream == 2);
  CHECK(ring.ops.at(1).group == end.group);
  CHECK(ring.ops.at(1).returned_ticks != 0);
  CHECK(ring.ops.at(1).launched_ticks == 0);
}

TEST_CASE("the parts of a bare AlltoAll are one group, which has no end of its own") {
  const auto ring = record_and_read([] {
    Nccl<7> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    nccl.run(comm, {{.func = "Send", .peer = 1}}, 1);
    nccl.run(comm,
             {{.func = "Send", .peer = 0},
              {.func = "Recv", .peer = 0},
              {.func = "Send", .peer = 1},
              {.func = "Recv", .peer = 1}},
             1);
    nccl.run(comm, {{.func = "Recv", .peer = 1}}, 1);
  });
  REQUIRE(ring.ops.size() == 6);
  CHECK(ring.ops.at(1).group == 0);
  const uint32_t group = ring.ops.at(2).group;
  CHECK(group != 0);
  for (const uint64_t ticket : {3, 4, 5}) CHECK(ring.ops.at(ticket).group == group);
  CHECK(ring.ops.at(6).group == 0);
  for (const auto& [ticket, op] : ring.ops) CHECK(op.returned_ticks != 0);
  CHECK(ring.in_flight == 0);
}

TEST_CASE("operations that never launch leave no record pinned") {
  const auto ring = record_and_read([] {
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 8);
    void* group = nccl.start_group_api(comm, 1);
    nccl.stop(nccl.start_call(comm, {.func = "Broadcast"}, group));  // no Coll for it (2.29)
    nccl.stop(group);
    nccl.stop(nccl.start_call(comm, {}, nullptr));  // no GroupApi
  });
  CHECK(ring.ops.size() == 2);
  CHECK(ring.in_flight == 0);
}

// --- with the shim ------------------------------------------------------------------------------

// What the shim does around ncclCommInitRank and a call, with NCCL's events inside.
template <unsigned kVersion>
struct Both {
  Nccl<kVersion> nccl;
  Comm comm;
  char handle = 0;
  uint32_t index = 0;

  explicit Both(bool is_non_blocking = false) {
    index = capture::open_comm({.origin = CommOrigin::init,
                                .key = {7, 7},
                                .nranks = 4,
                                .rank = 2,
                                .non_blocking = is_non_blocking});
    std::thread([this] { comm = nccl.init(0xc0ffee, 2, 4); }).join();  // NCCL's own thread
    capture::bind_comm(index, &handle);
    capture::comm_ready(index, 4, 2, 0, 0);
  }
  capture::OpCall call_of(const Op& op) const {
    return {.kind = op.is_p2p() ? OpKind::Send : OpKind::AllReduce,
            .datatype = 7,
            .reduction = 0,
            .root_or_peer = op.is_p2p() ? op.peer : -1,
            .count = op.count,
            .send = op.send,
            .comm_handle = &handle,
            .group = capture::current_group()};
  }
  void call(const Op& op) {
    const capture::OpToken token = capture::begin_op(call_of(op));
    nccl.call(comm, op);
    capture::end_op(token, 0);
  }
  // `order`: in which NCCL launches them.
  void group(const std::vector<Op>& ops, const std::vector<size_t>& order) {
    capture::group_enter();
    void* group_api = nullptr;
    std::vector<mini::Task> tasks;
    for (const Op& op : ops) {
      const capture::OpToken token = capture::begin_op(call_of(op));
      if (group_api == nullptr) group_api = nccl.start_group_api(comm, 2);
      mini::Task task{.op = op};
      task.api = nccl.start_call(comm, op, group_api);
      nccl.stop(task.api);
      tasks.push_back(task);
      capture::end_op(token, 0);
    }
    const uint32_t number = capture::group_leave(nullptr);
    const capture::OpToken end = capture::begin_op({.kind = OpKind::GroupEnd, .group = number});
    std::vector<mini::Task> launched;
    for (const size_t index_in_group : order) launched.push_back(tasks[index_in_group]);
    nccl.carry_out(comm, launched, group_api);
    capture::end_op(end, 0);
  }
};

template <unsigned kVersion>
void check_both() {
  INFO("version " << kVersion);
  const auto ring = record_and_read([] {
    Both<kVersion> both;
    both.call({.count = 100});
    both.group({{.count = 1}, {.func = "Send", .count = 5, .peer = 3}, {.count = 2}, {.count = 1}},
               {2, 0, 3, 1});
    both.nccl.finalize(both.comm);
  });
  REQUIRE(ring.ops.size() == 6);  // and no second record of anything
  CHECK(ring.in_flight == 0);
  for (uint64_t ticket = 1; ticket <= 5; ++ticket) {
    INFO("ticket " << ticket);
    const OpRecord& op = ring.ops.at(ticket);
    CHECK(op.flags == 0);
    CHECK(op.result == 0);
    CHECK(op.launched_ticks != 0);
    if (op.kind == OpKind::AllReduce) {
      CHECK(op.reduction == 0);
      CHECK(op.channels == 2);
    }
  }
  CHECK(ring.ops.at(6).kind == OpKind::GroupEnd);
  CHECK(ring.comms.size() == 1);
  CHECK(ring.comms[0].nccl_hash == (kVersion >= 4 ? 0xc0ffee : 0));
  CHECK(ring.comms[0].state == static_cast<uint32_t>(CommState::ready));
  CHECK(ring.stats.plugin_unjoined == 0);
}

TEST_CASE("beside the shim, events enrich its records, whatever the order of launching") {
  check_both<1>();
  check_both<2>();
  check_both<3>();
  check_both<4>();
  check_both<5>();
  check_both<6>();
  check_both<7>();
}

template <unsigned kVersion>
void check_captured() {
  INFO("version " << kVersion);
  const auto ring = record_and_read([] {
    Both<kVersion> both;
    both.call({.is_captured = true});
    both.call({.func = "Send", .peer = 3, .is_captured = true});
    both.call({});
    const Comm alone = both.nccl.init(0xd00f, 1, 4);
    both.nccl.call(alone, {.is_captured = true});
  });
  REQUIRE(ring.ops.size() == 4);
  CHECK(ring.ops.at(1).graph == 1);
  CHECK(ring.ops.at(2).graph == 1);
  CHECK(ring.ops.at(3).graph == 0);
  CHECK(ring.ops.at(4).graph == 1);
}

TEST_CASE("what NCCL says that it captures is on record as captured, beside the shim, too") {
  check_captured<5>();
  check_captured<6>();
  check_captured<7>();
}

// A non-blocking communicator's call: it comes back before NCCL launches on a thread of its own.
struct Early {
  capture::OpToken token;
  std::vector<mini::Task> tasks{1};

  bool is(Phase phase) const { return ring::slot_holds(token.record, token.ticket, phase); }
  template <class Nccl>
  void launch(Nccl& nccl, const Comm& comm) {
    std::thread([&] { nccl.carry_out(comm, tasks, nullptr); }).join();
  }
};
template <class Nccl>
void call_early(Nccl& nccl, const Comm& comm, Early& early) {
  void* group_api = nccl.start_group_api(comm, 1);
  early.tasks[0].api = nccl.start_call(comm, {}, group_api);
  nccl.stop(early.tasks[0].api);
  nccl.stop(group_api);
}
template <unsigned kVersion>
Early call_early(Both<kVersion>& both) {
  Early early;
  early.token = capture::begin_op(both.call_of({}));
  call_early(both.nccl, both.comm, early);
  capture::end_op(early.token, kResultInProgress);
  return early;
}

TEST_CASE("a launch behind the end of a call is awaited where the communicator does not block") {
  const auto ring = record_and_read([] {
    Both<6> both(true);
    Early told = call_early(both);
    CHILD_REQUIRE(told.is(Phase::gpu_pending));
    told.launch(both.nccl, both.comm);
    CHILD_REQUIRE(told.is(Phase::settled));
    // Of some NCCL says nothing more; the next call says that they are launched.
    Early silent = call_early(both);
    CHILD_REQUIRE(silent.is(Phase::gpu_pending));
    Early last = call_early(both);
    CHILD_REQUIRE(silent.is(Phase::settled));
    CHILD_REQUIRE(last.is(Phase::gpu_pending));
    both.nccl.finalize(both.comm);
    CHILD_REQUIRE(last.is(Phase::settled));
  });
  CHECK(ring.in_flight == 0);
  CHECK(ring.ops.at(1).channels == 2);
  CHECK(ring.ops.at(1).launched_ticks > ring.ops.at(1).returned_ticks);
  CHECK(ring.ops.at(2).channels == 0);
  CHECK(ring.ops.at(3).result == kResultInProgress);
}

TEST_CASE("alone, the plugin awaits late launches from the first that it sees on") {
  const auto ring = record_and_read([] {
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    for (int i = 0; i < 3; ++i) {
      Early early;
      call_early(nccl, comm, early);
      early.launch(nccl, comm);
    }
    nccl.finalize(comm);
  });
  CHECK(ring.in_flight == 0);
  CHECK(ring.ops.at(1).channels == 0);
  for (const uint64_t ticket : {2, 3}) {
    CHECK(ring.ops.at(ticket).channels == 2);
    CHECK(ring.ops.at(ticket).launched_ticks > ring.ops.at(ticket).returned_ticks);
  }
}

TEST_CASE("a launch behind the end of its call finds the record settled and leaves it alone") {
  const auto ring = record_and_read([] {
    Both<6> both;
    Early early = call_early(both);
    CHILD_REQUIRE(early.is(Phase::settled));
    early.launch(both.nccl, both.comm);
    CHILD_REQUIRE(early.is(Phase::settled));
  });
  CHECK(ring.ops.at(1).result == kResultInProgress);
  CHECK(ring.ops.at(1).launched_ticks == 0);
  CHECK(ring.ops.at(1).method == 0);
}

TEST_CASE("a communicator that the file has no room for is the shim's all the same") {
  const auto ring = record_and_read([] {
    for (uint32_t i = 0; i < kCommsMax; ++i) {
      const uint32_t index =
          capture::open_comm({.origin = CommOrigin::init, .key = {1, i + 1}, .nranks = 1});
      capture::close_comm(index, CommState::destroyed);
    }
    Both<6> both;
    both.call({.count = 1});
  });
  REQUIRE(ring.ops.size() == 1);
  CHECK(ring.ops.at(1).launched_ticks != 0);
  CHECK(ring.stats.comm_table_full >= 1);
}

TEST_CASE("a call that the shim counted but did not record gets no record from the plugin") {
  const auto ring = record_and_read([] {
    Both<6> both;
    both.call({.count = 1});
    store_relaxed(capture::live.header->capture_switch, uint32_t{1});  // rollcall ctl pause
    both.call({.count = 2});
    store_relaxed(capture::live.header->capture_switch, uint32_t{0});
    both.nccl.call(both.comm, {.count = 3});  // outside every call that the shim saw
  });
  CHECK(ring.ops.size() == 1);
  CHECK(ring.stats.dropped_paused == 1);
  CHECK(ring.stats.plugin_unjoined == 1);
}

// --- groups, launches, replays ------------------------------------------------------------------

template <unsigned kVersion>
void check_group_handle() {
  const TemporaryDirectory directory;
  CHECK(ended_well(in_own_process(directory.path(), [] {
    Nccl<kVersion> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    auto descriptor = Nccl<kVersion>::blank(profiler::kGroup);
    CHILD_REQUIRE((nccl.start(comm, descriptor) != nullptr) == (kVersion <= 4));
  })));
}

// Up to NCCL 2.27 a null one would cost it its children (NCCL issue 1544); later a handle would
// cost a call that says nothing.
TEST_CASE("a Group has a handle where its children depend on it") {
  check_group_handle<3>();
  check_group_handle<4>();
  check_group_handle<5>();
  check_group_handle<7>();
}

TEST_CASE("an operation outside of a group was not launched when that group's were") {
  const auto ring = record_and_read([] {
    set_fake_clock(1'000'000, 10);
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    nccl.call(comm, {});
    advance_fake_clock(50'000);
    nccl.stop(nccl.start_operation(comm, {}, nullptr, nullptr));
  });
  CHECK(ring.ops.at(2).launched_ticks - ring.ops.at(1).launched_ticks > 50'000);
}

TEST_CASE("each replay of a captured operation may stop it once") {
  const auto ring = record_and_read([] {
    Nccl<6> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    void* group = nccl.start_group_api(comm, 1);
    void* call = nccl.start_call(comm, {}, group);
    nccl.stop(call);
    nccl.stop(group);
    for (int replay = 0; replay < 3; ++replay) {
      nccl.stop(nccl.start_operation(comm, {}, call, nullptr));
    }
    nccl.stop(nccl.start_operation(comm, {}, call, nullptr));
    nccl.stop(call);
  });
  CHECK(ring.ops.size() == 1);
  CHECK(ring.stats.plugin_stopped_twice == 1);  // the call's own
}

// --- tags ---------------------------------------------------------------------------------------

TEST_CASE("a user tag is on record when it changes") {
  const auto ring = record_and_read([] {
    Nccl<7> nccl;
    const Comm comm = nccl.init(1, 0, 2);
    for (const uint64_t tag : {0, 42, 42, 0}) nccl.call(comm, {.user_tag = tag});
  });
  std::vector<int64_t> tags, tickets;
  for (const auto& [ticket, event] : ring.events) {
    if (event.kind != EventKind::UserTag) continue;
    tags.push_back(event.arguments[0]);
    tickets.push_back(event.arguments[1]);
  }
  CHECK(tags == std::vector<int64_t>{42, 0});
  CHECK(tickets == std::vector<int64_t>{2, 4});
}

}  // namespace record_test
}  // namespace rollcall
