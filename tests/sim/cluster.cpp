#include "tests/sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

namespace rollcall::sim {
namespace {

using trace::Comm;
using trace::Liveness;
using trace::Op;
using trace::OpState;
using trace::Process;

constexpr int64_t kEpochNs = 1'700'000'000'000'000'000;
constexpr int64_t kCallNs = 10'000;
constexpr int64_t kGpuNs = 10;
constexpr uint32_t kGroupsOfReplays = 1 << 24;
constexpr uint32_t kGroupsMax = 1 << 12;
constexpr int kStreamsOfGraphs = 1 << 12;
constexpr int kStreamsMax = 1 << 8;
constexpr int64_t kWatchdogNs = 100'000'000;
constexpr int16_t kResultCudaError = 1;  // ncclUnhandledCudaError

struct Pending {
  Step step;
  uint64_t seq = 0;
  uint64_t turn = 0;     // of the call among the rank's
  uint64_t start = 0;    // of the first call of its group
  size_t op = 0;         // index into Process::ops
  uint32_t graph = 0;    // of a replay: `op` is its launch
  uint32_t unit = 0;     // of a call of a replay: of its stream there, from 1
  bool is_last = false;  // of the two gates of a replay, the one behind its calls
  bool started = false;
  bool done = false;

  // Where the stream that it is launched on comes to a replay, and is through with it.
  bool is_gate() const { return step.act == Act::replay; }
  bool is_inside() const { return graph != 0 && !is_gate(); }
};

// What a stream was given, in that order.
struct Queue {
  std::vector<Pending> calls;
  size_t told = 0;  // so many of them are on file as finished
};

struct Rank {
  size_t at = 0;
  std::map<int, Queue> streams;
  std::map<uint32_t, std::vector<Step>> captured;  // by graph
  // What was given to the GPU, by communicator, kind (one for all collectives) and peer.
  std::map<std::tuple<int, OpKind, int>, uint64_t> executed;
  uint32_t replays = 0;
  std::set<size_t> begun;  // launches that the GPU has come to
  uint64_t calls = 0;
  uint64_t group_start = 0;  // turn of the newest call that is not of the group of the one before
  uint32_t newest_group = 0;
  std::map<int, uint64_t> seq;  // by communicator
  // By communicator and peer; of signals all that were called, and those that were sent.
  std::map<std::pair<int, int>, uint64_t> sends, recvs, signals, waits, signalled;
  bool ended = false;
  bool frozen = false;
  bool aborted = false;
  int64_t end_ns = 0;
};

class Machine {
 public:
  Machine(const Program& program, const ClusterOptions& options)
      : program_(program),
        options_(options),
        ranks_(program.ranks.size()),
        random_(options.seed),
        replays_(program.replays()) {}

  Outcome run() {
    build_processes();
    std::vector<size_t> order(ranks_.size());
    for (size_t r = 0; r < order.size(); ++r) order[r] = r;
    bool moved = true;
    while (moved) {
      moved = false;
      std::shuffle(order.begin(), order.end(), random_);
      for (const size_t r : order) moved = advance(r) || moved;
      for (watch_begins(); complete_one(); watch_begins()) moved = true;
    }
    return finish();
  }

 private:
  bool is_idle(const Rank& rank) const {
    for (const auto& [stream, queue] : rank.streams) {
      for (const Pending& pending : queue.calls) {
        if (!pending.done) return false;
      }
    }
    return true;
  }

  bool advance(size_t r) {
    Rank& rank = ranks_[r];
    const std::vector<Step>& steps = program_.ranks[r];
    if (rank.ended || rank.frozen || rank.at == steps.size()) return false;
    const Step& step = steps[rank.at];
    if (step.act == Act::sync && !is_idle(rank)) return false;
    if (step.act == Act::create) return create(r, step.comm);
    if (step.act == Act::hold || step.act == Act::refuse) return fail(r, step.act);
    ++rank.at;
    now_ns_ += kCallNs;
    switch (step.act) {
      case Act::call:
        call(r, step);
        break;
      case Act::sync:
        break;
      case Act::exit:
      case Act::die:
        rank.ended = true;
        rank.end_ns = now_ns_;
        if (step.act == Act::exit) outcome_.run.processes[r].exited_ns = now_ns_;
        break;
      case Act::stop:
      case Act::stick:
        rank.frozen = true;
        rank.end_ns = step.act == Act::stop ? now_ns_ : 0;
        break;
      case Act::abort:
        rank.aborted = true;
        leave_by_abort(r, now_ns_);
        break;
      case Act::block:
        enqueue(rank, step, 0, 0);
        break;
      case Act::replay:
        replay(r, step);
        break;
      case Act::create:
      case Act::hold:
      case Act::refuse:
        break;
    }
    return true;
  }

  // The call behind this step is on file, and NCCL does not carry it out.
  bool fail(size_t r, Act act) {
    Rank& rank = ranks_[r];
    const size_t at = ++rank.at;
    rank.frozen = true;
    now_ns_ += kCallNs;
    if (at == program_.ranks[r].size()) return true;
    const Step& step = program_.ranks[r][at];
    call(r, step);
    Op& op = outcome_.run.processes[r].ops.back();
    rank.streams[step.stream].calls.pop_back();
    op.awaits_gpu = false;
    op.state = act == Act::hold ? OpState::called : OpState::failed;
    op.result = act == Act::hold ? kResultUnknown : kResultCudaError;
    if (act == Act::hold) op.returned_ns = 0;
    return true;
  }

  void leave_by_abort(size_t r, int64_t at_ns) {
    Process& process = outcome_.run.processes[r];
    for (uint32_t i = 0; i < process.comms.size(); ++i) {
      process.comms[i].state = CommState::aborted;
      process.comms[i].ended_ns = at_ns;
      trace::Event event{};
      event.kind = EventKind::CommAbort;
      event.comm = i;
      add_event(process, event, at_ns, at_ns + 1000);
    }
    if (options_.watched) drain(r);
    ranks_[r].ended = true;
    ranks_[r].end_ns = process.exited_ns = at_ns + 10'000;
  }

  static void add_event(Process& process, trace::Event event, int64_t called_ns,
                        int64_t returned_ns) {
    event.called_ns = called_ns;
    event.returned_ns = returned_ns;
    event.ticket = process.events.size() + 1;
    event.op_ticket = process.next_ticket;
    event.result = returned_ns == 0 ? kResultUnknown : 0;
    process.events.push_back(event);
  }

  // A split is called by all ranks of the parent, each for the part it goes to; an init by all
  // ranks of the communicator.
  bool create(size_t r, int k) {
    const CommSpec& spec = program_.comms[k];
    const bool is_split = spec.parent >= 0 && spec.origin == CommOrigin::split;
    const size_t wanted = is_split ? program_.comms[spec.parent].ranks.size() : spec.ranks.size();
    const std::pair<int, int> which =
        is_split ? std::pair(spec.parent, static_cast<int>(spec.child_number)) : std::pair(-1, k);
    std::vector<size_t>& callers = creating_[which];
    Process& process = outcome_.run.processes[r];
    if (spec.has_late_id && callers.empty() && rank_in(spec, static_cast<int>(r)) != 0)
      return false;
    if (std::find(callers.begin(), callers.end(), r) == callers.end()) {
      now_ns_ += kCallNs;
      callers.push_back(r);
      begin_comm(r, k);
      return true;
    }
    if (callers.size() < wanted) return false;
    Comm& comm = process.comms.back();
    comm = make_comm(r, k);
    comm.created_ns = process.events.back().called_ns;
    comm.ready_ns = process.events.back().returned_ns = now_ns_;
    process.events.back().result = 0;
    ++ranks_[r].at;
    return true;
  }

  void begin_comm(size_t r, int k) {
    const CommSpec& spec = program_.comms[k];
    Process& process = outcome_.run.processes[r];
    Comm comm = make_comm(r, k);
    comm.state = CommState::initialising;
    comm.created_ns = now_ns_;
    comm.ready_ns = 0;
    const auto index = static_cast<uint32_t>(process.comms.size());
    trace::Event event{};
    const auto parent = std::find(comm_of_[r].begin(), comm_of_[r].end(), spec.parent);
    event.comm = static_cast<uint32_t>(parent - comm_of_[r].begin());
    if (spec.parent >= 0 && spec.origin != CommOrigin::split) {
      event.kind = spec.origin == CommOrigin::shrink ? EventKind::CommShrink : EventKind::CommGrow;
      // Who joins has no communicator that grows.
      if (parent == comm_of_[r].end()) event.comm = kCommUnknown;
    } else if (spec.parent >= 0) {
      // How many ranks a part has is known when the split returns.
      comm.nranks = comm.rank = -1;
      event.kind = EventKind::CommSplit;
      event.arguments[0] = spec.colour;
      event.arguments[2] = spec.child_number;
      event.arguments[3] = index;
    } else {
      event.kind = EventKind::CommInitRank;
      event.comm = index;
      event.arguments[0] = comm.nranks;
      event.arguments[1] = comm.rank;
    }
    process.comms.push_back(std::move(comm));
    comm_of_[r].push_back(k);
    add_event(process, event, now_ns_, 0);
  }

  Comm make_comm(size_t r, int k) const {
    const CommSpec& spec = program_.comms[k];
    Comm comm;
    comm.key = {static_cast<uint64_t>(k) + 1, 7};
    comm.origin = spec.parent < 0 ? CommOrigin::init : spec.origin;
    const bool knows_parent =
        spec.parent >= 0 && rank_in(program_.comms[spec.parent], static_cast<int>(r)) >= 0;
    if (knows_parent) comm.parent_key = {static_cast<uint64_t>(spec.parent) + 1, 7};
    comm.state = CommState::ready;
    comm.child_number = spec.child_number;
    comm.colour = spec.colour;
    comm.nranks = static_cast<int32_t>(spec.ranks.size());
    comm.rank = rank_in(spec, static_cast<int>(r));
    comm.created_ns = kEpochNs + 1000;
    comm.ready_ns = kEpochNs + 2000;
    return comm;
  }

  void call(size_t r, const Step& step) {
    Rank& rank = ranks_[r];
    Process& process = outcome_.run.processes[r];
    uint32_t comm = 0;
    while (comm_of_[r].at(comm) != step.comm) ++comm;
    Op op;
    op.called_ns = now_ns_;
    op.returned_ns = now_ns_ + 1000;
    op.ticket = process.ops.size() + 1;
    op.kind = step.kind;
    op.count = step.count;
    op.datatype = step.datatype;
    op.stream = static_cast<uint64_t>(step.stream) + 1;
    op.root_or_peer = step.root_or_peer;
    op.comm = comm;
    op.group = step.group;
    op.graph = step.graph;
    op.result = 0;
    op.state = OpState::returned;
    if (traits_of(step.kind).reduces) op.reduction = step.reduction;
    if (step.kind == OpKind::Send) {
      op.seq = rank.sends[{step.comm, step.root_or_peer}]++;
      ++process.comms[comm].sends;
    } else if (step.kind == OpKind::Recv) {
      op.seq = rank.recvs[{step.comm, step.root_or_peer}]++;
      ++process.comms[comm].recvs;
    } else if (is_collective(step.kind)) {
      op.seq = rank.seq[step.comm]++;
      ++process.comms[comm].collectives;
    } else if (step.kind == OpKind::WaitSignal) {
      uint64_t& waits = rank.waits[{step.comm, step.root_or_peer}];
      op.seq = waits;
      waits += step.count;
    } else {
      op.seq = rank.signals[{step.comm, step.root_or_peer}]++;
    }
    // A captured call is not executed by calling it.
    if (step.graph == 0) enqueue(rank, step, op.seq, process.ops.size());
    if (step.graph != 0) rank.captured[step.graph].push_back(step);
    if (options_.watched && step.graph != 0) {
      trace::Graph& graph = graph_of(process, step.graph);
      ++graph.operations;
      if (replays_) lane_of(graph, op.stream);
    }
    process.ops.push_back(op);
    process.next_ticket = op.ticket + 1;
  }

  // Its calls run on the streams that they were captured on, on each one behind the other; a
  // group's share of a stream is one unit. The stream that it is launched on goes on behind the
  // last call.
  void replay(size_t r, const Step& step) {
    Rank& rank = ranks_[r];
    Process& process = outcome_.run.processes[r];
    Op launch;
    launch.called_ns = now_ns_;
    launch.returned_ns = now_ns_ + 1000;
    launch.ticket = process.ops.size() + 1;
    launch.kind = OpKind::GraphLaunch;
    launch.comm = kCommUnknown;
    launch.graph = step.graph;
    launch.seq = graph_of(process, step.graph).launches++;
    launch.stream = static_cast<uint64_t>(step.stream) + 1;
    launch.result = 0;
    launch.state = OpState::returned;
    launch.awaits_gpu = true;
    process.ops.push_back(launch);
    process.next_ticket = launch.ticket + 1;
    ++rank.replays;
    add_gate(rank, step, process.ops.size() - 1, false);
    std::map<int, std::pair<uint32_t, uint32_t>> units;  // number and group of the last, by stream
    uint32_t number = 0;                                 // of a unit in the order of the capture
    uint32_t group = 0;
    for (Step one : rank.captured[step.graph]) {
      const bool is_new = one.group == 0 || one.group != group;
      number += is_new;
      group = one.group;
      auto& [unit, group_there] = units[one.stream];
      unit += one.group == 0 || one.group != group_there;
      group_there = one.group;
      one.stream += kStreamsOfGraphs + static_cast<int>(step.graph) * kStreamsMax;
      if (is_new && number == step.stands_at && !step.is_lame) {
        enqueue(rank, {.act = Act::block, .stream = one.stream}, 0, 0);
      }
      one.is_lame = step.is_lame && number == step.stands_at;
      one.graph = 0;
      if (group != 0) one.group = kGroupsOfReplays + rank.replays * kGroupsMax + group;
      Pending& pending = enqueue(rank, one, 0, process.ops.size() - 1);
      pending.graph = step.graph;
      pending.unit = unit;
    }
    add_gate(rank, step, process.ops.size() - 1, true);
  }

  void add_gate(Rank& rank, const Step& step, size_t launch, bool is_last) {
    Pending& gate = enqueue(rank, step, 0, launch);
    gate.graph = step.graph;
    gate.is_last = is_last;
  }

  static trace::Graph::Lane& lane_of(trace::Graph& graph, uint64_t stream) {
    for (trace::Graph::Lane& lane : graph.lanes) {
      if (lane.stream == stream) return lane;
    }
    return graph.lanes.emplace_back(trace::Graph::Lane{.stream = stream, .position = 0});
  }

  static trace::Graph& graph_of(Process& process, uint32_t number) {
    for (trace::Graph& graph : process.graphs) {
      if (graph.graph == number) return graph;
    }
    return process.graphs.emplace_back(trace::Graph{.graph = number, .lanes = {}});
  }

  // NCCL matches what is given to the GPU in that order, whenever it was called.
  Pending& enqueue(Rank& rank, const Step& step, uint64_t seq, size_t op) {
    if (replays_ && step.act == Act::call && !is_rma(step.kind)) {
      const bool is_ranked = is_collective(step.kind);
      seq = rank.executed[{step.comm, is_ranked ? OpKind::AllReduce : step.kind,
                           is_ranked ? -1 : step.root_or_peer}]++;
    }
    const uint64_t turn = rank.calls++;
    if (step.group == 0 || step.group != rank.newest_group) rank.group_start = turn;
    rank.newest_group = step.group;
    std::vector<Pending>& calls = rank.streams[step.stream].calls;
    return calls.emplace_back(Pending{step, seq, turn, rank.group_start, op});
  }

  // Something that it waits for by an event is still at work. Inside a replay that is another call
  // of it, and the replay itself.
  static bool is_held_back(const Rank& rank, const Pending& wanted) {
    if (wanted.is_inside() && !rank.begun.contains(wanted.op)) return true;
    if (!wanted.step.joins) return false;
    return any_pending(rank, [&](const Pending& other) {
      if (wanted.is_inside() != other.is_inside()) return false;
      if (wanted.is_inside() && other.op != wanted.op) return false;
      return !other.done && !other.step.detached && other.turn < wanted.start;
    });
  }

  template <typename Is>
  static bool any_pending(const Rank& rank, Is is) {
    return std::any_of(rank.streams.begin(), rank.streams.end(), [&](const auto& stream) {
      const std::vector<Pending>& calls = stream.second.calls;
      return std::any_of(calls.begin(), calls.end(), is);
    });
  }

  // The GPU comes to replays, and goes on behind those of which all calls are through.
  bool pass_gates(size_t r) {
    Rank& rank = ranks_[r];
    bool any = false;
    for (auto& [stream, queue] : rank.streams) {
      for (Pending& pending : queue.calls) {
        if (pending.done) continue;
        if (!pending.is_gate() || !may_pass(rank, pending)) break;
        pass(r, pending);
        watch_ends(r);  // of what came before it
        any = true;
      }
    }
    return any;
  }

  static bool may_pass(const Rank& rank, const Pending& gate) {
    if (!gate.is_last) return !is_held_back(rank, gate);
    return !any_pending(rank, [&](const Pending& other) {
      return other.is_inside() && other.op == gate.op && !other.done;
    });
  }

  // Each launch sets the positions back.
  void pass(size_t r, Pending& gate) {
    gate.done = true;
    if (gate.is_last) return;
    ranks_[r].begun.insert(gate.op);
    if (!options_.watched) return;
    Process& process = outcome_.run.processes[r];
    Op& launch = process.ops[gate.op];
    launch.started_ns = now_ns_ += kGpuNs;
    launch.state = OpState::started;
    for (trace::Graph::Lane& lane : graph_of(process, gate.graph).lanes) lane.position = 0;
  }

  // NCCL launches a group at its end: not while another call of it is to come.
  bool is_open(size_t r, uint32_t group) const {
    const std::vector<Step>& steps = program_.ranks[r];
    const Rank& rank = ranks_[r];
    if (group == 0 || rank.newest_group != group) return false;
    const auto next = std::find_if(steps.begin() + static_cast<ptrdiff_t>(rank.at), steps.end(),
                                   [](const Step& step) { return step.act == Act::call; });
    return next != steps.end() && next->group == group;
  }

  // The calls at the front of a stream: the first unfinished one and its group.
  std::vector<Pending*> front(size_t r, Queue& queue) {
    const Rank& rank = ranks_[r];
    std::vector<Pending*> list;
    for (Pending& pending : queue.calls) {
      if (pending.done && list.empty()) continue;
      if (pending.step.act == Act::block || pending.is_gate()) break;
      if (is_open(r, pending.step.group)) break;
      if (!list.empty() &&
          (list.front()->step.group == 0 || pending.step.group != list.front()->step.group)) {
        break;
      }
      // A finished member of a group that is still at work keeps the group at the front.
      list.push_back(&pending);
    }
    std::erase_if(list, [](const Pending* pending) { return pending->done; });
    const bool is_free = std::none_of(list.begin(), list.end(),
                                      [&](const Pending* one) { return is_held_back(rank, *one); });
    return is_free ? list : std::vector<Pending*>{};
  }

  std::vector<Pending*> fronts(size_t r) {
    std::vector<Pending*> list;
    for (auto& [stream, queue] : ranks_[r].streams) {
      for (Pending* pending : front(r, queue)) list.push_back(pending);
    }
    return list;
  }

  static bool agree(const Step& a, const Step& b) {
    if (a.kind != b.kind || a.count != b.count || a.datatype != b.datatype) return false;
    const OpTraits& traits = traits_of(a.kind);
    if (traits.reduces && a.reduction != b.reduction) return false;
    return !traits.rooted || a.root_or_peer == b.root_or_peer;
  }

  bool try_collective(const Pending& wanted) {
    std::vector<std::pair<size_t, Pending*>> found;
    for (const int r : program_.comms[wanted.step.comm].ranks) {
      if (ranks_[r].end_ns != 0) return false;
      Pending* match = nullptr;
      for (Pending* pending : fronts(r)) {
        if (pending->step.comm == wanted.step.comm && is_collective(pending->step.kind) &&
            pending->seq == wanted.seq) {
          match = pending;
        }
      }
      if (!match || !agree(match->step, wanted.step) || match->step.is_lame) return false;
      found.emplace_back(r, match);
    }
    for (const auto& [r, pending] : found) complete(r, *pending);
    return true;
  }

  bool try_pair(size_t r, Pending& wanted) {
    const CommSpec& comm = program_.comms[wanted.step.comm];
    const int peer = comm.ranks[wanted.step.root_or_peer];
    const int mine = rank_in(comm, static_cast<int>(r));
    const bool is_send = wanted.step.kind == OpKind::Send;
    // Buffered or not: a kernel that never ends does not end because NCCL has room for its data.
    if (wanted.step.is_lame) return false;
    const bool is_eager =
        is_send && wanted.step.group == 0 &&
        wanted.step.count * bytes_of_datatype(wanted.step.datatype) <= options_.eager_bytes;
    for (auto& [stream, queue] : ranks_[peer].streams) {
      const std::vector<Pending*> ready = front(static_cast<size_t>(peer), queue);
      for (Pending& other : queue.calls) {
        const bool is_it = other.step.comm == wanted.step.comm && is_p2p(other.step.kind) &&
                           other.step.kind != wanted.step.kind && other.step.root_or_peer == mine &&
                           other.seq == wanted.seq;
        if (!is_it) continue;
        const bool agrees =
            other.step.count == wanted.step.count && other.step.datatype == wanted.step.datatype;
        if (!agrees || other.step.is_lame) return false;
        const bool is_there =
            other.done || std::find(ready.begin(), ready.end(), &other) != ready.end();
        if (!is_there && !is_eager) return false;
        if (is_there) complete(static_cast<size_t>(peer), other);
        complete(r, wanted);
        return true;
      }
    }
    if (is_eager) complete(r, wanted);
    return is_eager;
  }

  // A signal waits for nobody; a wait, for as many signals as were asked for until then.
  bool try_signal(size_t r, Pending& wanted) {
    const CommSpec& comm = program_.comms[wanted.step.comm];
    const int mine = rank_in(comm, static_cast<int>(r));
    if (wanted.step.kind == OpKind::WaitSignal) {
      Rank& source = ranks_[comm.ranks[wanted.step.root_or_peer]];
      if (source.signalled[{wanted.step.comm, mine}] < wanted.seq + wanted.step.count) return false;
    } else {
      ++ranks_[r].signalled[{wanted.step.comm, wanted.step.root_or_peer}];
    }
    complete(r, wanted);
    return true;
  }

  bool try_one(size_t r, Pending& wanted) {
    if (is_p2p(wanted.step.kind)) return try_pair(r, wanted);
    return is_rma(wanted.step.kind) ? try_signal(r, wanted) : try_collective(wanted);
  }

  bool complete_one() {
    bool any = false;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].end_ns != 0) continue;
      watch_ends(r);
      any = pass_gates(r) || any;
      for (Pending* pending : fronts(r)) {
        if (pending->done) continue;
        any = try_one(r, *pending) || any;
      }
    }
    for (size_t r = 0; any && r < ranks_.size(); ++r) watch_ends(r);
    return any;
  }

  // As the events in front of the calls tell it.
  void watch_begins() {
    for (size_t r = 0; options_.watched && r < ranks_.size(); ++r) {
      if (ranks_[r].end_ns != 0) continue;
      await_launched(r);
      const Pending* last = nullptr;
      for (Pending* pending : fronts(r)) {
        if (std::exchange(pending->started, true)) continue;
        const bool is_of_share = last != nullptr && last->step.stream == pending->step.stream;
        begin(r, *pending, is_of_share ? now_ns_ : now_ns_ + kGpuNs);
        last = pending;
      }
    }
  }

  void await_launched(size_t r) {
    for (auto& [stream, queue] : ranks_[r].streams) {
      for (size_t i = queue.told; i < queue.calls.size(); ++i) {
        const Pending& pending = queue.calls[i];
        if (pending.step.act == Act::block || is_open(r, pending.step.group)) continue;
        if (pending.graph != 0) continue;
        outcome_.run.processes[r].ops[pending.op].awaits_gpu = true;
      }
    }
  }

  void complete(size_t r, Pending& pending) {
    if (!std::exchange(pending.started, true)) begin(r, pending, now_ns_ + kGpuNs);
    pending.done = true;
  }

  void begin(size_t r, const Pending& pending, int64_t at_ns) {
    if (!options_.watched) return;
    Process& process = outcome_.run.processes[r];
    Op& op = process.ops[pending.op];
    now_ns_ = at_ns;
    if (pending.graph != 0) put_position(process, pending, 2 * pending.unit - 1);
    if (op.started_ns != 0) return;
    op.started_ns = at_ns;
    op.state = OpState::started;
  }

  // As those behind them: a group's share of a stream is through as one.
  void watch_ends(size_t r) {
    if (!options_.watched || ranks_[r].end_ns != 0) return;
    for (auto& [stream, queue] : ranks_[r].streams) {
      while (const size_t share = finished_share(queue)) {
        now_ns_ += kGpuNs;
        for (size_t i = 0; i < share; ++i) end(r, queue.calls[queue.told++]);
      }
    }
  }

  // Number of calls.
  static size_t finished_share(const Queue& queue) {
    const std::vector<Pending>& calls = queue.calls;
    size_t end = queue.told;
    const auto is_of_share = [&](const Pending& pending) {
      const uint32_t group = calls[queue.told].step.group;
      return end == queue.told || (group != 0 && pending.step.group == group);
    };
    for (; end < calls.size() && is_of_share(calls[end]); ++end) {
      if (!calls[end].done) return 0;
    }
    return end - queue.told;
  }

  static void put_position(Process& process, const Pending& pending, uint64_t position) {
    const auto stream = static_cast<uint64_t>(pending.step.stream % kStreamsMax) + 1;
    lane_of(graph_of(process, pending.graph), stream).position = position;
  }

  void end(size_t r, const Pending& pending) {
    Process& process = outcome_.run.processes[r];
    Op& op = process.ops[pending.op];
    if (pending.graph != 0) {
      if (!pending.is_gate()) put_position(process, pending, 2 * uint64_t{pending.unit});
      if (!pending.is_last) return;
    }
    if (op.started_ns == 0) begin(r, pending, now_ns_);  // of what an abort ends
    op.finished_ns = now_ns_;
    op.state = OpState::finished;
    op.awaits_gpu = false;
  }

  // Its kernels end, and what comes behind them runs empty.
  void drain(size_t r) {
    const Rank& rank = ranks_[r];
    bool moved = true;
    while (moved) {
      moved = false;
      for (auto& [stream, queue] : ranks_[r].streams) {
        for (; queue.told < queue.calls.size(); ++queue.told) {
          Pending& pending = queue.calls[queue.told];
          if (pending.step.act == Act::block) break;
          if (pending.is_gate() ? !may_pass(rank, pending)
                                : pending.is_inside() && !rank.begun.contains(pending.op)) {
            break;
          }
          if (pending.is_gate() && !pending.done) pass(r, pending);
          pending.done = true;
          now_ns_ += kGpuNs;
          end(r, pending);
          moved = true;
        }
      }
    }
  }

  void build_processes() {
    comm_of_.resize(ranks_.size());
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Process& process = outcome_.run.processes.emplace_back();
      process.file = fmt::format("rank{}.ring", r);
      process.host = "node0";
      process.pid = 1000 + static_cast<uint32_t>(r);
      process.job_rank = static_cast<int32_t>(r);
      process.started_ns = kEpochNs;
      if (options_.watched)
        process.meta = {{"gpu_timing", "events"}, {"graph_launches", "watched"}};
      for (size_t k = 0; k < program_.comms.size(); ++k) {
        const CommSpec& spec = program_.comms[k];
        if (spec.is_late || rank_in(spec, static_cast<int>(r)) < 0) continue;
        process.comms.push_back(make_comm(r, static_cast<int>(k)));
        comm_of_[r].push_back(static_cast<int>(k));
      }
    }
  }

  // Once one rank has aborted, watchdogs end the others.
  void follow_aborts() {
    const bool any =
        std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.aborted; });
    if (!any) return;
    now_ns_ += kWatchdogNs;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].end_ns == 0 && !ranks_[r].frozen) leave_by_abort(r, now_ns_ += kCallNs);
    }
  }

  Outcome finish() {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const Rank& rank = ranks_[r];
      const bool is_through = rank.at == program_.ranks[r].size() && !rank.ended && !rank.frozen;
      if (!is_through || !is_idle(rank)) outcome_.hung = true;
      outcome_.stands.push_back(!is_idle(rank));
    }
    follow_aborts();
    const bool is_over =
        std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.aborted; });
    const bool stands = outcome_.hung && !is_over;
    const int64_t end_ns = now_ns_ + (stands ? options_.stall_ns : 1'000'000);
    outcome_.run.read_at_ns = end_ns;
    outcome_.run.live = outcome_.hung && options_.live;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Process& process = outcome_.run.processes[r];
      const Rank& rank = ranks_[r];
      process.heartbeat_ns = rank.end_ns != 0 ? rank.end_ns : end_ns;
      process.liveness = options_.live && outcome_.hung ? Liveness::running : Liveness::dead;
      if (rank.ended) process.liveness = process.exited_ns ? Liveness::exited : Liveness::dead;
      if (rank.frozen && rank.end_ns != 0 && options_.live) process.liveness = Liveness::stopped;
      if (outcome_.hung) continue;
      process.exited_ns = end_ns;
      process.liveness = Liveness::exited;
      for (Comm& comm : process.comms) {
        comm.state = CommState::destroyed;
        comm.ended_ns = end_ns - 1000;
      }
    }
    return std::move(outcome_);
  }

  const Program& program_;
  const ClusterOptions& options_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<int>> comm_of_;
  std::map<std::pair<int, int>, std::vector<size_t>> creating_;  // who has called
  std::mt19937_64 random_;
  const bool replays_;
  Outcome outcome_;
  int64_t now_ns_ = kEpochNs + 1'000'000;
};

}  // namespace

Outcome execute(const Program& program, const ClusterOptions& options) {
  return Machine(program, options).run();
}

}  // namespace rollcall::sim
