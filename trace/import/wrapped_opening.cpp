#include "trace/import/wrapped_opening.h"

#include <algorithm>
#include <utility>

#include "trace/import/job_log_formats.h"
#include "trace/import/log_pattern.h"

namespace rollcall::trace {
namespace {

// Behind the header, up to where the line is known by itself.
constexpr std::string_view kOpenings[] = {
    "ProcessGroupNCCL's watchdog got stuck for ",
    "Heartbeat monitor timed out!",
    ("Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL "
     "watchdog hang"),
    "Watchdog caught collective operation timeout: ",
    "failure detected by watchdog at work sequence id: ",
    "Exception (either an error or timeout) detected by watchdog at work: ",
    "Timeout at NCCL work: ",
    "Received a dump signal due to a collective timeout from",
    "Observed flight recorder dump signal from another rank",
    "Operation timed out after "};

// Behind which the same words stand as behind a header.
constexpr std::string_view kThrown[] = {"Process group watchdog thread terminated with exception: ",
                                        "NCCL watchdog thread terminated with exception: "};

enum class Reading : uint8_t { other, begun, whole };

bool is_group(std::string_view bracket) {
  constexpr std::string_view kForms[] = {kGroupOfGuid,    kGroupWithText, kGroupWithTextBeside,
                                         kGroupOfNumber,  kGroupUntold,   "[TC]",
                                         "[rank=<rank>]", "[name=<name>]"};
  return std::any_of(std::begin(kForms), std::end(kForms), [&](std::string_view form) {
    LogValues values;
    return match_log_pattern(form, bracket, values);
  });
}

Reading read_behind_header(std::string_view rest);

Reading read_words(std::string_view words) {
  for (const std::string_view thrown : kThrown) {
    if (words.starts_with(thrown)) return read_behind_header(words.substr(thrown.size()));
    if (thrown.starts_with(words)) return Reading::begun;
  }
  for (const std::string_view opening : kOpenings) {
    if (words.starts_with(opening)) return Reading::whole;
    if (opening.starts_with(words)) return Reading::begun;
  }
  return Reading::other;
}

// "[PG ID 0 PG GUID 0(default_pg) Rank 6] ProcessGroupNCCL's watch"; PyTorch may name the group
// twice.
Reading read_behind_header(std::string_view rest) {
  constexpr size_t kGroupBytesMax = 200;
  bool has_group = false;
  while (true) {
    const size_t blanks = std::min(rest.find_first_not_of(' '), rest.size());
    rest.remove_prefix(blanks);
    if (rest.empty()) return Reading::begun;
    if (rest.front() != '[') {
      return has_group && blanks != 0 ? read_words(rest) : Reading::other;
    }
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) {
      return rest.size() <= kGroupBytesMax ? Reading::begun : Reading::other;
    }
    if (!is_group(rest.substr(0, close + 1))) return Reading::other;
    rest.remove_prefix(close + 1);
    has_group = true;
  }
}

// "[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:": the same words stand in stacks and errors, too.
bool is_header(std::string_view text, size_t mark) {
  const size_t bracket = text.substr(0, mark).find_last_of("[]");
  constexpr std::string_view kLevels = "IWEF";
  return bracket != std::string_view::npos && text[bracket] == '[' &&
         kLevels.find(text[bracket + 1]) != std::string_view::npos;
}

Reading read_opening(std::string_view text) {
  for (const std::string_view mark : kHeaderMarks) {
    const size_t at = text.find(mark);
    if (at == std::string_view::npos || !is_header(text, at)) continue;
    std::string_view rest = text.substr(at + mark.size());
    rest.remove_prefix(std::min(rest.find_first_not_of("0123456789"), rest.size()));
    if (rest.empty()) return Reading::begun;
    if (rest.front() != ']') return Reading::other;
    rest.remove_prefix(1);
    return rest.empty() || rest.front() == ' ' ? read_behind_header(rest) : Reading::other;
  }
  return Reading::other;
}

// Terminals fill a line up with blanks, and loggers indent what goes on.
std::string_view without_margins(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kBlank), text.size());
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

}  // namespace

bool WrappedOpening::begin(const TextLine& line) {
  const std::string_view text = without_margins(line.text);
  if (read_opening(text) != Reading::begun) return false;
  first_text_ = text;
  first_whole_ = without_margins(line.whole);
  ends_ = {""};
  number_ = line.number;
  writer_ = LineWriter(line.prefix);
  prefix_ = line.prefix;
  prefix_.host = {};
  prefix_.file = {};
  prefix_.place = {};
  put_together();
  return true;
}

bool WrappedOpening::join(const TextLine& next) {
  constexpr size_t kEndsMax = 16;
  const std::string_view piece = without_margins(next.text);
  const bool is_of_it = !piece.empty() && LineWriter(next.prefix) == writer_ &&
                        (next.prefix.rank < 0 || next.prefix.rank == prefix_.rank);
  std::vector<std::string> longer;
  for (const std::string& end : std::exchange(ends_, {})) {
    for (const char* between : {"", " "}) {
      std::string one = end + between + std::string(piece);
      const bool goes_on = is_of_it && read_opening(first_text_ + one) != Reading::other;
      if (goes_on && longer.size() < kEndsMax) longer.push_back(std::move(one));
    }
  }
  ends_ = std::move(longer);
  std::stable_partition(ends_.begin(), ends_.end(), [&](const std::string& end) {
    return read_opening(first_text_ + end) == Reading::whole;
  });
  if (is_begun()) put_together();
  return is_begun();
}

void WrappedOpening::put_together() {
  text_ = first_text_ + ends_.front();
  whole_ = first_whole_ + ends_.front();
}

bool WrappedOpening::is_whole() const { return read_opening(text_) == Reading::whole; }

TextLine WrappedOpening::line() const {
  return {
      .text = text_, .whole = whole_, .number = number_, .is_damaged = false, .prefix = prefix_};
}

}  // namespace rollcall::trace
