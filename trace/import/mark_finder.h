// Finds where the next of several words stands in a text, faster than a text is looked through byte
// by byte.
//
// Four bytes of the text are looked at in every few, and nothing of those between them. Of each
// word as many pieces of four bytes are known, one behind the other, as there are bytes from one
// look to the next: wherever the word stands, one look falls onto one of them. The longer the
// shortest word, the fewer looks. Of a word that has more pieces than that, those are taken that
// fewer other words have. A bit for each piece, by its hash, tells most looks apart that fall onto
// nothing; it stays in the processor's first cache, and no look waits for the one before. A job's
// log is gigabytes in which few lines matter, so this is what reading one costs.
//
// Threads: finding is const, and may be done from several.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::trace {

// Of a mark. With fewer there would be a look for every byte or two.
inline constexpr size_t kMarkBytesMin = 7;

class MarkFinder {
 public:
  // There is one at least, and each has kMarkBytesMin bytes at least.
  explicit MarkFinder(std::vector<std::string> marks);
  // Where the first mark at or behind `from` begins; npos: there is none.
  size_t find(std::string_view text, size_t from) const {
    size_t found = std::string_view::npos;
    size_t end = text.size();
    for (size_t at = from; at + kPieceBytes <= end; at += stride_) {
      const uint32_t hash = hash_at(text, at);
      if (!may_be_piece(hash)) continue;
      const size_t begin = first_begin(text, from, at, hash);
      if (begin >= found) continue;
      found = begin;
      // A look at a mark that begins before it may still come.
      end = std::min(text.size(), found + reach_);
    }
    return found;
  }
  // Calls `take` with the number of each mark, in marks(), once for each place where it stands.
  template <typename Take>
  void for_each(std::string_view text, Take&& take) const {
    for (size_t at = 0; at + kPieceBytes <= text.size(); at += stride_) {
      const uint32_t hash = hash_at(text, at);
      if (!may_be_piece(hash)) continue;
      for (size_t i = pieces_begin(hash); i < pieces_begin(hash + kHashesOfBucket); ++i) {
        if (is_mark_around(pieces_[i], text, 0, at)) take(pieces_[i].mark);
      }
    }
  }
  const std::vector<std::string>& marks() const { return marks_; }
  // Bytes of the longest mark.
  size_t longest() const { return longest_; }

 private:
  static constexpr size_t kPieceBytes = 4;
  static constexpr unsigned kHashBits = 16;
  static constexpr unsigned kBucketBits = 10;
  static constexpr uint32_t kHashesOfBucket = 1 << (kHashBits - kBucketBits);

  struct Piece {
    uint16_t hash;
    uint16_t mark;    // its number
    uint32_t offset;  // of the piece within it
  };

  static uint32_t hash_at(std::string_view text, size_t at) {
    constexpr uint32_t kSpread = 0x9e3779b1;  // 2^32 by the golden ratio
    uint32_t piece;
    std::memcpy(&piece, text.data() + at, kPieceBytes);
    return (piece * kSpread) >> (32 - kHashBits);
  }
  bool may_be_piece(uint32_t hash) const { return (bits_[hash >> 6] >> (hash & 63) & 1) != 0; }
  // In pieces_, of the bucket that `hash` falls into.
  size_t pieces_begin(uint32_t hash) const { return buckets_[hash >> (kHashBits - kBucketBits)]; }
  bool is_mark_around(const Piece& piece, std::string_view text, size_t from, size_t at) const {
    const std::string& mark = marks_[piece.mark];
    return at >= from + piece.offset && text.substr(at - piece.offset).starts_with(mark);
  }
  size_t rarest_pieces(std::string_view mark) const;
  size_t first_begin(std::string_view text, size_t from, size_t at, uint32_t hash) const;

  std::vector<std::string> marks_;  // in their order
  size_t stride_ = 0;               // from one look to the next
  size_t reach_ = 0;                // from a mark's begin to the end of its last known piece
  size_t longest_ = 0;
  std::array<uint64_t, (1 << kHashBits) / 64> bits_{};
  std::array<uint16_t, (1 << kBucketBits) + 1> buckets_{};  // by hash: where in pieces_ they begin
  std::vector<Piece> pieces_;                               // by hash
};

}  // namespace rollcall::trace
