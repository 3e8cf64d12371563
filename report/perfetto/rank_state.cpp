#include "report/perfetto/rank_state.h"

#include <algorithm>
#include <array>

namespace rollcall::report::perfetto {
namespace {

struct Edge {
  int64_t time_ns;
  RankState state;
  int32_t step;  // 1: one more call is in the state, -1: one fewer
};

class Edges {
 public:
  // 0: it has no end.
  void add(RankState state, int64_t start_ns, int64_t end_ns) {
    if (start_ns <= 0 || (end_ns != 0 && end_ns <= start_ns)) return;
    edges_.push_back({start_ns, state, 1});
    newest_ns_ = std::max(newest_ns_, start_ns);
    if (end_ns == 0) return;
    edges_.push_back({end_ns, state, -1});
    newest_ns_ = std::max(newest_ns_, end_ns);
  }
  int64_t newest_ns() const { return newest_ns_; }
  std::vector<Edge> in_order() {
    std::sort(edges_.begin(), edges_.end(),
              [](const Edge& one, const Edge& other) { return one.time_ns < other.time_ns; });
    return std::move(edges_);
  }

 private:
  std::vector<Edge> edges_;
  int64_t newest_ns_ = 0;
};

void add_op(const trace::Process& process, const trace::Op& op, Edges& edges) {
  if (op.called_ns <= 0) return;
  if (op.returned_ns > 0 || is_still_inside(process, op)) {
    edges.add(RankState::in_call, op.called_ns, op.returned_ns);
  }
  const bool waits = op.awaits_gpu && op.state != trace::OpState::failed;
  if (op.returned_ns > 0 && (op.started_ns > 0 || waits)) {
    edges.add(RankState::enqueued, op.returned_ns, op.started_ns);
  }
  if (op.started_ns > 0) edges.add(RankState::on_gpu, op.started_ns, op.finished_ns);
}

void add_end(const trace::Process& process, Edges& edges) {
  const int64_t known_ns = std::max(process.heartbeat_ns, edges.newest_ns());
  if (process.exited_ns > 0) {
    edges.add(RankState::ended, process.exited_ns, 0);
  } else if (process.liveness == trace::Liveness::dead) {
    edges.add(RankState::dead, known_ns, 0);
  } else if (process.liveness == trace::Liveness::stopped) {
    edges.add(RankState::stopped, known_ns, 0);
  }
}

RankState state_of(const std::array<int64_t, kRankStateCount>& counts) {
  for (size_t state = kRankStateCount; state-- > 1;) {
    if (counts[state] > 0) return static_cast<RankState>(state);
  }
  return RankState::outside;
}

}  // namespace

bool is_still_inside(const trace::Process& process, const trace::Op& op) {
  return op.returned_ns == 0 && process.knowledge.returns;
}

std::vector<StateChange> states_of(const trace::Process& process) {
  Edges edges;
  for (const trace::Op& op : process.ops) add_op(process, op, edges);
  for (const trace::Event& event : process.events) {
    edges.add(RankState::in_call, event.called_ns, event.returned_ns);
  }
  add_end(process, edges);
  std::array<int64_t, kRankStateCount> counts = {};
  std::vector<StateChange> changes;
  const std::vector<Edge> ordered = edges.in_order();
  for (size_t at = 0; at < ordered.size();) {
    const int64_t time_ns = ordered[at].time_ns;
    for (; at < ordered.size() && ordered[at].time_ns == time_ns; ++at) {
      counts[static_cast<size_t>(ordered[at].state)] += ordered[at].step;
    }
    const RankState state = state_of(counts);
    const RankState before = changes.empty() ? RankState::outside : changes.back().state;
    if (state != before) changes.push_back({time_ns, state});
  }
  return changes;
}

}  // namespace rollcall::report::perfetto
