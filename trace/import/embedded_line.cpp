#include "trace/import/embedded_line.h"

#include <nlohmann/json.hpp>

namespace rollcall::trace {
namespace {

constexpr const char* kMessageFields[] = {"log", "MESSAGE", "line", "message", "msg"};

}  // namespace

std::string_view embedded_line(std::string_view line, std::string& scratch) {
  const size_t first = line.find_first_not_of(' ');
  if (first == std::string_view::npos || line[first] != '{' || !line.ends_with('}')) return line;
  const auto object = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
  if (!object.is_object()) return line;
  for (const char* field : kMessageFields) {
    const auto message = object.find(field);
    if (message == object.end() || !message->is_string()) continue;
    scratch = message->get<std::string>();
    while (scratch.ends_with('\n') || scratch.ends_with('\r')) scratch.pop_back();
    return scratch;
  }
  return line;
}

}  // namespace rollcall::trace
