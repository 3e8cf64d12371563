// Inputs that are lists of changes to a sound file: chance does not find a whole file that agrees
// with itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace rollcall::fuzz {

// One change: where (four bytes, little endian, modulo the file's length), and the byte to be
// there.
inline constexpr size_t kPatchBytes = 5;

inline void put_patch(const uint8_t* patch, std::vector<std::byte>& bytes) {
  uint32_t offset = 0;
  std::memcpy(&offset, patch, sizeof offset);
  bytes[offset % bytes.size()] = static_cast<std::byte>(patch[sizeof offset]);
}

}  // namespace rollcall::fuzz
