#include "bench/gpu_bench.h"

#include <unistd.h>

#include <string_view>

#include "bench/floor.h"
#include "bench/measure.h"
#include "bench/ring_file.h"
#include "core/capture/communicators.h"
#include "core/capture/operations.h"
#include "core/capture/process.h"
#include "core/gpu/driver.h"

namespace rollcall::bench {
namespace {

// A driver that does nothing: what is left is ours. Every event has happened at once.
template <typename... Parameters>
int do_nothing(Parameters...) {
  return 0;
}
int not_capturing(gpu::Stream, int* status) {
  *status = 0;
  return 0;
}
int context_of_stream(gpu::Stream, gpu::ContextHandle* context) {
  *context = reinterpret_cast<void*>(0x1000);
  return 0;
}
int device_of_context(int* device) {
  *device = 0;
  return 0;
}
int primary_state(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}

void* find_function(const char* name_text) {
  const std::string_view name = name_text;
  if (name == "cuStreamIsCapturing") return reinterpret_cast<void*>(not_capturing);
  if (name == "cuStreamGetCtx") return reinterpret_cast<void*>(context_of_stream);
  if (name == "cuCtxGetDevice") return reinterpret_cast<void*>(device_of_context);
  if (name == "cuDevicePrimaryCtxGetState") return reinterpret_cast<void*>(primary_state);
  return reinterpret_cast<void*>(do_nothing<void*, void*, void*>);
}

char comm_cookie;

// Both kinds are recorded alike; what comes from the plugin is not timed.
void call_once(bool timed) {
  capture::OpCall call;
  call.kind = OpKind::AllReduce;
  call.datatype = 7;
  call.reduction = 0;
  call.flags = timed ? 0 : kOpFromPlugin;
  call.count = 1024;
  call.stream = reinterpret_cast<const void*>(0x2000);
  call.comm_handle = &comm_cookie;
  capture::end_op(capture::begin_op(call), 0);
}

// Less than there are pairs of events; between two batches the poller gives them all back.
constexpr int kCalls = 1000;
constexpr unsigned kPauseUs = 15'000;

double cost_ns(bool timed) {
  usleep(kPauseUs);
  const uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
  for (int i = 0; i < kCalls; ++i) call_once(timed);
  return static_cast<double>(clock_ns(CLOCK_MONOTONIC) - start_ns) / kCalls;
}

constexpr double kGoalNs = 60;

double floor_ns(Floor& floor) {
  const uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
  for (int i = 0; i < kCalls; ++i) floor.once();
  return static_cast<double>(clock_ns(CLOCK_MONOTONIC) - start_ns) / kCalls;
}

void measure_marks(double* values, const std::string& directory) {
  Floor floor(directory);
  if (!floor.usable()) _exit(1);
  capture::set_gpu_symbols(find_function);
  const uint32_t index = capture::open_comm({.origin = CommOrigin::init, .key = {1, 2}});
  capture::bind_comm(index, &comm_cookie);
  capture::comm_ready(index, 2, 0, 0, 0);
  for (int i = 0; i < 20; ++i) cost_ns(true);  // the poller makes as many pairs as are needed
  const uint64_t untimed_before = summarise_directory(directory).statistics.gpu_untimed;
  std::vector<double> added;
  std::vector<double> ratios;
  const int pairs = static_cast<int>(values[0]);
  for (int pair = 0; pair < pairs; ++pair) {
    const double without_ns = cost_ns(false);
    added.push_back(cost_ns(true) - without_ns);
    ratios.push_back(added.back() / floor_ns(floor));
  }
  const uint64_t untimed = summarise_directory(directory).statistics.gpu_untimed - untimed_before;
  values[0] = median(added);
  values[2] = median(ratios);
  values[1] = static_cast<double>(untimed) / (static_cast<double>(pairs) * kCalls) * 100;
}

}  // namespace

void bench_gpu_marks(ResultTable& table, bool quick) {
  static int pairs;
  pairs = quick ? 51 : 201;
  const auto values = measure_in_child(
      [](double* out, const std::string& directory) {
        out[0] = pairs;
        measure_marks(out, directory);
      },
      {{"ROLLCALL_GPU_TIMING", "events"}, {"ROLLCALL_OVERHEAD_BUDGET", "100"}});
  if (values.empty()) return table.add({"GPU timing", -1, "failed", 0, true});
  table.add({"GPU timing: time added beside the driver's", values[0], "ns", kGoalNs});
  table.add(
      {"GPU timing: ratio of that to floor", values[2], "x floor", kGoalNs / kReferenceFloorNs});
  table.add({"GPU timing: calls left untimed", values[1], "%", 5});
}

}  // namespace rollcall::bench
