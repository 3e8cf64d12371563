#include "trace/packed_calls.h"

#include <algorithm>

namespace rollcall::trace {
namespace {

// A call is a number of seven bits a byte, the lowest first, each byte but the last with its
// highest bit set: the shape's, above these flags. Behind it stand what the flags say, each as such
// a number.
constexpr uint64_t kHasCount = 1;  // not that of the shape's last call
constexpr uint64_t kMarked = 2;
constexpr unsigned kPlaceShift = 2;  // of two bits
constexpr uint64_t kPlaceMask = 3;
constexpr unsigned kShapeShift = 4;

// The position, by that of the track's last call.
enum CallPlace : uint64_t { kNext, kSame, kOther };

constexpr size_t kNumberBytesMax = 10;
constexpr size_t kCallBytesMax = 3 * kNumberBytesMax;
constexpr size_t kFirstChunkBytes = 256;
constexpr size_t kChunkBytesMax = 1 << 16;

// In front of a track's first call, so that position 0 is the next one.
constexpr uint64_t kBeforeFirst = UINT64_MAX;

}  // namespace

// A job's calls follow one another as they did before.
uint32_t PackedCalls::number_of(const CallShape& shape) {
  if (!shapes_.empty()) {
    const uint32_t guess = followers_[last_];
    if (shapes_[guess] == shape) return guess;
  }
  const auto [known, is_new] = numbers_.try_emplace(shape, static_cast<uint32_t>(shapes_.size()));
  if (is_new) {
    shapes_.push_back(shape);
    followers_.push_back(known->second);
    counts_.push_back(0);
    if (shape.track >= positions_.size()) positions_.resize(shape.track + 1, kBeforeFirst);
  }
  if (known->second != last_) followers_[last_] = known->second;
  return known->second;
}

void PackedCalls::put(uint64_t value) {
  std::vector<uint8_t>& chunk = chunks_.back();
  for (; value >= 0x80; value >>= 7) chunk.push_back(static_cast<uint8_t>(value | 0x80));
  chunk.push_back(static_cast<uint8_t>(value));
}

void PackedCalls::add(const CallShape& shape, uint64_t count, uint64_t position, bool is_marked) {
  if (chunks_.empty() || chunks_.back().capacity() - chunks_.back().size() < kCallBytesMax) {
    const size_t last = chunks_.empty() ? 0 : chunks_.back().capacity();
    chunks_.emplace_back().reserve(std::clamp(2 * last, kFirstChunkBytes, kChunkBytesMax));
  }
  const uint32_t number = number_of(shape);
  uint64_t& before = positions_[shape.track];
  const CallPlace place = position == before + 1 ? kNext : position == before ? kSame : kOther;
  const bool has_count = count != counts_[number];
  put(uint64_t{number} << kShapeShift | place << kPlaceShift | (is_marked ? kMarked : 0) |
      (has_count ? kHasCount : 0));
  if (place == kOther) put(position);
  if (has_count) put(count);
  before = position;
  counts_[number] = count;
  last_ = number;
  ++size_;
}

size_t PackedCalls::bytes() const {
  size_t bytes = chunks_.capacity() * sizeof(std::vector<uint8_t>);
  for (const std::vector<uint8_t>& chunk : chunks_) bytes += chunk.capacity();
  // A shape stands in the vector and in the map, whose nodes have two pointers or three more.
  constexpr size_t kShapeBytes = 2 * sizeof(CallShape) + 2 * sizeof(uint64_t) + 4 * sizeof(void*);
  return bytes + shapes_.capacity() * kShapeBytes + positions_.capacity() * sizeof(uint64_t);
}

PackedCalls::Reader::Reader(const PackedCalls& calls)
    : calls_(calls),
      counts_(calls.shapes_.size(), 0),
      positions_(calls.positions_.size(), kBeforeFirst) {}

uint64_t PackedCalls::Reader::take() {
  const std::vector<uint8_t>& chunk = calls_.chunks_[chunk_];
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t byte = chunk[at_++];
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}

bool PackedCalls::Reader::next(PackedCall& call) {
  while (chunk_ < calls_.chunks_.size() && at_ == calls_.chunks_[chunk_].size()) {
    ++chunk_;
    at_ = 0;
  }
  if (chunk_ == calls_.chunks_.size()) return false;
  const uint64_t head = take();
  call.shape = static_cast<uint32_t>(head >> kShapeShift);
  call.is_marked = (head & kMarked) != 0;
  uint64_t& position = positions_[calls_.shapes_[call.shape].track];
  switch (head >> kPlaceShift & kPlaceMask) {
    case kNext:
      ++position;
      break;
    case kSame:
      break;
    default:
      position = take();
      break;
  }
  uint64_t& count = counts_[call.shape];
  if ((head & kHasCount) != 0) count = take();
  call.position = position;
  call.count = count;
  return true;
}

}  // namespace rollcall::trace
