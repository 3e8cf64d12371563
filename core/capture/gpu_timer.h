// When did the GPU reach an operation, and when was it through? Told by CUDA events, which the
// launching thread records in front of and behind the operation on the operation's own stream, and
// which a thread of the recorder's polls.
//
//   launching thread            stream                    polling thread
//   ────────────────            ──────                    ──────────────
//   mark: record start event ─> [start]
//   the NCCL call            ─> [kernel]
//   close: record end event  ─> [end]      start done ──> OpRecord::started_ticks
//                                          end done   ──> finished_ticks, phase settled
//
// Nothing here waits for the GPU: events are asked (cuEventQuery), never synchronised, and the
// asking thread is in the relaxed capture mode, so that a capture elsewhere in the process is left
// alone. A mark adds two event records to the stream that the operation is on anyway, and no
// dependency between streams.
//
// A stream that captures gets no events: an operation that is captured does not run. Where the GPU
// can write words (gpu_words.h), two marks become nodes of the graph beside the operation
// (gpu_marks.h), and tell of every replay how far it has come (GraphEntry). The launch of the graph
// is an operation of its own (OpKind::GraphLaunch) with events around it.
//
// On a non-blocking communicator a call comes back (ncclInProgress) before NCCL's own thread has
// launched: an end event would be in front of the kernel. It is recorded by the first thread whom
// NCCL tells that it is through (ncclCommGetAsyncError; gpu_open_ends.h, which also says which ends
// only the launching thread can record), and every program must await that before its next call
// there; that moment is launched_ticks. Where the launching thread calls NCCL for something else
// before, nobody knows, and the operation goes without times.
//
// With an activity source (ROLLCALL_GPU_TIMING=cupti) there are no events: the launching thread
// tells the source which operation it is in, and gpu_activity.h learns the times of the kernels.
// Captures are followed all the same.
//
// On request (ROLLCALL_GPU_TIMING=progress) the GPU also writes a word into the ring file beside
// each pair of events, which is seen from outside when the polling thread no longer runs.
//
// An operation of a group reaches its stream when the group ends: all operations of one group on
// one stream share a pair of events around the outermost ncclGroupEnd.
//
// Bounded: pairs per context, contexts, operations in flight and open groups (kGpu... in
// core/base/limits.h). What does not fit keeps its host states, carries kOpGpuTimesUnknown and is
// counted in gpu_untimed. A job that issues more than the budget affords gets one operation in 2,
// 4, ... timed, the same ones on all ranks (common_sample.h); the others are counted in
// gpu_sampled_out.
//
// From the GPU's clock to ours: events tell only the time between two of them. One event per
// context is the reference, and the interval of ticks in which it happened is kept as small as what
// is known allows: it was recorded on an idle stream of our own between two readings of the clock,
// no start event can lie before the call that recorded it, and no event behind the moment it was
// seen done. A time is never outside [recorded, seen done].
//
// Threads: mark(), close() and the group functions from any thread, each with its own GpuThread;
// poll() from one thread at a time. Errors: a context that answers with an error, is no longer
// active, or is about to be destroyed by the job, is given up: its operations keep what is known of
// them, and nothing of it is touched again. Handles are the driver's memory, so asking for an event
// of a context that is gone may crash the job: the calls that end one are heard (hold_poller), and
// wait until the poller has its hands off. The first call that the driver refuses is kept
// (GpuFault), for everything else here is only counted.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "core/base/limits.h"
#include "core/capture/gpu_activity.h"
#include "core/capture/gpu_captures.h"
#include "core/capture/gpu_driver.h"
#include "core/capture/gpu_open_ends.h"
#include "core/capture/gpu_records.h"
#include "core/capture/gpu_words.h"
#include "core/format/ring_layout.h"
#include "core/ring/slot.h"

namespace rollcall::capture {

// Two events and what lies between them.
struct GpuPair {
  enum State : uint32_t { absent, free, taken, in_flight };
  std::atomic<uint32_t> state;
  uint32_t group;  // 0: one operation
  GpuEvent start;
  GpuEvent end;
  GpuStream stream;
  uint64_t first_ticket;  // of the operations, both included
  uint64_t last_ticket;
  uint64_t earliest_ticks;  // before the event that is asked next was recorded
  uint32_t is_started;      // the poller has published the start
  uint32_t reserved;

  GpuSpan span() const noexcept { return {first_ticket, last_ticket, group, stream}; }
};

// A point on the GPU's clock and the interval of host ticks that it lies in.
struct GpuReference {
  GpuEvent event;
  uint64_t earliest_ticks;
  uint64_t latest_ticks;
};

struct GpuContext {
  enum State : uint32_t { unused, alive, lost };
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> pair_count;  // power of two; pairs beyond it have no events yet
  std::atomic<uint64_t> next_pair;
  // A pair may be in flight. Launching threads say so behind its state, the poller takes it back in
  // front of a look at all of them: no count that both would have to lock.
  std::atomic<bool> has_flown;
  GpuContextHandle handle;
  int device;
  bool is_primary;
  bool cannot_be_opened;
  // The poller's.
  GpuStream probe_stream;
  GpuReference reference;  // event null: none yet
  GpuEvent probe;          // spare event; recorded while probe_before_ticks is not 0
  uint64_t probe_before_ticks;
  GpuPair pairs[kGpuPairsMax];
};

// Streams of a group that has not ended.
struct GpuGroup {
  struct Entry {
    GpuStream stream;
    GpuContext* context;
    GpuPair* pair;
    uint64_t first_ticket;
    uint64_t last_ticket;
    uint32_t capture;  // kNoCapture: the stream does not capture
    int device;        // where activity records tell: the communicator's, -1 if not known
    GpuLaneMark lane;  // its mark, where it does
  };
  std::atomic<uint32_t> is_taken;
  uint32_t number;
  uint32_t entries;
  Entry entry[kGpuGroupStreamsMax];
};

// What a launching thread remembers. Zero-initialised.
struct GpuThread {
  // What every operation looks at comes first.
  uint64_t ticket = 0;          // of the operation that the thread is in, if it awaits the GPU
  GpuPair* pair = nullptr;      // of the operation that the thread is in
  GpuRegion* region = nullptr;  // of the operation, or the end of a group, that the thread is in
  GpuGroup* group = nullptr;    // of the group that the thread has open
  GpuEndName open_end = 0;      // see filled_end
  uint32_t untimed_group = 0;   // a group that is left out, and why
  bool is_group_sampled_out = false;
  uint32_t sampled_out = 0;  // operations; not counted in the file yet
  GpuLaneMark lane;          // of the captured operation that the thread is in, and its stream
  GpuStream lane_stream = nullptr;
  GpuStream stream = nullptr;  // the last one, and the context it belongs to
  GpuContext* context = nullptr;
  // NCCL has come back and not launched yet: the end that waits for it, until the record of the
  // call is published, and what it is called from then on (open_end). It may be somebody else's by
  // now.
  GpuOpenEnd* filled_end = nullptr;
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
enum class GpuLaunch : uint8_t { refused, done, in_progress };

// What is decided of an operation before its record is written.
struct GpuPlan {
  GpuContext* context = nullptr;  // null: not timed, unless by activity records
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

class GpuTimer {
 public:
  struct Options {
    GpuDriver driver;
    ring::Slots<OpRecord> ops;
    SelfStatistics* stats = nullptr;
    // Who else holds a record, one count per slot (recorder.h, hold_op); null: nobody does.
    std::atomic<uint32_t>* holds = nullptr;
    // The areas of the file for graphs and progress words, one behind the other; null: none.
    GraphEntry* graphs = nullptr;
    uint64_t word_bytes = 0;
    bool words_in_memory = true;   // of a file that lies on no disk (gpu_words.h)
    uint64_t* progress = nullptr;  // among them, one per slot of `ops`; null: events alone
    bool marks_graphs = true;
    // In zeroed memory; null: events tell.
    GpuActivity* activity = nullptr;
    GpuActivitySource activity_source{};
    uint32_t in_flight_max = kGpuOpsInFlightMax;
    uint32_t budget_percent = 100;  // of a launching thread's time; 100: no sampling
  };

  // The object lives in zeroed memory of its own and is never copied.
  void begin(const Options& options) noexcept;

  // --- the launching thread
  // Whether some of the thread's operations are not timed, to keep the budget.
  static bool is_sampling(const GpuThread& thread) noexcept { return thread.skip_shift != 0; }
  // Fills a fresh plan in. `comm`: the operation's, null if not known. Default streams belong to
  // its device, or to the current one where that is not known. `hash`: sample_hash() of the
  // operation, looked at while is_sampling(); 0: it has none. Inline where nothing is to be done
  // for an operation, as for nearly all of a job that issues many. Whether its stream captures is
  // asked of every one.
  [[gnu::always_inline]] inline void plan(GpuThread& thread, GpuStream stream, uint32_t group,
                                          const CommEntry* comm, uint64_t hash,
                                          GpuPlan& plan) noexcept {
    if (__builtin_expect(thread.open_end != 0, 0)) give_up_open_end(thread);
    if (__builtin_expect(is_left_open(thread), 0)) abandon_call(thread);
    int status = 0;
    if (is_stopped() || ask<&GpuDriver::stream_is_capturing>(stream, &status) != kGpuSuccess) {
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
  [[gnu::always_inline]] inline void mark(GpuThread& thread, const GpuPlan& plan, OpRecord* record,
                                          uint64_t ticket, GpuStream stream,
                                          uint32_t group) noexcept {
    if (plan.is_sampled_out) return count_sampled_out(thread);
    mark_planned(thread, plan, record, ticket, stream, group);
  }
  // The call is over. True: the record must be published as gpu_pending, then opened() be called.
  bool close(GpuThread& thread, OpRecord* record, uint64_t ticket, GpuLaunch launch) noexcept {
    return thread.ticket == ticket && close_marked(thread, record, ticket, launch);
  }
  void opened(GpuThread& thread) noexcept;

  void begin_group_end(GpuThread& thread, uint32_t group) noexcept {
    if (thread.group != nullptr) mark_group_start(thread, group);
  }
  void finish_group_end(GpuThread& thread, GpuLaunch launch) noexcept {
    if (thread.group != nullptr) mark_group_end(thread, launch);
  }

  // --- any thread that asks NCCL whether something is in progress on a communicator, of which this
  // --- is the newest operation
  struct Asked {
    GpuOpenEnd* end = nullptr;
    GpuEndName name = 0;
  };
  // Before it asks.
  Asked open_end_of(uint64_t newest_ticket) noexcept;
  // It was told that nothing is, or is any more. The newest operation may be another one by now.
  void settle(GpuThread& thread, const Asked& asked, uint32_t comm_index, uint64_t newest_ticket,
              bool is_launched) noexcept;

  // --- the launching thread
  // The group ended without launching anything, or nobody saw it end.
  void abandon_group(GpuThread& thread) noexcept;
  // What count_sampled_out() has kept.
  void hand_over_sampled_out(GpuThread& thread) noexcept;
  // A call that was left without returning (longjmp): the pair goes back.
  void abandon_call(GpuThread& thread) noexcept;

  // --- graphs
  GpuCaptures& captures() noexcept { return captures_; }
  // The stream is about to be given an executable with captured operations; `graph` 0: it is not.
  using Replay = GpuCaptures::Replay;
  Replay begin_replay(const void* executable, GpuStream stream) noexcept;
  // The driver did not launch it: its number is the next one's. [cold]
  void refuse_replay(const void* executable) noexcept;
  // For the meta area: how words get to the file; null: nobody has asked for any yet.
  const char* words_text() const noexcept { return words_text_.load(std::memory_order_acquire); }

  // --- contexts that the job ends, by a call of its own, on any thread
  // Between the two nobody polls. False: the poller does not let go; then there is nothing to
  // release.
  bool hold_poller() noexcept;
  void release_poller() noexcept;
  void context_ends(GpuContextHandle context) noexcept;
  void primary_ends(int device) noexcept;
  // Its users are fewer by one: the last one takes it along.
  void primary_may_have_ended(int device) noexcept;

  // --- the polling thread
  // `is_last`: every event is asked, in whatever order.
  void poll(double ticks_per_ns, bool is_last = false) noexcept;
  // From now on nothing is marked and the driver is not touched: it is about to be torn down.
  void stop() noexcept { stopped_.store(true, std::memory_order_release); }
  bool is_stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }
  bool has_activity() const noexcept { return activity_ != nullptr; }
  bool is_idle() const noexcept { return records_.is_idle(); }
  const GpuFault& fault() const noexcept { return fault_; }

 private:
  enum WordsState : uint32_t { untried, usable, unusable };
  struct BlockedStreams {
    GpuStream stream[16];
    unsigned count = 0;
    bool has(GpuStream wanted) const noexcept;
    void add(GpuStream blocked) noexcept;
  };

  // A call of the driver's; a refusal is kept where it is the first.
  template <auto kFunction, class... Arguments>
  int ask(Arguments... arguments) noexcept {
    const int result = (driver_.*kFunction)(arguments...);
    if (__builtin_expect(result != kGpuSuccess && result != kGpuNotReady, 0)) {
      fault_.note(kGpuFunctionName<kFunction>, result);
    }
    return result;
  }

  GpuContext* context_of(GpuThread& thread, GpuStream stream, int device) noexcept;
  GpuContext* find_context(GpuContextHandle handle) noexcept;
  bool is_green(GpuStream stream) noexcept;
  GpuContext* open_context(GpuContextHandle handle, GpuStream stream) noexcept;
  void look_up_device(GpuContext& context) noexcept;
  uint32_t create_events(GpuContext& context, uint32_t from, uint32_t to) noexcept;
  static bool is_sampled_out(GpuThread& thread, uint64_t hash) noexcept;
  void note_cost(GpuThread& thread, uint64_t behind_ticks, uint64_t stands_for) noexcept;
  void adapt(GpuThread& thread, uint64_t now_ticks) noexcept;
  void count_sampled_out(GpuThread& thread) noexcept {
    if (++thread.sampled_out >= kSampledOutKept) hand_over_sampled_out(thread);
  }
  // By a jump out of the call, since close() and opened() leave nothing.
  static bool is_left_open(const GpuThread& thread) noexcept {
    return thread.ticket != 0 || thread.pair != nullptr || thread.region != nullptr ||
           thread.lane.position != nullptr;
  }
  void plan_asked(GpuThread& thread, GpuStream stream, uint32_t group, const CommEntry* comm,
                  uint64_t hash, int status, GpuPlan& plan) noexcept;
  void mark_planned(GpuThread& thread, const GpuPlan& plan, OpRecord* record, uint64_t ticket,
                    GpuStream stream, uint32_t group) noexcept;
  bool close_marked(GpuThread& thread, OpRecord* record, uint64_t ticket,
                    GpuLaunch launch) noexcept;
  void mark_group_start(GpuThread& thread, uint32_t group) noexcept;
  void mark_group_end(GpuThread& thread, GpuLaunch launch) noexcept;
  GpuPair* find_free_pair(GpuContext& context) noexcept;
  bool grow(GpuContext& context) noexcept;
  GpuPair* take_pair(GpuContext& context) noexcept;
  void give_back(GpuPair& pair) noexcept { pair.state.store(GpuPair::free); }
  GpuPair* start_pair(GpuThread& thread, GpuContext& context, GpuStream stream,
                      uint64_t earliest_ticks) noexcept;
  void fly(GpuContext& context, GpuPair& pair) noexcept;
  bool keep_open(GpuThread& thread, OpRecord* record, uint64_t ticket) noexcept;
  void keep_group_open(GpuThread& thread) noexcept;
  void open_filled(GpuThread& thread) noexcept;
  void open_call(GpuThread& thread, GpuOpenEnd& end, uint64_t ticket) noexcept;
  void give_up_open_end(GpuThread& thread) noexcept;
  bool settle_end(GpuThread& thread, GpuOpenEnd& end, GpuEndName name, bool is_launched,
                  bool is_sure) noexcept;
  void finish_end(GpuOpenEnd& end, bool is_launched, bool is_own) noexcept;
  void finish_call(const GpuOpenEnd& end, bool is_launched, bool is_own) noexcept;
  void leave_unreachable(GpuGroup& group, bool is_own) noexcept;
  void give_marks_up(const GpuLaneMark& lane) noexcept;
  void give_marks_up(const GpuGroup::Entry& entry) noexcept;
  void finish_group(GpuGroup& group, bool is_launched, bool has_region, bool is_own) noexcept;
  bool record_end(const GpuContext& context, const GpuPair& pair, uint64_t first_ticket,
                  bool is_own) noexcept;
  GpuEndName end_name_of(uint64_t ticket) const noexcept;
  void note_launch(const GpuSpan& span) noexcept;
  bool is_reachable(const GpuContext& context, GpuStream stream) noexcept;
  bool joins_group(GpuThread& thread, uint32_t group, uint64_t hash, bool is_free) noexcept;
  static GpuGroup::Entry entry_of(GpuStream stream, GpuContext* context, uint32_t capture,
                                  int device, uint64_t ticket) noexcept;
  bool add_to_group(GpuGroup& group, const GpuGroup::Entry& added) noexcept;
  void mark_region(GpuThread& thread, const GpuPlan& plan, OpRecord* record, uint64_t ticket,
                   GpuStream stream, uint32_t group) noexcept;
  bool close_region(GpuThread& thread, OpRecord* record, bool is_launched) noexcept;
  void open_group_region(GpuThread& thread) noexcept;
  bool finish_region(GpuThread& thread, bool is_launched) noexcept;
  void poll_activity(double ticks_per_ns, bool is_last) noexcept;
  void plan_captured(GpuThread& thread, GpuStream stream, uint32_t group, GpuPlan& plan) noexcept;
  void mark_captured(GpuThread& thread, const GpuPlan& plan, uint64_t ticket, GpuStream stream,
                     uint32_t group) noexcept;
  bool has_words() noexcept;
  void prepare_words() noexcept;
  void write_progress(GpuStream stream, uint64_t ticket, GpuMark mark) noexcept;
  void write_word(GpuStream stream, uint64_t& word, uint64_t value) noexcept;
  void put_mark(GpuStream stream, const GpuLaneMark& lane, uint64_t value) noexcept;

  void poll_contexts(uint32_t contexts, double ticks_per_ns, bool asks_all) noexcept;
  void poll_context(GpuContext& context, double ticks_per_ns, bool asks_all) noexcept;
  int poll_pair(GpuContext& context, GpuPair& pair, double ticks_per_ns) noexcept;
  bool context_is_gone(const GpuContext& context) noexcept;
  void lose_context(GpuContext& context) noexcept;
  template <class Wanted>
  void lose_contexts(Wanted is_wanted) noexcept;
  void probe(GpuContext& context, double ticks_per_ns) noexcept;
  void take_reference(GpuContext& context, uint64_t before, uint64_t after,
                      double ticks_per_ns) noexcept;
  uint64_t time_of(GpuContext& context, GpuEvent event, uint64_t earliest, uint64_t latest,
                   double ticks_per_ns) noexcept;

  // What every operation looks at comes first.
  std::atomic<bool> stopped_;
  uint32_t budget_percent_;
  GpuActivity* activity_;
  SelfStatistics* stats_;
  GpuRecords records_;
  GpuDriver driver_;
  GpuFault fault_;
  std::atomic<uint32_t> context_count_;
  uint32_t polls_;
  pthread_mutex_t opening_;
  pthread_mutex_t polling_;  // held by the poller while it has its hands on contexts
  bool marks_graphs_;
  uint64_t* progress_;
  std::atomic<uint32_t> words_state_;  // WordsState
  std::atomic<const char*> words_text_;
  GpuWords words_;
  GpuCaptures captures_;
  GpuOpenEnds open_ends_;
  GpuGroup groups_[kGpuGroupsOpenMax];
  GpuContext contexts_[kGpuContextsMax];
};

}  // namespace rollcall::capture
