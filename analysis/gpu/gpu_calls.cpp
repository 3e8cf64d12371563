#include "analysis/gpu/gpu_calls.h"

#include <algorithm>
#include <utility>

namespace rollcall::analysis {
namespace {

using trace::Op;

GpuCall call_of(const Facts& facts, const GpuRecord& record, const Front& front) {
  GpuCall call;
  call.front = front;
  call.peers = peers_of(facts, front.process, front.op);
  call.is_disputed = is_disputed(facts, front.process, facts.index.op(front.process, front.op));
  for (const auto& [p, i] : call.peers.ranks) {
    const bool has_started = record.has_started(p, i);
    call.has_begun = call.has_begun && has_started;
    if (has_started) {
      call.last_begun_ns = std::max(call.last_begun_ns, started_at(facts.index.op(p, i)));
    }
    call.has_ended = call.has_ended || record.has_finished(p, i);
    if (!record.is_awaited(p, i)) continue;
    (has_started ? call.running : call.behind).push_back(p);
    const Op& first = facts.index.op(call.front.process, call.front.op);
    if (!has_started || started_at(facts.index.op(p, i)) >= started_at(first)) continue;
    call.front.process = p;
    call.front.op = i;
  }
  return call;
}

std::vector<std::span<const Front>> by_stream(const GpuState& state) {
  std::vector<std::span<const Front>> shares;
  for (const std::span<const Front> fronts : by_process(state)) {
    for (size_t begin = 0, end = 0; begin < fronts.size(); begin = end) {
      while (end < fronts.size() && fronts[end].stream == fronts[begin].stream) ++end;
      shares.push_back(fronts.subspan(begin, end - begin));
    }
  }
  return shares;
}

// Depth first through what each waits for; empty where there is no circle.
class CircleSearch {
 public:
  explicit CircleSearch(std::vector<std::vector<size_t>> waits)
      : waits_(std::move(waits)), marks_(waits_.size()) {}

  CallCircle find() {
    for (size_t i = 0; i < waits_.size(); ++i) {
      if (marks_[i] != Mark::fresh) continue;
      if (const size_t at = close_from(i); at != kOpen) {
        return CallCircle(path_.begin() + static_cast<ptrdiff_t>(at), path_.end());
      }
    }
    return {};
  }

 private:
  enum class Mark : uint8_t { fresh, on_path, done };
  static constexpr size_t kOpen = SIZE_MAX;

  void step_to(size_t i) {
    std::sort(waits_[i].rbegin(), waits_[i].rend());  // taken from the end: the first comes first
    marks_[i] = Mark::on_path;
    path_.push_back(i);
  }

  // Where on the path the circle begins.
  size_t close_from(size_t start) {
    for (step_to(start); !path_.empty();) {
      std::vector<size_t>& waits = waits_[path_.back()];
      if (waits.empty()) {
        marks_[path_.back()] = Mark::done;
        path_.pop_back();
        continue;
      }
      const size_t next = waits.back();
      waits.pop_back();
      if (marks_[next] == Mark::fresh)
        step_to(next);
      else if (marks_[next] == Mark::on_path) {
        return static_cast<size_t>(std::find(path_.begin(), path_.end(), next) - path_.begin());
      }
    }
    return kOpen;
  }

  std::vector<std::vector<size_t>> waits_;
  std::vector<Mark> marks_;
  std::vector<size_t> path_;
};

}  // namespace

const std::vector<GpuCall>& GpuView::calls() const {
  if (!has_calls_) find_calls();
  return calls_;
}

std::optional<size_t> GpuView::call_at(uint32_t p, uint32_t i) const {
  calls();
  const auto found = of_.find({p, i});
  return found == of_.end() ? std::nullopt : std::optional(found->second);
}

const CallCircle& GpuView::rivals() const {
  if (!rivals_) rivals_ = find_rivals();
  return *rivals_;
}

const CallCircle& GpuView::crossed() const {
  if (!crossed_) {
    Waits waits = waits_of([](const GpuCall& call) { return !call.behind.empty(); });
    crossed_ = find_circle(std::move(waits));
  }
  return *crossed_;
}

void GpuView::find_calls() const {
  has_calls_ = true;
  for (const Front& front : state.fronts) {
    if (!front.started || of_.count({front.process, front.op}) != 0) continue;
    for (const auto& [p, i] : calls_.emplace_back(call_of(facts, record, front)).peers.ranks) {
      of_.emplace(std::pair(p, i), calls_.size() - 1);
    }
  }
  for (const std::span<const Front> share : by_stream(state)) hold_share(share);
}

void GpuView::hold_share(std::span<const Front> share) const {
  std::vector<GpuCall*> calls;
  for (const Front& front : share) {
    const std::optional<size_t> call = call_at(front.process, front.op);
    if (call) calls.push_back(&calls_[*call]);
  }
  // The lower the likelier it is what the share waits for.
  const auto rank_of = [](const GpuCall* call) {
    return !call->is_everywhere() ? 0 : call->has_ended ? 2 : 1;
  };
  int lowest = 2;
  for (const GpuCall* call : calls) lowest = std::min(lowest, rank_of(call));
  for (GpuCall* call : calls) {
    if (rank_of(call) == lowest) call->is_held = false;
  }
}

// What keeps the GPUs busy that have not come to a call. Groups make many calls of few processes:
// an edge for each pair of calls would be too many.
GpuView::Waits GpuView::waits_of(bool (*counts)(const GpuCall&)) const {
  const size_t first_process = calls().size();
  Waits waits(first_process + facts.index.run().processes.size());
  for (size_t i = 0; i < first_process; ++i) {
    for (const uint32_t p : calls_[i].behind) waits[i].push_back(first_process + p);
    if (!counts(calls_[i])) continue;
    for (const uint32_t p : calls_[i].running) waits[first_process + p].push_back(i);
  }
  return waits;
}

CallCircle GpuView::find_circle(Waits&& waits) const {
  CallCircle circle = CircleSearch(std::move(waits)).find();
  std::erase_if(circle, [&](size_t node) { return node >= calls_.size(); });
  return circle;
}

CallCircle GpuView::find_rivals() const {
  Waits waits = waits_of([](const GpuCall&) { return true; });
  for (const std::span<const Front> fronts : by_process(state)) {
    std::vector<std::pair<int64_t, size_t>> order;
    for (const Front& front : fronts) {
      const std::optional<size_t> call = call_at(front.process, front.op);
      const int64_t started_ns = facts.index.op(front.process, front.op).started_ns;
      if (call && started_ns != 0) order.emplace_back(started_ns, *call);
    }
    std::sort(order.begin(), order.end());
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i - 1].first < order[i].first)
        waits[order[i].second].push_back(order[i - 1].second);
    }
  }
  return find_circle(std::move(waits));
}

}  // namespace rollcall::analysis
