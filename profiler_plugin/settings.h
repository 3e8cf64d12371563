// What ROLLCALL_PLUGIN_EVENTS asks for. Read once, at the first init.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace rollcall::profiler {

namespace settings_detail {
// Hidden and constant-initialised, as clock_detail's.
extern constinit std::atomic<uint32_t> wanted __attribute__((visibility("hidden")));
}  // namespace settings_detail

// Sets of events: a list of names separated by commas, `default`, `proxy`, `kernelch`, `all`,
// `phases`, or names of single types as in event_types.h (in any case), or one number as NCCL would
// take it (decimal, or hexadecimal with 0x). False where a word is none of these; `mask` then holds
// what was understood.
bool parse_events(std::string_view text, uint32_t& mask) noexcept;

// Calls and operations, what they launch, and copies: 8 of the 16 types.
uint32_t default_events() noexcept;
// The mask in force.
inline uint32_t wanted_events() noexcept {
  return settings_detail::wanted.load(std::memory_order_relaxed);
}
// Reads the variables; idempotent. [cold]
void read_settings() noexcept;
// ROLLCALL_PLUGIN_CHAIN; null when there is none.
const char* chained_path() noexcept;

}  // namespace rollcall::profiler
