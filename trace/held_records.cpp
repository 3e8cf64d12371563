#include "trace/held_records.h"

#include <algorithm>
#include <utility>

#include "core/base/limits.h"

namespace rollcall::trace {
namespace {

bool comes_before(const OpRecord& a, const OpRecord& b) {
  return ticket_of(a.publish) < ticket_of(b.publish);
}

bool is_same(const OpRecord& a, const OpRecord& b) {
  return ticket_of(a.publish) == ticket_of(b.publish);
}

}  // namespace

void HeldRecords::add(const OpRecord& record) {
  const bool rises = rising_.empty() || comes_before(rising_.back(), record);
  (rises ? rising_ : others_).push_back(record);
  if (rising_.size() + others_.size() >= sift_at_) sift();
}

void HeldRecords::sift() {
  if (!others_.empty()) {
    std::stable_sort(others_.begin(), others_.end(), comes_before);
    const auto middle = static_cast<std::ptrdiff_t>(rising_.size());
    rising_.insert(rising_.end(), others_.begin(), others_.end());
    others_ = {};
    // Stable: of equal tickets the one that came first is in front.
    std::inplace_merge(rising_.begin(), rising_.begin() + middle, rising_.end(), comes_before);
    rising_.erase(std::unique(rising_.begin(), rising_.end(), is_same), rising_.end());
  }
  const uint64_t max = std::min(max_, limit_);
  if (rising_.size() > max) {
    const uint64_t excess = rising_.size() - max;
    rising_.erase(rising_.begin(), rising_.begin() + static_cast<std::ptrdiff_t>(excess));
    left_out_ += excess;
  }
  sift_at_ = std::max<size_t>(1 << 16, 2 * rising_.size());
}

std::vector<OpRecord> HeldRecords::take() {
  sift();
  return std::exchange(rising_, {});
}

}  // namespace rollcall::trace
