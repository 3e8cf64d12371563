// One profiler event as this plugin sees it, whatever version of the interface brought it. Fields
// that a version or a type does not have stay zero. Pointers are NCCL's and live until the callback
// returns.
//
// No two small fields that are neighbours in NCCL's descriptors are so here: the compiler would
// copy them with one load, which waits for both of NCCL's stores.
#pragma once

#include <cstdint>

namespace rollcall::profiler {

struct Event {
  uint32_t type = 0;  // one bit of event_types.h; 0: not one of ours
  int32_t rank = 0;   // filled by NCCL for Coll, P2p and their children only
  void* parent = nullptr;
  void* parent_group = nullptr;  // Coll and P2p, since version 5
  const char* func = nullptr;
  const char* datatype = nullptr;
  const char* algorithm = nullptr;
  const char* protocol = nullptr;
  const char* kernel_variant = nullptr;
  const char* text = nullptr;  // Coll, P2p up to version 3: communicator name; CeColl: strategy of
                               // synchronisation; KernelPhase: name of the phase
  const void* send = nullptr;  // P2p: the buffer
  void* recv = nullptr;
  void* stream = nullptr;
  void* data = nullptr;        // NetPlugin
  uint64_t count = 0;          // elements as the descriptor says; CeBatch: bytes
  uint64_t seq_number = 0;     // NetPlugin: id
  uint64_t comm_hash = 0;      // up to version 3
  uint64_t traffic_bytes = 0;  // versions 1 and 2
  uint64_t user_tag = 0;       // version 7
  uint64_t timer_ns = 0;       // KernelCh, KernelPhase: the GPU's clock at the start
  int32_t root_or_peer = 0;
  int32_t depth = 0;  // GroupApi; CeSync: ranks; CeBatch: operations
  int32_t steps = 0;  // ProxyOp: how many; ProxyStep: which
  int32_t pid = 0;    // ProxyOp
  int32_t chunk_bytes = 0;
  uint32_t ce_words[4] =
      {};  // CeColl: batch size, batches, sequence number; version 1: op, collnet
  uint8_t warps = 0;
  uint8_t channel = 0;
  uint8_t channels = 0;
  uint8_t phase = 0;
  bool is_send = false;
  bool is_symmetric = false;
  bool graph_captured = false;
  bool is_set = false;  // CeSync: is_complete; CeColl, CeBatch: the synchronisation inside a batch
};

}  // namespace rollcall::profiler
