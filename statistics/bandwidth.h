// How much an operation moved, and how fast: the two figures by which collectives are compared.
//
//   algbw = S / t        S: bytes that the whole operation is about, t: its time
//   busbw = algbw x f    f: share of S that a link has to carry in the best algorithm, so that the
//                        figure can be held against the hardware whatever the number of ranks n
//
//   operation                 S (count: elements as in the API call)   f
//   AllReduce                 count x size                             2 (n - 1) / n
//   ReduceScatter, AllGather  count x size x n                         (n - 1) / n
//   AlltoAll, Gather, Scatter count x size x n                         (n - 1) / n
//   Broadcast, Reduce         count x size                             1
//   Send, Recv                count x size                             1
//
// These are the definitions of NVIDIA's nccl-tests (doc/PERFORMANCE.md and the common code there),
// so the figures can be compared with its output.
#pragma once

#include <cstdint>
#include <optional>

#include "trace/model.h"

namespace rollcall::statistics {

// S of the table; 0 where the operation moves nothing or its size is not known.
uint64_t operation_bytes(const trace::Op& op, int32_t nranks);
// f of the table; nullopt for operations that are not in it, or an unknown number of ranks.
std::optional<double> bus_factor(OpKind kind, int32_t nranks);

struct Bandwidth {
  double algorithm_gbps = 0;  // 1e9 bytes per second
  double bus_gbps = 0;
};
// nullopt where the time or the size is 0 or unknown.
std::optional<Bandwidth> bandwidth_of(const trace::Op& op, int32_t nranks, int64_t time_ns);

}  // namespace rollcall::statistics
