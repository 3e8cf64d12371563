#include "analysis/words/tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

// One behind the last position that all members called alike.
uint64_t common_end(const Facts& facts, uint32_t g) {
  uint64_t end = facts.group(g).shortest;
  for (const Difference& difference : facts.differences) {
    if (difference.group == g) end = std::min(end, difference.seq);
  }
  return end;
}

constexpr std::string_view kWentPast = "went past it";
constexpr std::string_view kReturned = "returned";
constexpr std::string_view kCaptured = "captured into a graph";

// `is_past`: the job went past what it should not have, so nobody waits.
std::string_view state_text(const Facts& facts, uint32_t p, bool called, uint32_t op,
                            bool is_past) {
  const ProcessState& state = facts.job.processes[p];
  if (state.stopped) return "process stopped";
  if (state.gone) return state.ended_itself ? "process ended" : "process gone";
  if (!called) return "never called";
  if (op == kNoRecord) return "record lost";
  if (facts.index.op(p, op).state == trace::OpState::failed) return "refused by NCCL";
  if (state.inside_op == op) return "inside the call";
  if (facts.index.op(p, op).graph != 0) return kCaptured;
  if (facts.playback.is_done(p, op)) return kReturned;
  if (is_past) return kWentPast;
  return facts.playback.is_at_front(p, op) ? "waits" : "queued behind another call";
}

}  // namespace

std::vector<CommSummary> summarise_comms(const Facts& facts) {
  std::vector<CommSummary> summaries;
  for (uint32_t g = 0; g < facts.index.groups().size(); ++g) {
    const Group& group = facts.group(g);
    CommSummary summary;
    summary.key = group.key;
    summary.name = group.name;
    summary.nranks = group.nranks;
    for (const Member& member : group.members) {
      summary.ranks.push_back(facts.process(member.process).job_rank);
    }
    if (!group.parent_key.is_null()) summary.parent = group.parent_key;
    const uint64_t end = common_end(facts, g);
    if (end > 0 && group.may_be_matched) summary.last_common_seq = end - 1;
    if (end < group.longest) summary.first_difference_seq = end;
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

std::vector<RankRow> standing_of(const Facts& facts, const Draft& draft) {
  std::vector<RankRow> rows;
  if (draft.group == kNone) return rows;
  const Group& group = facts.group(draft.group);
  for (const Member& member : group.members) {
    RankRow row;
    row.rank = facts.process(member.process).job_rank;
    row.process = member.process;
    row.comm_name = group.name;
    if (draft.seq > 0) {
      row.last_common = fmt::format("seq {}", draft.seq - 1);
      // RAS counts calls, and knows of none which it was.
      const bool is_counted = facts.process(member.process).recorder.starts_with("ncclras");
      if (!is_counted && member.lane.has(draft.seq - 1)) {
        row.last_common += " " + short_call_text(facts.index.op_at(member, draft.seq - 1));
      }
    }
    const bool called = member.lane.called > draft.seq;
    const bool on_file = member.lane.has(draft.seq);
    const uint32_t op = on_file ? member.lane.at(draft.seq) : kNoRecord;
    row.here = on_file ? short_call_text(facts.index.op(member.process, op)) : "-";
    const bool is_past = draft.finding.severity == Severity::corruption;
    row.state = state_text(facts, member.process, called, op, is_past);
    const int64_t since_ns = on_file ? facts.index.op(member.process, op).called_ns
                                     : facts.job.processes[member.process].last_call_ns;
    // Other recorders' files do not say when they end.
    if (since_ns != 0 && !facts.job.is_foreign && row.state != kWentPast) {
      const bool is_over = row.state == kReturned || row.state == kCaptured;
      const std::string span = span_text(facts.job.end_ns - since_ns);
      row.since = is_over ? span + " ago" : "for " + span;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace rollcall::analysis
