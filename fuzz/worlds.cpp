#include "fuzz/worlds.h"

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <tuple>
#include <utility>

#include "tests/trace/files.h"

namespace rollcall::fuzz {
namespace {

constexpr uint64_t kMs = 1'000'000;  // ticks

struct Call {
  OpKind kind = OpKind::AllReduce;
  uint32_t comm = 0;
  int32_t peer = -1;  // or root
  Phase phase = Phase::settled;
  uint32_t group = 0;
  uint32_t graph = 0;
  uint64_t stream = 0;
  bool is_timed = false;  // on the GPU
};

struct Member {
  uint64_t key = 1;
  int32_t nranks = 2;
  int32_t rank = 0;
  int32_t device = 0;
  CommOrigin origin = CommOrigin::init;
  uint32_t parent = kCommUnknown;
  uint64_t parent_key = 0;
  uint32_t child_number = 0;
};

// A process that makes one call after the other.
class Job {
 public:
  explicit Job(uint32_t number) : ring_(4711 + number, static_cast<int>(number)) {
    ring_.header.comm_count = 0;
    name_ = "node0." + std::to_string(4711 + number) + ".4d.ring";
    ThreadEntry thread{};
    thread.tid = 4711 + number;
    ring_.put(ring_.header.threads.offset, thread);
  }

  void meta(const std::string& line) { ring_.add_meta(line); }

  void join(const Member& member) {
    CommEntry entry{};
    entry.state = static_cast<uint32_t>(CommState::ready);
    entry.origin = member.origin;
    entry.key = {member.key, 7};
    if (member.parent_key != 0) entry.parent_key = {member.parent_key, 7};
    entry.parent_index = member.parent;
    entry.child_number = member.child_number;
    entry.nranks = member.nranks;
    entry.rank = member.rank;
    entry.device = member.device;
    entry.created_ticks = now_ += kMs;
    entry.ready_ticks = now_ += kMs;
    comms_.push_back(entry);
    const uint32_t index = ring_.header.comm_count++;
    if (member.parent == kCommUnknown) {
      event(EventKind::CommInitRank, index, {member.nranks, member.rank, 1, 99});
    } else {
      event(EventKind::CommSplit, member.parent,
            {member.rank, 0, member.child_number, static_cast<int64_t>(index)});
    }
  }

  void event(EventKind kind, uint32_t comm, std::initializer_list<int64_t> arguments = {},
             int16_t result = kResultSuccess) {
    add(Phase::settled, kind, comm, arguments, result);
  }
  // A call that does not come back.
  void enter(EventKind kind, uint32_t comm, std::initializer_list<int64_t> arguments = {}) {
    add(Phase::called, kind, comm, arguments, kResultUnknown);
  }

  void call(const Call& call, uint64_t count = 64) {
    OpRecord op = test::make_op(next_ticket_++, call.phase);
    op.called_ticks = now_ += kMs;
    op.returned_ticks = call.phase == Phase::called ? 0 : now_ += kMs;
    op.kind = call.kind;
    op.count = count;
    op.comm_index = call.comm;
    op.root_or_peer = call.peer;
    op.group = call.group;
    op.graph = call.graph;
    op.stream = call.stream;
    op.caller = 0x400000 + static_cast<uint64_t>(call.kind);
    op.frames = call.kind == OpKind::AllReduce ? 1 : 2;
    if (call.is_timed) op.started_ticks = now_ += kMs;
    if (call.is_timed) op.finished_ticks = now_ += kMs;
    op.seq = seqs_[lane_of(call)]++;
    if (is_mark(call.kind)) op.comm_index = kCommUnknown;
    if (call.comm < comms_.size()) {
      CommEntry& comm = comms_[call.comm];
      comm.collectives += is_collective(call.kind);
      comm.sends += call.kind == OpKind::Send;
      comm.recvs += call.kind == OpKind::Recv;
      comm.last_ticket = next_ticket_ - 1;
    }
    ring_.add(op);
    if (call.phase != Phase::gpu_pending || ring_.header.progress_slots == 0) return;
    const uint64_t ticket = next_ticket_ - 1;
    ring_.put(ring_.header.progress.offset +
                  (ticket & (ring_.header.progress_slots - 1)) * sizeof(uint64_t),
              progress_word(ticket, GpuMark::started));
  }

  void set_state(uint32_t comm, CommState state) {
    comms_[comm].state = static_cast<uint32_t>(state);
    comms_[comm].ended_ticks = now_;
  }
  test::RingBytes& ring() { return ring_; }

  // As it is found when it has stood for so long.
  RingFile file(uint64_t stands_ms) {
    for (size_t i = 0; i < comms_.size(); ++i) {
      ring_.put(ring_.header.comms.offset + i * sizeof(CommEntry), comms_[i]);
    }
    ring_.header.heartbeat_ticks = now_ + stands_ms * kMs;
    ring_.store_header();
    return {name_, ring_.bytes};
  }

 private:
  using Lane = std::tuple<uint32_t, OpKind, int32_t>;

  static Lane lane_of(const Call& call) {
    if (is_collective(call.kind)) return {call.comm, OpKind::AllReduce, -1};
    const bool signals = call.kind == OpKind::PutSignal || call.kind == OpKind::Signal;
    return {call.comm, signals ? OpKind::Signal : call.kind, call.peer};
  }

  void add(Phase phase, EventKind kind, uint32_t comm, std::initializer_list<int64_t> arguments,
           int16_t result) {
    EventRecord event{};
    event.publish = publish_word(next_event_ticket_++, phase);
    event.called_ticks = now_ += kMs;
    event.returned_ticks = phase == Phase::called ? 0 : now_ += kMs;
    event.op_ticket = next_ticket_;
    event.comm_index = comm;
    event.kind = kind;
    event.result = result;
    std::copy(arguments.begin(), arguments.end(), event.arguments);
    ring_.add(event);
  }

  test::RingBytes ring_;
  std::string name_;
  uint64_t now_ = 1000 * kMs;
  uint64_t next_ticket_ = 1;
  uint64_t next_event_ticket_ = 1;
  std::vector<CommEntry> comms_;
  std::map<Lane, uint64_t> seqs_;
};

// Four ranks, pairs of them in two more dimensions; one stays away from the last call of all.
World training() {
  World world;
  for (uint32_t number = 0; number < 4; ++number) {
    Job job(number);
    const auto rank = static_cast<int32_t>(number);
    const int32_t side = rank % 2;
    job.meta("frame.1=train.py:10 step");
    job.meta("frame.2=train.py:20 gather");
    job.meta("nccl_version=22707");
    job.join({.key = 1, .nranks = 4, .rank = rank});
    job.join({.key = 10 + number / 2,
              .rank = side,
              .origin = CommOrigin::split,
              .parent = 0,
              .parent_key = 1});
    job.join({.key = 20 + number % 2,
              .rank = rank / 2,
              .origin = CommOrigin::split,
              .parent = 0,
              .parent_key = 1,
              .child_number = 1});
    for (uint32_t step = 1; step <= 3; ++step) {
      job.call({.comm = 1});
      job.call({.kind = OpKind::Send, .comm = 2, .peer = 1 - rank / 2, .group = step});
      job.call({.kind = OpKind::Recv, .comm = 2, .peer = 1 - rank / 2, .group = step});
      job.call({.kind = OpKind::GroupEnd, .group = step}, 0);
      job.call({.kind = OpKind::AllGather, .comm = 1, .stream = 5}, step * 100);
      if (step == 3 && rank == 2) break;
      job.call({.kind = OpKind::Reduce, .peer = 0});
    }
    world.push_back(job.file(60'000));
  }
  return world;
}

// Two processes with two GPUs each, and a communicator of those of each process.
World several_gpus() {
  World world;
  for (uint32_t number = 0; number < 2; ++number) {
    Job job(number);
    for (int32_t device = 0; device < 2; ++device) {
      job.join({.nranks = 4,
                .rank = static_cast<int32_t>(2 * number) + device,
                .device = device,
                .origin = CommOrigin::init_all});
    }
    for (int32_t device = 0; device < 2; ++device) {
      job.join({.key = 30 + number,
                .rank = device,
                .device = device,
                .origin = CommOrigin::split,
                .parent = static_cast<uint32_t>(device),
                .parent_key = 1});
    }
    for (uint32_t step = 1; step <= 3; ++step) {
      for (uint32_t comm = 0; comm < 4; ++comm) {
        const bool is_left_out = step == 3 && number == 1 && comm == 1;
        if (!is_left_out) job.call({.comm = comm, .group = step, .stream = comm % 2});
      }
      job.call({.kind = OpKind::GroupEnd,
                .phase = step == 3 ? Phase::called : Phase::settled,
                .group = step},
               0);
    }
    job.ring().put_channel(0, test::make_channel(0));
    world.push_back(job.file(60'000));
  }
  return world;
}

// Replays of a graph that stand at different places, and signals.
World graphs_and_signals() {
  World world;
  for (uint32_t number = 0; number < 2; ++number) {
    Job job(number);
    const auto rank = static_cast<int32_t>(number);
    job.meta("gpu_timing=progress");
    job.meta("graph_launches=watched");
    job.join({.rank = rank});
    job.join({.key = 2, .rank = rank});
    job.call({.graph = 1});
    job.call({.kind = OpKind::AllGather, .comm = 1, .graph = 1, .stream = 3});
    for (int replay = 0; replay < 2; ++replay) {
      job.call({.kind = OpKind::GraphLaunch, .graph = 1}, 2);
    }
    if (rank == 0) {
      job.call({.kind = OpKind::PutSignal, .peer = 1});
      job.call({.kind = OpKind::Signal, .peer = 1});
      job.call({.kind = OpKind::Signal, .comm = 1, .peer = 1, .graph = 1});
    } else {
      job.call({.kind = OpKind::WaitSignal, .peer = 0}, 2);
      job.call({.kind = OpKind::WaitSignal, .peer = 0, .phase = Phase::gpu_pending}, 1);
    }
    job.call({.phase = Phase::gpu_pending});
    job.call({.kind = OpKind::AlltoAll, .comm = 1, .phase = Phase::gpu_pending, .stream = 3});
    GraphEntry graph{};
    graph.state = 1;
    graph.graph = 1;
    graph.operations = 2;
    graph.lanes = 2;
    graph.launches = 2;
    graph.first_ticks = 1010 * kMs;
    graph.stream[1] = 3;
    graph.position[0] = 1 + number;
    graph.position[1] = 2 - number;
    job.ring().put_graph(0, graph);
    job.ring().put(job.ring().header.kernel_phases.offset + sizeof(KernelPhasesEntry),
                   KernelPhasesEntry{1, {10, 20, 30}});
    job.ring().put_channel(0, test::make_channel(0));
    world.push_back(job.file(60'000));
  }
  return world;
}

// One rank fails and aborts, another follows and begins anew, the third has left.
World errors() {
  World world;
  for (uint32_t number = 0; number < 3; ++number) {
    Job job(number);
    const auto rank = static_cast<int32_t>(number);
    job.join({.nranks = 3, .rank = rank});
    job.call({});
    job.call({.kind = OpKind::Broadcast, .peer = 0});
    if (rank == 0) {
      job.event(EventKind::AsyncError, 0, {0, kResultRemoteError}, kResultRemoteError);
      job.event(EventKind::CallFailed, 0, {0, 2}, 1);
      job.event(EventKind::UserTag, 0, {3, 1});
    } else if (rank == 1) {
      job.call({.phase = Phase::called});
    }
    if (rank != 2) {
      job.event(EventKind::CommAbort, 0);
      job.set_state(0, CommState::aborted);
      job.join({.key = 5, .rank = rank});
      job.call({.comm = 1, .phase = rank == 0 ? Phase::called : Phase::settled});
    } else {
      job.event(EventKind::ProcessExit, kCommUnknown);
      job.ring().header.exit_state = static_cast<uint32_t>(ExitState::exited);
      job.ring().header.exited_ticks = 1020 * kMs;
    }
    world.push_back(job.file(rank == 2 ? 0 : 60'000));
  }
  return world;
}

// Three ranks end their communicator; one of them makes another first, where nobody follows.
World ends() {
  World world;
  for (uint32_t number = 0; number < 3; ++number) {
    Job job(number);
    const auto rank = static_cast<int32_t>(number);
    job.meta("gpu_timing=events");
    job.meta("env.NCCL_ALGO=" + std::to_string(number));
    job.meta("env.NCCL_DEBUGG=INFO");
    job.join({.nranks = 3, .rank = rank});
    for (int step = 0; step < 3; ++step) {
      job.call({.is_timed = true});
      job.call({.kind = OpKind::AllGather, .is_timed = rank != 1 || step < 2});
    }
    if (rank == 2) {
      job.enter(EventKind::CommSplit, 0, {0, 0, 0, -1});
    } else {
      job.event(EventKind::CommFinalize, 0);
      job.set_state(0, CommState::finalized);
      job.enter(EventKind::CommDestroy, 0);
    }
    world.push_back(job.file(60'000));
  }
  return world;
}

}  // namespace

std::vector<World> sound_worlds() {
  return {training(), several_gpus(), graphs_and_signals(), errors(), ends()};
}

}  // namespace rollcall::fuzz
