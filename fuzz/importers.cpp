// Any bytes as another recorder's file: read by the importer that they look like, or by the one
// that the last byte names.
#include <cstdint>
#include <span>
#include <vector>

#include "trace/import/importer.h"

namespace {

using rollcall::trace::ForeignFormat;
using rollcall::trace::Issue;
using rollcall::trace::Process;

void import_as(ForeignFormat format, std::span<const uint8_t> bytes,
               std::vector<Process>& processes, std::vector<Issue>& issues) {
  namespace trace = rollcall::trace;
  switch (format) {
    case ForeignFormat::flight_recorder_pickle:
      return trace::import_flight_recorder("fuzz_0", bytes, false, processes, issues);
    case ForeignFormat::flight_recorder_json:
      return trace::import_flight_recorder("fuzz_0", bytes, true, processes, issues);
    case ForeignFormat::nccl_log:
      return trace::import_nccl_log("fuzz.log", bytes, processes, issues);
    case ForeignFormat::inspector:
      return trace::import_inspector("fuzz.log", bytes, processes, issues);
    case ForeignFormat::ras_json:
      return trace::import_ras_json("fuzz.json", bytes, processes, issues);
    case ForeignFormat::ras_text:
      return trace::import_ras_text("fuzz.txt", bytes, processes, issues);
    case ForeignFormat::none:
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  ForeignFormat format = rollcall::trace::recognise(bytes);
  if (format == ForeignFormat::none && size > 0) {
    format = static_cast<ForeignFormat>(data[size - 1] % 7);
  }
  std::vector<Process> processes;
  std::vector<Issue> issues;
  import_as(format, bytes, processes, issues);
  // An operation names a communicator that its process has.
  for (const Process& process : processes) {
    for (const rollcall::trace::Op& op : process.ops) {
      if (op.comm >= process.comms.size()) __builtin_trap();
    }
  }
  // What gives nothing must say why, a log without a single line of NCCL aside.
  const bool is_quiet = format == ForeignFormat::none || format == ForeignFormat::nccl_log;
  if (!is_quiet && processes.empty() && issues.empty()) __builtin_trap();
  return 0;
}
