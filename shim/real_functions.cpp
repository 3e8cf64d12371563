#include "shim/real_functions.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/config.h"
#include "core/base/keep_errno.h"
#include "core/base/setting_files.h"
#include "core/capture/library_facts.h"
#include "core/capture/recorder.h"
#include "shim/comm_tracking.h"
#include "shim/loader.h"
#include "shim/run_facts.h"

namespace rollcall::shim {

constinit RealPointers g_real_pointers[kCopiesMax]{};

namespace {

struct Copy {
  std::atomic<uintptr_t> base;  // 0: free
  std::atomic<bool> reported;
  std::atomic<bool> has_queries;
  Queries queries;
};
Copy g_copies[kCopiesMax];

std::atomic<bool> g_process_has_called{false};
pthread_mutex_t g_copies_lock = PTHREAD_MUTEX_INITIALIZER;

constexpr const char* kNames[] = {
#define ROLLCALL_X(class, name, parameters, arguments) #name,
    ROLLCALL_NCCL_INTERCEPTED(ROLLCALL_X)
#undef ROLLCALL_X
};

// An address inside this library is never a real function: calling it would recurse.
bool is_foreign(void* address) {
  return address != nullptr &&
         owner_of(address).base != owner_of(reinterpret_cast<const void*>(&kNames)).base;
}

void* find_linked(const char* name) {
  void* found = real_dlsym()(RTLD_NEXT, name);
  if (is_foreign(found)) return found;
  // Loaded with dlopen, for itself alone: not in link order, but loaded. Kept loaded from here on,
  // because what is handed out is called without asking again.
  void* handle = capture::loaded_library("libnccl.so.2", true);
  found = handle != nullptr ? real_dlsym()(handle, name) : nullptr;
  return is_foreign(found) ? found : nullptr;
}

void* find_in_base(uintptr_t base, const char* name) {
  const Owner owner = owner_of(reinterpret_cast<const void*>(base));
  void* handle = owner.path != nullptr ? capture::loaded_library(owner.path, false) : nullptr;
  void* found = handle != nullptr ? real_dlsym()(handle, name) : nullptr;
  return is_foreign(found) ? found : nullptr;
}

// The p-form is the strong name where NCCL was built with both; before 2.16 it may be missing.
void* find_either_name(unsigned copy, const char* name) {
  const uintptr_t base = g_copies[copy].base.load(std::memory_order_acquire);
  void* found = copy == kCopyLinked ? find_linked(name) : find_in_base(base, name);
  if (found != nullptr) return found;
  char with_p[64];
  snprintf(with_p, sizeof(with_p), "p%s", name);
  return copy == kCopyLinked ? find_linked(with_p) : find_in_base(base, with_p);
}

// A child of fork makes its own first call: what the parent reported is in the parent's file.
void forget_after_fork() {
  pthread_mutex_init(&g_copies_lock, nullptr);  // another thread may have held it
  forget_pending_after_fork();
  g_process_has_called.store(false, std::memory_order_relaxed);
  for (Copy& copy : g_copies) copy.reported.store(false, std::memory_order_relaxed);
  for (RealPointers& pointers : g_real_pointers) {
    for (std::atomic<void*>& published : pointers.published)
      published.store(nullptr, std::memory_order_relaxed);
  }
}

void note_first_call() {
  static std::atomic<bool> watches_fork{false};
  if (!watches_fork.exchange(true)) pthread_atfork(nullptr, nullptr, forget_after_fork);
  g_process_has_called.store(true, std::memory_order_relaxed);
}

// A library that was unloaded leaves its place to the next.
bool is_gone(uintptr_t base) { return owner_of(reinterpret_cast<const void*>(base)).base != base; }

}  // namespace

const char* name_of(Function function) noexcept {
  return function < Function::Count ? kNames[static_cast<unsigned>(function)] : "";
}

Function function_of(const char* name) noexcept {
  for (unsigned i = 0; i < kFunctions; ++i)
    if (strcmp(kNames[i], name) == 0) return static_cast<Function>(i);
  return Function::Count;
}

bool read_disabled() noexcept {
  const char* text = setting("ROLLCALL_ENABLE");
  bool is_enabled = true;
  const bool is_disabled = text != nullptr && parse_flag(text, is_enabled) && !is_enabled;
  g_call_flags.disabled.store(is_disabled ? 1 : 0, std::memory_order_relaxed);
  return is_disabled;
}

bool process_has_called() noexcept { return g_process_has_called.load(std::memory_order_relaxed); }

void* find_in_copy(unsigned copy, const char* name) noexcept {
  return find_either_name(copy, name);
}

void* resolve(unsigned copy, Function function, bool reports) noexcept {
  const KeepErrno keep;
  Copy& where = g_copies[copy];
  RealPointers& pointers = g_real_pointers[copy];
  const unsigned index = static_cast<unsigned>(function);
  void* real = pointers.found[index].load(std::memory_order_acquire);
  if (real == nullptr) {
    real = find_either_name(copy, kNames[index]);
    if (real == nullptr) return nullptr;
    pointers.found[index].store(real, std::memory_order_release);
  }
  if (!reports) return real;
  pointers.published[index].store(real, std::memory_order_release);
  if (disabled()) return real;
  note_first_call();
  if (!where.reported.exchange(true, std::memory_order_acq_rel))
    report_run_facts(copy, real, copy == kCopyLinked ? "plt" : "dlsym");
  return real;
}

unsigned copy_of_real(void* real, Function function) noexcept {
  const uintptr_t base = owner_of(real).base;
  if (base == 0) return kCopiesMax;
  // Before our lock: the loader answers under its own, and the thread that has that one, in a
  // library's constructor, may be on its way in here.
  uintptr_t gone[kCopiesMax] = {};
  for (unsigned i = 1; i < kCopiesMax; ++i) {
    const uintptr_t taken = g_copies[i].base.load(std::memory_order_relaxed);
    if (taken != 0 && is_gone(taken)) gone[i] = taken;
  }
  pthread_mutex_lock(&g_copies_lock);
  unsigned copy = 1;
  while (copy < kCopiesMax && g_copies[copy].base.load(std::memory_order_relaxed) != base) ++copy;
  if (copy == kCopiesMax) {
    for (copy = 1; copy < kCopiesMax; ++copy) {
      const uintptr_t taken = g_copies[copy].base.load(std::memory_order_relaxed);
      if (taken == gone[copy]) break;  // 0: free
    }
    if (copy < kCopiesMax) {
      Copy& fresh = g_copies[copy];
      RealPointers& pointers = g_real_pointers[copy];
      for (unsigned i = 0; i < kFunctions; ++i) {
        pointers.published[i].store(nullptr, std::memory_order_relaxed);
        pointers.found[i].store(nullptr, std::memory_order_relaxed);
      }
      fresh.reported.store(false, std::memory_order_relaxed);
      fresh.has_queries.store(false, std::memory_order_relaxed);
      fresh.base.store(base, std::memory_order_release);
    }
  }
  if (copy < kCopiesMax) {
    RealPointers& pointers = g_real_pointers[copy];
    const auto index = static_cast<unsigned>(function);
    // A library loaded again at the same place may be another build.
    if (pointers.found[index].exchange(real, std::memory_order_acq_rel) != real)
      pointers.published[index].store(nullptr, std::memory_order_release);
  }
  pthread_mutex_unlock(&g_copies_lock);
  return copy;
}

bool is_inside_copy(unsigned copy, const void* address) noexcept {
  const uintptr_t base = owner_of(address).base;
  if (base == 0) return false;
  for (const std::atomic<void*>& found : g_real_pointers[copy].found) {
    void* real = found.load(std::memory_order_acquire);
    if (real != nullptr) return owner_of(real).base == base;
  }
  return false;
}

const Queries& queries_of(unsigned copy) noexcept {
  Copy& where = g_copies[copy];
  if (where.has_queries.load(std::memory_order_acquire)) return where.queries;
  const KeepErrno keep;
  Queries queries;
  queries.version = reinterpret_cast<nccl::GetVersion>(find_either_name(copy, "ncclGetVersion"));
  queries.last_error =
      reinterpret_cast<nccl::GetLastError>(find_either_name(copy, "ncclGetLastError"));
  queries.count = reinterpret_cast<nccl::CommQuery>(find_either_name(copy, "ncclCommCount"));
  queries.rank = reinterpret_cast<nccl::CommQuery>(find_either_name(copy, "ncclCommUserRank"));
  queries.device = reinterpret_cast<nccl::CommQuery>(find_either_name(copy, "ncclCommCuDevice"));
  pthread_mutex_lock(&g_copies_lock);
  if (!where.has_queries.load(std::memory_order_relaxed)) {
    where.queries = queries;
    where.has_queries.store(true, std::memory_order_release);
  }
  pthread_mutex_unlock(&g_copies_lock);
  return where.queries;
}

}  // namespace rollcall::shim
