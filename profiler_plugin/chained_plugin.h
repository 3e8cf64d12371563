// A plugin of any version behind this one, as four functions on Events.
#pragma once

#include "profiler_plugin/chain.h"

namespace rollcall::profiler {

struct ChainedPlugin {
  unsigned version = 0;
  void* interface = nullptr;  // its ncclProfiler_vN
  int (*init)(void* interface, void** context, int* mask, const ContextOpening& opening,
              const ChainedInit& more) = nullptr;
  int (*start)(void* interface, void* context, void** handle, const Event& event) = nullptr;
  int (*stop)(void* interface, void* handle) = nullptr;
  int (*record)(void* interface, void* handle, int state, void* arguments) = nullptr;
  int (*finalize)(void* interface, void* context) = nullptr;
};

// The newest interface up to `newest` that `find` (dlsym on the library) knows; version 0 if none.
ChainedPlugin chained_plugin_of(void* (*find)(void* library, const char* name), void* library,
                                unsigned newest) noexcept;

}  // namespace rollcall::profiler
