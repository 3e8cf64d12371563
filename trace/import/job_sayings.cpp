#include "trace/import/job_sayings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "trace/import/line_words.h"

namespace rollcall::trace {

bool is_about_wait(const Saying& saying) {
  return saying.kind == SayingKind::gave_up || saying.kind == SayingKind::position ||
         saying.kind == SayingKind::blocking_wait || is_waiting(saying);
}

// "[Rank 3]" is all that PyTorch before 2.2 says of a rank.
void settle_ranks(std::vector<Saying>& sayings) {
  const bool names_ranks = std::any_of(sayings.begin(), sayings.end(), [](const Saying& saying) {
    const bool is_given = saying.kind == SayingKind::parameters_differ ||
                          saying.kind == SayingKind::missing_ranks ||
                          saying.kind == SayingKind::not_joined || saying.kind == SayingKind::died;
    return saying.rank >= 0 && !is_given;
  });
  for (Saying& saying : sayings) {
    if (saying.rank >= 0 || saying.group_rank < 0) continue;
    const bool is_error =
        saying.kind == SayingKind::exception || saying.kind == SayingKind::async_error;
    if (is_default_group(saying) || (!names_ranks && (saying.group.empty() || !is_error))) {
      saying.rank = saying.group_rank;
    } else if (is_error && saying.writer.empty() && !saying.group.empty()) {
      // Others have that rank in other groups: whom it accuses must be certain.
      saying.writer = fmt::format("rank {} of {}", saying.group_rank, saying.group_text);
    }
  }
}

void settle_ends_of_waiting(const std::map<uint32_t, uint64_t>& waiting,
                            std::vector<Saying>& sayings) {
  std::map<uint64_t, int32_t> ranks;  // by line
  for (const Saying& saying : sayings) {
    if (saying.kind != SayingKind::died) ranks.try_emplace(saying.line, saying.rank);
  }
  std::map<std::string, int32_t> by_writer;
  for (const auto& [pid, line] : waiting) {
    const auto rank = ranks.find(line);
    if (rank != ranks.end()) by_writer.try_emplace(fmt::format("pid {}", pid), rank->second);
  }
  for (Saying& saying : sayings) {
    const bool is_nameless = saying.kind == SayingKind::died && saying.rank < 0;
    const auto rank = by_writer.find(saying.writer);
    if (is_nameless && rank != by_writer.end()) saying.rank = rank->second;
  }
}

// torchrun tells of a process that ended by its number first, and of its rank below.
void settle_deaths(std::vector<Saying>& sayings) {
  std::map<std::pair<std::string, int64_t>, int32_t> ranks;
  for (const Saying& saying : sayings) {
    if (saying.is_first_death) ranks[{saying.writer, saying.code}] = saying.rank;
  }
  for (Saying& saying : sayings) {
    const auto known = ranks.find({saying.writer, saying.code});
    const bool is_nameless = saying.kind == SayingKind::died && saying.rank < 0;
    if (!is_nameless || saying.writer.empty() || known == ranks.end()) continue;
    saying.rank = known->second;
    saying.is_first_death = true;
  }
  for (Saying& saying : sayings) {
    const bool has_place = saying.kind == SayingKind::died && saying.rank < 0 &&
                           saying.local_rank >= 0 && saying.writer.starts_with("pid ");
    if (has_place)
      saying.writer = fmt::format("local rank {} ({})", saying.local_rank, saying.writer);
  }
}

void settle_places(std::vector<Saying>& sayings, const Places& places) {
  constexpr std::string_view kPid = "pid ";
  std::map<std::string, Places::const_iterator> by_pid;  // end: of several hosts
  for (auto place = places.begin(); place != places.end(); ++place) {
    const std::string pid = place->first.substr(place->first.rfind(':') + 1);
    const auto [known, is_new] = by_pid.try_emplace(pid, place);
    if (!is_new) known->second = places.end();
  }
  for (Saying& saying : sayings) {
    std::string& writer = saying.writer;
    const size_t at = writer.find(kPid);
    if (saying.kind != SayingKind::died || saying.rank >= 0 || at == std::string::npos) continue;
    const size_t begin = at + kPid.size();
    const size_t end = std::min(writer.find_first_not_of("0123456789", begin), writer.size());
    const auto known = by_pid.find(writer.substr(begin, end - begin));
    if (known == by_pid.end() || known->second == places.end()) continue;
    const auto& [name, place] = *known->second;
    const std::string text = fmt::format("on {} rank {} of {} by NCCL",
                                         name.substr(0, name.rfind(':')), place.rank, place.nranks);
    if (writer.ends_with(')')) {
      writer.insert(writer.size() - 1, ", " + text);
    } else {
      writer += fmt::format(" ({})", text);
    }
  }
}

// One that is still in none, because its rank's next line is not in the log, is in the only group
// in which others gave up the very same call.
void settle_alike_groups(std::vector<Saying>& sayings) {
  using Call = std::tuple<uint32_t, int64_t, std::string, int64_t, int64_t>;
  const auto call_of = [](const Saying& saying) {
    return Call(saying.attempt, saying.seq, saying.op, saying.elements_in, saying.elements_out);
  };
  std::map<Call, std::set<std::string>> groups;
  std::map<std::string, const Saying*> named;
  for (const Saying& saying : sayings) {
    if (saying.kind != SayingKind::gave_up || saying.group.empty()) continue;
    groups[call_of(saying)].insert(saying.group);
    named.try_emplace(saying.group, &saying);
  }
  for (Saying& saying : sayings) {
    const bool is_lost = saying.kind == SayingKind::gave_up && saying.group.empty() &&
                         saying.seq != kUntold && saying.elements_in != kUntold;
    const auto known = groups.find(call_of(saying));
    if (!is_lost || known == groups.end() || known->second.size() != 1) continue;
    const Saying& alike = *named.at(*known->second.begin());
    saying.group = alike.group;
    saying.group_text = alike.group_text;
    saying.is_group_local = alike.is_group_local;
  }
}

// A time-out that names no group is in that of its rank's next line about the same call.
void settle_groups(std::vector<Saying>& sayings, const std::set<size_t>& restarts) {
  std::map<std::pair<int32_t, int64_t>, const Saying*> positions;
  for (size_t i = sayings.size(); i-- > 0;) {
    Saying& saying = sayings[i];
    if (restarts.contains(i + 1)) positions.clear();
    if (saying.kind == SayingKind::position) positions[{saying.rank, saying.seq}] = &saying;
    const bool is_wait =
        saying.kind == SayingKind::gave_up || saying.kind == SayingKind::blocking_wait;
    if (!is_wait || !saying.group.empty() || saying.seq == kUntold) continue;
    const auto position = positions.find({saying.rank, saying.seq});
    if (position == positions.end()) continue;
    // Its rank in the group tells another group with as many calls apart.
    const int32_t group_rank = position->second->group_rank;
    if (saying.group_rank >= 0 && group_rank >= 0 && saying.group_rank != group_rank) continue;
    saying.group = position->second->group;
    saying.group_text = position->second->group_text;
    saying.is_group_local = position->second->is_group_local;
    saying.group_rank = group_rank;
  }
}

}  // namespace rollcall::trace
