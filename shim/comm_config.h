// Reads the two fields of a caller's ncclConfig_t that the record shows.
//
// The struct is the caller's, of any header version, maybe not initialised at all: only what size,
// magic and version vouch for is looked at, through a copy the kernel makes, so that a wild pointer
// is the real function's to trip over, with the result a job without Rollcall would see.
#pragma once

#include <cstddef>

#include "core/base/limits.h"
#include "shim/nccl_abi.h"

namespace rollcall::shim {

struct CommConfig {
  bool non_blocking = false;
  char name[kCommNameBytes] = {};  // cut to fit, always terminated
};

// `inherited_non_blocking` holds where there is no config: what a split takes over from its parent.
// NCCL_COMM_BLOCKING overrides both, as in NCCL. [cold]
CommConfig read_config(const nccl::Config* config, bool inherited_non_blocking) noexcept;

// Copies memory of this process that may not be readable, at most kReadableBytesMax. Returns the
// bytes copied. [cold]
inline constexpr size_t kReadableBytesMax = 64 * 1024;
size_t copy_if_readable(void* to, const void* from, size_t size) noexcept;

}  // namespace rollcall::shim
