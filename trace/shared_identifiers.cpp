#include "trace/shared_identifiers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rollcall::trace {
namespace {

// Two claims to one rank: two communicators at least. Ranks that are not known claim nothing.
bool is_shared(std::vector<int32_t> ranks) {
  std::erase_if(ranks, [](int32_t rank) { return rank < 0; });
  std::sort(ranks.begin(), ranks.end());
  return std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end();
}

template <typename Visit>
void for_each_doubtful(Run& run, const Visit& visit) {
  for (Process& process : run.processes) {
    if (process.knowledge.identities || process.superseded) continue;
    for (Comm& comm : process.comms) {
      if (comm.nccl_hash != 0) visit(comm);
    }
  }
}

// What the logs of NCCL say of one key.
struct LogClaims {
  std::vector<int32_t> ranks;
  std::set<const Process*> processes;
  std::set<int32_t> sizes;
  size_t members = 0;
  bool is_told_only = false;
  size_t counted_only = 0;

  // Several communicators at least, or one whose positions cannot be compared.
  bool is_doubtful() const {
    const bool is_too_many =
        !sizes.empty() && *sizes.begin() > 0 && members > static_cast<size_t>(*sizes.begin());
    return is_shared(ranks) || is_too_many || members > processes.size() || sizes.size() > 1 ||
           (is_told_only && counted_only != 0) || (counted_only != 0 && counted_only != members);
  }
};

template <typename Visit>
void for_each_logged(Run& run, const Visit& visit) {
  for (Process& process : run.processes) {
    if (process.recorder != "nccl_log" || process.superseded) continue;
    for (Comm& comm : process.comms) {
      if (!comm.key.is_null()) visit(process, comm);
    }
  }
}

// The numbers of the last calls that dumps name, of groups in which ranks transfer something: each
// counts its own.
void forget_counted_transfers(Run& run) {
  std::set<std::pair<uint64_t, uint64_t>> counted;
  const auto visit = [&](const auto& take) {
    for (Process& process : run.processes) {
      if (process.recorder != "flight_recorder" || process.superseded) continue;
      for (size_t i = 0; i < process.comms.size(); ++i) take(process, process.comms[i], i);
    }
  };
  visit([&](const Process&, const Comm& comm, size_t) {
    if (comm.is_counted_only) counted.insert({comm.key.high, comm.key.low});
  });
  visit([&](const Process& process, Comm& comm, size_t index) {
    if (!comm.is_told_only || !counted.contains({comm.key.high, comm.key.low})) return;
    comm.is_told_only = false;
    comm.collectives = 0;
    for (const Op& op : process.ops) {
      if (op.comm == index && is_collective(op.kind)) {
        comm.collectives = std::max(comm.collectives, op.seq + 1);
      }
    }
  });
}

int64_t newest_call_ns(const Process& process) {
  int64_t newest = 0;
  for (const Op& op : process.ops) newest = std::max(newest, op.called_ns);
  return newest;
}

// Two dumps of one rank are of two attempts, or one is misnamed: calls of both are not of one job.
void leave_out_second_dumps(Run& run) {
  std::map<int32_t, Process*> by_rank;
  for (Process& process : run.processes) {
    if (process.recorder != "flight_recorder" || process.superseded || process.job_rank < 0) {
      continue;
    }
    const auto [slot, is_new] = by_rank.try_emplace(process.job_rank, &process);
    if (is_new) continue;
    Process*& known = slot->second;
    const bool is_newer = newest_call_ns(process) > newest_call_ns(*known);
    Process& older = is_newer ? *known : process;
    Process& newer = is_newer ? process : *known;
    older.superseded = true;
    known = &newer;
    run.issues.push_back({older.file,
                          "is a second dump of rank " + std::to_string(older.job_rank) +
                              ", as the newer " + newer.file +
                              " is, and was left out; keep those of one attempt in the directory",
                          0, false});
  }
}

void forget_doubtful_logs(Run& run) {
  std::map<std::pair<uint64_t, uint64_t>, LogClaims> claims;
  for_each_logged(run, [&](const Process& process, const Comm& comm) {
    LogClaims& claim = claims[{comm.key.high, comm.key.low}];
    claim.ranks.push_back(comm.rank);
    claim.processes.insert(&process);
    if (comm.nranks >= 0) claim.sizes.insert(comm.nranks);
    ++claim.members;
    claim.is_told_only = claim.is_told_only || comm.is_told_only;
    claim.counted_only += comm.is_counted_only;
  });
  std::erase_if(claims, [](const auto& claim) { return !claim.second.is_doubtful(); });
  for_each_logged(run, [&](Process& process, Comm& comm) {
    if (!claims.contains({comm.key.high, comm.key.low})) return;
    comm.key = {};
    process.knowledge.identities = false;
  });
}

}  // namespace

void forget_shared_identifiers(Run& run) {
  forget_doubtful_logs(run);
  leave_out_second_dumps(run);
  forget_counted_transfers(run);
  std::map<uint64_t, std::vector<int32_t>> claims;
  for_each_doubtful(run, [&](const Comm& comm) { claims[comm.nccl_hash].push_back(comm.rank); });
  std::erase_if(claims, [](const auto& claim) { return !is_shared(claim.second); });
  for_each_doubtful(run, [&](Comm& comm) {
    if (claims.contains(comm.nccl_hash)) comm.key = {};
  });
}

}  // namespace rollcall::trace
