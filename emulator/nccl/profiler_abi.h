// NCCL's profiler interface, versions 1 to 7, as far as the stand-in has something to tell: what is
// exchanged with a plugin, byte for byte. Every event has a header of 24 bytes and, behind it, the
// fields of its type. Versions 5 to 7 only append, so one layout serves the three; a plugin of an
// older one does not look behind what it knows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emu_nccl {

// The exported structure. `init` is the one function whose arguments change.
struct ProfilerInterface {
  const char* name;
  void* init;
  int (*start_event)(void* context, void** handle, void* descriptor);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};
using ProfilerLogger = void (*)(int, unsigned long, const char*, int, const char*, ...);
using ProfilerInitV1 = int (*)(void** context, int* mask);
using ProfilerInitV4 = int (*)(void** context, int* mask, const char* name, uint64_t hash,
                               int nodes, int ranks, int rank, ProfilerLogger logger);
using ProfilerInitV5 = int (*)(void** context, uint64_t id, int* mask, const char* name, int nodes,
                               int ranks, int rank, ProfilerLogger logger);

// Versions 1 to 4 have one byte for the type; what follows it is not theirs.
struct EventHeader {
  union {
    uint8_t type_byte;
    uint64_t type;
  };
  void* parent;
  int rank;
};
static_assert(sizeof(EventHeader) == 24);

// --- Coll and P2p, which changed most -----------------------------------------------------------

struct CollV1 {
  const char* name;
  uint64_t hash;
  uint64_t sequence;
  uint8_t function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  uint8_t type;
  uint32_t op;
  size_t traffic_bytes;
  uint8_t channels, warps, algorithm, protocol;
  int collnet, nvls;
};
struct P2pV1 {
  const char* name;
  uint64_t hash;
  uint8_t function;
  void* buffer;
  uint8_t type;
  size_t count;
  int peer;
};
struct CollV2 {
  const char* name;
  uint64_t hash;
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  size_t traffic_bytes;
  uint8_t channels, warps;
  const char* algorithm;
  const char* protocol;
};
struct P2pV2 {  // and version 3
  const char* name;
  uint64_t hash;
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
};
struct CollV3 {
  const char* name;
  uint64_t hash;
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  uint8_t channels, warps;
  const char* algorithm;
  const char* protocol;
};
struct CollV4 {  // and what follows
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  uint8_t channels, warps;
  const char* algorithm;
  const char* protocol;
  void* parent_group;          // from version 5
  const char* kernel_variant;  // from version 7, as what follows
  bool symmetric;
  uint64_t user_tag;
};
struct P2pV4 {  // and what follows
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
  uint8_t channels;
  void* parent_group;  // from version 5
  uint64_t user_tag;   // from version 7
};
static_assert(sizeof(CollV1) == 96 && offsetof(CollV1, channels) == 80);
static_assert(sizeof(CollV2) == 104 && sizeof(CollV3) == 96 && sizeof(P2pV2) == 56);
static_assert(offsetof(CollV4, parent_group) == 80 && sizeof(CollV4) == 112);
static_assert(offsetof(P2pV4, parent_group) == 40 && sizeof(P2pV4) == 56);

// --- what did not change ------------------------------------------------------------------------

struct GroupApiEvent {
  bool captured;
  int depth;
};
struct CollApiEvent {
  const char* function;
  size_t count;
  const char* type;
  int root;
  void* stream;
  bool captured;
  uint64_t user_tag;  // from version 7
};
struct P2pApiEvent {
  const char* function;
  size_t count;
  const char* type;
  void* stream;
  bool captured;
  uint64_t user_tag;  // from version 7
};
struct ProxyOpEvent {
  int pid;
  uint8_t channel;
  int peer, steps, chunk_bytes, is_send;
};
struct KernelChEvent {
  uint8_t channel;
  uint64_t timer_ns;  // from version 4
};
struct KernelPhaseEvent {
  uint8_t channel, phase;
  const char* name;
  uint64_t timer_ns;
};
static_assert(sizeof(ProxyOpEvent) == 24 && sizeof(KernelPhaseEvent) == 24);

// --- copy engines: from version 6 ---------------------------------------------------------------

struct CeCollEvent {
  uint64_t sequence;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  const char* sync_strategy;
  bool intra_batch_sync;
  uint32_t batch_size, batches, ce_sequence;
  void* stream;
  uint64_t user_tag;  // from version 7
};
struct CeSyncEvent {
  bool complete;
  int ranks;
};
struct CeBatchEvent {
  int operations;
  size_t bytes;
  bool intra_batch_sync;
};
static_assert(sizeof(CeCollEvent) == 96 && offsetof(CeCollEvent, stream) == 80);
static_assert(sizeof(CeSyncEvent) == 8 && sizeof(CeBatchEvent) == 24);

struct Descriptor {
  EventHeader header;
  union {
    CollV1 coll_v1;
    CollV2 coll_v2;
    CollV3 coll_v3;
    CollV4 coll_v4;
    P2pV1 p2p_v1;
    P2pV2 p2p_v2;
    P2pV4 p2p_v4;
    GroupApiEvent group_api;
    CollApiEvent coll_api;
    P2pApiEvent p2p_api;
    void* launch_stream;
    ProxyOpEvent proxy_op;
    int proxy_step;
    KernelChEvent kernel;
    KernelPhaseEvent phase;
    CeCollEvent ce_coll;
    CeSyncEvent ce_sync;
    CeBatchEvent ce_batch;
  };
};
static_assert(sizeof(Descriptor) == 136 && offsetof(Descriptor, coll_v4) == 24);

// Arguments of a state. Versions 1 to 3 have the two words of a proxy operation, later ones one.
struct StateArguments {
  uint64_t word;  // bytes of a step or an operation, or the GPU's time
  int steps;
};
static_assert(sizeof(StateArguments) == 16);

}  // namespace emu_nccl
