#include "analysis/views/as_executed.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/gpu/captured.h"
#include "analysis/gpu/fronts.h"
#include "analysis/words/draft.h"
#include "core/base/limits.h"

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Graph;
using trace::Op;
using trace::OpState;
using trace::Process;

// Numbers that no counter reaches: a damaged or hostile file.
constexpr uint64_t kSeqMax = uint64_t{1} << 62;

bool has_graphs(const Process& process) {
  return !process.graphs.empty() || std::any_of(process.ops.begin(), process.ops.end(),
                                                [](const Op& op) { return op.graph != 0; });
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

// What numbers a call: the communicator's collectives, or its sends or receives of one peer.
using Counter = std::tuple<uint32_t, OpKind, int32_t>;
using Counts = std::map<Counter, uint64_t>;

Counter counter_of(const Op& op) {
  const bool is_ranked = is_collective(op.kind);
  return {op.comm, is_ranked ? OpKind::AllReduce : op.kind, is_ranked ? -1 : op.root_or_peer};
}

// How often each counter went on, whether captured or not and on file or not. Nothing where that is
// not known.
std::optional<Counts> count_calls_made(const Process& process) {
  Counts made;
  for (const Op& op : process.ops) {
    if (is_mark(op.kind)) continue;
    if (is_rma(op.kind) || op.comm >= process.comms.size()) return std::nullopt;
    uint64_t& count = made[counter_of(op)];
    count = std::max(count, op.seq + 1);
  }
  std::vector<uint64_t> sends(process.comms.size());
  std::vector<uint64_t> recvs(process.comms.size());
  for (const auto& [counter, count] : made) {
    const auto& [comm, kind, peer] = counter;
    if (kind == OpKind::Send) sends[comm] += count;
    if (kind == OpKind::Recv) recvs[comm] += count;
  }
  for (uint32_t i = 0; i < process.comms.size(); ++i) {
    const Comm& comm = process.comms[i];
    if (comm.sends != sends[i] || comm.recvs != recvs[i]) return std::nullopt;
    if (comm.collectives == 0) continue;
    uint64_t& collectives = made[{i, OpKind::AllReduce, -1}];
    if (comm.collectives < collectives) return std::nullopt;
    collectives = comm.collectives;
  }
  return made;
}

// The newest calls of a process that are on file without a gap, and are counted as executed.
struct Newest {
  size_t first = 0;         // index into Process::ops: what is called before is left out
  size_t calls = 0;         // as executed
  bool leaves_out = false;  // something that is on file
  Counts before;            // what was executed before them

  bool holds(const Process& process, size_t i) const {
    return i >= first && process.ops[i].ticket >= process.first_complete_ticket;
  }
};

size_t count_executed(const Op& op, const CapturedOps& captured) {
  if (is_captured(op)) return 0;
  if (op.kind != OpKind::GraphLaunch) return 1;
  return op.state == OpState::failed ? 0 : captured.at(op.graph).size();
}

// A group is not taken apart.
Newest find_newest(const Process& process, const CapturedOps& captured, size_t calls_max) {
  Newest newest;
  newest.first = process.ops.size();
  size_t calls = 0;
  for (size_t i = process.ops.size(); i-- > 0;) {
    const Op& op = process.ops[i];
    if (is_captured(op)) continue;
    const size_t more = count_executed(op, captured);
    newest.leaves_out = op.ticket < process.first_complete_ticket || calls + more > calls_max;
    if (newest.leaves_out) break;
    calls += more;
    const bool is_inside = i > 0 && op.group != 0 && process.ops[i - 1].group == op.group;
    if (is_inside) continue;
    newest.first = i;
    newest.calls = calls;
  }
  return newest;
}

bool is_all(const Process& process, const Newest& newest) {
  return !newest.leaves_out && process.first_complete_ticket <= 1;
}

// Each graph with all that it holds.
bool has_whole_graphs(const Process& process, const CapturedOps& captured) {
  std::set<uint32_t> numbers;
  for (const Graph& graph : process.graphs) numbers.insert(graph.graph);
  const bool are_distinct =
      numbers.size() == process.graphs.size() && captured.size() == numbers.size();
  // Of a full table some entries may have been other graphs' before.
  if (process.graphs.size() >= kGraphsMax || !are_distinct) return false;
  const bool are_whole =
      std::all_of(process.graphs.begin(), process.graphs.end(), [&](const Graph& graph) {
        const auto ops = captured.find(graph.graph);
        return ops != captured.end() && ops->second.size() == graph.operations;
      });
  return are_whole && std::all_of(process.ops.begin(), process.ops.end(), [&](const Op& op) {
           return op.kind != OpKind::GraphLaunch || captured.count(op.graph) != 0;
         });
}

// The launches of the newest calls are those that the graphs count.
bool agrees_on_launches(const Process& process, const Newest& newest) {
  std::map<uint32_t, uint64_t> on_file;
  std::map<uint32_t, uint64_t> last;
  for (size_t i = newest.first; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    const bool counts =
        op.kind == OpKind::GraphLaunch && op.state != OpState::failed && newest.holds(process, i);
    if (!counts) continue;
    ++on_file[op.graph];
    last[op.graph] = op.seq + 1;
  }
  return std::all_of(process.graphs.begin(), process.graphs.end(), [&](const Graph& graph) {
    const uint64_t launches = on_file[graph.graph];
    if (is_all(process, newest)) return launches == graph.launches;
    return launches == 0 || (launches <= graph.launches && last[graph.graph] == graph.launches);
  });
}

// Calls that were counted (`made`) and no record is of stand between the newest ones, or behind
// them: what is on file has other numbers among what was executed than one would think.
bool has_gaps(const Process& process, const Newest& newest, const Counts& made) {
  for (const char* name : {"dropped_paused", "dropped_pinned", "dropped_off"}) {
    const auto found = process.statistics.find(name);
    if (found != process.statistics.end() && found->second != 0) return true;
  }
  struct Numbers {
    uint64_t first = UINT64_MAX;
    uint64_t last = 0;
    uint64_t count = 0;
  };
  std::map<Counter, Numbers> on_file;
  for (size_t i = newest.first; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    if (!newest.holds(process, i) || is_mark(op.kind)) continue;
    Numbers& numbers = on_file[counter_of(op)];
    numbers.first = std::min(numbers.first, op.seq);
    numbers.last = std::max(numbers.last, op.seq);
    ++numbers.count;
  }
  return std::any_of(on_file.begin(), on_file.end(), [&](const auto& entry) {
    const Numbers& numbers = entry.second;
    return numbers.last - numbers.first + 1 != numbers.count ||
           numbers.last + 1 != made.at(entry.first);
  });
}

// Each call of a replay that runs is on a stream of which the position is known.
bool knows_places(const Process& process, const CapturedOps& captured) {
  return std::all_of(process.ops.begin(), process.ops.end(), [&](const Op& launch) {
    const bool runs = launch.kind == OpKind::GraphLaunch && launch.state != OpState::failed &&
                      launch.awaits_gpu && !is_through(launch) && has_begun(launch);
    if (!runs) return true;
    const Graph* graph = graph_of(process, launch.graph);
    const std::vector<uint32_t>& ops = captured.at(launch.graph);
    return graph != nullptr && std::all_of(ops.begin(), ops.end(), [&](uint32_t i) {
             return std::any_of(graph->lanes.begin(), graph->lanes.end(), [&](const auto& lane) {
               return lane.stream == process.ops[i].stream;
             });
           });
  });
}

// It goes on, and its number among what was executed is not known.
bool leaves_out_open(const Process& process, const Newest& newest) {
  for (size_t i = 0; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    if (newest.holds(process, i) || is_captured(op)) continue;
    if (op.returned_ns == 0 || op.awaits_gpu) return true;
  }
  return false;
}

// Nothing where that is not on file.
std::optional<Newest> count_newest(const Process& process, const CapturedOps& captured,
                                   size_t calls_max) {
  if (process.torn != 0 || !has_whole_graphs(process, captured)) return std::nullopt;
  std::optional<Counts> made = count_calls_made(process);
  if (!made) return std::nullopt;
  Newest newest = find_newest(process, captured, calls_max);
  const bool is_known = newest.calls != 0 && agrees_on_launches(process, newest) &&
                        !has_gaps(process, newest, *made) && !leaves_out_open(process, newest);
  if (!is_known) return std::nullopt;
  // Modulo 2^64: of a damaged file what goes below nothing is seen at the end.
  newest.before = std::move(*made);
  for (const Graph& graph : process.graphs) {
    for (const uint32_t i : captured.at(graph.graph)) {
      newest.before[counter_of(process.ops[i])] += graph.launches - 1;
    }
  }
  for (size_t i = newest.first; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    if (!newest.holds(process, i) || is_captured(op) || count_executed(op, captured) == 0) continue;
    if (op.kind != OpKind::GraphLaunch) {
      if (!is_mark(op.kind)) --newest.before[counter_of(op)];
      continue;
    }
    for (const uint32_t c : captured.at(op.graph)) --newest.before[counter_of(process.ops[c])];
  }
  const bool is_sound =
      std::all_of(newest.before.begin(), newest.before.end(), [&](const auto& counter) {
        return is_all(process, newest) ? counter.second == 0 : counter.second < kSeqMax;
      });
  return is_sound ? std::optional(std::move(newest)) : std::nullopt;
}

// What was captured into graphs that are never launched on file, by communicator: such graphs may
// run all the same, within another one, or launched past the recorder.
using Shape = std::tuple<OpKind, uint64_t, uint8_t, uint8_t, int32_t>;
using Unlaunched = std::map<std::pair<uint64_t, uint64_t>, std::vector<Shape>>;

Unlaunched find_unlaunched(const Process& process, const CapturedOps& captured) {
  Unlaunched unlaunched;
  for (const Comm& comm : process.comms) {
    if (!comm.key.is_null()) unlaunched[{comm.key.high, comm.key.low}];
  }
  for (const Graph& graph : process.graphs) {
    if (graph.launches != 0) continue;
    for (const uint32_t i : captured.at(graph.graph)) {
      const Op& op = process.ops[i];
      const CommKey& key = process.comms[op.comm].key;
      unlaunched[{key.high, key.low}].emplace_back(op.kind, op.count, op.datatype, op.reduction,
                                                   op.root_or_peer);
    }
  }
  return unlaunched;
}

// Where all ranks have the same in them, it makes no difference whether that runs.
bool add_unlaunched(const Process& process, const CapturedOps& captured, Unlaunched& all) {
  for (auto& [key, shapes] : find_unlaunched(process, captured)) {
    const auto [found, is_new] = all.try_emplace(key, shapes);
    if (!is_new && found->second != shapes) return false;
  }
  return true;
}

// One process's calls, in the order in which they were given to the GPU.
class Execution {
 public:
  Execution(const Process& process, const CapturedOps& captured, const Newest& newest)
      : process_(process), captured_(captured), newest_(newest), next_(newest.before) {
    for (const Graph& graph : process.graphs) graphs_[graph.graph] = &graph;
  }

  std::vector<Op> run() {
    for (size_t i = newest_.first; i < process_.ops.size(); ++i) {
      const Op& op = process_.ops[i];
      if (!newest_.holds(process_, i)) continue;
      if (op.kind == OpKind::GraphLaunch) {
        replay(op);
      } else if (!is_captured(op)) {
        add(op);
      }
    }
    return std::move(executed_);
  }
  // Of each counter, what was executed in all.
  const Counts& counts() const { return next_; }

 private:
  void replay(const Op& launch) {
    if (launch.state == OpState::failed) return;
    const Graph& graph = *graphs_.at(launch.graph);
    ++replays_;
    std::map<uint64_t, UnitCount> units;  // by stream
    std::vector<Op> ops;
    for (const uint32_t i : captured_.at(launch.graph)) {
      Op& op = ops.emplace_back(process_.ops[i]);
      const uint64_t unit = units[op.stream].number_of(op);
      put_state(launch, graph, unit, op);
      if (op.group != 0) op.group = group_of(op.group);
      op.graph = 0;
      op.is_replayed = true;
    }
    put_in_order(launch, graph, ops);
    for (const Op& op : ops) add(op);
  }

  // What one stream captured runs in the order of the stream that the graph is launched on, and on
  // that stand the calls of a replay that it has not come to. Of several streams of one that runs
  // nobody knows which waits for which. So the one with the call that it waits in takes the place
  // of the stream that it is launched on, behind which comes what was launched later; and calls
  // behind that one on the others may wait for it.
  static void put_in_order(const Op& launch, const Graph& graph, std::vector<Op>& ops) {
    if (is_through(launch) && graph.lanes.size() > 1) return;
    if (graph.lanes.size() <= 1 || !has_begun(launch)) {
      for (Op& op : ops) op.stream = launch.stream;
      return;
    }
    const auto awaited = awaited_of(ops);
    if (awaited == ops.end()) return;
    const uint64_t stream = awaited->stream;
    const uint32_t group = awaited->group;
    for (auto op = awaited + 1; op != ops.end(); ++op) {
      op->may_wait = op->stream != stream && !has_begun(*op) && (group == 0 || op->group != group);
    }
    for (Op& op : ops) {
      if (op.stream == stream) {
        op.stream = launch.stream;
      } else if (op.stream == launch.stream) {
        op.stream = stream;
      }
    }
  }
  static std::vector<Op>::iterator awaited_of(std::vector<Op>& ops) {
    auto found = std::find_if(ops.begin(), ops.end(), is_inside);
    if (found != ops.end()) return found;
    // Nothing is known of the calls on streams without a position.
    found = std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.awaits_gpu; });
    return found != ops.end() ? found : std::find_if_not(ops.begin(), ops.end(), is_through);
  }
  static bool is_inside(const Op& op) { return has_begun(op) && !is_through(op); }

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
    if (!is_mark(op.kind)) op.seq = next_[counter_of(op)]++;
    executed_.push_back(op);
  }

  const Process& process_;
  const CapturedOps& captured_;
  const Newest& newest_;
  std::unordered_map<uint32_t, const Graph*> graphs_;
  std::vector<Op> executed_;
  Counts next_;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> groups_;
  uint64_t replays_ = 0;
};

void count_calls(const Counts& counts, Process& process) {
  for (Comm& comm : process.comms) comm.collectives = comm.sends = comm.recvs = 0;
  for (const auto& [counter, count] : counts) {
    const auto& [index, kind, peer] = counter;
    Comm& comm = process.comms[index];
    (is_collective(kind)    ? comm.collectives
     : kind == OpKind::Send ? comm.sends
                            : comm.recvs) += count;
  }
}

// What the GPUs did with the calls is known from the launches.
bool is_about_gpus(const Finding& finding) {
  return finding.verdict == Verdict::stuck_on_gpu || finding.verdict == Verdict::stream_blocked ||
         finding.verdict == Verdict::stuck_outside;
}

// One rank called other things than the others, or than those that it exchanges with.
bool is_about_order(const Finding& finding) {
  switch (finding.verdict) {
    case Verdict::missing_call:
    case Verdict::op_mismatch:
    case Verdict::order_mismatch:
    case Verdict::p2p_unmatched:
      return finding.culprits.size() == 1;
    default:
      return false;
  }
}

bool blames(const Finding& finding, const Culprit& culprit) {
  return std::any_of(finding.culprits.begin(), finding.culprits.end(),
                     [&](const Culprit& other) { return culprit.process == other.process; });
}

bool blames_same(const Finding& a, const Finding& b) {
  return std::any_of(a.culprits.begin(), a.culprits.end(),
                     [&](const Culprit& culprit) { return blames(b, culprit); });
}

// It has given its GPU something of this kind that is not through: it may be silent because of
// that.
template <typename Is>
bool waits_for_gpu(const trace::Run& run, const Culprit& culprit, Is is) {
  if (culprit.process >= run.processes.size()) return false;
  const std::vector<Op>& ops = run.processes[culprit.process].ops;
  return std::any_of(ops.begin(), ops.end(),
                     [&](const Op& op) { return op.awaits_gpu && !is_through(op) && is(op); });
}

// All of whom it blames may be silent because of that.
template <typename Is>
bool blames_for_gpus(const trace::Run& run, const Finding& finding, Is is) {
  return !finding.culprits.empty() &&
         std::all_of(finding.culprits.begin(), finding.culprits.end(),
                     [&](const Culprit& culprit) { return waits_for_gpu(run, culprit, is); });
}

bool is_running_replay(const Op& op) { return op.kind == OpKind::GraphLaunch && has_begun(op); }

// It says who is silent, of those that the other one blames, and the rest wait for replays.
bool is_narrower(const trace::Run& run, const Finding& old_lead, const Finding& new_lead) {
  if (new_lead.severity != Severity::hang || is_about_gpus(new_lead)) return false;
  const auto is_left = [&](const Culprit& culprit) {
    return blames(new_lead, culprit) || waits_for_gpu(run, culprit, is_running_replay);
  };
  return !new_lead.culprits.empty() && new_lead.culprits.size() < old_lead.culprits.size() &&
         std::all_of(new_lead.culprits.begin(), new_lead.culprits.end(),
                     [&](const Culprit& culprit) { return blames(old_lead, culprit); }) &&
         std::all_of(old_lead.culprits.begin(), old_lead.culprits.end(), is_left);
}

}  // namespace

std::optional<Executed> as_executed(const trace::Run& run, size_t calls_max) {
  const auto with_graphs =
      static_cast<size_t>(std::count_if(run.processes.begin(), run.processes.end(), has_graphs));
  const bool has_replays =
      std::any_of(run.processes.begin(), run.processes.end(), [](const Process& process) {
        return std::any_of(process.graphs.begin(), process.graphs.end(),
                           [](const Graph& graph) { return graph.launches != 0; });
      });
  if (!has_replays) return std::nullopt;
  std::vector<CapturedOps> captured;
  std::vector<Newest> newest(run.processes.size());
  Unlaunched unlaunched;
  Executed executed;
  for (size_t p = 0; p < run.processes.size(); ++p) {
    const Process& process = run.processes[p];
    captured.push_back(captured_of(process));
    if (has_graphs(process)) {
      if (!watches_graphs(process)) return std::nullopt;
      std::optional<Newest> own = count_newest(process, captured[p], calls_max / with_graphs);
      if (!own) return std::nullopt;
      newest[p] = std::move(*own);
      executed.is_whole = executed.is_whole && is_all(process, newest[p]);
      executed.knows_places = executed.knows_places && knows_places(process, captured[p]);
    }
    if (!add_unlaunched(process, captured[p], unlaunched)) return std::nullopt;
  }
  executed.run = run;
  for (size_t p = 0; p < run.processes.size(); ++p) {
    Process& process = executed.run.processes[p];
    if (!has_graphs(process)) continue;
    Execution execution(run.processes[p], captured[p], newest[p]);
    if (newest[p].leaves_out) {
      process.first_complete_ticket =
          std::max<uint64_t>(process.first_complete_ticket, 2);  // there is something before
    }
    process.ops = execution.run();
    process.graphs.clear();
    count_calls(execution.counts(), process);
  }
  return executed;
}

bool is_better(const trace::Run& run, const Report& recorded, const Executed& view,
               const Report& executed) {
  const Finding& old_lead = recorded.findings.front();
  const Finding& new_lead = executed.findings.front();
  if (!is_defect(old_lead)) {
    return old_lead.verdict == Verdict::insufficient && is_defect(new_lead) &&
           !is_about_gpus(new_lead);
  }
  // Nobody waits for a difference between captured calls if all ran the same.
  if (new_lead.verdict == Verdict::in_lockstep) return view.is_whole;
  if (!is_defect(new_lead)) return false;
  const size_t blamed = new_lead.culprits.size();
  const bool names_one = view.knows_places && is_about_order(new_lead);
  // Other calls than the others': it may have replayed another graph.
  const bool leaves_out = names_one && new_lead.verdict != Verdict::op_mismatch;
  const bool has_ended =
      new_lead.verdict == Verdict::rank_dead || new_lead.verdict == Verdict::rank_stopped;
  switch (old_lead.verdict) {
    // That a call stands on all GPUs says what waits, and not for whom, where one comes too early.
    // Of a replay that was left out the next one may differ in its count only.
    case Verdict::stuck_on_gpu:
      return names_one || (view.knows_places && blamed == 1 && is_mismatch(new_lead.verdict));
    case Verdict::missing_call:
      if (blames_for_gpus(run, old_lead, is_running_replay)) {
        return blamed != 0 && blamed <= old_lead.culprits.size();
      }
      if (view.knows_places && is_narrower(run, old_lead, new_lead)) return true;
      return (leaves_out || has_ended) &&
             blames_for_gpus(run, old_lead, [](const Op&) { return true; });
    case Verdict::graph_diverged:
      return (leaves_out && !blames_same(old_lead, new_lead)) ||
             blamed < old_lead.culprits.size() || is_about_gpus(new_lead) || has_ended;
    default:
      return false;
  }
}

}  // namespace rollcall::analysis
