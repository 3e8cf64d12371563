// CRC-32C (Castagnoli), as in iSCSI and ext4: the check of segment blocks. Uses the SSE4.2
// instruction where the processor has it, tables elsewhere; both give the same value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rollcall {

// `seed` is the value of what came before, 0 at the start.
uint32_t crc32c(const void* data, size_t bytes, uint32_t seed = 0) noexcept;

// The table form alone, for the test that holds the two against each other.
uint32_t crc32c_portable(const void* data, size_t bytes, uint32_t seed = 0) noexcept;

}  // namespace rollcall
