#include "analysis/words/replays.h"

#include <fmt/format.h>

#include "analysis/gpu/captured.h"
#include "analysis/words/label.h"

namespace rollcall::analysis {

using trace::Op;

std::string place_text(const Facts& facts, uint32_t p, const Op& op) {
  if (op.kind == OpKind::GraphLaunch) {
    const uint32_t first = first_captured(facts.process(p), op.graph);
    std::string replay = fmt::format("replay {} of a CUDA graph", op.seq + 1);
    if (first == kNoRecord) return replay;
    return fmt::format("{} that begins with {}", replay,
                       place_text(facts, p, facts.index.op(p, first)));
  }
  return fmt::format("{}, {} {} of {}", call_text(facts.index, p, op),
                     is_collective(op.kind) ? "seq" : "p2p seq", op.seq,
                     comm_text(facts.index, p, op));
}

std::string replay_text(const Facts& facts, uint32_t p, uint32_t number) {
  std::string text;
  for (const ReplayPlace& place : newest_replay(facts, p, number).places) {
    const Op& op = facts.index.op(p, place.ops.front());
    const Seat seat = facts.index.seat(p, op.comm);
    text += fmt::format(
        "{}{} {}{}{}", text.empty() ? "" : " and ",
        place.is_inside ? "is inside" : "has not come to",
        place.ops.size() > 1 ? fmt::format("{} operations, the first ", place.ops.size()) : "",
        call_text(facts.index, p, op),
        seat.group == kNone || is_p2p(op.kind)
            ? ""
            : fmt::format(", seq {} of {}", op.seq, facts.group(seat.group).name));
  }
  return text;
}

}  // namespace rollcall::analysis
