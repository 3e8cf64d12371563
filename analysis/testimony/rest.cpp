#include "analysis/testimony/rest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/terms/numbers.h"
#include "analysis/testimony/catalogue.h"
#include "analysis/testimony/parts.h"

namespace rollcall::analysis {
namespace {

using trace::JobLog;
using trace::Saying;
using trace::SayingKind;

// "DeepEP's ranks 6,14" of "DeepEP's rank 6" and "DeepEP's rank 14".
std::string names_text(const std::set<std::string>& names) {
  std::string all = fmt::format("{}", fmt::join(names, ", "));
  if (names.size() < 2) return all;
  const std::string& first = *names.begin();
  const std::string before = first.substr(0, first.rfind(' ') + 1);
  std::vector<int32_t> numbers;
  for (const std::string& name : names) {
    const int64_t number = before.empty() ? -1 : number_in(name, before);
    const bool is_alike = number >= 0 && name == before + std::to_string(number);
    if (!is_alike) return all;
    numbers.push_back(static_cast<int32_t>(number));
  }
  return fmt::format("{}s {}", before.substr(0, before.size() - 1), number_list(numbers));
}

// What is known of these words, and of which ranks, or of whom else, it is told.
void tell_of_meaning(const trace::Run& run, const Message& known, Finding& finding) {
  constexpr size_t kNamed = 16;
  const bool is_of_rank = known.kind == SayingKind::exception || known.kind == SayingKind::outside;
  std::set<int32_t> ranks;
  std::set<std::string> others;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (!is_of_rank || message_of(saying) != &known) continue;
      if (saying.rank >= 0) ranks.insert(saying.rank);
      if (saying.rank < 0 && !saying.writer.empty() && others.size() < kNamed) {
        others.insert(saying.writer);
      }
    }
  }
  finding.victims.assign(ranks.begin(), ranks.end());
  std::string who = ranks.empty() ? names_text(others) : ranks_text(finding.victims);
  const size_t count = ranks.empty() ? others.size() : ranks.size();
  if (known.subject == Subject::told || !is_of_rank) {
    finding.summary += fmt::format(": {}", meaning_text(known));
    const std::string_view tells = count == 1 ? "tells" : "tell";
    if (!who.empty()) finding.summary += fmt::format("; {} {} so", who, tells);
    return;
  }
  if (who.empty()) who = "a process that the log does not name";
  finding.summary += fmt::format(": {}{} {}", count > 1 ? "each of " : "", who, known.meaning);
}

}  // namespace

Finding judge_rest(const trace::Run& run) {
  Finding finding = make_finding(Verdict::insufficient, Confidence::open);
  const Message* known = nullptr;
  const Saying* first = nullptr;  // whose words are shown
  bool is_context = true;
  bool has_warning = false;
  std::set<int32_t> ended;
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      if (saying.kind == SayingKind::raised) continue;  // tell_of_unnamed()
      if (first == nullptr) first = &saying;
      // What healthy jobs print explains least.
      const Message* message = message_of(saying);
      const bool is_better = known == nullptr || known->role == Role::context;
      const bool tells_context = message != nullptr && message->role == Role::context;
      if (message != nullptr && (known == nullptr || (is_better && !tells_context))) {
        known = message;
        first = &saying;
      }
      is_context = is_context && tells_context;
      has_warning = has_warning || saying.kind == SayingKind::warning;
      if (saying.kind == SayingKind::position && saying.rank >= 0) ended.insert(saying.rank);
      add_evidence(log, saying, finding);
    }
  }
  finding.summary = is_context ? "the log says of no rank that it went wrong"
                               : "the log says that something went wrong, and not who began it";
  if (!ended.empty()) {
    finding.summary += fmt::format("; PyTorch's {} of {} met an error or a time-out, and ended it",
                                   ended.size() == 1 ? "watchdog" : "watchdogs",
                                   ranks_text({ended.begin(), ended.end()}));
  }
  if (known != nullptr) tell_of_meaning(run, *known, finding);
  if (first != nullptr) finding.summary += fmt::format("; its words: {}", first->quote);
  finding.next = known != nullptr
                     ? std::string(known->next)
                     : "look at the lines around it; `rollcall run` records every call";
  // What it sends to is shown already.
  if (has_warning && finding.next.find("at the NCCL WARN in front") != std::string::npos) {
    finding.next = "look at the lines around that warning, in the logs of both sides";
  }
  return finding;
}

}  // namespace rollcall::analysis
