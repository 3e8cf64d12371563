// The faults a rank can be told to commit, in one table: `--fault KIND@RANK:STEP`.
//
// The table is also what the end-to-end tests are made of (`mini_train --list-faults`), so that a
// fault without an expected verdict, or the reverse, cannot exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mini_train {

// X(identifier, name, leading verdict of `rollcall diff`, what the rank does)
#define MINI_TRAIN_FAULTS(X)                                                                      \
  X(none, "none", "RC-IN-LOCKSTEP", "trains as it should")                                        \
  X(missing_call, "missing-call", "RC-MISSING-CALL",                                              \
    "leaves out the Reduce of the loss, and goes on with the calls behind it")                    \
  X(extra_call, "extra-call", "RC-OP-MISMATCH",                                                   \
    "calls an AllReduce on the world communicator that nobody else calls")                        \
  X(op, "op", "RC-OP-MISMATCH", "calls AllReduce where the others call Reduce")                   \
  X(count, "count", "RC-COUNT-MISMATCH", "passes one element more to an AllReduce")               \
  X(dtype, "dtype", "RC-DTYPE-MISMATCH", "reduces the loss as float32 instead of float64")        \
  X(redop, "redop", "RC-REDOP-MISMATCH", "takes the maximum where the others sum")                \
  X(root, "root", "RC-ROOT-MISMATCH", "broadcasts the flag from rank 1 instead of rank 0")        \
  X(order, "order", "RC-ORDER-MISMATCH", "swaps the Reduce of the loss and the AllReduce behind") \
  X(kill, "kill", "RC-RANK-DEAD", "is killed (SIGKILL) in the middle of a step")                  \
  X(stop, "stop", "RC-RANK-STOPPED", "is stopped (SIGSTOP) in the middle of a step")              \
  X(exit, "exit", "RC-RANK-DEAD", "calls exit(3) in the middle of a step")                        \
  X(comm_order, "comm-order", "RC-DEADLOCK-COMMS",                                                \
    "uses the world communicator before its model group's, the others the reverse")               \
  X(p2p_unmatched, "p2p-unmatched", "RC-P2P-UNMATCHED",                                           \
    "leaves out a send to the neighbouring pipeline stage")                                       \
  X(p2p_cycle, "p2p-cycle", "RC-DEADLOCK-P2P",                                                    \
    "waits for a gradient before it sends the activation it depends on")                          \
  X(p2p_count, "p2p-count", "RC-P2P-MISMATCH", "sends one element more than is expected")         \
  X(host_stuck, "host-stuck", "RC-MISSING-CALL", "sleeps for ever on the host, outside NCCL")     \
  X(stream_block, "stream-block", "RC-STREAM-BLOCKED",                                            \
    "puts a host callback that never ends on the stream; seeing that needs GPU timing")           \
  X(wait_outside, "wait-outside", "RC-STUCK-OUTSIDE",                                             \
    "makes every rank sleep on the host when all calls of the step are through")                  \
  X(init_missing, "init-missing", "RC-INIT-INCOMPLETE", "never joins the world communicator")     \
  X(split_mismatch, "split-mismatch", "RC-SPLIT-MISMATCH", "leaves out the last ncclCommSplit")   \
  X(abort, "abort", "RC-ABORT-CASCADE", "aborts its communicators; the others follow")            \
  X(graph_capture, "graph-capture", "RC-GRAPH-DIVERGED",                                          \
    "captures one operation less into its CUDA graph; naming the graph needs GPU timing or the "  \
    "profiler plugin")                                                                            \
  X(graph_replay, "graph-replay", "RC-GRAPH-DIVERGED",                                            \
    "leaves out one replay of its CUDA graph; seeing that needs GPU timing")                      \
  X(graph_kept, "graph-kept", "RC-STUCK-IN-CALL",                                                 \
    "destroys its communicators before its CUDA graph, and NCCL waits for that")                  \
  X(stream_order, "stream-order", "RC-IN-LOCKSTEP",                                               \
    "begins with the last calls before the gradients, which nobody orders in this step; hangs "   \
    "where a GPU runs one kernel of NCCL at a time")                                              \
  X(straggler, "straggler", "RC-IN-LOCKSTEP", "is 50 ms late in every step; nothing hangs")

enum class FaultKind {
#define MINI_TRAIN_X(id, name, verdict, what) id,
  MINI_TRAIN_FAULTS(MINI_TRAIN_X)
#undef MINI_TRAIN_X
};

struct FaultTraits {
  FaultKind kind;
  std::string_view name;
  std::string_view verdict;
  std::string_view description;
};
const std::vector<FaultTraits>& fault_table();
const FaultTraits& traits_of(FaultKind kind);

// Which fault is planted in this job. The same on every rank; a rank asks `hits`.
struct Fault {
  FaultKind kind = FaultKind::none;
  int rank = -1;
  int step = 0;

  // True when `rank` is to commit `asked` in `at_step`.
  bool hits(FaultKind asked, int at_rank, int at_step) const {
    return kind == asked && rank == at_rank && step == at_step;
  }
};

// "KIND@RANK:STEP" or "none". Throws std::invalid_argument with a sentence for the user.
Fault parse_fault(const std::string& text);

}  // namespace mini_train
