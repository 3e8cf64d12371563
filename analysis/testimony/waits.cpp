#include "analysis/testimony/waits.h"

#include <algorithm>

namespace rollcall::analysis {
namespace {

using trace::JobLog;
using trace::Saying;
using trace::SayingKind;

bool is_wait(const Saying& saying) {
  return saying.kind == SayingKind::gave_up || saying.kind == SayingKind::blocking_wait;
}

bool is_default(const Saying& saying) {
  return saying.group == "GUID 0" || saying.group == "PG 0" || saying.group.starts_with("PG 0 ") ||
         saying.group_text == "default_pg";
}

WaitGroup& group_of(JobWaits& waits, std::map<std::string, size_t>& by_name, const Saying& saying) {
  const std::string& key = saying.group;
  const auto [slot, is_new] = by_name.try_emplace(key, waits.groups.size());
  if (is_new) {
    WaitGroup& group = waits.groups.emplace_back();
    group.name = saying.group_text;
    group.is_named = !saying.group.empty() && !saying.is_group_local;
    group.is_whole_job = is_default(saying);
  }
  return waits.groups[slot->second];
}

void take_standing(const Saying& saying, WaitGroup& group) {
  if (saying.enqueued == trace::kUntold) return;
  group.standings.try_emplace(saying.rank, Standing{&saying, saying.enqueued, saying.completed});
}

}  // namespace

JobWaits find_waits(const trace::Run& run) {
  JobWaits waits;
  std::map<std::string, size_t> by_name;
  for (const JobLog& log : run.logs) {
    waits.world_size = std::max(waits.world_size, log.world_size);
    waits.leaves_out_alike = waits.leaves_out_alike || log.leaves_out_alike;
    if (log.left_out_from != 0) waits.left_out_from = log.left_out_from;
    for (const Saying& saying : log.sayings) {
      waits.world_at_least = std::max(waits.world_at_least, saying.rank + 1);
      const bool is_told_of =
          saying.kind == SayingKind::died || saying.kind == SayingKind::missing_ranks ||
          saying.kind == SayingKind::not_joined || saying.kind == SayingKind::parameters_differ ||
          saying.kind == SayingKind::machine;
      if (saying.rank >= 0 && !is_told_of) waits.speakers.try_emplace(saying.rank, &saying);
      if (!is_wait(saying) || saying.rank < 0) continue;
      if (run.logs.size() == 1) waits.first_line = std::min(waits.first_line, saying.line);
      group_of(waits, by_name, saying).waits.try_emplace(saying.rank, GaveUp{&log, &saying});
    }
  }
  for (const JobLog& log : run.logs) {
    for (const Saying& saying : log.sayings) {
      const bool is_position =
          saying.kind == SayingKind::position || saying.kind == SayingKind::other_position;
      const auto group = by_name.find(saying.group);
      if (!is_position || saying.rank < 0 || group == by_name.end()) continue;
      take_standing(saying, waits.groups[group->second]);
    }
  }
  return waits;
}

}  // namespace rollcall::analysis
