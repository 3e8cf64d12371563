#include "tests/sim/together.h"

#include <algorithm>

namespace rollcall::sim {
namespace {

using trace::Op;
using trace::Process;

// Numbers that count within a process; 0 stays none.
uint32_t apart(uint32_t number, size_t gpu) {
  return number == 0 ? 0 : number * 64 + static_cast<uint32_t>(gpu);
}

void join(Process& whole, const Process& rank, size_t gpu, uint32_t thread) {
  const auto offset = static_cast<uint32_t>(whole.comms.size());
  for (trace::Comm comm : rank.comms) {
    comm.device = static_cast<int32_t>(gpu);
    whole.comms.push_back(comm);
  }
  for (Op op : rank.ops) {
    if (op.comm != kCommUnknown) op.comm += offset;
    op.stream += gpu * 1000;
    op.group = apart(op.group, gpu);
    op.graph = apart(op.graph, gpu);
    op.thread = thread;
    whole.ops.push_back(op);
  }
  for (trace::Graph graph : rank.graphs) {
    graph.graph = apart(graph.graph, gpu);
    for (trace::Graph::Lane& lane : graph.lanes) lane.stream += gpu * 1000;
    whole.graphs.push_back(graph);
  }
  for (trace::Event event : rank.events) {
    if (event.comm != kCommUnknown) event.comm += offset;
    const bool has_child = event.kind == EventKind::CommSplit && event.arguments[3] >= 0;
    if (has_child) event.arguments[3] += offset;
    event.thread = thread;
    whole.events.push_back(event);
  }
}

void number(Process& whole) {
  std::stable_sort(whole.ops.begin(), whole.ops.end(),
                   [](const Op& a, const Op& b) { return a.called_ns < b.called_ns; });
  for (size_t i = 0; i < whole.ops.size(); ++i) whole.ops[i].ticket = i + 1;
  whole.next_ticket = whole.ops.size() + 1;
  std::stable_sort(
      whole.events.begin(), whole.events.end(),
      [](const trace::Event& a, const trace::Event& b) { return a.called_ns < b.called_ns; });
  for (size_t i = 0; i < whole.events.size(); ++i) whole.events[i].ticket = i + 1;
}

}  // namespace

void run_together(Outcome& outcome, size_t gpus, bool one_thread) {
  std::vector<Process> wholes;
  const std::vector<Process>& ranks = outcome.run.processes;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const size_t gpu = r % gpus;
    if (gpu == 0) {
      Process& whole = wholes.emplace_back(ranks[r]);
      whole.job_rank = static_cast<int32_t>(wholes.size()) - 1;
      whole.comms.clear();
      whole.ops.clear();
      whole.events.clear();
      whole.graphs.clear();
    }
    join(wholes.back(), ranks[r], gpu, one_thread ? 0 : static_cast<uint32_t>(gpu));
  }
  for (Process& whole : wholes) number(whole);
  outcome.run.processes = std::move(wholes);
}

}  // namespace rollcall::sim
