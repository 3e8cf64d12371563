#include "shim/symbol_hook.h"

#include <dlfcn.h>

#include "shim/driver_hook.h"
#include "shim/loader.h"
#include "shim/real_functions.h"
#include "shim/static_nccl.h"

namespace rollcall::shim {
namespace {

void* not_found(void* handle, const char* name, const char* version) {
  // Asked behind ourselves the answer is null, with the text that dlerror() owes the caller.
  (void)handle;
  return version != nullptr ? real_dlvsym()(RTLD_NEXT, name, version)
                            : real_dlsym()(RTLD_NEXT, name);
}

bool is_ours(Function function, void* address) {
  return address == entry_point(kCopyLinked, function);
}

// What a lookup of an NCCL function gives. `version` is null for dlsym.
SymbolDecision decide(void* jump_to, void* handle, const char* name, const char* version) {
  if (handle == RTLD_NEXT) return {jump_to, nullptr};  // another interposer; its call reaches us
  const Function function = function_of(name);
  if (function == Function::Count) return {jump_to, nullptr};
  if (handle == RTLD_DEFAULT) {
    // We are in front of everything, so the real answer is our own function; but a program that
    // asks whether there is an NCCL must not be told of one that is not there.
    if (resolve(kCopyLinked, function, false) != nullptr) return {jump_to, nullptr};
    return {nullptr, not_found(handle, name, version)};
  }
  void* real =
      version != nullptr ? real_dlvsym()(handle, name, version) : real_dlsym()(handle, name);
  if (real == nullptr) return {nullptr, nullptr};
  if (is_ours(function, real)) {  // the handle of the whole program
    if (resolve(kCopyLinked, function, false) != nullptr) return {nullptr, real};
    return {nullptr, not_found(handle, name, version)};
  }
  const unsigned copy = copy_of_real(real, function);
  return {nullptr, copy < kCopiesMax ? entry_point(copy, function) : real};
}

// A function of the CUDA driver, which programs and the CUDA runtime ask for on a handle.
SymbolDecision decide_driver(void* jump_to, void* handle, const char* name) {
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT) return {jump_to, nullptr};
  return {nullptr, watched_driver_function(name, real_dlsym()(handle, name))};
}

// All of what every other lookup pays.
bool is_nccl_name(const char* name) {
  return name != nullptr && name[0] == 'n' && name[1] == 'c' && name[2] == 'c' && name[3] == 'l';
}

}  // namespace

extern "C" SymbolDecision rollcall_dlsym_decide(void* handle, const char* name) noexcept {
  void* real = reinterpret_cast<void*>(real_dlsym());
  if (real == nullptr) return {nullptr, nullptr};
  watch_symbol_for_static_nccl(name);
  if (is_driver_name(name) && watches_driver() && !disabled())
    return decide_driver(real, handle, name);
  if (!is_nccl_name(name) || disabled()) return {real, nullptr};
  return decide(real, handle, name, nullptr);
}

extern "C" SymbolDecision rollcall_dlvsym_decide(void* handle, const char* name,
                                                 const char* version) noexcept {
  void* real = reinterpret_cast<void*>(real_dlvsym());
  if (real == nullptr) return {nullptr, nullptr};
  if (!is_nccl_name(name) || version == nullptr || disabled()) return {real, nullptr};
  return decide(real, handle, name, version);
}

}  // namespace rollcall::shim
