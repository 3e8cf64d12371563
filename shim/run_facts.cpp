#include "shim/run_facts.h"

#include <atomic>
#include <cstdio>

#include "core/base/text.h"
#include "core/capture/recorder.h"
#include "shim/loader.h"
#include "shim/python_frames.h"
#include "shim/real_functions.h"

namespace rollcall::shim {
namespace {

using VersionQuery = int (*)(int* version);

void add_number(const char* key, int value) {
  char text[16];
  snprintf(text, sizeof(text), "%d", value);
  capture::add_meta(key, text);
}

// Version queries of a loaded library; both of CUDA's answer before anything is initialised.
bool add_version_of(const char* library, const char* function, const char* key) {
  void* handle = loaded_library(library, false);
  if (handle == nullptr) return false;
  const auto query = reinterpret_cast<VersionQuery>(real_dlsym()(handle, function));
  int version = 0;
  if (query == nullptr || query(&version) != 0) return false;
  add_number(key, version);
  return true;
}

// For GPU timing. The job has loaded the driver, or there is none; once found it stays.
void* find_driver_function(const char* name) {
  static std::atomic<void*> found{nullptr};
  void* handle = found.load(std::memory_order_acquire);
  if (handle == nullptr) {
    handle = loaded_library("libcuda.so.1", true);
    found.store(handle, std::memory_order_release);
  }
  return handle != nullptr ? real_dlsym()(handle, name) : nullptr;
}

// What the emulated GPU was asked for and does not do; told from any thread, at any time. How many
// there are is bounded by the meta area.
void add_not_emulated(const char* function) {
  TextBuffer<128> key;
  key.text("not_emulated.").text(function);
  capture::add_meta(key.c_str(), "1");
}

// The emulator shares no header with us: its driver exports this, and NVIDIA's does not.
void listen_to_emulator() {
  using Listen = void (*)(void (*told)(const char* function));
  if (void* symbol = find_driver_function("rollcall_emulated_listen"); symbol != nullptr) {
    reinterpret_cast<Listen>(symbol)(add_not_emulated);
  }
}

}  // namespace

void report_run_facts(unsigned copy, const void* real, const char* coverage) noexcept {
  capture::add_coverage(coverage);
  capture::set_gpu_symbols(find_driver_function);
  const Owner owner = owner_of(real);
  if (owner.path != nullptr) capture::add_meta("nccl_path", owner.path);
  int version = 0;
  const nccl::GetVersion query = queries_of(copy).version;
  if (query != nullptr && query(&version) == nccl::kSuccess) add_number("nccl_version", version);
  if (find_in_copy(copy, "rollcall_emulated_nccl") != nullptr) capture::add_meta("emulated", "1");
  add_version_of("libcuda.so.1", "cuDriverGetVersion", "cuda_driver_version");
  for (const char* runtime : {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"})
    if (add_version_of(runtime, "cudaRuntimeGetVersion", "cuda_runtime_version")) break;
  listen_to_emulator();
  start_python_frames();
}

}  // namespace rollcall::shim
