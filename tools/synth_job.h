// The job that `rollcall synth` writes down: which calls each rank makes, and where one rank breaks
// step. Nothing is executed; a fault makes the whole job stand still at the end of its step, as it
// would where every step ends with a collective of all ranks.
//
// One step of a rank: forward and backward through the pipeline stages (sends and receives), with
// AllReduces of the tensor group inside, gradient buckets over the data group, three collectives
// of the world (loss, norm, flag). All on one stream.
//
// Threads: a SynthJob is immutable after its construction.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/format/ring_layout.h"

namespace rollcall::tools {

// X(identifier, name, leading verdict of `rollcall diff`, what the rank does). The kinds of the
// example program mini_train; the verdicts are those of a job that was killed while it hung.
// A stopped rank's file looks like a dead one's once all are dead.
#define ROLLCALL_SYNTH_FAULTS(X)                                                                  \
  X(none, "none", "RC-IN-LOCKSTEP", "trains as it should")                                        \
  X(missing_call, "missing-call", "RC-MISSING-CALL", "leaves out the Reduce of the loss")         \
  X(extra_call, "extra-call", "RC-OP-MISMATCH", "calls an AllReduce that nobody else calls")      \
  X(op, "op", "RC-OP-MISMATCH", "calls AllReduce where the others call Reduce")                   \
  X(count, "count", "RC-COUNT-MISMATCH", "passes one element more to the AllReduce of the norm")  \
  X(dtype, "dtype", "RC-DTYPE-MISMATCH", "reduces the loss as float32 instead of float64")        \
  X(redop, "redop", "RC-REDOP-MISMATCH", "takes the maximum where the others sum")                \
  X(root, "root", "RC-ROOT-MISMATCH", "broadcasts the flag from rank 1 instead of rank 0")        \
  X(order, "order", "RC-ORDER-MISMATCH", "swaps the Reduce of the loss and the AllReduce behind") \
  X(kill, "kill", "RC-RANK-DEAD", "is killed in the middle of the step")                          \
  X(stop, "stop", "RC-RANK-DEAD", "is stopped in the middle of the step")                         \
  X(exit, "exit", "RC-RANK-DEAD", "exits in the middle of the step")                              \
  X(comm_order, "comm-order", "RC-DEADLOCK-COMMS", "uses the world before its data group")        \
  X(p2p_unmatched, "p2p-unmatched", "RC-P2P-UNMATCHED", "leaves out a send to the next stage")    \
  X(p2p_cycle, "p2p-cycle", "RC-DEADLOCK-P2P", "waits for a gradient before it sends")            \
  X(p2p_count, "p2p-count", "RC-P2P-MISMATCH", "sends one element more than is expected")         \
  X(host_stuck, "host-stuck", "RC-MISSING-CALL", "sleeps for ever outside NCCL")                  \
  X(stream_block, "stream-block", "RC-INSUFFICIENT", "blocks its stream; every call was made")    \
  X(init_missing, "init-missing", "RC-INIT-INCOMPLETE", "never joins the world communicator")     \
  X(split_mismatch, "split-mismatch", "RC-SPLIT-MISMATCH", "leaves out the last split")           \
  X(abort, "abort", "RC-ABORT-CASCADE", "aborts its communicators; the others follow")            \
  X(straggler, "straggler", "RC-IN-LOCKSTEP", "is 50 ms late in every step; nothing hangs")

enum class SynthFault : uint8_t {
#define ROLLCALL_X(id, name, verdict, what) id,
  ROLLCALL_SYNTH_FAULTS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};

struct SynthFaultTraits {
  std::string_view name;
  std::string_view verdict;
  std::string_view what;
};
const SynthFaultTraits& traits_of(SynthFault fault);

struct SynthOptions {
  uint32_t ranks = 2;
  uint64_t ops = 100;  // calls of a rank of the busiest pipeline stage
  uint32_t tensor_parallel = 1;
  uint32_t pipeline_parallel = 1;
  SynthFault fault = SynthFault::none;
  uint32_t fault_rank = 0;
  uint64_t fault_step = UINT64_MAX;  // the last step
  uint64_t seed = 1;
};

struct SynthCall {
  OpKind kind = OpKind::AllReduce;
  uint8_t datatype = 7;
  uint8_t reduction = kUnknown8;
  int32_t root_or_peer = -1;
  uint32_t comm = 0;  // index into SynthRank::comms
  uint64_t count = 1;
};

struct SynthComm {
  CommKey key{};
  CommKey parent_key{};
  int32_t nranks = 0;
  int32_t rank = 0;
  uint32_t child_number = 0;
  int32_t colour = 0;
  bool is_split = false;
  bool is_pending = false;  // the creating call has not returned
};

// How a rank's record ends.
enum class SynthEnd : uint8_t {
  clean,    // destroys its communicators and exits
  hung,     // stands still and is killed with the whole job
  silent,   // dies (or is stopped) in the fault's step
  exited,   // exits in the fault's step without destroying anything
  aborted,  // aborts its communicators in the fault's step and exits
};

struct SynthRank {
  std::vector<SynthComm> comms;
  uint64_t setup_calls = 0;  // Broadcasts of parameters in front of the first step
  uint64_t steps = 0;        // whole ones, all alike: `step`
  std::vector<SynthCall> step;
  std::vector<SynthCall> last;  // the step that stands still; empty in a job that ends
  SynthEnd end = SynthEnd::clean;
  bool aborts_first = false;
  uint64_t delay_ns = 0;  // in every step
};

class SynthJob {
 public:
  // `error` is a sentence when the options contradict each other; nothing else may be called then.
  SynthJob(const SynthOptions& options, std::string& error);

  const SynthOptions& options() const { return options_; }
  uint64_t steps() const { return steps_; }
  SynthRank rank(uint32_t rank) const;

 private:
  struct Place {  // of a rank in the layout
    uint32_t tensor = 0;
    uint32_t data = 0;
    uint32_t pipeline = 0;
  };
  Place place_of(uint32_t rank) const;
  std::vector<SynthComm> comms_of(uint32_t rank) const;
  std::vector<SynthCall> step_of(uint32_t rank) const;
  std::vector<SynthCall> faulty_step(uint32_t rank) const;
  bool hangs() const;
  bool never_trains() const;
  void add_pipeline(const Place& place, std::vector<SynthCall>& calls) const;
  std::string check() const;

  SynthOptions options_;
  uint32_t data_parallel_ = 1;
  uint64_t steps_ = 0;
  uint64_t setup_calls_ = 0;
  // Indices of the communicators in SynthRank::comms; UINT32_MAX: there is none.
  uint32_t tensor_comm_ = UINT32_MAX;
  uint32_t data_comm_ = UINT32_MAX;
  uint32_t pipeline_comm_ = UINT32_MAX;
};

}  // namespace rollcall::tools
