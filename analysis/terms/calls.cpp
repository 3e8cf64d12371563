#include "analysis/terms/calls.h"

#include <fmt/format.h>

#include "core/format/call_site.h"

namespace rollcall::analysis {

using trace::Op;
using trace::Process;

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

std::string innermost_line_text(const Process& process, const Op& op) {
  const auto found = process.meta.find(fmt::format("frame.{}", op.frames));
  if (op.frames == 0 || found == process.meta.end()) return "";
  const std::string line = found->second.substr(0, found->second.find(kCallerSeparator));
  return line.substr(line.rfind('/') + 1);
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

}  // namespace rollcall::analysis
