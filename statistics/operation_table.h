// What a run did, by communicator, operation and size: how often, for how long, how fast.
//
// Times are GPU times (from the moment the stream reached an operation to its end), one per rank. A
// stream with nothing to do reaches it before NCCL has launched: then the time begins with the
// launch where that is known (the profiler plugin tells), and otherwise holds what the host still
// did, which is counted. They contain the wait for ranks that come later, which is why bandwidth is
// taken from the shortest time among the ranks of one collective: whoever came last did not wait.
// Operations that shared a group with others of their rank have no time of their own, and no
// bandwidth; each GPU of a process that drives several is a rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "statistics/bandwidth.h"
#include "trace/model.h"

namespace rollcall::statistics {

struct OperationRow {
  CommKey comm{};
  std::string comm_name;
  int32_t nranks = -1;
  OpKind kind = OpKind::AllReduce;
  uint64_t bytes_from = 0;           // sizes from here ...
  uint64_t bytes_to = 0;             // ... to here, the largest that was seen
  uint64_t calls = 0;                // of all ranks together
  uint64_t timed = 0;                // those with a GPU time
  uint64_t with_launch = 0;          // those whose time holds a part of the host's launch
  std::optional<int64_t> median_ns;  // over the timed calls
  std::optional<int64_t> p99_ns;
  std::optional<Bandwidth> median_bandwidth;  // over the collectives, or transfers
};

// By communicator in the order of creation, operation, and size (buckets are powers of two).
std::vector<OperationRow> operation_table(const trace::Run& run);

}  // namespace rollcall::statistics
