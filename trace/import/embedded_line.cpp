#include "trace/import/embedded_line.h"

#include <nlohmann/json.hpp>

namespace rollcall::trace {
namespace {

constexpr const char* kMessageFields[] = {"log", "MESSAGE", "line", "message", "msg"};

// Four digits of base 16 at `at`, of a character of ASCII; -1: they are of another, or none.
int ascii_of(std::string_view text, size_t at) {
  if (text.size() < at + 4 || text[at] != '0' || text[at + 1] != '0') return -1;
  int value = 0;
  for (const char digit : text.substr(at + 2, 2)) {
    const bool is_letter = (digit | 0x20) >= 'a' && (digit | 0x20) <= 'f';
    if (!is_letter && (digit < '0' || digit > '9')) return -1;
    value = value * 16 + (is_letter ? (digit | 0x20) - 'a' + 10 : digit - '0');
  }
  return value < 0x80 ? value : -1;
}

// A string of JSON that begins at `at`, behind its quotation mark, as what it stands for. Returns
// where it ends, at its other one; npos: it holds what this does not read.
size_t read_string(std::string_view text, size_t at, std::string& out) {
  out.clear();
  size_t quote = 0;  // the first one from `at` on
  while (true) {
    if (quote < at) quote = text.find('"', at);
    if (quote == std::string_view::npos) return quote;
    // find() of one character takes a vector at a time, find_first_of() of two a character.
    const size_t before = text.substr(at, quote - at).find('\\');
    const size_t end = before == std::string_view::npos ? quote : at + before;
    out.append(text.substr(at, end - at));
    if (end == quote) return end;
    constexpr std::string_view kEscapes = "nrt\"\\/bf";
    constexpr std::string_view kMeanings = "\n\r\t\"\\/\b\f";
    const char escape = end + 1 < text.size() ? text[end + 1] : '\0';
    const size_t known = kEscapes.find(escape);
    if (known != std::string_view::npos) {
      out += kMeanings[known];
      at = end + 2;
      continue;
    }
    const int character = escape == 'u' ? ascii_of(text, end + 2) : -1;
    if (character < 0) return std::string_view::npos;
    out += static_cast<char>(character);
    at = end + 6;
  }
}

// As docker writes each line: {"log":"...","stream":"stderr","time":"..."}. All of a log of
// gigabytes may be of it, so it is not parsed as any object is.
bool read_docker(std::string_view line, std::string& message) {
  constexpr std::string_view kBegin = "{\"log\":\"";
  if (!line.starts_with(kBegin)) return false;
  const size_t end = read_string(line, kBegin.size(), message);
  if (end == std::string_view::npos) return false;
  const std::string_view rest = line.substr(end);
  constexpr std::string_view kStreams[] = {"\",\"stream\":\"stdout\",\"time\":\"",
                                           "\",\"stream\":\"stderr\",\"time\":\""};
  for (const std::string_view stream : kStreams) {
    if (!rest.starts_with(stream)) continue;
    const std::string_view time = rest.substr(stream.size());
    return time.find('"') == time.size() - 2 && time.ends_with("\"}");
  }
  return false;
}

bool read_object(std::string_view line, std::string& message) {
  const auto object = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
  if (!object.is_object()) return false;
  for (const char* name : kMessageFields) {
    const auto field = object.find(name);
    if (field == object.end() || !field->is_string()) continue;
    message = field->get<std::string>();
    return true;
  }
  // As milabench writes it. A field of that name alone may be of anything.
  const auto data = object.find("data");
  const bool is_output = data != object.end() && data->is_string() && object.contains("pipe");
  if (is_output) message = data->get<std::string>();
  return is_output;
}

}  // namespace

std::string_view embedded_line(std::string_view line, std::string& scratch) {
  const size_t first = line.find_first_not_of(' ');
  if (first == std::string_view::npos || line[first] != '{' || !line.ends_with('}')) return line;
  if (!read_docker(line, scratch) && !read_object(line, scratch)) return line;
  while (scratch.ends_with('\n') || scratch.ends_with('\r')) scratch.pop_back();
  return scratch;
}

}  // namespace rollcall::trace
