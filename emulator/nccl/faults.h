// Faults on request: ROLLCALL_EMULATE_FAULT="KIND[=VALUE]@RANK:CALL[,…]".
//
// RANK is the job rank (the variable RANK) where there is one, else the rank in the first
// communicator. CALL counts the collectives, sends and receives that this rank calls, from 0, over
// all its communicators. Kinds:
//     delay=MS      the call returns that much later than it would (default 1000)
//     skip          the call does nothing and returns ncclSuccess
//     kill          the process kills itself (SIGKILL) in the call
//     stop          the process stops itself (SIGSTOP) in the call
//     wrong-count   the call is carried out with one element more or less (VALUE elements, default
//                   1, less)
//     ecc           the call fails as NCCL's do where the memory of the GPU is faulty
//     slow=FACTOR   this and all later operations of the rank take FACTOR times as long (default
//                   10)
// No chance is involved: the same setting does the same in every run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emu_nccl {

struct FaultEffect {
  bool skip = false;
  bool has_faulty_memory = false;
  uint32_t slow_factor = 1;
};

// Called by every collective, send and receive before it is recorded; may change *count, sleep, or
// not return.
FaultEffect apply_faults(int job_rank, size_t* count);

}  // namespace emu_nccl
