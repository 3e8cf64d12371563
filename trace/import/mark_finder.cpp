#include "trace/import/mark_finder.h"

#include <algorithm>

#include "core/base/check.h"

namespace rollcall::trace {
namespace {

bool is_small_letter(char c) { return c >= 'a' && c <= 'z'; }

// How often pieces of this kind stand in texts, roughly: within words, between two, or elsewhere.
size_t commonness(std::string_view piece) {
  if (std::ranges::all_of(piece, is_small_letter)) return 4;
  const auto is_of_prose = [](char c) { return is_small_letter(c) || c == ' '; };
  return std::ranges::all_of(piece, is_of_prose) ? 1 : 0;
}

}  // namespace

MarkFinder::MarkFinder(std::vector<std::string> marks) : marks_(std::move(marks)) {
  std::sort(marks_.begin(), marks_.end());
  // Farther looks would find no more: what lies between two is a line or so.
  constexpr size_t kStrideMax = 16;
  size_t shortest = kStrideMax + kPieceBytes - 1;
  for (const std::string& mark : marks_) {
    ROLLCALL_CHECK(mark.size() >= kMarkBytesMin);
    shortest = std::min(shortest, mark.size());
    longest_ = std::max(longest_, mark.size());
  }
  stride_ = shortest - kPieceBytes + 1;
  for (size_t i = 0; i < marks_.size(); ++i) {
    const size_t first = rarest_pieces(marks_[i]);
    reach_ = std::max(reach_, first + stride_ - 1 + kPieceBytes);
    for (size_t offset = first; offset < first + stride_; ++offset) {
      const uint32_t hash = hash_at(marks_[i], offset);
      pieces_.push_back({.hash = static_cast<uint16_t>(hash),
                         .mark = static_cast<uint16_t>(i),
                         .offset = static_cast<uint32_t>(offset)});
      bits_[hash >> 6] |= uint64_t{1} << (hash & 63);
    }
  }
  std::ranges::stable_sort(pieces_, {}, &Piece::hash);
  size_t bucket = 0;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    while (bucket <= pieces_[i].hash / kHashesOfBucket) {
      buckets_[bucket++] = static_cast<uint16_t>(i);
    }
  }
  while (bucket < buckets_.size()) buckets_[bucket++] = static_cast<uint16_t>(pieces_.size());
}

// The offset of the first of stride_ pieces.
size_t MarkFinder::rarest_pieces(std::string_view mark) const {
  constexpr size_t kOffsetMax = 32;  // find() looks so far beyond what it found
  size_t rarest = 0;
  size_t lowest = SIZE_MAX;
  for (size_t first = 0; first <= kOffsetMax; ++first) {
    if (first + stride_ - 1 + kPieceBytes > mark.size()) break;
    size_t sum = 0;
    for (size_t i = 0; i < stride_; ++i) sum += commonness(mark.substr(first + i, kPieceBytes));
    if (sum >= lowest) continue;
    lowest = sum;
    rarest = first;
  }
  return rarest;
}

// Of the marks that have the piece at `at`, and do not begin before `from`.
size_t MarkFinder::first_begin(std::string_view text, size_t from, size_t at, uint32_t hash) const {
  size_t begin = std::string_view::npos;
  for (size_t i = pieces_begin(hash); i < pieces_begin(hash + kHashesOfBucket); ++i) {
    if (is_mark_around(pieces_[i], text, from, at)) begin = std::min(begin, at - pieces_[i].offset);
  }
  return begin;
}

}  // namespace rollcall::trace
