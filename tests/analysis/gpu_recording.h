// Runs whose GPUs were watched, put together call by call: what each rank called, captured and
// launched, and how far its GPU has come.
#pragma once

#include <map>
#include <utility>

#include "tests/analysis/steps.h"

namespace rollcall::analysis {

// What the GPU has done with an operation.
enum class Gpu : uint8_t { waiting, begun, through };

class GpuRecording {
 public:
  // Each rank has called once on each of its communicators, and its GPU is through with that.
  explicit GpuRecording(std::vector<sim::CommSpec> comms, int ranks) {
    Program program;
    program.comms = std::move(comms);
    program.ranks.resize(static_cast<size_t>(ranks));
    for (size_t comm = 0; comm < program.comms.size(); ++comm) {
      for (const int rank : program.comms[comm].ranks) {
        Steps& own = program.ranks[static_cast<size_t>(rank)];
        own.push_back(analysis::call(OpKind::AllReduce, 4, -1, static_cast<int>(comm)));
        places_[{rank, comm}] = own.size() - 1;
      }
    }
    outcome_ = execute(program);
    for (trace::Process& process : outcome_.run.processes) {
      hang_watched(process);
      process.meta["graph_launches"] = "watched";
      process.events.clear();
      for (trace::Comm& comm : process.comms) {
        comm.state = CommState::ready;
        comm.ended_ns = 0;
      }
      for (trace::Op& op : process.ops) {
        now_ns_ = std::max(now_ns_, op.called_ns);
        put(op, Gpu::through);
      }
    }
  }

  trace::Process& rank(int r) { return outcome_.run.processes[static_cast<size_t>(r)]; }
  trace::Run& run() { return outcome_.run; }
  Report report() { return analyse(outcome_.run); }
  // The job is looked at while it runs.
  void run_on() {
    run().live = true;
    for (trace::Process& process : run().processes) process.liveness = trace::Liveness::running;
  }
  // All ranks ended in order.
  void end() {
    for (trace::Process& process : outcome_.run.processes) {
      process.liveness = trace::Liveness::exited;
      process.exited_ns = process.heartbeat_ns = now_ns_ + 1'000'000;
      for (trace::Comm& comm : process.comms) {
        comm.state = CommState::destroyed;
        comm.ended_ns = now_ns_ + 500'000;
      }
    }
  }

  trace::Op& call(int r, size_t comm, OpKind kind, uint64_t count, Gpu gpu, uint64_t stream = 0) {
    trace::Op op = make(r, comm, kind, count, -1);
    op.stream = 0x100 + stream;
    put(op, gpu);
    return push(r, op);
  }
  // On the first communicator.
  trace::Op& transfer(int r, OpKind kind, int peer, Gpu gpu) {
    trace::Op op = make(r, 0, kind, 8, peer);
    op.stream = 0x100;
    put(op, gpu);
    return push(r, op);
  }
  // Its GPU is through with all that it called.
  void finish(int r) {
    for (trace::Op& op : rank(r).ops) put(op, Gpu::through);
  }
  // `peer`: of a send or receive. `stream`: of those that the graph has.
  void capture(int r, uint32_t graph, size_t comm, OpKind kind, uint64_t count, int peer = -1,
               uint64_t stream = 0) {
    trace::Op op = make(r, comm, kind, count, peer);
    op.graph = graph;
    op.stream = 0x900 + stream;
    op.state = trace::OpState::returned;
    push(r, op);
    ++graph_of(r, graph).operations;
  }
  trace::Op& launch(int r, uint32_t graph, Gpu gpu, uint64_t stream = 0) {
    trace::Graph& entry = graph_of(r, graph);
    trace::Op op = rank(r).ops.front();
    op.kind = OpKind::GraphLaunch;
    op.graph = graph;
    op.comm = kCommUnknown;
    op.seq = entry.launches++;
    op.stream = 0x100 + stream;
    put_time(op);
    put(op, gpu);
    return push(r, op);
  }
  // Of each graph more was captured than is on file: how far replays have come is not known.
  void forget_captured() {
    for (trace::Process& process : outcome_.run.processes) {
      for (trace::Graph& graph : process.graphs) ++graph.operations;
    }
  }
  // Of a rank only the newest `kept` records are on file, and what was captured before.
  void forget_middle(int r, size_t kept) {
    trace::Process& process = rank(r);
    const auto end = process.ops.end() - static_cast<ptrdiff_t>(kept);
    process.first_complete_ticket = end->ticket;
    const auto is_forgotten = [](const trace::Op& op) {
      return op.graph == 0 || op.kind == OpKind::GraphLaunch;
    };
    const auto gone = std::remove_if(process.ops.begin(), end, is_forgotten);
    process.lost = static_cast<uint64_t>(end - gone);
    process.ops.erase(gone, end);
  }
  // Nor what was captured.
  void forget_all_but(int r, size_t kept) {
    trace::Process& process = rank(r);
    const auto end = process.ops.end() - static_cast<ptrdiff_t>(kept);
    process.first_complete_ticket = end->ticket;
    process.lost = static_cast<uint64_t>(end - process.ops.begin());
    process.ops.erase(process.ops.begin(), end);
  }
  // The GPUs finish and begin what is on file as such up to `ns` before the end.
  void move_until(int64_t ns) {
    for (trace::Process& process : outcome_.run.processes) {
      int64_t at_ns = process.heartbeat_ns - ns;
      for (auto op = process.ops.rbegin(); op != process.ops.rend(); ++op) {
        if (op->started_ns == 0) continue;
        if (op->finished_ns != 0) op->finished_ns = at_ns;
        op->started_ns = at_ns -= 1000;
      }
    }
  }
  // How far the replay that runs has come: odd inside an operation.
  void stand_at(int r, uint32_t graph, uint64_t position) { stand_on(r, graph, {position}); }
  // On each of the graph's streams.
  void stand_on(int r, uint32_t graph, const std::vector<uint64_t>& positions) {
    std::vector<trace::Graph::Lane>& lanes = graph_of(r, graph).lanes;
    lanes.clear();
    for (const uint64_t position : positions) {
      lanes.push_back({.stream = 0x900 + lanes.size(), .position = position});
    }
  }

 private:
  trace::Op make(int r, size_t comm, OpKind kind, uint64_t count, int peer) {
    trace::Process& process = rank(r);
    trace::Op op = process.ops[places_.at({r, comm})];
    op.kind = kind;
    op.count = count;
    op.root_or_peer = peer;
    trace::Comm& owner = process.comms[op.comm];
    op.seq = is_collective(kind) ? owner.collectives : pairs_[{r, peer, kind}]++;
    ++(is_collective(kind) ? owner.collectives : kind == OpKind::Send ? owner.sends : owner.recvs);
    if (!is_collective(kind)) op.reduction = kUnknown8;
    put_time(op);
    put(op, Gpu::waiting);
    op.awaits_gpu = false;
    return op;
  }
  trace::Op& push(int r, trace::Op op) {
    trace::Process& process = rank(r);
    op.ticket = process.next_ticket++;
    process.ops.push_back(op);
    return process.ops.back();
  }
  void put_time(trace::Op& op) {
    op.called_ns = now_ns_ += 1000;
    op.returned_ns = op.called_ns + 100;
  }
  static void put(trace::Op& op, Gpu gpu) {
    op.started_ns = gpu == Gpu::waiting ? 0 : op.called_ns + 200;
    op.finished_ns = gpu == Gpu::through ? op.called_ns + 300 : 0;
    op.awaits_gpu = gpu != Gpu::through;
    op.state = gpu == Gpu::through ? trace::OpState::finished
               : gpu == Gpu::begun ? trace::OpState::started
                                   : trace::OpState::returned;
  }
  trace::Graph& graph_of(int r, uint32_t number) {
    for (trace::Graph& graph : rank(r).graphs) {
      if (graph.graph == number) return graph;
    }
    return rank(r).graphs.emplace_back(trace::Graph{.graph = number, .lanes = {}});
  }

  Outcome outcome_;
  std::map<std::pair<int, size_t>, size_t> places_;
  std::map<std::tuple<int, int, OpKind>, uint64_t> pairs_;
  int64_t now_ns_ = 0;
};

}  // namespace rollcall::analysis
