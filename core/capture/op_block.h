// A block of operations of a segment file while it is made.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/limits.h"
#include "core/format/op_codec.h"
#include "core/format/segment_layout.h"

namespace rollcall::capture {

// Bytes of the largest block, its header included.
inline constexpr size_t kBlockBytesMax =
    sizeof(BlockHeader) + size_t{kBlockRecordsMax} * kOpCodedBytesMax;

// Writes the header in front of the body that `block` holds behind it.
void seal_block(std::span<uint8_t> block, BlockType type, uint32_t records, uint64_t first_ticket,
                uint64_t last_ticket) noexcept;

class OpBlock {
 public:
  // The object is large: it lives in zeroed memory that is touched as far as it is needed, and is
  // never copied.
  void begin(uint32_t time_shift) noexcept;
  void clear() noexcept;
  // By rising tickets. False: the job scribbled on the record, or the block is full.
  bool add(const OpRecord& record) noexcept;
  uint32_t records() const noexcept { return records_; }
  // Header and body; empty without records. Valid until the next clear().
  std::span<const uint8_t> seal(BlockType type) noexcept;

 private:
  OpEncoder* encoder_ = nullptr;
  alignas(OpEncoder) std::byte encoder_storage_[sizeof(OpEncoder)];
  uint32_t records_ = 0;
  uint64_t first_ticket_ = 0;
  uint64_t last_ticket_ = 0;
  size_t bytes_ = 0;
  alignas(64) std::byte codec_[kOpCodecStateBytes];
  alignas(64) uint8_t block_[kBlockBytesMax];
};

}  // namespace rollcall::capture
