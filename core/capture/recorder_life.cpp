// The recorder's life: lazy start, threads, fork, pause, exit, and switching itself off.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/capture/flusher.h"
#include "core/capture/live.h"
#include "core/capture/process_meta.h"
#include "core/capture/warning.h"

namespace rollcall::capture {

namespace {

constinit ring::RingFile mapped{};
constinit uint64_t ring_full_until = 0;  // ring::Slots
constinit char directory_text[ring::kPathBytes]{};
constinit char local_text[ring::kPathBytes]{};
constinit char cupti_text[ring::kPathBytes]{};
constinit char stem_text[kFileNameBytes]{};
constinit std::atomic<size_t> stem_bytes{0};
constinit Config current_config{};
constinit std::atomic<uint64_t> starts{0};
constinit std::atomic<bool> fork_handlers{false};
constinit std::atomic<bool> quick_exit_handler{false};
constinit std::atomic<bool> stopping{false};  // fail_check is reporting

// NCCL calls itself once or more in every call. A thread says so in the file after so many: that is
// a locked instruction, which waits for all that the thread has stored before. What other threads
// keep when the process ends, or a thread when it ends before, is not counted.
constexpr uint32_t kNestedCallsKept = 16;

void hand_over_nested_calls(ThreadState& thread) noexcept {
  // Taken first: a signal handler that ends the process hands over, too.
  const uint32_t kept = thread.nested_calls;
  thread.nested_calls = 0;
  count(live.stats->nested_calls, kept);
}

// What a thread has kept of its own; of a parent process's thread it is not this file's.
void hand_over_counts(ThreadState& thread) noexcept {
  if (thread.incarnation != live.incarnation.load(std::memory_order_acquire)) return;
  hand_over_nested_calls(thread);
  gpu::Timer* timer = live.gpu.load(std::memory_order_acquire);
  if (timer != nullptr) timer->hand_over_sampled_out(thread.gpu);
}

uint64_t elapsed_ns(uint64_t since_ns) noexcept { return monotonic_now_ns() - since_ns; }

// --- fork ---------------------------------------------------------------------------------------

void after_fork_in_parent() {
  if (live.incarnation.load(std::memory_order_acquire) != 0) count(live.stats->forks);
}

// The child starts over. Only the forking thread exists here; the locks, those in `live` among
// them, may have been held by others.
void after_fork_in_child() {
  const KeepErrno keep;
  memset(static_cast<void*>(&live), 0, sizeof(live));
  stopping.store(false, std::memory_order_relaxed);
  ring::abandon_ring_file(mapped);
  forget_flusher();
  forget_gpu_timing();
  reset_comm_table();
  reset_groups();
}

void guard_against_forks() noexcept {
  // Where the pages are larger, or the loader did not align as it was told, the advice would reach
  // what lies beside `live`; only children made behind the C library's back are then not told
  // apart.
  const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (kLivePageBytes % page_bytes == 0 && reinterpret_cast<uintptr_t>(&live) % page_bytes == 0) {
    madvise(&live, sizeof(live), MADV_WIPEONFORK);
  }
  if (fork_handlers.load(std::memory_order_acquire)) return;
  pthread_atfork(nullptr, after_fork_in_parent, after_fork_in_child);
  // Behind it: a child that is forked in between registers them for its own children.
  fork_handlers.store(true, std::memory_order_release);
}

// When the library is loaded, and not with the first call: a child that is forked beside another
// thread's first call would inherit the lock held.
[[gnu::constructor]] void guard_from_the_start() { guard_against_forks(); }

// --- end ----------------------------------------------------------------------------------------

// The exit record; false where there is nothing to say, or it was said. Takes no lock and waits for
// nobody.
bool mark_exited(int64_t how) noexcept {
  // Nothing recorded: nothing to say, and nothing to start at this hour.
  const uint32_t number = process_number();
  if (number == 0) return false;
  // A child of vfork runs on its parent's memory: it ends, the recording process does not.
  if (number != static_cast<uint32_t>(syscall(SYS_getpid))) return false;
  if (live.has_exited.exchange(true, std::memory_order_acq_rel)) return false;
  store_release(live.header->exit_state, static_cast<uint32_t>(ExitState::exited));
  hand_over_counts(this_thread);
  note_event({.kind = EventKind::ProcessExit, .arguments = {how}}, kResultSuccess);
  store_release(live.header->exited_ticks, ticks_now());
  refresh_anchor();
  return true;
}

// quick_exit runs no destructor, and inside the C library it ends by an `_exit` that nobody can
// interpose.
void watch_quick_exit() noexcept {
  if (quick_exit_handler.load(std::memory_order_acquire)) return;
  at_quick_exit(note_immediate_exit);
  quick_exit_handler.store(true, std::memory_order_release);
}

// --- start --------------------------------------------------------------------------------------

void complain(std::string_view sentence) { write_warning(1, sentence); }

void warn_off(const OpenedRing& opened) noexcept {
  const ring::RingError& error = opened.error;
  char reason[128] = {};
  const char* text = strerror_r(error.error_number, reason, sizeof(reason));
  TextBuffer<kSentenceBytes> sentence;
  sentence.text("cannot ").text(error.step != nullptr ? error.step : "start in");
  sentence.character(' ').text(opened.place).text(": ").text(text);
  sentence.text(
      "; nothing is recorded, the job goes on (set ROLLCALL_DIR to a writable directory)");
  write_warning(1, sentence.view());
}

bool open_files() noexcept {
  ring::Incarnation incarnation = ring::read_incarnation();
  incarnation.run_id = current_config.run_id;
  const RingGeometry geometry{.ring_slots = current_config.ring_slots};
  OpenedRing opened;
  if (!open_ring(incarnation, geometry, opened)) {
    cancel_flusher();
    warn_off(opened);
    return false;
  }
  mapped = opened.file;
  TextWriter stem{std::span<char>(stem_text)};
  stem_bytes.store(stem.text(opened.stem).bytes(), std::memory_order_release);
  return true;
}

void point_live_at_file() noexcept {
  FileHeader& header = *mapped.header;
  live.header = &header;
  live.noted_state.store(CaptureState::recording, std::memory_order_relaxed);
  live.first_anchor = header.first_anchor;
  live.stats = mapped.stats;
  live.comms = mapped.comms;
  live.threads = mapped.threads;
  live.channels = mapped.channels;
  live.kernel_phases = mapped.kernel_phases;
  live.meta = mapped.meta;
  ring_full_until = 0;
  live.ops = {mapped.ops, &header.next_ticket, current_config.ring_slots - 1,
              &mapped.stats->stepped_over, &ring_full_until};
  live.events = {mapped.events, &header.next_event_ticket, kEventSlots - 1,
                 &mapped.stats->events_stepped_over};
}

// One word per slot, beside the file: who holds a record is nothing a reader needs.
bool map_holds() noexcept {
  const size_t bytes = size_t{current_config.ring_slots} * sizeof(*live.holds);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  live.holds = static_cast<std::atomic<uint32_t>*>(memory);
  return true;
}

// The job may change its working directory; the flusher opens files by name all the time.
void write_absolute(TextWriter& out, std::string_view path) noexcept {
  static constinit char working_directory[ring::kPathBytes];  // ColdLock held
  if (!path.starts_with('/') && getcwd(working_directory, sizeof(working_directory)) != nullptr) {
    out.text(working_directory).character('/');
  }
  out.text(path);
}

// A launcher that restarts a job starts other processes under the same ranks: each attempt is a run
// of its own, in a directory beside the others.
void write_attempt(TextWriter& out) noexcept {
  const char* most = getenv("TORCHELASTIC_MAX_RESTARTS");
  const char* attempt = getenv("TORCHELASTIC_RESTART_COUNT");
  uint64_t restarts_max = 0;
  uint64_t number = 0;
  if (most == nullptr || !parse_decimal(most, restarts_max) || restarts_max == 0) return;
  if (attempt == nullptr || !parse_decimal(attempt, number)) return;
  out.text("/attempt-").number(number);
}

// ColdLock held. The order matters: the file is whole before the magic, the magic before the first
// record; the incarnation, which lets the other threads in, behind all that they use; and the mode,
// which makes them come for it, last of all.
bool start() noexcept {
  detect_clock();
  const uint64_t began_ns = monotonic_now_ns();
  guard_against_forks();
  watch_quick_exit();
  current_config = read_config(complain);
  set_verbosity(current_config.verbose);
  TextWriter directory{std::span<char>(directory_text)};
  write_absolute(directory, current_config.directory);
  write_attempt(directory);
  current_config.directory = directory.c_str();
  TextWriter local{std::span<char>(local_text)};
  write_absolute(local, current_config.local_directory);
  current_config.local_directory = local.c_str();
  if (current_config.cupti != nullptr) {
    TextWriter cupti{std::span<char>(cupti_text)};
    current_config.cupti = cupti.text(current_config.cupti).c_str();
  }
  if (!current_config.enable || !map_holds() || !map_known_comms() || !open_files()) {
    live.mode.store(Mode::off, std::memory_order_release);
    return false;
  }
  point_live_at_file();
  write_process_meta(current_config);
  write_sticky_meta();
  store_relaxed(live.header->heartbeat_ticks, ticks_now());
  refresh_anchor();
  ring::finish_ring_file(mapped);
  const uint64_t number = starts.fetch_add(1, std::memory_order_relaxed) + 1;
  live.incarnation.store(uint64_t{mapped.incarnation.pid} << 32 | number,
                         std::memory_order_release);
  // Behind it: who finds the mode unstarted waits for the lock, who finds it recording may enter.
  live.mode.store(Mode::recording, std::memory_order_release);
  start_flusher();
  live.wants_gpu.store(current_config.gpu_timing != GpuTiming::off, std::memory_order_release);
  count(live.stats->slow_path_ns, elapsed_ns(began_ns));
  TextBuffer<kSentenceBytes> sentence;
  sentence.text("recording to ").text(run_directory());
  if (!file_stem().empty()) sentence.character('/').text(file_stem()).text(kRingEnding);
  write_warning(2, sentence.view());
  return true;
}

void announce_thread(ThreadState& thread) noexcept {
  uint32_t index = live.thread_count.load(std::memory_order_relaxed);
  while (index < kThreadsMax &&
         !live.thread_count.compare_exchange_weak(index, index + 1, std::memory_order_relaxed)) {
  }
  thread.index = index < kThreadsMax ? index : kThreadUnknown;
  if (thread.index == kThreadUnknown) {
    count(live.stats->thread_table_full);
    return;
  }
  add_relaxed(live.header->thread_count, uint32_t{1});
  ThreadEntry& entry = live.threads[index];
  entry.first_ticks = ticks_now();
  prctl(PR_GET_NAME, entry.name);
  store_release(entry.tid, static_cast<uint32_t>(syscall(SYS_gettid)));
}

}  // namespace

void ColdLock::keep_to_itself() noexcept {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_before_);
  sigset_t others;
  sigfillset(&others);
  // What the thread's own instructions raise is delivered in any case: better to its handler.
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
    sigdelset(&others, own);
  }
  pthread_sigmask(SIG_BLOCK, &others, &mask_before_);
}

ColdLock::ColdLock() noexcept {
  keep_to_itself();
  is_held_ = pthread_mutex_lock(&live.cold_mutex) == 0;
}
ColdLock::ColdLock(std::try_to_lock_t) noexcept {
  keep_to_itself();
  is_held_ = pthread_mutex_trylock(&live.cold_mutex) == 0;
}
ColdLock::~ColdLock() {
  if (is_held_) pthread_mutex_unlock(&live.cold_mutex);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  pthread_setcancelstate(cancel_before_, nullptr);
}

const char* run_directory() noexcept { return directory_text; }
std::string_view file_stem() noexcept {
  return {stem_text, stem_bytes.load(std::memory_order_acquire)};
}
std::span<char> stem_storage() noexcept { return stem_text; }
void set_file_stem(size_t bytes) noexcept { stem_bytes.store(bytes, std::memory_order_release); }
const Config& config() noexcept { return current_config; }
const ring::RingFile& ring_file() noexcept { return mapped; }

[[gnu::noinline, gnu::cold]] bool enter_slowly(ThreadState& thread) noexcept {
  const KeepErrno keep;
  if (live.mode.load(std::memory_order_acquire) == Mode::unstarted) {
    const ColdLock lock;
    if (live.mode.load(std::memory_order_acquire) == Mode::unstarted) {
      // A child made behind the C library's back still has the parent's mapping.
      if (mapped.header != nullptr && mapped.incarnation.pid != static_cast<uint32_t>(getpid())) {
        ring::abandon_ring_file(mapped);
        forget_flusher();
        forget_gpu_timing();
        reset_comm_table();
      }
      start();
    }
  }
  const uint64_t incarnation = live.incarnation.load(std::memory_order_acquire);
  if (incarnation == 0) {
    if (live.stats != nullptr) count(live.stats->dropped_off);
    return false;
  }
  const uint64_t began_ns = monotonic_now_ns();
  announce_thread(thread);
  thread.gpu_wanted_with = nullptr;
  thread.nested_calls = 0;
  thread.gpu = {};
  thread.tickets = {};
  thread.incarnation = incarnation;
  count(live.stats->slow_path_ns, elapsed_ns(began_ns));
  return true;
}

[[gnu::noinline, gnu::cold]] bool note_pause(bool paused) noexcept {
  const CaptureState now = paused ? CaptureState::paused : CaptureState::recording;
  CaptureState other = paused ? CaptureState::recording : CaptureState::paused;
  // Of several threads that see the change one reports it.
  if (live.noted_state.compare_exchange_strong(other, now, std::memory_order_relaxed)) {
    store_relaxed(live.header->capture_state, static_cast<uint32_t>(now));
    note_event({.kind = paused ? EventKind::CapturePaused : EventKind::CaptureResumed},
               kResultSuccess);
  }
  return paused;
}

void refresh_anchor() noexcept {
  // Another thread's is as good.
  if (live.refreshes_anchor.exchange(true, std::memory_order_acquire)) return;
  FileHeader& header = *live.header;
  const uint64_t next = live.anchor_count.load(std::memory_order_relaxed) + 1;
  const ClockAnchor anchor = read_anchor();
  for (ClockAnchor* copies : {live.latest_anchor, header.latest_anchor}) {
    ClockAnchor& copy = copies[next & 1];
    std::atomic_thread_fence(std::memory_order_release);  // newest_anchor() sees the count before
    store_relaxed(copy.ticks, anchor.ticks);
    store_relaxed(copy.monotonic_ns, anchor.monotonic_ns);
    store_relaxed(copy.realtime_ns, anchor.realtime_ns);
    store_relaxed(copy.error_ns, anchor.error_ns);
  }
  live.anchor_count.store(next, std::memory_order_release);
  store_release(header.anchor_count, next);
  live.refreshes_anchor.store(false, std::memory_order_release);
}

void count_statistic(uint64_t SelfStatistics::*statistic) noexcept {
  if (live.incarnation.load(std::memory_order_acquire) != 0) count(live.stats->*statistic);
}

uint32_t process_number() noexcept {
  return static_cast<uint32_t>(live.incarnation.load(std::memory_order_acquire) >> 32);
}

namespace {

struct Rate {
  ClockAnchor anchor;
  TickConversion conversion;
};

Rate current_rate() noexcept {
  const ClockAnchor latest = newest_anchor();
  return {latest, conversion_by(latest)};
}

}  // namespace

TickConversion conversion_by(const ClockAnchor& latest) noexcept {
  return {clock_kind(), live.first_anchor, latest};
}

// In a process that has just begun there is none but the first.
ClockAnchor newest_anchor() noexcept {
  const uint64_t anchors = live.anchor_count.load(std::memory_order_acquire);
  const ClockAnchor& newest = live.latest_anchor[anchors & 1];
  const ClockAnchor copy{load_relaxed(newest.ticks), load_relaxed(newest.monotonic_ns),
                         load_relaxed(newest.realtime_ns), load_relaxed(newest.error_ns)};
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint64_t anchors_now = live.anchor_count.load(std::memory_order_relaxed);
  return anchors != 0 && anchors_now == anchors ? copy : read_anchor();
}

uint64_t monotonic_of_ticks(uint64_t ticks) noexcept {
  if (live.incarnation.load(std::memory_order_acquire) == 0) return 0;
  const Rate rate = current_rate();
  if (!rate.conversion.is_calibrated()) return 0;
  const ClockAnchor& anchor = rate.anchor;
  return ticks >= anchor.ticks
             ? anchor.monotonic_ns + rate.conversion.span_ns(ticks - anchor.ticks)
             : anchor.monotonic_ns - rate.conversion.span_ns(anchor.ticks - ticks);
}

uint64_t ticks_of_monotonic(uint64_t monotonic_ns) noexcept {
  if (live.incarnation.load(std::memory_order_acquire) == 0) return 0;
  const Rate rate = current_rate();
  if (!rate.conversion.is_calibrated()) return 0;
  const auto distance_ns = static_cast<int64_t>(monotonic_ns - rate.anchor.monotonic_ns);
  const double ticks = static_cast<double>(distance_ns) * rate.conversion.ticks_per_ns();
  return rate.anchor.ticks + static_cast<uint64_t>(static_cast<int64_t>(ticks));
}

void count_nested_call() noexcept {
  const uint64_t incarnation = live.incarnation.load(std::memory_order_acquire);
  if (incarnation == 0) return;
  ThreadState& thread = this_thread;
  if (thread.incarnation != incarnation) return count(live.stats->nested_calls);
  if (++thread.nested_calls < kNestedCallsKept) return;
  hand_over_nested_calls(thread);
}

void flush_at_exit() noexcept {
  if (!mark_exited(0)) return;
  end_search_for_gpu();
  flush_now();
}

void note_immediate_exit() noexcept {
  // In a signal handler that came in the middle of start(), the event would wait for the lock that
  // the interrupted thread holds.
  if (live.mode.load(std::memory_order_acquire) == Mode::recording) mark_exited(kExitAtOnce);
}

void fail_check(const char* file, int line, const char* text) noexcept {
  if (stopping.exchange(true)) return;
  if (live.header != nullptr) {
    count(live.stats->checks_failed);
    EventCall call{.kind = EventKind::CaptureOff, .text = text};
    call.arguments[0] = line;
    note_event(call, kResultSuccess);
    store_relaxed(live.header->off_reason, static_cast<uint64_t>(line));
    store_relaxed(live.header->capture_state, static_cast<uint32_t>(CaptureState::off));
    live.noted_state.store(CaptureState::off, std::memory_order_relaxed);
  }
  live.mode.store(Mode::off, std::memory_order_release);
  live.incarnation.store(0, std::memory_order_release);
  TextBuffer<512> sentence;
  sentence.text("broken invariant at ")
      .text(file)
      .character(':')
      .number(static_cast<unsigned>(line));
  sentence.text(" (").text(text).text("); recording stops, the job goes on; please report this");
  write_warning(1, sentence.view());
}

}  // namespace rollcall::capture
