// When did the GPU reach an operation, and when was it through? One of two witnesses tells
// (witness.h), by default CUDA events (events.h), which the launching thread records in front of
// and behind the operation on the operation's own stream, and which a thread of the recorder's
// polls. This class decides which operations are timed, knows groups, captures and calls that are
// launched later, and opens what the witness observes.
//
//   launching thread            stream                    polling thread
//   ────────────────            ──────                    ──────────────
//   mark: record start event ─> [start]
//   the NCCL call            ─> [kernel]
//   close: record end event  ─> [end]      start done ──> OpRecord::started_ticks
//                                          end done   ──> finished_ticks, phase settled
//
// Nothing here waits for the GPU. A mark adds two event records to the stream that the operation is
// on anyway, and no dependency between streams.
//
// A stream that captures gets no events: an operation that is captured does not run. Where the GPU
// can write words (words.h), two marks become nodes of the graph beside the operation
// (marks.h), and tell of every replay how far it has come (GraphEntry). The launch of the graph
// is an operation of its own (OpKind::GraphLaunch) with events around it.
//
// On a non-blocking communicator a call comes back (ncclInProgress) before NCCL's own thread has
// launched: an end event would be in front of the kernel. It is recorded by the first thread whom
// NCCL tells that it is through (ncclCommGetAsyncError; open_ends.h, which also says which ends
// only the launching thread can record), and every program must await that before its next call
// there; that moment is launched_ticks. Where the launching thread calls NCCL for something else
// before, nobody knows, and the operation goes without times.
//
// With an activity source (ROLLCALL_GPU_TIMING=cupti) there are no events: the launching thread
// tells the source which operation it is in, and activity.h learns the times of the kernels.
// Captures are followed all the same.
//
// On request (ROLLCALL_GPU_TIMING=progress) the GPU also writes a word into the ring file beside
// each pair of events, which is seen from outside when the polling thread no longer runs.
//
// An operation of a group reaches its stream when the group ends: all operations of one group on
// one stream share a pair of events around the outermost ncclGroupEnd.
//
// Bounded: what a witness holds, operations in flight and open groups (kGpu... in
// core/base/limits.h). What does not fit keeps its host states, carries kOpGpuTimesUnknown and is
// counted in gpu_untimed. A job that issues more than the budget affords gets one operation in 2,
// 4, ... timed, the same ones on all ranks (common_sample.h); the others are counted in
// gpu_sampled_out.
//
// Threads: mark(), close() and the group functions from any thread, each with its own Thread;
// poll() from one thread at a time. Errors: an operation that a witness gives up keeps what is
// known of it. The first call that the driver refused is kept (Fault), for everything else here is
// only counted.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "core/base/limits.h"
#include "core/format/ring_layout.h"
#include "core/gpu/activity.h"
#include "core/gpu/captures.h"
#include "core/gpu/driver.h"
#include "core/gpu/events.h"
#include "core/gpu/open_ends.h"
#include "core/gpu/records.h"
#include "core/gpu/words.h"
#include "core/ring/slot.h"

namespace rollcall::gpu {

// Streams of a group that has not ended.
struct Group {
  struct Entry {
    Stream stream;
    Context* context;
    Pair* pair;
    uint64_t first_ticket;
    uint64_t last_ticket;
    uint32_t capture;  // kNoCapture: the stream does not capture
    int device;        // where activity records tell: the communicator's, -1 if not known
    LaneMark lane;     // its mark, where it does
  };
  std::atomic<uint32_t> is_taken;
  uint32_t number;
  uint32_t entries;
  Entry entry[kGpuGroupStreamsMax];
};

// What a launching thread remembers. Zero-initialised.
struct Thread {
  // What every operation looks at comes first.
  uint64_t ticket = 0;         // of the operation that the thread is in, if it awaits the GPU
  Pair* pair = nullptr;        // of the operation that the thread is in
  Region* region = nullptr;    // of the operation, or the end of a group, that the thread is in
  Group* group = nullptr;      // of the group that the thread has open
  EndName open_end = 0;        // see filled_end
  uint32_t untimed_group = 0;  // a group that is left out, and why
  bool is_group_sampled_out = false;
  uint32_t sampled_out = 0;  // operations; not counted in the file yet
  LaneMark lane;             // of the captured operation that the thread is in, and its stream
  Stream lane_stream = nullptr;
  KnownStream last;
  // NCCL has come back and not launched yet: the end that waits for it, until the record of the
  // call is published, and what it is called from then on (open_end). It may be somebody else's by
  // now.
  OpenEnd* filled_end = nullptr;
  uint64_t answers = 0;  // of NCCL's, before the thread went into it
  // Sampling.
  uint32_t calls = 0;  // of which no hash could be had
  uint32_t marks = 0;  // in this window
  uint32_t skip_shift = 0;
  uint64_t front_ticks = 0;     // spent in front of the operation, in the mark that is measured
  uint64_t mark_ticks = 0;      // spent in the measured marks of this window
  uint64_t cheapest_ticks = 0;  // of them; 0: none yet
  uint64_t window_ticks = 0;
};

// What became of a call, or of the end of a group, when it came back.
enum class Launch : uint8_t { refused, done, in_progress };

// What is decided of an operation before its record is written.
struct Plan {
  Context* context = nullptr;     // null: not timed, unless by activity records
  bool has_activity = false;      // activity records will tell of it
  int device = -1;                // where they do
  uint32_t graph = 0;             // identity of the capture that it goes into; 0: none
  uint32_t capture = kNoCapture;  // that capture, where it is known
  bool is_sampled_out = false;    // not timed, to keep the budget

  // What the record says from the start.
  uint8_t flags() const noexcept { return is_sampled_out ? kOpGpuTimesUnknown : uint8_t{0}; }
};

// A thread says in the file that it left so many out: a locked instruction each time.
inline constexpr uint32_t kSampledOutKept = 16;

// Of the marks of single operations every so many of a thread one is measured.
inline constexpr uint32_t kMeasuredMarks = 16;

class Timer {
 public:
  struct Options {
    Driver driver;
    ring::Slots<OpRecord> ops;
    SelfStatistics* stats = nullptr;
    // Who else holds a record, one count per slot (recorder.h, hold_op); null: nobody does.
    std::atomic<uint32_t>* holds = nullptr;
    // The areas of the file for graphs and progress words, one behind the other; null: none.
    GraphEntry* graphs = nullptr;
    uint64_t word_bytes = 0;
    bool words_in_memory = true;   // of a file that lies on no disk (words.h)
    uint64_t* progress = nullptr;  // among them, one per slot of `ops`; null: events alone
    bool marks_graphs = true;
    // In zeroed memory; null: events tell.
    Activity* activity = nullptr;
    ActivitySource activity_source{};
    uint32_t in_flight_max = kGpuOpsInFlightMax;
    uint32_t budget_percent = 100;  // of a launching thread's time; 100: no sampling
  };

  // The object lives in zeroed memory of its own and is never copied.
  void begin(const Options& options) noexcept;

  // --- the launching thread
  // Whether some of the thread's operations are not timed, to keep the budget.
  static bool is_sampling(const Thread& thread) noexcept { return thread.skip_shift != 0; }
  // Fills a fresh plan in. `comm`: the operation's, null if not known. Default streams belong to
  // its device, or to the current one where that is not known. `hash`: sample_hash() of the
  // operation, looked at while is_sampling(); 0: it has none. Inline where nothing is to be done
  // for an operation, as for nearly all of a job that issues many. Whether its stream captures is
  // asked of every one.
  [[gnu::always_inline]] inline void plan(Thread& thread, Stream stream, uint32_t group,
                                          const CommEntry* comm, uint64_t hash,
                                          Plan& plan) noexcept {
    if (__builtin_expect(thread.open_end != 0, 0)) give_up_open_end(thread);
    if (__builtin_expect(is_left_open(thread), 0)) abandon_call(thread);
    int status = 0;
    if (is_stopped() || ask<&Driver::stream_is_capturing>(stream, &status) != kSuccess) {
      return;
    }
    const bool is_out = group != 0 && thread.untimed_group == group && thread.is_group_sampled_out;
    if (is_out && status == 0 && records_.has_room()) {
      plan.is_sampled_out = true;
    } else {
      plan_asked(thread, stream, group, comm, hash, status, plan);
    }
  }
  // The record is published, with the plan's flags. Where the operation cannot be timed after all,
  // the record says so.
  [[gnu::always_inline]] inline void mark(Thread& thread, const Plan& plan, OpRecord* record,
                                          uint64_t ticket, Stream stream, uint32_t group) noexcept {
    if (plan.is_sampled_out) return count_sampled_out(thread);
    mark_planned(thread, plan, record, ticket, stream, group);
  }
  // The call is over. True: the record must be published as gpu_pending, then opened() be called.
  bool close(Thread& thread, OpRecord* record, uint64_t ticket, Launch launch) noexcept {
    return thread.ticket == ticket && close_marked(thread, record, ticket, launch);
  }
  void opened(Thread& thread) noexcept;

  void begin_group_end(Thread& thread, uint32_t group) noexcept {
    if (thread.group != nullptr) mark_group_start(thread, group);
  }
  void finish_group_end(Thread& thread, Launch launch) noexcept {
    if (thread.group != nullptr) mark_group_end(thread, launch);
  }

  // --- any thread that asks NCCL whether something is in progress on a communicator, of which this
  // --- is the newest operation
  struct Asked {
    OpenEnd* end = nullptr;
    EndName name = 0;
  };
  // Before it asks.
  Asked open_end_of(uint64_t newest_ticket) noexcept;
  // It was told that nothing is, or is any more. The newest operation may be another one by now.
  void settle(Thread& thread, const Asked& asked, uint32_t comm_index, uint64_t newest_ticket,
              bool is_launched) noexcept;

  // --- the launching thread
  // The group ended without launching anything, or nobody saw it end.
  void abandon_group(Thread& thread) noexcept;
  // What count_sampled_out() has kept.
  void hand_over_sampled_out(Thread& thread) noexcept;
  // A call that was left without returning (longjmp): the pair goes back.
  void abandon_call(Thread& thread) noexcept;

  // --- graphs
  Captures& captures() noexcept { return captures_; }
  // The stream is about to be given an executable with captured operations; `graph` 0: it is not.
  using Replay = Captures::Replay;
  Replay begin_replay(const void* executable, Stream stream) noexcept;
  // The driver did not launch it: its number is the next one's. [cold]
  void refuse_replay(const void* executable) noexcept;
  // For the meta area: how words get to the file; null: nobody has asked for any yet.
  const char* words_text() const noexcept { return words_text_.load(std::memory_order_acquire); }

  // For contexts that the job ends.
  Events& events() noexcept { return events_; }

  // --- the polling thread
  // `is_last`: every event is asked, in whatever order.
  void poll(double ticks_per_ns, bool is_last = false) noexcept;
  // From now on nothing is marked and the driver is not touched: it is about to be torn down.
  void stop() noexcept { stopped_.store(true, std::memory_order_release); }
  bool is_stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }
  bool has_activity() const noexcept { return activity_ != nullptr; }
  bool is_idle() const noexcept { return records_.is_idle(); }
  const Fault& fault() const noexcept { return asked_.fault; }

 private:
  enum WordsState : uint32_t { untried, usable, unusable };
  template <auto kFunction, class... Arguments>
  int ask(Arguments... arguments) noexcept {
    return asked_.ask<kFunction>(arguments...);
  }

  static bool is_sampled_out(Thread& thread, uint64_t hash) noexcept;
  void note_cost(Thread& thread, uint64_t behind_ticks, uint64_t stands_for) noexcept;
  void adapt(Thread& thread, uint64_t now_ticks) noexcept;
  void count_sampled_out(Thread& thread) noexcept {
    if (++thread.sampled_out >= kSampledOutKept) hand_over_sampled_out(thread);
  }
  // By a jump out of the call, since close() and opened() leave nothing.
  static bool is_left_open(const Thread& thread) noexcept {
    return thread.ticket != 0 || thread.pair != nullptr || thread.region != nullptr ||
           thread.lane.position != nullptr;
  }
  void plan_asked(Thread& thread, Stream stream, uint32_t group, const CommEntry* comm,
                  uint64_t hash, int status, Plan& plan) noexcept;
  void mark_planned(Thread& thread, const Plan& plan, OpRecord* record, uint64_t ticket,
                    Stream stream, uint32_t group) noexcept;
  bool close_marked(Thread& thread, OpRecord* record, uint64_t ticket, Launch launch) noexcept;
  void mark_group_start(Thread& thread, uint32_t group) noexcept;
  void mark_group_end(Thread& thread, Launch launch) noexcept;
  bool keep_open(Thread& thread, OpRecord* record, uint64_t ticket) noexcept;
  void keep_group_open(Thread& thread) noexcept;
  void open_filled(Thread& thread) noexcept;
  void open_call(Thread& thread, OpenEnd& end, uint64_t ticket) noexcept;
  void give_up_open_end(Thread& thread) noexcept;
  bool settle_end(Thread& thread, OpenEnd& end, EndName name, bool is_launched,
                  bool is_sure) noexcept;
  void finish_end(OpenEnd& end, bool is_launched, bool is_own) noexcept;
  void finish_call(const OpenEnd& end, bool is_launched, bool is_own) noexcept;
  void leave_unreachable(Group& group, bool is_own) noexcept;
  void give_marks_up(const LaneMark& lane) noexcept;
  void give_marks_up(const Group::Entry& entry) noexcept;
  void finish_group(Group& group, bool is_launched, bool has_region, bool is_own) noexcept;
  bool record_end(const Pair& pair, uint64_t first_ticket, bool is_own) noexcept;
  EndName end_name_of(uint64_t ticket) const noexcept;
  void note_launch(const Span& span) noexcept;
  bool joins_group(Thread& thread, uint32_t group, uint64_t hash, bool is_free) noexcept;
  static Group::Entry entry_of(Stream stream, Context* context, uint32_t capture, int device,
                               uint64_t ticket) noexcept;
  bool add_to_group(Group& group, const Group::Entry& added) noexcept;
  void mark_region(Thread& thread, const Plan& plan, OpRecord* record, uint64_t ticket,
                   Stream stream, uint32_t group) noexcept;
  bool close_region(Thread& thread, OpRecord* record, bool is_launched) noexcept;
  void open_group_region(Thread& thread) noexcept;
  bool finish_region(Thread& thread, bool is_launched) noexcept;
  void poll_activity(double ticks_per_ns, bool is_last) noexcept;
  void plan_captured(Thread& thread, Stream stream, uint32_t group, Plan& plan) noexcept;
  void mark_captured(Thread& thread, const Plan& plan, uint64_t ticket, Stream stream,
                     uint32_t group) noexcept;
  bool has_words() noexcept;
  void prepare_words() noexcept;
  void write_progress(Stream stream, uint64_t ticket, GpuMark mark) noexcept;
  void write_word(Stream stream, uint64_t& word, uint64_t value) noexcept;
  void put_mark(Stream stream, const LaneMark& lane, uint64_t value) noexcept;

  // What every operation looks at comes first.
  std::atomic<bool> stopped_;
  uint32_t budget_percent_;
  Activity* activity_;
  SelfStatistics* stats_;
  Records records_;
  AskedDriver asked_;
  pthread_mutex_t preparing_;  // of words
  bool marks_graphs_;
  uint64_t* progress_;
  std::atomic<uint32_t> words_state_;  // WordsState
  std::atomic<const char*> words_text_;
  Words words_;
  Captures captures_;
  OpenEnds open_ends_;
  Group groups_[kGpuGroupsOpenMax];
  Events events_;
};

}  // namespace rollcall::gpu
