// Collectives of a communicator of one rank: NCCL carries them out at the call, whatever group it
// is in, and with none of its own kernels. Sends and receives are not among them.
#pragma once

#include "emulator/nccl/communicator.h"
#include "emulator/nccl/unit.h"

namespace emu_nccl {

bool is_alone(const Communicator& communicator, const Operation& operation);
ncclResult_t launch_alone(const CommunicatorPointer& communicator, void* stream,
                          const Operation& operation);

}  // namespace emu_nccl
