// Collectives in a trace of the PyTorch profiler (Kineto), as the file has them; kineto.cpp makes
// calls of them, and comparison/kineto_join.h holds them against our own recording.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/format/vocabulary.h"
#include "trace/import/busy_kernels.h"
#include "trace/import/byte_stream.h"

namespace rollcall::trace {

// One event, as far as it concerns us.
struct KinetoRecord {
  bool is_call = false;    // record_param_comms
  bool is_kernel = false;  // of the GPU
  double ts_us = 0;
  double duration_us = 0;
  int64_t pid = 0;
  int64_t tid = 0;
  int64_t external = -1;
  int64_t correlation = -1;  // of a kernel: of the call of CUDA that launched it
  std::string collective;
  std::string dtype;
  std::string group;
  std::string group_name;  // for people
  std::string ranks;       // "[0, 1, 2]", cut behind thirty
  int64_t in_elements = -1;
  int64_t out_elements = -1;
  int64_t group_size = -1;
  int64_t rank = -1;
  int64_t seq = -1;
  int64_t stream = 0;
};

// A call of CUDA that launched a kernel.
struct KinetoLaunch {
  double ts_us = 0;
  int64_t tid = 0;
  int64_t correlation = -1;
};

struct KinetoTrace {
  int64_t base_ns = 0;  // since the epoch; times of events are relative to it
  int32_t rank = -1;    // of the job
  std::string host;     // empty: the file does not tell
  std::string nccl_version;
  std::vector<KinetoRecord> calls;     // in the order of their times
  std::vector<KinetoRecord> kernels;   // the same
  std::vector<KinetoLaunch> launches;  // of all kernels, also of others than NCCL's; the same
  BusyKernels busy;     // all kernels of the GPU; times as those of the events, in nanoseconds
  std::string trouble;  // why it was not read to its end; empty: it was
  uint64_t torn = 0;    // calls that lack what they are told by, or hold two
  double whole_us = 0;  // time of the last call in front of the first of these

  // Nanoseconds of the realtime clock; 0 unknown.
  int64_t at_ns(double us) const;
};

// Exact for whole microseconds since the epoch, too; -1 where it is no time.
int64_t ns_of_us(double us);

// Read as it comes: memory is that of its collectives, of which it takes so many calls and kernels
// at most, and of four times as many launches; a window of an hour has a tenth. All other kernels
// are laid together as they come (BusyKernels).
KinetoTrace read_kineto(ByteStream& stream, size_t records_max = 1u << 22);
// The calls of a file, which may be packed, without kernels. nullopt: it cannot be read, or is
// something else.
std::optional<KinetoTrace> read_kineto_file(const std::string& path);

// The elements that the NCCL call names, where they are the same on all ranks; else kCountUnknown.
uint64_t count_of(OpKind kind, const KinetoRecord& record);

// "node0_4000.1749999999000.pt.trace.json": the host, as PyTorch's own handler names its files.
std::string host_from_name(const std::string& path, int64_t pid);

}  // namespace rollcall::trace
