// The text of a call site, meta key "frame.N": "FILE:LINE FUNCTION", the line that calls first,
// then the lines that led to it, separated by kCallerSeparator; kFramesNamedMax of them, of the
// user's own code where there is any. The N is an operation's `frames`. The meta key
// kFramesLeftOutKey says that, and why, operations are without a number that would have one.
#pragma once

#include <string_view>

namespace rollcall {

inline constexpr std::string_view kCallerSeparator = " < ";
inline constexpr char kFramesLeftOutKey[] = "frames_left_out";

// Installed packages and the interpreter's own library are not where the user looks first.
constexpr bool is_user_code(std::string_view file) {
  for (const std::string_view part :
       {std::string_view("/site-packages/"), std::string_view("/dist-packages/"),
        std::string_view("/lib/python3"), std::string_view("/torch/distributed/"),
        std::string_view("<frozen ")}) {
    if (file.find(part) != std::string_view::npos) return false;
  }
  return true;
}

}  // namespace rollcall
