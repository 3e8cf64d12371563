#include "profiler_plugin/nccl_library.h"

#include <dlfcn.h>

#include <atomic>

#include "core/capture/communicators.h"
#include "core/capture/library_facts.h"

namespace rollcall::profiler {
namespace {

using GetVersion = int (*)(int* version);

// The function of the object that holds `address`, or null. The look-up also finds what that object
// depends on, which may be another NCCL.
void* find_in_object_of(const void* address, const char* name) noexcept {
  Dl_info object{};
  if (address == nullptr || dladdr(address, &object) == 0) return nullptr;
  void* handle = capture::loaded_library(object.dli_fname, false);
  // The program itself is not found by its name.
  if (handle == nullptr) handle = capture::loaded_library(nullptr, false);
  void* found = handle != nullptr ? dlsym(handle, name) : nullptr;
  Dl_info place{};
  const bool is_there = found != nullptr && dladdr(found, &place) != 0;
  return is_there && place.dli_fbase == object.dli_fbase ? found : nullptr;
}

// Where another profiler plugin calls this one, the caller is not NCCL.
void* find_get_version(const void* caller) noexcept {
  constexpr const char* kName = "ncclGetVersion";
  if (void* found = find_in_object_of(caller, kName)) return found;
  void* handle = capture::loaded_library("libnccl.so.2", false);
  return handle != nullptr ? dlsym(handle, kName) : nullptr;
}

}  // namespace

void note_nccl_library(const void* caller) noexcept {
  static constinit std::atomic<bool> is_noted{false};
  if (capture::creation_is_watched() || is_noted.exchange(true)) return;
  void* get_version = find_get_version(caller);
  capture::NcclLibrary nccl{};
  Dl_info object{};
  if (get_version != nullptr && dladdr(get_version, &object) != 0) {
    nccl = {.path = object.dli_fname,
            .get_version = reinterpret_cast<GetVersion>(get_version),
            .is_emulated = find_in_object_of(get_version, "rollcall_emulated_nccl") != nullptr};
  }
  capture::add_library_facts(nccl, dlsym);
}

}  // namespace rollcall::profiler
