#include "analysis/gpu/captured.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analysis/slips/own_past.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {

using trace::Op;
using trace::Process;

namespace {

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

const GraphFacts& graph_facts(const Case& c, uint32_t p, uint32_t number) {
  const auto [known, is_new] = c.remembered.graphs.try_emplace({p, number});
  GraphFacts& facts = known->second;
  if (!is_new) return facts;
  const Process& process = c.process(p);
  facts.launches = launches_of(process, number);
  const trace::Graph* graph = graph_of(process, number);
  if (graph == nullptr) return facts;
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
  facts.has_positions = !graph->lanes.empty() && have_lanes && on_file == graph->operations;
  if (!facts.has_positions) return facts;
  for (const trace::Graph::Lane& lane : graph->lanes) {
    std::vector<uint32_t> ops = ops_at(process, number, lane);
    if (!ops.empty()) facts.places.push_back({std::move(ops), lane.position % 2 == 1});
  }
  std::sort(facts.places.begin(), facts.places.end(),
            [](const ReplayPlace& a, const ReplayPlace& b) { return a.ops < b.ops; });
  return facts;
}

std::string comm_text(const Case& c, uint32_t p, const Op& op) {
  const Seat seat = c.index.seat(p, op.comm);
  return seat.group == kNone ? "a communicator of its own" : c.group(seat.group).name;
}

std::string place_text(const Case& c, uint32_t p, const Op& op) {
  if (op.kind == OpKind::GraphLaunch) {
    const uint32_t first = first_captured(c.process(p), op.graph);
    std::string replay = fmt::format("replay {} of a CUDA graph", op.seq + 1);
    if (first == kNoRecord) return replay;
    return fmt::format("{} that begins with {}", replay, place_text(c, p, c.index.op(p, first)));
  }
  return fmt::format("{}, {} {} of {}", call_text(c.index, p, op),
                     is_collective(op.kind) ? "seq" : "p2p seq", op.seq, comm_text(c, p, op));
}

std::string replay_text(const Case& c, uint32_t p, uint32_t number) {
  std::string text;
  for (const ReplayPlace& place : graph_facts(c, p, number).places) {
    const Op& op = c.index.op(p, place.ops.front());
    const Seat seat = c.index.seat(p, op.comm);
    text += fmt::format(
        "{}{} {}{}{}", text.empty() ? "" : " and ",
        place.is_inside ? "is inside" : "has not come to",
        place.ops.size() > 1 ? fmt::format("{} operations, the first ", place.ops.size()) : "",
        call_text(c.index, p, op),
        seat.group == kNone || is_p2p(op.kind)
            ? ""
            : fmt::format(", seq {} of {}", op.seq, c.group(seat.group).name));
  }
  return text;
}

}  // namespace rollcall::analysis
