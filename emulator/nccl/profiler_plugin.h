// A profiler plugin of the process: found as NCCL finds it, called in the version it has.
//
// Two numbers decide what it hears. The release (ROLLCALL_EMULATE_PROFILER) is the newest version
// that the emulated NCCL knows, and says which events there are and how they hang together. The
// version is that of the structure found in the plugin, the newest that both have, and says how an
// event is written down; types and states it does not know are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emu_nccl {

enum ProfilerEventType : uint32_t {
  kProfileGroup = 1,
  kProfileColl = 2,
  kProfileP2p = 4,
  kProfileProxyOp = 8,
  kProfileProxyStep = 16,
  kProfileProxyCtrl = 32,
  kProfileKernelCh = 64,
  kProfileNetPlugin = 128,
  kProfileGroupApi = 256,
  kProfileCollApi = 512,
  kProfileP2pApi = 1024,
  kProfileKernelLaunch = 2048,
  kProfileCeColl = 4096,
  kProfileCeSync = 8192,
  kProfileCeBatch = 16384,
  kProfileKernelPhase = 32768,
};

enum ProfilerState {
  // Up to version 3: of a proxy operation, with bytes and steps so far.
  kSendPosted = 0,
  kSendTransmitted = 2,
  kSendDone = 3,
  kReceivePosted = 4,
  kReceiveReceived = 5,
  kReceiveDone = 7,
  kStepSendGpuWait = 8,
  kStepSendWait = 9,
  kStepReceiveWait = 10,
  kStepReceiveFlushWait = 11,
  kStepReceiveGpuWait = 12,
  kControlActive = 14,
  kControlSleep = 15,
  kControlWakeup = 16,
  // From version 4.
  kOpInProgress = 19,
  kStepSendPeerWait = 20,
  kKernelStop = 22,
  // From version 5; no arguments.
  kGroupStartOver = 23,
  kGroupEndBegun = 24,
  // From version 7.
  kPhaseStop = 31,
};

// One event, whatever the version; strings are literals. What a type has no use for stays zero.
struct ProfilerEvent {
  uint32_t type = 0;
  int rank = 0;
  void* parent = nullptr;
  void* parent_group = nullptr;
  const char* communicator = nullptr;  // up to version 3, as the hash
  uint64_t hash = 0;
  uint64_t sequence = 0;
  const char* function = nullptr;
  const char* data_type = nullptr;
  const char* algorithm = nullptr;
  const char* protocol = nullptr;
  const char* phase_name = nullptr;
  const char* kernel_variant = nullptr;  // of a symmetric kernel
  const void* send = nullptr;
  void* receive = nullptr;
  void* stream = nullptr;
  size_t count = 0;
  uint64_t timer_ns = 0;
  uint64_t bytes = 0;     // of a batch of copies
  uint64_t user_tag = 0;  // from version 7
  int root = 0;           // or the peer
  int depth = 0;          // CeSync: how many ranks; CeBatch: how many copies
  int pid = 0;
  int steps = 0;  // of a proxy operation; of a step, which it is
  int chunk_bytes = 0;
  uint8_t channel = 0;
  uint8_t channels = 0;
  uint8_t phase = 0;
  bool is_send = false;
  bool captured = false;
  bool is_over = false;  // CeSync: behind the copies, not before them
};

struct ProfilerIdentity {
  uint64_t hash = 0;
  std::string name;
  int nodes = 1;
  int ranks = 0;
  int rank = 0;
};

// 1 to 7.
unsigned profiler_release();

// Loads the plugin where none is loaded, and counts one more user. False: there is none, for good.
// Thread-safe, as init; no lock is held while the plugin runs.
bool acquire_profiler();
// The last one unloads it; the next acquire loads it again.
void release_profiler();

// All below: only between acquire and release.
void* init_profiler(const ProfilerIdentity& identity);
void finalize_profiler(void* context);
// Null where the plugin gave null, or does not know the type.
void* start_event(void* context, const ProfilerEvent& event);
// Nothing for null.
void stop_event(void* handle);
// Where NCCL does not look whether there is a handle.
void stop_event_even_null(void* handle);
void record_state(void* handle, ProfilerState state);
void record_state(void* handle, ProfilerState state, uint64_t word, int steps = 0);
// What the plugin wants now. It may change its mind at any time.
uint32_t profiler_mask();

}  // namespace emu_nccl
