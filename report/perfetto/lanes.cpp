#include "report/perfetto/lanes.h"

#include <algorithm>
#include <tuple>

namespace rollcall::report::perfetto {
namespace {

class Lane {
 public:
  // What has ended by then is closed.
  void advance(int64_t time_ns) {
    while (!open_.empty() && open_.back().end_ns <= time_ns) close();
  }
  bool fits(const Slice& slice) const {
    return open_.empty() || slice.end_ns <= open_.back().end_ns;
  }
  void add(Slice slice) {
    if (!fits(slice)) slice.end_ns = open_.back().end_ns;
    steps_.push_back({slice.start_ns, slice.item, true});
    open_.push_back(slice);
  }
  std::vector<Step> take() {
    while (!open_.empty()) close();
    return std::move(steps_);
  }

 private:
  void close() {
    const Slice& slice = open_.back();
    if (slice.end_ns != kOpenEnd) steps_.push_back({slice.end_ns, slice.item, false});
    open_.pop_back();
  }
  std::vector<Slice> open_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<std::vector<Step>> lanes_of(std::vector<Slice> slices, size_t lanes_max) {
  for (Slice& slice : slices) slice.end_ns = std::max(slice.start_ns, slice.end_ns);
  std::sort(slices.begin(), slices.end(), [](const Slice& one, const Slice& other) {
    return std::tie(one.start_ns, other.end_ns, one.item) <
           std::tie(other.start_ns, one.end_ns, other.item);
  });
  std::vector<Lane> lanes;
  for (const Slice& slice : slices) {
    for (Lane& lane : lanes) lane.advance(slice.start_ns);
    auto fitting = std::find_if(lanes.begin(), lanes.end(),
                                [&](const Lane& lane) { return lane.fits(slice); });
    if (fitting == lanes.end()) {
      if (lanes.size() < lanes_max) lanes.emplace_back();
      fitting = lanes.end() - 1;
    }
    fitting->add(slice);
  }
  std::vector<std::vector<Step>> steps;
  for (Lane& lane : lanes) steps.push_back(lane.take());
  return steps;
}

}  // namespace rollcall::report::perfetto
