// The catalogue of codes: one table, from which code, severity and rank order derive, and
// docs/VERDICTS.md too. Codes are never reused or renamed. And the table of missteps: what a
// culprit did, where that is a matter of calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rollcall::analysis {

enum class Severity : uint8_t { info, risk, slow, corruption, hang };
enum class Confidence : uint8_t { certain, likely, open };
std::string_view name_of(Severity severity);
std::string_view name_of(Confidence confidence);

// X(name, code, severity, meaning)
#define ROLLCALL_VERDICTS(X)                                                                       \
  X(in_lockstep, "RC-IN-LOCKSTEP", info, "all ranks issued the same sequence; nothing is pending") \
  X(waiting, "RC-WAITING", info, "a running job waits, and not yet for long enough to judge it")   \
  X(missing_call, "RC-MISSING-CALL", hang,                                                         \
    "some ranks called, others never did; or a few more than the rest")                            \
  X(rank_dead, "RC-RANK-DEAD", hang, "the absent rank's process is gone")                          \
  X(rank_stopped, "RC-RANK-STOPPED", hang, "the absent rank is alive but not running")             \
  X(op_mismatch, "RC-OP-MISMATCH", hang, "different operations at one position")                   \
  X(count_mismatch, "RC-COUNT-MISMATCH", corruption, "the same operation with other counts")       \
  X(dtype_mismatch, "RC-DTYPE-MISMATCH", corruption, "the same operation with other datatypes")    \
  X(redop_mismatch, "RC-REDOP-MISMATCH", corruption, "the same operation, another reduction")      \
  X(root_mismatch, "RC-ROOT-MISMATCH", corruption, "the same operation with other roots")          \
  X(order_mismatch, "RC-ORDER-MISMATCH", hang, "the same calls in another order")                  \
  X(group_mismatch, "RC-GROUP-MISMATCH", hang, "the same calls, grouped differently")              \
  X(deadlock_comms, "RC-DEADLOCK-COMMS", hang, "a cycle of waits through communicators")           \
  X(deadlock_p2p, "RC-DEADLOCK-P2P", hang, "a cycle of sends and receives")                        \
  X(p2p_unmatched, "RC-P2P-UNMATCHED", hang, "a send without its receive or the reverse")          \
  X(p2p_mismatch, "RC-P2P-MISMATCH", corruption, "a matched pair with other count or datatype")    \
  X(stream_blocked, "RC-STREAM-BLOCKED", hang, "the stream has not reached the operation")         \
  X(stuck_in_call, "RC-STUCK-IN-CALL", hang, "the host thread entered NCCL and did not return")    \
  X(stuck_on_gpu, "RC-STUCK-ON-GPU", hang, "started everywhere, finished on none or some")         \
  X(stuck_outside, "RC-STUCK-OUTSIDE", hang, "every operation finished; the job waits elsewhere")  \
  X(init_incomplete, "RC-INIT-INCOMPLETE", hang, "ranks did not all join a communicator alike")    \
  X(split_mismatch, "RC-SPLIT-MISMATCH", hang,                                                     \
    "split, shrink or grow by some ranks only, or for other lists of members")                     \
  X(abort_cascade, "RC-ABORT-CASCADE", hang, "aborts spread from a first rank")                    \
  X(async_error, "RC-ASYNC-ERROR", hang, "NCCL reported an asynchronous or remote error")          \
  X(cuda_error, "RC-CUDA-ERROR", hang, "a call failed because CUDA had already failed")            \
  X(result_mismatch, "RC-RESULT-MISMATCH", corruption, "checksums of results differ")              \
  X(comm_leak, "RC-COMM-LEAK", risk, "communicators never destroyed, or used after destroy")       \
  X(graph_diverged, "RC-GRAPH-DIVERGED", hang, "captured sequences or replay counts differ")       \
  X(straggler, "RC-STRAGGLER", slow, "one rank is late persistently, by its own delay")            \
  X(slow_transfer, "RC-SLOW-TRANSFER", slow, "all arrive on time, the operation is slow")          \
  X(slow_launch, "RC-SLOW-LAUNCH", slow, "the host calls late relative to its own GPU")            \
  X(jitter, "RC-JITTER", slow, "no persistent culprit, but a large spread")                        \
  X(imbalance, "RC-IMBALANCE", slow, "bytes, calls or gaps differ systematically by rank")         \
  X(degraded, "RC-DEGRADED", risk, "a health counter changed on a culprit's host")                 \
  X(env_mismatch, "RC-ENV-MISMATCH", risk, "settings that must agree differ, or are not read")     \
  X(version_mismatch, "RC-VERSION-MISMATCH", risk, "NCCL, CUDA or driver versions differ")         \
  X(topology, "RC-TOPOLOGY", risk, "a path is not what the hardware offers")                       \
  X(record_gap, "RC-RECORD-GAP", info, "records lost, overwritten, torn or absent")                \
  X(insufficient, "RC-INSUFFICIENT", info, "the evidence does not decide")

enum class Verdict : uint8_t {
#define ROLLCALL_X(name, code, severity, meaning) name,
  ROLLCALL_VERDICTS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
std::string_view code_of(Verdict verdict);
Severity severity_of(Verdict verdict);
std::string_view meaning_of(Verdict verdict);

// What the culprits did. Of a code that covers several things, as RC-MISSING-CALL does, it says
// which. X(name, meaning); the name is what a program reads, and is never reused or renamed.
#define ROLLCALL_MISSTEPS(X)                                                                 \
  X(left_out, "went on, or ended, without a call that others made")                          \
  X(not_reached, "has not come to a call that others wait in, and may still come")           \
  X(made_more, "made a call that others did not make")                                       \
  X(reordered, "made the same calls in another order")                                       \
  X(other_operation, "called another operation in its place")                                \
  X(other_arguments, "made the call with another count, datatype, reduction, root, or list") \
  X(other_peer, "made a send or receive with another peer")                                  \
  X(other_communicator, "made the call on another communicator")                             \
  X(other_grouping, "made the call outside of the group that it belongs into")

enum class Misstep : uint8_t {
#define ROLLCALL_X(name, meaning) name,
  ROLLCALL_MISSTEPS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
std::string_view name_of(Misstep misstep);
// What a code tells by itself; nothing where it covers several things, or is no matter of calls.
std::optional<Misstep> misstep_of(Verdict verdict);

}  // namespace rollcall::analysis
