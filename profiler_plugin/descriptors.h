// NCCL's profiler interface, versions 1 to 7, as its binaries lay it out: the exported structure,
// the event descriptors and the arguments of a state. Written down once, held by the assertions
// below; nothing else in the project knows an offset.
//
// All versions: a `union` begins at byte 24; `parent` is whatever the plugin gave as handle of the
// parent; strings and the descriptor itself belong to NCCL and are gone when the call returns.
// Versions 1 to 4 have a type of one byte and leave the bytes behind it uninitialised. From version
// 5 on each version only appends to the one before.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rollcall::profiler {

// ncclDebugLogger_t. Takes a lock of NCCL's and calls the CUDA runtime: never used from an event.
using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line,
                        const char* format, ...);

// The structure behind ncclProfiler_vN. `Init` is the one member whose signature changes.
template <class Init, class Descriptor, class StateArgs>
struct Interface {
  const char* name;
  Init init;
  int (*start_event)(void* context, void** handle, Descriptor* descriptor);
  int (*stop_event)(void* handle);
  int (*record_event_state)(void* handle, int state, StateArgs* arguments);
  int (*finalize)(void* context);
};

using InitOfV1 = int (*)(void** context, int* mask);
using InitOfV4 = int (*)(void** context, int* mask, const char* name, uint64_t hash, int nodes,
                         int ranks, int rank, Logger logger);
using InitOfV5 = int (*)(void** context, uint64_t id, int* mask, const char* name, int nodes,
                         int ranks, int rank, Logger logger);

// --- what several versions share ---------------------------------------------------------------

struct ProxyOpFields {
  int32_t pid;  // of the process that issued the operation
  uint8_t channel;
  int32_t peer;
  int32_t steps;
  int32_t chunk_bytes;
  int32_t is_send;
};
struct ProxyStepFields {
  int32_t step;
};
struct KernelChFields {
  uint8_t channel;
  uint64_t timer_ns;  // the GPU's clock
};
struct NetPluginFields {
  int64_t id;
  void* data;
};
static_assert(sizeof(ProxyOpFields) == 24 && offsetof(ProxyOpFields, channel) == 4);
static_assert(offsetof(ProxyOpFields, peer) == 8 && offsetof(ProxyOpFields, is_send) == 20);
static_assert(sizeof(KernelChFields) == 16 && offsetof(KernelChFields, timer_ns) == 8);
static_assert(sizeof(NetPluginFields) == 16);

// Fields, and members of the union, that stand in several versions in one order.
#define ROLLCALL_COMMUNICATOR_FIELDS \
  const char* name;                  \
  uint64_t comm_hash;
#define ROLLCALL_COLL_FIELDS \
  uint64_t seq_number;       \
  const char* func;          \
  const void* send;          \
  void* recv;                \
  size_t count;              \
  int32_t root;              \
  const char* datatype;
#define ROLLCALL_KERNEL_FIELDS \
  uint8_t channels;            \
  uint8_t warps;               \
  const char* algorithm;       \
  const char* protocol;
#define ROLLCALL_P2P_FIELDS \
  const char* func;         \
  void* buffer;             \
  const char* datatype;     \
  size_t count;             \
  int32_t peer;
#define ROLLCALL_EVENTS_OF_V1(Coll, P2p) \
  Coll coll;                             \
  P2p p2p;                               \
  ProxyOpFields proxy_op;                \
  ProxyStepFields proxy_step;
#define ROLLCALL_EVENTS_OF_V3(Coll, P2p) \
  ROLLCALL_EVENTS_OF_V1(Coll, P2p)       \
  KernelChFields kernel_ch;              \
  NetPluginFields net_plugin;
#define ROLLCALL_EVENTS_OF_V5(CollApi, P2pApi) \
  GroupApiFields group_api;                    \
  CollApi coll_api;                            \
  P2pApi p2p_api;                              \
  KernelLaunchFields kernel_launch;

// --- version 1: NCCL 2.23 ----------------------------------------------------------------------

namespace v1 {

struct CollFields {
  const char* name;
  uint64_t comm_hash;
  uint64_t seq_number;
  uint8_t func;
  const void* send;
  void* recv;
  size_t count;
  int32_t root;
  uint8_t datatype;
  uint32_t op;
  size_t traffic_bytes;
  uint8_t channels;
  uint8_t warps;
  uint8_t algorithm;
  uint8_t protocol;
  int32_t is_collnet;
  int32_t is_nvls;
};
struct P2pFields {
  const char* name;
  uint64_t comm_hash;
  uint8_t func;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int32_t peer;
};
struct Descriptor {
  uint8_t type;
  void* parent;
  int32_t rank;
  union {
    ROLLCALL_EVENTS_OF_V1(CollFields, P2pFields)
  };
};
union StateArgs {
  struct {
    size_t bytes;
    int32_t steps;
  } proxy_op;
  struct {
    int32_t appended;
  } proxy_ctrl;
};
using Profiler = Interface<InitOfV1, Descriptor, StateArgs>;

static_assert(sizeof(Descriptor) == 120 && sizeof(StateArgs) == 16 && sizeof(Profiler) == 48);
static_assert(offsetof(Descriptor, parent) == 8 && offsetof(Descriptor, rank) == 16);
static_assert(offsetof(Descriptor, coll) == 24 && offsetof(Descriptor, coll.func) == 48);
static_assert(offsetof(Descriptor, coll.send) == 56 && offsetof(Descriptor, coll.count) == 72);
static_assert(offsetof(Descriptor, coll.root) == 80 && offsetof(Descriptor, coll.datatype) == 84);
static_assert(offsetof(Descriptor, coll.op) == 88);
static_assert(offsetof(Descriptor, coll.traffic_bytes) == 96);
static_assert(offsetof(Descriptor, coll.channels) == 104);
static_assert(offsetof(Descriptor, coll.protocol) == 107);
static_assert(offsetof(Descriptor, coll.is_nvls) == 112);
static_assert(offsetof(Descriptor, p2p.func) == 40 && offsetof(Descriptor, p2p.buffer) == 48);
static_assert(offsetof(Descriptor, p2p.datatype) == 56 && offsetof(Descriptor, p2p.count) == 64);
static_assert(offsetof(Descriptor, p2p.peer) == 72 && sizeof(P2pFields) == 56);

}  // namespace v1

// --- version 2: NCCL 2.24 and 2.25 -------------------------------------------------------------

namespace v2 {

struct CollFields {
  ROLLCALL_COMMUNICATOR_FIELDS
  ROLLCALL_COLL_FIELDS
  size_t traffic_bytes;
  ROLLCALL_KERNEL_FIELDS
};
struct P2pFields {
  ROLLCALL_COMMUNICATOR_FIELDS
  ROLLCALL_P2P_FIELDS
};
struct Descriptor {
  uint8_t type;
  void* parent;
  int32_t rank;
  union {
    ROLLCALL_EVENTS_OF_V1(CollFields, P2pFields)
  };
};
using StateArgs = v1::StateArgs;
using Profiler = Interface<InitOfV1, Descriptor, StateArgs>;

static_assert(sizeof(Descriptor) == 128 && sizeof(Profiler) == 48);
static_assert(offsetof(Descriptor, parent) == 8 && offsetof(Descriptor, rank) == 16);
static_assert(offsetof(Descriptor, coll) == 24 && offsetof(Descriptor, coll.func) == 48);
static_assert(offsetof(Descriptor, coll.count) == 72 && offsetof(Descriptor, coll.root) == 80);
static_assert(offsetof(Descriptor, coll.datatype) == 88);
static_assert(offsetof(Descriptor, coll.traffic_bytes) == 96);
static_assert(offsetof(Descriptor, coll.channels) == 104);
static_assert(offsetof(Descriptor, coll.algorithm) == 112);
static_assert(offsetof(Descriptor, coll.protocol) == 120);
static_assert(offsetof(Descriptor, p2p.func) == 40 && offsetof(Descriptor, p2p.datatype) == 56);
static_assert(offsetof(Descriptor, p2p.peer) == 72 && sizeof(P2pFields) == 56);

}  // namespace v2

// --- version 3: NCCL 2.26 ----------------------------------------------------------------------

namespace v3 {

struct CollFields {
  ROLLCALL_COMMUNICATOR_FIELDS
  ROLLCALL_COLL_FIELDS
  ROLLCALL_KERNEL_FIELDS
};
using P2pFields = v2::P2pFields;
struct KernelChFields {
  uint8_t channel;
};
struct Descriptor {
  uint8_t type;
  void* parent;
  int32_t rank;
  union {
    ROLLCALL_EVENTS_OF_V3(CollFields, P2pFields)
  };
};
using StateArgs = v1::StateArgs;
using Profiler = Interface<InitOfV1, Descriptor, StateArgs>;

static_assert(sizeof(Descriptor) == 120 && sizeof(Profiler) == 48);
static_assert(offsetof(Descriptor, parent) == 8 && offsetof(Descriptor, rank) == 16);
static_assert(offsetof(Descriptor, coll) == 24 && offsetof(Descriptor, coll.func) == 48);
static_assert(offsetof(Descriptor, coll.datatype) == 88);
static_assert(offsetof(Descriptor, coll.channels) == 96);
static_assert(offsetof(Descriptor, coll.warps) == 97);
static_assert(offsetof(Descriptor, coll.algorithm) == 104);
static_assert(offsetof(Descriptor, coll.protocol) == 112);

}  // namespace v3

// --- version 4: NCCL 2.27 ----------------------------------------------------------------------

// From here on the argument's four members share one word.
union StateArgs {
  struct {
    size_t bytes;
  } proxy_step;
  struct {
    int32_t appended;
  } proxy_ctrl;
  struct {
    void* data;
  } net_plugin;
  struct {
    uint64_t timer_ns;
  } kernel_ch;
};
static_assert(sizeof(StateArgs) == 8);

namespace v4 {

struct CollFields {
  ROLLCALL_COLL_FIELDS
  ROLLCALL_KERNEL_FIELDS
};
struct P2pFields {
  ROLLCALL_P2P_FIELDS
  uint8_t channels;  // uninitialised where NCCL 2.28 and later translate for an older plugin
};
struct Descriptor {
  uint8_t type;
  void* parent;
  int32_t rank;
  union {
    ROLLCALL_EVENTS_OF_V3(CollFields, P2pFields)
  };
};
using StateArgs = profiler::StateArgs;
using Profiler = Interface<InitOfV4, Descriptor, StateArgs>;

static_assert(sizeof(Descriptor) == 104 && sizeof(Profiler) == 48);
static_assert(offsetof(Descriptor, parent) == 8 && offsetof(Descriptor, rank) == 16);
static_assert(offsetof(Descriptor, coll) == 24 && offsetof(Descriptor, coll.func) == 32);
static_assert(offsetof(Descriptor, coll.count) == 56 && offsetof(Descriptor, coll.root) == 64);
static_assert(offsetof(Descriptor, coll.datatype) == 72);
static_assert(offsetof(Descriptor, coll.channels) == 80);
static_assert(offsetof(Descriptor, coll.algorithm) == 88);
static_assert(offsetof(Descriptor, coll.protocol) == 96);
static_assert(offsetof(Descriptor, p2p.datatype) == 40 && offsetof(Descriptor, p2p.peer) == 56);
static_assert(offsetof(Descriptor, p2p.channels) == 60);

}  // namespace v4

// --- versions 5, 6, 7: NCCL 2.28, 2.29 to 2.30, 2.31 and later ----------------------------------

struct GroupApiFields {
  bool graph_captured;
  int32_t depth;  // 1: the implicit group of a bare call
};
struct KernelLaunchFields {
  void* stream;
};
struct CeSyncFields {
  bool is_complete;
  int32_t ranks;
};
struct CeBatchFields {
  int32_t operations;
  size_t bytes;
  bool use_intra_sync;
};
static_assert(offsetof(GroupApiFields, depth) == 4);
static_assert(offsetof(CeSyncFields, ranks) == 4);
static_assert(offsetof(CeBatchFields, bytes) == 8 && offsetof(CeBatchFields, use_intra_sync) == 16);

namespace v5 {

struct CollApiFields {
  const char* func;
  size_t count;
  const char* datatype;
  int32_t root;
  void* stream;
  bool graph_captured;
};
struct P2pApiFields {
  const char* func;
  size_t count;
  const char* datatype;
  void* stream;
  bool graph_captured;
};
struct CollFields {
  ROLLCALL_COLL_FIELDS
  ROLLCALL_KERNEL_FIELDS
  void* parent_group;
};
struct P2pFields {
  ROLLCALL_P2P_FIELDS
  uint8_t channels;
  void* parent_group;
};
struct Descriptor {
  uint64_t type;
  void* parent;
  int32_t rank;
  union {
    ROLLCALL_EVENTS_OF_V5(CollApiFields, P2pApiFields)
    ROLLCALL_EVENTS_OF_V3(CollFields, P2pFields)
  };
};
using StateArgs = profiler::StateArgs;
using Profiler = Interface<InitOfV5, Descriptor, StateArgs>;

static_assert(sizeof(Descriptor) == 112 && sizeof(Profiler) == 48);
static_assert(offsetof(Descriptor, parent) == 8 && offsetof(Descriptor, rank) == 16);
static_assert(offsetof(Descriptor, coll_api) == 24 && offsetof(Descriptor, coll_api.root) == 48);
static_assert(offsetof(Descriptor, coll_api.stream) == 56);
static_assert(offsetof(Descriptor, coll_api.graph_captured) == 64);
static_assert(offsetof(Descriptor, p2p_api.stream) == 48);
static_assert(offsetof(Descriptor, p2p_api.graph_captured) == 56);
static_assert(offsetof(Descriptor, coll.func) == 32 && offsetof(Descriptor, coll.root) == 64);
static_assert(offsetof(Descriptor, coll.channels) == 80);
static_assert(offsetof(Descriptor, coll.protocol) == 96);
static_assert(offsetof(Descriptor, coll.parent_group) == 104);
static_assert(offsetof(Descriptor, p2p.peer) == 56 && offsetof(Descriptor, p2p.channels) == 60);
static_assert(offsetof(Descriptor, p2p.parent_group) == 64);

}  // namespace v5

namespace v6 {

struct CeCollFields {
  ROLLCALL_COLL_FIELDS
  const char* sync_strategy;
  bool intra_batch_sync;
  uint32_t batch_size;
  uint32_t batches;
  uint32_t ce_seq_number;
  void* stream;
};
struct Descriptor {
  uint64_t type;
  void* parent;
  int32_t rank;
  union {
    ROLLCALL_EVENTS_OF_V5(v5::CollApiFields, v5::P2pApiFields)
    ROLLCALL_EVENTS_OF_V3(v5::CollFields, v5::P2pFields)
    CeCollFields ce_coll;
    CeSyncFields ce_sync;
    CeBatchFields ce_batch;
  };
};
using StateArgs = profiler::StateArgs;
using Profiler = Interface<InitOfV5, Descriptor, StateArgs>;

static_assert(sizeof(Descriptor) == 112 && sizeof(CeCollFields) == 88 && sizeof(Profiler) == 48);
static_assert(offsetof(Descriptor, ce_coll.sync_strategy) == 80);
static_assert(offsetof(Descriptor, ce_coll.intra_batch_sync) == 88);
static_assert(offsetof(Descriptor, ce_coll.ce_seq_number) == 100);
static_assert(offsetof(Descriptor, ce_coll.stream) == 104);

}  // namespace v6

namespace v7 {

// User tags: 0 is "untagged", the top bit is NVIDIA's.
struct CollApiFields : v5::CollApiFields {
  uint64_t user_tag;
};
struct P2pApiFields : v5::P2pApiFields {
  uint64_t user_tag;
};
struct CollFields : v5::CollFields {
  const char* kernel_variant;  // of a symmetric kernel, else null
  bool is_symmetric;
  uint64_t user_tag;
};
struct P2pFields : v5::P2pFields {
  uint64_t user_tag;
};
struct CeCollFields : v6::CeCollFields {
  uint64_t user_tag;
};
struct KernelPhaseFields {
  uint8_t channel;
  uint8_t phase;
  const char* phase_name;
  uint64_t timer_ns;
};
struct Descriptor {
  uint64_t type;
  void* parent;
  int32_t rank;
  union {
    ROLLCALL_EVENTS_OF_V5(CollApiFields, P2pApiFields)
    ROLLCALL_EVENTS_OF_V3(CollFields, P2pFields)
    CeCollFields ce_coll;
    CeSyncFields ce_sync;
    CeBatchFields ce_batch;
    KernelPhaseFields kernel_phase;
  };
};
using StateArgs = profiler::StateArgs;
using Profiler = Interface<InitOfV5, Descriptor, StateArgs>;

static_assert(sizeof(Descriptor) == 136 && sizeof(Profiler) == 48);
static_assert(sizeof(CollApiFields) == 56 && sizeof(P2pApiFields) == 48);
static_assert(sizeof(CollFields) == 112 && sizeof(P2pFields) == 56);
static_assert(sizeof(CeCollFields) == 96 && sizeof(KernelPhaseFields) == 24);
static_assert(offsetof(KernelPhaseFields, phase_name) == 8);
static_assert(offsetof(KernelPhaseFields, timer_ns) == 16);

}  // namespace v7

static_assert(offsetof(v7::Profiler, init) == 8 && offsetof(v7::Profiler, start_event) == 16);
static_assert(offsetof(v7::Profiler, stop_event) == 24);
static_assert(offsetof(v7::Profiler, record_event_state) == 32);
static_assert(offsetof(v7::Profiler, finalize) == 40);

#undef ROLLCALL_COMMUNICATOR_FIELDS
#undef ROLLCALL_COLL_FIELDS
#undef ROLLCALL_KERNEL_FIELDS
#undef ROLLCALL_P2P_FIELDS
#undef ROLLCALL_EVENTS_OF_V1
#undef ROLLCALL_EVENTS_OF_V3
#undef ROLLCALL_EVENTS_OF_V5

}  // namespace rollcall::profiler
