// The recorder: what the shim and the profiler plugin call. One per process.
//
// Life: nothing happens at load time. The first NCCL call that wants a record starts the recorder:
// directory, ring file, flusher thread. Where that fails, one line goes to stderr, capture is off
// for good, and every function below is a cheap no-op. A forked child starts over with a file of
// its own at its first NCCL call; a child that never calls NCCL leaves nothing.
//
// Threads: every function may be called from any thread at any time, also concurrently with each
// other, from a forked child, and after static destructors have run. None throws, blocks on another
// rank, writes to stdout, or takes a lock on the path of an operation, but for what comes once: a
// thread's first call, the first with a communicator that was not announced, the first transfer on
// one; and for calls on communicators beyond the room of the table. Functions marked [cold] may
// lock, allocate or call the kernel; they belong to life-cycle calls.
//
// Order of use for an operation:
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
struct EventToken {
  EventRecord* record = nullptr;
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

// The record of an operation of the group that the calling thread has just ended, by what its call
// said: for NCCL versions whose events do not come inside the call. The oldest that fits and was
// not found before; empty when none does.
struct OpSignature {
  OpKind kind = OpKind::AllReduce;
  uint64_t count = 0;  // compared in bytes, where the record's datatype is known
  // 0 where nobody tells it: that is a datatype of one byte, as NCCL has no name for ncclUint8.
  uint32_t element_bytes = 0;
  const void* send = nullptr;
  const void* recv = nullptr;
  uint32_t comm_index = kCommUnknown;  // kCommUnknown: any
  int32_t peer = -1;                   // -1: any
};
OpToken find_in_ended_group(const OpSignature& signature) noexcept;
// From now on, in the whole process, operations inside a group are held until the group's end has
// returned, so that find_in_ended_group can serve.
void hold_groups() noexcept;
// The communicator of a record: an entry, or kCommUnknown.
uint32_t comm_of(OpToken token) noexcept;
// True when the shim watches a communicator's creation at this moment.
bool creation_is_watched() noexcept;

// An event around a life-cycle call. [cold]
struct EventCall {
  EventKind kind = EventKind::CommAbort;
  uint32_t comm_index = kCommUnknown;
  int64_t arguments[8] = {};
  const char* text = nullptr;  // copied, cut to kEventTextBytes
  const void* caller = nullptr;
};
EventToken begin_event(const EventCall& call) noexcept;
// `text`, where given, replaces the text: an error message, for example.
void end_event(EventToken token, int result, const char* text = nullptr) noexcept;
// Both in one, for something that is already over.
void note_event(const EventCall& call, int result) noexcept;

// --- communicators [cold] ---------------------------------------------------------------------
struct CommOpening {
  CommOrigin origin = CommOrigin::unknown;
  CommKey key{};
  CommKey parent_key{};
  uint32_t parent_index = kCommUnknown;
  uint32_t child_number = 0;
  int32_t nranks = -1;
  int32_t rank = -1;
  int32_t device = -1;
  int32_t colour = 0;
  int32_t split_key = 0;
  bool non_blocking = false;
  const char* name = nullptr;
};
// Before the creating call: an entry in state `initialising`. kCommUnknown when the table is full.
uint32_t open_comm(const CommOpening& opening) noexcept;
// The creating call came back with a handle, maybe still in progress (state stays initialising
// until comm_ready). Binds handle -> index; an older communicator with the same handle is
// forgotten.
void bind_comm(uint32_t index, const void* handle) noexcept;
// What was learned later. Negative values and 0 hashes leave the field as it is.
void comm_ready(uint32_t index, int nranks, int rank, int device, uint64_t nccl_hash) noexcept;
// Ends it: failed, none, finalized, revoked, destroyed or aborted. destroyed and aborted unbind the
// handle.
void close_comm(uint32_t index, CommState state) noexcept;
// kCommUnknown when the handle is not bound. Lock-free.
uint32_t find_comm(const void* handle) noexcept;
// What this process has said of it (all but the counters); null when the index is not an entry. It
// is not the file's entry, which somebody may have written over.
const CommEntry* comm_entry(uint32_t index) noexcept;
// The number this parent's next child gets, counting from 0, whatever created it.
uint32_t next_child_number(uint32_t parent_index) noexcept;
// Records a changed ncclCommGetAsyncError answer; true when it differs from the last one.
bool async_state_changed(uint32_t index, int state, int* previous) noexcept;

// --- CUDA contexts that the job ends: around cuCtxDestroy, and around cuDevicePrimaryCtxReset or,
// not certain to end it, cuDevicePrimaryCtxRelease. Harmless where GPUs are not timed. [cold]
struct ContextEnd {
  int device = -1;
  bool holds_poller = false;
};
ContextEnd begin_context_end(void* context) noexcept;
ContextEnd begin_primary_end(int device, bool is_certain) noexcept;
void finish_context_end(ContextEnd end) noexcept;

// --- CUDA graphs: what the driver is asked to do with them, told when it has done so -------------
// Each is harmless for graphs without captured operations, and where GPUs are not timed. [cold]
void graph_captures_into(void* graph) noexcept;  // cuStreamBeginCaptureToGraph: before it
void graph_cloned(void* clone, void* graph) noexcept;
void graph_destroyed(void* graph) noexcept;  // before it: the handle may be another's at once
// Instantiated, or brought up to date from this graph.
void graph_instantiated(const void* executable, void* graph) noexcept;
// The driver made no executable of it.
void graph_refused(void* graph, int result) noexcept;
void graph_executable_destroyed(const void* executable) noexcept;  // before it
// From now on the process's launches of graphs are told. Also before the recorder starts.
void graph_launches_watched() noexcept;
// Around the launch. The token is empty where the executable has no captured operations, or the
// launch goes into a capture itself. Cheap for all others.
OpToken begin_graph_launch(const void* executable, const void* stream) noexcept;
// The driver refused it, of which there was a token. [cold]
void refuse_graph_launch(const void* executable) noexcept;

// --- channels: what proxy operations move and wait for ------------------------------------------
// The entry of this channel, made where it is new, with one more operation in progress.
// kChannelUnknown where `pid` is another process, and, counted, when the table is full. Lock-free,
// as all of these; a process's first call may lock.
uint32_t open_channel(int32_t pid, uint32_t comm_index, int32_t peer, uint8_t channel,
                      bool is_send) noexcept;
void close_channel_op(uint32_t channel) noexcept;
// What is heard of a step: how long it waited for what (`none`: for nothing that it said), and what
// the channel waits for from now on, since when. A step that is done has moved so many bytes.
void step_waited(uint32_t channel, ChannelWait waited, uint64_t waited_ticks, ChannelWait waits,
                 uint64_t since_ticks) noexcept;
void step_done(uint32_t channel, ChannelWait waited, uint64_t waited_ticks, ChannelWait waits,
               uint64_t since_ticks, uint64_t bytes) noexcept;

// --- groups: thread-local, cheap ----------------------------------------------------------------
// Depth of ncclGroupStart nesting of the calling thread. group_enter returns the number of the
// outermost group (a new one at depth 0 -> 1).
uint32_t group_enter() noexcept;
// The group number that ends, 0 when this was an inner end or there was no group. `operations` gets
// the number of operations recorded in it.
uint32_t group_leave(uint32_t* operations) noexcept;
// The group that group_leave() ended launches nothing, because it is simulated: its operations are
// marked, and their positions are those of the next calls again. Where another thread has called on
// one of the communicators meanwhile, they stay spent there. [cold]
void group_simulated(uint32_t group) noexcept;
uint32_t current_group() noexcept;
// A number no other group has, for groups that are told of as events.
uint32_t next_group_number() noexcept;

// --- the process [cold] -------------------------------------------------------------------------

// Adds "key=value" to the meta area. Later keys win. Truncated text is counted.
void add_meta(const char* key, const char* value) noexcept;
// As add_meta(), of this process's file alone: a forked child's begins without it. False where it
// is not there: the recorder has not started, or there is no room.
bool add_file_meta(const char* key, const char* value) noexcept;
// One more way by which calls reach us: "plt", "dlsym", "plugin", "static_nccl".
void add_coverage(const char* path) noexcept;
// One more of something that the recorder counts about itself.
void count_statistic(uint64_t SelfStatistics::*statistic) noexcept;
// The number of this process, without a system call; 0 while nothing is recorded.
uint32_t process_number() noexcept;
// Ticks and CLOCK_MONOTONIC, by the anchors so far; 0 where they do not tell yet.
uint64_t ticks_of_monotonic(uint64_t monotonic_ns) noexcept;
uint64_t monotonic_of_ticks(uint64_t ticks) noexcept;
// Counts a call NCCL made to itself.
void count_nested_call() noexcept;
// Where the functions of the CUDA driver are found, for GPU timing. `lookup` answers with the
// address of a function of the driver that the job has loaded, null if there is none; it must not
// load one.
void set_gpu_symbols(void* (*lookup)(const char* name)) noexcept;
// Who knows the frames of the job's own language, of all threads: asked by the flusher when stacks
// are wanted, on its own thread, whatever the others do or hold. It must not wait for any of them.
class StackFile;
using FrameSource = void (*)(StackFile& file);
void set_frame_source(FrameSource source) noexcept;
// Writes what only the flusher would write otherwise, and marks the file as exited. Called from the
// library's destructor; idempotent; capture goes on if NCCL is called afterwards.
void flush_at_exit() noexcept;
// The process ends at once, by a way that runs no destructor: marks the file as exited, no more.
// For `_exit`, hence for signal handlers, and for whoever holds whatever lock: takes none, waits
// for nobody, starts nothing. Harmless in children, those that share the parent's memory included.
void note_immediate_exit() noexcept;

// --- failures -----------------------------------------------------------------------------------

// A broken invariant inside the injected library: latches capture off, counts, leaves a CaptureOff
// event. Never returns control to a half-done record. Used through ROLLCALL_CHECK.
void fail_check(const char* file, int line, const char* text) noexcept;

}  // namespace rollcall::capture
