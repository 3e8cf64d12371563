// A trace of PyTorch's profiler (Kineto) as packets of a Perfetto trace, for viewers that open one
// file and no archive of several.
//
//   PyTorch                 below the rank's own track, or any other
//     python 4711 (CPU)     a process of the file, which may be a GPU
//       thread 4711         its threads or streams
//
// Kept are slices ("X"), moments ("i"), arrows ("s", "t", "f") and names ("M"), with all arguments;
// PyTorch writes no others. An argument that is an array or an object becomes its text.
//
// Threads: plain functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "report/perfetto/rank_trace.h"
#include "trace/import/byte_stream.h"

namespace rollcall::report::perfetto {

struct KinetoTitle {
  uint64_t parent = 0;  // the track that it is below
  uint64_t order = 0;   // among those below it
  std::string name;
  std::string description;
  int64_t offset_ns = 0;  // added to the file's times, they are those of the trace
};

struct KinetoLosses {
  std::map<std::string, uint64_t> left_out;  // events: why, and how many
  uint64_t arguments = 0;                    // left out of events that are there
  std::string trouble;                       // why it was not read to its end; empty: it was
};

// What is taken of one file.
struct KinetoLimits {
  size_t events = 1u << 24;
  uint64_t text_bytes = 1ull << 31;  // of all texts, each once, and of arguments
};

inline constexpr size_t kKinetoArgumentsMax = 256;  // of one event; PyTorch writes some twenty

// Memory: about 250 bytes per event, and every text once. False: the sink wants no more.
bool write_kineto(trace::ByteStream& stream, const KinetoTitle& title, TraceState& state,
                  const Sink& sink, KinetoLosses& losses, const KinetoLimits& limits = {});

}  // namespace rollcall::report::perfetto
