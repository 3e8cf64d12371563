// A second profiler plugin behind this one (ROLLCALL_PLUGIN_CHAIN): NCCL loads only one. It sees
// the calls it would have seen alone: what its own mask asks for, with its own contexts and
// handles, in the newest version of the interface that it and NCCL's both have.
//
// While one is chained, NCCL's handles name a pair: this plugin's handle and the other's.
#pragma once

#include <atomic>
#include <cstdint>

#include "profiler_plugin/contexts.h"
#include "profiler_plugin/descriptors.h"
#include "profiler_plugin/event.h"

namespace rollcall::profiler {

// What init is told that only a chained plugin wants to know.
struct ChainedInit {
  int nodes = 0;
  Logger logger = nullptr;
};

namespace chain_detail {
extern std::atomic<bool> is_on;
}
inline bool chain_is_on() noexcept {
  return __builtin_expect(chain_detail::is_on.load(std::memory_order_relaxed), 0);
}

// Loads the plugin at the first call and inits it for this communicator; the mask it asks for, 0
// without one. `mask` is NCCL's: what the chained plugin changes later is carried over to it.
// [cold]
uint32_t init_chained(void* context, const ContextOpening& opening, const ChainedInit& more,
                      int* mask) noexcept;
// In a forked child: the thread that held it is not there.
void reset_chain_lock() noexcept;
void finalize_chained(void* context) noexcept;
void* start_chained(void* context, const Event& event) noexcept;
int stop_chained(void* handle) noexcept;
int record_chained(void* handle, int state, void* arguments) noexcept;

}  // namespace rollcall::profiler
