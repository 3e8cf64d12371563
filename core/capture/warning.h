// Lines on the job's stderr: one each, prefixed "rollcall: ". The only way by which the injected
// libraries speak. Never on stdout, never more than once per cause.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rollcall::capture {

// ROLLCALL_VERBOSE: lines of a higher level are not written. Until the configuration is read the
// variable is asked.
void set_verbosity(uint32_t level) noexcept;
// What is longer is cut.
inline constexpr size_t kSentenceBytes = 1000;
void write_warning(uint32_t level, std::string_view sentence) noexcept;

}  // namespace rollcall::capture
