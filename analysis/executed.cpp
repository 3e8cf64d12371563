#include "analysis/executed.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/captured.h"
#include "analysis/gpu_state.h"

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Graph;
using trace::Op;
using trace::OpState;
using trace::Process;

// A process's window of a million calls is the most that is held of a run.
constexpr size_t kExecutedMax = 1 << 20;

bool has_graphs(const Process& process) {
  return std::any_of(process.ops.begin(), process.ops.end(),
                     [](const Op& op) { return op.graph != 0; });
}

// Every call that the communicators count.
bool has_all_calls(const Process& process) {
  struct Counts {
    uint64_t collectives = 0, sends = 0, recvs = 0;
  };
  std::vector<Counts> counts(process.comms.size());
  for (const Op& op : process.ops) {
    if (is_mark(op.kind)) continue;
    if (is_rma(op.kind) || op.comm >= counts.size()) return false;
    Counts& own = counts[op.comm];
    ++(is_collective(op.kind) ? own.collectives : op.kind == OpKind::Send ? own.sends : own.recvs);
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    const Comm& comm = process.comms[i];
    if (comm.collectives != counts[i].collectives || comm.sends != counts[i].sends ||
        comm.recvs != counts[i].recvs) {
      return false;
    }
  }
  return process.torn == 0;
}

using CapturedOps = std::unordered_map<uint32_t, std::vector<uint32_t>>;  // by graph

CapturedOps captured_of(const Process& process) {
  CapturedOps captured;
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    if (is_captured(op) && !is_mark(op.kind)) captured[op.graph].push_back(i);
  }
  return captured;
}

// Calls that were executed; nothing where that is not on file.
std::optional<size_t> count_executed(const Process& process, const CapturedOps& captured) {
  size_t count = 0;
  std::map<uint32_t, uint64_t> launches;
  for (const Op& op : process.ops) {
    if (op.kind != OpKind::GraphLaunch) {
      count += !is_captured(op);
      continue;
    }
    const Graph* graph = graph_of(process, op.graph);
    const auto ops = captured.find(op.graph);
    const bool is_whole =
        graph != nullptr && ops != captured.end() && ops->second.size() == graph->operations;
    if (!is_whole) return std::nullopt;
    if (op.state == OpState::failed) continue;
    ++launches[op.graph];
    count += ops->second.size();
    if (count > kExecutedMax) return std::nullopt;
  }
  for (const Graph& graph : process.graphs) {
    if (graph.launches != launches[graph.graph]) return std::nullopt;
  }
  // What runs within another graph, or is launched past the recorder, is not seen to be launched.
  const bool runs_unseen = std::any_of(captured.begin(), captured.end(), [&](const auto& graph) {
    return launches[graph.first] == 0;
  });
  return runs_unseen ? std::nullopt : std::optional(count);
}

// One process's calls, in the order in which they were given to the GPU.
class Execution {
 public:
  Execution(const Process& process, const CapturedOps& captured)
      : process_(process), captured_(captured) {}

  std::vector<Op> run() {
    for (const Op& op : process_.ops) {
      if (op.kind == OpKind::GraphLaunch) {
        replay(op);
      } else if (!is_captured(op)) {
        add(op);
      }
    }
    return std::move(executed_);
  }

 private:
  void replay(const Op& launch) {
    const auto captured = captured_.find(launch.graph);
    if (captured == captured_.end() || launch.state == OpState::failed) return;
    const Graph& graph = *graph_of(process_, launch.graph);
    ++replays_;
    std::map<uint64_t, UnitCount> units;  // by stream
    for (const uint32_t i : captured->second) {
      Op op = process_.ops[i];
      const uint64_t unit = units[op.stream].number_of(op);
      put_state(launch, graph, unit, op);
      // What one stream captured runs in the order of the stream that it is launched on.
      if (graph.lanes.size() <= 1) op.stream = launch.stream;
      if (op.group != 0) op.group = group_of(op.group);
      op.graph = 0;
      add(op);
    }
  }

  // `unit`: of its stream in the graph, from 1.
  static void put_state(const Op& launch, const Graph& graph, uint64_t unit, Op& op) {
    const auto lane = std::find_if(graph.lanes.begin(), graph.lanes.end(),
                                   [&](const Graph::Lane& l) { return l.stream == op.stream; });
    const bool is_over = is_through(launch);
    const bool is_begun = is_over || has_begun(launch);
    // Positions are those of the replay that runs. Without one nothing is known of its calls.
    const bool is_known = lane != graph.lanes.end();
    const uint64_t position = is_known ? lane->position : 0;
    const bool is_finished = is_over || (is_begun && position >= 2 * unit);
    const bool is_started = is_finished || (is_begun && position + 1 == 2 * unit);
    op.called_ns = launch.called_ns;
    op.returned_ns = launch.returned_ns;
    op.launched_ns = launch.launched_ns;
    op.started_ns = is_started ? std::max(launch.started_ns, launch.called_ns) : 0;
    op.finished_ns = !is_finished ? 0 : std::max(launch.finished_ns, op.started_ns);
    op.awaits_gpu = launch.awaits_gpu && !is_finished && (!is_begun || is_known);
    op.mark = GpuMark::none;
    op.state = is_finished ? OpState::finished : is_started ? OpState::started : OpState::returned;
  }

  // A group is of one replay.
  uint32_t group_of(uint32_t captured) {
    const auto [found, is_new] = groups_.try_emplace({replays_, captured}, 0);
    if (is_new) found->second = 0x80000000u | static_cast<uint32_t>(groups_.size());
    return found->second;
  }

  void add(Op op) {
    if (!is_mark(op.kind)) {
      const bool is_ranked = is_collective(op.kind);
      const auto key = std::make_tuple(op.comm, is_ranked ? OpKind::AllReduce : op.kind,
                                       is_ranked ? -1 : op.root_or_peer);
      op.seq = next_[key]++;
    }
    executed_.push_back(op);
  }

  const Process& process_;
  const CapturedOps& captured_;
  std::vector<Op> executed_;
  std::map<std::tuple<uint32_t, OpKind, int32_t>, uint64_t> next_;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> groups_;
  uint64_t replays_ = 0;
};

void count_calls(Process& process) {
  for (Comm& comm : process.comms) comm.collectives = comm.sends = comm.recvs = 0;
  for (const Op& op : process.ops) {
    if (is_mark(op.kind)) continue;
    Comm& comm = process.comms[op.comm];
    ++(is_collective(op.kind)    ? comm.collectives
       : op.kind == OpKind::Send ? comm.sends
                                 : comm.recvs);
  }
}

// What the GPUs did with the calls is known from the launches.
bool is_about_gpus(const Finding& finding) {
  return finding.verdict == Verdict::stuck_on_gpu || finding.verdict == Verdict::stream_blocked ||
         finding.verdict == Verdict::stuck_outside;
}

// They have not called what others wait in because their GPUs are in a replay.
bool blames_for_replays(const trace::Run& run, const Finding& finding) {
  return finding.verdict == Verdict::missing_call && !finding.culprits.empty() &&
         std::all_of(finding.culprits.begin(), finding.culprits.end(), [&](const Culprit& culprit) {
           if (culprit.process >= run.processes.size()) return false;
           const std::vector<Op>& ops = run.processes[culprit.process].ops;
           return std::any_of(ops.begin(), ops.end(), [](const Op& op) {
             return op.kind == OpKind::GraphLaunch && op.awaits_gpu && has_begun(op) &&
                    !is_through(op);
           });
         });
}

}  // namespace

std::optional<trace::Run> as_executed(const trace::Run& run) {
  size_t total = 0;
  bool has_captured = false;
  std::vector<CapturedOps> captured;
  for (const Process& process : run.processes) {
    captured.push_back(captured_of(process));
    if (!has_graphs(process)) continue;
    has_captured = true;
    if (!watches_graphs(process) || !has_all_calls(process)) return std::nullopt;
    const std::optional<size_t> count = count_executed(process, captured.back());
    if (!count) return std::nullopt;
    total += *count;
    if (total > kExecutedMax) return std::nullopt;
  }
  if (!has_captured) return std::nullopt;
  trace::Run executed = run;
  for (size_t p = 0; p < run.processes.size(); ++p) {
    Process& process = executed.processes[p];
    if (!has_graphs(process)) continue;
    process.ops = Execution(run.processes[p], captured[p]).run();
    process.graphs.clear();
    count_calls(process);
  }
  return executed;
}

bool is_better(const trace::Run& run, const Report& recorded, const Report& executed) {
  const Finding& old_lead = recorded.findings.front();
  const Finding& new_lead = executed.findings.front();
  // Nobody waits for a difference between captured calls if all ran the same.
  if (is_defect(old_lead)) {
    if (new_lead.verdict == Verdict::in_lockstep) return true;
    if (blames_for_replays(run, old_lead)) {
      return is_defect(new_lead) && !new_lead.culprits.empty() &&
             new_lead.culprits.size() <= old_lead.culprits.size();
    }
    return old_lead.verdict == Verdict::graph_diverged && is_defect(new_lead) &&
           (new_lead.culprits.size() < old_lead.culprits.size() || is_about_gpus(new_lead) ||
            new_lead.verdict == Verdict::rank_dead || new_lead.verdict == Verdict::rank_stopped);
  }
  return old_lead.verdict == Verdict::insufficient && is_defect(new_lead) &&
         !is_about_gpus(new_lead);
}

}  // namespace rollcall::analysis
