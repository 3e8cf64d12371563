// A ring that does not live in its run directory, and the copy of it there.
//
// A page of a mapped file that a server, or a program behind FUSE, fails to give back is SIGBUS in
// the job. So where the run directory is not on a local file system, the ring itself is a file
// elsewhere, or memory of the process, and the recorder's thread keeps a copy of it in the run
// directory, with writes whose failure is a return code (core/ring/mirror.h). The copy is a ring
// file like any other. What it is stands behind FileHeader on the header's page; of a ring that
// lives in its run directory all of that is zero.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/format/ring_layout.h"

namespace rollcall {

struct RingCopyNote {
  uint32_t is_copy;  // 1: of the ring at live_path; 0: the ring itself
  uint32_t reserved;
  uint64_t copied_ticks;  // when the newest copying began: what changed later is not in it
  char live_path[1024];   // absolute, zero-padded; empty: in the memory of the process alone
};
inline constexpr uint32_t kRingCopyNoteOffset = 2048;
static_assert(sizeof(FileHeader) <= kRingCopyNoteOffset);
static_assert(kRingCopyNoteOffset + sizeof(RingCopyNote) <= kHeaderBytes);
static_assert(std::has_unique_object_representations_v<RingCopyNote>);

// What stands in front of the stem in the name of such a ring: "rollcall.<uid>.<run id>.".
inline constexpr std::string_view kLiveRingPrefix = "rollcall.";

}  // namespace rollcall
