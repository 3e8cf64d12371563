#include "bench/plugin_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "bench/floor.h"
#include "bench/measure.h"
#include "core/capture/communicators.h"
#include "core/capture/operations.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/exports.h"

namespace rollcall::bench {
namespace {

using profiler::v6::Descriptor;
using profiler::v6::Profiler;
using profiler::v6::StateArgs;

// A plugin that wants everything and does nothing: what remains is the caller's own work.
char null_handle;
int null_start(void*, void** handle, Descriptor*) {
  *handle = &null_handle;
  return 0;
}
int null_stop(void*) { return 0; }
int null_record(void*, int, StateArgs*) { return 0; }

// What NCCL has in variables when it fills in an event: the compiler must store each, also a zero.
struct Task {
  const char* func = "AllReduce";
  const char* datatype = "ncclFloat32";
  const char* algorithm = "RING";
  const char* protocol = "LL";
  void* send = nullptr;
  void* recv = nullptr;
  void* stream = nullptr;
  uint64_t seq_number = 0;
  int32_t root = 0;
  int32_t depth = 1;
  int32_t peer = 1;
  int32_t steps = 1;
  int32_t step = 0;
  int32_t chunk_bytes = 4096;
  int32_t is_send = 1;
  pid_t pid = 0;  // each measurement has a process of its own
  uint8_t channel = 0;
  uint8_t channels = 2;
  uint8_t warps = 16;
  bool graph_captured = false;
};
Task task;

// NCCL's side: a plugin's functions, and the context it gave.
struct Host {
  Profiler plugin;
  void* context = nullptr;
  void* proxy_op = nullptr;  // of tell_step()

  // As NCCL does: each event in a descriptor of its own, set to zero and filled in where it lies.
  template <class Fill>
  void* start(Fill fill) const {
    Descriptor descriptor{};
    fill(descriptor);
    void* handle = nullptr;
    plugin.start_event(context, &handle, &descriptor);
    return handle;
  }
  // So does NCCL since 2.28.
  void stop(void* handle) const {
    if (handle != nullptr) plugin.stop_event(handle);
  }
};

void* start_proxy_op(const Host& host, void* parent) {
  return host.start([&](Descriptor& descriptor) {
    descriptor.type = profiler::kProxyOp;
    descriptor.parent = parent;
    descriptor.proxy_op = {task.pid,   task.channel,     task.peer,
                           task.steps, task.chunk_bytes, task.is_send};
  });
}
void* start_step(const Host& host, void* proxy_op) {
  return host.start([&](Descriptor& descriptor) {
    descriptor.type = profiler::kProxyStep;
    descriptor.parent = proxy_op;
    descriptor.proxy_step.step = task.step;
  });
}

// One collective with everything but KernelCh: 7 events started and stopped, 2 states. A plugin
// that gives no handle is not called again for the event, as ours is not for KernelLaunch and
// Group; the one that does nothing gets all 16 calls.
void tell_collective(const Host& host, uint64_t count) {
  void* const group_api = host.start([&](Descriptor& descriptor) {
    descriptor.type = profiler::kGroupApi;
    descriptor.group_api = {task.graph_captured, task.depth};
  });
  host.plugin.record_event_state(group_api, profiler::kGroupStartApiStop, nullptr);
  void* const call = host.start([&](Descriptor& descriptor) {
    descriptor.type = profiler::kCollApi;
    descriptor.parent = group_api;
    descriptor.coll_api = {task.func, count,       task.datatype,
                           task.root, task.stream, task.graph_captured};
  });
  host.stop(call);
  host.plugin.record_event_state(group_api, profiler::kGroupEndApiStart, nullptr);
  host.stop(host.start([&](Descriptor& descriptor) {
    descriptor.type = profiler::kKernelLaunch;
    descriptor.parent = group_api;
    descriptor.kernel_launch.stream = task.stream;
  }));
  void* const group =
      host.start([&](Descriptor& descriptor) { descriptor.type = profiler::kGroup; });
  void* const coll = host.start([&](Descriptor& descriptor) {
    descriptor.type = profiler::kColl;
    descriptor.parent = call;
    descriptor.coll = {task.seq_number, task.func,      task.send,     task.recv,
                       count,           task.root,      task.datatype, task.channels,
                       task.warps,      task.algorithm, task.protocol, group};
  });
  host.stop(coll);
  host.stop(group);
  host.stop(group_api);
  void* const proxy_op = start_proxy_op(host, coll);
  host.stop(start_step(host, proxy_op));
  host.stop(proxy_op);
}

// A network step as a sender tells of it, without the operation around it.
void tell_step(const Host& host, uint64_t bytes) {
  void* const step = start_step(host, host.proxy_op);
  StateArgs arguments{};
  arguments.proxy_step.bytes = bytes;
  host.plugin.record_event_state(step, profiler::kProxyStepSendGpuWait, &arguments);
  host.plugin.record_event_state(step, profiler::kProxyStepSendPeerWait, &arguments);
  host.plugin.record_event_state(step, profiler::kProxyStepSendWait, &arguments);
  host.stop(step);
}

// The shim around it.
char comm_cookie;
void call_collective(const Host& host, uint64_t count) {
  const capture::OpToken token = capture::begin_op(
      {.datatype = 7, .reduction = 0, .count = count, .comm_handle = &comm_cookie});
  tell_collective(host, count);
  capture::end_op(token, 0);
}

// What a child is to do; it inherits them.
int pairs = 0;
uint64_t collectives = 0;

// Short, so that most batches of a busy machine run without an interruption.
constexpr int kBatch = 512;

double batch_ns(const Host& host, void (*collective)(const Host&, uint64_t)) {
  const uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
  for (int i = 0; i < kBatch; ++i) collective(host, static_cast<uint64_t>(i & 7) * 1024);
  return static_cast<double>(clock_ns(CLOCK_MONOTONIC) - start_ns) / kBatch;
}

Host null_host() {
  return {.plugin = {"null", nullptr, null_start, null_stop, null_record, nullptr}};
}
Host own_host() {
  task.pid = getpid();
  Host host{.plugin = ncclProfiler_v6};
  int mask = 0;
  host.plugin.init(&host.context, 1, &mask, nullptr, 1, 2, 0, nullptr);
  host.proxy_op = start_proxy_op(host, nullptr);
  return host;
}

double floor_ns(Floor& floor) {
  const uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
  for (int i = 0; i < kBatch; ++i) floor.once();
  return static_cast<double>(clock_ns(CLOCK_MONOTONIC) - start_ns) / kBatch;
}

// The medians of what ours takes longer than the null plugin, in turns: in ns, and in floors.
void measure_added(const Host& ours, const std::string& directory, double* values,
                   void (*collective)(const Host&, uint64_t)) {
  Floor floor(directory);
  if (!floor.usable()) _exit(1);
  const Host null = null_host();
  for (int i = 0; i < 256; ++i) batch_ns(ours, collective);  // first calls, page faults
  std::vector<double> added;
  std::vector<double> ratios;
  for (int pair = 0; pair < pairs; ++pair) {
    if (pair % 8 == 0) usleep(5000);  // the flusher catches up
    const double null_ns = batch_ns(null, collective);
    added.push_back(batch_ns(ours, collective) - null_ns);
    ratios.push_back(added.back() / floor_ns(floor));
  }
  values[0] = median(added);
  values[1] = median(ratios);
}

void measure_alone(double* values, const std::string& directory) {
  measure_added(own_host(), directory, values, tell_collective);
}

void measure_step(double* values, const std::string& directory) {
  measure_added(own_host(), directory, values, tell_step);
}

// The shim watches the communicator's creation, so the plugin leaves the recording to it.
void measure_beside_shim(double* values, const std::string& directory) {
  const uint32_t index =
      capture::open_comm({.origin = CommOrigin::init, .key = {1, 1}, .nranks = 2, .rank = 0});
  const Host ours = own_host();
  capture::bind_comm(index, &comm_cookie);
  capture::comm_ready(index, 2, 0, 0, 0);
  measure_added(ours, directory, values, call_collective);
}

// Memory that is the process's alone: the ring is a file's.
double anonymous_kib() {
  FILE* file = fopen("/proc/self/status", "r");
  if (file == nullptr) return -1;
  char line[256];
  double kib = -1;
  while (fgets(line, sizeof line, file) != nullptr) {
    if (sscanf(line, "RssAnon: %lf", &kib) == 1) break;
  }
  fclose(file);
  return kib;
}

void measure_memory(double* values, const std::string&) {
  const Host ours = own_host();
  const uint64_t batches = collectives / kBatch;
  for (int i = 0; i < 512; ++i) batch_ns(ours, tell_collective);
  const double before = anonymous_kib();
  for (uint64_t i = 0; i < batches; ++i) batch_ns(ours, tell_collective);
  values[0] = anonymous_kib() - before;
  values[1] = before;
}

constexpr double kGoalNs = 60;

// What the measure leaves; empty, and said in the table, where it failed.
std::vector<double> measured(ResultTable& table, const std::string& name, ChildMeasure measure) {
  auto values = measure_in_child(measure, {{"ROLLCALL_PLUGIN_EVENTS", "proxy"}});
  if (values.empty()) table.add({name, -1, "failed", 0, true});
  return values;
}

void add_cost(ResultTable& table, const std::string& name, ChildMeasure measure) {
  const std::vector<double> values = measured(table, name, measure);
  if (values.empty()) return;
  table.add({name + ": time added", values[0], "ns/collective", kGoalNs});
  table.add({name + ": ratio to floor", values[1], "x floor", kGoalNs / kReferenceFloorNs});
}

// Of which a collective over the network has one and more per chunk; no goal is set for it.
void add_step_cost(ResultTable& table) {
  const std::string name = "profiler plugin, a network step with 3 states: time added";
  const std::vector<double> values = measured(table, name, measure_step);
  if (!values.empty()) table.add({name, values[0], "ns/step", 0, false, false});
}

}  // namespace

void bench_plugin(ResultTable& table, bool quick) {
  pairs = quick ? 401 : 4001;
  add_cost(table, "profiler plugin, 7 events and 2 states, recording itself", measure_alone);
  add_cost(table, "profiler plugin, 7 events and 2 states, beside the shim", measure_beside_shim);
  add_step_cost(table);
}

void bench_plugin_memory(ResultTable& table, bool quick) {
  const char* const asked = std::getenv("ROLLCALL_BENCH_COLLECTIVES");
  const double wanted = asked != nullptr ? std::atof(asked) : quick ? 1e6 : 1e8;
  collectives = static_cast<uint64_t>(wanted);
  const std::string name =
      fmt::format("profiler plugin: memory grown in {:.0e} collectives", wanted);
  const std::vector<double> values = measured(table, name, measure_memory);
  if (!values.empty()) table.add({name, values[0], "KiB", 64});
}

}  // namespace rollcall::bench
