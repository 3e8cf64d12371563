// The state of the recorder of this process, shared by the files of core/capture. Not for others.
//
// Everything an operation needs stands in `live`: pointers into the mapping, and one word that says
// whether they may be used. The word is the incarnation: 0 while not recording, and different each
// time the recorder starts, so that one comparison with the thread's copy answers "is capture on,
// was this thread announced to this very file, and is this not a forked child?".
//
// What is in the mapping is written for readers. The job, and whoever else may write to the file,
// may write over it, so nothing is read back from there that a length, an index, an address or a
// decision rests on: of all that the recorder has a copy in `live`, or in memory that `live` points
// to. What is read back all the same, because a second copy would cost the path of an operation, is
// a ticket, a position or a body of a slot; it may be any number, and is used as such: compared,
// masked, copied and judged.
//
// The page of `live` is wiped in a forked child by the kernel (MADV_WIPEONFORK), so even a child
// made without the C library's knowledge (clone, syscall) finds a recorder that never started.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>

#include "core/base/atomic_word.h"
#include "core/base/clock.h"
#include "core/base/config.h"
#include "core/base/keep_errno.h"
#include "core/capture/gpu_timing.h"
#include "core/capture/recorder.h"
#include "core/ring/ring_file.h"
#include "core/ring/slot.h"

namespace rollcall::capture {

enum class Mode : uint32_t { unstarted = 0, recording = 1, off = 2 };

// The largest pages that a kernel may have: the advice to wipe `live` in a child goes by pages.
#if defined(__aarch64__)
inline constexpr uint64_t kLivePageBytes = 65536;
#else
inline constexpr uint64_t kLivePageBytes = 4096;
#endif

struct alignas(kLivePageBytes) Live {
  std::atomic<uint64_t> incarnation;
  ring::Slots<OpRecord> ops;
  FileHeader* header;
  CommEntry* comms;
  const CommEntry* known_comms;           // the process's own: comm_table.cpp
  std::atomic<CaptureState> noted_state;  // the header's capture_state, as it was written
  SelfStatistics* stats;
  std::atomic<gpu::Timer*> gpu;  // null: no GPU timing
  std::atomic<bool> wants_gpu;   // asked for, and the driver was not found yet
  std::atomic<bool> holds_groups;
  std::atomic<uint32_t>* holds;  // one per slot of `ops`: the call itself, and hold_op()
  // --- not on the path of an operation
  ring::Slots<EventRecord> events;
  ThreadEntry* threads;
  ChannelEntry* channels;
  KernelPhasesEntry* kernel_phases;
  char* meta;
  std::atomic<Mode> mode;
  std::atomic<bool> watches_unlisted;  // the shim watches creations that the table has no room for
  bool has_flusher;
  std::atomic<bool> refreshes_anchor;  // a thread is at it
  pthread_mutex_t cold_mutex;          // ColdLock; all zeros is PTHREAD_MUTEX_INITIALIZER
  // The same as in the header, which is not read back.
  std::atomic<bool> has_exited;
  std::atomic<uint32_t> comm_count;
  std::atomic<uint32_t> thread_count;
  std::atomic<uint64_t> reductions;
  uint32_t meta_bytes;  // ColdLock held
  std::atomic<uint64_t> anchor_count;
  ClockAnchor first_anchor;
  ClockAnchor latest_anchor[2];
};
static_assert(sizeof(Live) == kLivePageBytes);
extern constinit Live live;

// Draws in a rush, one behind the other, before a block: two threads that meet by chance stay in
// order.
inline constexpr uint32_t kRushesWantedMin = 8;

// Of the thread's block: those not spent yet, and when it was drawn. core/capture/tickets.h.
struct ThreadTickets {
  uint64_t next = 0;
  uint64_t end = 0;
  uint64_t drawn_ticks = 0;
  uint32_t drawn = 1;                         // how many the newest draw took
  uint32_t rushes = 0;                        // draws in a row that were made in a rush with others
  uint32_t rushes_wanted = kRushesWantedMin;  // before the next block
};

// Numbers of groups that the thread may give out: [next, end). core/capture/group.cpp.
struct ThreadGroups {
  uint32_t next = 0;
  uint32_t end = 0;
};

struct ThreadState {
  uint64_t incarnation = ~uint64_t{0};  // differs from every value of live.incarnation
  uint32_t index = kThreadUnknown;
  bool in_call = false;
  uint32_t group_depth = 0;
  uint32_t group = 0;
  uint32_t group_operations = 0;
  uint32_t nested_calls = 0;  // not counted in the file yet
  OpToken call;               // of the call the thread is in
  ThreadTickets tickets;
  gpu::Thread gpu;
  ThreadGroups group_numbers;
  const void* gpu_wanted_with = nullptr;  // the communicator of the last look for the driver
  // Tickets of the group that ended last, for find_in_ended_group().
  uint64_t group_first_ticket = 0;
  uint64_t group_cursor = 0;
};
// Initial-exec: a load relative to the thread pointer, no call. The library may be loaded late
// (dlopen), where the C library keeps 1,600 bytes and more for such variables; this takes 288.
extern thread_local constinit ThreadState this_thread __attribute__((tls_model("initial-exec")));

// The slow way into every function: starts the recorder if it was never started, announces the
// thread. False: not recording.
bool enter_slowly(ThreadState& thread) noexcept;
inline bool enter(ThreadState& thread) noexcept {
  const uint64_t incarnation = live.incarnation.load(std::memory_order_acquire);
  return __builtin_expect(thread.incarnation == incarnation, 1) || enter_slowly(thread);
}

// One lock for everything that is cold: start, communicators, meta text. In `live`, so that a child
// does not inherit it locked. A thread is not cancelled while it holds it, and runs no handler of a
// signal that might call NCCL and so come back for it. errno is what it was behind it.
class ColdLock {
 public:
  ColdLock() noexcept;
  // For the end of the process, where whoever holds it may never give it back: see is_held().
  explicit ColdLock(std::try_to_lock_t attempt) noexcept;
  ~ColdLock();
  ColdLock(const ColdLock&) = delete;
  ColdLock& operator=(const ColdLock&) = delete;
  bool is_held() const noexcept { return is_held_; }

 private:
  void keep_to_itself() noexcept;

  const KeepErrno keep_errno_;
  sigset_t mask_before_;
  int cancel_before_ = 0;
  bool is_held_;
};

inline std::atomic<uint32_t>& holds_of(uint64_t ticket) noexcept {
  return live.holds[ticket & live.ops.mask];
}
// After the group's end has returned: its operations, and the end itself, are nobody's any more.
void release_group(ThreadState& thread, OpToken group_end) noexcept;
// The same, for the calling thread's group, where its end is not recorded.
void release_unended_group(uint32_t group) noexcept;

inline void count(uint64_t& statistic, uint64_t by = 1) noexcept { add_relaxed(statistic, by); }

// True when `rollcall ctl pause` was seen: the call is counted, not recorded. Notes the change.
bool note_pause(bool paused) noexcept;
inline bool is_paused() noexcept {
  const bool paused = load_relaxed(live.header->capture_switch) == 1;
  const CaptureState expected = paused ? CaptureState::paused : CaptureState::recording;
  const CaptureState noted = live.noted_state.load(std::memory_order_relaxed);
  return __builtin_expect(noted == expected, 1) ? paused : note_pause(paused);
}

// Writes the two-copy anchor of the header. One caller at a time: the flusher, or without one the
// thread that got the turn.
void refresh_anchor() noexcept;
// The newest one: of the flusher's, or where there is none yet, or it is just being replaced, one
// of our own.
ClockAnchor newest_anchor() noexcept;
// From ticks to times, by the first anchor and this one.
TickConversion conversion_by(const ClockAnchor& latest) noexcept;

// Of comm_table.cpp: memory for a start of the recorder, false when there is none; and forget
// everything (forked child). With the ColdLock held.
bool map_known_comms() noexcept;
void reset_comm_table() noexcept;
// The communicator of a handle, made up if it was never announced.
uint32_t find_or_adopt_comm(const void* handle) noexcept;
// What is counted by peer. Puts that signal and bare signals are counted together: the receiver
// waits for a number of either.
enum class PeerCounter : uint8_t { send, recv, signal, wait, Count };
inline PeerCounter counter_of(OpKind kind) noexcept {
  if (kind == OpKind::Send) return PeerCounter::send;
  if (kind == OpKind::Recv) return PeerCounter::recv;
  return kind == OpKind::WaitSignal ? PeerCounter::wait : PeerCounter::signal;
}
// What a call counts for: a wait for as many as it waits for.
inline uint32_t steps_of(OpKind kind, uint64_t count) noexcept {
  return kind == OpKind::WaitSignal ? static_cast<uint32_t>(count) : 1;
}
// The counter as it was, before `step` was added; false when it cannot be counted.
bool next_p2p_seq(uint32_t comm_index, int32_t peer, PeerCounter counter, uint64_t& seq,
                  uint32_t step = 1) noexcept;
// The counter is `seq` again; false, and left alone, where it is not seq + step any more.
bool give_back_p2p_seq(uint32_t comm_index, int32_t peer, PeerCounter counter, uint64_t seq,
                       uint32_t step) noexcept;

// Of process_meta.cpp.
// ColdLock held. False, and counted, where it does not fit.
bool append_meta(std::string_view key, std::string_view value) noexcept;
void write_process_meta(const Config& config) noexcept;  // ColdLock held
void write_sticky_meta() noexcept;                       // ColdLock held

// Of group.cpp.
void reset_groups() noexcept;
// The group that just ended launches nothing: its operations will not get GPU times.
void group_abandoned() noexcept;

// Of recorder_life.cpp: where the files are.
const char* run_directory() noexcept;
std::string_view file_stem() noexcept;  // empty: not known yet
// For the flusher, where it becomes known: its characters, then how many they are.
std::span<char> stem_storage() noexcept;
void set_file_stem(size_t bytes) noexcept;
const Config& config() noexcept;
const ring::RingFile& ring_file() noexcept;

}  // namespace rollcall::capture
