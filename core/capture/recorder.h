// The recorder: what the shim and the profiler plugin call. One per process.
//
// Life: nothing happens at load time. The first NCCL call that wants a record starts the recorder:
// directory, ring file, flusher thread. Where that fails, one line goes to stderr, capture is off
// for good, and every function below is a cheap no-op. A forked child starts over with a file of
// its own at its first NCCL call; a child that never calls NCCL leaves nothing.
//
// Threads: every function may be called from any thread at any time, also concurrently with each
// other, from a forked child, and after static destructors have run. None throws, blocks on another
// rank, writes to stdout, or takes a lock on the path of an operation. Functions marked [cold] may
// lock, allocate or call the kernel; they belong to life-cycle calls.
//
// Order of use for an operation:
//     OpCall call{...};  OpToken token = begin_op(call);  result = real(...);  end_op(token,
//     result);
#pragma once

#include <cstdint>

#include "core/format/ring_layout.h"

namespace rollcall::capture {

// A communicator as the recorder keeps it: the entry in the file and what the file need not show.
// Never freed; a handle that is destroyed and reused gets another.
struct Comm;

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

// An event around a life-cycle call. [cold]
struct EventCall {
  EventKind kind = EventKind::CommAbort;
  uint32_t comm_index = kCommUnknown;
  int64_t arguments[8] = {};
  const char* text = nullptr;  // copied, cut to kEventTextBytes
  const void* caller = nullptr;
};
EventToken begin_event(const EventCall& call) noexcept;
// `text`, where given, replaces the text: an error message, for example. Arguments may be completed
// through set_event_argument before this.
void end_event(EventToken token, int result, const char* text = nullptr) noexcept;
void set_event_argument(EventToken token, unsigned index, int64_t value) noexcept;
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
// The file's entry, for reading (key, parent, children); null when the index is not an entry.
const CommEntry* comm_entry(uint32_t index) noexcept;
// The number this parent's next child gets, counting from 0, whatever created it.
uint32_t next_child_number(uint32_t parent_index) noexcept;
// Records a changed ncclCommGetAsyncError answer; true when it differs from the last one.
bool async_state_changed(uint32_t index, int state, int* previous) noexcept;

// --- groups: thread-local, cheap ----------------------------------------------------------------
// Depth of ncclGroupStart nesting of the calling thread. group_enter returns the number of the
// outermost group (a new one at depth 0 -> 1).
uint32_t group_enter() noexcept;
// The group that just ended launches nothing: its operations will not get GPU times.
void group_abandoned() noexcept;
// The group number that ends, 0 when this was an inner end or there was no group. `operations` gets
// the number of operations recorded in it.
uint32_t group_leave(uint32_t* operations) noexcept;
uint32_t current_group() noexcept;

// --- the process [cold]
// --------------------------------------------------------------------------- Adds "key=value" to
// the meta area. Later keys win. Truncated text is counted.
void add_meta(const char* key, const char* value) noexcept;
// One more way by which calls reach us: "plt", "dlsym", "plugin", "static_nccl".
void add_coverage(const char* path) noexcept;
// Counts a call NCCL made to itself.
void count_nested_call() noexcept;
// Where the functions of the CUDA driver are found, for GPU timing. `lookup` answers with the
// address of a function of the driver that the job has loaded, null if there is none; it must not
// load one.
void set_gpu_symbols(void* (*lookup)(const char* name)) noexcept;
// Writes what only the flusher would write otherwise, and marks the file as exited. Called from the
// library's destructor; idempotent; capture goes on if NCCL is called afterwards.
void flush_at_exit() noexcept;

// --- failures
// --------------------------------------------------------------------------------------- A broken
// invariant inside the injected library: latches capture off, counts, leaves a CaptureOff event.
// Never returns control to a half-done record. Used through ROLLCALL_CHECK.
void fail_check(const char* file, int line, const char* text) noexcept;

}  // namespace rollcall::capture
