#include "trace/import/job_description.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>

#include "trace/import/traceback.h"
#include "trace/stacks.h"

namespace rollcall::trace {
namespace {

// Whoever gave up a wait may have met a hang.
bool may_be_wait(const Saying& saying) {
  constexpr std::string_view kWords[] = {"imed out", "imeout", "times out",
                                         "stream synchronize failed"};
  return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view words) {
    return saying.op.find(words) != std::string::npos ||
           saying.text.find(words) != std::string::npos;
  });
}

// Dumps of py-spy inside a log.
std::string stacks_text(const JobLog& log) {
  constexpr size_t kShown = 16;
  std::string text =
      fmt::format("holds {} of py-spy: ",
                  log.sayings.size() == 1 ? "a dump" : fmt::format("{} dumps", log.sayings.size()));
  for (size_t i = 0; i < std::min(kShown, log.sayings.size()); ++i) {
    text += fmt::format("{}the main thread of {} stood in {}", i == 0 ? "" : "; ",
                        log.sayings[i].writer, log.sayings[i].text);
  }
  if (log.sayings.size() > kShown) text += "; and more";
  return text;
}

}  // namespace

std::string description_of(const JobLog& log) {
  if (is_of_stacks(log)) return stacks_text(log);
  std::set<int32_t> ranks;
  for (const Saying& saying : log.sayings) {
    const bool speaks = saying.kind != SayingKind::died && saying.kind != SayingKind::machine &&
                        saying.kind != SayingKind::missing_ranks &&
                        saying.kind != SayingKind::not_joined;
    if (saying.rank >= 0 && speaks) ranks.insert(saying.rank);
  }
  const size_t facts = log.sayings.size();
  if (is_of_errors(log)) {
    return fmt::format(
        "holds an error that somebody raised, in {} {}{}", log.lines,
        log.lines == 1 ? "line" : "lines",
        std::ranges::any_of(log.sayings, may_be_wait) ? "" : ", and tells of no hang");
  }
  std::string text =
      fmt::format("is the log of a job: {} {} read, {} {} of a hang or an error; ", log.lines,
                  log.lines == 1 ? "line" : "lines", facts, facts == 1 ? "fact" : "facts");
  if (log.left_out_from != 0) {
    text += fmt::format("more of them, from line {} on, were left out; ", log.left_out_from);
  }
  if (ranks.empty()) return text + "no line of these names a rank";
  text +=
      fmt::format("{} {} in them", ranks.size(), ranks.size() == 1 ? "rank speaks" : "ranks speak");
  if (log.world_size > 0) text += fmt::format(", of {} in the job", log.world_size);
  return text;
}

}  // namespace rollcall::trace
