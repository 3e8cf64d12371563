#include "trace/job_end.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>

#include "trace/bytes.h"

namespace rollcall::trace {
namespace {

constexpr uint64_t kVersion = 1;
// Many times what is ever written.
constexpr size_t kFileBytesMax = 4096;
constexpr std::array<std::string_view, 4> kReasons = {"job", "signal", "hang", "time_limit"};
static_assert(kReasons.size() == static_cast<size_t>(EndReason::Count));

using Lines = std::map<std::string_view, std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    // A line that was cut off says nothing.
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end);
    const size_t sign = line.find('=');
    if (sign != std::string_view::npos) lines[line.substr(0, sign)] = line.substr(sign + 1);
    text.remove_prefix(end + 1);
  }
  return lines;
}

template <typename Number>
bool take(const Lines& lines, std::string_view key, int base, Number& number) {
  const auto found = lines.find(key);
  if (found == lines.end()) return false;
  const std::string_view text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::string_view name_of(EndReason reason) { return kReasons[static_cast<size_t>(reason)]; }

std::string text_of(const JobEnd& end) {
  std::string text =
      fmt::format("rollcall_ended={}\nrun_id={:016x}\nhost={}\n", kVersion, end.run_id, end.host);
  text += fmt::format("{}={}\n", end.by_signal ? "signal" : "status", end.number);
  if (end.rank >= 0) text += fmt::format("rank={}\n", end.rank);
  text += fmt::format("pid={}\nended_ns={}\nby={}\n", end.pid, end.ended_ns, name_of(end.reason));
  return text;
}

std::optional<JobEnd> parse_job_end(std::string_view text_untrusted) {
  const Lines lines = lines_of(text_untrusted);
  uint64_t version = 0;
  JobEnd end;
  if (!take(lines, "rollcall_ended", 10, version) || version != kVersion) return std::nullopt;
  if (!take(lines, "run_id", 16, end.run_id)) return std::nullopt;
  end.by_signal = take(lines, "signal", 10, end.number);
  if (!end.by_signal && !take(lines, "status", 10, end.number)) return std::nullopt;
  constexpr int kNumberMax = 255;
  if (end.number <= 0 || end.number > kNumberMax) return std::nullopt;
  const auto by = lines.find("by");
  size_t reason = 0;
  while (reason < kReasons.size() && (by == lines.end() || by->second != kReasons[reason])) {
    ++reason;
  }
  if (reason == kReasons.size()) return std::nullopt;
  end.reason = static_cast<EndReason>(reason);
  if (!take(lines, "rank", 10, end.rank) || end.rank < 0) end.rank = -1;
  if (!take(lines, "pid", 10, end.pid)) end.pid = 0;
  if (!take(lines, "ended_ns", 10, end.ended_ns)) end.ended_ns = 0;
  const auto host = lines.find("host");
  if (host != lines.end()) end.host = host->second;
  return end;
}

std::vector<JobEnd> read_job_ends(const std::vector<std::string>& paths,
                                  std::vector<Issue>& issues) {
  std::vector<JobEnd> ends;
  for (const std::string& path : paths) {
    const FileSource source(path);
    std::string text(kFileBytesMax, '\0');
    if (source.error() == 0) text.resize(source.read(0, text.data(), text.size()));
    std::optional<JobEnd> end = source.error() == 0 ? parse_job_end(text) : std::nullopt;
    if (end) {
      end->file = path;
      ends.push_back(std::move(*end));
      continue;
    }
    const std::string why = source.error() == 0 ? std::string("it is not what this version writes")
                                                : std::strerror(source.error());
    issues.push_back(
        {.file = path,
         .text = fmt::format("does not tell how the job ended: {}; look in its log", why)});
  }
  return ends;
}

}  // namespace rollcall::trace
