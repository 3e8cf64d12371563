#include "analysis/testimony/unnamed.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/testimony/catalogue.h"
#include "analysis/testimony/parts.h"
#include "trace/import/torch_names.h"
#include "trace/import/traceback.h"

namespace rollcall::analysis {

using trace::JobLog;
using trace::Saying;
using trace::SayingKind;

namespace {

bool is_of_unnamed(const Saying& saying) {
  return saying.rank < 0 &&
         (saying.kind == SayingKind::raised || saying.kind == SayingKind::exception ||
          saying.kind == SayingKind::async_error);
}

// The line tells something of whose it is.
bool is_of_somebody(const Saying& saying) { return speaker_text(saying) != kNobodyNamed; }

// Whether it may be what the others wait for, by the words that an exception of a rank is known by.
bool may_be_cause(const Saying& saying) {
  Saying as_exception = saying;
  if (saying.kind == SayingKind::raised) as_exception.kind = SayingKind::exception;
  return has_role(as_exception, Role::cause);
}

// The name of its file, with its folder where another has that name, too.
std::string file_text(const trace::Run& run, const JobLog& log) {
  const auto name_of = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const bool is_alone = std::none_of(run.logs.begin(), run.logs.end(), [&](const JobLog& other) {
    return other.file != log.file && name_of(other.file) == name_of(log.file);
  });
  return is_alone ? name_of(log.file) : log.file;
}

// "line 6", and of which file where there are several.
std::string place_text(const trace::Run& run, const JobLog& log, const Saying& saying) {
  const bool is_one_file =
      run.logs.size() == 1 && std::all_of(run.processes.begin(), run.processes.end(),
                                          [&](const auto& of) { return of.file == log.file; });
  return fmt::format("line {}{}", saying.line,
                     is_one_file ? std::string() : " of " + file_text(run, log));
}

// A log of one rank, as its name tells: "rank3.log".
bool is_named_after(const JobLog& log, int32_t rank) {
  const std::string name = log.file.substr(log.file.rfind('/') + 1);
  return name.find("rank") != std::string::npos && trace::rank_in_file_name(name) == rank;
}

// ", in the log of the calls of rank 3": where these are the only ones in its file.
std::string calls_beside(const trace::Run& run, const JobLog& log) {
  const trace::Process* only = nullptr;
  for (const trace::Process& process : run.processes) {
    if (process.file != log.file) continue;
    if (only != nullptr) return {};
    only = &process;
  }
  if (only == nullptr || only->job_rank < 0) return {};
  return fmt::format(", in the log of the calls of rank {}", only->job_rank);
}

// ": it waited for others until its time was over", where an exception of a rank would mean that.
std::string waited_text(const Saying& saying) {
  Saying as_exception = saying;
  if (saying.kind == SayingKind::raised) as_exception.kind = SayingKind::exception;
  const Message* message = message_of(as_exception);
  const bool is_wait = message != nullptr && message->subject == Subject::waiter;
  return is_wait ? fmt::format(": {}", meaning_text(*message)) : std::string();
}

// "in line 6 a rank that the log does not name raised ValueError: "bad sample"".
std::string unnamed_text(const trace::Run& run, const JobLog& log, const Saying& saying) {
  constexpr size_t kWordsMax = 120;
  constexpr size_t kWordsMin = 24;
  // A clause of a summary ends at a semicolon that stands in no parentheses.
  const size_t end = std::min(kWordsMax, saying.text.find_first_of(";()", kWordsMin));
  std::string words = saying.text.substr(0, end);
  if (words.size() < saying.text.size()) words += "...";
  const std::string who = is_of_somebody(saying) ? speaker_text(saying)
                                                 : std::string("a rank that the log does not name");
  std::string what = saying.kind == SayingKind::async_error
                         ? std::string("had an error of NCCL")
                         : fmt::format("raised {}", saying.op.empty() ? "an error" : saying.op);
  if (!words.empty()) what += fmt::format(": \"{}\"", words);
  const std::string beside = is_of_somebody(saying) ? std::string() : calls_beside(run, log);
  return fmt::format("in {} {} {}{}{}", place_text(run, log, saying), who, what, beside,
                     waited_text(saying));
}

}  // namespace

std::optional<Finding> judge_unnamed(const trace::Run& run) {
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (!is_of_unnamed(saying)) continue;
      Finding finding = make_finding(Verdict::insufficient, Confidence::open);
      finding.summary = unnamed_text(run, log, saying);
      finding.next = fmt::format(
          "look at the traceback in front of {}: whether the program got over it, and whose it is",
          place_text(run, log, saying));
      add_evidence(log, saying, finding);
      return finding;
    }
  }
  return {};
}

void tell_of_unnamed(const trace::Run& run, const JobWaits& waits, Finding& finding) {
  constexpr size_t kToldMax = 3;
  std::vector<std::pair<const JobLog*, const Saying*>> errors;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      const bool is_new = is_of_unnamed(saying) && !is_evidence(log, saying, finding);
      if (is_new) errors.emplace_back(&log, &saying);
    }
  }
  const size_t told = std::min(errors.size(), kToldMax);
  make_room(told, finding);
  const auto told_by = std::count_if(run.logs.begin(), run.logs.end(),
                                     [](const JobLog& log) { return !trace::is_of_errors(log); });
  const bool is_one_missing = finding.verdict == Verdict::missing_call &&
                              finding.culprits.size() == 1 && finding.culprits.front().rank >= 0;
  for (size_t i = 0; i < told; ++i) {
    const Saying& saying = *errors[i].second;
    const bool is_ordered =
        waits.has_waits() && told_by == 1 && !trace::is_of_errors(*errors[i].first);
    const bool is_in_front = is_ordered && saying.line < waits.first_line;
    const std::string_view when = !is_ordered   ? ""
                                  : is_in_front ? "in front of the first time-out, "
                                                : "behind the first time-out, ";
    finding.summary += fmt::format("; {}{}", when, unnamed_text(run, *errors[i].first, saying));
    const bool may_be_missing_one =
        is_one_missing && !is_of_somebody(saying) && may_be_cause(saying);
    const bool is_of_missing_one =
        is_one_missing && is_named_after(*errors[i].first, finding.culprits.front().rank);
    if ((is_in_front || is_of_missing_one) && may_be_missing_one) {
      finding.summary += fmt::format(", perhaps rank {}", finding.culprits.front().rank);
    }
    add_evidence(*errors[i].first, saying, finding);
  }
  if (errors.size() > told) {
    finding.summary += fmt::format("; and {} more such errors", errors.size() - told);
  }
}

}  // namespace rollcall::analysis
