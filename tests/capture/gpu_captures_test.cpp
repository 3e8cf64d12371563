// CUDA graphs and the words that the GPU writes, against a driver that the test moves.
#include "core/gpu/captures.h"
#include "core/gpu/marks.h"
#include "tests/capture/gpu_world.h"
#include "tests/catch.h"

namespace rollcall {
namespace gpu_captures_test {

using test::FakeGpu;
using test::World;

FakeGpu& gpu() { return FakeGpu::get(); }
void* handle(uintptr_t number) { return reinterpret_cast<void*>(number); }

// The stream captures from here on, into this graph.
void begin_capture(gpu::Stream stream, uint64_t identity, uintptr_t graph) {
  gpu().graph = handle(graph);
  gpu().at(stream).capture = identity;
  gpu().at(stream).waits = {};
}

using Waits = std::vector<gpu::Node>;

TEST_CASE("captured operations get marks in front of and behind them, per stream") {
  World world;
  const gpu::Stream first = gpu().make_stream(1);
  const gpu::Stream second = gpu().make_stream(1);
  begin_capture(first, 7, 0x70);
  gpu().at(second).capture = 7;
  const uint64_t ticket = world.launch(first);
  world.launch(second);
  world.launch(first);
  CHECK(world.phase(ticket) == Phase::settled);
  CHECK_FALSE(world.is_unknown(ticket));
  CHECK(world.record(ticket).graph == 7);
  GraphEntry& entry = world.graphs()[0];
  CHECK(entry.state == 1);
  CHECK(entry.graph == 7);
  CHECK(entry.operations == 3);
  REQUIRE(entry.lanes == 2);
  CHECK(entry.stream[1] == reinterpret_cast<uintptr_t>(second));
  REQUIRE(gpu().nodes.size() == 8);
  const auto is_node = [&](size_t i, gpu::Stream stream, uint64_t value) {
    return gpu().nodes[i].stream == reinterpret_cast<uintptr_t>(stream) &&
           gpu().nodes[i].value == value;
  };
  CHECK(is_node(0, first, 0));  // sets it back
  CHECK(is_node(1, first, 1));
  CHECK(is_node(2, first, 2));
  CHECK(is_node(3, second, 0));
  CHECK(is_node(4, second, 1));
  CHECK(is_node(7, first, 4));
  gpu().replay(7);
  CHECK(entry.position[0] == 3);  // inside its second operation
  CHECK(entry.position[1] == 2);  // through
  CHECK(gpu().records == 0);      // no events in a capture
  CHECK(world.stats.graph_unmarked == 0);
}

TEST_CASE("nothing of the job's waits for a mark; a mark waits for the job's and the one before") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  const gpu::Node earlier = FakeGpu::job_node(1);
  const gpu::Node joined = FakeGpu::job_node(2);
  const gpu::Node operation = FakeGpu::job_node(3);
  gpu().at(stream).waits = {earlier, joined};
  const auto [record, ticket] = world.begin(world.main_thread, stream, 0);
  CHECK(gpu().at(stream).waits == Waits{earlier, joined});
  gpu().at(stream).waits = {operation};
  CHECK_FALSE(world.timer->close(world.main_thread, record, ticket, gpu::Launch::done));
  CHECK(gpu().at(stream).waits == Waits{operation});
  REQUIRE(gpu().nodes.size() == 3);
  CHECK(gpu().nodes[0].waits.empty());
  CHECK(gpu().nodes[1].waits == Waits{earlier, joined, FakeGpu::mark_node(1)});
  CHECK(gpu().nodes[2].waits == Waits{operation, FakeGpu::mark_node(2)});
  CHECK(world.stats.gpu_unwritten == 0);
}

TEST_CASE(
    "a graph in which a mark cannot stand beside its stream has no positions, which is counted") {
  for (const bool is_lossy : {true, false}) {
    World world;
    const gpu::Stream stream = gpu().make_stream(1);
    begin_capture(stream, 6, 0x60);
    world.launch(stream);  // the first one tries marks out
    begin_capture(stream, 7, 0x70);
    gpu().nodes.clear();
    gpu().has_lossy_edges = is_lossy;  // as behind an event of a programmatic launch
    const Waits waits(is_lossy ? 1 : gpu::kMarkDependenciesMax + 1, FakeGpu::job_node(1));
    gpu().at(stream).waits = waits;
    world.launch(stream);
    CHECK(gpu().nodes.empty());
    CHECK(gpu().at(stream).waits == waits);
    CHECK(world.stats.gpu_unwritten == 1);
    CHECK(gpu().forbidden_calls == 0);
    CHECK(world.graphs()[1].operations == 1);
    CHECK(world.graphs()[1].lanes == 0);
    CHECK(world.graphs()[0].lanes == 1);
  }
}

TEST_CASE("marks are put in the context of their stream, and the thread's stays what it was") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  world.launch(stream);
  const gpu::Stream other = gpu().make_stream(2);
  gpu().at(other).capture = 7;
  world.launch(other);
  CHECK(gpu().nodes.size() == 6);
  CHECK(world.stats.gpu_unwritten == 0);
  CHECK(test::fake_driver::current_context == 1);
}

TEST_CASE("a call that is through in another capture than it began in has no marks there") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  const uint64_t ticket = world.launch_later(stream, 0);
  CHECK(gpu().nodes.size() == 2);
  begin_capture(stream, 8, 0x80);
  world.ask(ticket);
  CHECK(gpu().nodes.size() == 2);
  CHECK(world.graphs()[0].lanes == 0);
  CHECK(world.stats.gpu_unwritten == 1);
}

TEST_CASE("a captured group that NCCL refuses leaves its graph without positions") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  world.launch(stream, 5);
  world.timer->begin_group_end(world.main_thread, 5);
  CHECK(world.graphs()[0].lanes == 1);
  world.timer->finish_group_end(world.main_thread, gpu::Launch::refused);
  CHECK(world.graphs()[0].lanes == 0);
  CHECK(world.stats.graph_unmarked == 1);
}

TEST_CASE("a stream that waits for as many nodes as are looked at gets its marks") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  const Waits waits(gpu::kMarkDependenciesMax, FakeGpu::job_node(1));
  gpu().at(stream).waits = waits;
  world.launch(stream);
  CHECK(gpu().nodes.size() == 3);
  CHECK(gpu().at(stream).waits == waits);
  CHECK(world.stats.gpu_unwritten == 0);
}

TEST_CASE("operations of a captured group share marks around its end, per stream") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  world.launch(stream, 5);
  world.launch(stream, 5);
  CHECK(gpu().nodes.empty());
  world.end_group(5);
  REQUIRE(gpu().nodes.size() == 3);
  CHECK(gpu().nodes[1].value == 1);
  CHECK(gpu().nodes[2].value == 2);
  CHECK(world.graphs()[0].operations == 2);
}

TEST_CASE("what NCCL puts into a graph later has its mark when NCCL says that it has") {
  for (const uint32_t group : {0u, 3u}) {
    World world;
    const gpu::Stream stream = gpu().make_stream(1);
    begin_capture(stream, 7, 0x70);
    const uint64_t ticket = world.launch_later(stream, group);
    CHECK(gpu().nodes.size() == 2);
    world.ask(ticket);
    CHECK(gpu().nodes.size() == 3);
    CHECK(world.phase(ticket) == Phase::settled);
    CHECK(world.record(ticket).launched_ticks == 0);  // nothing runs yet
  }
}

TEST_CASE("marks behind what NCCL captures later are the capturing thread's alone") {
  for (const uint32_t group : {0u, 3u}) {
    World world;
    gpu::Thread watchdog;
    const gpu::Stream stream = gpu().make_stream(1);
    begin_capture(stream, 7, 0x70);
    const uint64_t ticket = world.launch_later(stream, group);
    world.ask(watchdog, ticket);
    CHECK(gpu().nodes.size() == 2);
    world.ask(ticket);
    CHECK(gpu().nodes.size() == 3);
    CHECK(world.stats.graph_unmarked == 0);
  }
}

TEST_CASE("a graph whose capturing thread did not await NCCL has no positions") {
  for (const uint32_t group : {0u, 3u}) {
    World world;
    const gpu::Stream stream = gpu().make_stream(1);
    begin_capture(stream, 7, 0x70);
    world.launch_later(stream, group);
    world.launch(stream);
    CHECK(world.graphs()[0].lanes == 0);
    CHECK(world.stats.graph_unmarked == 2);
  }
}

TEST_CASE("launches of a graph are numbered, and each replay sets its positions back") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  world.launch(stream);
  gpu().at(stream).capture = 0;
  gpu::Captures& captures = world.timer->captures();
  captures.instantiated(handle(0xe0), handle(0x70));
  captures.destroyed(handle(0x70));  // the executable lives on
  GraphEntry& entry = world.graphs()[0];
  const auto first = world.timer->begin_replay(handle(0xe0), stream);
  CHECK(first.graph == 7);
  CHECK(first.operations == 1);
  CHECK(first.number == 0);
  gpu().replay(3);
  CHECK(entry.position[0] == 2);
  CHECK(world.timer->begin_replay(handle(0xe0), stream).number == 1);
  gpu().replay(1);
  CHECK(entry.position[0] == 0);
  // The driver refused that one: the next has its number.
  world.timer->refuse_replay(handle(0xe0));
  CHECK(world.timer->begin_replay(handle(0xe0), stream).number == 1);
  world.timer->refuse_replay(handle(0xee));  // nobody knows it
  CHECK(entry.launches == 2);
  CHECK(world.timer->begin_replay(handle(0xe1), stream).graph == 0);
  // Into a capture: a part of another graph.
  gpu().at(stream).capture = 8;
  CHECK(world.timer->begin_replay(handle(0xe0), stream).graph == 0);
  CHECK(entry.launches == 2);
  captures.executable_destroyed(handle(0xe0));
  gpu().at(stream).capture = 0;
  CHECK(world.timer->begin_replay(handle(0xe0), stream).graph == 0);
}

TEST_CASE("a handle that the driver uses again is another graph") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  gpu::Captures& captures = world.timer->captures();
  begin_capture(stream, 7, 0x70);
  world.launch(stream);
  captures.instantiated(handle(0xe0), handle(0x70));
  captures.destroyed(handle(0x70));
  captures.instantiated(handle(0xe1), handle(0x70));  // of a graph without operations
  begin_capture(stream, 8, 0x70);
  world.launch(stream);
  captures.instantiated(handle(0xe2), handle(0x70));
  captures.cloned(handle(0x71), handle(0x70));
  captures.instantiated(handle(0xe3), handle(0x71));
  gpu().at(stream).capture = 0;
  CHECK(world.timer->begin_replay(handle(0xe0), stream).graph == 7);
  CHECK(world.timer->begin_replay(handle(0xe1), stream).graph == 0);
  CHECK(world.timer->begin_replay(handle(0xe2), stream).graph == 8);
  CHECK(world.timer->begin_replay(handle(0xe3), stream).graph == 8);
  captures.instantiated(handle(0xe0), handle(0x71));  // brought up to date
  CHECK(world.timer->begin_replay(handle(0xe0), stream).graph == 8);
}

TEST_CASE("a graph that is captured into on request gets no marks, its launches count") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  world.timer->captures().captures_into(handle(0x70));
  begin_capture(stream, 7, 0x70);
  world.launch(stream);
  CHECK(gpu().nodes.empty());
  CHECK(world.stats.graph_unmarked == 1);
  world.timer->captures().instantiated(handle(0xe0), handle(0x70));
  gpu().at(stream).capture = 0;
  CHECK(world.timer->begin_replay(handle(0xe0), stream).graph == 7);
}

TEST_CASE("on request no graph gets marks, their launches count") {
  World world;
  world.options.marks_graphs = false;
  world.timer->begin(world.options);
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  world.launch(stream);
  CHECK(gpu().nodes.empty());
  CHECK(gpu().registered == 0);
  CHECK(world.stats.graph_unmarked == 1);
  CHECK_FALSE(world.timer->captures().is_marked(handle(0x70)));
  world.timer->captures().instantiated(handle(0xe0), handle(0x70));
  gpu().at(stream).capture = 0;
  CHECK(world.timer->begin_replay(handle(0xe0), stream).operations == 1);
}

TEST_CASE("a graph that holds marks is known, as long as it exists") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  gpu::Captures& captures = world.timer->captures();
  CHECK_FALSE(captures.is_marked(handle(0x70)));
  begin_capture(stream, 7, 0x70);
  world.launch(stream);
  CHECK(captures.is_marked(handle(0x70)));
  CHECK_FALSE(captures.is_marked(handle(0x71)));
  captures.cloned(handle(0x71), handle(0x70));
  CHECK(captures.is_marked(handle(0x71)));
  captures.destroyed(handle(0x70));
  CHECK_FALSE(captures.is_marked(handle(0x70)));
}

TEST_CASE("where a capture does not allow writes, none is made in the job's") {
  World world;
  gpu().captures_writes = false;
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  world.launch(stream);
  world.launch(stream);
  CHECK(gpu().forbidden_calls == 1);  // on the stream of our own
  CHECK(gpu().nodes.empty());
  CHECK(world.stats.graph_unmarked == 2);
  CHECK(world.graphs()[0].operations == 2);
  REQUIRE(world.timer->words_text() != nullptr);
  CHECK(std::string_view(world.timer->words_text()).starts_with("none"));
}

TEST_CASE("a device or a driver without stream writes gets no marks") {
  World world;
  gpu().can_write = false;
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  world.launch(stream);
  CHECK(gpu().nodes.empty());
  CHECK(gpu().registered == 0);
  CHECK(world.stats.graph_unmarked == 1);
}

TEST_CASE("positions are copied to the file where its memory cannot be registered") {
  World world;
  gpu().refuses_registration = 1;
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  world.launch(stream);
  REQUIRE(world.timer->words_text() != nullptr);
  CHECK(std::string_view(world.timer->words_text()) == "copied");
  gpu().replay(2);
  CHECK(world.graphs()[0].position[0] == 0);
  world.poll();
  CHECK(world.graphs()[0].position[0] == 1);
}

TEST_CASE("the pages of a file on a disk are never registered") {
  World world(100, 256, true, false, true);
  const gpu::Stream stream = gpu().make_stream(1);
  begin_capture(stream, 7, 0x70);
  world.launch(stream);
  REQUIRE(world.timer->words_text() != nullptr);
  CHECK(std::string_view(world.timer->words_text()) == "copied");
  CHECK(gpu().registered == 1);
  CHECK(gpu().registered_memory != static_cast<void*>(world.graphs()));
}

TEST_CASE(
    "a table full of graphs that live counts what is beyond; graphs that are gone make room") {
  World world;
  const gpu::Stream stream = gpu().make_stream(1);
  for (uint64_t i = 1; i <= kGraphsMax; ++i) {
    begin_capture(stream, i, 0x10000 + i);
    world.launch(stream);
  }
  CHECK(world.stats.graph_table_full == 0);
  begin_capture(stream, 9999, 0x9999);
  world.launch(stream);
  CHECK(world.stats.graph_table_full == 1);
  world.timer->captures().destroyed(handle(0x10000 + 100));
  begin_capture(stream, 10000, 0xaaaa);
  const uint64_t ticket = world.launch(stream);
  CHECK(world.stats.graph_table_full == 1);
  CHECK(world.graphs()[99].graph == 10000);
  CHECK(world.record(ticket).graph == 10000);
}

TEST_CASE("the GPU writes into the file what it started and finished, with nobody looking") {
  World world(100, 256, true);
  const gpu::Stream stream = gpu().make_stream(1);
  const auto [record, ticket] = world.begin(world.main_thread, stream, 0);
  CHECK(world.mark_of(ticket) == GpuMark::started);
  CHECK(world.mark_of(ticket + test::kSlots) == GpuMark::none);  // another operation's slot
  CHECK(world.timer->close(world.main_thread, record, ticket, gpu::Launch::done));
  CHECK(world.mark_of(ticket) == GpuMark::finished);
  ring::publish_slot(record, ticket, Phase::gpu_pending);
  world.timer->opened(world.main_thread);
  CHECK(world.record(ticket).finished_ticks == 0);
  CHECK(gpu().registered == 1);
}

TEST_CASE("the operations of a group share the word of the first on their stream") {
  World world(100, 256, true);
  const gpu::Stream stream = gpu().make_stream(1);
  const uint64_t first = world.launch(stream, 5);
  const uint64_t second = world.launch(stream, 5);
  CHECK(world.mark_of(first) == GpuMark::none);
  world.end_group(5);
  CHECK(world.mark_of(first) == GpuMark::finished);
  CHECK(world.mark_of(second) == GpuMark::none);
}

TEST_CASE("without the file's memory, and without being asked, no progress words are written") {
  {
    World world(100, 256, true);
    gpu().refuses_registration = 1;
    const uint64_t ticket = world.launch(gpu().make_stream(1));
    CHECK(world.mark_of(ticket) == GpuMark::none);
    CHECK_FALSE(world.is_unknown(ticket));  // the events tell
  }
  World world;
  const uint64_t ticket = world.launch(gpu().make_stream(1));
  CHECK(world.mark_of(ticket) == GpuMark::none);
  CHECK(gpu().registered == 0);
}

}  // namespace gpu_captures_test
}  // namespace rollcall
