#include "core/capture/flusher.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/capture/back_off.h"
#include "core/capture/background_thread.h"
#include "core/capture/captured_ops.h"
#include "core/capture/chrome_trace.h"
#include "core/capture/history.h"
#include "core/capture/last_round.h"
#include "core/capture/live.h"
#include "core/capture/process_meta.h"
#include "core/capture/ring_opening.h"
#include "core/capture/segment_writer.h"
#include "core/capture/stack_file.h"
#include "core/capture/warning.h"
#include "core/format/stack_request.h"
#include "core/ring/memory_room.h"
#include "core/ring/mirror.h"
#include "core/ring/quiet_signals.h"

namespace rollcall::capture {

namespace {

constexpr uint32_t kAnchorPasses = 16;         // passes between two clock anchors
constexpr uint64_t kCapturedShare = 8;         // of the history's bound, at most
constexpr uint64_t kTraceAgeNs = 500'000'000;  // a Chrome trace lags by no more than this
// Between two copies of a ring that lives elsewhere: a reader on another machine sees the last
// second late, and a server hears from each process once in it.
constexpr uint64_t kMirrorPeriodNs = 1'000'000'000;
// Between two files of stacks, and at least as long as the last one took: whoever asks in a loop
// does not keep the records waiting for more than half of the time.
constexpr uint64_t kStacksPeriodNs = 100'000'000;

// Everything the flusher owns. One per process, in memory of its own that is never given back: it
// is used until the very end of the process.
struct Flusher {
  RingOpening opening;
  bool has_thread;
  bool lives_elsewhere;  // the ring: the run directory has a copy
  bool is_prepared;      // the stem is known
  ring::Mirror mirror;
  uint64_t last_mirror_ns;
  bool has_warned_of_mirror;
  char live_path[ring::kPathBytes];  // of such a ring; empty: in memory alone
  History history;
  SegmentWriter segments;
  CapturedOps captured;
  SegmentWriter captured_segments;
  ChromeTrace trace;
  bool writes_segments;
  bool writes_trace;
  uint64_t history_bytes_max;  // of all segments
  uint32_t passes;
  uint64_t last_trace_ns;
  uint32_t stacks_seen;
  uint64_t last_stacks_ns;
  uint64_t last_stacks_took_ns;
  // A block that could not be written: it is offered again before anything else is coded.
  std::span<const uint8_t> pending;
  BackOff back_off;
};

constinit Flusher* flusher = nullptr;
constinit LastRound last_round{};
// For where there is no thread: passes are made by those who end the process.
constinit pthread_mutex_t pass_mutex = PTHREAD_MUTEX_INITIALIZER;

void observe(void* flusher_state, const OpRecord& op) noexcept {
  auto& state = *static_cast<Flusher*>(flusher_state);
  if (state.writes_trace) state.trace.observe(op);
  if (state.writes_segments) state.captured.observe(op);
}

bool append(Flusher& state, SegmentWriter& segments, std::span<const uint8_t> block,
            uint64_t now_ns) noexcept {
  const bool is_written = segments.append(block);
  const uint64_t foreign = segments.take_foreign_files();
  if (foreign != 0) count(live.stats->history_errors, foreign);
  if (!is_written) {
    count(live.stats->history_errors);
    state.back_off.failed(now_ns);
    return false;
  }
  count(live.stats->history_bytes, block.size());
  store_relaxed(live.stats->history_dropped_files,
                state.segments.dropped_files() + state.captured_segments.dropped_files());
  state.back_off.succeeded();
  return true;
}

// What was captured of the last block. It is kept until it is written, and nothing is coded before.
bool write_captured(Flusher& state, uint64_t now_ns) noexcept {
  const std::span<const uint8_t> block = state.captured.block();
  if (block.empty()) return true;
  if (!append(state, state.captured_segments, block, now_ns)) return false;
  state.captured.clear();
  // One bound holds for all.
  const uint64_t bytes_max = state.history_bytes_max;
  state.segments.set_bytes_max(bytes_max -
                               std::min(bytes_max, state.captured_segments.held_bytes()));
  return true;
}

bool write_block(Flusher& state, std::span<const uint8_t> block, uint64_t now_ns) noexcept {
  if (block.empty() || !state.writes_segments) return true;
  if (!append(state, state.segments, block, now_ns)) {
    state.pending = block;
    return false;
  }
  store_relaxed(live.header->segment_count, uint64_t{state.segments.segment_count()});
  state.pending = {};
  return write_captured(state, now_ns);
}

// Without segments the records stay where they are: in the ring.
void note_progress(const Flusher& state) noexcept {
  if (state.writes_segments) store_release(live.header->flushed_ticket, state.history.tail());
}

// True when the disk took everything there was to take.
bool write_history(Flusher& state, bool everything, uint64_t now_ns) noexcept {
  const bool is_behind = !state.pending.empty() || state.captured.has_any();
  if (is_behind) {
    if (!state.back_off.may_try(now_ns) && !everything) return false;
    if (!write_block(state, state.pending, now_ns) || !write_captured(state, now_ns)) return false;
    note_progress(state);
  }
  const RecordObserver observer{observe, &state};
  for (;;) {
    const std::span<const uint8_t> late = state.history.next_late_block(&observer);
    if (!write_block(state, late, now_ns)) return false;
    if (late.empty()) break;
  }
  // What comes meanwhile has its turn in the next pass: in a rush there would be no end of it.
  const uint64_t end = load_acquire(live.header->next_ticket);
  while (state.history.tail() < end && (everything || state.history.block_is_due())) {
    const uint64_t before = state.history.tail();
    if (!write_block(state, state.history.next_block(everything, &observer), now_ns)) return false;
    if (!write_block(state, state.history.next_digest_block(), now_ns)) return false;
    if (state.history.late_is_urgent() &&
        !write_block(state, state.history.next_late_block(&observer), now_ns)) {
      return false;
    }
    // After the write: until then a reader should look for the records in the ring.
    note_progress(state);
    if (state.history.tail() == before) break;
  }
  return true;
}

void report_counts(Flusher& state) noexcept {
  const History::Counts counts = state.history.take_counts();
  if (counts.records != 0 && state.writes_segments) {
    count(live.stats->history_records, counts.records);
  }
  if (counts.lost != 0) count(live.stats->history_lost, counts.lost);
  if (counts.late_overflow != 0) count(live.stats->late_overflow, counts.late_overflow);
}

bool has_exited() noexcept {
  return load_relaxed(live.header->exit_state) == static_cast<uint32_t>(ExitState::exited);
}

void prepare(Flusher& state) noexcept;

// The stem of what lies in the run directory is that of the copy. Until it can be made there is
// neither history nor a trace.
bool make_mirror(Flusher& state) noexcept {
  TextWriter stem{stem_storage()};
  if (!state.mirror.is_begun() && !state.mirror.begin(ring_file())) return false;
  if (!ring::make_directories(run_directory())) return false;
  if (!state.mirror.create(run_directory(), state.opening.incarnation(), stem)) return false;
  set_file_stem(stem.bytes());
  prepare(state);
  return true;
}

void warn_of_mirror(const Flusher& state, int error) noexcept {
  char reason[128] = {};
  const char* text = strerror_r(error, reason, sizeof(reason));
  TextBuffer<kSentenceBytes> sentence;
  sentence.text("cannot write to ").text(run_directory()).text(": ").text(text);
  sentence.text("; the job goes on and is recorded in ");
  if (state.live_path[0] != '\0') {
    sentence.text(state.live_path).text(", which `rollcall diff` reads on this host");
  } else {
    sentence.text("its own memory, which is gone with it; set ROLLCALL_LOCAL_DIR");
  }
  write_warning(1, sentence.view());
}

void keep_mirror(Flusher& state, bool everything) noexcept {
  const uint64_t now_ns = monotonic_now_ns();
  if (!everything && state.last_mirror_ns != 0 && now_ns - state.last_mirror_ns < kMirrorPeriodNs) {
    return;
  }
  const bool is_copied =
      (state.mirror.is_created() || make_mirror(state)) && state.mirror.copy(ticks_now());
  if (!is_copied) {
    const int error = errno;
    count(live.stats->history_errors);
    if (!state.has_warned_of_mirror) warn_of_mirror(state, error);
    state.has_warned_of_mirror = true;
  }
  // Nobody needs the ring itself any more, once its process has ended by itself and all is copied.
  if (is_copied && everything && has_exited() && state.live_path[0] != '\0') {
    unlink(state.live_path);
    state.live_path[0] = '\0';
  }
  // Behind the work: a file system that takes long over it has as long for the history.
  state.last_mirror_ns = monotonic_now_ns();
}

// Records and trace. True where the disk takes what it is given, and the next blocks are waiting.
bool flush(Flusher& state, bool everything) noexcept {
  const uint64_t began_ns = monotonic_now_ns();
  const bool trace_is_due = state.writes_trace && began_ns - state.last_trace_ns >= kTraceAgeNs &&
                            state.history.tail() != load_relaxed(live.header->next_ticket);
  const bool work = everything || trace_is_due || !state.pending.empty() ||
                    state.captured.has_any() || state.history.late_count() != 0 ||
                    state.history.block_is_due();
  if (!work) return false;
  if (state.writes_trace) state.trace.set_clock(conversion_by(newest_anchor()));
  const bool is_written = write_history(state, everything || trace_is_due, began_ns);
  if (state.writes_trace && (trace_is_due || everything)) {
    state.trace.flush();
    state.last_trace_ns = began_ns;
  }
  report_counts(state);
  count(live.stats->flush_passes);
  count(live.stats->flush_ns, monotonic_now_ns() - began_ns);
  return is_written && state.history.block_is_due();
}

// By the flusher's thread, or where there is none with pass_mutex held. The copy of the ring comes
// last: it tells what is in the history.
bool pass(Flusher& state, bool everything) noexcept {
  store_relaxed(live.header->heartbeat_ticks, ticks_now());
  if (state.passes++ % kAnchorPasses == 0 || everything) refresh_anchor();
  if (state.lives_elsewhere && !state.is_prepared) keep_mirror(state, everything);
  const bool has_more = state.is_prepared && (state.writes_segments || state.writes_trace) &&
                        flush(state, everything);
  if (state.lives_elsewhere && state.is_prepared) keep_mirror(state, everything);
  return has_more;
}

bool has_work(const Flusher& state) noexcept {
  return config().history || config().chrome_trace || state.lives_elsewhere;
}

// Says where all threads stand, where a reader has asked for it.
void answer_for_stacks(Flusher& state) noexcept {
  auto& request = *reinterpret_cast<StackRequest*>(ring_file().memory + kStackRequestOffset);
  const uint32_t wanted = load_acquire(request.wanted);
  if (wanted == state.stacks_seen || file_stem().empty()) return;
  const uint64_t now_ns = monotonic_now_ns();
  const uint64_t pause_ns = std::max(kStacksPeriodNs, state.last_stacks_took_ns);
  if (state.last_stacks_ns != 0 && now_ns - state.last_stacks_ns < pause_ns) return;
  state.stacks_seen = wanted;
  // Where it cannot be written there is no answer, and the reader looks from outside.
  if (write_stacks(run_directory(), file_stem())) {
    store_release(request.written, wanted);
  }
  state.last_stacks_ns = monotonic_now_ns();
  state.last_stacks_took_ns = state.last_stacks_ns - now_ns;
}

void work_until_off(Flusher& state) noexcept {
  bool has_more = false;
  for (;;) {
    const bool is_last = last_round.sleep(has_more ? 0 : kFlushPeriodMs);
    // Switched off: the mapping stays, but what is in it is no longer trusted.
    const Mode mode = live.mode.load(std::memory_order_acquire);
    const bool works = mode != Mode::off && (is_last || mode == Mode::recording);
    has_more = works && pass(state, is_last);
    if (works && !is_last) answer_for_stacks(state);
    if (mode == Mode::off) break;
    if (is_last) last_round.served();
  }
  // A copy is judged like the ring by whoever reads it.
  if (state.lives_elsewhere) keep_mirror(state, true);
  last_round.leave();
}

void* run_flusher(void* argument) {
  auto* state = static_cast<Flusher*>(argument);
  state->opening.work();
  if (!state->opening.await_release() || !has_work(*state)) return nullptr;
  if (!state->lives_elsewhere) prepare(*state);
  work_until_off(*state);
  return nullptr;
}

// Ticks are kept to about 16 ns in history: a fraction of the time that a call takes, and two bits
// less for each doubling.
uint32_t choose_time_shift() noexcept { return clock_kind() == ClockKind::tsc ? 5 : 4; }

// What nobody asked for takes little of the memory, where the run directory lies there.
uint64_t choose_history_bytes() noexcept {
  const uint64_t bytes_max = config().max_history_bytes;
  if (config().has_max_history) return bytes_max;
  const int directory = open(run_directory(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  const bool is_in_memory = directory >= 0 && ring::is_in_memory(directory);
  if (directory >= 0) close(directory);
  if (!is_in_memory) return bytes_max;
  return std::min(bytes_max, ring::history_bytes_in_memory(ring::read_memory_room()));
}

// Of a run directory whose path leaves room for the ring's name, but not for the others.
void note_long_path(const char* what) noexcept {
  count(live.stats->history_errors);
  TextBuffer<kSentenceBytes> sentence;
  sentence.text("no ").text(what).text(
      " is written: its path would be longer than 4095 bytes; set ");
  write_warning(1, sentence.text("ROLLCALL_DIR to a directory with a shorter path").view());
}

void prepare(Flusher& state) noexcept {
  const Config& configuration = config();
  const ring::Incarnation& self = ring_file().incarnation;
  state.history.begin(live.ops, {.time_shift = choose_time_shift(), .first_ticket = 1});
  static char stem[kFileNameBytes + 1];
  TextWriter stem_writer{std::span<char>(stem)};
  stem_writer.text(file_stem());
  state.writes_segments = configuration.history;
  state.history_bytes_max = choose_history_bytes();
  SegmentWriter::Options options{.directory = run_directory(),
                                 .stem = stem_writer.c_str(),
                                 .kind = SegmentKind::history,
                                 .pid = self.pid,
                                 .start_time_ticks = self.start_time_ticks,
                                 .run_id = self.run_id,
                                 .time_shift = choose_time_shift(),
                                 .bytes_max = state.history_bytes_max};
  const bool has_names = state.segments.begin(options);
  state.captured.begin(choose_time_shift());
  options.kind = SegmentKind::captured;
  options.bytes_max = state.history_bytes_max / kCapturedShare;
  const bool has_captured_names = state.captured_segments.begin(options);
  if (state.writes_segments && !(has_names && has_captured_names)) {
    state.writes_segments = false;
    note_long_path("history");
  }
  state.writes_trace = configuration.chrome_trace;
  unsigned rank = 0;
  std::string_view from;
  const bool has_rank = find_job_rank(rank, from);
  if (state.writes_trace) {
    state.writes_trace = state.trace.begin({.directory = run_directory(),
                                            .stem = stem_writer.c_str(),
                                            .pid = self.pid,
                                            .job_rank = has_rank ? static_cast<int32_t>(rank) : -1,
                                            .comms = live.known_comms,
                                            .threads = live.threads,
                                            .stats = live.stats});
    if (!state.writes_trace) note_long_path("Chrome trace");
  }
  state.last_trace_ns = monotonic_now_ns();
  state.is_prepared = true;
}

// For the caller: in the local place.
bool open_elsewhere(const ring::Incarnation& incarnation, const RingGeometry& geometry,
                    OpenedRing& opened) noexcept {
  flusher->lives_elsewhere = true;
  TextWriter path{std::span<char>(flusher->live_path, sizeof(flusher->live_path) - 1)};
  if (ring::create_live_ring(config().local_directory, incarnation, geometry, opened.file, path,
                             opened.error)) {
    path.c_str();
    return true;
  }
  opened.place = run_directory();
  return false;
}

}  // namespace

bool open_ring(const ring::Incarnation& incarnation, const RingGeometry& geometry,
               OpenedRing& opened) noexcept {
  if (flusher == nullptr) {
    void* memory = mmap(nullptr, sizeof(Flusher), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      opened.error = {"get memory to record to", errno};
      opened.place = run_directory();
      return false;
    }
    flusher = new (memory) Flusher;
  }
  RingOpening& opening = flusher->opening;
  opening.begin(run_directory(), incarnation, geometry);
  flusher->has_thread = start_background_thread("rollcall", run_flusher, flusher);
  if (!flusher->has_thread) opening.work();
  switch (opening.await_decision()) {
    case RingOpening::Decision::direct:
      opened.file = opening.file();
      opened.stem = opening.stem();
      return true;
    case RingOpening::Decision::elsewhere:
      return open_elsewhere(incarnation, geometry, opened);
    default:
      opened.error = opening.error();
      opened.place = run_directory();
      return false;
  }
}

void start_flusher() noexcept {
  live.has_flusher = flusher->has_thread && has_work(*flusher);
  if (!flusher->has_thread && has_work(*flusher) && !flusher->lives_elsewhere) prepare(*flusher);
  flusher->opening.release();
}

void cancel_flusher() noexcept {
  if (flusher != nullptr) flusher->opening.cancel();
}

void flush_now() noexcept {
  if (flusher == nullptr || live.header == nullptr || !has_work(*flusher)) return;
  if (live.has_flusher) {
    last_round.ask();
    return;
  }
  pthread_mutex_lock(&pass_mutex);
  const ring::QuietSignals quiet;
  pass(*flusher, true);
  pthread_mutex_unlock(&pass_mutex);
}

void forget_flusher() noexcept {
  // The memory is a copy of the parent's; giving it back is cheaper than copying it on write.
  pass_mutex = PTHREAD_MUTEX_INITIALIZER;
  last_round.forget();
  if (flusher == nullptr) return;
  munmap(static_cast<void*>(flusher), sizeof(Flusher));
  flusher = nullptr;
}

}  // namespace rollcall::capture
