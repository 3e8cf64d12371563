#include "trace/shared_identifiers.h"

#include <algorithm>
#include <map>
#include <vector>

namespace rollcall::trace {
namespace {

// More claims to ranks than there are ranks: two communicators at least.
bool is_shared(std::vector<int32_t>& ranks) {
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
  for (auto& [identifier, ranks] : claims) {
    if (!is_shared(ranks)) continue;
    for_each_doubtful(run, [&, shared = identifier](Comm& comm) {
      if (comm.nccl_hash == shared) comm.key = {};
    });
  }
}

}  // namespace rollcall::trace
