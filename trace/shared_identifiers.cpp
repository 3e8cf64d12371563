#include "trace/shared_identifiers.h"

#include <algorithm>
#include <map>
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

}  // namespace

void forget_shared_identifiers(Run& run) {
  std::map<uint64_t, std::vector<int32_t>> claims;
  for_each_doubtful(run, [&](const Comm& comm) { claims[comm.nccl_hash].push_back(comm.rank); });
  std::erase_if(claims, [](const auto& claim) { return !is_shared(claim.second); });
  for_each_doubtful(run, [&](Comm& comm) {
    if (claims.contains(comm.nccl_hash)) comm.key = {};
  });
}

}  // namespace rollcall::trace
