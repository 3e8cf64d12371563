#include "report/page/wait_states.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "report/page/roll.h"
#include "slow/timeline.h"
#include "trace/saturated.h"

namespace rollcall::report {
namespace {

using analysis::Group;
using analysis::kNone;
using analysis::kNoRecord;
using analysis::Member;
using slow::Meeting;
using slow::MeetingKind;

constexpr std::string_view kWaitWords[] = {
#define ROLLCALL_X(name, words) words,
    ROLLCALL_WAIT_STATES(ROLLCALL_X)
#undef ROLLCALL_X
};

// How the ranks of a collective wait for each other.
MeetingKind meeting_kind(OpKind kind) {
  if (!traits_of(kind).rooted) return MeetingKind::all;
  const bool is_from = kind == OpKind::Broadcast || kind == OpKind::Scatter;
  return is_from ? MeetingKind::from_root : MeetingKind::to_root;
}

void add_to(int64_t& sum_ns, int64_t span_ns) { sum_ns = trace::saturated_sum(sum_ns, span_ns); }

class Waits {
 public:
  explicit Waits(const analysis::Index& index)
      : index_(index),
        timeline_(slow::make_timeline(index.run())),
        last_of_(timeline_.meetings.size(), kNone) {}

  std::vector<WaitRow> rows() {
    for (uint32_t unit = 0; unit < timeline_.units.size(); ++unit) {
      if (timeline_.units[unit].is_timed()) add(unit);
    }
    for (const auto& [row_and_process, waited_ns] : awaited_) {
      WaitRow& row = rows_[row_and_process.first];
      if (waited_ns <= row.awaited_ns) continue;
      row.awaited = row_and_process.second;
      row.awaited_ns = waited_ns;
    }
    sort();
    return std::move(rows_);
  }

 private:
  using Key = std::tuple<uint32_t, WaitState, OpKind, uint32_t>;

  bool is_first(const Meeting& meeting, uint32_t unit) const {
    return timeline_.seats[meeting.begin] == unit;
  }

  // A broadcast does not wait at its root, nor a reduction anywhere else.
  bool may_wait(const Meeting& meeting, uint32_t unit) const {
    if (meeting.kind == MeetingKind::from_root) return !is_first(meeting, unit);
    if (meeting.kind == MeetingKind::to_root) return is_first(meeting, unit);
    return true;
  }

  WaitState state_of(const Meeting& meeting, uint32_t unit) const {
    if (meeting.kind == MeetingKind::from_root) return WaitState::late_broadcast;
    if (meeting.kind == MeetingKind::to_root) return WaitState::early_reduce;
    if (meeting.kind == MeetingKind::all) return WaitState::wait_at_nxn;
    return is_first(meeting, unit) ? WaitState::late_receiver : WaitState::late_sender;
  }

  // The unit that this one waits for: the root of a broadcast, the other side of a transfer, and of
  // any other meeting the last one to come, whose duration is the shortest.
  uint32_t awaited_in(uint32_t m, uint32_t unit) {
    const Meeting& meeting = timeline_.meetings[m];
    const auto units = timeline_.units_of(meeting);
    if (meeting.kind == MeetingKind::from_root) return units.front();
    if (meeting.kind == MeetingKind::pair) return units.front() == unit ? units[1] : units[0];
    uint32_t& last = last_of_[m];
    if (last == kNone) {
      last = *std::min_element(units.begin(), units.end(), [this](uint32_t a, uint32_t b) {
        return timeline_.units[a].duration_ns() < timeline_.units[b].duration_ns();
      });
    }
    return last;
  }

  // What its call takes when everybody has come. It may have arrived earlier than is on file: then
  // more of its time is none in which others waited for it.
  int64_t transfer_ns(uint32_t unit) const {
    return timeline_.units[unit].duration_ns() + timeline_.units[unit].doubt_ns;
  }

  void add(uint32_t unit) {
    uint32_t latest = kNone;
    uint32_t awaited = kNone;
    for (const uint32_t m : timeline_.meetings_of(unit)) {
      const Meeting& meeting = timeline_.meetings[m];
      if (!meeting.is_whole || !may_wait(meeting, unit)) continue;
      const uint32_t other = awaited_in(m, unit);
      if (latest != kNone && transfer_ns(other) >= transfer_ns(awaited)) continue;
      latest = m;
      awaited = other;
    }
    if (latest == kNone) return;
    const Meeting& meeting = timeline_.meetings[latest];
    const size_t number = row_number(meeting, unit);
    const int64_t duration_ns = timeline_.units[unit].duration_ns();
    const int64_t waited_ns = std::max<int64_t>(duration_ns - transfer_ns(awaited), 0);
    WaitRow& row = rows_[number];
    row.calls += 1;
    add_to(row.waited_ns, waited_ns);
    add_to(row.duration_ns, duration_ns);
    row.longest_ns = std::max(row.longest_ns, waited_ns);
    // Of the ranks that send to a root nobody knows who came last.
    if (waited_ns == 0 || meeting.kind == MeetingKind::to_root) return;
    add_to(awaited_[{number, process_of(awaited)}], waited_ns);
  }

  uint32_t process_of(uint32_t unit) const {
    return timeline_.gpus[timeline_.units[unit].gpu].process;
  }

  // The unit's call that the meeting is about.
  const trace::Op& op_of(const Meeting& meeting, uint32_t unit) const {
    const uint32_t p = process_of(unit);
    const std::vector<trace::Op>& ops = index_.run().processes[p].ops;
    const size_t begin = timeline_.units[unit].op;
    const OpKind side = is_first(meeting, unit) ? OpKind::Send : OpKind::Recv;
    size_t left = timeline_.units[unit].operations;
    for (size_t at = begin; at < ops.size() && left > 0; ++at) {
      const trace::Op& op = ops[at];
      if (op.group != ops[begin].group || !analysis::is_enqueued(op)) continue;
      --left;
      if (index_.seat(p, op.comm).group != meeting.comm) continue;
      const bool is_it = meeting.kind == MeetingKind::pair
                             ? op.kind == side
                             : is_collective(op.kind) && meeting_kind(op.kind) == meeting.kind;
      if (is_it) return op;
    }
    return ops[begin];
  }

  size_t row_number(const Meeting& meeting, uint32_t unit) {
    const trace::Op& op = op_of(meeting, unit);
    const uint32_t line = line_number(process_of(unit), op);
    const Key key{meeting.comm, state_of(meeting, unit), op.kind, line};
    const auto [found, is_new] = numbers_.try_emplace(key, rows_.size());
    if (is_new) {
      rows_.emplace_back();
      rows_.back().group = meeting.comm;
      rows_.back().state = std::get<1>(key);
      rows_.back().kind = op.kind;
      rows_.back().line = lines_[line];
    }
    return found->second;
  }

  // A number for the text of its line. Processes number their lines each for itself.
  uint32_t line_number(uint32_t p, const trace::Op& op) {
    const uint64_t own = (uint64_t{p} << 16) | op.frames;
    const auto [found, is_new] = own_lines_.try_emplace(op.frames == 0 ? ~uint64_t{0} : own, 0);
    if (!is_new) return found->second;
    const std::string text = line_of(index_.run().processes[p], op);
    const auto [line, is_new_line] =
        by_line_.try_emplace(text, static_cast<uint32_t>(lines_.size()));
    if (is_new_line) lines_.push_back(text);
    found->second = line->second;
    return line->second;
  }

  // The levels of the tree, each by its sum: communicator, state and kind, line.
  void sort() {
    std::map<uint32_t, int64_t> of_group;
    std::map<std::tuple<uint32_t, WaitState, OpKind>, int64_t> of_kind;
    for (const WaitRow& row : rows_) {
      add_to(of_group[row.group], row.waited_ns);
      add_to(of_kind[{row.group, row.state, row.kind}], row.waited_ns);
    }
    const auto place = [&](const WaitRow& row) {
      return std::tuple(-of_group[row.group], row.group, -of_kind[{row.group, row.state, row.kind}],
                        row.state, row.kind, -row.waited_ns, std::string_view(row.line));
    };
    std::sort(rows_.begin(), rows_.end(),
              [&](const WaitRow& a, const WaitRow& b) { return place(a) < place(b); });
  }

  const analysis::Index& index_;
  const slow::Timeline timeline_;
  std::vector<uint32_t> last_of_;  // by meeting, once it was asked for
  std::vector<WaitRow> rows_;
  std::map<Key, size_t> numbers_;
  std::map<std::pair<size_t, uint32_t>, int64_t> awaited_;  // by row and process
  std::unordered_map<uint64_t, uint32_t> own_lines_;
  std::unordered_map<std::string, uint32_t> by_line_;
  std::vector<std::string> lines_;
};

// What one of the waiting ranks called there; null: that is not on file.
const trace::Op* waiting_call(const analysis::Index& index, const Group& group,
                              const analysis::Wait& wait) {
  for (const Member& member : group.members) {
    const uint32_t op = member.lane.at(*wait.seq);
    const int32_t rank = index.run().processes[member.process].job_rank;
    if (op != kNoRecord && has_rank(wait.ranks, rank)) return &index.op(member.process, op);
  }
  return nullptr;
}

std::string_view collective_state(const analysis::Index& index, const analysis::Wait& wait) {
  const uint32_t g = index.find_group(*wait.comm);
  if (g == kNone) return {};
  const Group& group = index.groups()[g];
  const trace::Op* op = waiting_call(index, group, wait);
  if (op == nullptr) return {};
  const MeetingKind kind = meeting_kind(op->kind);
  if (kind == MeetingKind::all) return words_of(WaitState::wait_at_nxn);
  const uint32_t root = index.find_member(g, op->root_or_peer);
  if (root == kNone) return {};
  const int32_t rank = index.run().processes[group.members[root].process].job_rank;
  if (kind == MeetingKind::from_root) {
    return has_rank(wait.for_ranks, rank) ? words_of(WaitState::late_broadcast)
                                          : std::string_view();
  }
  const bool is_root_alone = wait.ranks.size() == 1 && wait.ranks.front() == rank;
  return is_root_alone ? words_of(WaitState::early_reduce) : std::string_view();
}

}  // namespace

bool has_rank(const std::vector<int32_t>& sorted, int32_t rank) {
  return std::binary_search(sorted.begin(), sorted.end(), rank);
}

std::string_view words_of(WaitState state) { return kWaitWords[static_cast<size_t>(state)]; }

bool has_gpu_times(const trace::Process& process) {
  return std::any_of(process.ops.begin(), process.ops.end(),
                     [](const trace::Op& op) { return op.started_ns != 0 && op.finished_ns != 0; });
}

bool has_gpu_times(const trace::Run& run) {
  return std::any_of(run.processes.begin(), run.processes.end(),
                     [](const trace::Process& process) { return has_gpu_times(process); });
}

std::vector<WaitRow> wait_rows(const analysis::Index& index) {
  return has_gpu_times(index.run()) ? Waits(index).rows() : std::vector<WaitRow>();
}

std::string_view wait_state_of(const analysis::Index& index, const analysis::Wait& wait) {
  if (wait.comm && wait.seq) return collective_state(index, wait);
  if (wait.call.starts_with("Recv ")) return words_of(WaitState::late_sender);
  if (wait.call.starts_with("Send ")) return words_of(WaitState::late_receiver);
  return {};
}

}  // namespace rollcall::report
