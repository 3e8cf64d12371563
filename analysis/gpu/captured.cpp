#include "analysis/gpu/captured.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rollcall::analysis {

using trace::Op;
using trace::Process;

namespace {

using NewestReplays =
    std::map<std::pair<uint32_t, uint32_t>, NewestReplay>;  // by process and graph

// The operations of a lane at which its position stands.
std::vector<uint32_t> ops_at(const Process& process, uint32_t graph,
                             const trace::Graph::Lane& lane) {
  std::vector<uint32_t> found;
  UnitCount units;
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    const Op& op = process.ops[i];
    if (op.graph != graph || is_mark(op.kind) || op.stream != lane.stream) continue;
    const uint64_t unit = units.number_of(op);
    if (unit > lane.position / 2 + 1) break;
    if (unit == lane.position / 2 + 1) found.push_back(i);
  }
  return found;
}

}  // namespace

const trace::Graph* graph_of(const Process& process, uint32_t number) {
  const auto found = std::find_if(process.graphs.begin(), process.graphs.end(),
                                  [&](const trace::Graph& graph) { return graph.graph == number; });
  return found == process.graphs.end() ? nullptr : &*found;
}

bool watches_graphs(const Process& process) {
  // A process that ended at once had no time to say that it watches.
  return process.meta.contains("graph_launches") ||
         std::any_of(process.graphs.begin(), process.graphs.end(),
                     [](const trace::Graph& graph) { return graph.launches != 0; });
}

uint64_t launches_of(const Process& process, uint32_t number) {
  const trace::Graph* graph = graph_of(process, number);
  uint64_t launches = graph == nullptr ? 0 : graph->launches;
  for (const Op& op : process.ops) {
    const bool is_launch = op.kind == OpKind::GraphLaunch && op.graph == number;
    if (is_launch && op.state != trace::OpState::failed) {
      launches = std::max(launches, op.seq + 1);
    }
  }
  return launches;
}

uint32_t first_captured(const Process& process, uint32_t graph) {
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    if (process.ops[i].graph == graph && !is_mark(process.ops[i].kind)) return i;
  }
  return kNoRecord;
}

const NewestReplay& newest_replay(const Facts& facts, uint32_t p, uint32_t number) {
  const auto [known, is_new] = facts.memo.notes<NewestReplays>().try_emplace({p, number});
  NewestReplay& replay = known->second;
  if (!is_new) return replay;
  const Process& process = facts.process(p);
  replay.launches = launches_of(process, number);
  const trace::Graph* graph = graph_of(process, number);
  if (graph == nullptr) return replay;
  // Positions count from the first: with one that is no longer on file they would name another. And
  // a graph of many streams has positions of the first ones only.
  uint64_t on_file = 0;
  bool have_lanes = true;
  for (const Op& op : process.ops) {
    if (op.graph != number || is_mark(op.kind)) continue;
    ++on_file;
    have_lanes = have_lanes && std::any_of(graph->lanes.begin(), graph->lanes.end(),
                                           [&](const auto& l) { return l.stream == op.stream; });
  }
  replay.has_positions = !graph->lanes.empty() && have_lanes && on_file == graph->operations;
  if (!replay.has_positions) return replay;
  for (const trace::Graph::Lane& lane : graph->lanes) {
    std::vector<uint32_t> ops = ops_at(process, number, lane);
    if (!ops.empty()) replay.places.push_back({std::move(ops), lane.position % 2 == 1});
  }
  std::sort(replay.places.begin(), replay.places.end(),
            [](const ReplayPlace& a, const ReplayPlace& b) { return a.ops < b.ops; });
  return replay;
}

}  // namespace rollcall::analysis
