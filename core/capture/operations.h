// One operation: from its call to what others than the caller learn of it. For life and threads see
// recorder.h.
//
//     OpCall call{...};  OpToken token = begin_op(call);  result = real(...);  end_op(token,
//     result);
#pragma once

#include <cstdint>

#include "core/format/ring_layout.h"

namespace rollcall::capture {

// Everything a call tells. Zero-initialise, then name the fields.
struct OpCall {
  OpKind kind = OpKind::AllReduce;
  uint8_t datatype = kUnknown8;
  uint8_t reduction = kUnknown8;  // index into kReductions
  uint8_t flags = 0;
  int32_t root_or_peer = -1;
  uint64_t count = 0;
  const void* send = nullptr;
  const void* recv = nullptr;
  const void* stream = nullptr;
  const void* comm_handle = nullptr;
  const void* caller = nullptr;
  uint32_t group = 0;
  uint32_t graph = 0;
  uint64_t replay = 0;  // GraphLaunch: its number
  uint32_t frames = 0;  // number of the call site in the job's own language; 0 none
};

// Names one record until end_op. A default-constructed token means "not recorded" and is harmless.
struct OpToken {
  OpRecord* record = nullptr;
  uint64_t ticket = 0;
};
// True when a call should be recorded now: started (or startable), not paused, not off. Cheap.
bool enabled() noexcept;

// Publishes the record of a call that is about to enter NCCL. Fills in time, seq, communicator
// index and thread. A handle that no comm_* call has announced gets an entry with origin `unknown`
// (counted as comm_unknown).
OpToken begin_op(const OpCall& call) noexcept;
// The call has returned. Harmless with an empty token.
void end_op(OpToken token, int result) noexcept;
// A thread is about to ask NCCL whether something is in progress on the communicator: what its
// answer will be about.
struct AskedCalls {
  void* end = nullptr;
  uint64_t name = 0;
};
AskedCalls before_asking(uint32_t comm_index) noexcept;
// NCCL has answered that nothing is in progress any more, or that it failed. Both are cheap:
// programs ask in a loop.
void calls_settled(const AskedCalls& asked, uint32_t comm_index, bool is_launched) noexcept;
// The same for what the profiler plugin was told of, in fewer steps: an OpCall with kOpFromPlugin,
// in registers; at the end the token is not empty, and what the call returned is not known.
struct ToldOp {
  OpKind kind = OpKind::AllReduce;
  uint8_t datatype = kUnknown8;
  bool is_captured = false;
  int32_t root_or_peer = -1;
};
OpToken begin_told_op(ToldOp op, uint64_t count, const void* stream, const void* comm_handle,
                      uint32_t group) noexcept;
void end_told_op(OpToken token) noexcept;
// Instead of beginning it, where its end will not be heard: it is not recorded and is counted as
// dropped, but has its position among the calls of its communicator. [cold]
void drop_told_op(ToldOp op, const void* comm_handle) noexcept;

// --- what others than the caller learn about an operation --------------------------------------
// A record is settled, and may move to the history, when the call has returned and nobody holds it.
// Whoever learns something later (the profiler plugin, GPU times) takes a hold before end_op and
// releases it when it knows, or gives up. False: not recorded, or already settled; then no release.
bool hold_op(OpToken token) noexcept;
bool hold_current_op() noexcept;  // of the call the thread is in, see current_call()
void release_op(OpToken token) noexcept;

// The call the thread is in, between begin_op and end_op. `token` is empty where the call was not
// recorded. Calls with kOpFromPlugin are none: they are what the plugin made of an event.
struct CurrentCall {
  bool inside = false;
  OpToken token;
};
CurrentCall current_call() noexcept;

// What else is learned of an operation: core/capture/op_detail.h.

// The call goes into a CUDA graph, and which one is not known: the record's graph becomes 1, as in
// begin_told_op. Not where the GPU is timed, whose captures have their own numbers. With CUPTI,
// captures on non-blocking communicators stay unknown then. [cold]
void note_captured(OpToken token) noexcept;

// What its kernel spent in each phase, in nanoseconds; to be said of an operation once, and while
// its record may still be added to.
struct OpPhases {
  uint64_t ns[kKernelPhaseCount] = {};
};
void keep_op_phases(OpToken token, const OpPhases& phases) noexcept;

// The communicator of a record: an entry, or kCommUnknown.
uint32_t comm_of(OpToken token) noexcept;

}  // namespace rollcall::capture
