// What the page's script draws: one JSON document, schema rollcall.page/1, columns rather than
// rows.
//
//   diff    the document of `rollcall diff --json`, for programs
//   states  of cells: [letter, name, glyph, words] each
//   ranks   who is who, a column each, by process: `label` (the job's rank, or a number behind
//   them),
//           `host` and `liveness` (indices into `hosts`, `livenesses`), `pid`
//   rolls   a communicator each, the one to look at first in front:
//     name, key, nranks   as in `diff`
//     positions           how many it has; `stretches`: the columns, [first seq, how many] each
//     calls               [call, line of the script] each; what follows are indices into it
//     usual               by column: what most ranks called; -1: nobody's call is on file
//     rows                columns, one entry a row:
//       ranks    "0-2,4-7": labels; of ranks without a file the ranks of the communicator
//       process  of the first of them: index into `ranks`; -1: no file
//       count    how many ranks
//       states   run-length: a letter, and how many unless it is one: "f1999sr"
//       others   [column, call, column, call, ...] where it is not the usual one
//       culprit  1 or 0
//       says     what the table of ranks says of it: "waits inside for 42.0 s"; "": nothing
//     seq       of the first difference; null: none, or none of the columns
//   rolls_left_out   communicators whose roll is not here, for the page's size
//
// Names are printable and cut. Bytes are the same for the same run and report.
#pragma once

#include <cstdint>
#include <string>

#include "analysis/finding.h"
#include "analysis/record/index.h"
#include "trace/model.h"

namespace rollcall::report {

// All rolls together, about; the first is there whatever its size.
inline constexpr size_t kRollBytesMax = size_t{1} << 19;

struct PageData {
  std::string json;
  uint64_t rolls = 0;
  uint64_t rolls_left_out = 0;
};

// `index` is of the run whose ranks the report numbers; `run` is the whole one.
PageData page_data(const trace::Run& run, const analysis::Index& index,
                   const analysis::Report& report);

}  // namespace rollcall::report
