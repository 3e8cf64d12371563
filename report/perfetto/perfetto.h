// A run as a native Perfetto trace (.pftrace), for ui.perfetto.dev and trace_processor.
//
// The tracks are a tree in explicit order: ranks, of each what it does, its communicators, and
// below these the host's calls, the GPU's operations and their speed (rank_trace.h). A collective
// has one correlation id on all its ranks, by which viewers colour it; an arrow joins a send with
// its receive. Times are nanoseconds of the realtime clock. docs/VIEWS.md has the names.
//
// Written as it goes: memory is the run, and about 200 bytes per call of one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/model.h"

namespace rollcall::report {

namespace perfetto {
struct TraceState;
// Gets pieces of the trace in order; false from it stops.
using Sink = std::function<bool(const std::string&)>;
}  // namespace perfetto

// How another recorder calls a call of ours: PyTorch's profiler.
struct KinetoName {
  int64_t external = -1;  // "External id" of its record; -1: none
  int64_t seq = -1;
};

struct PerfettoOptions {
  // Indices of the processes to write; nothing: all that are not superseded.
  std::optional<std::vector<uint32_t>> processes = {};
  // By process: what is said of it behind its name, and in its help.
  std::map<uint32_t, std::string> remarks = {};
  std::map<uint32_t, std::string> details = {};
  // Of the run, as one sentence; empty: none. Drawn on the track of all ranks, from the oldest call
  // on that is not through.
  std::string verdict = {};
  // Gives a process with all of its calls, where those of the run are only some; nothing: the run
  // has all. Called once for each process that is written, in their order. May be empty.
  std::function<std::optional<trace::Process>(uint32_t)> read_whole = {};
  // Of a process with all of its calls: how PyTorch's profiler calls them, by ticket. May be empty.
  std::function<std::map<uint64_t, KinetoName>(uint32_t, const trace::Process&)> kineto_names = {};
  // Writes what else belongs below the rank's own track, whose number it gets, when the rank has
  // been written; and at the end, without a process, below the track of all ranks. False: the sink
  // wants no more. May be empty.
  std::function<bool(std::optional<uint32_t>, uint64_t, perfetto::TraceState&,
                     const perfetto::Sink&)>
      write_below = {};
  // Names of communicators that have none of their own, by key.
  std::map<std::pair<uint64_t, uint64_t>, std::string> comm_names = {};
};

// `write` gets pieces of the file in order; false from it stops. Returns the slices written.
uint64_t perfetto_trace(const trace::Run& run, const PerfettoOptions& options,
                        const perfetto::Sink& write);

}  // namespace rollcall::report
