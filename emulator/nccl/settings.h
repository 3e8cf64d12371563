// The variables of the NCCL stand-in, one table; those that all stand-ins share are in
// emulator/device/settings.h.
#pragma once

#include <cstdint>
#include <string>

namespace emu_nccl {

// X(kind, field, "VARIABLE", default, "meaning"); kinds: number (unsigned), text.
#define EMU_NCCL_SETTINGS(X)                                                                  \
  X(number, eager_bytes, "ROLLCALL_EMULATE_EAGER_BYTES", 0,                                   \
    "a send of at most this many bytes does not wait for its receive; 0: every send waits")   \
  X(number, shared_gpu, "ROLLCALL_EMULATE_SHARED_GPU", 0,                                     \
    "1: ranks of one communicator may share a GPU (so may NCCL_MULTI_RANK_GPU_ENABLE=1)")     \
  X(text, peer_death, "ROLLCALL_EMULATE_PEER_DEATH", "hang",                                  \
    "what survivors of a dead process see: hang, or error (ncclRemoteError, asynchronously)") \
  X(number, profiler, "ROLLCALL_EMULATE_PROFILER", 6,                                         \
    "newest profiler interface: 1 to 7 for NCCL 2.23, 2.24, 2.26, 2.27, 2.28, 2.29, 2.31")    \
  X(number, pxn, "ROLLCALL_EMULATE_PXN", 0,                                                   \
    "1: another rank of the node carries out a rank's sends to other nodes, as PXN has it")   \
  X(number, kernels, "ROLLCALL_EMULATE_NCCL_KERNELS", 0,                                      \
    "kernels of NCCL that a GPU has room for at a time; 0: any number")                       \
  X(text, faults, "ROLLCALL_EMULATE_FAULT", "", "KIND@RANK:CALL[,…], see emulator/nccl/faults.h")

struct Settings {
  using number = uint64_t;
  using text = std::string;
#define EMU_NCCL_FIELD(kind, field, variable, fallback, meaning) kind field = fallback;
  EMU_NCCL_SETTINGS(EMU_NCCL_FIELD)
#undef EMU_NCCL_FIELD
};

// Read once, at the first use; a value that cannot be read is named on stderr and the default used.
const Settings& settings();

}  // namespace emu_nccl
