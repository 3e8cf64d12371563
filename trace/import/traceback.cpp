#include "trace/import/traceback.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trace/import/job_endings.h"

namespace rollcall::trace {
namespace {

constexpr std::string_view kFirstLine = "Traceback (most recent call last):";
constexpr uint64_t kLinesMax = 300;  // of one, with those of others between
constexpr size_t kOpenMax = 1024;    // as many as a host has ranks, by far

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

void Tracebacks::begin(const TextLine& line, std::string who) {
  // Loggers put words in front of it: "Scheduler hit an exception: ". A message out of JSON may
  // hold a whole one, and more behind it.
  const size_t end = std::min(line.text.find_last_not_of("\r\n") + 1, line.text.size());
  const bool is_first = line.text.substr(0, end).ends_with(kFirstLine);
  const bool is_quoted = line.text.find_first_of("{\"'") != line.text.npos;
  if (!is_first || is_quoted) return;
  const bool is_known = !open_.empty() && open_.back().line == line.number;
  if (is_known || open_.size() >= kOpenMax) return;
  if (!line.prefix.place.empty()) who = fmt::format("SGLang's {}", line.prefix.place);
  open_.push_back({LineWriter(line.prefix), line.prefix.rank, std::move(who), line.number});
}

std::optional<std::string> Tracebacks::end(const TextLine& line, bool has_form) {
  std::erase_if(open_, [&](const Open& open) { return line.number > open.line + kLinesMax; });
  const bool is_within =
      line.text.empty() || is_blank(line.text.front()) || line.text.starts_with(kFirstLine);
  // PyTorch and NCCL write between the lines of others.
  const bool is_of_another = line.text.starts_with("[") || begins_as_nccl(line.text);
  if (is_within || is_of_another) return {};
  const LineWriter writer(line.prefix);
  const auto open = std::find_if(open_.begin(), open_.end(), [&](const Open& one) {
    return one.writer == writer && one.rank == line.prefix.rank && one.line < line.number;
  });
  if (open == open_.end()) return {};
  // Whatever is not indented ends it, an exception that is not known as such included.
  std::string who = std::move(open->who);
  open_.erase(open);
  return has_form ? std::optional(std::move(who)) : std::nullopt;
}

std::string_view raised_exception(std::string_view text) {
  constexpr std::string_view kOfLaunchers[] = {"ChildFailedError", "CalledProcessError",
                                               "SignalException", "ProcessExitedException",
                                               "ProcessRaisedException"};
  const std::string_view name = text.substr(0, text.find_first_of(": \r\n"));
  const std::string_view behind = text.substr(name.size());
  const bool is_alone = behind.find_first_not_of(": \r\n") == std::string_view::npos;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  const bool is_of_launcher =
      std::find(std::begin(kOfLaunchers), std::end(kOfLaunchers), last) != std::end(kOfLaunchers);
  const bool is_exception = is_exception_name(last) || last == "StopIteration";
  return is_exception && !is_of_launcher && (is_alone || behind.starts_with(": "))
             ? name
             : std::string_view();
}

bool is_of_errors(const JobLog& log) {
  bool is_raised = false;
  for (const Saying& saying : log.sayings) {
    if (saying.kind != SayingKind::raised && saying.kind != SayingKind::result) return false;
    is_raised = is_raised || saying.kind == SayingKind::raised;
  }
  return is_raised;
}

}  // namespace rollcall::trace
