// Patterns of log lines, as they stand in the table of formats (job_log_formats.h).
//
//     "OpType=<op>{, NumelIn=<in>}, Timeout(ms)=<skip>) ran for <ran> milliseconds"
//
// Text stands for itself, a blank for one or more. <field> is a value: a number; a word for <op>; a
// word with full stops for <name>; numbers with commas between for <ranks>; and everything up to
// what follows for <text>, <text2> and <skip>.
// {...} may be there or not. "..." passes over anything. A pattern matches anywhere in a line, and
// need not reach its end.
#pragma once

#include <cstdint>
#include <string_view>

namespace rollcall::trace {

inline constexpr size_t kLogFieldsMax = 24;

// The values that a line gave.
class LogValues {
 public:
  // Empty where the line does not have it.
  std::string_view operator[](std::string_view name) const;
  // `fallback` where it is absent or no number.
  int64_t number(std::string_view name, int64_t fallback) const;
  bool has(std::string_view name) const { return !(*this)[name].empty(); }
  void set(std::string_view name, std::string_view value);
  size_t size() const { return count_; }
  void shrink(size_t count) { count_ = count; }

 private:
  struct Value {
    std::string_view name;
    std::string_view value;
  };
  Value values_[kLogFieldsMax];
  size_t count_ = 0;
};

// True where `line` holds the pattern, at or behind `from`.
bool match_log_pattern(std::string_view pattern, std::string_view line, LogValues& values,
                       size_t from = 0);

}  // namespace rollcall::trace
