#include "analysis/words/doing.h"

#include <fmt/format.h>

#include <fstream>

#include "analysis/words/label.h"

namespace rollcall::analysis {

using trace::Liveness;
using trace::Op;
using trace::Process;

std::string doing_text(const Index& index, const JobState& job, uint32_t p) {
  const Process& process = index.run().processes[p];
  const ProcessState& state = job.processes[p];
  std::string text;
  if (state.last_op == kNoRecord) {
    text = job.is_foreign ? "no operation of it is on file"
                          : "it has called no collective, send or receive";
  } else if (process.recorder.starts_with("ncclras")) {
    // Which of them was the last RAS does not know.
    const Op& op = process.ops[state.last_op];
    text = fmt::format("RAS counted {} {} of it on {}", op.seq + 1, op.seq == 0 ? "call" : "calls",
                       comm_text(index, p, op));
  } else {
    const Op& op = process.ops[state.last_op];
    text =
        fmt::format("its last call was {} on {}", call_text(index, p, op), comm_text(index, p, op));
    text += call_site_text(process, op);
    if (!job.is_foreign) {
      text += fmt::format(", {} before {}", span_text(job.end_ns - op.called_ns),
                          job.live ? "now" : "the end");
    }
  }
  if (state.inside_event != kNoRecord) {
    text += fmt::format("; it is inside {}",
                        rollcall::name_of(process.events[state.inside_event].kind));
  } else if (state.inside_op != kNoRecord) {
    text += "; it is still inside that call";
  }
  if (!process.liveness_evidence.empty()) text += "; " + process.liveness_evidence;
  return text;
}

// Only of a process that ran on this machine: the same path may be another job's on the next.
std::string stack_tools_text(const Process& process) {
  return fmt::format("`rollcall stacks DIR`, or `gdb -p {}` there", process.pid);
}

std::string oom_text(const Process& process) {
  if (process.liveness != Liveness::dead) return {};
  const auto cgroup = process.meta.find("cgroup");
  const auto before = process.meta.find("oom_kills_at_start");
  if (cgroup == process.meta.end() || before == process.meta.end()) return {};
  if (cgroup->second.find("..") != std::string::npos) return {};
  std::ifstream file("/sys/fs/cgroup" + cgroup->second + "/memory.events");
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) {
    if (key != "oom_kill") continue;
    const std::string now = std::to_string(value);
    if (now == before->second) return "no process of its cgroup was killed for memory";
    return fmt::format("the out-of-memory killer's counter of its cgroup went from {} to {}",
                       before->second, now);
  }
  return {};
}

}  // namespace rollcall::analysis
