// Any bytes as a trace of PyTorch's profiler that is merged with a run's: its events written into
// the trace, its records joined with calls.
#include <cstdint>
#include <span>
#include <string>

#include "comparison/kineto_join.h"
#include "report/perfetto/kineto_trace.h"
#include "trace/import/kineto_records.h"

namespace {

using namespace rollcall;

// Few, so that the bound is met.
constexpr size_t kEventsMax = 50;

trace::Process some_calls() {
  trace::Process process;
  process.threads = {{1, ""}, {2, ""}};
  trace::Comm comm;
  comm.key = {1, 2};
  comm.nranks = 2;
  process.comms = {comm};
  for (uint64_t at = 0; at < 20; ++at) {
    trace::Op op;
    op.ticket = at + 1;
    op.seq = at / 2;
    op.kind = at % 2 == 0 ? OpKind::AllReduce : OpKind::Send;
    op.root_or_peer = at % 2 == 0 ? -1 : 1;
    op.count = 16;
    op.datatype = 7;
    op.thread = static_cast<uint32_t>(at % 2);
    op.called_ns = 1'000'000 + static_cast<int64_t>(at) * 1'000;
    op.returned_ns = op.called_ns + 500;
    process.ops.push_back(op);
  }
  return process;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  report::perfetto::KinetoTitle title;
  title.offset_ns = size % 2 == 0 ? 0 : INT64_MAX - 7;
  report::perfetto::TraceState state;
  report::perfetto::KinetoLosses losses;
  uint64_t written = 0;
  trace::MemoryStream stream(bytes);
  report::perfetto::write_kineto(stream, title, state,
                                 [&](const std::string& piece) {
                                   written += piece.size();
                                   return true;
                                 },
                                 losses, {.events = kEventsMax});
  if (state.slices > kEventsMax || written == 0) __builtin_trap();
  trace::MemoryStream again(bytes);
  const trace::KinetoTrace kineto = trace::read_kineto(again, kEventsMax);
  const comparison::KinetoJoin join = comparison::join_kineto(kineto, some_calls());
  uint64_t left_out = 0;
  for (const auto& [reason, count] : join.left_out) left_out += count;
  if (left_out > join.records || join.records > kineto.calls.size()) __builtin_trap();
  for (const comparison::JoinedCall& call : join.calls) {
    if (call.record >= kineto.calls.size()) __builtin_trap();
  }
  return 0;
}
