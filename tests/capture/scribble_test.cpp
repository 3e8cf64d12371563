// The job writes over the ring file, or somebody else does: whatever is in it, the job runs on, its
// calls are made as they would be, and the recorder's threads neither die nor spin.
#include <dlfcn.h>

#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/capture/flusher.h"
#include "core/capture/live.h"
#include "core/capture/op_detail.h"
#include "tests/capture/fake_gpu.h"
#include "tests/capture/own_process.h"
#include "tests/catch.h"

// What these tests do is a race, on purpose.
#if !defined(__SANITIZE_THREAD__)
namespace rollcall {
namespace scribble_test {

using test::all_reduce;
using test::ended_well;
using test::FakeGpu;
using test::in_own_process;
using test::TemporaryDirectory;

constexpr uint64_t kValues[] = {0, ~uint64_t{0}, 0xeeeeeeeeeeeeeeee, 0x8badf00d0badcafe, 1};

struct Mode {
  const char* name;
  bool has_history;
  bool has_trace;
  const char* gpu_timing;
};
constexpr Mode kModes[] = {{"the ring alone", false, false, "off"},
                           {"history and Chrome trace", true, true, "off"},
                           {"events", true, false, "events"},
#if defined(ROLLCALL_EMULATED_CUPTI)
                           {"CUPTI", true, false, "cupti"},
#endif
                           {"progress words", false, false, "progress"}};

char comms[3];
char graph_handle;
char executable;
gpu::Stream stream = nullptr;
gpu::Stream capturing = nullptr;

capture::OpCall call_of(OpKind kind, const void* comm, gpu::Stream on) {
  capture::OpCall call = all_reduce(comm, 4);
  call.kind = kind;
  call.stream = on;
  call.root_or_peer = 1;
  call.group = capture::current_group();
  return call;
}

void make_call(OpKind kind, const void* comm, gpu::Stream on) {
  capture::end_op(capture::begin_op(call_of(kind, comm, on)), 0);
}

void end_group(bool is_simulated) {
  const uint32_t group = capture::group_leave(nullptr);
  if (is_simulated) return capture::group_simulated(group);
  capture::OpCall end;
  end.kind = OpKind::GroupEnd;
  end.group = group;
  capture::end_op(capture::begin_op(end), 0);
}

// A communicator from its creation to its end: with every trial another entry, as far as they go.
void live_a_communicator() {
  const uint32_t index = capture::open_comm({.origin = CommOrigin::split, .nranks = 2, .rank = 0});
  capture::creation_is_watched();
  capture::bind_comm(index, &comms[2]);
  capture::comm_ready(index, 2, 0, 0, 7);
  if (const CommEntry* entry = capture::comm_entry(index)) CHILD_REQUIRE(entry->nranks == 2);
  int previous = 0;
  capture::async_state_changed(index, 7, &previous);
  capture::calls_settled(capture::before_asking(index), index, true);
  make_call(OpKind::Send, &comms[2], stream);
  capture::close_comm(index, CommState::destroyed);
}

// What the profiler plugin does: records of its own, holds, details that are learned later.
void play_plugin() {
  const capture::OpToken told =
      capture::begin_told_op({.kind = OpKind::Send, .datatype = 7}, 4, stream, &comms[1], 0);
  const bool is_held = capture::hold_op(told);
  if (told.record != nullptr) capture::end_told_op(told);
  capture::enrich_op(told, {.launched_ticks = 5, .peer = 1, .channels = 2});
  capture::comm_of(told);
  capture::keep_op_phases(told, {.ns = {1, 2, 3}});
  if (is_held) capture::release_op(told);
  const auto pid = static_cast<int32_t>(getpid());
  const uint32_t channel = capture::open_channel(pid, 0, 1, 2, true);
  capture::step_done(channel, ChannelWait::send_gpu, 3, ChannelWait::none, 9, 64);
  capture::close_channel_op(channel);
}

void use_everything() {
  make_call(OpKind::AllReduce, &comms[0], stream);
  make_call(OpKind::Send, &comms[0], stream);
  make_call(OpKind::WaitSignal, &comms[1], stream);
  make_call(OpKind::AllReduce, &comms[0], capturing);
  for (const bool is_simulated : {false, true}) {
    capture::group_enter();
    make_call(OpKind::Broadcast, &comms[0], stream);
    make_call(OpKind::Recv, &comms[1], stream);
    make_call(OpKind::AllReduce, &comms[1], capturing);
    end_group(is_simulated);
  }
  capture::end_op(capture::begin_graph_launch(&executable, stream), 0);
  play_plugin();
  live_a_communicator();
  capture::note_event({.kind = EventKind::RedOpDestroy, .text = "x"}, 0);
  capture::end_event(capture::begin_event({.kind = EventKind::MemAlloc}), 1, "failed");
  capture::add_meta("key", "value");
  capture::ticks_of_monotonic(1'000'000'000);
  capture::monotonic_of_ticks(1'000'000'000);
}

// A word is written over in the middle of a call and of a group, and stays so while everything is
// used; then it is what it was, so that the next trial has a recorder that works.
void scribble(uint64_t* word, uint64_t value) {
  const capture::OpToken token = capture::begin_op(call_of(OpKind::AllReduce, &comms[0], stream));
  const capture::OpToken told =
      capture::begin_told_op({.kind = OpKind::Recv, .datatype = 7}, 4, stream, &comms[1], 0);
  capture::hold_op(told);
  const uint64_t before = load_relaxed(*word);
  store_relaxed(*word, value);
  capture::enrich_op(told, {.peer = 1});
  capture::comm_of(told);
  if (told.record != nullptr) capture::end_told_op(told);
  capture::release_op(told);
  capture::end_op(token, 0);
  use_everything();
  store_relaxed(*word, before);
}

void scribble_all_of(void* area, size_t bytes) {
  const std::span<uint64_t> words(static_cast<uint64_t*>(area), bytes / 8);
  for (uint64_t& word : words) {
    for (const uint64_t value : kValues) scribble(&word, value);
  }
}

// Of the channels those that play_plugin() has opened: they stand where a hash leads.
void scribble_channels(const ring::RingFile& file) {
  const auto count =
      static_cast<size_t>(capture::live.header->channels.bytes / sizeof(ChannelEntry));
  size_t used = 0;
  for (ChannelEntry& entry : std::span<ChannelEntry>(file.channels, count)) {
    if (entry.state == 0) continue;
    ++used;
    scribble_all_of(&entry, sizeof entry);
  }
  CHILD_REQUIRE(used != 0);
}

// The flusher is asked for a whole pass with each: it must come back from it.
void scribble_header_under_flusher() {
  auto* words = reinterpret_cast<uint64_t*>(capture::live.header);
  for (size_t i = 0; i < sizeof(FileHeader) / 8; ++i) {
    for (const uint64_t value : kValues) {
      const uint64_t before = load_relaxed(words[i]);
      store_relaxed(words[i], value);
      use_everything();
      const uint64_t passes = load_relaxed(capture::live.stats->flush_passes);
      capture::flush_now();
      CHILD_REQUIRE(load_relaxed(capture::live.stats->flush_passes) > passes);
      store_relaxed(words[i], before);
    }
  }
}

// The emulator's, as a job has it that links it.
void load_cupti(const Mode& mode) {
#if defined(ROLLCALL_EMULATED_CUPTI)
  if (std::string_view(mode.gpu_timing) != "cupti") return;
  CHILD_REQUIRE(dlopen(ROLLCALL_EMULATED_CUPTI, RTLD_NOW | RTLD_LOCAL) != nullptr);
#else
  static_cast<void>(mode);
#endif
}

bool is_timed_by(std::string_view timing) {
  if (timing == "off") return true;
  const std::string_view meta(reinterpret_cast<const char*>(capture::ring_file().meta),
                              capture::live.header->meta_bytes);
  return meta.find("gpu_timing=" + std::string(timing) + "\n") != std::string_view::npos;
}

void begin_in(const Mode& mode) {
  load_cupti(mode);
  setenv("ROLLCALL_HISTORY", mode.has_history ? "1" : "0", 1);
  setenv("ROLLCALL_CHROME_TRACE", mode.has_trace ? "1" : "0", 1);
  setenv("ROLLCALL_GPU_TIMING", mode.gpu_timing, 1);
  setenv("ROLLCALL_OVERHEAD_BUDGET", "100", 1);
  setenv("ROLLCALL_GPU_POLL_MS", "1", 1);
  setenv("ROLLCALL_RING_SLOTS", "64", 1);
  FakeGpu::reset();
  stream = FakeGpu::get().make_stream(1, true);
  capturing = FakeGpu::get().make_stream(1);
  FakeGpu::get().at(capturing).capture = 77;
  FakeGpu::get().graph = &graph_handle;
  capture::set_gpu_symbols(test::find_in_fake_driver);
  test::open_test_comm(&comms[0]);
  test::open_test_comm(&comms[1], 2);
  capture::hold_groups();
  use_everything();
  capture::graph_instantiated(&executable, &graph_handle);
  use_everything();
  CHILD_REQUIRE(is_timed_by(mode.gpu_timing));
  alarm(300);
}

TEST_CASE("whatever word of the ring file is written over, the job runs on") {
  for (const Mode& mode : kModes) {
    INFO(mode.name);
    const TemporaryDirectory directory;
    CHECK(ended_well(in_own_process(directory.path(), [&] {
      begin_in(mode);
      const ring::RingFile& file = capture::ring_file();
      scribble_all_of(file.header, sizeof(FileHeader));
      scribble_all_of(file.stats, sizeof(SelfStatistics));
      scribble_all_of(file.comms, 3 * sizeof(CommEntry));
      scribble_all_of(file.threads, sizeof(ThreadEntry));
      scribble_all_of(file.events, 2 * sizeof(EventRecord));
      scribble_all_of(file.ops, 8 * sizeof(OpRecord));
      scribble_all_of(file.graphs, sizeof(GraphEntry));
      scribble_all_of(file.meta, 64);
      scribble_channels(file);
      scribble_all_of(file.progress, 16 * sizeof(uint64_t));
      const uint64_t ticket = load_relaxed(capture::live.header->next_ticket);
      scribble_all_of(&file.kernel_phases[ticket % kKernelPhaseSlots], sizeof(KernelPhasesEntry));
      capture::flush_at_exit();
    })));
  }
}

TEST_CASE("the flusher comes back from every pass, whatever is written over the header") {
  for (const Mode& mode : kModes) {
    if (!mode.has_history) continue;
    INFO(mode.name);
    const TemporaryDirectory directory;
    CHECK(ended_well(in_own_process(directory.path(), [&] {
      begin_in(mode);
      scribble_header_under_flusher();
      capture::flush_at_exit();
    })));
  }
}

TEST_CASE("an area that is written over as a whole, and stays so, does not end the job") {
  for (const Mode& mode : kModes) {
    for (const uint64_t value : kValues) {
      INFO(mode.name << ", " << value);
      const TemporaryDirectory directory;
      CHECK(ended_well(in_own_process(directory.path(), [&] {
        begin_in(mode);
        const capture::OpToken token =
            capture::begin_op(call_of(OpKind::AllReduce, &comms[0], stream));
        capture::group_enter();
        make_call(OpKind::Broadcast, &comms[0], stream);
        const ring::RingFile& file = capture::ring_file();
        std::vector<uint64_t> scribbled(file.bytes / 8, value);
        std::memcpy(file.memory, scribbled.data(), file.bytes);
        capture::end_op(token, 0);
        end_group(false);
        for (int round = 0; round < 20; ++round) use_everything();
        capture::flush_at_exit();
      })));
    }
  }
}

}  // namespace scribble_test
}  // namespace rollcall
#endif
