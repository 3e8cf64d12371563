#include "analysis/words/label.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/format/call_site.h"

namespace rollcall::analysis {

using trace::Op;
using trace::Process;

std::string rank_text(const Process& process) {
  if (process.job_rank >= 0) return fmt::format("rank {}", process.job_rank);
  if (process.pid != 0) return fmt::format("pid {} on {}", process.pid, process.host);
  return "the process of " + process.file.substr(process.file.find_last_of('/') + 1);
}

const char* death_text(bool is_live_job) {
  return is_live_job ? "is dead" : "died (or was stopped)";
}

std::string continue_text(const Process& process, std::string_view who) {
  return fmt::format("find out who stopped {}; `kill -CONT {}` continues it", who, process.pid);
}

std::string number_list(std::vector<int32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  constexpr size_t kSteppedMin = 5;
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    const int64_t step = i + 1 < numbers.size() ? int64_t{numbers[i + 1]} - numbers[i] : 1;
    size_t last = i;
    while (last + 1 < numbers.size() && int64_t{numbers[last + 1]} - numbers[last] == step) ++last;
    if (step != 1 && last - i + 1 < kSteppedMin) last = i;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", numbers[i]);
    if (last != i) text += fmt::format("-{}", numbers[last]);
    if (last != i && step != 1) text += fmt::format(" step {}", step);
    i = last + 1;
  }
  return text;
}

std::string processes_text(const trace::Run& run, std::vector<uint32_t> processes) {
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  std::vector<int32_t> ranks;
  std::vector<std::string> others;
  for (const uint32_t p : processes) {
    const Process& process = run.processes[p];
    if (process.job_rank >= 0) {
      ranks.push_back(process.job_rank);
    } else {
      others.push_back(rank_text(process));
    }
  }
  std::string text;
  if (!ranks.empty()) {
    text = fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", number_list(ranks));
  }
  constexpr size_t kNamedMax = 4;
  for (size_t i = 0; i < others.size() && i < kNamedMax; ++i) {
    text += (text.empty() ? "" : ", ") + others[i];
  }
  if (others.size() > kNamedMax) text += fmt::format(" and {} more", others.size() - kNamedMax);
  return text.empty() ? "nobody" : text;
}

std::string everyone_text(const Index& index) {
  const std::vector<uint32_t>& active = index.active();
  const auto processes = std::count_if(active.begin(), active.end(), [&](uint32_t p) {
    return index.run().processes[p].is_first_part;
  });
  const std::string text = fmt::format("{} processes", processes);
  const bool are_parts = static_cast<size_t>(processes) != active.size();
  return are_parts ? fmt::format("{} GPUs of {}", active.size(), text) : text;
}

std::string ranks_text(const Index& index, const Group& group) {
  std::vector<uint32_t> processes;
  processes.reserve(group.members.size());
  for (const Member& member : group.members) processes.push_back(member.process);
  return processes_text(index.run(), std::move(processes));
}

std::string datatype_text(uint8_t datatype) {
  if (datatype == kUnknown8) return "unknown type";
  const std::string_view name = name_of_datatype(datatype);
  return name.empty() ? fmt::format("dtype{}", datatype) : std::string(name);
}

std::string reduction_text(uint8_t reduction) {
  const std::string_view name = name_of_reduction(reduction);
  return name.empty() ? "unknown" : std::string(name);
}

uint64_t bytes_of(const Op& op) {
  return op.count == trace::kCountUnknown ? 0 : op.count * bytes_of_datatype(op.datatype);
}

namespace {

// " of 1024 float32": what is unknown is left out.
std::string amount_text(const Op& op, const char* joint) {
  const bool is_counted = op.count != trace::kCountUnknown;
  const bool is_typed = op.datatype != kUnknown8;
  if (!is_counted) return is_typed ? fmt::format("{}{}", joint, datatype_text(op.datatype)) : "";
  return fmt::format("{}{}{}{}", joint, op.count, is_typed ? " " : "",
                     is_typed ? datatype_text(op.datatype) : "");
}

}  // namespace

OpKind other_side_of(OpKind kind) {
  switch (kind) {
    case OpKind::Send:
      return OpKind::Recv;
    case OpKind::WaitSignal:
      return OpKind::Signal;
    default:
      return OpKind::Send;
  }
}

const char* other_side_text(OpKind kind) {
  switch (other_side_of(kind)) {
    case OpKind::Recv:
      return "receive";
    case OpKind::Signal:
      return "signal";
    default:
      return "send";
  }
}

std::string call_text(const Op& op) {
  const OpTraits& traits = traits_of(op.kind);
  if (is_mark(op.kind)) return std::string(traits.name);
  if (op.kind == OpKind::WaitSignal) {
    return fmt::format(
        "WaitSignal for {} signal{} {}", op.count, op.count == 1 ? "" : "s",
        op.root_or_peer < 0 ? "of several ranks" : fmt::format("from {}", op.root_or_peer));
  }
  if (op.kind == OpKind::Signal) return fmt::format("Signal to {}", op.root_or_peer);
  std::string text = std::string(traits.name) + amount_text(op, " of ");
  if (traits.reduces && op.reduction != kUnknown8)
    text += fmt::format(" ({})", reduction_text(op.reduction));
  if (traits.rooted && op.root_or_peer >= 0) text += fmt::format(", root {}", op.root_or_peer);
  if (op.kind == OpKind::Send || op.kind == OpKind::PutSignal) {
    text += fmt::format(" to {}", op.root_or_peer);
  }
  if (op.kind == OpKind::Recv) text += fmt::format(" from {}", op.root_or_peer);
  return text;
}

std::string call_text(const Index& index, uint32_t p, const Op& op) {
  std::string text = call_text(op);
  const bool names_one = traits_of(op.kind).rooted || is_p2p(op.kind) || is_rma(op.kind);
  const uint32_t g = index.seat(p, op.comm).group;
  if (!names_one || op.root_or_peer < 0 || g == kNone) return text;
  const uint32_t m = index.find_member(g, op.root_or_peer);
  if (m == kNone) return text;
  const int32_t rank = index.run().processes[index.groups()[g].members[m].process].job_rank;
  return rank < 0 || rank == op.root_or_peer ? text : fmt::format("{} (rank {})", text, rank);
}

std::string call_site_text(const Process& process, const Op& op) {
  if (op.frames == 0) return "";
  const auto found = process.meta.find(fmt::format("frame.{}", op.frames));
  if (found == process.meta.end()) return "";
  // Many jobs call through helpers of their own: the line alone would be the helper's.
  constexpr int kFramesShown = 3;
  size_t end = 0;
  for (int shown = 0; shown < kFramesShown && end != std::string::npos; ++shown) {
    end = found->second.find(kCallerSeparator, shown == 0 ? 0 : end + kCallerSeparator.size());
  }
  return ", called at " + found->second.substr(0, end);
}

std::string inside_text(const Index& index, uint32_t p, uint32_t i) {
  const Op& op = index.op(p, i);
  const char* early =
      op.returned_ns != 0 ? ", which came back in progress and was not launched," : "";
  return fmt::format("inside {}{}", call_text(index, p, op), early);
}

std::string short_call_text(const Op& op) {
  const OpTraits& traits = traits_of(op.kind);
  if (is_mark(op.kind)) return std::string(traits.name);
  std::string text = std::string(traits.name) + amount_text(op, " ");
  if (traits.reduces && op.reduction != kUnknown8) text += " " + reduction_text(op.reduction);
  if (traits.rooted && op.root_or_peer >= 0) text += fmt::format(" root {}", op.root_or_peer);
  if (is_p2p(op.kind) || is_rma(op.kind)) text += fmt::format(" peer {}", op.root_or_peer);
  return text;
}

std::string times_text(uint64_t times) {
  return fmt::format("{} time{}", times, times == 1 ? "" : "s");
}

std::string span_text(int64_t span_ns) {
  const double seconds = static_cast<double>(std::max<int64_t>(span_ns, 0)) / 1e9;
  if (seconds >= 7200) return fmt::format("{:.1f} h", seconds / 3600);
  if (seconds >= 120) return fmt::format("{:.1f} min", seconds / 60);
  if (seconds >= 1) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.0f} us", seconds * 1e6);
}

}  // namespace rollcall::analysis
