#include "analysis/testimony/attempts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "analysis/terms/numbers.h"

namespace rollcall::analysis {
namespace {

using trace::JobLog;
using trace::Saying;
using trace::SayingKind;

struct AttemptJudged {
  int64_t number = 0;
  std::vector<Finding> findings;
  bool has_failed = false;
};

bool was_started_again(const trace::Run& run) {
  return std::any_of(run.logs.begin(), run.logs.end(), [](const JobLog& log) {
    return log.attempts.size() > 1 ||
           (!log.attempts.empty() && log.attempts.front().number > 0 && !log.sayings.empty());
  });
}

int64_t number_of(const JobLog& log, const Saying& saying) {
  return saying.attempt < log.attempts.size() ? log.attempts[saying.attempt].number : 0;
}

// The logs with what they say of one attempt. Logs that say nothing of it stay: how many there are
// matters.
trace::Run part_of(const trace::Run& run, int64_t number) {
  trace::Run part;
  for (const JobLog& log : run.logs) {
    JobLog& kept = part.logs.emplace_back();
    kept.file = log.file;
    kept.lines = log.lines;
    kept.world_size = log.world_size;
    kept.left_out_from = log.left_out_from;
    for (const Saying& saying : log.sayings) {
      if (number_of(log, saying) == number) kept.sayings.push_back(saying);
    }
  }
  return part;
}

bool has_waits(const trace::Run& run) {
  return std::any_of(run.logs.begin(), run.logs.end(), [](const JobLog& log) {
    return std::any_of(log.sayings.begin(), log.sayings.end(), [](const Saying& saying) {
      return saying.kind == SayingKind::gave_up || saying.kind == SayingKind::blocking_wait;
    });
  });
}

std::vector<AttemptJudged> judge_each(const trace::Run& run, JudgeOne judge) {
  std::map<int64_t, size_t> numbers;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) ++numbers[number_of(log, saying)];
  }
  std::vector<AttemptJudged> judged;
  for (const auto& [number, sayings] : numbers) {
    const trace::Run part = part_of(run, number);
    AttemptJudged& attempt = judged.emplace_back();
    attempt.number = number;
    attempt.findings = judge(part);
    attempt.has_failed =
        (!attempt.findings.empty() && is_defect(attempt.findings.front())) || has_waits(part);
  }
  return judged;
}

bool are_alike(const Finding& a, const Finding& b) {
  const auto same = [](const Culprit& one, const Culprit& other) {
    return one.rank == other.rank && one.op == other.op && one.seq == other.seq &&
           one.comm_name == other.comm_name;
  };
  return a.verdict == b.verdict && a.victims == b.victims &&
         std::equal(a.culprits.begin(), a.culprits.end(), b.culprits.begin(), b.culprits.end(),
                    same);
}

// "attempt 1 of the job (from line 812 on: the launcher starts the processes again)".
std::string attempt_text(const trace::Run& run, int64_t number) {
  std::string text = fmt::format("attempt {} of the job", number);
  for (const JobLog& log : run.logs) {
    for (const trace::Attempt& attempt : log.attempts) {
      if (attempt.number != number) continue;
      if (run.logs.size() > 1) return text;  // each has lines of its own
      text += fmt::format(" (from line {} on", attempt.line);
      return text + (attempt.sign.empty() ? ")" : ": " + attempt.sign + ")");
    }
  }
  return text;
}

int64_t last_number(const trace::Run& run) {
  int64_t number = 0;
  for (const JobLog& log : run.logs) {
    for (const trace::Attempt& attempt : log.attempts) number = std::max(number, attempt.number);
  }
  return number;
}

// Files of several ranks that each count their own attempts.
bool may_be_mixed(const trace::Run& run) {
  return run.logs.size() > 1 &&
         std::any_of(run.logs.begin(), run.logs.end(), [](const JobLog& log) {
           return log.attempts.size() > 1 && !log.are_attempts_told;
         });
}

std::vector<Finding> in_order(const trace::Run& run, std::vector<AttemptJudged>&& judged) {
  const auto has_failed = [](const AttemptJudged& attempt) { return attempt.has_failed; };
  auto lead = std::find_if(judged.rbegin(), judged.rend(), has_failed);
  if (lead == judged.rend()) lead = judged.rbegin();
  const Finding& last = lead->findings.front();
  std::vector<int64_t> alike;
  for (const AttemptJudged& attempt : judged) {
    if (attempt.has_failed && are_alike(attempt.findings.front(), last)) {
      alike.push_back(attempt.number);
    }
  }
  const auto failed = std::count_if(judged.begin(), judged.end(), has_failed);
  const bool are_all_alike = alike.size() > 1 && static_cast<size_t>(failed) == alike.size();
  if (are_all_alike) lead = std::prev(judged.rend());
  while (are_all_alike && !lead->has_failed) --lead;

  std::vector<Finding> findings;
  const int64_t led_by = lead->number;
  const auto take = [&](AttemptJudged& attempt) {
    for (Finding& finding : attempt.findings) {
      finding.summary = fmt::format("{}: {}", attempt_text(run, attempt.number), finding.summary);
      findings.push_back(std::move(finding));
    }
  };
  take(*lead);
  std::string& summary = findings.front().summary;
  if (are_all_alike) {
    std::vector<int32_t> others;
    for (const int64_t number : alike) {
      if (number != led_by) others.push_back(static_cast<int32_t>(number));
    }
    summary += fmt::format("; {} {} failed alike", others.size() == 1 ? "attempt" : "attempts",
                           number_list(others));
  } else if (last_number(run) > led_by) {
    summary += fmt::format("; the job was started again after that, and {} tells of no hang",
                           attempt_text(run, last_number(run)));
  }
  for (auto other = judged.rbegin(); other != judged.rend(); ++other) {
    const bool is_told = other->number == led_by || (are_all_alike && other->has_failed);
    if (!is_told) take(*other);
  }
  return findings;
}

}  // namespace

std::vector<Finding> judge_attempts(const trace::Run& run, JudgeOne judge) {
  if (run.logs.empty() || !was_started_again(run)) return judge(run);
  std::vector<AttemptJudged> judged = judge_each(run, judge);
  std::erase_if(judged, [](const AttemptJudged& attempt) { return attempt.findings.empty(); });
  if (judged.empty()) return {};
  std::vector<Finding> findings = in_order(run, std::move(judged));
  if (!may_be_mixed(run)) return findings;
  for (Finding& finding : findings) finding.confidence = Confidence::open;
  findings.front().summary +=
      "; the job was started again, and its logs do not tell which of their lines are of one "
      "attempt";
  return findings;
}

}  // namespace rollcall::analysis
