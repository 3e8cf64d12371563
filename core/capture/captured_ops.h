// Captured operations once more, for segments of their own.
//
// A CUDA graph is captured once and replayed for days. By then the history's bound has removed the
// segments in which its operations were written, and nobody could say any more what a replay is
// inside of. So what was captured is written a second time, where nothing else pushes it out.
//
// Threads: one at a time (the flusher's).
#pragma once

#include <cstdint>
#include <span>

#include "core/capture/history.h"
#include "core/capture/op_block.h"

namespace rollcall::capture {

class CapturedOps {
 public:
  // Large, as OpBlock.
  void begin(uint32_t time_shift) noexcept;
  // Keeps a captured operation, passes over every other one. There is room for those of one block
  // of the history: the block is to be written and cleared before the next one is coded.
  void observe(const OpRecord& op) noexcept;
  // Those since the last clear(); empty if there is none.
  std::span<const uint8_t> block() noexcept { return block_.seal(BlockType::ops); }
  bool has_any() const noexcept { return block_.records() != 0; }
  void clear() noexcept { block_.clear(); }

 private:
  OpBlock block_;
};

}  // namespace rollcall::capture
