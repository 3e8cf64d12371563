#include "trace/shared_identifiers.h"

#include <algorithm>
#include <map>
#include <set>
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
  std::map<uint64_t, std::vector<int32_t>> claims;
  for_each_doubtful(run, [&](const Comm& comm) { claims[comm.nccl_hash].push_back(comm.rank); });
  std::erase_if(claims, [](const auto& claim) { return !is_shared(claim.second); });
  for_each_doubtful(run, [&](Comm& comm) {
    if (claims.contains(comm.nccl_hash)) comm.key = {};
  });
}

}  // namespace rollcall::trace
