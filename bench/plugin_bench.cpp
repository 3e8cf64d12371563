#include "bench/plugin_bench.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "bench/floor.h"
#include "bench/measure.h"
#include "core/capture/recorder.h"
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

// NCCL's side: a plugin's functions, and the context it gave.
struct Host {
  Profiler plugin;
  void* context = nullptr;

  void* start(Descriptor& descriptor) const {
    void* handle = nullptr;
    plugin.start_event(context, &handle, &descriptor);
    return handle;
  }
  void stop(void* handle) const {
    if (handle != nullptr) plugin.stop_event(handle);
  }
};

Descriptor describe(uint32_t type, void* parent) {
  Descriptor descriptor{};
  descriptor.type = type;
  descriptor.parent = parent;
  return descriptor;
}

// One collective with everything but KernelCh: 7 events started and stopped, 2 states.
void tell_collective(const Host& host, uint64_t count) {
  static const pid_t own_pid = getpid();
  Descriptor descriptor = describe(profiler::kGroupApi, nullptr);
  descriptor.group_api = {false, 1};
  void* const group_api = host.start(descriptor);
  host.plugin.record_event_state(group_api, profiler::kGroupStartApiStop, nullptr);
  descriptor = describe(profiler::kCollApi, group_api);
  descriptor.coll_api = {"AllReduce", count, "ncclFloat32", 0, nullptr, false};
  void* const call = host.start(descriptor);
  host.stop(call);
  host.plugin.record_event_state(group_api, profiler::kGroupEndApiStart, nullptr);
  descriptor = describe(profiler::kKernelLaunch, group_api);
  host.stop(host.start(descriptor));
  descriptor = describe(profiler::kGroup, nullptr);
  void* const group = host.start(descriptor);
  descriptor = describe(profiler::kColl, call);
  descriptor.coll = {0, "AllReduce", nullptr, nullptr, count, 0, "ncclFloat32",
                     2, 16,          "RING",  "LL",    group};
  void* const coll = host.start(descriptor);
  host.stop(coll);
  host.stop(group);
  host.stop(group_api);
  descriptor = describe(profiler::kProxyOp, coll);
  descriptor.proxy_op = {own_pid, 0, 1, 1, 4096, 1};
  void* const proxy_op = host.start(descriptor);
  descriptor = describe(profiler::kProxyStep, proxy_op);
  host.stop(host.start(descriptor));
  host.stop(proxy_op);
}

// The shim around it.
char comm_cookie;
void call_collective(const Host& host, uint64_t count) {
  const capture::OpToken token = capture::begin_op(
      {.datatype = 7, .reduction = 0, .count = count, .comm_handle = &comm_cookie});
  tell_collective(host, count);
  capture::end_op(token, 0);
}

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
  Host host{.plugin = ncclProfiler_v6};
  int mask = 0;
  host.plugin.init(&host.context, 1, &mask, nullptr, 1, 2, 0, nullptr);
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
  const int pairs = static_cast<int>(values[0]);
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
  const auto batches = static_cast<uint64_t>(values[0]) / kBatch;
  for (int i = 0; i < 512; ++i) batch_ns(ours, tell_collective);
  const double before = anonymous_kib();
  for (uint64_t i = 0; i < batches; ++i) batch_ns(ours, tell_collective);
  values[0] = anonymous_kib() - before;
  values[1] = before;
}

constexpr double kGoalNs = 60;

void add_cost(ResultTable& table, const std::string& name, ChildMeasure measure) {
  const auto values = measure_in_child(measure, {{"ROLLCALL_PLUGIN_EVENTS", "proxy"}});
  if (values.empty()) return table.add({name, -1, "failed", 0, true});
  table.add({name + ": time added", values[0], "ns/collective", kGoalNs});
  table.add({name + ": ratio to floor", values[1], "x floor", kGoalNs / kReferenceFloorNs});
}

int pairs = 0;
double collectives = 0;

}  // namespace

void bench_plugin(ResultTable& table, bool quick) {
  pairs = quick ? 401 : 4001;
  add_cost(table, "profiler plugin, 16 callbacks, recording itself",
           [](double* out, const std::string& directory) {
             out[0] = pairs;
             measure_alone(out, directory);
           });
  add_cost(table, "profiler plugin, 16 callbacks, beside the shim",
           [](double* out, const std::string& directory) {
             out[0] = pairs;
             measure_beside_shim(out, directory);
           });
}

void bench_plugin_memory(ResultTable& table, bool quick) {
  const char* const asked = std::getenv("ROLLCALL_BENCH_COLLECTIVES");
  collectives = asked != nullptr ? std::atof(asked) : quick ? 1e6 : 1e7;
  const auto values = measure_in_child(
      [](double* out, const std::string& directory) {
        out[0] = collectives;
        measure_memory(out, directory);
      },
      {{"ROLLCALL_PLUGIN_EVENTS", "proxy"}});
  const std::string name =
      fmt::format("profiler plugin: memory grown in {:.0e} collectives", collectives);
  if (values.empty()) return table.add({name, -1, "failed", 0, true});
  table.add({name, values[0], "KiB", 64});
}

}  // namespace rollcall::bench
