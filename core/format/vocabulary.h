// The vocabularies of the file format: one table each; enum, names and sizes derive from it.
//
// Rules: append only (numbers are in files), never reuse a number, names as NCCL spells them
// without the prefix. The numbers of dtypes and of the first five reductions are NCCL's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rollcall {

// --- operations -----------------------------------------------------------------------------
// X(name, family, rooted, reduces)
//   family: coll = a collective, counted by seq; p2p = counted by p2p seq; rma = one-sided, in
//   the record but not matched; mark = no operation of NCCL: GroupEnd, the host call that hands a
//   group to the streams, and GraphLaunch, the host call that replays a CUDA graph with captured
//   operations.
#define ROLLCALL_OPERATIONS(X)        \
  X(AllReduce, coll, false, true)     \
  X(Broadcast, coll, true, false)     \
  X(Reduce, coll, true, true)         \
  X(AllGather, coll, false, false)    \
  X(ReduceScatter, coll, false, true) \
  X(AlltoAll, coll, false, false)     \
  X(Gather, coll, true, false)        \
  X(Scatter, coll, true, false)       \
  X(Send, p2p, false, false)          \
  X(Recv, p2p, false, false)          \
  X(PutSignal, rma, false, false)     \
  X(Signal, rma, false, false)        \
  X(WaitSignal, rma, false, false)    \
  X(GroupEnd, mark, false, false)     \
  X(GraphLaunch, mark, false, false)

enum class OpFamily : uint8_t { coll, p2p, rma, mark };

enum class OpKind : uint8_t {
#define ROLLCALL_X(name, family, rooted, reduces) name,
  ROLLCALL_OPERATIONS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};

struct OpTraits {
  std::string_view name;
  OpFamily family;
  bool rooted;   // has a root that must agree between ranks
  bool reduces;  // has a reduction that must agree between ranks
};

inline constexpr OpTraits kOpTraits[] = {
#define ROLLCALL_X(name, family, rooted, reduces) {#name, OpFamily::family, rooted, reduces},
    ROLLCALL_OPERATIONS(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr size_t kOpKinds = static_cast<size_t>(OpKind::Count);
static_assert(sizeof(kOpTraits) / sizeof(kOpTraits[0]) == kOpKinds);

constexpr const OpTraits& traits_of(OpKind kind) { return kOpTraits[static_cast<size_t>(kind)]; }
constexpr std::string_view name_of(OpKind kind) { return traits_of(kind).name; }
constexpr bool is_collective(OpKind kind) { return traits_of(kind).family == OpFamily::coll; }
constexpr bool is_p2p(OpKind kind) { return traits_of(kind).family == OpFamily::p2p; }
constexpr bool is_rma(OpKind kind) { return traits_of(kind).family == OpFamily::rma; }
constexpr bool is_mark(OpKind kind) { return traits_of(kind).family == OpFamily::mark; }

// --- datatypes: X(name, NCCL's number, bytes) -----------------------------------------------
#define ROLLCALL_DATATYPES(X) \
  X(int8, 0, 1)               \
  X(uint8, 1, 1)              \
  X(int32, 2, 4)              \
  X(uint32, 3, 4)             \
  X(int64, 4, 8)              \
  X(uint64, 5, 8)             \
  X(float16, 6, 2)            \
  X(float32, 7, 4)            \
  X(float64, 8, 8)            \
  X(bfloat16, 9, 2)           \
  X(float8e4m3, 10, 1)        \
  X(float8e5m2, 11, 1)

struct DatatypeTraits {
  std::string_view name;
  uint32_t bytes;
};
inline constexpr DatatypeTraits kDatatypes[] = {
#define ROLLCALL_X(label, number, bytes) {#label, bytes},
    ROLLCALL_DATATYPES(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr uint8_t kDatatypeCount = sizeof(kDatatypes) / sizeof(kDatatypes[0]);
#define ROLLCALL_X(label, number, bytes)            \
  static_assert(kDatatypes[number].name == #label); \
  ;
ROLLCALL_DATATYPES(ROLLCALL_X)
#undef ROLLCALL_X

// A field that the recorder cannot know, or that the operation does not have. A datatype newer
// than this table is stored as its own number below kUnknown8 and printed as "dtype<N>".
inline constexpr uint8_t kUnknown8 = 0xff;

// Bytes of one element; 0 when the datatype is unknown.
constexpr uint32_t bytes_of_datatype(uint8_t datatype) {
  return datatype < kDatatypeCount ? kDatatypes[datatype].bytes : 0;
}
// Empty when the datatype is unknown.
constexpr std::string_view name_of_datatype(uint8_t datatype) {
  return datatype < kDatatypeCount ? kDatatypes[datatype].name : std::string_view{};
}

// --- reductions: X(name, number); 0..4 are NCCL's, custom stands for every user-made one ------
#define ROLLCALL_REDUCTIONS(X) \
  X(sum, 0)                    \
  X(prod, 1)                   \
  X(max, 2)                    \
  X(min, 3)                    \
  X(avg, 4)                    \
  X(custom, 5)
inline constexpr std::string_view kReductions[] = {
#define ROLLCALL_X(name, number) #name,
    ROLLCALL_REDUCTIONS(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr uint8_t kReductionCount = sizeof(kReductions) / sizeof(kReductions[0]);
inline constexpr uint8_t kReductionCustom = 5;
constexpr std::string_view name_of_reduction(uint8_t reduction) {
  return reduction < kReductionCount ? kReductions[reduction] : std::string_view{};
}

// --- how NCCL carries an operation out, as the profiler plugin hears it ------------------------
// Four bits each (OpRecord::method): at most 16. `symmetric` stands for the kernels on registered
// windows, `copy_engine` for copies without a kernel, `none` for an algorithm without protocols.
#define ROLLCALL_ALGORITHMS(X) \
  X(unknown)                   \
  X(TREE)                      \
  X(RING) X(COLLNET_DIRECT) X(COLLNET_CHAIN) X(NVLS) X(NVLS_TREE) X(PAT) X(symmetric) X(copy_engine)
#define ROLLCALL_PROTOCOLS(X) X(unknown) X(LL) X(LL128) X(SIMPLE) X(none)

inline constexpr std::string_view kAlgorithms[] = {
#define ROLLCALL_X(name) #name,
    ROLLCALL_ALGORITHMS(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr std::string_view kProtocols[] = {
#define ROLLCALL_X(name) #name,
    ROLLCALL_PROTOCOLS(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr uint8_t kAlgorithmCount = sizeof(kAlgorithms) / sizeof(kAlgorithms[0]);
inline constexpr uint8_t kProtocolCount = sizeof(kProtocols) / sizeof(kProtocols[0]);
static_assert(kAlgorithmCount <= 16 && kProtocolCount <= 16, "four bits each");

constexpr uint8_t method_of(uint8_t algorithm, uint8_t protocol) {
  return static_cast<uint8_t>(algorithm | protocol << 4);
}
constexpr uint8_t algorithm_of(uint8_t method) { return method & 0xf; }
constexpr uint8_t protocol_of(uint8_t method) { return method >> 4; }
// Empty where it has none: unknown, or a newer recorder's.
constexpr std::string_view name_of_algorithm(uint8_t method) {
  const uint8_t number = algorithm_of(method);
  return number != 0 && number < kAlgorithmCount ? kAlgorithms[number] : std::string_view{};
}
constexpr std::string_view name_of_protocol(uint8_t method) {
  const uint8_t number = protocol_of(method);
  return number != 0 && number < kProtocolCount ? kProtocols[number] : std::string_view{};
}

// What a step of a proxy operation waits for, as the profiler plugin hears it, and whose steps do.
// X(name, side, meaning)
#define ROLLCALL_CHANNEL_WAITS(X)                                       \
  X(none, neither, "nothing that is reported")                          \
  X(send_gpu, sender, "the GPU to provide data to send")                \
  X(send_peer, sender, "the receiver to make room")                     \
  X(send_network, sender, "the network to take what is sent")           \
  X(recv_network, receiver, "data from the network")                    \
  X(recv_flush, receiver, "received data to become visible to the GPU") \
  X(recv_gpu, receiver, "the GPU to take what was received")
enum class ChannelSide : uint8_t { neither, sender, receiver };
enum class ChannelWait : uint8_t {
#define ROLLCALL_X(name, side, meaning) name,
  ROLLCALL_CHANNEL_WAITS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
inline constexpr std::string_view kChannelWaits[] = {
#define ROLLCALL_X(name, side, meaning) #name,
    ROLLCALL_CHANNEL_WAITS(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr ChannelSide kChannelWaitSides[] = {
#define ROLLCALL_X(name, side, meaning) ChannelSide::side,
    ROLLCALL_CHANNEL_WAITS(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr uint8_t kChannelWaitCount = static_cast<uint8_t>(ChannelWait::Count);

// The phases of a kernel that NCCL 2.31 tells a profiler plugin of, numbered as there.
// X(name, meaning)
#define ROLLCALL_KERNEL_PHASES(X)                                  \
  X(initial_sync, "waiting for peers before any data moves")       \
  X(compute, "moving and reducing data, with the waits inside it") \
  X(final_sync, "waiting until the peers are through")
enum class KernelPhase : uint8_t {
#define ROLLCALL_X(name, meaning) name,
  ROLLCALL_KERNEL_PHASES(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
inline constexpr std::string_view kKernelPhases[] = {
#define ROLLCALL_X(name, meaning) #name,
    ROLLCALL_KERNEL_PHASES(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr uint8_t kKernelPhaseCount = static_cast<uint8_t>(KernelPhase::Count);

// --- how a communicator came to be, and how it ended ------------------------------------------
#define ROLLCALL_COMM_ORIGINS(X) X(unknown) X(init) X(init_all) X(split) X(shrink) X(grow)
#define ROLLCALL_COMM_STATES(X)                                                                \
  X(empty)        /* the slot was never used */                                                \
  X(initialising) /* the creating call was entered and has not returned (or is in progress) */ \
  X(ready)        /* usable */                                                                 \
  X(failed)       /* the creating call returned an error */                                    \
  X(none)         /* the creating call succeeded without a communicator (NOCOLOR) */           \
  X(finalized) X(revoked) X(destroyed) X(aborted)

enum class CommOrigin : uint8_t {
#define ROLLCALL_X(name) name,
  ROLLCALL_COMM_ORIGINS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
enum class CommState : uint8_t {
#define ROLLCALL_X(name) name,
  ROLLCALL_COMM_STATES(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
inline constexpr std::string_view kCommOrigins[] = {
#define ROLLCALL_X(name) #name,
    ROLLCALL_COMM_ORIGINS(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr std::string_view kCommStates[] = {
#define ROLLCALL_X(name) #name,
    ROLLCALL_COMM_STATES(ROLLCALL_X)
#undef ROLLCALL_X
};
constexpr std::string_view name_of(CommOrigin origin) {
  return kCommOrigins[static_cast<size_t>(origin)];
}
constexpr std::string_view name_of(CommState state) {
  return kCommStates[static_cast<size_t>(state)];
}

// --- events: everything recorded that is not an operation -------------------------------------
// One per public NCCL call that creates, ends or changes something, plus what the recorder itself
// has to say. X(name, the function or the speaker)
#define ROLLCALL_EVENTS(X)                                        \
  X(GetUniqueId, "ncclGetUniqueId")                               \
  X(CommInitRank, "ncclCommInitRank")                             \
  X(CommInitRankConfig, "ncclCommInitRankConfig")                 \
  X(CommInitRankScalable, "ncclCommInitRankScalable")             \
  X(CommInitAll, "ncclCommInitAll")                               \
  X(CommSplit, "ncclCommSplit")                                   \
  X(CommShrink, "ncclCommShrink")                                 \
  X(CommGrow, "ncclCommGrow")                                     \
  X(CommGetUniqueId, "ncclCommGetUniqueId")                       \
  X(CommFinalize, "ncclCommFinalize")                             \
  X(CommDestroy, "ncclCommDestroy")                               \
  X(CommAbort, "ncclCommAbort")                                   \
  X(CommRevoke, "ncclCommRevoke")                                 \
  X(CommSuspend, "ncclCommSuspend")                               \
  X(CommResume, "ncclCommResume")                                 \
  X(CommRegister, "ncclCommRegister")                             \
  X(CommDeregister, "ncclCommDeregister")                         \
  X(CommWindowRegister, "ncclCommWindowRegister")                 \
  X(CommWindowDeregister, "ncclCommWindowDeregister")             \
  X(RedOpCreatePreMulSum, "ncclRedOpCreatePreMulSum")             \
  X(RedOpDestroy, "ncclRedOpDestroy")                             \
  X(AsyncError, "ncclCommGetAsyncError")                          \
  X(CallFailed, "an NCCL call returned an error")                 \
  X(UseAfterDestroy, "a call used a communicator that had ended") \
  X(ProcessExit, "the process ended by itself, as by exit")       \
  X(CaptureOff, "the recorder switched itself off")               \
  X(CapturePaused, "rollcall ctl pause")                          \
  X(CaptureResumed, "rollcall ctl resume")                        \
  X(MemAlloc, "ncclMemAlloc")                                     \
  X(MemFree, "ncclMemFree")                                       \
  X(DevCommCreate, "ncclDevCommCreate")                           \
  X(DevCommDestroy, "ncclDevCommDestroy")                         \
  X(SetEncryption, "ncclSetEncryption")                           \
  X(GroupSimulateEnd, "ncclGroupSimulateEnd")                     \
  X(UserTag, "the profiler plugin: calls carry another user tag")

enum class EventKind : uint8_t {
#define ROLLCALL_X(name, text) name,
  ROLLCALL_EVENTS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
inline constexpr std::string_view kEventNames[] = {
#define ROLLCALL_X(name, text) #name,
    ROLLCALL_EVENTS(ROLLCALL_X)
#undef ROLLCALL_X
};
constexpr std::string_view name_of(EventKind kind) {
  return kEventNames[static_cast<size_t>(kind)];
}

// --- NCCL's results, as it numbers them -------------------------------------------------------
#define ROLLCALL_RESULTS(X)    \
  X(ncclSuccess, 0)            \
  X(ncclUnhandledCudaError, 1) \
  X(ncclSystemError, 2)        \
  X(ncclInternalError, 3)      \
  X(ncclInvalidArgument, 4)    \
  X(ncclInvalidUsage, 5)       \
  X(ncclRemoteError, 6)        \
  X(ncclInProgress, 7)         \
  X(ncclTimeout, 8)
inline constexpr std::string_view kResults[] = {
#define ROLLCALL_X(name, number) #name,
    ROLLCALL_RESULTS(ROLLCALL_X)
#undef ROLLCALL_X
};
inline constexpr int16_t kResultSuccess = 0;
inline constexpr int16_t kResultUnhandledCudaError = 1;
inline constexpr int16_t kResultInvalidArgument = 4;
inline constexpr int16_t kResultInvalidUsage = 5;
inline constexpr int16_t kResultRemoteError = 6;
inline constexpr int16_t kResultInProgress = 7;
inline constexpr int16_t kResultUnknown = -1;  // the call has not returned
constexpr std::string_view name_of_result(int result) {
  return result >= 0 && result < static_cast<int>(sizeof(kResults) / sizeof(kResults[0]))
             ? kResults[result]
             : std::string_view{"unknown result"};
}

}  // namespace rollcall
