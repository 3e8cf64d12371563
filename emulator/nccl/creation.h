// How communicators come into being: from a unique id, or from a parent (split, shrink, grow).
#pragma once

#include <vector>

#include "emulator/nccl/communicator.h"

namespace emu_nccl {

// What a unique id carries; the rest of its 128 bytes is zero.
struct UniqueIdContent {
  char magic[8];
  RegionAddress address;
  uint64_t session;
};
ncclResult_t make_unique_id(ncclUniqueId* id);

// A communicator object with the settings of `config` (may be null) or `parent` (may be null), not
// yet joined to anything. Null and a warning where the config is not one.
CommunicatorPointer new_communicator(const ncclConfig_t* config, const Communicator* parent);

// These block until every rank has done the same, or until the communicator is aborted. They may
// run on any thread.
ncclResult_t join(const CommunicatorPointer& communicator, const RegionAddress& address, int ranks,
                  int rank, const char* function);
// The caller took `number` (a parent's count of children of that kind) when the call was made.
ncclResult_t create_split(const CommunicatorPointer& communicator,
                          const CommunicatorPointer& parent, uint64_t number, int color, int key);
ncclResult_t create_shrunk(const CommunicatorPointer& communicator,
                           const CommunicatorPointer& parent, uint64_t number,
                           const std::vector<int>& excluded);
// The coordinator brings the address of the new region; the other ranks of the parent learn it from
// it.
ncclResult_t create_grown(const CommunicatorPointer& communicator,
                          const CommunicatorPointer& parent, uint64_t number, int ranks,
                          bool coordinator, RegionAddress address);

}  // namespace emu_nccl
