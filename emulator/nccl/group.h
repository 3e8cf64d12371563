// ncclGroupStart and ncclGroupEnd: what a thread has collected since its outermost start. A call
// outside a group is a group of one.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "emulator/nccl/communicator.h"
#include "emulator/nccl/unit.h"

namespace emu_nccl {

// A communicator's creation. `run` blocks until it is complete and returns its result; it must not
// touch thread-local state.
struct Creation {
  CommunicatorPointer communicator;
  ncclComm_t* handle;  // where the caller wants it: cleared when a blocking creation fails
  std::function<ncclResult_t()> run;
  CommunicatorPointer parent;  // or null; it decides whether the creation blocks
  bool blocks() const { return parent ? parent->blocking : communicator->blocking; }
};

bool in_group();
void group_start();
// Ends one level; at the outermost carries everything out, or has it carried out where the
// communicators do not block.
ncclResult_t group_end();
// Ends one level; at the outermost forgets everything and says how long it would take.
ncclResult_t group_simulate_end(float* estimated_us);

// Makes the group fail at its end, as every error inside a group does. Returns `result`.
ncclResult_t note_error(ncclResult_t result);
void add_operation(const CommunicatorPointer& communicator, void* stream,
                   const Operation& operation, uint32_t slow_factor);
void add_creation(Creation creation);

// Makes `device` the calling thread's current one while it lives.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();

 private:
  void* before_ = nullptr;
  bool changed_ = false;
};

}  // namespace emu_nccl
