#include "analysis/words/gaps.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

using trace::Process;

uint64_t statistic(const Process& process, const char* name) {
  const auto found = process.statistics.find(name);
  return found == process.statistics.end() ? 0 : found->second;
}

uint64_t lost_records(const Process& process) {
  uint64_t lost = 0;
  for (const char* name :
       {"history_lost", "dropped_pinned", "dropped_off", "dropped_event", "late_overflow"}) {
    lost += statistic(process, name);
  }
  return lost;
}

// Written to a segment once, and on no file now: neither has the recorder lost them, nor has the
// history's bound removed them. Few may be numbers that threads drew in a block and did not spend.
uint64_t missing_records(const Process& process) {
  const bool has_all_history = statistic(process, "history_records") != 0 &&
                               statistic(process, "history_dropped_files") == 0;
  const uint64_t lost = lost_records(process);
  if (!has_all_history || process.lost <= lost + trace::kUnspentMax) return 0;
  return process.lost - lost;
}

// Their communicator was made before recording began, or found its table full. Of the former the
// statistic counts the first call; of a long job not all records are on file.
uint64_t calls_on_unknown(const Process& process) {
  const auto on_file =
      std::count_if(process.ops.begin(), process.ops.end(), [](const trace::Op& op) {
        return op.comm == kCommUnknown && (is_collective(op.kind) || is_p2p(op.kind));
      });
  return std::max(statistic(process, "comm_unknown"), static_cast<uint64_t>(on_file));
}

void append(std::string& text, std::string_view part) {
  if (!text.empty()) text += "; ";
  text += part;
}

std::string counted(uint64_t number, const char* one, const char* many) {
  return fmt::format("{} {}", number, number == 1 ? one : many);
}

std::string gap_text(const Facts& facts, uint32_t p) {
  const Process& process = facts.process(p);
  std::string text;
  if (const uint64_t lost = lost_records(process); lost != 0) {
    append(text, counted(lost, "record was lost", "records were lost"));
  }
  if (const uint64_t missing = missing_records(process); missing != 0) {
    append(text, counted(missing, "record is", "records are") +
                     " on no file: a segment was removed, cut off or not copied");
  }
  if (const uint64_t paused = statistic(process, "dropped_paused"); paused != 0) {
    append(text, counted(paused, "call was", "calls were") +
                     " made while recording was paused (rollcall ctl pause)");
  }
  if (const uint64_t unknown = calls_on_unknown(process); unknown != 0) {
    append(text, counted(unknown, "call was", "calls were") +
                     " made on communicators that are not on file, and not compared");
  }
  if (const uint64_t damaged = facts.index.misplaced(p); damaged != 0) {
    append(text, counted(damaged, "record names a position", "records name positions") +
                     " far from all others: the file is damaged");
  }
  return text;
}

}  // namespace

std::vector<Gap> gaps_of(const Facts& facts) {
  std::vector<Gap> gaps;
  for (const uint32_t p : facts.index.active()) {
    if (!facts.process(p).is_first_part) continue;
    std::string text = gap_text(facts, p);
    if (!text.empty()) gaps.push_back({p, std::move(text)});
  }
  return gaps;
}

std::string all_text(const Index& index) {
  const std::string text = everyone_text(index);
  return index.active().size() == 1 ? fmt::format("the {} on file", text)
                                    : fmt::format("all {}", text);
}

std::string absent_ranks_text(const Group& group, std::string_view what) {
  const auto on_file = static_cast<int32_t>(group.members.size());
  const bool are_told = std::all_of(group.members.begin(), group.members.end(),
                                    [](const Member& member) { return member.rank >= 0; });
  if (!are_told) {
    return fmt::format(
        "{} of the {} processes of {} {} on file, as which ranks is not known; the rest {}",
        on_file, group.nranks, group.name, on_file == 1 ? "is" : "are", what);
  }
  const std::vector<int32_t> absent = ranks_without_member(group);
  return fmt::format("{} {} of {} {}", absent.size() == 1 ? "rank" : "ranks", number_list(absent),
                     group.name, what);
}

std::string absent_text(const Facts& facts) {
  for (const Group& group : facts.index.groups()) {
    if (!group.has_strangers()) continue;
    // Other recorders learn of a group by a call on it: a rank without one may have a file.
    const bool may_be_unused =
        facts.job.is_foreign && facts.index.active().size() >= static_cast<size_t>(group.nranks);
    if (may_be_unused) continue;
    const bool is_ready =
        std::all_of(group.members.begin(), group.members.end(), [&](const Member& m) {
          const CommState state = facts.process(m.process).comms[m.comm].state;
          return state != CommState::initialising && state != CommState::failed;
        });
    const std::vector<int32_t> absent = ranks_without_member(group);
    if (!is_ready || absent.empty()) continue;
    return absent_ranks_text(group, "left no file that can be read");
  }
  return {};
}

std::string gaps_text(const Facts& facts) {
  std::string text;
  constexpr size_t kGapsNamed = 3;
  const std::vector<Gap> gaps = gaps_of(facts);
  for (size_t i = 0; i < std::min(gaps.size(), kGapsNamed); ++i) {
    append(text, fmt::format("{}: {}", rank_text(facts.process(gaps[i].process)), gaps[i].text));
  }
  if (gaps.size() > kGapsNamed) {
    append(text, fmt::format("likewise {} more", gaps.size() - kGapsNamed));
  }
  if (const std::string absent = absent_text(facts); !absent.empty()) append(text, absent);
  return text;
}

}  // namespace rollcall::analysis
