#include "emulator/nccl/profiler_plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <strings.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>

#include "emulator/nccl/conf_file.h"
#include "emulator/nccl/log.h"
#include "emulator/nccl/profiler_abi.h"
#include "emulator/nccl/settings.h"

namespace emu_nccl {
namespace {

constexpr unsigned kNewest = 7;
constexpr size_t kNameBytes = 255;  // of NCCL's buffer, with the end; longer paths are cut

struct Plugin {
  void* library = nullptr;
  ProfilerInterface* interface = nullptr;
  unsigned version = 0;
  int users = 0;
  bool failed = false;  // not tried again in this process
  int mask = 0;         // the one integer of the process; plugins keep its address
};
Plugin plugin;
std::mutex plugin_mutex;  // of library, users and failed

// --- NCCL's look-up -----------------------------------------------------------------------------

void* open_library(const std::string& name) {
  // 2.26 and later cut what does not fit into their buffer.
  const size_t longest = profiler_release() >= 3 ? kNameBytes - 1 : PATH_MAX - 1;
  void* const library = dlopen(name.substr(0, longest).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) info(kLogInit, "PROFILER/Plugin: Could not find: %s", name.c_str());
  return library;
}

bool names_a_file(const std::string& name) {
  const bool is_library = name.size() > 6 && name.compare(0, 3, "lib") == 0 &&
                          name.compare(name.size() - 3, 3, ".so") == 0;
  return name.find('/') != std::string::npos || is_library;
}

// "libnccl-<kind>.so" where the variable says nothing, else what it says, as it is or as a part of
// such a name.
void* open_by_variable(const char* variable, const std::string& kind) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return open_library("libnccl-" + kind + ".so");
  info(kLogEnv, "%s set by environment to %s", variable, value);
  const unsigned release = profiler_release();
  if (release >= 5 && strcasecmp(value, "none") == 0) return nullptr;
  // Any beginning of the word will do.
  if (strncasecmp(value, "STATIC_PLUGIN", strlen(value)) == 0) return dlopen(nullptr, RTLD_NOW);
  if (void* library = open_library(value)) return library;
  if (release < 3 || (release >= 4 && names_a_file(value))) return nullptr;
  return open_library("libnccl-" + kind + "-" + value + ".so");
}

bool find_interface(void* library) {
  for (unsigned version = profiler_release(); version >= 1; --version) {
    const std::string symbol = "ncclProfiler_v" + std::to_string(version);
    void* const found = dlsym(library, symbol.c_str());
    if (found == nullptr) continue;
    plugin.interface = static_cast<ProfilerInterface*>(found);
    plugin.version = version;
    plugin.library = library;
    info(kLogInit, "PROFILER/Plugin: Loaded %s (v%u)", plugin.interface->name, version);
    return true;
  }
  dlclose(library);
  return false;
}

// plugin_mutex held.
bool load_plugin() {
  read_conf_files();
  void* library = open_by_variable("NCCL_PROFILER_PLUGIN", "profiler");
  if (library != nullptr && find_interface(library)) {
    info(kLogInit, "Successfully loaded external profiler plugin %s", plugin.interface->name);
    return true;
  }
  if (library != nullptr) info(kLogInit, "External profiler plugin is unsupported");
  // From 2.28 on a network plugin may bring one along.
  if (library == nullptr && profiler_release() >= 5) {
    library = open_by_variable("NCCL_NET_PLUGIN", "net");
    if (library != nullptr && find_interface(library)) return true;
  }
  return false;
}

// --- writing an event down ----------------------------------------------------------------------

uint32_t types_of_version() {
  if (plugin.version <= 2) return 0x3f;
  if (plugin.version <= 4) return 0xff;
  if (plugin.version == 5) return 0x0fff;
  return plugin.version == 6 ? 0x7fff : 0xffff;
}

// Version 1 has numbers where the others have names.
uint8_t number_of(const char* name, const char* const* names, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (names[i] != nullptr && std::strcmp(names[i], name) == 0) return static_cast<uint8_t>(i);
  }
  return UINT8_MAX;
}
uint8_t function_number(const char* name) {
  static const char* const kNames[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                       "AllReduce", "SendRecv", "Send",      "Recv"};
  return number_of(name, kNames, std::size(kNames));
}
uint8_t type_number(const char* name) {
  static const char* const kNames[] = {"ncclInt8",    "Unknown",     "ncclInt32",   "ncclUint32",
                                       "ncclInt64",   "ncclUint64",  "ncclFloat16", "ncclFloat32",
                                       "ncclFloat64", "ncclBfloat16"};
  return number_of(name, kNames, std::size(kNames));
}

template <class Coll>
void fill_coll(Coll& to, const ProfilerEvent& from) {
  to.sequence = from.sequence;
  to.send = from.send;
  to.receive = from.receive;
  to.count = from.count;
  to.root = from.root;
  to.channels = from.channels;
  to.warps = 16;
  if constexpr (requires { to.name; }) {
    to.name = from.communicator;
    to.hash = from.hash;
  }
  if constexpr (requires { to.parent_group; }) to.parent_group = from.parent_group;
  if constexpr (requires { to.symmetric; }) {
    to.kernel_variant = from.kernel_variant;
    to.symmetric = from.kernel_variant != nullptr;
    to.user_tag = from.user_tag;
  }
  if constexpr (requires { to.op; }) {
    to.function = function_number(from.function);
    to.type = type_number(from.data_type);
    to.algorithm = 1;  // ring
    to.protocol = std::strcmp(from.protocol, "LL") == 0 ? 0 : 2;
  } else {
    to.function = from.function;
    to.type = from.data_type;
    to.algorithm = from.algorithm;
    to.protocol = from.protocol;
  }
}

template <class P2p>
void fill_p2p(P2p& to, const ProfilerEvent& from) {
  to.buffer = from.receive != nullptr ? from.receive : const_cast<void*>(from.send);
  to.count = from.count;
  to.peer = from.root;
  if constexpr (requires { to.name; }) {
    to.name = from.communicator;
    to.hash = from.hash;
  }
  if constexpr (requires { to.parent_group; }) {
    to.parent_group = from.parent_group;
    to.channels = from.channels;
    to.user_tag = from.user_tag;
  }
  if constexpr (sizeof(to.function) == 1) {
    to.function = function_number(from.function);
    to.type = type_number(from.data_type);
  } else {
    to.function = from.function;
    to.type = from.data_type;
  }
}

void fill_operation(Descriptor& to, const ProfilerEvent& from) {
  const bool is_coll = from.type == kProfileColl;
  switch (plugin.version) {
    case 1:
      return is_coll ? fill_coll(to.coll_v1, from) : fill_p2p(to.p2p_v1, from);
    case 2:
      return is_coll ? fill_coll(to.coll_v2, from) : fill_p2p(to.p2p_v2, from);
    case 3:
      return is_coll ? fill_coll(to.coll_v3, from) : fill_p2p(to.p2p_v2, from);
    default:
      return is_coll ? fill_coll(to.coll_v4, from) : fill_p2p(to.p2p_v4, from);
  }
}

void fill(Descriptor& to, const ProfilerEvent& from) {
  switch (from.type) {
    case kProfileColl:
    case kProfileP2p:
      return fill_operation(to, from);
    case kProfileGroupApi:
      to.group_api = {from.captured, from.depth};
      return;
    case kProfileCollApi:
      to.coll_api = {from.function, from.count,    from.data_type, from.root,
                     from.stream,   from.captured, from.user_tag};
      return;
    case kProfileP2pApi:
      to.p2p_api = {from.function, from.count,    from.data_type,
                    from.stream,   from.captured, from.user_tag};
      return;
    case kProfileKernelLaunch:
      to.launch_stream = from.stream;
      return;
    case kProfileProxyOp:
      to.proxy_op = {from.pid,   from.channel,     from.root,
                     from.steps, from.chunk_bytes, from.is_send ? 1 : 0};
      return;
    case kProfileProxyStep:
      to.proxy_step = from.steps;
      return;
    case kProfileKernelCh:
      to.kernel = {from.channel, from.timer_ns};
      return;
    case kProfileCeColl:
      to.ce_coll = {.sequence = from.sequence,
                    .function = from.function,
                    .send = from.send,
                    .receive = from.receive,
                    .count = from.count,
                    .root = from.root,
                    .type = from.data_type,
                    .sync_strategy = "UC",
                    .intra_batch_sync = false,
                    .batch_size = 0,
                    .batches = 0,
                    .ce_sequence = static_cast<uint32_t>(from.sequence),
                    .stream = from.stream,
                    .user_tag = from.user_tag};
      return;
    case kProfileCeSync:
      to.ce_sync = {from.is_over, from.depth};
      return;
    case kProfileCeBatch:
      to.ce_batch = {from.depth, from.bytes, false};
      return;
    case kProfileKernelPhase:
      to.phase = {from.channel, from.phase, from.phase_name, from.timer_ns};
      return;
    default:
      return;  // Group and ProxyCtrl are their type
  }
}

bool knows_state(ProfilerState state) {
  if (state < kStepSendGpuWait) return plugin.version <= 3;
  if (state < kOpInProgress) return true;
  if (plugin.version < 4) return false;
  if (state < kGroupStartOver) return true;
  return state == kPhaseStop ? plugin.version >= 7 : plugin.version >= 5;
}

}  // namespace

unsigned profiler_release() {
  const uint64_t asked = settings().profiler;
  return asked >= 1 && asked <= kNewest ? static_cast<unsigned>(asked) : kNewest;
}

bool acquire_profiler() {
  const std::lock_guard<std::mutex> lock(plugin_mutex);
  if (plugin.failed) return false;
  if (plugin.library == nullptr && !load_plugin()) {
    plugin.failed = true;
    return false;
  }
  ++plugin.users;
  return true;
}

void release_profiler() {
  const std::lock_guard<std::mutex> lock(plugin_mutex);
  if (--plugin.users > 0) return;
  info(kLogInit, "PROFILER/Plugin: Closing profiler plugin %s", plugin.interface->name);
  dlclose(plugin.library);
  plugin.library = nullptr;
  __atomic_store_n(&plugin.mask, 0, __ATOMIC_RELAXED);
}

void* init_profiler(const ProfilerIdentity& identity) {
  void* context = nullptr;
  void* const init = plugin.interface->init;
  const char* const name = identity.name.empty() ? nullptr : identity.name.c_str();
  int result = 0;
  if (plugin.version <= 3) {
    result = reinterpret_cast<ProfilerInitV1>(init)(&context, &plugin.mask);
  } else if (plugin.version == 4) {
    result = reinterpret_cast<ProfilerInitV4>(init)(&context, &plugin.mask, name, identity.hash,
                                                    identity.nodes, identity.ranks, identity.rank,
                                                    nullptr);
  } else {
    result = reinterpret_cast<ProfilerInitV5>(init)(&context, identity.hash, &plugin.mask, name,
                                                    identity.nodes, identity.ranks, identity.rank,
                                                    nullptr);
  }
  if (result != 0) warn("the profiler plugin %s failed its init", plugin.interface->name);
  // Phases are told with the kernel they belong to.
  if (profiler_release() >= 7 && (profiler_mask() & kProfileKernelPhase) != 0) {
    __atomic_fetch_or(&plugin.mask, static_cast<int>(kProfileKernelCh), __ATOMIC_RELAXED);
  }
  info(kLogInit, "Profiler event mask: 0x%x", profiler_mask());
  return context;
}

void finalize_profiler(void* context) {
  // From 2.28 on a plugin that keeps no context is not told.
  if (context != nullptr || profiler_release() < 5) plugin.interface->finalize(context);
}

void* start_event(void* context, const ProfilerEvent& event) {
  void* handle = nullptr;
  if ((types_of_version() & event.type) == 0) return handle;
  Descriptor descriptor;
  std::memset(static_cast<void*>(&descriptor), 0, sizeof(descriptor));
  if (plugin.version <= 4) {
    // The bytes behind the type are whatever was there.
    std::memset(&descriptor.header, 0xa5, offsetof(EventHeader, parent));
    descriptor.header.type_byte = static_cast<uint8_t>(event.type);
  } else {
    descriptor.header.type = event.type;
  }
  // Plugins up to version 4 know of no call: the group is the parent.
  const bool by_group = profiler_release() >= 5 && plugin.version <= 4 &&
                        (event.type == kProfileColl || event.type == kProfileP2p);
  descriptor.header.parent = by_group ? event.parent_group : event.parent;
  descriptor.header.rank = event.rank;
  fill(descriptor, event);
  plugin.interface->start_event(context, &handle, &descriptor);
  return handle;
}

void stop_event(void* handle) {
  if (handle != nullptr) plugin.interface->stop_event(handle);
}
void stop_event_even_null(void* handle) { plugin.interface->stop_event(handle); }

void record_state(void* handle, ProfilerState state) {
  if (handle == nullptr || !knows_state(state)) return;
  plugin.interface->record_event_state(handle, state, nullptr);
}

void record_state(void* handle, ProfilerState state, uint64_t word, int steps) {
  if (handle == nullptr || !knows_state(state)) return;
  StateArguments arguments = {word, steps};
  plugin.interface->record_event_state(handle, state, &arguments);
}

uint32_t profiler_mask() {
  return static_cast<uint32_t>(__atomic_load_n(&plugin.mask, __ATOMIC_RELAXED));
}

}  // namespace emu_nccl
