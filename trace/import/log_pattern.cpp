#include "trace/import/log_pattern.h"

#include <algorithm>
#include <charconv>

#include "trace/import/digit.h"

namespace rollcall::trace {
namespace {

constexpr std::string_view kDots = "...";
// How far a value of text or "..." may reach: a line may be as long as a file.
constexpr size_t kReachMax = 4096;

enum class FieldForm : uint8_t { number, word, dotted, list, text };

FieldForm form_of(std::string_view name) {
  if (name.starts_with("text") || name == "skip") return FieldForm::text;
  if (name == "name") return FieldForm::dotted;
  if (name == "ranks") return FieldForm::list;
  return name.starts_with("op") ? FieldForm::word : FieldForm::number;
}

bool is_word(char character) {
  return is_digit(character) || character == '_' || (character >= 'a' && character <= 'z') ||
         (character >= 'A' && character <= 'Z');
}

bool belongs_to(FieldForm form, char character) {
  switch (form) {
    case FieldForm::number:
      return is_digit(character);
    case FieldForm::list:
      return is_digit(character) || character == ',' || character == ' ';
    case FieldForm::dotted:
      return is_word(character) || character == '.';
    default:
      return is_word(character);
  }
}

// Of a pattern that begins with "{": what is inside, and what comes behind.
size_t closing_brace(std::string_view pattern) {
  size_t depth = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    depth += pattern[i] == '{';
    if (pattern[i] == '}' && --depth == 0) return i;
  }
  return pattern.size();
}

// What comes behind the inside of braces.
struct Rest {
  std::string_view pattern;
  const Rest* next;
};

class Matcher {
 public:
  Matcher(std::string_view line, LogValues& values) : line_(line), values_(values) {}

  bool match(std::string_view pattern, const Rest* rest, size_t at) {
    while (true) {
      if (pattern.empty()) {
        if (rest == nullptr) return true;
        pattern = rest->pattern;
        rest = rest->next;
        continue;
      }
      if (pattern.starts_with("{")) return match_optional(pattern, rest, at);
      if (pattern.starts_with("<")) return match_field(pattern, rest, at);
      if (pattern.starts_with(kDots)) {
        return match_reaching(pattern.substr(kDots.size()), rest, at, {});
      }
      if (at >= line_.size() || line_[at] != pattern[0]) return false;
      ++at;
      if (pattern[0] == ' ') {
        while (at < line_.size() && line_[at] == ' ') ++at;
      }
      pattern.remove_prefix(1);
    }
  }

 private:
  bool match_optional(std::string_view pattern, const Rest* rest, size_t at) {
    const size_t end = closing_brace(pattern);
    const Rest behind{pattern.substr(std::min(end + 1, pattern.size())), rest};
    const size_t known = values_.size();
    if (match(pattern.substr(1, end - 1), &behind, at)) return true;
    values_.shrink(known);
    return match(behind.pattern, rest, at);
  }

  bool match_field(std::string_view pattern, const Rest* rest, size_t at) {
    const size_t close = pattern.find('>');
    const std::string_view name = pattern.substr(1, close - 1);
    const std::string_view behind = pattern.substr(close + 1);
    const FieldForm form = form_of(name);
    if (form == FieldForm::text) return match_reaching(behind, rest, at, name);
    size_t end = at;
    if (form == FieldForm::number && end < line_.size() && line_[end] == '-') ++end;
    const size_t digits = end;
    while (end < line_.size() && belongs_to(form, line_[end])) ++end;
    // The blank behind a list is the pattern's.
    while (form == FieldForm::list && end > digits && line_[end - 1] == ' ') --end;
    if (end == digits) return false;
    values_.set(name, line_.substr(at, end - at));
    return match(behind, rest, end);
  }

  // Text up to where the rest of the pattern matches; without a rest up to the end of the line.
  bool match_reaching(std::string_view behind, const Rest* rest, size_t at, std::string_view name) {
    const size_t known = values_.size();
    const size_t last = std::min(line_.size(), at + kReachMax);
    if (behind.empty() && rest == nullptr) {
      if (!name.empty()) values_.set(name, line_.substr(at, last - at));
      return true;
    }
    for (size_t end = at; end <= last; ++end) {
      if (!name.empty()) values_.set(name, line_.substr(at, end - at));
      if (++steps_ > kStepsMax) return false;
      if (match(behind, rest, end)) return true;
      values_.shrink(known);
    }
    return false;
  }

  // Of a line that is made to be slow.
  static constexpr size_t kStepsMax = 100'000;

  std::string_view line_;
  LogValues& values_;
  size_t steps_ = 0;
};

}  // namespace

std::string_view LogValues::operator[](std::string_view name) const {
  for (size_t i = count_; i-- > 0;) {
    if (values_[i].name == name) return values_[i].value;
  }
  return {};
}

int64_t LogValues::number(std::string_view name, int64_t fallback) const {
  const std::string_view text = (*this)[name];
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : fallback;
}

void LogValues::set(std::string_view name, std::string_view value) {
  if (count_ < kLogFieldsMax) values_[count_++] = {name, value};
}

bool match_log_pattern(std::string_view pattern, std::string_view line, LogValues& values,
                       size_t from) {
  const size_t special = std::min(pattern.find_first_of("<{ "), pattern.find(kDots));
  const std::string_view head = pattern.substr(0, special);
  Matcher matcher(line, values);
  for (size_t at = from; (at = line.find(head, at)) != std::string_view::npos; ++at) {
    values.shrink(0);
    if (matcher.match(pattern, nullptr, at)) return true;
    if (head.empty()) return false;
  }
  return false;
}

}  // namespace rollcall::trace
