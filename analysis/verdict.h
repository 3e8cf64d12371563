// The catalogue of codes: one table, from which code, severity, class and rank order derive, and
// docs/VERDICTS.md too. Codes are never reused or renamed. And the table of missteps: what a
// culprit did, where that is a matter of calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rollcall::analysis {

// Rising.
enum class Severity : uint8_t { info, risk, slow, corruption, hang };
// From the surest down: the greater of two is the less sure. docs/VERDICTS.md, "How sure", tells
// what lowers it.
enum class Confidence : uint8_t { certain, likely, open };
// The class of a verdict: where its cause lies, as far as the code alone tells, and so what follows
// for whoever might start the job again. `program`: a restart repeats it. `node`: another node does
// not have it. `fabric`: GPU links or the network; a restart may meet it again, there or elsewhere.
// `outside`: a signal, a loader, settings; nobody of the job can know. Only `node` may ever name a
// host to be left out.
enum class Origin : uint8_t { program, node, fabric, outside, unknown };
std::string_view name_of(Severity severity);
std::string_view name_of(Confidence confidence);
std::string_view name_of(Origin origin);
// What an origin means for a restart; a clause.
std::string_view consequence_of(Origin origin);

// X(name, code, severity, origin, meaning)
#define ROLLCALL_VERDICTS(X)                                                                       \
  X(in_lockstep, "RC-IN-LOCKSTEP", info, unknown,                                                  \
    "all ranks issued the same sequence; nothing is pending")                                      \
  X(waiting, "RC-WAITING", info, unknown,                                                          \
    "a running job waits, and not yet for long enough to judge it")                                \
  X(missing_call, "RC-MISSING-CALL", hang, program,                                                \
    "some ranks called, others never did; or a few more than the rest")                            \
  X(rank_dead, "RC-RANK-DEAD", hang, unknown, "the absent rank's process is gone")                 \
  X(rank_stopped, "RC-RANK-STOPPED", hang, outside, "the absent rank is alive but not running")    \
  X(op_mismatch, "RC-OP-MISMATCH", hang, program, "different operations at one position")          \
  X(count_mismatch, "RC-COUNT-MISMATCH", corruption, program,                                      \
    "the same operation with other counts")                                                        \
  X(dtype_mismatch, "RC-DTYPE-MISMATCH", corruption, program,                                      \
    "the same operation with other datatypes")                                                     \
  X(redop_mismatch, "RC-REDOP-MISMATCH", corruption, program,                                      \
    "the same operation, another reduction")                                                       \
  X(root_mismatch, "RC-ROOT-MISMATCH", corruption, program, "the same operation with other roots") \
  X(order_mismatch, "RC-ORDER-MISMATCH", hang, program, "the same calls in another order")         \
  X(group_mismatch, "RC-GROUP-MISMATCH", hang, program, "the same calls, grouped differently")     \
  X(deadlock_comms, "RC-DEADLOCK-COMMS", hang, program, "a cycle of waits through communicators")  \
  X(deadlock_p2p, "RC-DEADLOCK-P2P", hang, program, "a cycle of sends and receives")               \
  X(p2p_unmatched, "RC-P2P-UNMATCHED", hang, program, "a send without its receive or the reverse") \
  X(p2p_mismatch, "RC-P2P-MISMATCH", corruption, program,                                          \
    "a matched pair with other count or datatype")                                                 \
  X(stream_blocked, "RC-STREAM-BLOCKED", hang, unknown,                                            \
    "the stream has not reached the operation")                                                    \
  X(stuck_in_call, "RC-STUCK-IN-CALL", hang, unknown,                                              \
    "the host thread entered NCCL and did not return")                                             \
  X(stuck_on_gpu, "RC-STUCK-ON-GPU", hang, fabric, "started everywhere, finished on none or some") \
  X(stuck_outside, "RC-STUCK-OUTSIDE", hang, outside,                                              \
    "every operation finished; the job waits elsewhere")                                           \
  X(init_incomplete, "RC-INIT-INCOMPLETE", hang, unknown,                                          \
    "ranks did not all join a communicator alike")                                                 \
  X(split_mismatch, "RC-SPLIT-MISMATCH", hang, program,                                            \
    "split, shrink or grow by some ranks only, or for other lists of members")                     \
  X(abort_cascade, "RC-ABORT-CASCADE", hang, unknown, "aborts spread from a first rank")           \
  X(async_error, "RC-ASYNC-ERROR", hang, fabric, "NCCL reported an asynchronous or remote error")  \
  X(cuda_error, "RC-CUDA-ERROR", hang, unknown, "a call failed because CUDA had already failed")   \
  X(result_mismatch, "RC-RESULT-MISMATCH", corruption, node, "checksums of results differ")        \
  X(comm_leak, "RC-COMM-LEAK", risk, program,                                                      \
    "communicators never destroyed, or used after destroy")                                        \
  X(graph_diverged, "RC-GRAPH-DIVERGED", hang, program,                                            \
    "captured sequences or replay counts differ")                                                  \
  X(straggler, "RC-STRAGGLER", slow, unknown, "one rank is late persistently, by its own delay")   \
  X(slow_transfer, "RC-SLOW-TRANSFER", slow, fabric, "all arrive on time, the operation is slow")  \
  X(slow_launch, "RC-SLOW-LAUNCH", slow, unknown,                                                  \
    "one rank is late persistently, and its host is slow in calls of NCCL, too")                   \
  X(jitter, "RC-JITTER", slow, unknown, "no persistent culprit, but a large spread")               \
  X(imbalance, "RC-IMBALANCE", slow, program,                                                      \
    "bytes, calls or gaps differ systematically by rank")                                          \
  X(degraded, "RC-DEGRADED", risk, node, "a health counter changed on a culprit's host")           \
  X(env_mismatch, "RC-ENV-MISMATCH", risk, outside,                                                \
    "settings that must agree differ, or are not read")                                            \
  X(version_mismatch, "RC-VERSION-MISMATCH", risk, outside,                                        \
    "NCCL, CUDA or driver versions differ")                                                        \
  X(topology, "RC-TOPOLOGY", risk, fabric, "a path is not what the hardware offers")               \
  X(record_gap, "RC-RECORD-GAP", info, unknown, "records lost, overwritten, torn or absent")       \
  X(insufficient, "RC-INSUFFICIENT", info, unknown, "the evidence does not decide")

enum class Verdict : uint8_t {
#define ROLLCALL_X(name, code, severity, origin, meaning) name,
  ROLLCALL_VERDICTS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
std::string_view code_of(Verdict verdict);
Severity severity_of(Verdict verdict);
Origin origin_of(Verdict verdict);
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
