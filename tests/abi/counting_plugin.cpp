// A profiler plugin as NVIDIA's examples are: pointers as handles, everything it hears kept as a
// line of text. A test takes the lines out through counting_plugin_log(), or has them written to
// the file COUNTING_PLUGIN_LOG. Exports all versions, or COUNTING_PLUGIN_VERSION alone.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>

#include "profiler_plugin/descriptors.h"
#include "profiler_plugin/event_types.h"

namespace abi = rollcall::profiler;

namespace {

std::mutex mutex;
std::string log_text;
int next_number = 1;

// A handle, a context: something of its own that only it may look into.
struct Thing {
  int number;
  bool is_foreign;  // of another process, whose context and parent must not be looked into
};

int number_of(void* thing) { return thing == nullptr ? 0 : static_cast<Thing*>(thing)->number; }

void note(const std::string& line) {
  const std::lock_guard lock(mutex);
  log_text += line + "\n";
}

void* make(const std::string& line, bool is_foreign = false) {
  const std::lock_guard lock(mutex);
  auto* thing = new Thing{next_number++, is_foreign};  // never freed: NCCL does not tell when
  log_text += line + " -> " + std::to_string(thing->number) + "\n";
  return thing;
}

int mask_wanted() {
  const char* text = getenv("COUNTING_PLUGIN_MASK");
  return text == nullptr ? 0 : static_cast<int>(strtol(text, nullptr, 0));
}

template <class Descriptor>
int start_event(void* context, void** handle, Descriptor* descriptor) {
  const bool is_step = descriptor->type == abi::kProxyStep;
  if (descriptor->type == abi::kProxyOp && descriptor->proxy_op.pid != getpid()) {
    *handle = make("start foreign operation", true);
    return 0;
  }
  if (is_step && descriptor->parent != nullptr &&
      static_cast<Thing*>(descriptor->parent)->is_foreign) {
    *handle = make("start step of foreign " + std::to_string(number_of(descriptor->parent)));
    return 0;
  }
  std::string line = "start " + std::to_string(descriptor->type) + " in " +
                     std::to_string(number_of(context)) + " under " +
                     std::to_string(number_of(descriptor->parent));
  if (descriptor->type == abi::kColl) {
    line += " count " + std::to_string(descriptor->coll.count) + " channels " +
            std::to_string(descriptor->coll.channels);
    if constexpr (requires { descriptor->coll.parent_group; }) {
      line += " group " + std::to_string(number_of(descriptor->coll.parent_group));
    }
    if constexpr (requires { descriptor->coll.user_tag; }) {
      line += " tag " + std::to_string(descriptor->coll.user_tag);
    }
  }
  if constexpr (requires { descriptor->coll_api; }) {
    if (descriptor->type == abi::kCollApi) {
      line += std::string(" ") + descriptor->coll_api.func + " root " +
              std::to_string(descriptor->coll_api.root);
    }
  }
  if constexpr (requires { descriptor->kernel_ch.timer_ns; }) {
    if (descriptor->type == abi::kKernelCh) {
      line += " timer " + std::to_string(descriptor->kernel_ch.timer_ns);
    }
  }
  *handle = make(line);
  return 0;
}

int stop_event(void* handle) {
  note("stop " + std::to_string(number_of(handle)));
  return 0;
}

template <class StateArgs>
int record_event_state(void* handle, int state, StateArgs*) {
  note("state " + std::to_string(state) + " of " + std::to_string(number_of(handle)));
  return 0;
}

int finalize(void* context) {
  note("finalize " + std::to_string(number_of(context)));
  const char* path = getenv("COUNTING_PLUGIN_LOG");
  const std::lock_guard lock(mutex);
  if (path != nullptr) std::ofstream(path) << log_text;
  return 0;
}

[[maybe_unused]] int init_v1(void** context, int* mask) {
  *mask = mask_wanted();
  *context = make("init");
  return 0;
}
[[maybe_unused]] int init_v4(void** context, int* mask, const char*, uint64_t hash, int, int ranks,
                             int rank, abi::Logger) {
  *mask = mask_wanted();
  *context = make("init " + std::to_string(hash) + " " + std::to_string(rank) + "/" +
                  std::to_string(ranks));
  return 0;
}
[[maybe_unused]] int init_v5(void** context, uint64_t id, int* mask, const char* name, int nodes,
                             int ranks, int rank, abi::Logger logger) {
  return init_v4(context, mask, name, id, nodes, ranks, rank, logger);
}

// Loading it takes for ever where COUNTING_PLUGIN_HANGS names a descriptor, which gets a byte
// first.
__attribute__((constructor)) void hang_if_told() {
  const char* descriptor = getenv("COUNTING_PLUGIN_HANGS");
  if (descriptor == nullptr || write(atoi(descriptor), "", 1) != 1) return;
  for (;;) pause();
}

}  // namespace

extern "C" {
const char* counting_plugin_log() { return log_text.c_str(); }

#define COUNTING(version, init)                         \
  abi::v##version::Profiler ncclProfiler_v##version = { \
      "counting",                                       \
      init,                                             \
      start_event<abi::v##version::Descriptor>,         \
      stop_event,                                       \
      record_event_state<abi::v##version::StateArgs>,   \
      finalize};
#ifndef COUNTING_PLUGIN_VERSION
COUNTING(1, init_v1)
COUNTING(2, init_v1)
COUNTING(3, init_v1)
COUNTING(4, init_v4)
COUNTING(5, init_v5)
COUNTING(6, init_v5)
COUNTING(7, init_v5)
#elif COUNTING_PLUGIN_VERSION == 4
COUNTING(4, init_v4)
#else
COUNTING(5, init_v5)
#endif
}
