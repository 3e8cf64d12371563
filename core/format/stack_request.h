// How a reader asks a process where its threads stand: two words on the header's page of the ring,
// behind everything else there. The process answers with a file, <stem>.stacks
// (core/capture/stack_file.h), and with the number that it was asked with.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/format/ring_copy.h"

namespace rollcall {

struct StackRequest {
  uint32_t wanted;   // written by `rollcall stacks`: another number than before
  uint32_t written;  // by the process, once the file for that number is there
};
inline constexpr uint32_t kStackRequestOffset = 3584;
static_assert(kRingCopyNoteOffset + sizeof(RingCopyNote) <= kStackRequestOffset);
static_assert(kStackRequestOffset + sizeof(StackRequest) <= kHeaderBytes);
static_assert(std::has_unique_object_representations_v<StackRequest>);

inline constexpr std::string_view kStacksEnding = ".stacks";

// Of a thousand threads of fifty frames each all is written, and of each stack as many frames as
// people look at.
inline constexpr uint64_t kStackFileBytesMax = 8ull << 20;
inline constexpr uint32_t kStackFramesMax = 256;

}  // namespace rollcall
