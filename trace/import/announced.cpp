#include "trace/import/announced.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rollcall::trace {
namespace {

// What stands behind "name: " on a line of the block; empty: another line.
std::string value_of(std::string_view text, std::string_view name) {
  constexpr size_t kValueMax = 80;
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (!text.starts_with(name)) return {};
  text.remove_prefix(name.size());
  return std::string(text.substr(0, std::min(text.find_first_of(" \t\r"), kValueMax)));
}

}  // namespace

void Announced::read(const TextLine& line, std::string who) {
  const bool is_pending = line_ != 0 && line.number <= line_ + kReach;
  is_one_ = !is_pending || (is_one_ && who == who_);
  writer_ = LineWriter(line.prefix);
  who_ = std::move(who);
  line_ = line.number;
}

std::string Announced::take(const TextLine& line) {
  if (line_ == 0) return {};
  const bool is_near = line.number > line_ && line.number <= line_ + kReach;
  const bool is_known = is_near && is_one_ && LineWriter(line.prefix) == writer_;
  // Of several the others' lines may still come.
  if (is_known || !is_near) line_ = 0;
  return is_known ? who_ : std::string();
}

void RayActor::begin(uint64_t line) {
  *this = RayActor();
  begin_ = line;
}

void RayActor::read(std::string_view text, uint64_t line) {
  if (line > begin_ + kReach) return begin(0);
  if (std::string pid = value_of(text, "pid: "); !pid.empty()) pid_ = std::move(pid);
  if (std::string name = value_of(text, "name: "); !name.empty()) name_ = std::move(name);
  if (std::string host = value_of(text, "ip: "); !host.empty()) host_ = std::move(host);
}

void RayActor::give_to(Saying& saying) {
  const bool is_near = is_open() && saying.line <= begin_ + kReach;
  if (is_near && !pid_.empty()) {
    const std::string process =
        host_.empty() ? fmt::format("pid {}", pid_) : fmt::format("pid {} on {}", pid_, host_);
    saying.writer =
        name_.empty() ? process : fmt::format("the actor {} of Ray ({})", name_, process);
  }
  begin(0);
}

}  // namespace rollcall::trace
