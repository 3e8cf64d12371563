#include "shim/driver_hook.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core/base/setting_files.h"
#include "core/capture/contexts.h"
#include "core/capture/graphs.h"
#include "core/capture/operations.h"
#include "shim/real_functions.h"

namespace rollcall::shim {
namespace {

// Arguments of the functions below are integers and pointers, six at most: on the processors that
// CUDA runs on all of them are in registers, and a function that wants fewer never looks at the
// rest. So one signature serves every version of every function.
using Word = uintptr_t;
using DriverFunction = int (*)(Word, Word, Word, Word, Word, Word);

// X(row, what is done about it). Several exported names share a row where the arguments that
// matter, the first ones, are the same.
#define ROLLCALL_DRIVER_ROWS(X) \
  X(launch)                     \
  X(launch_per_thread)          \
  X(instantiate)                \
  X(update)                     \
  X(clone)                      \
  X(destroy_graph)              \
  X(destroy_executable)         \
  X(capture_to_graph)           \
  X(destroy_context)            \
  X(reset_device)               \
  X(release_device)             \
  X(get_address)

enum class Row : uint8_t {
#define ROLLCALL_X(name) name,
  ROLLCALL_DRIVER_ROWS(ROLLCALL_X)
#undef ROLLCALL_X
      Count
};
constexpr unsigned kRows = static_cast<unsigned>(Row::Count);
// Versions of one function, and copies of the driver, that one process meets.
constexpr unsigned kInstances = 6;

struct WatchedName {
  const char* name;
  Row row;
};
constexpr WatchedName kNames[] = {
    {"cuGraphLaunch", Row::launch},
    {"cuGraphLaunch_ptsz", Row::launch_per_thread},
    {"cuGraphInstantiate", Row::instantiate},
    {"cuGraphInstantiate_v2", Row::instantiate},
    {"cuGraphInstantiateWithFlags", Row::instantiate},
    {"cuGraphInstantiateWithParams", Row::instantiate},
    {"cuGraphInstantiateWithParams_ptsz", Row::instantiate},
    {"cuGraphExecUpdate", Row::update},
    {"cuGraphExecUpdate_v2", Row::update},
    {"cuGraphClone", Row::clone},
    {"cuGraphDestroy", Row::destroy_graph},
    {"cuGraphExecDestroy", Row::destroy_executable},
    {"cuStreamBeginCaptureToGraph", Row::capture_to_graph},
    {"cuStreamBeginCaptureToGraph_ptsz", Row::capture_to_graph},
    {"cuCtxDestroy", Row::destroy_context},
    {"cuCtxDestroy_v2", Row::destroy_context},
    {"cuDevicePrimaryCtxReset", Row::reset_device},
    {"cuDevicePrimaryCtxReset_v2", Row::reset_device},
    {"cuDevicePrimaryCtxRelease", Row::release_device},
    {"cuDevicePrimaryCtxRelease_v2", Row::release_device},
    {"cuGetProcAddress", Row::get_address},
    {"cuGetProcAddress_v2", Row::get_address},
};

constexpr Word kPerThreadStream = 2;          // CU_STREAM_PER_THREAD
constexpr Word kPerThreadDefaultStreams = 2;  // CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
constexpr int kLaunchFailed = 1;              // ncclUnhandledCudaError, for the record

std::atomic<DriverFunction> g_real[kRows][kInstances];

void* pointer(Word word) { return reinterpret_cast<void*>(word); }
// What a function has stored where its first argument points.
void* result_at(Word word) { return word != 0 ? *reinterpret_cast<void**>(word) : nullptr; }

const WatchedName* watched_name(const char* name) {
  for (const WatchedName& watched : kNames) {
    if (strcmp(watched.name, name) == 0) return &watched;
  }
  return nullptr;
}

void* entry_of(Row row, void* real) noexcept;

// The name that was asked for may mean another function for programs whose default stream is the
// thread's own.
void* watched_address(const char* name, void* real, Word flags) noexcept {
  const WatchedName* watched = name != nullptr ? watched_name(name) : nullptr;
  if (watched == nullptr || real == nullptr) return real;
  const bool is_per_thread = watched->row == Row::launch && (flags & kPerThreadDefaultStreams) != 0;
  return entry_of(is_per_thread ? Row::launch_per_thread : watched->row, real);
}

int launch(DriverFunction real, Word a, Word b, Word stream) {
  const capture::OpToken token = capture::begin_graph_launch(pointer(a), pointer(stream));
  const int result = real(a, b, 0, 0, 0, 0);
  if (token.record != nullptr) {
    capture::end_op(token, result == 0 ? kResultSuccess : kLaunchFailed);
    if (result != 0) capture::refuse_graph_launch(pointer(a));
  }
  return result;
}

template <Row kRow>
int end_context(DriverFunction real, Word what) {
  const capture::ContextEnd end =
      kRow == Row::destroy_context
          ? capture::begin_context_end(pointer(what))
          : capture::begin_primary_end(static_cast<int>(what), kRow == Row::reset_device);
  const int result = real(what, 0, 0, 0, 0, 0);
  capture::finish_context_end(end);
  return result;
}

// What is destroyed is told before: its handle may be another's as soon as the driver has it back.
template <Row kRow, unsigned kInstance>
int entry(Word a, Word b, Word c, Word d, Word e, Word f) {
  const DriverFunction real =
      g_real[static_cast<unsigned>(kRow)][kInstance].load(std::memory_order_acquire);
  if constexpr (kRow == Row::launch) return launch(real, a, b, b);
  if constexpr (kRow == Row::launch_per_thread) {
    return launch(real, a, b, b != 0 ? b : kPerThreadStream);
  }
  if constexpr (kRow == Row::destroy_context || kRow == Row::reset_device ||
                kRow == Row::release_device) {
    return end_context<kRow>(real, a);
  }
  if constexpr (kRow == Row::destroy_graph) capture::graph_destroyed(pointer(a));
  if constexpr (kRow == Row::destroy_executable) capture::graph_executable_destroyed(pointer(a));
  if constexpr (kRow == Row::capture_to_graph) capture::graph_captures_into(pointer(b));
  const int result = real(a, b, c, d, e, f);
  if (result != 0) {
    if constexpr (kRow == Row::instantiate) capture::graph_refused(pointer(b), result);
    return result;
  }
  if constexpr (kRow == Row::instantiate) capture::graph_instantiated(result_at(a), pointer(b));
  if constexpr (kRow == Row::update) capture::graph_instantiated(pointer(a), pointer(b));
  if constexpr (kRow == Row::clone) capture::graph_cloned(result_at(a), pointer(b));
  if constexpr (kRow == Row::get_address) {
    if (b != 0) {
      auto* found = reinterpret_cast<void**>(b);
      *found = watched_address(reinterpret_cast<const char*>(a), *found, d);
    }
  }
  return result;
}

constexpr DriverFunction kEntries[kRows][kInstances] = {
#define ROLLCALL_X(name)                                          \
  {entry<Row::name, 0>, entry<Row::name, 1>, entry<Row::name, 2>, \
   entry<Row::name, 3>, entry<Row::name, 4>, entry<Row::name, 5>},
    ROLLCALL_DRIVER_ROWS(ROLLCALL_X)
#undef ROLLCALL_X
};

bool is_ours(const void* address) {
  for (const auto& row : kEntries) {
    for (const DriverFunction ours : row) {
      if (reinterpret_cast<const void*>(ours) == address) return true;
    }
  }
  return false;
}

// The entry that leads to `real`; beyond kInstances `real` itself, which works and is not watched.
void* entry_of(Row row, void* real) noexcept {
  if (is_ours(real)) return real;
  const auto function = reinterpret_cast<DriverFunction>(real);
  const auto number = static_cast<unsigned>(row);
  void* found = real;
  for (unsigned i = 0; i < kInstances && found == real; ++i) {
    DriverFunction there = nullptr;
    if (g_real[number][i].compare_exchange_strong(there, function, std::memory_order_acq_rel) ||
        there == function) {
      found = reinterpret_cast<void*>(kEntries[number][i]);
    }
  }
  if (found != real && (row == Row::launch || row == Row::launch_per_thread)) {
    capture::graph_launches_watched();
  }
  return found;
}

}  // namespace

// Asked before the recorder has started, so the variable itself answers.
bool watches_driver() noexcept {
  static std::atomic<int> answer{-1};
  int value = answer.load(std::memory_order_relaxed);
  if (value < 0) {
    const char* text = setting("ROLLCALL_GPU_TIMING");
    value = text == nullptr || strcmp(text, "off") != 0;
    answer.store(value, std::memory_order_relaxed);
  }
  return value != 0;
}

void* watched_driver_function(const char* name, void* real) noexcept {
  return watched_address(name, real, 0);
}

}  // namespace rollcall::shim
