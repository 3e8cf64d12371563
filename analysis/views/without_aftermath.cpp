#include "analysis/views/without_aftermath.h"

#include <algorithm>

namespace rollcall::analysis {
namespace {

using trace::Comm;
using trace::Event;
using trace::Op;
using trace::Process;

constexpr int64_t kAftermathNs = 1'000'000'000;
// Between two calls of a rank that nobody had to free lies less, as a rule.
constexpr int64_t kStoodNs = 1'000'000'000;

// 0: it aborted nothing, did not stand before, or went on with its work afterwards.
int64_t aftermath_begin_ns(const Process& process) {
  int64_t begin_ns = 0;
  for (const Event& event : process.events) {
    if (event.kind != EventKind::CommAbort) continue;
    if (begin_ns == 0 || event.called_ns < begin_ns) begin_ns = event.called_ns;
  }
  if (begin_ns == 0) return 0;
  const bool made_another =
      std::any_of(process.comms.begin(), process.comms.end(),
                  [&](const Comm& comm) { return comm.created_ns > begin_ns; });
  const bool was_busy = std::any_of(process.ops.begin(), process.ops.end(), [&](const Op& op) {
    const bool just_before = op.called_ns <= begin_ns && op.called_ns > begin_ns - kStoodNs;
    return just_before || op.called_ns > begin_ns + kAftermathNs;
  });
  return made_another || was_busy ? 0 : begin_ns;
}

bool is_behind(const Op& op, int64_t begin_ns) { return begin_ns != 0 && op.called_ns > begin_ns; }

void uncount(Comm& comm, const Op& op) {
  uint64_t* counter = nullptr;
  if (is_collective(op.kind)) counter = &comm.collectives;
  if (op.kind == OpKind::Send) counter = &comm.sends;
  if (op.kind == OpKind::Recv) counter = &comm.recvs;
  if (counter != nullptr && *counter > 0) --*counter;
}

}  // namespace

void erase_calls_behind(Process& process, int64_t at_ns) {
  for (const Op& op : process.ops) {
    if (op.called_ns > at_ns && op.comm < process.comms.size()) uncount(process.comms[op.comm], op);
  }
  std::erase_if(process.ops, [&](const Op& op) { return op.called_ns > at_ns; });
}

std::optional<trace::Run> without_aftermath(const trace::Run& run) {
  const auto has_aftermath = [](const Process& process) {
    const int64_t begin_ns = aftermath_begin_ns(process);
    return std::any_of(process.ops.begin(), process.ops.end(),
                       [&](const Op& op) { return is_behind(op, begin_ns); });
  };
  if (std::none_of(run.processes.begin(), run.processes.end(), has_aftermath)) return std::nullopt;
  trace::Run cut = run;
  for (Process& process : cut.processes) {
    const int64_t begin_ns = aftermath_begin_ns(process);
    if (begin_ns != 0) erase_calls_behind(process, begin_ns);
  }
  return cut;
}

}  // namespace rollcall::analysis
