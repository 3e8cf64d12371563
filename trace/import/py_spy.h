// Stacks of a process as `py-spy dump` prints them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace rollcall::trace {

// Where the main thread stood, by a dump as text: its innermost frames, and the script's innermost.
// Empty where there is no frame of Python in it.
std::string place_in_dump(std::span<const uint8_t> text);

}  // namespace rollcall::trace
