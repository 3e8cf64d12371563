#include "trace/import/line_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "core/base/limits.h"
#include "trace/import/job_log_formats.h"
#include "trace/import/log_pattern.h"

namespace rollcall::trace {

int32_t rank_from(int64_t number) {
  return number >= 0 && number < static_cast<int64_t>(kRanksMax) ? static_cast<int32_t>(number)
                                                                 : -1;
}

int32_t rank_between(std::string_view line, std::string_view begin, std::string_view end) {
  for (size_t at = 0; (at = line.find(begin, at)) != std::string_view::npos; ++at) {
    const char* first = line.data() + at + begin.size();
    int64_t number = -1;
    const auto [last, error] = std::from_chars(first, line.data() + line.size(), number);
    const std::string_view rest(last, static_cast<size_t>(line.data() + line.size() - last));
    if (error == std::errc() && number >= 0 && rest.starts_with(end)) return rank_from(number);
  }
  return -1;
}

int32_t rank_of(std::string_view line) {
  constexpr std::pair<std::string_view, std::string_view> kForms[] = {
      {"[rank", "]"}, {"[rank=", "]"}, {"(rank=", ")"}, {"[1,", "]<std"}};
  for (const auto& [begin, end] : kForms) {
    const int32_t rank = rank_between(line, begin, end);
    if (rank >= 0) return rank;
  }
  return -1;
}

void read_group(std::string_view line, Saying& saying) {
  LogValues values;
  if (match_log_pattern(kGroupOfGuid, line, values)) {
    saying.group = fmt::format("GUID {}", values["code"]);
  } else if (match_log_pattern(kGroupWithText, line, values) ||
             match_log_pattern(kGroupWithTextBeside, line, values)) {
    saying.group = fmt::format("PG {} {}", values["code"], values["text"]);
  } else if (match_log_pattern(kGroupOfNumber, line, values)) {
    saying.group = fmt::format("PG {}", values["code"]);
    saying.is_group_local = values["code"] != "0";
  } else if (match_log_pattern("[TC][rank=<rank>][name=<name>]", line, values)) {
    saying.group = fmt::format("GUID {}", values["name"]);
    saying.rank = rank_from(values.number("rank", -1));
    saying.group_text =
        values["name"] == "0" ? "default_pg" : fmt::format("group {}", values["name"]);
    return;
  } else {
    match_log_pattern(kGroupUntold, line, values);
  }
  saying.group_rank = rank_from(values.number("rank", -1));
  if (saying.group.empty()) return;
  const std::string_view name = values["text"];
  saying.group_text = name.empty() || name == "undefined" ? fmt::format("group {}", values["code"])
                                                          : std::string(name);
}

bool is_default_group(const Saying& saying) {
  return saying.group == "GUID 0" || saying.group == "PG 0" || saying.group.starts_with("PG 0 ") ||
         saying.group_text == "default_pg";
}

int64_t time_of(std::string_view line) {
  const auto two = [&](size_t at) {
    const char tens = line[at];
    const char ones = line[at + 1];
    const bool is_number = tens >= '0' && tens <= '9' && ones >= '0' && ones <= '9';
    return is_number ? (tens - '0') * 10 + (ones - '0') : -1;
  };
  constexpr size_t kReach = 200;
  for (size_t at = 0; at + 8 <= std::min(line.size(), kReach); ++at) {
    if (line[at + 2] != ':' || line[at + 5] != ':') continue;
    const int hours = two(at), minutes = two(at + 3), seconds = two(at + 6);
    const bool begins = at == 0 || line[at - 1] == ' ' || line[at - 1] == 'T' ||
                        line[at - 1] == '[' || line[at - 1] == '_';
    if (!begins || hours < 0 || minutes < 0 || seconds < 0 || hours > 23) continue;
    return ((int64_t{hours} * 60 + minutes) * 60 + seconds) * 1000;
  }
  return kUntold;
}

std::string writer_of(std::string_view line) {
  std::string_view head = line.substr(0, line.find("NCCL"));
  const size_t bracket = head.rfind(" [");
  if (bracket != std::string_view::npos) head = head.substr(0, bracket);
  while (head.ends_with(" ")) head.remove_suffix(1);
  head.remove_prefix(std::min(head.find_last_of(' ') + 1, head.size()));
  const size_t last = head.rfind(':');
  if (last == std::string_view::npos || last == 0) return {};
  const size_t middle = head.rfind(':', last - 1);
  if (middle == std::string_view::npos || middle == 0) return {};
  const size_t begin = head.rfind(':', middle - 1);
  return std::string(head.substr(begin == std::string_view::npos ? 0 : begin + 1,
                                 last - (begin == std::string_view::npos ? 0 : begin + 1)));
}

bool stands_for_several(std::string_view line) {
  return line.find("[repeated ") != std::string_view::npos &&
         line.find("across cluster]") != std::string_view::npos;
}

}  // namespace rollcall::trace
