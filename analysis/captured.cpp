#include "analysis/captured.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/label.h"

namespace rollcall::analysis {

using trace::Op;
using trace::Process;

namespace {

// The operation of a lane at which its position stands. A group's share of a lane has one mark.
const Op* op_at(const Process& process, uint32_t graph, const trace::Graph::Lane& lane) {
  uint64_t unit = 0;
  uint32_t last_group = 0;
  for (const Op& op : process.ops) {
    if (op.graph != graph || is_mark(op.kind) || op.stream != lane.stream) continue;
    if (op.group != 0 && op.group == last_group) continue;
    last_group = op.group;
    if (unit++ == lane.position / 2) return &op;
  }
  return nullptr;
}

}  // namespace

uint32_t first_captured(const Process& process, uint32_t graph) {
  for (uint32_t i = 0; i < process.ops.size(); ++i) {
    if (process.ops[i].graph == graph && !is_mark(process.ops[i].kind)) return i;
  }
  return kNoRecord;
}

std::string replay_text(const Case& c, uint32_t p, uint32_t number) {
  const Process& process = c.process(p);
  const auto graph = std::find_if(process.graphs.begin(), process.graphs.end(),
                                  [&](const trace::Graph& g) { return g.graph == number; });
  if (graph == process.graphs.end()) return "";
  std::string text;
  for (const trace::Graph::Lane& lane : graph->lanes) {
    const Op* op = op_at(process, number, lane);
    if (op == nullptr) continue;
    const Seat seat = c.index.seat(p, op->comm);
    text += fmt::format("{}{} {}{}", text.empty() ? "" : " and ",
                        lane.position % 2 == 1 ? "is inside" : "has not come to", call_text(*op),
                        seat.group == kNone || is_p2p(op->kind)
                            ? ""
                            : fmt::format(", seq {} of {}", op->seq, c.group(seat.group).name));
  }
  return text;
}

}  // namespace rollcall::analysis
