// The calls in a trace of the PyTorch profiler (Kineto) held against the same process's own
// recording: which `record_param_comms` made which NCCL call.
//
// Both number the calls of a group alike, but begin elsewhere: PyTorch's `Seq` (2.12 and later), or
// the position in the profiler's window, is the recording's number plus a constant. Of the
// constants that give calls of one kind, size and datatype, the one is taken that joins most
// records and moves the clock least: a record encloses its call, so each pair bounds what may be
// between the two clocks from both sides. Records of several calls, such as batches of sends and
// receives, and those whose numbers do not fit have the calls that the same thread made within
// them.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/import/kineto_records.h"
#include "trace/model.h"

namespace rollcall::comparison {

struct JoinedCall {
  uint32_t record = 0;  // index into KinetoTrace::calls
  uint64_t ticket = 0;  // of the call
  bool by_number = false;
};

struct KinetoJoin {
  std::vector<JoinedCall> calls;  // by record; a record may have several
  uint64_t records = 0;           // that stand for calls
  // Why records have no call, and how many: "older than the calls on file".
  std::map<std::string, uint64_t> left_out;
  // Added to Kineto's times they are those of the recording's clock, which may have been moved. The
  // calls prove it within so much; -1: nothing does.
  int64_t offset_ns = 0;
  int64_t bound_ns = -1;
};

// `process` has all of its calls.
KinetoJoin join_kineto(const trace::KinetoTrace& kineto, const trace::Process& process);

}  // namespace rollcall::comparison
