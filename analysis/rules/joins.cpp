// Ranks that join a communicator and contradict each other about it, as a finding.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/rules/rules.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {
namespace {

constexpr size_t kJoinSidesMax = 4;

std::vector<uint32_t> all_of_sides(const JoinDispute& dispute) {
  std::vector<uint32_t> processes;
  for (const JoinDispute::Side& side : dispute.sides) {
    processes.insert(processes.end(), side.processes.begin(), side.processes.end());
  }
  return processes;
}

// "rank 1 joined world as one of 5 ranks, and ranks 0,2-3 as of 4".
std::string sizes_text(const Facts& facts, const JoinDispute& dispute) {
  std::string text;
  // The odd ones come first.
  for (size_t i = dispute.sides.size(); i-- > 0;) {
    const JoinDispute::Side& side = dispute.sides[i];
    const std::string who = processes_text(facts.index.run(), side.processes);
    if (text.empty()) {
      text = fmt::format("{} joined {} as one of {} ranks", who,
                         facts.group(dispute.groups.front()).name, side.number);
    } else if (dispute.sides.size() - i > kJoinSidesMax) {
      return text + ", and others otherwise";
    } else {
      text += fmt::format(", {}{} as of {}", i == 0 ? "and " : "", who, side.number);
    }
  }
  return text;
}

// "ranks 0-1 both joined world as its rank 0, and nobody as its rank 1". Whom the launcher gave one
// number have only that to be called by.
std::string claims_text(const Facts& facts, const JoinDispute& dispute) {
  std::string text;
  for (size_t i = 0; i < dispute.sides.size() && i < kJoinSidesMax; ++i) {
    const JoinDispute::Side& side = dispute.sides[i];
    std::set<int32_t> job_ranks;
    for (const uint32_t p : side.processes) job_ranks.insert(facts.process(p).job_rank);
    const size_t count = side.processes.size();
    const std::string who =
        job_ranks.size() == count
            ? fmt::format("{} {}", processes_text(facts.index.run(), side.processes),
                          count == 2 ? "both" : "all")
            : fmt::format("{} processes", count);
    text += fmt::format("{}{} joined {} as its rank {}", text.empty() ? "" : ", ", who,
                        facts.group(dispute.groups.front()).name, side.number);
  }
  if (dispute.sides.size() > kJoinSidesMax) text += ", and so for other ranks";
  const std::vector<int32_t> unclaimed = ranks_without_member(facts.group(dispute.groups.front()));
  if (!unclaimed.empty()) {
    text += fmt::format(", and nobody as its rank{} {}", unclaimed.size() == 1 ? "" : "s",
                        number_list(unclaimed));
  }
  return text;
}

std::string unique_ids_text(const Facts& facts, const JoinDispute& dispute) {
  const trace::Run& run = facts.index.run();
  const std::vector<uint32_t> all = all_of_sides(dispute);
  const int32_t nranks = dispute.sides.front().number;
  if (dispute.sides.size() == all.size()) {
    return fmt::format("{} each joined a communicator of {} ranks with a unique id of their own",
                       processes_text(run, all), nranks);
  }
  if (dispute.culprits.size() == all.size()) {
    return fmt::format("{} joined a communicator of {} ranks with {} different unique ids",
                       processes_text(run, all), nranks, dispute.sides.size());
  }
  return fmt::format("{} joined a communicator of {} ranks with {} unique id than {}",
                     processes_text(run, dispute.culprits), nranks,
                     dispute.culprits.size() == 1 ? "another" : "other",
                     processes_text(run, dispute.sides.front().processes));
}

std::string dispute_text(const Facts& facts, const JoinDispute& dispute) {
  switch (dispute.matter) {
    case JoinMatter::nranks:
      return sizes_text(facts, dispute);
    case JoinMatter::rank:
      return claims_text(facts, dispute);
    case JoinMatter::unique_id:
      break;
  }
  return unique_ids_text(facts, dispute);
}

std::string_view next_text(JoinMatter matter) {
  switch (matter) {
    case JoinMatter::nranks:
      return "compare the number of ranks that is passed to ncclCommInitRank, and where it comes "
             "from: WORLD_SIZE, or the launcher's count";
    case JoinMatter::rank:
      return "compare the rank that is passed to ncclCommInitRank, and where it comes from: RANK, "
             "or the launcher's number of the process";
    case JoinMatter::unique_id:
      break;
  }
  return "one rank calls ncclGetUniqueId, and all others join with the id that it hands them: look "
         "how the id is handed on";
}

// Those at fault first.
void add_evidence(const Facts& facts, const JoinDispute& dispute, Finding& finding) {
  std::vector<uint32_t> order = dispute.culprits;
  for (const uint32_t p : all_of_sides(dispute)) {
    if (!std::binary_search(dispute.culprits.begin(), dispute.culprits.end(), p)) {
      order.push_back(p);
    }
  }
  for (const uint32_t p : order) {
    const trace::Process& process = facts.process(p);
    const auto asked =
        std::any_of(process.events.begin(), process.events.end(),
                    [](const trace::Event& event) { return event.kind == EventKind::GetUniqueId; });
    for (uint32_t i = 0; i < process.comms.size(); ++i) {
      if (finding.evidence.size() == kEvidenceMax) return;
      const uint32_t g = facts.index.seat(p, i).group;
      if (std::find(dispute.groups.begin(), dispute.groups.end(), g) == dispute.groups.end()) {
        continue;
      }
      finding.evidence.push_back(
          {.file = process.file,
           .record = fmt::format("comm {}", i),
           .text = fmt::format("{}: joins {} as rank {} of {}{}", rank_text(process),
                               facts.group(g).name, process.comms[i].rank, process.comms[i].nranks,
                               asked ? "; called ncclGetUniqueId itself" : "")});
    }
  }
}

uint32_t group_of(const JoinDispute& dispute, uint32_t p) {
  for (const JoinDispute::Side& side : dispute.sides) {
    if (std::binary_search(side.processes.begin(), side.processes.end(), p)) return side.group;
  }
  return dispute.groups.front();
}

}  // namespace

Draft draft_join_dispute(const Facts& facts, uint32_t r) {
  const Root& root = facts.graph.roots()[r];
  const Creation& creation = facts.graph.creations()[facts.graph.nodes()[root.nodes[0]].creation];
  const JoinDispute& dispute = facts.graph.join_disputes()[creation.dispute];
  // That several unique ids were to be one is on no file.
  const bool is_on_file = dispute.matter != JoinMatter::unique_id;
  Draft draft =
      make_draft(Verdict::init_incomplete, is_on_file ? Confidence::certain : Confidence::likely,
                 Misstep::other_arguments);
  Finding& finding = draft.finding;
  for (const uint32_t p : dispute.culprits) {
    Culprit culprit = culprit_of(facts, p, group_of(dispute, p));
    culprit.op = std::string(rollcall::name_of(EventKind::CommInitRank));
    finding.culprits.push_back(std::move(culprit));
  }
  const bool is_one = dispute.callers.size() == 1;
  const std::string_view waits = !facts.job.live ? "waited"
                                 : is_one        ? "has been waiting"
                                                 : "have been waiting";
  finding.summary =
      fmt::format("{}; {} process{} {} there for {}, for ranks that cannot come",
                  dispute_text(facts, dispute), dispute.callers.size(), is_one ? "" : "es", waits,
                  span_text(facts.job.end_ns - creation.since_ns));
  finding.next = next_text(dispute.matter);
  add_evidence(facts, dispute, finding);
  std::vector<uint32_t> victims = root.victims;
  victims.insert(victims.end(), dispute.callers.begin(), dispute.callers.end());
  set_victims(facts, victims, finding);
  draft.since_ns = creation.since_ns;
  draft.root = r;
  draft.node = root.waiters.front();
  return draft;
}

}  // namespace rollcall::analysis
