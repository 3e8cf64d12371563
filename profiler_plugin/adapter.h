// What the seven exported interfaces have in common. A version differs in its descriptor, which is
// translated to the fields of an Event (fields.h), and in the signature of its init.
#pragma once

#include "profiler_plugin/chain.h"
#include "profiler_plugin/descriptors.h"
#include "profiler_plugin/dispatch.h"
#include "profiler_plugin/event_types.h"
#include "profiler_plugin/exports.h"
#include "profiler_plugin/fields.h"
#include "profiler_plugin/plugin.h"

namespace rollcall::profiler {

template <class Descriptor, class StateArgs>
struct Callbacks {
  static int start_event(void* context, void** handle, Descriptor* descriptor) noexcept {
    if (__builtin_expect(handle == nullptr || descriptor == nullptr, 0)) return no_event(handle);
    return chain_is_on() ? start_chained(context, handle, *descriptor)
                         : profiler::start_event(context, handle, *descriptor);
  }
  static int stop_event(void* handle) noexcept {
    return chain_is_on() ? stop_chained(handle) : profiler::stop_event(handle);
  }
  static int record_event_state(void* handle, int state, StateArgs* arguments) noexcept {
    return chain_is_on() ? record_chained(handle, state, arguments)
                         : profiler::record_state(handle, state, arguments);
  }
  static int finalize(void* context) noexcept {
    if (is_switched_off()) return kSuccess;
    chain_is_on() ? finalize_chained(context) : profiler::finalize(context);
    return kSuccess;
  }

 private:
  [[gnu::cold]] static int no_event(void** handle) noexcept {
    // NCCL reuses the variable: left alone it would bring back an old handle.
    if (handle != nullptr) *handle = nullptr;
    return kSuccess;
  }
  [[gnu::noinline]] static int start_chained(void* context, void** handle,
                                             const Descriptor& descriptor) noexcept {
    *handle = profiler::start_chained(context, event_of(descriptor));
    return kSuccess;
  }
};

// The part of every init that follows the different signatures.
inline int init_of(void** context, int* mask, const ContextOpening& opening,
                   const ChainedInit& chained) noexcept {
  uint32_t wanted = 0;
  void* value = nullptr;
  // Switched off, this copy has no recorder: there would be two files of one process.
  if (!is_switched_off()) {
    value = init(opening, wanted);
    wanted |= init_chained(value, opening, chained, mask);
  }
  if (context != nullptr) *context = value;
  // One integer for the whole process: what an earlier communicator asked for stays.
  if (mask != nullptr) __atomic_store_n(mask, static_cast<int>(wanted), __ATOMIC_RELAXED);
  return kSuccess;
}

inline ContextOpening identified(unsigned version, uint64_t hash, const char* name, int ranks,
                                 int rank, const void* caller) noexcept {
  return {.version = version,
          .has_identity = true,
          .comm_hash = hash,
          .name = name,
          .nranks = ranks,
          .rank = rank,
          .caller = caller};
}

// In NCCL, which calls the structure's function itself.
#define ROLLCALL_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

template <unsigned kVersion>
int init_like_v1(void** context, int* mask) noexcept {
  return init_of(context, mask, {.version = kVersion, .caller = ROLLCALL_CALLER}, {});
}
// The order of the arguments is not that of version 4's successors.
template <unsigned kVersion>
int init_like_v4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks,
                 int rank, Logger logger) noexcept {
  return init_of(context, mask, identified(kVersion, hash, name, ranks, rank, ROLLCALL_CALLER),
                 {.nodes = nodes, .logger = logger});
}
template <unsigned kVersion>
int init_like_v5(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks,
                 int rank, Logger logger) noexcept {
  return init_of(context, mask, identified(kVersion, id, name, ranks, rank, ROLLCALL_CALLER),
                 {.nodes = nodes, .logger = logger});
}
#undef ROLLCALL_CALLER

template <class Profiler, class Descriptor, class StateArgs, class Init>
constexpr Profiler exported(Init init) {
  using All = Callbacks<Descriptor, StateArgs>;
  return {kName, init, All::start_event, All::stop_event, All::record_event_state, All::finalize};
}

}  // namespace rollcall::profiler

// The exported structure of a version; `init` is one of the above.
#define ROLLCALL_PROFILER(version, init)                                       \
  extern "C" {                                                                 \
  __attribute__((visibility("default")))                                       \
  rollcall::profiler::v##version::Profiler ncclProfiler_v##version =           \
      rollcall::profiler::exported<rollcall::profiler::v##version::Profiler,   \
                                   rollcall::profiler::v##version::Descriptor, \
                                   rollcall::profiler::v##version::StateArgs>( \
          rollcall::profiler::init<version>);                                  \
  }
