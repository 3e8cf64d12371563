#include "emulator/device/context.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>

#include "emulator/device/device.h"
#include "emulator/device/engine.h"
#include "emulator/device/gpu_model.h"
#include "emulator/device/settings.h"

namespace emu {
namespace {

std::atomic<bool> initialised{false};
std::atomic<bool> forked{false};

void in_forked_child() {
  // Threads, and whoever held the engine's lock, are gone; nothing of it may be touched again.
  if (initialised.load()) forked.store(true);
}

struct Contexts {
  std::mutex mutex;
  CUctx_st primary[64];
  int primary_count[64] = {};
  unsigned primary_flags[64] = {};
  std::set<CUcontext> extra;
};

Contexts& contexts() {
  static Contexts* const made = [] {
    auto* fresh = new Contexts;
    for (int i = 0; i < 64; ++i) fresh->primary[i] = {i, true};
    return fresh;
  }();
  return *made;
}

bool valid_context(CUcontext context) {
  Contexts& all = contexts();
  if (context >= &all.primary[0] && context < &all.primary[64]) return true;
  const std::lock_guard<std::mutex> guard(all.mutex);
  return all.extra.count(context) != 0;
}

}  // namespace

ThreadState& thread_state() {
  static thread_local ThreadState state;
  return state;
}

CUresult check_initialised() {
  if (forked.load(std::memory_order_relaxed)) return CUDA_ERROR_NOT_INITIALIZED;
  return initialised.load(std::memory_order_relaxed) ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult initialise() {
  if (forked.load()) return CUDA_ERROR_NOT_INITIALIZED;
  if (initialised.load()) return CUDA_SUCCESS;
  static std::once_flag once;
  std::call_once(once, [] {
    gpu_model();  // says now, not later, that a setting is wrong
    pthread_atfork(nullptr, nullptr, in_forked_child);
    // Registered late, so it runs before the destructors of the libraries whose work is queued.
    std::atexit([] {
      if (!forked.load()) Engine::shut_down();
    });
    if (settings().gpus > 0) initialised.store(true);
  });
  return settings().gpus == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult enter(int* device) {
  const CUresult status = check_initialised();
  if (status != CUDA_SUCCESS) return status;
  const ThreadState& state = thread_state();
  if (state.depth == 0 || state.stack[state.depth - 1] == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  *device = state.stack[state.depth - 1]->device;
  return CUDA_SUCCESS;
}

CUresult ensure_context() {
  if (const CUresult status = initialise(); status != CUDA_SUCCESS) return status;
  int device = 0;
  if (enter(&device) != CUDA_ERROR_INVALID_CONTEXT) return CUDA_SUCCESS;
  CUcontext context = nullptr;
  if (const CUresult status = cuDevicePrimaryCtxRetain(&context, 0); status != CUDA_SUCCESS) {
    return status;
  }
  return cuCtxSetCurrent(context);
}

CUresult enter_healthy(int* device) {
  const CUresult status = enter(device);
  if (status != CUDA_SUCCESS) return status;
  const Lock lock = Engine::get().lock();
  return Engine::get().sticky(*device);
}

bool valid_device(int device) { return device >= 0 && device < emu_gpu_count(); }

CUcontext primary_context(int device) { return &contexts().primary[device]; }

}  // namespace emu

using emu::check_initialised;
using emu::thread_state;
using emu::valid_device;

extern "C" {

int emu_current_device(void) {
  int device = 0;
  return emu::enter(&device) == CUDA_SUCCESS ? device : 0;
}

CUresult cuInit(unsigned int flags) {
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : emu::initialise();
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  emu::Contexts& all = emu::contexts();
  const std::lock_guard<std::mutex> guard(all.mutex);
  ++all.primary_count[device];
  *context = &all.primary[device];
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  bool is_last = false;
  {
    emu::Contexts& all = emu::contexts();
    const std::lock_guard<std::mutex> guard(all.mutex);
    if (all.primary_count[device] == 0) return CUDA_ERROR_INVALID_CONTEXT;
    is_last = --all.primary_count[device] == 0;
  }
  if (!is_last) return CUDA_SUCCESS;
  emu::Lock lock = emu::Engine::get().lock();
  emu::Engine::get().reset_device(lock, device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  {
    emu::Contexts& all = emu::contexts();
    const std::lock_guard<std::mutex> guard(all.mutex);
    all.primary_count[device] = 0;
  }
  emu::Lock lock = emu::Engine::get().lock();
  emu::Engine::get().reset_device(lock, device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  emu::Contexts& all = emu::contexts();
  const std::lock_guard<std::mutex> guard(all.mutex);
  if (flags != nullptr) *flags = all.primary_flags[device];
  if (active != nullptr) *active = all.primary_count[device] > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (!valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  emu::Contexts& all = emu::contexts();
  const std::lock_guard<std::mutex> guard(all.mutex);
  all.primary_flags[device] = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const emu::ThreadState& state = thread_state();
  *context = state.depth == 0 ? nullptr : state.stack[state.depth - 1];
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (context != nullptr && !emu::valid_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  emu::ThreadState& state = thread_state();
  if (state.depth == 0) state.depth = 1;
  state.stack[state.depth - 1] = context;
  if (context == nullptr) --state.depth;
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  if (context == nullptr || !emu::valid_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  emu::ThreadState& state = thread_state();
  if (state.depth == 16) return CUDA_ERROR_INVALID_VALUE;
  state.stack[state.depth++] = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (const CUresult status = check_initialised(); status != CUDA_SUCCESS) return status;
  emu::ThreadState& state = thread_state();
  if (state.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --state.depth;
  if (context != nullptr) *context = state.stack[state.depth];
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return emu::enter(device);
}

}  // extern "C"
