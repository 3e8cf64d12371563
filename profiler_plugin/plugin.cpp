#include "profiler_plugin/plugin.h"

#include <pthread.h>

#include <atomic>

#include "core/base/keep_errno.h"
#include "profiler_plugin/chain.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/nccl_library.h"
#include "profiler_plugin/operations.h"
#include "profiler_plugin/settings.h"

namespace rollcall::profiler {

namespace {

// Once per process: which of the seven interfaces NCCL took.
void note_interface(unsigned version) noexcept {
  static constinit std::atomic<bool> is_noted{false};
  if (is_noted.exchange(true)) return;
  const char text[2] = {static_cast<char>('0' + version), '\0'};
  capture::add_coverage("plugin");
  capture::add_meta("plugin_interface", text);
}

// Another thread may hold a lock while the process forks, and is not in the child to give it back.
void reset_locks() {
  reset_contexts_lock();
  reset_chain_lock();
}

void watch_forks() noexcept {
  static constinit std::atomic<bool> is_watching{false};
  if (!is_watching.exchange(true)) pthread_atfork(nullptr, nullptr, reset_locks);
}

}  // namespace

void* init(const ContextOpening& opening, uint32_t& mask) noexcept {
  const KeepErrno keep;
  watch_forks();
  read_settings();
  note_interface(opening.version);
  note_nccl_library(opening.caller);
  // Before version 5 no event comes inside the call, so the records of a group have to wait.
  if (opening.version < 5) capture::hold_groups();
  void* context = open_context(opening);
  // Switched off, or no file: nothing is wanted.
  mask = capture::process_number() == 0 ? 0 : wanted_events();
  mask &= events_of_version(opening.version);
  return context;
}

void finalize(void* value) noexcept {
  const KeepErrno keep;
  Context* context = find_context(value);
  if (context != nullptr) end_late_calls(*context);
  close_context(value);
}

int start_without_context(void** handle) noexcept {
  capture::count_statistic(&SelfStatistics::plugin_stale);
  *handle = nullptr;
  return kSuccess;
}

// ProxyCtrl, NetPlugin, CeSync and CeBatch say nothing that is kept; a type that is not known may
// come when somebody else changed the mask.
void* start_unknown(uint32_t type) noexcept {
  if ((type & wanted_events()) == 0) capture::count_statistic(&SelfStatistics::plugin_unwanted);
  return nullptr;
}

}  // namespace rollcall::profiler
