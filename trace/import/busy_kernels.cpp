#include "trace/import/busy_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace rollcall::trace {

void BusyKernels::Union::add(Span span) {
  // Kernels of one stream come in order: most of what touches does so here.
  if (!spans_.empty() && span.begin_ns >= spans_.back().begin_ns &&
      span.begin_ns <= spans_.back().end_ns) {
    spans_.back().end_ns = std::max(spans_.back().end_ns, span.end_ns);
    return;
  }
  constexpr size_t kUnsettledMin = 1u << 12;
  // Twice as many as the last time: each is moved a few times only, however many there are.
  if (spans_.size() >= 2 * settled_ + kUnsettledMin) lay_together();
  spans_.push_back(span);
}

void BusyKernels::Union::lay_together() {
  std::sort(spans_.begin(), spans_.end(),
            [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  size_t kept = 0;
  for (const Span& span : spans_) {
    if (kept != 0 && span.begin_ns <= spans_[kept - 1].end_ns) {
      spans_[kept - 1].end_ns = std::max(spans_[kept - 1].end_ns, span.end_ns);
    } else {
      spans_[kept++] = span;
    }
  }
  spans_.resize(kept);
  settled_ = kept;
}

const std::vector<BusyKernels::Span>& BusyKernels::Union::spans() {
  lay_together();
  return spans_;
}

std::vector<int64_t> BusyKernels::Union::lengths_until(const std::vector<int64_t>& times_ns) {
  std::vector<int64_t> lengths;
  lengths.reserve(times_ns.size());
  lay_together();
  auto span = spans_.begin();
  int64_t before_ns = 0;  // of the spans that ended
  for (const int64_t time_ns : times_ns) {
    for (; span != spans_.end() && span->end_ns <= time_ns; ++span) {
      before_ns += span->end_ns - span->begin_ns;
    }
    const bool is_inside = span != spans_.end() && span->begin_ns < time_ns;
    lengths.push_back(before_ns + (is_inside ? time_ns - span->begin_ns : 0));
  }
  return lengths;
}

void BusyKernels::add(bool is_communication, int64_t device, int64_t begin_ns, int64_t end_ns) {
  if (is_full_) return;
  if (begin_ns < 0 || end_ns < begin_ns) return lose();
  if (!device_) device_ = device;
  has_others_ = has_others_ || *device_ != device;
  Union& kind = is_communication ? communication_ : compute_;
  kind.add({begin_ns, end_ns});
  if (kind.size() <= spans_max_) return;
  if (kind.spans().size() <= spans_max_ / 2) return;
  is_full_ = true;
  compute_.drop();
  communication_.drop();
}

std::string BusyKernels::why_not() const {
  if (is_full_) return fmt::format("there are more than {} kernels apart", spans_max_ / 2);
  if (has_others_) return "the kernels are of several GPUs";
  if (lost_ != 0) {
    return lost_ == 1 ? "a kernel is damaged or has no name"
                      : fmt::format("{} kernels are damaged or have no name", lost_);
  }
  if (compute_.is_empty()) return "there are no kernels but NCCL's";
  return "";
}

std::vector<BusyTime> BusyKernels::at(std::span<const End> ends) {
  if (!why_not().empty()) return {};
  std::vector<size_t> order(ends.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return ends[a].end_ns < ends[b].end_ns; });
  std::vector<int64_t> times_ns;
  times_ns.reserve(ends.size());
  for (const size_t at : order) times_ns.push_back(ends[at].end_ns);
  Union either = compute_;
  for (const Span& span : communication_.spans()) either.add(span);
  const std::vector<int64_t> compute_ns = compute_.lengths_until(times_ns);
  const std::vector<int64_t> communication_ns = communication_.lengths_until(times_ns);
  const std::vector<int64_t> either_ns = either.lengths_until(times_ns);
  std::vector<BusyTime> busy(ends.size());
  for (size_t i = 0; i < order.size(); ++i) {
    busy[order[i]] = {.ticket = ends[order[i]].ticket,
                      .compute_ns = compute_ns[i],
                      .communication_ns = communication_ns[i],
                      .either_ns = either_ns[i]};
  }
  std::sort(busy.begin(), busy.end(),
            [](const BusyTime& a, const BusyTime& b) { return a.ticket < b.ticket; });
  return busy;
}

}  // namespace rollcall::trace
