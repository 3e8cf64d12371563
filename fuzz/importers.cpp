// Any bytes as another recorder's file: read by the importer that they look like, or by the one
// that the last byte names.
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "trace/import/importer.h"

namespace {

using rollcall::trace::ForeignFormat;
using rollcall::trace::Issue;
using rollcall::trace::Process;

// Of those that are held whole; a text is what everything else is.
constexpr ForeignFormat kWhole[] = {ForeignFormat::flight_recorder_pickle,
                                    ForeignFormat::flight_recorder_json, ForeignFormat::inspector,
                                    ForeignFormat::ras_json};

void import_as(ForeignFormat format, std::span<const uint8_t> bytes,
               std::vector<Process>& processes, std::vector<Issue>& issues) {
  namespace trace = rollcall::trace;
  switch (format) {
    case ForeignFormat::flight_recorder_pickle:
      return trace::import_flight_recorder("fuzz_0", bytes, false, processes, issues);
    case ForeignFormat::flight_recorder_json:
      return trace::import_flight_recorder("fuzz_0", bytes, true, processes, issues);
    case ForeignFormat::inspector:
      return trace::import_inspector("fuzz.log", bytes, processes, issues);
    case ForeignFormat::ras_json:
      return trace::import_ras_json("fuzz.json", bytes, processes, issues);
    default:
      return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  std::vector<Process> processes;
  std::vector<Issue> issues;
  const rollcall::trace::ImportedFile file =
      rollcall::trace::import_bytes("fuzz_0", bytes, processes, issues);
  const bool is_nothing = !file.is_known && file.kind.format != ForeignFormat::text;
  if (is_nothing && size > 0) {
    import_as(kWhole[data[size - 1] % std::size(kWhole)], bytes, processes, issues);
    if (processes.empty() && issues.empty()) __builtin_trap();
  }
  // What gives nothing must say why.
  if (file.is_known && processes.empty() && issues.empty()) __builtin_trap();
  // An operation names a communicator that its process has.
  for (const Process& process : processes) {
    for (const rollcall::trace::Op& op : process.ops) {
      if (op.comm >= process.comms.size()) __builtin_trap();
    }
  }
  return 0;
}
