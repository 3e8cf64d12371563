#include "analysis/waits/join_disputes.h"

#include <algorithm>
#include <map>
#include <set>

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Process;

struct Join {
  uint32_t process = kNone;
  uint32_t group = kNone;
  const Comm* comm = nullptr;
};

// What the shim saw. Also where it came to be: a communicator of fewer ranks, or of those who were
// faster under a rank, is made without the others.
bool is_join(const Process& process, const Comm& comm) {
  return !process.is_foreign() && comm.origin == CommOrigin::init && !comm.key.is_null() &&
         comm.nranks > 0 && comm.rank >= 0;
}

bool is_waiting(const Join& join) { return join.comm->state == CommState::initialising; }

// A process that failed, or left, and joined again: what counts is what it passed last.
void leave_out_tried_again(std::vector<Join>& joins) {
  std::map<uint32_t, int64_t> newest_ns;
  for (const Join& join : joins) {
    int64_t& newest = newest_ns[join.process];
    newest = std::max(newest, join.comm->created_ns);
  }
  std::erase_if(joins, [&](const Join& join) {
    const int64_t ended_ns = join.comm->ended_ns;
    return ended_ns != 0 && ended_ns <= newest_ns[join.process];
  });
}

// By group, where somebody waits, in the order of the processes. A process that was gone when
// another came is not there.
std::map<uint32_t, std::vector<Join>> disputable_joins(const Index& index, const JobState& job) {
  std::map<uint32_t, std::vector<Join>> joins;
  for (const uint32_t p : index.active()) {
    const Process& process = index.run().processes[p];
    for (uint32_t i = 0; i < process.comms.size(); ++i) {
      if (!is_join(process, process.comms[i])) continue;
      joins[index.seat(p, i).group].push_back({p, index.seat(p, i).group, &process.comms[i]});
    }
  }
  for (auto& [g, those] : joins) {
    leave_out_tried_again(those);
    int64_t newest_ns = 0;
    for (const Join& join : those) newest_ns = std::max(newest_ns, join.comm->created_ns);
    std::erase_if(those, [&](const Join& join) {
      const ProcessState& state = job.processes[join.process];
      return state.gone && state.last_sign_ns < newest_ns;
    });
  }
  std::erase_if(joins, [](const auto& entry) {
    return std::none_of(entry.second.begin(), entry.second.end(), is_waiting);
  });
  return joins;
}

void sort_unique(std::vector<uint32_t>& processes) {
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
}

// Who is on another side than the largest, or all where none is.
std::vector<uint32_t> minority_of(const std::vector<JoinDispute::Side>& sides) {
  const bool has_majority = sides[0].processes.size() > sides[1].processes.size();
  std::vector<uint32_t> minority;
  for (size_t i = has_majority ? 1 : 0; i < sides.size(); ++i) {
    minority.insert(minority.end(), sides[i].processes.begin(), sides[i].processes.end());
  }
  sort_unique(minority);
  return minority;
}

void sort_sides(std::vector<JoinDispute::Side>& sides) {
  for (JoinDispute::Side& side : sides) sort_unique(side.processes);
  std::stable_sort(sides.begin(), sides.end(), [](const auto& a, const auto& b) {
    return a.processes.size() > b.processes.size();
  });
}

JoinDispute dispute_of(JoinMatter matter, const std::vector<Join>& joins) {
  JoinDispute dispute;
  dispute.matter = matter;
  for (const Join& join : joins) {
    if (!is_waiting(join)) continue;
    dispute.callers.push_back(join.process);
    const int64_t created_ns = join.comm->created_ns;
    if (dispute.since_ns == 0 || created_ns < dispute.since_ns) dispute.since_ns = created_ns;
  }
  sort_unique(dispute.callers);
  return dispute;
}

bool add_sizes(const std::vector<Join>& joins, std::vector<JoinDispute>& disputes) {
  std::map<int32_t, std::vector<uint32_t>> by_size;
  for (const Join& join : joins) by_size[join.comm->nranks].push_back(join.process);
  if (by_size.size() < 2) return false;
  JoinDispute dispute = dispute_of(JoinMatter::nranks, joins);
  dispute.groups = {joins.front().group};
  for (auto& [nranks, processes] : by_size) {
    dispute.sides.push_back(
        {.number = nranks, .group = joins.front().group, .processes = std::move(processes)});
  }
  sort_sides(dispute.sides);
  dispute.culprits = minority_of(dispute.sides);
  disputes.push_back(std::move(dispute));
  return true;
}

// Where the other members are the ranks that the launcher made them, who is not is the odd one.
std::vector<uint32_t> odd_claimants(const Index& index, const std::vector<Join>& joins,
                                    const std::vector<JoinDispute::Side>& sides) {
  std::vector<uint32_t> claimants;
  for (const JoinDispute::Side& side : sides) {
    claimants.insert(claimants.end(), side.processes.begin(), side.processes.end());
  }
  sort_unique(claimants);
  std::vector<uint32_t> odd;
  for (const Join& join : joins) {
    if (index.run().processes[join.process].job_rank == join.comm->rank) continue;
    if (!std::binary_search(claimants.begin(), claimants.end(), join.process)) return claimants;
    odd.push_back(join.process);
  }
  sort_unique(odd);
  return odd.empty() || odd.size() == claimants.size() ? claimants : odd;
}

// A process that tries again claims its rank twice, and contradicts nobody.
bool add_claims(const Index& index, const std::vector<Join>& joins,
                std::vector<JoinDispute>& disputes) {
  std::map<int32_t, std::vector<uint32_t>> by_rank;
  for (const Join& join : joins) by_rank[join.comm->rank].push_back(join.process);
  JoinDispute dispute = dispute_of(JoinMatter::rank, joins);
  dispute.groups = {joins.front().group};
  for (auto& [rank, processes] : by_rank) {
    sort_unique(processes);
    if (processes.size() < 2) continue;
    dispute.sides.push_back({.number = rank, .group = joins.front().group, .processes = processes});
  }
  if (dispute.sides.empty()) return false;
  sort_sides(dispute.sides);
  dispute.culprits = odd_claimants(index, joins, dispute.sides);
  disputes.push_back(std::move(dispute));
  return true;
}

// All processes of the job, or equally far apart in it: three at least, for two always are.
bool may_be_one_communicator(const Index& index, const std::vector<uint32_t>& processes) {
  if (processes.size() == index.active().size()) return true;
  std::vector<int32_t> job_ranks;
  for (const uint32_t p : processes) job_ranks.push_back(index.run().processes[p].job_rank);
  std::sort(job_ranks.begin(), job_ranks.end());
  if (job_ranks.size() < 3 || job_ranks.front() < 0) return false;
  const int32_t distance = job_ranks[1] - job_ranks[0];
  for (size_t i = 1; i < job_ranks.size(); ++i) {
    if (job_ranks[i] - job_ranks[i - 1] != distance) return false;
  }
  return true;
}

// Communicators of one size of which each has just the ranks that the others lack.
void add_unique_ids(const Index& index, const JobState& job,
                    const std::map<uint32_t, std::vector<Join>>& joins,
                    std::vector<JoinDispute>& disputes) {
  std::map<int32_t, std::vector<Join>> by_size;
  for (const auto& [g, those] : joins) {
    std::vector<Join>& same = by_size[those.front().comm->nranks];
    same.insert(same.end(), those.begin(), those.end());
  }
  for (const auto& [nranks, those] : by_size) {
    std::set<int32_t> ranks;
    std::vector<uint32_t> processes;
    std::map<uint32_t, std::vector<uint32_t>> by_group;
    bool all_wait = true;
    for (const Join& join : those) {
      ranks.insert(join.comm->rank);
      processes.push_back(join.process);
      by_group[join.group].push_back(join.process);
      all_wait = all_wait && is_waiting(join) && !job.processes[join.process].gone;
    }
    sort_unique(processes);
    const auto size = static_cast<size_t>(nranks);
    const bool is_whole = those.size() == size && ranks.size() == size &&
                          processes.size() == size && *ranks.rbegin() == nranks - 1;
    if (by_group.size() < 2 || !all_wait || !is_whole) continue;
    if (!may_be_one_communicator(index, processes)) continue;
    JoinDispute dispute = dispute_of(JoinMatter::unique_id, those);
    for (auto& [g, members] : by_group) {
      dispute.sides.push_back({.number = nranks, .group = g, .processes = std::move(members)});
    }
    sort_sides(dispute.sides);
    for (const JoinDispute::Side& side : dispute.sides) dispute.groups.push_back(side.group);
    dispute.culprits = minority_of(dispute.sides);
    disputes.push_back(std::move(dispute));
  }
}

}  // namespace

std::vector<JoinDispute> find_join_disputes(const Index& index, const JobState& job) {
  std::map<uint32_t, std::vector<Join>> joins = disputable_joins(index, job);
  std::vector<JoinDispute> disputes;
  std::erase_if(joins, [&](const auto& entry) {
    return add_sizes(entry.second, disputes) || add_claims(index, entry.second, disputes);
  });
  add_unique_ids(index, job, joins, disputes);
  return disputes;
}

}  // namespace rollcall::analysis
