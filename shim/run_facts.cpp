#include "shim/run_facts.h"

#include <atomic>

#include "core/capture/library_facts.h"
#include "core/capture/process.h"
#include "shim/loader.h"
#include "shim/python_frames.h"
#include "shim/python_stacks.h"
#include "shim/real_functions.h"

namespace rollcall::shim {
namespace {

// For GPU timing. The job has loaded the driver, or there is none; once found it stays.
void* find_driver_function(const char* name) {
  static std::atomic<void*> found{nullptr};
  void* handle = found.load(std::memory_order_acquire);
  if (handle == nullptr) {
    handle = capture::loaded_library("libcuda.so.1", true);
    found.store(handle, std::memory_order_release);
  }
  return handle != nullptr ? real_dlsym()(handle, name) : nullptr;
}

}  // namespace

void report_run_facts(unsigned copy, const void* real, const char* coverage) noexcept {
  capture::add_coverage(coverage);
  capture::set_gpu_symbols(find_driver_function);
  const capture::NcclLibrary nccl{
      .path = owner_of(real).path,
      .get_version = queries_of(copy).version,
      .is_emulated = find_in_copy(copy, "rollcall_emulated_nccl") != nullptr};
  capture::add_library_facts(nccl, real_dlsym());
  start_python_frames();
  start_python_stacks();
}

}  // namespace rollcall::shim
