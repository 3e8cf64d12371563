// Text fields of files: a text ends at its first NUL, or with its field.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

namespace rollcall::trace {

inline std::string field_text(const char* field, size_t bytes) {
  return {field, ::strnlen(field, bytes)};
}
template <size_t kBytes>
std::string field_text(const char (&field)[kBytes]) {
  return field_text(field, kBytes);
}

}  // namespace rollcall::trace
