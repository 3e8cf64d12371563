#include "analysis/words/label.h"

#include <fmt/format.h>

#include <algorithm>

namespace rollcall::analysis {

using trace::Op;

std::string everyone_text(const Index& index) {
  const std::vector<uint32_t>& active = index.active();
  const auto processes = std::count_if(active.begin(), active.end(), [&](uint32_t p) {
    return index.run().processes[p].is_first_part;
  });
  const std::string text = number_text(static_cast<uint64_t>(processes), "process", "processes");
  const bool are_parts = static_cast<size_t>(processes) != active.size();
  return are_parts ? fmt::format("{} GPUs of {}", active.size(), text) : text;
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

std::string inside_text(const Index& index, uint32_t p, uint32_t i) {
  const Op& op = index.op(p, i);
  const char* early =
      op.returned_ns != 0 ? ", which came back in progress and was not launched," : "";
  return fmt::format("inside {}{}", call_text(index, p, op), early);
}

std::string ranks_text(const Index& index, const Group& group) {
  return processes_text(index.run(), group.processes());
}

std::string comm_text(const Index& index, uint32_t p, const Op& op) {
  const Seat seat = index.seat(p, op.comm);
  return seat.group == kNone ? "a communicator of its own" : index.groups()[seat.group].name;
}

}  // namespace rollcall::analysis
