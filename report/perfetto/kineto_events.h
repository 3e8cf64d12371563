// The events of a trace of PyTorch's profiler, read as they come and kept by the row that they are
// drawn on.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/perfetto/kineto_trace.h"
#include "report/perfetto/lanes.h"
#include "report/perfetto/sequence.h"
#include "trace/import/json_events.h"

namespace rollcall::report::perfetto {

struct KinetoItem {
  uint64_t arguments = 0;  // where they begin in KinetoEvents::arguments
  uint32_t argument_bytes = 0;
  uint32_t name = 0;  // interned
  uint32_t category = 0;
};

// A thread of a process, or a stream of a GPU.
struct KinetoRow {
  uint32_t process = 0;
  std::string id;  // "tid" as the file has it
  std::string name;
  double order = 0;
  std::vector<Slice> slices;                          // of items
  std::vector<std::pair<int64_t, uint32_t>> moments;  // time, item
};

struct KinetoProcess {
  std::string id;
  std::string name;
  std::string labels;
  double order = 0;
};

// One end of an arrow.
struct KinetoArrow {
  uint32_t row = 0;
  int64_t time_ns = 0;
  uint64_t id = 0;  // of both ends
};

struct KinetoEvents {
  std::vector<KinetoProcess> processes;
  std::vector<KinetoRow> rows;
  std::vector<KinetoItem> items;
  std::vector<KinetoArrow> arrows;
  std::string arguments;  // of all items, as append_argument() leaves them
  Texts texts;
};

// Times are those of the file plus `offset_ns`.
KinetoEvents read_kineto_events(trace::ByteStream& stream, int64_t offset_ns,
                                const KinetoLimits& limits, KinetoLosses& losses);

}  // namespace rollcall::report::perfetto
