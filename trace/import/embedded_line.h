// Lines that a log collector wrapped into JSON: Docker's files, journald's and Loki's JSON lines.
#pragma once

#include <string>
#include <string_view>

namespace rollcall::trace {

// The message that `line` holds, when that is an object with one of the fields that collectors use
// ("log", "MESSAGE", "line", "message", "msg"), else `line` itself. `scratch` holds the message,
// and must outlive what is returned.
std::string_view embedded_line(std::string_view line, std::string& scratch);

}  // namespace rollcall::trace
