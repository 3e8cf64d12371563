// The class of a verdict: where its cause lies, as far as the code alone tells, and so what follows
// for whoever might start the job again. One table, from which docs/VERDICTS.md derives, too.
#pragma once

#include <cstdint>
#include <string_view>

#include "analysis/verdict.h"

namespace rollcall::analysis {

// `program`: a restart repeats it. `node`: another node does not have it. `fabric`: GPU links or
// the network; a restart may meet it again, there or elsewhere. `outside`: a signal, a loader,
// settings; nobody of the job can know. Only `node` may ever name a host to be left out.
enum class Origin : uint8_t { program, node, fabric, outside, unknown };

// X(verdict, origin), in the order of ROLLCALL_VERDICTS.
#define ROLLCALL_ORIGINS(X)    \
  X(in_lockstep, unknown)      \
  X(waiting, unknown)          \
  X(missing_call, program)     \
  X(rank_dead, unknown)        \
  X(rank_stopped, outside)     \
  X(op_mismatch, program)      \
  X(count_mismatch, program)   \
  X(dtype_mismatch, program)   \
  X(redop_mismatch, program)   \
  X(root_mismatch, program)    \
  X(order_mismatch, program)   \
  X(group_mismatch, program)   \
  X(deadlock_comms, program)   \
  X(deadlock_p2p, program)     \
  X(p2p_unmatched, program)    \
  X(p2p_mismatch, program)     \
  X(stream_blocked, unknown)   \
  X(stuck_in_call, unknown)    \
  X(stuck_on_gpu, fabric)      \
  X(stuck_outside, outside)    \
  X(init_incomplete, unknown)  \
  X(split_mismatch, program)   \
  X(abort_cascade, unknown)    \
  X(async_error, fabric)       \
  X(cuda_error, unknown)       \
  X(result_mismatch, node)     \
  X(comm_leak, program)        \
  X(graph_diverged, program)   \
  X(straggler, unknown)        \
  X(slow_transfer, fabric)     \
  X(slow_launch, program)      \
  X(jitter, unknown)           \
  X(imbalance, program)        \
  X(degraded, node)            \
  X(env_mismatch, outside)     \
  X(version_mismatch, outside) \
  X(topology, fabric)          \
  X(record_gap, unknown)       \
  X(insufficient, unknown)

Origin origin_of(Verdict verdict);
std::string_view name_of(Origin origin);
// What that means for a restart; a clause.
std::string_view consequence_of(Origin origin);

}  // namespace rollcall::analysis
