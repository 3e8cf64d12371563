// A line of one rank in which a line of another begins: both wrote at the same time, as in
//
//     [rank2]:[E816 ...] [Rank 2] Watchdog caught coll[rank1]:[E816 ...] [Rank 1] Watchdog caught
#pragma once

#include <optional>

#include "trace/import/line_parser.h"

namespace rollcall::trace {

// Both parts have the number of the line. Their texts point into it.
struct TornLine {
  TextLine front;
  TextLine behind;  // which may be torn, too
};

// nullopt: the line is of one rank, or no prefix tells of which. Only PyTorch's "[rank1]:[" begins
// another: text that a rank prints may name ranks in any other way.
std::optional<TornLine> line_within(const TextLine& line);

}  // namespace rollcall::trace
