#include "report/page/roll.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "analysis/facts.h"
#include "analysis/terms/calls.h"
#include "report/terms.h"

namespace rollcall::report {
namespace {

using analysis::Group;
using analysis::Index;
using analysis::kNone;
using analysis::kNoRecord;
using analysis::Member;

constexpr std::string_view kCellWords[] = {
#define ROLLCALL_X(name, letter, glyph, words) words,
    ROLLCALL_CELL_STATES(ROLLCALL_X)
#undef ROLLCALL_X
};
constexpr char kLetters[] = {
#define ROLLCALL_X(name, letter, glyph, words) letter,
    ROLLCALL_CELL_STATES(ROLLCALL_X)
#undef ROLLCALL_X
};

// Ranks of a group that some finding blames, and the leading finding's position there.
struct Blame {
  std::set<int32_t> ranks;
  std::optional<uint64_t> seq;
};

Blame blame_of(const Group& group, const analysis::Report& report) {
  Blame blame;
  for (const analysis::Finding& finding : report.findings) {
    for (const analysis::Culprit& culprit : finding.culprits) {
      if (!culprit.comm || !(*culprit.comm == group.key) || culprit.comm_rank < 0) continue;
      blame.ranks.insert(culprit.comm_rank);
      if (!blame.seq) blame.seq = culprit.seq;
    }
  }
  if (blame.seq) return blame;
  for (const analysis::CommSummary& comm : report.comms) {
    if (comm.key == group.key) blame.seq = comm.first_difference_seq;
  }
  return blame;
}

using Stretch = std::pair<uint64_t, uint64_t>;  // first, one behind the last

std::vector<Stretch> united(std::vector<Stretch> stretches) {
  std::sort(stretches.begin(), stretches.end());
  std::vector<Stretch> whole;
  for (const Stretch& stretch : stretches) {
    if (!whole.empty() && stretch.first <= whole.back().second) {
      whole.back().second = std::max(whole.back().second, stretch.second);
    } else {
      whole.push_back(stretch);
    }
  }
  return whole;
}

// The newest positions, and those around `seq`.
std::vector<Stretch> bounded(const std::vector<Stretch>& stretches, std::optional<uint64_t> seq,
                             uint64_t columns_max) {
  std::vector<Stretch> kept;
  const auto keep = [&](uint64_t from, uint64_t to) {
    for (const Stretch& stretch : stretches) {
      const uint64_t first = std::max(stretch.first, from);
      const uint64_t end = std::min(stretch.second, to);
      if (first < end) kept.emplace_back(first, end);
    }
  };
  uint64_t columns = 0;
  for (size_t at = stretches.size(); at-- > 0 && columns < columns_max;) {
    const uint64_t length = stretches[at].second - stretches[at].first;
    const uint64_t taken = std::min(length, columns_max - columns);
    kept.emplace_back(stretches[at].second - taken, stretches[at].second);
    columns += taken;
  }
  if (seq) keep(*seq - std::min(*seq, columns_max / 2), *seq + columns_max / 2);
  return united(std::move(kept));
}

// Positions of which something is known: records, and where somebody called and somebody did not.
std::vector<Stretch> stretches_of(const Group& group, std::optional<uint64_t> seq) {
  const uint64_t members = std::max<uint64_t>(group.members.size(), 1);
  const uint64_t columns_max = std::clamp<uint64_t>(kCellsMax / members, 64, kColumnsMax);
  std::vector<Stretch> stretches;
  for (const Member& member : group.members) {
    member.lane.for_each_stretch([&](uint64_t first, const auto& ops) {
      stretches.emplace_back(first, first + ops.size());
    });
  }
  if (group.shortest < group.longest) {
    const uint64_t span = group.longest - group.shortest;
    stretches.emplace_back(group.longest - std::min(span, columns_max), group.longest);
  }
  // A position that nobody came to is nobody's.
  stretches = united(std::move(stretches));
  for (Stretch& stretch : stretches) stretch.second = std::min(stretch.second, group.longest);
  std::erase_if(stretches, [](const Stretch& one) { return one.first >= one.second; });
  return bounded(stretches, seq, columns_max);
}

CellState state_without_record(const trace::Process& process, bool is_behind_last) {
  if (is_behind_last && process.knowledge.tells_absence()) return CellState::absent;
  return !is_behind_last && process.skipped > 0 ? CellState::unread : CellState::lost;
}

// Numbers calls: each text is made once.
class Calls {
 public:
  explicit Calls(std::vector<RollCall>& calls) : calls_(calls) {}

  uint32_t number_of(const trace::Process& process, uint32_t p, const trace::Op& op) {
    const Key key{op.kind,         op.datatype, op.reduction,
                  op.root_or_peer, op.count,    line_number(process, p, op)};
    const auto [found, is_new] = numbers_.try_emplace(key, static_cast<uint32_t>(calls_.size()));
    if (is_new) {
      calls_.push_back({analysis::short_call_text(op), lines_[std::get<5>(key)]});
    }
    return found->second;
  }

 private:
  using Key = std::tuple<OpKind, uint8_t, uint8_t, int32_t, uint64_t, uint32_t>;

  // A number for the text of its line. Processes number their lines each for itself.
  uint32_t line_number(const trace::Process& process, uint32_t p, const trace::Op& op) {
    const uint64_t own = (static_cast<uint64_t>(p) << 16) | op.frames;
    const auto [found, is_new] = line_numbers_.try_emplace(op.frames == 0 ? 0 : own, 0);
    if (!is_new) return found->second;
    const std::string text = report::line_of(process, op);
    const auto [line, is_new_line] =
        by_line_.try_emplace(text, static_cast<uint32_t>(lines_.size()));
    if (is_new_line) lines_.push_back(text);
    found->second = line->second;
    return line->second;
  }

  std::vector<RollCall>& calls_;
  std::map<Key, uint32_t> numbers_;
  std::unordered_map<uint64_t, uint32_t> line_numbers_;
  std::unordered_map<std::string, uint32_t> by_line_;
  std::vector<std::string> lines_;
};

// One member's cells: a letter and a call for each column.
struct Cells {
  std::string states;
  std::vector<uint32_t> calls;  // kNone: no record
};

Cells cells_of(const Index& index, const Member& member, const Roll& roll, Calls& calls) {
  const trace::Process& process = index.run().processes[member.process];
  Cells cells;
  cells.states.reserve(roll.columns);
  cells.calls.reserve(roll.columns);
  for (const auto& [first, columns] : roll.stretches) {
    for (uint64_t seq = first; seq < first + columns; ++seq) {
      const uint32_t op = member.lane.at(seq);
      if (op == kNoRecord) {
        cells.states += letter_of(state_without_record(process, seq >= member.lane.called));
        cells.calls.push_back(kNone);
        continue;
      }
      cells.states += letter_of(state_of(process, process.ops[op]));
      cells.calls.push_back(calls.number_of(process, member.process, process.ops[op]));
    }
  }
  return cells;
}

// By column what most members called; of equals what more of those called whom nobody blames.
std::vector<uint32_t> usual_calls(const std::vector<Cells>& members,
                                  const std::vector<bool>& blamed, uint64_t columns) {
  std::vector<uint32_t> usual(columns, kNone);
  std::map<uint32_t, uint64_t> votes;
  for (uint64_t column = 0; column < columns; ++column) {
    votes.clear();
    for (size_t at = 0; at < members.size(); ++at) {
      const uint32_t call = members[at].calls[column];
      if (call != kNone) votes[call] += blamed[at] ? 2 : 3;
    }
    uint64_t most = 0;
    for (const auto& [call, count] : votes) {
      if (count > most) usual[column] = call;
      most = std::max(most, count);
    }
  }
  return usual;
}

RollRow row_of(const Member& member, Cells&& cells, const std::vector<uint32_t>& usual) {
  RollRow row;
  row.ranks = {member.rank};
  row.processes = {member.process};
  row.states = std::move(cells.states);
  for (uint32_t column = 0; column < cells.calls.size(); ++column) {
    const uint32_t call = cells.calls[column];
    if (call != kNone && call != usual[column]) row.others.emplace_back(column, call);
  }
  return row;
}

// Members that nobody has a file of: one row.
void add_strangers(const Group& group, Roll& roll) {
  if (!group.has_strangers()) return;
  RollRow row;
  row.ranks = analysis::ranks_without_member(group);
  row.states.assign(roll.columns, letter_of(CellState::no_file));
  if (!row.ranks.empty()) roll.rows.push_back(std::move(row));
}

// Rows that are alike become one; culprits stay alone. Culprits first, then few ranks before many.
void share_rows(std::vector<RollRow>& rows) {
  using Likeness = std::tuple<std::string, std::vector<std::pair<uint32_t, uint32_t>>>;
  std::map<Likeness, size_t> seen;
  std::vector<RollRow> shared;
  for (RollRow& row : rows) {
    if (!row.is_culprit) {
      const auto [found, is_new] =
          seen.try_emplace(Likeness{row.states, row.others}, shared.size());
      if (!is_new) {
        RollRow& first = shared[found->second];
        first.ranks.push_back(row.ranks.front());
        first.processes.push_back(row.processes.front());
        continue;
      }
    }
    shared.push_back(std::move(row));
  }
  const auto order = [](const RollRow& row) {
    return std::tuple(!row.is_culprit, row.ranks.size(), row.ranks.front());
  };
  std::sort(shared.begin(), shared.end(),
            [&](const RollRow& a, const RollRow& b) { return order(a) < order(b); });
  rows = std::move(shared);
}

}  // namespace

char letter_of(CellState state) { return kLetters[static_cast<size_t>(state)]; }

std::string_view words_of(CellState state) { return kCellWords[static_cast<size_t>(state)]; }

CellState state_of(const trace::Process& process, const trace::Op& op) {
  switch (op.state) {
    case trace::OpState::called:
      return process.knowledge.returns ? CellState::called : CellState::unknown;
    case trace::OpState::returned:
      return CellState::returned;
    case trace::OpState::launched:
      return CellState::launched;
    case trace::OpState::started:
      return CellState::started;
    case trace::OpState::finished:
      return CellState::finished;
    case trace::OpState::failed:
      return CellState::failed;
    case trace::OpState::unknown:
      break;
  }
  return CellState::unknown;
}

std::string line_of(const trace::Process& process, const trace::Op& op) {
  constexpr std::string_view kCalledAt = ", called at ";
  std::string text = analysis::call_site_text(process, op);
  if (text.starts_with(kCalledAt)) text.erase(0, kCalledAt.size());
  return text;
}

std::optional<uint64_t> Roll::column_of(uint64_t seq) const {
  uint64_t before = 0;
  for (const auto& [first, length] : stretches) {
    if (seq >= first && seq < first + length) return before + (seq - first);
    before += length;
  }
  return std::nullopt;
}

Roll roll_of(const Index& index, uint32_t g, const analysis::Report& report) {
  const Group& group = index.groups()[g];
  const Blame blame = blame_of(group, report);
  Roll roll;
  roll.group = g;
  roll.positions = group.longest;
  for (const auto& [first, end] : stretches_of(group, blame.seq)) {
    roll.stretches.emplace_back(first, end - first);
    roll.columns += end - first;
  }
  if (blame.seq && roll.column_of(*blame.seq)) roll.marked_seq = blame.seq;
  Calls calls(roll.calls);
  std::vector<Cells> cells;
  std::vector<bool> blamed;
  for (const Member& member : group.members) {
    cells.push_back(cells_of(index, member, roll, calls));
    blamed.push_back(blame.ranks.contains(member.rank));
  }
  roll.usual = usual_calls(cells, blamed, roll.columns);
  for (size_t at = 0; at < group.members.size(); ++at) {
    roll.rows.push_back(row_of(group.members[at], std::move(cells[at]), roll.usual));
    roll.rows.back().is_culprit = blamed[at];
  }
  if (roll.rows.size() > kRowsSingle) share_rows(roll.rows);
  add_strangers(group, roll);
  return roll;
}

std::vector<uint32_t> groups_to_show(const Index& index, const analysis::Report& report) {
  std::map<uint32_t, uint32_t> importance;  // by group
  const auto raise = [&](const std::optional<CommKey>& key, uint32_t to) {
    const uint32_t group = key ? index.find_group(*key) : kNone;
    if (group != kNone) importance[group] = std::max(importance[group], to);
  };
  for (size_t at = 0; at < report.findings.size(); ++at) {
    const uint32_t height = at == 0 ? 10 : 5;
    const analysis::Finding& finding = report.findings[at];
    for (size_t one = 0; one < finding.culprits.size(); ++one) {
      raise(finding.culprits[one].comm, height + (one == 0 ? 2 : 1));
    }
    for (const analysis::Wait& wait : finding.waits) raise(wait.comm, height);
  }
  for (const analysis::CommSummary& comm : report.comms) {
    if (comm.first_difference_seq) raise(comm.key, 1);
  }
  std::vector<uint32_t> shown;
  for (uint32_t g = 0; g < index.groups().size(); ++g) {
    if (index.groups()[g].longest > 0 && index.groups()[g].may_be_matched) shown.push_back(g);
  }
  const auto order = [&](uint32_t g) {
    const auto found = importance.find(g);
    const Group& group = index.groups()[g];
    return std::tuple(found == importance.end() ? 0 : found->second,
                      group.longest * group.members.size());
  };
  std::stable_sort(shown.begin(), shown.end(),
                   [&](uint32_t a, uint32_t b) { return order(a) > order(b); });
  return shown;
}

}  // namespace rollcall::report
