#include "core/capture/gpu_timing.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "core/base/clock.h"
#include "core/base/keep_errno.h"
#include "core/capture/background_thread.h"
#include "core/capture/last_round.h"
#include "core/capture/live.h"
#include "core/capture/warning.h"
#include "core/gpu/cupti.h"

namespace rollcall::capture {

namespace {

// Operations may come before the driver is there; so many looks, and it is taken for absent.
constexpr uint32_t kLooksMax = 64;

constinit std::atomic<gpu::SymbolLookup> symbol_lookup{nullptr};
constinit std::atomic<uint32_t> looks{0};
constinit std::atomic<bool> watches_launches{false};
constinit std::atomic<bool> has_exit_handler{false};
constinit LastRound last_round{};
using ExchangeCaptureMode = decltype(gpu::Driver::exchange_capture_mode);
constinit ExchangeCaptureMode exchange_capture_mode = nullptr;  // set before there is a poller

double ticks_per_ns() noexcept { return conversion_by(read_anchor()).ticks_per_ns(); }

// What is learned while the job runs: a lock that no launching thread should wait for.
class Facts {
 public:
  void note(const gpu::Timer& timer) noexcept {
    if (const char* text = timer.words_text(); text != words_) {
      words_ = text;
      const ColdLock lock;
      append_meta("gpu_words", text);
    }
    if (!watched_ && watches_launches.load(std::memory_order_relaxed)) {
      watched_ = true;
      const ColdLock lock;
      append_meta("graph_launches", "watched");
    }
    if (const char* function = timer.fault().function(); function != nullptr && !has_fault_) {
      has_fault_ = true;
      TextBuffer<96> text;
      text.text(function).text(" answered ");
      text.number(static_cast<unsigned>(timer.fault().result()));
      const ColdLock lock;
      append_meta("gpu_fault", text.view());
    }
  }

 private:
  const char* words_ = nullptr;
  bool watched_ = false;
  bool has_fault_ = false;
};
constinit Facts facts;  // the poller's

// The thread is in the relaxed capture mode: what CUPTI asks of the driver must not break a capture
// of the job's.
class Relaxed {
 public:
  explicit Relaxed(ExchangeCaptureMode exchange) noexcept
      : exchange_(exchange), is_relaxed_(exchange_(&mode_) == gpu::kSuccess) {}
  ~Relaxed() {
    if (is_relaxed_) exchange_(&mode_);
  }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  int mode_ = gpu::kCaptureRelaxed;
  ExchangeCaptureMode exchange_;
  bool is_relaxed_;
};

// Capture was switched off: CUPTI is free for others. At exit it is left alone, for it may be torn
// down already.
void stop_for_good(gpu::Timer& timer) noexcept {
  timer.stop();
  const Relaxed relaxed(exchange_capture_mode);
  gpu::stop_cupti();
}

void* run_poller(void* argument) {
  auto* timer = static_cast<gpu::Timer*>(argument);
  for (;;) {
    const bool is_last = last_round.sleep(config().gpu_poll_ms);
    if (timer->is_stopped()) break;
    if (live.mode.load(std::memory_order_acquire) == Mode::off) {
      stop_for_good(*timer);
      break;
    }
    timer->poll(ticks_per_ns(), is_last);
    facts.note(*timer);
    if (!is_last) continue;
    timer->stop();  // before the exit goes on, and with it the driver's end
    break;
  }
  last_round.leave();
  return nullptr;
}

// Registered after the driver was loaded, hence run before it is torn down.
void stop_at_exit() {
  gpu::Timer* timer = live.gpu.load(std::memory_order_acquire);
  if (timer == nullptr || timer->is_stopped()) return;
  last_round.ask();
  timer->stop();
}

// Of the areas `graphs` and `progress`: the end of the file.
uint64_t word_bytes() noexcept {
  const ring::RingFile& file = ring_file();
  return file.bytes -
         static_cast<uint64_t>(reinterpret_cast<const char*>(file.graphs) - file.memory);
}

// Zeroes are the initial state of what lives here; a constructor would touch every page of it.
template <class T>
T* map_zeroed() noexcept {
  void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory != MAP_FAILED ? static_cast<T*>(memory) : nullptr;
}

// Where operations are told of by CUPTI, or why they are not.
struct CuptiStart {
  gpu::Activity* activity = nullptr;
  gpu::ActivitySource source{};
  TextBuffer<512> why;
};

template <class T>
void unmap(T* object) noexcept {
  if (object != nullptr) munmap(static_cast<void*>(object), sizeof(T));
}

// The names of a process's kernels are learned while it runs; told by the polling thread.
void note_kernel_name(uint32_t number, const char* name) noexcept {
  TextBuffer<32> key;
  key.text("kernel.").number(number);
  const ColdLock lock;
  append_meta(key.view(), name);
}

// Not under the ColdLock: the loader runs other libraries' constructors.
void start_activity(gpu::SymbolLookup lookup, CuptiStart& start) noexcept {
  const auto get_version = reinterpret_cast<int (*)(int*)>(lookup("cuDriverGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != gpu::kSuccess) version = 0;
  gpu::CuptiLibrary library;
  start.source.note_name = note_kernel_name;
  auto* activity = map_zeroed<gpu::Activity>();
  if (activity == nullptr) start.why.text("no memory");
  {
    const Relaxed relaxed(exchange_capture_mode);
    const bool has_started = activity != nullptr &&
                             gpu::load_cupti(config().cupti, version, library, start.why) &&
                             gpu::start_cupti(library, start.source, start.why);
    if (has_started) start.activity = activity;
  }
  if (start.activity != nullptr) return;
  unmap(activity);
  TextBuffer<768> sentence;
  sentence.text("ROLLCALL_GPU_TIMING=cupti: ");
  if (config().cupti != nullptr) sentence.text(part_of(config().cupti, 0, 200)).text(": ");
  sentence.text(start.why.view()).text("; CUDA events are used instead");
  write_warning(1, sentence.view());
}

const char* name_of_timing(const CuptiStart& cupti) noexcept {
  if (cupti.activity != nullptr) return "cupti";
  return config().gpu_timing == GpuTiming::progress ? "progress" : "events";
}

// ColdLock held.
void start_timer(const gpu::Driver& driver, const CuptiStart& cupti) noexcept {
  auto* timer = map_zeroed<gpu::Timer>();
  if (timer == nullptr) return;
  timer->begin(
      {.driver = driver,
       .ops = live.ops,
       .stats = live.stats,
       .holds = live.holds,
       .graphs = ring_file().graphs,
       .word_bytes = word_bytes(),
       .words_in_memory = ring_file().is_in_memory,
       .progress = config().gpu_timing == GpuTiming::progress ? ring_file().progress : nullptr,
       .marks_graphs = config().graph_marks,
       .activity = cupti.activity,
       .activity_source = cupti.source,
       .budget_percent = config().overhead_budget_percent});
  if (!start_background_thread("rollcall-gpu", run_poller, timer)) {
    unmap(timer);
    return;
  }
  if (!has_exit_handler.exchange(true)) atexit(stop_at_exit);
  append_meta("gpu_timing", name_of_timing(cupti));
  live.gpu.store(timer, std::memory_order_release);
}

// Why there is no driver to ask. ColdLock held.
void note_no_driver(gpu::SymbolLookup lookup) noexcept {
  TextBuffer<128> off;
  off.text("off (");
  const char* missing = lookup != nullptr ? gpu::missing_function(lookup) : nullptr;
  if (lookup == nullptr) {
    off.text("the profiler plugin alone cannot time");
  } else if (missing == nullptr) {
    off.text("no memory or thread");
  } else if (lookup("cuInit") == nullptr) {
    off.text("no CUDA driver");
  } else {
    off.text("the CUDA driver has no ").text(missing);
  }
  append_meta("gpu_timing", off.character(')').view());
}

}  // namespace

void set_gpu_symbols(gpu::SymbolLookup lookup) noexcept {
  symbol_lookup.store(lookup, std::memory_order_release);
}

void start_gpu_timing() noexcept {
  const KeepErrno keep;
  const gpu::SymbolLookup lookup = symbol_lookup.load(std::memory_order_acquire);
  if (lookup == nullptr) return;
  gpu::Driver driver;
  const bool found = gpu::load_driver(lookup, driver);
  if (!found && looks.fetch_add(1, std::memory_order_relaxed) + 1 < kLooksMax) return;
  if (!live.wants_gpu.exchange(false)) return;
  CuptiStart cupti;
  const bool wants_cupti = found && config().gpu_timing == GpuTiming::cupti;
  exchange_capture_mode = driver.exchange_capture_mode;
  if (wants_cupti) start_activity(lookup, cupti);
  bool has_timer = false;
  {
    const ColdLock lock;
    if (wants_cupti && cupti.activity == nullptr) {
      TextBuffer<768> off;
      append_meta("gpu_cupti", off.text("off (").text(cupti.why.view()).character(')').view());
    }
    if (found) start_timer(driver, cupti);
    has_timer = live.gpu.load(std::memory_order_relaxed) != nullptr;
    if (!has_timer) note_no_driver(lookup);
  }
  if (has_timer || cupti.activity == nullptr) return;
  const Relaxed relaxed(exchange_capture_mode);
  gpu::stop_cupti();
  unmap(cupti.activity);
}

void end_search_for_gpu() noexcept {
  if (!live.wants_gpu.exchange(false)) return;
  const gpu::SymbolLookup lookup = symbol_lookup.load(std::memory_order_acquire);
  // There is one: no operation was made that it could have timed.
  if (lookup != nullptr && gpu::missing_function(lookup) == nullptr) return;
  const ColdLock lock(std::try_to_lock);
  if (lock.is_held()) note_no_driver(lookup);
}

// --- what the shim tells of graphs ---------------------------------------------------------------

namespace {
gpu::Timer* running_timer() noexcept { return live.gpu.load(std::memory_order_acquire); }
}  // namespace

void graph_captures_into(void* graph) noexcept {
  if (gpu::Timer* timer = running_timer()) timer->captures().captures_into(graph);
}
void graph_cloned(void* clone, void* graph) noexcept {
  if (gpu::Timer* timer = running_timer()) timer->captures().cloned(clone, graph);
}
void graph_destroyed(void* graph) noexcept {
  if (gpu::Timer* timer = running_timer()) timer->captures().destroyed(graph);
}
void graph_instantiated(const void* executable, void* graph) noexcept {
  if (gpu::Timer* timer = running_timer()) timer->captures().instantiated(executable, graph);
}
// Once is enough: a job that goes on to try has the first answer in its log.
void graph_refused(void* graph, int result) noexcept {
  static std::atomic<bool> is_told{false};
  gpu::Timer* timer = running_timer();
  if (timer == nullptr || !timer->captures().is_marked(graph) || is_told.exchange(true)) return;
  TextBuffer<256> sentence;
  sentence.text(
      "the CUDA driver makes no executable of a graph that holds Rollcall's marks (error ");
  sentence.number(static_cast<unsigned>(result));
  sentence.text("); if it is the marks, ROLLCALL_GRAPH_MARKS=0 leaves them out");
  write_warning(1, sentence.view());
}
void graph_executable_destroyed(const void* executable) noexcept {
  if (gpu::Timer* timer = running_timer()) timer->captures().executable_destroyed(executable);
}

// Once the timer has stopped, as at exit, nobody polls.
ContextEnd begin_context_end(void* context) noexcept {
  gpu::Timer* timer = running_timer();
  if (timer == nullptr || timer->is_stopped()) return {};
  const ContextEnd end{.holds_poller = timer->events().hold_poller()};
  timer->events().context_ends(context);
  return end;
}
ContextEnd begin_primary_end(int device, bool is_certain) noexcept {
  gpu::Timer* timer = running_timer();
  if (timer == nullptr || timer->is_stopped()) return {};
  const ContextEnd end{.device = device, .holds_poller = timer->events().hold_poller()};
  if (is_certain) timer->events().primary_ends(device);
  return end;
}
void finish_context_end(ContextEnd end) noexcept {
  gpu::Timer* timer = running_timer();
  if (timer == nullptr) return;
  if (end.device >= 0) timer->events().primary_may_have_ended(end.device);
  if (end.holds_poller) timer->events().release_poller();
}

void graph_launches_watched() noexcept { watches_launches.store(true, std::memory_order_relaxed); }

OpToken begin_graph_launch(const void* executable, const void* stream) noexcept {
  gpu::Timer* timer = running_timer();
  // Also while recording is paused: a replay is counted all the same, and its record as dropped.
  if (timer == nullptr || live.mode.load(std::memory_order_acquire) != Mode::recording) return {};
  const gpu::Timer::Replay replay = timer->begin_replay(executable, stream);
  if (replay.graph == 0) return {};
  const OpToken token = begin_op({.kind = OpKind::GraphLaunch,
                                  .count = replay.operations,
                                  .stream = stream,
                                  .graph = replay.graph,
                                  .replay = replay.number});
  // Not recorded: nobody will end it.
  if (token.record == nullptr) end_op(token, kResultUnknown);
  return token;
}

void refuse_graph_launch(const void* executable) noexcept {
  if (gpu::Timer* timer = running_timer()) timer->refuse_replay(executable);
}

void forget_gpu_timing() noexcept {
  last_round.forget();
  gpu::forget_cupti();
  facts = {};
  looks.store(0, std::memory_order_relaxed);
}

}  // namespace rollcall::capture
