// Calls that PyTorch issues together, in a trace of its profiler: which kernel is theirs.
//
// A call by itself launches its kernel while it is being recorded, and both have one External id.
// In a batch (`batch_isend_irecv`, as pipelines use it, and coalesced collectives) each call is
// recorded and launches nothing; the end of the batch, which has no record, launches one kernel for
// all. So the calls in front of a launch that is nobody's, on its thread, back to the last one with
// a kernel of its own, are its batch. (ProcessGroupNCCL::endCoalescing, PyTorch 2.1 to 2.9.)
//
// Threads: plain functions.
#pragma once

#include <cstddef>
#include <vector>

#include "trace/import/kineto_records.h"

namespace rollcall::trace {

struct KinetoBatch {
  std::vector<size_t> calls;    // indices into KinetoTrace::calls, in their order
  std::vector<size_t> kernels;  // into KinetoTrace::kernels; one, unless NCCL took several
};

// By thread, in the order of their launches.
std::vector<KinetoBatch> batches_of(const KinetoTrace& trace);

}  // namespace rollcall::trace
