// The shim's logic with a recorder that keeps what it is told and real functions that are
// lambdas: nothing is preloaded here.
#include <sys/mman.h>

#include <climits>
#include <cstring>
#include <initializer_list>
#include <thread>
#include <vector>

#include "shim/comm_config.h"
#include "shim/comm_tracking.h"
#include "shim/ended_handles.h"
#include "shim/events.h"
#include "shim/identity.h"
#include "shim/operations.h"
#include "tests/catch.h"
#include "tests/shim/fake_recorder.h"

using namespace rollcall;
using namespace rollcall::shim;

namespace {

nccl::Comm handle(uintptr_t value) { return reinterpret_cast<nccl::Comm>(value); }
const nccl::Stream kStream = reinterpret_cast<nccl::Stream>(uintptr_t{0x77});
const Site kSite{reinterpret_cast<const void*>(uintptr_t{0x1234}), kCopyLinked};

// What the stand-ins for NCCL answer and saw.
struct World {
  nccl::Result result = nccl::kSuccess;
  nccl::Comm creates = nullptr;
  nccl::Result async_state = nccl::kSuccess;
  int calls = 0;
  int queries = 0;
  size_t ops_before_call = 0;
  uint64_t question_asked = 0;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  bool nccl_is_caller = false;
};
World g_world;

void begin_world() {
  fake::reset();
  g_world = World{};
}

nccl::Result real_all_reduce(const void* send, void* recv, size_t count, nccl::DataType,
                             nccl::RedOp, nccl::Comm, nccl::Stream) {
  ++g_world.calls;
  g_world.ops_before_call = fake::recorder().ops.size();
  g_world.send = send, g_world.recv = recv, g_world.count = count;
  return g_world.result;
}
nccl::Result real_init(nccl::Comm* comm, int, nccl::UniqueId, int) {
  ++g_world.calls;
  if (g_world.creates != nullptr) *comm = g_world.creates;
  return g_world.result;
}
nccl::Result real_init_config(nccl::Comm* comm, int nranks, nccl::UniqueId id, int rank,
                              nccl::Config*) {
  return real_init(comm, nranks, id, rank);
}
nccl::Result real_split(nccl::Comm, int, int, nccl::Comm* child, nccl::Config*) {
  *child = g_world.creates;
  return g_world.result;
}
nccl::Result real_async(nccl::Comm, nccl::Result* state) {
  *state = g_world.async_state;
  g_world.question_asked = fake::recorder().questions;
  return nccl::kSuccess;
}
nccl::Result real_on_comm(nccl::Comm) {
  ++g_world.calls;
  return g_world.result;
}
nccl::Result real_group() { return g_world.result; }

nccl::UniqueId id_of(char fill) {
  nccl::UniqueId id;
  memset(&id, fill, sizeof(id));
  return id;
}

// A communicator that is ready, under this handle.
uint32_t make_comm(uintptr_t value, char fill = 1, int nranks = 4, int rank = 1) {
  nccl::Comm comm = nullptr;
  g_world.creates = handle(value);
  logic::ncclCommInitRank(kSite, real_init, &comm, nranks, id_of(fill), rank);
  return capture::find_comm(comm);
}

nccl::Result all_reduce(nccl::Comm comm, nccl::RedOp op = 0) {
  static float send[4], recv[4];
  return logic::ncclAllReduce(kSite, real_all_reduce, send, recv, 4, 7, op, comm, kStream);
}

const CommEntry& entry_of(uint32_t index) { return fake::recorder().comms.at(index).entry; }
CommState state_of(uint32_t index) { return static_cast<CommState>(entry_of(index).state); }

struct ConfigBytes {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int others[7];
  const char* name;
  char later[64];
};
const nccl::Config* as_config(const void* bytes) { return static_cast<const nccl::Config*>(bytes); }

nccl::Comm make_non_blocking(uintptr_t value) {
  ConfigBytes config{24, nccl::kApiMagic, 21400, 0, {}, nullptr, {}};
  nccl::Comm comm = nullptr;
  g_world.creates = handle(value);
  logic::ncclCommInitRankConfig(kSite, real_init_config, &comm, 2, id_of(1), 0,
                                reinterpret_cast<nccl::Config*>(&config));
  return comm;
}

}  // namespace

// The seam: what real_functions.cpp answers in the library.
namespace rollcall::shim {
const Queries& queries_of(unsigned) noexcept {
  static const Queries queries{nullptr, [](nccl::Comm) { return "as the library says"; },
                               [](nccl::Comm, int* value) {
                                 ++g_world.queries;
                                 *value = 9;
                                 return 0;
                               },
                               [](nccl::Comm, int* value) {
                                 *value = 6;
                                 return 0;
                               },
                               [](nccl::Comm, int* value) {
                                 *value = 3;
                                 return 0;
                               }};
  return queries;
}
bool is_inside_copy(unsigned, const void*) noexcept { return g_world.nccl_is_caller; }
}  // namespace rollcall::shim

TEST_CASE("an operation is published before the real call, which gets its arguments unchanged") {
  begin_world();
  const uint32_t index = make_comm(0x1000);
  g_world.calls = 0;
  float send[8], recv[8];
  g_world.result = nccl::kInProgress;
  const nccl::Result result =
      logic::ncclAllReduce(kSite, real_all_reduce, send, recv, 8, 7, 2, handle(0x1000), kStream);
  CHECK(result == nccl::kInProgress);
  CHECK(g_world.calls == 1);
  CHECK(g_world.ops_before_call == 1);
  CHECK(g_world.send == send);
  CHECK(g_world.recv == recv);
  CHECK(g_world.count == 8);
  const fake::Op& op = fake::recorder().ops.at(0);
  CHECK(op.call.kind == OpKind::AllReduce);
  CHECK(op.call.datatype == 7);
  CHECK(op.call.reduction == 2);
  CHECK(op.call.count == 8);
  CHECK(op.call.stream == kStream);
  CHECK(op.call.caller == kSite.caller);
  CHECK(op.call.comm_handle == handle(0x1000));
  CHECK(op.call.root_or_peer == -1);
  CHECK(op.call.flags == 0);
  CHECK(op.call.group == 0);
  CHECK(op.result == nccl::kInProgress);
  CHECK(fake::recorder().events_of(EventKind::CallFailed).empty());
  CHECK(index == 0);
}

TEST_CASE("with capture off the real function is still called once and its result returned") {
  begin_world();
  fake::recorder().recording = false;
  g_world.result = 5;
  CHECK(all_reduce(handle(0x1000)) == 5);
  CHECK(g_world.calls == 1);
  nccl::Comm comm = nullptr;
  g_world.result = nccl::kSuccess;
  g_world.creates = handle(0x10);
  CHECK(logic::ncclCommInitRank(kSite, real_init, &comm, 2, id_of(1), 0) == nccl::kSuccess);
  CHECK(comm == handle(0x10));
  CHECK(fake::recorder().ops.empty());
  CHECK(fake::recorder().events.empty());
}

TEST_CASE(
    "a wait for signals is recorded with its peer and their number, of several peers with -1") {
  begin_world();
  const auto real = [](int, nccl::WaitSignalDesc*, nccl::Comm, nccl::Stream) -> nccl::Result {
    return nccl::kSuccess;
  };
  make_comm(0x1000);
  const auto wait = [&](std::initializer_list<nccl::WaitSignalDesc> list) {
    std::vector<nccl::WaitSignalDesc> descs(list);
    logic::ncclWaitSignal(kSite, real, static_cast<int>(descs.size()), descs.data(), handle(0x1000),
                          kStream);
  };
  wait({{.count = 2, .peer = 3, .signal = 0, .context = 0}});
  wait({{.count = 2, .peer = 3, .signal = 0, .context = 0},
        {.count = 1, .peer = 3, .signal = 1, .context = 0}});
  wait({{.count = 1, .peer = 0, .signal = 0, .context = 0},
        {.count = 1, .peer = 3, .signal = 0, .context = 0}});
  // NCCL refuses these; they must not be looked into.
  logic::ncclWaitSignal(kSite, real, 2, nullptr, handle(0x1000), kStream);
  logic::ncclWaitSignal(kSite, real, -1, nullptr, handle(0x1000), kStream);
  const auto& ops = fake::recorder().ops;
  REQUIRE(ops.size() == 5);
  const int32_t peers[] = {3, 3, -1, -1, -1};
  const uint64_t counts[] = {2, 3, 2, 0, 0};
  for (size_t i = 0; i < 5; ++i) {
    CHECK(ops[i].call.kind == OpKind::WaitSignal);
    CHECK(ops[i].call.root_or_peer == peers[i]);
    CHECK(ops[i].call.count == counts[i]);
  }
}

TEST_CASE("reductions and datatypes that are not NCCL's own are told apart from those that are") {
  CHECK(reduction_of(0) == 0);
  CHECK(reduction_of(4) == 4);
  CHECK(reduction_of(5) == kReductionCustom);
  CHECK(reduction_of(INT_MAX) == kReductionCustom);
  CHECK(reduction_of(-1) == kReductionCustom);
  CHECK(datatype_of(11) == 11);
  CHECK(datatype_of(99) == 99);
  CHECK(datatype_of(-1) == kUnknown8);
  CHECK(datatype_of(255) == kUnknown8);
  CHECK(datatype_of(100000) == kUnknown8);
}

TEST_CASE("a failed operation leaves an event with its kind, ticket and NCCL's own words") {
  begin_world();
  make_comm(0x1000);
  g_world.result = 1;
  CHECK(all_reduce(handle(0x1000)) == 1);
  const auto failures = fake::recorder().events_of(EventKind::CallFailed);
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].result == 1);
  CHECK(failures[0].arguments[0] == static_cast<int64_t>(OpKind::AllReduce));
  CHECK(failures[0].arguments[1] == 1);
  CHECK(failures[0].comm_index == 0);
  CHECK(failures[0].text == "ncclAllReduce: as the library says");
}

TEST_CASE("a rank learns its size, rank and device from NCCL once its communicator is ready") {
  begin_world();
  const uint32_t index = make_comm(0x1000);
  CHECK(state_of(index) == CommState::ready);
  CHECK(entry_of(index).nranks == 9);
  CHECK(entry_of(index).rank == 6);
  CHECK(entry_of(index).device == 3);
  const auto events = fake::recorder().events_of(EventKind::CommInitRank);
  REQUIRE(events.size() == 1);
  CHECK(events[0].arguments[0] == 4);
  CHECK(events[0].arguments[1] == 1);
  CHECK(events[0].arguments[2] == 1);
  CHECK(events[0].arguments[3] == short_hash(entry_of(index).key));
}

TEST_CASE("inside a group the caller's variable is read only when the group has ended") {
  begin_world();
  logic::ncclGroupStart(kSite, real_group);
  nccl::Comm comm = handle(0xbad);  // whatever was there before
  logic::ncclCommInitRank(kSite, real_init, &comm, 2, id_of(1), 1);
  CHECK(capture::find_comm(handle(0xbad)) == kCommUnknown);
  CHECK(state_of(0) == CommState::initialising);
  comm = handle(0x2000);  // as NCCL does in ncclGroupEnd
  logic::ncclGroupEnd(kSite, real_group);
  CHECK(capture::find_comm(handle(0x2000)) == 0);
  CHECK(state_of(0) == CommState::ready);
  const fake::Op& end = fake::recorder().ops.at(0);
  CHECK(end.call.kind == OpKind::GroupEnd);
  CHECK(end.call.comm_handle == nullptr);
}

TEST_CASE("of a thousand communicators that one group creates each is known") {
  begin_world();
  logic::ncclGroupStart(kSite, real_group);
  std::vector<nccl::Comm> many(1000, nullptr);
  for (nccl::Comm& comm : many) logic::ncclCommInitRank(kSite, real_init, &comm, 2, id_of(1), 1);
  for (size_t i = 0; i < many.size(); ++i) many[i] = handle(0x10000 + i * 16);
  logic::ncclGroupEnd(kSite, real_group);
  for (uint32_t i = 0; i < many.size(); ++i) {
    CHECK(capture::find_comm(many[i]) == i);
    CHECK(state_of(i) == CommState::ready);
  }
}

TEST_CASE("a group that fails takes the communicators begun in it with it") {
  begin_world();
  logic::ncclGroupStart(kSite, real_group);
  nccl::Comm comm = nullptr;
  logic::ncclCommInitRank(kSite, real_init, &comm, 2, id_of(1), 1);
  g_world.result = 6;
  CHECK(logic::ncclGroupEnd(kSite, real_group) == 6);
  CHECK(state_of(0) == CommState::failed);
  REQUIRE(fake::recorder().events_of(EventKind::CallFailed).size() == 1);
}

TEST_CASE("operations in a group carry its number and the group's end their count") {
  begin_world();
  make_comm(0x1000);
  logic::ncclGroupStart(kSite, real_group);
  logic::ncclGroupStart(kSite, real_group);
  all_reduce(handle(0x1000));
  logic::ncclGroupEnd(kSite, real_group);  // inner: launches nothing, no record
  all_reduce(handle(0x1000));
  logic::ncclGroupEnd(kSite, real_group);
  REQUIRE(fake::recorder().ops.size() == 3);
  const auto& ops = fake::recorder().ops;
  CHECK(ops[0].call.group != 0);
  CHECK(ops[0].call.group == ops[1].call.group);
  CHECK(ops[2].call.group == ops[0].call.group);
  CHECK(ops[2].call.kind == OpKind::GroupEnd);
  CHECK(reinterpret_cast<uintptr_t>(ops[2].call.stream) == 2);
}

TEST_CASE("a simulated group is an event and no group end") {
  begin_world();
  make_comm(0x1000);
  logic::ncclGroupStart(kSite, real_group);
  all_reduce(handle(0x1000));
  logic::ncclGroupSimulateEnd(
      kSite, [](nccl::SimInfo*) { return nccl::kSuccess; }, nullptr);
  CHECK(fake::recorder().ops.size() == 1);
  const auto events = fake::recorder().events_of(EventKind::GroupSimulateEnd);
  REQUIRE(events.size() == 1);
  CHECK(events[0].arguments[1] == 1);
  CHECK(fake::recorder().simulated_groups == std::vector{fake::recorder().ops[0].call.group});
  CHECK(capture::current_group() == 0);
}

TEST_CASE("a non-blocking communicator is not asked anything until NCCL says it is ready") {
  begin_world();
  ConfigBytes config{24, nccl::kApiMagic, 21400, 0, {}, nullptr, {}};
  nccl::Comm comm = nullptr;
  g_world.creates = handle(0x3000);
  g_world.result = nccl::kInProgress;
  logic::ncclCommInitRankConfig(kSite, real_init_config, &comm, 2, id_of(1), 0,
                                reinterpret_cast<nccl::Config*>(&config));
  CHECK(state_of(0) == CommState::initialising);
  CHECK(entry_of(0).non_blocking == 1);
  CHECK(g_world.queries == 0);
  nccl::Result state = nccl::kSuccess;
  g_world.async_state = nccl::kInProgress;
  logic::ncclCommGetAsyncError(kSite, real_async, comm, &state);
  CHECK(state_of(0) == CommState::initialising);
  CHECK(fake::recorder().settled.empty());
  g_world.async_state = nccl::kSuccess;
  logic::ncclCommGetAsyncError(kSite, real_async, comm, &state);
  CHECK(state_of(0) == CommState::ready);
  CHECK(g_world.queries == 1);
  CHECK(fake::recorder().events_of(EventKind::AsyncError).empty());
  CHECK(fake::recorder().settled == std::vector{fake::Settled{0, true, 2}});
  CHECK(g_world.question_asked == 2);  // what was noted was noted in front of it
}

TEST_CASE("an asynchronous error is an event when it changes and only then") {
  begin_world();
  make_comm(0x1000);
  nccl::Result state = nccl::kSuccess;
  g_world.async_state = 6;
  for (int poll = 0; poll < 3; ++poll)
    CHECK(logic::ncclCommGetAsyncError(kSite, real_async, handle(0x1000), &state) ==
          nccl::kSuccess);
  CHECK(state == 6);
  const auto events = fake::recorder().events_of(EventKind::AsyncError);
  REQUIRE(events.size() == 1);
  CHECK(events[0].arguments[0] == 0);
  CHECK(events[0].arguments[1] == 6);
  CHECK(events[0].text == "as the library says");
}

TEST_CASE(
    "what is in progress on a communicator that is aborted or destroyed is over before that") {
  for (const bool is_abort : {false, true}) {
    begin_world();
    const uint32_t index = make_comm(0x1000);
    logic::ncclCommFinalize(kSite, real_on_comm, handle(0x1000));
    CHECK(fake::recorder().settled.empty());
    if (is_abort) {
      logic::ncclCommAbort(kSite, real_on_comm, handle(0x1000));
    } else {
      logic::ncclCommDestroy(kSite, real_on_comm, handle(0x1000));
    }
    CHECK(fake::recorder().settled == std::vector{fake::Settled{index, false, 0}});
  }
}

TEST_CASE("a handle that comes back after destroy is another communicator") {
  begin_world();
  const uint32_t first = make_comm(0x1000, 1);
  logic::ncclCommDestroy(kSite, real_on_comm, handle(0x1000));
  CHECK(state_of(first) == CommState::destroyed);
  const uint32_t second = make_comm(0x1000, 2);
  CHECK(second != first);
  CHECK(!(entry_of(second).key == entry_of(first).key));
  all_reduce(handle(0x1000));
  CHECK(fake::recorder().events_of(EventKind::UseAfterDestroy).empty());
}

// NCCL has freed it, and another thread's communicator is at the same address at once.
nccl::Result destroy_and_reuse(nccl::Comm comm) {
  std::thread([] { make_comm(0x1000, 2); }).join();
  return real_on_comm(comm);
}

TEST_CASE("a handle that comes back before destroy returns is another communicator") {
  begin_world();
  const uint32_t first = make_comm(0x1000, 1);
  logic::ncclCommDestroy(kSite, destroy_and_reuse, handle(0x1000));
  CHECK(state_of(first) == CommState::destroyed);
  CHECK(capture::find_comm(handle(0x1000)) == first + 1);
  all_reduce(handle(0x1000));
  CHECK(fake::recorder().events_of(EventKind::UseAfterDestroy).empty());
}

TEST_CASE("a handle that comes back without room for its communicator has not ended") {
  for (const bool in_group : {false, true}) {
    begin_world();
    make_comm(0x1000, 1);
    logic::ncclCommDestroy(kSite, real_on_comm, handle(0x1000));
    fake::recorder().has_room = false;
    nccl::Comm comm = nullptr;
    g_world.creates = in_group ? nullptr : handle(0x1000);
    if (in_group) logic::ncclGroupStart(kSite, real_group);
    logic::ncclCommInitRank(kSite, real_init, &comm, 4, id_of(2), 1);
    comm = handle(0x1000);  // in a group NCCL fills it in at the end
    if (in_group) logic::ncclGroupEnd(kSite, real_group);
    CHECK(capture::find_comm(comm) == kCommUnknown);
    all_reduce(handle(0x1000));
    CHECK(fake::recorder().events_of(EventKind::UseAfterDestroy).empty());
    fake::recorder().has_room = true;
  }
}

TEST_CASE("a call on a destroyed communicator is noticed and still made") {
  begin_world();
  make_comm(0x1000);
  logic::ncclCommAbort(kSite, real_on_comm, handle(0x1000));
  g_world.calls = 0;
  g_world.result = 4;
  CHECK(all_reduce(handle(0x1000)) == 4);
  CHECK(g_world.calls == 1);
  const auto events = fake::recorder().events_of(EventKind::UseAfterDestroy);
  REQUIRE(events.size() == 1);
  CHECK(events[0].text == "ncclAllReduce");
}

TEST_CASE("a destroy that fails ends nothing") {
  begin_world();
  const uint32_t index = make_comm(0x1000);
  g_world.result = 5;
  CHECK(logic::ncclCommDestroy(kSite, real_on_comm, handle(0x1000)) == 5);
  CHECK(state_of(index) == CommState::ready);
  CHECK(fake::recorder().events_of(EventKind::CommDestroy).at(0).result == 5);
  g_world.result = nccl::kSuccess;
  all_reduce(handle(0x1000));
  CHECK(fake::recorder().events_of(EventKind::UseAfterDestroy).empty());
}

TEST_CASE("what NCCL calls from a thread of its own goes straight through") {
  begin_world();
  make_comm(0x1000);
  const size_t events_before = fake::recorder().events.size();
  g_world.nccl_is_caller = true;
  logic::ncclCommDeregister(
      kSite, [](const nccl::Comm, void*) { return nccl::kSuccess; }, handle(0x1000), nullptr);
  CHECK(fake::recorder().events.size() == events_before);
  CHECK(fake::recorder().nested_calls == 1);
}

TEST_CASE(
    "children of one parent have names that agree between ranks and differ between children") {
  CommKey keys[2][2];
  for (int rank = 0; rank < 2; ++rank) {
    begin_world();
    make_comm(0x1000, 1, 4, rank);
    for (int child = 0; child < 2; ++child) {
      nccl::Comm out = nullptr;
      g_world.creates = handle(0x2000 + static_cast<uintptr_t>(child) * 0x100);
      logic::ncclCommSplit(kSite, real_split, handle(0x1000), 7, rank, &out, nullptr);
      const CommEntry& entry = entry_of(capture::find_comm(out));
      keys[rank][child] = entry.key;
      CHECK(entry.child_number == static_cast<uint32_t>(child));
      CHECK(entry.colour == 7);
      CHECK(entry.parent_index == 0);
    }
  }
  CHECK(keys[0][0] == keys[1][0]);
  CHECK(keys[0][1] == keys[1][1]);
  CHECK(!(keys[0][0] == keys[0][1]));
}

TEST_CASE("a split without colour takes a child number and makes no communicator") {
  begin_world();
  make_comm(0x1000);
  nccl::Comm out = handle(1);
  g_world.creates = nullptr;
  logic::ncclCommSplit(kSite, real_split, handle(0x1000), nccl::kSplitNoColor, 0, &out, nullptr);
  CHECK(out == nullptr);
  const auto events = fake::recorder().events_of(EventKind::CommSplit);
  CHECK(events.at(0).arguments[3] == -1);
  CHECK(fake::recorder().comms.size() == 1);
  g_world.creates = handle(0x2000);
  logic::ncclCommSplit(kSite, real_split, handle(0x1000), 1, 0, &out, nullptr);
  CHECK(fake::recorder().comms.at(1).entry.child_number == 1);
}

TEST_CASE("splits without colour that go on in the background leave room for those with one") {
  begin_world();
  make_comm(0x1000);
  g_world.result = nccl::kInProgress;
  g_world.creates = nullptr;
  std::vector<nccl::Comm> none(300, nullptr);
  for (nccl::Comm& out : none) {
    logic::ncclCommSplit(kSite, real_split, handle(0x1000), nccl::kSplitNoColor, 0, &out, nullptr);
  }
  nccl::Comm child = nullptr;
  logic::ncclCommSplit(kSite, real_split, handle(0x1000), 1, 0, &child, nullptr);
  child = handle(0x2000);  // NCCL's own thread fills it in
  nccl::Result state = nccl::kSuccess;
  logic::ncclCommGetAsyncError(kSite, real_async, child, &state);
  CHECK(fake::recorder().comms.size() == 2);
  CHECK(capture::find_comm(child) == 1);
}

TEST_CASE("creations in groups that go on in the background leave room for later ones") {
  begin_world();
  ConfigBytes config{24, nccl::kApiMagic, 21400, 0, {}, nullptr, {}};
  std::vector<nccl::Comm> many(300, nullptr);
  for (size_t i = 0; i < many.size(); ++i) {
    logic::ncclGroupStart(kSite, real_group);
    g_world.result = nccl::kInProgress;
    g_world.creates = handle(0x10000 + i * 16);
    logic::ncclCommInitRankConfig(kSite, real_init_config, &many[i], 2, id_of(1), 0,
                                  reinterpret_cast<nccl::Config*>(&config));
    logic::ncclGroupEnd(kSite, real_group);
    g_world.result = nccl::kSuccess;
  }
  CHECK(capture::find_comm(many.back()) == many.size() - 1);
  logic::ncclGroupStart(kSite, real_group);
  nccl::Comm last = nullptr;
  g_world.creates = nullptr;
  logic::ncclCommInitRank(kSite, real_init, &last, 2, id_of(1), 1);
  last = handle(0x2000);  // as NCCL does in ncclGroupEnd
  logic::ncclGroupEnd(kSite, real_group);
  CHECK(capture::find_comm(last) == many.size());
}

TEST_CASE("a part of a non-blocking communicator whose handle comes later is waited for") {
  begin_world();
  const nccl::Comm parent = make_non_blocking(0x1000);
  nccl::Comm child = nullptr;
  g_world.creates = nullptr;
  CHECK(logic::ncclCommSplit(kSite, real_split, parent, 1, 0, &child, nullptr) == nccl::kSuccess);
  CHECK(state_of(1) == CommState::initialising);
  child = handle(0x2000);  // NCCL's own thread fills it in
  nccl::Result state = nccl::kSuccess;
  logic::ncclCommGetAsyncError(kSite, real_async, child, &state);
  CHECK(capture::find_comm(child) == 1);
  CHECK(state_of(1) == CommState::ready);
  CHECK(fake::recorder().comms.size() == 2);
}

TEST_CASE("a part that blocks comes later, too, when its parent is through, and is ready then") {
  begin_world();
  const nccl::Comm parent = make_non_blocking(0x1000);
  ConfigBytes config{24, nccl::kApiMagic, 21400, 1, {}, nullptr, {}};
  nccl::Comm child = nullptr;
  g_world.creates = nullptr;
  logic::ncclCommSplit(kSite, real_split, parent, 1, 0, &child,
                       reinterpret_cast<nccl::Config*>(&config));
  CHECK(state_of(1) == CommState::initialising);
  nccl::Result state = nccl::kSuccess;
  g_world.async_state = nccl::kInProgress;
  logic::ncclCommGetAsyncError(kSite, real_async, parent, &state);
  CHECK(state_of(1) == CommState::initialising);
  child = handle(0x2000);  // NCCL's own thread fills it in
  g_world.async_state = nccl::kSuccess;
  logic::ncclCommGetAsyncError(kSite, real_async, parent, &state);
  CHECK(state_of(1) == CommState::ready);
  CHECK(capture::find_comm(child) == 1);
}

TEST_CASE("a shrink knows its size and rank from the list, whatever the order of the list") {
  CommKey keys[2];
  int lists[2][2] = {{0, 3}, {3, 0}};
  for (int i = 0; i < 2; ++i) {
    begin_world();
    make_comm(0x1000);
    nccl::Comm out = nullptr;
    logic::ncclCommShrink(
        kSite, [](nccl::Comm, int*, int, nccl::Comm*, nccl::Config*, int) { return 7; },
        handle(0x1000), lists[i], 2, &out, nullptr, 0);
    keys[i] = entry_of(1).key;
    CHECK(entry_of(1).nranks == 9 - 2);  // the parent's size and rank are what NCCL said
    CHECK(entry_of(1).rank == 6 - 2);
  }
  CHECK(keys[0] == keys[1]);
}

TEST_CASE("ranks that disagree about the size still meet under one key") {
  begin_world();
  const uint32_t a = make_comm(0x1000, 5, 4, 0);
  const uint32_t b = make_comm(0x2000, 5, 8, 1);
  const uint32_t c = make_comm(0x3000, 6, 4, 0);
  CHECK(entry_of(a).key == entry_of(b).key);
  CHECK(!(entry_of(a).key == entry_of(c).key));
}

TEST_CASE("one bit of a unique id changes both halves of the key") {
  nccl::UniqueId id = id_of(0);
  const CommKey base = key_of_ids(&id, 1);
  for (size_t bit = 0; bit < 8 * sizeof(id); ++bit) {
    nccl::UniqueId other = id;
    other.internal[bit / 8] = static_cast<char>(other.internal[bit / 8] ^ (1 << bit % 8));
    const CommKey key = key_of_ids(&other, 1);
    REQUIRE(key.high != base.high);
    REQUIRE(key.low != base.low);
  }
  CHECK(key_of_ids(nullptr, 1).is_null());
  CHECK(key_of_split({}, 0, 1).is_null());
}

TEST_CASE("a clique in one process has one key and its ranks their devices") {
  begin_world();
  nccl::Comm comms[3] = {};
  const int devices[3] = {5, 6, 7};
  logic::ncclCommInitAll(
      kSite,
      [](nccl::Comm* out, int ndev, const int*) {
        for (int i = 0; i < ndev; ++i) out[i] = handle(0x100 * static_cast<uintptr_t>(i + 1));
        return nccl::kSuccess;
      },
      comms, 3, devices);
  REQUIRE(fake::recorder().comms.size() == 3);
  CHECK(entry_of(0).key == entry_of(2).key);
  CHECK(capture::find_comm(comms[2]) == 2);
  CHECK(fake::recorder().events_of(EventKind::CommInitAll).size() == 1);
}

TEST_CASE("a config says only what its size, magic and version vouch for") {
  ConfigBytes config{56, nccl::kApiMagic, 22700, INT_MIN, {}, "pipeline", {}};
  CHECK(std::string(read_config(as_config(&config), false).name) == "pipeline");
  CHECK(!read_config(as_config(&config), true).non_blocking);  // a config of its own: the default
  CHECK(read_config(nullptr, true).non_blocking);
  config.size = 1000;  // a newer header
  config.version = 29900;
  CHECK(std::string(read_config(as_config(&config), false).name) == "pipeline");
  config.version = 22600;  // an older header: those bytes are something else
  CHECK(read_config(as_config(&config), false).name[0] == 0);
  config.version = 22700;
  config.size = 48;
  CHECK(read_config(as_config(&config), false).name[0] == 0);
  config.size = 56;
  config.magic = 1;
  config.blocking = 0;
  CHECK(!read_config(as_config(&config), false).non_blocking);
}

TEST_CASE("pointers that lead nowhere are NCCL's to complain about") {
  char* pages = static_cast<char*>(
      mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  munmap(pages + 4096, 4096);
  CHECK(!read_config(as_config(pages + 4096), false).non_blocking);
  CHECK(!read_config(as_config(reinterpret_cast<void*>(8)), false).non_blocking);
  // An old, short config at the very end of readable memory is read as far as it goes.
  ConfigBytes config{24, nccl::kApiMagic, 21400, 0, {}, nullptr, {}};
  memcpy(pages + 4096 - 24, &config, 24);
  CHECK(read_config(as_config(pages + 4096 - 24), false).non_blocking);
  config = {56, nccl::kApiMagic, 22700, 1, {}, pages + 4096, {}};
  CHECK(read_config(as_config(&config), false).name[0] == 0);
  memcpy(pages + 4096 - 3, "ab", 3);
  config.name = pages + 4096 - 3;
  CHECK(std::string(read_config(as_config(&config), false).name) == "ab");
  memcpy(pages + 4096 - 3, "abc", 3);  // no end before the memory ends: no string
  CHECK(read_config(as_config(&config), false).name[0] == 0);
  const std::string longer(100, 'n');
  config.name = longer.c_str();
  CHECK(strlen(read_config(as_config(&config), false).name) == kCommNameBytes - 1);
  munmap(pages, 4096);
}

TEST_CASE("calls on different threads do not share a group") {
  begin_world();
  logic::ncclGroupStart(kSite, real_group);
  uint32_t other_group = 1;
  std::thread([&] { other_group = capture::current_group(); }).join();
  CHECK(other_group == 0);
  logic::ncclGroupEnd(kSite, real_group);
}
