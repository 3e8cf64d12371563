// The coding of operations in a segment block.
//
// Purpose: at most 8 bytes per collective for a repetitive training loop, at most 24 for random
// arguments, at well under 200 ns per record, without a library. Every block starts with empty
// state. The body's format is described in docs/FORMAT.md and at the top of op_codec.cpp; both ends
// are here.
//
// Threads: none; plain functions over the caller's memory. Neither allocates nor throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/format/ring_layout.h"
#include "core/format/segment_layout.h"

namespace rollcall {

// The state both ends carry through a block. About 100 KiB: allocate it once.
class OpCodecState;

class OpEncoder {
 public:
  // `storage` of kOpCodecStateBytes, 64-byte aligned, outlives the encoder.
  OpEncoder(std::span<std::byte> storage, uint32_t time_shift) noexcept;
  void begin_block() noexcept;
  // Appends one record; returns the bytes written, at most kOpCodedBytesMax, 0 if `out` is smaller
  // than that. The record's publish word carries the ticket; tickets may have gaps but must rise
  // within a block.
  size_t encode(const OpRecord& op, std::span<uint8_t> out) noexcept;

 private:
  OpCodecState* state_;
  uint32_t time_shift_;
};

class OpDecoder {
 public:
  OpDecoder(std::span<std::byte> storage, uint32_t time_shift) noexcept;
  void begin_block() noexcept;
  // Takes one record off the front of `body`; returns the bytes taken, 0 if the bytes are no record
  // (truncated or hostile). The publish word comes back with phase `settled`, times shifted up
  // again.
  size_t decode(std::span<const uint8_t> body, OpRecord& op) noexcept;
  // The same but for the times, which cost most of the work: those of `op` stay as they are. A
  // block is read by one of the two. Where 0 is returned, `op` is unspecified.
  size_t decode_timeless(std::span<const uint8_t> body, OpRecord& op) noexcept;

 private:
  OpCodecState* state_;
  uint32_t time_shift_;
};

inline constexpr size_t kOpCodecStateBytes = 160 * 1024;

}  // namespace rollcall
