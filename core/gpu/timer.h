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
// Threads: mark(), close() and the group functions from any thread, each with its own Thread;
// poll() from one thread at a time. Errors: a context that answers with an error, is no longer
// active, or is about to be destroyed by the job, is given up: its operations keep what is known of
// them, and nothing of it is touched again. Handles are the driver's memory, so asking for an event
// of a context that is gone may crash the job: the calls that end one are heard (hold_poller), and
// wait until the poller has its hands off. The first call that the driver refuses is kept
// (Fault), for everything else here is only counted.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "core/base/limits.h"
#include "core/format/ring_layout.h"
#include "core/gpu/activity.h"
#include "core/gpu/captures.h"
#include "core/gpu/driver.h"
#include "core/gpu/open_ends.h"
#include "core/gpu/records.h"
#include "core/gpu/words.h"
#include "core/ring/slot.h"

namespace rollcall::gpu {

// Two events and what lies between them.
struct Pair {
  enum State : uint32_t { absent, free, taken, in_flight };
  std::atomic<uint32_t> state;
  uint32_t group;  // 0: one operation
  Event start;
  Event end;
  Stream stream;
  uint64_t first_ticket;  // of the operations, both included
  uint64_t last_ticket;
  uint64_t earliest_ticks;  // before the event that is asked next was recorded
  uint32_t is_started;      // the poller has published the start
  uint32_t reserved;

  Span span() const noexcept { return {first_ticket, last_ticket, group, stream}; }
};

// A point on the GPU's clock and the interval of host ticks that it lies in.
struct Reference {
  Event event;
  uint64_t earliest_ticks;
  uint64_t latest_ticks;
};

struct Context {
  enum State : uint32_t { unused, alive, lost };
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> pair_count;  // power of two; pairs beyond it have no events yet
  std::atomic<uint64_t> next_pair;
  // A pair may be in flight. Launching threads say so behind its state, the poller takes it back in
  // front of a look at all of them: no count that both would have to lock.
  std::atomic<bool> has_flown;
  ContextHandle handle;
  int device;
  bool is_primary;
  bool cannot_be_opened;
  // The poller's.
  Stream probe_stream;
  Reference reference;  // event null: none yet
  Event probe;          // spare event; recorded while probe_before_ticks is not 0
  uint64_t probe_before_ticks;
  Pair pairs[kGpuPairsMax];
};

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
  Stream stream = nullptr;  // the last one, and the context it belongs to
  Context* context = nullptr;
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

  // --- contexts that the job ends, by a call of its own, on any thread
  // Between the two nobody polls. False: the poller does not let go; then there is nothing to
  // release.
  bool hold_poller() noexcept;
  void release_poller() noexcept;
  void context_ends(ContextHandle context) noexcept;
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
  const Fault& fault() const noexcept { return fault_; }

 private:
  enum WordsState : uint32_t { untried, usable, unusable };
  struct BlockedStreams {
    Stream stream[16];
    unsigned count = 0;
    bool has(Stream wanted) const noexcept;
    void add(Stream blocked) noexcept;
  };

  // A call of the driver's; a refusal is kept where it is the first.
  template <auto kFunction, class... Arguments>
  int ask(Arguments... arguments) noexcept {
    const int result = (driver_.*kFunction)(arguments...);
    if (__builtin_expect(result != kSuccess && result != kNotReady, 0)) {
      fault_.note(kFunctionName<kFunction>, result);
    }
    return result;
  }

  Context* context_of(Thread& thread, Stream stream, int device) noexcept;
  Context* find_context(ContextHandle handle) noexcept;
  bool is_green(Stream stream) noexcept;
  Context* open_context(ContextHandle handle, Stream stream) noexcept;
  void look_up_device(Context& context) noexcept;
  uint32_t create_events(Context& context, uint32_t from, uint32_t to) noexcept;
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
  Pair* find_free_pair(Context& context) noexcept;
  bool grow(Context& context) noexcept;
  Pair* take_pair(Context& context) noexcept;
  void give_back(Pair& pair) noexcept { pair.state.store(Pair::free); }
  Pair* start_pair(Thread& thread, Context& context, Stream stream,
                   uint64_t earliest_ticks) noexcept;
  void fly(Context& context, Pair& pair) noexcept;
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
  bool record_end(const Context& context, const Pair& pair, uint64_t first_ticket,
                  bool is_own) noexcept;
  EndName end_name_of(uint64_t ticket) const noexcept;
  void note_launch(const Span& span) noexcept;
  bool is_reachable(const Context& context, Stream stream) noexcept;
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

  void poll_contexts(uint32_t contexts, double ticks_per_ns, bool asks_all) noexcept;
  void poll_context(Context& context, double ticks_per_ns, bool asks_all) noexcept;
  int poll_pair(Context& context, Pair& pair, double ticks_per_ns) noexcept;
  bool context_is_gone(const Context& context) noexcept;
  void lose_context(Context& context) noexcept;
  template <class Wanted>
  void lose_contexts(Wanted is_wanted) noexcept;
  void probe(Context& context, double ticks_per_ns) noexcept;
  void take_reference(Context& context, uint64_t before, uint64_t after,
                      double ticks_per_ns) noexcept;
  uint64_t time_of(Context& context, Event event, uint64_t earliest, uint64_t latest,
                   double ticks_per_ns) noexcept;

  // What every operation looks at comes first.
  std::atomic<bool> stopped_;
  uint32_t budget_percent_;
  Activity* activity_;
  SelfStatistics* stats_;
  Records records_;
  Driver driver_;
  Fault fault_;
  std::atomic<uint32_t> context_count_;
  uint32_t polls_;
  pthread_mutex_t opening_;
  pthread_mutex_t polling_;  // held by the poller while it has its hands on contexts
  bool marks_graphs_;
  uint64_t* progress_;
  std::atomic<uint32_t> words_state_;  // WordsState
  std::atomic<const char*> words_text_;
  Words words_;
  Captures captures_;
  OpenEnds open_ends_;
  Group groups_[kGpuGroupsOpenMax];
  Context contexts_[kGpuContextsMax];
};

}  // namespace rollcall::gpu
