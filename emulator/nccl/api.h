// What the files that define the API share.
#pragma once

#include "emulator/include/nccl.h"
#include "emulator/nccl/communicator.h"

// Defines pnccl<name>, with nccl<name> as its weak alias, as NVIDIA's library does: a program or a
// preloaded library may define ncclX itself and reach the original through pncclX. Calls to ncclX
// from within the library go through the PLT, so they too reach the interposer.
#define EMU_NCCL_API(returns, name, parameters)                                         \
  extern "C" returns nccl##name parameters __attribute__((weak, alias("pnccl" #name))); \
  extern "C" returns pnccl##name parameters;                                            \
  extern "C" returns pnccl##name parameters

namespace emu_nccl {

// The communicator behind a handle. Null, a warning and *result where there is none.
CommunicatorPointer usable(ncclComm_t handle, const char* function, ncclResult_t* result);
// As above, and it is ready for work.
CommunicatorPointer ready(ncclComm_t handle, const char* function, ncclResult_t* result);
// A warning and ncclInvalidArgument for a null pointer.
ncclResult_t require(const void* pointer, const char* function, const char* argument);
// For what the emulator does not do.
ncclResult_t not_emulated(const char* function);

}  // namespace emu_nccl
